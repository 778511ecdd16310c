"""OAHU as a torch module: the loss, the conversions, and a CNN trained through it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from oahu import OAHU, InvalidInputError, sample_triplets
from oahu.learners.oahu.loss import local_loss
from oahu.torch import AdaptiveBoundTripletLoss, OAHUHead


def test_loss_equals_the_formulas_of_the_learner() -> None:
    rng = np.random.default_rng(0)
    unit = rng.standard_normal((3, 40, 5))
    unit /= np.linalg.norm(unit, axis=2, keepdims=True)
    near, far = np.linalg.norm(unit[0] - unit[1], axis=1), np.linalg.norm(unit[0] - unit[2], axis=1)
    found = AdaptiveBoundTripletLoss(tau=0.3)(*torch.from_numpy(unit))
    np.testing.assert_allclose(found, local_loss(near, far, 0.3), rtol=1e-12)


@pytest.mark.parametrize("through_thresholds", [False, True])
def test_the_gradient_includes_the_thresholds_only_if_set(through_thresholds: bool) -> None:
    anchor, positive, negative = torch.eye(3, dtype=torch.float64)
    anchor.requires_grad_()
    AdaptiveBoundTripletLoss(0.5, through_thresholds)(anchor, positive, negative).backward()
    held = torch.eye(3, dtype=torch.float64)[0].requires_grad_()
    near, far = (held - positive).norm(), (held - negative).norm()
    c1, c2 = near.item(), far.item()  # with constant thresholds the loss is linear in both distances
    sim = 0.5 * np.expm1(c1) / np.expm1(2)
    dis = 1.5 + 0.5 * np.expm1(-c2) / np.expm1(-2)
    (0.5 * ((near - sim) / (2 - sim) + 1 - far / dis)).backward()
    assert torch.allclose(anchor.grad, held.grad) != through_thresholds


@pytest.mark.parametrize("tau", [0.0, 2.0, -1.0])
def test_the_loss_rejects_a_tau_out_of_range(tau: float) -> None:
    with pytest.raises(InvalidInputError, match=r"'tau' parameter of AdaptiveBoundTripletLoss must be in \(0, 2\)"):
        AdaptiveBoundTripletLoss(tau)


@pytest.mark.parametrize("n_layers", [0, 1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
def test_learner_to_head_and_back_is_identical(n_layers: int, dtype: str, bias: bool) -> None:
    triplets = np.random.default_rng(0).standard_normal((30, 3, 6))
    learner = OAHU(n_layers, 5, 4, dtype=dtype, bias=bias, tau=0.2, random_state=0).partial_fit(triplets)
    back = OAHUHead.from_learner(learner).to_learner(learning_rate=learner.learning_rate, random_state=0)
    np.testing.assert_array_equal(back._network.flat, learner._network.flat)
    np.testing.assert_array_equal(back.metric_weights_, learner.metric_weights_)
    for one in (learner, back):
        one.partial_fit(triplets)
    np.testing.assert_array_equal(back._network.flat, learner._network.flat)


def test_the_head_embeds_and_transforms_like_the_learner() -> None:
    rng = np.random.default_rng(0)
    learner = OAHU(2, 7, 5, dtype="float64", random_state=0).partial_fit(rng.standard_normal((50, 3, 6)))
    head, X = OAHUHead.from_learner(learner), rng.standard_normal((9, 6))
    np.testing.assert_allclose(head(torch.from_numpy(X)).detach(), learner.embed(X), atol=1e-12)
    np.testing.assert_allclose(head.transform(torch.from_numpy(X)).detach(), learner.transform(X), atol=1e-12)


def test_default_sizes_and_start_are_those_of_the_learner() -> None:
    head, learner = OAHUHead(n_features=10), OAHU(random_state=0).initialize(10)
    assert head(torch.zeros(2, 10)).shape == learner.embed(np.zeros((2, 10))).shape
    np.testing.assert_array_equal(head.metric_weights, learner.metric_weights_)


def test_state_dict_keeps_the_metric_weights() -> None:
    head, twin = OAHUHead(4, n_layers=1), OAHUHead(4, n_layers=1)
    head.hedge_step(torch.tensor([0.1, 0.9]))
    twin.load_state_dict(head.state_dict())
    assert torch.equal(head.metric_weights, twin.metric_weights)
    assert head.metric_weights[0] > head.metric_weights[1]


def test_zero_embedding_has_no_gradient() -> None:
    head = OAHUHead(2, n_layers=1, hidden_size=3, embedding_size=2, bias=False)
    with torch.no_grad():
        head.hidden[0].weight.fill_(-1.0)
    losses = head.losses(*torch.rand(3, 1, 2))
    head.overall(losses).backward()
    assert not head.embeddings[1].weight.grad.any()
    assert torch.isfinite(head.embeddings[0].weight.grad).all()


@pytest.mark.slow
def test_convolutions_before_the_head_are_trained() -> None:
    """Section 3.8 of the paper: OAHU replaces the classifier of a CNN, trained end to end on real images."""
    torch.manual_seed(0)
    X, y = load_digits(return_X_y=True)
    images = torch.tensor(X.reshape(-1, 1, 8, 8) / 16, dtype=torch.float32)
    features = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
    )  # fmt: skip
    head = OAHUHead(n_features=16 * 16, n_layers=2, hidden_size=40, embedding_size=20)
    optimizer = torch.optim.SGD([*features.parameters(), *head.parameters()], lr=0.2)
    learn, held_out = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    a, p, n = images[held_out][sample_triplets(y[held_out], 1_000, random_state=1).T]

    def accuracy() -> float:
        with torch.no_grad():
            near = (head.transform(features(a)) - head.transform(features(p))).norm(dim=1)
            return float(
                (near < (head.transform(features(a)) - head.transform(features(n))).norm(dim=1)).float().mean()
            )

    start, weights = accuracy(), [parameter.detach().clone() for parameter in features.parameters()]
    for batch in np.split(sample_triplets(y[learn], 4_000, random_state=0), 250):
        anchor, positive, negative = (features(images[learn][column]) for column in batch.T)
        losses = head.losses(anchor, positive, negative)
        optimizer.zero_grad()
        head.overall(losses).backward()
        optimizer.step()
        head.hedge_step(losses)

    for old, new in zip(weights, features.parameters(), strict=True):
        assert (old - new).norm() > 0.01 * old.norm()
    assert accuracy() > start + 0.05
    assert head.metric_weights.sum().item() == pytest.approx(1.0)


def test_loss_warns_of_a_tau_that_theorem_1_does_not_cover() -> None:
    with pytest.warns(UserWarning, match="Theorem 1") as caught:
        AdaptiveBoundTripletLoss(1.0)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "parameters",
    [{"n_layers": -1}, {"hidden_size": 0}, {"embedding_size": 2.5}, {"beta": 7}, {"smoothing": -3}, {"hedge": "x"}],
    ids=str,
)
def test_the_head_rejects_the_same_parameters_as_the_learner(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=f"'{next(iter(parameters))}' parameter of OAHUHead"):
        OAHUHead(3, **parameters)


@pytest.mark.parametrize("sizes", [(0, 0, 0), (2, 2, 1), (1, 2, 3)])
def test_a_batch_with_different_numbers_of_items_is_rejected(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidInputError, match="same number of anchors"):
        OAHUHead(3).losses(*(torch.zeros(n, 3) for n in sizes))


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_huge_and_tiny_items_are_embedded_as_unit_vectors(scale: float) -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    head = OAHUHead(5, n_layers=0, bias=False)
    torch.testing.assert_close(head(x * scale), head(x), rtol=1e-4, atol=1e-6)


def test_metric_weights_stay_in_float64_when_the_module_is_converted() -> None:
    head = OAHUHead(4, n_layers=1)
    head.hedge_step(torch.tensor([0.1, 0.9]))
    before = head.metric_weights.clone()
    assert torch.equal(head.half().float().double().metric_weights, before)


def test_learned_biases_are_kept_with_bias_false() -> None:
    rng = np.random.default_rng(0)
    learner = OAHU(1, 5, 4, random_state=0, dtype="float64").partial_fit(rng.standard_normal((20, 3, 6)))
    head, X = OAHUHead.from_learner(learner.set_params(bias=False)), rng.standard_normal((3, 6))
    np.testing.assert_allclose(head(torch.from_numpy(X)).detach(), learner.embed(X), atol=1e-12)


def test_head_with_nan_does_not_become_a_learner() -> None:
    head = OAHUHead(4, n_layers=1)
    with torch.no_grad():
        head.embeddings[0].weight[0, 0] = torch.nan
    with pytest.raises(InvalidInputError, match="NaN or infinite"):
        head.to_learner()


def test_to_learner_rejects_parameters_of_the_head() -> None:
    with pytest.raises(InvalidInputError, match="n_layers"):
        OAHUHead(4, n_layers=1).to_learner(n_layers=3)
