"""SORS and AdaSORS against a bisection for the minimiser of the problem that every round solves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.datasets import load_digits

from oahu import OASIS, SORS, AdaSORS, NoDistanceError, RejectedConstraintError, sample_triplets

Matrix = NDArray[np.float64]


def gradient(M: Matrix, triplet: Matrix) -> Matrix:
    """Return the gradient of the hinge [1 - x^T M (p - n)]_+ at M."""
    x, p, n = triplet
    V = np.outer(x, p - n)
    return np.asarray(-V if 1 - x @ M @ (p - n) > 0 else 0 * V)


def prox(M: Matrix, G: Matrix, steps: Matrix, sparsity: float) -> Matrix:
    """argmin <G, M'> + sum (M' - M)^2 / (2 steps) + lambda ||M'||_1 off the diagonal, convex in each entry.

    By bisection for the place where the objective stops falling and rises.
    """
    penalty = sparsity * (1 - np.eye(len(M)))
    reach = np.abs(M) + steps * (np.abs(G) + penalty)
    low, high = -reach, reach
    for _ in range(100):
        middle = (low + high) / 2
        rising = G + (middle - M) / steps + penalty * np.sign(middle) > 0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    return np.asarray((low + high) / 2)


def test_bisection_agrees_with_a_generic_optimiser() -> None:
    """Check the oracle with L-BFGS-B over M' = U - V with U, V >= 0."""
    rng = np.random.default_rng(0)
    M, G = rng.standard_normal((2, 3, 3))
    off = 0.4 * (1 - np.eye(3)).ravel()

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w = flat[:9] - flat[9:]
        smooth = G.ravel() + (w - M.ravel()) / 0.5
        value = G.ravel() @ w + ((w - M.ravel()) ** 2).sum() + off @ (flat[:9] + flat[9:])
        return float(value), np.append(smooth + off, off - smooth)

    found = minimize(objective, np.zeros(18), jac=True, bounds=[(0, None)] * 18, options={"ftol": 0, "gtol": 1e-10})
    expected = (found.x[:9] - found.x[9:]).reshape(3, 3)
    np.testing.assert_allclose(prox(M, G, np.full((3, 3), 0.5), 0.4), expected, atol=1e-7)


@settings(max_examples=40)
@given(
    d=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    rate=st.floats(-3, 0).map(lambda e: 10.0**e),
    sparsity=st.sampled_from([0.0, 1e-3, 0.1, 1.0]),
)
def test_round_is_the_minimiser_of_the_stated_problem(d: int, seed: int, rate: float, sparsity: float) -> None:
    rng = np.random.default_rng(seed)
    learner = SORS(rate, sparsity=sparsity, normalize=False, dtype="float64").initialize(d)
    for triplet in rng.standard_normal((4, 3, d)):
        before = learner.matrix_
        learner.learn_one(*triplet)
        expected = prox(before, gradient(before, triplet), np.full((d, d), rate), sparsity)
        np.testing.assert_allclose(learner.matrix_, expected, atol=1e-12)


