"""The whole service: a restart keeps all collections, and a deletion removes all data."""

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

TIMEOUT = 600.0  # seconds; only a real hang exceeds it
OAHU = {"n_layers": 2, "hidden_size": 6, "embedding_size": 4}


def rows_of(folder: Path) -> int:
    """Return the total number of rows of all tables."""
    database = sqlite3.connect(folder / "oahu.db")
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    total = sum(
        database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables if name[:7] != "sqlite_"
    )
    database.close()
    return int(total)


def wait_until_learned(collection: Collection) -> None:
    """Wait until the whole log is learned."""
    collection.learner.wait_for(collection.feedback_log.last_seq, TIMEOUT)


def add_and_learn(collection: Collection, n: int = 4) -> None:
    """Add n triplets and wait until they are learned."""
    for at in range(0, 2 * n, 2):
        collection.add_feedback([Triplet(f"i{at}", f"i{at + 2}", f"i{at + 1}")]).result(TIMEOUT)
    wait_until_learned(collection)


# -- create ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CollectionConfig("a", 3, "Nobody"), "no learner"),
        (CollectionConfig("a", 3, "OASIS", {"speed": 1}), "no parameter"),
        (CollectionConfig("a", 3, "OAHU", {"tau": -1}), "tau"),
        (CollectionConfig("a", 3, "OASIS", {"dtype": "complex64"}), "dtype"),
        (CollectionConfig("a", 0, "OASIS"), "n_features"),
        (CollectionConfig("a", 10**6, "Euclidean"), "at most 16384 features"),
        (CollectionConfig("a", 16_384, "OASIS"), "MiB"),
        (CollectionConfig("a", 100, "OAHU", {"hidden_size": 10**9}), "MiB"),
    ],
)
def test_an_invalid_collection_is_rejected_and_nothing_is_stored(
    service: Service, config: CollectionConfig, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        service.create(config)
    assert rows_of(tmp_path / "data") == 0
    assert service.collections == []


def test_collection_names_are_unique(service: Service) -> None:
    service.create(CollectionConfig("a", 3, "Euclidean"))
    with pytest.raises(ConflictError, match="'a' already exists"):
        service.create(CollectionConfig("a", 4, "Cosine"))
    assert service.collection("a").config.dimension == 3


def test_the_number_of_collections_is_limited(open_service: Any) -> None:
    service = open_service(max_collections=2)
    for name in "ab":
        service.create(CollectionConfig(name, 3, "Euclidean"))
    with pytest.raises(InvalidRequestError, match="2 collections"):
        service.create(CollectionConfig("c", 3, "Euclidean"))
    service.delete("a")
    service.create(CollectionConfig("c", 3, "Euclidean"))
    assert [collection.config.name for collection in service.collections] == ["b", "c"]


def test_a_missing_collection_is_named(service: Service) -> None:
    for method in (service.collection, service.delete):
        with pytest.raises(NotFoundError, match="'missing'") as caught:
            method("missing")
        assert caught.value.more == {"collection": "missing"}


def test_concurrent_creation_with_the_same_name(service: Service) -> None:
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


# -- delete ----------------------------------------------------------------------------------------------------


def test_deleting_a_collection_deletes_all_its_data(open_service: Any, items: Any, tmp_path: Path) -> None:
    service = open_service(snapshot_every=1)
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(20)).result(TIMEOUT)
    add_and_learn(collection)
    collection.calibrate([("i0", "i2", True), ("i0", "i1", False)], {"target": "f1"}).result(TIMEOUT)
    collection.replace_model(collection.learner.model_file()).result(TIMEOUT)
    collection.undo(1).result(TIMEOUT)
    wait_until_learned(collection)
    assert service.store.snapshots(collection.id)
    service.delete("a")
    service.close()
    assert rows_of(tmp_path / "data") == 0
    assert [path for path in (tmp_path / "data").rglob("*") if path.suffix == ".oahu"] == []


