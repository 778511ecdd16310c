"""An interrupt leaves a learner unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oahu.constraints import Tuples
from oahu.learners.base import Learner as AnyLearner
from oahu.learners.oahu import triplet_step

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Learned = Callable[[Learner], dict[str, Any]]
Saved = Callable[[Learner], bytes]
Floats = NDArray[np.floating]


@pytest.mark.parametrize(
    ("fitted", "method", "interrupt"),
    [
        (False, "partial_fit", KeyboardInterrupt),
        (False, "fit", MemoryError),
        (True, "partial_fit", SystemExit),
        (True, "fit", KeyboardInterrupt),
    ],
)
def test_an_interrupt_between_blocks_leaves_the_learner_as_before(
    make: Factory,
    snapshot: Learned,
    monkeypatch: pytest.MonkeyPatch,
    triplets: Floats,
    fitted: bool,
    method: str,
    interrupt: type[BaseException],
) -> None:
    learner = make().partial_fit(triplets[:20]) if fitted else make()
    before = snapshot(learner)
    blocks = Tuples.blocks

    def interrupted(self: Tuples, dtype: Any) -> Iterator[tuple[int, Any]]:
        yield next(blocks(self, dtype))
        raise interrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tuples, "blocks", interrupted)
        with pytest.raises(interrupt):
            getattr(learner, method)(triplets)
    assert snapshot(learner) == before


@pytest.mark.parametrize(
    ("fitted", "method"), [(False, "partial_fit"), (False, "fit"), (True, "partial_fit"), (True, "fit")]
)
def test_an_interrupt_after_weights_have_moved_leaves_an_oahu_as_before(
    make_oahu: Factory,
    snapshot: Learned,
    monkeypatch: pytest.MonkeyPatch,
    triplets: Floats,
    fitted: bool,
    method: str,
) -> None:
    learner = make_oahu().partial_fit(triplets[:20]) if fitted else make_oahu()
    before = snapshot(learner)
    learn, calls = triplet_step.learn, []

    def interrupted(*arguments: Any) -> tuple[int, int]:
        result = learn(*arguments)
        calls.append(result)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(triplet_step, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            getattr(learner, method)(triplets)
    assert snapshot(learner) == before


def test_an_interrupted_learner_continues_exactly(
    make: Factory, saved: Saved, monkeypatch: pytest.MonkeyPatch, triplets: Floats
) -> None:
    learner = make().partial_fit(triplets[:20])
    blocks = Tuples.blocks

    def interrupted(self: Tuples, dtype: Any) -> Iterator[tuple[int, Any]]:
        yield next(blocks(self, dtype))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tuples, "blocks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.partial_fit(triplets[20:])
    assert saved(learner.partial_fit(triplets[20:])) == saved(make().partial_fit(triplets))


def test_a_metric_asked_for_while_fitting_fails_is_the_old_one(
    make: Factory, monkeypatch: pytest.MonkeyPatch, triplets: Floats
) -> None:
    learner = make().partial_fit(triplets[:10])
    seen = []
    begin = type(learner)._initial_state

    def watched(self: Any, *arguments: Any) -> Any:
        seen.append(self.metric().version)
        return begin(self, *arguments)

    monkeypatch.setattr(type(learner), "_initial_state", watched)
    before = learner.n_seen_
    learner.fit(triplets)
    assert seen == [before]
