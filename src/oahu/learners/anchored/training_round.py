"""One round of learning: evidence from new groups, whitening, and steps of the experts on new and stored groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.learners.anchored.click_loss import pair_weights
from oahu.learners.anchored.experts import Adam, Batch, axis_gradient, linear_gradient, network_gradients
from oahu.learners.anchored.groups import Group, PaddedGroups, padded
from oahu.learners.anchored.model import Model
from oahu.metrics.anchored_metric import N_STARTING, SPACES

__all__ = ["Settings", "learn_round"]

Floats = NDArray[np.floating]

_ALL_SPACES: Final = np.ones(len(SPACES), bool)


class Settings(NamedTuple):
    """The parameters of the learner that a round needs."""

    learning_rate: float
    temperature: float
    prior: float
    n_random: int
    batch_size: int


#: Reads the features of groups' items, one row for each item of each group, then of n random items.
Read = Callable[[Sequence[Group], int, np.random.Generator], Floats]


def learn_round(
    model: Model, stored: Sequence[Group], n_extra: int, settings: Settings, read: Read
) -> Model:
    """Return the model after a round.

    Parameters
    ----------
    stored : sequence of Group
        The stored groups, oldest first. The last ``n_pending`` groups are new.
    n_extra : int
        The number of further batches, which are drawn from all stored groups.
    """
    rng = np.random.default_rng([*model.seed, model.progress.n_rounds])
    n_new = model.progress.n_pending
    new, old = list(stored[len(stored) - n_new :]), stored[: len(stored) - n_new]
    n_old = min(max(settings.batch_size - n_new, 0) if n_new <= settings.batch_size else n_new, len(old))
    batch = new + [old[i] for i in _draw(len(old), n_old, rng)]
    values = read(batch, settings.n_random, rng)
    progress = model.progress._replace(
        n_learned=model.progress.n_learned + n_new, n_pending=0, n_rounds=model.progress.n_rounds + 1, credit=0.0
    )
    model = _with_new_groups(model, padded(batch), n_new, values)._replace(progress=progress)
    model = _step(model, padded(batch), values, settings)
    for _ in range(n_extra):
        batch = [stored[i] for i in _draw(len(stored), min(settings.batch_size, len(stored)), rng)]
        model = _step(model, padded(batch), read(batch, settings.n_random, rng), settings)
    return model


def _draw(n: int, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return ``size`` random numbers below ``n``, or all of them if there are no more."""
    return rng.integers(n, size=size) if size < n else np.arange(size)


def _with_new_groups(model: Model, groups: PaddedGroups, n_new: int, values: Floats) -> Model:
    """Return the model with the evidence and the whitening of the new groups, the first groups of the batch."""
    n_items, n_all = int(groups.sizes[:n_new].sum()), int(groups.sizes.sum())
    new = PaddedGroups(*(array[:n_new] for array in groups))
    spaces = model.spaces
    items, random = values[:n_items], values[n_all:]
    vectors = spaces.vectors(np.concatenate([items, random]), _ALL_SPACES)
    padded_spaces = [
        np.concatenate([_flat(new.pad(space[:n_items])), space[n_items:]]) for space in vectors
    ]
    evidence = model.evidence.add(padded_spaces, new)
    whitening = model.whitening
    if spaces.axes.shape[1]:
        whitening = whitening.add(new.pad(spaces.inputs(items)), new.marks, new.weights)
    return model._replace(evidence=evidence, whitening=whitening)


def _step(model: Model, groups: PaddedGroups, values: Floats, settings: Settings) -> Model:
    """Return the model after one step of each expert."""
    spaces, n_all = model.spaces, int(groups.sizes.sum())
    r = spaces.axes.shape[1]
    if not r:
        return model
    inputs = spaces.inputs(values)
    whitened = np.asarray(spaces.whitened(inputs))
    both = [np.concatenate([_flat(groups.pad(part[:n_all])), part[n_all:]]) for part in (inputs, whitened)]
    pairs = pair_weights(groups.marks) * (groups.weights / len(groups.weights))[:, None, None]
    batch = Batch(both[0], both[1], groups.marks, pairs.astype(inputs.dtype), settings.temperature)
    n, t = model.progress.n_learned, model.progress.n_steps + 1
    prior, rate = settings.prior / n, settings.learning_rate / r

    def stepped(expert: Adam, gradient: Floats, start: Any, rate: float) -> Adam:
        gradient += prior * (expert.values - start)
        return expert.step(gradient.astype(expert.values.dtype, copy=False), rate, t)

    hidden, bias, output = model.hidden_weights, model.hidden_bias, model.output_weights
    by_hidden, by_bias, by_output = network_gradients(batch, hidden.values, bias.values, output.values)
    eye = np.eye(r, dtype=inputs.dtype)
    return model._replace(
        axis_weights=stepped(model.axis_weights, axis_gradient(batch, model.axis_weights.values) , 0, 0.05),
        linear_map=stepped(model.linear_map, linear_gradient(batch, model.linear_map.values), eye, rate),
        hidden_weights=hidden.step(by_hidden, rate, t),
        hidden_bias=bias.step(by_bias, rate, t),
        output_weights=stepped(output, by_output, 0, rate),
        progress=model.progress._replace(n_steps=t),
    )


def _flat(array: Floats) -> Floats:
    return array.reshape(-1, array.shape[-1])
