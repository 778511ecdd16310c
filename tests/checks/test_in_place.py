"""learn_one changes the state in place: without a copy, completely or not at all, and only if nobody reads it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import oahu
from oahu.learners.base import Learner as AnyLearner
from oahu.learners.kinds import PairLearner

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Saved = Callable[[Learner], bytes]
Floats = NDArray[np.floating]


def teach(learner: Learner, triplet: Sequence[Floats] | Floats) -> Learner:
    """Learn one constraint: the triplet, or its similar pair."""
    return learner.learn_one(*triplet[:2], y=1) if isinstance(learner, PairLearner) else learner.learn_one(*triplet)


def test_one_constraint_does_not_replace_the_state(make_in_place: Factory, triplets: Floats) -> None:
    learner = teach(make_in_place(), triplets[0])
    state = learner._state
    assert teach(learner, triplets[1])._state is state


@pytest.mark.parametrize("read", ["metric", "pickle", "copy"])
def test_a_state_that_others_read_is_replaced(make: Factory, triplets: Floats, read: str) -> None:
    learner = teach(make(), triplets[0])
    state = learner._state
    {"metric": learner.metric, "pickle": lambda: pickle.dumps(learner), "copy": lambda: copy.copy(learner)}[read]()
    assert teach(learner, triplets[1])._state is not state


def test_counts_are_read_without_a_copy(make: Factory, triplets: Floats) -> None:
    learner = teach(make(), triplets[0])
    state = learner._state
    assert (learner.n_seen_, learner.utilization_ >= 0) == (1, True)
    assert teach(learner, triplets[1])._state is state


def test_row_numbers_do_not_replace_the_state(make: Factory, table: Floats, indices: NDArray[np.int64]) -> None:
    learner = make(preprocessor=table)

    def teach_row(row: list[int]) -> None:
        if isinstance(learner, PairLearner):
            learner.learn_one(*row[:2], y=-1)
        else:
            learner.learn_one(*row)

    teach_row(indices[0].tolist())
    state = learner._state
    teach_row(indices[1].tolist())
    assert learner._state is state


def test_items_of_two_float_types_do_not_replace_the_state(
    make_in_place: Factory, saved: Saved, triplets: Floats
) -> None:
    learner, expected = make_in_place(), make_in_place()
    teach(learner, triplets[0])
    state = learner._state
    single = triplets.astype(np.float32)
    teach(learner, [single[1, 0], single[1, 1].astype(np.float64), single[1, 2]])
    assert learner._state is state
    teach(teach(expected, triplets[0]), single[1])
    assert saved(learner) == saved(expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_an_invalid_number_changes_no_bit(
    make_in_place: Factory, saved: Saved, triplets: Floats, value: float
) -> None:
    """1e39 is too large for float32."""
    learner = teach(make_in_place(), triplets[0])
    state = learner._state
    wrong = triplets[1].astype(np.float64)
    wrong[1, 2] = value
    with pytest.raises(oahu.InvalidInputError):
        teach(learner, wrong)
    assert learner._state is state
    assert saved(learner) == saved(teach(make_in_place(), triplets[0]))


def test_a_rejected_constraint_changes_no_bit(make_learning: Factory, saved: Saved, triplets: Floats) -> None:
    learner = make_learning()
    for triplet in triplets[:5].astype(np.float32):
        teach(learner, triplet)
    twin = pickle.loads(pickle.dumps(learner))
    teach(learner, triplets[5])  # on a copy, because the pickle has read the state
    teach(twin, triplets[5])
    before, n_seen = learner._state, learner.n_seen_
    huge = np.array([[1], [-1], [0.5]], np.float32) * np.full((3, 5), 3e38, np.float32)
    try:
        teach(learner, huge)
    except (ArithmeticError, ValueError):
        assert learner._state is before
        assert learner.n_seen_ == n_seen
        assert saved(learner) == saved(twin)
    else:
        assert learner.n_seen_ == n_seen + 1  # learners on the unit sphere can learn it


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_leaves_the_model_before_or_after_the_constraint(
    make_in_place: Factory, saved: Saved, monkeypatch: pytest.MonkeyPatch, triplets: Floats, when: str
) -> None:
    learner = make_in_place()
    for triplet in triplets[:3]:
        teach(learner, triplet)
    expected = make_in_place()
    for triplet in triplets[: 3 if when == "before" else 4]:
        teach(expected, triplet)
    step = type(learner)._learn_block

    def interrupted(self: Any, *arguments: Any, **options: Any) -> Any:
        if when == "after":
            step(self, *arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(learner), "_learn_block", interrupted)
        with pytest.raises(KeyboardInterrupt):
            teach(learner, triplets[3])
    assert saved(learner) == saved(expected)


def test_changed_parameters_are_validated(make: Factory, triplets: Floats) -> None:
    learner = teach(make(), triplets[0])
    learner.set_params(n_constraints=0)
    with pytest.raises(oahu.InvalidInputError, match="'n_constraints' parameter"):
        teach(learner, triplets[1])


def test_a_deep_network_that_cannot_be_certain_learns_on_a_copy(saved: Saved, triplets: Floats) -> None:
    """With many wide layers the bound on a step exceeds the limit, and the bits must be the same nevertheless."""
    deep = {"n_layers": 20, "hidden_size": 80, "embedding_size": 3, "initialization": "he", "random_state": 0}
    single, state = oahu.OAHU(**deep), None
    for triplet in triplets[:6]:
        single.learn_one(*triplet)
        assert single._state is not state
        state = single._state
    assert saved(single) == saved(oahu.OAHU(**deep).partial_fit(triplets[:6]))
