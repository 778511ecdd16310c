"""The experts: their gradients against central differences, and Adam against torch."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from oahu.learners.anchored.click_loss import pair_weights
from oahu.learners.anchored.experts import Adam, Batch, axis_gradient, linear_gradient, network_gradients

Rows = NDArray[np.float64]
Outputs = Callable[[], NDArray[np.floating]]
Expected = Callable[[Outputs, Rows], Rows]

AXES, HIDDEN, N_RANDOM, TEMPERATURE = 4, 5, 6, 0.3
MARKS: tuple[list[float], ...] = ([1, 1, -1, -0.3], [1, 1, 1], [1, -1], [1, 0.3, 0.3, -1])
WEIGHTS = (1.0, 0.5, 0.7, 0.2)


@pytest.fixture
def batch() -> Batch:
    """Return groups of different sizes, with weights and weak marks."""
    rng = np.random.default_rng(0)
    marks = np.zeros((len(MARKS), max(map(len, MARKS))))
    for row, values in zip(marks, MARKS, strict=True):
        row[: len(values)] = values
    inputs, scaled = (units(rng, marks.size + N_RANDOM) for _ in range(2))
    pairs = pair_weights(marks) * np.array(WEIGHTS)[:, None, None] / len(marks)
    return Batch(inputs, scaled, marks, pairs, TEMPERATURE)


@pytest.fixture(params=[AXES, 3, 1], ids=lambda r: f"{r} leading axes")
def n_leading(request: pytest.FixtureRequest) -> int:
    """The number of axes for which matrices are learned. The other coordinates are not changed."""
    return int(request.param)


def units(rng: np.random.Generator, n: int) -> Rows:
    vectors = rng.standard_normal((n, AXES))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@pytest.fixture
def expected_gradient(
    batch: Batch, loss_of_group: Callable[..., float], numeric_gradient: Callable[..., Rows]
) -> Expected:
    """Return a function that returns the gradient of the mean loss of ``outputs()`` for an array."""
    n, m = batch.marks.shape

    def mean_loss(outputs: NDArray[np.floating]) -> float:
        vectors = [row / math.sqrt(row @ row) for row in outputs]
        losses = [
            loss_of_group(vectors[g * m : (g + 1) * m], vectors[n * m :], batch.marks[g], TEMPERATURE)
            for g in range(n)
        ]
        return float(np.mean(np.array(WEIGHTS) * losses))

    return lambda outputs, array: numeric_gradient(lambda: mean_loss(outputs()), array)


def test_the_gradient_of_the_axis_weights(batch: Batch, expected_gradient: Expected) -> None:
    logarithms = np.random.default_rng(1).normal(0, 0.5, AXES)
    expected = expected_gradient(lambda: batch.inputs * np.exp(logarithms), logarithms)
    assert axis_gradient(batch, logarithms) == pytest.approx(expected, abs=1e-7)


def test_the_gradient_of_the_linear_map(batch: Batch, expected_gradient: Expected, n_leading: int) -> None:
    matrix = np.eye(n_leading) + np.random.default_rng(2).normal(0, 0.3, (n_leading, n_leading))
    expected = expected_gradient(
        lambda: np.array([[*(matrix @ row[:n_leading]), *row[n_leading:]] for row in batch.scaled]), matrix
    )
    assert linear_gradient(batch, matrix) == pytest.approx(expected, abs=1e-7)


def test_the_gradients_of_the_network(batch: Batch, expected_gradient: Expected, n_leading: int) -> None:
    rng = np.random.default_rng(3)
    hidden, bias, output = (
        rng.standard_normal((n_leading, HIDDEN)),
        rng.normal(0, 0.3, HIDDEN),
        rng.normal(size=(HIDDEN, n_leading)),
    )

    def outputs() -> Rows:
        rows = []
        for row in batch.scaled:
            before = row[:n_leading] @ hidden + bias
            assert np.abs(before).min() > 1e-5  # a rectified unit has no derivative at 0
            rows.append([*(row[:n_leading] + before * (before > 0) @ output), *row[n_leading:]])
        return np.array(rows)

    gradients = network_gradients(batch, hidden, bias, output)
    for gradient, array in zip(gradients, (hidden, bias, output), strict=True):
        assert gradient == pytest.approx(expected_gradient(outputs, array), abs=1e-7)


def test_an_output_of_length_zero_has_a_finite_gradient(batch: Batch) -> None:
    assert np.isfinite(linear_gradient(batch, np.zeros((AXES, AXES)))).all()


@pytest.mark.parametrize("shape", [(7,), (3, 4)])
def test_adam_takes_the_steps_of_torch(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    start = rng.standard_normal(shape)
    theirs = torch.tensor(start.copy(), requires_grad=True)
    optimizer = torch.optim.Adam([theirs], lr=0.03)
    mine = Adam.start(start)
    for n_steps in range(1, 30):
        gradient = rng.standard_normal(shape) * 10.0 ** rng.uniform(-6, 3)
        theirs.grad = torch.tensor(gradient.copy())
        optimizer.step()
        mine = mine.step(gradient.copy(), 0.03, n_steps)
        assert mine.values == pytest.approx(theirs.detach().numpy(), rel=1e-10, abs=1e-12)


def test_adam_does_not_change_its_arrays_in_place() -> None:
    first = Adam.start(np.ones(3)).step(np.ones(3), 0.1, 1)
    before = [array.copy() for array in first]
    first.step(np.full(3, -2.0), 0.1, 2)
    for array, copy in zip(first, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_gradient_of_zero_does_not_move_adam() -> None:
    assert Adam.start(np.ones(3)).step(np.zeros(3), 0.1, 1).values.tolist() == [1.0, 1.0, 1.0]
