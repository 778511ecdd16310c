"""A store in one SQLite file. Every commit flushes the write-ahead log to disk."""

from __future__ import annotations

import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from oahu.service.errors import ServiceError, StoreFullError, StoreUnavailableError
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
    active_undo_ranges,
    change_from_json,
    change_to_json,
)
from oahu.service.store.group_commit import GroupCommit
from oahu.service.store.interface import (
    Commit,
    SourceCount,
    StoredCollection,
    StoredOrdering,
    StoredOutcome,
    StoredReceipt,
    StoreReader,
)
from oahu.service.store.lock import Lock
from oahu.service.store.snapshots import SnapshotFolder

__all__ = ["DATABASE", "SQLiteStore"]

T = TypeVar("T")

DATABASE: Final = "oahu.db"
_FORMAT: Final = 3
_PAGE_SIZE: Final = 2_000  # rows per read
_MAX_PARAMETERS: Final = 500  # per statement
_SCHEMA: Final = """
CREATE TABLE collections (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, config TEXT NOT NULL, created REAL NOT NULL,
  next_number INTEGER NOT NULL DEFAULT 1, calibration TEXT);
CREATE TABLE vectors (
  collection INTEGER NOT NULL REFERENCES collections,
  number INTEGER NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (collection, number));
CREATE TABLE items (
  collection INTEGER NOT NULL REFERENCES collections,
  number INTEGER NOT NULL, key TEXT NOT NULL, label TEXT, payload TEXT, thumbnail BLOB,
  PRIMARY KEY (collection, number));
CREATE UNIQUE INDEX items_by_key ON items (collection, key);
CREATE TABLE log (
  collection INTEGER NOT NULL REFERENCES collections,
  seq INTEGER NOT NULL, time REAL NOT NULL, change TEXT NOT NULL, PRIMARY KEY (collection, seq)) WITHOUT ROWID;
CREATE TABLE training_examples (
  collection INTEGER NOT NULL REFERENCES collections,
  seq INTEGER NOT NULL, examples BLOB NOT NULL, PRIMARY KEY (collection, seq)) WITHOUT ROWID;
CREATE TABLE undos (
  collection INTEGER NOT NULL REFERENCES collections,
  seq INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  PRIMARY KEY (collection, seq)) WITHOUT ROWID;
CREATE TABLE receipts (
  collection INTEGER NOT NULL REFERENCES collections,
  request TEXT NOT NULL, digest TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
  PRIMARY KEY (collection, request)) WITHOUT ROWID;
CREATE TABLE models (
  collection INTEGER NOT NULL REFERENCES collections,
  seq INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (collection, seq));
CREATE TABLE history (
  collection INTEGER NOT NULL REFERENCES collections,
  version INTEGER NOT NULL, constraints INTEGER NOT NULL, weights TEXT NOT NULL, error_rate REAL,
  time REAL NOT NULL, PRIMARY KEY (collection, version)) WITHOUT ROWID;
"""
#: Changes of the tables since format 1, which oahu 0.1.0 wrote.
_FORMAT_2: Final = """
ALTER TABLE log ADD COLUMN weight REAL NOT NULL DEFAULT 1;
ALTER TABLE log ADD COLUMN source TEXT;
ALTER TABLE receipts ADD COLUMN details TEXT;
CREATE TABLE contradictions (
  collection INTEGER NOT NULL REFERENCES collections,
  seq INTEGER NOT NULL, other INTEGER NOT NULL, PRIMARY KEY (collection, seq, other)) WITHOUT ROWID;
CREATE TABLE refusals (
  collection INTEGER NOT NULL REFERENCES collections,
  source TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (collection, source)) WITHOUT ROWID;
CREATE INDEX log_by_source ON log (collection, source, seq) WHERE source IS NOT NULL;
CREATE UNIQUE INDEX query_vectors ON vectors (collection, key) WHERE key < ' ';
"""
#: Changes of the tables since format 2: the live measurement.
_FORMAT_3: Final = """
CREATE TABLE outcomes (
  collection INTEGER NOT NULL REFERENCES collections,
  seq INTEGER NOT NULL, impression TEXT NOT NULL, query INTEGER NOT NULL, content TEXT NOT NULL,
  PRIMARY KEY (collection, seq)) WITHOUT ROWID;
CREATE INDEX outcomes_by_impression ON outcomes (collection, impression);
CREATE TABLE orderings (
  collection INTEGER NOT NULL REFERENCES collections,
  seq INTEGER NOT NULL, query INTEGER NOT NULL, learned REAL NOT NULL, unlearned REAL NOT NULL,
  PRIMARY KEY (collection, seq)) WITHOUT ROWID;
"""
_TABLES: Final = (
    "vectors",
    "items",
    "log",
    "training_examples",
    "undos",
    "receipts",
    "models",
    "history",
    "contradictions",
    "refusals",
    "outcomes",
    "orderings",
)
#: SQLite errors that an invalid command causes. All other SQLite errors are failures of the database.
_COMMAND_ERRORS: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


