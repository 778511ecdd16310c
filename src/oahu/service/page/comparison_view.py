"""Comparing two items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from anyio import to_thread

from oahu.service.collection import Collection
from oahu.service.errors import ServiceError
from oahu.service.page.action_runner import Telling
from oahu.service.page.browser_data import tiles
from oahu.service.page.layout import Part

__all__ = ["Compare"]


class _Verdict(Part, component="components/oahu_comparison.js"):
    """Two items and whether they are alike."""


class Compare:
    """Two items that someone chose, and what the metric says of them."""

    def __init__(self, telling: Telling, collection: Collection, chosen: Callable[[], None]) -> None:
        self._collection, self._chosen = collection, chosen
        self.chosen: list[str | None] = [None, None]
        self._part = _Verdict()
        self._part.on("pick", lambda event: telling.reading(self._pick, int(event.args[0]) % 2, str(event.args[1])))
        self._part.on("swap", lambda: telling.reading(self._swap))

    async def open(self, first: str | None, second: str | None) -> None:
        """Compare two items."""
        self.chosen = [first, second]
        await self.refresh()

    async def _pick(self, at: int, key: str) -> None:
        self.chosen[at] = key
        self._chosen()
        await self.refresh()

    async def _swap(self) -> None:
        self.chosen.reverse()
        self._chosen()
        await self.refresh()

    async def refresh(self) -> None:
        """Compare again."""
        self._part.show(**await to_thread.run_sync(self._told, self.chosen[0], self.chosen[1]))

    def _told(self, first: str | None, second: str | None) -> dict[str, Any]:
        known = tiles(self._collection, [key for key in (first, second) if key])
        told: dict[str, Any] = {"first": known.get(first or ""), "second": known.get(second or "")}
        try:
            for key in known:
                self._collection.item(key)
            if first is None or second is None:
                return told
            found = self._collection.compare(first, second)
        except ServiceError as error:
            return {**told, "error": str(error)}
        return {
            **told,
            "answer": found.answer,
            "probability": found.probability,
            "score": found.score,
            "apart": (0.0 if found.published.metric.diameter is None else 1.0) - found.score,
            "yes_below": _finite(found.yes_below),
            "no_from": _finite(found.no_from),
            "calibrated": found.calibrated,
        }


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
