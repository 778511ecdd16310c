"""API keys that are limited to collections, to a number of items and to requests per minute."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from oahu import InvalidInputError
from oahu.cli import app
from oahu.service.api.access import Sessions
from oahu.service.api.app import create_app
from oahu.service.keys import KeyFile
from oahu.service.settings import Settings

C = "/v1/collections"
VECTOR = {"vector": [1, 2, 3, 4]}


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory, run_app: Any) -> Iterator[Any]:
    """A server with the collections teas and wines. The keys of the tenant allow teas and tea-images."""
    data = tmp_path_factory.mktemp("tenants")
    file, names = KeyFile(data), ["teas", "tea-images"]
    keys = {
        "all": file.add("ops", "admin"),
        "read": file.add("teas", "read", collections=names),
        "feedback": file.add("teas", "feedback", collections=names),
        "admin": file.add("teas", "admin", collections=names),
        "small": file.add("teas", "admin", collections=names, max_items=6),
    }
    with run_app(create_app(Settings(data=data, page=False, fresh_wait=600.0))) as server:

        def send(key: str, method: str, path: str, status: int, **options: Any) -> Any:
            headers = {"Authorization": f"Bearer {keys[key]}"}
            return server.request(method, f"{C}{path}", status, headers=headers, **options)

        for name in ("teas", "wines"):
            send("all", "POST", "", 201, json={"name": name, "dimension": 4})
            items = [{"key": f"i{at}", **VECTOR} for at in range(4)]
            send("all", "PUT", f"/{name}/items", 200, json={"items": items})
        send.server, send.keys = server, keys  # type: ignore[attr-defined]
        yield send


@pytest.mark.parametrize(
    ("key", "method", "path", "body"),
    [
        ("read", "GET", "", None),
        ("read", "GET", "/items", None),
        ("read", "GET", "/items/i0", None),
        ("read", "GET", "/feedback", None),
        ("read", "GET", "/history", None),
        ("read", "GET", "/model", None),
        ("read", "GET", "/events?limit=1", None),
        ("read", "POST", "/search", VECTOR),
        ("feedback", "POST", "/feedback", {"feedback": [{"first": "i0", "second": "i1", "same": True}]}),
        ("admin", "PUT", "/items", {"items": [{"key": "i0", **VECTOR}]}),
        ("admin", "POST", "/items/delete", {"keys": ["i3"]}),
        ("read", "POST", "/search/batch", {"searches": [VECTOR]}),
        ("read", "POST", "/items/find", {"text": "i0"}),
        ("read", "POST", "/encode", {"texts": ["tea"]}),
        ("read", "GET", "/sources", None),
        ("feedback", "PUT", "/sources/ann", {"weight": 0.5}),
        ("feedback", "DELETE", "/sources/ann", None),
        ("admin", "PATCH", "", {"closure": 1}),
        ("admin", "PATCH", "/items", {"items": [{"key": "i0", "label": "new"}]}),
        ("admin", "POST", "/encoder/refit", None),
        ("admin", "DELETE", "", None),
    ],
)
def test_a_limited_key_cannot_use_other_collections(
    tenants: Any, key: str, method: str, path: str, body: Any
) -> None:
    options = {} if body is None else {"json": body}
    for name in ("wines", "unknown"):  # the same answer, so that it does not show which collections exist
        problem = tenants(key, method, f"/{name}{path}", 403, **options)
        assert problem["detail"].startswith("This API key is limited to the collections 'teas', 'tea-images'.")
        assert problem["type"] == "urn:oahu:problem:forbidden"
    if (key, method) == ("read", "GET") and not path.endswith(("limit=1", "model")):
        tenants(key, method, f"/teas{path}", 200)


def test_a_limited_key_works_in_its_collections(tenants: Any) -> None:
    assert len(tenants("read", "POST", "/teas/search", 200, json={**VECTOR, "k": 2})["matches"]) == 2
    tenants("read", "PUT", "/teas/items", 403, json={"items": [{"key": "x", **VECTOR}]})  # the role still counts
    body = {"feedback": [{"first": "i0", "second": "i1", "same": True}]}
    assert tenants("feedback", "POST", "/teas/feedback", 200, json=body)["accepted"] == 1
    tenants("admin", "POST", "", 201, json={"name": "tea-images", "dimension": 4})
    tenants("admin", "POST", "", 403, json={"name": "coffees", "dimension": 4})
    tenants("admin", "DELETE", "/tea-images", 204)


def test_a_limited_key_lists_only_its_collections(tenants: Any) -> None:
    listed = {
        key: [one["name"] for one in tenants(key, "GET", "", 200)["collections"]]
        for key in ("read", "admin", "all")
    }
    assert listed == {"read": ["teas"], "admin": ["teas"], "all": ["teas", "wines"]}


def test_a_limited_key_cannot_read_the_metrics_of_all_collections(tenants: Any) -> None:
    for key, status in (("read", 403), ("admin", 403), ("all", 200)):
        headers = {"Authorization": f"Bearer {tenants.keys[key]}"}
        assert tenants.server.http.get("/metrics", headers=headers).status_code == status


def test_a_limited_key_cannot_log_in_to_the_page(tenants: Any) -> None:
    sessions: Sessions = tenants.server.app.state.sessions
    assert sessions.start(tenants.keys["admin"]) is None
    assert sessions.start(tenants.keys["all"]) is not None


def test_the_number_of_items_is_limited(tenants: Any) -> None:
    def put(key: str, status: int, *keys: str) -> Any:
        return tenants(key, "PUT", "/teas/items", status, json={"items": [{"key": one, **VECTOR} for one in keys]})

    n = tenants("all", "GET", "/teas", 200)["items"]
    put("small", 200, *(f"new-{at}" for at in range(6 - n)))
    problem = put("small", 403, "i0", "more")
    assert problem["type"] == "urn:oahu:problem:quota"
    assert problem["detail"] == (
        "This API key is limited to 6 items in a collection. 'teas' contains 6 items, and the request adds 1 items."
    )
    assert tenants("all", "GET", "/teas", 200)["items"] == 6
    put("small", 200, "i0", "i1")  # replacing items needs no room
    put("all", 200, "more")
    put("small", 200, "i0")
    put("small", 403, "another")
    tenants("small", "POST", "/teas/items/delete", 200, json={"keys": ["more", "new-0"]})
    put("small", 200, "another")


def test_requests_per_minute_are_limited(
    start_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("oahu.service.api.middleware.rate_limit.time", Clock(now))
    file = KeyFile(tmp_path / "data")
    limited, other = file.add("a", "read", requests_per_minute=3), file.add("b", "read", requests_per_minute=3)
    server = start_server()

    def codes(key: str, n: int) -> list[int]:
        return [server.send(Authorization=f"Bearer {key}").status_code for _ in range(n)]

    assert codes(limited, 4) == [200, 200, 200, 429]
    problem = server.send(Authorization=f"Bearer {limited}")
    assert "The limit is 3 requests per minute, the limit of this API key." in problem.json()["detail"]
    assert problem.headers["retry-after"] == "20"
    assert codes(other, 1) == [200]
    now[0] += 20
    assert codes(limited, 2) == [200, 429]


def test_a_batch_counts_as_many_requests_and_a_patch_as_one(
    start_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("oahu.service.api.middleware.rate_limit.time", Clock(now))
    file = KeyFile(tmp_path / "data")
    keys = {"limited": file.add("a", "admin", requests_per_minute=6), "free": file.add("b", "admin")}
    server = start_server()

    def send(key: str, method: str, path: str, status: int, body: Any) -> Any:
        return server.request(method, path, status, json=body, headers={"Authorization": f"Bearer {keys[key]}"})

    send("free", "POST", C, 201, {"name": "teas", "dimension": 4})
    send("free", "PUT", f"{C}/teas/items", 200, {"items": [{"key": "i0", **VECTOR}]})
    patch = {"items": [{"key": "i0", "label": "new"}]}
    send("limited", "PATCH", f"{C}/teas/items", 200, patch)
    invalid = {"searches": [VECTOR, {**VECTOR, "k": 10**6}]}
    send("limited", "POST", f"{C}/teas/search/batch", 422, invalid)  # counts as one
    send("limited", "POST", f"{C}/teas/search/batch", 200, {"searches": [VECTOR] * 3})  # one request is left
    send("limited", "POST", f"{C}/teas/search/batch", 200, {"searches": [VECTOR] * 4})
    problem = send("limited", "PATCH", f"{C}/teas/items", 429, patch)
    assert "The limit is 6 requests per minute" in problem["detail"]
    now[0] += 39  # three requests too many, and one to send: 4 * 10 seconds
    send("limited", "PATCH", f"{C}/teas/items", 429, patch)
    now[0] += 1
    send("limited", "PATCH", f"{C}/teas/items", 200, patch)
    for _ in range(3):
        send("free", "POST", f"{C}/teas/search/batch", 200, {"searches": [VECTOR] * 10})


class Clock:
    """A clock that the test sets."""

    def __init__(self, now: list[float]) -> None:
        self._now = now

    def monotonic(self) -> float:
        return self._now[0]


# -- the file and the command ----------------------------------------------------------------------------------


def test_limits_are_stored(tmp_path: Path) -> None:
    token = KeyFile(tmp_path).add("a", "read", collections=["x"], max_items=5, requests_per_minute=7)
    key = KeyFile(tmp_path).authenticate(token)
    assert key is not None
    assert (key.collections, key.max_items, key.requests_per_minute) == (("x",), 5, 7)


def test_keys_of_older_versions_have_no_limits(tmp_path: Path) -> None:
    token = KeyFile(tmp_path).add("a", "read")
    (stored,) = json.loads((tmp_path / "keys.json").read_text())
    assert stored.keys() == {"id", "name", "role", "sha256", "created"}  # what version 0.1.0 writes and reads
    key = KeyFile(tmp_path).authenticate(token)
    assert key is not None
    assert (key.collections, key.max_items, key.requests_per_minute) == (None, None, None)


@pytest.mark.parametrize(
    "damage", [{"collections": "teas"}, {"collections": [1]}, {"max_items": "5"}, {"requests_per_minute": 0}]
)
def test_a_damaged_limit_does_not_become_an_unlimited_key(tmp_path: Path, damage: dict[str, Any]) -> None:
    KeyFile(tmp_path).add("a", "read", collections=["x"], max_items=5)
    (stored,) = json.loads((tmp_path / "keys.json").read_text())
    (tmp_path / "keys.json").write_text(json.dumps([{**stored, **damage}]))
    with pytest.raises(InvalidInputError, match="invalid limit"):
        KeyFile(tmp_path).all()


@pytest.mark.parametrize("limits", [{"collections": []}, {"collections": ["a", ""]}, {"max_items": 0}])
def test_invalid_limits_are_rejected(tmp_path: Path, limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="of a key must be"):
        KeyFile(tmp_path).add("a", "read", **limits)
    assert KeyFile(tmp_path).all() == []


def test_the_command_creates_and_lists_limited_keys(tmp_path: Path) -> None:
    runner, data = CliRunner(), ("--data", str(tmp_path))
    options = (
        "--role",
        "admin",
        "--collections",
        "teas, wines",
        "--max-items",
        "1000",
        "--requests-per-minute",
        "60",
    )
    assert runner.invoke(app, ["keys", "add", *options, *data]).exit_code == 0
    (key,) = KeyFile(tmp_path).all()
    assert (key.collections, key.max_items, key.requests_per_minute) == (("teas", "wines"), 1000, 60)
    assert runner.invoke(app, ["keys", "add", "--role", "read", *data]).exit_code == 0
    listed = " ".join(runner.invoke(app, ["keys", "list", *data], env={"COLUMNS": "200"}).stdout.split())
    assert "teas, wines 1,000 items, 60 requests/min" in listed
    assert " all " in f"{listed} "
