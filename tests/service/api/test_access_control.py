"""API keys and roles for every operation, read-only sessions, key rotation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request

from oahu.service.api.access import _MAX_SESSIONS, SESSION_COOKIE, AccessControl, Sessions
from oahu.service.errors import UnauthorizedError
from oahu.service.keys import ROLES, KeyFile

C = "/v1/collections"
N = f"{C}/{{name}}"

#: The role that each route needs. A test fails if a route is missing here.
NEEDED_ROLES = {
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/v1/openapi.json"): None,
    ("HEAD", "/v1/openapi.json"): None,
    ("GET", "/metrics"): "read",
    ("GET", C): "read",
    ("POST", C): "admin",
    ("GET", N): "read",
    ("PATCH", N): "admin",
    ("DELETE", N): "admin",
    ("GET", f"{N}/items"): "read",
    ("PUT", f"{N}/items"): "admin",
    ("POST", f"{N}/items/delete"): "admin",
    ("GET", f"{N}/items/{{key:path}}"): "read",
    ("GET", f"{N}/thumbnails/{{key:path}}"): "read",
    ("GET", f"{N}/feedback"): "read",
    ("POST", f"{N}/feedback"): "feedback",
    ("DELETE", f"{N}/feedback/{{seq}}"): "feedback",
    ("GET", f"{N}/sources"): "read",
    ("PUT", f"{N}/sources/{{source:path}}"): "feedback",
    ("DELETE", f"{N}/sources/{{source:path}}"): "feedback",
    ("POST", f"{N}/search"): "read",
    ("POST", f"{N}/classify"): "read",
    ("POST", f"{N}/compare"): "read",
    ("POST", f"{N}/calibrate"): "admin",
    ("GET", f"{N}/history"): "read",
    ("GET", f"{N}/report"): "read",
    ("GET", f"{N}/model"): "read",
    ("PUT", f"{N}/model"): "admin",
    ("POST", f"{N}/restore"): "admin",
    ("GET", f"{N}/events"): "read",
}
Keys = dict[str, str]


def routes(app: Any) -> Iterator[tuple[str, str]]:
    """Yield method and path of all routes, including those that are not in the schema."""
    for route in app.routes:
        inner = getattr(route, "effective_route_contexts", None)
        for one in inner() if inner else [route]:
            for method in one.methods:
                yield method, one.path


@pytest.fixture(scope="module")
def protected_server(tmp_path_factory: pytest.TempPathFactory, run_app: Any) -> Iterator[tuple[Any, Keys]]:
    """A server with a key of every role, and a collection."""
    from oahu.service.api.app import create_app
    from oahu.service.settings import Settings

    data = tmp_path_factory.mktemp("protected")
    keys: Keys = {role: KeyFile(data).add(role, role) for role in ROLES}
    with run_app(create_app(Settings(data=data, page=False))) as server:
        server.http.headers["Authorization"] = f"Bearer {keys['admin']}"
        server.create_collection("teas")
        server.add_items("teas", 4)
        del server.http.headers["Authorization"]
        yield server, keys


def send(server: Any, method: str, path: str, **headers: str) -> httpx.Response:
    """Send a request without a body, which changes nothing. Only the status of the response matters."""
    filled = path.replace(":path", "").format(name="teas", key="i0", seq=99, source="ann")
    params = {"limit": 1} if path.endswith("/events") else {}
    response: httpx.Response = server.http.request(method, filled, headers=headers, params=params)
    return response


# -- roles ---------------------------------------------------------------------------------------------------


def test_the_table_contains_all_routes(protected_server: Any) -> None:
    assert set(routes(protected_server[0].app)) == set(NEEDED_ROLES)


@pytest.mark.parametrize(("method", "path"), NEEDED_ROLES, ids=str)
def test_each_role_can_use_exactly_its_routes(protected_server: Any, method: str, path: str) -> None:
    server, keys = protected_server
    needed = NEEDED_ROLES[method, path]
    without_key = send(server, method, path)
    if needed is None:
        assert without_key.status_code == 200
    else:
        assert without_key.status_code == 401
        assert without_key.headers["www-authenticate"] == "Bearer"
        assert without_key.json()["type"] == "urn:oahu:problem:unauthorized"
    for role in ROLES:
        if (method, path, role) == ("DELETE", N, "admin"):
            continue  # it would delete the collection
        allowed = needed is None or ROLES.index(role) >= ROLES.index(needed)
        response = send(server, method, path, Authorization=f"Bearer {keys[role]}")
        assert (response.status_code == 403) == (not allowed), response.text
        assert response.status_code != 401
        if not allowed:
            assert (
                response.json()["detail"]
                == f"This operation needs an API key with the role {needed!r}. The given key has the role {role!r}."
            )


def test_unauthorized_requests_do_not_reveal_collections(protected_server: Any) -> None:
    existing, missing = (protected_server[0].http.get(f"{C}/{name}") for name in ("teas", "missing"))
    assert (existing.status_code, missing.status_code) == (401, 401)
    assert existing.json()["detail"] == missing.json()["detail"]


def test_readiness_does_not_reveal_collections(protected_server: Any) -> None:
    assert "teas" not in protected_server[0].http.get("/readyz").text


# -- keys ----------------------------------------------------------------------------------------------------


def test_the_x_api_key_header(protected_server: Any) -> None:
    server, keys = protected_server
    assert send(server, "GET", C, **{"X-API-Key": keys["read"]}).status_code == 200


@pytest.mark.parametrize("form", ["bearer {}", "BEARER {}", "Bearer  {}"])
def test_the_bearer_scheme_ignores_case_and_spaces(protected_server: Any, form: str) -> None:
    server, keys = protected_server
    assert send(server, "GET", C, Authorization=form.format(keys["read"])).status_code == 200


INVALID_KEYS: dict[str, Callable[[str], str]] = {
    "nothing": lambda key: "",
    "only the scheme": lambda key: "Bearer",
    "no scheme": lambda key: key,
    "another scheme": lambda key: f"Basic {key}",
    "one character less": lambda key: f"Bearer {key[:-1]}",
    "one character more": lambda key: f"Bearer {key}A",
    "another last character": lambda key: f"Bearer {key[:-1]}{'A' if key[-1] != 'A' else 'B'}",
    "upper case": lambda key: f"Bearer {key.upper()}",
    "the id alone": lambda key: f"Bearer {'_'.join(key.split('_')[:2])}",
    "the id and no secret": lambda key: f"Bearer {'_'.join(key.split('_')[:2])}_",
    "the secret alone": lambda key: f"Bearer {key.split('_', 2)[2]}",
    "without its prefix": lambda key: f"Bearer {key.removeprefix('oahu_')}",
    "something before it": lambda key: f"Bearer x{key}",
    "another id": lambda key: f"Bearer oahu_00000000_{key.split('_', 2)[2]}",
    "not ASCII": lambda key: "Bearer oahu_ä_ö",
    "a thousand characters": lambda key: "Bearer oahu_" + "a" * 1000,
}


@pytest.mark.parametrize("wrong", INVALID_KEYS.values(), ids=INVALID_KEYS)
def test_invalid_keys_are_rejected(protected_server: Any, wrong: Callable[[str], str]) -> None:
    server, keys = protected_server
    given = wrong(keys["admin"]).encode("latin-1")
    assert server.http.get(C, headers={"Authorization": given}).status_code == 401


def test_the_hash_of_a_key_is_rejected(protected_server: Any) -> None:
    server, _ = protected_server
    for key in KeyFile(server.service.settings.data).all():
        token = f"oahu_{key.id}_{key.sha256}"
        assert send(server, "GET", C, Authorization=f"Bearer {token}").status_code == 401


def test_the_first_of_two_authorization_headers_counts(protected_server: Any) -> None:
    server, keys = protected_server
    two = [("Authorization", "Bearer wrong"), ("Authorization", f"Bearer {keys['admin']}")]
    assert server.http.get(C, headers=two).status_code == 401


def test_a_body_without_a_key_is_not_read(protected_server: Any) -> None:
    """A caller without a key cannot make the service buffer or parse a body."""
    server, _ = protected_server
    assert server.http.put(f"{C}/teas/items", content=bytes(20 * 2**20)).status_code == 401
    response = server.http.post(f"{C}/teas/search", content=b"{", headers={"Content-Type": "application/json"})
    assert response.status_code == 401


# -- rotation ------------------------------------------------------------------------------------------------


@pytest.fixture
def no_key_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of the key file take effect at once, not within a second."""
    monkeypatch.setattr("oahu.service.keys._RELOAD_INTERVAL", 0.0)


