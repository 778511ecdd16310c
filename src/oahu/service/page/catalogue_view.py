"""The catalogue view: all items, or the items with one label or with given words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from anyio import to_thread

from oahu.service.collection import Collection
from oahu.service.page.action_runner import ActionRunner
from oahu.service.page.browser_data import tile
from oahu.service.page.layout import Component
from oahu.service.records import CatalogueItem

__all__ = ["CatalogueView", "Filters", "Tiles", "natural_order"]

_PAGE_SIZE: Final = 60
_MAX_LABELS: Final = 500
_EMPTY: Final = "There are no items yet. Add items with oahu.Client or PUT /v1/collections/{name}/items."
_NOT_FOUND: Final = "No item has words that begin like this."


class Tiles(Component, component="components/oahu_tiles.js"):
    """A grid with one tile for each item."""


class _FiltersComponent(Component, component="components/oahu_filters.js"):
    """The Vue component with the labels to choose from, and a search field for keys and words."""


class Filters:
    """The labels of a collection with their counts, the chosen label, and a search field for keys and words."""

    def __init__(
        self,
        collection: Collection,
        choose: Callable[[str | None], Awaitable[None]],
        find: Callable[[str], Awaitable[None]],
    ) -> None:
        self._collection, self._labels, self._total = collection, list[tuple[str, int]](), 0
        self.label: str | None = None
        self.text: str | None = None
        self._component = _FiltersComponent()
        self._component.on("label", lambda event: choose(None if event.args is None else str(event.args)))
        self._component.on("find", lambda event: find(str(event.args)))

    async def refresh(self) -> None:
        """Count the labels again."""
        self._labels, self._total = await to_thread.run_sync(self._count)
        self.show()

    def _count(self) -> tuple[list[tuple[str, int]], int]:
        self._collection.queries.apply_changes()
        _, labels = self._collection.queries.index.items()
        counts = Counter(label for label in labels if label is not None)
        return sorted(counts.most_common(_MAX_LABELS), key=lambda count: natural_order(count[0])), len(labels)

    def show(self) -> None:
        self._component.show(labels=self._labels, total=self._total, chosen=self.label, text=self.text or "")


def natural_order(label: str) -> tuple[int, float, str]:
    """Return a sort value for a label.

    Numbers come first, ordered by value. Other labels follow in alphabetical order.

    >>> sorted(["b", "10", "9", "a"], key=natural_order)
    ['9', '10', 'a', 'b']
    """
    return (0, float(label), label) if label.isdecimal() else (1, 0.0, label.casefold())


class CatalogueView:
    """The items of a collection, in the order in which they were added."""

    def __init__(
        self, runner: ActionRunner, collection: Collection, search: Callable[[str], Awaitable[None]]
    ) -> None:
        self._collection, self._n_shown = collection, _PAGE_SIZE
        self._label: str | None = None
        self._text: str | None = None
        self._is_open = False
        self._tiles = Tiles()
        self._tiles.show(items=[], mode="catalogue")
        self._tiles.on("search", lambda event: search(str(event.args)))
        self._tiles.on("more", lambda: runner.read(self._show_more))

    async def open(self, label: str | None, text: str | None) -> None:
        """Show the items with a label and with words that begin like the words of a text. None means any.

        If the label or the text changes, the number of shown items is reset.
        """
        if (label, text) != (self._label, self._text) or not self._is_open:
            self._label, self._text, self._n_shown, self._is_open = label, text, _PAGE_SIZE, True
            await self.refresh()

    async def refresh(self) -> None:
        """Load the shown items again."""
        if not self._is_open:
            return
        items = await to_thread.run_sync(self._load)
        name = self._collection.config.name
        shown: list[dict[str, Any]] = [tile(name, item) for item in items[: self._n_shown]]
        more = "Show more" if len(items) > self._n_shown else ""
        empty = _EMPTY.format(name=name) if self._label is None else "No item has this label."
        empty = empty if self._text is None else _NOT_FOUND
        self._tiles.show(items=shown, mode="catalogue", title="Items", more=more, empty=empty)

    def _load(self) -> list[CatalogueItem]:
        """Return the items to show, and one more if there are more."""
        if self._text is None:
            return self._collection.catalogue.page(0, self._n_shown + 1, self._label)
        return self._collection.find(self._text, self._label, limit=self._n_shown + 1)

    async def _show_more(self) -> None:
        self._n_shown += _PAGE_SIZE
        await self.refresh()
