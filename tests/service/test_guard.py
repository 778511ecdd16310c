"""The guard: a metric that loses is no longer used, and a metric that wins stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oahu.service.guard import THRESHOLD, Guard, GuardState
from oahu.service.outcomes import OUTCOME


def rows(differences: Any, first: int = 1) -> Any:
    """Return interleaved outcomes with these differences of the precisions, in tenths."""
    made = np.zeros(len(differences), OUTCOME)
    made["seq"] = np.arange(first, first + len(differences))
    made["depth"], made["unlearned"] = 10, 10
    made["learned"] = 10 + np.asarray(differences)
    return made


def final_state(made: Any) -> GuardState:
    guard = Guard()
    guard.update(made, 0)
    return guard.state


@pytest.mark.parametrize("difference", [-1, -3, -10])
def test_a_losing_metric_is_no_longer_used(difference: int) -> None:
    state = final_state(rows([difference] * 200))
    assert state.factor == 0
    assert len(state.switches) == 1


def test_a_larger_loss_is_noticed_earlier() -> None:
    when = [final_state(rows([difference] * 200)).switches[0].seq for difference in (-1, -3, -10)]
    assert when == sorted(when, reverse=True)
    assert when[-1] < 20


def test_a_winning_metric_stays_in_use() -> None:
    rng = np.random.default_rng(0)
    state = final_state(rows(rng.integers(-4, 6, size=5_000)))
    assert state == state._replace(factor=1.0, switches=(), n=5_000)
    assert state.evidence < THRESHOLD


def test_a_metric_that_becomes_worse_after_many_wins_is_noticed() -> None:
    state = final_state(rows([3] * 2_000 + [-3] * 60))
    assert state.factor == 0
    assert state.switches[0].seq > 2_000


def test_a_metric_recovers_when_evidence_returns() -> None:
    state = final_state(rows([-5] * 60 + [5] * 60))
    assert [one.factor for one in state.switches] == [0, 1]
    assert state.factor == 1


def test_equal_metrics_rarely_give_a_false_alarm() -> None:
    """On average, at least 1,000 searches pass until a false alarm."""
    rng = np.random.default_rng(1)
    n_alarms = sum(len(final_state(rows(rng.integers(-3, 4, size=500))).switches) for _ in range(60))
    assert n_alarms <= 60 * 500 / THRESHOLD


def test_searches_that_are_not_interleaved_do_not_count() -> None:
    made = rows([-5] * 100)
    made["depth"] = 0
    assert final_state(made) == GuardState()


@pytest.mark.parametrize("changed", [0, 999, 1_000, 1_500, 2_499])
def test_a_changed_row_gives_the_state_of_all_rows(changed: int) -> None:
    """A second click on an old search changes its row."""
    made = rows(np.random.default_rng(2).integers(-5, 6, size=2_500))
    guard = Guard()
    for end in range(100, 2_501, 100):
        guard.update(made[:end], end - 100)
    made["learned"][changed] = 0
    guard.update(made, changed)
    assert guard.state == final_state(made)
