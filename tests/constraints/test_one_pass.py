"""The one-pass construction of OPML against a naive one that stores the whole stream."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oahu.constraints.one_pass import OnePass

label_streams = st.integers(1, 5).flatmap(lambda k: st.lists(st.integers(0, k - 1), min_size=1, max_size=50))
rules = st.sampled_from(["author", "latest"])


def items_of(labels: list[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return items whose value is their number."""
    return np.arange(len(labels), dtype=np.float64)[:, None]


def constraints_of(
    stream: OnePass, labels: list[Any], start: int = 0, end: int | None = None
) -> tuple[list[Any], list[Any]]:
    """Return the pairs and triplets that items ``start`` to ``end`` form, as item numbers."""
    items = items_of(labels)[start:end]
    found = stream.add(items, labels[start:end], start)
    pairs, triplets = ([] if t is None else t.values()[:, :, 0].astype(int).tolist() for t in found)
    return pairs, triplets


def empty_stream(rule: Any) -> OnePass:
    return OnePass(rule, np.empty((0, 1)))


def naive(labels: list[Any], rule: str) -> tuple[list[list[int]], list[list[int]]]:
    """Return the constraints of a stream by the authors' rule, with all earlier items stored."""
    pairs, triplets = [], []
    for t, label in enumerate(labels):
        past = labels[:t]
        created = sorted(set(past), key=past.index)
        if label not in created:
            continue
        if len(created) == 1:
            pairs.append([t, t - 1])
            continue
        last = {c: max(i for i in range(t) if labels[i] == c) for c in created}
        if labels[t - 1] != label:
            triplets.append([t, last[label], t - 1])
        elif rule == "author":
            newest = created[-1] if created[-1] != label else created[-2]
            triplets.append([t, t - 1, last[newest]])
        else:
            triplets.append([t, t - 1, max(i for i in range(t) if labels[i] != label)])
    return pairs, triplets


@settings(max_examples=50)
@given(label_streams, rules)
def test_constraints_equal_those_of_the_naive_rule(labels: list[int], rule: str) -> None:
    assert constraints_of(empty_stream(rule), labels) == naive(labels, rule)


@settings(max_examples=50)
@given(label_streams, rules, st.lists(st.integers(0, 50), max_size=5))
def test_constraints_do_not_depend_on_the_blocks(labels: list[int], rule: str, cuts: list[int]) -> None:
    stream, edges = empty_stream(rule), [0, *sorted(min(c, len(labels)) for c in cuts), len(labels)]
    pairs, triplets = [], []
    for start, end in itertools.pairwise(edges):
        if start < end:
            some_pairs, some_triplets = constraints_of(stream, labels, start, end)
            pairs += some_pairs
            triplets += some_triplets
    assert (pairs, triplets) == naive(labels, rule)


@settings(max_examples=50)
@given(label_streams, rules)
def test_positive_is_of_the_anchors_class_and_negative_is_not(labels: list[int], rule: str) -> None:
    for anchor, positive, negative in constraints_of(empty_stream(rule), labels)[1]:
        assert labels[anchor] == labels[positive] != labels[negative]
        assert max(positive, negative) < anchor


@settings(max_examples=50)
@given(label_streams, rules)
def test_one_item_per_class_is_stored_in_order_of_first_occurrence(labels: list[int], rule: str) -> None:
    stream = empty_stream(rule)
    constraints_of(stream, labels)
    created = sorted(set(labels), key=labels.index)
    assert list(stream.classes) == created
    assert stream.slots[:, 0].tolist() == [max(t for t, label in enumerate(labels) if label == c) for c in created]


def test_rule_author_takes_the_newest_class_and_latest_the_latest_item() -> None:
    labels = ["a", "b", "c", "b", "a", "a"]
    assert constraints_of(empty_stream("author"), labels)[1][-1] == [5, 4, 2]
    assert constraints_of(empty_stream("latest"), labels)[1][-1] == [5, 4, 3]


def test_rule_author_takes_the_second_newest_class_if_the_newest_is_the_items_own() -> None:
    labels = ["a", "b", "c", "a", "c", "c"]
    assert constraints_of(empty_stream("author"), labels)[1][-1] == [5, 4, 1]


@pytest.mark.parametrize("rule", ["author", "latest"])
def test_a_copy_is_independent(rule: str) -> None:
    labels = [0, 1, 2, 0, 0, 1, 1, 2, 2, 0]
    stream = empty_stream(rule)
    constraints_of(stream, labels, 0, 5)
    other = stream.copy()
    constraints_of(other, [2, 2, 2, 2, 2, 3, 4, 3], 5, 8)
    assert constraints_of(stream, labels, 5)[1] == [t for t in naive(labels, rule)[1] if t[0] >= 5]


def test_the_origin_of_a_triplet_is_the_item_that_completed_it() -> None:
    triplets = empty_stream("author").add(np.zeros((5, 1)), [0, 0, 1, 0, 1], start=100)[1]
    assert [triplets.origin(k) for k in range(2)] == [("item", 103), ("item", 104)]


def test_items_are_copied() -> None:
    """The stored items are not a view of the caller's array."""
    stream, items = empty_stream("author"), np.ones((2, 1))
    stream.add(items, [0, 1], 0)
    items[:] = 7.0
    assert stream.slots.tolist() == [[1.0], [1.0]]
