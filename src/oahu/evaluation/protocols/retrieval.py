"""Image retrieval, Section 4.5 of the paper: is one of the K items found of the query's class?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.cells import Cell, Outcome
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.draws import Draws, generator_for
from oahu.evaluation.protocols.learning import Clock, learn
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.protocols.protocol import Protocol, outcome
from oahu.evaluation.protocols.scaling import fit_inputs
from oahu.evaluation.scores import recall_at_k
from oahu.exceptions import InvalidInputError
from oahu.tasks import Retriever

__all__ = ["DEPTHS", "Retrieval", "class_halves"]

Rows = NDArray[np.intp]

#: The K of Recall@K.
DEPTHS: Final = (1, 2, 4, 8, 16, 32)

_SHOWN: Final = 4  # queries that are kept as examples, right and wrong
_BESIDE: Final = 3  # what was found for each


def class_halves(dataset: Dataset, seed: int, run: int) -> tuple[Rows, Rows]:
    """The development items and the test items: the official split if it is about 1:1, or half of every class."""
    if dataset.is_train is not None and 0.45 <= dataset.is_train.mean() <= 0.55:
        return np.flatnonzero(dataset.is_train), np.flatnonzero(~dataset.is_train)
    rng = generator_for(seed, dataset.name, "class halves", run)
    order = rng.permutation(len(dataset))
    order = order[np.argsort(dataset.y[order], kind="stable")]
    _, starts, counts = np.unique(dataset.y[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(starts, counts)
    first = place < np.repeat(counts // 2, counts)
    return order[first], order[~first]


class Retrieval(Protocol):
    """Every test item is a query among all other test items."""

    name = "retrieval"
    score = "recall@1"
    higher = True
    runs = 1
    defaults: ClassVar[Mapping[str, Any]] = {"n_constraints": 50_000, "n_seeds": 25_000, "queries": None}

    def check(self, dataset: Dataset) -> None:
        largest = np.unique(dataset.y, return_counts=True)[1].max(initial=0)
        if len(dataset) < 2 * (DEPTHS[-1] + 1) or largest < 4:
            raise InvalidInputError(
                f"Retrieval needs more than {2 * DEPTHS[-1]} items, and classes of several. {dataset.name} has "
                f"{len(dataset)} items, at most {largest} of a class."
            )

    def measure(self, cell: Cell, dataset: Dataset, method: Method, draws: Draws) -> Outcome:
        seed = cell.settings["seed"]
        development, test = class_halves(dataset, seed, cell.run)
        words = (seed, dataset.name, "retrieval", cell.run)
        return self._measured(cell, dataset, method, draws, development, test, words)

    def validate(self, cell: Cell, dataset: Dataset, method: Method, draws: Draws) -> Outcome:
        """One fold of cross-validation on the development items of the first run."""
        seed, n_folds = cell.settings["seed"], cell.settings["folds"]
        development, _ = class_halves(dataset, seed, 0)
        order = generator_for(seed, dataset.name, "folds").permutation(len(development))
        parts = np.array_split(development[order[: cell.settings["tune_items"]]], n_folds)
        held_out = parts.pop(cell.run)
        words = (seed, dataset.name, "retrieval fold", cell.run)
        return self._measured(cell, dataset, method, draws, np.concatenate(parts), held_out, words)

    def _measured(
        self,
        cell: Cell,
        dataset: Dataset,
        method: Method,
        draws: Draws,
        development: Rows,
        test: Rows,
        words: tuple[Any, ...],
    ) -> Outcome:
        clock, settings = Clock(), cell.settings
        with clock("inputs"):
            scaled = fit_inputs(dataset.X[development], settings["scaling"], settings["pca"])
            items, labels = scaled(dataset.X[development]), dataset.y[development]
        learned = learn(method, settings, items, labels, words, draws, clock)
        with clock("evaluation"):
            gallery = scaled(dataset.X[test])
            retriever = Retriever(learned.metric, vote="experts").add(range(len(test)), gallery)
            asked = generator_for(*words, "queries").permutation(len(test))[: settings["queries"]]
            depth = min(DEPTHS[-1], len(test) - 1)
            found = np.array(retriever.search_batch(gallery[asked], depth, exclude=asked.tolist()).keys)
        truth, retrieved = dataset.y[test[asked]], dataset.y[test[found]]
        recall = recall_at_k(truth, retrieved, [k for k in DEPTHS if k <= depth])
        scores = {f"recall@{k}": value for k, value in recall.items()}
        examples = _examples(test[asked], test[found], truth, retrieved)
        return outcome(cell, learned, clock, scores, examples=examples)


def _examples(queries: Rows, found: Rows, truth: Any, retrieved: Any) -> dict[str, Any]:
    """Queries whose first answer is right, and wrong: rows of the data set."""
    right = retrieved[:, 0] == truth
    return {
        kind: [
            {"query": int(queries[i]), "found": found[i, :_BESIDE].tolist()}
            for i in np.flatnonzero(right == wanted)[:_SHOWN]
        ]
        for kind, wanted in (("right", True), ("wrong", False))
    }
