"""The gallery: all items, some at a time, of one label if one is chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from anyio import to_thread

from oahu.service.collection import Collection
from oahu.service.page.action_runner import Telling
from oahu.service.page.browser_data import tile
from oahu.service.page.layout import Part

__all__ = ["Facets", "Gallery", "Tiles", "natural"]

_AT_ONCE: Final = 60
_LABELS: Final = 500  # labels that one can choose from
_EMPTY: Final = "There are no items yet. Put some in with oahu.Client or PUT /v1/collections/{name}/items."


class Tiles(Part, component="components/oahu_tiles.js"):
    """Items as tiles."""


class _FacetsPart(Part, component="components/oahu_filters.js"):
    """Labels to choose from, and a field for keys."""


class Facets:
    """Which labels there are, which one is chosen, and finding an item by its key."""

    def __init__(
        self,
        collection: Collection,
        choose: Callable[[str | None], Awaitable[None]],
        find: Callable[[str], Awaitable[None]],
    ) -> None:
        self._collection, self._labels, self._total = collection, list[tuple[str, int]](), 0
        self.chosen: str | None = None
        self._part = _FacetsPart()
        self._part.on("label", lambda event: choose(None if event.args is None else str(event.args)))
        self._part.on("find", lambda event: find(str(event.args)))

    async def refresh(self) -> None:
        """Count the labels anew."""
        self._labels, self._total = await to_thread.run_sync(self._count)
        self.show()

    def _count(self) -> tuple[list[tuple[str, int]], int]:
        _, labels = self._collection.catalogue.present()
        counts = Counter(label for label in labels if label is not None)
        return sorted(counts.most_common(_LABELS), key=lambda one: natural(one[0])), len(labels)

    def show(self) -> None:
        self._part.show(labels=self._labels, total=self._total, chosen=self.chosen)


def natural(label: str) -> tuple[int, float, str]:
    """Numbers by their size, then words.

    >>> sorted(["b", "10", "9", "a"], key=natural)
    ['9', '10', 'a', 'b']
    """
    return (0, float(label), label) if label.isdecimal() else (1, 0.0, label.casefold())


class Gallery:
    """Items in the order in which they were added."""

    def __init__(self, telling: Telling, collection: Collection, search: Callable[[str], Awaitable[None]]) -> None:
        self._collection, self._shown = collection, _AT_ONCE
        self._label: str | None = None
        self._opened = False
        self.part = Tiles()
        self.part.show(items=[], mode="gallery")
        self.part.on("search", lambda event: search(str(event.args)))
        self.part.on("more", lambda: telling.reading(self._more))

    async def open(self, label: str | None) -> None:
        """Show the items of a label: as many as before if it is the same."""
        if label != self._label or not self._opened:
            self._label, self._shown, self._opened = label, _AT_ONCE, True
            await self.refresh()

    async def refresh(self) -> None:
        """Show as many items as before, as they are now."""
        if not self._opened:
            return
        items = await to_thread.run_sync(self._collection.page, 0, self._shown + 1, self._label)
        name = self._collection.config.name
        shown: list[dict[str, Any]] = [tile(name, item) for item in items[: self._shown]]
        more = "Show more" if len(items) > self._shown else ""
        empty = _EMPTY.format(name=name) if self._label is None else "No item has this label any more."
        self.part.show(items=shown, mode="gallery", title="Items", more=more, empty=empty)

    async def _more(self) -> None:
        self._shown += _AT_ONCE
        await self.refresh()
