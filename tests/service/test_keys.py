"""API keys: shown once, stored as hashes, reloaded when they change."""

from __future__ import annotations

import hashlib
import hmac
import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oahu.service.keys
from oahu import InvalidInputError
from oahu.service.keys import ROLES, Key, KeyFile, allows


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that advances the clock."""
    now = [time.monotonic()]
    monkeypatch.setattr("oahu.service.keys.time.monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def id_of(token: str) -> str:
    return token.split("_")[1]


def test_a_token_authenticates_its_key(file: KeyFile) -> None:
    token = file.add("the shop", "feedback")
    key = file.authenticate(token)
    assert key is not None
    assert (key.name, key.role, key.id) == ("the shop", "feedback", id_of(token))


def test_a_role_includes_the_lower_roles() -> None:
    allowed = {role: [needed for needed in ROLES if allows(role, needed)] for role in ROLES}
    assert allowed == {"read": ["read"], "feedback": ["read", "feedback"], "admin": ["read", "feedback", "admin"]}


def test_only_the_owner_can_read_the_file(file: KeyFile, tmp_path: Path) -> None:
    for _ in range(2):  # also after a replacement
        file.add("one", "read")
        assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600


def test_no_secret_is_stored(file: KeyFile, tmp_path: Path) -> None:
    token = file.add("one", "read")
    secret = token.split("_", 2)[2]
    stored = "".join(path.read_text() for path in tmp_path.iterdir())
    assert secret not in stored
    assert hashlib.sha256(secret.encode()).hexdigest() in stored


def test_a_secret_has_256_random_bits(file: KeyFile) -> None:
    secrets = {file.add("", "read").split("_", 2)[2] for _ in range(20)}
    assert len(secrets) == 20
    assert {len(secret) for secret in secrets} == {43}  # 32 bytes in base64


def test_secrets_are_compared_in_constant_time(file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hmac.compare_digest` compares whole hashes, also for an unknown key."""
    token = file.add("one", "read")
    compared: list[tuple[Any, Any]] = []
    compare = hmac.compare_digest

    def record(first: Any, second: Any) -> bool:
        compared.append((first, second))
        return compare(first, second)

    monkeypatch.setattr("oahu.service.keys.hmac.compare_digest", record)
    for tried in (token, token[:-1], "oahu_unknown_secret", "nothing", ""):
        file.authenticate(tried)
    assert len(compared) == 5
    assert {(len(first), len(second)) for first, second in compared} == {(64, 64)}


