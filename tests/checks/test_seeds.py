"""Random draws are reproducible and independent of other draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oahu.learners.base import Learner as AnyLearner

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Learned = Callable[[Learner], dict[str, Any]]
Saved = Callable[[Learner], bytes]
Floats = NDArray[np.floating]


@pytest.mark.parametrize(
    "seed",
    [lambda: 7, lambda: np.random.default_rng(7), lambda: np.random.RandomState(7)],
    ids=["int", "Generator", "RandomState"],
)
def test_the_same_seed_gives_the_same_bits(
    make: Factory,
    learned: Learned,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    seed: Callable[[], Any],
    learn: Callable[..., Learner],
) -> None:
    one, other = (learn(make(random_state=seed()), triplets, table, labels) for _ in range(2))
    assert learned(one) == learned(other)


SEEDS = pytest.mark.parametrize(
    ("seed", "another"),
    [(7, 8), (None, None), (np.random.default_rng(7), np.random.default_rng(8))],
    ids=["ints", "None", "Generators"],
)


@SEEDS
def test_another_seed_gives_an_oahu_other_bits(
    make_oahu: Factory,
    learned: Learned,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    seed: Any,
    another: Any,
    learn: Callable[..., Learner],
) -> None:
    one, other = (learn(make_oahu(random_state=s), triplets, table, labels) for s in (seed, another))
    assert learned(one) != learned(other)


@SEEDS
def test_another_seed_draws_other_constraints_from_labels(
    make_drawing: Factory,
    monkeypatch: pytest.MonkeyPatch,
    table: Floats,
    labels: NDArray[Any],
    seed: Any,
    another: Any,
) -> None:
    drawn = []
    learn = type(make_drawing())._learn

    def watched(self: Any, state: Any, constraints: Any) -> None:
        drawn.append(constraints.indices.tolist())
        learn(self, state, constraints)

    monkeypatch.setattr(type(make_drawing()), "_learn", watched)
    for given_seed in (seed, another):
        make_drawing(random_state=given_seed).fit(table, labels)
    assert drawn[0] != drawn[1]


def test_a_generator_advances_with_every_learner(make: Factory, triplets: Floats) -> None:
    rng = np.random.default_rng(7)
    make(random_state=rng).partial_fit(triplets)
    assert rng.bit_generator.state != np.random.default_rng(7).bit_generator.state


def test_scoring_labels_with_a_generator_changes_nothing_learned(
    make: Factory, saved: Saved, table: Floats, labels: NDArray[Any]
) -> None:
    learner = make(random_state=np.random.default_rng(7)).fit(table, labels)
    before = saved(learner)
    learner.score(table, labels)
    assert saved(learner) == before


def test_other_draws_from_the_generator_do_not_change_the_learner(
    make: Factory, saved: Saved, triplets: Floats
) -> None:
    rng = np.random.default_rng(7)
    learner = make(random_state=rng).partial_fit(triplets)
    before = saved(learner)
    rng.random()
    assert saved(learner) == before


def test_scoring_labels_does_not_advance_the_callers_generator(
    make: Factory, table: Floats, labels: NDArray[Any]
) -> None:
    generator = np.random.default_rng(7)
    learner = make(random_state=generator).fit(table, labels)
    assert learner.score(table, labels) == learner.score(table, labels)
