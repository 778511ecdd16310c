"""AnchoredOAHU's metric: a weighted sum of squared distances in five starting spaces and three learned spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import Content, storable
from oahu.metrics.ensemble_metric import unpack_weights
from oahu.metrics.metric import DistanceMetric, SingleSpace, frozen_copy, normalize_rows

__all__ = ["N_ANCHORS", "SPACES", "AnchoredMetric", "AnchoredSpace", "SpaceArrays", "with_leading"]

Floats = NDArray[np.floating]

#: The names of the spaces. The first five are the starting spaces, the others are learned by gradient steps.
SPACES: Final = (
    "cosine",
    "centred cosine",
    "Euclidean",
    "catalogue-whitened",
    "pair-whitened",
    "axis weights",
    "linear map",
    "network",
)
N_ANCHORS: Final = 5

_COSINE, _CENTRED, _EUCLIDEAN, _WHITENED, _PAIR_WHITENED, _AXIS_WEIGHTS, _LINEAR_MAP, _NETWORK = range(len(SPACES))
_VERIFICATION_FACTOR = 3.0  # the learned spaces' weights are multiplied by this factor to compare pairs
_TUPLES = 128  # pairs or triplets scored at a time
_BLOCK = 2048  # items encoded at a time


class SpaceArrays(NamedTuple):
    """The arrays that define the spaces, with the first R principal axes of the catalogue.

    Matrices are learned only for the first r axes, the leading axes. The other axes are scaled one by one.

    Attributes
    ----------
    mean : ndarray of shape (d,)
        The mean of the catalogue.
    spread : ndarray of shape (1,)
        The root of the mean squared distance between an item and the mean.
    axes : ndarray of shape (d, R)
        The principal axes of the catalogue.
    gains : ndarray of shape (R,)
        The factor of each axis in the catalogue-whitened space.
    pair_whitening : ndarray of shape (r, r)
        The symmetric matrix of the pair-whitened space, for the leading axes.
    pair_gains : ndarray of shape (R - r,)
        The factor of each other axis in the pair-whitened space.
    axis_weights : ndarray of shape (R,)
        The learned factor of each axis.
    linear_map : ndarray of shape (r, r)
        The learned matrix. Its inputs are the results of `scaled`.
    hidden_weights : ndarray of shape (r, h)
    hidden_bias : ndarray of shape (h,)
    output_weights : ndarray of shape (h, r)
        The network adds the outputs of a hidden layer of h rectified units to its inputs, the results of `scaled`.
    """

    mean: Floats
    spread: Floats
    axes: Floats
    gains: Floats
    pair_whitening: Floats
    pair_gains: Floats
    axis_weights: Floats
    linear_map: Floats
    hidden_weights: Floats
    hidden_bias: Floats
    output_weights: Floats

    def sizes(self) -> tuple[int, ...]:
        """Return the number of dimensions of each space."""
        d, r = self.axes.shape
        return (d, d, d, r, r, r, r, r)

    def inputs(self, items: Floats) -> Floats:
        """Return the coordinates of items along the axes, scaled to unit length: inputs of the learned spaces."""
        return normalize_rows((items - self.mean) @ self.axes)

    def whitened(self, inputs: Floats) -> Floats:
        """Return the vectors of the pair-whitened space for `inputs`."""
        r = len(self.pair_whitening)
        return normalize_rows(with_leading(inputs[:, :r] @ self.pair_whitening, inputs[:, r:] * self.pair_gains))

    def scaled(self, whitened: Floats) -> Floats:
        """Return the inputs of the linear map and of the network: `whitened` vectors, times the axis weights."""
        return normalize_rows(whitened * self.axis_weights)

    def vectors(self, items: Floats, wanted: Sequence[bool] | NDArray[np.bool_]) -> list[Any]:
        """Return the vectors of items in each wanted space, and None for other spaces."""
        vectors = self.starting_vectors(items, wanted)
        if any(wanted[_AXIS_WEIGHTS:]) or wanted[_WHITENED] or wanted[_PAIR_WHITENED]:
            inputs = self.inputs(items)
            needs_scaled = any(wanted[_LINEAR_MAP:])
            whitened = self.whitened(inputs) if wanted[_PAIR_WHITENED] or needs_scaled else inputs
            scaled = self.scaled(whitened) if needs_scaled else whitened
            vectors += self.other_vectors(inputs, whitened, scaled, wanted)
        return vectors + [None] * (len(SPACES) - len(vectors))

    def starting_vectors(self, items: Floats, wanted: Sequence[bool] | NDArray[np.bool_]) -> list[Any]:
        """Return the vectors of items in the first three spaces, and None for spaces that are not wanted."""
        centred = items - self.mean if wanted[_CENTRED] or wanted[_EUCLIDEAN] else items
        return [
            normalize_rows(items) if wanted[_COSINE] else None,
            normalize_rows(centred) if wanted[_CENTRED] else None,
            centred / self.spread if wanted[_EUCLIDEAN] else None,
        ]

    def other_vectors(
        self, inputs: Floats, whitened: Floats, scaled: Floats, wanted: Sequence[bool] | NDArray[np.bool_]
    ) -> list[Any]:
        """Return the vectors in the spaces after the first three, and None for spaces that are not wanted.

        The arguments are the results of the methods `inputs`, `whitened` and `scaled`.
        """
        vectors: list[Any] = [None] * 5
        r = len(self.linear_map)
        leading, rest = scaled[:, :r], scaled[:, r:]
        if wanted[_WHITENED]:
            vectors[0] = normalize_rows(inputs * self.gains)
        if wanted[_PAIR_WHITENED]:
            vectors[1] = whitened
        if wanted[_AXIS_WEIGHTS]:
            vectors[2] = normalize_rows(inputs * self.axis_weights)
        if wanted[_LINEAR_MAP]:
            vectors[3] = normalize_rows(with_leading(leading @ self.linear_map.T, rest))
        if wanted[_NETWORK]:
            units = np.maximum(leading @ self.hidden_weights + self.hidden_bias, 0)
            vectors[4] = normalize_rows(with_leading(leading + units @ self.output_weights, rest))
        return vectors


def with_leading(leading: Floats, rest: Floats) -> Floats:
    """Return vectors with these coordinates along the leading axes and along the other axes."""
    return np.concatenate([leading, rest], axis=1) if rest.shape[1] else leading


@storable
@dataclass(frozen=True, eq=False)
class AnchoredMetric(DistanceMetric):
    """The immutable metric of AnchoredOAHU. Its squared distance is a weighted sum of squared distances in spaces.

    Four starting spaces need no feedback: cosine, centred cosine (after the mean of the catalogue is subtracted),
    Euclidean (divided by the spread of the catalogue), and the centred cosine after the catalogue is whitened. The
    fifth is the centred cosine after whitening by the differences of alike items. The learned spaces compare the
    directions of centred items after a learned map: one weight for each principal axis of the catalogue, a matrix,
    and a network.

    Attributes
    ----------
    arrays : SpaceArrays
        The arrays that define the spaces.
    metric_weights : ndarray of shape (8,)
        The weight of each space, in the order of `weighted_spaces`. The weights sum to 1.
    version : int
        Number of constraints that the learner had learned.

    Examples
    --------
    >>> import numpy as np
    >>> from oahu import AnchoredOAHU
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> metric = AnchoredOAHU(preprocessor=X, random_state=0).initialize(n_features=8).metric()
    >>> [space.name for space in metric.weighted_spaces][:4]
    ['cosine', 'centred cosine', 'Euclidean', 'catalogue-whitened']
    """

    arrays: SpaceArrays = field(repr=False)
    metric_weights: NDArray[np.float64]
    version: int

    rounding_depends_on_batch = True

    @classmethod
    def frozen(cls, arrays: SpaceArrays, metric_weights: NDArray[np.float64], version: int) -> AnchoredMetric:
        """Create a metric from read-only copies of the arrays."""
        return cls(SpaceArrays(*map(frozen_copy, arrays)), frozen_copy(metric_weights), version)

    @property
    def n_features(self) -> int:
        return self.arrays.mean.size

    @property
    def dimensions(self) -> int:
        """The length of the joint vector. Spaces without weight are not part of it."""
        return sum(size for size, weight in zip(self.arrays.sizes(), self.metric_weights, strict=True) if weight)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.arrays.mean.dtype

    @property
    def spaces(self) -> tuple[SingleSpace]:
        """A tuple of one space. Its vectors are the joint vectors of all `weighted_spaces`."""
        return (SingleSpace(self),)

    @property
    def for_verification(self) -> AnchoredMetric:
        """A copy of this metric for comparing pairs. The learned spaces have three times the relative weight.

        Search needs accurate distances between near items. The comparison of pairs with one threshold needs
        distances that are comparable between all items, and the learned spaces have such distances.
        """
        weights = self.metric_weights.copy()
        weights[N_ANCHORS:] *= _VERIFICATION_FACTOR
        return replace(self, metric_weights=frozen_copy(weights / weights.sum()))

    @property
    def weighted_spaces(self) -> tuple[AnchoredSpace, ...]:
        """The starting spaces and the learned spaces, each with its weight."""
        return tuple(AnchoredSpace(self, index) for index in range(len(SPACES)))

    def transform_checked(self, items: NDArray[Any]) -> Floats:
        return self._joint(items)

    def scores_to_first(self, items: Any, size: int) -> NDArray[np.float64]:
        scores = np.empty((size - 1, len(items) // size))
        step = size * _TUPLES
        for start in range(0, len(items), step):
            vectors = self._joint(items[start : start + step], start).reshape(-1, size, self.dimensions)
            apart = (vectors[:, :1] - vectors[:, 1:]).astype(np.float64)
            with np.errstate(over="ignore"):
                part = -np.sqrt(np.square(apart).sum(axis=2)).T
            scores[:, start // size : start // size + part.shape[1]] = part
        self._raise_tuple_overflow(scores, items, size)
        return scores

    def _joint(self, items: NDArray[Any], row: int = 0) -> Floats:
        """Return joint vectors: the concatenated vectors of all spaces, each scaled by the root of its weight.

        ``row`` is the row number of the first item, for error messages.
        """
        scales = np.sqrt(self.metric_weights).astype(self.dtype)
        joint = np.empty((len(items), self.dimensions), self.dtype)
        for first in range(0, len(items), _BLOCK):
            place, start = joint[first : first + _BLOCK], 0
            for vectors, scale in zip(
                self._vectors(items[first : first + _BLOCK], row + first, scales > 0), scales, strict=True
            ):
                if vectors is not None:
                    np.multiply(vectors, scale, out=place[:, start : start + vectors.shape[1]])
                    start += vectors.shape[1]
        return joint

    def _encoded(self, items: NDArray[Any], space: int) -> Floats:
        """Return the vectors of the items in one space."""
        wanted = np.arange(len(SPACES)) == space
        blocks = [self._vectors(items[i : i + _BLOCK], i, wanted)[space] for i in range(0, len(items), _BLOCK)]
        return np.concatenate(blocks)

    def _vectors(self, items: NDArray[Any], first: int, wanted: NDArray[np.bool_]) -> list[Any]:
        """Return the vectors of a block of items in each wanted space. ``first`` is the row number of item 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            vectors = self.arrays.vectors(items.astype(self.dtype, copy=False), wanted)
        for space in vectors:
            if space is not None:
                self._raise_overflow(~np.isfinite(space).all(axis=1), first)
        return vectors

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Support pickle and copy. The arrays of the copied metric are read-only too."""
        return AnchoredMetric.frozen, tuple(getattr(self, attribute.name) for attribute in fields(self))

    def _to_content(self) -> Content:
        return Content({"version": self.version}, {**self.arrays._asdict(), "metric_weights": self.metric_weights})

    @classmethod
    def _from_content(cls, content: Content) -> AnchoredMetric:
        axes = content.array("axes", (None, None))
        (d, n), dtype = axes.shape, axes.dtype
        if dtype not in (np.float32, np.float64):
            raise ValueError(f"its 'axes' entry must have the dtype float32 or float64, not {dtype}")
        h, r = content.array("hidden_bias", (None,)).size, content.array("linear_map", (None, None)).shape[0]
        shapes = ((d,), (1,), (d, n), (n,), (r, r), (n - r,), (n,), (r, r), (r, h), (h,), (h, r))
        arrays = SpaceArrays(
            *(content.array(name, shape, dtype) for name, shape in zip(SpaceArrays._fields, shapes, strict=True))
        )
        factors = arrays.gains, arrays.pair_gains, arrays.axis_weights
        if not arrays.spread[0] > 0 or min(each.min(initial=0) for each in factors) < 0:
            raise ValueError("its 'spread' entry must be positive, and its factors of axes must not be negative")
        return cls.frozen(arrays, unpack_weights(content, len(SPACES)), content.count("version"))


@dataclass(frozen=True, eq=False)
class AnchoredSpace:
    """One space of an anchored metric, with its weight."""

    metric: AnchoredMetric
    index: int

    @property
    def name(self) -> str:
        return SPACES[self.index]

    @property
    def weight(self) -> float:
        return float(self.metric.metric_weights[self.index])

    @property
    def dimensions(self) -> int:
        """The length of the vectors of this space."""
        return self.metric.arrays.sizes()[self.index]

    def encode(self, X: ArrayLike) -> Floats:
        """Encode items of shape (n_items, n_features) as vectors of shape (n_items, dimensions)."""
        return self.metric._encoded(self.metric._check(X), self.index)
