"""LEGO against a generic optimiser of its step, dense linear algebra and numpy's percentiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.datasets import load_digits

from oahu import LEGO, InvalidInputError, load, sample_pairs

Matrix = NDArray[np.float64]


def trained_learner(rng: np.random.Generator, d: int, rate: float, bounds: tuple[float, float]) -> LEGO:
    """Return a learner with a matrix other than the identity."""
    learner = LEGO(rate, bounds=bounds, dtype="float64")
    return learner.partial_fit(rng.standard_normal((6, 2, d)), [1, -1, 1, -1, 1, -1])


def minimiser(start: Matrix, z: NDArray[np.float64], target: float, eta: float) -> Matrix:
    """argmin D_ld(A, A_t) + eta / 2 (z^T A z - target)^2 by BFGS over A = R R^T."""
    d = len(z)
    inverse = np.linalg.inv(start)

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        root = flat.reshape(d, d)
        A = root @ root.T
        sign, logdet = np.linalg.slogdet(A @ inverse)
        if sign <= 0:
            return np.inf, np.zeros(d * d)
        gap = z @ A @ z - target
        gradient = inverse - np.linalg.inv(A) + eta * gap * np.outer(z, z)
        return np.trace(A @ inverse) - logdet - d + eta / 2 * gap**2, (2 * gradient @ root).ravel()

    found = minimize(objective, np.linalg.cholesky(start).ravel(), jac=True, method="BFGS", options={"gtol": 1e-9})
    root = found.x.reshape(d, d)
    return np.asarray(root @ root.T)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("eta", [0.01, 0.1, 1.0, 10.0])
def test_step_is_the_minimiser_of_the_stated_problem(eta: float, same: bool) -> None:
    rng = np.random.default_rng(0)
    for d in range(2, 7):
        learner = trained_learner(rng, d, eta, (0.5, 4.0))
        before = learner.matrix_
        z = rng.standard_normal(d)
        z *= np.sqrt(rng.uniform(*((1.0, 9.0) if same else (0.2, 3.5))) / (z @ before @ z))  # violated
        learner.learn_one(z, np.zeros(d), y=1 if same else -1)
        expected = minimiser(before, z, 0.5 if same else 4.0, eta)
        np.testing.assert_allclose(learner.matrix_, expected, atol=1e-6 * np.linalg.norm(expected))


@settings(max_examples=50)
@given(
    d=st.integers(1, 8),
    seed=st.integers(0, 2**32),
    eta=st.floats(-4, 6).map(lambda e: 10.0**e),
    same=st.booleans(),
    size=st.floats(-3, 3).map(lambda e: 10.0**e),
)
def test_step_is_stationary_for_the_stated_problem(d: int, seed: int, eta: float, same: bool, size: float) -> None:
    """The gradient A_t^-1 - A^-1 + eta (z^T A z - target) z z^T, multiplied by both matrices, is 0."""
    rng = np.random.default_rng(seed)
    learner = trained_learner(rng, d, 0.1, (0.5, 4.0)).set_params(learning_rate=eta)
    before, target = learner.matrix_, 0.5 if same else 4.0
    z = rng.standard_normal(d)
    z *= np.sqrt(target * (1 + size if same else 1 / (1 + size)) / (z @ before @ z))
    learner.learn_one(z, np.zeros(d), y=1 if same else -1)
    A = learner.matrix_
    pull = eta * (z @ A @ z - target)
    left, right = A - before, -pull * np.outer(A @ z, before @ z)
    # the gradient is exact up to a rounding error of the target, multiplied by eta
    room = 1e-9 + 1e-14 * eta * target
    np.testing.assert_allclose(left, right, atol=room * (np.linalg.norm(A) + np.linalg.norm(before)) * (1 + size))


@settings(max_examples=50)
@given(
    eta=st.floats(-6, 8).map(lambda e: 10.0**e),
    apart=st.floats(-6, 6).map(lambda e: 10.0**e),
    bound=st.floats(-3, 3).map(lambda e: 10.0**e),
)
def test_distance_after_the_step_is_the_positive_root(eta: float, apart: float, bound: float) -> None:
    """In one dimension the problem is A / A_t - log(A / A_t) + eta / 2 (A z^2 - y)^2: a quadratic in A z^2."""
    same = apart > bound
    learner = LEGO(eta, bounds=(bound, bound), dtype="float64").initialize(1)
    learner.learn_one([np.sqrt(apart)], [0.0], y=1 if same else -1)
    found = learner.matrix_[0, 0] * apart
    roots = np.roots([eta * apart, 1 - eta * bound * apart, -apart])
    assert found == pytest.approx(roots[roots > 0][0], rel=1e-6)


@pytest.mark.parametrize("same", [True, False])
def test_a_pair_within_its_bound_changes_nothing(same: bool) -> None:
    learner = trained_learner(np.random.default_rng(0), 3, 1.0, (0.5, 4.0))
    before, used = learner.matrix_, learner.utilization_ * learner.n_seen_
    z = np.array([1.0, 2.0, 3.0])
    z *= np.sqrt((0.499 if same else 4.001) / (z @ before @ z))
    learner.learn_one(z, np.zeros(3), y=1 if same else -1)
    np.testing.assert_array_equal(learner.matrix_, before)
    assert learner.utilization_ * learner.n_seen_ == pytest.approx(used)


@pytest.mark.parametrize("same", [True, False])
def test_violated_pair_moves_towards_its_bound_and_not_past_it(same: bool) -> None:
    learner = trained_learner(np.random.default_rng(0), 3, 1.0, (0.5, 4.0))
    z = np.array([1.0, 2.0, 3.0]) * (1.0 if same else 0.1)
    before = z @ learner.matrix_ @ z
    learner.learn_one(z, np.zeros(3), y=1 if same else -1)
    after = z @ learner.matrix_ @ z
    assert 0.5 < after < before if same else before < after < 4.0


def test_bounds_are_squared_distances() -> None:
    """Items at distance 3 have a squared distance of 9, which exceeds a bound of 4. The distance does not."""
    learner = LEGO(1.0, bounds=(4.0, 4.0), dtype="float64").initialize(1)
    learner.learn_one([3.0], [0.0], y=-1)
    assert learner.utilization_ == 0.0
    learner.learn_one([1.9], [0.0], y=-1)
    assert learner.utilization_ == 0.5


@pytest.mark.parametrize("same", [True, False])
def test_identical_points_change_nothing(same: bool) -> None:
    learner = trained_learner(np.random.default_rng(0), 3, 1.0, (0.5, 4.0))
    before = learner.matrix_
    learner.learn_one(np.ones(3), np.ones(3), y=1 if same else -1)
    np.testing.assert_array_equal(learner.matrix_, before)
    assert learner.n_seen_ == 7


@pytest.mark.parametrize("eta", [1e6, 1e9, 1e12, 1e15, 1e20])
def test_step_of_a_huge_rate_ends_at_the_bound(eta: float) -> None:
    """With a huge rate, the penalty (z^T A z - target)^2 dominates the divergence from the old matrix."""
    learner = LEGO(eta, bounds=(0.7, 4.3), dtype="float64").initialize(2).learn_one([3.0, 1.0], [0.0, 0.0], y=1)
    z = np.array([3.0, 1.0])
    assert z @ learner.matrix_ @ z == pytest.approx(0.7, rel=10 / eta + 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 50])
def test_huge_features_give_no_negative_distance(n: int, dtype: str) -> None:
    """Exact steps would reduce squared distances to about 1, a factor below the precision of the dtype."""
    pairs = np.random.default_rng(0).standard_normal((n, 2, 2)) / np.finfo(dtype).eps
    learner = LEGO(1.0, bounds=(0.0, 1.0), dtype=dtype).partial_fit(pairs, np.ones(n))
    values = np.linalg.eigvalsh(learner.factor_.astype(np.float64).T @ learner.factor_.astype(np.float64))
    assert values[0] >= -1e-15 * values[-1]
    assert np.isfinite(values).all()


def mixed_scales(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return pairs with distances that differ by a factor of a hundred."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(200, 2, 8)) * 10 ** rng.uniform(-1, 1, (200, 1, 1)), rng.choice([1, -1], 200)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40)
def test_pairs_of_mixed_scales_leave_the_matrix_positive_definite(seed: int) -> None:
    factor = LEGO().partial_fit(*mixed_scales(seed)).factor_.astype(np.float64)
    assert np.linalg.svd(factor, compute_uv=False)[-1] > 0  # squared, the smallest eigenvalue of L^T L


def test_pairs_of_mixed_scales_give_the_same_model_in_float32_and_float64() -> None:
    """If A were stored instead of its factor, the largest eigenvalue would be wrong by a factor of ten.

    The rounding errors of 200 steps add up to 0.2 or 0.3 %, depending on the processor. No pair of this stream is
    so close to its bound that rounding decides whether it is learned.
    """
    single, double = (LEGO(dtype=dtype).partial_fit(*mixed_scales(0)).matrix_ for dtype in ("float32", "float64"))
    np.testing.assert_allclose(single, double, atol=1e-2 * np.abs(double).max())


# -- along a real stream -------------------------------------------------------------------------------------


def digits_stream() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = load_digits(return_X_y=True)
    indices, same = sample_pairs(y, 2000, random_state=0)
    return (X / 16)[indices], same


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("eta", [0.01, 0.1, 1.0, 10.0])
def test_matrix_stays_positive_definite_along_2000_pairs_of_digits(eta: float, dtype: str) -> None:
    pairs, same = digits_stream()
    learner = LEGO(eta, dtype=dtype)
    for start in range(0, 2000, 100):
        learner.partial_fit(pairs[start : start + 100], same[start : start + 100])
        assert np.linalg.eigvalsh(learner.matrix_.astype(np.float64))[0] > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("eta", [1e3, 1e6, 1e9, 1e12])
def test_huge_rate_leaves_the_matrix_positive_definite(eta: float, dtype: str) -> None:
    pairs, same = digits_stream()
    learner = LEGO(eta, dtype=dtype).partial_fit(pairs, same)
    assert np.linalg.eigvalsh(learner.matrix_.astype(np.float64))[0] > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrix_is_symmetric_to_the_last_bit(dtype: str) -> None:
    learner = LEGO(1.0, dtype=dtype).partial_fit(*digits_stream())
    np.testing.assert_array_equal(learner.matrix_, learner.matrix_.T)


def test_both_kinds_of_pairs_of_digits_are_used() -> None:
    learner = LEGO(0.1).partial_fit(*digits_stream())
    assert 0.1 < learner.utilization_similar_ <= 1
    assert 0.1 < learner.utilization_dissimilar_ <= 1


# -- bounds from the stream ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 20, 21, 999, 1000, 1001, 1500])
def test_bounds_are_numpys_percentiles_of_the_first_1000_squared_distances(n: int) -> None:
    pairs = np.random.default_rng(0).standard_normal((n, 2, 4))
    learner = LEGO(percentiles=(10, 80), dtype="float64").partial_fit(pairs, np.arange(n) % 2 == 0)
    distances = np.square(pairs[:, 0] - pairs[:, 1]).sum(axis=1)[:1000]
    assert learner.bounds_ == pytest.approx(tuple(np.percentile(distances, (10, 80))), rel=1e-12)


def test_the_targets_of_a_pair_are_percentiles_of_the_pairs_so_far() -> None:
    """Compare with a second learner that gets the bounds explicitly before every pair."""
    rng = np.random.default_rng(0)
    pairs, same = rng.standard_normal((1100, 2, 3)), rng.integers(0, 2, 1100).astype(bool)
    distances = np.square(pairs[:, 0] - pairs[:, 1]).sum(axis=1)
    by_hand = LEGO(0.5, dtype="float64").initialize(3)
    for k, (pair, alike) in enumerate(zip(pairs, same, strict=True)):
        by_hand.set_params(bounds=tuple(np.percentile(distances[: min(k + 1, 1000)], (5, 95))))
        by_hand.learn_one(*pair, y=alike)
    learner = LEGO(0.5, dtype="float64").partial_fit(pairs, same)
    np.testing.assert_allclose(learner.matrix_, by_hand.matrix_, rtol=1e-9, atol=1e-12)


def test_bounds_follow_the_scale_of_the_features() -> None:
    """With a rescaled rate, rescaled features give the same metric up to the scale."""
    rng = np.random.default_rng(0)
    pairs, same = rng.standard_normal((300, 2, 3)), rng.integers(0, 2, 300).astype(bool)
    usual = LEGO(0.5, dtype="float64").partial_fit(pairs, same)
    scaled = LEGO(0.5 / 4.0**4, dtype="float64").partial_fit(4.0 * pairs, same)
    np.testing.assert_allclose(scaled.matrix_, usual.matrix_, rtol=1e-9, atol=1e-12)


def test_bounds_are_unknown_before_the_first_pair() -> None:
    assert np.isnan(LEGO().initialize(2).bounds_).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bounds", (4.0, 1.0)),
        ("bounds", (-1.0, 1.0)),
        ("bounds", (0.0, np.inf)),
        ("bounds", (np.nan, 1.0)),
        ("bounds", (1.0,)),
        ("bounds", "ab"),
        ("percentiles", (95, 5)),
        ("percentiles", (5, 101)),
        ("percentiles", None),
        ("learning_rate", 0.0),
        ("learning_rate", np.inf),
    ],
)
def test_wrong_parameter_is_rejected_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=name):
        LEGO(**{name: value}).initialize(2)


def test_bounds_given_as_an_array_survive_a_file(tmp_path: Path) -> None:
    learner = LEGO(bounds=np.array([0.5, 4.0])).initialize(2)
    learner.save(tmp_path / "learner")
    assert load(tmp_path / "learner").bounds_ == (0.5, 4.0)


def test_a_file_written_after_dtype_was_changed_continues(tmp_path: Path) -> None:
    """A fitted model keeps its dtype until it is reset. Its file contains the dtype."""
    pairs = np.random.default_rng(0).standard_normal((20, 2, 3))
    learner = LEGO().partial_fit(pairs, np.arange(20) % 2 == 0).set_params(dtype="float64")
    learner.save(tmp_path / "learner")
    np.testing.assert_array_equal(load(tmp_path / "learner").matrix_, learner.matrix_)
