"""Face verification, Section 4.4 of the paper: are these two the same?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import sample_pairs
from oahu.evaluation.cells import Cell, Outcome
from oahu.evaluation.datasets.dataset import Dataset, Fold, Views
from oahu.evaluation.protocols.draws import Draws, generator_for
from oahu.evaluation.protocols.learning import Clock, Learned, learn
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.protocols.protocol import Protocol, outcome
from oahu.evaluation.protocols.scaling import fit_inputs
from oahu.exceptions import InvalidInputError
from oahu.tasks import Comparator, Roc

__all__ = ["Verification", "views_of"]

_FOLDS: Final = 10
_PAIRS: Final = 600  # in a fold that is drawn, at most
_DRAWN: Final = 201  # points of a ROC curve
_SHOWN: Final = 4  # right and wrong answers that are kept as examples, of each kind


class Verification(Protocol):
    """LFW's image-unrestricted setting: View 1 to tune with, the ten folds of View 2 for the result.

    Constraints are drawn from the names of all images, and again where one contains a pair of either view. With
    ``people`` "disjoint" no image of a person in the tested fold is learned from, which is stricter than the paper.
    """

    name = "verification"
    score = "auc"
    higher = True
    runs = 10
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {**Protocol.choices, "people": ("shared", "disjoint")}
    defaults: ClassVar[Mapping[str, Any]] = {"n_constraints": 10_000, "n_seeds": 5_000, "people": "shared"}

    def check(self, dataset: Dataset) -> None:
        try:
            n_folds = len(views_of(dataset).folds)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"Verification needs pairs to verify, as lfw has them, or enough labelled items to draw them from. "
                f"{dataset.name} has {len(dataset)} items of {dataset.n_classes} class(es): {error}"
            ) from error
        if n_folds < 2:
            raise InvalidInputError(
                f"Verification needs at least two folds of pairs. {dataset.name} has {n_folds}."
            )

    def cells(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> Sequence[Cell]:
        """One for each fold, as far as there are folds."""
        return super().cells(dataset, method, min(runs, len(views_of(dataset).folds)), settings)

    def measure(self, cell: Cell, dataset: Dataset, method: Method, draws: Draws) -> Outcome:
        views = views_of(dataset)
        clock, tested = Clock(), views.folds[cell.run]
        others = _joined(views.folds[: cell.run] + views.folds[cell.run + 1 :])
        kept = np.arange(len(dataset))
        if cell.settings["people"] == "disjoint":
            kept = np.flatnonzero(~np.isin(dataset.y, np.unique(dataset.y[tested.pairs])))
            if len(np.unique(dataset.y[kept])) < 2:
                raise InvalidInputError(
                    f"Every class of {dataset.name} is in fold {cell.run}: nothing is left to learn from."
                )
        learned, items = self._learned(cell, dataset, method, draws, clock, kept)
        with clock("evaluation"):
            comparator = Comparator(learned.metric, preprocessor=items)
            roc = comparator.roc(tested.pairs, tested.same)
            comparator.calibrate(others.pairs, others.same, target="accuracy")
            found = comparator.compare_all(tested.pairs)
        right = (found.answers == "yes") == tested.same
        scores = {"auc": roc.auc, "eer": roc.eer, "accuracy": float(right.mean())}
        diameter = learned.metric.diameter
        middle = -comparator.yes_below_ if diameter is None else 1 - comparator.yes_below_
        examples = _examples(dataset, tested, right, found.vote_shares, np.abs(found.scores - middle))
        measured = outcome(cell, learned, clock, scores, roc=_curve(roc), examples=examples)
        return replace(measured, facts={**measured.facts, "n_missing": tested.n_missing})

    def validate(self, cell: Cell, dataset: Dataset, method: Method, draws: Draws) -> Outcome:
        """AUC on the pairs of View 1; its run tells one draw of constraints from another."""
        clock, development = Clock(), _joined(views_of(dataset).development)
        learned, items = self._learned(cell, dataset, method, draws, clock, np.arange(len(dataset)))
        with clock("evaluation"):
            auc = Comparator(learned.metric, preprocessor=items).auc(development.pairs, development.same)
        return outcome(cell, learned, clock, {"auc": auc})

    def _learned(
        self, cell: Cell, dataset: Dataset, method: Method, draws: Draws, clock: Clock, kept: NDArray[np.intp]
    ) -> tuple[Learned, NDArray[np.float32]]:
        """What is learned from the images that are kept, and all images in the form that it was learned from."""
        settings = cell.settings
        with clock("inputs"):
            scaled = fit_inputs(dataset.X[kept], settings["scaling"], settings["pca"])
            items = scaled(dataset.X)
        words = (settings["seed"], dataset.name, cell.stage, cell.run)
        exclude = _among(views_of(dataset).pairs, kept, len(dataset))
        learned = learn(method, settings, items[kept], dataset.y[kept], words, draws, clock, exclude)
        return learned, items


def views_of(dataset: Dataset) -> Views:
    """The official pairs; or, where there are none, pairs drawn from the labels of twelve parts of the items."""
    if dataset.views is not None:
        return dataset.views
    rng = generator_for(0, dataset.name, "views")
    parts = np.array_split(rng.permutation(len(dataset)), 2 + _FOLDS)
    first, second, *folds = [_drawn(dataset, part, rng) for part in parts]
    return Views((first, second), tuple(folds))


def _drawn(dataset: Dataset, part: NDArray[np.intp], rng: np.random.Generator) -> Fold:
    pairs, same = sample_pairs(dataset.y[part], min(_PAIRS, 4 * len(part)), rng)
    return Fold(part[pairs], same > 0)


def _joined(folds: Any) -> Fold:
    return Fold(np.concatenate([fold.pairs for fold in folds]), np.concatenate([fold.same for fold in folds]))


def _among(pairs: NDArray[np.intp], kept: NDArray[np.intp], n_items: int) -> NDArray[np.intp]:
    """Those pairs of which both items are kept, by their places among the kept ones."""
    places = np.full(n_items, -1)
    places[kept] = np.arange(len(kept))
    moved = places[pairs]
    return np.asarray(moved[(moved >= 0).all(axis=1)])


def _curve(roc: Roc) -> dict[str, list[float]]:
    """The curve at evenly spaced false accept rates, and at its ends."""
    far = np.linspace(0, 1, _DRAWN)
    order = np.argsort(roc.far, kind="stable")
    return {"far": far.round(4).tolist(), "tar": np.interp(far, roc.far[order], roc.tar[order]).round(5).tolist()}


def _examples(dataset: Dataset, fold: Fold, right: Any, vote_shares: Any, margins: Any) -> dict[str, Any]:
    """The right and the wrong answers that were given most surely, by the items' keys or rows."""
    sure = np.argsort(-margins, kind="stable")
    names = (fold.pairs if dataset.keys is None else dataset.keys[fold.pairs]).tolist()
    shown: dict[str, Any] = {"right": [], "wrong": []}
    for kind, wanted in (("right", True), ("wrong", False)):
        for same in (True, False):
            chosen = [i for i in sure if right[i] == wanted and fold.same[i] == same][:_SHOWN]
            shown[kind] += [
                {"a": names[i][0], "b": names[i][1], "same": same, "vote_share": float(vote_shares[i])}
                for i in chosen
            ]
    return shown
