"""Learners whose model is a few arrays: what LEGO, RDML, OASIS, OPML, POLA, SOML and SORS share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Pairs, Tuples
from oahu.io.model_files import Content
from oahu.learners.base import Learner
from oahu.metrics import Metric

__all__ = ["LEARNED", "ArrayLearner", "ArrayState", "Arrays"]

Arrays = dict[str, NDArray[Any]]

#: What a step returns in place of a row when no constraint was refused.
LEARNED: Final = -1


@dataclass
class ArrayState:
    """Named arrays, and what was seen."""

    arrays: Arrays
    dtype: np.dtype[Any]
    n_features: int
    rng: np.random.Generator
    n_seen: int = 0
    n_used: int = 0
    n_similar: int = 0
    n_similar_used: int = 0
    made: Metric | None = None  # the metric of this state, once it was asked for

    def copy(self) -> ArrayState:
        return replace(self, arrays={name: array.copy() for name, array in self.arrays.items()}, made=None)


class ArrayLearner(Learner[ArrayState]):
    """A learner that says what its arrays are at the start, how a block of constraints changes them, and what
    metric they make."""

    @abstractmethod
    def _start(self, n_features: int, dtype: np.dtype[Any]) -> Arrays:
        """The arrays of a model that has seen nothing and computes in ``dtype``."""

    @abstractmethod
    def _step(self, arrays: Arrays, block: NDArray[Any], same: NDArray[np.bool_], used: NDArray[np.bool_]) -> int:
        """Learn a block of constraints, (m, size, n_features), and mark those that were used.

        ``same`` says which pairs are alike; for triplets it is empty. Returns LEARNED, or the row of a constraint
        that would overflow the model, which is thrown away then.
        """

    @abstractmethod
    def _made(self, state: ArrayState) -> Metric:
        """The metric of a state, of its own memory."""

    def _kept(self, content: Content, dtype: np.dtype[Any]) -> Arrays:
        """Arrays of the shapes and types that a file of this learner must have."""
        return self._start(self.n_features_in_, dtype)

    def _check_arrays(self, arrays: Arrays) -> None:
        """ValueError for arrays from a file that no learning leads to."""

    def _begin(self, n_features: int, rng: np.random.Generator) -> ArrayState:
        dtype = np.dtype(self.dtype)
        return ArrayState(self._start(n_features, dtype), dtype, n_features, rng)

    def _learn(self, state: ArrayState, constraints: Tuples) -> None:
        for start, block in constraints.blocks(state.dtype):
            constraints.check_finite(start, block)
            same = constraints.same[start : start + len(block)] if isinstance(constraints, Pairs) else _NEITHER
            used = np.zeros(len(block), np.bool_)
            refused = self._step(state.arrays, block, same, used)
            self._count(state, constraints, start, same, used, refused)

    def _count(
        self, state: ArrayState, constraints: Tuples, start: int, same: Any, used: NDArray[np.bool_], refused: int
    ) -> None:
        if refused != LEARNED:
            self._refuse(constraints, start + refused, self._why_refused(state))
        state.n_used += int(used.sum())
        if len(same):
            state.n_similar += int(same.sum())
            state.n_similar_used += int((used & same).sum())

    def _why_refused(self, state: ArrayState) -> str:
        return (
            f"learning it would overflow the model's {state.dtype} numbers. Scale the features to a usual range, "
            "or take shorter steps."
        )

    def _metric(self, state: ArrayState) -> Metric:
        if state.made is None:
            state.made = self._made(state)
        return state.made

    def _state_to_content(self, state: ArrayState) -> Content:
        counts = {"n_similar": state.n_similar, "n_similar_used": state.n_similar_used, "dtype": str(state.dtype)}
        return Content(counts, state.arrays)

    def _state_from_content(self, content: Content) -> ArrayState:
        dtype = np.dtype(content.state["dtype"])
        if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"no model computes in {dtype}")
        kept = self._kept(content, dtype)
        arrays = {name: content.array(name, array.shape, array.dtype).copy() for name, array in kept.items()}
        self._check_arrays(arrays)
        state = ArrayState(arrays, dtype, self.n_features_in_, np.random.default_rng(0))
        state.n_similar, state.n_similar_used = content.count("n_similar"), content.count("n_similar_used")
        similar_fit = state.n_similar_used <= state.n_similar <= content.count("n_seen")
        if not similar_fit or state.n_similar_used > content.count("n_used"):
            raise ValueError("its counts of similar pairs do not fit those of all pairs")
        return state


_NEITHER: Final = np.empty(0, np.bool_)
