"""Tests of learning from clicks, with learners of pairs and learners of triplets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oahu
from oahu import Click
from oahu.evaluation.protocols.click_learning import is_empty, learn_clicks, query_vector

CATALOGUE = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
NONE = np.empty(0, np.intp)
VECTOR = np.array([1.0, 2.0, 3.0], np.float32)
TWO_SIDED = [
    Click(0, np.array([1, 2, 3]), np.array([4, 5]), NONE),
    Click(VECTOR, np.array([6]), np.array([7]), np.array([8])),
]
ONE_SIDED = [Click(9, NONE, np.array([10]), np.array([11])), Click(12, np.array([13]), NONE, NONE)]


def learned(name: str, clicks: list[Click]) -> Any:
    learner = getattr(oahu, name)(random_state=0, preprocessor=CATALOGUE).initialize(3)
    learn_clicks(learner, clicks)
    return learner


@pytest.mark.parametrize("name", oahu.LEARNERS)
def test_every_learner_learns_clicks(name: str) -> None:
    assert learned(name, TWO_SIDED).n_seen_ > 0


@pytest.mark.parametrize("name", oahu.LEARNERS)
def test_one_sided_clicks_are_left_out_if_they_are_not_used(name: str) -> None:
    learner = learned(name, ONE_SIDED)
    assert (learner.n_seen_ > 0) == learner.uses_one_sided_clicks
    if not learner.uses_one_sided_clicks:
        assert learned(name, TWO_SIDED + ONE_SIDED).n_seen_ == learned(name, TWO_SIDED).n_seen_


def test_query_is_an_item_or_a_vector() -> None:
    assert np.array_equal(query_vector(TWO_SIDED[0], CATALOGUE), CATALOGUE[0])
    assert np.array_equal(query_vector(TWO_SIDED[1], CATALOGUE), VECTOR)


def test_click_without_marks_is_empty() -> None:
    assert is_empty(Click(0, NONE, NONE, np.array([1, 2])))
    assert not any(map(is_empty, TWO_SIDED + ONE_SIDED))
