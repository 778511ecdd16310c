"""OAHU's metric: a weighted sum of squared distances in embedding spaces at every depth of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import Content, storable
from oahu.metrics.metric import DistanceMetric, frozen_copy, normalize_rows

__all__ = ["EnsembleMetric", "Expert"]

Floats = NDArray[np.floating]

_BLOCK = 2048  # items encoded at a time, so that the layers' outputs stay in the cache


@storable
@dataclass(frozen=True, eq=False)
class EnsembleMetric(DistanceMetric):
    """The immutable metric of OAHU: experts E_0 ... E_L of growing depth, each with a weight.

    ``D^2(a, b) = sum_l alpha_l ||f_l(a) - f_l(b)||^2``, where ``f_l(a)`` is the unit vector of item a in the space
    of expert E_l, and alpha_l is the weight of E_l. Later learning does not change the metric.

    Attributes
    ----------
    hidden_weights, hidden_biases : tuples of L arrays, of shape (n_outputs, n_inputs) and (n_outputs,)
        The parameters of the hidden layers.
    embedding_weights, embedding_biases : tuples of L + 1 arrays, of shape (n_outputs, n_inputs) and (n_outputs,)
        The parameters of the embedding layers.
    metric_weights : ndarray of shape (L + 1,)
        alpha: the weight of each expert. The weights sum to 1.
    version : int
        Number of constraints that the learner had learned.

    Examples
    --------
    >>> import numpy as np
    >>> from oahu import OAHU
    >>> metric = OAHU(n_layers=2, random_state=0).initialize(n_features=4).metric()
    >>> [expert.name for expert in metric.spaces]
    ['E_0', 'E_1', 'E_2']
    >>> a, b = np.eye(4)[:2]
    >>> d = metric.distance(a, b)
    >>> bool(np.isclose(d, np.linalg.norm(metric.transform([a]) - metric.transform([b]))))
    True
    """

    hidden_weights: tuple[Floats, ...] = field(repr=False)
    hidden_biases: tuple[Floats, ...] = field(repr=False)
    embedding_weights: tuple[Floats, ...] = field(repr=False)
    embedding_biases: tuple[Floats, ...] = field(repr=False)
    metric_weights: NDArray[np.float64]
    version: int

    diameter = 2.0
    rounding_depends_on_batch = True

    @classmethod
    def frozen(
        cls,
        hidden_weights: Sequence[Floats],
        hidden_biases: Sequence[Floats],
        embedding_weights: Sequence[Floats],
        embedding_biases: Sequence[Floats],
        metric_weights: NDArray[np.float64],
        version: int,
    ) -> EnsembleMetric:
        """Create a metric from read-only copies of the arrays."""
        return cls(
            tuple(map(frozen_copy, hidden_weights)),
            tuple(map(frozen_copy, hidden_biases)),
            tuple(map(frozen_copy, embedding_weights)),
            tuple(map(frozen_copy, embedding_biases)),
            frozen_copy(metric_weights),
            version,
        )

    @property
    def n_features(self) -> int:
        return int(self.embedding_weights[0].shape[1])

    @property
    def dimensions(self) -> int:
        return sum(len(weights) for weights in self.embedding_weights)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.embedding_weights[0].dtype

    @property
    def spaces(self) -> tuple[Expert, ...]:
        """The spaces of the experts, from shallow to deep, each with its weight."""
        return tuple(Expert(self, level) for level in range(len(self.embedding_weights)))

    def embed(self, X: ArrayLike) -> Floats:
        """Return the unit vectors of each expert, as an array of shape (L + 1, n_items, embedding_size)."""
        return self.embed_checked(self._check(X))

    def embed_checked(self, items: NDArray[Any]) -> Floats:
        """Return the same as `embed`. The items must be validated already."""
        return np.ascontiguousarray(self._columns(items).transpose(0, 2, 1))

    def transform_checked(self, items: NDArray[Any]) -> Floats:
        return np.ascontiguousarray(self._joint(items))

    def encode_checked(self, items: NDArray[Any], joint: bool) -> list[Floats]:
        # Return transposed arrays, because an index also stores items as columns.
        return [self._joint(items)] if joint else [level.T for level in self._columns(items)]

    def _joint(self, items: NDArray[Any]) -> Floats:
        """Return joint vectors: the concatenated vectors of all experts, each scaled by the root of its weight."""
        columns = self._columns(items)
        columns *= np.sqrt(self.metric_weights).astype(columns.dtype)[:, None, None]
        return columns.reshape(-1, len(items)).T

    def _columns(self, items: NDArray[Any], n_levels: int | None = None) -> Floats:
        """Return the unit vectors of the first ``n_levels`` experts (by default all), with one column per item."""
        size, dtype = self.embedding_weights[0].shape[0], self.dtype
        columns: Floats = np.empty((n_levels or len(self.embedding_weights), size, len(items)), dtype)
        self._embed_into(items, columns, 0)
        return columns

    def encode_columns(self, items: NDArray[Any], places: Sequence[Floats], first: int) -> None:
        if all(place.flags.c_contiguous and place.dtype == self.dtype for place in places):
            self._embed_into(items, places, first)
        else:
            super().encode_columns(items, places, first)

    def _embed_into(self, items: NDArray[Any], places: Sequence[Floats] | Floats, first: int) -> None:
        """Write unit vectors to the arrays in ``places``, one array per expert.

        Each item has one column. The first item has column ``first``.
        """
        for start in range(0, len(items), _BLOCK):
            inputs = items[start : start + _BLOCK].astype(self.dtype, copy=False)
            with np.errstate(over="ignore", invalid="ignore"):
                usual = self._embed_block(inputs, places, first + start)
            if not usual:
                block = slice(first + start, first + start + len(inputs))
                finite = [np.isfinite(place[:, block]).all(axis=0) for place in places]
                self._raise_overflow(~np.logical_and.reduce(finite), start)

    def _embed_block(self, inputs: Floats, places: Sequence[Floats] | Floats, first: int) -> bool:
        """Write the unit vectors f^(0) ... f^(L) of a block of items to ``places``.

        This is the paper's Eq. (metric_embedding).

        Return False if the length of a vector is so large or small that the caller must check for overflow.
        """
        from oahu.metrics.activations import (
            add_bias_and_relu,
            write_unit_columns,
        )  # imported late: importing numba takes time

        hidden, usual = inputs, True
        for level, place in enumerate(places):
            if level:
                hidden = hidden @ self.hidden_weights[level - 1].T
                add_bias_and_relu(hidden, self.hidden_biases[level - 1])
            outputs = hidden @ self.embedding_weights[level].T
            biases = self.embedding_biases[level]
            if not write_unit_columns(outputs, biases, place, first):
                place[:, first : first + len(inputs)] = normalize_rows(outputs + biases).T
                usual = False
        return usual

    def space_distances_checked(self, left: Any, right: Any) -> NDArray[np.float64]:
        gaps = (self.embed_checked(left) - self.embed_checked(right)).astype(np.float64)
        return np.asarray(np.sqrt(np.square(gaps).sum(axis=2)))

    def scores_to_first(self, items: Any, size: int) -> NDArray[np.float64]:
        vectors = self.transform_checked(items).reshape(len(items) // size, size, -1)
        apart = (vectors[:, :1] - vectors[:, 1:]).astype(np.float64)
        return np.asarray(-np.sqrt(np.square(apart).sum(axis=2)).T)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Support pickle and copy. The arrays of the copied metric are read-only too."""
        values = (getattr(self, attribute.name) for attribute in fields(self))
        return EnsembleMetric.frozen, tuple(values)

    def _to_content(self) -> Content:
        arrays = pack_layers(self.hidden_weights, self.hidden_biases, self.embedding_weights, self.embedding_biases)
        return Content({"version": self.version}, arrays | {"metric_weights": self.metric_weights})

    @classmethod
    def _from_content(cls, content: Content) -> EnsembleMetric:
        layers = unpack_layers(content)
        weights = unpack_weights(content, len(layers[2]))
        return cls.frozen(*layers, weights, content.count("version"))


