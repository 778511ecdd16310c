"""The update step against two independent oracles: autograd and finite differences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from oahu import OAHU, sample_triplets
from oahu.learners.oahu.hedge import HEDGE_RULES
from oahu.learners.oahu.loss import local_loss
from oahu.torch import OAHUHead

PARTS = ("hidden_weights_", "hidden_biases_", "embedding_weights_", "embedding_biases_")


@dataclass(frozen=True)
class Case:
    """A learner's parameters and one triplet for it."""

    learner: dict[str, object]
    triplet: NDArray[np.float64]

    def new_learner(self, dtype: str) -> OAHU:
        return OAHU(**self.learner, dtype=dtype).initialize(self.triplet.shape[1])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    d, seed = draw(st.integers(1, 100)), draw(st.integers(0, 2**32))
    parameters = {
        "n_layers": draw(st.integers(0, 6)),
        "hidden_size": draw(st.integers(1, 64)),
        "embedding_size": draw(st.integers(1, 64)),
        "tau": draw(st.floats(0.01, 0.66)),
        "beta": draw(st.floats(0.5, 0.999)),
        "smoothing": draw(st.floats(0.0, 1.0)),
        "learning_rate": draw(st.floats(0.01, 1.0)),
        "hedge": draw(st.sampled_from(list(HEDGE_RULES))),
        "through_thresholds": draw(st.booleans()),
        "initialization": draw(st.sampled_from(["pytorch", "he", "orthogonal"])),
        "bias": draw(st.booleans()),
        "random_state": seed,
    }
    # float32 values, so that both precisions get the same triplet
    triplet = np.random.default_rng(seed + 1).standard_normal((3, d)).astype(np.float32).astype(np.float64)
    return Case(parameters, triplet)


def autograd_round(head: OAHUHead, triplet: NDArray[np.floating], learning_rate: float) -> NDArray[np.float64]:
    """Run one round of Algorithm 1 in plain PyTorch. Returns the losses."""
    optimizer = torch.optim.SGD(head.parameters(), lr=learning_rate)
    losses = head.losses(*torch.from_numpy(triplet)[:, None])
    optimizer.zero_grad()
    head.overall(losses).backward()
    optimizer.step()
    head.hedge_step(losses)
    return losses.detach().numpy()


def parameters_of(learner: OAHU) -> list[NDArray[np.float64]]:
    return [array.astype(np.float64) for part in PARTS for array in getattr(learner, part)]


@dataclass(frozen=True)
class Conditioning:
    """The numbers that determine the precision of a round."""

    distances: torch.Tensor  # each expert's two
    margin: float  # of the unit nearest to the kink of its ReLU
    scale: float  # of a gradient before the parts along the sphere's radius cancel

    @classmethod
    def of(cls, head: OAHUHead, triplet: NDArray[np.float64]) -> Conditioning:
        x = torch.from_numpy(triplet)
        margins, reaches = [torch.tensor(1.0)], []
        with torch.no_grad():
            anchor, positive, negative = head(x).unbind(dim=1)
            for level, embedding in enumerate(head.embeddings):
                if level:
                    x = head.hidden[level - 1](x)
                    margins.append(x.abs().min())
                    x = torch.relu(x)
                lengths = embedding(x).norm(dim=1)
                reaches.append((1 + x.norm(dim=1)) / torch.where(lengths > 0, lengths, torch.inf))
        apart = torch.stack([(anchor - positive).norm(dim=1), (anchor - negative).norm(dim=1)])
        return cls(apart, float(torch.stack(margins).min()), float(torch.stack(reaches).max()))

    def has_distance_below(self, limit: float) -> bool:
        """Return whether a distance is so small that rounding errors determine its direction."""
        return bool(((self.distances > 1e-13) & (self.distances < limit)).any())


