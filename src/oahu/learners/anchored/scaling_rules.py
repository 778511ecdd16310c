"""Scale factors shared by kernels and Python code: length softening, step size, unlearned distances."""

from __future__ import annotations

import math

__all__ = ["softness", "step_size", "unlearned_scale"]


def softness(d: int) -> float:
    """How much of the mean square of lengths is added to each: as if they were sqrt(||x||^2 + softness * mean).

    The unit vector throws one of d dimensions away. The fewer there are, the less is thrown away here.
    """
    return float((4.0 / max(d - 1, 1)) ** 3)


def step_size(learning_rate: float, seen: float) -> float:
    """Of the experts, after so many constraints: it falls to 2/5 of what it was, for good after 10,000.

    Long streams are mostly about items that were there before. Steps that stay large learn those by heart.
    """
    return learning_rate / math.sqrt(1.0 + min(seen, 10_000.0) / 2_000.0)


def unlearned_scale(mean_square: float) -> float:
    """What squared distances in the unlearned space are multiplied by, given their mean.

    Items that are far from the origin have nearly the same direction. Without a scale their distances would be
    nothing beside those of the other spaces, and nothing would be held by them.
    """
    return 0.3 / mean_square if 0.0 < mean_square < 0.3 else 1.0
