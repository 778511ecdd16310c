"""The search index of a catalogue: an immutable set of items, encoded with one version of the metric."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.service.feature_store import ItemFeatureTable
from oahu.service.records import CatalogueChange, PublishedMetric
from oahu.tasks.indexed_items import AfterBlock, IndexedItems, VoteMode

__all__ = ["CatalogueIndex"]

_MAX_FILTERS = 64  # cached label filters


class _Rows:
    """The features of selected items, as a sequence of rows. The rows are read from the feature table on access."""

    def __init__(self, table: ItemFeatureTable, numbers: Sequence[int]) -> None:
        self._table, self._numbers = table, np.array(numbers, np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: Any) -> NDArray[Any]:
        return self._table.take(self._numbers[at])


@dataclass(frozen=True, eq=False)
class CatalogueIndex:
    """An index of items encoded with one version of the metric.

    An item stays at its position when other items are added or removed. Searches skip removed items.

    Attributes
    ----------
    published : PublishedMetric
        The metric that encoded the items.
    created : float
        The time of the encoding, in seconds since 1970.
    table : ItemFeatureTable
        The features and keys of all items. The table stays in memory as long as this index is in use.
    gallery : IndexedItems
        The encoded items.
    numbers, labels : ndarray of shape (n_positions,)
        The item number and the label of the item at each position.
    positions : ndarray
        The position of each item, indexed by item number. -1 for an item that is not in the index.
    """

    published: PublishedMetric
    created: float
    table: ItemFeatureTable
    gallery: IndexedItems
    numbers: NDArray[np.int64]
    labels: NDArray[np.object_]
    positions: NDArray[np.int64]
    n_items: int
    _filtered: dict[str | None, IndexedItems] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        published: PublishedMetric,
        vote: VoteMode,
        table: ItemFeatureTable,
        numbers: Sequence[int],
        labels: Sequence[str | None],
        after_block: AfterBlock | None = None,
    ) -> CatalogueIndex:
        """Encode items and return their index. ``after_block`` is passed to `IndexedItems.add`."""
        no_items = np.empty(0, np.int64)
        empty = cls(
            published,
            time.time(),
            table,
            IndexedItems.empty(published.metric, vote),
            no_items,
            np.empty(0, object),
            no_items,
            0,
        )
        return empty.with_items(numbers, labels, after_block) if numbers else empty

    def with_items(
        self, numbers: Sequence[int], labels: Sequence[str | None], after_block: AfterBlock | None = None
    ) -> CatalogueIndex:
        """Return an index that also contains the given items."""
        gallery = self.gallery.add(_Rows(self.table, numbers), after_block)
        begin = len(self.numbers)
        added = np.array(numbers, np.int64)
        positions = self.positions.copy()
        if (end := int(added.max()) + 1) > len(positions):
            positions = np.concatenate([positions, np.full(end + end // 2 - len(positions), -1)])
        positions[added] = np.arange(begin, begin + len(added))
        added_labels = np.empty(len(labels), object)
        added_labels[:] = labels
        return replace(
            self,
            gallery=gallery,
            numbers=np.concatenate([self.numbers, added]),
            labels=np.concatenate([self.labels, added_labels]),
            positions=positions,
            n_items=self.n_items + len(added),
            _filtered={},
        )

    def changed(self, change: CatalogueChange, table: ItemFeatureTable) -> CatalogueIndex:
        """Return a new index that includes a change of the catalogue.

        ``table`` is the current feature table. Items that a later change removes may already be missing in the
        table.
        """
        index = replace(self, table=table)
        added = [item for item in change.added if item.number in table]
        if added:
            index = index.with_items([item.number for item in added], [item.label for item in added])
        removed = [number for number in change.removed if index.position(number) is not None]
        if removed:
            positions = index.positions.copy()
            masked = positions[removed]
            positions[removed] = -1
            index = replace(
                index,
                gallery=index.gallery.remove(masked),
                positions=positions,
                n_items=index.n_items - len(removed),
                _filtered={},
            )
        if change.relabelled:
            labels = index.labels.copy()
            for number, label in change.relabelled:
                if (position := index.position(number)) is not None:
                    labels[position] = label
            index = replace(index, labels=labels, _filtered={})
        return index

    @property
    def size(self) -> int:
        """The total number of vector components in the index."""
        return len(self.numbers) * self.gallery.dimensions

    def position(self, number: int) -> int | None:
        """Return the position of the item with this item number, or None if the item is not in the index."""
        position = int(self.positions[number]) if number < len(self.positions) else -1
        return None if position < 0 else position

    def existing(self, numbers: Sequence[int] | NDArray[np.int64], label: str | None = None) -> NDArray[np.int64]:
        """Return those of the given item numbers that are in the index.

        If ``label`` is not None, return only items with this label.
        """
        requested = np.array(numbers, np.int64)
        requested = requested[requested < len(self.positions)]
        positions = self.positions[requested]
        requested, positions = requested[positions >= 0], positions[positions >= 0]
        return requested if label is None else requested[self.labels[positions] == label]

    def matching(self, numbers: set[int], label: str | None = None) -> NDArray[np.int64]:
        """Return those of the given item numbers that are in the index, in the order of the item numbers.

        If ``label`` is not None, return only items with this label.
        """
        return self.existing(np.sort(np.fromiter(numbers, np.int64, len(numbers))), label)

    def only(self, numbers: NDArray[np.int64]) -> IndexedItems:
        """Return the encoded items (``gallery``), restricted to the given item numbers."""
        masked = np.ones(len(self.numbers), bool)
        masked[self.positions[numbers]] = False
        return self.gallery.remove(np.flatnonzero(masked))

    def items(self) -> tuple[list[int], list[str | None]]:
        """Return the item numbers and labels of all items, in the order in which the items were added."""
        positions = np.sort(self.positions[self.positions >= 0])
        return self.numbers[positions].tolist(), self.labels[positions].tolist()

    def with_label(self, label: str | None) -> IndexedItems:
        """Return the encoded items (``gallery``) with this label, or all labelled items if ``label`` is None."""
        found = self._filtered.get(label)
        if found is None:
            matching = self.labels != None if label is None else self.labels == label  # noqa: E711 - elementwise
            found = self._filtered[label] = self.gallery.remove(np.flatnonzero(~matching.astype(bool)))
            if len(self._filtered) > _MAX_FILTERS:
                self._filtered.clear()
        return found

    def candidates(
        self, queries: NDArray[Any], n: int, gallery: IndexedItems, exclude: int | None
    ) -> NDArray[np.int64]:
        """Return the item numbers of the n nearest items of a query in each space, without duplicates.

        Parameters
        ----------
        gallery : IndexedItems
            The items to search: the ``gallery`` of this index, or the result of `only` or `with_label`.
        exclude : int or None
            The item number of an item to leave out.
        """
        if not self.n_items:
            return np.empty(0, np.int64)
        found = gallery.search(queries, min(n + (exclude is not None), len(self.numbers)))
        positions = np.unique(found.positions[found.positions >= 0])
        excluded_position = None if exclude is None else self.position(exclude)
        return self.numbers[
            positions[positions != excluded_position] if excluded_position is not None else positions
        ]
