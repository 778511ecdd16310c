"""The catalogue: the items of a collection and their features."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.service.errors import InvalidRequestError, NotFoundError, QuotaExceededError
from oahu.service.feature_store import FeatureStore
from oahu.service.filters import Filter
from oahu.service.payload_index import PayloadIndex
from oahu.service.payloads import check_payload, merge_patch
from oahu.service.records import (
    QUERY_VECTOR_KEY,
    AddedItem,
    CatalogueChange,
    CatalogueItem,
    CollectionConfig,
    ItemPatch,
    NewItem,
    QueryVector,
)
from oahu.service.store import Store, StoreReader, Transaction
from oahu.service.word_search import ascii_fragments, has_words, words_of

__all__ = ["Catalogue"]

_FIND_PAGE: Final = 200  # items per read of `find`
_MAX_NORM: Final = 1e9  # Euclidean norm of the features of an item


@dataclass
class _State:
    """The keys and labels of all items after the last command."""

    numbers: dict[str, int]  # by key
    labels: dict[int, str | None]  # by number


class Catalogue:
    """The items of a collection, stored on disk, with their features in memory.

    Methods with a ``transaction`` parameter are commands. The store runs commands one after the other. The other
    methods are thread-safe.

    Attributes
    ----------
    features : FeatureStore
        The features of all items, including deleted items that feedback or the calibration refers to, and of the
        query vectors in the feedback log.
    payload_index : PayloadIndex
        The values of the payload fields that filters have used.
    n_items : int
        The number of stored items.
    """

    def __init__(self, store: Store, collection: int, config: CollectionConfig, max_items: int) -> None:
        self._store, self._collection, self._config, self._max_items = store, collection, config, max_items
        dtype = np.dtype(config.parameters.get("dtype", "float32"))
        self.features = FeatureStore(config.dimension, dtype, store.n_vectors(collection))
        self.payload_index = PayloadIndex(lambda: store.payloads(collection))
        self.n_items = 0
        self._state: _State | None = None

    def load(self) -> None:
        """Load keys, labels and features into memory."""
        self.n_items = len(self._current(self._store).numbers)
        for numbers, keys, data in self._store.vectors(self._collection):
            self.features.add(numbers, keys, data)

    # -- commands ----------------------------------------------------------------------------------------

    def put_items(
        self,
        transaction: Transaction,
        items: Sequence[NewItem],
        in_use: Callable[[int], bool],
        quota: int | None = None,
    ) -> CatalogueChange:
        """Add items, or replace the items with the same keys.

        An item with new features gets a new item number, because feedback about the old features does not apply to
        the new features. The old features are deleted, unless ``in_use`` returns True for the old item number.
        ``quota`` is a limit of the API key for the number of items.
        """
        state = self._current(transaction)
        n_new = len({item.key for item in items} - state.numbers.keys())
        if len(state.numbers) + n_new > self._max_items:
            raise InvalidRequestError(
                f"A collection can contain at most {self._max_items} items (OAHU_MAX_ITEMS). The collection "
                f"contains {len(state.numbers)} items, and the request adds {n_new} items."
            )
        if quota is not None and n_new and len(state.numbers) + n_new > quota:
            raise QuotaExceededError(
                f"This API key is limited to {quota} items in a collection. {self._config.name!r} contains "
                f"{len(state.numbers)} items, and the request adds {n_new} items."
            )
        transaction.after_rollback(self._reload)
        change, is_new = CatalogueChange(), self._have_new_features(transaction, state, items)
        numbers = iter(transaction.new_numbers(self._collection, sum(is_new)))
        for item, new in zip(items, is_new, strict=True):
            before = state.numbers.get(item.key)
            number = next(numbers) if new or before is None else before
            transaction.put_item(self._collection, item, number, new)
            if new:
                change.added.append(AddedItem(number, item.key, item.label, item.vector))
                if before is not None:
                    change.removed.append(before)
            elif state.labels[number] != item.label:
                change.relabelled.append((number, item.label))
            change.payloads.append((number, item.payload))
            state.numbers[item.key], state.labels[number] = number, item.label
        self._purge(transaction, state, change, in_use)
        self._commit_count(transaction, len(state.numbers))
        if change.added:  # before the commit, which makes the items visible; a rollback frees the numbers
            added = change.added
            self.features.add(
                [item.number for item in added],
                [item.key for item in added],
                b"".join(item.vector for item in added),
            )
        return change

    def patch_items(
        self, transaction: Transaction, patches: Sequence[ItemPatch], in_use: Callable[[int], bool]
    ) -> CatalogueChange:
        """Change single fields of items. For new features, see `put_items`."""
        for at, patch in enumerate(patches):
            self.number_of(transaction, patch.key, "items", at)
        stored = transaction.items_by_key(self._collection, [patch.key for patch in patches])
        items = [self._patched(transaction, stored[patch.key], patch, at) for at, patch in enumerate(patches)]
        return self.put_items(transaction, items, in_use)

    def _patched(self, transaction: Transaction, stored: CatalogueItem, patch: ItemPatch, at: int) -> NewItem:
        """Return the whole item after a patch."""
        key, changed, payload = stored.key, patch.changed, stored.payload
        vector, text = patch.vector, patch.text
        if vector is None:
            vector = transaction.vector(self._collection, stored.number)
            text = transaction.text(self._collection, stored.number)
        if "payload" in changed:
            payload = merge_patch(payload, patch.payload)
            check_payload(payload, f"items/{at}/payload, merged into the stored payload,")
        label = patch.label if "label" in changed else stored.label
        has_new_thumbnail = "thumbnail" in changed
        thumbnail = patch.thumbnail if has_new_thumbnail else transaction.thumbnail(self._collection, key)
        return NewItem(key, vector, label, payload, thumbnail, text)

    def delete_items(
        self, transaction: Transaction, keys: Sequence[str], in_use: Callable[[int], bool]
    ) -> CatalogueChange:
        """Delete items. If ``in_use`` returns True for an item number, the features of this item are kept."""
        state = self._current(transaction)
        distinct = list(dict.fromkeys(keys))
        numbers = [self.number_of(transaction, key, "keys", at) for at, key in enumerate(distinct)]
        transaction.after_rollback(self._reload)
        transaction.delete_items(self._collection, distinct)
        for key in distinct:
            del state.numbers[key]
        change = CatalogueChange(removed=numbers)
        self._purge(transaction, state, change, in_use)
        self._commit_count(transaction, len(state.numbers))
        return change

    def number_of(self, transaction: Transaction, key: str, where: str, at: int) -> int:
        """Return the item number of the item with this key.

        The error message contains the name of the request field (``where``) and the index of the item in this field
        (``at``).
        """
        number = self._current(transaction).numbers.get(key)
        if number is None:
            raise NotFoundError(
                f"There is no item {key!r} in {self._config.name!r} ({where}/{at}).", key=key, at=at
            )
        return number

    def number_of_vector(self, transaction: Transaction, vector: QueryVector) -> int:
        """Return the item number of a query vector. If the vector is new, store it under a new item number."""
        number = transaction.query_vector(self._collection, vector.key)
        if number is None:
            (number,) = transaction.new_numbers(self._collection, 1)
            transaction.put_vector(self._collection, number, vector.key, vector.data)
            transaction.store_text(self._collection, number, vector.text)
            self.features.add([number], [vector.key], vector.data)  # before the commit, like the features of items
        return number

    def _have_new_features(self, transaction: Transaction, state: _State, items: Sequence[NewItem]) -> list[bool]:
        """Return for each item whether its features differ from the stored features for the same key."""
        stored: dict[str, bytes] = {}
        is_new = []
        for item in items:
            if item.key not in stored and item.key in state.numbers:
                stored[item.key] = transaction.vector(self._collection, state.numbers[item.key])
            is_new.append(stored.get(item.key) != item.vector)
            stored[item.key] = item.vector
        return is_new

    def _purge(
        self, transaction: Transaction, state: _State, change: CatalogueChange, in_use: Callable[[int], bool]
    ) -> None:
        """Delete the features of the removed items that are not in use."""
        change.purged.extend(number for number in change.removed if not in_use(number))
        transaction.delete_vectors(self._collection, change.purged)
        for number in change.removed:
            del state.labels[number]

    def _commit_count(self, transaction: Transaction, count: int) -> None:
        def set_count() -> None:
            self.n_items = count

        transaction.after_commit(set_count)

    def _current(self, reader: StoreReader) -> _State:
        if self._state is None:
            numbers, labels = {}, {}
            for key, number, label in reader.keys(self._collection):
                numbers[key], labels[number] = number, label
            self._state = _State(numbers, labels)
        return self._state

    def _reload(self, reader: StoreReader) -> None:
        """Discard the state after a rollback. The next command loads the state again."""
        self._state = None

    # -- reads -------------------------------------------------------------------------------------------

    def item_of(self, number: int) -> str | QueryVector:
        """Return the key of the item with this item number, or the query vector. The item may be deleted."""
        key = self.features.key(number)
        return QueryVector(self.features.take(number).tobytes()) if key.startswith(QUERY_VECTOR_KEY) else key

    def item(self, key: str) -> CatalogueItem:
        """Return the item with this key. Raise `NotFoundError` if the item does not exist."""
        found = self.items([key])
        if key not in found:
            raise NotFoundError(f"There is no item {key!r} in {self._config.name!r}.", key=key)
        return found[key]

    def items(self, keys: Sequence[str]) -> dict[str, CatalogueItem]:
        """Return a dictionary of the items with these keys. Missing keys are left out."""
        return self._store.items_by_key(self._collection, keys)

    def page(self, after: int, limit: int, label: str | None = None) -> list[CatalogueItem]:
        """Return one page of the items, in the order in which they were added.

        The page contains at most ``limit`` items with an item number above ``after``. If ``label`` is given, it
        contains only items with this label.
        """
        return self._store.items(self._collection, after, limit, label)

    def find(
        self,
        after: int,
        limit: int,
        label: str | None = None,
        text: str | None = None,
        filter_: Filter | None = None,
    ) -> list[CatalogueItem]:
        """Return one page of the items that match a label, a text and a filter, as `page` does.

        An item matches a text if each word of the text is the beginning of a word in the item's key, label or
        payload.
        """
        words = [] if text is None else words_of(text)
        if filter_ is None:
            items = self._scan(after, label, ascii_fragments(words))
        else:
            items = self._select(after, self.payload_index.matching(filter_))
        matching = (item for item in items if label in (None, item.label) and (not words or has_words(item, words)))
        return list(islice(matching, limit))

    def _scan(self, after: int, label: str | None, texts: Sequence[str]) -> Iterator[CatalogueItem]:
        """Yield the items with a label that contain each of the given texts."""
        while page := self._store.items_with_texts(self._collection, after, _FIND_PAGE, label, texts):
            yield from page
            after = page[-1].number

    def _select(self, after: int, numbers: set[int]) -> Iterator[CatalogueItem]:
        """Yield the items with the given item numbers above ``after``."""
        later = sorted(number for number in numbers if number > after)
        for start in range(0, len(later), _FIND_PAGE):
            yield from self._store.items_by_number(self._collection, later[start : start + _FIND_PAGE])

    def all_items(self) -> tuple[list[int], list[str | None]]:
        """Return the item numbers and labels of all items, in the order in which the items were added."""
        found = list(self._store.keys(self._collection))
        return [number for _, number, _ in found], [label for _, _, label in found]

    def thumbnail(self, key: str) -> bytes | None:
        """Return the thumbnail of an item, or None if the item has no thumbnail."""
        return self._store.thumbnail(self._collection, key)

    def vector(self, key: str) -> NDArray[Any]:
        """Return the features of an item."""
        return self.vectors([key])[key][1]

    def vectors(self, keys: Iterable[str]) -> dict[str, tuple[int, NDArray[Any]]]:
        """Return a dictionary that maps each key to the item number and the features of the item.

        Raise `NotFoundError` for a missing key.
        """
        requested = list(keys)
        table, found = self.features.table, self.items(requested)
        for key in requested:
            if key not in found:
                raise NotFoundError(f"There is no item {key!r} in {self._config.name!r}.", key=key)
        numbers = [found[key].number for key in requested]
        if all(number in table for number in numbers):
            return dict(zip(requested, zip(numbers, table.take(numbers), strict=True), strict=True))
        return self.vectors(requested)  # the table was compacted between the two reads

    def find_vector(self, features: NDArray[Any]) -> int | None:
        """Return the item number of a query vector, or None if there is no feedback about the vector."""
        vector = QueryVector(features.astype(self.features.dtype, copy=False).tobytes())
        return self._store.query_vector(self._collection, vector.key)

    def parse_features(self, vector: Sequence[float] | str, where: str) -> NDArray[Any]:
        """Return validated features. ``vector`` contains numbers, or little-endian float32 bytes in base64.

        ``where`` is the name of the request field in error messages.
        """
        d = self._config.dimension
        try:
            if isinstance(vector, str):
                row = np.frombuffer(base64.b64decode(vector, validate=True), "<f4")
            else:
                row = np.asarray(vector, np.float64)
        except (ValueError, OverflowError) as error:
            raise InvalidRequestError(
                f"{where} must contain {d} numbers, or {d} float32 values in base64 ({error}).", where=where
            ) from error
        if row.shape != (d,):
            raise InvalidRequestError(f"{where} must have {d} numbers. Got {row.size} instead.", where=where)
        if not np.isfinite(row).all():
            raise InvalidRequestError(
                f"{where} must be finite. The number at index {np.argmin(np.isfinite(row))} is not finite.",
                where=where,
            )
        if (norm := math.hypot(*row.tolist())) > _MAX_NORM:
            raise InvalidRequestError(
                f"The norm of {where} must be at most {_MAX_NORM:.0e}. Got {norm:.3g} instead. Scale the features.",
                where=where,
            )
        return row.astype(self.features.dtype)
