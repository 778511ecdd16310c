"""The feedback log view: all feedback, newest first, with buttons to undo feedback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from anyio import to_thread

from oahu.constraints import Pair, Triplet
from oahu.service.collection import Collection
from oahu.service.page.action_runner import ActionRunner
from oahu.service.page.browser_data import keys_of, log_row, tiles
from oahu.service.page.layout import Component
from oahu.service.page.visitor import FEEDBACK_ROLE_REQUIRED
from oahu.service.records import FEEDBACK, Change, constraints_of

__all__ = ["DirectFeedback", "FeedbackLogView", "recent_feedback"]

_ROWS: Final = 15
_RECENT: Final = 1_000  # number of recent log records


class _FeedbackLogComponent(Component, component="components/oahu_feedback_log.js"):
    """Rows of the feedback log."""


class FeedbackLogView:
    """The feedback log of a collection, one page at a time."""

    def __init__(
        self,
        runner: ActionRunner,
        collection: Collection,
        undo: Callable[[int], Awaitable[Any]],
        search: Callable[[str], Awaitable[None]],
    ) -> None:
        self._visitor, self._collection = runner.visitor, collection
        self._n_newer = 0  # number of records that are newer than the shown records
        self._component = _FeedbackLogComponent()
        self._component.on("undo", lambda event: undo(int(event.args)))
        self._component.on("search", lambda event: search(str(event.args)))
        self._component.on("older", lambda: runner.read(self._turn_page, _ROWS))
        self._component.on("newer", lambda: runner.read(self._turn_page, -_ROWS))

    async def refresh(self) -> None:
        """Show the current page of the log."""
        self._component.show(**await to_thread.run_sync(self._data))

    async def _turn_page(self, n_records: int) -> None:
        self._n_newer = max(0, self._n_newer + n_records)
        await self.refresh()

    def _data(self) -> dict[str, Any]:
        total = self._collection.feedback_log.last_seq
        self._n_newer = min(self._n_newer, max(0, total - 1))
        last = total - self._n_newer
        first = max(0, last - _ROWS)
        records = self._collection.feedback_log.page(first, last - first)
        shown = tiles(self._collection, [key for record, _ in records for key in keys_of(record.change)])
        return {
            "rows": [log_row(record, active, shown) for record, active in reversed(records)],
            "total": total,
            "has_newer": self._n_newer > 0,
            "has_older": first > 0,
            "may_undo": self._visitor.may("feedback"),
            "reason": FEEDBACK_ROLE_REQUIRED,
        }


class DirectFeedback(NamedTuple):
    """Feedback on two items, and the sequence number of its record."""

    same: bool
    seq: int


def recent_feedback(collection: Collection, key: str) -> dict[str, DirectFeedback]:
    """Return a dictionary of recent feedback on an item, by the key of the other item of the pair.

    Implied feedback is left out.
    """
    found: dict[str, DirectFeedback] = {}
    for record, active in collection.feedback_log.page(max(0, collection.feedback_log.last_seq - _RECENT), _RECENT):
        if active and key in keys_of(record.change):
            for pair in _pairs(record.change):
                if key in (pair.first, pair.second):
                    other = pair.second if pair.first == key else pair.first
                    found[other] = DirectFeedback(pair.same, record.seq)
    return found


def _pairs(change: Change) -> list[Pair]:
    if not isinstance(change, FEEDBACK):
        return []
    return [
        pair
        for constraint in constraints_of(change)
        for pair in (constraint.pairs if isinstance(constraint, Triplet) else (constraint,))
    ]
