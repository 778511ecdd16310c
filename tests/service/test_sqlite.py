"""The store gives back what was put in, after it was closed and opened again too, and belongs to one."""

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
)
from oahu.service.store import SQLiteStore
from oahu.service.store.interface import StoredReceipt
from oahu.service.store.sqlite import DATABASE

PATIENCE = 30.0
CONFIG = CollectionConfig("things", 4)

NUMBERS = st.integers(1, 2**62)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
FEW = st.lists(NUMBERS, max_size=4).map(tuple)
CHANGES = st.one_of(
    st.builds(Triplet, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Pair, NUMBERS, NUMBERS, st.booleans()),
    st.builds(Click, NUMBERS, FEW, FEW),
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


def hasty(folder: str) -> SQLiteStore:
    """A store that does not wait for the disk: there are many, and nobody pulls the plug."""
    store = SQLiteStore(Path(folder))
    store._writing.database.execute("PRAGMA synchronous = OFF")
    return store


def do(store: SQLiteStore, command: Callable[[Any], Any]) -> Any:
    return store.commit(command).result(PATIENCE)


def made(store: SQLiteStore, name: str = "things") -> int:
    return int(do(store, lambda t: t.create(replace(CONFIG, name=name))).id)


def put(store: SQLiteStore, collection: int, items: list[NewItem]) -> list[int]:
    """Keep items under new numbers."""

    def command(transaction: Any) -> list[int]:
        numbers = list(transaction.new_numbers(collection, len(items)))
        for number, item in zip(numbers, items, strict=True):
            transaction.put(collection, item, number, True)
        return numbers

    return list(do(store, command))


def item(key: str, **more: Any) -> NewItem:
    return NewItem(key, b"\0" * 16, **more)


def rows(folder: Path) -> dict[str, int]:
    """How many rows every table has."""
    database = sqlite3.connect(folder / DATABASE)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    database.close()
    del found["sqlite_sequence"]
    return found


# -- what was put in is there ----------------------------------------------------------------------------------


@given(st.lists(st.lists(CHANGES, max_size=5), max_size=4))
@settings(max_examples=15)
def test_the_log_is_read_back_in_order(batches: list[list[Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = hasty(folder)
        collection, end = made(store), 0
        for batch in batches:
            do(store, lambda t, batch=batch, end=end: t.append(collection, end + 1, batch))
            end += len(batch)
        store.close()
        store = SQLiteStore(Path(folder))
        said = [change for batch in batches for change in batch]
        entries = store.log(collection)
        assert [(entry.seq, entry.change) for entry in entries] == list(enumerate(said, 1))
        assert [type(entry.change) for entry in entries] == [type(change) for change in said]
        assert store.last_seq(collection) == end
        store.close()


def test_what_was_undone_is_read_back(open_store: Any) -> None:
    store = open_store()
    collection = made(store)
    said = [Pair(1, 2, True), Pair(1, 3, True), Pair(1, 4, True), Undo(2, 3), Undo(1, 1)]
    do(store, lambda t: t.append(collection, 1, said))
    store.close()
    assert open_store().undone(collection) == [(2, 3), (1, 1)]


@given(ITEMS)
@settings(max_examples=20)
def test_items_are_read_back_as_they_were(items: list[NewItem]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = hasty(folder)
        collection = made(store)
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
        store = hasty(folder)
        collection, calibration = made(store), Calibration(pairs, target, seq)
        do(store, lambda t: t.calibrate(collection, calibration))
        store.close()
        store = SQLiteStore(Path(folder))
        assert store.calibration(collection) == calibration
        store.close()


def test_configs_are_read_back(open_store: Any) -> None:
    configs = [
        CollectionConfig("a", 3, "OAHU", {"n_layers": 2, "tau": 0.1, "dtype": "float64"}, 5, "newest", "joint"),
        CollectionConfig("b", 16_384),
    ]
    store = open_store()
    kept = [do(store, lambda t, config=config: t.create(config)) for config in configs]
    store.close()
    assert open_store().collections() == kept
    assert [one.config for one in kept] == configs


def test_moments_are_read_back_in_the_order_of_versions(open_store: Any) -> None:
    store = open_store()
    collection = made(store)
    moments = [HistoryPoint(v, 10 * v, (0.1, 0.2 * v), None if v == 1 else 1 / v, 1e9 + v / 7) for v in (3, 1, 2)]
    do(store, lambda t: t.remember(collection, moments))
    store.close()
    assert open_store().history(collection) == sorted(moments, key=lambda one: one.version)


def test_a_moment_of_the_same_version_is_the_newer(store: SQLiteStore) -> None:
    collection = made(store)
    for loss in (0.1, 0.2):
        do(store, lambda t, loss=loss: t.remember(collection, [HistoryPoint(1, 1, (1.0,), loss, 0.0)]))
    assert [moment.loss for moment in store.history(collection)] == [0.2]


def test_history_is_forgotten_from_a_version_on(store: SQLiteStore) -> None:
    collection = made(store)
    do(store, lambda t: t.remember(collection, [HistoryPoint(v, v, (1.0,), None, 0.0) for v in range(5)]))
    do(store, lambda t: t.forget_history(collection, 3))
    assert [moment.version for moment in store.history(collection)] == [0, 1, 2]


def test_a_model_and_an_answer_are_read_back(open_store: Any) -> None:
    store = open_store()
    collection = made(store)
    data = bytes(range(256)) * 100
    do(store, lambda t: t.keep_model(collection, 7, data))
    do(store, lambda t: t.answer(collection, "request", StoredReceipt("digest", 3, 2**62)))
    store.close()
    store = open_store()
    assert store.model(collection, 7) == data
    assert do(store, lambda t: t.answered(collection, "request")) == StoredReceipt("digest", 3, 2**62)
    assert do(store, lambda t: t.answered(collection, "another")) is None


def test_numbers_are_never_given_twice(open_store: Any) -> None:
    store = open_store()
    collection = made(store)
    first = do(store, lambda t: t.new_numbers(collection, 3))
    store.close()
    store = open_store()
    assert list(first) + list(do(store, lambda t: t.new_numbers(collection, 2))) == [1, 2, 3, 4, 5]
    assert list(do(store, lambda t: t.new_numbers(collection, 0))) == []


def test_a_collection_number_is_never_given_twice(open_store: Any) -> None:
    store = open_store()
    first = made(store)
    do(store, lambda t: t.delete(first))
    store.close()
    assert made(open_store()) > first


def test_an_item_is_replaced_whole(store: SQLiteStore) -> None:
    collection = made(store)
    put(store, collection, [item("a", label="x", payload={"n": 1}, thumbnail=b"png")])
    (number,) = put(store, collection, [item("a")])
    assert store.items(collection, 0, 10, None) == [CatalogueItem("a", number, None, None, False)]


def test_an_item_that_is_removed_leaves_its_features(store: SQLiteStore) -> None:
    collection = made(store)
    put(store, collection, [item("a"), item("b")])
    do(store, lambda t: t.remove(collection, ["a"]))
    assert [one.key for one in store.items(collection, 0, 10, None)] == ["b"]
    assert [keys for _, keys, _ in store.vectors(collection)] == [["a", "b"]]
    assert store.thumbnail(collection, "a") is None


def test_features_that_are_forgotten_are_gone(store: SQLiteStore) -> None:
    collection = made(store)
    first, second = put(store, collection, [item("a"), item("b")])
    do(store, lambda t: t.forget(collection, [first]))
    assert [numbers for numbers, _, _ in store.vectors(collection)] == [[second]]


# -- pages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_pages_of_items_are_all_of_them_once(store: SQLiteStore, limit: int) -> None:
    collection = made(store)
    put(store, collection, [item(f"k{at}", label="ab"[at % 2]) for at in range(10)])
    found: list[CatalogueItem] = []
    while page := store.items(collection, found[-1].number if found else 0, limit, None):
        assert len(page) <= limit
        found += page
    assert [one.key for one in found] == [f"k{at}" for at in range(10)]


def test_pages_of_a_label_have_only_its_items(store: SQLiteStore) -> None:
    collection = made(store)
    put(store, collection, [item(f"k{at}", label=["a", "b", None][at % 3]) for at in range(9)])
    assert [one.key for one in store.items(collection, 1, 2, "a")] == ["k3", "k6"]


def test_pages_of_the_log_begin_after_a_number(store: SQLiteStore) -> None:
    collection = made(store)
    do(store, lambda t: t.append(collection, 1, [Pair(1, n, True) for n in range(2, 12)]))
    assert [entry.seq for entry in store.log(collection, 4, 3)] == [5, 6, 7]
    assert store.log(collection, 10, 3) == []
    assert store.log(collection, 0, 0) == []


def test_more_rows_than_are_read_at_a_time_are_all_read(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oahu.service.store.sqlite._CHUNK", 4)
    collection = made(store)
    numbers = put(store, collection, [item(f"k{at}") for at in range(11)])
    pages = [found for found, _, _ in store.vectors(collection)]
    assert [n for page in pages for n in page] == numbers
    assert max(map(len, pages)) == 4
    assert [number for _, number, _ in store.keys(collection)] == numbers


def test_more_keys_than_sqlite_takes_at_once_can_be_asked_for(store: SQLiteStore) -> None:
    collection = made(store)
    put(store, collection, [item(f"k{at}") for at in range(1200)])
    assert len(store.items_by_key(collection, [f"k{at}" for at in range(2000)])) == 1200


# -- all or nothing --------------------------------------------------------------------------------------------


def test_others_see_nothing_of_what_is_not_committed(store: SQLiteStore) -> None:
    collection, written, looked = made(store), Event(), Event()

    def command(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True)])
        assert transaction.last_seq(collection) == 1
        written.set()
        looked.wait(PATIENCE)

    future = store.commit(command)
    written.wait(PATIENCE)
    seen = store.last_seq(collection)
    looked.set()
    future.result(PATIENCE)
    assert (seen, store.last_seq(collection)) == (0, 1)


def test_a_command_that_fails_stores_nothing(store: SQLiteStore) -> None:
    collection = made(store)

    def command(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True)])
        transaction.keep_model(collection, 1, b"model")
        raise KeyError

    with pytest.raises(KeyError):
        do(store, command)
    assert store.log(collection) == []


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, c: t.append(c, 1, [Pair(8, 9, True)]),  # a number that is taken
        lambda t, c: t.create(CONFIG),  # a name that is taken
        lambda t, c: t.append(99, 1, [Pair(8, 9, True)]),  # a collection that is not there
        lambda t, c: t.put(c, item("\ud800"), 77, True),  # no text
        lambda t, c: t.put(c, item("x", payload={"n": 2**70}), 77, True),  # no JSON
    ],
)
def test_a_command_that_cannot_be_meant_fails_alone(store: SQLiteStore, wrong: Any) -> None:
    collection, begun, enough = made(store), Event(), Event()
    do(store, lambda t: t.append(collection, 1, [Pair(1, 2, True)]))
    store.commit(lambda _: begun.set() or enough.wait(PATIENCE))
    begun.wait(PATIENCE)
    before = store.commit(lambda t: t.append(collection, 2, [Pair(1, 3, True)]))
    between = store.commit(lambda t: wrong(t, collection))
    after = store.commit(lambda t: t.append(collection, 3, [Pair(1, 4, True)]))
    enough.set()
    assert between.exception(PATIENCE) is not None
    assert (before.exception(PATIENCE), after.exception(PATIENCE)) == (None, None)
    assert [entry.change for entry in store.log(collection)] == [Pair(1, n, True) for n in (2, 3, 4)]