def test_a_deleted_name_can_be_used_again(service: Service, items: Any) -> None:
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(20)).result(TIMEOUT)
    add_and_learn(collection)
    service.delete("a")
    again = service.create(CollectionConfig("a", 4, "Cosine"))
    state = again.describe()
    assert (state["items"], state["last_seq"], state["constraints"], state["metric_version"]) == (0, 0, 0, 0)
    assert again.learner.history()[0].constraints == 0
    assert again.search(np.ones(4, np.float32), 5).matches == ()


def test_commands_after_a_deletion_are_rejected(
    service: Service, items: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(6)).result(TIMEOUT)
    blocked, enough, submitted = threading.Event(), threading.Event(), threading.Event()
    service.store.commit(lambda _: blocked.set() or enough.wait(TIMEOUT))
    assert blocked.wait(TIMEOUT)
    submit = collection._submit

    def submit_and_report(*given: Any) -> Any:
        future = submit(*given)
        submitted.set()
        return future

    monkeypatch.setattr(collection, "_submit", submit_and_report)
    deletion = threading.Thread(target=service.delete, args=("a",))
    deletion.start()
    assert submitted.wait(TIMEOUT)  # the deletion is in the write queue
    late = [collection.add_feedback([Pair("i0", "i1", True)]), collection.put_items(items(2)), collection.undo(1)]
    enough.set()
    deletion.join()
    assert [type(future.exception(TIMEOUT)) for future in late] == [NotFoundError] * 3


def test_a_deleted_collection_has_no_learner_thread(service: Service) -> None:
    collection = service.create(CollectionConfig("a", 4, "Euclidean"))
    name = collection.learner._thread.name
    service.delete("a")
    assert name not in [thread.name for thread in threading.enumerate()]


# -- restart ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["AnchoredOAHU", "LEGO", "OASIS"])
def test_a_restart_restores_everything(open_service: Any, items: Any, learner: str) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("a", 4, learner))
    collection.put_items(items(30)).result(TIMEOUT)
    add_and_learn(collection, 8)
    collection.undo(3).result(TIMEOUT)
    collection.delete_items(["i5", "i6"]).result(TIMEOUT)
    wait_until_learned(collection)
    collection.refresh_index()
    before = (
        collection.learner.model_file(),
        [collection.search(f"i{at}", 9).matches for at in (0, 1, 20)],
        collection.describe(),
    )
    service.close()
    again = open_service().collection("a")
    assert again.learner.model_file() == before[0]
    assert [again.search(f"i{at}", 9).matches for at in (0, 1, 20)] == before[1]
    state = again.describe()
    volatile = {"candidates", "error_rate"}
    assert {name: value for name, value in state.items() if name not in volatile} == {
        name: value for name, value in before[2].items() if name not in volatile
    }
    assert [item.key for item in again.catalogue.page(0, 100)] == [f"i{at}" for at in range(30) if at not in (5, 6)]


def test_all_collections_are_opened(open_service: Any, items: Any) -> None:
    service = open_service()
    for at, name in enumerate("abc"):
        service.create(CollectionConfig(name, 4, "Euclidean")).put_items(items(at + 1)).result(TIMEOUT)
    service.close()
    again = open_service()
    assert {one.config.name: one.queries.index.n_items for one in again.collections} == {"a": 1, "b": 2, "c": 3}
    assert again.is_ready


def test_a_restart_learns_the_remaining_log_entries(open_service: Any, items: Any) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(30)).result(TIMEOUT)
    collection.learner.stop()  # feedback is accepted, but not learned
    collection.add_feedback([Triplet(f"i{at}", f"i{at + 2}", f"i{at + 1}") for at in range(20)]).result(TIMEOUT)
    service.close()
    again = open_service().collection("a")
    assert again.published.version == 20
    assert again.search("i0", 3).candidates.version == 20


