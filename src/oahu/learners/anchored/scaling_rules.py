"""Scale factors shared by kernels and Python code: length softening, step size, unlearned distances."""

from __future__ import annotations

import math

__all__ = ["softness", "step_size", "unlearned_scale"]


def softness(d: int) -> float:
    """Return the softening of lengths: items are divided by sqrt(||x||^2 + softness * mean ||x||^2).

    Scaling to unit length discards one of d dimensions. Softening keeps part of it, more if d is small.
    """
    return float((4.0 / max(d - 1, 1)) ** 3)


def step_size(learning_rate: float, seen: float) -> float:
    """Return the experts' step size after ``seen`` constraints. It falls to 2/5 within 10,000 constraints.

    Long streams repeat the same items. Large steps would overfit to them.
    """
    return learning_rate / math.sqrt(1.0 + min(seen, 10_000.0) / 2_000.0)


def unlearned_scale(mean_square: float) -> float:
    """Return the factor on squared distances in the unlearned space, given their mean.

    Items far from the origin have nearly the same direction, so their unlearned distances are tiny. The factor
    makes them comparable with the distances in the other spaces.
    """
    return 0.3 / mean_square if 0.0 < mean_square < 0.3 else 1.0
