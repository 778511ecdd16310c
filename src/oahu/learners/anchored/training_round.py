"""One round of learning: evidence from new groups, whitening, and steps of the experts on new and stored groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.learners.anchored.click_loss import pair_weights
from oahu.learners.anchored.experts import Adam, Batch, axis_gradient, linear_gradient, network_gradients
from oahu.learners.anchored.group_store import GroupStore
from oahu.learners.anchored.groups import Groups
from oahu.learners.anchored.model import Model
from oahu.metrics.anchored_metric import SPACES

__all__ = ["Settings", "learn_round"]

Floats = NDArray[np.floating]

_AXIS_RATE: Final = 3.2  # step size of the axis weights, multiplied by their number
_LARGEST_AXIS_RATE: Final = 0.05
_AXIS_PRIOR: Final = 0.33  # their prior, relative to that of the linear map
_NETWORK_EVERY: Final = 4  # steps of the other experts per step of the network
_NETWORK_RATE: Final = 0.001  # largest step size of the network
_MAX_TRAINED: Final = 32  # new groups of a round that are trained on ...
_MAX_ASKED: Final = 16  # ... and that are questions for the evidence
_HALVING: Final = 200  # after t steps, step sizes are divided by sqrt(1 + t / 200), for axis weights by its square
_BATCH_POWER: Final = 0.25  # step sizes grow with the batch
_ALL_SPACES: Final = np.ones(len(SPACES), bool)


class Settings(NamedTuple):
    """The parameters of the learner that a round needs."""

    learning_rate: float
    temperature: float
    prior: float
    n_random: int
    batch_size: int


#: Reads the features of groups' items, one row for each item of each group, then of n random items.
Read = Callable[[Sequence[Groups], int, np.random.Generator], Floats]


def learn_round(model: Model, new: Groups, store: GroupStore, settings: Settings, read: Read) -> Model:
    """Return the model after a round.

    The pair whitening counts all new groups. If there are many, only the last 32 are trained on, and only the first
    16 of these are questions for the evidence.

    Parameters
    ----------
    new : Groups
        The groups of this round.
    store : GroupStore
        The groups of all rounds, including this one.
    """
    rng = np.random.default_rng([*model.seed, model.progress.n_rounds])
    progress = model.progress._replace(
        n_learned=model.progress.n_learned + len(new), n_rounds=model.progress.n_rounds + 1
    )
    model = model._replace(progress=progress)
    if not model.background.axes.shape[1]:
        return model  # the catalogue is not known yet
    n_new, n_earlier = len(new), max(0, len(store) - len(new))
    n_old = min(max(settings.batch_size - n_new, 0), n_earlier)
    old = store.draw(rng.integers(n_earlier, size=n_old).tolist()) if n_old else []
    parts = [new, *old]
    values = read(parts, settings.n_random, rng)
    groups = Groups.joined(parts)
    spaces, n_items = model.spaces, len(groups.rows)
    skipped = max(0, n_new - _MAX_TRAINED)
    first = int(groups.offsets[skipped])
    used = np.ones(len(values), bool)
    used[:first] = groups.marks[:first] > 0  # groups that are not trained on give pairs of alike items only
    inputs = np.zeros((len(values), spaces.axes.shape[1]), values.dtype)
    inputs[used] = spaces.inputs(values[used])
    whitening = model.whitening.add(new.pad(inputs[: len(new.rows)]), new.padded_marks(), new.weights)
    values, inputs, n_items = values[first:], inputs[first:], n_items - first
    whitened = spaces.whitened(inputs)
    scaled = spaces.scaled(whitened)
    asked = new.cut(skipped, min(n_new, skipped + _MAX_ASKED))
    chosen = np.r_[0 : len(asked.rows), n_items : len(values)]
    vectors = spaces.starting_vectors(values[chosen], _ALL_SPACES)
    vectors += spaces.other_vectors(inputs[chosen], whitened[chosen], scaled[chosen], _ALL_SPACES)
    evidence = model.evidence.add(vectors, asked)

    batch = _batch(groups.cut(skipped, len(groups)), inputs, scaled, settings.temperature)
    model = _step(model._replace(evidence=evidence), batch, settings)
    return model._replace(whitening=whitening)


def _batch(groups: Groups, inputs: Floats, scaled: Floats, temperature: float) -> Batch:
    """Return the inputs of the experts, for the groups' items and for random items."""
    n, marks = len(groups.rows), groups.padded_marks()
    pairs = pair_weights(marks) * (groups.weights / len(groups))[:, None, None]
    padded_inputs, padded_scaled = (
        np.concatenate([_flat(groups.pad(part[:n])), part[n:]]) for part in (inputs, scaled)
    )
    return Batch(padded_inputs, padded_scaled, marks, pairs.astype(inputs.dtype), float(temperature))


def _step(model: Model, batch: Batch, settings: Settings) -> Model:
    """Return the model after one step of the experts. Every fourth step also trains the network."""
    r = model.background.n_leading
    t = model.progress.n_steps + 1
    prior = settings.prior / model.progress.n_learned
    slower = (1 + t / _HALVING) ** -0.5
    larger = max(1.0, len(batch.marks) / settings.batch_size) ** _BATCH_POWER
    rate = settings.learning_rate / r * slower * larger
    eye = np.eye(r, dtype=batch.inputs.dtype)
    experts = model.experts
    axes, linear = experts.log_axis_weights, experts.linear_map
    axis_rate = min(_LARGEST_AXIS_RATE, _AXIS_RATE / axes.values.size) * slower**2
    experts = experts._replace(
        log_axis_weights=_stepped(axes, axis_gradient(batch, axes.values), _AXIS_PRIOR * prior, axis_rate, t),
        linear_map=_stepped(linear, linear_gradient(batch, linear.values), prior, rate, t, eye),
    )
    if t % _NETWORK_EVERY == 0:
        rate = min(_NETWORK_RATE, settings.learning_rate / r) * slower * larger
        hidden, bias, output = experts.hidden_weights, experts.hidden_bias, experts.output_weights
        by_hidden, by_bias, by_output = network_gradients(batch, hidden.values, bias.values, output.values)
        n_steps = t // _NETWORK_EVERY
        experts = experts._replace(
            hidden_weights=hidden.step(by_hidden, rate, n_steps),
            hidden_bias=bias.step(by_bias, rate, n_steps),
            output_weights=_stepped(output, by_output, prior, rate, n_steps),
        )
    return model._replace(experts=experts, progress=model.progress._replace(n_steps=t))


def _stepped(expert: Adam, gradient: Floats, prior: float, rate: float, t: int, start: Any = 0) -> Adam:
    """Return an expert after a step of gradient descent with a prior, whose mode is ``start``."""
    gradient += expert.values.dtype.type(prior) * (expert.values - start)
    return expert.step(gradient, rate, t)


def _flat(array: Floats) -> Floats:
    return array.reshape(array.shape[0] * array.shape[1], array.shape[2])
