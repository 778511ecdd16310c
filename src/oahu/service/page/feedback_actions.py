"""Saying what is alike, and taking it back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nicegui import ui

from oahu.service.collection import Collection
from oahu.service.page.action_runner import Telling
from oahu.service.page.contradiction_dialog import Chain
from oahu.service.page.ranking_view import Results
from oahu.service.records import Click

__all__ = ["Saying"]


class Saying:
    """What a visitor says of the results, and undoes. Whether they may is asked every time.

    Parameters
    ----------
    said : callable
        Called when something was said or undone.
    """

    def __init__(
        self, telling: Telling, collection: Collection, results: Results, said: Callable[[], Awaitable[None]]
    ) -> None:
        self._telling, self._collection, self._results, self._said = telling, collection, results, said
        self._mine: list[int] = []  # what was said here, to be undone
        self._chain = Chain(self._instead)
        results.part.on("mark", lambda event: self.mark(str(event.args[0]), bool(event.args[1])))

    async def mark(self, key: str, same: bool) -> None:
        """Say that a result is like what was searched for, or is not; the same again takes it back."""
        query, spoken = self._results.query, self._results.spoken(key)
        if query is None:
            return
        if self._results.said(key) != ("alike" if same else "unlike"):
            await self._say(query, key, same)
        elif spoken is not None:
            await self.undo(spoken.seq)
        else:
            ui.notify("That follows from other feedback: undo it in the log.")

    async def undo(self, seq: int) -> bool:
        """Undo a piece of feedback; whether that went well."""
        done = False
        with self._telling.doing("feedback"):
            await asyncio.wrap_future(self._collection.undo(seq))
            self._mine = [one for one in self._mine if one != seq]
            done = True
            await self._said()
        return done

    async def undo_last(self) -> None:
        """Undo what was said here last."""
        if self._mine:
            await self.undo(self._mine[-1])
        else:
            ui.notify("Nothing was said here yet. The log undoes what others said.")

    async def _say(self, query: str, key: str, same: bool) -> None:
        again = query, key, same
        with self._telling.doing("feedback", lambda error: self._chain.open(self._collection, error, again)):
            piece = Click(query, (key,), ()) if same else Click(query, (), (key,))
            receipt = await asyncio.wrap_future(self._collection.feedback([piece]))
            self._mine.append(receipt.last_seq)
            await self._said()

    async def _instead(self, seq: int, query: str, key: str, same: bool) -> None:
        """Undo what is in the way, and say it then."""
        if await self.undo(seq):
            await self._say(query, key, same)
