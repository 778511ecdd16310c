"""A new background for a model: what was learned along the old axes is expressed along the new axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from oahu.learners.anchored.background import Background
from oahu.learners.anchored.experts import Adam
from oahu.learners.anchored.groups import Groups
from oahu.learners.anchored.model import Experts, Model
from oahu.learners.anchored.pair_whitening import PairWhitening
from oahu.learners.anchored.training_round import Read

__all__ = ["with_new_background"]

_BLOCK = 256  # groups whose features are in memory at the same time


def with_new_background(
    model: Model, background: Background, n_items: int, learned: Sequence[Groups], read: Read
) -> Model:
    """Return the model for a new background. The averages of the gradients start again.

    Parameters
    ----------
    n_items : int
        The number of items from which the background was estimated.
    learned : sequence of Groups
        The stored groups that have been learned.
    """
    progress = model.progress._replace(n_background=n_items, n_steps=0)
    new = Model.with_background(background, progress, model.seed)
    turn = background.axes.T @ model.background.axes
    old, started = model.experts, new.experts
    if turn.shape[1]:
        r, old_r = background.n_leading, model.background.n_leading
        leading = turn[:r, :old_r]
        old_map = old.linear_map.values - np.eye(old_r, dtype=turn.dtype)
        values = (
            np.square(turn) @ old.log_axis_weights.values,
            started.linear_map.values + leading @ old_map @ leading.T,
            leading @ old.hidden_weights.values,
            old.hidden_bias.values,
            old.output_weights.values @ leading.T,
        )
        new = new._replace(experts=Experts(*map(Adam.start, values)))
    return new._replace(evidence=model.evidence, whitening=_whitening(new, learned, read))


def _whitening(model: Model, learned: Sequence[Groups], read: Read) -> PairWhitening:
    """Return the pair whitening of the stored groups along the axes of a model."""
    n_axes, r = model.background.axes.shape[1], model.background.n_leading
    start = PairWhitening.start(r, n_axes - r, model.background.axes.dtype)
    whitening = start._replace(next_at=np.inf)
    for groups in _blocks(learned):
        items = groups.pad(model.spaces.inputs(read([groups], 0, np.random.default_rng(0))))
        whitening = whitening.add(items, groups.padded_marks(), groups.weights)
    if whitening.n_pairs < start.next_at:
        return whitening._replace(next_at=start.next_at)
    return whitening.decomposed()


def _blocks(batches: Sequence[Groups]) -> Iterator[Groups]:
    """Yield the groups of all batches in blocks of 256 groups.

    The blocks do not depend on the batches, because a learner that was loaded has its groups in a single batch, and
    sums in another order have other rounding errors.
    """
    if batches:
        groups = Groups.joined(batches)
        for start in range(0, len(groups), _BLOCK):
            yield groups.cut(start, start + _BLOCK)