# -- reads -------------------------------------------------------------------------------------------------


class _Reader(ABC):
    """The read operations of the store. Subclasses provide the database connection."""

    @abstractmethod
    def _query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a query and return all rows."""

    def collections(self) -> list[StoredCollection]:
        found = self._query("SELECT id, config, created FROM collections ORDER BY id")
        return [StoredCollection(id_, _decode_config(config), created) for id_, config, created in found]

    def config(self, collection: int) -> CollectionConfig:
        ((config,),) = self._query("SELECT config FROM collections WHERE id = ?", collection)
        return _decode_config(config)

    def log(self, collection: int, after: int = 0, limit: int | None = None) -> list[LoggedChange]:
        found = self._query(
            "SELECT seq, time, weight, source, change FROM log WHERE collection = ? AND seq > ?"
            " ORDER BY seq LIMIT ?",
            *(collection, after, -1 if limit is None else limit),
        )
        # One call for all rows is much faster than one call per row.
        changes = orjson.loads(f"[{','.join([row[4] for row in found])}]")
        return [
            LoggedChange(seq, when, change_from_json(change), weight, source)
            for (seq, when, weight, source, _), change in zip(found, changes, strict=True)
        ]

    def training_log(self, collection: int, after: int, limit: int) -> list[TrainingEntry]:
        found = self._query(
            "SELECT log.seq, examples, models.seq IS NOT NULL FROM log"
            " LEFT JOIN training_examples AS t ON t.collection = log.collection AND t.seq = log.seq"
            " LEFT JOIN models ON models.collection = log.collection AND models.seq = log.seq"
            " WHERE log.collection = ? AND log.seq > ? ORDER BY log.seq LIMIT ?",
            *(collection, after, limit),
        )
        return [TrainingEntry(seq, examples, bool(replaces_model)) for seq, examples, replaces_model in found]

    def last_seq(self, collection: int) -> int:
        ((last,),) = self._query("SELECT max(seq) FROM log WHERE collection = ?", collection)
        return last or 0

    def undos(self, collection: int, after: int = 0) -> list[UndoEntry]:
        found = self._query(
            "SELECT seq, first, last FROM undos WHERE collection = ? AND seq > ? ORDER BY seq", collection, after
        )
        return [UndoEntry(*row) for row in found]

    def undone(self, collection: int) -> list[tuple[int, int]]:
        return active_undo_ranges(self.undos(collection))

    def source_weights(self, collection: int) -> list[tuple[int, SourceWeight]]:
        found = self._query(
            "SELECT seq, change FROM undos JOIN log USING (collection, seq) WHERE collection = ? AND last < first"
            " ORDER BY seq",
            collection,
        )
        changes = [(seq, change_from_json(orjson.loads(change))) for seq, change in found]
        return [(seq, change) for seq, change in changes if isinstance(change, SourceWeight)]

    def source_seqs(self, collection: int, source: str) -> list[int]:
        return [
            seq
            for (seq,) in self._query(
                "SELECT seq FROM log WHERE collection = ? AND source = ? ORDER BY seq", collection, source
            )
        ]

    def source_counts(self, collection: int, after: str, limit: int) -> list[SourceCount]:
        found = self._query(
            "SELECT source, sum(stored), sum(refused) FROM ("
            " SELECT source, count(*) AS stored, 0 AS refused FROM log"
            " WHERE collection = ? AND source > ? GROUP BY source"
            " UNION ALL SELECT source, 0, count FROM refusals WHERE collection = ? AND source > ?"
            ") GROUP BY source ORDER BY source LIMIT ?",
            *(collection, after, collection, after, limit),
        )
        return [SourceCount(*row) for row in found]

    def source_of(self, collection: int, seqs: Sequence[int]) -> dict[int, str | None]:
        found: dict[int, str | None] = {}
        for chunk in _chunks(seqs, _MAX_PARAMETERS):
            marks = ",".join("?" * len(chunk))
            sql = f"SELECT seq, source FROM log WHERE collection = ? AND seq IN ({marks})"
            found.update(self._query(sql, collection, *chunk))
        return found

    def contradictions(self, collection: int) -> list[tuple[int, int]]:
        sql = "SELECT seq, other FROM contradictions WHERE collection = ? ORDER BY seq, other"
        return [(seq, other) for seq, other in self._query(sql, collection)]

    def outcomes(self, collection: int, impression: str | None = None) -> list[StoredOutcome]:
        where, values = ("", ()) if impression is None else (" AND impression = ?", (impression,))
        sql = f"SELECT seq, impression, query, content FROM outcomes WHERE collection = ?{where} ORDER BY seq"
        found = self._query(sql, collection, *values)
        return [StoredOutcome(seq, id_, query, orjson.loads(content)) for seq, id_, query, content in found]

    def orderings(self, collection: int) -> list[StoredOrdering]:
        sql = "SELECT seq, query, learned, unlearned FROM orderings WHERE collection = ? ORDER BY seq"
        return [StoredOrdering(*row) for row in self._query(sql, collection)]

    def model(self, collection: int, seq: int) -> bytes:
        ((data,),) = self._query("SELECT data FROM models WHERE collection = ? AND seq = ?", collection, seq)
        return bytes(data)

    def keys(self, collection: int) -> Iterator[tuple[str, int, str | None]]:
        for page in self._pages("SELECT number, key, label FROM items", collection):
            for number, key, label in page:
                yield key, number, label

    def vectors(self, collection: int) -> Iterator[tuple[list[int], list[str], bytes]]:
        for page in self._pages("SELECT number, key, data FROM vectors", collection):
            numbers, keys, data = zip(*page, strict=True)
            yield list(numbers), list(keys), b"".join(data)

    def n_vectors(self, collection: int) -> int:
        ((count,),) = self._query("SELECT count(*) FROM vectors WHERE collection = ?", collection)
        return int(count)

    def _pages(self, select: str, collection: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield pages of rows, ordered by item number.

        Each page is a separate read, because one long read would prevent SQLite from truncating its write-ahead
        log.
        """
        after = 0
        sql = f"{select} WHERE collection = ? AND number > ? ORDER BY number LIMIT {_PAGE_SIZE}"
        while page := self._query(sql, collection, after):
            yield page
            after = page[-1][0]

    def items(self, collection: int, after: int, limit: int, label: str | None) -> list[CatalogueItem]:
        return self._items(
            "collection = ? AND number > ? AND (? IS NULL OR label = ?) ORDER BY number LIMIT ?",
            *(collection, after, label, label, limit),
        )

    def items_by_key(self, collection: int, keys: Sequence[str]) -> dict[str, CatalogueItem]:
        found = {}
        for chunk in _chunks(keys, _MAX_PARAMETERS):
            marks = ",".join("?" * len(chunk))
            for item in self._items(f"collection = ? AND key IN ({marks})", collection, *chunk):
                found[item.key] = item
        return found

    def _items(self, where: str, *values: Any) -> list[CatalogueItem]:
        sql = f"SELECT key, number, label, payload, thumbnail IS NOT NULL FROM items WHERE {where}"
        return [
            CatalogueItem(key, number, label, None if payload is None else orjson.loads(payload), bool(thumbnail))
            for key, number, label, payload, thumbnail in self._query(sql, *values)
        ]

    def query_vector(self, collection: int, key: str) -> int | None:
        found = self._query(
            "SELECT number FROM vectors WHERE collection = ? AND key = ? AND key < ' '", collection, key
        )
        return found[0][0] if found else None

    def thumbnail(self, collection: int, key: str) -> bytes | None:
        found = self._query("SELECT thumbnail FROM items WHERE collection = ? AND key = ?", collection, key)
        return bytes(found[0][0]) if found and found[0][0] is not None else None

    def calibration(self, collection: int) -> Calibration | None:
        found = self._query("SELECT calibration FROM collections WHERE id = ?", collection)
        if not found or found[0][0] is None:
            return None
        stored = orjson.loads(found[0][0])
        pairs = tuple((first, second, same) for first, second, same in stored["pairs"])
        return Calibration(pairs, stored["target"], stored["seq"])

    def history(self, collection: int) -> list[HistoryPoint]:
        found = self._query(
            "SELECT version, constraints, weights, error_rate, time FROM history WHERE collection = ?"
            " ORDER BY version",
            collection,
        )
        return [HistoryPoint(v, n, tuple(orjson.loads(weights)), rate, when) for v, n, weights, rate, when in found]


