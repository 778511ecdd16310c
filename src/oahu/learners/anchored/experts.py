"""The experts that are trained by gradient steps: weights of axes, a linear map and a network."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.learners.anchored.click_loss import loss_gradient
from oahu.metrics.anchored_metric import with_leading
from oahu.metrics.metric import normalize_rows

__all__ = ["Adam", "Batch", "axis_gradient", "linear_gradient", "network_gradients"]

Floats = NDArray[np.floating]

_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8  # the usual constants of Adam


class Batch(NamedTuple):
    """The marks of groups and random items, for the loss.

    Attributes
    ----------
    inputs : ndarray of shape (n * m + n_random, R)
        The items of n groups of m items, then the random items, as unit vectors along the principal axes.
    scaled : ndarray of shape (n * m + n_random, R)
        The inputs of the linear map and of the network for the same items.
    marks : ndarray of shape (n, m)
        The marks of the items. The mark of padding is 0.
    pairs : ndarray of shape (n, m, m)
        The weights of pairs of alike items (click_loss.py). Their sum over all groups is at most 1.
    temperature : float
    """

    inputs: Floats
    scaled: Floats
    marks: Floats
    pairs: Floats
    temperature: float


class Adam(NamedTuple):
    """A parameter array and its averages of gradients and of squared gradients (Kingma and Ba, ICLR 2015)."""

    values: Floats
    means: Floats
    squares: Floats

    @classmethod
    def start(cls, values: Floats) -> Adam:
        return cls(values, np.zeros_like(values), np.zeros_like(values))

    def step(self, gradient: Floats, rate: float, n_steps: int) -> Adam:
        """Return the arrays after one step. ``n_steps`` is the number of steps including this one.

        The method changes ``gradient``.
        """
        means = self.means * _DECAY
        means += (1 - _DECAY) * gradient
        squares = self.squares * _SQUARE_DECAY
        np.square(gradient, out=gradient)
        gradient *= 1 - _SQUARE_DECAY
        squares += gradient
        np.sqrt(squares, out=gradient)
        gradient /= math.sqrt(1 - _SQUARE_DECAY**n_steps)
        gradient += _EPSILON
        np.divide(means, gradient, out=gradient)
        gradient *= -rate / (1 - _DECAY**n_steps)
        gradient += self.values
        return Adam(gradient, means, squares)


def axis_gradient(batch: Batch, logarithms: Floats) -> Floats:
    """Return the gradient for the logarithms of the axes' weights."""
    outputs = batch.inputs * np.exp(logarithms)
    return np.asarray(np.einsum("ij,ij->j", _output_gradient(outputs, batch), outputs))


def linear_gradient(batch: Batch, matrix: Floats) -> Floats:
    """Return the gradient for the matrix of the linear map."""
    leading, rest = _split(batch, len(matrix))
    gradient = _output_gradient(with_leading(leading @ matrix.T, rest), batch)[:, : len(matrix)]
    return np.asarray(gradient.T @ leading)


def network_gradients(batch: Batch, hidden: Floats, bias: Floats, output: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the gradients for the hidden weights, the bias and the output weights of the network."""
    leading, rest = _split(batch, len(hidden))
    units = np.maximum(leading @ hidden + bias, 0)
    gradient = _output_gradient(with_leading(leading + units @ output, rest), batch)[:, : len(hidden)]
    at_units = gradient @ output.T
    at_units *= units > 0
    return leading.T @ at_units, at_units.sum(axis=0), units.T @ gradient


def _split(batch: Batch, n_leading: int) -> tuple[Floats, Floats]:
    """Return the inputs of the linear map and of the network, along the leading axes and along the other axes."""
    return batch.scaled[:, :n_leading], batch.scaled[:, n_leading:]


def _output_gradient(outputs: Floats, batch: Batch) -> Floats:
    """Return the gradient of the mean loss of a batch for outputs, which are scaled to unit length in the loss."""
    n, m = batch.marks.shape
    vectors: Any = normalize_rows(outputs)
    lengths = np.sqrt(np.einsum("ij,ij->i", outputs, outputs))
    gradient: Floats = np.empty_like(vectors)
    own, random = loss_gradient(
        vectors[: n * m].reshape(n, m, -1), vectors[n * m :], batch.marks, batch.pairs, batch.temperature
    )
    gradient[: n * m], gradient[n * m :] = own.reshape(n * m, -1), random
    gradient -= np.einsum("ij,ij->i", gradient, vectors)[:, None] * vectors
    gradient /= np.where(lengths > 0, lengths, 1)[:, None]
    return gradient
