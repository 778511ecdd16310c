"""Creation of the learner of a collection from the settings of the collection."""

from __future__ import annotations

from typing import Any

import numpy as np

import oahu.learners
from oahu.exceptions import InvalidInputError
from oahu.learners.base import Learner
from oahu.learners.kinds import PairLearner
from oahu.messages import shorten
from oahu.service.errors import InvalidRequestError
from oahu.service.records import CollectionConfig

__all__ = ["new_learner", "trains_on_pairs"]


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
    names = set(learner_class().get_params()) - {"preprocessor"}
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
        size = _n_parameters(learner, config.dimension) * np.dtype(learner.dtype).itemsize
        if size > max_size:
            raise InvalidInputError(
                f"{config.learner} with {config.dimension} features needs about {size / 2**20:,.0f} MiB of memory. "
                f"The limit is {max_size / 2**20:,.0f} MiB (OAHU_MAX_MODEL). Use fewer features or smaller layers."
            )
        return learner.initialize(config.dimension)
    except (InvalidInputError, TypeError) as error:
        raise InvalidRequestError(str(error)) from error


def trains_on_pairs(config: CollectionConfig) -> bool:
    """Return whether the learner of a collection is trained on pairs instead of triplets."""
    return issubclass(_learner_class(config), PairLearner)


def _learner_class(config: CollectionConfig) -> type[Any]:
    if config.learner not in oahu.learners.LEARNERS:
        raise InvalidRequestError(
            f"There is no learner {config.learner!r}. The learners are {', '.join(oahu.learners.LEARNERS)}."
        )
    found: type[Any] = getattr(oahu.learners, config.learner)
    return found


def _n_parameters(learner: Learner[Any], n_features: int) -> int:
    """Return the estimated number of parameters in the network layers or in the matrix of a learner."""
    parameters = learner.get_params(deep=False)
    if "hidden_size" in parameters:
        layers, hidden, embedding = (parameters[name] for name in ("n_layers", "hidden_size", "embedding_size"))
        window = 3 * parameters.get("window", 0) + 131
        return int(n_features * (hidden + embedding + window) + layers * (hidden + window) * (hidden + embedding))
    per_feature = {"Euclidean": 1, "Cosine": 1, "AdaSORS": 2 * n_features}
    return n_features * per_feature.get(type(learner).__name__, n_features)
