"""All middleware together."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from oahu.service.api.middleware import middleware_stack
from oahu.service.settings import Settings

C = "/v1/collections"


def test_concurrent_searches_are_limited(
    start_server: Any, monkeypatch: pytest.MonkeyPatch, wait_until: Any
) -> None:
    server = start_server(max_searches=2)
    path = server.new_collection()
    go_on = threading.Event()
    collection = server.service.collection(path.rpartition("/")[2])
    monkeypatch.setattr(collection, "classify", lambda *_: go_on.wait())
    slow = [
        threading.Thread(target=server.http.post, args=(f"{path}/classify",), kwargs={"json": {"key": "i0"}})
        for _ in range(2)
    ]
    for thread in slow:
        thread.start()
    try:
        wait_until(lambda: server.app.state.running_searches == 2)
        rejected = server.http.post(f"{path}/search", json={"key": "i0"})
        assert (rejected.status_code, rejected.headers["retry-after"]) == (503, "1")
        assert server.http.get(path).status_code == 200  # reading still works
    finally:
        go_on.set()
        for thread in slow:
            thread.join()
    server.request("POST", f"{path}/search", json={"key": "i0"})


def test_all_middleware_passes_lifespan_events_on(tmp_path: Path) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    for layer in reversed(middleware_stack(Settings(data=tmp_path), None, None)):  # type: ignore[arg-type]
        app = layer.cls(app, *layer.args, **layer.kwargs)
    asyncio.run(app({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]
