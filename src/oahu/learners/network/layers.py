"""The network of OAHU: L hidden ReLU layers, and an embedding layer at every depth.

Memory layout
-------------
Layer W^(l+1) and embedding layer Theta^(l) have the same input h^(l). They are stored side by side, so that one
pass computes the outputs of both layers. E is the embedding size, H the hidden size, d the number of features:

- ``first``, of shape (E + H, d): the rows of Theta^(0), then the rows of W^(1). Each row belongs to one output.
  One pass applies the previous round's update to a row and computes the next round's dot products with this row.
- ``middle``, of shape (L - 1, H, width): Theta^(l)^T beside W^(l+1)^T, l = 1 ... L - 1. Each row belongs to one
  *input*. If a unit is inactive for all items of a triplet, its row has no gradient and is skipped.
- ``last``, of shape (H, last_width): Theta^(L)^T.

The rows of ``middle`` and ``last`` are padded to multiples of 128 bytes, and each part starts at such a multiple.
The padding is always zero. All parameters are stored in one buffer, ``flat``, so that a network is copied in one
operation.

The properties of `Network` return the usual layout: one weight matrix of shape (n_outputs, n_inputs) per layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["INITIALIZATIONS", "Initialization", "Network", "Shape", "aligned_buffer"]

Initialization = Literal["pytorch", "he", "orthogonal"]
Floats = NDArray[np.floating]

INITIALIZATIONS: tuple[Initialization, ...] = ("pytorch", "he", "orthogonal")

_LINE = 128  # bytes; rows of whole lines need no scalar loop for the remaining entries


class Shape(NamedTuple):
    """The sizes of a network. In the paper, they are called d, L, S_hidden and S_emb."""

    n_features: int
    n_layers: int
    hidden_size: int
    embedding_size: int

    @property
    def hidden(self) -> list[tuple[int, int]]:
        """The shapes (n_outputs, n_inputs) of the weight matrices W^(1) ... W^(L)."""
        sizes = [self.n_features] + [self.hidden_size] * self.n_layers
        return [(out, into) for into, out in pairwise(sizes)]

    @property
    def embedding(self) -> list[tuple[int, int]]:
        """The shapes (n_outputs, n_inputs) of the weight matrices Theta^(0) ... Theta^(L)."""
        return [
            (self.embedding_size, self.hidden_size if level else self.n_features)
            for level in range(self.n_layers + 1)
        ]

    @property
    def n_parameters(self) -> int:
        """The number of weights and biases, without padding."""
        return sum(out * (into + 1) for out, into in self.hidden + self.embedding)


class Network:
    """The parameters of one network, in the memory layout of the compiled update steps."""

    def __init__(self, shape: Shape, dtype: DTypeLike, flat: Floats | None = None) -> None:
        """Create a network of zeros, or a network with a copy of the buffer ``flat``."""
        parts = _layout(shape, _LINE // np.dtype(dtype).itemsize)
        own = aligned_buffer(parts[-1].stop_padded, np.dtype(dtype))
        own[...] = 0 if flat is None else flat
        self._view(shape, own)

    @classmethod
    def from_flat(cls, shape: Shape, flat: Floats) -> Network:
        """Return a network that uses ``flat`` as its buffer, without copying it."""
        network = cls.__new__(cls)
        network._view(shape, flat)
        return network

    def _view(self, shape: Shape, flat: Floats) -> None:
        self.shape, self.dtype, self.flat = shape, flat.dtype, flat
        parts = _layout(shape, _LINE // flat.itemsize)
        self.first, self.first_bias, self.middle, self.middle_bias, self.last, self.last_bias = (
            flat[part.start : part.stop].reshape(part.shape) for part in parts
        )

    # -- views in the usual layout: writing to a view changes the network --------------------------------

    @property
    def hidden_weights(self) -> list[Floats]:
        """The weight matrices W^(1) ... W^(L), each of shape (n_outputs, n_inputs)."""
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
        """The weight matrices Theta^(0) ... Theta^(L), each of shape (n_outputs, n_inputs).

        In the paper, Theta is the transpose of these matrices.
        """
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
        """Hidden weights, hidden biases, embedding weights and embedding biases, as views of the buffer."""
        return self.hidden_weights, self.hidden_biases, self.embedding_weights, self.embedding_biases

    def assign(self, *layers: Sequence[Floats]) -> None:
        """Copy parameters into this network. They must have the same order and shapes as the result of `layers`."""
        for targets, sources in zip(self.layers, layers, strict=True):
            for target, source in zip(targets, sources, strict=True):
                if target.shape != source.shape:
                    raise ValueError(f"a layer must have shape {target.shape}, not {source.shape}")
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
        """Return a network with random weights. Apart from rounding, the weights do not depend on ``dtype``.

        ``initialization`` selects the distribution:

        - ``"pytorch"``: weights and biases uniform in ±1/√n_inputs, like ``torch.nn.Linear``;
        - ``"he"``: weights normal with variance 2/n_inputs, biases 0;
        - ``"orthogonal"``: weights with orthonormal rows, or orthonormal columns if a matrix has more rows than
          columns; biases 0.
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


def _part_shapes(shape: Shape, line: int) -> list[tuple[int, ...]]:
    """Return the padded shapes of ``first``, ``middle`` and ``last``, each followed by the shape of its bias."""
    E, H, L = shape.embedding_size, shape.hidden_size, shape.n_layers
    width, last_width = _round_up(E + H, line), _round_up(E, line)
    rows, between = (E + H, L - 1) if L else (E, 0)
    return [
        (rows, shape.n_features),
        (rows,),
        (between, H, width),
        (between, width),
        (H if L else 0, last_width),
        (last_width if L else 0,),
    ]


class _BufferPart(NamedTuple):
    """The location and shape of one array in the flat buffer. The next array starts at ``stop_padded``."""

    start: int
    stop: int
    stop_padded: int
    shape: tuple[int, ...]


@lru_cache
def _layout(shape: Shape, line: int) -> tuple[_BufferPart, ...]:
    """Return the location and shape of each array in the flat buffer, in the order of `_part_shapes`.

    Each array starts at a multiple of ``line`` entries.
    """
    parts, start = [], 0
    for part_shape in _part_shapes(shape, line):
        size = math.prod(part_shape)
        parts.append(_BufferPart(start, start + size, start + _round_up(size, line), part_shape))
        start = parts[-1].stop_padded
    return tuple(parts)


def _round_up(size: int, line: int) -> int:
    return -(-size // line) * line


def aligned_buffer(size: int, dtype: np.dtype[Any]) -> Floats:
    """Return an uninitialised buffer that starts at a multiple of 128 bytes, because unaligned loads are slower."""
    buffer = np.empty(size * dtype.itemsize + _LINE, np.uint8)
    skip = -buffer.ctypes.data % _LINE
    return buffer[skip : skip + size * dtype.itemsize].view(dtype)


def _orthogonal(rng: np.random.Generator, out: int, into: int) -> NDArray[np.float64]:
    """Return a random, Haar-distributed matrix with orthonormal rows.

    If the matrix has more rows than columns, its columns are orthonormal instead.
    """
    tall = rng.standard_normal((max(out, into), min(out, into)))
    q, r = np.linalg.qr(tall)
    q *= np.where(np.diag(r) < 0, -1.0, 1.0)
    return q if out >= into else q.T
