"""AnchoredOAHU as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.arrays import as_table, check_items
from oahu.constraints import Clicks
from oahu.exceptions import InvalidInputError
from oahu.io.class_registry import storable
from oahu.io.model_files import Content
from oahu.learners.anchored.background import Background, estimate_background, sample_rows
from oahu.learners.anchored.group_store import GroupStore
from oahu.learners.anchored.groups import Groups, groups_from_arrays, groups_of, groups_to_arrays
from oahu.learners.anchored.model import Model, Progress
from oahu.learners.anchored.new_axes import with_new_background
from oahu.learners.anchored.training_round import Settings, learn_round
from oahu.learners.kinds import ClickLearner
from oahu.learners.state import Arrays, LearnerState
from oahu.metrics.anchored_metric import AnchoredMetric
from oahu.parameters import check_integer, check_real
from oahu.randomness import RandomState

__all__ = ["AnchoredOAHU"]

_FULL_GROUP: Final = 11  # items of a group that causes a round of its own: a query and ten marks
_SIZE_POWER: Final = 3.3  # a group of m items counts as (m / 11) ** 3.3 full groups
_FIRST_GROUPS: Final = 64  # small groups count more at the start
_FREQUENT: Final = 1_000  # groups after which rounds take place less often
_RARE: Final = 2.25  # full groups per round after that
_FIRST_ITEMS: Final = (
    32  # without a table, the background is estimated for the first time from this number of items
)
_MAX_ITEMS: Final = 8_192  # ... and for the last time from this number
_LEAST_WEIGHT: Final = 0.02  # spaces with less weight are not part of the metric


@dataclass
class AnchoredState(LearnerState):
    """The arrays of a `Model`, which are never changed in place, and the stored groups."""

    groups: GroupStore = field(default_factory=GroupStore)

    def copy(self) -> Self:
        """Return a copy that shares the arrays. The copy is not frozen."""
        return replace(self, arrays=dict(self.arrays), groups=self.groups.copy(), metric=None, frozen=False)


@storable
class AnchoredOAHU(ClickLearner[AnchoredMetric]):
    """The recommended learner: it starts at unlearned metrics, and moves away as far as the feedback supports it.

    It learns from clicks, triplets and pairs, in any mixture. Its metric is a weighted sum of squared distances
    in spaces of increasing complexity: cosine, centred cosine, Euclidean distance, whitening by the catalogue,
    whitening by similar pairs, one weight for each principal axis of the catalogue, a linear map, and a network.
    Before a click is learned, the learner asks how well each space orders its marks, and adapts the weights of
    the spaces.

    A click costs O(b d R + b r^2), where b is the number of items of a batch, R <= 768 the number of principal axes
    and r <= 384 the number of leading axes.

    Parameters
    ----------
    learning_rate : float, default=0.64
        The initial step size of Adam for the linear map, multiplied by r. The step size decreases with the number
        of steps.
    temperature : float, default=0.1
        The temperature of the loss. At a lower temperature, items near the query have more influence.
    prior : float, default=3.0
        The strength with which the linear map is drawn to the identity. It is divided by the number of clicks
        learned.
    n_random : int, default=48
        The number of random items of the catalogue in each batch. They are presumed not to be alike.
    batch_size : int, default=6
        The number of clicks in a batch: the new one, and earlier ones. After 1,000 clicks, a batch is half as
        large.
    background : array-like of shape (n_items, n_features), default=None
        The feature table of the catalogue. Its mean, its principal axes and random rows of it are used. By
        default, this is the ``preprocessor``. Without both, the items of the constraints are used. The table is
        never copied, and may be a memory map. Rows may be appended at any time; the catalogue is read again when
        it has doubled.
    n_constraints : int, default=10000
        Number of triplets that ``fit(X, y)`` and ``score(X, y)`` draw from labels.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The feature table for constraints that are given as row numbers. An array or a memory map is never copied.
        Stored clicks refer to its rows, so rows that were used must not change.
    dtype : {"float32", "float64"}, default="float32"
        The floating-point type of the model. float64 is for numerical tests.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seed of the network's initial weights, of the batches, and of the drawing of triplets from labels.

    Attributes
    ----------
    metric_weights_ : ndarray of shape (8,)
        The weight of each space, in the order of the list above. The weights sum to 1.
    n_seen_ : int
        Number of clicks, triplets and pairs learned.
    n_features_in_ : int
        d: the number of features.

    See Also
    --------
    oahu.AnchoredMetric : the metric that `metric` returns.
    oahu.OAHU : the paper's learner.

    Notes
    -----
    For replay, at most 10,000 clicks are stored: 16 bytes for each item, and the features of items
    that are not rows of the ``preprocessor``, at most 2^23 numbers. The stored clicks and the random state are
    part of the model file, so that training continues with the same results after it is saved and loaded. A click
    of more than 15 items is divided into several clicks with the same query.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from oahu import AnchoredOAHU, Click
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = AnchoredOAHU(preprocessor=X, random_state=0)
    >>> learner = learner.partial_fit([Click(0, [10, 20], [9]), Click(1, [11], [])])
    >>> learner.n_seen_, learner.metric_weights_.shape
    (2, (8,))
    """

    rejects_overflow = True
    table_parameters: ClassVar[tuple[str, ...]] = ("preprocessor", "background")

    def __init__(
        self,
        *,
        learning_rate: float = 0.64,
        temperature: float = 0.1,
        prior: float = 3.0,
        n_random: int = 48,
        batch_size: int = 6,
        background: ArrayLike | None = None,
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.temperature = temperature
        self.prior = prior
        self.n_random = n_random
        self.batch_size = batch_size
        self.background = background
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    @property
    def metric_weights_(self) -> NDArray[np.float64]:
        return Model.from_arrays(self._fitted_state().arrays).evidence.weights

    def check_parameters(self) -> None:
        check_real(self, "learning_rate", self.learning_rate, 0.0, np.inf)
        check_real(self, "temperature", self.temperature, 0.0, np.inf)
        check_real(self, "prior", self.prior, 0.0, np.inf, closed="left")
        check_integer(self, "n_random", self.n_random, least=1)
        check_integer(self, "batch_size", self.batch_size, least=1)
        super().check_parameters()

    # -- state -------------------------------------------------------------------------------------------

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        return Model.start(n_features, dtype, rng).to_arrays()

    def _initial_state(self, n_features: int) -> AnchoredState:
        state = super()._initial_state(n_features)
        state = AnchoredState(state.arrays, state.dtype, state.n_features, state.rng)
        self._read_background(state, self._table())
        return state

    def _table(self, default: Any = None) -> Any:
        """Return the feature table of the catalogue. If there is none, return ``default``."""
        for name in ("background", "preprocessor"):
            if getattr(self, name) is not None:
                return as_table(getattr(self, name), name)
        return default

    def _own_table(self) -> Any:
        """Return the feature table that row numbers refer to, or None."""
        return None if self.preprocessor is None else as_table(self.preprocessor, "preprocessor")

    def _read_background(self, state: AnchoredState, table: Any) -> None:
        """Estimate the background from the table if the table has doubled since the last time."""
        model = Model.from_arrays(state.arrays)
        if table is None or len(table) < max(1, 2 * model.progress.n_background):
            return
        if table.shape[1] != state.n_features:
            name = "preprocessor" if self.background is None else "background"
            raise InvalidInputError(
                f"The {name} has {table.shape[1]} features, but the constraints have {state.n_features}."
            )
        items = table[sample_rows(*table.shape)]
        check_items(items, state.dtype)
        background = estimate_background(items.astype(state.dtype), state.dtype)
        read = _Reader(state, table, table if self.background is None else self._own_table())
        state.arrays = with_new_background(model, background, len(table), state.groups.batches(), read).to_arrays()

    # -- learning ----------------------------------------------------------------------------------------

    def _learn(self, state: LearnerState, constraints: Any) -> None:
        self._learn_clicks(state, constraints, self._table())

    def _learn_clicks(self, state: Any, constraints: Clicks, table: Any) -> None:
        own = self._own_table()
        self._read_background(state, table)
        by_row = not constraints.by_value and _is_same(constraints.table, own)
        reader = _Reader(state, table, own)
        settings = Settings(
            float(self.learning_rate),
            float(self.temperature),
            float(self.prior),
            int(self.n_random),
            int(self.batch_size),
        )
        model = Model.from_arrays(state.arrays)
        for start, stop, values in constraints.blocks(state.dtype):
            constraints.check_finite(start, values)
            self._check_lengths(state, constraints, start, values)
            groups = groups_of(constraints, values, start, stop, by_row)
            model = self._accept(state, model, groups, settings, reader)
            state.count(np.empty(0, bool), np.ones(stop - start, bool))
        state.arrays = model.to_arrays()

    def _check_lengths(self, state: LearnerState, clicks: Clicks, start: int, values: NDArray[Any]) -> None:
        """Raise `RejectedConstraintError` for the first click with an item whose squared length overflows."""
        with np.errstate(over="ignore"):
            too_long = ~np.isfinite(np.einsum("ij,ij->i", values, values))
        if too_long.any():
            position = clicks.offsets[start] + int(np.argmax(too_long))
            number = int(np.searchsorted(clicks.offsets, position, side="right")) - 1
            self._reject(clicks, number, self._why_rejected(state))

    def _learn_labelled(self, state: LearnerState, items: Any, labels: NDArray[Any]) -> None:
        self._learn_clicks(state, self._sample(items, labels, state.rng), self._table(items))

    def _accept(
        self, state: AnchoredState, model: Model, groups: Groups, settings: Settings, reader: _Reader
    ) -> Model:
        """Store groups, and learn a round whenever it is time for one. Return the model."""
        start = 0
        n, credit = model.progress.n_learned + model.progress.n_pending, model.progress.credit
        for number, size in enumerate(groups.sizes.tolist(), start=1):
            n += 1
            share = min(1.0, (size / _FULL_GROUP) ** _SIZE_POWER)
            credit += max(share, min(1.0, _FIRST_GROUPS * share / n))
            if credit < (1 if n <= _FREQUENT else _RARE) - 1e-9:
                continue
            state.groups.pending.append(groups.cut(start, number))
            start, credit = number, 0.0
            model = self._learn_pending(state, model, settings, reader)
        if start < len(groups):
            state.groups.pending.append(groups.cut(start, len(groups)))
        n_pending = sum(len(part) for part in state.groups.pending)
        return model._replace(progress=model.progress._replace(n_pending=n_pending, credit=credit))

    @staticmethod
    def _learn_pending(state: AnchoredState, model: Model, settings: Settings, reader: _Reader) -> Model:
        """Return the model after a round on the groups that wait."""
        store, n_background = state.groups, model.progress.n_background
        if reader.table is None and n_background < _MAX_ITEMS:
            latest = store.latest(_MAX_ITEMS)
            n_items = min(_MAX_ITEMS, sum(len(part.rows) for part in latest))
            if n_items >= max(_FIRST_ITEMS, 2 * n_background):
                items = reader(latest, 0, np.random.default_rng(0))[-_MAX_ITEMS:]
                background = estimate_background(items, state.dtype)
                model = with_new_background(model, background, n_items, store.batches(), reader)
        if model.progress.n_learned >= _FREQUENT:
            settings = settings._replace(
                batch_size=-(-settings.batch_size // 2), n_random=-(-settings.n_random // 2)
            )
        return learn_round(model, store.take_pending(), store, settings, reader)

    def build_metric(self, arrays: Arrays, version: int) -> AnchoredMetric:
        model = Model.from_arrays(arrays)
        weights = model.evidence.weights
        weights[weights < _LEAST_WEIGHT] = 0.0
        return AnchoredMetric.frozen(model.spaces, weights / weights.sum(), version)

    # -- saving ------------------------------------------------------------------------------------------

    def _state_to_content(self, state: LearnerState) -> Content:
        assert isinstance(state, AnchoredState)
        content = super()._state_to_content(state)
        parts = state.groups.batches() + state.groups.pending
        groups = Groups.joined(parts) if parts else None
        return Content(content.state, content.arrays | groups_to_arrays(groups, state.n_features, state.dtype))

    def _state_from_content(self, content: Content) -> AnchoredState:
        groups = groups_from_arrays(content, self.n_features_in_, np.dtype(content.state["dtype"]))
        state = super()._state_from_content(content)
        n_pending = Model.from_arrays(state.arrays).progress.n_pending
        n_learned = (len(groups) if groups else 0) - n_pending
        if n_learned < 0:
            raise ValueError("there are fewer stored groups than groups that wait for a round")
        store = GroupStore(groups.cut(0, n_learned) if groups and n_learned else None)
        if groups and n_pending:
            store.pending = [groups.cut(n_learned, len(groups))]
        return AnchoredState(**vars(state) | {"groups": store})

    def _expected_arrays(self, content: Content, dtype: np.dtype[Any]) -> Arrays:
        d, r = content.array("axes", (self.n_features_in_, None), dtype).shape
        background = Background(np.zeros(d, dtype), np.zeros((d, r), dtype), np.zeros(r, dtype), np.ones(1, dtype))
        return Model.with_background(background, Progress(), np.zeros(4, np.uint32)).to_arrays()

    def check_arrays(self, arrays: Arrays) -> None:
        not_negative = ("variances", "squares", "pair_counts", "progress", *(n for n in arrays if "_squares" in n))
        if min(arrays[name].min(initial=0) for name in not_negative) < 0:
            raise ValueError(f"the arrays {', '.join(not_negative)} must not be negative")
        if not arrays["spread"][0] > 0 or (arrays["progress"][:-1] % 1).any():
            raise ValueError("'spread' must be positive, and the counts in 'progress' must be whole numbers")


class _Reader:
    """Reads the features of groups and of random items."""

    def __init__(self, state: AnchoredState, table: Any, own: Any) -> None:
        self._state, self.table, self._own = state, table, own

    def __call__(self, groups: Sequence[Groups], n_random: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the features of the groups' items, then of ``n_random`` random items."""
        values = self._items(groups)
        if not n_random:
            return values
        if self.table is not None:
            random = self._rows_of_table(rng.integers(len(self.table), size=n_random))
        else:
            store = self._state.groups
            chosen = store.draw(rng.integers(len(store), size=n_random).tolist())
            items, sizes = self._items(chosen), np.array([len(group.rows) for group in chosen])
            random = items[np.cumsum(sizes) - 1 - rng.integers(sizes)]
        return np.concatenate([values, random])

    def _rows_of_table(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows of the catalogue. Raise `InvalidInputError` for a row that would make the model NaN."""
        dtype = self._state.dtype
        with np.errstate(over="ignore", invalid="ignore"):
            items: NDArray[Any] = self.table[rows].astype(dtype)
        wrong = ~np.isfinite(items).all(axis=1)
        if wrong.any():
            row = int(rows[np.argmax(wrong)])
            raise InvalidInputError(
                f"Row {row} of the feature table contains NaN or infinity, or overflows in {dtype}. Correct the "
                "row, or scale the features."
            )
        return items

    def _items(self, groups: Sequence[Groups]) -> NDArray[Any]:
        rows = np.concatenate([part.rows for part in groups])
        is_row = rows >= 0
        values = np.empty((len(rows), self._state.n_features), self._state.dtype)
        if is_row.any():
            if self._own is None or rows.max() >= len(self._own):
                raise InvalidInputError(
                    "Stored constraints refer to rows of a feature table that is missing or too short. Set the "
                    "table with set_params(preprocessor=...). Its old rows must be unchanged."
                )
            values[is_row] = self._own[rows[is_row]]
        if not is_row.all():
            values[~is_row] = np.concatenate([part.vectors for part in groups])
        return values


def _is_same(first: Any, second: Any) -> bool:
    return first is second or (
        isinstance(first, np.ndarray)
        and isinstance(second, np.ndarray)
        and first.__array_interface__ == second.__array_interface__
    )
