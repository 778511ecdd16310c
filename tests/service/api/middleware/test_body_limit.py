"""Request bodies are limited in size, time and total memory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from oahu.service.api.middleware.body_limit import BodyReader, BodyTooLargeError
from oahu.service.errors import OverloadedError

C = "/v1/collections"


def chunked(*parts: bytes, disconnect: bool = False) -> Callable[[], Any]:
    """Return an ASGI ``receive`` that gives a body in chunks."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if disconnect:
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
def test_a_body_is_read_completely_or_rejected(parts: list[bytes]) -> None:
    bodies, whole = BodyReader(60, 1000), b"".join(parts)
    if len(whole) <= 60:
        assert read(bodies, chunked(*parts)) == whole
    else:
        with pytest.raises(BodyTooLargeError):
            read(bodies, chunked(*parts))
    assert bodies._buffered == 0


def test_the_total_of_all_bodies_is_limited() -> None:
    bodies = BodyReader(100, 150)

    async def work() -> None:
        async with bodies.read(chunked(bytes(100))):
            with pytest.raises(OverloadedError):
                async with bodies.read(chunked(bytes(60))):
                    pass
            async with bodies.read(chunked(bytes(50))) as third:
                assert len(third) == 50

    asyncio.run(work())
    assert bodies._buffered == 0


def test_a_disconnect_releases_the_buffer() -> None:
    bodies = BodyReader(100, 100)
    with pytest.raises(ClientDisconnect):
        read(bodies, chunked(bytes(50), disconnect=True))
    assert bodies._buffered == 0


def exchange(server: Any, data: bytes) -> bytes:
    """Send bytes and return what the server sends until it closes the connection."""
    host, port = server.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=600)) as connection:
        connection.sendall(data)
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def test_a_body_that_does_not_arrive_times_out(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.service.api.middleware.body_limit._BODY_TIMEOUT", 0.05)
    head = b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{"
    response = exchange(server, head)
    assert response.startswith(b"HTTP/1.1 408 ")
    assert b"urn:oahu:problem:timeout" in response


def test_a_disconnect_during_a_body_is_logged_as_499(server: Any, wait_until: Any) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    head = b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    with closing(socket.create_connection((host, int(port)))) as connection:
        connection.sendall(head)
    wait_until(lambda: 'status="499"' in server.send(path="/metrics").text, "status 499")
    assert server.send().status_code == 200


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
def test_invalid_http_is_rejected(server: Any, data: bytes) -> None:
    assert exchange(server, data).startswith(b"HTTP/1.1 4")
    assert server.send().status_code == 200
