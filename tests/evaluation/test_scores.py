"""Tests of scores against plain loops and hand calculations."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from oahu.evaluation import (
    changed_shares,
    eer,
    error_rate,
    macro_f1,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    roc_auc,
    tar_at_far,
    triplet_accuracy,
)
from oahu.exceptions import InvalidInputError, InvalidTypeError

NAMES = ["cat", "dog", "cow", "a much longer name"]
LABELS = st.integers(0, 3)
BOTH = st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=30)  # truth and prediction
FORMS: list[Callable[[list[int]], Any]] = [
    list,
    lambda labels: [NAMES[label] for label in labels],
    lambda labels: np.array([NAMES[label] for label in labels], object),
    lambda labels: np.array(labels, float),
    lambda labels: np.array(labels, np.uint8),
]
any_form = pytest.mark.parametrize("form", FORMS, ids=["ints", "strings", "objects", "floats", "uint8"])

# -- classifying -----------------------------------------------------------------------------------------


@any_form
@given(both=BOTH)
def test_error_rate_is_the_share_of_wrong_labels(form: Callable[[list[int]], Any], both: list[Any]) -> None:
    wrong = [true for true, predicted in both if true != predicted]
    assert error_rate(*(form(list(labels)) for labels in zip(*both, strict=True))) == len(wrong) / len(both)


@any_form
@given(both=BOTH)
def test_macro_f1_is_the_mean_of_each_class(form: Callable[[list[int]], Any], both: list[Any]) -> None:
    f1s = []
    for label in {label for pair in both for label in pair}:
        hits = both.count((label, label))
        shown = sum(true == label for true, _ in both) + sum(predicted == label for _, predicted in both)
        f1s.append(Fraction(2 * hits, shown))
    expected = float(sum(f1s) / len(f1s))
    assert macro_f1(*(form(list(labels)) for labels in zip(*both, strict=True))) == pytest.approx(expected)


@pytest.mark.parametrize("score", [error_rate, macro_f1])
@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([], [], r"truth must be of shape \(n,\) and not empty. Got shape \(0,\)"),
        ([1], [], r"predicted must be of shape \(n,\) and not empty. Got shape \(0,\)"),
        ([1, 2], [1], "one label per item. Got 2 and 1"),
        ([[1, 2]], [1, 2], r"truth must be of shape \(n,\).*Got shape \(1, 2\)"),
        ([1, 2], ["1", "2"], "both be strings or both be integers.*Got numbers and strings"),
        (["a", 1], ["a", "b"], "truth must be all strings or all integers. Got 1 in row 1"),
        ([1, None], [1, 2], "truth must be all strings or all integers. Got None in row 1"),
        ([1, 2], [1, 0.5], "predicted must be strings or integers. Got 0.5 in row 1"),
        ([1, math.nan], [1, 2], "truth must be strings or integers. Got nan in row 1"),
        ([1, math.inf], [1, 2], "truth must be strings or integers. Got inf in row 1"),
        ([2.0**53, 2], [1, 2], "truth must be strings or integers. Got 9007199254740992.0 in row 0"),
        (np.ma.masked_array([1, 2], [True, False]), [1, 2], "truth.*Got masked values"),
        (np.array([b"a"]), [1], "truth.*Got bytes"),
    ],
)
def test_invalid_labels_are_rejected(score: Any, truth: Any, predicted: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        score(truth, predicted)


def test_sparse_labels_are_rejected() -> None:
    with pytest.raises(InvalidTypeError, match=r"truth must be dense labels.*toarray"):
        error_rate(sparse.eye(2), [1, 2])


# -- comparing -------------------------------------------------------------------------------------------

# By hand: 5 > 4 > 3 > 2 > 1, dissimilar at 4, 2 and 1. Duels won: 3 of 3 and 2 of 3. Points (far, tar) on the way:
# (0, 1/2), (1/3, 1/2), (1/3, 1), (2/3, 1), (1, 1). It crosses far = 1 - tar at far 1/3, between tar 1/2 and 1.
SAME, SCORES = [True, False, True, False, False], [5, 4, 3, 2, 1]


def test_roc_auc_matches_a_hand_calculation() -> None:
    assert roc_auc(SAME, SCORES) == 5 / 6


def test_eer_matches_a_hand_calculation() -> None:
    assert eer(SAME, SCORES) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("far", "tar"), [(0.0, 0.5), (0.33, 0.5), (1 / 3, 1.0), (1.0, 1.0)])
def test_tar_at_far_matches_a_hand_calculation(far: float, tar: float) -> None:
    assert tar_at_far(SAME, SCORES, far=far) == tar


@pytest.mark.parametrize(("n", "expected"), [(999, 0.0), (1000, 1.0)])
def test_default_far_is_one_in_a_thousand(n: int, expected: float) -> None:
    """One dissimilar pair scores higher than the similar one, which is allowed among 1000 and not among 999."""
    assert tar_at_far([1] + [0] * n, [1, 2] + [0] * (n - 1)) == expected


@pytest.mark.parametrize("score", [roc_auc, eer, tar_at_far])
def test_swapped_arguments_are_rejected(score: Any) -> None:
    with pytest.raises(InvalidInputError, match="same= must contain True and False"):
        score(SCORES, SAME)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_triplet_is_right_if_the_positive_scores_higher(both: list[tuple[int, int]]) -> None:
    right = [similar for similar, dissimilar in both if similar > dissimilar]
    assert triplet_accuracy(*zip(*both, strict=True)) == len(right) / len(both)


@pytest.mark.parametrize(
    ("similar", "dissimilar", "message"),
    [
        ([], [], r"similar_scores must have shape \(n,\), with at least one number.*\(0,\)"),
        ([1, 2], [1], "one score per triplet. Got 2 and 1"),
        ([1, 2], [[1], [2]], r"dissimilar_scores must have shape \(n,\).*\(2, 1\)"),
        ([1, 2], [math.nan, 1], "dissimilar_scores must be finite numbers. Got NaN in row 0"),
        (["a"], [1], "similar_scores must be real numbers. Got strings"),
    ],
)
def test_invalid_triplet_scores_are_rejected(similar: Any, dissimilar: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        triplet_accuracy(similar, dissimilar)


# -- retrieving ------------------------------------------------------------------------------------------


@any_form
@given(data=st.data(), n=st.integers(1, 8), width=st.integers(1, 6))
def test_recall_at_k_counts_queries_with_a_hit(
    form: Callable[[list[int]], Any], data: st.DataObject, n: int, width: int
) -> None:
    own = data.draw(st.lists(LABELS, min_size=n, max_size=n))
    found = data.draw(st.lists(st.lists(LABELS, min_size=width, max_size=width), min_size=n, max_size=n))
    ks = data.draw(st.lists(st.integers(1, width), min_size=1, unique=True))
    expected = {}
    for k in ks:
        hits = [label for label, row in zip(own, found, strict=True) if label in row[:k]]
        expected[k] = len(hits) / n
    assert recall_at_k(form(own), [form(row) for row in found], ks) == expected


def test_default_depths_are_1_2_4_and_8() -> None:
    """The match is the third of eight."""
    assert recall_at_k([7], [[0, 0, 7, 0, 0, 0, 0, 0]]) == {1: 0.0, 2: 0.0, 4: 1.0, 8: 1.0}


@pytest.mark.parametrize(
    ("labels", "retrieved", "ks", "message"),
    [
        ([], [[1]], [1], r"labels must be of shape \(n,\) and not empty. Got shape \(0,\)"),
        ([1], [1], [1], r"retrieved_labels must be of shape \(n_queries, n_retrieved\).*Got shape \(1,\)"),
        ([1, 2], [[1, 2], [1]], [1], r"retrieved_labels must be of shape \(n_queries, n_retrieved\).*\(2,\)"),
        ([1, 2], [[1, 2]], [1], r"at least 1 labels for each of the 2 queries.*Got shape \(1, 2\)"),
        (
            [1],
            [[1, 2]],
            [1, 3],
            r"at least 3 labels for each of the 1 queries.*\(1, 3\) or wider. Got shape \(1, 2\)",
        ),
        (
            [1],
            [["1"]],
            [1],
            "labels and retrieved_labels must both be strings or both be integers.*Got numbers and strings",
        ),
        ([1, 1], [[1, 2], [1, 2.5]], [1], "retrieved_labels must be strings or integers. Got 2.5 in row 1"),
        ([1], [[1]], [], r"'ks' must contain at least one value of k.*Got \[\]"),
        ([1], [[1]], 1, "'ks' must contain at least one value of k.*Got 1"),
        ([1], [[1]], [0], "an integer of at least 1. Got 0"),
        ([1], [[1]], [1.0], "an integer of at least 1. Got 1.0"),
        ([1], [[1]], [True], "an integer of at least 1. Got True"),
    ],
)
def test_invalid_retrieval_is_rejected(labels: Any, retrieved: Any, ks: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        recall_at_k(labels, retrieved, ks)


RANKED = st.lists(st.tuples(LABELS, st.lists(LABELS, min_size=6, max_size=6)), min_size=1, max_size=12)


@given(rows=RANKED, k=st.integers(1, 6))
def test_precision_is_the_share_of_own_labels_per_query(rows: list[Any], k: int) -> None:
    own, found = zip(*rows, strict=True)
    expected = [sum(label == one for one in row[:k]) / k for label, row in rows]
    assert precision_at_k(own, found, k).tolist() == pytest.approx(expected)


@given(rows=RANKED, k=st.integers(1, 6), more=st.integers(0, 9))
def test_ndcg_is_the_gain_divided_by_that_of_the_best_ranking(rows: list[Any], k: int, more: int) -> None:
    own, found = zip(*rows, strict=True)
    counts = [row.count(label) + more for label, row in rows]
    expected = []
    for (label, row), n in zip(rows, counts, strict=True):
        gain = sum(1 / math.log2(i + 1) for i, one in enumerate(row[:k], start=1) if one == label)
        best = sum(1 / math.log2(i + 1) for i in range(1, min(n, k) + 1))
        expected.append(gain / best if best else 0.0)
    assert ndcg_at_k(own, found, counts, k).tolist() == pytest.approx(expected)


@given(pairs=st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=1, max_size=40))
def test_changed_shares_count_higher_and_lower_scores(pairs: list[tuple[int, int]]) -> None:
    before, after = ([pair[side] / 10 for pair in pairs] for side in (0, 1))
    better, worse = changed_shares(before, after)
    n, z = len(pairs), 1.959963984540054
    for share, count in ((better, sum(b < a for b, a in pairs)), (worse, sum(b > a for b, a in pairs))):
        p = count / n
        centre, spread = p + z**2 / (2 * n), z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        low, high = (centre - spread) / (1 + z**2 / n), (centre + spread) / (1 + z**2 / n)
        assert share == pytest.approx((p, low, high), abs=1e-9)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: precision_at_k([1], [[1]], 0), "'k' must be an integer of at least 1. Got 0 instead."),
        (lambda: precision_at_k([1], [[1]], 2), r"at least 2 labels for each of the 1 queries.*Got shape \(1, 1\)"),
        (lambda: ndcg_at_k([1], [[1]], [0], 1), "'n_relevant' must have one integer for each of the 1 queries"),
        (lambda: ndcg_at_k([1], [[1]], [1, 1], 1), r"'n_relevant' must have .* Got int64 of shape \(2,\) instead"),
        (
            lambda: changed_shares([1.0], [1.0, 0.5]),
            "'before' and 'after' must have one score per query. Got 1 and 2",
        ),
    ],
)
def test_invalid_rankings_are_rejected(score: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        score()
