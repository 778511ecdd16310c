"""What stands before every request: hosts and origins, headers, ids, rates, slow and large bodies, errors."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from oahu.service.api.hosts import host_name, is_loopback
from oahu.service.api.middleware import middleware_stack
from oahu.service.api.middleware.body_limit import BodyLimitMiddleware, BodyReader, BodyTooLargeError
from oahu.service.api.middleware.rate_limit import RateLimitedError, TokenBuckets
from oahu.service.errors import OverloadedError
from oahu.service.keys import KeyFile
from oahu.service.settings import Settings

C = "/v1/collections"


def ask(service: Any, method: str = "GET", path: str = C, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer: httpx.Response = service.http.request(method, path, headers=sent)
    return answer


# -- hosts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "127.1.2.3", "[::1]:80", "[::1]"]
)
def test_an_open_service_is_known_as_this_machine(live: Any, host: str) -> None:
    assert ask(live, Host=host).status_code == 200


FOREIGN = [
    *("evil.example", "evil.example:8000", "127.evil.example", "127.0.0.1.evil.example", "localhost.evil.example"),
    *(
        "evil.localhost.example",
        "0.0.0.0",
        "192.168.0.1",
        "[::]",
        "[::2]:80",
        "",
        ":8000",
        "127.0.0.1@evil.example",
    ),
]


@pytest.mark.parametrize("host", FOREIGN)
def test_an_open_service_answers_to_no_other_name(live: Any, host: str) -> None:
    """A page may let its name point to this machine, and would then be of the same origin."""
    answer = ask(live, Host=host)
    assert (answer.status_code, answer.json()["type"]) == (421, "urn:oahu:problem:wrong-host")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/healthz", C, "/metrics", "/nothing"])
def test_no_request_at_all_gets_past_a_wrong_host(live: Any, method: str, path: str) -> None:
    assert ask(live, method, path, Host="evil.example").status_code == 421


@pytest.mark.parametrize("setting", [{"trusted_hosts": ("a.example",)}, {"https": True}, {"host": "0.0.0.0"}])
def test_a_service_that_others_reach_is_never_open(start: Any, setting: dict[str, Any]) -> None:
    """Whether directly, or through a proxy on this machine."""
    assert ask(start(**setting)).status_code == 401


def test_with_keys_any_name_is_answered_unless_names_are_given(start: Any, tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "data").add("one", "read")
    bearer = f"Bearer {key}"
    assert ask(start(), Host="any.example", Authorization=bearer).status_code == 200


def test_with_keys_and_names_only_those_are_answered(start: Any, tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "data").add("one", "read")
    service, bearer = start(trusted_hosts=("Mine.example",)), f"Bearer {key}"
    assert ask(service, Host="mine.example:443", Authorization=bearer).status_code == 200
    assert ask(service, Host="any.example", Authorization=bearer).status_code == 421


@given(st.from_regex(r"\A[a-z0-9.:\[\]-]{0,40}\Z"))
@settings(max_examples=300)
def test_only_addresses_of_this_machine_are_loopback(host: str) -> None:
    """As the system sees it: what it would connect to without asking anyone is in 127.0.0.0/8, or is ::1."""
    told = is_loopback(host)
    if told and host != "localhost":
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        packed = socket.inet_pton(family, host)
        assert packed[0] == 127 if family == socket.AF_INET else packed == bytes(15) + b"\x01"


@given(st.sampled_from(["localhost", "127.0.0.1", "::1", "a.example"]), st.none() | st.integers(1, 65_535))
def test_a_name_is_told_from_its_port(name: str, port: int | None) -> None:
    host = f"[{name}]" if ":" in name else name
    assert host_name(host if port is None else f"{host}:{port}") == name


# -- origins -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost", "", "file://"]
)
def test_a_page_of_another_origin_changes_nothing(live: Any, method: str, origin: str) -> None:
    answer = ask(live, method, Origin=origin)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:oahu:problem:wrong-origin")


def test_a_page_of_the_service_itself_may(live: Any) -> None:
    path = live.new()
    answer = live.http.post(f"{path}/search", json={"key": "i0"}, headers={"Origin": live.url})
    assert answer.status_code == 200


def test_no_other_site_may_read_what_is_answered(live: Any) -> None:
    answer = ask(live, Origin="http://evil.example")
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_another_origin_is_refused_also_with_a_key(start: Any, tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "data").add("one", "admin")
    answer = ask(start(), "DELETE", f"{C}/x", Origin="http://evil.example", Authorization=f"Bearer {key}")
    assert answer.status_code == 403


def websocket(service: Any, **headers: str) -> int:
    """The status with which asking for a websocket is answered."""
    wanted = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    wanted |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers}
    code: int = service.http.get("/anything", headers=wanted).status_code
    return code


@pytest.fixture
def talking(live: Any) -> Iterator[Any]:
    """The service with a websocket at its door, to see who is let through to it."""
    reached: list[str] = []

    async def accept(scope: Any, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        reached.append(scope["path"])
        await send({"type": "websocket.close", "code": 1000})

    innermost = live.app.middleware_stack
    while not isinstance(innermost, BodyLimitMiddleware):
        innermost = innermost.app
    before, innermost.app = innermost.app, accept
    live.reached = reached
    yield live
    innermost.app = before


def test_a_websocket_of_this_origin_is_let_through(talking: Any) -> None:
    websocket(talking, Origin=talking.url)
    assert talking.reached == ["/anything"]


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}]
)
def test_a_websocket_of_another_origin_is_refused(talking: Any, headers: dict[str, str]) -> None:
    assert websocket(talking, **headers) == 403
    assert talking.reached == []


# -- what every answer has -----------------------------------------------------------------------------------

SECURE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.fixture
def failing(live: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A service in which reading a list of collections fails, as nothing ever should."""

    def fail(*_: Any) -> None:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr("oahu.service.api.routes.collection_routes.get_service", fail)
    return live


