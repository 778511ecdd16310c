"""The arrays of an AnchoredOAHU model. They are grouped as in the update step (window_step.py)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.learners.network.layers import Network, Shape
from oahu.learners.state import Arrays

__all__ = [
    "ARRAY_NAMES",
    "CENTRED",
    "GAINS",
    "ITEMS",
    "N_SEEN",
    "PAIR_VARIANCE",
    "SQUARED_LENGTH",
    "SQUARES",
    "UNLEARNED_DISTANCE",
    "WHITENED",
    "EncoderState",
    "NetworkParameters",
    "StreamStatistics",
    "Window",
    "empty_arrays",
    "network_shape",
    "scatter_rank",
]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]

#: The entries of `StreamStatistics.scalars`: constraints seen, the mean of ||a - p||^2 / 2, the mean of ||x||^2.
N_SEEN: Final = 0
PAIR_VARIANCE: Final = 1
SQUARED_LENGTH: Final = 2

#: The entries of `EncoderState.mean_squares`: the mean squared length of items, of centred items and of whitened
#: items, and the mean squared distance in the unlearned space.
ITEMS: Final = 0
CENTRED: Final = 1
WHITENED: Final = 2
UNLEARNED_DISTANCE: Final = 3

#: The rows of the array "evidence": the sum of the gains of each space, and the sum of the squared gains.
GAINS: Final = 0
SQUARES: Final = 1

_MAX_RANK = 64


class NetworkParameters(NamedTuple):
    """The parameters of a network, in the memory layout of network/layers.py."""

    first: Floats
    first_bias: Floats
    middle: Floats
    middle_bias: Floats
    last: Floats
    last_bias: Floats


class StreamStatistics(NamedTuple):
    """Statistics of all constraints so far.

    They consist of three scalars, the mean of the items, and the scatter of similar pairs: its leading directions
    and their variances (whitening.py).
    """

    scalars: Doubles
    mean: Doubles
    directions: Floats
    variances: Doubles


class EncoderState(NamedTuple):
    """The parameters of the encoder, which computes the whitened items and the inputs of the experts.

    They change only when a window is full.
    """

    mean: Floats
    directions: Floats
    gains: Doubles
    mean_squares: Doubles


class Window(NamedTuple):
    """The current window: a group of consecutive constraints on which the experts are trained together.

    It stores the items of the constraints, the coordinates of the items along the directions of the scatter, and
    the outputs of all layers for these items.
    """

    items: Floats
    coordinates: Floats
    first_outputs: Floats
    middle_outputs: Floats
    last_outputs: Floats


#: The names of the arrays of a model, in the order of the arguments of the update step.
ARRAY_NAMES: Final = (
    *NetworkParameters._fields,
    *(f"stream_{name}" for name in StreamStatistics._fields),
    *(f"encoder_{name}" for name in EncoderState._fields),
    *Window._fields,
    "evidence",
)


def scatter_rank(n_features: int) -> int:
    """Return r, the number of directions that are stored for the scatter of similar pairs.

    All other directions share one variance (whitening.py).
    """
    return max(1, min(_MAX_RANK, n_features // 2))


def empty_arrays(shape: Shape, window: int, dtype: np.dtype[Any]) -> Arrays:
    """Return the arrays of a model before the first constraint. All network parameters are 0."""
    d, r, m = shape.n_features, scatter_rank(shape.n_features), 3 * window
    network = Network(shape, dtype)
    groups = (
        [getattr(network, name).copy() for name in NetworkParameters._fields],
        StreamStatistics(np.zeros(3), np.zeros(d), np.zeros((r, d), dtype), np.zeros(r)),
        EncoderState(
            np.zeros(d, dtype), np.zeros((r, d), dtype), np.ones(r + 1), np.array([d, d, d, 0], np.float64)
        ),
        Window(
            items=np.zeros((m, d), dtype),
            coordinates=np.zeros((m, r), dtype),
            first_outputs=np.zeros((m, len(network.first)), dtype),
            middle_outputs=np.zeros((len(network.middle), m, network.middle.shape[2]), dtype),
            last_outputs=np.zeros((m, network.last.shape[1]), dtype),
        ),
        [np.zeros((2, shape.n_layers + 3))],
    )
    arrays = [array for group in groups for array in group]
    return dict(zip(ARRAY_NAMES, arrays, strict=True))


def network_shape(arrays: Arrays) -> Shape:
    """Return the sizes of a model's network, as given by the shapes of its arrays.

    The function does not use the learner's parameters, because they may have changed since the model was created.
    """
    n_features, n_layers = arrays["items"].shape[1], arrays["evidence"].shape[1] - 3
    hidden_size = arrays["middle"].shape[1]
    return Shape(n_features, n_layers, hidden_size, len(arrays["first"]) - (hidden_size if n_layers else 0))