# -- writes -------------------------------------------------------------------------------------------------


class _Writer(_Reader):
    """The only connection that writes to the database. This class implements `Transaction` and `Connection`."""

    def __init__(self, path: Path) -> None:
        self.database = _connect(path)
        try:
            _prepare(self.database, path)
        except BaseException:
            self.database.close()
            raise
        self._after_commit: list[Callable[[], None]] = []
        self._after_rollback: list[Callable[[StoreReader], None]] = []
        self._savepoint = (0, 0)  # number of registered calls before the current command

    def _query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.database.execute(sql, values).fetchall()

    # The interface of the group commit.

    def begin(self) -> None:
        self._after_commit, self._after_rollback = [], []
        self.rollback()  # in case the last rollback failed
        self.database.execute("BEGIN IMMEDIATE")

    def savepoint(self) -> _Writer:
        self._savepoint = len(self._after_commit), len(self._after_rollback)
        self.database.execute("SAVEPOINT command")
        return self

    def release(self) -> None:
        self.database.execute("RELEASE command")

    def back_to_savepoint(self) -> None:
        self.database.execute("ROLLBACK TO command")
        self.database.execute("RELEASE command")
        n_after_commit, n_after_rollback = self._savepoint
        calls = dict.fromkeys(self._after_rollback[n_after_rollback:])
        del self._after_commit[n_after_commit:], self._after_rollback[n_after_rollback:]
        for call in calls:
            call(self)

    def commit(self) -> list[Callable[[], None]]:
        self.database.execute("COMMIT")
        return self._after_commit

    def rollback(self) -> list[Callable[[], None]]:
        with suppress(sqlite3.Error):  # `begin` tries again
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")
        return [partial(call, self) for call in dict.fromkeys(self._after_rollback)]

    def problem(self, error: Exception) -> ServiceError | None:
        if not isinstance(error, sqlite3.Error) or isinstance(error, _COMMAND_ERRORS):
            return None
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return StoreFullError(
                "The disk is full. Nothing was stored. Free disk space and send the request again.", retry_after=30
            )
        return StoreUnavailableError(f"Cannot write to the store ({error}). Nothing was stored.", retry_after=10)

    # The interface of commands.

    def after_commit(self, call: Callable[[], None]) -> None:
        self._after_commit.append(call)

    def after_rollback(self, call: Callable[[StoreReader], None]) -> None:
        self._after_rollback.append(call)

    def create(self, config: CollectionConfig) -> StoredCollection:
        now = time.time()
        row = self.database.execute(
            "INSERT INTO collections (name, config, created) VALUES (?, ?, ?) RETURNING id",
            (config.name, orjson.dumps(asdict(config)).decode(), now),
        ).fetchone()
        return StoredCollection(row[0], config, now)

    def delete(self, collection: int) -> None:
        for table in _TABLES:
            self.database.execute(f"DELETE FROM {table} WHERE collection = ?", (collection,))
        self.database.execute("DELETE FROM collections WHERE id = ?", (collection,))

    def append(self, collection: int, seq: int, changes: Sequence[Change | Feedback]) -> None:
        now = time.time()
        given = [change if isinstance(change, Feedback) else (change, 1.0, None) for change in changes]
        encoded = [change_to_json(change) for change, *_ in given]
        self.database.executemany(
            "INSERT INTO log (collection, seq, time, change, weight, source) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (collection, at, now, orjson.dumps(change).decode(), weight, source)
                for at, (change, (_, weight, source, *_)) in enumerate(zip(encoded, given, strict=True), seq)
            ],
        )
        undos = [(collection, at, *values) for at, (kind, *values) in enumerate(encoded, seq) if kind == "undo"]
        self.database.executemany("INSERT INTO undos VALUES (?, ?, ?, ?)", undos)

    def learn_again(self, collection: int, seq: int, first: int) -> None:
        self.database.execute("INSERT INTO undos VALUES (?, ?, ?, ?)", (collection, seq, first, first - 1))

    def store_contradictions(self, collection: int, first: int, found: Iterable[tuple[int, int]]) -> None:
        self.database.execute("DELETE FROM contradictions WHERE collection = ? AND seq >= ?", (collection, first))
        self.database.executemany(
            "INSERT INTO contradictions VALUES (?, ?, ?)", [(collection, seq, other) for seq, other in found]
        )

    def count_refused(self, collection: int, sources: Iterable[str]) -> None:
        self.database.executemany(
            "INSERT INTO refusals VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1",
            [(collection, source) for source in sources],
        )

    def store_outcomes(self, collection: int, outcomes: Iterable[StoredOutcome]) -> None:
        self.database.executemany(
            "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?)",
            [
                (collection, seq, id_, query, orjson.dumps(content).decode())
                for seq, id_, query, content in outcomes
            ],
        )

    def store_orderings(self, collection: int, orderings: Iterable[StoredOrdering]) -> None:
        self.database.executemany(
            "INSERT OR IGNORE INTO orderings VALUES (?, ?, ?, ?, ?)", [(collection, *one) for one in orderings]
        )

    def store_config(self, collection: int, config: CollectionConfig) -> None:
        encoded = orjson.dumps(asdict(config)).decode()
        self.database.execute("UPDATE collections SET config = ? WHERE id = ?", (encoded, collection))

    def put_vector(self, collection: int, number: int, key: str, data: bytes) -> None:
        self.database.execute("INSERT INTO vectors VALUES (?, ?, ?, ?)", (collection, number, key, data))

    def store_examples(self, collection: int, examples: Iterable[tuple[int, bytes]]) -> None:
        self.database.executemany(
            "INSERT OR REPLACE INTO training_examples VALUES (?, ?, ?)",
            [(collection, seq, data) for seq, data in examples],
        )

    def store_model(self, collection: int, seq: int, data: bytes) -> None:
        self.database.execute("INSERT INTO models VALUES (?, ?, ?)", (collection, seq, data))

    def find_receipt(self, collection: int, request: str) -> StoredReceipt | None:
        found = self._query(
            "SELECT digest, first_seq, last_seq, details FROM receipts WHERE collection = ? AND request = ?",
            *(collection, request),
        )
        if not found:
            return None
        digest, first, last, details = found[0]
        return StoredReceipt(digest, first, last, None if details is None else orjson.loads(details))

    def store_receipt(self, collection: int, request: str, receipt: StoredReceipt) -> None:
        *values, details = receipt
        encoded = None if details is None else orjson.dumps(details).decode()
        self.database.execute(
            "INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?)", (collection, request, *values, encoded)
        )

    def vector(self, collection: int, number: int) -> bytes:
        ((data,),) = self._query("SELECT data FROM vectors WHERE collection = ? AND number = ?", collection, number)
        return bytes(data)

    def new_numbers(self, collection: int, count: int) -> range:
        ((end,),) = self._query(
            "UPDATE collections SET next_number = next_number + ? WHERE id = ? RETURNING next_number",
            *(count, collection),
        )
        return range(end - count, end)

    def put_item(self, collection: int, item: NewItem, number: int, new: bool) -> None:
        if new:
            self.put_vector(collection, number, item.key, item.vector)
        payload = None if item.payload is None else orjson.dumps(item.payload).decode()
        self.database.execute("DELETE FROM items WHERE collection = ? AND key = ?", (collection, item.key))
        self.database.execute(
            "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)",
            (collection, number, item.key, item.label, payload, item.thumbnail),
        )

    def delete_items(self, collection: int, keys: Iterable[str]) -> None:
        self.database.executemany(
            "DELETE FROM items WHERE collection = ? AND key = ?", [(collection, key) for key in keys]
        )

    def delete_vectors(self, collection: int, numbers: Iterable[int]) -> None:
        self.database.executemany(
            "DELETE FROM vectors WHERE collection = ? AND number = ?", [(collection, number) for number in numbers]
        )

    def store_calibration(self, collection: int, calibration: Calibration | None) -> None:
        encoded = None if calibration is None else orjson.dumps(asdict(calibration)).decode()
        self.database.execute("UPDATE collections SET calibration = ? WHERE id = ?", (encoded, collection))

    def store_history(self, collection: int, points: Sequence[HistoryPoint]) -> None:
        self.database.executemany(
            "INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?, ?, ?)",
            [
                (
                    collection,
                    point.version,
                    point.constraints,
                    orjson.dumps(point.weights).decode(),
                    point.error_rate,
                    point.time,
                )
                for point in points
            ],
        )

    def delete_history(self, collection: int, from_version: int) -> None:
        self.database.execute(
            "DELETE FROM history WHERE collection = ? AND version >= ?", (collection, from_version)
        )


