"""AnchoredOAHU as a scikit-learn estimator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import Content, storable
from oahu.learners.anchored.model_arrays import (
    ARRAY_NAMES,
    N_SEEN,
    SQUARES,
    UNLEARNED_DISTANCE,
    NetworkParameters,
    empty_arrays,
    network_shape,
)
from oahu.learners.anchored.scaling_rules import softness
from oahu.learners.anchored.space_weights import space_weights, standard_errors
from oahu.learners.kinds import TripletLearner
from oahu.learners.network.layers import Network, Shape
from oahu.learners.state import Arrays, LearnerState
from oahu.metrics.anchored_metric import AnchoredMetric
from oahu.metrics.ensemble_metric import EnsembleMetric
from oahu.parameters import check_integer, check_real
from oahu.randomness import RandomState

__all__ = ["AnchoredOAHU"]


@storable
class AnchoredOAHU(TripletLearner[AnchoredMetric]):
    """OAHU combined with an unlearned metric. A learned space gets more weight if there is more evidence for it.

    Before the first constraint, the metric is the unlearned metric. It is similar to cosine distance, but an item x
    is divided by sqrt(||x||^2 + c) instead of ||x||. The constant c is larger if there are fewer features, so that
    a part of the information in ||x|| is kept. Two kinds of spaces are learned. The whitened space is learned from
    similar pairs alone. OAHU's experts E_0 to E_L are trained with the InfoNCE loss on windows, which are groups of
    consecutive constraints. Before the experts are trained on a window, each space ranks the similar pairs of the
    window among all pairs of the window. The evidence for a space is the gain of its ranking over the ranking of
    the unlearned space, in standard errors. More evidence gives more weight. A hedge update divides the total
    weight of the experts according to their evidence. If the unlearned space orders the stream's triplets no better
    than chance, the unlearned space keeps the total weight. See docs/anchored.md.

    Learning from a triplet takes O(d * (r + S_emb + S_hidden) + L * S_hidden * (S_hidden + S_emb)) time, with r =
    min(64, d / 2). Every ``window``-th triplet also trains the experts on the window. This training takes about as
    long as learning from all triplets of the window. The model has about d * (2 r + S_emb + S_hidden + 3 * window +
    3) + L * (S_hidden + 3 * window) * (S_hidden + S_emb) numbers. Its size does not depend on the length of the
    stream.

    Parameters
    ----------
    n_layers : int, default=5
        L: the number of hidden layers. There are L + 1 experts. With 0, there is only the linear expert.
    hidden_size : int, default=100
        S_hidden: the number of units in each hidden layer.
    embedding_size : int, default=50
        S_emb: the number of dimensions of each expert's space.
    learning_rate : float, default=0.05
        The initial step size of gradient descent on the mean loss of a window. The step size falls to 2/5 of this
        value within 10,000 constraints.
    temperature : float, default=0.05
        The temperature of InfoNCE. At a lower temperature, items near the anchor have more influence.
    shrinkage : float, default=0.1
        Shrinkage of the whitening, relative to the variance of similar pairs. With a value near 0, the items are
        whitened almost fully.
    strength : float, default=0.5
        The largest total weight of the experts, relative to the total weight of the unlearned and whitened spaces.
    window : int, default=16
        The number of constraints in a window. The experts are evaluated and trained once per window.
    n_constraints : int, default=10000
        Number of triplets that ``fit(X, y)`` and ``score(X, y)`` draw from labels.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The feature table for constraints that are given as row numbers. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        The floating-point type of the model. float64 is for numerical tests.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seed of the initial weights and of the drawing of triplets from labels.

    Attributes
    ----------
    metric_weights_ : ndarray of shape (L + 3,)
        The weight of each space, in the order unlearned, whitened, E_0 ... E_L. The weights sum to 1.
    evidence_ : ndarray of shape (L + 3,)
        Entry 0 measures how much better than chance the unlearned space orders the triplets. Each other entry
        measures the gain of a space over the unlearned space. All entries are in standard errors.
    n_seen_ : int
        Number of triplets learned.
    n_features_in_ : int
        d: the number of features.

    See Also
    --------
    oahu.AnchoredMetric : the metric that `metric` returns.
    oahu.OAHU : the paper's learner.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from oahu import AnchoredOAHU
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = AnchoredOAHU(n_constraints=2000, random_state=0).fit(X, y)
    >>> learner.n_seen_, learner.transform(X).shape
    (2000, (1797, 428))
    """

    rejects_overflow = True

    def __init__(
        self,
        n_layers: int = 5,
        hidden_size: int = 100,
        embedding_size: int = 50,
        *,
        learning_rate: float = 0.05,
        temperature: float = 0.05,
        shrinkage: float = 0.1,
        strength: float = 0.5,
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
        return self._weights(self._fitted_state().arrays)

    @property
    def evidence_(self) -> NDArray[np.float64]:
        return standard_errors(self._fitted_state().arrays["evidence"])

    def check_parameters(self) -> None:
        check_integer(self, "n_layers", self.n_layers, least=0)
        check_integer(self, "hidden_size", self.hidden_size, least=1)
        check_integer(self, "embedding_size", self.embedding_size, least=1)
        check_real(self, "learning_rate", self.learning_rate, 0.0, np.inf)
        check_real(self, "temperature", self.temperature, 0.0, np.inf)
        check_real(self, "shrinkage", self.shrinkage, 0.0, np.inf)
        check_real(self, "strength", self.strength, 0.0, np.inf, closed="left")
        check_integer(self, "window", self.window, least=2)
        super().check_parameters()

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        shape = Shape(n_features, self.n_layers, self.hidden_size, self.embedding_size)
        network = Network.random(shape, dtype, rng, "orthogonal")
        for weights in network.hidden_weights:
            weights *= math.sqrt(2.0)  # compensates for the ReLU, which sets about half of the outputs to 0
        arrays = empty_arrays(shape, self.window, dtype)
        for name in NetworkParameters._fields:
            arrays[name][...] = getattr(network, name)
        return arrays

    def _expected_arrays(self, content: Content, dtype: np.dtype[Any]) -> Arrays:
        dimensions = {"first": 2, "middle": 3, "items": 2, "evidence": 2}
        stored = {name: content.array(name, (None,) * n) for name, n in dimensions.items()}
        _, *sizes = shape = network_shape(stored)
        window = len(stored["items"]) // 3
        if min(shape.n_layers + 1, *sizes[1:], window - 1) < 1:
            raise ValueError("the shapes of the arrays do not fit a network and a window")
        return empty_arrays(Shape(self.n_features_in_, *sizes), window, dtype)

    def check_arrays(self, arrays: Arrays) -> None:
        names = ("stream_scalars", "stream_variances", "encoder_gains", "encoder_mean_squares")
        if min(arrays[name].min() for name in names) < 0:
            raise ValueError(f"the arrays {', '.join(names)} must not be negative")
        if arrays["evidence"][SQUARES].min() < 0:
            raise ValueError("the sums of squares in the array 'evidence' must not be negative")

    def _can_learn_in_place(self, state: LearnerState) -> bool:
        # Only a constraint that closes a window can be rejected after arrays have changed.
        n_seen, window = int(state.arrays["stream_scalars"][N_SEEN]), len(state.arrays["items"]) // 3
        return (n_seen + 1) % window != 0

    def learn_triplets(self, arrays: Arrays, triplets: NDArray[Any], used: NDArray[np.bool_]) -> int:
        from oahu.learners.anchored.window_step import learn  # imported late: importing numba takes time

        parameters = (float(self.learning_rate), float(self.temperature), float(self.shrinkage))
        arguments: list[Any] = [triplets, *(arrays[name] for name in ARRAY_NAMES), *parameters, used]
        return learn(*arguments)

    def _weights(self, arrays: Arrays) -> NDArray[np.float64]:
        mean_square = arrays["encoder_mean_squares"][UNLEARNED_DISTANCE]
        return space_weights(arrays["evidence"], self.strength, mean_square)

    def build_metric(self, arrays: Arrays, version: int) -> AnchoredMetric:
        shape = network_shape(arrays)
        network = Network(shape, arrays["items"].dtype)
        for name in NetworkParameters._fields:
            getattr(network, name)[...] = arrays[name]
        n_experts = shape.n_layers + 1
        return AnchoredMetric.frozen(
            mean=arrays["encoder_mean"],
            directions=arrays["encoder_directions"],
            gains=arrays["encoder_gains"],
            softening=softness(shape.n_features) * arrays["encoder_mean_squares"][:UNLEARNED_DISTANCE],
            experts=EnsembleMetric.frozen(*network.layers, np.full(n_experts, 1 / n_experts), version),
            metric_weights=self._weights(arrays),
            version=version,
        )