def test_a_full_disk_is_told_and_what_comes_when_there_is_space_is_stored(store: SQLiteStore) -> None:
    collection = made(store)
    database = store._writing.database
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(StoreFullError, match="disk is full"):
        do(store, lambda t: t.keep_model(collection, 1, bytes(100_000)))
    database.execute("PRAGMA max_page_count = 1000000")
    do(store, lambda t: t.keep_model(collection, 1, b"small"))
    assert store.model(collection, 1) == b"small"


def test_a_store_that_cannot_be_written_to_is_told(store: SQLiteStore) -> None:
    collection = made(store)
    store._writing.database.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreUnavailableError, match="nothing was stored"):
        do(store, lambda t: t.append(collection, 1, [Pair(1, 2, True)]))
    store._writing.database.execute("PRAGMA query_only = OFF")
    do(store, lambda t: t.append(collection, 1, [Pair(1, 2, True)]))
    assert store.last_seq(collection) == 1


def test_what_is_left_for_a_failure_is_called_and_what_is_left_for_success_is_not(store: SQLiteStore) -> None:
    called: list[str] = []

    def command(transaction: Any) -> None:
        transaction.after_commit(lambda: called.append("stored"))
        transaction.after_rollback(lambda: called.append("undone"))
        raise KeyError

    with pytest.raises(KeyError):
        do(store, command)
    assert called == ["undone"]


