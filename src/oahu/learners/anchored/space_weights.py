"""The weight of each space, computed from its evidence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.learners.anchored.scaling_rules import unlearned_scale

__all__ = ["space_weights", "standard_errors"]

Doubles = NDArray[np.float64]

# How many standard errors it takes to count at all, and to count in full: of the feedback, and of the spaces. The
# whitened one is trusted slowly: it is good for most neighbours, and the question cannot tell whose it ruins.
_FEEDBACK = (1.0, 3.0)
_WHITENED = (0.0, 10.0)
_EXPERTS = (2.0, 5.0)

# How much of the unlearned space's place the whitened one takes when it and the experts count in full.
_TAKEN = 0.75

# How fast an expert that is a standard error behind another loses weight to it.
_HEDGE = 0.5


def space_weights(evidence: Doubles, strength: float, mean_square: float = 2.0) -> Doubles:
    """How much each space counts: the unlearned one, the whitened one, E_0 ... E_L. They sum to 1.

    ``mean_square`` is that of distances in the unlearned space. Before there is evidence, and for feedback that
    orders items no better than by chance, that space is all:

    >>> space_weights(np.zeros((2, 4)), strength=0.5)
    array([1., 0., 0., 0.])

    With the surest evidence the whitened space counts as much:

    >>> space_weights(np.array([[99.0, 99, 0, 0], [1, 1, 1, 1]]), strength=0.5)
    array([0.5, 0.5, 0. , 0. ])

    The experts count ``strength`` times both together, and if they count in full, the whitened space takes three
    quarters of the unlearned one's place. Among them a hedge decides: an expert loses weight exponentially to one
    that has more evidence.

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
    """How many standard errors each sum is from 0."""
    return np.asarray(evidence[0] / np.sqrt(np.where(evidence[1] > 0, evidence[1], 1.0)))


def _between(sure: Doubles, bounds: tuple[float, float]) -> Doubles:
    low, high = bounds
    return np.clip((sure - low) / (high - low), 0.0, 1.0)