@dataclass(frozen=True, eq=False)
class Expert:
    """One space of an `EnsembleMetric`: the expert E_l with its weight alpha_l."""

    metric: EnsembleMetric
    level: int

    @property
    def name(self) -> str:
        return f"E_{self.level}"

    @property
    def weight(self) -> float:
        return float(self.metric.metric_weights[self.level])

    @property
    def dimensions(self) -> int:
        """The length of the vectors of this expert."""
        return len(self.metric.embedding_weights[self.level])

    def encode(self, X: ArrayLike) -> Floats:
        """Encode items of shape (n_items, n_features) as unit vectors of shape (n_items, embedding_size)."""
        items = self.metric._check(X)
        return np.ascontiguousarray(self.metric._columns(items, self.level + 1)[self.level].T)


def pack_layers(*layers: Sequence[Floats]) -> dict[str, NDArray[Any]]:
    """Return a dictionary with the arrays of a network.

    The keys are the names of the arrays in a model file, such as ``hidden_weights.0``.
    """
    return {
        f"{name}.{level}": array
        for name, arrays in zip(_LAYERS, layers, strict=True)
        for level, array in enumerate(arrays)
    }


def unpack_layers(content: Content) -> tuple[list[Floats], list[Floats], list[Floats], list[Floats]]:
    """Return the arrays of a network from a model file. Raise ValueError if they do not fit together."""
    depth = len(content.array("metric_weights", (None,))) - 1
    hidden_weights, hidden_biases, embedding_weights, embedding_biases = [], [], [], []
    size, dtype = None, content.array("embedding_weights.0", (None, None)).dtype
    width: int | None = None
    for level in range(depth + 1):
        if level:
            hidden_weights.append(content.array(f"hidden_weights.{level - 1}", (None, width)))
            width = hidden_weights[-1].shape[0]
            hidden_biases.append(content.array(f"hidden_biases.{level - 1}", (width,)))
        embedding_weights.append(content.array(f"embedding_weights.{level}", (size, width)))
        if not level:
            size, width = embedding_weights[0].shape
        embedding_biases.append(content.array(f"embedding_biases.{level}", (size,)))
    layers = (hidden_weights, hidden_biases, embedding_weights, embedding_biases)
    if any(array.dtype != dtype for arrays in layers for array in arrays):
        raise ValueError("its layers must all have the same dtype")
    if sum(name.split(".")[0] in _LAYERS for name in content.arrays) != sum(map(len, layers)):
        raise ValueError(f"its network has more layers than its {depth + 1} experts use")
    return layers


def unpack_weights(content: Content, n_experts: int) -> NDArray[np.float64]:
    """Return the metric weights from a model file. Raise ValueError if they are invalid."""
    weights = content.array("metric_weights", (n_experts,), np.float64)
    if weights.min() < 0 or abs(weights.sum() - 1) > 1e-6:
        raise ValueError("its 'metric_weights' must not be negative and must sum to 1")
    return weights


_LAYERS = ("hidden_weights", "hidden_biases", "embedding_weights", "embedding_biases")
