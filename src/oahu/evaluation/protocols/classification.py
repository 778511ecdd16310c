"""Image classification, Section 4.3 of the paper: half of the items to learn from, k-NN error on the other half."""

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
from oahu.evaluation.scores import error_rate, macro_f1
from oahu.exceptions import InvalidInputError
from oahu.tasks import Classifier

__all__ = ["Classification", "halves"]

Rows = NDArray[np.intp]


def halves(dataset: Dataset, seed: int, run: int) -> tuple[Rows, Rows]:
    """The development half and the test half of a run: shuffled, then split 1:1."""
    order = generator_for(seed, dataset.name, "split", run).permutation(len(dataset))
    return order[: len(order) // 2], order[len(order) // 2 :]


class Classification(Protocol):
    """Shuffle, split 1:1, learn from constraints, classify the test half by k-NN among the development half."""

    name = "classification"
    score = "error_rate"
    defaults: ClassVar[Mapping[str, Any]] = {"n_constraints": 10_000, "n_seeds": 5_000, "k": 5, "queries": None}

    def check(self, dataset: Dataset) -> None:
        if len(dataset) < 4 or dataset.n_classes < 2:
            raise InvalidInputError(
                f"Classification needs items of at least two classes. {dataset.name} has {len(dataset)} items of "
                f"{dataset.n_classes} class(es)."
            )

    def measure(self, cell: Cell, dataset: Dataset, method: Method, draws: Draws) -> Outcome:
        seed, queries = cell.settings["seed"], cell.settings["queries"]
        development, test = halves(dataset, seed, cell.run)
        words = (seed, dataset.name, "run", cell.run)
        return self._measured(cell, dataset, method, draws, (development, test[:queries]), words)

    def validate(self, cell: Cell, dataset: Dataset, method: Method, draws: Draws) -> Outcome:
        """One fold of cross-validation on the development half of the first run, or on some of its items."""
        seed, n_folds = cell.settings["seed"], cell.settings["folds"]
        development, _ = halves(dataset, seed, 0)
        parts = np.array_split(development[: cell.settings["tune_items"]], n_folds)
        held_out = parts.pop(cell.run)
        words = (seed, dataset.name, "fold", cell.run)
        return self._measured(cell, dataset, method, draws, (np.concatenate(parts), held_out), words)

    def _measured(
        self,
        cell: Cell,
        dataset: Dataset,
        method: Method,
        draws: Draws,
        rows: tuple[Rows, Rows],
        words: tuple[Any, ...],
    ) -> Outcome:
        clock, settings = Clock(), cell.settings
        gallery, queries = rows
        with clock("inputs"):
            scaled = fit_inputs(dataset.X[gallery], settings["scaling"], settings["pca"])
            items, labels = scaled(dataset.X[gallery]), dataset.y[gallery]
        learned = learn(method, settings, items, labels, words, draws, clock)
        with clock("evaluation"):
            classifier = Classifier(learned.metric, settings["k"], vote="experts").fit(items, labels)
            predicted = classifier.predict(scaled(dataset.X[queries]))
        truth = dataset.y[queries]
        scores = {"error_rate": error_rate(truth, predicted), "macro_f1": macro_f1(truth, predicted)}
        return outcome(cell, learned, clock, scores)


class Constraints(Classification):
    """Error against the number of constraints: a uniform sample of those that classification learns from."""

    name = "constraints"
    tuned_as = "classification"
    counts: Final = tuple(range(1_000, 10_001, 1_000))

    def cells(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> list[Cell]:
        if method.feed == "labels":  # it decides itself how many constraints there are
            return []
        total = settings["n_constraints"]
        counts = (total,) if method.feed == "nothing" else [total * count // 10_000 for count in self.counts]
        return [
            Cell(self.name, dataset.name, method.name, run, {**settings, "n_constraints": count, "of": total})
            for run in range(runs)
            for count in counts
        ]
