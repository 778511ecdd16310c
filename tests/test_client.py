"""`oahu.Client` with a running service, and with one that fails."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn

import oahu
from oahu import Click, Client, InvalidInputError, Pair, ServiceRequestError, Triplet
from oahu.service.api.app import create_app
from oahu.service.images import encode_png
from oahu.service.keys import KeyFile
from oahu.service.settings import Settings

ROWS = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
KEYS = [f"tea-{at}" for at in range(30)]
LABELS = [("green", "black")[at % 2] for at in range(30)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a running service and an API key."""
    data = tmp_path_factory.mktemp("client")
    key = KeyFile(data).add("tests", "admin")
    app = create_app(Settings(data=data, page=False, fresh_wait=600.0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", key
        for collection in app.state.service.collections:
            collection.events.close()
        server.should_exit = True
        thread.join()


@pytest.fixture
def teas(service: tuple[str, str], request: pytest.FixtureRequest) -> Iterator[Client]:
    """A collection with thirty teas."""
    with Client(service[0], f"teas-{abs(hash(request.node.name))}", service[1]) as client:
        client.create(dimension=5, closure=0)
        client.put(KEYS, ROWS, LABELS, [{"at": at} for at in range(30)])
        yield client
        client.delete()


# -- all operations -----------------------------------------------------------------------------------------


def test_create_passes_the_options_on(service: tuple[str, str]) -> None:
    with Client(*service[:1], "made", service[1]) as client:
        assert client.create(3, "OASIS", contradictions="newest") is client
        state = client.describe()
        assert (state["dimension"], state["learner"], state["contradictions"]) == (3, "OASIS", "newest")
        assert "made" in [one["name"] for one in client.collections()]
        client.delete()
        assert "made" not in [one["name"] for one in client.collections()]


def test_put_list_and_delete_items(teas: Client) -> None:
    assert [one["key"] for one in teas.items()] == KEYS
    assert [one["key"] for one in teas.items("black")] == KEYS[1::2]
    assert teas.item("tea-3") == {"key": "tea-3", "label": "black", "payload": {"at": 3}, "has_thumbnail": False}
    assert teas.item("tea-3", vector=True)["vector"] == ROWS[3].tolist()
    teas.delete_items(KEYS[:2])
    assert teas.describe()["items"] == 28


def test_patch_changes_only_the_given_fields(teas: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.client._BATCH_SIZE", 2)
    before = teas.item("tea-1", vector=True)
    assert teas.patch(KEYS[:3], payloads=[{"price": at} for at in range(3)]) == 3
    assert teas.item("tea-1", vector=True) == before | {"payload": {"at": 1, "price": 1}}
    teas.patch(["tea-1"], [ROWS[9]], payloads=[{"price": None}], labels=[None])
    assert teas.item("tea-1", vector=True) == before | {"vector": ROWS[9].tolist(), "label": None}


def test_a_repeated_patch_of_several_batches_changes_nothing(teas: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.client._BATCH_SIZE", 2)
    teas.patch(KEYS[:3], labels=["a"] * 3, idempotency_key="k")
    teas.patch(KEYS[:3], labels=["b"] * 3)
    teas.patch(KEYS[:3], labels=["a"] * 3, idempotency_key="k")
    assert [one["label"] for one in list(teas.items())[:3]] == ["b"] * 3


def test_patch_needs_a_change(teas: Client) -> None:
    with pytest.raises(InvalidInputError, match="needs 'vectors', 'texts', 'images', 'labels'"):
        teas.patch(KEYS)


def test_put_splits_items_into_batches(teas: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.client._BATCH_SIZE", 7)
    assert teas.put([f"more-{at}" for at in range(20)], np.ones((20, 5))) == 20
    assert len(list(teas.items())) == 50


def test_thumbnails_are_returned_unchanged(teas: Client) -> None:
    image = encode_png(np.zeros((2, 2)))
    teas.put(["one", "two"], ROWS[:2], thumbnails=[image, None])
    assert teas.thumbnail("one") == image
    assert (teas.item("one")["has_thumbnail"], teas.item("two")["has_thumbnail"]) == (True, False)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", ">f4", "object"])
def test_put_converts_any_dtype(teas: Client, dtype: str) -> None:
    vector = [3.0, -1.0, 2.0, 0.0, 1.0]
    teas.put(["exact"], np.array([vector]).astype(dtype))
    assert teas.search(vector, k=1)["matches"][0]["key"] == "exact"
    assert teas.search(vector, k=1)["matches"][0]["distance"] == pytest.approx(0, abs=1e-6)


def test_put_accepts_fortran_order(teas: Client) -> None:
    """The memory layout does not matter."""
    teas.put(["a", "b"], np.asfortranarray(ROWS[:2] + 1))
    assert teas.search(ROWS[1] + 1, k=1)["matches"][0]["key"] == "b"


@pytest.mark.parametrize("key", ["a/b", "?", "#x", "%41", "ä ö", "...", "a.b"])
def test_keys_are_escaped_in_paths(teas: Client, key: str) -> None:
    teas.put([key], ROWS[:1], thumbnails=[encode_png(np.ones((1, 1)))])
    assert teas.item(key)["key"] == key
    assert teas.thumbnail(key)
    assert teas.search(key, k=1)["matches"]


@pytest.mark.parametrize("key", [".", "..", "../.."])
def test_dot_segments_do_not_change_the_path(teas: Client, key: str) -> None:
    with pytest.raises(ServiceRequestError) as error:
        teas.item(key)
    assert (error.value.status, error.value.problem["key"]) == (404, key)


def test_clicks_triplets_and_pairs_are_learned(teas: Client) -> None:
    teas.feedback(query="tea-0", positive=["tea-2"], negative=["tea-1"])
    click = {"query": "tea-9", "positive": ["tea-11"]}
    received = teas.feedback([Triplet("tea-3", "tea-5", "tea-4"), Pair("tea-6", "tea-8", True), click])
    assert (received["first_seq"], received["last_seq"]) == (2, 4)
    assert [one["kind"] for one in teas.feedback_log()] == ["click", "triplet", "pair", "click"]
    assert [one["seq"] for one in teas.feedback_log(after=2)] == [3, 4]
    found = teas.search("tea-0", k=29)
    assert found["metric_version"] == 4
    assert (found["matches"][0]["key"], found["matches"][-1]["key"]) == ("tea-2", "tea-1")


def test_undo(teas: Client) -> None:
    seq = teas.feedback(query="tea-0", positive=["tea-2"])["last_seq"]
    assert teas.undo(seq) == seq + 1
    assert [one["active"] for one in teas.feedback_log()] == [False, True]


def test_a_contradiction_has_a_proof(teas: Client) -> None:
    teas.update(contradictions="refuse")
    teas.feedback([Pair("tea-0", "tea-1", True)])
    with pytest.raises(ServiceRequestError, match="are similar") as error:
        teas.feedback([Pair("tea-0", "tea-1", False)])
    assert error.value.status == 409
    assert error.value.problem["proof"] == [{"seq": 1, "first": "tea-0", "second": "tea-1", "same": True}]


def test_clicks_on_vectors_and_shown_results_are_learned(teas: Client) -> None:
    found = teas.search(ROWS[0] + 0.01, k=5)
    keys = [match["key"] for match in found["matches"]]
    teas.feedback(
        query=ROWS[0] + 0.01, positive=[keys[1]], impression=found["impression"], source="ann", weight=0.5
    )
    teas.feedback(
        [
            Click(ROWS[1] + 0.01, ["tea-3"], shown=["tea-5"], weight=0.5),
            Triplet(ROWS[2] + 0.01, "tea-4", ROWS[3]),
            Pair("tea-6", ROWS[4], True),
        ],
        source="bob",
        weight=0.5,
    )
    click, other, triplet, pair = teas.feedback_log()
    assert np.float32(click["query"]["vector"]).tolist() == np.float32(ROWS[0] + 0.01).tolist()
    assert (click["shown"], click["source"], click["weight"]) == ([keys[0], *keys[2:]], "ann", 0.5)
    assert (other["shown"], other["source"], other["weight"]) == (["tea-5"], "bob", 0.25)
    assert triplet["positive"] == "tea-4"
    assert np.float32(pair["second"]["vector"]).tolist() == np.float32(ROWS[4]).tolist()
    assert teas.search("tea-0")["constraints"] == 4


def test_an_impression_needs_a_click(teas: Client) -> None:
    with pytest.raises(InvalidInputError, match="impression"):
        teas.feedback([Pair("tea-0", "tea-1", True)], impression="x")


def test_refused_feedback_is_listed(teas: Client) -> None:
    teas.update(contradictions="refuse")
    pairs = [Pair("tea-0", "tea-1", True), Pair("tea-0", "tea-1", False), Pair("tea-2", "tea-3", True)]
    received = teas.feedback(pairs)
    assert (received["accepted"], [one["record"] for one in received["refused"]]) == (2, [1])
    with pytest.raises(ServiceRequestError, match="'contradictions'"):
        teas.feedback(pairs, all_or_nothing=True)


def test_sources_are_listed_weighted_and_undone(teas: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.client._BATCH_SIZE", 2)
    for source in ("ann", "bob", "c/d"):
        teas.feedback(query="tea-0", positive=["tea-2"], source=source)
    assert teas.undo_source("c/d") == 4
    assert teas.weigh_source("ann", 0.5) == 5
    assert {one["source"]: one["weight"] for one in teas.sources()} == {"ann": 0.5, "bob": 1.0, "c/d": 0.0}
    assert teas.search("tea-0")["constraints"] == 2


def test_settings_can_be_updated(teas: Client) -> None:
    teas.feedback(query="tea-0", positive=["tea-2"])
    state = teas.update(closure=1, vote="joint", parameters={"prior": 1.0})
    assert (state["closure"], state["vote"], state["parameters"]) == (1, "joint", {"prior": 1.0})
    with pytest.raises(ServiceRequestError, match="learner"):
        teas.update(learner="OASIS")


def test_feedback_with_the_same_idempotency_key_is_stored_once(teas: Client) -> None:
    first, again = (teas.feedback(query="tea-0", positive=["tea-2"], idempotency_key="k") for _ in range(2))
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert len(list(teas.feedback_log())) == 1


def test_search_options(teas: Client) -> None:
    found = teas.search("tea-0", k=4, label="black", payload=True)["matches"]
    assert len(found) == 4
    assert all(one["payload"]["at"] % 2 == 1 for one in found)
    assert teas.search(ROWS[0].tolist(), k=1)["matches"][0]["key"] == "tea-0"
    assert teas.search("tea-0", use_feedback=False)["matches"]


def test_find(teas: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.client._BATCH_SIZE", 2)
    teas.patch(KEYS[:5], payloads=[{"title": "First flush"}] * 5)
    assert [one["key"] for one in teas.find("flu fir")] == KEYS[:5]
    assert [one["key"] for one in teas.find("flush", "black", filter={"field": "at", "gt": 1})] == ["tea-3"]
    assert list(teas.find("missing")) == []


def test_search_with_a_filter(teas: Client) -> None:
    found = teas.search("tea-0", filter={"field": "at", "in": [3, 4, 99]})["matches"]
    assert {one["key"] for one in found} == {"tea-3", "tea-4"}


def test_search_many_equals_single_searches(teas: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.client._SEARCHES", 2)
    queries = ["tea-0", ROWS[3], "tea-7", ROWS[4].tolist(), "tea-9"]
    options: dict[str, Any] = {"k": 4, "label": "black", "filter": {"field": "at", "gt": 5}}
    found = [one["matches"] for one in teas.search_many(queries, **options)]
    assert found == [teas.search(query, **options)["matches"] for query in queries]
    assert [one["matches"][0]["key"] for one in teas.search_many(ROWS[:3], k=1)] == KEYS[:3]
    assert teas.search_many([]) == []


def test_calibrate_and_compare(teas: Client) -> None:
    near = [one["key"] for one in teas.search("tea-0", k=29)["matches"]]
    pairs = [Pair("tea-0", near[0], True), Pair("tea-0", near[-1], False)]
    assert teas.calibrate(pairs, target="accuracy")["warnings"] == []
    assert teas.compare("tea-0", ROWS[0])["answer"] == "yes"
    assert teas.compare("tea-0", near[-1])["answer"] == "no"


def test_classify(teas: Client) -> None:
    assert teas.classify("tea-0")["label"] in ("green", "black")
    assert teas.classify(ROWS[1], k=1)["label"] == "black"


def test_download_and_upload(teas: Client, tmp_path: Path) -> None:
    teas.feedback([Triplet("tea-3", "tea-5", "tea-4")])
    teas.search("tea-0")
    path = teas.download(tmp_path / "teas.oahu")
    assert oahu.load(path).n_seen_ == 1
    teas.feedback([Triplet("tea-6", "tea-8", "tea-7")])
    assert teas.upload(path) == 3
    assert teas.search("tea-0")["constraints"] == 1
    assert teas.history()["spaces"]


def test_restore(teas: Client) -> None:
    teas.feedback([Triplet("tea-3", "tea-5", "tea-4"), Triplet("tea-6", "tea-8", "tea-7")])
    assert teas.restore(1) == 3
    assert teas.search("tea-0")["constraints"] == 1


def test_a_download_after_a_restore_is_the_restored_model(teas: Client, tmp_path: Path) -> None:
    teas.feedback([Triplet("tea-3", "tea-5", "tea-4")])
    before = teas.download(tmp_path / "before").read_bytes()
    teas.feedback([Triplet("tea-6", "tea-8", "tea-7"), Triplet("tea-0", "tea-2", "tea-1")])
    assert teas.download(tmp_path / "after").read_bytes() != before
    teas.restore(1)
    assert teas.download(tmp_path / "restored").read_bytes() == before


def test_wait_returns_when_all_feedback_is_learned(teas: Client) -> None:
    for at in range(3):
        seq = teas.feedback([Triplet("tea-3", f"tea-{at * 2 + 5}", "tea-4")])["last_seq"]
        assert teas.wait()["metric_version"] >= seq
    teas.undo(1)
    state = teas.wait()
    assert (state["metric_version"], state["feedback"], state["constraints"], state["pending_feedback"]) == (
        4,
        2,
        2,
        0,
    )


def test_wait_ends_with_an_error_after_the_timeout_or_a_failure() -> None:
    state = {"last_seq": 7, "metric_version": 3, "learner_error": None}
    behind = FailingService(response=httpx.Response(200, json=state)).client()
    with pytest.raises(TimeoutError, match=r"has version 3, and the newest log entry is 7") as error:
        behind.wait(timeout=0.05)
    assert isinstance(error.value, oahu.ServiceTimeoutError)
    failed = FailingService(response=httpx.Response(200, json=state | {"learner_error": "boom"})).client()
    with pytest.raises(ServiceRequestError, match="has failed \\(boom\\)"):
        failed.wait()


def test_describe_counts_items_and_feedback(teas: Client) -> None:
    teas.feedback([Pair("tea-0", "tea-2", True), Pair("tea-0", "tea-4", True)])
    teas.undo(1)
    teas.delete_items(["tea-9"])
    state = teas.describe()
    assert (state["items"], state["feedback"], state["last_seq"]) == (29, 1, 3)


def test_events(teas: Client) -> None:
    events = teas.events()
    kind, state = next(events)
    assert (kind, state["metric_version"]) == ("metric", 0)
    teas.feedback([Triplet("tea-3", "tea-5", "tea-4")])
    assert next(what for kind, what in events if kind == "feedback") == {"seq": 1, "accepted": 1}
    assert next(what for kind, what in events if kind == "metric")["metric_version"] == 1
    events.close()


def test_one_client_can_use_several_collections(service: tuple[str, str]) -> None:
    with Client(service[0], key=service[1]) as client:
        one, two = client.collection("one").create(2, "OASIS"), client.collection("two").create(3, "OASIS")
        assert (one.describe()["dimension"], two.describe()["dimension"]) == (2, 3)
        one.delete(), two.delete()


def test_a_client_without_a_collection_raises_an_error(service: tuple[str, str]) -> None:
    with Client(service[0], key=service[1]) as client, pytest.raises(InvalidInputError, match="has no collection"):
        client.search("x")


def test_an_invalid_api_key_is_rejected(service: tuple[str, str]) -> None:
    with Client(service[0], key="oahu_x_y") as client, pytest.raises(ServiceRequestError) as error:
        client.collections()
    assert error.value.status == 401
    assert error.value.problem["type"] == "urn:oahu:problem:unauthorized"


# -- invalid arguments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vectors": ROWS[:2]}, "one vector for each of the 3 keys. Got 2"),
        ({"labels": ["a"]}, "one label for each of the 3 keys. Got 1"),
        ({"payloads": [{}] * 4}, "one payload for each of the 3 keys. Got 4"),
        ({"thumbnails": []}, "one thumbnail for each of the 3 keys. Got 0"),
        ({"labels": np.array([1, 2, 3])}, "cannot be encoded as JSON"),
        ({"payloads": [{"x": float("nan")}] * 3}, "cannot be encoded as JSON"),
    ],
)
def test_invalid_items_are_not_sent(teas: Client, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        teas.put(**{"keys": ["a", "b", "c"], "vectors": ROWS[:3]} | given)
    assert teas.describe()["items"] == 30


def test_feedback_needs_constraints_or_a_click(teas: Client) -> None:
    for given in ({}, {"constraints": [], "query": "tea-0"}):
        with pytest.raises(InvalidInputError, match="needs either 'constraints', or 'query'"):
            teas.feedback(**given)


SLIPS: dict[str, tuple[Callable[[Client], Any], str]] = {
    "delete one key": (
        lambda c: c.delete_items("tea-1"),
        r"'keys' must be a list. Got one text instead. Write \['tea-1'\]",
    ),
    "put one key": (lambda c: c.put("tea", ROWS[:3]), r"'keys' must be a list"),
    "put one label": (lambda c: c.put(["a", "b"], ROWS[:2], labels="ab"), r"'labels' must be a list"),
    "put one payload": (
        lambda c: c.put(["a"], ROWS[:1], payloads={"a": 1}),
        r"'payloads' must be a list. Got one dict",
    ),
    "patch one key": (lambda c: c.patch("tea-1", labels=["x"] * 5), r"'keys' must be a list"),
    "one positive": (lambda c: c.feedback(query="tea-0", positive="tea-1"), r"'positive' must be a list"),
    "one negative": (lambda c: c.feedback(query="tea-0", negative="tea-1"), r"'negative' must be a list"),
    "one constraint": (
        lambda c: c.feedback(Pair("tea-0", "tea-1", True)),
        r"'constraints' must be a list. Got one Pair",
    ),
    "one mapping": (lambda c: c.feedback({"query": "tea-0"}), r"'constraints' must be a list. Got one dict"),
    "one pair": (lambda c: c.calibrate(Pair("tea-0", "tea-1", True), target="eer"), r"'pairs' must be a list"),
    "search many keys": (lambda c: c.search(["tea-0", "tea-1"]), r"the key of one item .* use search_many"),
    "search many vectors": (lambda c: c.search(ROWS[:2]), r"Got shape \(2, 5\) instead. .* use search_many"),
    "search many, one key": (lambda c: c.search_many("tea-0"), r"'queries' must be a list"),
}


@pytest.mark.parametrize("name", SLIPS)
def test_natural_slips_get_helpful_messages(teas: Client, name: str) -> None:
    call, message = SLIPS[name]
    before = teas.describe()
    with pytest.raises(InvalidInputError, match=message):
        call(teas)
    after = teas.describe()
    assert (after["items"], after["last_seq"]) == (before["items"], before["last_seq"])


# -- retries -------------------------------------------------------------------------------------------------


class FailingService:
    """A transport that gives the failures one after the other, and then the response."""

    def __init__(self, *failures: httpx.Response | Exception, response: httpx.Response | None = None) -> None:
        self.failures, self.response = list(failures), response or httpx.Response(200, json={"seq": 1})
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if not self.failures:
            return self.response
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        return failure

    def client(self, **more: Any) -> Client:
        return Client("http://service", "c", transport=httpx.MockTransport(self), **more)


@pytest.fixture(autouse=True)
def waiting_times(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[float]:
    """A list that records the waiting times. The client does not wait."""
    waits: list[float] = []
    monkeypatch.setattr("oahu.client.time", type("Clock", (), {"sleep": staticmethod(waits.append)}))
    return waits


def error_response(status: int = 503, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=sent, json={"detail": "busy", "status": status})


CALLS: dict[str, Callable[[Client], Any]] = {
    "feedback": lambda client: client.feedback(query="a", positive=["b"]),
    "put": lambda client: client.put(["a"], [[1.0]]),
    "patch": lambda client: client.patch(["a"], labels=["b"]),
    "delete_items": lambda client: client.delete_items(["a"]),
    "undo": lambda client: client.undo(1),
    "search": lambda client: client.search("a"),
    "compare": lambda client: client.compare("a", "b"),
    "classify": lambda client: client.classify("a"),
    "calibrate": lambda client: client.calibrate([Pair("a", "b", True)], target="eer"),
    "create": lambda client: client.create(3),
    "delete": lambda client: client.delete(),
    "describe": lambda client: client.describe(),
    "restore": lambda client: client.restore(1),
}
REPEATABLE = {"feedback", "put", "patch", "search", "compare", "classify", "calibrate", "describe"}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_overloaded_service_is_retried_after_the_given_time(
    call: Callable[[Client], Any], waiting_times: list[float]
) -> None:
    service = FailingService(error_response(429, Retry_After="3"), error_response(503, Retry_After="7"))
    call(service.client())
    assert (len(service.requests), waiting_times) == (3, [3.0, 7.0])


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_failed_connection_is_retried(call: Callable[[Client], Any], waiting_times: list[float]) -> None:
    service = FailingService(httpx.ConnectError("refused"), httpx.ConnectTimeout("late"))
    call(service.client())
    assert len(service.requests) == 3
    assert 0 < waiting_times[0] < waiting_times[1] * 4


@pytest.mark.parametrize("name", CALLS)
def test_a_broken_connection_is_retried_only_for_repeatable_requests(name: str) -> None:
    for error in (httpx.ReadError("cut"), httpx.RemoteProtocolError("cut"), httpx.ReadTimeout("late")):
        service = FailingService(error)
        if name in REPEATABLE:
            CALLS[name](service.client())
            assert len(service.requests) == 2
        else:
            with pytest.raises(ServiceRequestError, match="cannot be reached"):
                CALLS[name](service.client())
            assert len(service.requests) == 1


def test_an_upload_is_not_repeated(tmp_path: Path) -> None:
    """Others may have given feedback to the uploaded model in the meantime."""
    (tmp_path / "m").write_bytes(b"x")
    service = FailingService(httpx.ReadError("cut"))
    with pytest.raises(ServiceRequestError):
        service.client().upload(tmp_path / "m")
    assert len(service.requests) == 1


def test_repeated_feedback_has_the_same_idempotency_key_and_body() -> None:
    service = FailingService(error_response(), httpx.ReadError("cut"), error_response())
    service.client().feedback(query="a", positive=["b"])
    keys = {request.headers["Idempotency-Key"] for request in service.requests}
    bodies = {request.content for request in service.requests}
    assert (len(service.requests), len(keys), len(bodies)) == (4, 1, 1)


def test_new_feedback_has_a_new_idempotency_key() -> None:
    service = FailingService()
    client = service.client()
    for _ in range(2):
        client.feedback(query="a", positive=["b"])
    assert len({request.headers["Idempotency-Key"] for request in service.requests}) == 2


def test_the_last_error_is_raised_after_all_retries(waiting_times: list[float]) -> None:
    service = FailingService(*[error_response() for _ in range(10)])
    with pytest.raises(ServiceRequestError, match="busy") as error:
        service.client(retries=3).describe()
    assert (error.value.status, len(service.requests), len(waiting_times)) == (503, 4, 3)


def test_zero_retries_raises_the_first_error(waiting_times: list[float]) -> None:
    service = FailingService(httpx.ConnectError("refused"))
    with pytest.raises(ServiceRequestError) as error:
        service.client(retries=0).describe()
    assert (error.value.status, error.value.problem, waiting_times) == (0, {}, [])


@pytest.mark.parametrize(
    ("retry_after", "waited"),
    [
        ("", 1.0),
        ("soon", 1.0),
        ("nan", 1.0),
        ("inf", 1.0),
        ("-5", 0.0),
        ("1e9", 30.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 1.0),
    ],
)
def test_invalid_retry_after_values(retry_after: str, waited: float, waiting_times: list[float]) -> None:
    FailingService(error_response(Retry_After=retry_after)).client().describe()
    assert waiting_times == [waited]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500, 507])
def test_other_errors_are_not_retried(status: int) -> None:
    service = FailingService(error_response(status))
    with pytest.raises(ServiceRequestError, match="busy") as error:
        service.client().describe()
    assert (len(service.requests), error.value.status, error.value.problem["detail"]) == (1, status, "busy")


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'"text"', b"null", b"\xff"])
def test_an_error_response_without_problem_details(content: bytes) -> None:
    with pytest.raises(ServiceRequestError, match="status 502") as error:
        FailingService(httpx.Response(502, content=content)).client().describe()
    assert error.value.problem == {}


def test_rejected_event_streams_raise_an_error() -> None:
    with pytest.raises(ServiceRequestError, match="busy"):
        next(FailingService(error_response(404)).client().events())


def test_broken_event_streams_raise_an_error() -> None:
    def broken() -> Iterator[bytes]:
        yield b'event: metric\ndata: {"a": 1}\n\n: heartbeat\n\n'
        raise httpx.ReadError("cut")

    events = FailingService(response=httpx.Response(200, content=broken())).client().events()
    assert next(events) == ("metric", {"a": 1})
    with pytest.raises(ServiceRequestError, match="cannot be reached"):
        next(events)


def test_the_api_key_is_sent() -> None:
    service = FailingService()
    service.client(key="oahu_a_b").describe()
    assert service.requests[0].headers["Authorization"] == "Bearer oahu_a_b"


@pytest.mark.parametrize("url", ["http://service", "http://service/", "http://service:80//"])
def test_trailing_slashes_of_the_address_are_ignored(url: str) -> None:
    service = FailingService()
    Client(url, "a b", transport=httpx.MockTransport(service)).describe()
    assert service.requests[0].url.raw_path == b"/v1/collections/a%20b"


@pytest.mark.slow
def test_a_missing_httpx_is_reported() -> None:
    code = "import sys; sys.modules['httpx'] = None\nimport oahu\noahu.Client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        "ImportError: oahu.Client requires httpx. Install it with: pip install 'oahu[client]'"
    )