@given(st.text(st.characters(exclude_categories=[]), max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_text_is_not_a_key(file: KeyFile, text: str) -> None:
    assert file.authenticate(text) is None
    assert file.authenticate(f"oahu_{text}") is None


def test_a_revoked_key_is_invalid(file: KeyFile) -> None:
    token, other = file.add("one", "read"), file.add("two", "admin")
    assert file.revoke(id_of(token)).name == "one"
    assert file.authenticate(token) is None
    assert file.authenticate(other) is not None


def test_a_missing_key_cannot_be_revoked(file: KeyFile) -> None:
    file.add("one", "read")
    with pytest.raises(InvalidInputError, match="There is no key 'x'"):
        file.revoke("x")


@pytest.mark.parametrize("role", ["", "root", "Admin", None])
def test_an_unknown_role_is_rejected(file: KeyFile, role: Any) -> None:
    with pytest.raises(InvalidInputError, match="read, feedback, admin"):
        file.add("one", role)


@pytest.mark.parametrize("name", ["a" * 101, "a\nb", "\x1b[31m"])
def test_a_name_must_be_printable_and_short(file: KeyFile, name: str) -> None:
    with pytest.raises(InvalidInputError, match="printable"):
        file.add(name, "read")
    assert file.all() == []


def test_without_keys_no_key_is_required(file: KeyFile) -> None:
    assert not file.is_required()
    assert file.all() == []


def test_a_missing_folder_is_created(tmp_path: Path) -> None:
    token = KeyFile(tmp_path / "new" / "folder").add("one", "read")
    assert KeyFile(tmp_path / "new" / "folder").authenticate(token)


# -- reload ----------------------------------------------------------------------------------------------------


def test_a_change_takes_effect_after_the_reload_interval(tmp_path: Path, clock: Any) -> None:
    running, other = KeyFile(tmp_path), KeyFile(tmp_path)
    first = other.add("first", "read")
    assert running.authenticate(first)
    added = other.add("added", "read")
    assert running.authenticate(added) is None
    clock(oahu.service.keys._RELOAD_INTERVAL)
    assert running.authenticate(added)
    other.revoke(id_of(added))
    assert running.authenticate(added)
    clock(oahu.service.keys._RELOAD_INTERVAL)
    assert running.authenticate(added) is None
    assert running.find(id_of(added)) is None


def test_the_file_is_read_at_most_once_per_interval(tmp_path: Path, clock: Any, monkeypatch: Any) -> None:
    file, n = KeyFile(tmp_path), [0]
    load = file._load

    def count() -> None:
        n[0] += 1
        load()

    monkeypatch.setattr(file, "_load", count)
    for _ in range(100):
        file.authenticate("x")
    assert n == [1]


def test_a_change_with_the_same_size_and_time_is_noticed(tmp_path: Path, clock: Any) -> None:
    """The clock of the file system may be coarse."""
    import os

    writer, running = KeyFile(tmp_path), KeyFile(tmp_path)
    old = writer.add("abc", "read")
    path = tmp_path / "keys.json"
    before = path.stat()
    assert running.authenticate(old)
    stored = json.loads(path.read_text())
    new_secret = "x" * 43
    stored[0] |= {"id": "0" * 8, "sha256": hashlib.sha256(new_secret.encode()).hexdigest()}
    temporary = tmp_path / "temporary"
    temporary.write_text(json.dumps(stored, indent=2))
    os.utime(temporary, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert temporary.stat().st_size == before.st_size
    temporary.replace(path)
    clock(oahu.service.keys._RELOAD_INTERVAL)
    assert running.authenticate(old) is None
    assert running.authenticate(f"oahu_{'0' * 8}_{new_secret}")


def test_a_key_stays_required_after_the_last_was_revoked(tmp_path: Path, clock: Any) -> None:
    running, other = KeyFile(tmp_path), KeyFile(tmp_path)
    token = other.add("only", "read")
    assert running.is_required()
    other.revoke(id_of(token))
    clock(oahu.service.keys._RELOAD_INTERVAL)
    assert running.is_required()
    assert running.authenticate(token) is None
    assert not KeyFile(tmp_path).is_required()  # a service that starts now


def test_a_key_can_be_required_from_the_start(tmp_path: Path) -> None:
    assert KeyFile(tmp_path, always=True).is_required()


INVALID = {
    "no JSON": "[{",
    "no list": '{"id": "a"}',
    "no key": '["a"]',
    "a field less": '[{"id": "a", "name": "", "role": "read", "created": 1}]',
    "a field more": json.dumps([{"id": "a", "name": "", "role": "read", "sha256": "0" * 64, "created": 1, "x": 1}]),
    "an unknown role": json.dumps([{"id": "a", "name": "", "role": "root", "sha256": "0" * 64, "created": 1}]),
    "no hash": json.dumps([{"id": "a", "name": "", "role": "admin", "sha256": "", "created": 1}]),
    "no text": json.dumps([{"id": "a", "name": "", "role": "admin", "sha256": None, "created": 1}]),
    "nothing": "",
    "null": "null",
}


@pytest.mark.parametrize("text", INVALID.values(), ids=INVALID)
def test_an_invalid_file_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    for read in (
        lambda: KeyFile(tmp_path).is_required(),
        KeyFile(tmp_path).all,
        lambda: KeyFile(tmp_path).authenticate("oahu_a_"),
    ):
        with pytest.raises(InvalidInputError, match=r"keys\.json is not a valid file of API keys"):
            read()


@pytest.mark.parametrize("text", INVALID.values(), ids=INVALID)
def test_a_running_service_keeps_its_keys_if_the_file_becomes_invalid(
    tmp_path: Path, clock: Any, text: str
) -> None:
    token, running = KeyFile(tmp_path).add("one", "read"), KeyFile(tmp_path)
    assert running.authenticate(token)
    (tmp_path / "keys.json").write_text(text)
    clock(oahu.service.keys._RELOAD_INTERVAL)
    assert running.authenticate(token)
    assert running.is_required()


def test_an_invalid_file_is_logged_once_per_change(
    tmp_path: Path, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    file, running = tmp_path / "keys.json", KeyFile(tmp_path)
    KeyFile(tmp_path).add("one", "read")
    assert running.is_required()

    def logged() -> int:
        caplog.clear()
        for _ in range(3):
            clock(oahu.service.keys._RELOAD_INTERVAL)
            running.is_required()
        return len(caplog.records)

    valid = file.read_text()
    file.write_text("[{")
    assert logged() == 1
    assert logged() == 0
    file.write_text("[{{")
    assert logged() == 1
    file.write_text(valid)
    assert logged() == 0
    file.write_text("[{{")
    assert logged() == 1


def test_an_invalid_file_makes_a_key_required(tmp_path: Path, clock: Any) -> None:
    running = KeyFile(tmp_path)
    assert not running.is_required()
    (tmp_path / "keys.json").write_text("[{")
    clock(oahu.service.keys._RELOAD_INTERVAL)
    assert running.is_required()


def test_a_failed_write_keeps_the_other_keys(file: KeyFile, tmp_path: Path, monkeypatch: Any) -> None:
    token = file.add("one", "read")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        file.add("two", "read")
    monkeypatch.undo()
    assert [key.name for key in KeyFile(tmp_path).all()] == ["one"]
    assert KeyFile(tmp_path).authenticate(token)


def test_keys_are_stored_as_plain_json(file: KeyFile, tmp_path: Path) -> None:
    file.add("one", "admin")
    (stored,) = json.loads((tmp_path / "keys.json").read_text())
    assert file.all() == [Key(**stored)]