def test_a_commit_that_fails_undoes_all_of_its_group(store: SQLiteStore) -> None:
    collection, called = made(store), []
    begun, enough = Event(), Event()

    def command(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True)])
        transaction.after_rollback(lambda: called.append("undone"))

    def break_it(transaction: Any) -> None:
        transaction.database.execute("PRAGMA defer_foreign_keys = ON")
        transaction.append(12345, 1, [Pair(1, 2, True)])  # which only the commit will refuse

    store.commit(lambda _: begun.set() or enough.wait(PATIENCE))
    begun.wait(PATIENCE)
    futures = [store.commit(command), store.commit(break_it)]
    enough.set()
    assert all(future.exception(PATIENCE) for future in futures)
    assert called == ["undone"]
    assert store.last_seq(collection) == 0
    do(store, command)
    assert store.last_seq(collection) == 1


def test_calls_after_a_commit_see_what_was_committed(store: SQLiteStore) -> None:
    collection, seen = made(store), []

    def command(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True)])
        transaction.after_commit(lambda: seen.append(store.last_seq(collection)))

    do(store, command)
    assert seen == [1]


# -- deleting --------------------------------------------------------------------------------------------------


def test_a_collection_that_is_deleted_leaves_nothing(open_store: Any, tmp_path: Path) -> None:
    store = open_store()
    empty = rows(tmp_path / "data")
    assert not any(empty.values())
    collection = made(store)

    def everything(transaction: Any) -> None:
        transaction.append(collection, 1, [Pair(1, 2, True), Undo(1, 1)])
        transaction.answer(collection, "request", StoredReceipt("digest", 1, 1))
        transaction.keep_model(collection, 3, b"model")
        transaction.remember(collection, [HistoryPoint(1, 1, (1.0,), None, 0.0)])
        transaction.calibrate(collection, Calibration(((1, 2, True),), {}, 1))

    put(store, collection, [item("a", payload={}, thumbnail=b"")])
    do(store, everything)
    assert all(rows(tmp_path / "data").values())
    do(store, lambda t: t.delete(collection))
    assert rows(tmp_path / "data") == empty


