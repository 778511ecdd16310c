"""Similarity comparison: are two items alike? Yes, no, or unknown."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from oahu.arrays import as_array
from oahu.constraints import Pairs
from oahu.exceptions import InvalidInputError, NotFittedError, OverflowedItemError
from oahu.io import model_files
from oahu.io.model_files import Content, storable
from oahu.messages import shorten
from oahu.metrics import Metric
from oahu.parameters import check_choice, check_real
from oahu.tasks.encoded_items import as_metric
from oahu.tasks.roc import Roc, Target

__all__ = ["Answer", "Comparator", "Comparison", "Comparisons", "Rule"]

Answer = Literal["yes", "no", "unknown"]
Rule = Literal["vote", "mean"]

_RULES: Final = get_args(Rule)
_PAPERS_THRESHOLD: Final = 0.55
_BLOCK: Final = 4096  # pairs measured at a time
_HALF: Final = 0.5 - 1e-9  # weights that sum to 1/2 may be off by their rounding
_SAVED: Final = ("threshold", "rule", "band")


@dataclass(frozen=True)
class Comparison:
    """What was found out about a pair.

    Attributes
    ----------
    answer : "yes", "no" or "unknown"
    probability : float
        P of the paper: the weight of the spaces in which the two are alike.
    score : float
        How alike they are, continuously: what thresholds and ROC curves are about.
    """

    answer: Answer
    probability: float
    score: float


class Comparisons(NamedTuple):
    """What was found out about n pairs: arrays of shape (n,). See `Comparison`."""

    answers: NDArray[np.str_]
    probabilities: NDArray[np.float64]
    scores: NDArray[np.float64]


@storable
class Comparator(BaseEstimator):  # type: ignore[misc]
    """Whether two items are alike, Section 3.6 of the paper.

    Two items are so far apart in a space: ``D / 2`` if distances are at most 2 (OAHU, cosine), the distance
    itself for other metrics, minus the score for a metric that has none. Those spaces in which that is below the
    threshold T have the probability ``P = sum_l alpha_l [D_l / 2 < T]``, and the answer is yes if P is at least
    1/2. That is so if and only if the weighted median of the spaces is below T; the median is what the score and
    its ROC curve are about. An `AnchoredMetric` verifies by its ``for_verification``.

    Parameters
    ----------
    metric : Metric
        Any metric: ``learner.metric()``, or a loaded one.
    threshold : float, optional
        T, until `calibrate` finds another. None is the paper's 0.55 for metrics whose distances are at most 2,
        and has to be calibrated for others. It is worth calibrating for all: which T is best depends on the
        metric.
    rule : {"vote", "mean"}, default="vote"
        "vote" is the paper's. "mean" compares the weighted mean of the spaces with T, and often ranks a little
        better. The same for a metric of one space.
    band : float, default=0
        Answer "unknown" to pairs that are within this much of T, or of what `calibrate` found.
    preprocessor : array-like of shape (n_items, n_features), optional
        The table that pairs of row numbers point into.

    Attributes
    ----------
    yes_below_, no_from_ : float
        What `calibrate` found: pairs nearer than the first are alike, those as far as the second are not, and those
        between, if there are any, are unknown.

    Examples
    --------
    >>> from oahu import Comparator, EuclideanMetric
    >>> comparator = Comparator(EuclideanMetric(1), threshold=1.0, band=0.25)
    >>> comparator.compare([0.0], [0.5])
    Comparison(answer='yes', probability=1.0, score=-0.5)
    >>> comparator.predict([[[0.0], [0.9]], [[0.0], [2.0]]]).tolist()
    ['unknown', 'no']
    """

    def __init__(
        self,
        metric: Metric,
        threshold: float | None = None,
        rule: Rule = "vote",
        band: float = 0.0,
        preprocessor: Any = None,
    ) -> None:
        self.metric = metric
        self.threshold = threshold
        self.rule = rule
        self.band = band
        self.preprocessor = preprocessor

    # -- answers -----------------------------------------------------------------------------------------

    def compare(self, a: ArrayLike, b: ArrayLike) -> Comparison:
        """What is found out about two items."""
        pair = [as_array(item, "item") for item in (a, b)]
        if any(item.ndim != 1 for item in pair) or len(pair[0]) != len(pair[1]):
            shapes = " and ".join(str(item.shape) for item in pair)
            raise InvalidInputError(
                f"compare takes two vectors of one length. Got shapes {shapes} instead: predict takes many."
            )
        found = self.compare_all(np.stack(pair)[None])
        return Comparison(*(part.tolist()[0] for part in found))

    def compare_all(self, pairs: Any) -> Comparisons:
        """What is found out about each of n pairs.

        Parameters
        ----------
        pairs : Pairs, or array-like of shape (n, 2, n_features), or (n, 2) with ``preprocessor``
        """
        apart = self._apart(pairs)
        return Comparisons(self._answers(apart), self._probability(apart), self._score(apart))

    def predict(self, pairs: Any) -> NDArray[np.str_]:
        """The answer for each of n pairs: "yes", "no" or "unknown"."""
        return self._answers(self._apart(pairs))

    def probability(self, pairs: Any) -> NDArray[np.float64]:
        """P of each pair: the weight of the spaces in which the two are nearer than the threshold."""
        return self._probability(self._apart(pairs))

    def decision_function(self, pairs: Any) -> NDArray[np.float64]:
        """How alike each pair is, higher is more; needs no threshold.

        One minus the weighted median of the spaces' D / 2 (rule "mean": their weighted mean); without the one for
        metrics whose distances are not at most 2.
        """
        return self._score(self._apart(pairs))

    # -- calibration and evaluation ----------------------------------------------------------------------

    def calibrate(
        self,
        pairs: Any,
        same: Any = None,
        *,
        target: Target | None = None,
        target_far: float | None = None,
        target_frr: float | None = None,
    ) -> Self:
        """Choose the threshold by pairs whose answers are known, given by one of these.

        Parameters
        ----------
        pairs : Pairs, or array-like of shape (n, 2, n_features), or (n, 2) with ``preprocessor``
        same : array-like of shape (n,)
            +1 or True where the two are alike, -1 or False where they are not. `Pairs` carry their own.
        target : {"accuracy", "f1", "eer"}
            What is best: the share of right answers, F1 of the similar pairs, or as many false as missed.
        target_far : float
            Say yes to no more than this share of the dissimilar pairs, and to as many similar ones as that allows.
        target_frr : float
            Together with ``target_far``: say no to no more than this share of the similar pairs. Pairs for which
            neither can be promised are unknown.
        """
        given = [name for name, value in (("target", target), ("target_far", target_far)) if value is not None]
        if len(given) != 1 or (target_frr is not None and target_far is None):
            raise InvalidInputError(
                "calibrate needs one of target='accuracy', 'f1', 'eer' and target_far=..., the latter with or "
                f"without target_frr. Got target={shorten(target)}, target_far={shorten(target_far)}, "
                f"target_frr={shorten(target_frr)}."
            )
        tested, truth = self._labelled(pairs, same)
        roc = Roc.of(-self._typical(self._apart(tested)), truth)
        if target is not None:
            yes = no = _just_above(-roc.best_threshold(target))
        else:
            assert target_far is not None
            yes = no = _just_above(-roc.threshold_at_far(target_far))
            if target_frr is not None:
                no = _just_above(-roc.threshold_at_frr(target_frr))
                if no < yes:  # one threshold keeps both promises: between them, if they are no infinity apart
                    yes = no = no + (yes - no) / 2 if np.isfinite(no) else yes
        self.yes_below_, self.no_from_ = float(yes), float(no)
        return self

    def roc(self, pairs: Any, same: Any = None) -> Roc:
        """The receiver operating curve of `decision_function` for pairs whose answers are known."""
        tested, truth = self._labelled(pairs, same)
        return Roc.of(self.decision_function(tested), truth)

    def auc(self, pairs: Any, same: Any = None) -> float:
        """The area under `roc`: how often a similar pair scores higher than a dissimilar one."""
        return self.roc(pairs, same).auc

    def eer(self, pairs: Any, same: Any = None) -> float:
        """The equal error rate: where as large a share is accepted falsely as is rejected falsely."""
        return self.roc(pairs, same).eer

    def tar_at_far(self, pairs: Any, same: Any = None, far: float = 1e-3) -> float:
        """The share of similar pairs that can be accepted while at most ``far`` of the others is."""
        return self.roc(pairs, same).tar_at_far(far)

    # -- files -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric and the thresholds to a file that `oahu.load` reads; the preprocessor stays yours."""
        model_files.save(self, path)

    def _to_content(self) -> Content:
        self._check_parameters()
        threshold = None if self.threshold is None else float(self.threshold)  # perhaps a number of numpy's
        state: dict[str, Any] = {"threshold": threshold, "rule": self.rule, "band": float(self.band)}
        if hasattr(self, "yes_below_"):
            state["calibrated"] = [str(self.yes_below_), str(self.no_from_)]  # JSON has no infinity
        return model_files.with_part(Content(state, {}), "metric", self.metric)

    @classmethod
    def _from_content(cls, content: Content) -> Comparator:
        parameters = {name: content.state[name] for name in _SAVED}
        made = cls(model_files.part(content, "metric"), **parameters)
        made._check_parameters()
        if "calibrated" in content.state:
            made.yes_below_, made.no_from_ = map(float, content.state["calibrated"])
            if not made.yes_below_ <= made.no_from_:
                raise ValueError(f"its thresholds cannot be {shorten(content.state['calibrated'])}")
        return made

    # -- inside ------------------------------------------------------------------------------------------

    def _apart(self, pairs: Any) -> NDArray[np.float64]:
        """How far apart pairs are in every space, as the threshold sees it: (n_spaces, n)."""
        self._check_parameters()
        checked = self._pairs(pairs)
        if not checked.by_value and not checked.is_sparse and len(self.metric.spaces) > 1:
            return self._apart_by_rows(checked) / (self.metric.diameter or 1.0)
        parts = []
        metric, dtype = self.metric.for_verification, self.metric.dtype
        for start, block in checked.sparse_blocks(dtype) if checked.is_sparse else checked.blocks(dtype):
            checked.check_finite(start, block)
            left, right = (block[::2], block[1::2]) if checked.is_sparse else (block[:, 0], block[:, 1])
            try:
                parts.append(metric.apart(left, right))
            except OverflowedItemError:
                _refuse(metric, start, left, right)
                raise
        return np.concatenate(parts, axis=1) / (self.metric.diameter or 1.0)

    def _apart_by_rows(self, pairs: Pairs) -> NDArray[np.float64]:
        """How far apart pairs of rows are in every space: a row is encoded once, however many pairs it is in."""
        rows, ends = np.unique(pairs.indices, return_inverse=True)
        try:
            encoded = self.metric.for_verification.encode(pairs.table[rows])
        except OverflowedItemError as error:
            pair = int(np.flatnonzero((pairs.indices == rows[error.row]).any(axis=1))[0])
            raise OverflowedItemError(error.about(f"an item of pair {pair}"), pair) from error
        except InvalidInputError:
            for start, block in pairs.blocks(self.metric.dtype):
                pairs.check_finite(start, block)  # says which pair it is
            raise
        left, right = ends.reshape(-1, 2).T
        apart = np.empty((len(encoded), len(left)))
        for start in range(0, len(left), _BLOCK):
            some = slice(start, start + _BLOCK)
            for space, vectors in enumerate(encoded):
                gaps = (vectors[left[some]] - vectors[right[some]]).astype(np.float64)
                apart[space, some] = np.sqrt(np.square(gaps).sum(axis=1))
        return apart

    def _pairs(self, pairs: Any) -> Pairs:
        if isinstance(pairs, Pairs):
            pairs.check_features(self.metric.n_features, type(self).__name__)
            return pairs
        given = as_array(pairs, "pairs")
        return self._as_pairs(given, np.ones(given.shape[:1], bool))  # nothing is said about them

    def _as_pairs(self, pairs: Any, same: Any) -> Pairs:
        return Pairs(
            pairs,
            same,
            preprocessor=self.preprocessor,
            n_features=self.metric.n_features,
            owner=type(self).__name__,
            accept_sparse=self.metric.accepts_sparse,
        )

    def _labelled(self, pairs: Any, same: Any) -> tuple[Pairs, NDArray[np.bool_]]:
        """Pairs and which of them are alike."""
        self._check_parameters()
        if isinstance(pairs, Pairs):
            if same is not None:
                raise InvalidInputError("Pairs say themselves which of them are alike: same must be None.")
            return self._pairs(pairs), pairs.same
        if same is None:
            raise InvalidInputError("same must say which pairs are alike: +1 or True, and -1 or False.")
        labelled = self._as_pairs(pairs, same)
        return labelled, labelled.same

    def _typical(self, apart: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far apart the spaces find each pair: their weighted median, or mean."""
        weights = np.array([space.weight for space in self.metric.spaces])
        if self.rule == "mean":
            return np.asarray(weights @ apart)
        order = np.argsort(apart, axis=0, kind="stable")
        reached = np.cumsum(weights[order], axis=0) >= _HALF
        middle = np.take_along_axis(order, np.argmax(reached, axis=0)[None], axis=0)
        return np.asarray(np.take_along_axis(apart, middle, axis=0)[0])

    def _score(self, apart: NDArray[np.float64]) -> NDArray[np.float64]:
        unit = 0.0 if self.metric.diameter is None else 1.0
        return np.asarray(unit - self._typical(apart))

    @property
    def thresholds(self) -> tuple[float, float]:
        """Below which distance the answer is yes, and from which on it is no; those between are unknown.

        As calibrated, given or the paper's, and wider apart by the band.
        """
        if hasattr(self, "yes_below_"):
            yes, no = self.yes_below_, self.no_from_
        elif self.threshold is not None:
            yes = no = self.threshold
        elif self.metric.diameter is not None:
            yes = no = _PAPERS_THRESHOLD
        else:
            raise NotFittedError(
                f"This Comparator has no threshold. Distances of {type(self.metric).__name__} are unbounded, so "
                "there is no default: set threshold=, or call calibrate."
            )
        return yes - self.band, no + self.band

    def _answers(self, apart: NDArray[np.float64]) -> NDArray[np.str_]:
        yes_below, no_from = self.thresholds
        typical = self._typical(apart)
        return np.where(typical < yes_below, "yes", np.where(typical >= no_from, "no", "unknown"))

    def _probability(self, apart: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(x1, x2) of Eq. (sim_com), at the middle of the thresholds."""
        weights = np.array([space.weight for space in self.metric.spaces])
        yes_below, no_from = self.thresholds
        middle = yes_below if yes_below == no_from else yes_below + (no_from - yes_below) / 2
        return np.asarray(weights @ (apart < middle))

    def _check_parameters(self) -> None:
        as_metric(self.metric, self)
        check_choice(self, "rule", self.rule, _RULES)
        check_real(self, "band", self.band, 0, np.inf, closed="left")
        if self.threshold is not None:
            check_real(self, "threshold", self.threshold, -np.inf, np.inf)


def _refuse(metric: Metric, start: int, left: Any, right: Any) -> None:
    """`OverflowedItemError` for the first pair, counted from ``start``, that the metric cannot measure."""
    for row in range(left.shape[0]):
        try:
            metric.apart(left[row : row + 1], right[row : row + 1])
        except OverflowedItemError as error:
            pair = start + row
            raise OverflowedItemError(error.about(f"an item of pair {pair}"), pair) from error


def _just_above(number: float) -> float:
    """The next number up: below it is what is up to ``number``."""
    return float(np.nextafter(number, np.inf)) if np.isfinite(number) else number
