"""What every threshold on a score would do: the receiver operating curve, and thresholds chosen from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_curve

from oahu.arrays import as_array, describe_non_finite
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

__all__ = ["Roc", "Target", "as_scores"]

Target = Literal["accuracy", "f1", "eer"]

_TARGETS: Final = get_args(Target)


@dataclass(frozen=True, eq=False)
class Roc:
    """The receiver operating curve of scores, higher for pairs that are more alike.

    A pair is accepted, taken to be alike, when its score is at least a threshold. The curve's operating points are
    all the ways to split the given pairs: nobody is accepted (threshold inf), and then, with each distinct score
    from the highest to the lowest as the threshold, more and more, until all are. `Roc.of` makes one, in
    O(n log n); everything asked of it afterwards is O(n) or less.

    A threshold that is handed out lies half-way between the lowest score that its operating point accepts and the
    next lower one, so that new pairs are not cut at a score that was seen. It accepts exactly the given pairs that
    its operating point does: it is the accepted score itself where no number of the scores' type lies between the
    two, and where all are accepted; it is inf where nobody is.

    Attributes
    ----------
    far : ndarray of shape (n_points,)
        False accept rate: the share of the dissimilar pairs that are accepted. Rises from 0 to 1.
    tar : ndarray of shape (n_points,)
        True accept rate: the share of the similar pairs that are accepted. Rises from 0 to 1.
    thresholds : ndarray of shape (n_points,)
        inf, and then the distinct scores, falling. Of the scores' type if that is a float of at most 64 bits, else
        of float64.
    n_similar, n_dissimilar : int
        How many pairs there are of each kind.

    Examples
    --------
    >>> roc = Roc.of([0.9, 0.8, 0.4, 0.2], [True, False, True, False])
    >>> roc
    <ROC of 2 similar and 2 dissimilar pairs: AUC 0.7500, EER 0.5000>
    >>> roc.far.tolist(), roc.tar.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    >>> roc.tar_at_far(0.1), round(roc.threshold_at_far(0.1), 3)
    (0.5, 0.85)
    >>> round(roc.best_threshold("f1"), 3)
    0.3
    """

    far: NDArray[np.float64]
    tar: NDArray[np.float64]
    thresholds: NDArray[np.floating[Any]]
    n_similar: int
    n_dissimilar: int

    @classmethod
    def of(cls, scores: ArrayLike, same: ArrayLike) -> Self:
        """The curve of scored pairs.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Finite numbers, higher for pairs that are more alike. Distances must be negated first.
        same : array-like of shape (n,)
            Which pairs are alike: True and False, 1 and 0, or +1 and -1. Both must occur.
        """
        numbers = as_scores(scores, "scores")
        alike = _as_same(same, len(numbers))
        with np.errstate(over="ignore", invalid="ignore"):  # sums and differences of huge scores, no results
            far, tar, thresholds = roc_curve(alike, numbers.astype(np.float64), drop_intermediate=False)
        thresholds = thresholds.astype(numbers.dtype)
        for array in (far, tar, thresholds):
            array.setflags(write=False)
        n_similar = int(np.count_nonzero(alike))
        return cls(far, tar, thresholds, n_similar, len(alike) - n_similar)

    def __repr__(self) -> str:
        pairs = f"{self.n_similar} similar and {self.n_dissimilar} dissimilar pairs"
        return f"<ROC of {pairs}: AUC {self.auc:.4f}, EER {self.eer:.4f}>"

    @property
    def frr(self) -> NDArray[np.float64]:
        """False reject rate, 1 - tar: the share of the similar pairs that are not accepted. Falls from 1 to 0."""
        rate: NDArray[np.float64] = (self.n_similar - self._accepted()[1]) / self.n_similar
        return rate

    @property
    def auc(self) -> float:
        """The area under tar over far, by the trapezoidal rule.

        It is the probability that a similar pair scores higher than a dissimilar one, a tie counting half.
        """
        wrongly, rightly = self._accepted()
        twice = np.sum(np.diff(wrongly) * (rightly[1:] + rightly[:-1]))
        return float(twice / (2 * self.n_similar * self.n_dissimilar))

    @property
    def eer(self) -> float:
        """The equal error rate: where far = 1 - tar on the curve, joined by straight lines between its points."""
        gap = self._gap()
        after = int(np.searchsorted(gap, 0))  # the first point with far >= frr; at 0 it is below
        share = -gap[after - 1] / (gap[after] - gap[after - 1])
        return float((1 - share) * self.far[after - 1] + share * self.far[after])

    def tar_at_far(self, far: float) -> float:
        """The highest true accept rate of an operating point whose false accept rate is at most ``far``.

        Nothing is interpolated: `threshold_at_far` is a threshold that achieves it on the given pairs.
        """
        return float(self.tar[self._last_within(far)])

    def threshold_at_far(self, far: float) -> float:
        """The most permissive threshold with a false accept rate of at most ``far``; inf if that accepts nobody."""
        return self._threshold(self._last_within(far))

    def threshold_at_frr(self, frr: float) -> float:
        """The strictest threshold with a false reject rate, 1 - tar, of at most ``frr``; inf for ``frr`` 1."""
        return self._threshold(int(np.argmax(self.frr <= _as_rate(frr, "frr"))))

    def best_threshold(self, target: Target) -> float:
        """The threshold that is best on the given pairs; of equally good ones, the strictest.

        Parameters
        ----------
        target : {"accuracy", "f1", "eer"}
            Highest accuracy, the share of pairs that are accepted and similar or neither; highest
            F1 = 2 tp / (2 tp + fp + fn), of the similar pairs; or smallest ``|far - (1 - tar)|``.

        Returns
        -------
        threshold : float
            inf if accepting nobody is best.
        """
        chosen: Any = target
        if not isinstance(chosen, str) or chosen not in _TARGETS:
            raise InvalidInputError(
                f"The 'target' of a threshold must be one of {', '.join(map(repr, _TARGETS))}. "
                f"Got {shorten(chosen)} instead."
            )
        wrongly, rightly = self._accepted()
        goodness: NDArray[Any]
        if target == "accuracy":
            goodness = rightly - wrongly
        elif target == "f1":
            goodness = 2 * rightly / (rightly + wrongly + self.n_similar)
        else:
            goodness = -np.abs(self._gap())
        return self._threshold(int(np.argmax(goodness)))

    def _accepted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many dissimilar and how many similar pairs each point accepts: counts compare exactly."""
        return (
            np.rint(self.far * self.n_dissimilar).astype(np.int64),
            np.rint(self.tar * self.n_similar).astype(np.int64),
        )

    def _gap(self) -> NDArray[np.int64]:
        """far - frr in units of 1 / (n_similar n_dissimilar). Rises strictly: each point accepts one more pair."""
        wrongly, rightly = self._accepted()
        return wrongly * self.n_similar - (self.n_similar - rightly) * self.n_dissimilar

    def _last_within(self, far: float) -> int:
        return int(np.searchsorted(self.far, _as_rate(far, "far"), side="right")) - 1

    def _threshold(self, point: int) -> float:
        """A threshold that accepts what ``point`` does, half-way to the next lower score if a number lies there."""
        own = self.thresholds[point]
        if point == 0 or point == len(self.thresholds) - 1:
            return float(own)
        halves = self.thresholds[point : point + 2] / 2  # their sum cannot overflow
        middle = halves[0] + halves[1]
        return float(middle if self.thresholds[point + 1] < middle < own else own)


