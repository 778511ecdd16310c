"""AnchoredOAHU's metric: a weighted sum of squared distances in the unlearned, whitened and expert spaces."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import Content, nested_model, storable, with_nested_model
from oahu.metrics.ensemble_metric import EnsembleMetric, unpack_weights
from oahu.metrics.metric import DistanceMetric, SingleSpace, frozen_copy

__all__ = ["AnchoredMetric", "AnchoredSpace"]

Floats = NDArray[np.floating]

_VERIFICATION_FACTOR = 8.0  # the experts' weights are multiplied by this factor to compare pairs
_MIN_FEATURES = 4  # from this number of features on, pairs are compared by direction alone
_TUPLES = 128  # pairs or triplets scored at a time
_BLOCK = 2048  # items encoded at a time
_ITEMS, _CENTRED, _WHITENED = 0, 1, 2  # the entries of `AnchoredMetric.softening`


@storable
@dataclass(frozen=True, eq=False)
class AnchoredMetric(DistanceMetric):
    """The immutable metric of AnchoredOAHU: the unlearned distance combined with the learned distances.

    ``D^2 = w_0 D_0^2 + w_1 D_white^2 + sum_l w_(l+2) ||f_l(a) - f_l(b)||^2``. D_0, the unlearned distance, is the
    Euclidean distance between items divided by softened lengths. The softened length of an item x is sqrt(||x||^2 +
    c) with a constant c from ``softening``. With many features, c is negligible, and D_0 compares only the
    directions of items. With few features, D_0 also compares their lengths. D_white is the same distance after the
    items are whitened with the scatter of similar pairs, the mean of (a - p)(a - p)^T / 2 over similar pairs (a,
    p). f_l(a) is the unit vector of item a in the space of expert E_l, and w contains the weights of all spaces.

    Attributes
    ----------
    mean : ndarray of shape (d,)
        The mean of the items. The whitened space and the experts use centred items: items minus this mean.
    directions : ndarray of shape (r, d)
        The leading directions of the scatter of similar pairs.
    gains : ndarray of shape (r + 1,)
        The scale factor of each of the r leading directions in the whitened space. The last entry is the scale
        factor of all other directions.
    softening : ndarray of shape (3,)
        The constants c of the softened lengths, one each for items, centred items and whitened items.
    experts : EnsembleMetric
        The experts E_0 ... E_L. Their inputs are centred items divided by their softened lengths, times sqrt(d).
    metric_weights : ndarray of shape (L + 3,)
        The weight of each space, in the order unlearned, whitened, E_0 ... E_L. The weights sum to 1.
    version : int
        Number of constraints that the learner had learned.

    Examples
    --------
    >>> import numpy as np
    >>> from oahu import AnchoredOAHU
    >>> metric = AnchoredOAHU(n_layers=1, random_state=0).initialize(n_features=4).metric()
    >>> [(space.name, space.weight) for space in metric.weighted_spaces]
    [('unlearned', 1.0), ('whitened', 0.0), ('E_0', 0.0), ('E_1', 0.0)]
    """

    mean: Floats = field(repr=False)
    directions: Floats = field(repr=False)
    gains: NDArray[np.float64] = field(repr=False)
    softening: NDArray[np.float64] = field(repr=False)
    experts: EnsembleMetric = field(repr=False)
    metric_weights: NDArray[np.float64]
    version: int

    diameter = 2.0
    rounding_depends_on_batch = True

    @classmethod
    def frozen(
        cls,
        mean: Floats,
        directions: Floats,
        gains: NDArray[np.float64],
        softening: NDArray[np.float64],
        experts: EnsembleMetric,
        metric_weights: NDArray[np.float64],
        version: int,
    ) -> AnchoredMetric:
        """Create a metric from read-only copies of the arrays."""
        return cls(
            frozen_copy(mean),
            frozen_copy(directions),
            frozen_copy(gains),
            frozen_copy(softening),
            experts,
            frozen_copy(metric_weights),
            version,
        )

    @property
    def n_features(self) -> int:
        return self.mean.size

    @property
    def dimensions(self) -> int:
        return 2 * self.n_features + self.experts.dimensions

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.mean.dtype

    @property
    def spaces(self) -> tuple[SingleSpace]:
        """A tuple of one space. Its vectors are the joint vectors of all `weighted_spaces`."""
        return (SingleSpace(self),)

    @property
    def for_verification(self) -> AnchoredMetric:
        """A copy of this metric for comparing pairs.

        In the copy, the weights of the experts relative to the other spaces are eight times as large.

        Search needs accurate distances between near items. The experts can make these distances worse. The
        comparison of pairs with one threshold needs distances that are comparable between all items. The experts
        learn such distances. If there are at least 4 features, the unlearned space of the copy ignores the lengths
        of items. In this case, lengths did not improve the comparison on any data set.
        """
        weights = self.metric_weights.copy()
        weights[2:] *= _VERIFICATION_FACTOR
        softening = self.softening.copy()
        if self.n_features >= _MIN_FEATURES:
            softening[_ITEMS] = 0.0
        return replace(self, metric_weights=frozen_copy(weights / weights.sum()), softening=frozen_copy(softening))

    @property
    def weighted_spaces(self) -> tuple[AnchoredSpace, ...]:
        """The unlearned space, the whitened space and the experts from shallow to deep, each with its weight."""
        return tuple(AnchoredSpace(self, index) for index in range(len(self.metric_weights)))

    def transform_checked(self, items: NDArray[Any]) -> Floats:
        return self._joint(items)

    def scores_to_first(self, items: Any, size: int) -> NDArray[np.float64]:
        scores = np.empty((size - 1, len(items) // size))
        step = size * _TUPLES
        for start in range(0, len(items), step):
            vectors = self._joint(items[start : start + step], start).reshape(-1, size, self.dimensions)
            apart = (vectors[:, :1] - vectors[:, 1:]).astype(np.float64)
            part = -np.sqrt(np.square(apart).sum(axis=2)).T
            scores[:, start // size : start // size + part.shape[1]] = part
        return scores

    def _joint(self, items: NDArray[Any], row: int = 0) -> Floats:
        """Return joint vectors: the concatenated vectors of all spaces, each scaled by the root of its weight.

        ``row`` is the row number of the first item, for error messages.
        """
        d, e = self.n_features, self.experts.embedding_weights[0].shape[0]
        scales = np.sqrt(self.metric_weights).astype(self.dtype)
        joint: Floats = np.zeros((len(items), self.dimensions), self.dtype)
        starts = [0, d, *range(2 * d, self.dimensions, e)]
        for first in range(0, len(items), _BLOCK):
            block = items[first : first + _BLOCK]
            places = joint[first : first + _BLOCK]
            for start, vectors, scale in zip(
                starts, self._block(block, row + first, scales > 0), scales, strict=True
            ):
                if vectors is not None:
                    np.multiply(vectors, scale, out=places[:, start : start + vectors.shape[1]])
        return joint

    def _encoded(self, items: NDArray[Any]) -> list[Floats]:
        """Return the vectors of the items in each space."""
        wanted = np.ones(len(self.metric_weights), bool)
        blocks = [self._block(items[i : i + _BLOCK], i, wanted) for i in range(0, len(items), _BLOCK)]
        return [np.concatenate([block[space] for block in blocks]) for space in range(len(wanted))]

    def _block(self, items: NDArray[Any], first: int, wanted: NDArray[np.bool_]) -> list[Any]:
        """Return the vectors of a block of items in each space that ``wanted`` marks, and None for other spaces.

        ``first`` is the row number of the first item, for error messages.
        """
        items = items.astype(self.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            spaces: list[Any] = [self._softened(items, _ITEMS) if wanted[0] else None]
            if wanted[1:].any():
                centred = items - self.mean
                spaces += [self._softened(self._whitened(centred), _WHITENED) if wanted[1] else None]
            else:
                spaces += [None]
            if wanted[2:].any():
                inputs = self._softened(centred, _CENTRED)
                inputs *= self.dtype.type(np.sqrt(self.n_features))
                inputs[~np.isfinite(inputs).all(axis=1)] = np.nan
        for space in spaces:
            if space is not None:
                self._raise_overflow(~np.isfinite(space).all(axis=1), first)
        if not wanted[2:].any():
            return spaces + [None] * (len(wanted) - 2)
        return spaces + list(self.experts.embed_checked(inputs))

    def _whitened(self, centred: Floats) -> Floats:
        rest = self.gains[-1]
        along = centred @ self.directions.T
        along *= (self.gains[:-1] - rest).astype(self.dtype)
        whitened: Floats = along @ self.directions
        whitened += centred * self.dtype.type(rest)
        return whitened

    def _softened(self, vectors: Floats, kind: int) -> Floats:
        """Divide each vector x by its softened length sqrt(||x||^2 + c). c is entry ``kind`` of ``softening``."""
        squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        lengths = np.sqrt(squares + self.softening[kind])
        lengths[~np.isfinite(lengths)] = np.nan
        softened: Floats = vectors / np.where(lengths == 0, 1, lengths)[:, None].astype(self.dtype)
        return softened

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Support pickle and copy. The arrays of the copied metric are read-only too."""
        return AnchoredMetric.frozen, tuple(getattr(self, attribute.name) for attribute in fields(self))

    def _to_content(self) -> Content:
        names = ("mean", "directions", "gains", "softening", "metric_weights")
        content = Content({"version": self.version}, {name: getattr(self, name) for name in names})
        return with_nested_model(content, "experts", self.experts)

    @classmethod
    def _from_content(cls, content: Content) -> AnchoredMetric:
        experts = nested_model(content, "experts")
        if not isinstance(experts, EnsembleMetric):
            raise ValueError(f"its 'experts' entry must be an EnsembleMetric, not a {type(experts).__name__}")
        d, dtype = experts.n_features, experts.dtype
        directions = content.array("directions", (None, d), dtype)
        weights = unpack_weights(content, len(experts.metric_weights) + 2)
        gains = content.array("gains", (len(directions) + 1,), np.float64)
        softening = content.array("softening", (3,), np.float64)
        if min(gains.min(), softening.min()) < 0:
            raise ValueError("its 'gains' and 'softening' entries must not be negative")
        mean = content.array("mean", (d,), dtype)
        return cls.frozen(mean, directions, gains, softening, experts, weights, content.count("version"))


@dataclass(frozen=True, eq=False)
class AnchoredSpace:
    """One space of an anchored metric, with its weight."""

    metric: AnchoredMetric
    index: int

    @property
    def name(self) -> str:
        return ("unlearned", "whitened")[self.index] if self.index < 2 else f"E_{self.index - 2}"

    @property
    def weight(self) -> float:
        return float(self.metric.metric_weights[self.index])

    @property
    def dimensions(self) -> int:
        """The length of the vectors of this space."""
        metric = self.metric
        return metric.n_features if self.index < 2 else metric.experts.spaces[self.index - 2].dimensions

    def encode(self, X: ArrayLike) -> Floats:
        """Encode items of shape (n_items, n_features) as vectors of shape (n_items, dimensions)."""
        return self.metric._encoded(self.metric._check(X))[self.index]
