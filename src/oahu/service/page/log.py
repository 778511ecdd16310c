"""What was said, newest first, and undoing it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from anyio import to_thread

from oahu.constraints import Pair, Triplet
from oahu.service.collection import Collection
from oahu.service.page.frame import Part
from oahu.service.page.visit import WHY, Visit
from oahu.service.page.words import entry_of, keys_of, tiles
from oahu.service.records import Change, constraints_of

__all__ = ["Log", "who_said"]

_AT_ONCE: Final = 15
_BACK: Final = 2_000  # entries that are looked through for who said something


class _LogPart(Part, component="parts/oahu_log.js"):
    """Entries of the log."""


class Log:
    """The feedback of a collection, in pages."""

    def __init__(
        self,
        visit: Visit,
        collection: Collection,
        undo: Callable[[int], Awaitable[None]],
        search: Callable[[str], Awaitable[None]],
    ) -> None:
        self._visit, self._collection = visit, collection
        self._back = 0  # entries that are newer than those shown
        self._part = _LogPart()
        self._part.on("undo", lambda event: undo(int(event.args)))
        self._part.on("search", lambda event: search(str(event.args)))
        self._part.on("older", lambda: self._turn(_AT_ONCE))
        self._part.on("newer", lambda: self._turn(-_AT_ONCE))

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


def who_said(collection: Collection, first: str, second: str, same: bool) -> int | None:
    """The newest piece of feedback that says of two items whether they are alike; None if it only follows."""
    end = collection.last_seq
    for entry, counts in reversed(collection.log(max(0, end - _BACK), _BACK)):
        if counts and (frozenset((first, second)), same) in _says(entry.change):
            return entry.seq
    return None


def _says(change: Change) -> set[tuple[frozenset[Any], bool]]:
    if not keys_of(change):
        return set()
    said: set[tuple[frozenset[Any], bool]] = set()
    for constraint in constraints_of(change):  # type: ignore[arg-type]
        pairs = constraint.pairs if isinstance(constraint, Triplet) else [constraint]
        said |= {(frozenset((pair.first, pair.second)), pair.same) for pair in pairs}
    return said
