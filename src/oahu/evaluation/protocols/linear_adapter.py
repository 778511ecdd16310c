"""A linear adapter: a matrix that maps embeddings to new ones, trained offline on clicks by InfoNCE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Click
from oahu.evaluation.protocols.click_learning import query_vector
from oahu.metrics.metric import normalize_rows

__all__ = ["ClickBatch", "batch_of", "loss_and_gradient", "train_adapter"]

Floats = NDArray[np.floating]

_EPOCHS: Final = 10
_BATCH_SIZE: Final = 32  # clicks
_N_RANDOM: Final = 128  # random items of the catalogue per batch, which are taken for dissimilar
_LEARNING_RATE: Final = 1e-3
_TEMPERATURE: Final = 0.1
_DECAY: Final = (0.9, 0.999)  # of Adam
_EPSILON: Final = 1e-8


class ClickBatch(NamedTuple):
    """The items of several clicks, and the click of each item.

    Attributes
    ----------
    queries : ndarray of shape (n_clicks, n_features)
    positives : ndarray of shape (n_positives, n_features)
    negatives : ndarray of shape (n_negatives, n_features)
    click_of_positive, click_of_negative : ndarray of int
        Position of the click of each positive and of each negative.
    """

    queries: Floats
    positives: Floats
    negatives: Floats
    click_of_positive: NDArray[np.intp]
    click_of_negative: NDArray[np.intp]


def train_adapter(catalogue: Floats, clicks: Sequence[Click], rng: np.random.Generator) -> Floats:
    """Return a matrix W of shape (d, d), trained on all clicks from the identity matrix.

    An item x is mapped to W x, and then scaled to length 1. For each item that was marked as alike, the loss is
    InfoNCE: the negative log-probability of this item among itself, the negatives of its click, and 128 random
    items of the catalogue. Clicks without positives are not used. Adam runs for ten epochs over batches of 32
    clicks.

    Parameters
    ----------
    catalogue : ndarray of shape (n_items, d)
        Vectors of the items, of length 1.
    clicks : sequence of Click
        Clicks. The query of a click can be a row number or a vector of length 1.
    rng : Generator
        Source of the order of the clicks and of the random items.
    """
    matrix = np.eye(catalogue.shape[1], dtype=np.float32)
    used = [click for click in clicks if len(click.positives)]
    mean, square, step = np.zeros_like(matrix), np.zeros_like(matrix), 0
    for _ in range(_EPOCHS):
        order = rng.permutation(len(used))
        for start in range(0, len(used), _BATCH_SIZE):
            batch = batch_of([used[i] for i in order[start : start + _BATCH_SIZE]], catalogue)
            others = catalogue[rng.integers(len(catalogue), size=_N_RANDOM)]
            _, gradient = loss_and_gradient(matrix, batch, others, _TEMPERATURE)
            step += 1
            mean += (1 - _DECAY[0]) * (gradient - mean)
            square += (1 - _DECAY[1]) * (gradient**2 - square)
            size = _LEARNING_RATE * np.sqrt(1 - _DECAY[1] ** step) / (1 - _DECAY[0] ** step)
            matrix -= np.float32(size) * mean / (np.sqrt(square) + np.float32(_EPSILON))
    return matrix


def batch_of(clicks: Sequence[Click], catalogue: Floats) -> ClickBatch:
    """Return the vectors of the items of clicks."""
    queries = np.stack([query_vector(click, catalogue) for click in clicks])
    positives = [np.asarray(click.positives, np.intp) for click in clicks]
    negatives = [np.asarray(click.negatives, np.intp) for click in clicks]
    return ClickBatch(
        queries,
        catalogue[np.concatenate(positives)],
        catalogue[np.concatenate(negatives)],
        np.repeat(np.arange(len(clicks)), list(map(len, positives))),
        np.repeat(np.arange(len(clicks)), list(map(len, negatives))),
    )


def loss_and_gradient(matrix: Floats, batch: ClickBatch, others: Floats, temperature: float) -> tuple[float, Any]:
    """Return the mean InfoNCE loss of the positives of a batch, and its gradient with respect to the matrix."""
    n_queries, n_positives, n_negatives = (len(part) for part in batch[:3])
    inputs = np.concatenate([batch.queries, batch.positives, batch.negatives, others])
    mapped = inputs @ matrix.T
    vectors = normalize_rows(mapped)
    queries, items = vectors[:n_queries], vectors[n_queries:]
    scores = queries @ items.T / temperature
    click = batch.click_of_positive
    own = scores[click, np.arange(n_positives)]
    rest = scores[click, n_positives:]
    rest[:, :n_negatives][batch.click_of_negative != click[:, None]] = -np.inf
    highest = np.maximum(own, rest.max(axis=1))
    own_part, rest_part = np.exp(own - highest), np.exp(rest - highest[:, None])
    total = own_part + rest_part.sum(axis=1)
    loss = float(np.mean(np.log(total) + highest - own))
    # Derivatives with respect to the scores, then the vectors, then the mapped inputs.
    by_score = np.zeros_like(scores)
    by_score[click, np.arange(n_positives)] = own_part / total - 1
    np.add.at(by_score[:, n_positives:], click, rest_part / total[:, None])
    by_score /= n_positives * temperature
    by_vector = np.concatenate([by_score @ items, by_score.T @ queries])
    along = np.einsum("ij,ij->i", by_vector, vectors)[:, None] * vectors
    lengths = np.maximum(np.linalg.norm(mapped, axis=1), np.finfo(mapped.dtype).tiny)
    return loss, ((by_vector - along) / lengths[:, None]).T @ inputs
