"""Computation of the weight of each space from the evidence for the spaces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.learners.anchored.model_arrays import GAINS, SQUARES
from oahu.learners.anchored.scaling_rules import unlearned_scale

__all__ = ["space_weights", "standard_errors"]

Doubles = NDArray[np.float64]

# Evidence, in standard errors, at which the weight starts to grow and at which it is full. The whitened space needs
# the most evidence: it improves most queries, but the evidence does not show which queries it makes worse.
_FEEDBACK_RANGE = (1.0, 3.0)
_WHITENED_RANGE = (0.0, 10.0)
_EXPERT_RANGE = (2.0, 5.0)

# Share of the unlearned space's weight that moves to the whitened space if the whitened space and the experts have
# full weight.
_MOVED_SHARE = 0.75

# The weight of an expert is multiplied by exp(-_HEDGE_RATE * s) if its evidence is s standard errors below the
# evidence of the best expert.
_HEDGE_RATE = 0.5


def space_weights(evidence: Doubles, strength: float, mean_square: float = 2.0) -> Doubles:
    """Return the weight of each space, in the order unlearned, whitened, E_0 ... E_L. The weights sum to 1.

    ``evidence`` has one column per space. Row 0 has the sum of the gains over the unlearned space, row 1 the sum of
    their squares (local_ranking.py). ``mean_square`` is the mean squared distance in the unlearned space. The
    unlearned space has all the weight if there is no evidence, or if the unlearned space orders the triplets no
    better than chance:

    >>> space_weights(np.zeros((2, 4)), strength=0.5)
    array([1., 0., 0., 0.])

    With strong evidence for the whitened space only, the unlearned and the whitened space have the same weight:

    >>> space_weights(np.array([[99.0, 99, 0, 0], [1, 1, 1, 1]]), strength=0.5)
    array([0.5, 0.5, 0. , 0. ])

    All experts together get up to ``strength`` times the total weight of the unlearned and the whitened space. If
    the experts get this maximum, three quarters of the unlearned space's weight move to the whitened space. An
    expert's share of the experts' weight decreases exponentially with the difference between the largest evidence
    of all experts and its own evidence:

    >>> space_weights(np.array([[99.0, 99, 98, 99], [1, 1, 1, 1]]), strength=0.5).round(3)
    array([0.083, 0.583, 0.126, 0.207])
    """
    errors = standard_errors(evidence)
    trust = _ramp(errors[0], _FEEDBACK_RANGE)
    whitened = trust * _ramp(errors[1], _WHITENED_RANGE)
    hedge = np.exp(_HEDGE_RATE * (errors[2:] - errors[2:].max()))
    experts = trust * _ramp(errors[2:], _EXPERT_RANGE) * hedge / hedge.sum()
    moved = _MOVED_SHARE * whitened**2 * experts.sum()
    fixed_spaces = [(1.0 - moved) * unlearned_scale(mean_square), whitened + moved]
    weights = np.array([*fixed_spaces, *(experts * (strength * (1.0 + whitened)))])
    return np.asarray(weights / weights.sum())


def standard_errors(evidence: Doubles) -> Doubles:
    """Return the evidence for each space in standard errors."""
    return np.asarray(evidence[GAINS] / np.sqrt(np.where(evidence[SQUARES] > 0, evidence[SQUARES], 1.0)))


def _ramp(values: Doubles, bounds: tuple[float, float]) -> Doubles:
    """Return (value - low) / (high - low) for each value, limited to [0, 1]. ``bounds`` is (low, high)."""
    low, high = bounds
    return np.clip((values - low) / (high - low), 0.0, 1.0)