# -- the store -----------------------------------------------------------------------------------------------


class SQLiteStore(_Reader):
    """A store in a folder with a database and snapshots of learners. Only one process at a time can use the folder.

    Parameters
    ----------
    folder : path
        The data folder. If the folder does not exist, it is created.
    max_write_queue : int
        Maximum total number of items and feedback records in the write queue.
    """

    def __init__(self, folder: Path, max_write_queue: int = 20_000) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / DATABASE
        self._lock = Lock(folder / "lock")
        try:
            self._writer = _Writer(self._path)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.Error):
                raise StoreUnavailableError(f"Cannot open {self._path} ({error}).") from error
            raise
        self._snapshots = SnapshotFolder(folder / "snapshots")
        self._local, self._connecting = threading.local(), threading.Lock()
        self._readers: dict[threading.Thread, sqlite3.Connection] = {}
        self._group = GroupCommit(self._writer, max_write_queue)

    @property
    def queue_weight(self) -> int:
        return self._group.queue_weight

    @property
    def n_commits(self) -> int:
        """The number of commits to disk. One commit can contain several commands."""
        return self._group.n_commits

    def commit(self, command: Commit[T], weight: int = 1) -> Future[T]:
        return self._group.submit(command, weight)

    def save_snapshot(self, collection: int, seq: int, learner: Any, notes: dict[str, Any]) -> None:
        self._snapshots.save(collection, seq, learner, notes)

    def snapshots(self, collection: int) -> list[int]:
        return self._snapshots.sequence_numbers(collection)

    def snapshot(self, collection: int, seq: int) -> tuple[Any, dict[str, Any]]:
        return self._snapshots.load(collection, seq)

    def drop_snapshots(self, collection: int, seqs: Iterable[int]) -> None:
        self._snapshots.drop(collection, seqs)

    def close(self) -> None:
        self._group.close()
        for reader in self._readers.values():
            reader.close()
        self._writer.database.close()
        self._lock.release()

    def _query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        reader = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._new_reader()
        found: list[tuple[Any, ...]] = reader.execute(sql, values).fetchall()
        return found

    def _new_reader(self) -> sqlite3.Connection:
        """Return a new connection for the current thread. Close the connections of threads that have ended."""
        reader = _connect(self._path)
        reader.execute("PRAGMA query_only = ON")
        with self._connecting:
            for thread in [thread for thread in self._readers if not thread.is_alive()]:
                self._readers.pop(thread).close()
            self._readers[threading.current_thread()] = reader
        return reader


def _chunks(values: Sequence[T], count: int) -> Iterator[Sequence[T]]:
    return (values[start : start + count] for start in range(0, len(values), count))


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new database, or upgrade the tables of an older version.

    Raise an error if a newer version of oahu created the database.
    """
    database.execute("PRAGMA foreign_keys = ON")  # reject rows of a deleted collection
    ((version,),) = database.execute("PRAGMA user_version").fetchall()
    if version > _FORMAT:
        raise StoreUnavailableError(
            f"{path} was written by a newer version of oahu (store format {version}; this version reads format "
            f"{_FORMAT}). Upgrade oahu."
        )
    if version < _FORMAT:
        changes = " ".join((_SCHEMA, _FORMAT_2, _FORMAT_3)[version:])
        database.executescript(f"BEGIN; {changes} PRAGMA user_version = {_FORMAT}; COMMIT;")


def _decode_config(encoded: str) -> CollectionConfig:
    config = orjson.loads(encoded)
    if config["contradictions"] == "reject":  # the name of "refuse" in oahu 0.1.0
        config["contradictions"] = "refuse"
    return CollectionConfig(**config)
