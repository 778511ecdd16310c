"""AnchoredOAHU as a scikit-learn estimator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.learners.array_state import ArrayLearner, Arrays, ArrayState
from oahu.learners.kinds import TripletLearner, WithDistances
from oahu.learners.oahu.network import Network, Shape
from oahu.metrics.anchored import AnchoredMetric
from oahu.metrics.ensemble import EnsembleMetric
from oahu.metrics.files import storable
from oahu.parameters import check_integer, check_real
from oahu.randomness import RandomState

__all__ = ["AnchoredOAHU"]

_NETWORK = ("first", "first_bias", "middle", "middle_bias", "last", "last_bias")


@storable
class AnchoredOAHU(WithDistances, TripletLearner[ArrayState], ArrayLearner):
    """OAHU that starts at the unlearned metric and moves away only as far as the stream has earned."""

    def __init__(
        self,
        n_layers: int = 5,
        hidden_size: int = 100,
        embedding_size: int = 50,
        *,
        learning_rate: float = 0.05,
        temperature: float = 0.1,
        shrinkage: float = 0.2,
        strength: float = 1.0,
        window: int = 16,
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.n_layers = n_layers
        self.hidden_size = hidden_size
        self.embedding_size = embedding_size
        self.learning_rate = learning_rate
        self.temperature = temperature
        self.shrinkage = shrinkage
        self.strength = strength
        self.window = window
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    @property
    def metric_weights_(self) -> NDArray[np.float64]:
        return self._weights(self._require_fitted().arrays["evidence"])

    def _check_parameters(self) -> None:
        check_integer(self, "n_layers", self.n_layers, least=0)
        check_integer(self, "hidden_size", self.hidden_size, least=1)
        check_integer(self, "embedding_size", self.embedding_size, least=1)
        check_real(self, "learning_rate", self.learning_rate, 0.0, np.inf)
        check_real(self, "temperature", self.temperature, 0.0, np.inf)
        check_real(self, "shrinkage", self.shrinkage, 0.0, np.inf)
        check_real(self, "strength", self.strength, 0.0, np.inf, closed="left")
        super()._check_parameters()

    def _begin(self, n_features: int, rng: np.random.Generator) -> ArrayState:
        state = super()._begin(n_features, rng)
        network = Network.random(self._shape(n_features), self.dtype, rng, "orthogonal")
        for weights in network.hidden_weights:
            weights *= math.sqrt(2.0)  # half of a layer is silent
        for name in _NETWORK:
            state.arrays[name][...] = getattr(network, name)
        return state

    def _shape(self, n_features: int) -> Shape:
        return Shape(n_features, self.n_layers, self.hidden_size, self.embedding_size)

    def _start(self, n_features: int, dtype: np.dtype[Any]) -> Arrays:
        from oahu.learners.anchored.anchor import rank_of

        d, r, n_experts, m = n_features, rank_of(n_features), self.n_layers + 1, 3 * self.window
        network = Network(self._shape(d), dtype)
        arrays = {name: getattr(network, name).copy() for name in _NETWORK}
        arrays["counts"] = np.zeros(3)  # constraints; mean squared length of (a - p) / sqrt(2), of items
        arrays["mean"] = np.zeros(d)
        arrays["directions"] = np.zeros((r, d), dtype)
        arrays["variances"] = np.zeros(r)
        arrays["read_mean"] = np.zeros(d, dtype)
        arrays["read_directions"] = np.zeros((r, d), dtype)
        arrays["gains"] = np.ones(r + 1)
        arrays["softening"] = np.full(3, float(d))
        arrays["items"] = np.zeros((m, d), dtype)
        arrays["along"] = np.zeros((m, r), dtype)
        arrays["first_out"] = np.zeros((m, len(network.first)), dtype)
        arrays["middle_out"] = np.zeros((len(network.middle), m, network.middle.shape[2]), dtype)
        arrays["last_out"] = np.zeros((m, network.last.shape[1]), dtype)
        arrays["evidence"] = np.zeros((2, n_experts + 2))
        return arrays

    def _step(self, arrays: Arrays, block: NDArray[Any], same: NDArray[np.bool_], used: NDArray[np.bool_]) -> int:
        from oahu.learners.anchored.step import learn  # not before it is needed: numba takes time to import

        def some(*names: str) -> tuple[NDArray[Any], ...]:
            return tuple(arrays[name] for name in names)

        used[:] = True
        refused: int = learn(
            block,
            some(*_NETWORK),
            (self.n_layers, self.hidden_size, self.embedding_size),
            some("counts", "mean", "directions", "variances"),
            some("read_mean", "read_directions", "gains", "softening"),
            some("items", "along", "first_out", "middle_out", "last_out"),
            arrays["evidence"],
            float(self.learning_rate),
            float(self.temperature),
            float(self.shrinkage),
        )
        return refused

    def _weights(self, evidence: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much each space counts, by how sure it is that it helps: from nothing at 2 standard errors to its share
        at 4."""
        z = evidence[0] / np.sqrt(np.maximum(evidence[1], 1e-12))
        earned = np.clip(z / 2 - 1, 0, 1)
        weights = earned * earned[0]
        weights[0] = 1.0
        weights[2:] *= self.strength / (self.n_layers + 1)
        return np.asarray(weights / weights.sum())

    def _made(self, state: ArrayState) -> AnchoredMetric:
        a = state.arrays
        network = Network(self._shape(state.n_features), state.dtype)
        for name in _NETWORK:
            getattr(network, name)[...] = a[name]
        n = self.n_layers + 1
        experts = EnsembleMetric.frozen(*network.layers, np.full(n, 1 / n), state.n_seen)
        return AnchoredMetric.frozen(
            a["read_mean"], a["read_directions"], a["gains"], a["softening"], experts, self._weights(a["evidence"]),
            state.n_seen,
        )  # fmt: skip
