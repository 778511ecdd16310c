"""Nobody walks in: keys and roles for every operation, sessions that only look, rotation while it runs."""

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

#: What every operation needs. One that is not here fails a test: decide, then write it down.
NEEDED = {
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/v1/openapi.json"): None,
    ("HEAD", "/v1/openapi.json"): None,
    ("GET", "/metrics"): "read",
    ("GET", C): "read",
    ("POST", C): "admin",
    ("GET", N): "read",
    ("DELETE", N): "admin",
    ("GET", f"{N}/items"): "read",
    ("PUT", f"{N}/items"): "admin",
    ("POST", f"{N}/items/delete"): "admin",
    ("GET", f"{N}/items/{{key:path}}"): "read",
    ("GET", f"{N}/thumbnails/{{key:path}}"): "read",
    ("GET", f"{N}/feedback"): "read",
    ("POST", f"{N}/feedback"): "feedback",
    ("DELETE", f"{N}/feedback/{{seq}}"): "feedback",
    ("POST", f"{N}/search"): "read",
    ("POST", f"{N}/classify"): "read",
    ("POST", f"{N}/compare"): "read",
    ("POST", f"{N}/calibrate"): "admin",
    ("GET", f"{N}/history"): "read",
    ("GET", f"{N}/model"): "read",
    ("PUT", f"{N}/model"): "admin",
    ("POST", f"{N}/restore"): "admin",
    ("GET", f"{N}/events"): "read",
}
Keys = dict[str, str]


def routes(app: Any) -> Iterator[tuple[str, str]]:
    """Everything that an application answers, method and path, also what is not in its schema."""
    for route in app.routes:
        inner = getattr(route, "effective_route_contexts", None)
        for one in inner() if inner else [route]:
            for method in one.methods:
                yield method, one.path


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, run: Any) -> Iterator[tuple[Any, Keys]]:
    """A service with a key of every role, and a collection."""
    from oahu.service.api.app import create_app
    from oahu.service.settings import Settings

    data = tmp_path_factory.mktemp("locked")
    keys: Keys = {role: KeyFile(data).add(role, role) for role in ROLES}
    with run(create_app(Settings(data=data, page=False))) as service:
        service.http.headers["Authorization"] = f"Bearer {keys['admin']}"
        service.create("there")
        service.fill("there", 4)
        del service.http.headers["Authorization"]
        yield service, keys


def ask(service: Any, method: str, path: str, **headers: str) -> httpx.Response:
    """A request that would do nothing good, so that it can be repeated: what it is answered by is what counts."""
    filled = path.replace(":path", "").format(name="there", key="i0", seq=99)
    params = {"limit": 1} if path.endswith("/events") else {}
    answer: httpx.Response = service.http.request(method, filled, headers=headers, params=params)
    return answer


# -- roles ---------------------------------------------------------------------------------------------------


def test_it_is_written_down_what_every_operation_needs(locked: Any) -> None:
    assert set(routes(locked[0].app)) == set(NEEDED)


@pytest.mark.parametrize(("method", "path"), NEEDED, ids=lambda one: one)
def test_without_a_key_only_what_needs_none_is_answered(locked: Any, method: str, path: str) -> None:
    answer = ask(locked[0], method, path)
    if NEEDED[method, path] is None:
        assert answer.status_code == 200
    else:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["type"] == "urn:oahu:problem:unauthorized"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("method", "path"), [one for one in NEEDED if one[1] != N or one[0] != "DELETE"], ids=lambda one: one
)
def test_a_key_does_what_its_role_may_and_no_more(locked: Any, method: str, path: str, role: str) -> None:
    service, keys = locked
    needed = NEEDED[method, path]
    allowed = needed is None or ROLES.index(role) >= ROLES.index(needed)
    answer = ask(service, method, path, Authorization=f"Bearer {keys[role]}")
    assert (answer.status_code == 403) == (not allowed), answer.text
    assert answer.status_code != 401
    if not allowed:
        assert (
            answer.json()["detail"]
            == f"This operation needs an API key with role {needed!r}. This key has role {role!r}."
        )


@pytest.mark.parametrize("role", ["read", "feedback"])
def test_only_admins_delete_collections(locked: Any, role: str) -> None:
    service, keys = locked
    assert ask(service, "DELETE", N, Authorization=f"Bearer {keys[role]}").status_code == 403
    assert ask(service, "GET", N, Authorization=f"Bearer {keys[role]}").status_code == 200


