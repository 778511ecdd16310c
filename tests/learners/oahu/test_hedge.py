"""The Adaptive Hedge Update: the three rules, the floor and the normalisation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.learners.oahu.hedge import HEDGE_RULES, HedgeRule, hedge_factor, hedge_update

betas = st.floats(0.001, 0.999)
losses = st.floats(0.0, 1.0)
rules = st.sampled_from(list(HEDGE_RULES))


@st.composite
def rounds(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights on the simplex, and a loss for each expert."""
    raw = np.array(draw(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8)))
    each = draw(st.lists(losses, min_size=len(raw), max_size=len(raw)))
    return raw / raw.sum(), np.array(each)


def printed(loss: float, least: float, beta: float) -> float:
    """Eq. (alpha_update) as the paper prints it, for a loss above zero."""
    return beta**loss if beta**least * math.log(loss) > beta - 1 else 1 - (1 - beta) * loss


@given(st.floats(1e-12, 1.0), losses, betas)
def test_printed_rule_has_both_branches_of_the_paper(loss: float, least: float, beta: float) -> None:
    assert hedge_factor(loss, least, beta, HEDGE_RULES["printed"]) == printed(loss, least, beta)


def test_printed_rule_takes_its_first_branch_only_for_losses_near_one() -> None:
    beta = 0.99
    exponential = [
        loss
        for loss in np.linspace(0.001, 1, 1000)
        if hedge_factor(loss, 0.0, beta, HEDGE_RULES["printed"]) == beta**loss
        and beta**loss != 1 - (1 - beta) * loss
    ]
    assert 0.98 < min(exponential) < 0.995


@pytest.mark.parametrize(("least", "exponential"), [(0.49, False), (0.51, True)])
def test_the_log_beta_rule_switches_at_a_least_loss_of_one_half(least: float, exponential: bool) -> None:
    beta, loss = 0.99, 0.7
    expected = beta**loss if exponential else 1 - (1 - beta) * loss
    assert hedge_factor(loss, least, beta, HEDGE_RULES["log_beta"]) == expected


@given(losses, losses, betas)
def test_plain_hedge_is_beta_to_the_loss(loss: float, least: float, beta: float) -> None:
    assert hedge_factor(loss, least, beta, HEDGE_RULES["hedge"]) == beta**loss


@given(betas, rules)
def test_expert_without_loss_keeps_its_weight(beta: float, rule: HedgeRule) -> None:
    assert hedge_factor(0.0, 0.0, beta, HEDGE_RULES[rule]) == 1.0


@given(losses, losses, betas, rules)
@example(loss=1.0, least=0.0, beta=0.0019447101267542723, rule="log_beta")
def test_factor_lies_between_beta_and_one(loss: float, least: float, beta: float, rule: HedgeRule) -> None:
    factor = hedge_factor(loss, min(least, loss), beta, HEDGE_RULES[rule])
    rounding = 2.0**-53  # of 1 - beta, which is near 1 where beta is small: an absolute error, not a relative one
    assert beta - rounding <= factor <= 1.0


@given(rounds(), betas, losses, rules)
def test_weights_stay_on_the_simplex_above_the_floor(
    given_round: tuple[NDArray[np.float64], NDArray[np.float64]], beta: float, smoothing: float, rule: HedgeRule
) -> None:
    weights, each = given_round
    updated = hedge_update(weights, each, beta, smoothing, HEDGE_RULES[rule])
    assert updated.sum() == pytest.approx(1.0, abs=1e-14)
    # Lifting to the floor adds at most s in all, so normalising divides by at most 1 + s.
    assert updated.min() >= smoothing / len(weights) / (1 + smoothing) * (1 - 1e-12)


@given(rounds(), betas, losses, rules)
def test_update_equals_a_plain_loop(
    given_round: tuple[NDArray[np.float64], NDArray[np.float64]], beta: float, smoothing: float, rule: HedgeRule
) -> None:
    weights, each = given_round
    floor = smoothing / len(weights)
    raised = [
        max(w * hedge_factor(loss, min(each), beta, HEDGE_RULES[rule]), floor)
        for w, loss in zip(weights.tolist(), each.tolist(), strict=True)
    ]
    expected = [value / math.fsum(raised) for value in raised]
    np.testing.assert_allclose(
        hedge_update(weights, each, beta, smoothing, HEDGE_RULES[rule]), expected, rtol=1e-13
    )


def test_the_expert_with_the_smaller_loss_gains_weight() -> None:
    weights = np.full(3, 1 / 3)
    for _ in range(2000):
        weights = hedge_update(weights, np.array([0.5, 0.2, 0.4]), 0.99, 0.1, HEDGE_RULES["printed"])
    assert weights[1] > 0.9
    assert weights[0] == pytest.approx(weights[2])


def test_the_update_does_not_change_its_input() -> None:
    weights, each = np.array([0.5, 0.5]), np.array([0.1, 0.9])
    hedge_update(weights, each, 0.9, 0.1, HEDGE_RULES["printed"])
    np.testing.assert_array_equal(weights, [0.5, 0.5])
    np.testing.assert_array_equal(each, [0.1, 0.9])
