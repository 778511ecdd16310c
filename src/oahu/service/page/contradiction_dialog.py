"""Why something cannot be said, and undoing what is in the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from oahu.service.collection import Collection
from oahu.service.errors import ContradictoryFeedbackError
from oahu.service.page.browser_data import tiles
from oahu.service.page.layout import Part

__all__ = ["Chain"]


class _ChainPart(Part, component="components/oahu_contradiction.js"):
    """A claim, and the chain that proves the opposite."""


class Chain:
    """A dialog that is shown when feedback contradicts what was said before."""

    def __init__(self, instead: Callable[[int, str, str, bool], Awaitable[None]]) -> None:
        self._instead = instead
        self._again: tuple[str, str, bool] | None = None
        with ui.dialog() as self._dialog, ui.element("div").classes("sheet"):
            self._part = _ChainPart()
        self._part.show(pair=None)
        self._part.on("undo", lambda event: self._undo(int(event.args)))
        self._part.on("leave", self._dialog.close)

    def open(self, collection: Collection, error: ContradictoryFeedbackError, again: tuple[str, str, bool]) -> None:
        """Show a contradiction; what was to be said is said ``again`` if something of it is undone."""
        pair, chain = error.more["pair"], error.more["chain"]
        known = tiles(collection, [link[side] for link in [pair, *chain] for side in ("first", "second")])

        def told(link: dict[str, Any]) -> dict[str, Any]:
            ends = {side: known[link[side]] for side in ("first", "second")}
            return {**ends, "same": link["same"], "seq": link.get("seq")}

        self._again = again
        self._part.show(pair=told(pair), links=[told(link) for link in chain])
        self._dialog.open()

    async def _undo(self, seq: int) -> None:
        self._dialog.close()
        if self._again is not None:
            await self._instead(seq, *self._again)
