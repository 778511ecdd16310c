"""The state of a learner: named arrays, counts and a random generator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from oahu.metrics import Metric

__all__ = ["LEARNED", "Arrays", "LearnerState", "aligned_copy"]

Arrays = dict[str, NDArray[Any]]

#: Returned by a step in place of a row number when it rejected no constraint.
LEARNED: Final = -1

_ALIGNMENT: Final = 128  # bytes: vector loads that straddle cache lines are slower
_SMALL: Final = 2**16  # bytes: below this the alignment of an array does not matter


@dataclass
class LearnerState:
    """Everything that a learner has learned.

    A call of `partial_fit` learns on a copy, which replaces the state when the whole call was learned. `learn_one`
    changes the arrays in place, as long as nobody else reads them: `freeze` marks them as read by others, and the
    next constraint is learned on a copy.

    Attributes
    ----------
    arrays : dict of ndarray
    dtype : dtype
        The floating-point type that the model computes in.
    n_features : int
    rng : numpy Generator
        Draws constraints from labels.
    n_seen, n_used : int
        Constraints learned, and how many of them changed the model.
    n_similar, n_similar_used : int
        The same counts for similar pairs; 0 for learners of triplets.
    metric : Metric or None
        The metric of these arrays, if it was built.
    validated : tuple or None
        The parameter values that were valid when the last constraint was learned.
    frozen : bool
        Whether others may read the arrays, so that they must not change.
    lock : Lock
        Held while the arrays change in place, and while `frozen` is set.
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
        """Return a state with its own arrays, which are not frozen."""
        arrays = {name: aligned_copy(array) for name, array in self.arrays.items()}
        return replace(self, arrays=arrays, metric=None, frozen=False, lock=Lock())

    def count(self, similar: NDArray[np.bool_], used: NDArray[np.bool_]) -> None:
        """Count a block of constraints; ``similar`` is empty for triplets."""
        self.n_seen += len(used)
        self.n_used += int(np.count_nonzero(used))
        if len(similar):
            self.n_similar += int(np.count_nonzero(similar))
            self.n_similar_used += int(np.count_nonzero(used & similar))

    def count_one(self, similar: NDArray[np.bool_], used: NDArray[np.bool_]) -> None:
        """Count a block of one constraint; faster than `count`."""
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
    """Return a copy in C order; a large one begins at a whole cache line."""
    if array.nbytes < _SMALL:
        return array.copy()
    buffer = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    skip = -buffer.ctypes.data % _ALIGNMENT
    aligned: NDArray[Any] = buffer[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    aligned[...] = array
    return aligned
