"""RDML against clipped eigenvalues, a generic optimiser of the projection and a root finder for the ray."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oahu import RDML, sample_pairs

Matrix = NDArray[np.float64]

#: Tolerance for negative eigenvalues, in units of the machine epsilon of the largest.
ROUNDINGS = 100


def trained_learner(rng: np.random.Generator, d: int, **parameters: object) -> RDML:
    """Return a learner with a matrix other than the identity."""
    learner = RDML(**({"learning_rate": 0.3, "dtype": "float64"} | parameters))
    return learner.partial_fit(0.7 * rng.standard_normal((8, 2, d)), [-1, 1, -1, 1, -1, -1, 1, -1])


def violated(learner: RDML, rng: np.random.Generator, same: bool) -> NDArray[np.float64]:
    """Return a difference of two items with a squared distance on the wrong side of 1."""
    z = rng.standard_normal(learner.n_features_in_)
    apart = z @ learner.matrix_ @ z
    return np.asarray(z * np.sqrt(rng.uniform(*((1.1, 5.0) if same else (0.1, 0.9))) / apart))


def clipped(matrix: Matrix) -> Matrix:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def nearest(matrix: Matrix) -> Matrix:
    """The nearest positive semi-definite matrix in Frobenius norm, by BFGS over L L^T."""
    d = len(matrix)

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        root = flat.reshape(d, d)
        gap = root @ root.T - matrix
        return float((gap**2).sum()), (4 * gap @ root).ravel()

    start = np.eye(d) + 0.1 * np.random.default_rng(0).standard_normal((d, d))
    root = minimize(objective, start.ravel(), jac=True, method="BFGS", options={"gtol": 1e-10}).x.reshape(d, d)
    return np.asarray(root @ root.T)


def is_psd(matrix: NDArray[np.floating]) -> bool:
    values = np.linalg.eigvalsh(matrix.astype(np.float64))
    return bool(values[0] >= -ROUNDINGS * np.finfo(matrix.dtype).eps * values[-1])


# -- one step ------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    d=st.integers(1, 12),
    seed=st.integers(0, 2**32),
    rate=st.floats(-3, 1).map(lambda e: 10.0**e),
    same=st.booleans(),
)
def test_step_clips_the_eigenvalues_of_the_whole_matrix(d: int, seed: int, rate: float, same: bool) -> None:
    rng = np.random.default_rng(seed)
    learner = trained_learner(rng, d).set_params(learning_rate=rate)
    before = learner.matrix_
    assume(np.linalg.eigvalsh(before)[-1] > 1e-3)
    z = violated(learner, rng, same)
    learner.learn_one(z, np.zeros(d), y=1 if same else -1)
    wanted = before - (rate if same else -rate) * np.outer(z, z)
    np.testing.assert_allclose(learner.matrix_, clipped(wanted), atol=1e-12 * (1 + np.linalg.norm(wanted)))


@pytest.mark.parametrize("rate", [0.05, 0.5, 5.0])
def test_step_is_the_nearest_positive_semi_definite_matrix(rate: float) -> None:
    rng = np.random.default_rng(0)
    for d in range(2, 7):
        learner = trained_learner(rng, d).set_params(learning_rate=rate)
        before, z = learner.matrix_, violated(learner, rng, same=True)
        learner.learn_one(z, np.zeros(d), y=1)
        expected = nearest(before - rate * np.outer(z, z))
        np.testing.assert_allclose(learner.matrix_, expected, atol=1e-6 * (1 + np.linalg.norm(before)))


@pytest.mark.parametrize("rate", [0.01, 0.1, 1.0, 10.0])
def test_ray_takes_the_longest_step_that_keeps_the_matrix_positive(rate: float) -> None:
    rng = np.random.default_rng(0)
    for d in range(1, 7):
        learner = RDML(0.3, mode="ray", dtype="float64").partial_fit(0.5 * rng.standard_normal((5, 2, d)), [-1] * 5)
        learner.set_params(learning_rate=rate)
        before, z = learner.matrix_, violated(learner, rng, same=True)

        def lowest(step: float, before: Matrix = before, z: Matrix = z) -> float:
            return float(np.linalg.eigvalsh(before - step * np.outer(z, z))[0])

        longest = rate if lowest(rate) >= 0 else brentq(lowest, 0, rate, xtol=1e-15, rtol=1e-14)
        learner.learn_one(z, np.zeros(d), y=1)
        np.testing.assert_allclose(before - learner.matrix_, longest * np.outer(z, z), atol=1e-9)


@pytest.mark.parametrize("mode", ["project", "ray"])
@pytest.mark.parametrize("same", [True, False])
def test_a_correct_pair_changes_nothing(mode: str, same: bool) -> None:
    learner = trained_learner(np.random.default_rng(0), 3, mode=mode)
    before, used = learner.matrix_, learner.utilization_ * learner.n_seen_
    z = np.array([1.0, 2.0, 3.0])
    z *= np.sqrt((0.999 if same else 1.001) / (z @ before @ z))
    learner.learn_one(z, np.zeros(3), y=1 if same else -1)
    np.testing.assert_array_equal(learner.matrix_, before)
    assert learner.utilization_ * learner.n_seen_ == pytest.approx(used)


@pytest.mark.parametrize("same", [True, False])
def test_pair_at_exactly_1_is_a_mistake(same: bool) -> None:
    """A pair is correct only if y (1 - z^T A z) > 0."""
    learner = RDML(0.25, dtype="float64").initialize(2).learn_one([1.0, 0.0], [0.0, 0.0], y=1 if same else -1)
    np.testing.assert_allclose(learner.matrix_, np.diag([0.75 if same else 1.25, 1.0]))


@pytest.mark.parametrize("mode", ["project", "ray"])
@pytest.mark.parametrize("start", ["identity", "zero"])
@pytest.mark.parametrize("same", [True, False])
def test_identical_points_change_nothing_and_are_not_used(mode: str, start: str, same: bool) -> None:
    learner = RDML(mode=mode, start=start).initialize(3)
    before = learner.matrix_
    learner.learn_one(np.ones(3), np.ones(3), y=1 if same else -1)
    np.testing.assert_array_equal(learner.matrix_, before)
    assert learner.utilization_ == 0.0


@pytest.mark.parametrize("mode", ["project", "ray"])
def test_from_zero_similar_pairs_do_nothing_until_there_is_rank(mode: str) -> None:
    learner = RDML(0.5, mode=mode, start="zero", dtype="float64").initialize(2)
    learner.learn_one([3.0, 0.0], [0.0, 0.0], y=1)
    assert not learner.matrix_.any()
    learner.learn_one([3.0, 0.0], [0.0, 0.0], y=-1).learn_one([3.0, 0.0], [0.0, 0.0], y=1)
    assert (learner.utilization_similar_, learner.utilization_dissimilar_) == (0.5, 1.0)


def test_ray_does_not_move_along_a_vector_outside_the_range() -> None:
    learner = RDML(0.5, mode="ray", start="zero", dtype="float64").initialize(2)
    learner.learn_one([3.0, 0.0], [0.0, 0.0], y=-1)
    before = learner.matrix_
    learner.learn_one([3.0, 1.0], [0.0, 0.0], y=1)
    np.testing.assert_array_equal(learner.matrix_, before)
    assert learner.utilization_similar_ == 0.0


# -- along a real stream -------------------------------------------------------------------------------------


def digits_stream(unit: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = load_digits(return_X_y=True)
    indices, same = sample_pairs(y, 2000, random_state=0)
    return (normalize(X) if unit else X / 16)[indices], same


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("start", ["identity", "zero"])
@pytest.mark.parametrize("mode", ["project", "ray"])
@pytest.mark.parametrize("unit", [True, False])
def test_matrix_stays_positive_semi_definite_along_2000_pairs_of_digits(
    unit: bool, mode: str, start: str, dtype: str
) -> None:
    pairs, same = digits_stream(unit)
    learner = RDML(0.1, mode=mode, start=start, dtype=dtype)
    for at in range(0, 2000, 100):
        learner.partial_fit(pairs[at : at + 100], same[at : at + 100])
        assert is_psd(learner.matrix_)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["project", "ray"])
def test_matrix_is_symmetric_to_the_last_bit(mode: str, dtype: str) -> None:
    learner = RDML(mode=mode, dtype=dtype).partial_fit(*digits_stream(unit=False))
    np.testing.assert_array_equal(learner.matrix_, learner.matrix_.T)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ray_freezes_on_digits_and_the_default_does_not(dtype: str) -> None:
    """With "ray", a shortened step makes the matrix singular. "project" avoids this."""
    stream = digits_stream(unit=False)
    assert RDML(mode="ray", dtype=dtype).partial_fit(*stream).utilization_similar_ < 0.02
    assert RDML(dtype=dtype).partial_fit(*stream).utilization_similar_ > 0.1


def test_digits_in_single_and_double_precision_give_the_same_metric() -> None:
    pairs, same = digits_stream(unit=True)
    single, double = (RDML(0.1, dtype=t).partial_fit(pairs, same) for t in ("float32", "float64"))
    assert np.linalg.norm(single.matrix_ - double.matrix_) < 1e-3 * np.linalg.norm(double.matrix_)


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e8])
def test_huge_similar_pairs_keep_the_matrix_positive_semi_definite(scale: float) -> None:
    """The subtracted square is 1e15 times as large as A. No part of it may remain."""
    learner, eps = RDML(0.1).initialize(4), float(np.finfo(np.float32).eps)
    for pair in scale * np.random.default_rng(0).normal(size=(300, 2, 4)):
        before = np.linalg.eigvalsh(learner.matrix_.astype(np.float64))[-1]
        after = np.linalg.eigvalsh(learner.learn_one(*pair, y=1).matrix_.astype(np.float64))
        assert after[0] >= -100 * eps * max(before, 1.0)
        assert after[-1] <= (1 + 100 * eps) * before
