"""Whitening by similar pairs: against the closed form from all pairs, and with pairs of equal items."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import sqrtm

from oahu.learners.anchored.pair_whitening import _FIRST_PAIRS, _FLOOR, _PRIOR_PAIRS, PairWhitening

Rows = NDArray[np.float64]

R = 5


def groups(n: int, seed: int = 0) -> tuple[Rows, Rows, Rows]:
    """Return the items, marks and weights of groups of at most 6 items, with all kinds of marks."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((n, 6, R)) * [3, 1, 1, 0.5, 0.1] + rng.standard_normal((n, 1, R))
    marks = rng.choice([1, 1, 0.3, -1, -0.3, 0], (n, 6))
    marks[:, 0] = 1
    return items, marks, rng.uniform(0.1, 1, n)


def scatter_of_all_pairs(items: Rows, marks: Rows, weights: Rows) -> tuple[Rows, float]:
    """Return the weighted mean outer product of all differences, and the weighted number of pairs.

    The deviations of c items from their mean have the scatter of their c (c - 1) / 2 differences, divided by c.
    """
    total, n_pairs = np.zeros((R, R)), 0.0
    for group, row, weight in zip(items, marks, weights, strict=True):
        alike = [(item, mark) for item, mark in zip(group, row, strict=True) if mark > 0]
        weight *= min(mark for _, mark in alike)
        for i, (first, _) in enumerate(alike):
            for second, _ in alike[:i]:
                total += weight * np.outer(first - second, first - second) / len(alike)
        n_pairs += weight * (len(alike) - 1)
    return total / n_pairs, n_pairs


def closed_form(scatter: Rows, n_pairs: float) -> Rows:
    """Return the inverse square root of the shrunk scatter plus a floor. The mean of its eigenvalues is 1."""
    identity = np.eye(R)
    shrunk = (n_pairs * scatter + _PRIOR_PAIRS * np.trace(scatter) / R * identity) / (n_pairs + _PRIOR_PAIRS)
    floor = _FLOOR * np.trace(shrunk @ shrunk) / np.trace(shrunk)
    matrix = np.linalg.inv(sqrtm(shrunk + floor * identity).real)
    return matrix * R / np.trace(matrix)


def added(n: int, chunk: int) -> PairWhitening:
    items, marks, weights = groups(n)
    whitening = PairWhitening.start(R, np.dtype(np.float64))
    for start in range(0, n, chunk):
        part = slice(start, start + chunk)
        whitening = whitening.add(items[part], marks[part], weights[part])
    return whitening


@pytest.mark.parametrize("chunk", [1, 7, 100])
@pytest.mark.parametrize("n", [3, 100])
def test_chunks_of_groups_give_the_closed_form_of_all_pairs(n: int, chunk: int) -> None:
    whitening = added(n, chunk)
    scatter, n_pairs = scatter_of_all_pairs(*groups(n))
    assert whitening.n_pairs == pytest.approx(n_pairs)
    assert whitening.scatter / n_pairs == pytest.approx(scatter, abs=1e-12)
    assert whitening.decomposed().matrix == pytest.approx(closed_form(scatter, n_pairs), rel=1e-8, abs=1e-10)


def test_the_matrix_is_the_identity_until_there_are_pairs_and_is_renewed_as_they_accumulate() -> None:
    items, marks, _ = groups(400)
    whitening, n_renewed = PairWhitening.start(R, np.dtype(np.float64)), 0
    for n in range(400):
        before = whitening
        whitening = whitening.add(items[n : n + 1], marks[n : n + 1], np.ones(1))
        if whitening.n_pairs < before.next_at:
            assert whitening.matrix is before.matrix
        else:
            n_renewed += 1
            part = items[: n + 1], marks[: n + 1], np.ones(n + 1)
            assert whitening.matrix == pytest.approx(closed_form(*scatter_of_all_pairs(*part)), abs=1e-9)
            assert whitening.next_at > whitening.n_pairs >= _FIRST_PAIRS
    assert 2 < n_renewed < 100


def test_directions_in_which_alike_items_differ_are_shortened() -> None:
    matrix = added(400, 400).decomposed().matrix
    lengths = np.linalg.norm(matrix, axis=0)  # of the images of the axes, whose deviations are 3, 1, 1, 0.5, 0.1
    assert (np.diff(lengths[[0, 1, 3, 4]]) > 0).all()
    assert np.linalg.eigvalsh(matrix).min() > 0
    assert matrix == pytest.approx(matrix.T)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.filterwarnings("error")
def test_pairs_of_equal_items_leave_the_identity(size: int) -> None:
    whitening = PairWhitening.start(R, np.dtype(np.float32))
    items = np.repeat(np.random.default_rng(1).standard_normal((50, 1, R)), size, axis=1).astype(np.float32)
    for _ in range(3):
        whitening = whitening.add(items, np.ones((50, size)), np.ones(50))
    np.testing.assert_array_equal(whitening.decomposed().matrix, np.eye(R))
    assert whitening.n_pairs == 150 * (size - 1)


@pytest.mark.xfail(reason="the float32 sum of three equal items, divided by 3, is not the item")
def test_three_equal_items_leave_the_identity() -> None:
    items = np.repeat(np.random.default_rng(1).standard_normal((300, 1, R)), 3, axis=1).astype(np.float32)
    whitening = PairWhitening.start(R, np.dtype(np.float32)).add(items, np.ones((300, 3)), np.ones(300))
    assert whitening.decomposed().matrix == pytest.approx(np.eye(R), abs=1e-6)


def test_groups_without_alike_items_change_nothing() -> None:
    items, marks, weights = groups(20)
    marks[:, 1:] = -abs(marks[:, 1:])
    start = PairWhitening.start(R, np.dtype(np.float64))
    assert start.add(items, marks, weights) is start
    assert start.add(items[:0], marks[:0], weights[:0]) is start


def test_pairs_that_differ_in_one_direction_only() -> None:
    rng = np.random.default_rng(2)
    items = np.repeat(rng.standard_normal((200, 1, R)), 2, axis=1)
    items[:, 1, 2] += rng.standard_normal(200)
    matrix = PairWhitening.start(R, np.dtype(np.float64)).add(items, np.ones((200, 2)), np.ones(200)).matrix
    others = np.delete(np.arange(R), 2)
    assert matrix[2, 2] < 0.7 * matrix[others, others].min()
    assert matrix[others, others] == pytest.approx(matrix[0, 0])
    assert matrix - np.diag(np.diag(matrix)) == pytest.approx(np.zeros((R, R)), abs=1e-10)
