"""OAHU as a PyTorch module: a differentiable head with the experts, loss and hedge update of `oahu.OAHU`.

`OAHUHead` replaces the classifier of a CNN or RNN (Section 3.8 of the paper, Extendability). Training
backpropagates the loss through the head into the layers that compute the features. With plain SGD and one triplet
at a time, the head makes the same updates as `oahu.OAHU`, but takes about fifty times as long. The tests use the
head as a reference implementation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oahu.exceptions import InvalidInputError
from oahu.learners.oahu.hedge import HEDGE_RULES, HedgeRule, hedge_update
from oahu.learners.oahu.oahu_learner import OAHU
from oahu.parameters import check_choice, check_integer, check_real, warn_caller

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:  # pragma: no cover
    raise ImportError("oahu.torch needs PyTorch: pip install 'oahu[torch]'") from error

__all__ = ["AdaptiveBoundTripletLoss", "OAHUHead"]


class AdaptiveBoundTripletLoss(nn.Module):
    """The Adaptive-Bound Triplet Loss (ABTL) of unit vectors: a loss in [0, 1] for each triplet.

    The loss pulls the positive to a distance below the similarity threshold d_sim, and pushes the negative to a
    distance above the dissimilarity threshold d_dis. Both thresholds depend on the triplet: d_sim is a function of
    the distance between anchor and positive, d_dis of the distance between anchor and negative.

    Parameters
    ----------
    tau : float, default=0.1
        Control parameter, in (0, 2): d_sim is in [0, tau], and d_dis is in [2 - tau, 2].
    through_thresholds : bool, default=False
        Whether the gradient includes the derivatives of d_sim and d_dis. If False, both thresholds are constants in
        the gradient.

    Examples
    --------
    >>> loss = AdaptiveBoundTripletLoss(tau=0.1)
    >>> a, b = torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0])
    >>> loss(a, a, b).item(), loss(a, b, a).item()
    (0.0, 1.0)
    """

    def __init__(self, tau: float = 0.1, through_thresholds: bool = False) -> None:
        super().__init__()
        check_real(self, "tau", tau, 0.0, 2.0)
        if not tau < 2 / 3:
            warn_caller(
                f"tau={tau} is outside (0, 2/3), the range of Theorem 1 of the paper. Classes may not be separated."
            )
        self.tau = tau
        self.through_thresholds = through_thresholds

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return one loss per triplet, of shape (...), for embeddings of shape (..., embedding_size)."""
        near, far = _distance(anchor, positive), _distance(anchor, negative)
        near_orig, far_orig = (near, far) if self.through_thresholds else (near.detach(), far.detach())
        similarity = self.tau * torch.expm1(near_orig) / math.expm1(2)
        dissimilarity = (2 - self.tau) + self.tau * torch.expm1(-far_orig) / math.expm1(-2)
        attraction = torch.relu((near - similarity) / (2 - similarity))
        repulsion = torch.relu(1 - far / dissimilarity)
        return 0.5 * (attraction + repulsion)

    def extra_repr(self) -> str:
        return f"tau={self.tau}, through_thresholds={self.through_thresholds}"


