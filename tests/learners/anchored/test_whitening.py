"""The whitened space against eigenvectors and closed forms, and its invariances."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oahu.jit import ARITHMETIC
from oahu.learners.anchored import whitening
from oahu.learners.anchored.model_arrays import scatter_rank

# Helpers are Python functions until a kernel calls them: compile them as in a kernel.
soften, update_scatter, compute_gains, whiten = (
    numba.njit(**ARITHMETIC)(helper)
    for helper in (whitening.soften, whitening.update_scatter, whitening.compute_gains, whitening.whiten)
)


def test_directions_converge_to_the_leading_eigenvectors() -> None:
    rng = np.random.default_rng(0)
    deviations = np.array([10.0, 6.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    basis = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    differences = rng.standard_normal((20_000, 8)) * deviations @ basis.T
    directions, variances = np.zeros((4, 8)), np.zeros(4)
    for n, difference in enumerate(differences, start=1):
        update_scatter(difference.copy(), float(n), directions, variances)
    exact, vectors = np.linalg.eigh(np.cov(differences.T, bias=True))
    overlaps = np.abs(np.sum(directions[:3] * vectors[:, ::-1].T[:3], axis=1))
    assert overlaps.min() > 0.99
    assert variances[:3] == pytest.approx(exact[::-1][:3], rel=0.1)


def test_directions_keep_unit_length_and_stay_nearly_orthogonal() -> None:
    rng = np.random.default_rng(1)
    scales = 0.9 ** np.arange(40)
    directions, variances = np.zeros((20, 40), np.float32), np.zeros(20)
    for n in range(1, 3001):
        update_scatter((rng.standard_normal(40) * scales).astype(np.float32), float(n), directions, variances)
    gram = directions @ directions.T
    assert np.diag(gram) == pytest.approx(np.ones(20), abs=1e-5)
    assert np.abs(gram - np.eye(20)).max() < 0.5


def test_pairs_of_equal_items_give_no_direction() -> None:
    directions, variances = np.zeros((3, 6)), np.zeros(3)
    for n in range(1, 10):
        update_scatter(np.zeros(6), float(n), directions, variances)
    assert not directions.any()
    assert not variances.any()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_directions_of_low_rank_pairs_span_their_subspace_only(rank: int) -> None:
    rng = np.random.default_rng(2)
    space = np.linalg.qr(rng.standard_normal((9, rank)))[0]
    directions, variances = np.zeros((4, 9)), np.zeros(4)
    for n in range(1, 500):
        update_scatter(space @ rng.standard_normal(rank), float(n), directions, variances)
    outside = directions - directions @ space @ space.T
    significant = variances > 1e-9 * variances.max()
    assert significant.sum() >= rank
    assert np.abs(outside[significant]).max() < 1e-6


variances_and_rest = st.tuples(
    arrays(np.float64, st.integers(1, 8), elements=st.floats(0.0, 1e3)), st.floats(0.0, 1e3), st.integers(0, 5)
)


@given(variances_and_rest, st.floats(0.01, 10.0))
def test_gains_are_shrunk_inverse_square_roots(given_: tuple[np.ndarray, float, int], shrinkage: float) -> None:
    variances, rest, n_rest = given_
    w = np.concatenate([variances, np.full(n_rest, rest)])
    gains = np.empty(len(variances) + 1)
    compute_gains(variances, w.sum(), len(w), shrinkage, gains)
    if w.sum() < 1e-100:
        return
    floor = shrinkage * np.sum(w**2) / np.sum(w)
    expected = np.sqrt(floor / (w + floor))
    assert gains[: len(variances)] == pytest.approx(expected[: len(variances)], rel=1e-6)
    if n_rest:
        assert gains[-1] == pytest.approx(expected[-1], rel=1e-5, abs=1e-5)


@given(arrays(np.float64, 5, elements=st.floats(0.1, 1e3)), st.integers(1, 10_000))
def test_constant_features_do_not_change_gains(variances: np.ndarray, n_constant: int) -> None:
    without, beside = np.empty(6), np.empty(6)
    compute_gains(variances, variances.sum(), 5, 0.2, without)
    compute_gains(variances, variances.sum(), 5 + n_constant, 0.2, beside)
    assert beside[:5] == pytest.approx(without[:5], rel=1e-6)


def test_gains_are_one_without_variance() -> None:
    gains = np.zeros(3)
    compute_gains(np.zeros(2), 0.0, 10, 0.2, gains)
    assert gains.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("d", "rank"), [(1, 1), (2, 1), (3, 1), (4, 2), (127, 63), (128, 64), (4096, 64)])
def test_at_least_half_of_the_directions_share_a_variance(d: int, rank: int) -> None:
    assert scatter_rank(d) == rank


@given(arrays(np.float64, (3, 5), elements=st.floats(-9, 9)), st.floats(0.1, 100), st.floats(0.5, 3))
def test_soften_adds_the_mean_square_to_lengths(rows: np.ndarray, mean_square: float, length: float) -> None:
    expected = length * rows / np.sqrt(np.square(rows).sum(axis=1, keepdims=True) + (4 / 4) ** 3 * mean_square)
    soften(rows, mean_square, length)
    assert rows == pytest.approx(expected)


def test_a_zero_item_stays_zero() -> None:
    rows = np.zeros((2, 3))
    soften(rows, 0.0, 1.0)
    assert not rows.any()


def test_whiten_equals_the_closed_form() -> None:
    rng = np.random.default_rng(4)
    directions = np.linalg.qr(rng.standard_normal((7, 3)))[0].T.copy()
    centred, gains, out = rng.standard_normal((5, 7)), np.array([0.1, 0.5, 0.7, 0.9]), np.empty((5, 7))
    whiten(centred, centred @ directions.T, directions, gains, out)
    beside = np.eye(7) - directions.T @ directions
    assert out == pytest.approx(centred @ (directions.T @ np.diag(gains[:3]) @ directions + 0.9 * beside))
