"""One round of learning: evidence from new groups, whitening, and steps of the experts on new and stored groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.learners.anchored.click_loss import pair_weights
from oahu.learners.anchored.experts import Adam, Batch, axis_gradient, linear_gradient, network_gradients
from oahu.learners.anchored.groups import Group, PaddedGroups, padded
from oahu.learners.anchored.evidence import Evidence
from oahu.learners.anchored.model import Model
from oahu.learners.anchored.pair_whitening import PairWhitening
from oahu.metrics.anchored_metric import SPACES

__all__ = ["Settings", "learn_round"]

Floats = NDArray[np.floating]

_AXIS_RATE: Final = 0.05
_NETWORK_EVERY: Final = 4
_NETWORK_RATE: Final = 0.001
_HALVING: Final = 200
_POWER: Final = 0.5
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


def learn_round(model: Model, stored: Sequence[Group], n_extra: int, settings: Settings, read: Read) -> Model:
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
    n_old = min(settings.batch_size - n_new if n_new < settings.batch_size else n_new, len(old))
    groups = new + [old[i] for i in _draw(len(old), n_old, rng)]
    values = read(groups, settings.n_random, rng)
    progress = model.progress._replace(
        n_learned=model.progress.n_learned + n_new, n_pending=0, n_rounds=model.progress.n_rounds + 1, credit=0.0
    )
    batch = _batch(model, padded(groups), values, settings)
    evidence, whitening = _statistics(model, batch, values, n_new)
    model = _step(model._replace(progress=progress, evidence=evidence), batch, settings)
    for _ in range(n_extra):
        groups = [stored[i] for i in _draw(len(stored), min(settings.batch_size, len(stored)), rng)]
        model = _step(
            model, _batch(model, padded(groups), read(groups, settings.n_random, rng), settings), settings
        )
    return model._replace(whitening=whitening)


def _draw(n: int, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return ``size`` random numbers below ``n``, or all of them if there are no more."""
    return rng.integers(n, size=size) if size < n else np.arange(size)


def _batch(model: Model, groups: PaddedGroups, values: Floats, settings: Settings) -> Batch:
    """Return the inputs of the experts. ``values`` are the features of the groups' items and of random items."""
    n, spaces = int(groups.sizes.sum()), model.spaces
    inputs = spaces.inputs(values)
    whitened = spaces.whitened(inputs)
    pairs = pair_weights(groups.marks) * (groups.weights / len(groups.weights))[:, None, None]
    padded_inputs, padded_whitened = (
        np.concatenate([_flat(groups.pad(part[:n])), part[n:]]) for part in (inputs, whitened)
    )
    return Batch(padded_inputs, padded_whitened, groups, pairs.astype(inputs.dtype), float(settings.temperature))


def _statistics(model: Model, batch: Batch, values: Floats, n_new: int) -> tuple[Evidence, PairWhitening]:
    """Return the evidence and the pair whitening with the new groups, the first groups of the batch."""
    groups, spaces = batch.groups, model.spaces
    n, m = groups.marks.shape
    new = PaddedGroups(*(array[:n_new] for array in groups))
    items, n_all = values[: int(new.sizes.sum())], int(groups.sizes.sum())
    starting = spaces.starting_vectors(np.concatenate([items, values[n_all:]]), _ALL_SPACES)
    vectors = [np.concatenate([_flat(new.pad(part[: len(items)])), part[len(items) :]]) for part in starting]
    rows = np.r_[0 : n_new * m, n * m : len(batch.inputs)]
    vectors += spaces.other_vectors(batch.inputs[rows], batch.whitened[rows], _ALL_SPACES)
    whitening = model.whitening
    if spaces.axes.shape[1]:
        new_items = batch.inputs[: n_new * m].reshape(n_new, m, -1)
        whitening = whitening.add(new_items, new.marks, new.weights)
    return model.evidence.add(vectors, new), whitening


def _step(model: Model, batch: Batch, settings: Settings) -> Model:
    """Return the model after one step of the experts. Every fourth step also trains the network."""
    r = batch.inputs.shape[1]
    if not r:
        return model
    t = model.progress.n_steps + 1
    prior = settings.prior / model.progress.n_learned
    slower = (1 + t / _HALVING) ** -_POWER
    rate = settings.learning_rate / r * slower
    eye = np.eye(r, dtype=batch.inputs.dtype)
    model = model._replace(
        axis_weights=_stepped(
            model.axis_weights, axis_gradient(batch, model.axis_weights.values), prior, _AXIS_RATE, t
        ),
        linear_map=_stepped(model.linear_map, linear_gradient(batch, model.linear_map.values), prior, rate, t, eye),
        progress=model.progress._replace(n_steps=t),
    )
    if t % _NETWORK_EVERY:
        return model
    rate = min(_NETWORK_RATE, settings.learning_rate / r) * slower
    hidden, bias, output = model.hidden_weights, model.hidden_bias, model.output_weights
    by_hidden, by_bias, by_output = network_gradients(batch, hidden.values, bias.values, output.values)
    t //= _NETWORK_EVERY
    return model._replace(
        hidden_weights=hidden.step(by_hidden, rate, t),
        hidden_bias=bias.step(by_bias, rate, t),
        output_weights=_stepped(output, by_output, prior, rate, t),
    )


def _stepped(expert: Adam, gradient: Floats, prior: float, rate: float, t: int, start: Any = 0) -> Adam:
    """Return an expert after a step of gradient descent with a prior, whose mode is ``start``."""
    gradient += expert.values.dtype.type(prior) * (expert.values - start)
    return expert.step(gradient, rate, t)


def _flat(array: Floats) -> Floats:
    return array.reshape(array.shape[0] * array.shape[1], array.shape[2])
