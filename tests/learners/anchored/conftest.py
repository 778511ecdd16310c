"""Functions that several test files share: the loss in plain Python, central differences, simulated data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

Rows = NDArray[np.float64]


@pytest.fixture(scope="session")
def loss_of_group() -> Callable[..., float]:
    return _loss_of_group


@pytest.fixture(scope="session")
def numeric_gradient() -> Callable[[Callable[[], float], Rows], Rows]:
    return _numeric_gradient


def _loss_of_group(
    vectors: Sequence[Rows], randoms: Sequence[Rows], marks: Sequence[float], temperature: float
) -> float:
    """Return the weighted mean over ordered pairs of alike items: log(1 + negatives) + log(1 + random items)."""
    alike = [i for i, mark in enumerate(marks) if mark > 0]
    pairs = [(i, j) for i in alike for j in alike if i != j] or [(0, 0)]
    total = weights = 0.0
    for i, j in pairs:
        near = _similarity(vectors[i], vectors[j]) / temperature
        from_negatives = from_randoms = 0.0
        for k, mark in enumerate(marks):
            if mark < 0:
                from_negatives += -mark * math.exp(_similarity(vectors[i], vectors[k]) / temperature - near)
        for random in randoms:
            from_randoms += math.exp(_similarity(vectors[i], random) / temperature - near)
        weight = marks[i] * marks[j]
        total += weight * (math.log(1 + from_negatives) + math.log(1 + from_randoms))
        weights += weight
    return float(total / weights)


def _similarity(first: Rows, second: Rows) -> float:
    return float(sum(a * b for a, b in zip(first, second, strict=True)))


def _numeric_gradient(function: Callable[[], float], array: Rows, step: float = 1e-6) -> Rows:
    """Return central differences of ``function()`` for ``array``. The array is changed in place, and restored."""
    gradient = np.empty_like(array)
    for place in np.ndindex(array.shape):
        value, results = array[place], []
        for moved in (value + step, value - step):
            array[place] = moved
            results.append(function())
        array[place] = value
        gradient[place] = (results[0] - results[1]) / (2 * step)
    return gradient
