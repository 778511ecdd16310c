"""Records: the constraints of feedback, the JSON form of log entries, and the ranges of undos."""

from __future__ import annotations

from itertools import product
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from oahu import EuclideanMetric
from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.service.records import (
    Click,
    ModelReplacement,
    PublishedMetric,
    SettingsChange,
    SourceWeight,
    Undo,
    UndoEntry,
    active_undo_ranges,
    change_from_json,
    change_to_json,
    constraints_of,
    first_changed_seq,
    is_undone,
    undone_between,
)

NUMBERS = st.integers(1, 2**62)
MANY = st.lists(NUMBERS, max_size=5).map(tuple)
CHANGES = st.one_of(
    st.builds(Triplet, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Pair, NUMBERS, NUMBERS, st.booleans()),
    st.builds(Click, NUMBERS, MANY, MANY, MANY),
    st.builds(Undo, NUMBERS, NUMBERS),
    st.builds(ModelReplacement, st.text(max_size=64)),
    st.builds(SourceWeight, st.text(max_size=64), st.floats(0, 1)),
    st.builds(SettingsChange, st.dictionaries(st.text(max_size=9), st.integers(0, 99), max_size=3)),
)


@given(CHANGES)
def test_a_change_is_read_back_from_json(change: Any) -> None:
    read = change_from_json(orjson.loads(orjson.dumps(change_to_json(change))))
    assert (read, type(read)) == (change, type(change))


@st.composite
def clicks(draw: Any) -> Click:
    """Draw consistent clicks: a query and distinct other items."""
    query, *others = draw(st.lists(st.integers(0, 20), min_size=2, max_size=9, unique=True))
    cut = draw(st.integers(0, len(others)))
    return Click(query, tuple(others[:cut]), tuple(others[cut:]))


@given(clicks())
def test_a_click_relates_every_item_to_the_query(click: Click) -> None:
    graph = ConstraintGraph()
    for constraint in constraints_of(click):
        graph.add(constraint)
    assert all(graph.are_similar(click.query, other) for other in click.positive)
    assert all(graph.are_dissimilar(click.query, other) for other in click.negative)
    assert all(graph.are_dissimilar(one, two) for one, two in product(click.positive, click.negative))


@given(clicks())
def test_a_click_has_as_few_constraints_as_possible(click: Click) -> None:
    assert len(constraints_of(click)) == max(len(click.positive), len(click.negative))


@given(clicks())
def test_a_click_with_positives_and_negatives_gives_triplets(click: Click) -> None:
    kinds = {type(constraint) for constraint in constraints_of(click)}
    assert kinds == ({Triplet} if click.positive and click.negative else {Pair})


def test_an_empty_click_has_no_constraints() -> None:
    assert constraints_of(Click("a", (), ())) == []


def test_a_triplet_or_pair_is_its_own_constraint() -> None:
    assert constraints_of(Triplet(1, 2, 3)) == [Triplet(1, 2, 3)]
    assert constraints_of(Pair(1, 2, False)) == [Pair(1, 2, False)]


def test_a_history_point_contains_the_weights_of_a_metric() -> None:
    published = PublishedMetric(EuclideanMetric(3), version=7, constraints=5, error_rate=0.25, time=12.0)
    point = published.history_point
    assert (point.version, point.constraints, point.error_rate, point.time) == (7, 5, 0.25, 12.0)
    assert point.weights == tuple(published.weights.values()) == (1.0,)


@st.composite
def undo_entries(draw: Any) -> list[UndoEntry]:
    """Draw undos of earlier log entries, in order."""
    seqs = sorted(draw(st.sets(st.integers(2, 30), max_size=6)))
    ranges = [sorted(draw(st.tuples(st.integers(1, seq - 1), st.integers(1, seq - 1)))) for seq in seqs]
    return [UndoEntry(seq, first, last) for seq, (first, last) in zip(seqs, ranges, strict=True)]


def undone_by(undos: list[UndoEntry]) -> set[int]:
    """Return the undone entries. An undo has no effect if a later active undo covers it."""
    undone: set[int] = set()
    for seq, first, last in reversed(undos):
        if seq not in undone:
            undone |= set(range(first, last + 1))
    return undone


@given(undo_entries(), st.integers(1, 30), st.integers(1, 30))
def test_undo_ranges_contain_only_active_undos(undos: list[UndoEntry], begin: int, end: int) -> None:
    ranges, expected = active_undo_ranges(undos), undone_by(undos)
    assert {seq for seq in range(1, 40) if is_undone(seq, ranges)} == expected
    assert undone_between(ranges, begin, end) == expected & set(range(begin, end + 1))


@given(undo_entries(), st.integers(1, 31), st.integers(1, 31))
def test_an_undo_changes_nothing_before_its_first_changed_entry(
    undos: list[UndoEntry], first: int, last: int
) -> None:
    undo = UndoEntry(32, *sorted((first, last)))
    changed = undone_by(undos) ^ undone_by([*undos, undo])
    assert all(seq >= first_changed_seq(undos, undo) for seq in changed)
