"""Classification protocol (Section 4.3 of the paper): train on half of the items, classify the other half."""

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
from oahu.evaluation.scores import error_rate, macro_f1
from oahu.evaluation.trials import Outcome, Trial
from oahu.exceptions import InvalidInputError
from oahu.tasks import Classifier

__all__ = ["ClassificationProtocol", "ConstraintCountProtocol", "split_halves"]

Rows = NDArray[np.intp]


def split_halves(dataset: Dataset, seed: int, run: int) -> tuple[Rows, Rows]:
    """Return the row numbers of the development half and of the test half. Each run has its own random split."""
    order = generator_for(seed, dataset.name, "split", run).permutation(len(dataset))
    return order[: len(order) // 2], order[len(order) // 2 :]


class ClassificationProtocol(EvaluationProtocol):
    """Train on a random half of the items. Classify the other half by k-NN search in the training half."""

    name = "classification"
    score = "error_rate"
    defaults: ClassVar[Mapping[str, Any]] = {"n_constraints": 10_000, "n_seeds": 5_000, "k": 5, "queries": None}

    def check_dataset(self, dataset: Dataset) -> None:
        if len(dataset) < 4 or dataset.n_classes < 2:
            raise InvalidInputError(
                f"Classification needs at least four items and two classes. {dataset.name} has {len(dataset)} "
                f"items and {dataset.n_classes} class(es)."
            )

    def measure(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        seed, queries = trial.settings["seed"], trial.settings["queries"]
        development, test = split_halves(dataset, seed, trial.run)
        seed_words = (seed, dataset.name, "run", trial.run)
        return self._measure(trial, dataset, method, cache, (development, test[:queries]), seed_words)

    def validate(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        """Measure one fold of a cross-validation. It uses only development items of the first run."""
        seed, n_folds = trial.settings["seed"], trial.settings["folds"]
        development, _ = split_halves(dataset, seed, 0)
        folds = np.array_split(development[: trial.settings["tune_items"]], n_folds)
        held_out = folds.pop(trial.run)
        seed_words = (seed, dataset.name, "fold", trial.run)
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
        training, queries = rows
        with stopwatch("inputs"):
            transform = fit_scaling(dataset.X[training], settings["scaling"], settings["pca"])
            items, labels = transform(dataset.X[training]), dataset.y[training]
        trained = train_method(method, settings, items, labels, seed_words, cache, stopwatch)
        with stopwatch("evaluation"):
            classifier = Classifier(trained.metric, settings["k"], vote="experts").fit(items, labels)
            predicted = classifier.predict(transform(dataset.X[queries]))
        truth = dataset.y[queries]
        scores = {"error_rate": error_rate(truth, predicted), "macro_f1": macro_f1(truth, predicted)}
        return outcome_of(trial, trained, stopwatch, scores)


class ConstraintCountProtocol(ClassificationProtocol):
    """Measure the classification error after training on different numbers of constraints.

    The largest set of constraints is drawn first. Smaller sets are random samples of the largest set.
    """

    name = "constraints"
    tuned_as = "classification"
    counts: Final = tuple(range(1_000, 10_001, 1_000))

    def trials(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> list[Trial]:
        if method.learns_from == "labels":  # the learner forms the constraints, so their number is not a setting
            return []
        total = settings["n_constraints"]
        learns = method.learns_from != "nothing"
        counts = [total * count // 10_000 for count in self.counts] if learns else [total]
        return [
            Trial(self.name, dataset.name, method.name, run, {**settings, "n_constraints": count, "of": total})
            for run in range(runs)
            for count in counts
        ]
