"""Counts of constraints seen and used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.learners.base import Learner as AnyLearner

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Floats = NDArray[np.floating]


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6))
@settings(max_examples=15)
def test_n_seen_counts_every_constraint(
    make: Factory, per_triplet: Callable[[Learner], int], triplets: Floats, sizes: list[int]
) -> None:
    learner = make()
    for size in sizes:
        learner.partial_fit(triplets[:size])
    assert learner.n_seen_ == per_triplet(learner) * sum(sizes)


def test_fit_with_labels_learns_n_constraints(make_drawing: Factory, table: Floats, labels: NDArray[Any]) -> None:
    assert make_drawing(n_constraints=37).fit(table, labels).n_seen_ == 37


def test_a_learner_at_the_start_has_seen_nothing(make: Factory) -> None:
    assert make().initialize(5).n_seen_ == 0


def test_utilization_without_constraints_is_nan(make: Factory) -> None:
    assert math.isnan(make().initialize(5).utilization_)


def test_the_metric_version_is_the_number_of_constraints(
    make: Factory, per_triplet: Callable[[Learner], int], triplets: Floats
) -> None:
    learner = make().partial_fit(triplets[:17])
    assert learner.metric().version == 17 * per_triplet(learner)


def test_an_oahu_uses_every_ordinary_triplet(make_oahu: Factory, triplets: Floats) -> None:
    assert make_oahu().partial_fit(triplets).utilization_ == 1.0


@given(same=st.sets(st.integers(0, 39)))
@settings(max_examples=15)
def test_triplets_of_one_item_thrice_are_counted_but_not_used(
    make_oahu: Factory, triplets: Floats, same: set[int]
) -> None:
    stream = triplets[:40].copy()
    for row in same:
        stream[row] = stream[row, 0]
    learner = make_oahu().partial_fit(stream)
    assert learner.utilization_ == pytest.approx((40 - len(same)) / 40)


def test_the_number_of_features_is_kept(make: Factory, triplets: Floats) -> None:
    assert make().partial_fit(triplets).n_features_in_ == 5