ANSWERS: dict[str, Callable[[Any], httpx.Response]] = {
    "good": lambda live: ask(live),
    "not found": lambda live: ask(live, path="/nothing"),
    "wrong method": lambda live: ask(live, "PATCH"),
    "not valid": lambda live: ask(live, "POST"),
    "wrong host": lambda live: ask(live, Host="evil.example"),
    "wrong origin": lambda live: ask(live, "POST", Origin="null"),
    "too large": lambda live: live.http.post(C, content=bytes(33 * 2**20)),
    "metrics": lambda live: ask(live, path="/metrics"),
    "schema": lambda live: ask(live, path="/v1/openapi.json"),
}


@pytest.mark.parametrize("asked", ANSWERS.values(), ids=ANSWERS)
def test_every_answer_has_the_headers_that_make_it_safe(live: Any, asked: Callable[[Any], httpx.Response]) -> None:
    answer = asked(live)
    assert {name: answer.headers.get(name) for name in SECURE} == SECURE
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]+", answer.headers["x-request-id"])


def test_no_answer_of_an_operation_is_stored_by_browsers_or_proxies(live: Any) -> None:
    for answer in (ask(live), ask(live, path=f"{C}/nothing"), ask(live, "POST")):
        assert answer.headers["cache-control"] == "no-store"


def test_an_error_nobody_expected_tells_nothing_but_its_id(failing: Any, caplog: pytest.LogCaptureFixture) -> None:
    answer = ask(failing, X_Request_ID="mine")
    assert answer.status_code == 500
    assert answer.json() == {
        "type": "urn:oahu:problem:internal",
        "title": "Internal error",
        "status": 500,
        "detail": "Internal error. The service log describes request mine.",
        "request_id": "mine",
    }
    assert {name: answer.headers.get(name) for name in SECURE} == SECURE
    (record,) = [one for one in caplog.records if one.exc_info]
    assert "secret of the house" in str(record.exc_info)
    assert record.request_id == "mine"


def test_a_request_is_known_by_the_id_it_brings(live: Any) -> None:
    answer = ask(live, path="/nothing", X_Request_ID="trace-1.a:b_C")
    assert (answer.headers["x-request-id"], answer.json()["request_id"]) == ("trace-1.a:b_C", "trace-1.a:b_C")


@pytest.mark.parametrize(
    "given_id", ["", "a b", "<script>", "a" * 65, "a\tb", "ä", "٣", "a;b", '"', "a\\nb", "${x}"]
)
def test_an_id_that_could_be_more_than_one_is_replaced(live: Any, given_id: str) -> None:
    answer = live.http.get("/nothing", headers={"X-Request-ID": given_id.encode()})
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]+", answer.headers["x-request-id"])
    assert answer.headers.get_list("x-request-id") == [answer.headers["x-request-id"]]


# -- rates ---------------------------------------------------------------------------------------------------


