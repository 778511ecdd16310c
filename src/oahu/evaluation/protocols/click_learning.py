"""Clicks of the simulated user: the vector of a query, and learning by a learner of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Click
from oahu.learners.base import Learner

__all__ = ["is_empty", "learn_clicks", "query_vector"]


def query_vector(click: Click, catalogue: NDArray[Any]) -> NDArray[Any]:
    """Return the features of a query, which is a row number of the catalogue or a vector that is no item."""
    return np.asarray(click.query if np.ndim(click.query) else catalogue[click.query])


def is_empty(click: Click) -> bool:
    """Return whether a click has no mark."""
    return not len(click.positives) and not len(click.negatives)


def learn_clicks(learner: Learner[Any], clicks: Sequence[Click]) -> None:
    """Let a learner learn clicks whose row numbers refer to its ``preprocessor``.

    Clicks with only positives or only negatives are left out if the learner does not use them.
    """
    all_used = learner.uses_one_sided_clicks
    used = [click for click in clicks if all_used or (len(click.positives) and len(click.negatives))]
    if used:
        learner.partial_fit(used)
