"""Tests of the conversion of clicks for learners of pairs and learners of triplets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oahu
from oahu.evaluation.protocols.click_records import Click, _learn_converted, learn_clicks

CATALOGUE = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
NONE = np.empty(0, np.intp)
VECTOR = np.array([1.0, 2.0, 3.0], np.float32)
CLICKS = [
    Click(0, np.array([1, 2, 3]), np.array([4, 5]), NONE),
    Click(VECTOR, np.array([6]), np.array([7]), np.array([8])),
    Click(9, NONE, np.array([10]), np.array([11])),
    Click(12, np.array([13]), NONE, NONE),
]


def vector(item: Any) -> Any:
    return item if np.ndim(item) else CATALOGUE[item]


def test_pair_learner_learns_every_mark() -> None:
    pairs = [
        (0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, -1), (0, 5, -1),
        (VECTOR, 6, 1), (VECTOR, 7, -1), (9, 10, -1), (12, 13, 1),
    ]  # fmt: skip
    values = np.array([[vector(first), vector(second)] for first, second, _ in pairs])
    expected = oahu.LEGO().partial_fit(values, [label for *_, label in pairs])
    learner = oahu.LEGO().initialize(3)
    _learn_converted(learner, CLICKS, CATALOGUE)
    assert np.array_equal(learner.metric().matrix, expected.metric().matrix)


def test_triplet_learner_repeats_the_items_of_the_shorter_list() -> None:
    triplets = [(0, 1, 4), (0, 2, 5), (0, 3, 4), (VECTOR, 6, 7)]
    expected = oahu.OASIS().partial_fit(np.array([[vector(item) for item in triplet] for triplet in triplets]))
    learner = oahu.OASIS().initialize(3)
    _learn_converted(learner, CLICKS, CATALOGUE)
    assert learner.n_seen_ == 4
    assert np.array_equal(learner.metric().matrix, expected.metric().matrix)


@pytest.mark.parametrize("clicks", [CLICKS[2:], []])
def test_clicks_without_triplets_are_not_learned(clicks: list[Click]) -> None:
    learner = oahu.OAHU().initialize(3)
    _learn_converted(learner, clicks, CATALOGUE)
    assert learner.n_seen_ == 0


@pytest.mark.parametrize("name", oahu.LEARNERS)
def test_every_learner_learns_clicks(name: str) -> None:
    learner = getattr(oahu, name)(random_state=0, preprocessor=CATALOGUE).initialize(3)
    learn_clicks(learner, CLICKS, CATALOGUE)
    assert learner.n_seen_ > 0
