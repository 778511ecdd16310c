"""AnchoredOAHU as a scikit-learn estimator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import Content, storable
from oahu.learners.anchored.scales import softness
from oahu.learners.anchored.weights import earned_weights, standard_errors
from oahu.learners.kinds import TripletLearner
from oahu.learners.network.layers import Network, Shape
from oahu.learners.state import Arrays, LearnerState
from oahu.metrics.anchored import AnchoredMetric
from oahu.metrics.ensemble import EnsembleMetric
from oahu.parameters import check_integer, check_real
from oahu.randomness import RandomState

__all__ = ["AnchoredOAHU", "rank_of"]

#: The most directions that the scatter of similar pairs is known in.
_RANK = 64

_NETWORK = ("first", "first_bias", "middle", "middle_bias", "last", "last_bias")


@storable
class AnchoredOAHU(TripletLearner[AnchoredMetric]):
    """OAHU held to the metric it started from: it moves away only as far as the stream has earned.

    Before the first constraint it is an unlearned metric, the cosine with softened lengths. Beside that space stand
    a whitened one, learned from similar pairs alone, and OAHU's experts E_0 to E_L, learned by InfoNCE over windows
    of constraints. Each gets weight by how surely it answers a local question better than the unlearned space does:
    are similar pairs among the nearest of all that a window has to compare? Among the experts a hedge over that
    evidence decides. Feedback that the unlearned space cannot make sense of earns nothing. See docs/anchored.md.

    One triplet costs O(d * (r + S_emb + S_hidden) + L * S_hidden * (S_hidden + S_emb)) time, r = min(64, d / 2),
    and every ``window``-th settles its window, in about the time that all of it took to arrive. The model takes
    d * (2 r + S_emb + S_hidden + 3 * window + 3) + L * (S_hidden + 3 * window) * (S_hidden + S_emb) numbers, and a
    few, whatever the stream.

    Parameters
    ----------
    n_layers : int, default=5
        L: the number of hidden layers. There are L + 1 experts. 0 leaves the linear one.
    hidden_size : int, default=100
        S_hidden: units in each hidden layer.
    embedding_size : int, default=50
        S_emb: dimensions of each expert's space.
    learning_rate : float, default=0.05
        The step size of gradient descent on the mean loss of a window, at the beginning; 2/5 of it after 10,000
        constraints.
    temperature : float, default=0.05
        Of InfoNCE: how much more near candidates matter than far ones.
    shrinkage : float, default=0.1
        How far from full whitening the whitened space stays.
    strength : float, default=0.5
        The most that the experts can count together, with what the unlearned and the whitened space count together
        as 1.
    window : int, default=16
        Constraints that are asked about and learned together by the experts.
    n_constraints : int, default=10000
        How many triplets ``fit(X, y)`` and ``score(X, y)`` draw from labels.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The table that triplets of indices point into. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        What the model computes in. float64 is for verification.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seeds the initial weights and the drawing of triplets from labels.

    Attributes
    ----------
    metric_weights_ : ndarray of shape (L + 3,)
        How much each space counts: unlearned, whitened, E_0 ... E_L. They sum to 1.
    evidence_ : ndarray of shape (L + 3,)
        In standard errors: how surely the feedback agrees with the unlearned space, and how surely each other space
        adds to it.
    n_seen_ : int
        How many triplets were learned.
    n_features_in_ : int
        d: the number of features.

    See Also
    --------
    oahu.AnchoredMetric : what `metric` returns.
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
        network = Network.random(self._shape(n_features), dtype, rng, "orthogonal")
        for weights in network.hidden_weights:
            weights *= math.sqrt(2.0)  # half of a layer is silent
        arrays = _empty(network.shape, self.window, dtype)
        for name in _NETWORK:
            arrays[name][...] = getattr(network, name)
        return arrays

    def _shape(self, n_features: int) -> Shape:
        return Shape(n_features, self.n_layers, self.hidden_size, self.embedding_size)

    def _expected_arrays(self, content: Content, dtype: np.dtype[Any]) -> Arrays:
        first, middle, items, evidence = (
            content.array(name, (None,) * n).shape
            for name, n in (("first", 2), ("middle", 3), ("items", 2), ("evidence", 2))
        )
        n_layers, hidden_size = evidence[1] - 3, middle[1]
        embedding_size = first[0] - (hidden_size if n_layers else 0)
        if min(n_layers + 1, hidden_size, embedding_size, items[0] // 3 - 1) < 1:
            raise ValueError("its arrays are of no network and no window")
        shape = Shape(self.n_features_in_, n_layers, hidden_size, embedding_size)
        return _empty(shape, items[0] // 3, dtype)

    def check_arrays(self, arrays: Arrays) -> None:
        if min(arrays[name].min() for name in ("counts", "variances", "gains", "softening")) < 0:
            raise ValueError("its counts, variances, gains and softening cannot be negative")
        if arrays["evidence"][1].min() < 0:
            raise ValueError("its evidence has negative squares")

    def _can_learn_in_place(self, state: LearnerState) -> bool:
        """Only a constraint that closes a window can be rejected after arrays have changed."""
        counts, items = state.arrays["counts"], state.arrays["items"]
        return (int(counts[0]) + 1) % (len(items) // 3) != 0

    def learn_triplets(self, arrays: Arrays, triplets: NDArray[Any], used: NDArray[np.bool_]) -> int:
        from oahu.learners.anchored.step import learn  # not before it is needed: numba takes time to import

        a = arrays
        return learn(
            triplets,
            (a["first"], a["first_bias"], a["middle"], a["middle_bias"], a["last"], a["last_bias"]),
            _sizes(a),
            (a["counts"], a["mean"], a["directions"], a["variances"]),
            (a["read_mean"], a["read_directions"], a["gains"], a["softening"]),
            (a["items"], a["along"], a["first_out"], a["middle_out"], a["last_out"]),
            a["evidence"],
            float(self.learning_rate),
            float(self.temperature),
            float(self.shrinkage),
            used,
        )

    def _weights(self, arrays: Arrays) -> NDArray[np.float64]:
        return earned_weights(arrays["evidence"], self.strength, arrays["softening"][3])

    def build_metric(self, arrays: Arrays, version: int) -> AnchoredMetric:
        a, n_features = arrays, len(arrays["mean"])
        network = Network(Shape(n_features, *_sizes(a)), a["items"].dtype)
        for name in _NETWORK:
            getattr(network, name)[...] = a[name]
        n = network.shape.n_layers + 1
        experts = EnsembleMetric.frozen(*network.layers, np.full(n, 1 / n), version)
        weights = self._weights(arrays)
        softening = softness(n_features) * a["softening"][:3]
        return AnchoredMetric.frozen(
            a["read_mean"], a["read_directions"], a["gains"], softening, experts, weights, version
        )


def rank_of(n_features: int) -> int:
    """r: the directions that the scatter is known in. The rest, at least half of them, share one variance."""
    return max(1, min(_RANK, n_features // 2))


def _empty(shape: Shape, window: int, dtype: np.dtype[Any]) -> Arrays:
    """The arrays of a model that has seen nothing, with a network of zeros."""
    d, r, m = shape.n_features, rank_of(shape.n_features), 3 * window
    network = Network(shape, dtype)
    arrays = {name: getattr(network, name).copy() for name in _NETWORK}
    # What is known of the stream: constraints, mean squares of (a - p) / sqrt(2) and of items; ...
    arrays["counts"] = np.zeros(3)
    arrays["mean"] = np.zeros(d)
    arrays["directions"] = np.zeros((r, d), dtype)
    arrays["variances"] = np.zeros(r)
    # ... what items are seen with, since the last window was closed; ...
    arrays["read_mean"] = np.zeros(d, dtype)
    arrays["read_directions"] = np.zeros((r, d), dtype)
    arrays["gains"] = np.ones(r + 1)
    arrays["softening"] = np.array([d, d, d, 0.0])  # of three lengths; mean squared unlearned distance
    # ... and the window that is open: items, their coordinates, what the layers made of them.
    arrays["items"] = np.zeros((m, d), dtype)
    arrays["along"] = np.zeros((m, r), dtype)
    arrays["first_out"] = np.zeros((m, len(network.first)), dtype)
    arrays["middle_out"] = np.zeros((len(network.middle), m, network.middle.shape[2]), dtype)
    arrays["last_out"] = np.zeros((m, network.last.shape[1]), dtype)
    arrays["evidence"] = np.zeros((2, shape.n_layers + 3))
    return arrays


def _sizes(arrays: Arrays) -> tuple[int, int, int]:
    """L, S_hidden and S_emb of what was learned; the parameters are about the next start."""
    n_layers, hidden_size = arrays["evidence"].shape[1] - 3, arrays["middle"].shape[1]
    return n_layers, hidden_size, len(arrays["first"]) - (hidden_size if n_layers else 0)
