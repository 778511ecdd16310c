"""TupleTransformer: applies a scikit-learn transformer to each item of constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone

from oahu.arrays import as_array
from oahu.constraints.clicks import Clicks
from oahu.exceptions import NotFittedError

__all__ = ["TupleTransformer"]


class TupleTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Apply a transformer to each item of constraints, for example a scaler before a learner in a Pipeline.

    n constraints with t items each, of shape ``(n, t, d)``, are transformed as ``n * t`` items. Items of shape
    ``(n, d)`` are also accepted. `Clicks` are transformed into clicks that are given by feature vectors. An item
    that occurs in several constraints is used several times in fitting.

    Parameters
    ----------
    transformer : scikit-learn transformer
        The transformer of items. `fit` fits a clone, so that the given object does not change.

    Attributes
    ----------
    transformer_ : scikit-learn transformer
        The fitted clone.

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
        items, tuples = _flatten(X)
        # y is not passed to the transformer: the labels of pairs are not labels of items.
        self.transformer_ = clone(self.transformer).fit(items, y if tuples is None else None)
        self.n_features_in_ = items.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Return the transformed constraints or items. Only the number of features may change."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This TupleTransformer instance is not fitted yet: call fit first.")
        items, tuples = _flatten(X)
        transformed = self.transformer_.transform(items)
        if tuples is None:
            return transformed
        dense = transformed.toarray() if hasattr(transformed, "tocsr") else transformed
        if isinstance(X, Clicks):
            return X.with_values(dense)
        return dense.reshape(*tuples, dense.shape[-1])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")


def _flatten(X: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Return the items of X, one per row, and the shape (n, t) of the constraints, or (n,) for clicks.

    If X contains items instead of constraints, the shape is None.
    """
    if isinstance(X, Clicks):
        return X.values(), (len(X),)
    array = X if hasattr(X, "shape") else as_array(X, "items")
    if len(array.shape) == 3:
        return np.asarray(array).reshape(-1, array.shape[2]), array.shape[:2]
    return array, None
