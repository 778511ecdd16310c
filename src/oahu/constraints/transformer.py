"""scikit-learn transformers, applied to every item of tuple constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone

from oahu.arrays import as_array
from oahu.exceptions import NotFittedError

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

    def fit(self, X: Any, y: Any = None) -> TupleTransformer:
        items, tuples = _flattened(X)
        # The y of pairs says something about pairs, not about their items.
        self.transformer_ = clone(self.transformer).fit(items, y if tuples is None else None)
        self.n_features_in_ = items.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """The transformed items, in the shape that they came in."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This TupleTransformer instance is not fitted yet: call fit first.")
        items, tuples = _flattened(X)
        transformed = self.transformer_.transform(items)
        if tuples is None:
            return transformed
        dense = transformed.toarray() if hasattr(transformed, "tocsr") else transformed
        return dense.reshape(*tuples, dense.shape[-1])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")


def _flattened(X: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Items one a row, and the shape (n, t) of the tuples that they came in, if they did."""
    array = X if hasattr(X, "shape") else as_array(X, "items")
    if len(array.shape) == 3:
        return np.asarray(array).reshape(-1, array.shape[2]), array.shape[:2]
    return array, None
