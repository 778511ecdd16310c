"""POLA against a generic optimiser of its first projection and clipped eigenvalues for its second."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.datasets import load_digits

from oahu import POLA, sample_pairs

Matrix = NDArray[np.float64]

#: Tolerance for negative eigenvalues, in units of the machine epsilon of the largest.
ROUNDINGS = 100


def trained_learner(rng: np.random.Generator, d: int, **parameters: object) -> POLA:
    """Return a learner with a matrix and threshold that differ from the initial values."""
    learner = POLA(**({"dtype": "float64"} | parameters))
    return learner.partial_fit(0.7 * rng.standard_normal((8, 2, d)), [-1, 1, -1, 1, 1, -1, 1, -1])


def with_loss(learner: POLA, rng: np.random.Generator, sign: int) -> NDArray[np.float64]:
    """Return a difference of two items with a loss between 0.1 and 2.5 (or the largest possible)."""
    z = rng.standard_normal(learner.n_features_in_)
    b = learner.threshold_
    apart = b - 1 + rng.uniform(0.1, 2.5) if sign == 1 else (b + 1) * rng.uniform(0.05, 0.95)
    return np.asarray(z * np.sqrt(apart / (z @ learner.matrix_ @ z)))


def clipped(matrix: Matrix) -> Matrix:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def nearest_without_loss(A: Matrix, b: float, z: NDArray[np.float64], sign: int) -> tuple[Matrix, float]:
    """argmin ||A' - A||^2 + (b' - b)^2 with y (z^T A' z - b') + 1 <= 0, by SLSQP."""
    d = len(z)
    start = np.append(A.ravel(), b)
    slope = np.append(-sign * np.outer(z, z).ravel(), sign)
    found = minimize(
        lambda v: float(((v - start) ** 2).sum()),
        start,
        jac=lambda v: 2 * (v - start),
        constraints={"type": "ineq", "fun": lambda v: slope @ v - 1, "jac": lambda v: slope},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 500},
    )
    return found.x[:-1].reshape(d, d), float(found.x[-1])


@pytest.mark.parametrize("sign", [1, -1])
def test_step_is_both_projections_of_the_stated_problem(sign: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        for d in range(2, 7):
            learner = trained_learner(rng, d)
            z = with_loss(learner, rng, sign)
            A, b = nearest_without_loss(learner.matrix_, learner.threshold_, z, sign)
            learner.learn_one(z, np.zeros(d), y=sign)
            np.testing.assert_allclose(learner.matrix_, clipped(A), atol=1e-7)
            assert learner.threshold_ == pytest.approx(max(1.0, b), abs=1e-7)


@settings(max_examples=50)
@given(d=st.integers(1, 12), seed=st.integers(0, 2**32), sign=st.sampled_from([1, -1]), gamma=st.floats(0, 100))
def test_step_clips_the_eigenvalues_of_the_whole_matrix(d: int, seed: int, sign: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    learner = trained_learner(rng, d).set_params(relaxation=gamma)
    before, b, z = learner.matrix_, learner.threshold_, rng.standard_normal(d)
    loss = max(0.0, sign * (z @ before @ z - b) + 1)
    alpha = loss / (np.linalg.norm(z) ** 4 + 1 + gamma)
    learner.learn_one(z, np.zeros(d), y=sign)
    wanted = before - sign * alpha * np.outer(z, z)
    np.testing.assert_allclose(learner.matrix_, clipped(wanted), atol=1e-12 * (1 + np.linalg.norm(wanted)))


def test_unrelaxed_step_of_a_dissimilar_pair_ends_at_a_loss_of_0() -> None:
    """There is no negative eigenvalue and b stays above 1, so that the first projection is the whole step."""
    learner = POLA(dtype="float64").initialize(3).learn_one([3.0, 0.0, 0.0], [0.0, 0.0, 0.0], y=1)
    z = np.array([0.0, 1.4, 0.0])
    assert learner.threshold_ - z @ learner.matrix_ @ z + 1 > 0.1
    learner.learn_one(z, np.zeros(3), y=-1)
    assert learner.threshold_ > 1
    assert learner.threshold_ - z @ learner.matrix_ @ z + 1 == pytest.approx(0, abs=1e-12)


def test_a_relaxed_step_is_shorter() -> None:
    """The direction is the same, the length is multiplied by (||z||^4 + 1) / (||z||^4 + 1 + gamma)."""
    z = np.array([0.3, 0.4])  # ||z||^4 = 1/16
    whole, part = (POLA(g, dtype="float64").initialize(2).learn_one(z, [0, 0], y=-1) for g in (0.0, 1.0))
    share = (whole.matrix_ - np.eye(2)) / (part.matrix_ - np.eye(2))
    np.testing.assert_allclose(share, (1 / 16 + 2) / (1 / 16 + 1), rtol=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_pair_without_loss_changes_nothing(sign: int) -> None:
    learner = trained_learner(np.random.default_rng(0), 3)
    learner.learn_one([1.5, 0, 0], [0, 0, 0], y=1)
    before, b, used = learner.matrix_, learner.threshold_, learner.utilization_ * learner.n_seen_
    assert b > 1.1  # or a similar pair could have no loss only at a distance of 0
    z = np.array([1.0, 2.0, 3.0])
    z *= np.sqrt((b - 1.001 if sign == 1 else b + 1.001) / (z @ before @ z))
    learner.learn_one(z, np.zeros(3), y=sign)
    np.testing.assert_array_equal(learner.matrix_, before)
    assert learner.threshold_ == b
    assert learner.utilization_ * learner.n_seen_ == pytest.approx(used)


def test_identical_points_that_are_similar_change_nothing() -> None:
    learner = trained_learner(np.random.default_rng(0), 3)
    before, b = learner.matrix_, learner.threshold_
    learner.learn_one(np.ones(3), np.ones(3), y=1)
    np.testing.assert_array_equal(learner.matrix_, before)
    assert learner.threshold_ == b


def test_identical_points_that_are_dissimilar_move_only_the_threshold() -> None:
    """Their loss is 1 + b for every matrix, and b is at least 1."""
    learner = POLA(dtype="float64").initialize(3).learn_one([2.0, 0.0, 0.0], [0.0, 0.0, 0.0], y=1)
    before, b, used = learner.matrix_, learner.threshold_, learner.utilization_dissimilar_
    assert b > 1
    learner.learn_one(np.ones(3), np.ones(3), y=-1)
    np.testing.assert_array_equal(learner.matrix_, before)
    assert (learner.threshold_, learner.utilization_dissimilar_) == (1.0, 1.0)
    assert np.isnan(used)


def test_identical_points_that_are_dissimilar_are_not_used_when_the_threshold_is_at_1() -> None:
    learner = POLA().initialize(3).learn_one(np.ones(3), np.ones(3), y=-1)
    assert learner.utilization_ == 0.0


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    scale=st.floats(-2, 2).map(lambda e: 10.0**e),
    gamma=st.sampled_from([0.0, 0.1, 10.0]),
    start=st.sampled_from(["identity", "zero"]),
)
def test_threshold_is_never_below_1(seed: int, scale: float, gamma: float, start: str) -> None:
    rng = np.random.default_rng(seed)
    learner = POLA(gamma, start=start, dtype="float64").initialize(3)
    for pair, sign in zip(scale * rng.standard_normal((20, 2, 3)), rng.choice([-1, 1], 20), strict=True):
        learner.learn_one(*pair, y=sign)
        assert learner.threshold_ >= 1.0


# -- along a real stream -------------------------------------------------------------------------------------


def digits_stream() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = load_digits(return_X_y=True)
    indices, same = sample_pairs(y, 2000, random_state=0)
    return (X / 16)[indices], same


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("start", ["identity", "zero"])
def test_matrix_stays_positive_semi_definite_along_2000_pairs_of_digits(start: str, dtype: str) -> None:
    pairs, same = digits_stream()
    learner = POLA(start=start, dtype=dtype)
    for at in range(0, 2000, 100):
        learner.partial_fit(pairs[at : at + 100], same[at : at + 100])
        values = np.linalg.eigvalsh(learner.matrix_.astype(np.float64))
        assert values[0] >= -ROUNDINGS * np.finfo(dtype).eps * values[-1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrix_is_symmetric_to_the_last_bit(dtype: str) -> None:
    learner = POLA(dtype=dtype).partial_fit(*digits_stream())
    np.testing.assert_array_equal(learner.matrix_, learner.matrix_.T)


def test_the_threshold_separates_pairs_of_unseen_digits() -> None:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    indices, same = sample_pairs(y[:900], 2000, random_state=0)
    learner = POLA().partial_fit(X[:900][indices], same)
    unseen, same = sample_pairs(y[900:], 1000, random_state=1)
    within = learner.pair_distance(X[900:][unseen]) ** 2 <= learner.threshold_
    assert np.mean(within == (same == 1)) > 0.8


def test_steps_vanish_with_the_scale_of_the_features() -> None:
    """Because of ||z||^4, pixels 16 times as large change the matrix by only 1/256."""
    X, _ = load_digits(return_X_y=True)
    scaled, raw = (
        np.linalg.norm(POLA(start="zero", dtype="float64").initialize(64).learn_one(*pair, y=-1).matrix_)
        for pair in (X[:2] / 16, X[:2])
    )
    assert raw < scaled / 200
