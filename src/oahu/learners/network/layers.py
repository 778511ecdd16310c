"""The over-complete network: L hidden ReLU layers, and an embedding layer at every depth.

How the parameters lie in memory
--------------------------------
Layer W^(l+1) and embedding Theta^(l) read the same input h^(l), so they are stored side by side and one pass
serves both; E is the embedding size, H the hidden size, d the number of features:

- ``first``, (E + H, d): the rows of Theta^(0), then those of W^(1), one output a row. One pass applies the
  last round's update to a row and takes the next round's dot products with it.
- ``middle``, (L - 1, H, width): Theta^(l)^T beside W^(l+1)^T, l = 1 ... L - 1, one *input* a row. A unit that
  no instance of a triplet activates needs neither gradient nor update, and its row is passed over.
- ``last``, (H, last_width): Theta^(L)^T.

Rows of the last two are rounded up to whole 128-byte lines, and each part begins at one; the padding is zero and
stays zero. All parameters share one ``flat`` buffer, so that a copy of the model is one copy.

What leaves this file is the usual layout: lists of (out, in) matrices, layer by layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["INITIALIZATIONS", "Initialization", "Network", "Shape"]

Initialization = Literal["pytorch", "he", "orthogonal"]
Floats = NDArray[np.floating]

INITIALIZATIONS: tuple[Initialization, ...] = ("pytorch", "he", "orthogonal")

_LINE = 128  # bytes; whole lines leave no remainder to the vector loops


class Shape(NamedTuple):
    """The sizes of a network: d, L, S_hidden and S_emb of the paper."""

    n_features: int
    n_layers: int
    hidden_size: int
    embedding_size: int

    @property
    def hidden(self) -> list[tuple[int, int]]:
        """(out, in) of W^(1) ... W^(L)."""
        sizes = [self.n_features] + [self.hidden_size] * self.n_layers
        return [(out, into) for into, out in pairwise(sizes)]

    @property
    def embedding(self) -> list[tuple[int, int]]:
        """(out, in) of Theta^(0) ... Theta^(L)."""
        return [
            (self.embedding_size, self.hidden_size if level else self.n_features)
            for level in range(self.n_layers + 1)
        ]

    @property
    def n_parameters(self) -> int:
        """Weights and biases, without padding."""
        return sum(out * (into + 1) for out, into in self.hidden + self.embedding)


class Network:
    """The parameters of one network, laid out for the fused update."""

    def __init__(self, shape: Shape, dtype: DTypeLike, flat: Floats | None = None) -> None:
        """Create a network of zeros, or of a copy of another's ``flat``."""
        parts = _layout(shape, _LINE // np.dtype(dtype).itemsize)
        own = _aligned(parts[-1].stop_padded, np.dtype(dtype))
        own[...] = 0 if flat is None else flat
        self._view(shape, own)

    @classmethod
    def over(cls, shape: Shape, flat: Floats) -> Network:
        """Return a network whose parameters are views of ``flat``."""
        network = cls.__new__(cls)
        network._view(shape, flat)
        return network

    def _view(self, shape: Shape, flat: Floats) -> None:
        self.shape, self.dtype, self.flat = shape, flat.dtype, flat
        parts = _layout(shape, _LINE // flat.itemsize)
        self.first, self.first_bias, self.middle, self.middle_bias, self.last, self.last_bias = (
            flat[part.start : part.stop].reshape(part.shape) for part in parts
        )

    # -- the usual layout, as views: writing to them writes to the network ------------------------------

    @property
    def hidden_weights(self) -> list[Floats]:
        """W^(1) ... W^(L), each (out, in)."""
        E, L = self.shape.embedding_size, self.shape.n_layers
        above = [self.middle[i, :, E : E + self.shape.hidden_size].T for i in range(L - 1)]
        return [self.first[E:], *above] if L else []

    @property
    def hidden_biases(self) -> list[Floats]:
        E, L = self.shape.embedding_size, self.shape.n_layers
        above = [self.middle_bias[i, E : E + self.shape.hidden_size] for i in range(L - 1)]
        return [self.first_bias[E:], *above] if L else []

    @property
    def embedding_weights(self) -> list[Floats]:
        """Theta^(0) ... Theta^(L), each (out, in): the paper's Theta transposed."""
        E, L = self.shape.embedding_size, self.shape.n_layers
        between = [self.middle[i, :, :E].T for i in range(L - 1)]
        return [self.first[:E], *between, self.last[:, :E].T] if L else [self.first]

    @property
    def embedding_biases(self) -> list[Floats]:
        E, L = self.shape.embedding_size, self.shape.n_layers
        between = [self.middle_bias[i, :E] for i in range(L - 1)]
        return [self.first_bias[:E], *between, self.last_bias[:E]] if L else [self.first_bias]

    @property
    def layers(self) -> tuple[list[Floats], list[Floats], list[Floats], list[Floats]]:
        """Hidden weights and biases, embedding weights and biases."""
        return self.hidden_weights, self.hidden_biases, self.embedding_weights, self.embedding_biases

    def assign(self, *layers: Sequence[Floats]) -> None:
        """Copy parameters in the usual layout, in the order of `layers`, into this network."""
        for mine, given in zip(self.layers, layers, strict=True):
            for target, source in zip(mine, given, strict=True):
                if target.shape != source.shape:
                    raise ValueError(f"a layer of shape {target.shape} cannot take {source.shape}")
                target[...] = source

    def copy(self) -> Network:
        return Network(self.shape, self.dtype, self.flat)

    def __reduce__(self) -> tuple[type[Network], tuple[Shape, np.dtype[Any], Floats]]:
        return Network, (self.shape, self.dtype, self.flat)

    @classmethod
    def random(
        cls,
        shape: Shape,
        dtype: DTypeLike,
        rng: np.random.Generator,
        initialization: Initialization = "pytorch",
        bias: bool = True,
    ) -> Network:
        """A network drawn from ``rng``: the draws do not depend on ``dtype``.

        - ``"pytorch"``: weights and biases uniform in ±1/√in, as ``torch.nn.Linear`` starts;
        - ``"he"``: weights normal with variance 2/in, biases 0;
        - ``"orthogonal"``: rows (or columns, if there are more rows) orthonormal, biases 0.
        """
        network = cls(shape, dtype)
        layers = zip(
            network.hidden_weights + network.embedding_weights,
            network.hidden_biases + network.embedding_biases,
            strict=True,
        )
        for weights, biases in layers:
            out, into = weights.shape
            if initialization == "pytorch":
                bound = 1.0 / math.sqrt(into)
                weights[...] = rng.uniform(-bound, bound, (out, into))
                drawn = rng.uniform(-bound, bound, out)
                if bias:
                    biases[...] = drawn
            elif initialization == "he":
                weights[...] = rng.normal(0.0, math.sqrt(2.0 / into), (out, into))
            else:
                weights[...] = _orthogonal(rng, out, into)
        return network


def _stored(shape: Shape, line: int) -> list[tuple[int, ...]]:
    """The shapes of first, middle and last, each with its bias; widths padded to whole lines."""
    E, H, L = shape.embedding_size, shape.hidden_size, shape.n_layers
    width, last_width = _whole(E + H, line), _whole(E, line)
    rows, between = (E + H, L - 1) if L else (E, 0)
    return [
        (rows, shape.n_features),
        (rows,),
        (between, H, width),
        (between, width),
        (H if L else 0, last_width),
        (last_width if L else 0,),
    ]


class _Part(NamedTuple):
    """Where a part of the network lies in the flat buffer; the next part begins at ``stop_padded``."""

    start: int
    stop: int
    stop_padded: int
    shape: tuple[int, ...]


@lru_cache
def _layout(shape: Shape, line: int) -> tuple[_Part, ...]:
    """The parts of a network in the order of `_stored`, each beginning at a whole line."""
    parts, start = [], 0
    for stored in _stored(shape, line):
        size = math.prod(stored)
        parts.append(_Part(start, start + size, start + _whole(size, line), stored))
        start = parts[-1].stop_padded
    return tuple(parts)


def _whole(size: int, line: int) -> int:
    return -(-size // line) * line


def _aligned(size: int, dtype: np.dtype[Any]) -> Floats:
    """An uninitialised buffer that begins at a whole line: vector loads that straddle lines cost more."""
    buffer = np.empty(size * dtype.itemsize + _LINE, np.uint8)
    skip = -buffer.ctypes.data % _LINE
    return buffer[skip : skip + size * dtype.itemsize].view(dtype)


def _orthogonal(rng: np.random.Generator, out: int, into: int) -> NDArray[np.float64]:
    """A uniformly drawn matrix with orthonormal rows or columns, whichever are fewer (Haar measure)."""
    tall = rng.standard_normal((max(out, into), min(out, into)))
    q, r = np.linalg.qr(tall)
    q *= np.where(np.diag(r) < 0, -1.0, 1.0)
    return q if out >= into else q.T
