"""Retrieval protocol (Section 4.5 of the paper): Recall@K with the test items as queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.base_protocol import EvaluationProtocol, outcome_of
from oahu.evaluation.protocols.constraint_streams import ConstraintCache, generator_for
from oahu.evaluation.protocols.method_training import Stopwatch, train_method
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.protocols.scaling import fit_scaling
from oahu.evaluation.scores import recall_at_k
from oahu.evaluation.trials import Outcome, Trial
from oahu.exceptions import InvalidInputError
from oahu.tasks import Retriever

__all__ = ["DEPTHS", "RetrievalProtocol", "split_classes"]

Rows = NDArray[np.intp]

#: The values of K in Recall@K.
DEPTHS: Final = (1, 2, 4, 8, 16, 32)

_N_EXAMPLES: Final = 4  # stored example queries with a correct first match, and as many with a wrong one
_N_MATCHES: Final = 3  # stored matches per example


def split_classes(dataset: Dataset, seed: int, run: int) -> tuple[Rows, Rows]:
    """Return the row numbers of the development items and of the test items.

    If the data set has an official split with two parts of about the same size, this split is used. For other data
    sets, each class is split into two random halves.
    """
    if dataset.is_train is not None and 0.45 <= dataset.is_train.mean() <= 0.55:
        return np.flatnonzero(dataset.is_train), np.flatnonzero(~dataset.is_train)
    rng = generator_for(seed, dataset.name, "class halves", run)
    order = rng.permutation(len(dataset))
    order = order[np.argsort(dataset.y[order], kind="stable")]
    _, starts, counts = np.unique(dataset.y[order], return_index=True, return_counts=True)
    position = np.arange(len(order)) - np.repeat(starts, counts)
    first = position < np.repeat(counts // 2, counts)
    return order[first], order[~first]


class RetrievalProtocol(EvaluationProtocol):
    """Learn from the development items. Use each test item as a query, and search the other test items."""

    name = "retrieval"
    score = "recall@1"
    higher_is_better = True
    runs = 1
    defaults: ClassVar[Mapping[str, Any]] = {"n_constraints": 50_000, "n_seeds": 25_000, "queries": None}

    def check_dataset(self, dataset: Dataset) -> None:
        largest = np.unique(dataset.y, return_counts=True)[1].max(initial=0)
        if len(dataset) < 2 * (DEPTHS[-1] + 1) or largest < 4:
            raise InvalidInputError(
                f"Retrieval needs at least {2 * (DEPTHS[-1] + 1)} items, and a class of at least four items. "
                f"{dataset.name} has {len(dataset)} items, and its largest class has {largest} items."
            )

    def measure(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        seed = trial.settings["seed"]
        rows = split_classes(dataset, seed, trial.run)
        return self._measure(trial, dataset, method, cache, rows, (seed, dataset.name, "retrieval", trial.run))

    def validate(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        """Measure one fold of a cross-validation on the development items of the first run."""
        seed, n_folds = trial.settings["seed"], trial.settings["folds"]
        development, _ = split_classes(dataset, seed, 0)
        order = generator_for(seed, dataset.name, "folds").permutation(len(development))
        folds = np.array_split(development[order[: trial.settings["tune_items"]]], n_folds)
        held_out = folds.pop(trial.run)
        seed_words = (seed, dataset.name, "retrieval fold", trial.run)
        return self._measure(trial, dataset, method, cache, (np.concatenate(folds), held_out), seed_words)

    def _measure(
        self,
        trial: Trial,
        dataset: Dataset,
        method: Method,
        cache: ConstraintCache,
        rows: tuple[Rows, Rows],
        seed_words: tuple[Any, ...],
    ) -> Outcome:
        stopwatch, settings = Stopwatch(), trial.settings
        development, test = rows
        with stopwatch("inputs"):
            transform = fit_scaling(dataset.X[development], settings["scaling"], settings["pca"])
            items, labels = transform(dataset.X[development]), dataset.y[development]
        trained = train_method(method, settings, items, labels, seed_words, cache, stopwatch)
        with stopwatch("evaluation"):
            test_items = transform(dataset.X[test])
            retriever = Retriever(trained.metric, vote="experts").add(range(len(test)), test_items)
            queries = generator_for(*seed_words, "queries").permutation(len(test))[: settings["queries"]]
            depth = min(DEPTHS[-1], len(test) - 1)
            ranking = retriever.search_batch(test_items[queries], depth, exclude=queries.tolist())
            matches = np.array(ranking.keys)
        truth, retrieved = dataset.y[test[queries]], dataset.y[test[matches]]
        recall = recall_at_k(truth, retrieved, [k for k in DEPTHS if k <= depth])
        scores = {f"recall@{k}": value for k, value in recall.items()}
        examples = _examples(test[queries], test[matches], truth, retrieved)
        return outcome_of(trial, trained, stopwatch, scores, examples=examples)


def _examples(queries: Rows, matches: Rows, truth: Any, retrieved: Any) -> dict[str, Any]:
    """Return examples of queries with a right first match, and of queries with a wrong first match.

    Queries and matches are given by row number.
    """
    is_right = retrieved[:, 0] == truth
    return {
        kind: [
            {"query": int(queries[i]), "found": matches[i, :_N_MATCHES].tolist()}
            for i in np.flatnonzero(is_right == wanted)[:_N_EXAMPLES]
        ]
        for kind, wanted in (("right", True), ("wrong", False))
    }
