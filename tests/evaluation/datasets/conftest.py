"""An HTTP server that can misbehave."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Server(ThreadingHTTPServer):
    """Serves the same content at every address.

    Attributes
    ----------
    content : bytes
    ranges : bool
        Whether it supports the Range header.
    drops : list of int
        For each of the next requests, the bytes after which the connection ends.
    status : int
        If it is not 200, the response to every request.
    extra : int
        Error of Content-Length in bytes.
    shift : int
        Error of the returned range in bytes.
    hangs : bool
        Whether it stops sending without closing the connection.
    requests : list of (path, Range header)
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.ranges, self.status = b"", True, 200
        self.extra, self.shift, self.hangs = 0, 0, False
        self.drops: list[int] = []
        self.requests: list[tuple[str, str | None]] = []
        self.released = threading.Event()

    def handle_error(self, *_: object) -> None:
        """Ignore clients that disconnect, which the tests do."""

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append((self.path, wanted))
        if server.status != 200:
            self.send_error(server.status)
            return
        begin = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and server.ranges else 0  # type: ignore[index]
        if begin and begin >= len(server.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.content)}")
            self.end_headers()
            return
        rest = server.content[begin:]
        self.send_response(206 if begin else 200)
        if begin:
            first = begin + server.shift
            self.send_header("Content-Range", f"bytes {first}-{len(server.content) - 1}/{len(server.content)}")
        self.send_header("Content-Length", str(len(rest) + server.extra))
        self.end_headers()
        self.wfile.write(rest[: server.drops.pop(0)] if server.drops else rest)
        if server.hangs:
            self.wfile.flush()
            server.released.wait()

    def log_message(self, *_: object) -> None:
        """Do not log."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            made.released.set()
            made.shutdown()
            thread.join()
