"""OAHU as a scikit-learn estimator: Online metric learning with Adaptive Hedge Update."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.constraints import Tuples
from oahu.io.model_files import Content, storable
from oahu.learners.history import CAPACITY, History, empty_history
from oahu.learners.kinds import TripletLearner
from oahu.learners.network.layers import INITIALIZATIONS, Initialization, Network, Shape
from oahu.learners.oahu.hedge import HEDGE_RULES, HedgeRule
from oahu.learners.oahu.work_arrays import work_arrays
from oahu.learners.state import LEARNED, Arrays, LearnerState
from oahu.metrics.ensemble_metric import EnsembleMetric, pack_layers, unpack_layers, unpack_weights
from oahu.parameters import check_choice, check_integer, check_real, warn_caller
from oahu.randomness import RandomState

__all__ = ["OAHU"]

Floats = NDArray[np.floating]


@storable
class OAHU(TripletLearner[EnsembleMetric]):
    """Online metric learning with Adaptive Hedge Update (OAHU).

    A network with L hidden layers has one embedding at every depth. These embeddings are the experts E_0 (linear)
    to E_L. Each triplet trains all experts by gradient descent on the Adaptive-Bound Triplet Loss. The triplet also
    increases the weights of the experts with smaller losses.

    Learning from a triplet takes O(d * (S_emb + S_hidden) + L * S_hidden * (S_hidden + S_emb)) time. The memory of
    the model has the same order. A history of losses and weights stores at most 1,024 rounds.

    Parameters
    ----------
    n_layers : int, default=5
        L: the number of hidden layers. There are L + 1 experts. With 0, there is only the linear expert.
    hidden_size : int, default=100
        S_hidden: the number of units in each hidden layer.
    embedding_size : int, default=50
        S_emb: the number of dimensions of each expert's space.
    tau : float, default=0.1
        Control parameter of the loss, in (0, 2). Similar pairs are pulled to distances below ``tau``. Dissimilar
        pairs are pushed to distances above ``2 - tau``. Theorem 1 of the paper is valid for values below 2/3.
    beta : float, default=0.99
        Discount factor of the hedge update, in (0, 1).
    smoothing : float, default=0.1
        s, in [0, 1]: before normalisation, no expert's weight is below ``s / (L + 1)``.
    learning_rate : float, default=0.3
        eta: the step size of online gradient descent.
    hedge : {"printed", "log_beta", "hedge"}, default="printed"
        The rule of the weight update. "printed": the formula printed in the paper. "log_beta": the same formula
        with log beta in its condition. "hedge": a factor of ``beta ** loss``. See docs/fidelity.md.
    through_thresholds : bool, default=False
        The loss has one threshold for the distance of the similar pair and one for the distance of the dissimilar
        pair. Both thresholds depend on the distances in the triplet. If True, the gradient includes the derivatives
        of the thresholds. If False, the thresholds are constants in the gradient.
    initialization : {"pytorch", "he", "orthogonal"}, default="pytorch"
        Distribution of the initial weights. "pytorch": uniform in ±1/√n_inputs, like `torch.nn.Linear`. "he": He's
        normal distribution. "orthogonal": orthogonal matrices.
    bias : bool, default=True
        Whether the layers have biases.
    n_constraints : int, default=10000
        Number of triplets that ``fit(X, y)`` and ``score(X, y)`` draw from labels.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The feature table for constraints that are given as row numbers. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        The floating-point type of the computations. float64 is intended for numerical tests and is half as fast.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seed of the initial weights and of the drawing of triplets from labels.

    Attributes
    ----------
    metric_weights_ : ndarray of shape (L + 1,)
        alpha: the weight of each expert. The weights sum to 1.
    hidden_weights_, hidden_biases_ : lists of L arrays, of shape (n_outputs, n_inputs) and (n_outputs,)
        Copies of the weights W^(1) ... W^(L) and the biases of the hidden layers.
    embedding_weights_, embedding_biases_ : lists of L + 1 arrays, of shape (n_outputs, n_inputs) and (n_outputs,)
        Copies of the weights Theta^(0) ... Theta^(L) and the biases of the embedding layers.
    n_seen_ : int
        Number of triplets learned.
    utilization_ : float
        Share of the learned triplets with a gradient other than 0.
    history_rounds_ : ndarray of shape (n_stored,)
        The rounds in the history, counted from 1: at most 1,024 evenly spaced rounds. A round is the learning of
        one triplet.
    loss_history_ : ndarray of shape (n_stored, L + 1)
        Each expert's mean local loss since the previous round in the history.
    weight_history_ : ndarray of shape (n_stored, L + 1)
        The metric weights after each round in the history.
    n_features_in_ : int
        d: the number of features.

    See Also
    --------
    oahu.EnsembleMetric : the metric that `metric` returns.

    Notes
    -----
    As in the paper, every triplet is used once, in order, for one step of plain gradient descent. There are no
    minibatches, no momentum and no learning-rate schedule. docs/fidelity.md lists all choices that the paper leaves
    open.

    References
    ----------
    Y. Gao, Y.-F. Li, S. Chandra, L. Khan, B. Thuraisingham: Towards Self-Adaptive Metric Learning On the Fly.
    The World Wide Web Conference (WWW), 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oahu import OAHU
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = OAHU(n_layers=2, n_constraints=500, random_state=0).fit(X, y)
    >>> learner.n_seen_, learner.transform(X).shape
    (500, (150, 150))
    """

    def __init__(
        self,
        n_layers: int = 5,
        hidden_size: int = 100,
        embedding_size: int = 50,
        tau: float = 0.1,
        beta: float = 0.99,
        smoothing: float = 0.1,
        learning_rate: float = 0.3,
        *,
        hedge: HedgeRule = "printed",
        through_thresholds: bool = False,
        initialization: Initialization = "pytorch",
        bias: bool = True,
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.n_layers = n_layers
        self.hidden_size = hidden_size
        self.embedding_size = embedding_size
        self.tau = tau
        self.beta = beta
        self.smoothing = smoothing
        self.learning_rate = learning_rate
        self.hedge = hedge
        self.through_thresholds = through_thresholds
        self.initialization = initialization
        self.bias = bias
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    # -- learned attributes ------------------------------------------------------------------------------

    @property
    def metric_weights_(self) -> NDArray[np.float64]:
        return self._fitted_state().arrays["alpha"].copy()

    @property
    def hidden_weights_(self) -> list[Floats]:
        return [array.copy() for array in self._network.hidden_weights]

    @property
    def hidden_biases_(self) -> list[Floats]:
        return [array.copy() for array in self._network.hidden_biases]

    @property
    def embedding_weights_(self) -> list[Floats]:
        return [array.copy() for array in self._network.embedding_weights]

    @property
    def embedding_biases_(self) -> list[Floats]:
        return [array.copy() for array in self._network.embedding_biases]

    @property
    def history_rounds_(self) -> NDArray[np.int64]:
        return _history(self._fitted_state().arrays).rounds

    @property
    def loss_history_(self) -> NDArray[np.float64]:
        return _history(self._fitted_state().arrays).losses

    @property
    def weight_history_(self) -> NDArray[np.float64]:
        return _history(self._fitted_state().arrays).stored_weights

    def metric(self) -> EnsembleMetric:
        """Return the current metric. Later learning does not change the returned metric."""
        state = self._fitted_state()
        return self.build_metric(state.arrays, state.n_seen)

    def embed(self, X: ArrayLike) -> Floats:
        """Return the unit vectors of each expert, of shape (L + 1, n_items, embedding_size)."""
        return self._metric(self._fitted_state()).embed_checked(self._validate_items(X))

    # -- learning ----------------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        check_integer(self, "n_layers", self.n_layers, least=0)
        check_integer(self, "hidden_size", self.hidden_size, least=1)
        check_integer(self, "embedding_size", self.embedding_size, least=1)
        check_real(self, "tau", self.tau, 0.0, 2.0)
        check_real(self, "beta", self.beta, 0.0, 1.0)
        check_real(self, "smoothing", self.smoothing, 0.0, 1.0, closed="both")
        check_real(self, "learning_rate", self.learning_rate, 0.0, np.inf)
        check_choice(self, "hedge", self.hedge, tuple(HEDGE_RULES))
        check_choice(self, "through_thresholds", self.through_thresholds, (False, True))
        check_choice(self, "initialization", self.initialization, INITIALIZATIONS)
        check_choice(self, "bias", self.bias, (False, True))
        super().check_parameters()

    rejects_overflow = True

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        shape = Shape(n_features, self.n_layers, self.hidden_size, self.embedding_size)
        n_experts = self.n_layers + 1
        network = Network.random(shape, dtype, rng, self.initialization, self.bias)
        return _arrays(network, np.full(n_experts, 1.0 / n_experts), empty_history(n_experts))

    def _initial_state(self, n_features: int) -> LearnerState:
        state = super()._initial_state(n_features)
        self._warn_about_tau(state.arrays)
        return state

    def _warn_about_tau(self, arrays: Arrays) -> None:
        """Warn once if tau is outside (0, 2/3), the range of Theorem 1."""
        if self.tau != arrays["tau"][0] and not self.tau < 2 / 3:
            warn_caller(
                f"tau={self.tau} is outside (0, 2/3), the range of Theorem 1 of the paper. Classes may not be "
                f"separated: their smallest distance at zero loss is 2 - 3 tau, here {2 - 3 * self.tau:.3g}."
            )
        arrays["tau"][0] = self.tau

    def _learn(self, state: LearnerState, constraints: Tuples) -> None:
        self._warn_about_tau(state.arrays)
        super()._learn(state, constraints)

    def learn_triplets(self, arrays: Arrays, triplets: Floats, used: NDArray[np.bool_]) -> int:
        return self._run_step(arrays, triplets, used, in_place=False)

    def _learn_block(
        self,
        arrays: Arrays,
        block: Floats,
        similar: NDArray[np.bool_],
        used: NDArray[np.bool_],
        in_place: bool = False,
    ) -> int:
        rejected = self._run_step(arrays, block, used, in_place)
        if in_place and rejected != LEARNED:  # try again with the smallest bound
            layers = (*_network(arrays).middle, _network(arrays).last)
            arrays["bound"][0] = max(np.linalg.norm(layer) for layer in layers)
            rejected = self._run_step(arrays, block, used, in_place)
        return rejected

    def _can_learn_in_place(self, state: LearnerState) -> bool:
        return True

    def _settle(self, arrays: Arrays) -> None:
        if arrays["pending"].any():
            self._run_step(arrays, arrays["previous"][None], np.empty(0, np.bool_), in_place=False)

    def _run_step(self, arrays: Arrays, triplets: Floats, used: NDArray[np.bool_], in_place: bool) -> int:
        from oahu.learners.oahu.triplet_step import learn, limits  # imported late: importing numba takes time

        network, rate = _network(arrays), float(self.learning_rate)
        work, (largest_step, rounding) = work_arrays(network), limits(network.dtype)
        rejected: int = learn(
            triplets, network.first, network.first_bias, network.middle, network.middle_bias, network.last,
            network.last_bias, arrays["alpha"], rate, rate if self.bias else 0.0, float(self.tau),
            self.through_thresholds, float(self.beta), float(self.smoothing), HEDGE_RULES[self.hedge],
            arrays["pending"], arrays["previous"], arrays["bound"], arrays["counters"], arrays["running"],
            arrays["totals"], arrays["weights"], used, in_place, largest_step, rounding, work.levels, work.hidden,
            work.per_item, work.active, work.spare_row, work.losses, work.sums,
        )  # fmt: skip
        return rejected

    def build_metric(self, arrays: Arrays, version: int) -> EnsembleMetric:
        return EnsembleMetric.frozen(*_network(arrays).layers, arrays["alpha"], version)

    def _metric(self, state: LearnerState) -> EnsembleMetric:
        hidden_weights, hidden_biases, embedding_weights, embedding_biases = map(
            tuple, _network(state.arrays).layers
        )
        return EnsembleMetric(
            hidden_weights, hidden_biases, embedding_weights, embedding_biases, state.arrays["alpha"], state.n_seen
        )

    @property
    def _network(self) -> Network:
        """The network, with parameters that are views of the learner's arrays."""
        return _network(self._fitted_state().arrays)

    # -- saving ------------------------------------------------------------------------------------------

    def _state_to_content(self, state: LearnerState) -> Content:
        arrays, history = state.arrays, _history(state.arrays)
        n = history.n_stored
        return Content(
            {"history_capacity": len(history.totals) - 1, "history_stride": history.stride},
            pack_layers(*_network(arrays).layers)
            | {
                "metric_weights": arrays["alpha"],
                "history.running": history.running,
                "history.totals": history.totals[:n],
                "history.weights": history.weights[:n],
            },
        )

    def _state_from_content(self, content: Content) -> LearnerState:
        layers = unpack_layers(content)
        n_experts, (embedding_size, n_features) = len(layers[2]), layers[2][0].shape
        if n_features != self.n_features_in_:
            raise ValueError(f"the layers have {n_features} features, but n_features is {self.n_features_in_}")
        hidden_size = layers[0][0].shape[0] if layers[0] else self.hidden_size
        network = Network(Shape(n_features, n_experts - 1, hidden_size, embedding_size), layers[2][0].dtype)
        network.assign(*layers)
        capacity = content.count("history_capacity")
        if capacity > CAPACITY:
            raise ValueError(f"the history's capacity must be at most {CAPACITY}, not {capacity}")
        history = empty_history(n_experts, capacity)
        totals = content.array("history.totals", (None, n_experts), np.float64)
        weights = content.array("history.weights", (len(totals), n_experts), np.float64)
        history.counters[:] = content.count("n_seen"), content.count("history_stride"), len(totals)
        history.check()
        history.running[:] = content.array("history.running", (n_experts,), np.float64)
        history.totals[: len(totals)], history.weights[: len(totals)] = totals, weights
        arrays = _arrays(network, unpack_weights(content, n_experts), history)
        return LearnerState(arrays, network.dtype, n_features, np.random.default_rng(0))


def _arrays(network: Network, alpha: NDArray[np.float64], history: History) -> Arrays:
    """Return the arrays of a learner's state.

    They are the network parameters, alpha, the history, and the update of the first layer that is delayed by one
    round.
    """
    shape, dtype = network.shape, network.dtype
    return {
        "sizes": np.array([shape.n_features, shape.n_layers, shape.hidden_size, shape.embedding_size]),
        "parameters": network.flat,
        "alpha": alpha.copy(),
        "tau": np.array([np.nan]),  # the value of tau in the last call
        "counters": history.counters,
        "running": history.running,
        "totals": history.totals,
        "weights": history.weights,
        "pending": np.full((3, len(network.first)), -0.0, dtype),
        "previous": np.zeros((3, shape.n_features), dtype),
        "bound": np.array([np.inf]),
    }


def _network(arrays: Arrays) -> Network:
    return Network.from_flat(Shape(*arrays["sizes"].tolist()), arrays["parameters"])


def _history(arrays: Arrays) -> History:
    return History(arrays["counters"], arrays["running"], arrays["totals"], arrays["weights"])