def as_scores(scores: ArrayLike, what: str) -> NDArray[np.floating[Any]]:
    """``scores`` as a row of finite floats, at least one; ``what`` names them in errors."""
    array = as_array(scores, what)
    if array.ndim != 1 or not len(array):
        raise InvalidInputError(
            f"The {what} must be a row of at least one number, of shape (n,). Got shape {array.shape} instead."
        )
    dtype = array.dtype if array.dtype in (np.float16, np.float32) else np.dtype(np.float64)
    with np.errstate(over="ignore"):
        numbers = array.astype(dtype, copy=False)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        row = int(wrong[0])
        raise InvalidInputError(
            f"The {what} must be finite numbers. Got {describe_non_finite(array[row], dtype)} in row {row} instead."
        )
    return numbers


def _as_same(same: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Which of n pairs are alike, from truth values, 1 and 0, or +1 and -1."""
    values = as_array(same, "values of same")
    if values.shape != (n,):
        raise InvalidInputError(
            f"same must say for each of the {n} scores whether the pair is alike: shape ({n},). "
            f"Got shape {values.shape} instead."
        )
    alike: NDArray[np.bool_] = values == 1
    unlike = values == 0 if (values == 0).any() else values == -1  # one of the two, not both
    wrong = np.flatnonzero(~alike & ~unlike)
    if len(wrong):
        row = int(wrong[0])
        among = " among 1 and 0" if values[row] == -1 else ""
        raise InvalidInputError(
            "same must be True and False, 1 and 0, or +1 and -1 for pairs that are alike and pairs that are not. "
            f"Got {shorten(values[row].item())}{among} in row {row} instead."
        )
    if alike.all() or not alike.any():
        kind, other = ("similar", "dissimilar") if alike.all() else ("dissimilar", "similar")
        raise InvalidInputError(
            f"A receiver operating curve needs similar and dissimilar pairs. All {n} are {kind}: "
            f"give at least one {other} pair."
        )
    return alike


def _as_rate(value: Any, name: str) -> float:
    number = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:
        raise InvalidInputError(f"The rate {name!r} must be in [0, 1]. Got {shorten(value)} instead.")
    return float(value)
