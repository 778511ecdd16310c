"""Clicks of the simulated user, and their conversion to constraints that the learners accept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import oahu
from oahu.learners.base import Learner
from oahu.learners.kinds import PairLearner

__all__ = ["Click", "learn_clicks"]

Rows = NDArray[np.intp]


class Click(NamedTuple):
    """Feedback on one query.

    Attributes
    ----------
    query : int or ndarray of shape (n_features,)
        The row number of an item of the catalogue, or a vector that is no item.
    positives, negatives : ndarray of int
        Row numbers of the items that were marked as alike and as not alike.
    shown : ndarray of int
        Row numbers of the items that the user saw and did not mark.
    """

    query: Any
    positives: Rows
    negatives: Rows
    shown: Rows

    def query_vector(self, catalogue: NDArray[Any]) -> NDArray[Any]:
        """Return the features of the query."""
        return np.asarray(self.query if np.ndim(self.query) else catalogue[self.query])


def learn_clicks(learner: Learner[Any], clicks: Sequence[Click], catalogue: NDArray[Any]) -> None:
    """Let a learner learn clicks whose row numbers refer to the catalogue, its ``preprocessor``.

    A learner of triplets does not learn clicks that have only positives or only negatives.
    """
    kind: Any = getattr(oahu, "Click", None)
    if kind is None:
        _learn_converted(learner, clicks, catalogue)
        return
    all_used = getattr(learner, "uses_one_sided_clicks", False)
    used = [click for click in clicks if all_used or (len(click.positives) and len(click.negatives))]
    if used:
        learner.partial_fit([kind(*click) for click in used])


def _learn_converted(learner: Learner[Any], clicks: Sequence[Click], catalogue: NDArray[Any]) -> None:
    """Convert clicks to pairs or triplets and learn them. This function is not needed if learners accept clicks.

    A pair learner learns one pair for each mark. Another learner learns as many triplets as the longer list of a
    click has items. The items of the shorter list are repeated. A click with one empty list gives no triplets.
    """
    if isinstance(learner, PairLearner):
        pairs = [
            (click.query_vector(catalogue), catalogue[item], label)
            for click in clicks
            for items, label in ((click.positives, 1), (click.negatives, -1))
            for item in items
        ]
        if pairs:
            first, second, labels = zip(*pairs, strict=True)
            learner.partial_fit(np.stack([np.stack(first), np.stack(second)], axis=1), np.array(labels))
        return
    triplets = [
        (click.query_vector(catalogue), catalogue[click.positives[i % p]], catalogue[click.negatives[i % n]])
        for click in clicks
        if (p := len(click.positives)) and (n := len(click.negatives))
        for i in range(max(p, n))
    ]
    if triplets:
        learner.partial_fit(np.array(triplets))