class OAHUHead(nn.Module):
    """A network of L hidden ReLU layers, with an expert at every depth. An expert embeds items as unit vectors.

    Parameters
    ----------
    n_features, n_layers, hidden_size, embedding_size : int
        The sizes of the network, called d, L, S_hidden and S_emb in the paper.
    tau, beta, smoothing, hedge, through_thresholds, bias
        The same as for `oahu.OAHU`.

    Attributes
    ----------
    metric_weights : Tensor of shape (L + 1,), float64
        alpha: the weights of the experts. `hedge_step` updates this buffer. The optimiser does not change this
        buffer.

    Examples
    --------
    One online round, as in the paper's Algorithm 1:

    >>> _ = torch.manual_seed(0)
    >>> head = OAHUHead(n_features=8, n_layers=2)
    >>> optimizer = torch.optim.SGD(head.parameters(), lr=0.3)
    >>> anchor, positive, negative = torch.randn(3, 1, 8)
    >>> losses = head.losses(anchor, positive, negative)
    >>> optimizer.zero_grad()
    >>> head.overall(losses).backward()
    >>> optimizer.step()
    >>> head.hedge_step(losses)
    >>> tuple(head(anchor).shape)
    (3, 1, 50)
    """

    metric_weights: Tensor

    def __init__(
        self,
        n_features: int,
        n_layers: int = 5,
        hidden_size: int = 100,
        embedding_size: int = 50,
        tau: float = 0.1,
        beta: float = 0.99,
        smoothing: float = 0.1,
        *,
        hedge: HedgeRule = "printed",
        through_thresholds: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_integer(self, "n_features", n_features, least=1)
        check_integer(self, "n_layers", n_layers, least=0)
        check_integer(self, "hidden_size", hidden_size, least=1)
        check_integer(self, "embedding_size", embedding_size, least=1)
        check_real(self, "beta", beta, 0.0, 1.0)
        check_real(self, "smoothing", smoothing, 0.0, 1.0, closed="both")
        check_choice(self, "hedge", hedge, tuple(HEDGE_RULES))
        inputs = [n_features] + [hidden_size] * n_layers
        self.hidden = nn.ModuleList(nn.Linear(size, hidden_size, bias) for size in inputs[:-1])
        self.embeddings = nn.ModuleList(nn.Linear(size, embedding_size, bias) for size in inputs)
        self.loss = AdaptiveBoundTripletLoss(tau, through_thresholds)
        self.hidden_size = hidden_size
        self.beta = beta
        self.smoothing = smoothing
        self.hedge: HedgeRule = hedge
        alpha = torch.full((n_layers + 1,), 1 / (n_layers + 1), dtype=torch.float64)
        self.register_buffer("metric_weights", alpha)

    def forward(self, x: Tensor) -> Tensor:
        """Return the unit vectors of each expert, of shape (L + 1, n, embedding_size)."""
        embedded = [_normalize(self.embeddings[0](x))]
        for hidden, embedding in zip(self.hidden, self.embeddings[1:], strict=True):
            x = torch.relu(hidden(x))
            embedded.append(_normalize(embedding(x)))
        return torch.stack(embedded)

    def transform(self, x: Tensor) -> Tensor:
        """Return one vector per item, of shape (n, (L + 1) * embedding_size).

        The Euclidean distance between two vectors is the distance of `oahu.EnsembleMetric`: the root of the sum of
        the experts' squared distances, weighted by alpha.
        """
        weighted: Tensor = self(x) * self.metric_weights.sqrt().to(x.dtype)[:, None, None]
        return weighted.transpose(0, 1).flatten(1)

    def losses(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the local loss of each expert, of shape (L + 1,), averaged over a batch of triplets."""
        n = len(anchor)
        if not n or not len(positive) == len(negative) == n:
            raise InvalidInputError(
                "A batch must have the same number of anchors, positives and negatives, at least one each. "
                f"Got {n}, {len(positive)} and {len(negative)} instead."
            )
        a, p, q = self(torch.cat([anchor, positive, negative])).split(n, dim=1)
        per_triplet: Tensor = self.loss(a, p, q)
        return per_triplet.mean(dim=1)

    def overall(self, losses: Tensor) -> Tensor:
        """Return L_overall, the sum of the experts' losses weighted by alpha.

        There is no gradient with respect to alpha.
        """
        return (self.metric_weights.to(losses.dtype) * losses).sum()

    @torch.no_grad()
    def hedge_step(self, losses: Tensor) -> None:
        """Update the experts' weights with the losses of a round (the paper's Eq. (alpha_update)).

        Call this method after the step of the optimiser.
        """
        alpha = hedge_update(
            self.metric_weights.cpu().numpy(),
            losses.detach().double().cpu().numpy(),
            self.beta,
            self.smoothing,
            HEDGE_RULES[self.hedge],
        )
        self.metric_weights.copy_(torch.from_numpy(alpha))

    def _apply(self, fn: Any, recurse: bool = True) -> OAHUHead:
        """Move or convert the module, but keep the metric weights in float64."""
        alpha = self.metric_weights
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.metric_weights = alpha.to(self.metric_weights.device)
        return self

    # -- conversion from and to OAHU ---------------------------------------------------------------------

    @classmethod
    def from_learner(cls, learner: OAHU) -> OAHUHead:
        """Return a head with the sizes, parameters and learned weights of a learner."""
        network = learner._network
        shape, dtype = network.shape, getattr(torch, str(network.dtype))
        head = cls(
            shape.n_features,
            shape.n_layers,
            shape.hidden_size,
            shape.embedding_size,
            learner.tau,
            learner.beta,
            learner.smoothing,
            hedge=learner.hedge,
            through_thresholds=learner.through_thresholds,
            bias=learner.bias or any(map(np.any, network.hidden_biases + network.embedding_biases)),
        ).to(dtype)
        head.metric_weights = torch.from_numpy(learner.metric_weights_)
        with torch.no_grad():
            for layers, weights, biases in (
                (head.hidden, learner.hidden_weights_, learner.hidden_biases_),
                (head.embeddings, learner.embedding_weights_, learner.embedding_biases_),
            ):
                for layer, weight, offset in zip(layers, weights, biases, strict=True):
                    _assign(layer, weight, offset)
        return head

    def to_learner(self, **parameters: Any) -> OAHU:
        """Return a learner with the weights of this head, for further learning.

        ``parameters`` are parameters of OAHU that the head does not have, such as learning_rate. The learner's
        counters start at 0, and its history is empty.
        """
        first: Any = self.embeddings[0]
        own = {
            "n_layers": len(self.hidden),
            "hidden_size": self.hidden_size,
            "embedding_size": first.out_features,
            "tau": self.loss.tau,
            "beta": self.beta,
            "smoothing": self.smoothing,
            "hedge": self.hedge,
            "through_thresholds": self.loss.through_thresholds,
            "bias": first.bias is not None,
            "dtype": str(first.weight.dtype).removeprefix("torch."),
        }
        if own.keys() & parameters.keys():
            names = ", ".join(sorted(own.keys() & parameters.keys()))
            raise InvalidInputError(f"to_learner takes these parameters from the head: {names}. Do not pass them.")
        learner = OAHU(**own, **parameters).initialize(first.in_features)
        hidden, embedding = ([_arrays(layer) for layer in group] for group in (self.hidden, self.embeddings))
        network = learner._network
        network.assign(
            [weights for weights, _ in hidden],
            [biases for _, biases in hidden],
            [weights for weights, _ in embedding],
            [biases for _, biases in embedding],
        )
        if not np.isfinite(network.flat).all():
            raise InvalidInputError(
                "The head has parameters that are NaN or infinite, so it cannot become a learner."
            )
        learner._state.arrays["alpha"][:] = self.metric_weights.cpu().numpy()
        return learner


def _distance(a: Tensor, b: Tensor) -> Tensor:
    """Return the distances between the unit vectors in ``a`` and ``b``.

    A distance within rounding error of 0 is set to 0 and has no gradient.
    """
    distance = torch.linalg.vector_norm(a - b, dim=-1).clamp(max=2.0)
    return torch.where(distance > 64 * torch.finfo(distance.dtype).eps, distance, 0)


def _normalize(vectors: Tensor) -> Tensor:
    """Scale vectors to length 1 without overflow or underflow.

    A vector of zeros is not scaled and has no gradient.
    """
    largest = vectors.detach().abs().amax(dim=-1, keepdim=True)
    nonzero = largest > 0
    scaled = vectors / torch.where(nonzero, largest, 1)  # changes neither the direction nor the gradient
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return torch.where(nonzero, scaled / torch.where(nonzero, length, 1), 0)


def _assign(layer: Any, weights: Any, biases: Any) -> None:
    layer.weight.copy_(torch.from_numpy(weights))
    if layer.bias is not None:
        layer.bias.copy_(torch.from_numpy(biases))


def _arrays(layer: Any) -> tuple[Any, Any]:
    """Return the weights and biases of a linear layer as arrays. Missing biases are zeros."""
    weights = layer.weight.detach().cpu().numpy()
    biases = np.zeros(len(weights), weights.dtype) if layer.bias is None else layer.bias.detach().cpu().numpy()
    return weights, biases
