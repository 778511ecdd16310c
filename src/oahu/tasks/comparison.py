"""The Comparator: decides whether two items are similar (yes, no, or unknown)."""

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
from oahu.parameters import check_choice, check_real, warn_caller
from oahu.tasks.indexed_items import as_metric
from oahu.tasks.roc import Roc, Target, rate_upper_bound

__all__ = ["Answer", "Comparator", "PairComparison", "PairComparisons", "Rule"]

Answer = Literal["yes", "no", "unknown"]
Rule = Literal["vote", "mean"]

_RULES: Final = get_args(Rule)
_PAPERS_THRESHOLD: Final = 0.55
_BLOCK: Final = 4096  # pairs measured at a time
_HALF: Final = 0.5 - 1e-9  # weights that sum to 1/2 may be off by their rounding
_ERRORS_NEEDED: Final = 10  # expected errors at a target rate; with fewer errors a threshold is unreliable
_SAVED: Final = ("threshold", "rule", "band")


@dataclass(frozen=True)
class PairComparison:
    """The comparison of two items.

    Attributes
    ----------
    answer : "yes", "no" or "unknown"
        Whether the two items are similar.
    probability : float or None
        The calibrated probability that the two items are similar. None before `Comparator.calibrate` was called.
    vote_share : float
        P of the paper: the total weight of the spaces in which the distance of the two items is below the
        threshold. The vote share is not a probability. For a metric with one space, it is 0 or 1.
    score : float
        A continuous similarity. A higher score means more similar items. ROC curves use this score.
    """

    answer: Answer
    probability: float | None
    vote_share: float
    score: float


class PairComparisons(NamedTuple):
    """The comparisons of n pairs as arrays of shape (n,). The attributes are documented in `PairComparison`."""

    answers: NDArray[np.str_]
    probabilities: NDArray[np.float64] | None
    vote_shares: NDArray[np.float64]
    scores: NDArray[np.float64]


