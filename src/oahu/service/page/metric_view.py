"""The metric view: the weights of the spaces, their history, and the number of feedback records not learned yet."""

from __future__ import annotations

from typing import Any, Final

from anyio import to_thread
from nicegui.element import Element

from oahu.metrics.anchored_metric import N_ANCHORS, SPACES
from oahu.service.collection import Collection
from oahu.service.page.layout import Component
from oahu.service.records import HistoryPoint, PublishedMetric

__all__ = ["MetricView", "spaces_with_tints"]

_MAX_POINTS: Final = 240  # in the history chart
_LEARNER_FAILED: Final = (
    "The learner has failed. Searches use the last metric. All accepted feedback is stored. "
    "Restart the service to continue learning."
)


class _MetricComponent(Component, component="components/oahu_metric.js"):
    """Numbers, bars and the history chart."""


class _SummaryComponent(Component, component="components/oahu_summary.js"):
    """A one-line summary for narrow windows."""


class MetricView:
    """The metric of a collection."""

    def __init__(self, collection: Collection, summary_parent: Element) -> None:
        self._collection = collection
        with summary_parent:
            self._summary = _SummaryComponent()
        start = PublishedMetric(collection.unlearned_metric, 0, 0, None, collection.created)
        self._start = HistoryPoint(0, 0, tuple(start.weights.values()), None, collection.created)
        self._component = _MetricComponent()

    async def refresh(self) -> None:
        """Show the current metric."""
        data = await to_thread.run_sync(self._data)
        self._component.show(**data)
        self._summary.show(spaces=data["spaces"], constraints=data["constraints"])

    def _data(self) -> dict[str, Any]:
        collection = self._collection
        state, published = collection.describe(), collection.published
        weights, first = published.weights, self._start.weights
        start = dict(zip(weights, first, strict=True)) if len(first) == len(weights) else weights
        points = [
            point
            for point in [self._start, *collection.learner.history()]
            if len(point.weights) == len(weights) and point.version <= published.version
        ]
        return {
            "learner": collection.config.learner,
            "version": published.version,
            "constraints": published.constraints,
            "error_rate": state["error_rate"],
            "pending": state["pending_feedback"],
            "candidates_behind": max(0, state["candidates"]["constraints_behind"]),
            "error": "" if state["learner_error"] is None else _LEARNER_FAILED,
            "spaces": [{**space, "start": start[space["name"]]} for space in spaces_with_tints(weights)],
            "history": [{"constraints": point.constraints, "weights": point.weights} for point in _thin(points)],
        }


def spaces_with_tints(weights: dict[str, float]) -> list[dict[str, Any]]:
    """Return the name, the weight and the tint of each space.

    The tint selects a colour of the style sheet: "a" and "b" are grey, for the starting spaces of AnchoredOAHU. The
    numbers 2 to 9 are for learned spaces and experts. Deeper experts have higher numbers and darker colours.

    >>> [space["tint"] for space in spaces_with_tints({"cosine": 0.5, "Euclidean": 0.3, "linear map": 0.2})]
    ['a', 'b', 9]
    >>> [space["tint"] for space in spaces_with_tints({"E_0": 0.5, "E_1": 0.3, "E_2": 0.2})]
    [2, 6, 9]
    """
    starting = [name for name in weights if name in SPACES[:N_ANCHORS]]
    grey = {name: "ab"[number % 2] for number, name in enumerate(starting)}
    learned = [name for name in weights if name not in grey]
    shades = {name: round(2 + 7 * depth / max(1, len(learned) - 1)) for depth, name in enumerate(learned)}
    if len(learned) == 1:
        shades[learned[0]] = 9
    tints: dict[str, Any] = {**grey, **shades}
    return [{"name": name, "weight": weight, "tint": tints[name]} for name, weight in weights.items()]


def _thin(points: list[HistoryPoint]) -> list[HistoryPoint]:
    """Return at most `_MAX_POINTS` evenly spaced points, including the last point."""
    step = -(-len(points) // _MAX_POINTS) or 1
    return points[::-1][::step][::-1]
