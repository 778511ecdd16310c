"""What a store offers. SQLite is one; a shared database could be another.

Writing goes through `Store.commit`: a command runs inside a transaction, one after the other, and is answered when
what it wrote is on disk. Whoever decides by what is in the store (is the key taken? does it contradict?) decides
there.
Reading goes on meanwhile, from any thread, and sees what was committed.
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
)

__all__ = ["Commit", "Reading", "Store", "StoredCollection", "StoredReceipt", "Transaction"]

T = TypeVar("T")


class StoredCollection(NamedTuple):
    """A collection as it is kept."""

    id: int
    config: CollectionConfig
    created: float


class StoredReceipt(NamedTuple):
    """How a request was answered before."""

    digest: str
    first_seq: int
    last_seq: int


class Reading(Protocol):
    """What can be asked of a store."""

    def collections(self) -> list[StoredCollection]: ...

    def log(self, collection: int, after: int = 0, limit: int | None = None) -> list[LoggedChange]:
        """Entries with a sequence number beyond ``after``, in order."""
        ...

    def last_seq(self, collection: int) -> int:
        """The last sequence number; 0 if nothing was said yet."""
        ...

    def undos(self, collection: int) -> list[tuple[int, int, int]]:
        """All that was ever undone: the sequence number of that, from, to."""
        ...

    def undone(self, collection: int) -> list[tuple[int, int]]:
        """Which sequence numbers do not count any more: from, to."""
        ...

    def model(self, collection: int, seq: int) -> bytes:
        """The file of a model that took over at a sequence number."""
        ...

    def keys(self, collection: int) -> Iterator[tuple[str, int, str | None]]:
        """Key, number and label of all items, in the order of their numbers."""
        ...

    def vectors(self, collection: int) -> Iterator[tuple[list[int], list[str], bytes]]:
        """Numbers, keys and rows of features, some at a time, in the order of numbers; also of items long gone."""
        ...

    def n_vectors(self, collection: int) -> int:
        """How many rows of features there are."""
        ...

    def items(self, collection: int, after: int, limit: int, label: str | None) -> list[CatalogueItem]:
        """Some of the items, beyond a number, in the order of numbers."""
        ...

    def items_by_key(self, collection: int, keys: Sequence[str]) -> dict[str, CatalogueItem]:
        """Items, as far as they are there."""
        ...

    def thumbnail(self, collection: int, key: str) -> bytes | None: ...

    def calibration(self, collection: int) -> Calibration | None: ...

    def history(self, collection: int) -> list[HistoryPoint]:
        """How the weights moved, in the order of versions."""
        ...


class Transaction(Reading, Protocol):
    """What a command can do, all or nothing."""

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call this when it is on disk, before anyone is answered."""
        ...

    def after_rollback(self, call: Callable[[], None]) -> None:
        """Call this if it came to nothing."""
        ...

    def create(self, config: CollectionConfig) -> StoredCollection: ...

    def delete(self, collection: int) -> None: ...

    def append(self, collection: int, seq: int, changes: Sequence[Change]) -> None:
        """Entries at the end of the log, from ``seq`` on."""
        ...

    def keep_model(self, collection: int, seq: int, data: bytes) -> None: ...

    def answered(self, collection: int, request: str) -> StoredReceipt | None:
        """How a request was answered, by its idempotency key."""
        ...

    def answer(self, collection: int, request: str, answer: StoredReceipt) -> None: ...

    def vector(self, collection: int, number: int) -> bytes: ...

    def new_numbers(self, collection: int, count: int) -> range:
        """Numbers that were never given before."""
        ...

    def put(self, collection: int, item: NewItem, number: int, new: bool) -> None:
        """Keep an item under a number; its features too if the number is ``new``."""
        ...

    def remove(self, collection: int, keys: Iterable[str]) -> None:
        """Without items; their features stay."""
        ...

    def forget(self, collection: int, numbers: Iterable[int]) -> None:
        """Without features that nothing refers to."""
        ...

    def calibrate(self, collection: int, calibration: Calibration | None) -> None: ...

    def remember(self, collection: int, moments: Sequence[HistoryPoint]) -> None: ...

    def forget_history(self, collection: int, from_version: int) -> None: ...


Commit = Callable[[Transaction], T]


class Store(Reading, Protocol):
    """Where everything is kept."""

    @property
    def waiting(self) -> int:
        """How much waits to be stored."""
        ...

    def commit(self, command: Commit[T], weight: int = 1) -> Future[T]:
        """Run a command in a transaction; the future is done when it is on disk, or came to nothing."""
        ...

    def save_snapshot(self, collection: int, seq: int, learner: Any, notes: dict[str, Any]) -> None:
        """Keep a model as of a sequence number."""
        ...

    def snapshots(self, collection: int) -> list[int]:
        """The sequence numbers of the models that are kept, newest first."""
        ...

    def snapshot(self, collection: int, seq: int) -> tuple[Any, dict[str, Any]]:
        """A model and its notes; `ModelFileError` if it is damaged."""
        ...

    def drop_snapshots(self, collection: int, seqs: Iterable[int]) -> None: ...

    def close(self) -> None:
        """Store what waits, and let go."""
        ...
