"""What was said, newest first, and undoing it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from anyio import to_thread

from oahu.constraints import Pair, Triplet
from oahu.service.collection import Collection
from oahu.service.page.action_runner import Telling
from oahu.service.page.browser_data import entry_of, keys_of, tiles
from oahu.service.page.layout import Part
from oahu.service.page.visitor import WHY
from oahu.service.records import Change, ModelReplacement, Undo, constraints_of

__all__ = ["Log", "Spoken", "spoken_of"]

_AT_ONCE: Final = 15
_BACK: Final = 1_000  # entries that are looked through for what was said of an item


class _LogPart(Part, component="components/oahu_feedback_log.js"):
    """Entries of the log."""


class Log:
    """The feedback of a collection, in pages."""

    def __init__(
        self,
        telling: Telling,
        collection: Collection,
        undo: Callable[[int], Awaitable[Any]],
        search: Callable[[str], Awaitable[None]],
    ) -> None:
        self._visit, self._collection = telling.visit, collection
        self._back = 0  # entries that are newer than those shown
        self._part = _LogPart()
        self._part.on("undo", lambda event: undo(int(event.args)))
        self._part.on("search", lambda event: search(str(event.args)))
        self._part.on("older", lambda: telling.reading(self._turn, _AT_ONCE))
        self._part.on("newer", lambda: telling.reading(self._turn, -_AT_ONCE))

    async def refresh(self) -> None:
        """Show the log as it is now."""
        self._part.show(**await to_thread.run_sync(self._told))

    async def _turn(self, by: int) -> None:
        self._back = max(0, self._back + by)
        await self.refresh()

    def _told(self) -> dict[str, Any]:
        total = self._collection.last_seq
        self._back = min(self._back, max(0, total - 1))
        last = total - self._back
        first = max(0, last - _AT_ONCE)
        found = self._collection.log(first, last - first)
        known = tiles(self._collection, [key for entry, _ in found for key in keys_of(entry.change)])
        return {
            "entries": [entry_of(entry, counts, known) for entry, counts in reversed(found)],
            "total": total,
            "newer": self._back > 0,
            "older": first > 0,
            "may": self._visit.may("feedback"),
            "why": WHY,
        }


class Spoken(NamedTuple):
    """What was said of two items, and in which piece of feedback."""

    same: bool
    seq: int


def spoken_of(collection: Collection, key: str) -> dict[str, Spoken]:
    """What was said lately of an item and others, not what follows from it; the newest of each."""
    found: dict[str, Spoken] = {}
    for entry, counts in collection.log(max(0, collection.last_seq - _BACK), _BACK):
        if counts and key in keys_of(entry.change):
            for pair in _pairs(entry.change):
                if key in (pair.first, pair.second):
                    found[pair.second if pair.first == key else pair.first] = Spoken(pair.same, entry.seq)
    return found


def _pairs(change: Change) -> list[Pair]:
    if isinstance(change, Undo | ModelReplacement):
        return []
    said = constraints_of(change)
    return [pair for one in said for pair in (one.pairs if isinstance(one, Triplet) else (one,))]
