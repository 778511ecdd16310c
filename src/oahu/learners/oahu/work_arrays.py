"""Work arrays of OAHU's update step. Each thread reuses its arrays, because their creation takes time."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.learners.network.layers import Network, aligned_buffer

__all__ = ["WorkArrays", "work_arrays"]

Floats = NDArray[np.floating]

_thread = threading.local()


class WorkArrays(NamedTuple):
    """The work arrays for a network with L hidden layers.

    Attributes
    ----------
    levels : ndarray of shape (2, L + 1, 3, width)
        The outputs of each layer for the three items of a round, and the gradients of these outputs. The step does
        not change the padding, which is zero.
    hidden : ndarray of shape (L, 3, hidden_size)
        The outputs of the ReLUs.
    per_item : ndarray of shape (3,)
        The lengths of the embeddings of one expert, or the sums of the absolute gradients of one layer.
    active : ndarray of int, of shape (hidden_size,)
        The numbers of the active units of a layer.
    spare_row : ndarray of shape (n_features,)
        A work array of `update_then_project`.
    losses : ndarray of float64, of shape (L + 1,)
        The local losses.
    sums : ndarray of float64, of shape (2, L + 1, 3)
        The sums of the absolute inputs of each layer, and upper bounds of the lengths of the local gradients.
    """

    levels: Floats
    hidden: Floats
    per_item: Floats
    active: NDArray[np.intp]
    spare_row: Floats
    losses: NDArray[np.float64]
    sums: NDArray[np.float64]


def work_arrays(network: Network) -> WorkArrays:
    """Return the work arrays for a network. The next step in the same thread may use the same arrays."""
    key = network.shape, network.dtype
    latest, arrays = getattr(_thread, "latest", (None, None))
    if arrays is None or latest != key:
        arrays = _new_arrays(network)
        _thread.latest = key, arrays
    return arrays


def _new_arrays(network: Network) -> WorkArrays:
    d, L, H, _ = network.shape
    dtype: np.dtype[Any] = network.dtype
    shape = 2, L + 1, 3, network.middle.shape[2]
    levels = aligned_buffer(int(np.prod(shape)), dtype).reshape(shape)
    levels[...] = 0
    return WorkArrays(
        levels, np.zeros((L, 3, H), dtype), np.zeros(3, dtype), np.zeros(H, np.intp), np.zeros(d, dtype),
        np.zeros(L + 1), np.zeros((2, L + 1, 3)),
    )  # fmt: skip