def test_who_asks_too_often_is_told_when_to_come_again(start: Any) -> None:
    service = start(rate=0.001, burst=3)
    assert [ask(service).status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = ask(service)
    assert refused.json()["type"] == "urn:oahu:problem:rate-limited"
    assert 1 <= int(refused.headers["retry-after"]) <= 1000


def test_every_key_has_a_rate_of_its_own(start: Any, tmp_path: Path) -> None:
    one, two = (KeyFile(tmp_path / "data").add(name, "read") for name in ("one", "two"))
    service = start(rate=0.001, burst=1)
    codes = [ask(service, Authorization=f"Bearer {key}").status_code for key in (one, one, two)]
    assert codes == [200, 429, 200]


def test_made_up_keys_do_not_make_callers(start: Any, tmp_path: Path) -> None:
    KeyFile(tmp_path / "data").add("one", "read")
    service = start(rate=0.001, burst=2)
    codes = [ask(service, Authorization=f"Bearer oahu_{at}_x").status_code for at in range(3)]
    assert codes == [401, 401, 429]


@given(st.lists(st.floats(0, 5), min_size=1, max_size=60), st.floats(0.1, 10), st.integers(1, 10))
def test_no_more_come_than_a_burst_and_the_rate_allow(gaps: list[float], rate: float, burst: int) -> None:
    """Over any stretch of time: at most burst + rate * time. Who waits as long as told is let in."""
    rates, now, taken = TokenBuckets(rate, burst), 100.0, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oahu.service.api.middleware.rate_limit.time.monotonic", lambda: now)
        for gap in gaps:
            now += gap
            if wait := waiting(rates):
                now += wait + 1e-9
                assert waiting(rates) == 0
            taken.append(now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + rate * (taken[last] - taken[first]) + 1e-6


def waiting(rates: TokenBuckets) -> float:
    """How long one has to wait; if not at all, a token is taken."""
    try:
        rates.take("me")
    except RateLimitedError as error:
        return error.retry_after or 0.0
    return 0.0


def test_rates_are_kept_of_as_many_callers_as_may_be() -> None:
    rates = TokenBuckets(1.0, 1)
    for caller in range(20_000):
        rates.take(str(caller))
    assert len(rates._buckets) == 10_000


# -- bodies --------------------------------------------------------------------------------------------------


def received(*parts: bytes, gone: bool = False) -> Callable[[], Any]:
    """What a server hands over, part by part."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if gone:
        messages.append({"type": "http.disconnect"})
    else:
        messages[-1]["more_body"] = False
    waiting = iter(messages)

    async def receive() -> Any:
        return next(waiting)

    return receive


def read(bodies: BodyReader, receive: Callable[[], Any]) -> bytes:
    async def work() -> bytes:
        async with bodies.read(receive) as body:
            return body

    return asyncio.run(work())


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=10))
def test_a_body_is_read_whole_or_not_at_all(parts: list[bytes]) -> None:
    bodies, whole = BodyReader(60, 1000), b"".join(parts)
    if len(whole) <= 60:
        assert read(bodies, received(*parts)) == whole
    else:
        with pytest.raises(BodyTooLargeError):
            read(bodies, received(*parts))
    assert bodies._buffered == 0


def test_all_bodies_together_have_a_limit() -> None:
    bodies = BodyReader(100, 150)

    async def work() -> None:
        async with bodies.read(received(bytes(100))):
            with pytest.raises(OverloadedError):
                async with bodies.read(received(bytes(60))):
                    pass
            async with bodies.read(received(bytes(50))) as third:
                assert len(third) == 50

    asyncio.run(work())
    assert bodies._buffered == 0


def test_whoever_leaves_in_the_middle_leaves_nothing() -> None:
    bodies = BodyReader(100, 100)
    with pytest.raises(ClientDisconnect):
        read(bodies, received(bytes(50), gone=True))
    assert bodies._buffered == 0


def sent(service: Any, data: bytes) -> bytes:
    """What bytes on a connection are answered by, until it is closed."""
    host, port = service.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        connection.sendall(data)
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def test_a_body_that_does_not_come_is_not_waited_for(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.service.api.middleware.body_limit._BODY_TIMEOUT", 0.05)
    head = b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{"
    answer = sent(live, head)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"urn:oahu:problem:timeout" in answer


def test_whoever_leaves_in_the_middle_of_a_body_does_no_harm(live: Any, wait: Any) -> None:
    host, port = live.url.removeprefix("http://").split(":")
    head = b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    with closing(socket.create_connection((host, int(port)))) as connection:
        connection.sendall(head)
    wait(lambda: 'status="499"' in ask(live, path="/metrics").text, "noticing")
    assert ask(live).status_code == 200


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    ],
    ids=["nonsense", "version", "negative length", "no length", "broken chunk"],
)
def test_what_is_no_http_is_refused(live: Any, data: bytes) -> None:
    assert sent(live, data).startswith(b"HTTP/1.1 4")
    assert ask(live).status_code == 200


# -- concurrency ---------------------------------------------------------------------------------------------


def test_searches_beyond_the_limit_are_told_to_come_again(
    start: Any, monkeypatch: pytest.MonkeyPatch, wait: Any
) -> None:
    service = start(max_searches=2)
    path = service.new()
    go_on = threading.Event()
    collection = service.service.collection(path.rpartition("/")[2])
    monkeypatch.setattr(collection, "classify", lambda *_: go_on.wait(60))
    slow = [
        threading.Thread(target=service.http.post, args=(f"{path}/classify",), kwargs={"json": {"key": "i0"}})
        for _ in range(2)
    ]
    for thread in slow:
        thread.start()
    try:
        wait(lambda: service.app.state.running_searches == 2)
        refused = service.http.post(f"{path}/search", json={"key": "i0"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert service.http.get(path).status_code == 200  # looking goes on
    finally:
        go_on.set()
        for thread in slow:
            thread.join()
    service.ask("POST", f"{path}/search", json={"key": "i0"})


def test_all_middleware_passes_lifespan_events_on(tmp_path: Path) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    for layer in reversed(middleware_stack(Settings(data=tmp_path), None, None)):  # type: ignore[arg-type]
        app = layer.cls(app, *layer.args, **layer.kwargs)
    asyncio.run(app({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]
