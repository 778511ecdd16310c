"""The interface of a store. The SQLite store implements this interface.

All writes use `Store.commit`, which runs commands one after the other, each in a transaction. The future of a
command completes when the data are on disk. Checks that depend on stored data, such as the search for
contradictions, run inside the transaction. Reads run in any thread and return committed data.
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
    Feedback,
    HistoryPoint,
    LoggedChange,
    NewItem,
    SourceWeight,
    TrainingEntry,
    UndoEntry,
)

__all__ = [
    "Commit",
    "SourceCount",
    "Store",
    "StoreReader",
    "StoredCollection",
    "StoredOrdering",
    "StoredOutcome",
    "StoredReceipt",
    "Transaction",
]

T = TypeVar("T")


class StoredCollection(NamedTuple):
    """The id of a collection in the store, its settings, and its creation time."""

    id: int
    config: CollectionConfig
    created: float


class StoredReceipt(NamedTuple):
    """The receipt of an earlier request with an idempotency key. ``details`` is JSON data."""

    digest: str
    first_seq: int
    last_seq: int
    details: dict[str, Any] | None = None


class SourceCount(NamedTuple):
    """The numbers of stored and refused feedback records of a source."""

    source: str
    stored: int
    refused: int


class StoredOutcome(NamedTuple):
    """The marks of one click on the results of a search. ``content`` is JSON data, see `oahu.service.outcomes`.

    ``query`` identifies the query, see `oahu.service.outcomes.query_id`.
    """

    seq: int
    impression: str
    query: int
    content: list[Any]


class StoredOrdering(NamedTuple):
    """The share of the pairs of a click that the learned and the unlearned metric ordered correctly."""

    seq: int
    query: int
    learned: float
    unlearned: float


class StoreReader(Protocol):
    """The read operations of a store."""

    def collections(self) -> list[StoredCollection]: ...

    def config(self, collection: int) -> CollectionConfig:
        """Return the current settings of a collection."""
        ...

    def log(self, collection: int, after: int = 0, limit: int | None = None) -> list[LoggedChange]:
        """Return log entries with a sequence number above ``after``, in the order of the sequence numbers."""
        ...

    def training_log(self, collection: int, after: int, limit: int) -> list[TrainingEntry]:
        """Return the same log entries as `log`, but with their training examples instead of their content."""
        ...

    def last_seq(self, collection: int) -> int:
        """Return the last sequence number, or 0 for an empty log."""
        ...

    def undos(self, collection: int, after: int = 0) -> list[UndoEntry]:
        """Return all undos with a sequence number above ``after``, in the order of the sequence numbers."""
        ...

    def undone(self, collection: int) -> list[tuple[int, int]]:
        """Return the undone ranges (first, last) of sequence numbers."""
        ...

    def source_weights(self, collection: int) -> list[tuple[int, SourceWeight]]:
        """Return all weights of sources with their sequence numbers, including undone entries."""
        ...

    def source_seqs(self, collection: int, source: str) -> list[int]:
        """Return the sequence numbers of all feedback of a source, in ascending order."""
        ...

    def source_counts(self, collection: int, after: str, limit: int) -> list[SourceCount]:
        """Return at most ``limit`` sources after the source ``after``, in alphabetical order."""
        ...

    def source_of(self, collection: int, seqs: Sequence[int]) -> dict[int, str | None]:
        """Return the sources of feedback records by sequence number."""
        ...

    def contradictions(self, collection: int) -> list[tuple[int, int]]:
        """Return pairs of sequence numbers: a feedback record, and an earlier record that it contradicts."""
        ...

    def outcomes(self, collection: int, impression: str | None = None) -> list[StoredOutcome]:
        """Return the outcomes of all clicks, or of the clicks on one impression, in the order of the log."""
        ...

    def orderings(self, collection: int) -> list[StoredOrdering]:
        """Return the evaluations of all clicks before learning, in the order of the log."""
        ...

    def model(self, collection: int, seq: int) -> bytes:
        """Return the model file of the model replacement at ``seq``."""
        ...

    def keys(self, collection: int) -> Iterator[tuple[str, int, str | None]]:
        """Yield the key, the item number and the label of every item, ordered by item number."""
        ...

    def vectors(self, collection: int) -> Iterator[tuple[list[int], list[str], bytes]]:
        """Yield the item numbers, keys and features of all items in chunks, ordered by item number.

        Deleted items with stored features are included.
        """
        ...

    def n_vectors(self, collection: int) -> int:
        """Return the number of stored feature vectors."""
        ...

    def items(self, collection: int, after: int, limit: int, label: str | None) -> list[CatalogueItem]:
        """Return items with an item number above ``after``, ordered by item number."""
        ...

    def items_by_key(self, collection: int, keys: Sequence[str]) -> dict[str, CatalogueItem]:
        """Return a dictionary of the items with these keys. Missing keys are left out."""
        ...

    def query_vector(self, collection: int, key: str) -> int | None:
        """Return the item number of the query vector with this key, or None. See `QueryVector.key`."""
        ...

    def thumbnail(self, collection: int, key: str) -> bytes | None: ...

    def calibration(self, collection: int) -> Calibration | None: ...

    def history(self, collection: int) -> list[HistoryPoint]:
        """Return the stored weights of the metric, ordered by version."""
        ...


class Transaction(StoreReader, Protocol):
    """The write operations of a command. Either all operations take effect or none."""

    def after_commit(self, call: Callable[[], None]) -> None:
        """Run ``call`` after the data were written to disk and before any future completes."""
        ...

    def after_rollback(self, call: Callable[[StoreReader], None]) -> None:
        """Run ``call`` if the command is rolled back.

        The argument of ``call`` is a reader of the stored state before the command. If several commands with the
        same ``call`` are rolled back together, it runs once.
        """
        ...

    def create(self, config: CollectionConfig) -> StoredCollection: ...

    def delete(self, collection: int) -> None: ...

    def append(self, collection: int, seq: int, changes: Sequence[Change | Feedback]) -> None:
        """Append entries to the log, starting at ``seq``."""
        ...

    def learn_again(self, collection: int, seq: int, first: int) -> None:
        """Store an undo entry that undoes nothing, so that the learner learns the log again from ``first`` on."""
        ...

    def store_contradictions(self, collection: int, first: int, found: Iterable[tuple[int, int]]) -> None:
        """Replace the contradictions of all feedback records from ``first`` on."""
        ...

    def count_refused(self, collection: int, sources: Iterable[str]) -> None:
        """Add 1 to the number of refused feedback records of each given source."""
        ...

    def store_outcomes(self, collection: int, outcomes: Iterable[StoredOutcome]) -> None: ...

    def store_orderings(self, collection: int, orderings: Iterable[StoredOrdering]) -> None:
        """Store evaluations of clicks. A click that has an evaluation keeps it."""
        ...

    def store_config(self, collection: int, config: CollectionConfig) -> None: ...

    def put_vector(self, collection: int, number: int, key: str, data: bytes) -> None: ...

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
        """Store an item under an item number. If ``new`` is True, also store the features of the item."""
        ...

    def delete_items(self, collection: int, keys: Iterable[str]) -> None:
        """Delete items. The features of the items remain."""
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
        """Store a learner that has learned the log up to ``seq``.

        ``notes`` is metadata that is stored in the same file. It shows later whether the snapshot still matches the
        log.
        """
        ...

    def snapshots(self, collection: int) -> list[int]:
        """Return the sequence numbers of the stored snapshots, newest first."""
        ...

    def snapshot(self, collection: int, seq: int) -> tuple[Any, dict[str, Any]]:
        """Return the learner and the metadata (``notes``) of a snapshot.

        Raise `ModelFileError` if the file is damaged.
        """
        ...

    def drop_snapshots(self, collection: int, seqs: Iterable[int]) -> None: ...

    def close(self) -> None:
        """Commit the write queue and close the store."""
        ...