def test_who_may_not_look_does_not_learn_what_is_there(locked: Any) -> None:
    there, nowhere = (locked[0].http.get(f"{C}/{name}") for name in ("there", "nowhere"))
    assert (there.status_code, nowhere.status_code) == (401, 401)
    assert there.json()["detail"] == nowhere.json()["detail"]


def test_readiness_names_no_collection(locked: Any) -> None:
    assert "there" not in locked[0].http.get("/readyz").text


# -- keys ----------------------------------------------------------------------------------------------------


def test_a_key_may_come_in_a_header_of_its_own(locked: Any) -> None:
    service, keys = locked
    assert ask(service, "GET", C, **{"X-API-Key": keys["read"]}).status_code == 200


@pytest.mark.parametrize("form", ["bearer {}", "BEARER {}", "Bearer  {}"])
def test_how_the_scheme_is_written_does_not_matter(locked: Any, form: str) -> None:
    service, keys = locked
    assert ask(service, "GET", C, Authorization=form.format(keys["read"])).status_code == 200


WRONG: dict[str, Callable[[str], str]] = {
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


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_not_the_key_opens_nothing(locked: Any, wrong: Callable[[str], str]) -> None:
    service, keys = locked
    given = wrong(keys["admin"]).encode("latin-1")
    assert service.http.get(C, headers={"Authorization": given}).status_code == 401


def test_a_hash_from_the_file_opens_nothing(locked: Any) -> None:
    service, _ = locked
    for key in KeyFile(service.service.settings.data).all():
        token = f"oahu_{key.id}_{key.sha256}"
        assert ask(service, "GET", C, Authorization=f"Bearer {token}").status_code == 401


def test_the_first_of_two_keys_counts(locked: Any) -> None:
    service, keys = locked
    two = [("Authorization", "Bearer wrong"), ("Authorization", f"Bearer {keys['admin']}")]
    assert service.http.get(C, headers=two).status_code == 401


def test_a_body_without_a_key_is_not_read(locked: Any) -> None:
    """Strangers cannot make the service hold what they send, or parse it."""
    service, _ = locked
    assert service.http.put(f"{C}/there/items", content=bytes(20 * 2**20)).status_code == 401
    answer = service.http.post(f"{C}/there/search", content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 401


# -- rotation ------------------------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of the keys count at once, and not within a second."""
    monkeypatch.setattr("oahu.service.keys._RELOAD_INTERVAL", 0.0)


def status(service: Any, token: str | None = None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    code: int = service.http.get(C, headers=headers).status_code
    return code


@pytest.mark.usefixtures("at_once")
def test_keys_are_rotated_while_the_service_runs(start: Any, tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "data")
    old = file.add("old", "admin")
    service = start()
    assert status(service, old) == 200
    new = file.add("new", "admin")
    assert (status(service, old), status(service, new)) == (200, 200)
    file.revoke(old.split("_")[1])
    assert (status(service, old), status(service, new)) == (401, 200)


def test_a_service_that_is_asked_looks_at_its_keys_now_and_then(start: Any, tmp_path: Path, wait: Any) -> None:
    service = start()
    assert status(service) == 200
    KeyFile(tmp_path / "data").add("first", "admin")
    wait(lambda: status(service) == 401, "looking")


@pytest.mark.usefixtures("at_once")
def test_the_first_key_closes_an_open_service(start: Any, tmp_path: Path) -> None:
    service = start()
    assert status(service) == 200
    key = KeyFile(tmp_path / "data").add("first", "read")
    assert (status(service), status(service, key)) == (401, 200)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("how", ["removed", "deleted", "emptied", "broken"])
def test_losing_the_last_key_does_not_open_a_service_that_runs(start: Any, tmp_path: Path, how: str) -> None:
    file = KeyFile(tmp_path / "data")
    key = file.add("only", "admin")
    service = start()
    assert status(service, key) == 200
    if how == "removed":
        file.revoke(key.split("_")[1])
    elif how == "deleted":
        (tmp_path / "data" / "keys.json").unlink()
    else:
        (tmp_path / "data" / "keys.json").write_text("[]" if how == "emptied" else "[{")
    assert status(service) == 401
    assert status(service, key) == (200 if how == "broken" else 401)


def test_a_service_does_not_start_with_keys_it_cannot_read(start: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "keys.json").write_text('[{"id": "a"}]')
    with pytest.raises(ValueError, match=r"keys.json is not a valid file of keys"):
        start()


# -- sessions ------------------------------------------------------------------------------------------------


@pytest.fixture
def session(locked: Any) -> str:
    """The session of an admin at the page."""
    service, keys = locked
    name: str = service.app.state.sessions.start(keys["admin"])
    return name


@pytest.mark.parametrize(("method", "path"), [one for one in NEEDED if NEEDED[one]], ids=lambda one: one)
def test_a_cookie_lets_look_and_never_change(locked: Any, session: str, method: str, path: str) -> None:
    """No other site can send a header with a key; a cookie it can have sent along."""
    answer = ask(locked[0], method, path, Cookie=f"{SESSION_COOKIE}={session}")
    assert (answer.status_code in (200, 404)) == (method == "GET"), answer.text
    if method != "GET":
        assert answer.status_code == 401


@pytest.mark.parametrize(("method", "refused"), [("GET", False), ("HEAD", False), ("POST", True), ("DELETE", True)])
def test_also_behind_the_door_a_cookie_only_lets_look(tmp_path: Path, method: str, refused: bool) -> None:
    """Were the guard to let it through, the operation would not."""
    key, keys = KeyFile(tmp_path).add("one", "admin"), KeyFile(tmp_path)
    sessions = Sessions(keys)
    cookie = f"{SESSION_COOKIE}={sessions.start(key)}".encode()
    request = Request({"type": "http", "method": method, "headers": [(b"cookie", cookie)]})
    with pytest.raises(UnauthorizedError) if refused else nullcontext():
        AccessControl(keys, sessions).check(request, "read")


def test_a_wrong_key_is_not_mended_by_a_cookie(locked: Any, session: str) -> None:
    answer = ask(locked[0], "GET", C, Authorization="Bearer wrong", Cookie=f"{SESSION_COOKIE}={session}")
    assert answer.status_code == 401


@pytest.mark.parametrize("name", ["", "x", "a" * 43])
def test_a_made_up_session_is_none(locked: Any, name: str) -> None:
    assert ask(locked[0], "GET", C, Cookie=f"{SESSION_COOKIE}={name}").status_code == 401


def test_a_session_ends_when_it_is_ended(locked: Any, session: str) -> None:
    locked[0].app.state.sessions.end(session)
    assert ask(locked[0], "GET", C, Cookie=f"{SESSION_COOKIE}={session}").status_code == 401


@pytest.mark.usefixtures("at_once")
def test_a_session_ends_with_its_key(tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    kept, key = file.add("kept", "read"), file.add("gone", "admin")
    sessions = Sessions(KeyFile(tmp_path))
    name, other = sessions.start(key), sessions.start(kept)
    file.revoke(key.split("_")[1])
    assert (sessions.role(name), sessions.role(other)) == (None, "read")


def test_a_session_ends_after_half_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = KeyFile(tmp_path).add("one", "feedback")
    sessions = Sessions(KeyFile(tmp_path))
    name, now = sessions.start(key), time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 12 * 3600 - 60)
    assert sessions.role(name) == "feedback"
    monkeypatch.setattr(time, "monotonic", lambda: now + 12 * 3600 + 1)
    assert sessions.role(name) is None


def test_no_session_begins_with_what_is_no_key(tmp_path: Path) -> None:
    KeyFile(tmp_path).add("one", "admin")
    sessions = Sessions(KeyFile(tmp_path))
    assert sessions.start("oahu_x_y") is None
    assert sessions.start("\ud800") is None
    assert sessions.role(None) is None


def test_sessions_are_as_many_as_may_be_and_the_oldest_goes(tmp_path: Path) -> None:
    key = KeyFile(tmp_path).add("one", "read")
    sessions = Sessions(KeyFile(tmp_path))
    names = [sessions.start(key) for _ in range(_MAX_SESSIONS + 1)]
    assert len(set(names)) == _MAX_SESSIONS + 1
    assert (sessions.role(names[0]), sessions.role(names[1]), sessions.role(names[-1])) == (None, "read", "read")


# -- nothing that runs code ----------------------------------------------------------------------------------


def test_nothing_of_the_service_can_run_code_from_a_file_or_a_request() -> None:
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
