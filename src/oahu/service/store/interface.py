"""The interface of a store. The SQLite store implements it. A store in a shared database could implement it too.

All writes use `Store.commit`. It runs commands one after the other, each in a transaction, and completes the future
of a command when the data are on disk. Checks that depend on stored data, such as the search for contradictions,
run inside the transaction. Reads run in any thread and see committed data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

from oahu.service.records import (
    Calibration,
    CatalogueItem,
    Change,
    CollectionConfig,
    HistoryPoint,
    LoggedChange,
    NewItem,
    TrainingEntry,
    UndoEntry,
)

__all__ = ["Commit", "Store", "StoreReader", "StoredCollection", "StoredReceipt", "Transaction"]

T = TypeVar("T")


class StoredCollection(NamedTuple):
    """The id of a collection in the store, its settings, and its creation time."""

    id: int
    config: CollectionConfig
    created: float


class StoredReceipt(NamedTuple):
    """The receipt of an earlier request with an idempotency key."""

    digest: str
    first_seq: int
    last_seq: int


class StoreReader(Protocol):
    """The read operations of a store."""

    def collections(self) -> list[StoredCollection]: ...

    def log(self, collection: int, after: int = 0, limit: int | None = None) -> list[LoggedChange]:
        """Return log entries with a sequence number above ``after``, in order."""
        ...

    def training_log(self, collection: int, after: int, limit: int) -> list[TrainingEntry]:
        """Return the log entries of `log`, with their training examples."""
        ...

    def last_seq(self, collection: int) -> int:
        """Return the last sequence number, or 0 for an empty log."""
        ...

    def undos(self, collection: int, after: int = 0) -> list[UndoEntry]:
        """Return all undos with a sequence number above ``after``, in order."""
        ...

    def undone(self, collection: int) -> list[tuple[int, int]]:
        """Return the undone ranges (first, last) of sequence numbers."""
        ...

    def model(self, collection: int, seq: int) -> bytes:
        """Return the model file of the model replacement at ``seq``."""
        ...

    def keys(self, collection: int) -> Iterator[tuple[str, int, str | None]]:
        """Yield key, number and label of every item, ordered by number."""
        ...

    def vectors(self, collection: int) -> Iterator[tuple[list[int], list[str], bytes]]:
        """Yield numbers, keys and features in chunks, ordered by number. Includes deleted items still in use."""
        ...

    def n_vectors(self, collection: int) -> int:
        """Return the number of stored feature vectors."""
        ...

    def items(self, collection: int, after: int, limit: int, label: str | None) -> list[CatalogueItem]:
        """Return items with a number above ``after``, ordered by number."""
        ...

    def items_by_key(self, collection: int, keys: Sequence[str]) -> dict[str, CatalogueItem]:
        """Return items by key. Missing keys are left out."""
        ...

    def thumbnail(self, collection: int, key: str) -> bytes | None: ...

    def calibration(self, collection: int) -> Calibration | None: ...

    def history(self, collection: int) -> list[HistoryPoint]:
        """Return the stored weights of the metric, ordered by version."""
        ...


class Transaction(StoreReader, Protocol):
    """The write operations of a command. All of them take effect, or none."""

    def after_commit(self, call: Callable[[], None]) -> None:
        """Run ``call`` when the data are on disk, before any future completes."""
        ...

    def after_rollback(self, call: Callable[[StoreReader], None]) -> None:
        """Run ``call`` if the command is rolled back. It gets a reader of the state before the command.

        A rollback of several commands runs each distinct call once.
        """
        ...

    def create(self, config: CollectionConfig) -> StoredCollection: ...

    def delete(self, collection: int) -> None: ...

    def append(self, collection: int, seq: int, changes: Sequence[Change]) -> None:
        """Append entries to the log, starting at ``seq``."""
        ...

    def store_examples(self, collection: int, examples: Iterable[tuple[int, bytes]]) -> None:
        """Store or replace the training examples of log entries, given as (seq, examples)."""
        ...

    def store_model(self, collection: int, seq: int, data: bytes) -> None: ...

    def find_receipt(self, collection: int, request: str) -> StoredReceipt | None:
        """Return the receipt of the request with this idempotency key, or None."""
        ...

    def store_receipt(self, collection: int, request: str, receipt: StoredReceipt) -> None: ...

    def vector(self, collection: int, number: int) -> bytes: ...

    def new_numbers(self, collection: int, count: int) -> range:
        """Reserve item numbers that were never used before."""
        ...

    def put_item(self, collection: int, item: NewItem, number: int, new: bool) -> None:
        """Store an item with a number. Also store its features if the number is ``new``."""
        ...

    def delete_items(self, collection: int, keys: Iterable[str]) -> None:
        """Delete items. Their features remain."""
        ...

    def delete_vectors(self, collection: int, numbers: Iterable[int]) -> None: ...

    def store_calibration(self, collection: int, calibration: Calibration | None) -> None: ...

    def store_history(self, collection: int, points: Sequence[HistoryPoint]) -> None: ...

    def delete_history(self, collection: int, from_version: int) -> None: ...


#: A function that runs inside a transaction.
Commit = Callable[[Transaction], T]


class Store(StoreReader, Protocol):
    """Durable storage of collections, with one writer."""

    @property
    def queue_weight(self) -> int:
        """The total weight of the commands in the write queue."""
        ...

    def commit(self, command: Commit[T], weight: int = 1) -> Future[T]:
        """Run a command in a transaction. The future completes when the command is on disk or rolled back."""
        ...

    def save_snapshot(self, collection: int, seq: int, learner: Any, notes: dict[str, Any]) -> None:
        """Store a learner that has learned the log up to ``seq``."""
        ...

    def snapshots(self, collection: int) -> list[int]:
        """Return the sequence numbers of the stored snapshots, newest first."""
        ...

    def snapshot(self, collection: int, seq: int) -> tuple[Any, dict[str, Any]]:
        """Return a learner and its notes. Raise `ModelFileError` if the file is damaged."""
        ...

    def drop_snapshots(self, collection: int, seqs: Iterable[int]) -> None: ...

    def close(self) -> None:
        """Commit the write queue and close the store."""
        ...