def test_deleting_a_collection_leaves_the_others(store: SQLiteStore) -> None:
    one, two = made(store, "one"), made(store, "two")
    for collection in (one, two):
        put(store, collection, [item("a")])
        do(store, lambda t, collection=collection: t.append(collection, 1, [Pair(1, 1, True)]))
    do(store, lambda t: t.delete(one))
    assert [kept.id for kept in store.collections()] == [two]
    assert store.last_seq(two) == 1
    assert list(store.keys(two)) == [("a", 1, None)]
    assert list(store.keys(one)) == []


def test_nothing_is_stored_for_a_collection_that_was_deleted(store: SQLiteStore, tmp_path: Path) -> None:
    collection = made(store)
    do(store, lambda t: t.delete(collection))
    late = [
        lambda t: t.append(collection, 1, [Pair(1, 2, True)]),
        lambda t: t.remember(collection, [HistoryPoint(1, 1, (1.0,), None, 0.0)]),
        lambda t: t.answer(collection, "request", StoredReceipt("digest", 1, 1)),
        lambda t: t.put(collection, item("a"), 1, True),
    ]
    assert all(store.commit(command).exception(PATIENCE) for command in late)
    assert not any(rows(tmp_path / "data").values())


# -- one at a time ---------------------------------------------------------------------------------------------