def status(server: Any, token: str | None = None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    code: int = server.http.get(C, headers=headers).status_code
    return code


@pytest.mark.usefixtures("no_key_cache")
def test_keys_can_be_rotated_while_the_service_runs(start_server: Any, tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "data")
    old = file.add("old", "admin")
    server = start_server()
    assert status(server, old) == 200
    new = file.add("new", "admin")
    assert (status(server, old), status(server, new)) == (200, 200)
    file.revoke(old.split("_")[1])
    assert (status(server, old), status(server, new)) == (401, 200)


def test_a_running_service_reloads_its_keys(
    start_server: Any, tmp_path: Path, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oahu.service.keys._RELOAD_INTERVAL", 0.05)
    server = start_server()
    assert status(server) == 200
    KeyFile(tmp_path / "data").add("first", "admin")
    wait_until(lambda: status(server) == 401, "the reload")


@pytest.mark.usefixtures("no_key_cache")
def test_adding_the_first_key_closes_an_open_service(start_server: Any, tmp_path: Path) -> None:
    server = start_server()
    assert status(server) == 200
    key = KeyFile(tmp_path / "data").add("first", "read")
    assert (status(server), status(server, key)) == (401, 200)


@pytest.mark.usefixtures("no_key_cache")
@pytest.mark.parametrize("how", ["removed", "deleted", "emptied", "broken"])
def test_losing_the_last_key_does_not_open_a_running_service(start_server: Any, tmp_path: Path, how: str) -> None:
    file = KeyFile(tmp_path / "data")
    key = file.add("only", "admin")
    server = start_server()
    assert status(server, key) == 200
    if how == "removed":
        file.revoke(key.split("_")[1])
    elif how == "deleted":
        (tmp_path / "data" / "keys.json").unlink()
    else:
        (tmp_path / "data" / "keys.json").write_text("[]" if how == "emptied" else "[{")
    assert status(server) == 401
    assert status(server, key) == (200 if how == "broken" else 401)


def test_an_unreadable_key_file_prevents_the_start(start_server: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "keys.json").write_text('[{"id": "a"}]')
    with pytest.raises(ValueError, match=r"keys.json is not a valid file of API keys"):
        start_server()


# -- sessions ------------------------------------------------------------------------------------------------


@pytest.fixture
def session(protected_server: Any) -> str:
    """The browser session of an admin."""
    server, keys = protected_server
    name: str = server.app.state.sessions.start(keys["admin"])
    return name


def test_a_session_cookie_only_allows_reading(protected_server: Any, session: str) -> None:
    """Another site can make a browser send a cookie, but not an API key."""
    for method, path in (one for one in NEEDED_ROLES if NEEDED_ROLES[one]):
        response = send(protected_server[0], method, path, Cookie=f"{SESSION_COOKIE}={session}")
        assert (response.status_code in (200, 404)) == (method == "GET"), (method, path, response.text)
        if method != "GET":
            assert response.status_code == 401, (method, path)


@pytest.mark.parametrize(
    ("method", "rejected"), [("GET", False), ("HEAD", False), ("POST", True), ("DELETE", True)]
)
def test_the_role_check_does_not_rely_on_the_middleware(tmp_path: Path, method: str, rejected: bool) -> None:
    """The operation rejects the request even if no middleware does."""
    key, keys = KeyFile(tmp_path).add("one", "admin"), KeyFile(tmp_path)
    sessions = Sessions(keys)
    cookie = f"{SESSION_COOKIE}={sessions.start(key)}".encode()
    request = Request({"type": "http", "method": method, "headers": [(b"cookie", cookie)]})
    with pytest.raises(UnauthorizedError) if rejected else nullcontext():
        AccessControl(keys, sessions).check(request, "read")


def test_an_invalid_key_is_rejected_despite_a_valid_cookie(protected_server: Any, session: str) -> None:
    response = send(
        protected_server[0], "GET", C, Authorization="Bearer wrong", Cookie=f"{SESSION_COOKIE}={session}"
    )
    assert response.status_code == 401


@pytest.mark.parametrize("name", ["", "x", "a" * 43])
def test_unknown_sessions_are_rejected(protected_server: Any, name: str) -> None:
    assert send(protected_server[0], "GET", C, Cookie=f"{SESSION_COOKIE}={name}").status_code == 401


def test_an_ended_session_is_rejected(protected_server: Any, session: str) -> None:
    protected_server[0].app.state.sessions.end(session)
    assert send(protected_server[0], "GET", C, Cookie=f"{SESSION_COOKIE}={session}").status_code == 401


@pytest.mark.usefixtures("no_key_cache")
def test_revoking_a_key_ends_its_sessions(tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    kept, key = file.add("kept", "read"), file.add("gone", "admin")
    sessions = Sessions(KeyFile(tmp_path))
    name, other = sessions.start(key), sessions.start(kept)
    file.revoke(key.split("_")[1])
    assert (sessions.role(name), sessions.role(other)) == (None, "read")


def test_sessions_expire_after_twelve_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = KeyFile(tmp_path).add("one", "feedback")
    sessions = Sessions(KeyFile(tmp_path))
    name, now = sessions.start(key), time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 12 * 3600 - 60)
    assert sessions.role(name) == "feedback"
    monkeypatch.setattr(time, "monotonic", lambda: now + 12 * 3600 + 1)
    assert sessions.role(name) is None


def test_an_invalid_key_starts_no_session(tmp_path: Path) -> None:
    KeyFile(tmp_path).add("one", "admin")
    sessions = Sessions(KeyFile(tmp_path))
    assert sessions.start("oahu_x_y") is None
    assert sessions.start("\ud800") is None
    assert sessions.role(None) is None


def test_the_oldest_session_is_dropped_at_the_limit(tmp_path: Path) -> None:
    key = KeyFile(tmp_path).add("one", "read")
    sessions = Sessions(KeyFile(tmp_path))
    names = [sessions.start(key) for _ in range(_MAX_SESSIONS + 1)]
    assert len(set(names)) == _MAX_SESSIONS + 1
    assert (sessions.role(names[0]), sessions.role(names[1]), sessions.role(names[-1])) == (None, "read", "read")


# -- no execution of data -----------------------------------------------------------------------------------


def test_the_service_uses_nothing_that_can_execute_data() -> None:
    import oahu.service

    words = (
        "pickle",
        "marshal",
        "shelve",
        "joblib",
        "yaml",
        "eval(",
        "exec(",
        "allow_pickle",
        "subprocess",
        "os.system",
    )
    found = [
        (path.name, word)
        for path in Path(oahu.service.__file__).parent.rglob("*.py")
        for word in words
        if word in path.read_text()
    ]
    assert found == []
