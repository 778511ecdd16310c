"""The metric: how much its parts count, how that moved, and how fresh everything is."""

from __future__ import annotations

from typing import Any, Final

from anyio import to_thread
from nicegui.element import Element

from oahu.service.collection import Collection
from oahu.service.page.layout import Part
from oahu.service.records import HistoryPoint, PublishedMetric

__all__ = ["Weights", "parts_of"]

_MOMENTS: Final = 240  # of the history that are drawn
_STOPPED: Final = (
    "The learner has stopped. Search goes on with what it had learned, and what was said is kept; "
    "it is learned when the service starts again."
)


class _WeightsPart(Part, component="components/oahu_metric.js"):
    """Dials, bars, and bands."""


class _Pulse(Part, component="components/oahu_summary.js"):
    """The same in a line, for where there is little space."""


class Weights:
    """What is to be seen of a collection's metric."""

    def __init__(self, collection: Collection, beside: Element) -> None:
        self._collection = collection
        with beside:
            self._pulse = _Pulse()
        start = PublishedMetric(collection.start, 0, 0, None, collection.created)
        self._start = HistoryPoint(0, 0, tuple(start.weights.values()), None, collection.created)
        self._part = _WeightsPart()

    async def refresh(self) -> None:
        """Show the metric as it is now."""
        told = await to_thread.run_sync(self._told)
        self._part.show(**told)
        self._pulse.show(parts=told["parts"], constraints=told["constraints"])

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
            "behind": told["pending_feedback"],
            "stale": max(0, told["candidates"]["constraints_behind"]),
            "error": "" if told["learner_error"] is None else _STOPPED,
            "parts": [{**part, "start": start[part["name"]]} for part in parts_of(weights)],
            "history": [{"c": moment.constraints, "w": moment.weights} for moment in _thinned(moments)],
        }


def parts_of(weights: dict[str, float]) -> list[dict[str, Any]]:
    """The parts of a metric, with a tint for each: grey for what was not learned, then darker the deeper.

    >>> [part["tint"] for part in parts_of({"unlearned": 0.5, "whitened": 0.2, "E_0": 0.2, "E_1": 0.1})]
    ['a', 'b', 2, 9]
    """
    grey = {"unlearned": "a", "whitened": "b"}
    learned = [name for name in weights if name not in grey]
    shades = {name: round(2 + 7 * at / max(1, len(learned) - 1)) for at, name in enumerate(learned)}
    if len(learned) == 1:
        shades[learned[0]] = 9
    tints: dict[str, Any] = {**grey, **shades}
    return [{"name": name, "now": weight, "tint": tints[name]} for name, weight in weights.items()]


def _thinned(moments: list[HistoryPoint]) -> list[HistoryPoint]:
    """At most `_MOMENTS` of them, evenly, with the last."""
    step = -(-len(moments) // _MOMENTS) or 1
    return moments[::-1][::step][::-1]
