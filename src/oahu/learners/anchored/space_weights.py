"""The weight of each space, computed from its evidence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.learners.anchored.scaling_rules import unlearned_scale

__all__ = ["space_weights", "standard_errors"]

Doubles = NDArray[np.float64]

# Standard errors at which weight starts to grow and at which it is full: for the feedback and for the spaces. The
# whitened space needs most: it helps most queries, but the evidence does not show which queries it hurts.
_FEEDBACK = (1.0, 3.0)
_WHITENED = (0.0, 10.0)
_EXPERTS = (2.0, 5.0)

# Share of the unlearned space's weight that moves to the whitened space when it and the experts have full weight.
_TAKEN = 0.75

# An expert that is s standard errors behind another gets exp(-_HEDGE * s) of its weight.
_HEDGE = 0.5


def space_weights(evidence: Doubles, strength: float, mean_square: float = 2.0) -> Doubles:
    """Return the weight of each space: unlearned, whitened, E_0 ... E_L. They sum to 1.

    ``mean_square`` is the mean square of distances in the unlearned space. Without evidence, and if the feedback
    agrees with the unlearned space no better than by chance, the unlearned space has all the weight:

    >>> space_weights(np.zeros((2, 4)), strength=0.5)
    array([1., 0., 0., 0.])

    With strong evidence, the whitened space gets the same weight:

    >>> space_weights(np.array([[99.0, 99, 0, 0], [1, 1, 1, 1]]), strength=0.5)
    array([0.5, 0.5, 0. , 0. ])

    Together, the experts get up to ``strength`` times the weight of both. With full weight, three quarters of the
    unlearned space's weight move to the whitened space. A hedge divides the experts' weight: an expert loses weight
    exponentially to one with more evidence.

    >>> space_weights(np.array([[99.0, 99, 98, 99], [1, 1, 1, 1]]), strength=0.5).round(3)
    array([0.083, 0.583, 0.126, 0.207])
    """
    sure = standard_errors(evidence)
    trust = _between(sure[0], _FEEDBACK)
    whitened = trust * _between(sure[1], _WHITENED)
    hedge = np.exp(_HEDGE * (sure[2:] - sure[2:].max()))
    experts = trust * _between(sure[2:], _EXPERTS) * hedge / hedge.sum()
    taken = _TAKEN * whitened**2 * experts.sum()
    anchor = [(1.0 - taken) * unlearned_scale(mean_square), whitened + taken]
    weights = np.array([*anchor, *(experts * (strength * (1.0 + whitened)))])
    return np.asarray(weights / weights.sum())


def standard_errors(evidence: Doubles) -> Doubles:
    """Return the evidence of each space in standard errors."""
    return np.asarray(evidence[0] / np.sqrt(np.where(evidence[1] > 0, evidence[1], 1.0)))


def _between(sure: Doubles, bounds: tuple[float, float]) -> Doubles:
    low, high = bounds
    return np.clip((sure - low) / (high - low), 0.0, 1.0)
