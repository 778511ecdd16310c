"""The comparison view: two items, and the answer whether the items are alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from anyio import to_thread

from oahu.service.collection import Collection
from oahu.service.errors import ServiceError
from oahu.service.page.action_runner import ActionRunner
from oahu.service.page.browser_data import tiles
from oahu.service.page.layout import Component

__all__ = ["ComparisonView"]


class _ComparisonComponent(Component, component="components/oahu_comparison.js"):
    """Two items and the result of the comparison."""


class ComparisonView:
    """The comparison of two selected items with the current metric.

    Parameters
    ----------
    on_selection : callable
        A function that is called when the visitor selects another item.
    """

    def __init__(self, runner: ActionRunner, collection: Collection, on_selection: Callable[[], None]) -> None:
        self._collection, self._on_selection = collection, on_selection
        self.selected: list[str | None] = [None, None]
        self._component = _ComparisonComponent()
        self._component.on(
            "select", lambda event: runner.read(self._select, int(event.args[0]) % 2, str(event.args[1]))
        )
        self._component.on("swap", lambda: runner.read(self._swap))

    async def open(self, first: str | None, second: str | None) -> None:
        """Select two items."""
        self.selected = [first, second]
        await self.refresh()

    async def _select(self, side: int, key: str) -> None:
        self.selected[side] = key
        self._on_selection()
        await self.refresh()

    async def _swap(self) -> None:
        self.selected.reverse()
        self._on_selection()
        await self.refresh()

    async def refresh(self) -> None:
        """Compare the selected items with the current metric."""
        self._component.show(**await to_thread.run_sync(self._data, self.selected[0], self.selected[1]))

    def _data(self, first: str | None, second: str | None) -> dict[str, Any]:
        shown = tiles(self._collection, [key for key in (first, second) if key])
        data: dict[str, Any] = {"first": shown.get(first or ""), "second": shown.get(second or "")}
        try:
            for key in shown:
                self._collection.catalogue.item(key)
            if first is None or second is None:
                return data
            result = self._collection.compare(first, second)
        except ServiceError as error:
            return {**data, "error": str(error)}
        has_distance = result.published.metric.diameter is None
        return {
            **data,
            "answer": result.answer,
            "probability": result.probability,
            "vote_share": result.vote_share,
            "score": result.score,
            "distance": (0.0 if has_distance else 1.0) - result.score,
            "yes_below": _finite(result.yes_below),
            "no_from": _finite(result.no_from),
            "calibrated": result.calibrated,
            "warnings": result.warnings,
        }


def _finite(threshold: float) -> float | None:
    return float(threshold) if np.isfinite(threshold) else None
