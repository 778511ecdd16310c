"""Actions that give feedback on search results, and actions that undo feedback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nicegui import ui

from oahu.service.collection import Collection
from oahu.service.page.action_runner import ActionRunner
from oahu.service.page.contradiction_dialog import ContradictionDialog
from oahu.service.page.ranking_view import RankingView
from oahu.service.records import Click

__all__ = ["FeedbackActions"]


class FeedbackActions:
    """The actions that mark results as alike or not alike, and undo feedback.

    Parameters
    ----------
    on_change : callable
        A function that is called after feedback was stored or undone.
    """

    def __init__(
        self,
        runner: ActionRunner,
        collection: Collection,
        ranking: RankingView,
        on_change: Callable[[], Awaitable[None]],
    ) -> None:
        self._runner, self._collection, self._ranking, self._on_change = runner, collection, ranking, on_change
        self._own_seqs: list[int] = []  # sequence numbers of feedback from this browser
        self._dialog = ContradictionDialog(self._undo_and_retry)
        ranking.tiles.on("mark", lambda event: self.mark(str(event.args[0]), bool(event.args[1])))

    async def mark(self, key: str, same: bool) -> None:
        """Mark a result as alike or not alike. If the result already has this mark, remove the mark."""
        query, direct = self._ranking.query, self._ranking.direct_feedback(key)
        if query is None:
            return
        if self._ranking.feedback(key) != ("similar" if same else "dissimilar"):
            await self._store(query, key, same)
        elif direct is not None:
            await self.undo(direct.seq)
        else:
            ui.notify("Other feedback implies this mark. Undo that feedback in the log.")

    async def undo(self, seq: int) -> bool:
        """Undo a feedback record. Return whether the undo succeeded."""
        succeeded = False
        with self._runner.run("feedback"):
            await asyncio.wrap_future(self._collection.undo(seq))
            self._own_seqs = [one for one in self._own_seqs if one != seq]
            succeeded = True
            await self._on_change()
        return succeeded

    async def undo_last(self) -> None:
        """Undo the newest feedback from this browser."""
        if self._own_seqs:
            await self.undo(self._own_seqs[-1])
        else:
            ui.notify("You have not given feedback on this page yet. Undo other feedback in the log.")

    async def _store(self, query: str, key: str, same: bool) -> None:
        rejected = query, key, same
        with self._runner.run("feedback", lambda error: self._dialog.open(self._collection, error, rejected)):
            click = Click(query, (key,), ()) if same else Click(query, (), (key,))
            receipt = await asyncio.wrap_future(self._collection.add_feedback([click]))
            self._own_seqs.append(receipt.last_seq)
            await self._on_change()

    async def _undo_and_retry(self, seq: int, query: str, key: str, same: bool) -> None:
        """Undo the earlier feedback, and store the rejected feedback."""
        if await self.undo(seq):
            await self._store(query, key, same)
