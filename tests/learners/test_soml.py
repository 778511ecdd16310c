"""SOML against a bisection for the minimisers of the problems that its two methods solve in every round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from oahu import SOML, NoDistanceError, load, sample_triplets

Vector = NDArray[np.float64]

METHODS = ["truncated_gradient", "dual_averaging"]


def sparse_minimiser(slope: Vector, centre: Vector, curvature: float, penalty: float) -> Vector:
    """argmin slope^T w + curvature/2 ||w - centre||^2 + penalty ||w||_1, a convex problem for each coordinate.

    By bisection for the place where the objective stops falling and rises.
    """
    reach = np.abs(centre) + (np.abs(slope) + penalty) / curvature
    low, high = -reach, reach
    for _ in range(100):
        middle = (low + high) / 2
        rising = slope + curvature * (middle - centre) + penalty * np.sign(middle) > 0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    return np.asarray((low + high) / 2)


def gradient(weights: Vector, triplet: NDArray[np.float64]) -> Vector:
    """Return the gradient of the hinge [1 - w^T f]_+ at w."""
    x, p, n = triplet
    f = x * (p - n)
    return np.asarray(-f if 1 - weights @ f > 0 else 0 * f)


def loss(learner: SOML, triplet: NDArray[np.float64]) -> float:
    x, p, n = triplet
    return max(0.0, float(1 - learner.weights_ @ (x * (p - n))))


# -- the truncated gradient ----------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    d=st.integers(1, 6),
    seed=st.integers(0, 2**32),
    rate=st.floats(-3, 0).map(lambda e: 10.0**e),
    sparsity=st.sampled_from([0.0, 1e-3, 0.1, 1.0]),
)
def test_truncated_gradient_is_the_minimiser_of_its_problem(
    d: int, seed: int, rate: float, sparsity: float
) -> None:
    """<g, w> + ||w - w_t||^2 / (2 eta) + lambda ||w||_1, in each of several rounds."""
    rng = np.random.default_rng(seed)
    learner = SOML(learning_rate=rate, sparsity=sparsity, normalize=False, dtype="float64").initialize(d)
    for triplet in rng.standard_normal((4, 3, d)):
        before = learner.weights_
        learner.learn_one(*triplet)
        expected = sparse_minimiser(gradient(before, triplet), before, 1 / rate, sparsity)
        np.testing.assert_allclose(learner.weights_, expected, atol=1e-12)


def test_weights_that_the_minimiser_has_at_0_are_exactly_0() -> None:
    learner = SOML(learning_rate=0.5, sparsity=1.0, normalize=False).initialize(3)
    learner.learn_one([1, 1, 1], [-1.5, 0, 1], [0, 0, 0]).learn_one([1, 1, 1], [-1, 0, 1], [0, 0, 0])
    assert learner.weights_[:2].tolist() == [0.0, 0.0]
    assert learner.weights_[2] > 0


def test_shrinking_happens_without_a_loss_and_does_not_count_as_use() -> None:
    learner = SOML(learning_rate=0.1, sparsity=0.5, normalize=False, dtype="float64").initialize(2)
    learner.learn_one([1.0, 1.0], [5.0, 5.0], [0.0, 0.0])
    np.testing.assert_allclose(learner.weights_, [0.95, 0.95], rtol=1e-12)
    assert learner.utilization_ == 0.0


def test_without_sparsity_a_triplet_without_loss_changes_nothing() -> None:
    learner = SOML(sparsity=0.0, normalize=False).initialize(2).learn_one([1.0, 1.0], [5.0, 5.0], [0.0, 0.0])
    np.testing.assert_array_equal(learner.weights_, np.ones(2))


# -- dual averaging ------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    d=st.integers(1, 6),
    seed=st.integers(0, 2**32),
    gamma=st.floats(-1, 1).map(lambda e: 10.0**e),
    sparsity=st.sampled_from([0.0, 1e-3, 0.1, 0.5]),
)
def test_dual_averaging_is_the_minimiser_of_its_problem(d: int, seed: int, gamma: float, sparsity: float) -> None:
    """<mean gradient, w> + lambda ||w||_1 + gamma / (2 sqrt(t)) ||w||^2, in each of several rounds."""
    rng = np.random.default_rng(seed)
    learner = SOML("dual_averaging", gamma=gamma, sparsity=sparsity, normalize=False, dtype="float64").initialize(d)
    gradients = []
    for triplet in rng.standard_normal((6, 3, d)):
        gradients.append(gradient(learner.weights_, triplet))
        learner.learn_one(*triplet)
        curvature = gamma / np.sqrt(len(gradients))
        expected = sparse_minimiser(np.mean(gradients, axis=0), np.zeros(d), curvature, sparsity)
        np.testing.assert_allclose(learner.weights_, expected, atol=1e-12 * (1 + np.abs(expected).max()))


def test_a_penalty_above_all_mean_gradients_sets_all_weights_to_zero() -> None:
    """For items of unit length, |f| is at most 2, and its mean is far smaller."""
    X, y = load_digits(return_X_y=True)
    triplets = X[sample_triplets(y, 500, random_state=0)]
    learner = SOML("dual_averaging", sparsity=2.0).partial_fit(triplets)
    assert not learner.weights_.any()


@pytest.mark.parametrize("method", METHODS)
def test_the_default_penalty_keeps_some_weights_on_digits(method: str) -> None:
    X, y = load_digits(return_X_y=True)
    learner = SOML(method).partial_fit(X[sample_triplets(y, 2000, random_state=0)])
    assert np.count_nonzero(learner.weights_) > 30
    assert learner.score(X[sample_triplets(y, 2000, random_state=1)]) > 0.8


def test_gamma_only_rescales_while_every_triplet_has_a_loss() -> None:
    triplets = 0.1 * np.random.default_rng(0).standard_normal((5, 3, 4))
    one, two = (
        SOML("dual_averaging", gamma=g, normalize=False, dtype="float64").partial_fit(triplets)
        for g in (10.0, 20.0)
    )
    assert one.utilization_ == two.utilization_ == 1.0
    np.testing.assert_allclose(one.weights_, 2 * two.weights_, rtol=1e-12)


def test_rounds_continue_after_a_file(tmp_path: Path) -> None:
    triplets = np.random.default_rng(0).standard_normal((40, 3, 4))
    whole = SOML("dual_averaging").partial_fit(triplets)
    SOML("dual_averaging").partial_fit(triplets[:17]).save(tmp_path / "half")
    np.testing.assert_array_equal(load(tmp_path / "half").partial_fit(triplets[17:]).weights_, whole.weights_)


# -- both ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=30)
@given(d=st.integers(1, 8), seed=st.integers(0, 2**32))
def test_loss_of_a_triplet_goes_down_by_learning_it(method: str, d: int, seed: int) -> None:
    """The sign of the step is correct. A public implementation has it reversed."""
    triplet = np.random.default_rng(seed).standard_normal((3, d))
    learner = SOML(method, learning_rate=1e-3, sparsity=0.0, gamma=100.0, normalize=False, dtype="float64")
    before = loss(learner.initialize(d), triplet)
    after = loss(learner.learn_one(*triplet), triplet)
    assert after < before if before > 0 else after == before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("triplet", [[[0, 0], [1, 2], [2, 1]], [[1, 1], [1, 2], [1, 2]]])
def test_triplet_without_a_direction_is_counted_but_not_used(method: str, triplet: list[list[int]]) -> None:
    learner = SOML(method, sparsity=0.0).initialize(2)
    before = learner.weights_
    learner.learn_one(*triplet)
    np.testing.assert_array_equal(learner.weights_, before)
    assert (learner.n_seen_, learner.utilization_) == (1, 0.0)


@pytest.mark.parametrize("method", METHODS)
def test_normalizing_equals_scaling_beforehand(method: str) -> None:
    triplets = np.random.default_rng(0).standard_normal((100, 3, 5))
    scaled = triplets / np.linalg.norm(triplets, axis=2, keepdims=True)
    learner, beforehand = (
        SOML(method, normalize=n, dtype="float64").partial_fit(t) for n, t in ((True, triplets), (False, scaled))
    )
    np.testing.assert_allclose(learner.weights_, beforehand.weights_, rtol=1e-10, atol=1e-13)


def test_scores_of_an_unlearned_model_are_cosines() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 20, 5))
    expected = np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    learner = SOML(dtype="float64").initialize(5)
    np.testing.assert_allclose(learner.pair_score(np.stack([a, b], axis=1)), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["transform", "pair_distance"])
def test_there_are_no_distances(name: str) -> None:
    with pytest.raises(NoDistanceError):
        getattr(SOML().initialize(3), name)


def test_a_file_written_after_method_was_changed_continues(tmp_path: Path) -> None:
    """A fitted model keeps its arrays until it is reset."""
    learner = SOML().partial_fit(np.random.default_rng(0).standard_normal((5, 3, 4)))
    learner.set_params(method="dual_averaging").save(tmp_path / "learner")
    np.testing.assert_array_equal(load(tmp_path / "learner").weights_, learner.weights_)
