"""Verification protocol (Section 4.4 of the paper): decide whether two images show the same person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import sample_pairs
from oahu.evaluation.datasets.dataset import Dataset, Fold, Views
from oahu.evaluation.protocols.base_protocol import EvaluationProtocol, outcome_of
from oahu.evaluation.protocols.constraint_streams import ConstraintCache, generator_for
from oahu.evaluation.protocols.method_training import Stopwatch, TrainedMetric, train_method
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.protocols.scaling import fit_scaling
from oahu.evaluation.trials import Outcome, Trial
from oahu.exceptions import InvalidInputError
from oahu.tasks import Comparator, Roc

__all__ = ["VerificationProtocol", "views_of"]

_N_FOLDS: Final = 10
_MAX_PAIRS: Final = 600  # in a fold that is drawn from labels
_CURVE_POINTS: Final = 201
_N_EXAMPLES: Final = 4  # stored right and wrong answers, for similar and for dissimilar pairs


class VerificationProtocol(EvaluationProtocol):
    """Verification protocol of LFW in its image-unrestricted setting: training may use the names of the persons.

    LFW has two sets of pairs. View 1 is used for tuning. View 2 has ten folds and is used for the results.
    Constraints are drawn from the persons' names of all images. No constraint contains a pair of View 1 or View 2.
    With ``people="disjoint"``, training uses no image of a person in the tested fold. The protocol is then stricter
    than in the paper.
    """

    name = "verification"
    score = "auc"
    higher_is_better = True
    runs = 10
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **EvaluationProtocol.choices,
        "people": ("shared", "disjoint"),
    }
    defaults: ClassVar[Mapping[str, Any]] = {"n_constraints": 10_000, "n_seeds": 5_000, "people": "shared"}

    def check_dataset(self, dataset: Dataset) -> None:
        try:
            n_folds = len(views_of(dataset).folds)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"Verification needs official pairs, such as the pairs of lfw, or enough labelled items "
                f"to draw pairs "
                f"from. {dataset.name} has {len(dataset)} items and {dataset.n_classes} class(es): {error}"
            ) from error
        if n_folds < 2:
            raise InvalidInputError(
                f"Verification needs at least two folds of pairs. {dataset.name} has {n_folds} fold(s)."
            )

    def trials(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> Sequence[Trial]:
        """Return one trial for each of the first ``runs`` folds."""
        return super().trials(dataset, method, min(runs, len(views_of(dataset).folds)), settings)

    def measure(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        views = views_of(dataset)
        stopwatch, tested = Stopwatch(), views.folds[trial.run]
        others = _join(views.folds[: trial.run] + views.folds[trial.run + 1 :])
        training = np.arange(len(dataset))
        if trial.settings["people"] == "disjoint":
            training = np.flatnonzero(~np.isin(dataset.y, np.unique(dataset.y[tested.pairs])))
            if len(np.unique(dataset.y[training])) < 2:
                raise InvalidInputError(
                    f"With people='disjoint', fewer than two classes of {dataset.name} remain to learn "
                    f"from in fold {trial.run}."
                )
        trained, items = self._train(trial, dataset, method, cache, stopwatch, training)
        with stopwatch("evaluation"):
            comparator = Comparator(trained.metric, preprocessor=items)
            roc = comparator.roc(tested.pairs, tested.same)
            comparator.calibrate(others.pairs, others.same, target="accuracy")
            compared = comparator.compare_all(tested.pairs)
        is_right = (compared.answers == "yes") == tested.same
        scores = {"auc": roc.auc, "eer": roc.eer, "accuracy": float(is_right.mean())}
        diameter = trained.metric.diameter
        threshold = -comparator.yes_below_ if diameter is None else 1 - comparator.yes_below_
        margins = np.abs(compared.scores - threshold)
        examples = _examples(dataset, tested, is_right, compared.vote_shares, margins)
        outcome = outcome_of(trial, trained, stopwatch, scores, roc=_curve(roc), examples=examples)
        return replace(outcome, facts={**outcome.facts, "n_missing": tested.n_missing})

    def validate(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        """Measure the AUC on all pairs of View 1. Each ``trial.run`` has its own random constraints."""
        stopwatch, development = Stopwatch(), _join(views_of(dataset).development)
        trained, items = self._train(trial, dataset, method, cache, stopwatch, np.arange(len(dataset)))
        with stopwatch("evaluation"):
            auc = Comparator(trained.metric, preprocessor=items).auc(development.pairs, development.same)
        return outcome_of(trial, trained, stopwatch, {"auc": auc})

    def _train(
        self,
        trial: Trial,
        dataset: Dataset,
        method: Method,
        cache: ConstraintCache,
        stopwatch: Stopwatch,
        training: NDArray[np.intp],
    ) -> tuple[TrainedMetric, NDArray[np.float32]]:
        """Train on the items in the rows ``training``. Return the metric, and the scaled features of all items."""
        settings = trial.settings
        with stopwatch("inputs"):
            transform = fit_scaling(dataset.X[training], settings["scaling"], settings["pca"])
            items = transform(dataset.X)
        seed_words = (settings["seed"], dataset.name, trial.stage, trial.run)
        exclude = _pairs_within(views_of(dataset).pairs, training, len(dataset))
        labels = dataset.y[training]
        trained = train_method(method, settings, items[training], labels, seed_words, cache, stopwatch, exclude)
        return trained, items


def views_of(dataset: Dataset) -> Views:
    """Return the official pairs. If the data set has none, split the items into 12 parts and draw pairs in each."""
    if dataset.views is not None:
        return dataset.views
    rng = generator_for(0, dataset.name, "views")
    parts = np.array_split(rng.permutation(len(dataset)), 2 + _N_FOLDS)
    first, second, *folds = [_draw_fold(dataset, part, rng) for part in parts]
    return Views((first, second), tuple(folds))


def _draw_fold(dataset: Dataset, rows: NDArray[np.intp], rng: np.random.Generator) -> Fold:
    pairs, same = sample_pairs(dataset.y[rows], min(_MAX_PAIRS, 4 * len(rows)), rng)
    return Fold(rows[pairs], same > 0)


def _join(folds: Any) -> Fold:
    return Fold(np.concatenate([fold.pairs for fold in folds]), np.concatenate([fold.same for fold in folds]))


def _pairs_within(pairs: NDArray[np.intp], rows: NDArray[np.intp], n_items: int) -> NDArray[np.intp]:
    """Return the pairs with both items in ``rows``. The result contains positions in ``rows``."""
    positions = np.full(n_items, -1)
    positions[rows] = np.arange(len(rows))
    moved = positions[pairs]
    return np.asarray(moved[(moved >= 0).all(axis=1)])


def _curve(roc: Roc) -> dict[str, list[float]]:
    """Return the ROC curve at evenly spaced false accept rates from 0 to 1."""
    far = np.linspace(0, 1, _CURVE_POINTS)
    order = np.argsort(roc.far, kind="stable")
    return {"far": far.round(4).tolist(), "tar": np.interp(far, roc.far[order], roc.tar[order]).round(5).tolist()}


def _examples(dataset: Dataset, fold: Fold, is_right: Any, vote_shares: Any, margins: Any) -> dict[str, Any]:
    """Return examples: the right answers and the wrong answers with the scores farthest from the threshold.

    Items are given by key, or by row number if the data set has no keys.
    """
    by_margin = np.argsort(-margins, kind="stable")
    names = (fold.pairs if dataset.keys is None else dataset.keys[fold.pairs]).tolist()
    examples: dict[str, Any] = {"right": [], "wrong": []}
    for kind, wanted in (("right", True), ("wrong", False)):
        for same in (True, False):
            chosen = [i for i in by_margin if is_right[i] == wanted and fold.same[i] == same][:_N_EXAMPLES]
            examples[kind] += [
                {"a": names[i][0], "b": names[i][1], "same": same, "vote_share": float(vote_shares[i])}
                for i in chosen
            ]
    return examples