@settings(max_examples=40)
@given(
    d=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    rate=st.floats(-3, -0.5).map(lambda e: 10.0**e),
    sparsity=st.sampled_from([0.0, 1e-3, 0.1]),
    delta=st.sampled_from([0.01, 0.1, 1.0]),
)
def test_adaptive_round_is_the_minimiser_with_steps_from_all_gradients_so_far(
    d: int, seed: int, rate: float, sparsity: float, delta: float
) -> None:
    rng = np.random.default_rng(seed)
    learner = AdaSORS(rate, sparsity=sparsity, delta=delta, normalize=False, dtype="float64").initialize(d)
    gradients = []
    for triplet in rng.standard_normal((5, 3, d)):
        before = learner.matrix_
        gradients.append(gradient(before, triplet))
        learner.learn_one(*triplet)
        steps = rate / (delta + np.linalg.norm(gradients, axis=0))
        expected = prox(before, gradients[-1], steps, sparsity)
        np.testing.assert_allclose(learner.matrix_, expected, atol=1e-12 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("make", [SORS, AdaSORS])
def test_the_diagonal_is_not_shrunk(make: type[SORS]) -> None:
    """Without a loss, the entries only shrink."""
    learner = make(0.1, sparsity=0.5, normalize=False).initialize(2).learn_one([1, 1], [5, 5], [0, 0])
    np.testing.assert_array_equal(learner.matrix_, np.eye(2))


@pytest.mark.parametrize("make", [SORS, AdaSORS])
def test_shrinking_happens_without_a_loss_and_does_not_count_as_use(make: type[SORS]) -> None:
    learner = make(0.1, sparsity=0.01, normalize=False).initialize(2).learn_one([1, 0], [0, 1], [0, 0])
    before = learner.matrix_
    assert before[0, 1] > 0.05
    learner.learn_one([1, 1], [50, 50], [0, 0])
    assert 0 < learner.matrix_[0, 1] < before[0, 1]
    assert learner.utilization_ == 0.5


@pytest.mark.parametrize("make", [SORS, AdaSORS])
def test_entries_that_the_minimiser_has_at_0_are_exactly_0(make: type[SORS]) -> None:
    X, y = load_digits(return_X_y=True)
    triplets = X[sample_triplets(y, 1000, random_state=0)]
    sparse, full = (make(sparsity=s).partial_fit(triplets).matrix_ for s in (0.3, 0.0))
    assert np.count_nonzero(sparse) < np.count_nonzero(full) / 2
    assert np.diag(sparse).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_sparsity_a_round_is_oasis_with_a_constant_step(dtype: str) -> None:
    """OASIS's step size is C if loss / (||x||^2 ||p - n||^2) exceeds C, which is always so for a small C."""
    X, y = load_digits(return_X_y=True)
    triplets = X[sample_triplets(y, 500, random_state=0)]
    sors = SORS(1e-3, sparsity=0.0, dtype=dtype).partial_fit(triplets)
    oasis = OASIS(1e-3, dtype=dtype).partial_fit(triplets)
    np.testing.assert_allclose(sors.matrix_, oasis.matrix_, atol=500 * np.finfo(dtype).eps)
    assert sors.utilization_ == oasis.utilization_ == 1.0


def test_adaptive_steps_get_shorter() -> None:
    """With a constant gradient, H grows with the square root of the number of rounds."""
    learner = AdaSORS(0.001, sparsity=0.0, delta=1e-9, normalize=False, dtype="float64").initialize(2)
    entries = [0.0]
    for _ in range(9):
        learner.learn_one([1, 0], [0, 0.5], [0, 0])
        entries.append(learner.matrix_[0, 1])
    np.testing.assert_allclose(np.diff(entries), 0.001 / np.sqrt(np.arange(1, 10)), rtol=1e-6)


@pytest.mark.parametrize("make", [SORS, AdaSORS])
@pytest.mark.parametrize("triplet", [[[0, 0], [1, 2], [2, 1]], [[1, 1], [1, 2], [1, 2]]])
def test_triplet_without_a_direction_is_counted_but_not_used(make: type[SORS], triplet: list[list[int]]) -> None:
    learner = make().initialize(2).learn_one(*triplet)
    np.testing.assert_array_equal(learner.matrix_, np.eye(2))
    assert (learner.n_seen_, learner.utilization_) == (1, 0.0)


@pytest.mark.parametrize("make", [SORS, AdaSORS])
def test_normalizing_equals_scaling_beforehand(make: type[SORS]) -> None:
    triplets = np.random.default_rng(0).standard_normal((100, 3, 5))
    scaled = triplets / np.linalg.norm(triplets, axis=2, keepdims=True)
    learner = make(dtype="float64").partial_fit(triplets)
    beforehand = make(normalize=False, dtype="float64").partial_fit(scaled)
    np.testing.assert_allclose(learner.matrix_, beforehand.matrix_, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("make", [SORS, AdaSORS])
@settings(max_examples=30)
@given(d=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_loss_of_a_triplet_goes_down_by_learning_it(make: type[SORS], d: int, seed: int) -> None:
    x, p, n = np.random.default_rng(seed).standard_normal((3, d))
    learner = make(1e-3, sparsity=0.0, normalize=False, dtype="float64").initialize(d)
    before = max(0.0, 1 - x @ (p - n))
    after = max(0.0, 1 - x @ learner.learn_one(x, p, n).matrix_ @ (p - n))
    assert after < before if before > 0 else after == before


@pytest.mark.parametrize("make", [SORS, AdaSORS])
def test_there_are_no_distances(make: type[SORS]) -> None:
    with pytest.raises(NoDistanceError):
        _ = make().initialize(3).transform


@pytest.mark.parametrize("make", [SORS, AdaSORS])
def test_the_default_does_not_make_digits_worse(make: type[SORS]) -> None:
    X, y = load_digits(return_X_y=True)
    learner = make().partial_fit(X[sample_triplets(y, 2000, random_state=0)])
    unseen = X[sample_triplets(y, 2000, random_state=1)]
    assert learner.score(unseen) > make().initialize(64).score(unseen) - 0.01


# -- parameters beyond the type ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    [SORS(1e39), AdaSORS(1e39), AdaSORS(delta=1e-50), AdaSORS(delta=1e-50, sparsity=0.0), SORS(sparsity=1e39)],
    ids=repr,
)
def test_parameters_beyond_the_dtype_cause_no_nan(learner: SORS) -> None:
    same = np.array([[[1.0, 0, 0], [0, 1, 0], [0, 1, 0]]])
    try:
        learner.partial_fit(same)
    except RejectedConstraintError:
        return
    assert np.isfinite(learner.matrix_).all()
