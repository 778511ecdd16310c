"""OPML's construction of triplets against a naive one that keeps the whole stream."""

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
    """Items that say which they are: item t is (t,)."""
    return np.arange(len(labels), dtype=np.float64)[:, None]


def made(stream: OnePass, labels: list[Any], start: int = 0, end: int | None = None) -> tuple[list[Any], list[Any]]:
    """The pairs and triplets that items start ... end of the labels make, by which items they are."""
    items = items_of(labels)[start:end]
    found = stream.add(items, labels[start:end], start)
    pairs, triplets = ([] if t is None else t.values()[:, :, 0].astype(int).tolist() for t in found)
    return pairs, triplets


def fresh(rule: Any) -> OnePass:
    return OnePass(rule, np.empty((0, 1)))


def naive(labels: list[Any], rule: str) -> tuple[list[list[int]], list[list[int]]]:
    """What the authors' rule makes of a stream, with the whole past at hand."""
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


@settings(max_examples=300)
@given(label_streams, rules)
def test_stream_makes_what_the_naive_rule_makes(labels: list[int], rule: str) -> None:
    assert made(fresh(rule), labels) == naive(labels, rule)


@settings(max_examples=200)
@given(label_streams, rules, st.lists(st.integers(0, 50), max_size=5))
def test_what_is_made_does_not_depend_on_the_blocks(labels: list[int], rule: str, cuts: list[int]) -> None:
    stream, edges = fresh(rule), [0, *sorted(min(c, len(labels)) for c in cuts), len(labels)]
    pairs, triplets = [], []
    for start, end in itertools.pairwise(edges):
        if start < end:
            some_pairs, some_triplets = made(stream, labels, start, end)
            pairs += some_pairs
            triplets += some_triplets
    assert (pairs, triplets) == naive(labels, rule)


@settings(max_examples=100)
@given(label_streams, rules)
def test_positive_is_of_the_anchors_class_and_negative_is_not(labels: list[int], rule: str) -> None:
    for anchor, positive, negative in made(fresh(rule), labels)[1]:
        assert labels[anchor] == labels[positive] != labels[negative]
        assert max(positive, negative) < anchor


@settings(max_examples=100)
@given(label_streams, rules)
def test_memory_is_one_item_of_each_class_in_order_of_creation(labels: list[int], rule: str) -> None:
    stream = fresh(rule)
    made(stream, labels)
    created = sorted(set(labels), key=labels.index)
    assert list(stream.classes) == created
    assert stream.slots[:, 0].tolist() == [max(t for t, label in enumerate(labels) if label == c) for c in created]


def test_author_takes_the_class_created_last_and_latest_the_one_seen_last() -> None:
    labels = ["a", "b", "c", "b", "a", "a"]
    assert made(fresh("author"), labels)[1][-1] == [5, 4, 2]
    assert made(fresh("latest"), labels)[1][-1] == [5, 4, 3]


def test_author_takes_the_class_created_before_if_the_last_is_the_items_own() -> None:
    labels = ["a", "b", "c", "a", "c", "c"]
    assert made(fresh("author"), labels)[1][-1] == [5, 4, 1]


@pytest.mark.parametrize("rule", ["author", "latest"])
def test_copy_goes_its_own_way(rule: str) -> None:
    labels = [0, 1, 2, 0, 0, 1, 1, 2, 2, 0]
    stream = fresh(rule)
    made(stream, labels, 0, 5)
    other = stream.copy()
    made(other, [2, 2, 2, 2, 2, 3, 4, 3], 5, 8)
    assert made(stream, labels, 5)[1] == [t for t in naive(labels, rule)[1] if t[0] >= 5]


def test_triplets_say_which_item_completed_them() -> None:
    triplets = fresh("author").add(np.zeros((5, 1)), [0, 0, 1, 0, 1], start=100)[1]
    assert [triplets.origin(k) for k in range(2)] == [("item", 103), ("item", 104)]


def test_items_are_copied() -> None:
    """What the stream remembers is not the caller's array."""
    stream, items = fresh("author"), np.ones((2, 1))
    stream.add(items, [0, 1], 0)
    items[:] = 7.0
    assert stream.slots.tolist() == [[1.0], [1.0]]
