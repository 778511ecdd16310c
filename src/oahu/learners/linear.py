"""What the learners of one matrix share: Mahalanobis metrics from pairs, bilinear similarities from triplets."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from oahu.learners.array_state import ArrayLearner, Arrays, ArrayState
from oahu.learners.kinds import PairLearner, ScoresOnly, TripletLearner, WithDistances
from oahu.metrics.linear import BilinearMetric, MahalanobisMetric, unit_rows
from oahu.parameters import check_choice

__all__ = ["STARTS", "BilinearLearner", "MahalanobisLearner", "Start", "start_matrix"]

Floats = NDArray[np.floating]
Start = Literal["identity", "zero"]

#: Where a matrix can begin.
STARTS: Final = ("identity", "zero")


class MahalanobisLearner(WithDistances, PairLearner[ArrayState], ArrayLearner):
    """Learns a symmetric ``matrix`` A from pairs: ``D^2(x, x') = (x - x')^T A (x - x')``."""

    @property
    def matrix_(self) -> Floats:
        return self._require_fitted().arrays["matrix"].copy()

    def _check_arrays(self, arrays: Arrays) -> None:
        if not np.array_equal(arrays["matrix"], arrays["matrix"].T):
            raise ValueError("its matrix is not symmetric")

    def _made(self, state: ArrayState) -> MahalanobisMetric:
        return MahalanobisMetric.from_matrix(state.arrays["matrix"], state.n_seen)


class BilinearLearner(ScoresOnly, TripletLearner[ArrayState], ArrayLearner):
    """Learns a ``matrix`` W, or its diagonal, from triplets: ``S(x, q) = x^T W q``."""

    normalize: bool

    def _check_parameters(self) -> None:
        check_choice(self, "normalize", self.normalize, (False, True))
        super()._check_parameters()

    def _scaled(self, block: Floats) -> Floats:
        """A block of constraints, its items scaled to unit length if they are to be."""
        if not self.normalize:
            return block
        with np.errstate(over="ignore", under="ignore"):
            scaled: Floats = unit_rows(block.reshape(-1, block.shape[2])).reshape(block.shape)
        return scaled

    def _made(self, state: ArrayState) -> BilinearMetric:
        return BilinearMetric(state.arrays["matrix"], self.normalize, state.n_seen)


def start_matrix(start: str, n_features: int, dtype: np.dtype[Any]) -> Floats:
    """The identity, or zeros."""
    return np.eye(n_features, dtype=dtype) if start == "identity" else np.zeros((n_features, n_features), dtype)
