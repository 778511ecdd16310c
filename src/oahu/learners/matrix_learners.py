"""Base classes of learners that learn one matrix: Mahalanobis metrics and bilinear similarities."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from oahu.learners.kinds import PairLearner, ScoresOnlyMixin, TripletLearner
from oahu.learners.state import Arrays, LearnerState
from oahu.metrics.linear_metrics import BilinearMetric, MahalanobisMetric
from oahu.parameters import check_choice

__all__ = ["STARTS", "BilinearLearner", "MahalanobisLearner", "Start", "start_matrix"]

Floats = NDArray[np.floating]
Start = Literal["identity", "zero"]

#: The names of the initial matrices.
STARTS: Final = ("identity", "zero")


class MahalanobisLearner(PairLearner[MahalanobisMetric]):
    """Base class for learning a symmetric matrix A from pairs: ``D^2(x, x') = (x - x')^T A (x - x')``."""

    rejects_overflow = True

    @property
    def matrix_(self) -> Floats:
        return self._fitted_state().arrays["matrix"].copy()

    def check_arrays(self, arrays: Arrays) -> None:
        if not np.array_equal(arrays["matrix"], arrays["matrix"].T):
            raise ValueError("the matrix must be symmetric")

    def build_metric(self, arrays: Arrays, version: int) -> MahalanobisMetric:
        return MahalanobisMetric.from_matrix(arrays["matrix"], version)

    def _can_learn_in_place(self, state: LearnerState) -> bool:
        return True


class BilinearLearner(ScoresOnlyMixin, TripletLearner[BilinearMetric]):
    """Base class for learning a matrix W, or its diagonal, from triplets: ``S(x, q) = x^T W q``."""

    normalize: bool
    rejects_overflow = True

    def check_parameters(self) -> None:
        check_choice(self, "normalize", self.normalize, (False, True))
        super().check_parameters()

    def build_metric(self, arrays: Arrays, version: int) -> BilinearMetric:
        return BilinearMetric(arrays["matrix"], self.normalize, version)

    def _can_learn_in_place(self, state: LearnerState) -> bool:
        return True


def start_matrix(start: str, n_features: int, dtype: np.dtype[Any]) -> Floats:
    """Return the initial matrix: the identity or zeros."""
    return np.eye(n_features, dtype=dtype) if start == "identity" else np.zeros((n_features, n_features), dtype)
