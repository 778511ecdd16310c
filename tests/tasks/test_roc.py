"""The ROC curve and its thresholds against loops over all thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from oahu.exceptions import InvalidInputError
from oahu.tasks.roc import Roc, Target

TARGETS: list[Target] = ["accuracy", "f1", "eer"]
Pairs = list[tuple[Any, bool]]  # score, and whether the pair is similar


@st.composite
def pairs_of(draw: st.DrawFn, score: st.SearchStrategy[Any]) -> Pairs:
    """Similar and dissimilar pairs in any order."""
    alike = draw(st.lists(score, min_size=1, max_size=12))
    unlike = draw(st.lists(score, min_size=1, max_size=12))
    return draw(st.permutations([(s, True) for s in alike] + [(s, False) for s in unlike]))


TIED = pairs_of(st.integers(-3, 3))
RATES = st.floats(0, 1) | st.integers(1, 12).flatmap(lambda n: st.integers(0, n).map(lambda k: k / n))


def roc_of(pairs: Pairs, dtype: str = "float64") -> Roc:
    return Roc.of(np.array([score for score, _ in pairs], dtype), [same for _, same in pairs])


def rates(pairs: Pairs, threshold: float) -> tuple[Fraction, Fraction]:
    """far and tar, by counting pairs."""
    alike = [score >= threshold for score, same in pairs if same]
    unlike = [score >= threshold for score, same in pairs if not same]
    return Fraction(sum(unlike), len(unlike)), Fraction(sum(alike), len(alike))


def cuts(pairs: Pairs) -> list[float]:
    """One threshold for each possible split, the highest first."""
    return [math.inf, *sorted({float(score) for score, _ in pairs}, reverse=True)]


def softened(pairs: Pairs, cut: float) -> float:
    """Half-way from a cut to the next lower score, for scores where that is exact."""
    lower = [score for score, _ in pairs if score < cut]
    return (cut + max(lower)) / 2 if lower and cut < math.inf else cut


# -- the curve -----------------------------------------------------------------------------------------


@given(pairs=TIED)
def test_there_is_a_point_for_each_distinct_score_and_one_that_accepts_no_pair(pairs: Pairs) -> None:
    roc = roc_of(pairs)
    expected = [(cut, *map(float, rates(pairs, cut))) for cut in cuts(pairs)]
    assert list(zip(roc.thresholds.tolist(), roc.far.tolist(), roc.tar.tolist(), strict=True)) == expected


@given(pairs=TIED)
def test_frr_is_the_share_of_similar_pairs_below_each_threshold(pairs: Pairs) -> None:
    assert roc_of(pairs).frr.tolist() == [float(1 - rates(pairs, cut)[1]) for cut in cuts(pairs)]


@given(pairs=TIED)
def test_pairs_of_each_kind_are_counted(pairs: Pairs) -> None:
    roc = roc_of(pairs)
    n_similar = len([1 for _, same in pairs if same])
    assert (roc.n_similar, roc.n_dissimilar) == (n_similar, len(pairs) - n_similar)


@given(pairs=TIED)
def test_auc_is_the_mann_whitney_statistic_with_ties_half(pairs: Pairs) -> None:
    duels = [Fraction((a > b) - (a < b) + 1, 2) for a, same in pairs if same for b, other in pairs if not other]
    assert roc_of(pairs).auc == float(sum(duels) / len(duels))


@given(pairs=TIED)
def test_eer_is_where_the_curve_crosses_the_falling_diagonal(pairs: Pairs) -> None:
    points = [rates(pairs, cut) for cut in cuts(pairs)]
    crossings = set()
    for (far, tar), (next_far, next_tar) in pairwise(points):
        share = (1 - far - tar) / (next_far + next_tar - far - tar)
        if 0 <= share <= 1:
            crossings.add(far + share * (next_far - far))
    assert len(crossings) == 1
    assert roc_of(pairs).eer == pytest.approx(float(crossings.pop()), abs=1e-15)


@pytest.mark.parametrize(
    ("alike", "unlike", "eer"),
    [
        ([5, 5, 5, 1], [4, 4, 5, 0], 1 / 4),  # a point has far = frr = 1/4
        ([1, 1, 1], [1, 1], 1 / 2),  # the diagonal
        ([2, 3], [0, 1], 0.0),
        ([0, 1], [2, 3], 1.0),
        ([3, 1], [2, 1, 0], 2 / 5),  # a fifth of the way from (1/3, 1/2) to (2/3, 1)
    ],
    ids=["a point hits", "all tied", "perfect", "reversed", "between"],
)
def test_eer_of_known_curves(alike: list[int], unlike: list[int], eer: float) -> None:
    assert Roc.of(alike + unlike, [1] * len(alike) + [0] * len(unlike)).eer == pytest.approx(eer, abs=1e-15)


@given(pairs=TIED)
def test_negating_scores_and_swapping_the_kinds_keeps_auc_and_eer(pairs: Pairs) -> None:
    one, other = roc_of(pairs), roc_of([(-score, not same) for score, same in pairs])
    assert (other.auc, other.eer) == pytest.approx((one.auc, one.eer), abs=1e-15)


@pytest.mark.parametrize("separation", [0.5, 2.0, 4.0])
def test_two_gaussians_have_the_rates_of_theory(separation: float) -> None:
    n, rng = 100_000, np.random.default_rng(7)
    roc = Roc.of(np.concatenate([rng.normal(separation, size=n), rng.normal(size=n)]), [1] * n + [-1] * n)
    eer, auc = norm.cdf(-separation / 2), norm.cdf(separation / math.sqrt(2))
    # By symmetry the EER is, to first order, the mean of far and frr at d'/2: two independent shares of n. The AUC
    # is a mean over n^2 duels of n independent pairs of pairs at least. Five standard errors.
    assert roc.eer == pytest.approx(eer, abs=5 * math.sqrt(eer * (1 - eer) / (2 * n)))
    assert roc.auc == pytest.approx(auc, abs=5 * math.sqrt(auc * (1 - auc) / n))


@pytest.mark.parametrize(
    "transform",
    [np.exp, np.arctan, lambda s: s**3 + 100, lambda s: s * 1e-310],
    ids=["exp", "arctan", "cube", "denormal"],
)
@given(pairs=TIED, rate=RATES)
@settings(max_examples=30)
def test_auc_and_eer_depend_only_on_the_order_of_scores(
    transform: Callable[[Any], Any], pairs: Pairs, rate: float
) -> None:
    scores, same = np.array([float(score) for score, _ in pairs]), [same for _, same in pairs]
    moved = transform(scores)
    one, other = Roc.of(scores, same), Roc.of(moved, same)
    assert (other.far.tolist(), other.tar.tolist()) == (one.far.tolist(), one.tar.tolist())
    assert (other.auc, other.eer, other.tar_at_far(rate)) == (one.auc, one.eer, one.tar_at_far(rate))
    for chosen, moved_choice in zip(all_thresholds(one, rate), all_thresholds(other, rate), strict=True):
        assert (scores >= chosen).tolist() == (moved >= moved_choice).tolist()


# -- operating points ----------------------------------------------------------------------------------


def all_thresholds(roc: Roc, rate: float) -> list[float]:
    return [roc.threshold_at_far(rate), roc.threshold_at_frr(rate), *map(roc.best_threshold, TARGETS)]


@given(pairs=TIED, far=RATES)
def test_tar_at_far_is_the_best_that_a_threshold_achieves(pairs: Pairs, far: float) -> None:
    within = [rates(pairs, cut)[1] for cut in cuts(pairs) if float(rates(pairs, cut)[0]) <= far]
    assert roc_of(pairs).tar_at_far(far) == float(max(within))


@given(pairs=TIED, far=RATES)
def test_threshold_at_far_is_the_lowest_within_the_rate(pairs: Pairs, far: float) -> None:
    cut = min(cut for cut in cuts(pairs) if float(rates(pairs, cut)[0]) <= far)
    assert roc_of(pairs).threshold_at_far(far) == softened(pairs, cut)


@given(pairs=TIED, frr=RATES)
def test_threshold_at_frr_is_the_highest_within_the_rate(pairs: Pairs, frr: float) -> None:
    cut = max(cut for cut in cuts(pairs) if float(1 - rates(pairs, cut)[1]) <= frr)
    assert roc_of(pairs).threshold_at_frr(frr) == softened(pairs, cut)


def test_a_false_reject_rate_is_not_missed_by_rounding() -> None:
    assert 1 - 0.7 > 0.3  # so 1 - tar <= frr would be False for 7 of 10
    assert Roc.of([*range(1, 11), 0], [1] * 10 + [0]).threshold_at_frr(0.3) == 3.5


def goodness(pairs: Pairs, cut: float, target: str) -> Fraction:
    """The objective at a threshold, from the four counts."""
    tp, fp = (sum(score >= cut and same is kind for score, same in pairs) for kind in (True, False))
    fn, tn = (sum(score < cut and same is kind for score, same in pairs) for kind in (True, False))
    if target == "accuracy":
        return Fraction(tp + tn, len(pairs))
    if target == "f1":
        return Fraction(2 * tp, 2 * tp + fp + fn)
    return -abs(Fraction(fp, fp + tn) - Fraction(fn, fn + tp))


@pytest.mark.parametrize("target", TARGETS)
@given(pairs=TIED)
def test_best_threshold_is_the_highest_of_the_best(target: Target, pairs: Pairs) -> None:
    best = max(goodness(pairs, cut, target) for cut in cuts(pairs))
    cut = max(cut for cut in cuts(pairs) if goodness(pairs, cut, target) == best)
    assert roc_of(pairs).best_threshold(target) == softened(pairs, cut)


# Adjacent, tiny and huge floats: a mean of two is rounded to one of them or to zero, or overflows.
TIGHT = {
    dtype: [
        kind(x)
        for start in (0.0, 1.0, -1.0, float(np.finfo(dtype).max), float(np.finfo(dtype).min))
        for x in (
            kind(start),
            np.nextafter(kind(start), kind(0.5)),
            np.nextafter(np.nextafter(kind(start), kind(0.5)), kind(0.5)),
        )
    ]
    for dtype, kind in (("float16", np.float16), ("float32", np.float32), ("float64", np.float64))
}


@pytest.mark.parametrize("dtype", TIGHT)
@given(data=st.data())
def test_thresholds_between_scores_accept_the_same_pairs(dtype: str, data: st.DataObject) -> None:
    pairs = data.draw(pairs_of(st.sampled_from(TIGHT[dtype])))
    roc = roc_of(pairs, dtype)
    scores = np.array([score for score, _ in pairs], dtype)
    for far, tar in {rates(pairs, cut) for cut in cuts(pairs)}:
        most_permissive = min(cut for cut in cuts(pairs) if rates(pairs, cut)[0] <= far)
        assert (scores >= roc.threshold_at_far(float(far))).tolist() == (scores >= most_permissive).tolist()
        strictest = max(cut for cut in cuts(pairs) if rates(pairs, cut)[1] >= tar)
        assert (scores >= roc.threshold_at_frr(float(1 - tar))).tolist() == (scores >= strictest).tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_threshold_between_adjacent_floats_is_the_upper_one(dtype: str) -> None:
    """The lower one's last bit is 0, so that their mean is rounded down to it."""
    lower = np.ones((), dtype)[()]
    upper = np.nextafter(lower, lower + lower)
    assert Roc.of(np.array([lower, upper]), [0, 1]).best_threshold("accuracy") == float(upper)


