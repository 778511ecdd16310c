"""The catalogue in the spaces of one metric: frozen, so that a search sees one state of it, whole."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.service.feature_store import FeatureTable
from oahu.service.records import CatalogueChange, PublishedMetric
from oahu.tasks.indexed_items import AfterBlock, IndexedItems, VoteMode

__all__ = ["CatalogueIndex"]

_FILTERS = 64  # labels whose items are kept apart


class _Rows:
    """The features of items, taken from a table when they are asked for."""

    def __init__(self, table: FeatureTable, numbers: Sequence[int]) -> None:
        self._table, self._numbers = table, np.array(numbers, np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: Any) -> NDArray[Any]:
        return self._table.take(self._numbers[at])


@dataclass(frozen=True, eq=False)
class CatalogueIndex:
    """Items, embedded by the metric of one version. An item keeps its place; what is gone is hidden.

    Attributes
    ----------
    table : FeatureTable
        The features and keys of all items that are there, for as long as anyone looks at this value.
    numbers, labels : ndarray of shape (n_places,)
        Of the item at each place.
    places : ndarray
        By number, where an item is; -1 if it is not there.
    """

    published: PublishedMetric
    made: float
    table: FeatureTable
    gallery: IndexedItems
    numbers: NDArray[np.int64]
    labels: NDArray[np.object_]
    places: NDArray[np.int64]
    n_items: int
    _filtered: dict[str | None, IndexedItems] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        published: PublishedMetric,
        vote: VoteMode,
        table: FeatureTable,
        numbers: Sequence[int],
        labels: Sequence[str | None],
        rest: AfterBlock | None = None,
    ) -> CatalogueIndex:
        """A catalogue of some items, embedded block by block; ``rest`` as in `IndexedItems.add`."""
        nothing = np.empty(0, np.int64)
        empty = cls(
            published,
            time.time(),
            table,
            IndexedItems.empty(published.metric, vote),
            nothing,
            np.empty(0, object),
            nothing,
            0,
        )
        return empty.with_items(numbers, labels, rest) if numbers else empty

    def with_items(
        self, numbers: Sequence[int], labels: Sequence[str | None], rest: AfterBlock | None = None
    ) -> CatalogueIndex:
        """With more items."""
        gallery = self.gallery.add(_Rows(self.table, numbers), rest)
        begin = len(self.numbers)
        more = np.array(numbers, np.int64)
        places = self.places.copy()
        if (end := int(more.max()) + 1) > len(places):
            places = np.concatenate([places, np.full(end + end // 2 - len(places), -1)])
        places[more] = np.arange(begin, begin + len(more))
        named = np.empty(len(labels), object)
        named[:] = labels
        return replace(
            self,
            gallery=gallery,
            numbers=np.concatenate([self.numbers, more]),
            labels=np.concatenate([self.labels, named]),
            places=places,
            n_items=self.n_items + len(more),
            _filtered={},
        )

    def changed(self, change: CatalogueChange, table: FeatureTable) -> CatalogueIndex:
        """After a change of the items, with the table of then: it may lack what a later change removes again."""
        made = replace(self, table=table)
        added = [(number, label) for number, _, label, _ in change.added if number in table]
        if added:
            numbers, named = zip(*added, strict=True)
            made = made.with_items(numbers, named)
        gone = [number for number in change.removed if made.place(number) is not None]
        if gone:
            places = made.places.copy()
            out = places[gone]
            places[gone] = -1
            n_items = made.n_items - len(gone)
            made = replace(made, gallery=made.gallery.remove(out), places=places, n_items=n_items, _filtered={})
        if change.labelled:
            labels = made.labels.copy()
            for number, label in change.labelled:
                if (place := made.place(number)) is not None:
                    labels[place] = label
            made = replace(made, labels=labels, _filtered={})
        return made

    @property
    def size(self) -> int:
        """The numbers of all its vectors."""
        return len(self.numbers) * self.gallery.dimensions

    def place(self, number: int) -> int | None:
        """Where an item is, if it is there."""
        place = int(self.places[number]) if number < len(self.places) else -1
        return None if place < 0 else place

    def there(self, numbers: Sequence[int], label: str | None = None) -> NDArray[np.int64]:
        """Which of some items are there, and have the label if one is given."""
        asked = np.array(numbers, np.int64)
        asked = asked[asked < len(self.places)]
        places = self.places[asked]
        asked, places = asked[places >= 0], places[places >= 0]
        return asked if label is None else asked[self.labels[places] == label]

    def only(self, numbers: NDArray[np.int64]) -> IndexedItems:
        """Only some of the items, which are there."""
        out = np.ones(len(self.numbers), bool)
        out[self.places[numbers]] = False
        return self.gallery.remove(np.flatnonzero(out))

    def present(self) -> tuple[list[int], list[str | None]]:
        """The numbers and labels of the items that are there, in the order in which they were added."""
        there = np.sort(self.places[self.places >= 0])
        return self.numbers[there].tolist(), self.labels[there].tolist()

    def with_label(self, label: str | None) -> IndexedItems:
        """Only the items of a label; with None, those that have one."""
        found = self._filtered.get(label)
        if found is None:
            wanted = self.labels != None if label is None else self.labels == label  # noqa: E711 - element by element
            found = self._filtered[label] = self.gallery.remove(np.flatnonzero(~wanted.astype(bool)))
            if len(self._filtered) > _FILTERS:
                self._filtered.clear()  # whoever has one of them keeps it
        return found

    def candidates(
        self, queries: NDArray[Any], n: int, gallery: IndexedItems, without: int | None
    ) -> NDArray[np.int64]:
        """The numbers of the items that any space has among the n nearest of a query, in the order of places."""
        if not self.n_items:
            return np.empty(0, np.int64)
        n_asked = min(n + (without is not None), len(self.numbers))
        found = gallery.search(queries, n_asked)
        places = np.unique(found.positions[found.positions >= 0])
        place = None if without is None else self.place(without)
        return self.numbers[places[places != place] if place is not None else places]