@storable
class Comparator(BaseEstimator):  # type: ignore[misc]
    """Decide whether two items are similar (Section 3.6 of the paper).

    The comparator computes the distance D_l of the two items in each space l. If the metric's distances are at most
    2 (OAHU, cosine), D_l is divided by 2. For a metric without distances, D_l is the negative score. The vote share
    ``P = sum_l alpha_l [D_l < T]`` is the total weight of the spaces with a distance below the threshold T. The
    answer is yes if P is at least 1/2, that is, if the weighted median of the distances is below T. The score is
    one minus this median (see `decision_function` for metrics with other distances). Instead of an
    `AnchoredMetric`, the comparator uses its ``for_verification`` metric, because the distances of that metric suit
    one threshold for all pairs.

    Parameters
    ----------
    metric : Metric
        Any metric, for example ``learner.metric()`` or a metric loaded from a file.
    threshold : float, optional
        The threshold T. `calibrate` overrides this value. For metrics with distances of at most 2, the default is
        the paper's value, 0.55. Other metrics need a threshold or a calibration. The best threshold depends on the
        metric. Calibration is therefore recommended for every metric.
    rule : {"vote", "mean"}, default="vote"
        "vote" is the paper's rule. "mean" compares the weighted mean of the distances in all spaces with T. The
        scores of "mean" often separate similar and dissimilar pairs slightly better. For a metric with one space,
        both rules give the same result.
    band : float, default=0
        Half the width of the interval of unknown answers. The answer is "unknown" if the distance differs from the
        threshold by less than ``band``.
    preprocessor : array-like of shape (n_items, n_features), optional
        The features of the items. With a preprocessor, pairs can be given as row numbers of this array.

    Attributes
    ----------
    yes_below_, no_from_ : float
        The thresholds that `calibrate` chose. The answer is yes for distances below ``yes_below_``, no for
        distances of at least ``no_from_``, and unknown for all other distances.
    slope_, intercept_ : float
        The parameters of the probability, fitted by `calibrate`. A pair with the distance D is similar with the
        probability ``1 / (1 + exp(-(slope_ D + intercept_)))``.
    calibration_warnings_ : list of str
        The warnings of the last call of `calibrate`. `save` does not store these warnings.

    Examples
    --------
    >>> from oahu import Comparator, EuclideanMetric
    >>> comparator = Comparator(EuclideanMetric(1), threshold=1.0, band=0.25)
    >>> comparator.compare([0.0], [0.5])
    PairComparison(answer='yes', probability=None, vote_share=1.0, score=-0.5)
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

    # -- comparison --------------------------------------------------------------------------------------

    def compare(self, a: ArrayLike, b: ArrayLike) -> PairComparison:
        """Compare two items."""
        pair = [as_array(item, "item") for item in (a, b)]
        if any(item.ndim != 1 for item in pair) or len(pair[0]) != len(pair[1]):
            shapes = " and ".join(str(item.shape) for item in pair)
            raise InvalidInputError(
                f"compare() needs two vectors of the same length. Got shapes {shapes} instead. Use predict() for "
                "many pairs."
            )
        found = self.compare_all(np.stack(pair)[None])
        answer: Any = str(found.answers[0])
        probability = None if found.probabilities is None else float(found.probabilities[0])
        return PairComparison(answer, probability, float(found.vote_shares[0]), float(found.scores[0]))

    def compare_all(self, pairs: Any) -> PairComparisons:
        """Compare the items of each of n pairs.

        Parameters
        ----------
        pairs : Pairs, or array-like of shape (n, 2, n_features), or (n, 2) with ``preprocessor``
        """
        distances = self._space_distances(pairs)
        combined = self._combined(distances)
        probabilities = self._probability(combined) if hasattr(self, "slope_") else None
        return PairComparisons(
            self._answers(combined), probabilities, self._vote_share(distances), self._score(combined)
        )

    def predict(self, pairs: Any) -> NDArray[np.str_]:
        """Return the answer for each of n pairs: "yes", "no" or "unknown"."""
        return self._answers(self._combined(self._space_distances(pairs)))

    def probability(self, pairs: Any) -> NDArray[np.float64]:
        """Return the probability that a pair is similar, for each of n pairs. Call `calibrate` first."""
        self._check_parameters()
        if not hasattr(self, "slope_"):
            raise NotFittedError(
                "This Comparator has no calibrated probabilities. Call calibrate() with labelled pairs first, "
                "or use vote_share(), which needs no calibration."
            )
        return self._probability(self._combined(self._space_distances(pairs)))

    def vote_share(self, pairs: Any) -> NDArray[np.float64]:
        """Return the vote share of each of n pairs, P of the paper. See `PairComparison`."""
        return self._vote_share(self._space_distances(pairs))

    def decision_function(self, pairs: Any) -> NDArray[np.float64]:
        """Return the score of each of n pairs. A higher score means more similar items. No threshold is needed.

        If the metric's distances are at most 2, the score is one minus the weighted median of D / 2 over the
        spaces. For other metrics, the score is the negative weighted median of D. ``rule="mean"`` uses the weighted
        mean instead of the weighted median.
        """
        return self._score(self._combined(self._space_distances(pairs)))

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
        """Choose the threshold and fit the probabilities on labelled pairs.

        Pass either ``target`` or ``target_far``. With ``target_far``, the FAR on the given pairs is at most this
        value. With ``target_frr``, the same is true of the FRR. On other pairs, both rates may be higher. A warning
        is issued if there are too few pairs for a target rate. ``target_far`` needs at least ``10 / target_far``
        dissimilar pairs, and ``target_frr`` needs at least ``10 / target_frr`` similar pairs.

        The probability of a pair is a logistic function of its distance (Platt scaling). The probabilities are
        valid only for data with the same share of similar pairs as the calibration pairs.

        Parameters
        ----------
        pairs : Pairs, or array-like of shape (n, 2, n_features), or (n, 2) with ``preprocessor``
        same : array-like of shape (n,)
            The labels: +1 or True for similar pairs, -1 or False for dissimilar pairs. Do not pass ``same`` if
            ``pairs`` is a `Pairs` object, because a `Pairs` object contains the labels.
        target : {"accuracy", "f1", "eer"}
            "accuracy" maximises the accuracy. "f1" maximises the F1 score, with similar pairs as the positive
            class. "eer" makes the false accept rate (FAR) and the false reject rate (FRR) as equal as possible.
        target_far : float
            The highest allowed FAR. The threshold accepts as many similar pairs as possible at this FAR.
        target_frr : float
            The highest allowed FRR. It requires ``target_far``. With both target rates, `calibrate` chooses two
            thresholds, and the answer for pairs between the two thresholds is unknown.
        """
        given = [name for name, value in (("target", target), ("target_far", target_far)) if value is not None]
        if len(given) != 1 or (target_frr is not None and target_far is None):
            raise InvalidInputError(
                "calibrate() needs either target= ('accuracy', 'f1' or 'eer') or target_far=. target_frr= is valid "
                f"only together with target_far=. Got target={shorten(target)}, target_far={shorten(target_far)}, "
                f"target_frr={shorten(target_frr)}."
            )
        labelled, truth = self._labelled(pairs, same)
        distances = self._combined(self._space_distances(labelled))
        roc = Roc.of(-distances, truth)
        if target is not None:
            yes = no = _just_above(-roc.best_threshold(target))
        else:
            assert target_far is not None
            yes = no = _just_above(-roc.threshold_at_far(target_far))
            if target_frr is not None:
                no = _just_above(-roc.threshold_at_frr(target_frr))
                if no < yes:  # one threshold between 'no' and 'yes' achieves both rates
                    yes = no = no + (yes - no) / 2 if np.isfinite(no) else yes
        self.yes_below_, self.no_from_ = float(yes), float(no)
        self.slope_, self.intercept_ = _platt_scaling(distances, truth)
        n_false_accepts, n_false_rejects = int((distances[~truth] < yes).sum()), int((distances[truth] >= no).sum())
        self.calibration_warnings_ = [
            *_too_few_pairs("target_far", target_far, n_false_accepts, roc.n_dissimilar, "dissimilar"),
            *_too_few_pairs("target_frr", target_frr, n_false_rejects, roc.n_similar, "similar"),
        ]
        for warning in self.calibration_warnings_:
            warn_caller(warning)
        return self

    def roc(self, pairs: Any, same: Any = None) -> Roc:
        """Return the receiver operating characteristic of `decision_function` on labelled pairs."""
        labelled, truth = self._labelled(pairs, same)
        return Roc.of(self.decision_function(labelled), truth)

    def auc(self, pairs: Any, same: Any = None) -> float:
        """Return the area under the ROC curve (AUC).

        The area is the probability that a similar pair scores higher than a dissimilar pair.
        """
        return self.roc(pairs, same).auc

    def eer(self, pairs: Any, same: Any = None) -> float:
        """Return the equal error rate (EER).

        At the threshold of the EER, the false accept rate and the false reject rate are equal.
        """
        return self.roc(pairs, same).eer

    def tar_at_far(self, pairs: Any, same: Any = None, far: float = 1e-3) -> float:
        """Return the highest true accept rate of all thresholds with a false accept rate of at most ``far``."""
        return self.roc(pairs, same).tar_at_far(far)

    @property
    def thresholds(self) -> tuple[float, float]:
        """The two thresholds: the answer is yes below the first threshold and no from the second threshold on.

        The thresholds are the values that `calibrate` chose. Without calibration, both are the ``threshold``
        parameter, or the paper's value if ``threshold`` is None. In all cases, ``band`` is subtracted from the
        first threshold and added to the second threshold.
        """
        if hasattr(self, "yes_below_"):
            yes, no = self.yes_below_, self.no_from_
        elif self.threshold is not None:
            yes = no = self.threshold
        elif self.metric.diameter is not None:
            yes = no = _PAPERS_THRESHOLD
        else:
            raise NotFittedError(
                "This Comparator has no threshold. There is no default threshold for "
                f"{type(self.metric).__name__}, because its distances have no upper bound. Pass threshold=... or "
                "call calibrate()."
            )
        return yes - self.band, no + self.band

    # -- files -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric and the calibration to a file that `oahu.load` reads. The preprocessor is not saved."""
        model_files.save(self, path)

    def _to_content(self) -> Content:
        self._check_parameters()
        threshold = None if self.threshold is None else float(self.threshold)  # may be a numpy scalar
        state: dict[str, Any] = {"threshold": threshold, "rule": self.rule, "band": float(self.band)}
        if hasattr(self, "yes_below_"):
            state["calibrated"] = [str(self.yes_below_), str(self.no_from_)]  # JSON has no infinity
            state["probability"] = [self.slope_, self.intercept_]
        return model_files.with_nested_model(Content(state, {}), "metric", self.metric)

    @classmethod
    def _from_content(cls, content: Content) -> Comparator:
        parameters = {name: content.state[name] for name in _SAVED}
        comparator = cls(model_files.nested_model(content, "metric"), **parameters)
        comparator._check_parameters()
        if "calibrated" in content.state:
            comparator.yes_below_, comparator.no_from_ = map(float, content.state["calibrated"])
            if not comparator.yes_below_ <= comparator.no_from_:
                raise ValueError(f"the thresholds must be ascending, not {shorten(content.state['calibrated'])}")
            comparator.slope_, comparator.intercept_ = map(float, content.state["probability"])
            if not np.isfinite([comparator.slope_, comparator.intercept_]).all():
                raise ValueError(
                    f"the probability parameters must be finite, not {shorten(content.state['probability'])}"
                )
        return comparator

    # -- internals ---------------------------------------------------------------------------------------

    def _space_distances(self, pairs: Any) -> NDArray[np.float64]:
        """Return the distances of n pairs in every space, as an array of shape (n_spaces, n).

        If the metric has a diameter, the distances are divided by it.
        """
        self._check_parameters()
        valid = self._as_pairs(pairs)
        if not valid.by_value and not valid.is_sparse and len(self.metric.spaces) > 1:
            return self._distances_by_row(valid) / (self.metric.diameter or 1.0)
        if valid.is_sparse and not self.metric.accepts_sparse:
            as_array(valid.table, "items")  # raises an error, because the metric needs dense items
        parts = []
        metric, dtype = self.metric.for_verification, self.metric.dtype
        for start, block in valid.sparse_blocks(dtype) if valid.is_sparse else valid.blocks(dtype):
            valid.check_finite(start, block)
            left, right = (block[::2], block[1::2]) if valid.is_sparse else (block[:, 0], block[:, 1])
            try:
                parts.append(metric.space_distances_checked(left, right))
            except OverflowedItemError:
                _raise_for_pair(metric, start, left, right)
                raise
        return np.concatenate(parts, axis=1) / (self.metric.diameter or 1.0)

    def _distances_by_row(self, pairs: Pairs) -> NDArray[np.float64]:
        """Return the distances in every space, for pairs of rows of the preprocessor.

        If a row is in several pairs, it is encoded only once.
        """
        rows, ends = np.unique(pairs.indices, return_inverse=True)
        try:
            encoded = self.metric.for_verification.encode(pairs.table[rows])
        except OverflowedItemError as error:
            pair = int(np.flatnonzero((pairs.indices == rows[error.row]).any(axis=1))[0])
            raise OverflowedItemError(error.about(f"an item of pair {pair}"), pair) from error
        except InvalidInputError:
            for start, block in pairs.blocks(self.metric.dtype):
                pairs.check_finite(start, block)  # this error names the pair
            raise
        left, right = ends.reshape(-1, 2).T
        distances = np.empty((len(encoded), len(left)))
        for start in range(0, len(left), _BLOCK):
            part = slice(start, start + _BLOCK)
            for space, vectors in enumerate(encoded):
                differences = (vectors[left[part]] - vectors[right[part]]).astype(np.float64)
                distances[space, part] = np.sqrt(np.square(differences).sum(axis=1))
        return distances

    def _as_pairs(self, pairs: Any) -> Pairs:
        if isinstance(pairs, Pairs):
            pairs.check_features(self.metric.n_features, type(self).__name__)
            return pairs
        given = as_array(pairs, "pairs")
        return self._new_pairs(given, np.ones(given.shape[:1], bool))  # the labels are not used

    def _new_pairs(self, pairs: Any, same: Any) -> Pairs:
        return Pairs(
            pairs,
            same,
            preprocessor=self.preprocessor,
            n_features=self.metric.n_features,
            owner=type(self).__name__,
            accept_sparse=self.metric.accepts_sparse,
        )

    def _labelled(self, pairs: Any, same: Any) -> tuple[Pairs, NDArray[np.bool_]]:
        """Return validated pairs and their labels."""
        self._check_parameters()
        if isinstance(pairs, Pairs):
            if same is not None:
                raise InvalidInputError("The pairs are a Pairs object, which contains the labels. Omit same=.")
            return self._as_pairs(pairs), pairs.same
        if same is None:
            raise InvalidInputError(
                "The pairs need labels. Pass them as same=, with +1 or True for similar pairs and -1 or False for "
                "dissimilar pairs."
            )
        labelled = self._new_pairs(pairs, same)
        return labelled, labelled.same

    def _combined(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one distance for each pair: the weighted median or mean over the spaces."""
        weights = np.array([space.weight for space in self.metric.spaces])
        if self.rule == "mean":
            return np.asarray(weights @ distances)
        order = np.argsort(distances, axis=0, kind="stable")
        reached = np.cumsum(weights[order], axis=0) >= _HALF
        middle = np.take_along_axis(order, np.argmax(reached, axis=0)[None], axis=0)
        return np.asarray(np.take_along_axis(distances, middle, axis=0)[0])

    def _score(self, combined: NDArray[np.float64]) -> NDArray[np.float64]:
        largest = 0.0 if self.metric.diameter is None else 1.0
        return np.asarray(largest - combined)

    def _answers(self, combined: NDArray[np.float64]) -> NDArray[np.str_]:
        yes_below, no_from = self.thresholds
        return np.where(combined < yes_below, "yes", np.where(combined >= no_from, "no", "unknown"))

    def _probability(self, combined: NDArray[np.float64]) -> NDArray[np.float64]:
        return _sigmoid(self.slope_ * combined + self.intercept_)

    def _vote_share(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the vote share of each pair, P(x1, x2) of Eq. (sim_com). T is the mean of the two thresholds."""
        weights = np.array([space.weight for space in self.metric.spaces])
        yes_below, no_from = self.thresholds
        middle = yes_below if yes_below == no_from else yes_below + (no_from - yes_below) / 2
        return np.asarray(weights @ (distances < middle))

    def _check_parameters(self) -> None:
        as_metric(self.metric, self)
        check_choice(self, "rule", self.rule, _RULES)
        check_real(self, "band", self.band, 0, np.inf, closed="left")
        if self.threshold is not None:
            check_real(self, "threshold", self.threshold, -np.inf, np.inf)


def _raise_for_pair(metric: Metric, start: int, left: Any, right: Any) -> None:
    """Raise `OverflowedItemError` for the first pair that contains an item with an overflow in its encoding.

    ``left`` and ``right`` contain the items of a block of pairs. ``start`` is the index of the first pair of the
    block.
    """
    for row in range(left.shape[0]):
        try:
            metric.space_distances_checked(left[row : row + 1], right[row : row + 1])
        except OverflowedItemError as error:
            pair = start + row
            raise OverflowedItemError(error.about(f"an item of pair {pair}"), pair) from error


def _too_few_pairs(name: str, rate: float | None, n_errors: int, n_pairs: int, kind: str) -> list[str]:
    """Return a list with a warning if there are too few pairs to choose a threshold for a target rate.

    If there are enough pairs, the list is empty.
    """
    if rate is None or n_pairs * rate >= _ERRORS_NEEDED:
        return []
    needed = "infinitely many" if rate < 1e-100 else f"about {_ERRORS_NEEDED / rate:,.0f}"
    bound = rate_upper_bound(n_errors, n_pairs)
    return [
        f"{name}={rate:g} needs {needed} {kind} pairs ({_ERRORS_NEEDED} / rate). Got {n_pairs:,} pairs. The true "
        f"rate may be as high as {bound:.2g} (95 % confidence)."
    ]


def _platt_scaling(distances: NDArray[np.float64], similar: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the slope and the intercept of ``P(similar) = sigmoid(slope D + intercept)`` by maximum likelihood.

    The labels are smoothed as in Platt, Probabilistic outputs for support vector machines, 1999. Without smoothing,
    the slope would be infinite if a threshold separates all similar pairs from all dissimilar pairs.
    """
    from sklearn.linear_model import LogisticRegression

    n_similar = int(similar.sum())
    likely, unlikely = (n_similar + 1) / (n_similar + 2), 1 / (len(similar) - n_similar + 2)
    targets = np.where(similar, likely, unlikely)
    largest = float(np.abs(distances).max()) or 1.0
    scaled = distances / largest
    centre, spread = float(scaled.mean()), float(scaled.std()) or 1.0
    inputs = np.tile((scaled - centre) / spread, 2)[:, None]
    labels, weights = np.repeat([1, 0], len(similar)), np.concatenate([targets, 1 - targets])
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(inputs, labels, weights)
    slope, intercept = float(model.coef_[0, 0]) / spread, float(model.intercept_[0])
    return slope / largest, intercept - slope * centre


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``1 / (1 + exp(-values))`` without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(values / 2)))


def _just_above(number: float) -> float:
    """Return the next larger float."""
    return float(np.nextafter(number, np.inf)) if np.isfinite(number) else number
