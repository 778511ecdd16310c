"""What passes between the parts: what a piece of feedback says, and that the log gives back what was put in."""

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
    Undo,
    change_from_json,
    change_to_json,
    constraints_of,
)

NUMBERS = st.integers(1, 2**62)
MANY = st.lists(NUMBERS, max_size=5).map(tuple)
CHANGES = st.one_of(
    st.builds(Triplet, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Pair, NUMBERS, NUMBERS, st.booleans()),
    st.builds(Click, NUMBERS, MANY, MANY),
    st.builds(Undo, NUMBERS, NUMBERS),
    st.builds(ModelReplacement, st.text(max_size=64)),
)


@given(CHANGES)
def test_the_log_gives_back_what_was_put_in(change: Any) -> None:
    kept = change_from_json(orjson.loads(orjson.dumps(change_to_json(change))))
    assert (kept, type(kept)) == (change, type(change))


@st.composite
def clicks(draw: Any) -> Click:
    """What can be true: a query, and others that are all different."""
    query, *others = draw(st.lists(st.integers(0, 20), min_size=2, max_size=9, unique=True))
    cut = draw(st.integers(0, len(others)))
    return Click(query, tuple(others[:cut]), tuple(others[cut:]))


@given(clicks())
def test_a_click_says_of_each_whether_it_is_like_the_query(click: Click) -> None:
    graph = ConstraintGraph()
    for constraint in constraints_of(click):
        graph.add(constraint)
    assert all(graph.are_similar(click.query, other) for other in click.positive)
    assert all(graph.are_dissimilar(click.query, other) for other in click.negative)
    assert all(graph.are_dissimilar(one, two) for one, two in product(click.positive, click.negative))


@given(clicks())
def test_a_click_makes_no_more_constraints_than_it_needs(click: Click) -> None:
    assert len(constraints_of(click)) == max(len(click.positive), len(click.negative))


@given(clicks())
def test_a_click_of_both_kinds_makes_triplets_only(click: Click) -> None:
    kinds = {type(constraint) for constraint in constraints_of(click)}
    assert kinds == ({Triplet} if click.positive and click.negative else {Pair})


def test_a_click_on_nothing_says_nothing() -> None:
    assert constraints_of(Click("a", (), ())) == []


def test_a_triplet_and_a_pair_say_themselves() -> None:
    assert constraints_of(Triplet(1, 2, 3)) == [Triplet(1, 2, 3)]
    assert constraints_of(Pair(1, 2, False)) == [Pair(1, 2, False)]


def test_a_moment_tells_what_a_metric_weighs() -> None:
    published = PublishedMetric(EuclideanMetric(3), version=7, constraints=5, loss=0.25, time=12.0)
    moment = published.moment
    assert (moment.version, moment.constraints, moment.loss, moment.time) == (7, 5, 0.25, 12.0)
    assert moment.weights == tuple(published.weights.values()) == (1.0,)
