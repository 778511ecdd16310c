"""scikit-learn transformers, applied to every item of tuple constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone

__all__ = ["TupleTransformer"]


class TupleTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a transformer of items on constraints, so that a scaler can stand before a learner in a Pipeline.

    ``(n, t, d)`` constraints are taken as their ``n * t`` items; ``(n, d)`` items pass as they are. An item in
    several constraints counts as often as it occurs.

    Parameters
    ----------
    transformer : scikit-learn transformer
        Cloned, not changed.

    Attributes
    ----------
    transformer_ : the fitted clone.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oahu import OAHU
    >>> triplets = np.random.default_rng(0).normal(5.0, 2.0, (50, 3, 4))
    >>> pipeline = make_pipeline(TupleTransformer(StandardScaler()), OAHU(random_state=0))
    >>> pipeline.fit(triplets).transform(triplets[:, 0]).shape
    (50, 300)
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: ArrayLike, y: Any = None) -> TupleTransformer:
        items, _ = _flattened(X)
        self.transformer_ = clone(self.transformer).fit(items, y)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        items, shape = _flattened(X)
        transformed: NDArray[Any] = self.transformer_.transform(items)
        return transformed.reshape(*shape, transformed.shape[-1])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")


def _flattened(X: ArrayLike) -> tuple[Any, tuple[int, ...]]:
    """Items one a row, and the shape to give back to them."""
    array = np.asarray(X)
    if array.ndim == 3:
        return array.reshape(-1, array.shape[2]), array.shape[:2]
    return X, array.shape[:1]
