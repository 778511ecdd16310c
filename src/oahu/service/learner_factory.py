"""Creation of the learner of a collection from the settings of the collection."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import oahu.learners
from oahu.exceptions import InvalidInputError
from oahu.learners import OAHU, AnchoredOAHU
from oahu.learners.anchored.background import MAX_AXES
from oahu.learners.base import Learner
from oahu.learners.kinds import ClickLearner, PairLearner
from oahu.messages import shorten
from oahu.service.errors import InvalidRequestError
from oahu.service.records import CollectionConfig, ExampleKind

__all__ = ["check_uploaded", "example_kind", "new_learner"]

# AnchoredOAHU: estimated counts of numbers
_PER_AXIS: Final = 6 * 256  # in the network's weights and their averages
_PER_RANDOM_ITEM: Final = 2**13  # in the comparisons of a random item with the items of a step
_PER_CLICK: Final = 16  # items


def new_learner(config: CollectionConfig, max_size: float = np.inf) -> Learner[Any]:
    """Return the untrained learner of a collection.

    Parameters
    ----------
    max_size : float
        The largest estimated size of the model, in bytes.

    Raises
    ------
    InvalidRequestError
        If there is no learner with the configured name, a parameter is invalid, or the model would be too large.
    """
    learner_class = _learner_class(config)
    names = set(learner_class().get_params()).difference(learner_class.table_parameters)
    unknown = sorted(config.parameters.keys() - names)
    if unknown:
        raise InvalidRequestError(
            f"{config.learner} has no parameter {unknown[0]!r}. The parameters are {', '.join(sorted(names))}.",
        )
    try:
        learner: Learner[Any] = learner_class(**{"random_state": 0, **config.parameters})
        learner.check_parameters()
        if type(learner.random_state) is not int:
            raise InvalidInputError(
                f"The 'random_state' parameter of {config.learner} must be an int. Got "
                f"{shorten(learner.random_state)} instead."
            )
        size = _count_numbers(learner, config.dimension) * np.dtype(learner.dtype).itemsize
        if size > max_size:
            raise InvalidInputError(
                f"{config.learner} with {config.dimension} features needs about {size / 2**20:,.0f} MiB of memory. "
                f"The limit is {max_size / 2**20:,.0f} MiB (OAHU_MAX_MODEL). Use fewer features or smaller "
                "parameter values."
            )
        return learner.initialize(config.dimension)
    except (InvalidInputError, TypeError) as error:
        raise InvalidRequestError(str(error)) from error


def example_kind(config: CollectionConfig) -> ExampleKind:
    """Return what the learner of a collection is trained on."""
    learner_class = _learner_class(config)
    if issubclass(learner_class, ClickLearner):
        return "clicks"
    return "pairs" if issubclass(learner_class, PairLearner) else "triplets"


def check_uploaded(learner: Learner[Any]) -> None:
    """Raise `InvalidRequestError` if a learner needs a feature table to continue its training."""
    store = getattr(learner._fitted_state(), "groups", None)
    batches = [] if store is None else [*store.batches(), *store.pending]
    if any((batch.rows >= 0).any() for batch in batches):
        raise InvalidRequestError(
            "The model stores clicks as row numbers of a feature table, which the service does not have. Train it "
            "with oahu train, or without preprocessor: partial_fit(Clicks(clicks, preprocessor=table))."
        )


def _learner_class(config: CollectionConfig) -> type[Any]:
    if config.learner not in oahu.learners.LEARNERS:
        raise InvalidRequestError(
            f"There is no learner {config.learner!r}. The learners are {', '.join(oahu.learners.LEARNERS)}."
        )
    found: type[Any] = getattr(oahu.learners, config.learner)
    return found


def _count_numbers(learner: Learner[Any], n_features: int) -> int:
    """Return the estimated number of numbers in the model of a learner.

    For AnchoredOAHU, the count includes the numbers of a training step. It does not include the stored clicks,
    which have at most 2^23 numbers.
    """
    if isinstance(learner, AnchoredOAHU):
        axes = min(n_features, MAX_AXES)
        model = axes * (n_features + 5 * axes + _PER_AXIS)
        step = learner.n_random * (n_features + _PER_RANDOM_ITEM) + learner.batch_size * _PER_CLICK * n_features
        return int(model + step)
    if isinstance(learner, OAHU):
        layers, hidden, embedding = learner.n_layers, learner.hidden_size, learner.embedding_size
        return int((n_features + layers * (hidden + 1)) * (hidden + embedding))
    per_feature = {"Euclidean": 1, "Cosine": 1, "AdaSORS": 2 * n_features}
    return n_features * per_feature.get(type(learner).__name__, n_features)
