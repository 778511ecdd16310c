"""The dialog that explains a contradiction and offers to undo the earlier feedback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from oahu.service.collection import Collection
from oahu.service.errors import ContradictoryFeedbackError
from oahu.service.page.browser_data import tiles
from oahu.service.page.layout import Component

__all__ = ["ContradictionDialog"]


class _ContradictionComponent(Component, component="components/oahu_contradiction.js"):
    """The rejected pair, and the earlier feedback that implies the opposite."""


class ContradictionDialog:
    """A dialog that shows why feedback was rejected.

    Parameters
    ----------
    undo_and_retry : callable
        A function that is called when the visitor undoes earlier feedback. Its arguments are the sequence number of
        the earlier feedback, and the query, the key and the ``same`` value of the rejected feedback.
    """

    def __init__(self, undo_and_retry: Callable[[int, str, str, bool], Awaitable[None]]) -> None:
        self._undo_and_retry = undo_and_retry
        self._rejected: tuple[str, str, bool] | None = None
        with ui.dialog() as self._dialog, ui.element("div").classes("sheet"):
            self._component = _ContradictionComponent()
        self._component.show(pair=None)
        self._component.on("undo", lambda event: self._undo(int(event.args)))
        self._component.on("cancel", self._dialog.close)

    def open(
        self, collection: Collection, error: ContradictoryFeedbackError, rejected: tuple[str, str, bool]
    ) -> None:
        """Show the proof of a contradiction. ``rejected`` is the feedback as (query, key, same)."""
        pair, proof = error.more["pair"], error.more["proof"]
        shown = tiles(collection, [link[side] for link in [pair, *proof] for side in ("first", "second")])

        def link_data(link: dict[str, Any]) -> dict[str, Any]:
            ends = {side: shown[link[side]] for side in ("first", "second")}
            return {**ends, "same": link["same"], "seq": link.get("seq")}

        self._rejected = rejected
        self._component.show(pair=link_data(pair), links=[link_data(link) for link in proof])
        self._dialog.open()

    async def _undo(self, seq: int) -> None:
        self._dialog.close()
        if self._rejected is not None:
            await self._undo_and_retry(seq, *self._rejected)
