"""Rules for three numbers of AnchoredOAHU: softness, step size and scale of unlearned distances.

AnchoredOAHU does not scale an item x to unit length, but softens its length: it divides x by
sqrt(||x||^2 + softness * mean ||x||^2).
"""

from __future__ import annotations

import math

__all__ = ["softness", "step_size", "unlearned_scale"]


def softness(d: int) -> float:
    """Return the softness, given the number of features d. An item is divided by its softened length.

    The softened length of x is sqrt(||x||^2 + softness * mean ||x||^2). Scaling to unit length would discard the
    length of x, which is one of d dimensions. With softness > 0, a part of the length is kept. This part is larger
    if d is smaller.
    """
    return float((4.0 / max(d - 1, 1)) ** 3)


def step_size(learning_rate: float, seen: float) -> float:
    """Return the experts' step size after ``seen`` constraints.

    The step size starts at ``learning_rate`` and falls to 2/5 of this value within 10,000 constraints.

    It falls because long streams repeat the same items, and large steps would overfit to these items.
    """
    return learning_rate / math.sqrt(1.0 + min(seen, 10_000.0) / 2_000.0)


def unlearned_scale(mean_square: float) -> float:
    """Return the factor for squared distances in the unlearned space. ``mean_square`` is their mean.

    If all items are far from the origin, they have nearly the same direction and tiny distances in the unlearned
    space. The factor makes these distances comparable with the distances in the other spaces.
    """
    return 0.3 / mean_square if 0.0 < mean_square < 0.3 else 1.0
