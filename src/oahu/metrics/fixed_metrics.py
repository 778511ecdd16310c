"""Fixed metrics, which are not learned: Euclidean and cosine distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError
from oahu.io.model_files import Content, storable
from oahu.messages import shorten
from oahu.metrics.metric import DistanceMetric, SingleSpace, normalize_rows

__all__ = ["CosineMetric", "EuclideanMetric"]

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class _FixedMetric(DistanceMetric):
    features: int
    type: str = "float32"
    version: int = 0

    def __post_init__(self) -> None:
        features: Any = self.features
        if not isinstance(features, int | np.integer) or isinstance(features, bool) or features < 1:
            raise InvalidInputError(
                f"The number of features must be an int of at least 1. Got {shorten(features)} instead."
            )
        if self.type not in ("float32", "float64"):
            raise InvalidInputError(f"The type must be 'float32' or 'float64'. Got {shorten(self.type)} instead.")
        object.__setattr__(self, "features", int(features))

    @property
    def n_features(self) -> int:
        return self.features

    @property
    def dimensions(self) -> int:
        return self.features

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.type)

    @property
    def spaces(self) -> tuple[SingleSpace]:
        return (SingleSpace(self),)

    def _to_content(self) -> Content:
        return Content({"version": self.version, "features": self.features, "type": self.type}, {})

    @classmethod
    def _from_content(cls, content: Content) -> Any:
        return cls(content.count("features"), content.state["type"], content.count("version"))


@storable
class EuclideanMetric(_FixedMetric):
    """The Euclidean distance between feature vectors.

    >>> EuclideanMetric(2).distance([0.0, 0.0], [3.0, 4.0])
    5.0
    """

    def transform_checked(self, items: NDArray[Any]) -> Floats:
        return np.array(items, dtype=self.dtype)

    def scores_to_first(self, items: Any, size: int) -> NDArray[np.float64]:
        tuples = items.astype(self.dtype, copy=False).reshape(len(items) // size, size, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.square((tuples[:, 1:] - tuples[:, :1]).astype(np.float64)).sum(axis=2)
            scores: NDArray[np.float64] = -np.sqrt(apart).T
        self._raise_tuple_overflow(scores, items, size)
        return scores


@storable
class CosineMetric(_FixedMetric):
    """The Euclidean distance between items scaled to unit length. An item of zeros is not scaled.

    This distance and cosine similarity rank items in the same order.

    >>> CosineMetric(2).distance([2.0, 0.0], [7.0, 0.0])
    0.0
    """

    diameter = 2.0

    def transform_checked(self, items: NDArray[Any]) -> Floats:
        vectors = normalize_rows(items.astype(self.dtype, copy=False))
        self._raise_overflow(~np.isfinite(vectors).all(axis=1))
        return vectors

    def scores_to_first(self, items: Any, size: int) -> NDArray[np.float64]:
        vectors = self.transform_checked(items).reshape(len(items) // size, size, -1).astype(np.float64)
        return np.asarray(-np.linalg.norm(vectors[:, 1:] - vectors[:, :1], axis=2).T)
