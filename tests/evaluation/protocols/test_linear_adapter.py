"""Tests of the linear adapter: its loss by a plain loop, its gradient by finite differences, and its effect."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from oahu import Click
from oahu.evaluation.protocols.linear_adapter import batch_of, loss_and_gradient, train_adapter

RNG = np.random.default_rng(3)
CATALOGUE = RNG.normal(size=(30, 4))
CATALOGUE /= np.linalg.norm(CATALOGUE, axis=1, keepdims=True)
NONE = np.empty(0, np.intp)
CLICKS = [
    Click(0, np.array([1, 2]), np.array([3]), NONE),
    Click(np.array([0.6, 0.0, 0.8, 0.0]), np.array([4]), np.array([5, 6, 7]), NONE),
    Click(8, np.array([9, 10, 11]), NONE, np.array([12])),
]
OTHERS = CATALOGUE[20:26]
MATRIX = np.eye(4) + 0.2 * RNG.normal(size=(4, 4))


def unit(vector: Any) -> Any:
    return vector / math.sqrt(sum(x * x for x in vector))


def loss_by_loop(matrix: Any, temperature: float) -> float:
    losses = []
    for click in CLICKS:
        query = unit(matrix @ (click.query if np.ndim(click.query) else CATALOGUE[click.query]))
        rest = [unit(matrix @ item) for item in (*CATALOGUE[click.negatives], *OTHERS)]
        for row in click.positives:
            own = math.exp(query @ unit(matrix @ CATALOGUE[row]) / temperature)
            losses.append(-math.log(own / (own + sum(math.exp(query @ item / temperature) for item in rest))))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_loss_is_infonce(temperature: float) -> None:
    loss, _ = loss_and_gradient(MATRIX, batch_of(CLICKS, CATALOGUE), OTHERS, temperature)
    assert loss == pytest.approx(loss_by_loop(MATRIX, temperature))


def test_gradient_agrees_with_finite_differences() -> None:
    _, gradient = loss_and_gradient(MATRIX, batch_of(CLICKS, CATALOGUE), OTHERS, 0.3)
    for place in np.ndindex(4, 4):
        step = np.zeros((4, 4))
        step[place] = 1e-6
        slope = (loss_by_loop(MATRIX + step, 0.3) - loss_by_loop(MATRIX - step, 0.3)) / 2e-6
        assert gradient[place] == pytest.approx(slope, abs=1e-6)


def test_clicks_without_positives_change_nothing() -> None:
    clicks = [Click(0, NONE, np.array([1, 2]), NONE)]
    matrix = train_adapter(CATALOGUE.astype(np.float32), clicks, np.random.default_rng(0))
    assert np.array_equal(matrix, np.eye(4))


def test_training_is_deterministic_and_lowers_the_loss() -> None:
    catalogue = CATALOGUE.astype(np.float32)
    first, second = (train_adapter(catalogue, CLICKS * 40, np.random.default_rng(0)) for _ in range(2))
    assert np.array_equal(first, second)
    batch = batch_of(CLICKS, catalogue)
    before, after = (loss_and_gradient(each, batch, OTHERS, 0.1)[0] for each in (np.eye(4), first))
    assert after < before
