"""Copies of a whole collection: for an import, and for a collection whose texts are encoded again.

A copy is invisible until it is complete: its items and log are stored, and the learner has learned the log. The
copy then becomes visible in one transaction. A crash before this transaction leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from oahu.service.collection import Collection
from oahu.service.collection_encoder import CollectionEncoder
from oahu.service.encoder_process import EncoderProcess
from oahu.service.errors import ConflictError
from oahu.service.records import QUERY_VECTOR_KEY, Calibration, CollectionConfig, QueryVector
from oahu.service.settings import Settings
from oahu.service.store import Store, StoreReader, Transaction
from oahu.service.store.interface import StoredCollection, StoredEntry, StoredItem

__all__ = ["CollectionContent", "build_collection", "read_content", "reencoded"]

T = TypeVar("T")

_CHUNK = 500  # rows per transaction


@dataclass(frozen=True)
class CollectionContent:
    """Everything that is stored about a collection. Snapshots and the history are left out: they are learned again.

    Attributes
    ----------
    items : iterable of StoredItem
        Items, including deleted items that feedback refers to.
    log : iterable of StoredEntry
    encoder : bytes or None
        The fitted encoder of the collection.
    refusals : dict
        The number of refused feedback records of each source.
    """

    config: CollectionConfig
    created: float
    items: Iterable[StoredItem]
    log: Iterable[StoredEntry]
    calibration: Calibration | None
    encoder: bytes | None
    refusals: dict[str, int]


def read_content(reader: StoreReader, stored: StoredCollection) -> CollectionContent:
    """Return the content of a stored collection. The items and the log are read when they are iterated."""
    return CollectionContent(
        stored.config,
        stored.created,
        reader.stored_items(stored.id),
        reader.stored_log(stored.id),
        reader.calibration(stored.id),
        reader.encoder(stored.id),
        reader.refusals(stored.id),
    )


def reencoded(content: CollectionContent, encoder: CollectionEncoder) -> tuple[CollectionContent, int]:
    """Return a content with the texts of its items encoded again, and the number of texts.

    The built-in encoder is fitted on all texts of current items first.
    """
    items = list(content.items)
    texts = {number: item.text for number, item, _ in items if item.text is not None}
    if not texts:
        raise ConflictError(f"No item of {content.config.name!r} has a text. Add items with texts first.")
    current = [item.text for _, item, is_current in items if is_current and item.text is not None]
    fitted = encoder.fit(current or list(texts.values()))
    vectors = (
        fitted.encode(list(texts.values())) if fitted else encoder.submit("text", list(texts.values())).result()
    )
    encoder.check(vectors)
    dtype = np.dtype(content.config.parameters.get("dtype", "float32"))
    by_number = dict(zip(texts, vectors.astype(dtype), strict=True))
    keys = {item.key for number, item, _ in items if number not in by_number}
    changed = []
    for one in items:
        if one.number in by_number:
            vector = by_number[one.number].tobytes()
            key = one.item.key
            if key.startswith(QUERY_VECTOR_KEY):
                key = QueryVector(vector).key
                key = f"{key} {one.number}" if key in keys else key  # two texts can get the same vector
                keys.add(key)
            one = one._replace(item=replace(one.item, key=key, vector=vector))
        changed.append(one)
    return replace(content, items=changed, encoder=fitted.to_bytes() if fitted else None), len(texts)


def build_collection(
    store: Store,
    settings: Settings,
    content: CollectionContent,
    process: EncoderProcess | None = None,
    replaces: Collection | None = None,
) -> Collection:
    """Store a collection, learn its log, and make it visible. Return the open collection.

    Parameters
    ----------
    process : EncoderProcess or None
        The encoder function of the service.
    replaces : Collection or None
        A collection of the same name. The transaction that makes the new collection visible makes this collection
        invisible. The caller deletes it when no query uses it any more.
    """
    stored = store.commit(lambda transaction: transaction.create_building(content.config, content.created)).result()
    collection: Collection | None = None
    try:
        _fill(store, stored.id, content)
        collection = Collection(stored, store, settings, process)
        collection.open()
        collection.learner.raise_if_failed()
        store.commit(lambda transaction: _finish(transaction, stored, replaces)).result()
    except BaseException:
        if collection is not None:
            collection.learner.stop()
        store.commit(lambda transaction: transaction.delete(stored.id)).result()
        store.drop_snapshots(stored.id, store.snapshots(stored.id))
        raise
    return collection


def _fill(store: Store, id_: int, content: CollectionContent) -> None:
    def copy_items(chunk: list[StoredItem]) -> Callable[[Transaction], None]:
        return lambda transaction: transaction.copy_items(id_, chunk)

    def copy_log(chunk: list[StoredEntry]) -> Callable[[Transaction], None]:
        return lambda transaction: transaction.copy_log(id_, chunk)

    for items in _chunks(content.items):
        store.commit(copy_items(items)).result()
    for entries in _chunks(content.log):
        store.commit(copy_log(entries)).result()

    def rest(transaction: Transaction) -> None:
        transaction.store_calibration(id_, content.calibration)
        transaction.store_refusals(id_, content.refusals)
        if content.encoder is not None:
            transaction.store_encoder(id_, content.encoder)

    store.commit(rest).result()


def _finish(transaction: Transaction, stored: StoredCollection, replaces: Collection | None) -> None:
    name = stored.config.name
    if replaces is not None:
        transaction.replace_by_building(replaces.id, stored.id)
    elif any(other.config.name == name for other in transaction.collections()):
        raise ConflictError(f"The collection {name!r} already exists.")
    transaction.finish_building(stored.id, name)


def _chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
