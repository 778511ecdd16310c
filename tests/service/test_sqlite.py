"""Stored values can be read back, also after a restart. Only one process can use a store."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oahu.constraints import Pair, Triplet
from oahu.service.errors import StoreBusyError, StoreFullError, StoreUnavailableError
from oahu.service.records import (
    Calibration,
    CatalogueItem,
    Click,
    CollectionConfig,
    HistoryPoint,
    ModelReplacement,
    NewItem,
    Undo,
    UndoEntry,
)
from oahu.service.store import SQLiteStore
from oahu.service.store.interface import StoredOrdering, StoredOutcome, StoredReceipt
from oahu.service.store.sqlite import DATABASE

TIMEOUT = 600.0  # seconds; only a real hang exceeds it
CONFIG = CollectionConfig("things", 4)

NUMBERS = st.integers(1, 2**62)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
SHORT_LISTS = st.lists(NUMBERS, max_size=4).map(tuple)
CHANGES = st.one_of(
    st.builds(Triplet, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Pair, NUMBERS, NUMBERS, st.booleans()),
    st.builds(Click, NUMBERS, SHORT_LISTS, SHORT_LISTS, SHORT_LISTS),
    st.builds(Undo, NUMBERS, NUMBERS),
    st.builds(ModelReplacement, TEXT),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FINITE = JSON.filter(lambda value: "inf" not in repr(value))
ITEMS = st.lists(
    st.builds(
        NewItem,
        TEXT,
        st.binary(min_size=16, max_size=16),
        st.none() | TEXT,
        st.none() | st.dictionaries(TEXT, FINITE, max_size=3),
        st.none() | st.binary(max_size=50),
    ),
    max_size=8,
    unique_by=lambda item: item.key,
)


def open_unsynced(folder: str) -> SQLiteStore:
    """Open a store that does not flush to disk, for tests that open many stores."""
    store = SQLiteStore(Path(folder))
    store._writer.database.execute("PRAGMA synchronous = OFF")
    return store


def run(store: SQLiteStore, command: Callable[[Any], Any]) -> Any:
    return store.commit(command).result(TIMEOUT)


def new_collection(store: SQLiteStore, name: str = "things") -> int:
    return int(run(store, lambda t: t.create(replace(CONFIG, name=name))).id)


def put(store: SQLiteStore, collection: int, items: list[NewItem]) -> list[int]:
    """Store items with new numbers. Return the numbers."""

    def command(transaction: Any) -> list[int]:
        numbers = list(transaction.new_numbers(collection, len(items)))
        for number, item in zip(numbers, items, strict=True):
            transaction.put_item(collection, item, number, True)
        return numbers

    return list(run(store, command))


def item(key: str, **more: Any) -> NewItem:
    return NewItem(key, b"\0" * 16, **more)


def rows(folder: Path) -> dict[str, int]:
    """Return the number of rows of every table."""
    database = sqlite3.connect(folder / DATABASE)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    database.close()
    del found["sqlite_sequence"]
    return found


# -- stored values are read back -------------------------------------------------------------------------------


@given(st.lists(st.lists(CHANGES, max_size=5), max_size=4))
@settings(max_examples=15)
def test_the_log_is_read_back_in_order(batches: list[list[Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_unsynced(folder)
        collection, end = new_collection(store), 0
        for batch in batches:
            run(store, lambda t, batch=batch, end=end: t.append(collection, end + 1, batch))
            end += len(batch)
        store.close()
        store = SQLiteStore(Path(folder))
        expected = [change for batch in batches for change in batch]
        entries = store.log(collection)
        assert [(entry.seq, entry.change) for entry in entries] == list(enumerate(expected, 1))
        assert [type(entry.change) for entry in entries] == [type(change) for change in expected]
        assert store.last_seq(collection) == end
        store.close()


def test_undos_are_read_back(open_store: Any) -> None:
    store = open_store()
    collection = new_collection(store)
    changes = [Pair(1, 2, True), Pair(1, 3, True), Pair(1, 4, True), Undo(2, 3), Undo(1, 1)]
    run(store, lambda t: t.append(collection, 1, changes))
    store.close()
    store = open_store()
    assert store.undone(collection) == [(2, 3), (1, 1)]
    assert store.undos(collection) == [UndoEntry(4, 2, 3), UndoEntry(5, 1, 1)]
    assert store.undos(collection, 4) == [UndoEntry(5, 1, 1)]


def test_training_examples_are_read_back_and_can_be_replaced(open_store: Any) -> None:
    store = open_store()
    collection = new_collection(store)
    changes = [Pair(1, 2, True), Pair(1, 3, True), Undo(1, 1), ModelReplacement("x"), Pair(1, 4, True)]
    run(store, lambda t: t.append(collection, 1, changes))
    run(store, lambda t: t.store_model(collection, 4, b"model"))
    run(store, lambda t: t.store_examples(collection, [(1, b"a"), (2, b"b"), (5, b"")]))
    run(store, lambda t: t.store_examples(collection, [(2, b"c")]))
    store.close()
    expected = [(1, b"a", False), (2, b"c", False), (3, None, False), (4, None, True), (5, b"", False)]
    store = open_store()
    assert store.training_log(collection, 0, 10) == expected
    assert store.training_log(collection, 1, 3) == expected[1:4]


@given(ITEMS)
@settings(max_examples=20)
def test_items_are_read_back_unchanged(items: list[NewItem]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_unsynced(folder)
        collection = new_collection(store)
        numbers = put(store, collection, items)
        store.close()
        store = SQLiteStore(Path(folder))
        expected = [
            CatalogueItem(one.key, number, one.label, one.payload, one.thumbnail is not None)
            for number, one in zip(numbers, items, strict=True)
        ]
        assert store.items(collection, 0, 100, None) == expected
        assert store.items_by_key(collection, [one.key for one in items]) == {one.key: one for one in expected}
        assert [store.thumbnail(collection, one.key) for one in items] == [one.thumbnail for one in items]
        assert list(store.keys(collection)) == [(one.key, one.number, one.label) for one in expected]
        pages = list(store.vectors(collection))
        assert [n for numbers, _, _ in pages for n in numbers] == numbers
        assert [key for _, keys, _ in pages for key in keys] == [one.key for one in items]
        assert b"".join(data for _, _, data in pages) == b"".join(one.vector for one in items)
        store.close()


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), max_size=5).map(tuple),
    st.dictionaries(TEXT, TEXT | st.floats(0, 1), max_size=2),
    NUMBERS,
)
@settings(max_examples=20)
def test_a_calibration_is_read_back(pairs: Any, target: dict[str, Any], seq: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_unsynced(folder)
        collection, calibration = new_collection(store), Calibration(pairs, target, seq)
        run(store, lambda t: t.store_calibration(collection, calibration))
        store.close()
        store = SQLiteStore(Path(folder))
        assert store.calibration(collection) == calibration
        store.close()


def test_settings_of_collections_are_read_back(open_store: Any) -> None:
    configs = [
        CollectionConfig("a", 3, "OAHU", {"n_layers": 2, "tau": 0.1, "dtype": "float64"}, 5, "newest", "joint"),
        CollectionConfig("b", 16_384),
    ]
    store = open_store()
    stored = [run(store, lambda t, config=config: t.create(config)) for config in configs]
    store.close()
    assert open_store().collections() == stored
    assert [one.config for one in stored] == configs


def test_history_is_read_back_ordered_by_version(open_store: Any) -> None:
    store = open_store()
    collection = new_collection(store)
    points = [HistoryPoint(v, 10 * v, (0.1, 0.2 * v), None if v == 1 else 1 / v, 1e9 + v / 7) for v in (3, 1, 2)]
    run(store, lambda t: t.store_history(collection, points))
    store.close()
    assert open_store().history(collection) == sorted(points, key=lambda one: one.version)


def test_a_history_point_of_the_same_version_is_replaced(store: SQLiteStore) -> None:
    collection = new_collection(store)
    for rate in (0.1, 0.2):
        run(store, lambda t, rate=rate: t.store_history(collection, [HistoryPoint(1, 1, (1.0,), rate, 0.0)]))
    assert [point.error_rate for point in store.history(collection)] == [0.2]


def test_history_is_deleted_from_a_version_on(store: SQLiteStore) -> None:
    collection = new_collection(store)
    run(store, lambda t: t.store_history(collection, [HistoryPoint(v, v, (1.0,), None, 0.0) for v in range(5)]))
    run(store, lambda t: t.delete_history(collection, 3))
    assert [point.version for point in store.history(collection)] == [0, 1, 2]


def test_a_model_and_a_receipt_are_read_back(open_store: Any) -> None:
    store = open_store()
    collection = new_collection(store)
    data = bytes(range(256)) * 100
    run(store, lambda t: t.store_model(collection, 7, data))
    run(store, lambda t: t.store_receipt(collection, "request", StoredReceipt("digest", 3, 2**62)))
    store.close()
    store = open_store()
    assert store.model(collection, 7) == data
    assert run(store, lambda t: t.find_receipt(collection, "request")) == StoredReceipt("digest", 3, 2**62)
    assert run(store, lambda t: t.find_receipt(collection, "another")) is None


def test_item_numbers_are_never_reused(open_store: Any) -> None:
    store = open_store()
    collection = new_collection(store)
    first = run(store, lambda t: t.new_numbers(collection, 3))
    store.close()
    store = open_store()
    assert list(first) + list(run(store, lambda t: t.new_numbers(collection, 2))) == [1, 2, 3, 4, 5]
    assert list(run(store, lambda t: t.new_numbers(collection, 0))) == []


def test_collection_ids_are_never_reused(open_store: Any) -> None:
    store = open_store()
    first = new_collection(store)
    run(store, lambda t: t.delete(first))
    store.close()
    assert new_collection(open_store()) > first


def test_an_item_is_replaced_completely(store: SQLiteStore) -> None:
    collection = new_collection(store)
    put(store, collection, [item("a", label="x", payload={"n": 1}, thumbnail=b"png")])
    (number,) = put(store, collection, [item("a")])
    assert store.items(collection, 0, 10, None) == [CatalogueItem("a", number, None, None, False)]


def test_deleting_an_item_keeps_its_features(store: SQLiteStore) -> None:
    collection = new_collection(store)
    put(store, collection, [item("a"), item("b")])
    run(store, lambda t: t.delete_items(collection, ["a"]))
    assert [one.key for one in store.items(collection, 0, 10, None)] == ["b"]
    assert [keys for _, keys, _ in store.vectors(collection)] == [["a", "b"]]
    assert store.thumbnail(collection, "a") is None


def test_features_can_be_deleted(store: SQLiteStore) -> None:
    collection = new_collection(store)
    first, second = put(store, collection, [item("a"), item("b")])
    run(store, lambda t: t.delete_vectors(collection, [first]))
    assert [numbers for numbers, _, _ in store.vectors(collection)] == [[second]]


# -- pages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_pages_cover_all_items_once(store: SQLiteStore, limit: int) -> None:
    collection = new_collection(store)
    put(store, collection, [item(f"k{at}", label="ab"[at % 2]) for at in range(10)])
    found: list[CatalogueItem] = []
    while page := store.items(collection, found[-1].number if found else 0, limit, None):
        assert len(page) <= limit
        found += page
    assert [one.key for one in found] == [f"k{at}" for at in range(10)]


def test_pages_can_be_restricted_to_a_label(store: SQLiteStore) -> None:
    collection = new_collection(store)
    put(store, collection, [item(f"k{at}", label=["a", "b", None][at % 3]) for at in range(9)])
    assert [one.key for one in store.items(collection, 1, 2, "a")] == ["k3", "k6"]


def test_pages_of_the_log_begin_after_a_sequence_number(store: SQLiteStore) -> None:
    collection = new_collection(store)
    run(store, lambda t: t.append(collection, 1, [Pair(1, n, True) for n in range(2, 12)]))
    assert [entry.seq for entry in store.log(collection, 4, 3)] == [5, 6, 7]
    assert store.log(collection, 10, 3) == []
    assert store.log(collection, 0, 0) == []


def test_rows_are_read_in_pages(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.service.store.sqlite._PAGE_SIZE", 4)
    collection = new_collection(store)
    numbers = put(store, collection, [item(f"k{at}") for at in range(11)])
    pages = [found for found, _, _ in store.vectors(collection)]
    assert [n for page in pages for n in page] == numbers
    assert max(map(len, pages)) == 4
    assert [number for _, number, _ in store.keys(collection)] == numbers


def test_many_keys_can_be_read_at_once(store: SQLiteStore) -> None:
    collection = new_collection(store)
    put(store, collection, [item(f"k{at}") for at in range(1200)])
    assert len(store.items_by_key(collection, [f"k{at}" for at in range(2000)])) == 1200


# -- all or nothing --------------------------------------------------------------------------------------------


def test_reads_do_not_see_uncommitted_data(store: SQLiteStore) -> None:
    collection, written, checked = new_collection(store), Event(), Event()

    def command(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True)])
        assert transaction.last_seq(collection) == 1
        written.set()
        checked.wait(TIMEOUT)

    future = store.commit(command)
    assert written.wait(TIMEOUT)
    seen = store.last_seq(collection)
    checked.set()
    future.result(TIMEOUT)
    assert (seen, store.last_seq(collection)) == (0, 1)


def test_a_failed_command_stores_nothing(store: SQLiteStore) -> None:
    collection = new_collection(store)

    def command(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True)])
        transaction.store_model(collection, 1, b"model")
        raise KeyError

    with pytest.raises(KeyError):
        run(store, command)
    assert store.log(collection) == []


@pytest.mark.parametrize(
    "invalid",
    [
        lambda t, c: t.append(c, 1, [Pair(8, 9, True)]),  # an existing sequence number
        lambda t, c: t.create(CONFIG),  # an existing name
        lambda t, c: t.append(99, 1, [Pair(8, 9, True)]),  # a missing collection
        lambda t, c: t.put_item(c, item("\ud800"), 77, True),  # not valid text
        lambda t, c: t.put_item(c, item("x", payload={"n": 2**70}), 77, True),  # not valid JSON
    ],
)
def test_an_invalid_command_fails_alone(store: SQLiteStore, invalid: Any) -> None:
    collection, blocked, finish = new_collection(store), Event(), Event()
    run(store, lambda t: t.append(collection, 1, [Pair(1, 2, True)]))
    store.commit(lambda _: blocked.set() or finish.wait(TIMEOUT))
    assert blocked.wait(TIMEOUT)
    before = store.commit(lambda t: t.append(collection, 2, [Pair(1, 3, True)]))
    between = store.commit(lambda t: invalid(t, collection))
    after = store.commit(lambda t: t.append(collection, 3, [Pair(1, 4, True)]))
    finish.set()
    assert between.exception(TIMEOUT) is not None
    assert (before.exception(TIMEOUT), after.exception(TIMEOUT)) == (None, None)
    assert [entry.change for entry in store.log(collection)] == [Pair(1, n, True) for n in (2, 3, 4)]


def test_a_full_disk_is_reported_and_later_commands_succeed(store: SQLiteStore) -> None:
    collection = new_collection(store)
    database = store._writer.database
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(StoreFullError, match="disk is full"):
        run(store, lambda t: t.store_model(collection, 1, bytes(100_000)))
    database.execute("PRAGMA max_page_count = 1000000")
    run(store, lambda t: t.store_model(collection, 1, b"small"))
    assert store.model(collection, 1) == b"small"


def test_a_read_only_store_is_reported(store: SQLiteStore) -> None:
    collection = new_collection(store)
    store._writer.database.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreUnavailableError, match="Nothing was stored"):
        run(store, lambda t: t.append(collection, 1, [Pair(1, 2, True)]))
    store._writer.database.execute("PRAGMA query_only = OFF")
    run(store, lambda t: t.append(collection, 1, [Pair(1, 2, True)]))
    assert store.last_seq(collection) == 1


def test_a_failed_command_runs_its_rollback_calls_only(store: SQLiteStore) -> None:
    called: list[str] = []

    def command(transaction: Any) -> None:
        transaction.after_commit(lambda: called.append("committed"))
        transaction.after_rollback(lambda _: called.append("rolled back"))
        raise KeyError

    with pytest.raises(KeyError):
        run(store, command)
    assert called == ["rolled back"]


def test_a_failed_commit_rolls_back_its_group(store: SQLiteStore) -> None:
    collection, called = new_collection(store), []
    blocked, finish = Event(), Event()

    def command(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True)])
        transaction.after_rollback(lambda _: called.append("rolled back"))

    def break_commit(transaction: Any) -> None:
        transaction.database.execute("PRAGMA defer_foreign_keys = ON")
        transaction.append(12345, 1, [Pair(1, 2, True)])  # only the commit rejects this

    store.commit(lambda _: blocked.set() or finish.wait(TIMEOUT))
    assert blocked.wait(TIMEOUT)
    futures = [store.commit(command), store.commit(break_commit)]
    finish.set()
    assert all(future.exception(TIMEOUT) for future in futures)
    assert called == ["rolled back"]
    assert store.last_seq(collection) == 0
    run(store, command)
    assert store.last_seq(collection) == 1


def test_a_rollback_runs_each_distinct_call_once_with_a_reader(store: SQLiteStore) -> None:
    collection, seen = new_collection(store), []
    blocked, finish = Event(), Event()

    def read(reader: Any) -> None:
        seen.append(reader.last_seq(collection))

    def command(transaction: Any) -> None:
        transaction.append(collection, transaction.last_seq(collection) + 1, [Pair(1, 2, True)])
        transaction.after_rollback(read)

    def fail(transaction: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    store.commit(lambda _: blocked.set() or finish.wait(TIMEOUT))
    assert blocked.wait(TIMEOUT)
    futures = [store.commit(command), store.commit(command), store.commit(fail)]
    finish.set()
    assert all(future.exception(TIMEOUT) for future in futures)
    assert seen == [0]


def test_commit_calls_see_committed_data(store: SQLiteStore) -> None:
    collection, seen = new_collection(store), []

    def command(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True)])
        transaction.after_commit(lambda: seen.append(store.last_seq(collection)))

    run(store, command)
    assert seen == [1]


# -- delete ----------------------------------------------------------------------------------------------------


def test_deleting_a_collection_deletes_all_its_rows(open_store: Any, tmp_path: Path) -> None:
    store = open_store()
    empty = rows(tmp_path / "data")
    assert not any(empty.values())
    collection = new_collection(store)

    def everything(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True), Undo(1, 1)])
        transaction.store_examples(collection, [(1, b"examples")])
        transaction.store_receipt(collection, "request", StoredReceipt("digest", 1, 1))
        transaction.store_model(collection, 3, b"model")
        transaction.store_history(collection, [HistoryPoint(1, 1, (1.0,), None, 0.0)])
        transaction.store_calibration(collection, Calibration(((1, 2, True),), {}, 1))
        transaction.store_contradictions(collection, 1, [(2, 1)])
        transaction.count_refused(collection, ["user"])
        transaction.store_outcomes(collection, [StoredOutcome(1, "impression", 7, [])])
        transaction.store_orderings(collection, [StoredOrdering(1, 7, 1.0, 0.5)])

    put(store, collection, [item("a", payload={}, thumbnail=b"")])
    run(store, everything)
    assert all(rows(tmp_path / "data").values())
    run(store, lambda t: t.delete(collection))
    assert rows(tmp_path / "data") == empty


def test_deleting_a_collection_keeps_other_collections(store: SQLiteStore) -> None:
    one, two = new_collection(store, "one"), new_collection(store, "two")
    for collection in (one, two):
        put(store, collection, [item("a")])
        run(store, lambda t, collection=collection: t.append(collection, 1, [Pair(1, 1, True)]))
    run(store, lambda t: t.delete(one))
    assert [stored.id for stored in store.collections()] == [two]
    assert store.last_seq(two) == 1
    assert list(store.keys(two)) == [("a", 1, None)]
    assert list(store.keys(one)) == []


def test_nothing_is_stored_for_a_deleted_collection(store: SQLiteStore, tmp_path: Path) -> None:
    collection = new_collection(store)
    run(store, lambda t: t.delete(collection))
    late = [
        lambda t: t.append(collection, 1, [Pair(1, 2, True)]),
        lambda t: t.store_history(collection, [HistoryPoint(1, 1, (1.0,), None, 0.0)]),
        lambda t: t.store_receipt(collection, "request", StoredReceipt("digest", 1, 1)),
        lambda t: t.put_item(collection, item("a"), 1, True),
    ]
    assert all(store.commit(command).exception(TIMEOUT) for command in late)
    assert not any(rows(tmp_path / "data").values())


# -- one process -----------------------------------------------------------------------------------------------


def test_a_second_store_in_the_same_process_is_rejected(open_store: Any, tmp_path: Path) -> None:
    open_store()
    with pytest.raises(StoreBusyError, match="in use by another oahu service") as caught:
        open_store()
    assert str(tmp_path / "data") in str(caught.value)


@pytest.mark.server
def test_a_second_store_in_another_process_is_rejected(open_store: Any, tmp_path: Path) -> None:
    open_store()
    code = (
        "import sys; from pathlib import Path; from oahu.service.store import SQLiteStore\n"
        "try: SQLiteStore(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data")], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("StoreBusyError")
    assert str(tmp_path / "data") in done.stdout


def test_a_closed_store_can_be_opened_again(open_store: Any) -> None:
    open_store().close()
    assert open_store().collections() == []


def test_a_rejected_store_does_not_affect_the_first(open_store: Any) -> None:
    store = open_store()
    with pytest.raises(StoreBusyError):
        open_store()
    assert new_collection(store) == 1


def test_a_newer_format_is_rejected_and_left_unchanged(open_store: Any, tmp_path: Path) -> None:
    open_store().close()
    database = sqlite3.connect(tmp_path / "data" / DATABASE)
    database.execute("PRAGMA user_version = 99")
    database.close()
    for _ in range(2):  # the second time shows that the lock was released
        with pytest.raises(StoreUnavailableError, match="newer version of oahu"):
            open_store()


def test_a_file_that_is_not_a_database_is_rejected(open_store: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / DATABASE).write_bytes(b"this is no database, " * 1000)
    with pytest.raises(StoreUnavailableError, match="Cannot open"):
        open_store()
    assert (tmp_path / "data" / DATABASE).read_bytes().startswith(b"this is no database")


# -- connections -----------------------------------------------------------------------------------------------


def test_every_commit_is_flushed_to_a_write_ahead_log(store: SQLiteStore) -> None:
    pragmas = {
        name: run(store, lambda t, name=name: t._query(f"PRAGMA {name}"))
        for name in ("journal_mode", "synchronous")
    }
    assert pragmas == {"journal_mode": [("wal",)], "synchronous": [(2,)]}  # 2 is FULL


def test_reader_connections_cannot_write(store: SQLiteStore) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._query("DELETE FROM collections")


def test_connections_of_ended_threads_are_closed(store: SQLiteStore) -> None:
    for _ in range(20):
        thread = Thread(target=store.collections)
        thread.start()
        thread.join()
    store.collections()
    assert len(store._readers) <= 2


def test_close_commits_the_write_queue(open_store: Any) -> None:
    store = open_store()
    collection = new_collection(store)
    futures = [
        store.commit(lambda t, seq=seq: t.append(collection, seq, [Pair(1, 2, True)])) for seq in range(1, 30)
    ]
    store.close()
    assert all(future.done() for future in futures)
    assert open_store().last_seq(collection) == 29


def test_closing_twice_does_not_affect_another_store(open_store: Any) -> None:
    store = open_store()
    store.close()
    other = open_store()  # may reuse the file descriptors of the first
    store.close()
    with pytest.raises(StoreBusyError):
        open_store()
    assert new_collection(other) == 1


def test_a_closed_store_rejects_commands(open_store: Any) -> None:
    store = open_store()
    store.close()
    with pytest.raises(StoreUnavailableError):
        store.commit(lambda t: None)
