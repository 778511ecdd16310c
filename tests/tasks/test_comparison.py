"""The comparator against the paper's rule in plain loops; its thresholds against an exhaustive search."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.metrics import roc_auc_score, roc_curve

from oahu import (
    OAHU,
    BilinearMetric,
    Comparator,
    CosineMetric,
    EnsembleMetric,
    EuclideanMetric,
    InvalidInputError,
    InvalidTypeError,
    MahalanobisMetric,
    ModelFileError,
    NotFittedError,
    OverflowedItemError,
    Pairs,
    load,
)
from oahu.metrics import Metric
from oahu.tasks.comparison import Rule

pytestmark = pytest.mark.filterwarnings("ignore:target_f.. *=.* needs .* pairs:UserWarning")

Floats = NDArray[np.floating]

D = 4
N = 300  # more than two blocks of pairs
RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(D, D))  # not symmetric
SAME = RNG.random(N) < 0.4
PAIRS = RNG.normal(size=(N, 2, D))
PAIRS[SAME, 1] = PAIRS[SAME, 0] + RNG.normal(0, 0.7, (SAME.sum(), D))


def ensemble(dtype: str = "float32") -> EnsembleMetric:
    learner = OAHU(n_layers=2, hidden_size=6, embedding_size=3, dtype=dtype, random_state=0)
    return learner.partial_fit(np.random.default_rng(1).normal(size=(60, 3, D))).metric()


MAKERS: dict[str, Callable[[], Metric]] = {
    "ensemble": ensemble,
    "ensemble of float64": lambda: ensemble("float64"),
    "cosine": lambda: CosineMetric(D),
    "Mahalanobis": lambda: MahalanobisMetric(MATRIX),
    "bilinear": lambda: BilinearMetric(MATRIX, normalize=False),
    "bilinear normalized": lambda: BilinearMetric(MATRIX, normalize=True),
    "diagonal": lambda: BilinearMetric(MATRIX[0], normalize=True),
    "Euclidean": lambda: EuclideanMetric(D),
}
BOUNDED = ("ensemble", "ensemble of float64", "cosine")
UNBOUNDED = tuple(name for name in MAKERS if name not in BOUNDED)
every_metric = pytest.mark.parametrize("name", MAKERS)
both_rules = pytest.mark.parametrize("rule", ["vote", "mean"])


@cache
def metric_of(name: str) -> Metric:
    return MAKERS[name]()


def comparator_of(name: str, rule: Rule = "vote", **parameters: Any) -> Comparator:
    """A comparator whose threshold accepts about half of the pairs."""
    comparator = Comparator(metric_of(name), rule=rule, **parameters)
    unit = 1.0 if name in BOUNDED else 0.0
    return comparator.set_params(threshold=unit - float(np.quantile(comparator.decision_function(PAIRS), 0.4321)))


# -- the rule, in plain loops --------------------------------------------------------------------------


def measures(metric: Metric, a: Floats, b: Floats) -> list[float]:
    """D_l / 2 in each space; D_l if distances are unbounded, the negative score if there are none."""
    if isinstance(metric, BilinearMetric):
        return [-metric.score(a, b)]
    half = 2 if isinstance(metric, EnsembleMetric | CosineMetric) else 1
    return [math.dist(*space.encode([a, b]).tolist()) / half for space in metric.spaces]


def vote_share_by_hand(metric: Metric, a: Floats, b: Floats, threshold: float) -> float:
    """P = sum_l alpha_l p_l, with p_l = 1 if D_l / 2 < T and 0 if not."""
    weights = [space.weight for space in metric.spaces]
    return math.fsum(w for w, d in zip(weights, measures(metric, a, b), strict=True) if d < threshold)


@every_metric
def test_the_vote_share_is_the_papers_probability(name: str) -> None:
    comparator = comparator_of(name)
    expected = [vote_share_by_hand(comparator.metric, a, b, comparator.threshold) for a, b in PAIRS]
    np.testing.assert_allclose(comparator.vote_share(PAIRS), expected, atol=1e-12)


@every_metric
def test_the_answer_is_yes_if_the_vote_share_is_at_least_half(name: str) -> None:
    comparator = comparator_of(name)
    expected = [vote_share_by_hand(comparator.metric, a, b, comparator.threshold) >= 0.5 for a, b in PAIRS]
    assert 0 < sum(expected) < N
    assert comparator.predict(PAIRS).tolist() == ["yes" if yes else "no" for yes in expected]


@every_metric
def test_the_mean_rule_compares_the_weighted_mean_with_the_threshold(name: str) -> None:
    comparator = comparator_of(name, "mean")
    weights = [space.weight for space in comparator.metric.spaces]
    means = [
        math.fsum(w * d for w, d in zip(weights, measures(comparator.metric, a, b), strict=True)) for a, b in PAIRS
    ]
    assert comparator.predict(PAIRS).tolist() == ["yes" if mean < comparator.threshold else "no" for mean in means]


def by_angles(weights: list[float]) -> EnsembleMetric:
    """Spaces that measure the angle of two features each: E_l of the features 2 l and 2 l + 1, at least 0."""
    d = 2 * len(weights)
    picks = [np.eye(d)[2 * level : 2 * level + 2] for level in range(len(weights))]
    return EnsembleMetric.frozen(
        [np.eye(d)] * (len(weights) - 1),
        [np.zeros(d)] * (len(weights) - 1),
        picks,
        [np.zeros(2)] * len(weights),
        np.array(weights),
        version=0,
    )


def turned(angles: list[float]) -> tuple[list[float], list[float]]:
    """A pair that is the given angles, in radians, apart in the spaces of `by_angles`."""
    return [1.0, 0.0] * len(angles), [part for angle in angles for part in (math.cos(angle), math.sin(angle))]


shares = st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any)


@settings(max_examples=50)
@given(shares=shares, data=st.data(), threshold=st.floats(0.01, 0.7))
def test_the_vote_is_exact_where_weights_sum_to_half(
    shares: list[int], data: st.DataObject, threshold: float
) -> None:
    """Rounding makes sums such as 1/6 + 1/6 + 1/6 smaller or larger than 1/2."""
    angle = st.sampled_from([0.0, 0.3, 0.7, 1.0, 1.5])
    angles = data.draw(st.lists(angle, min_size=len(shares), max_size=len(shares)))
    apart = [math.sin(angle / 2) for angle in angles]  # D / 2
    assume(all(abs(d - threshold) > 1e-9 for d in apart))
    P = Fraction(sum(n for n, d in zip(shares, apart, strict=True) if d < threshold), sum(shares))
    comparator = Comparator(by_angles([n / sum(shares) for n in shares]), threshold=threshold)
    found = comparator.compare(*turned(angles))
    assert (found.answer, found.vote_share) == ("yes" if 2 * P >= 1 else "no", pytest.approx(float(P)))


def test_weights_that_sum_to_half_up_to_rounding_count_as_half() -> None:
    weights = [1 / 12, 4 / 12, 1 / 12, 6 / 12]
    assert weights[0] + weights[1] + weights[2] < 0.5
    found = Comparator(by_angles(weights), threshold=0.5).compare(*turned([0.1, 0.2, 0.3, 1.5]))
    assert found.answer == "yes"


@settings(max_examples=50)
@given(data=st.data(), n=st.integers(1, 5), threshold=st.floats(0.01, 0.7))
def test_the_vote_equals_the_papers_for_any_weights(data: st.DataObject, n: int, threshold: float) -> None:
    raw = data.draw(st.lists(st.floats(0.01, 1), min_size=n, max_size=n))
    weights = [w / math.fsum(raw) for w in raw]
    angles = data.draw(st.lists(st.floats(0, 1.5), min_size=n, max_size=n))
    apart = [math.sin(angle / 2) for angle in angles]
    P = math.fsum(w for w, d in zip(weights, apart, strict=True) if d < threshold)
    assume(all(abs(d - threshold) > 1e-7 for d in apart) and abs(P - 0.5) > 1e-7)
    found = Comparator(by_angles(weights), threshold=threshold).compare(*turned(angles))
    assert found.answer == ("yes" if P >= 0.5 else "no")


# -- at the threshold ----------------------------------------------------------------------------------


def test_a_pair_at_the_threshold_is_dissimilar() -> None:
    found = Comparator(CosineMetric(2), threshold=1.0).compare([1.0, 0.0], [-1.0, 0.0])  # D / 2 = 1
    assert (found.answer, found.vote_share) == ("no", 0.0)


def test_a_pair_just_below_the_threshold_is_similar() -> None:
    found = Comparator(CosineMetric(2), threshold=math.nextafter(1, 2)).compare([1.0, 0.0], [-1.0, 0.0])
    assert (found.answer, found.vote_share) == ("yes", 1.0)


@pytest.mark.parametrize("name", BOUNDED)
def test_the_default_threshold_is_the_papers(name: str) -> None:
    expected = Comparator(metric_of(name), threshold=0.55).predict(PAIRS)
    assert Comparator(metric_of(name)).predict(PAIRS).tolist() == expected.tolist()


@pytest.mark.parametrize("name", UNBOUNDED)
@pytest.mark.parametrize("method", ["predict", "vote_share"])
def test_an_unbounded_metric_has_no_default_threshold(name: str, method: str) -> None:
    with pytest.raises(NotFittedError, match=r"Pass threshold=\.\.\. or call calibrate"):
        getattr(Comparator(metric_of(name)), method)(PAIRS)


def test_the_error_without_a_threshold_is_also_scikit_learns() -> None:
    with pytest.raises(sklearn.exceptions.NotFittedError):
        Comparator(EuclideanMetric(1)).compare([0.0], [1.0])


@pytest.mark.parametrize(
    ("apart", "answer"),
    [(1.0, "yes"), (2.0, "unknown"), (3.0, "unknown"), (3.9, "unknown"), (4.0, "no"), (9.0, "no")],
)
def test_within_the_band_the_answer_is_unknown(apart: float, answer: str) -> None:
    comparator = Comparator(EuclideanMetric(1, "float64"), threshold=3.0, band=1.0)
    assert comparator.compare([0.0], [apart]).answer == answer


def test_a_band_only_turns_answers_into_unknown() -> None:
    plain, banded = comparator_of("ensemble"), comparator_of("ensemble", band=0.05)
    kept = banded.predict(PAIRS) != "unknown"
    assert 0 < kept.sum() < N
    assert banded.predict(PAIRS)[kept].tolist() == plain.predict(PAIRS)[kept].tolist()


def test_a_band_does_not_change_the_vote_share() -> None:
    comparator = comparator_of("ensemble")
    before = comparator.vote_share(PAIRS)
    np.testing.assert_array_equal(comparator.set_params(band=0.125).vote_share(PAIRS), before)


# -- scores --------------------------------------------------------------------------------------------


@every_metric
@both_rules
def test_predict_equals_a_threshold_on_the_scores(name: str, rule: Rule) -> None:
    comparator = Comparator(metric_of(name), rule=rule)
    scores = np.sort(comparator.decision_function(PAIRS))
    cut = N // 3
    bound = float(scores[cut - 1 : cut + 1].mean())
    unit = 1.0 if name in BOUNDED else 0.0
    answers = comparator.set_params(threshold=unit - bound).predict(PAIRS)
    assert (answers == "yes").tolist() == (comparator.decision_function(PAIRS) > bound).tolist()


@pytest.mark.parametrize("name", ["cosine", "Mahalanobis", "bilinear", "bilinear normalized", "Euclidean"])
def test_the_score_in_one_space_is_the_scaled_score_of_the_metric(name: str) -> None:
    metric = metric_of(name)
    plain = metric.score(PAIRS[:, 0], PAIRS[:, 1])
    expected = 1 + plain / 2 if name in BOUNDED else plain
    np.testing.assert_allclose(Comparator(metric).decision_function(PAIRS), expected, atol=1e-6)


def test_an_asymmetric_similarity_stays_asymmetric() -> None:
    comparator = Comparator(BilinearMetric(np.array([[0.0, 1.0], [0.0, 0.0]]), normalize=False), threshold=-0.5)
    x, y = [1.0, 0.0], [0.0, 1.0]
    assert [comparator.compare(x, y).answer, comparator.compare(y, x).answer] == ["yes", "no"]


@every_metric
@both_rules
def test_compare_equals_predict_for_one_pair(name: str, rule: Rule) -> None:
    comparator = comparator_of(name, rule)
    one = comparator.compare(*PAIRS[7])
    many = (comparator.predict(PAIRS)[7], comparator.vote_share(PAIRS)[7], comparator.decision_function(PAIRS)[7])
    assert (one.answer, one.vote_share, one.score) == (many[0], pytest.approx(many[1]), pytest.approx(many[2]))


# -- calibration against an exhaustive search ----------------------------------------------------------

Judged = list[tuple[int, bool]]  # distance, and whether similar


@st.composite
def judged_pairs(draw: st.DrawFn) -> Judged:
    """Similar and dissimilar pairs in any order, many at the same distance."""
    similar = draw(st.lists(st.integers(0, 6), min_size=1, max_size=10))
    dissimilar = draw(st.lists(st.integers(0, 6), min_size=1, max_size=10))
    return draw(st.permutations([(d, True) for d in similar] + [(d, False) for d in dissimilar]))


def on_a_line(judged: Judged) -> tuple[Floats, list[bool]]:
    return np.array([[[0.0], [float(d)]] for d, _ in judged]), [same for _, same in judged]


CUTS = [cut - 0.5 for cut in range(8)]  # one threshold for each possible split


def said_by_cut(judged: Judged, cut: float) -> list[bool]:
    return [d < cut for d, _ in judged]


def accuracy(judged: Judged, said: list[bool]) -> Fraction:
    return Fraction(sum(yes == same for yes, (_, same) in zip(said, judged, strict=True)), len(judged))


def f1(judged: Judged, said: list[bool]) -> Fraction:
    right = sum(yes and same for yes, (_, same) in zip(said, judged, strict=True))
    wrong = sum(yes != same for yes, (_, same) in zip(said, judged, strict=True))
    return Fraction(2 * right, 2 * right + wrong)


def share(judged: Judged, said: list[bool], kind: bool) -> Fraction:
    """The share of accepted pairs among the similar (or dissimilar) ones."""
    among = [yes for yes, (_, same) in zip(said, judged, strict=True) if same == kind]
    return Fraction(sum(among), len(among))


def minus_gap(judged: Judged, said: list[bool]) -> Fraction:
    """The negative absolute difference of the false accept and the false reject rate."""
    return -abs(share(judged, said, False) - (1 - share(judged, said, True)))


GOALS = {"accuracy": accuracy, "f1": f1, "eer": minus_gap}
rates = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0]) | st.floats(0, 1)


def answers_of(judged: Judged, **target: Any) -> list[str]:
    """The answers for the calibration pairs."""
    pairs, same = on_a_line(judged)
    answers: list[str] = Comparator(EuclideanMetric(1)).calibrate(pairs, same, **target).predict(pairs).tolist()
    return answers


@pytest.mark.parametrize("target", GOALS)
@given(judged=judged_pairs())
def test_no_threshold_is_better_than_the_calibrated_one(target: str, judged: Judged) -> None:
    answers = answers_of(judged, target=target)
    best = max(GOALS[target](judged, said_by_cut(judged, cut)) for cut in CUTS)
    assert GOALS[target](judged, [answer == "yes" for answer in answers]) == best


@pytest.mark.parametrize("target", GOALS)
@given(judged=judged_pairs())
def test_one_calibrated_threshold_leaves_nothing_unknown(target: str, judged: Judged) -> None:
    assert "unknown" not in answers_of(judged, target=target)


@given(judged=judged_pairs(), far=rates)
def test_a_calibrated_false_accept_rate_holds(judged: Judged, far: float) -> None:
    said = [answer == "yes" for answer in answers_of(judged, target_far=far)]
    assert float(share(judged, said, False)) <= far


@given(judged=judged_pairs(), far=rates)
def test_no_threshold_within_a_false_accept_rate_accepts_more(judged: Judged, far: float) -> None:
    said = [answer == "yes" for answer in answers_of(judged, target_far=far)]
    allowed = [by for by in (said_by_cut(judged, cut) for cut in CUTS) if float(share(judged, by, False)) <= far]
    assert share(judged, said, True) == max(share(judged, by, True) for by in allowed)


@given(judged=judged_pairs(), far=rates, frr=rates)
def test_both_calibrated_rates_hold(judged: Judged, far: float, frr: float) -> None:
    answers = answers_of(judged, target_far=far, target_frr=frr)
    assert float(share(judged, [answer == "yes" for answer in answers], False)) <= far
    assert float(share(judged, [answer == "no" for answer in answers], True)) <= frr


@given(judged=judged_pairs(), far=rates, frr=rates)
def test_the_answer_is_unknown_only_where_neither_rate_would_hold(judged: Judged, far: float, frr: float) -> None:
    answers = answers_of(judged, target_far=far, target_frr=frr)
    for d in {d for (d, _), answer in zip(judged, answers, strict=True) if answer == "unknown"}:
        assert float(share(judged, [other <= d for other, _ in judged], False)) > far
        assert float(share(judged, [other >= d for other, _ in judged], True)) > frr


@given(judged=judged_pairs(), far=rates, frr=rates)
def test_accepted_pairs_are_nearer_than_rejected_ones(judged: Judged, far: float, frr: float) -> None:
    pairs, same = on_a_line(judged)
    comparator = Comparator(EuclideanMetric(1)).calibrate(pairs, same, target_far=far, target_frr=frr)
    assert comparator.yes_below_ <= comparator.no_from_


@given(judged=judged_pairs(), far=rates, frr=rates)
def test_a_nearer_pair_never_has_a_less_similar_answer(judged: Judged, far: float, frr: float) -> None:
    answers = answers_of(judged, target_far=far, target_frr=frr)
    order = [answer for _, answer in sorted(zip([d for d, _ in judged], answers, strict=True))]
    ranks = [("yes", "unknown", "no").index(answer) for answer in order]
    assert ranks == sorted(ranks)


@every_metric
@both_rules
def test_calibration_finds_the_best_accuracy_with_every_metric(name: str, rule: Rule) -> None:
    comparator = Comparator(metric_of(name), rule=rule)
    scores = comparator.decision_function(PAIRS)
    best = max(np.mean((scores >= cut) == SAME) for cut in [*scores.tolist(), math.inf])
    answers = comparator.calibrate(PAIRS, SAME, target="accuracy").predict(PAIRS)
    assert np.mean((answers == "yes") == SAME) == best


@every_metric
@both_rules
def test_a_false_accept_rate_holds_with_every_metric(name: str, rule: Rule) -> None:
    comparator = Comparator(metric_of(name), rule=rule).calibrate(PAIRS, SAME, target_far=0.1)
    assert np.mean(comparator.predict(PAIRS)[~SAME] == "yes") <= 0.1


def test_a_calibrated_threshold_overrides_the_given_one() -> None:
    pairs, same = on_a_line([(1, True), (2, True), (5, False)])
    comparator = Comparator(EuclideanMetric(1), threshold=0.5)
    assert comparator.calibrate(pairs, same, target="accuracy").predict(pairs).tolist() == ["yes", "yes", "no"]


def test_a_threshold_lies_between_the_pairs_that_it_separates() -> None:
    pairs, same = on_a_line([(1, True), (2, True), (4, False)])
    comparator = Comparator(EuclideanMetric(1)).calibrate(pairs, same, target="accuracy")
    assert (comparator.yes_below_, comparator.no_from_) == (pytest.approx(3.0), pytest.approx(3.0))


def test_no_pair_is_accepted_where_no_threshold_reaches_the_rate() -> None:
    pairs, same = on_a_line([(0, False), (1, True), (2, False)])
    comparator = Comparator(EuclideanMetric(1)).calibrate(pairs, same, target_far=0.0)
    assert (comparator.yes_below_, comparator.predict(pairs).tolist()) == (-math.inf, ["no", "no", "no"])


# -- curves --------------------------------------------------------------------------------------------


@every_metric
@both_rules
def test_auc_equals_scikit_learns(name: str, rule: Rule) -> None:
    comparator = Comparator(metric_of(name), rule=rule)
    expected = roc_auc_score(SAME, comparator.decision_function(PAIRS))
    assert comparator.auc(PAIRS, SAME) == pytest.approx(expected, abs=1e-12)


@every_metric
def test_the_roc_curve_equals_scikit_learns(name: str) -> None:
    comparator = Comparator(metric_of(name))
    far, tar, _ = roc_curve(SAME, comparator.decision_function(PAIRS), drop_intermediate=False)
    curve = comparator.roc(PAIRS, SAME)
    np.testing.assert_allclose([curve.far, curve.tar], [far, tar], atol=1e-12)


@every_metric
def test_eer_is_where_scikit_learns_curve_crosses_the_diagonal(name: str) -> None:
    comparator = Comparator(metric_of(name))
    far, tar, _ = roc_curve(SAME, comparator.decision_function(PAIRS))
    expected = brentq(lambda x: 1 - x - np.interp(x, far, tar), 0, 1, xtol=1e-12)
    assert comparator.eer(PAIRS, SAME) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["ensemble", "bilinear"])
@pytest.mark.parametrize("far", [0.0, 0.01, 0.1, 1.0])
def test_tar_at_far_is_the_highest_on_scikit_learns_curve(name: str, far: float) -> None:
    comparator = Comparator(metric_of(name))
    all_far, all_tar, _ = roc_curve(SAME, comparator.decision_function(PAIRS), drop_intermediate=False)
    expected = max(t for f, t in zip(all_far, all_tar, strict=True) if f <= far)
    assert comparator.tar_at_far(PAIRS, SAME, far=far) == pytest.approx(expected, abs=1e-12)


# -- forms of pairs ------------------------------------------------------------------------------------

TABLE = np.round(RNG.normal(size=(50, D)), 1) * (RNG.random((50, D)) < 0.6)
ROWS = RNG.integers(0, 50, (N, 2))
FORMS: dict[str, Callable[[Comparator], tuple[Comparator, Any]]] = {
    "rows of a table": lambda c: (c.set_params(preprocessor=TABLE), ROWS),
    "lists": lambda c: (c, TABLE[ROWS].tolist()),
    "Pairs of values": lambda c: (c, Pairs(TABLE[ROWS], SAME)),
    "Pairs of rows": lambda c: (c, Pairs(ROWS, SAME, preprocessor=TABLE)),
}
SPARSE: dict[str, Callable[[Comparator], tuple[Comparator, Any]]] = {
    "rows of a sparse table": lambda c: (c.set_params(preprocessor=sparse.csr_array(TABLE)), ROWS),
    "rows of a sparse table of columns": lambda c: (c.set_params(preprocessor=sparse.csc_matrix(TABLE)), ROWS),
    "Pairs of sparse rows": lambda c: (c, Pairs(ROWS, SAME, preprocessor=sparse.csr_array(TABLE))),
}


@pytest.mark.parametrize("name", ["ensemble", "Mahalanobis", "bilinear"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_pairs_gives_the_same_scores(name: str, form: str) -> None:
    comparator, pairs = FORMS[form](Comparator(metric_of(name)))
    expected = Comparator(metric_of(name)).decision_function(TABLE[ROWS])
    np.testing.assert_allclose(comparator.decision_function(pairs), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["bilinear", "bilinear normalized", "diagonal"])
@pytest.mark.parametrize("form", SPARSE)
def test_sparse_pairs_give_the_same_scores(name: str, form: str) -> None:
    comparator, pairs = SPARSE[form](Comparator(metric_of(name)))
    expected = Comparator(metric_of(name)).decision_function(TABLE[ROWS])
    np.testing.assert_allclose(comparator.decision_function(pairs), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["ensemble", "cosine", "Mahalanobis", "Euclidean"])
@pytest.mark.parametrize("form", SPARSE)
def test_metrics_of_dense_items_reject_sparse_ones(name: str, form: str) -> None:
    comparator, pairs = SPARSE[form](Comparator(metric_of(name)))
    with pytest.raises(InvalidTypeError, match="toarray"):
        comparator.decision_function(pairs)


@pytest.mark.parametrize("form", ["Pairs of values", "Pairs of rows"])
def test_pairs_with_labels_calibrate_by_these(form: str) -> None:
    comparator, pairs = FORMS[form](Comparator(metric_of("ensemble")))
    expected = Comparator(metric_of("ensemble")).calibrate(TABLE[ROWS], SAME, target="f1")
    assert comparator.calibrate(pairs, target="f1").yes_below_ == pytest.approx(expected.yes_below_, abs=1e-6)


@pytest.mark.parametrize(
    "same",
    [np.where(SAME, 1, -1), np.where(SAME, 1.0, -1.0), SAME.tolist(), np.where(SAME, 1, -1).tolist()],
    ids=["±1", "floats", "list", "list of ±1"],
)
def test_every_form_of_labels_gives_the_same_calibration(same: Any) -> None:
    found = Comparator(metric_of("cosine")).calibrate(PAIRS, same, target="eer")
    assert found.yes_below_ == Comparator(metric_of("cosine")).calibrate(PAIRS, SAME, target="eer").yes_below_


# -- calibrated probabilities --------------------------------------------------------------------------


def test_there_is_no_probability_before_calibration() -> None:
    comparator = comparator_of("cosine")
    assert (comparator.compare(*PAIRS[0]).probability, comparator.compare_all(PAIRS).probabilities) == (None, None)
    with pytest.raises(NotFittedError, match=r"Call calibrate\(\) with labelled pairs first"):
        comparator.probability(PAIRS)


@every_metric
@both_rules
def test_probabilities_fall_with_the_distance_after_calibration(name: str, rule: Rule) -> None:
    similar = Comparator(metric_of(name), rule=rule).decision_function(PAIRS) > np.median(
        Comparator(metric_of(name), rule=rule).decision_function(PAIRS)
    )
    similar[:20] = ~similar[:20]  # no threshold separates them
    comparator = Comparator(metric_of(name), rule=rule).calibrate(PAIRS, similar, target="accuracy")
    order = np.argsort(comparator.decision_function(PAIRS), kind="stable")
    probabilities = comparator.probability(PAIRS)
    assert (np.diff(probabilities[order]) >= 0).all()
    assert 0 < probabilities.min() < probabilities.max() < 1


def test_probabilities_are_those_of_the_logistic_model_that_made_the_labels() -> None:
    rng = np.random.default_rng(0)
    distances = rng.uniform(0, 4, 40_000)
    expected = 1 / (1 + np.exp(3 * distances - 5))
    pairs = np.stack([np.zeros((40_000, 1)), distances[:, None]], axis=1)
    comparator = Comparator(EuclideanMetric(1)).calibrate(pairs, rng.random(40_000) < expected, target="f1")
    assert (comparator.slope_, comparator.intercept_) == (pytest.approx(-3, abs=0.15), pytest.approx(5, abs=0.25))
    np.testing.assert_allclose(comparator.probability(pairs), expected, atol=0.02)


def test_probabilities_of_separable_pairs_are_not_0_or_1() -> None:
    pairs, same = on_a_line([(0, True), (1, True), (5, False), (6, False)])
    found = Comparator(EuclideanMetric(1)).calibrate(pairs, same, target="accuracy").probability(pairs)
    assert found == pytest.approx([0.75, 0.75, 0.25, 0.25], abs=0.06)


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e100])
def test_the_probability_does_not_depend_on_the_scale_of_the_distances(size: float) -> None:
    pairs, same = on_a_line([(0, True), (1, True), (2, False), (3, True), (5, False), (6, False)])
    plain = Comparator(EuclideanMetric(1, "float64")).calibrate(pairs, same, target="eer").probability(pairs)
    scaled = Comparator(EuclideanMetric(1, "float64")).calibrate(pairs * size, same, target="eer")
    assert scaled.probability(pairs * size) == pytest.approx(plain, abs=1e-4)


def test_the_probability_is_the_share_of_similar_pairs_where_all_are_equally_far() -> None:
    pairs, same = on_a_line([(2, True), (2, False), (2, False)])
    found = Comparator(EuclideanMetric(1)).calibrate(pairs, same, target="accuracy").probability(pairs)
    assert np.ptp(found) == 0
    assert found[0] == pytest.approx((2 / 3 + 2 * 0.25) / 3)  # of smoothed labels


# -- too few pairs for a rate --------------------------------------------------------------------------


@pytest.mark.filterwarnings("default")
def test_a_warning_says_how_many_pairs_a_false_accept_rate_needs() -> None:
    pairs, same = on_a_line([(1, True), *[(d, False) for d in (3, 4, 5, 6, 7)]])
    with pytest.warns(UserWarning, match=r"target_far=0.0001 needs about 100,000 dissimilar pairs .* Got 5.*0\.45"):
        Comparator(EuclideanMetric(1)).calibrate(pairs, same, target_far=1e-4)


@pytest.mark.filterwarnings("default")
def test_a_warning_says_how_many_pairs_a_false_reject_rate_needs() -> None:
    pairs, same = on_a_line([(1, True)] * 19 + [(3, False)] * 1000)
    with pytest.warns(UserWarning, match=r"target_frr=0.5 needs about 20 similar pairs \(10 / rate\). Got 19"):
        Comparator(EuclideanMetric(1)).calibrate(pairs, same, target_far=0.01, target_frr=0.5)


@pytest.mark.filterwarnings("error")
def test_there_is_no_warning_with_enough_pairs() -> None:
    pairs, same = on_a_line([(1, True)] * 20 + [(3, False)] * 1000)
    Comparator(EuclideanMetric(1)).calibrate(pairs, same, target_far=0.01, target_frr=0.5)


# -- copies and files ----------------------------------------------------------------------------------


def test_a_clone_has_the_parameters_and_is_not_calibrated() -> None:
    comparator = Comparator(metric_of("cosine"), threshold=0.3, rule="mean", band=0.1).calibrate(
        PAIRS, SAME, target="f1"
    )
    copy = clone(comparator)
    assert (copy.threshold, copy.rule, copy.band, hasattr(copy, "yes_below_")) == (0.3, "mean", 0.1, False)


@every_metric
def test_a_clone_predicts_the_same(name: str) -> None:
    comparator = comparator_of(name)
    assert clone(comparator).predict(PAIRS).tolist() == comparator.predict(PAIRS).tolist()


@every_metric
def test_a_pickle_predicts_the_same(name: str) -> None:
    comparator = Comparator(metric_of(name)).calibrate(PAIRS, SAME, target_far=0.1, target_frr=0.1)
    copy = pickle.loads(pickle.dumps(comparator))
    assert copy.predict(PAIRS).tolist() == comparator.predict(PAIRS).tolist()


def saved(comparator: Comparator, folder: Path) -> Comparator:
    comparator.save(folder / "comparator")
    loaded = load(folder / "comparator")
    assert isinstance(loaded, Comparator)
    return loaded


@every_metric
@both_rules
def test_a_loaded_file_predicts_the_same(tmp_path: Path, name: str, rule: Rule) -> None:
    comparator = comparator_of(name, rule, band=0.03)
    assert saved(comparator, tmp_path).predict(PAIRS).tolist() == comparator.predict(PAIRS).tolist()


@pytest.mark.parametrize("threshold", [None, 0.25, 3, np.float32(0.25), np.int64(3)], ids=repr)
def test_a_file_stores_the_parameters(tmp_path: Path, threshold: Any) -> None:
    loaded = saved(Comparator(metric_of("cosine"), threshold=threshold, rule="mean", band=0.125), tmp_path)
    assert (loaded.threshold, loaded.rule, loaded.band) == (threshold, "mean", 0.125)


def test_a_file_without_calibration_loads_uncalibrated(tmp_path: Path) -> None:
    assert not hasattr(saved(comparator_of("Euclidean"), tmp_path), "yes_below_")


@pytest.mark.parametrize(
    "target",
    [{"target": "f1"}, {"target_far": 0.2}, {"target_far": 0.05, "target_frr": 0.05}],
    ids=["f1", "far", "far and frr"],
)
def test_a_file_stores_the_calibration_exactly(tmp_path: Path, target: dict[str, Any]) -> None:
    comparator = Comparator(metric_of("ensemble")).calibrate(PAIRS, SAME, **target)
    loaded = saved(comparator, tmp_path)
    names = ("yes_below_", "no_from_", "slope_", "intercept_")
    assert [getattr(loaded, name) for name in names] == [getattr(comparator, name) for name in names]


@pytest.mark.parametrize("parameters", [(math.inf, 0.0), (0.0, math.nan)])
def test_a_file_with_invalid_probability_parameters_is_rejected(
    tmp_path: Path, parameters: tuple[float, float]
) -> None:
    comparator = Comparator(metric_of("cosine")).calibrate(PAIRS, SAME, target="f1")
    comparator.slope_, comparator.intercept_ = parameters
    with pytest.raises((ModelFileError, ValueError)):
        saved(comparator, tmp_path)


@pytest.mark.parametrize("target_frr", [None, 0.0])
def test_a_file_stores_infinite_thresholds(tmp_path: Path, target_frr: float | None) -> None:
    pairs, same = on_a_line([(0, False), (1, True), (2, False)])
    comparator = Comparator(EuclideanMetric(1)).calibrate(pairs, same, target_far=0.0, target_frr=target_frr)
    assert comparator.yes_below_ == -math.inf
    loaded = saved(comparator, tmp_path)
    assert (loaded.yes_below_, loaded.no_from_) == (comparator.yes_below_, comparator.no_from_)


def test_a_file_does_not_store_the_preprocessor(tmp_path: Path) -> None:
    assert saved(comparator_of("cosine").set_params(preprocessor=TABLE), tmp_path).preprocessor is None


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-3], lambda b: b[:-1] + bytes([b[-1] ^ 1])], ids=["cut", "changed"]
)
def test_a_damaged_file_is_rejected(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "comparator"
    comparator_of("ensemble").save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize("thresholds", [(2.0, 1.0), (math.nan, math.nan), (0.0, math.nan)])
def test_a_file_with_invalid_thresholds_is_rejected(tmp_path: Path, thresholds: tuple[float, float]) -> None:
    comparator = comparator_of("cosine")
    comparator.yes_below_, comparator.no_from_ = thresholds
    comparator.slope_, comparator.intercept_ = -1.0, 0.0
    comparator.save(tmp_path / "comparator")
    with pytest.raises(ModelFileError, match="thresholds must be ascending"):
        load(tmp_path / "comparator")


@pytest.mark.parametrize(
    ("name", "value"), [("rule", "majority"), ("band", -1.0), ("threshold", "high"), ("metric", OAHU())]
)
def test_invalid_parameters_are_not_saved(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"'{name}' parameter"):
        comparator_of("cosine").set_params(**{name: value}).save(tmp_path / "comparator")
    assert not list(tmp_path.iterdir())


# -- invalid input -------------------------------------------------------------------------------------

WITH_NAN = np.where(np.arange(PAIRS.size).reshape(PAIRS.shape) == 200 * 2 * D + D + 1, np.nan, PAIRS)
BAD_PAIRS: dict[str, tuple[Any, str]] = {
    "NaN": (WITH_NAN, "NaN: the second item of pair 200 at feature 1"),
    "too large": (np.full((N, 2, D), 1e300), "too large for float32"),
    "too many features": (np.ones((N, 2, D + 1)), f"X has {D + 1} features, but Comparator is expecting {D}"),
    "triplets": (np.ones((N, 3, D)), r"A pair has 2 items"),
    "rows without a table": (ROWS, "preprocessor="),
    "no pairs": (np.ones((0, 2, D)), "At least one pair is needed"),
    "one vector": (np.ones(D), r"Pairs must have shape .*Got shape \(\d+,\)"),
    "a number": (5, r"Pairs must have shape .*Got shape \(\)"),
    "nothing": (None, r"Pairs must have shape .*Got shape \(\)"),
    "ragged": ([[[1.0, 2.0], [1.0]]], "ragged"),
    "strings": ([["a", "b"]], "must be real numbers"),
}
METHODS = ("predict", "vote_share", "decision_function")
CURVES = ("roc", "auc", "eer", "tar_at_far")


@pytest.mark.parametrize(
    ("method", "bad"), [*(("predict", bad) for bad in BAD_PAIRS), *((method, "NaN") for method in METHODS[1:])]
)
def test_invalid_pairs_are_rejected(method: str, bad: str) -> None:
    data, message = BAD_PAIRS[bad]
    with pytest.raises(InvalidInputError, match=message):
        getattr(Comparator(metric_of("cosine")), method)(data)


@pytest.mark.parametrize("bad", ["NaN", "triplets"])
@pytest.mark.parametrize("method", CURVES)
def test_invalid_pairs_have_no_roc(bad: str, method: str) -> None:
    data, message = BAD_PAIRS[bad]
    with pytest.raises(InvalidInputError, match=message):
        getattr(Comparator(metric_of("cosine")), method)(data, SAME)


@pytest.mark.parametrize(
    ("a", "b"),
    [([1.0] * D, [1.0] * (D + 1)), (np.ones((1, D)), np.ones((1, D))), (1.0, 2.0)],
    ids=["lengths", "tables", "numbers"],
)
def test_two_items_must_be_two_vectors(a: Any, b: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"compare\(\) needs two vectors of the same length"):
        Comparator(metric_of("cosine")).compare(a, b)


def test_two_items_must_have_the_metrics_features() -> None:
    with pytest.raises(InvalidInputError, match=f"X has {D - 1} features, but Comparator is expecting {D}"):
        Comparator(metric_of("cosine")).compare([1.0] * (D - 1), [1.0] * (D - 1))


@pytest.mark.parametrize("item", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize(
    "metric",
    [
        MahalanobisMetric(np.full((1, 1), 1e10, np.float32)),
        BilinearMetric(np.full((1, 1), 1e10, np.float32), normalize=False),
        EnsembleMetric.frozen(
            [np.full((1, 1), 1e10, np.float32)],
            [np.zeros(1, np.float32)],
            [np.ones((1, 1), np.float32)] * 2,
            [np.ones(1, np.float32)] * 2,
            np.array([0.5, 0.5]),
            0,
        ),
    ],
    ids=["Mahalanobis", "bilinear", "ensemble"],
)
def test_the_error_for_an_overflowing_pair_names_it(metric: Metric, item: int) -> None:
    pairs = np.ones((N, 2, 1))
    pairs[201, item] = 1e30
    with pytest.raises(OverflowedItemError, match=r"^An item of pair 201 is too large") as caught:
        Comparator(metric, threshold=0.5).predict(pairs)
    assert caught.value.row == 201


BAD_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "a learner": ({"metric": OAHU()}, r"Got OAHU instead\. Pass the result of the metric\(\)"),
    "no metric": ({"metric": None}, "must be a metric, such as"),
    "rule": ({"rule": "majority"}, "'rule' parameter of Comparator must be one of 'vote', 'mean'"),
    "band": ({"band": -0.1}, "'band' parameter"),
    "infinite band": ({"band": math.inf}, "'band' parameter"),
    "threshold": ({"threshold": "high"}, "'threshold' parameter"),
    "threshold of NaN": ({"threshold": math.nan}, "'threshold' parameter"),
}


@pytest.mark.parametrize(
    ("method", "bad"),
    [*(("predict", bad) for bad in BAD_PARAMETERS), *((method, "rule") for method in METHODS[1:])],
)
def test_invalid_parameters_are_rejected(method: str, bad: str) -> None:
    parameters, message = BAD_PARAMETERS[bad]
    with pytest.raises(InvalidInputError, match=message):
        getattr(Comparator(**({"metric": metric_of("cosine")} | parameters)), method)(PAIRS)


F1 = {"target": "f1"}
BAD_CALIBRATION: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    **{f"pairs: {bad}": ((data, SAME), F1, message) for bad, (data, message) in BAD_PAIRS.items()},
    "no target": ((PAIRS, SAME), {}, r"calibrate\(\) needs either target="),
    "two targets": ((PAIRS, SAME), {"target": "f1", "target_far": 0.1}, r"calibrate\(\) needs either target="),
    "target_frr alone": ((PAIRS, SAME), {"target_frr": 0.1}, r"calibrate\(\) needs either target="),
    "target_frr beside a target": (
        (PAIRS, SAME),
        {"target": "f1", "target_frr": 0.1},
        r"calibrate\(\) needs either target=",
    ),
    "another target": ((PAIRS, SAME), {"target": "recall"}, "must be one of 'accuracy', 'f1', 'eer'"),
    "target_far above 1": ((PAIRS, SAME), {"target_far": 1.5}, r"'far' must be in \[0, 1\]"),
    "target_frr below 0": ((PAIRS, SAME), {"target_far": 0.1, "target_frr": -1.0}, r"'frr' must be in \[0, 1\]"),
    "no labels": ((PAIRS,), F1, "pairs need labels. Pass them as same="),
    "said twice": ((Pairs(PAIRS, SAME), SAME), F1, "Omit same="),
    "said of too few": ((PAIRS, SAME[1:]), F1, rf"shape \({N},\)"),
    "0 and 1": ((PAIRS, SAME.astype(int)), F1, r"Got 0 for pair \d+"),
    "only similar": ((PAIRS, np.ones(N, bool)), F1, "at least one dissimilar pair"),
    "only dissimilar": ((PAIRS, np.zeros(N, bool)), F1, "at least one similar pair"),
}


@pytest.mark.parametrize("bad", BAD_CALIBRATION)
def test_invalid_calibration_is_rejected_and_changes_nothing(bad: str) -> None:
    new = Comparator(metric_of("cosine"))
    calibrated = clone(new).calibrate(PAIRS, SAME, target_far=0.1, target_frr=0.1)
    arguments, target, message = BAD_CALIBRATION[bad]
    for comparator in (new, calibrated):
        before = dict(vars(comparator))
        with pytest.raises(InvalidInputError, match=message):
            comparator.calibrate(*arguments, **target)
        assert vars(comparator) == before
