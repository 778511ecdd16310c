"""Pairs and triplets sampled from labels are valid and have the right probabilities."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from oahu import InvalidInputError, sample_pairs, sample_triplets

LABELS = st.lists(st.integers(0, 6), min_size=3, max_size=40)


def triplet_probabilities(labels: list[Any]) -> dict[tuple[int, int, int], Fraction]:
    """Return the probability of each possible triplet, by enumeration."""
    n = len(labels)
    alike = {i: [j for j in range(n) if j != i and labels[j] == labels[i]] for i in range(n)}
    unlike = {i: [j for j in range(n) if labels[j] != labels[i]] for i in range(n)}
    anchors = [i for i in range(n) if alike[i]]
    return {
        (a, p, q): Fraction(1, len(anchors) * len(alike[a]) * len(unlike[a]))
        for a in anchors
        for p, q in product(alike[a], unlike[a])
    }


# -- validity --------------------------------------------------------------------------------------------


@given(labels=LABELS, n=st.integers(1, 200), seed=st.integers(0, 2**32))
@settings(max_examples=50)
def test_only_triplets_that_the_labels_allow_are_drawn(labels: list[int], n: int, seed: int) -> None:
    allowed = triplet_probabilities(labels)
    assume(allowed)
    drawn = sample_triplets(labels, n, seed)
    assert {tuple(triplet) for triplet in drawn.tolist()} <= set(allowed)


@given(n=st.integers(1, 200))
def test_n_triplets_are_drawn(n: int) -> None:
    assert sample_triplets([0, 0, 1], n, 0).shape == (n, 3)


def test_the_anchor_is_never_its_own_positive() -> None:
    anchor, positive, _ = sample_triplets([0, 0, 1, 1, 1], 5000, 0).T
    assert (anchor != positive).all()


def test_the_positive_is_of_the_anchors_class() -> None:
    labels = np.array([2, 0, 1, 0, 2, 1, 0])
    anchor, positive, _ = sample_triplets(labels, 5000, 0).T
    assert (labels[anchor] == labels[positive]).all()


def test_the_negative_is_of_another_class() -> None:
    labels = np.array([2, 0, 1, 0, 2, 1, 0])
    anchor, _, negative = sample_triplets(labels, 5000, 0).T
    assert (labels[anchor] != labels[negative]).all()


def test_an_instance_alone_in_its_class_is_never_an_anchor() -> None:
    assert 2 not in sample_triplets([0, 0, 9, 1, 1], 5000, 0)[:, 0]


def test_an_instance_alone_in_its_class_is_never_a_positive() -> None:
    assert 2 not in sample_triplets([0, 0, 9, 1, 1], 5000, 0)[:, 1]


def test_an_instance_alone_in_its_class_can_be_a_negative() -> None:
    assert 2 in sample_triplets([0, 0, 9, 1, 1], 5000, 0)[:, 2]


@pytest.mark.parametrize(
    "labels",
    [
        ["cat", "dog", "cat", "mouse", "dog"],
        np.array(["cat", "dog", "cat", "mouse", "dog"], dtype=object),
        np.array([b"cat", b"dog", b"cat", b"mouse", b"dog"]),
        [1.5, 2.5, 1.5, 3.5, 2.5],
        [True, False, True, False, False],
        np.array(["2020-01-01", "2021-01-01", "2020-01-01", "2022-01-01", "2021-01-01"], "datetime64[D]"),
    ],
    ids=["text", "objects", "bytes", "floats", "truth values", "dates"],
)
def test_labels_may_be_anything_that_can_be_sorted(labels: Any) -> None:
    drawn = {tuple(triplet) for triplet in sample_triplets(labels, 2000, 0).tolist()}
    assert drawn == set(triplet_probabilities(list(labels)))


def test_what_the_labels_are_called_does_not_matter() -> None:
    numbers, words = [10, 20, 10, 30, 20], ["a", "b", "a", "c", "b"]
    np.testing.assert_array_equal(sample_triplets(numbers, 500, 0), sample_triplets(words, 500, 0))


def test_the_labels_are_not_changed() -> None:
    labels = np.array([2, 0, 1, 0, 2, 1, 0])
    sample_triplets(labels, 100, 0)
    assert labels.tolist() == [2, 0, 1, 0, 2, 1, 0]


def test_the_triplets_can_be_used_as_indices() -> None:
    assert np.arange(5.0)[sample_triplets([0, 0, 1, 1, 1], 10, 0)].shape == (10, 3)


# -- probabilities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [[0, 0, 1], [0, 1, 0, 1, 2], [0, 0, 0, 0, 1, 1, 2], [3, 1, 1, 2, 3, 3, 2, 3, 5, 4]],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_triplets_have_their_exact_probabilities(labels: list[int], seed: int) -> None:
    allowed = triplet_probabilities(labels)
    n = 400 * len(allowed)
    counts = Counter(map(tuple, sample_triplets(labels, n, seed).tolist()))
    observed = [counts[triplet] for triplet in allowed]
    expected = [float(n * probability) for probability in allowed.values()]
    assert chisquare(observed, expected).pvalue > 1e-3


def test_anchors_are_uniform_over_items_not_over_classes() -> None:
    labels = np.array([0] * 90 + [1] * 10)
    anchors = sample_triplets(labels, 20_000, 0)[:, 0]
    counts = np.bincount(anchors, minlength=100)
    assert chisquare(counts).pvalue > 1e-3


def test_consecutive_triplets_are_independent() -> None:
    anchors = sample_triplets([0, 0, 1, 1], 40_001, 0)[:, 0]
    transitions = np.bincount(4 * anchors[:-1] + anchors[1:], minlength=16)
    assert chisquare(transitions).pvalue > 1e-3


# -- seeds -----------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_triplets() -> None:
    labels = np.arange(30) % 4
    np.testing.assert_array_equal(sample_triplets(labels, 100, 5), sample_triplets(labels, 100, 5))


def test_another_seed_gives_other_triplets() -> None:
    labels = np.arange(30) % 4
    assert (sample_triplets(labels, 100, 5) != sample_triplets(labels, 100, 6)).any()


def test_without_a_seed_the_triplets_differ() -> None:
    labels = np.arange(30) % 4
    assert (sample_triplets(labels, 100) != sample_triplets(labels, 100)).any()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"])
def test_a_generator_is_advanced(make: Any) -> None:
    labels, rng = np.arange(30) % 4, make(5)
    assert (sample_triplets(labels, 100, rng) != sample_triplets(labels, 100, rng)).any()


# -- invalid arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([4, 4, 4], "another class. The labels have 1 class"),
        ([], "another class. The labels have 0 class"),
        ([0, 1, 2], "anchor's class. Each of the 3 classes has one item"),
        ([[0, 0, 1]], r"shape \(n_items,\). Got \(1, 3\)"),
        (np.zeros((4, 1)), r"shape \(n_items,\). Got \(4, 1\)"),
        (3, r"shape \(n_items,\). Got \(\)"),
        ([0.0, 1.0, np.nan, 1.0], "Label 2 is NaN"),
        ([0, None, 1, 0], "one type that can be sorted"),
        ([[0, 1], [2]], "one type that can be sorted"),
    ],
    ids=["one class", "none", "only singletons", "one row", "one column", "a number", "NaN", "None", "ragged"],
)
def test_labels_without_triplets_are_rejected_with_the_reason(labels: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        sample_triplets(labels, 10, 0)


@pytest.mark.parametrize("n", [0, -1, 2.5, 10.0, True, np.nan, "5", None], ids=repr)
def test_an_invalid_number_of_triplets_is_rejected(n: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"at least 1. Got {n!r}"):
        sample_triplets([0, 0, 1], n, 0)


def test_an_invalid_seed_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="'random_state' parameter must be"):
        sample_triplets([0, 0, 1], 10, -1)


def test_a_rejected_call_does_not_advance_the_generator() -> None:
    rng = np.random.default_rng(5)
    with pytest.raises(InvalidInputError):
        sample_triplets([0, 0, 0], 10, rng)
    assert rng.bit_generator.state == np.random.default_rng(5).bit_generator.state


# -- large numbers ---------------------------------------------------------------------------------------


def test_a_million_triplets_of_small_classes_are_valid() -> None:
    labels = np.random.default_rng(0).integers(0, 30_000, 100_000)
    anchor, positive, negative = sample_triplets(labels, 1_000_000, 0).T
    alike, unlike = labels[anchor] == labels[positive], labels[anchor] != labels[negative]
    assert (alike & unlike & (anchor != positive)).all()


# -- pairs -----------------------------------------------------------------------------------------------


def pair_probabilities(labels: list[Any], similar: Fraction) -> dict[tuple[int, int, int], Fraction]:
    """Return the probability of each possible pair (first, second, y), by enumeration."""
    n = len(labels)
    alike = {i: [j for j in range(n) if j != i and labels[j] == labels[i]] for i in range(n)}
    unlike = {i: [j for j in range(n) if labels[j] != labels[i]] for i in range(n)}
    able = [i for i in range(n) if alike[i]]
    found = {(a, b, 1): similar / (len(able) * len(alike[a])) for a in able for b in alike[a]}
    found |= {(a, b, -1): (1 - similar) / (n * len(unlike[a])) for a in range(n) for b in unlike[a]}
    return {pair: probability for pair, probability in found.items() if probability}


@given(labels=LABELS, n=st.integers(1, 200), seed=st.integers(0, 2**32))
@settings(max_examples=50)
def test_labels_of_pairs_agree_with_the_classes(labels: list[int], n: int, seed: int) -> None:
    assume(1 < len(set(labels)) < len(labels))
    pairs, same = sample_pairs(labels, n, seed)
    assert (pairs.shape, same.shape) == ((n, 2), (n,))
    drawn = {(a, b, y) for (a, b), y in zip(pairs.tolist(), same.tolist(), strict=True)}
    assert drawn <= set(pair_probabilities(labels, Fraction(1, 2)))


@pytest.mark.parametrize("similar", [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1)], ids=str)
def test_pairs_have_their_exact_probabilities(similar: Fraction) -> None:
    labels = [0, 0, 0, 1, 1, 2]
    expected = pair_probabilities(labels, similar)
    assert sum(expected.values()) == 1
    pairs, same = sample_pairs(labels, 60_000, 0, similar=float(similar))
    counts = Counter((a, b, y) for (a, b), y in zip(pairs.tolist(), same.tolist(), strict=True))
    observed = [counts[pair] for pair in expected]
    assert sum(observed) == 60_000
    assert chisquare(observed, [float(60_000 * share) for share in expected.values()]).pvalue > 1e-3


def test_the_same_seed_gives_the_same_pairs() -> None:
    one, other = (sample_pairs([0, 0, 1, 1], 50, 3) for _ in range(2))
    np.testing.assert_array_equal(np.column_stack(one), np.column_stack(other))


@pytest.mark.parametrize(
    ("labels", "similar", "message"),
    [
        ([1, 1, 1], 0.5, r"items of two classes. The labels have 1 class\(es\)"),
        ([1, 2, 3], 0.5, "two items of one class. Each of the 3 classes has one item"),
        ([], 0.5, r"0 class\(es\)"),
        ([0, 0, 1], 1.5, r"in \[0, 1\]. Got 1.5"),
        ([0, 0, 1], "half", r"in \[0, 1\]. Got 'half'"),
        ([0, 0, 1], np.nan, r"in \[0, 1\]. Got nan"),
    ],
)
def test_labels_that_cannot_give_pairs_are_rejected(labels: list[int], similar: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        sample_pairs(labels, 5, 0, similar=similar)


@pytest.mark.parametrize(("labels", "similar"), [([1, 1, 1], 1), ([1, 2, 3], 0)])
def test_pairs_of_one_kind_need_only_labels_for_that_kind(labels: list[int], similar: float) -> None:
    pairs, same = sample_pairs(labels, 50, 0, similar=similar)
    assert set(same.tolist()) == {1 if similar else -1}
    assert (pairs[:, 0] != pairs[:, 1]).all()


@pytest.mark.parametrize("n", [0, -1, 2.0, True, None, "3"])
def test_an_invalid_number_of_pairs_is_rejected(n: Any) -> None:
    with pytest.raises(InvalidInputError, match="number of pairs must be an int of at least 1"):
        sample_pairs([0, 0, 1], n, 0)


# -- exclusion -------------------------------------------------------------------------------------------

FORBIDDEN = st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=6)


@given(exclude=FORBIDDEN, seed=st.integers(0, 99))
@settings(max_examples=50)
def test_no_triplet_contains_an_excluded_pair(exclude: set[tuple[int, int]], seed: int) -> None:
    forbidden = {frozenset(pair) for pair in exclude}
    for a, p, n in sample_triplets([0, 0, 0, 0, 1, 1, 1, 1], 300, seed, exclude=exclude).tolist():
        assert not forbidden & {frozenset((a, p)), frozenset((a, n)), frozenset((p, n))}


@given(exclude=FORBIDDEN, seed=st.integers(0, 99), as_array=st.booleans())
@settings(max_examples=50)
def test_no_excluded_pair_is_drawn(exclude: set[tuple[int, int]], seed: int, as_array: bool) -> None:
    forbidden = {frozenset(pair) for pair in exclude}
    given_as = np.array(sorted(exclude), int).reshape(-1, 2) if as_array else exclude
    pairs, _ = sample_pairs([0, 0, 0, 0, 1, 1, 1, 1], 300, seed, exclude=given_as)
    assert not forbidden & {frozenset(pair) for pair in pairs.tolist()}


def test_exclusion_does_not_change_relative_probabilities() -> None:
    labels, exclude = [0, 0, 0, 1, 1, 2], [(1, 0), (3, 5)]
    forbidden = [set(pair) for pair in exclude]
    left = {
        t: share
        for t, share in triplet_probabilities(labels).items()
        if not any(pair <= set(t) for pair in forbidden)
    }
    counts = Counter(map(tuple, sample_triplets(labels, 60_000, 0, exclude=exclude).tolist()))
    observed = [counts[triplet] for triplet in left]
    assert sum(observed) == 60_000
    total = sum(left.values())
    assert chisquare(observed, [float(60_000 * share / total) for share in left.values()]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("exclude", "message"),
    [
        ([(0, 1)], "The 'exclude' parameter leaves too few"),
        ([(0, 3)], r"Pair 0 of 'exclude' must have indices from 0 to 2. Got \(0, 3\)"),
        ([(0, 1, 2)], r"of shape \(m, 2\)"),
        ([(0.5, 1.0)], "pairs of indices"),
        ([3], "pairs of indices"),
        (7, "pairs of indices"),
    ],
)
def test_an_invalid_exclusion_is_rejected(exclude: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        sample_triplets([0, 0, 1], 5, 0, exclude=exclude)