def assert_same_step(
    learner: OAHU, oracle: OAHU, before: list[NDArray[np.float64]], tolerance: float, scale: float
) -> None:
    """Compare the changes by a round, relative to their size.

    Where the true gradient is zero (a sphere of one dimension, parallel items) all there is to compare is
    rounding: of the parameter, and of the parts of the gradient that cancelled, which are sums of as many terms as
    a sphere has dimensions.
    """
    eps = max(4, learner.embedding_size) * float(np.finfo(learner.dtype).eps)
    for old, mine, other in zip(before, parameters_of(learner), parameters_of(oracle), strict=True):
        error, change = np.linalg.norm(mine - other), np.linalg.norm(other - old)
        rounding = eps * (np.linalg.norm(other) + learner.learning_rate * scale)
        assert error <= tolerance * change + rounding


@settings(max_examples=30)
@given(cases())
def test_a_round_in_float64_equals_autograd(case: Case) -> None:
    learner = case.new_learner("float64")
    head = OAHUHead.from_learner(learner)
    conditioning = Conditioning.of(head, case.triplet)
    assume(not conditioning.has_distance_below(1e-5))
    before = parameters_of(learner)
    learner.learn_one(*case.triplet)
    losses = autograd_round(head, case.triplet, learner.learning_rate)

    assert_same_step(learner, head.to_learner(), before, tolerance=1e-9, scale=conditioning.scale)
    np.testing.assert_allclose(learner.loss_history_[0], losses, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(learner.metric_weights_, head.metric_weights, rtol=1e-9)


@settings(max_examples=30)
@given(cases())
def test_a_round_in_float32_is_near_autograd_in_float64(case: Case) -> None:
    learner = case.new_learner("float32")
    head = OAHUHead.from_learner(learner).double()
    conditioning = Conditioning.of(head, case.triplet)
    assume(conditioning.margin > 1e-5)  # both precisions must see the same side of each ReLU
    assume(not conditioning.has_distance_below(0.02))
    before = parameters_of(learner)
    learner.learn_one(*case.triplet)
    losses = autograd_round(head, case.triplet, learner.learning_rate)

    assert_same_step(learner, head.to_learner(), before, tolerance=1e-4, scale=conditioning.scale)
    np.testing.assert_allclose(learner.loss_history_[0], losses, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(learner.metric_weights_, head.metric_weights, rtol=1e-4)


@pytest.mark.parametrize("through_thresholds", [False, True])
def test_each_of_100_rounds_on_real_digits_equals_autograd(through_thresholds: bool) -> None:
    """Each round starts from the learner's state, so that rounding errors do not accumulate."""
    X, y = load_digits(return_X_y=True)
    learner = OAHU(
        n_layers=3, hidden_size=20, embedding_size=10, dtype="float64", random_state=0,
        through_thresholds=through_thresholds, learning_rate=0.05,
    ).initialize(64)  # fmt: skip
    for triplet in (X / 16)[sample_triplets(y, 100, random_state=0)]:
        head, before = OAHUHead.from_learner(learner), parameters_of(learner)
        scale = Conditioning.of(head, triplet).scale
        autograd_round(head, triplet, 0.05)
        learner.learn_one(*triplet)
        assert_same_step(learner, head.to_learner(), before, tolerance=1e-9, scale=scale)
        np.testing.assert_allclose(learner.metric_weights_, head.metric_weights, rtol=1e-9)


def test_each_of_100_rounds_in_float32_is_near_autograd_in_float64() -> None:
    """The rounds on real digits that are well conditioned, after some training."""
    X, y = load_digits(return_X_y=True)
    learner = OAHU(n_layers=3, hidden_size=20, embedding_size=10, random_state=0, learning_rate=0.05).initialize(64)
    compared = 0
    for triplet in (X / 16)[sample_triplets(y, 100, random_state=0)]:
        head, before = OAHUHead.from_learner(learner).double(), parameters_of(learner)
        conditioning = Conditioning.of(head, triplet)
        losses = autograd_round(head, triplet, 0.05)
        learner.learn_one(*triplet)
        if conditioning.margin > 1e-5 and not conditioning.has_distance_below(0.02):
            assert_same_step(learner, head.to_learner(), before, tolerance=1e-4, scale=conditioning.scale)
            np.testing.assert_allclose(learner.loss_history_[-1], losses, rtol=1e-4, atol=1e-5)
            compared += 1
    assert compared > 60
    assert np.ptp(learner.metric_weights_) > 0.01


def test_alpha_follows_the_printed_rule_by_plain_arithmetic() -> None:
    """The weights are recomputed from the recorded losses by Eq. (alpha_update), without the hedge function."""
    learner = OAHU(n_layers=2, hidden_size=6, embedding_size=4, dtype="float64", random_state=0)
    learner.partial_fit(np.random.default_rng(0).standard_normal((200, 3, 5)))
    alpha, beta, floor = [1 / 3] * 3, 0.99, 0.1 / 3
    for losses, found in zip(learner.loss_history_, learner.weight_history_, strict=True):
        least = min(losses)
        alpha = [
            max(a * (beta**x if beta**least * math.log(x) > beta - 1 else 1 - (1 - beta) * x), floor)
            for a, x in zip(alpha, losses, strict=True)
        ]
        alpha = [a / sum(alpha) for a in alpha]
        np.testing.assert_allclose(found, alpha, rtol=1e-9)


@settings(max_examples=25)
@given(st.integers(0, 3), st.integers(0, 2**32), st.booleans())
def test_a_round_descends_the_overall_loss_by_finite_differences(n_layers: int, seed: int, bias: bool) -> None:
    """The loss is recomputed from the metric's embeddings, without PyTorch."""
    learner = OAHU(
        n_layers, hidden_size=4, embedding_size=3, dtype="float64", through_thresholds=True, bias=bias,
        random_state=seed, learning_rate=0.1,
    ).initialize(5)  # fmt: skip
    triplet = np.random.default_rng(seed).standard_normal((3, 5))
    alpha = learner.metric_weights_

    def overall() -> float:
        anchor, positive, negative = learner.embed(triplet).transpose(1, 0, 2)
        near = np.linalg.norm(anchor - positive, axis=1)
        far = np.linalg.norm(anchor - negative, axis=1)
        return float(alpha @ local_loss(near, far, learner.tau))

    network, h = learner._network, 1e-6
    biases = (network.hidden_biases + network.embedding_biases) if bias else []
    layers = network.hidden_weights + network.embedding_weights + biases
    gradients = []
    for layer in layers:
        gradient = np.zeros(layer.shape)
        for place in np.ndindex(layer.shape):
            kept = layer[place]
            layer[place] = kept + h
            up = overall()
            layer[place] = kept - h
            down = overall()
            layer[place] = kept
            gradient[place] = (up - down) / (2 * h)
        gradients.append(gradient)
    expected = [layer - 0.1 * gradient for layer, gradient in zip(layers, gradients, strict=True)]

    learner.learn_one(*triplet)
    network = learner._network
    biases = (network.hidden_biases + network.embedding_biases) if bias else []
    for found, wanted in zip(network.hidden_weights + network.embedding_weights + biases, expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("hidden_size", [21, 22])
def test_splitting_a_stream_does_not_change_the_bits(hidden_size: int) -> None:
    """The pending update runs the same machine code for calls of any length.

    With an odd number of outputs, the last row of the first layer has no pair.
    """
    parameters = {"n_layers": 3, "hidden_size": hidden_size, "embedding_size": 9, "random_state": 0}
    triplets = np.random.default_rng(0).standard_normal((300, 3, 37)).astype(np.float32)
    whole = OAHU(**parameters).partial_fit(triplets)
    for cuts in ([1], [127], [128], [129, 130], [50, 200, 256], range(1, 300)):
        parts = OAHU(**parameters)
        for part in np.split(triplets, list(cuts)):
            parts.partial_fit(part)
        np.testing.assert_array_equal(parts._network.flat, whole._network.flat)
        np.testing.assert_array_equal(parts.metric_weights_, whole.metric_weights_)


def test_padding_stays_zero() -> None:
    learner = OAHU(n_layers=3, hidden_size=5, embedding_size=3, random_state=0)
    learner.partial_fit(np.random.default_rng(0).standard_normal((200, 3, 4)))
    network = learner._network
    assert not network.middle[:, :, 8:].any()
    assert not network.middle_bias[:, 8:].any()
    assert not network.last[:, 3:].any()
    assert not network.last_bias[3:].any()
