"""Inputs for which the formulas are undefined: each has a defined result, and the model never contains NaN."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu import OAHU, RejectedConstraintError
from oahu.learners.oahu.loss import local_loss

SMALL = {"n_layers": 2, "hidden_size": 6, "embedding_size": 4, "random_state": 0}


def flat(learner: OAHU) -> NDArray[np.floating]:
    """Return a copy of all parameters and weights."""
    return np.concatenate([learner._network.flat, learner.metric_weights_])


def linear(**parameters: object) -> OAHU:
    """Return a learner with one expert: the identity in two dimensions."""
    learner = OAHU(n_layers=0, embedding_size=2, bias=False, random_state=0, **parameters).initialize(2)
    learner._network.assign([], [], [np.eye(2, dtype=learner.dtype)], [np.zeros(2)])
    return learner


def test_anchor_equal_to_positive_is_only_pushed_from_the_negative() -> None:
    learner = linear(dtype="float64")
    a, n = np.array([1.0, 0.0]), np.array([0.6, 0.8])
    far = np.linalg.norm(a - n)
    learner.learn_one(a, a, n)
    np.testing.assert_allclose(learner.loss_history_[0], local_loss(0.0, far, 0.1))
    assert learner.pair_distance([[a, n]])[0] > far


def test_anchor_equal_to_negative_is_only_pulled_to_the_positive() -> None:
    learner = linear(dtype="float64")
    a, p = np.array([1.0, 0.0]), np.array([0.6, 0.8])
    near = np.linalg.norm(a - p)
    learner.learn_one(a, p, a)
    np.testing.assert_allclose(learner.loss_history_[0], local_loss(near, 0.0, 0.1))
    assert learner.pair_distance([[a, p]])[0] < near


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_three_equal_items_change_nothing_and_are_not_counted_as_used(dtype: str) -> None:
    learner = OAHU(**SMALL, dtype=dtype).initialize(3)
    before = flat(learner)
    learner.learn_one([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(flat(learner), before)
    assert learner.utilization_ == 0.0
    np.testing.assert_allclose(learner.loss_history_[0], 0.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=50)
@given(scales=st.tuples(*[st.floats(0.1, 10.0)] * 3), seed=st.integers(0, 1000))
def test_items_of_one_direction_change_nothing_however_they_are_rounded(
    dtype: str, scales: tuple[float, float, float], seed: int
) -> None:
    """Their embeddings are equal. A difference in the last bit must not cause a step."""
    learner = OAHU(n_layers=0, embedding_size=5, bias=False, dtype=dtype, random_state=0).initialize(3)
    before = flat(learner)
    learner.learn_one(*np.outer(scales, np.random.default_rng(seed).standard_normal(3)))
    np.testing.assert_array_equal(flat(learner), before)


@pytest.mark.parametrize("through_thresholds", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_perfect_triplet_has_no_loss_and_no_gradient(dtype: str, through_thresholds: bool) -> None:
    learner = linear(dtype=dtype, through_thresholds=through_thresholds)
    before = flat(learner)
    learner.learn_one([3.0, 4.0], [6.0, 8.0], [-3.0, -4.0])  # distances 0 and 2
    np.testing.assert_allclose(flat(learner), before, atol=np.finfo(dtype).eps)
    np.testing.assert_allclose(learner.loss_history_[0], 0.0, atol=np.finfo(dtype).eps)


def test_with_an_inactive_layer_only_the_linear_expert_learns() -> None:
    learner = OAHU(n_layers=2, hidden_size=3, embedding_size=2, bias=False, random_state=0).initialize(2)
    network = learner._network
    network.hidden_weights[0][...] = -1.0
    deep = [w.copy() for w in learner.hidden_weights_ + learner.embedding_weights_[1:]]
    linear_before = learner.embedding_weights_[0]
    triplet = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 0.5]])  # positive, so no unit of layer 1 is active

    assert not learner.embed(triplet)[1:].any()
    learner.learn_one(*triplet)
    for old, new in zip(deep, learner.hidden_weights_ + learner.embedding_weights_[1:], strict=True):
        np.testing.assert_array_equal(old, new)
    assert (learner.embedding_weights_[0] != linear_before).any()
    assert learner.utilization_ == 1.0


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_item_of_zeros_is_learned_from(bias: bool, which: int) -> None:
    triplet = np.random.default_rng(0).standard_normal((3, 5))
    triplet[which] = 0.0
    learner = OAHU(**SMALL, bias=bias).initialize(5)
    before = flat(learner)
    learner.learn_one(*triplet)
    assert np.isfinite(flat(learner)).all()
    assert (flat(learner) != before).any()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scale", [1e-36, 1e-25, 1e-12, 1e12, 1e25, 1e36])
def test_huge_and_tiny_items_are_learned_or_rejected_completely(scale: float, bias: bool) -> None:
    triplets = np.random.default_rng(0).standard_normal((20, 3, 5)) * scale
    learner = OAHU(**SMALL, bias=bias).initialize(5)
    for triplet in triplets:
        before, seen = flat(learner), learner.n_seen_
        try:
            learner.learn_one(*triplet)
        except RejectedConstraintError:
            np.testing.assert_array_equal(flat(learner), before)
            assert learner.n_seen_ == seen
        assert np.isfinite(flat(learner)).all()


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_the_linear_expert_does_not_depend_on_the_scale_of_its_input(scale: float) -> None:
    """f(x) is a unit vector. Without biases, it depends only on the direction of x."""
    triplet = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    usual = OAHU(n_layers=0, bias=False, random_state=0).initialize(5).learn_one(*triplet)
    scaled = OAHU(n_layers=0, bias=False, random_state=0).initialize(5).learn_one(*triplet * np.float32(scale))
    np.testing.assert_allclose(usual.embedding_weights_[0], scaled.embedding_weights_[0], rtol=2e-5, atol=1e-7)


def test_a_rejected_triplet_is_named_and_the_call_is_undone() -> None:
    triplets = np.random.default_rng(0).standard_normal((200, 3, 5)).astype(np.float32)
    triplets[150] = np.finfo(np.float32).max
    learner = OAHU(**SMALL).partial_fit(triplets[:10])
    before, history = flat(learner), learner.weight_history_
    with pytest.raises(RejectedConstraintError, match="Triplet 150 was rejected") as caught:
        learner.partial_fit(triplets)
    assert caught.value.row == 150
    np.testing.assert_array_equal(flat(learner), before)
    np.testing.assert_array_equal(learner.weight_history_, history)
    assert learner.n_seen_ == 10


def test_subnormal_items_without_bias_are_rejected() -> None:
    learner = OAHU(n_layers=0, bias=False, random_state=0).initialize(3)
    before = flat(learner)
    with pytest.raises(RejectedConstraintError):
        learner.learn_one(*(np.eye(3, dtype=np.float32) * np.float32(1e-44)))
    np.testing.assert_array_equal(flat(learner), before)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_gradient_that_overflows_with_the_learning_rate_is_rejected(which: int) -> None:
    """The gradient of an item of 1e-38 is near the largest float, and overflows with the learning rate."""
    triplet = np.eye(3, 2, dtype=np.float32) + np.float32(0.5)
    triplet[which] *= np.float32(1e-38)
    learner = OAHU(n_layers=0, embedding_size=4, bias=False, learning_rate=0.5, random_state=0).initialize(2)
    learner.learn_one(*triplet).set_params(learning_rate=1e4)
    before = flat(learner)
    with pytest.raises(RejectedConstraintError):
        learner.learn_one(*triplet)
    np.testing.assert_array_equal(flat(learner), before)


@settings(max_examples=30)
@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=6, max_size=6),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([0.05, 0.3, 5.0]),
    st.booleans(),
)
def test_no_stream_of_finite_numbers_puts_a_nan_into_the_model(
    stream: list[list[float]], learning_rate: float, bias: bool
) -> None:
    learner = OAHU(**SMALL, learning_rate=learning_rate, bias=bias).initialize(2)
    for triplet in np.array(stream).reshape(-1, 3, 2):
        before = flat(learner)
        try:
            learner.learn_one(*triplet)
        except RejectedConstraintError:
            np.testing.assert_array_equal(flat(learner), before)
        assert np.isfinite(flat(learner)).all()
        assert learner.metric_weights_.sum() == pytest.approx(1.0)
