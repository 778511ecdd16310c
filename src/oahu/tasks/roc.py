"""The receiver operating characteristic (ROC) of scored pairs, and the choice of a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_curve

from oahu.arrays import as_array, describe_non_finite
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

__all__ = ["Roc", "Target", "as_scores", "rate_upper_bound"]

Target = Literal["accuracy", "f1", "eer"]

_TARGETS: Final = get_args(Target)


@dataclass(frozen=True, eq=False)
class Roc:
    """The receiver operating characteristic of scored pairs. Higher scores mean more similar pairs.

    A pair is accepted, that is, classified as similar, if its score is at least a threshold. The curve has one
    point for every distinct threshold. At the first point, the threshold is inf and no pair is accepted. At each
    further point, the threshold is the next lower distinct score. At the last point, all pairs are accepted. For n
    pairs, `Roc.of` takes O(n log n) time and every other method takes at most O(n) time.

    The methods return thresholds half-way between the lowest accepted score and the highest rejected score, because
    the scores of new pairs may lie between these two scores. If there is no floating-point number between the two
    scores, or if all pairs are accepted, the threshold is the lowest accepted score. If no pair is accepted, the
    threshold is inf.

    Attributes
    ----------
    far : ndarray of shape (n_points,)
        The false accept rate (FAR): the share of the dissimilar pairs that are accepted. The values rise from 0 to
        1.
    tar : ndarray of shape (n_points,)
        The true accept rate (TAR): the share of the similar pairs that are accepted. The values rise from 0 to 1.
    thresholds : ndarray of shape (n_points,)
        The thresholds: inf, followed by the distinct scores in descending order. The dtype is the dtype of the
        scores if they are floats of at most 64 bits, else float64.
    n_similar, n_dissimilar : int
        The number of similar pairs and the number of dissimilar pairs.

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
        """Return the curve of scored pairs.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Finite numbers. A higher score must mean a more similar pair. Pass negative distances, not distances.
        same : array-like of shape (n,)
            The labels: True, 1 or +1 for similar pairs, and False, 0 or -1 for dissimilar pairs. There must be at
            least one similar pair and one dissimilar pair.
        """
        numbers = as_scores(scores, "scores")
        similar = _as_same(same, len(numbers))
        with np.errstate(over="ignore", invalid="ignore"):  # huge scores overflow in intermediate values
            far, tar, thresholds = roc_curve(similar, numbers.astype(np.float64), drop_intermediate=False)
        thresholds = thresholds.astype(numbers.dtype)
        for array in (far, tar, thresholds):
            array.setflags(write=False)
        n_similar = int(np.count_nonzero(similar))
        return cls(far, tar, thresholds, n_similar, len(similar) - n_similar)

    def __repr__(self) -> str:
        pairs = f"{self.n_similar} similar and {self.n_dissimilar} dissimilar pairs"
        return f"<ROC of {pairs}: AUC {self.auc:.4f}, EER {self.eer:.4f}>"

    @property
    def frr(self) -> NDArray[np.float64]:
        """The false reject rate (FRR): the share of the similar pairs that are rejected.

        The values fall from 1 to 0.
        """
        rate: NDArray[np.float64] = (self.n_similar - self._accepted()[1]) / self.n_similar
        return rate

    @property
    def auc(self) -> float:
        """The area under the curve, by the trapezoidal rule.

        The area is the probability that a similar pair scores higher than a dissimilar pair. A tie counts as one
        half.
        """
        false_accepts, true_accepts = self._accepted()
        twice_the_area = np.sum(np.diff(false_accepts) * (true_accepts[1:] + true_accepts[:-1]))
        return float(twice_the_area / (2 * self.n_similar * self.n_dissimilar))

    @property
    def eer(self) -> float:
        """The equal error rate: the FAR where FAR and FRR are equal.

        The FAR is interpolated linearly between the points of the curve.
        """
        gap = self._gap()
        after = int(np.searchsorted(gap, 0))  # the first point with FAR >= FRR; never point 0
        share = -gap[after - 1] / (gap[after] - gap[after - 1])
        return float((1 - share) * self.far[after - 1] + share * self.far[after])

    def tar_at_far(self, far: float) -> float:
        """Return the highest TAR of all points with a FAR of at most ``far``.

        The TAR is not interpolated: it is the TAR of the threshold that `threshold_at_far` returns, on the pairs of
        this curve.
        """
        return float(self.tar[self._last_within(far)])

    def threshold_at_far(self, far: float) -> float:
        """Return the lowest threshold with a FAR of at most ``far``, or inf if this threshold accepts no pair."""
        return self._threshold(self._last_within(far))

    def threshold_at_frr(self, frr: float) -> float:
        """Return the highest threshold with an FRR of at most ``frr``. For ``frr=1``, return inf."""
        return self._threshold(int(np.argmax(self.frr <= _as_rate(frr, "frr"))))

    def best_threshold(self, target: Target) -> float:
        """Return the best threshold for the pairs of this curve.

        If several thresholds are equally good, return the highest of these thresholds.

        Parameters
        ----------
        target : {"accuracy", "f1", "eer"}
            "accuracy" maximises the accuracy. "f1" maximises the F1 score ``2 tp / (2 tp + fp + fn)``, with similar
            pairs as the positive class. "eer" minimises ``|FAR - FRR|``.

        Returns
        -------
        threshold : float
            The best threshold. It is inf if the best choice is to accept no pair.
        """
        chosen: Any = target
        if not isinstance(chosen, str) or chosen not in _TARGETS:
            raise InvalidInputError(
                f"The 'target' of a threshold must be one of {', '.join(map(repr, _TARGETS))}. "
                f"Got {shorten(chosen)} instead."
            )
        false_accepts, true_accepts = self._accepted()
        objective: NDArray[Any]
        if target == "accuracy":
            objective = true_accepts - false_accepts
        elif target == "f1":
            objective = 2 * true_accepts / (true_accepts + false_accepts + self.n_similar)
        else:
            objective = -np.abs(self._gap())
        return self._threshold(int(np.argmax(objective)))

    def _accepted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of false accepts and the number of true accepts at each point.

        These numbers are exact integers, in contrast to the rates.
        """
        return (
            np.rint(self.far * self.n_dissimilar).astype(np.int64),
            np.rint(self.tar * self.n_similar).astype(np.int64),
        )

    def _gap(self) -> NDArray[np.int64]:
        """Return (FAR - FRR) * n_similar * n_dissimilar, an exact integer for each point, in ascending order."""
        false_accepts, true_accepts = self._accepted()
        return false_accepts * self.n_similar - (self.n_similar - true_accepts) * self.n_dissimilar

    def _last_within(self, far: float) -> int:
        return int(np.searchsorted(self.far, _as_rate(far, "far"), side="right")) - 1

    def _threshold(self, point: int) -> float:
        """Return the threshold for a point of the curve.

        The threshold is half-way between the score of the point and the next lower score.
        """
        own = self.thresholds[point]
        if point == 0 or point == len(self.thresholds) - 1:
            return float(own)
        halves = self.thresholds[point : point + 2] / 2  # halves first, so that the sum cannot overflow
        middle = halves[0] + halves[1]
        return float(middle if self.thresholds[point + 1] < middle < own else own)


def rate_upper_bound(n_errors: int, n_pairs: int, confidence: float = 0.95) -> float:
    """Return the exact (Clopper-Pearson) upper confidence bound of an error rate.

    ``n_errors`` of ``n_pairs`` pairs are errors. The bound is also valid if the threshold was chosen such that it
    makes ``n_errors`` errors on these pairs.

    >>> round(rate_upper_bound(0, 5), 3), round(rate_upper_bound(0, 30_000), 6)
    (0.451, 0.0001)
    """
    from scipy.stats import beta

    return 1.0 if n_errors == n_pairs else float(beta.ppf(confidence, n_errors + 1, n_pairs - n_errors))


def as_scores(scores: ArrayLike, what: str) -> NDArray[np.floating[Any]]:
    """Return ``scores`` as a non-empty 1-d array of finite floats.

    ``what`` is the name of the scores in error messages.
    """
    array = as_array(scores, what)
    if array.ndim != 1 or not len(array):
        raise InvalidInputError(
            f"The {what} must have shape (n,), with at least one number. Got shape {array.shape} instead."
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
    """Return the labels of n pairs as booleans. ``same`` contains booleans, the numbers 1 and 0, or +1 and -1."""
    values = as_array(same, "values of same")
    if values.shape != (n,):
        raise InvalidInputError(
            f"same= must have shape ({n},), with one label for each score. Got shape {values.shape} instead."
        )
    similar: NDArray[np.bool_] = values == 1
    dissimilar = values == 0 if (values == 0).any() else values == -1  # one convention, not both
    wrong = np.flatnonzero(~similar & ~dissimilar)
    if len(wrong):
        row = int(wrong[0])
        among = " among 1 and 0" if values[row] == -1 else ""
        raise InvalidInputError(
            "same= must contain True and False, 1 and 0, or +1 and -1 for similar and dissimilar pairs. "
            f"Got {shorten(values[row].item())}{among} in row {row} instead."
        )
    if similar.all() or not similar.any():
        kind, other = ("similar", "dissimilar") if similar.all() else ("dissimilar", "similar")
        raise InvalidInputError(
            f"A ROC curve needs similar and dissimilar pairs, but all {n} pairs are {kind}. Add at least one "
            f"{other} pair."
        )
    return similar


def _as_rate(value: Any, name: str) -> float:
    number = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:
        raise InvalidInputError(f"The rate {name!r} must be in [0, 1]. Got {shorten(value)} instead.")
    return float(value)
