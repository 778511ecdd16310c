"""What evidence is worth: from what each space added, summed, to how much it counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["earned_weights", "standard_errors", "unlearned_scale"]

Doubles = NDArray[np.float64]

# How many standard errors it takes to count at all, and to count in full. The experts, with all their parameters,
# are asked for more: at the beginning they seem to help before they do. The whitened space may in the end take the
# unlearned one's place.
_FEEDBACK = (1.0, 3.0)
_WHITENED = (2.0, 5.0)
_EXPERTS = (4.0, 12.0)
_IN_PLACE = (2.0, 6.0)


def unlearned_scale(mean_square: float) -> float:
    """What squared distances in the unlearned space are multiplied by, given their mean.

    Items that are far from the origin have nearly the same direction. Without a scale their distances would be
    nothing beside those of the other spaces, and nothing would be held by them.
    """
    return 0.3 / mean_square if 0.0 < mean_square < 0.3 else 1.0


def earned_weights(evidence: Doubles, strength: float, mean_square: float = 2.0) -> Doubles:
    """How much each space counts: the unlearned one, the whitened one, E_0 ... E_L. They sum to 1.

    ``mean_square`` is that of distances in the unlearned space. Before there is evidence, and for feedback that
    orders items no better than by chance, that space is all:

    >>> earned_weights(np.zeros((2, 5)), strength=0.5)
    array([1., 0., 0., 0.])

    With the surest evidence the whitened space counts as much, and the experts together ``strength`` times both:

    >>> earned_weights(np.array([[99.0, 99, 99, 99, 0], [1, 1, 1, 1, 1]]), strength=0.5).round(3)
    array([0.333, 0.333, 0.167, 0.167])

    If it is also sure that the whitened space does better alone, it takes the other's place:

    >>> earned_weights(np.array([[99.0, 99, 99, 99, 99], [1, 1, 1, 1, 1]]), strength=0.5).round(3)
    array([0.   , 0.667, 0.167, 0.167])
    """
    sure = standard_errors(evidence)
    trust = _between(sure[0], _FEEDBACK)
    whitened = trust * _between(sure[1], _WHITENED)
    in_place = whitened * _between(sure[-1], _IN_PLACE)
    experts = trust * _between(sure[2:-1], _EXPERTS)
    anchor = [(1.0 - in_place) * unlearned_scale(mean_square), whitened + in_place]
    weights = np.array([*anchor, *(experts * (strength * (1.0 + whitened) / len(experts)))])
    return np.asarray(weights / weights.sum())


def standard_errors(evidence: Doubles) -> Doubles:
    """How many standard errors each sum is from 0."""
    return np.asarray(evidence[0] / np.sqrt(np.where(evidence[1] > 0, evidence[1], 1.0)))


def _between(sure: Doubles, bounds: tuple[float, float]) -> Doubles:
    low, high = bounds
    return np.clip((sure - low) / (high - low), 0.0, 1.0)