def test_a_second_store_in_the_same_process_is_refused(open_store: Any, tmp_path: Path) -> None:
    open_store()
    with pytest.raises(StoreBusyError, match="in use by another oahu service") as caught:
        open_store()
    assert str(tmp_path / "data") in str(caught.value)


def test_a_store_in_another_process_is_refused(open_store: Any, tmp_path: Path) -> None:
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


def test_a_store_that_was_closed_can_be_opened_again(open_store: Any) -> None:
    open_store().close()
    assert open_store().collections() == []


def test_a_store_that_is_refused_disturbs_nobody(open_store: Any) -> None:
    store = open_store()
    with pytest.raises(StoreBusyError):
        open_store()
    assert made(store) == 1


def test_a_store_of_a_newer_format_is_refused_and_left_alone(open_store: Any, tmp_path: Path) -> None:
    open_store().close()
    database = sqlite3.connect(tmp_path / "data" / DATABASE)
    database.execute("PRAGMA user_version = 99")
    database.close()
    for _ in range(2):  # the second time: the lock was let go of
        with pytest.raises(StoreUnavailableError, match="newer oahu"):
            open_store()


def test_what_is_no_database_is_refused(open_store: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / DATABASE).write_bytes(b"this is no database, " * 1000)
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        open_store()
    assert (tmp_path / "data" / DATABASE).read_bytes().startswith(b"this is no database")


# -- how it writes ---------------------------------------------------------------------------------------------


def test_the_database_has_a_write_ahead_log_and_is_flushed_with_every_commit(store: SQLiteStore) -> None:
    asked = {
        name: do(store, lambda t, name=name: t._ask(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous")
    }
    assert asked == {"journal_mode": [("wal",)], "synchronous": [(2,)]}  # 2 is FULL


def test_who_reads_cannot_write(store: SQLiteStore) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._ask("DELETE FROM collections")


def test_connections_of_threads_that_ended_are_closed(store: SQLiteStore) -> None:
    for _ in range(20):
        thread = Thread(target=store.collections)
        thread.start()
        thread.join()
    store.collections()
    assert len(store._readers) <= 2


def test_closing_stores_what_waits(open_store: Any) -> None:
    store = open_store()
    collection = made(store)
    futures = [
        store.commit(lambda t, seq=seq: t.append(collection, seq, [Pair(1, 2, True)])) for seq in range(1, 30)
    ]
    store.close()
    assert all(future.done() for future in futures)
    assert open_store().last_seq(collection) == 29


def test_a_store_that_is_closed_twice_stays_closed(open_store: Any) -> None:
    store = open_store()
    store.close()
    other = open_store()  # may have been given what the first one had open
    store.close()
    with pytest.raises(StoreBusyError):
        open_store()
    assert made(other) == 1


def test_a_closed_store_accepts_nothing(open_store: Any) -> None:
    store = open_store()
    store.close()
    with pytest.raises(StoreUnavailableError):
        store.commit(lambda t: None)
