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
from oahu.learners.anchored.groups import Group, groups_from_arrays, groups_of, groups_to_arrays
from oahu.learners.anchored.model import Model, Progress
from oahu.learners.anchored.new_axes import with_new_background
from oahu.learners.anchored.training_round import Settings, learn_round
from oahu.learners.kinds import ClickLearner
from oahu.learners.state import Arrays, LearnerState
from oahu.metrics.anchored_metric import AnchoredMetric
from oahu.parameters import check_integer, check_real
from oahu.randomness import RandomState

__all__ = ["AnchoredOAHU"]

_MAX_GROUPS: Final = 10_000  # stored for replay
_MAX_NUMBERS: Final = 2**23  # in stored items that are not rows of the feature table
_FULL_GROUP: Final = 11  # items of a group that causes a round of its own: a query and ten marks
_FIRST_GROUPS: Final = 64  # small groups cause rounds of their own at the start
_FREQUENT: Final = 1_000  # groups after which rounds take place less often
_RARE: Final = 4  # full groups per round after that
_EXTRA: Final = 3  # further batches of a round ...
_EXTRA_GROUPS: Final = 150  # ... during this number of groups
_FIRST_ITEMS: Final = (
    32  # without a table, the background is estimated for the first time from this number of items
)
_MAX_ITEMS: Final = 8_192  # ... and for the last time from this number
_LEAST_WEIGHT: Final = 0.02  # spaces with less weight are not part of the metric


@dataclass
class AnchoredState(LearnerState):
    """The state of AnchoredOAHU: the arrays of a `Model`, which are never changed in place, and the stored groups."""

    groups: list[Group] = field(default_factory=list)
    n_vectors: int = 0

    def copy(self) -> Self:
        """Return a copy that shares the arrays. The copy is not frozen."""
        return replace(self, arrays=dict(self.arrays), groups=list(self.groups), metric=None, frozen=False)


@storable
class AnchoredOAHU(ClickLearner[AnchoredMetric]):
    """TODO docstring."""

    rejects_overflow = True
    table_parameters: ClassVar[tuple[str, ...]] = ("preprocessor", "background")

    def __init__(
        self,
        *,
        learning_rate: float = 0.64,
        temperature: float = 0.1,
        prior: float = 3.0,
        n_random: int = 64,
        batch_size: int = 8,
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
        state.arrays = with_new_background(model, background, len(table), state.groups, read).to_arrays()

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
            for groups in groups_of(constraints, values, start, stop, by_row):
                for group in groups:
                    model = self._accept(state, model, group, settings, reader)
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
        self, state: AnchoredState, model: Model, group: Group, settings: Settings, reader: _Reader
    ) -> Model:
        """Store a group, and learn a round if it is time for one. Return the model."""
        state.groups.append(group)
        state.n_vectors += len(group.vectors)
        progress = model.progress
        n = progress.n_learned + progress.n_pending + 1
        size = min(1.0, (len(group.marks) / _FULL_GROUP) ** 3)
        credit = size * max(1.0, min(_FIRST_GROUPS / n, 1 / size))
        progress = progress._replace(n_pending=progress.n_pending + 1, credit=progress.credit + credit)
        model = model._replace(progress=progress)
        if progress.credit < (1 if n <= _FREQUENT else _RARE) - 1e-9:
            return model
        if reader.table is None and progress.n_background < _MAX_ITEMS:
            n_items = min(_MAX_ITEMS, sum(len(g.marks) for g in state.groups[-_MAX_ITEMS:]))
            if n_items >= max(_FIRST_ITEMS, 2 * progress.n_background):
                items = reader(state.groups[-_MAX_ITEMS:], 0, np.random.default_rng(0))[-_MAX_ITEMS:]
                background = estimate_background(items, state.dtype)
                model = with_new_background(model, background, n_items, state.groups, reader)
        model = learn_round(model, state.groups, _EXTRA if n <= _EXTRA_GROUPS else 0, settings, reader)
        self._forget(state)
        return model

    @staticmethod
    def _forget(state: AnchoredState) -> None:
        """Remove the oldest groups if there are too many."""
        n, limit = max(0, len(state.groups) - _MAX_GROUPS), _MAX_NUMBERS // state.n_features
        n_vectors = state.n_vectors - sum(len(group.vectors) for group in state.groups[:n])
        while n_vectors > limit and n < len(state.groups) - 1:
            n_vectors -= len(state.groups[n].vectors)
            n += 1
        del state.groups[:n]
        state.n_vectors = n_vectors

    def build_metric(self, arrays: Arrays, version: int) -> AnchoredMetric:
        model = Model.from_arrays(arrays)
        weights = model.evidence.weights
        weights[weights < _LEAST_WEIGHT] = 0.0
        return AnchoredMetric.frozen(model.spaces, weights / weights.sum(), version)

    # -- saving ------------------------------------------------------------------------------------------

    def _state_to_content(self, state: LearnerState) -> Content:
        assert isinstance(state, AnchoredState)
        content = super()._state_to_content(state)
        stored = groups_to_arrays(state.groups, state.n_features, state.dtype)
        return Content(content.state, content.arrays | stored)

    def _state_from_content(self, content: Content) -> AnchoredState:
        groups = groups_from_arrays(content, self.n_features_in_, np.dtype(content.state["dtype"]))
        state = super()._state_from_content(content)
        if Model.from_arrays(state.arrays).progress.n_pending > len(groups):
            raise ValueError("there are fewer stored groups than groups that wait for a round")
        n_vectors = sum(len(group.vectors) for group in groups)
        return AnchoredState(**vars(state) | {"groups": groups, "n_vectors": n_vectors})

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

    def __call__(self, groups: Sequence[Group], n_random: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the features of the groups' items, then of ``n_random`` random items."""
        values = self._items(groups)
        if not n_random:
            return values
        if self.table is not None:
            random = self.table[rng.integers(len(self.table), size=n_random)].astype(self._state.dtype)
        else:
            stored = self._state.groups
            chosen = [stored[i] for i in rng.integers(len(stored), size=n_random)]
            items, sizes = self._items(chosen), np.array([len(group.marks) for group in chosen])
            random = items[np.cumsum(sizes) - 1 - rng.integers(sizes)]
        return np.concatenate([values, random])

    def _items(self, groups: Sequence[Group]) -> NDArray[Any]:
        rows = np.concatenate([group.rows for group in groups])
        is_row = rows >= 0
        values = np.empty((len(rows), self._state.n_features), self._state.dtype)
        if is_row.any():
            if self._own is None or rows.max() >= len(self._own):
                raise InvalidInputError(
                    "Stored constraints refer to rows of a feature table that is missing or too short. Set the table "
                    "with set_params(preprocessor=...). Its old rows must be unchanged."
                )
            values[is_row] = self._own[rows[is_row]]
        if not is_row.all():
            values[~is_row] = np.concatenate([group.vectors for group in groups])
        return values


def _is_same(first: Any, second: Any) -> bool:
    return first is second or (
        isinstance(first, np.ndarray)
        and isinstance(second, np.ndarray)
        and first.__array_interface__ == second.__array_interface__
    )
