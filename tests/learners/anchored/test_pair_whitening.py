"""Whitening by similar pairs: against the closed form from all pairs, and with pairs of equal items."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import block_diag, sqrtm

from oahu.learners.anchored.pair_whitening import _FIRST_PAIRS, _FLOOR, _PRIOR_PAIRS, PairWhitening
from oahu.metrics.metric import normalize_rows

Rows = NDArray[np.float64]

R = 5
LEADING = [5, 3, 1, 0]


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


def closed_form(scatter: Rows, n_pairs: float, r: int = R) -> Rows:
    """Return the inverse square root of the shrunk scatter plus a floor. The mean of its eigenvalues is 1.

    Other axes than the first ``r`` axes are uncorrelated with all axes.
    """
    identity = np.eye(R)
    scatter = scatter.copy()
    scatter[r:] *= identity[r:]
    scatter[:, r:] *= identity[:, r:]
    shrunk = (n_pairs * scatter + _PRIOR_PAIRS * np.trace(scatter) / R * identity) / (n_pairs + _PRIOR_PAIRS)
    floor = _FLOOR * np.trace(shrunk @ shrunk) / np.trace(shrunk)
    matrix = np.linalg.inv(sqrtm(shrunk + floor * identity).real)
    return np.asarray(matrix * R / np.trace(matrix))


def whole_matrix(whitening: PairWhitening) -> Rows:
    """Return the matrix for all axes."""
    joined = block_diag(whitening.matrix, np.diag(whitening.gains))
    return np.asarray(joined[-R:, -R:])  # an empty block is a row of its own


def added(n: int, chunk: int, r: int = R) -> PairWhitening:
    items, marks, weights = groups(n)
    whitening = PairWhitening.start(r, R - r, np.dtype(np.float64))
    for start in range(0, n, chunk):
        part = slice(start, start + chunk)
        whitening = whitening.add(items[part], marks[part], weights[part])
    return whitening


@pytest.mark.parametrize("r", LEADING)
def test_the_whitening_changes_nothing_before_the_first_pair(r: int) -> None:
    whitening = PairWhitening.start(r, R - r, np.dtype(np.float32))
    assert (whitening.matrix.tolist(), whitening.gains.tolist()) == (np.eye(r).tolist(), [1.0] * (R - r))
    assert {array.dtype for array in whitening[:4]} == {np.dtype(np.float32)}


@pytest.mark.parametrize("chunk", [1, 7, 100])
@pytest.mark.parametrize("n", [3, 100])
@pytest.mark.parametrize("r", LEADING)
def test_chunks_of_groups_give_the_closed_form_of_all_pairs(r: int, n: int, chunk: int) -> None:
    whitening = added(n, chunk, r)
    scatter, n_pairs = scatter_of_all_pairs(*groups(n))
    assert whitening.n_pairs == pytest.approx(n_pairs)
    assert whitening.scatter / n_pairs == pytest.approx(scatter[:r, :r], abs=1e-12)
    assert whitening.squares / n_pairs == pytest.approx(np.diag(scatter)[r:])
    expected = closed_form(scatter, n_pairs, r)
    assert whole_matrix(whitening.decomposed()) == pytest.approx(expected, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("r", [R, 2])
def test_the_matrix_is_the_identity_until_there_are_pairs_and_is_renewed_as_they_accumulate(r: int) -> None:
    items, marks, _ = groups(400)
    whitening, n_renewed = PairWhitening.start(r, R - r, np.dtype(np.float64)), 0
    for n in range(400):
        before = whitening
        whitening = whitening.add(items[n : n + 1], marks[n : n + 1], np.ones(1))
        if whitening.n_pairs < before.next_at:
            assert whitening.matrix is before.matrix
            assert whitening.gains is before.gains
        else:
            n_renewed += 1
            part = items[: n + 1], marks[: n + 1], np.ones(n + 1)
            expected = closed_form(*scatter_of_all_pairs(*part), r)
            assert whole_matrix(whitening) == pytest.approx(expected, abs=1e-9)
            assert whitening.next_at > whitening.n_pairs >= _FIRST_PAIRS
    assert 2 < n_renewed < 100


def test_adding_groups_does_not_change_the_earlier_whitening() -> None:
    items, marks, weights = groups(50)
    before = added(20, 20, 2)
    copies = [array.copy() for array in before[:4]]
    before.add(items, marks, weights)
    for array, copy in zip(before[:4], copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_padding_has_no_influence() -> None:
    items, marks, weights = groups(30)
    padding = np.random.default_rng(5).standard_normal((30, 3, R))
    whitening = PairWhitening.start(3, R - 3, np.dtype(np.float64))
    padded = whitening.add(
        np.concatenate([items, padding], axis=1), np.concatenate([marks, np.zeros((30, 3))], axis=1), weights
    )
    expected = whitening.add(items, marks, weights)
    assert padded.scatter == pytest.approx(expected.scatter)
    assert padded.squares == pytest.approx(expected.squares)
    assert padded.n_pairs == pytest.approx(expected.n_pairs)


def test_directions_in_which_alike_items_differ_are_shortened() -> None:
    matrix = added(400, 400).decomposed().matrix
    lengths = np.linalg.norm(matrix, axis=0)  # of the images of the axes, whose deviations are 3, 1, 1, 0.5, 0.1
    assert (np.diff(lengths[[0, 1, 3, 4]]) > 0).all()
    assert np.linalg.eigvalsh(matrix).min() > 0
    assert matrix == pytest.approx(matrix.T)


@pytest.mark.parametrize("n_steps", [0, 4])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_alike_items_that_are_equal_up_to_rounding_leave_the_identity(
    dtype: type[np.floating], size: int, n_steps: int
) -> None:
    """The coordinates of unit vectors differ by at most ``n_steps`` relative rounding errors."""
    rng = np.random.default_rng(1)
    units = normalize_rows(rng.standard_normal((300, R)))
    errors = np.finfo(dtype).eps * rng.integers(-n_steps, n_steps + 1, (300, size, R))
    items = (units[:, None] * (1 + errors)).astype(dtype)
    whitening = PairWhitening.start(3, R - 3, np.dtype(dtype)).add(items, np.ones((300, size)), np.ones(300))
    assert whole_matrix(whitening) == pytest.approx(np.eye(R), abs=1e-6)


def test_pairs_of_equal_items_are_counted() -> None:
    items = np.repeat(np.random.default_rng(1).standard_normal((50, 1, R)), 4, axis=1)
    whitening = PairWhitening.start(R, 0, np.dtype(np.float64)).add(items, np.ones((50, 4)), np.ones(50))
    assert whitening.n_pairs == 150


@pytest.mark.parametrize(("dtype", "scale", "tolerance"), [(np.float32, 1e-3, 1e-3), (np.float64, 1e-6, 1e-6)])
def test_small_differences_are_whitened_like_large_ones(
    dtype: type[np.floating], scale: float, tolerance: float
) -> None:
    differences, marks, weights = groups(200)
    centres = normalize_rows(np.random.default_rng(1).standard_normal((200, R)))
    start = PairWhitening.start(3, R - 3, np.dtype(dtype))
    small = start.add((centres[:, None] + scale * differences).astype(dtype), marks, weights)
    large = start.add(differences.astype(dtype), marks, weights)
    assert whole_matrix(small) == pytest.approx(whole_matrix(large), abs=tolerance)


def test_groups_without_alike_items_change_nothing() -> None:
    items, marks, weights = groups(20)
    marks[:, 1:] = -abs(marks[:, 1:])
    start = PairWhitening.start(R, 0, np.dtype(np.float64))
    assert start.add(items, marks, weights) is start
    assert start.add(items[:0], marks[:0], weights[:0]) is start


@pytest.mark.parametrize("axis", [1, 4])
def test_pairs_that_differ_in_one_direction_only(axis: int) -> None:
    """Axis 1 is a leading axis, axis 4 is not."""
    rng = np.random.default_rng(2)
    items = np.repeat(rng.standard_normal((200, 1, R)), 2, axis=1)
    items[:, 1, axis] += rng.standard_normal(200)
    start = PairWhitening.start(3, R - 3, np.dtype(np.float64))
    matrix = whole_matrix(start.add(items, np.ones((200, 2)), np.ones(200)))
    others = np.delete(np.arange(R), axis)
    assert matrix[axis, axis] < 0.7 * matrix[others, others].min()
    assert matrix[others, others] == pytest.approx(matrix[0, 0])
    assert matrix - np.diag(np.diag(matrix)) == pytest.approx(np.zeros((R, R)), abs=1e-10)


def test_weights_of_groups_count_like_repeated_groups() -> None:
    items, marks, _ = groups(10)
    start = PairWhitening.start(3, R - 3, np.dtype(np.float64))
    once, half = start.add(items, marks, np.ones(10)), start.add(items, marks, np.full(10, 0.5))
    twice = half.add(items, marks, np.full(10, 0.5))
    assert twice.n_pairs == pytest.approx(once.n_pairs)
    assert twice.scatter == pytest.approx(once.scatter)
    assert twice.squares == pytest.approx(once.squares)
