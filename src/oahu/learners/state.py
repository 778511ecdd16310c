"""The state of a learner: learned arrays, counts and a random generator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from oahu.metrics import Metric

__all__ = ["LEARNED", "Arrays", "LearnerState", "aligned_copy"]

Arrays = dict[str, NDArray[Any]]

#: Return value of an update step that rejected no constraint. Otherwise, the step returns a row number.
LEARNED: Final = -1

_ALIGNMENT: Final = 128  # bytes: vector loads across two cache lines are slower
_SMALL: Final = 2**16  # bytes: the alignment of smaller arrays does not matter


@dataclass
class LearnerState:
    """The learned arrays and counts of a learner.

    `partial_fit` learns on a copy of the state. The copy replaces the state at the end of the call. `learn_one`
    changes the arrays in place unless they are frozen. When a metric or another reader uses the arrays, the state
    is frozen. The next constraint is then learned on a copy of the state.

    Attributes
    ----------
    arrays : dict of ndarray
        The learned arrays by name.
    dtype : dtype
        The floating-point type of the computations.
    n_features : int
    rng : numpy Generator
        The random generator for drawing constraints from labels.
    n_seen, n_used : int
        Number of constraints learned, and number of constraints that changed the model.
    n_similar, n_similar_used : int
        Number of similar pairs learned, and number of similar pairs that changed the model. Both are 0 for triplet
        learners.
    metric : Metric or None
        The metric of the current arrays, or None if no metric has been built from them yet.
    validated : tuple or None
        The parameter values that were last validated.
    frozen : bool
        Whether the arrays must not change any more, because other code may be reading them.
    lock : Lock
        The lock for changes of the arrays in place and for changes of `frozen`.
    """

    arrays: Arrays
    dtype: np.dtype[Any]
    n_features: int
    rng: np.random.Generator
    n_seen: int = 0
    n_used: int = 0
    n_similar: int = 0
    n_similar_used: int = 0
    metric: Metric | None = None
    validated: tuple[Any, ...] | None = None
    frozen: bool = False
    lock: Lock = field(default_factory=Lock, repr=False)

    def copy(self) -> Self:
        """Return a copy with its own arrays. The copy is not frozen."""
        arrays = {name: aligned_copy(array) for name, array in self.arrays.items()}
        return replace(self, arrays=arrays, metric=None, frozen=False, lock=Lock())

    def count(self, similar: NDArray[np.bool_], used: NDArray[np.bool_]) -> None:
        """Add a block of constraints to the counts. ``similar`` marks similar pairs and is empty for triplets."""
        self.n_seen += len(used)
        self.n_used += int(np.count_nonzero(used))
        if len(similar):
            self.n_similar += int(np.count_nonzero(similar))
            self.n_similar_used += int(np.count_nonzero(used & similar))

    def count_one(self, similar: NDArray[np.bool_], used: NDArray[np.bool_]) -> None:
        """Add one constraint to the counts. This is faster than `count`."""
        is_used, is_similar = bool(used[0]), len(similar) and bool(similar[0])
        self.n_seen += 1
        self.n_used += is_used
        self.n_similar += is_similar
        self.n_similar_used += is_similar and is_used

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "metric": None, "validated": None, "frozen": False, "lock": None}

    def __setstate__(self, values: dict[str, Any]) -> None:
        arrays = {name: aligned_copy(array) for name, array in values["arrays"].items()}
        self.__dict__.update(values, arrays=arrays, lock=Lock())


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy in C order. The memory address of a large copy is a multiple of 128 bytes."""
    if array.nbytes < _SMALL:
        return array.copy()
    buffer = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    skip = -buffer.ctypes.data % _ALIGNMENT
    aligned: NDArray[Any] = buffer[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    aligned[...] = array
    return aligned
