"""`oahu.Client` against a service that runs, and against one that fails it."""

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
from oahu import Client, InvalidInputError, Pair, ServiceRequestError, Triplet
from oahu.service.api.app import create_app
from oahu.service.images import encode_png
from oahu.service.keys import KeyFile
from oahu.service.settings import Settings

ROWS = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
SMALL = {"n_layers": 2, "hidden_size": 8, "embedding_size": 4}
KEYS = [f"tea-{at}" for at in range(30)]
LABELS = [("green", "black")[at % 2] for at in range(30)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where a service is, and a key for it."""
    data = tmp_path_factory.mktemp("client")
    key = KeyFile(data).add("tests", "admin")
    app = create_app(Settings(data=data, page=False, fresh_wait=10.0))
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
        client.create(dimension=5, closure=0, parameters=SMALL)
        client.put(KEYS, ROWS, LABELS, [{"at": at} for at in range(30)])
        yield client
        client.delete()


# -- everything the service does -----------------------------------------------------------------------------


def test_a_collection_is_created_with_what_was_asked_for(service: tuple[str, str]) -> None:
    with Client(*service[:1], "made", service[1]) as client:
        assert client.create(3, "OASIS", contradictions="newest") is client
        told = client.describe()
        assert (told["dimension"], told["learner"], told["contradictions"]) == (3, "OASIS", "newest")
        assert "made" in [one["name"] for one in client.collections()]
        client.delete()
        assert "made" not in [one["name"] for one in client.collections()]


def test_items_are_put_and_listed_and_removed(teas: Client) -> None:
    assert [one["key"] for one in teas.items()] == KEYS
    assert [one["key"] for one in teas.items("black")] == KEYS[1::2]
    assert teas.item("tea-3") == {"key": "tea-3", "label": "black", "payload": {"at": 3}, "has_thumbnail": False}
    assert teas.item("tea-3", vector=True)["vector"] == ROWS[3].tolist()
    teas.remove(KEYS[:2])
    assert teas.describe()["items"] == 28


def test_many_items_go_in_parts(teas: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.client._AT_ONCE", 7)
    assert teas.put([f"more-{at}" for at in range(20)], np.ones((20, 5))) == 20
    assert len(list(teas.items())) == 50


def test_thumbnails_come_back_as_they_were_put(teas: Client) -> None:
    image = encode_png(np.zeros((2, 2)))
    teas.put(["one", "two"], ROWS[:2], thumbnails=[image, None])
    assert teas.thumbnail("one") == image
    assert (teas.item("one")["has_thumbnail"], teas.item("two")["has_thumbnail"]) == (True, False)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", ">f4", "object"])
def test_vectors_of_any_type_are_what_they_are(teas: Client, dtype: str) -> None:
    vector = [3.0, -1.0, 2.0, 0.0, 1.0]
    teas.put(["exact"], np.array([vector]).astype(dtype))
    assert teas.search(vector, k=1)["matches"][0]["key"] == "exact"
    assert teas.search(vector, k=1)["matches"][0]["distance"] == pytest.approx(0, abs=1e-6)


def test_columns_of_an_array_are_put_as_rows(teas: Client) -> None:
    """Whatever the layout in memory."""
    teas.put(["a", "b"], np.asfortranarray(ROWS[:2] + 1))
    assert teas.search(ROWS[1] + 1, k=1)["matches"][0]["key"] == "b"


@pytest.mark.parametrize("key", ["a/b", "?", "#x", "%41", "ä ö", "...", "a.b"])
def test_odd_keys_are_keys(teas: Client, key: str) -> None:
    teas.put([key], ROWS[:1], thumbnails=[encode_png(np.ones((1, 1)))])
    assert teas.item(key)["key"] == key
    assert teas.thumbnail(key)
    assert teas.search(key, k=1)["matches"]


@pytest.mark.parametrize("key", [".", "..", "../.."])
def test_a_key_of_dots_is_never_another_address(teas: Client, key: str) -> None:
    with pytest.raises(ServiceRequestError) as refused:
        teas.item(key)
    assert (refused.value.status, refused.value.problem["key"]) == (404, key)


def test_feedback_in_every_form_is_learned(teas: Client) -> None:
    teas.feedback(query="tea-0", positive=["tea-2"], negative=["tea-1"])
    click = {"query": "tea-9", "positive": ["tea-11"]}
    received = teas.feedback([Triplet("tea-3", "tea-5", "tea-4"), Pair("tea-6", "tea-8", True), click])
    assert (received["first_seq"], received["last_seq"]) == (2, 4)
    assert [one["kind"] for one in teas.log()] == ["click", "triplet", "pair", "click"]
    assert [one["seq"] for one in teas.log(after=2)] == [3, 4]
    found = teas.search("tea-0", k=29)
    assert found["metric_version"] == 4
    assert (found["matches"][0]["key"], found["matches"][-1]["key"]) == ("tea-2", "tea-1")


def test_feedback_is_undone(teas: Client) -> None:
    seq = teas.feedback(query="tea-0", positive=["tea-2"])["last_seq"]
    assert teas.undo(seq) == seq + 1
    assert [one["active"] for one in teas.log()] == [False, True]


def test_a_contradiction_comes_with_its_chain(teas: Client) -> None:
    teas.feedback([Pair("tea-0", "tea-1", True)])
    with pytest.raises(ServiceRequestError, match="alike") as refused:
        teas.feedback([Pair("tea-0", "tea-1", False)])
    assert refused.value.status == 409
    assert refused.value.problem["chain"] == [{"seq": 1, "first": "tea-0", "second": "tea-1", "same": True}]


def test_feedback_under_a_key_counts_once(teas: Client) -> None:
    first, again = (teas.feedback(query="tea-0", positive=["tea-2"], idempotency_key="k") for _ in range(2))
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert len(list(teas.log())) == 1


def test_a_search_is_as_asked_for(teas: Client) -> None:
    found = teas.search("tea-0", k=4, label="black", payload=True)["matches"]
    assert len(found) == 4
    assert all(one["payload"]["at"] % 2 == 1 for one in found)
    assert teas.search(ROWS[0].tolist(), k=1)["matches"][0]["key"] == "tea-0"
    assert teas.search("tea-0", use_feedback=False)["matches"]


def test_items_are_compared_by_calibrated_thresholds(teas: Client) -> None:
    near = [one["key"] for one in teas.search("tea-0", k=29)["matches"]]
    teas.calibrate([Pair("tea-0", near[0], True), Pair("tea-0", near[-1], False)], target="accuracy")
    assert teas.compare("tea-0", ROWS[0])["answer"] == "yes"
    assert teas.compare("tea-0", near[-1])["answer"] == "no"


def test_items_are_classified(teas: Client) -> None:
    assert teas.classify("tea-0")["label"] in ("green", "black")
    assert teas.classify(ROWS[1], k=1)["label"] == "black"


def test_a_model_goes_down_and_up(teas: Client, tmp_path: Path) -> None:
    teas.feedback([Triplet("tea-3", "tea-5", "tea-4")])
    teas.search("tea-0")
    path = teas.download(tmp_path / "teas.oahu")
    assert oahu.load(path).n_seen_ == 1
    teas.feedback([Triplet("tea-6", "tea-8", "tea-7")])
    assert teas.upload(path) == 3
    assert teas.search("tea-0")["constraints"] == 1
    assert teas.history()["spaces"]


def test_one_goes_back(teas: Client) -> None:
    teas.feedback([Triplet("tea-3", "tea-5", "tea-4"), Triplet("tea-6", "tea-8", "tea-7")])
    assert teas.restore(1) == 3
    assert teas.search("tea-0")["constraints"] == 1


def test_events_come_as_they_happen(teas: Client) -> None:
    events = teas.events()
    kind, state = next(events)
    assert (kind, state["metric_version"]) == ("metric", 0)
    teas.feedback([Triplet("tea-3", "tea-5", "tea-4")])
    assert next(what for kind, what in events if kind == "feedback") == {"seq": 1, "accepted": 1}
    assert next(what for kind, what in events if kind == "metric")["metric_version"] == 1
    events.close()


def test_a_client_has_as_many_collections_as_wanted(service: tuple[str, str]) -> None:
    with Client(service[0], key=service[1]) as client:
        one, two = client.collection("one").create(2, "OASIS"), client.collection("two").create(3, "OASIS")
        assert (one.describe()["dimension"], two.describe()["dimension"]) == (2, 3)
        one.delete(), two.delete()


def test_a_client_without_a_collection_says_so(service: tuple[str, str]) -> None:
    with Client(service[0], key=service[1]) as client, pytest.raises(InvalidInputError, match="has no collection"):
        client.search("x")


def test_a_wrong_key_is_refused_at_once(service: tuple[str, str]) -> None:
    with Client(service[0], key="oahu_x_y") as client, pytest.raises(ServiceRequestError) as refused:
        client.collections()
    assert refused.value.status == 401
    assert refused.value.problem["type"] == "urn:oahu:problem:unauthorized"


# -- what is not sent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"vectors": ROWS[:2]}, "one vector for each of 3 keys. Got 2"),
        ({"labels": ["a"]}, "one label for each of 3 keys. Got 1"),
        ({"payloads": [{}] * 4}, "one payload for each of 3 keys. Got 4"),
        ({"thumbnails": []}, "one thumbnail for each of 3 keys. Got 0"),
        ({"labels": np.array([1, 2, 3])}, "cannot be sent as JSON"),
        ({"payloads": [{"x": float("nan")}] * 3}, "cannot be sent as JSON"),
    ],
)
def test_items_that_do_not_fit_are_not_sent(teas: Client, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        teas.put(**{"keys": ["a", "b", "c"], "vectors": ROWS[:3]} | given)
    assert teas.describe()["items"] == 30


def test_feedback_is_pieces_or_a_click(teas: Client) -> None:
    for given in ({}, {"pieces": [], "query": "tea-0"}):
        with pytest.raises(InvalidInputError, match="takes pieces, or query="):
            teas.feedback(**given)


# -- trying again --------------------------------------------------------------------------------------------


class Failing:
    """A service that fails first, and answers then."""

    def __init__(self, *failures: httpx.Response | Exception, then: httpx.Response | None = None) -> None:
        self.failures, self.then = list(failures), then or httpx.Response(200, json={"seq": 1})
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if not self.failures:
            return self.then
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        return failure

    def client(self, **more: Any) -> Client:
        return Client("http://it", "c", transport=httpx.MockTransport(self), **more)


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[float]:
    """How long was waited, without waiting."""
    waits: list[float] = []
    monkeypatch.setattr("oahu.client.time", type("Clock", (), {"sleep": staticmethod(waits.append)}))
    return waits


def busy(status: int = 503, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=sent, json={"detail": "busy", "status": status})


CALLS: dict[str, Callable[[Client], Any]] = {
    "feedback": lambda client: client.feedback(query="a", positive=["b"]),
    "put": lambda client: client.put(["a"], [[1.0]]),
    "remove": lambda client: client.remove(["a"]),
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
TWICE = {"feedback", "put", "search", "compare", "classify", "calibrate", "describe"}


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_busy_service_is_asked_again_when_it_said_so(
    call: Callable[[Client], Any], status: int, slept: list[float]
) -> None:
    service = Failing(busy(status, Retry_After="3"), busy(status, Retry_After="7"))
    call(service.client())
    assert (len(service.seen), slept) == (3, [3.0, 7.0])


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_service_that_was_not_reached_is_asked_again(call: Callable[[Client], Any], slept: list[float]) -> None:
    service = Failing(httpx.ConnectError("refused"), httpx.ConnectTimeout("late"))
    call(service.client())
    assert len(service.seen) == 3
    assert 0 < slept[0] < slept[1] * 4


@pytest.mark.parametrize(
    "error", [httpx.ReadError("cut"), httpx.RemoteProtocolError("cut"), httpx.ReadTimeout("late")]
)
@pytest.mark.parametrize("name", CALLS)
def test_what_may_have_happened_is_only_asked_again_if_it_may_happen_twice(name: str, error: Exception) -> None:
    service = Failing(error)
    if name in TWICE:
        CALLS[name](service.client())
        assert len(service.seen) == 2
    else:
        with pytest.raises(ServiceRequestError, match="cannot be reached"):
            CALLS[name](service.client())
        assert len(service.seen) == 1


def test_an_uploaded_model_is_not_sent_twice(tmp_path: Path) -> None:
    """In between, others may have taught the one that took over."""
    (tmp_path / "m").write_bytes(b"x")
    service = Failing(httpx.ReadError("cut"))
    with pytest.raises(ServiceRequestError):
        service.client().upload(tmp_path / "m")
    assert len(service.seen) == 1


def test_feedback_that_is_sent_again_is_the_same_request() -> None:
    service = Failing(busy(), httpx.ReadError("cut"), busy())
    service.client().feedback(query="a", positive=["b"])
    keys = {request.headers["Idempotency-Key"] for request in service.seen}
    bodies = {request.content for request in service.seen}
    assert (len(service.seen), len(keys), len(bodies)) == (4, 1, 1)


def test_feedback_that_is_new_has_a_key_of_its_own() -> None:
    service = Failing()
    client = service.client()
    for _ in range(2):
        client.feedback(query="a", positive=["b"])
    assert len({request.headers["Idempotency-Key"] for request in service.seen}) == 2


def test_after_so_many_times_it_gives_up_and_says_why(slept: list[float]) -> None:
    service = Failing(*[busy() for _ in range(10)])
    with pytest.raises(ServiceRequestError, match="busy") as refused:
        service.client(retries=3).describe()
    assert (refused.value.status, len(service.seen), len(slept)) == (503, 4, 3)


def test_it_need_not_try_again(slept: list[float]) -> None:
    service = Failing(httpx.ConnectError("refused"))
    with pytest.raises(ServiceRequestError) as refused:
        service.client(retries=0).describe()
    assert (refused.value.status, refused.value.problem, slept) == (0, {}, [])


@pytest.mark.parametrize(
    ("told", "waited"),
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
def test_an_odd_time_to_wait_is_made_a_sensible_one(told: str, waited: float, slept: list[float]) -> None:
    Failing(busy(Retry_After=told)).client().describe()
    assert slept == [waited]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500, 507])
def test_what_will_not_become_better_is_not_asked_again(status: int) -> None:
    service = Failing(busy(status))
    with pytest.raises(ServiceRequestError, match="busy") as refused:
        service.client().describe()
    assert (len(service.seen), refused.value.status, refused.value.problem["detail"]) == (1, status, "busy")


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'"text"', b"null", b"\xff"])
def test_an_answer_of_something_else_is_told_by_its_status(content: bytes) -> None:
    with pytest.raises(ServiceRequestError, match="answered 502") as refused:
        Failing(httpx.Response(502, content=content)).client().describe()
    assert refused.value.problem == {}


def test_refused_events_are_told() -> None:
    with pytest.raises(ServiceRequestError, match="busy"):
        next(Failing(busy(404)).client().events())


def test_events_that_break_off_are_told() -> None:
    def broken() -> Iterator[bytes]:
        yield b'event: metric\ndata: {"a": 1}\n\n: heartbeat\n\n'
        raise httpx.ReadError("cut")

    events = Failing(then=httpx.Response(200, content=broken())).client().events()
    assert next(events) == ("metric", {"a": 1})
    with pytest.raises(ServiceRequestError, match="cannot be reached"):
        next(events)


def test_the_key_goes_with_every_request() -> None:
    service = Failing()
    service.client(key="oahu_a_b").describe()
    assert service.seen[0].headers["Authorization"] == "Bearer oahu_a_b"


@pytest.mark.parametrize("url", ["http://it", "http://it/", "http://it:80//"])
def test_the_address_may_end_as_it_likes(url: str) -> None:
    service = Failing()
    Client(url, "a b", transport=httpx.MockTransport(service)).describe()
    assert service.seen[0].url.raw_path == b"/v1/collections/a%20b"


def test_without_httpx_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['httpx'] = None\nimport oahu\noahu.Client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("ImportError: oahu.Client needs httpx: pip install 'oahu[client]'")