def test_features_are_stored_in_the_dtype_of_the_learner(open_service: Any) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("a", 2, "OASIS", {"dtype": "float64"}))
    row = collection.catalogue.parse_features([0.1, 1 / 3], "vector")
    collection.put_items([NewItem("k", row.tobytes())]).result(TIMEOUT)
    service.close()
    again = open_service().collection("a")
    assert again.catalogue.features.take([1]).tolist() == [[0.1, 1 / 3]]


# -- one process, and close ------------------------------------------------------------------------------------


def test_a_second_service_on_the_same_folder_is_rejected(service: Service) -> None:
    with pytest.raises(StoreBusyError, match=str(service.settings.data)):
        Service(service.settings)


def test_close_ends_all_threads(tmp_path: Path, items: Any) -> None:
    before = set(threading.enumerate())
    service = Service(Settings(data=tmp_path / "data"))
    service.open()
    for name in "ab":
        collection = service.create(CollectionConfig(name, 4, "OASIS"))
        collection.put_items(items(20)).result(TIMEOUT)
        add_and_learn(collection)
    assert len(set(threading.enumerate()) - before) >= 4
    service.close()
    assert set(threading.enumerate()) <= before


def test_a_service_that_was_never_opened_can_be_closed(tmp_path: Path) -> None:
    service = Service(Settings(data=tmp_path / "data"))
    service.close()
    Service(service.settings).close()


def test_a_closed_service_is_not_ready(open_service: Any) -> None:
    service = open_service()
    assert service.is_ready
    service.close()
    assert not service.is_ready


def test_close_ends_subscriptions(service: Service) -> None:
    import asyncio

    collection = service.create(CollectionConfig("a", 4, "Euclidean"))

    async def subscribe() -> list[Any]:
        subscription = asyncio.ensure_future(anext(collection.events.subscribe(), None))
        await asyncio.sleep(0)
        await asyncio.to_thread(service.close)
        return [await asyncio.wait_for(subscription, TIMEOUT)]

    assert asyncio.run(subscribe()) == [None]


# -- background refresh ----------------------------------------------------------------------------------------


def test_indexes_are_refreshed_in_the_background(open_service: Any, items: Any) -> None:
    import asyncio

    service = open_service(refresh_every=1e-3)
    collection = service.create(CollectionConfig("a", 4, "OASIS"))
    collection.put_items(items(20)).result(TIMEOUT)

    async def refreshed() -> Any:
        events = collection.events.subscribe()
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await asyncio.to_thread(add_and_learn, collection, 1)
        while (event := await asyncio.wait_for(waiting, TIMEOUT))[0] != "refresh":
            waiting = asyncio.ensure_future(anext(events))
        await events.aclose()  # type: ignore[attr-defined]
        return event

    kind, data = asyncio.run(refreshed())
    assert (kind, data["metric_version"]) == ("refresh", 1)
    assert collection.search("i0", 3).candidates.version == 1


def test_a_failed_refresh_does_not_stop_other_refreshes(
    open_service: Any, items: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = open_service(refresh_every=1e-3)
    done = threading.Event()
    for name in "ab":
        service.create(CollectionConfig(name, 4, "OASIS")).put_items(items(20)).result(TIMEOUT)
    first, second = service.collections

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    refresh = second.queries.refresh

    def refresh_and_report(*_: Any) -> None:
        refresh()
        done.set()

    monkeypatch.setattr(first.queries, "refresh", broken)
    monkeypatch.setattr(second.queries, "refresh", refresh_and_report)
    for collection in (first, second):
        add_and_learn(collection, 1)
    assert done.wait(TIMEOUT)
    assert service._refresher.is_alive()


def test_a_refresh_waits_for_running_queries_between_its_blocks(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "_MAX_PAUSE", TIMEOUT)
    collection = service.create(CollectionConfig("things", 4))
    order: list[str] = []

    def pause() -> None:
        service._pause(0.0)
        order.append("refresh")

    with collection.queries.active:
        thread = threading.Thread(target=pause)
        thread.start()
        order.append("query")
    thread.join()
    assert order == ["query", "refresh"]