@pytest.mark.parametrize("target", ["accuracy", "f1", "eer"])
def test_the_threshold_is_the_middle_of_the_widest_possible_gap(target: Target) -> None:
    largest = float(np.finfo(np.float64).max)
    assert Roc.of([-largest, largest], [0, 1]).best_threshold(target) == 0.0


def test_the_best_threshold_is_inf_where_every_threshold_accepts_mostly_wrong_pairs() -> None:
    assert Roc.of([3, 3, 2, 1], [0, 0, 0, 1]).best_threshold("accuracy") == math.inf


# -- input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "same", [[True, False, True], [1, 0, 1], [1, -1, 1], [1.0, -1.0, 1.0], np.array([True, False, True], object)]
)
def test_labels_may_have_three_forms(same: Any) -> None:
    roc = Roc.of([1, 2, 3], same)
    assert (roc.n_similar, roc.n_dissimilar, roc.auc) == (2, 1, 0.5)


@pytest.mark.parametrize("name", ["far", "tar", "thresholds"])
def test_the_arrays_are_read_only(name: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(Roc.of([1.0, 2.0], [0, 1]), name)[0] = 0


def test_the_given_arrays_are_not_changed() -> None:
    scores, same = np.array([3.0, 1.0, 2.0]), np.array([1, -1, 1])
    Roc.of(scores, same)
    assert (scores.tolist(), same.tolist()) == ([3.0, 1.0, 2.0], [1, -1, 1])
    scores[0] = same[0] = 0  # raises if it is read-only


@pytest.mark.parametrize(
    ("scores", "same", "message"),
    [
        ([], [], r"scores must have shape \(n,\), with at least one number.*\(0,\)"),
        ([[1, 2]], [1, 0], r"scores must have shape \(n,\).*Got shape \(1, 2\)"),
        (["a", "b"], [1, 0], "scores must be real numbers. Got strings"),
        ([1, math.nan], [1, 0], "scores must be finite numbers. Got NaN in row 1"),
        ([-math.inf, 1], [1, 0], "scores must be finite numbers. Got infinity in row 0"),
        ([1, 2, 3], [1, 0], r"one label for each score.*Got shape \(2,\)"),
        ([1, 2], [[1], [0]], r"one label for each score.*Got shape \(2, 1\)"),
        ([1, 2], ["yes", "no"], "same must be real numbers. Got strings"),
        ([1, 2, 3], [1, 0, 2], "True and False, 1 and 0, or .1 and -1.*Got 2 in row 2"),
        ([1, 2, 3], [1, -1, 0], "Got -1 among 1 and 0 in row 1"),
        ([1, 2], [1, math.nan], "Got nan in row 1"),
        ([1, 2], [1, 1], "all 2 pairs are similar. Add at least one dissimilar"),
        ([1, 2], [-1, -1], "all 2 pairs are dissimilar. Add at least one similar"),
    ],
)
def test_invalid_scores_and_labels_are_rejected(scores: Any, same: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Roc.of(scores, same)


@pytest.mark.parametrize("rate", [-0.01, 1.01, math.nan, "0.1", None, True])
@pytest.mark.parametrize(
    ("method", "name"), [("tar_at_far", "far"), ("threshold_at_far", "far"), ("threshold_at_frr", "frr")]
)
def test_a_rate_outside_0_and_1_is_rejected(method: str, name: str, rate: Any) -> None:
    with pytest.raises(InvalidInputError, match=rf"rate '{name}' must be in \[0, 1\]. Got {rate!r}"):
        getattr(Roc.of([1, 2], [0, 1]), method)(rate)


@pytest.mark.parametrize("target", ["F1", "", None, ["f1"]])
def test_an_unknown_target_is_rejected_with_the_valid_ones(target: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"one of 'accuracy', 'f1', 'eer'. Got "):
        Roc.of([1, 2], [0, 1]).best_threshold(target)
