"""Pages of other origins cannot change anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oahu.service.api.middleware.body_limit import BodyLimitMiddleware
from oahu.service.keys import KeyFile

C = "/v1/collections"


ORIGINS = ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost", "", "file://"]


@pytest.mark.parametrize(
    ("method", "origin"),
    [*(("POST", origin) for origin in ORIGINS), *((method, ORIGINS[0]) for method in ("PUT", "DELETE", "PATCH"))],
)
def test_changes_from_another_origin_are_rejected(server: Any, method: str, origin: str) -> None:
    response = server.send(method, Origin=origin)
    assert (response.status_code, response.json()["type"]) == (403, "urn:oahu:problem:wrong-origin")


def test_changes_from_the_same_origin_are_accepted(server: Any) -> None:
    path = server.new_collection()
    response = server.http.post(f"{path}/search", json={"key": "i0"}, headers={"Origin": server.url})
    assert response.status_code == 200


def test_no_cors_headers_are_sent(server: Any) -> None:
    response = server.send(Origin="http://evil.example")
    assert not [name for name in response.headers if name.startswith("access-control-")]


def test_another_origin_is_rejected_despite_a_key(start_server: Any, tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "data").add("one", "admin")
    response = start_server().send("DELETE", f"{C}/x", Origin="http://evil.example", Authorization=f"Bearer {key}")
    assert response.status_code == 403


def websocket(server: Any, **headers: str) -> int:
    """Return the status of the response to a WebSocket handshake."""
    wanted = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    wanted |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers}
    code: int = server.http.get("/anything", headers=wanted).status_code
    return code


@pytest.fixture
def websocket_server(server: Any) -> Iterator[Any]:
    """A server with a WebSocket behind all middleware, which records the requests that reach it."""
    reached: list[str] = []

    async def accept(scope: Any, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        reached.append(scope["path"])
        await send({"type": "websocket.close", "code": 1000})

    innermost = server.app.middleware_stack
    while not isinstance(innermost, BodyLimitMiddleware):
        innermost = innermost.app
    before, innermost.app = innermost.app, accept
    server.reached = reached
    yield server
    innermost.app = before


def test_a_websocket_from_the_same_origin_is_accepted(websocket_server: Any) -> None:
    websocket(websocket_server, Origin=websocket_server.url)
    assert websocket_server.reached == ["/anything"]


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}]
)
def test_a_websocket_from_another_origin_is_rejected(websocket_server: Any, headers: dict[str, str]) -> None:
    assert websocket(websocket_server, **headers) == 403
    assert websocket_server.reached == []
