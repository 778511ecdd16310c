"""The service as a whole: what is created is there again after a restart, and what is deleted is gone."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu.constraints import Pair, Triplet
from oahu.service import service as service_module
from oahu.service.collection import Collection
from oahu.service.errors import ConflictError, InvalidRequestError, NotFoundError, StoreBusyError
from oahu.service.records import CollectionConfig, NewItem
from oahu.service.service import Service
from oahu.service.settings import Settings

PATIENCE = 120.0
OAHU = {"n_layers": 2, "hidden_size": 6, "embedding_size": 4}


def rows_of(folder: Path) -> int:
    """How many rows all tables have together."""
    database = sqlite3.connect(folder / "oahu.db")
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    total = sum(
        database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables if name[:7] != "sqlite_"
    )
    database.close()
    return int(total)


def taught(collection: Collection, n: int = 4) -> None:
    for at in range(0, 2 * n, 2):
        collection.feedback([Triplet(f"i{at}", f"i{at + 2}", f"i{at + 1}")]).result(PATIENCE)
    collection.fresh()


# -- creating --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CollectionConfig("a", 3, "Nobody"), "no learner"),
        (CollectionConfig("a", 3, "OASIS", {"speed": 1}), "no parameter"),
        (CollectionConfig("a", 3, "OAHU", {"tau": -1}), "tau"),
        (CollectionConfig("a", 3, "OASIS", {"dtype": "complex64"}), "dtype"),
        (CollectionConfig("a", 0, "OASIS"), "n_features"),
        (CollectionConfig("a", 10**6, "Euclidean"), "up to 16384 features"),
        (CollectionConfig("a", 16_384, "OASIS"), "MiB"),
        (CollectionConfig("a", 100, "OAHU", {"hidden_size": 10**9}), "MiB"),
    ],
)
def test_a_collection_that_cannot_be_is_refused_and_nothing_is_stored(
    service: Service, config: CollectionConfig, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        service.create(config)
    assert rows_of(tmp_path / "data") == 0
    assert service.collections == []


def test_a_name_can_be_taken_once(service: Service) -> None:
    service.create(CollectionConfig("a", 3, "Euclidean"))
    with pytest.raises(ConflictError, match="'a' already"):
        service.create(CollectionConfig("a", 4, "Cosine"))
    assert service.collection("a").config.dimension == 3


def test_there_are_only_so_many_collections(open_service: Any) -> None:
    service = open_service(max_collections=2)
    for name in "ab":
        service.create(CollectionConfig(name, 3, "Euclidean"))
    with pytest.raises(InvalidRequestError, match="2 collections"):
        service.create(CollectionConfig("c", 3, "Euclidean"))
    service.delete("a")
    service.create(CollectionConfig("c", 3, "Euclidean"))
    assert [collection.config.name for collection in service.collections] == ["b", "c"]


def test_a_collection_that_is_not_there_is_named(service: Service) -> None:
    for ask in (service.collection, service.delete):
        with pytest.raises(NotFoundError, match="'nobody'") as caught:
            ask("nobody")
        assert caught.value.more == {"collection": "nobody"}


def test_two_at_once_cannot_take_the_same_name(service: Service) -> None:
    results: list[Any] = []

    def create() -> None:
        try:
            results.append(service.create(CollectionConfig("a", 3, "Euclidean")))
        except ConflictError as error:
            results.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(result).__name__ for result in results) == ["Collection", *["ConflictError"] * 3]


# -- deleting --------------------------------------------------------------------------------------------------


def test_a_collection_that_is_deleted_leaves_nothing(open_service: Any, items: Any, tmp_path: Path) -> None:
    service = open_service(snapshot_every=1)
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(20)).result(PATIENCE)
    taught(collection)
    collection.calibrate([("i0", "i2", True), ("i0", "i1", False)], {"target": "f1"}).result(PATIENCE)
    collection.replace_model(collection.model()).result(PATIENCE)
    collection.undo(1).result(PATIENCE)
    collection.fresh()
    assert service.store.snapshots(collection.id)
    service.delete("a")
    service.close()
    assert rows_of(tmp_path / "data") == 0
    assert [path for path in (tmp_path / "data").rglob("*") if path.suffix == ".oahu"] == []


def test_a_name_that_was_deleted_begins_anew(service: Service, items: Any) -> None:
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(20)).result(PATIENCE)
    taught(collection)
    service.delete("a")
    again = service.create(CollectionConfig("a", 4, "Cosine"))
    told = again.describe()
    assert (told["items"], told["last_seq"], told["constraints"], told["metric_version"]) == (0, 0, 0, 0)
    assert again.history()[0].constraints == 0
    assert again.search(np.ones(4, np.float32), 5).matches == ()


def test_what_comes_behind_a_deletion_is_refused(service: Service, items: Any) -> None:
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(6)).result(PATIENCE)
    begun, enough = threading.Event(), threading.Event()
    service.store.commit(lambda _: begun.set() or enough.wait(PATIENCE))
    begun.wait(PATIENCE)
    deleting = threading.Thread(target=service.delete, args=("a",))
    waiting = service.store.waiting
    deleting.start()
    while service.store.waiting == waiting and deleting.is_alive():
        enough.wait(0.001)
    late = [collection.feedback([Pair("i0", "i1", True)]), collection.put_items(items(2)), collection.undo(1)]
    enough.set()
    deleting.join()
    assert [type(future.exception(PATIENCE)) for future in late] == [NotFoundError] * 3


def test_a_deleted_collection_is_not_learned_any_more(service: Service) -> None:
    collection = service.create(CollectionConfig("a", 4, "Euclidean"))
    name = collection._loop._thread.name
    service.delete("a")
    assert name not in [thread.name for thread in threading.enumerate()]


# -- opening again ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["AnchoredOAHU", "LEGO", "OASIS"])
def test_everything_is_there_again(open_service: Any, items: Any, learner: str) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("a", 4, learner, OAHU if learner == "AnchoredOAHU" else {}))
    collection.put_items(items(30)).result(PATIENCE)
    taught(collection, 8)
    collection.undo(3).result(PATIENCE)
    collection.delete_items(["i5", "i6"]).result(PATIENCE)
    collection.fresh()
    collection.refresh()
    before = (
        collection.model(),
        [collection.search(f"i{at}", 9).matches for at in (0, 1, 20)],
        collection.describe(),
    )
    service.close()
    again = open_service().collection("a")
    assert again.model() == before[0]
    assert [again.search(f"i{at}", 9).matches for at in (0, 1, 20)] == before[1]
    told = again.describe()
    changing = {"candidates", "error_rate"}
    assert {name: value for name, value in told.items() if name not in changing} == {
        name: value for name, value in before[2].items() if name not in changing
    }
    assert [item.key for item in again.page(0, 100)] == [f"i{at}" for at in range(30) if at not in (5, 6)]


def test_all_collections_are_opened(open_service: Any, items: Any) -> None:
    service = open_service()
    for at, name in enumerate("abc"):
        service.create(CollectionConfig(name, 4, "Euclidean")).put_items(items(at + 1)).result(PATIENCE)
    service.close()
    again = open_service()
    assert {one.config.name: one.n_items for one in again.collections} == {"a": 1, "b": 2, "c": 3}
    assert again.is_ready


def test_what_was_not_learned_before_is_learned_when_opening(open_service: Any, items: Any) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(30)).result(PATIENCE)
    collection._loop.stop()  # it dies, and feedback goes on
    collection.feedback([Triplet(f"i{at}", f"i{at + 2}", f"i{at + 1}") for at in range(20)]).result(PATIENCE)
    service.close()
    again = open_service().collection("a")
    assert again.published.version == 20
    assert again.search("i0", 3).candidates.version == 20


def test_features_are_kept_in_the_numbers_of_the_learner(open_service: Any) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("a", 2, "OASIS", {"dtype": "float64"}))
    row = collection.features([0.1, 1 / 3], "vector")
    collection.put_items([NewItem("k", row.tobytes())]).result(PATIENCE)
    service.close()
    again = open_service().collection("a")
    assert again.vectors.take([1]).tolist() == [[0.1, 1 / 3]]


# -- one at a time, and leaving --------------------------------------------------------------------------------


def test_a_second_service_on_the_same_folder_is_refused(service: Service) -> None:
    with pytest.raises(StoreBusyError, match=str(service.settings.data)):
        Service(service.settings)


def test_closing_ends_all_threads(tmp_path: Path, items: Any) -> None:
    before = set(threading.enumerate())
    service = Service(Settings(data=tmp_path / "data"))
    service.open()
    for name in "ab":
        collection = service.create(CollectionConfig(name, 4, "OASIS"))
        collection.put_items(items(20)).result(PATIENCE)
        taught(collection)
    assert len(set(threading.enumerate()) - before) >= 4
    service.close()
    assert set(threading.enumerate()) <= before


def test_a_service_that_was_not_opened_can_be_closed(tmp_path: Path) -> None:
    service = Service(Settings(data=tmp_path / "data"))
    service.close()
    Service(service.settings).close()


def test_a_closed_service_is_not_ready(open_service: Any) -> None:
    service = open_service()
    assert service.is_ready
    service.close()
    assert not service.is_ready


def test_closing_lets_listeners_go(service: Service) -> None:
    import asyncio

    collection = service.create(CollectionConfig("a", 4, "Euclidean"))

    async def listen() -> list[Any]:
        listening = asyncio.ensure_future(anext(collection.events.subscribe(), None))
        await asyncio.sleep(0)
        await asyncio.to_thread(service.close)
        return [await asyncio.wait_for(listening, PATIENCE)]

    assert asyncio.run(listen()) == [None]


# -- in the background -----------------------------------------------------------------------------------------


def test_catalogues_are_embedded_anew_in_the_background(open_service: Any, items: Any) -> None:
    import asyncio

    service = open_service(refresh_every=1e-3)
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(20)).result(PATIENCE)

    async def refreshed() -> Any:
        events = collection.events.subscribe()
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await asyncio.to_thread(taught, collection, 1)
        while (told := await asyncio.wait_for(waiting, PATIENCE))[0] != "refresh":
            waiting = asyncio.ensure_future(anext(events))
        await events.aclose()  # type: ignore[attr-defined]
        return told

    kind, what = asyncio.run(refreshed())
    assert (kind, what["metric_version"]) == ("refresh", 1)
    assert collection.search("i0", 3).candidates.version == 1


def test_a_catalogue_that_cannot_be_embedded_does_not_stop_the_others(
    open_service: Any, items: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = open_service(refresh_every=1e-3)
    done = threading.Event()
    for name in "ab":
        service.create(CollectionConfig(name, 4, "OASIS")).put_items(items(20)).result(PATIENCE)
    first, second = service.collections

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    refresh = second._searcher.refresh

    def whole(*_: Any) -> None:
        refresh()
        done.set()

    monkeypatch.setattr(first._searcher, "refresh", broken)
    monkeypatch.setattr(second._searcher, "refresh", whole)
    for collection in (first, second):
        taught(collection, 1)
    assert done.wait(PATIENCE)
    assert service._refresher.is_alive()


def test_a_refresh_lets_answers_finish_between_its_blocks(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "_PATIENCE", PATIENCE)
    collection = service.create(CollectionConfig("things", 4))
    rested = threading.Event()

    def rest() -> None:
        service._rest(0.0)
        rested.set()

    with collection._searcher.answering():
        thread = threading.Thread(target=rest)
        thread.start()
        assert not rested.wait(0.05)
    assert rested.wait(PATIENCE)
    thread.join()
