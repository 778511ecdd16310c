"""The metric: how much its parts count, how that moved, and how fresh everything is."""

from __future__ import annotations

from typing import Any, Final

from anyio import to_thread

from oahu.service.collection import Collection
from oahu.service.page.frame import Part
from oahu.service.records import Moment, Published

__all__ = ["Weights"]

_MOMENTS: Final = 240  # of the history that are drawn
_STOPPED: Final = (
    "The learner has stopped. Search goes on with what it had learned, and what was said is kept; "
    "it is learned when the service starts again."
)


class _WeightsPart(Part, component="parts/oahu_weights.js"):
    """Dials, bars, and bands."""


class Weights:
    """What is to be seen of a collection's metric."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        start = Published(collection.start, 0, 0, None, collection.created)
        self._start = Moment(0, 0, tuple(start.weights.values()), None, collection.created)
        self._part = _WeightsPart()

    async def refresh(self) -> None:
        """Show the metric as it is now."""
        self._part.show(**await to_thread.run_sync(self._told))

    def _told(self) -> dict[str, Any]:
        collection = self._collection
        told, published = collection.describe(), collection.published
        weights, begun = published.weights, self._start.weights
        start = dict(zip(weights, begun, strict=True)) if len(begun) == len(weights) else weights
        moments = [
            moment
            for moment in [self._start, *collection.history()]
            if len(moment.weights) == len(weights) and moment.version <= published.version
        ]
        return {
            "learner": collection.config.learner,
            "version": published.version,
            "constraints": published.constraints,
            "loss": published.loss,
            "behind": told["behind"],
            "stale": max(0, told["candidates"]["constraints_behind"]),
            "error": "" if told["learner_error"] is None else _STOPPED,
            "parts": [{"name": name, "now": now, "start": start[name]} for name, now in weights.items()],
            "history": [{"c": moment.constraints, "w": moment.weights} for moment in _thinned(moments)],
        }


def _thinned(moments: list[Moment]) -> list[Moment]:
    """At most `_MOMENTS` of them, evenly, with the last."""
    step = -(-len(moments) // _MOMENTS) or 1
    return moments[::-1][::step][::-1]
