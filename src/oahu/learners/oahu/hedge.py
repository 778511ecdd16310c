"""The Adaptive Hedge Update (AHU) of the experts' weights, Section 3.4 of the paper.

Each expert's weight is multiplied by a factor that decreases with its local loss. Weights below a lower limit are
raised to this limit. Then all weights are normalised. The paper's formula for the factor can be read in three ways.
All three readings are implemented as rules. docs/fidelity.md explains the rules.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["HEDGE_RULES", "HedgeRule", "hedge_factor", "hedge_update", "update_weights"]

HedgeRule = Literal["printed", "log_beta", "hedge"]

#: The rules for the factor, each with its number in the compiled update step.
HEDGE_RULES: Final[dict[HedgeRule, int]] = {"printed": 0, "log_beta": 1, "hedge": 2}

_PRINTED, _LOG_BETA = HEDGE_RULES["printed"], HEDGE_RULES["log_beta"]


def hedge_factor(loss: float, least_loss: float, beta: float, rule: int) -> float:
    """Return the factor for an expert's weight, given its loss and the smallest loss of all experts.

    The rule "printed" is the paper's Eq. (alpha_update): ``beta^L`` if ``beta^(min L) log L > beta - 1``, else
    ``1 - (1 - beta) L``, where L is the loss. If the loss is 0, the factor is 1 and no logarithm is computed.

    >>> hedge_factor(0.0, 0.0, 0.99, HEDGE_RULES["printed"])
    1.0
    >>> hedge_factor(0.5, 0.1, 0.99, HEDGE_RULES["printed"])
    0.995
    """
    if loss <= 0.0:
        return 1.0
    if rule == _PRINTED:
        exponential = beta**least_loss * math.log(loss) > beta - 1.0
    elif rule == _LOG_BETA:
        exponential = beta**least_loss * math.log(beta) > beta - 1.0
    else:
        exponential = True
    return beta**loss if exponential else 1.0 - (1.0 - beta) * loss


def hedge_update(
    weights: NDArray[np.float64], losses: NDArray[np.float64], beta: float, smoothing: float, rule: int
) -> NDArray[np.float64]:
    """Return alpha_(t+1), the experts' weights after round t, computed from alpha_t and the losses of round t.

    Each weight is multiplied by its `hedge_factor`. Weights below s / n_experts are raised to this value. Then all
    weights are normalised.

    Parameters
    ----------
    weights, losses : ndarray of shape (n_experts,)
    beta : float
        The discount factor, in (0, 1).
    smoothing : float
        s: before normalisation, no weight is below ``smoothing / n_experts``.
    rule : int
        One of the values of ``HEDGE_RULES``.

    >>> alpha = hedge_update(np.array([0.5, 0.5]), np.array([0.2, 0.4]), 0.99, 0.1, HEDGE_RULES["hedge"])
    >>> alpha[0] > alpha[1], float(alpha.sum())
    (np.True_, 1.0)
    """
    updated = weights.copy()
    update_weights(updated, losses, beta, smoothing, rule)
    return updated


def update_weights(
    weights: NDArray[np.float64], losses: NDArray[np.float64], beta: float, smoothing: float, rule: int
) -> None:
    """Change ``weights`` to the result of `hedge_update`."""
    # Comparisons instead of min() and max(), which take numba longer to compile.
    least_loss = losses[0]
    for expert in range(1, weights.size):
        if losses[expert] < least_loss:
            least_loss = losses[expert]
    floor = smoothing / weights.size
    total = 0.0
    for expert in range(weights.size):
        updated = weights[expert] * hedge_factor(losses[expert], least_loss, beta, rule)
        if updated < floor:
            updated = floor
        weights[expert] = updated
        total += updated
    for expert in range(weights.size):
        weights[expert] /= total
