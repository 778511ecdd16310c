"""API keys: shown once, kept as hashes, read anew when they change."""

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
    """A clock that goes when it is told to."""
    now = [time.monotonic()]
    monkeypatch.setattr("oahu.service.keys.time.monotonic", lambda: now[0])

    def on(seconds: float) -> None:
        now[0] += seconds

    return on


def id_of(token: str) -> str:
    return token.split("_")[1]


def test_a_key_is_what_it_was_made_for(file: KeyFile) -> None:
    token = file.add("the shop", "feedback")
    key = file.check(token)
    assert key is not None
    assert (key.name, key.role, key.id) == ("the shop", "feedback", id_of(token))


def test_a_role_allows_itself_and_those_below() -> None:
    allowed = {role: [needed for needed in ROLES if allows(role, needed)] for role in ROLES}
    assert allowed == {"read": ["read"], "feedback": ["read", "feedback"], "admin": ["read", "feedback", "admin"]}


def test_what_is_kept_is_for_its_owner_alone(file: KeyFile, tmp_path: Path) -> None:
    for _ in range(2):  # also when it is replaced
        file.add("one", "read")
        assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600


def test_no_secret_is_kept(file: KeyFile, tmp_path: Path) -> None:
    token = file.add("one", "read")
    secret = token.split("_", 2)[2]
    kept = "".join(path.read_text() for path in tmp_path.iterdir())
    assert secret not in kept
    assert hashlib.sha256(secret.encode()).hexdigest() in kept


def test_a_secret_has_256_random_bits(file: KeyFile) -> None:
    secrets = {file.add("", "read").split("_", 2)[2] for _ in range(20)}
    assert len(secrets) == 20
    assert {len(secret) for secret in secrets} == {43}  # 32 bytes in base64


def test_secrets_are_compared_in_constant_time(file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a function made for that, whole hashes, and also if there is no such key."""
    token = file.add("one", "read")
    seen: list[tuple[Any, Any]] = []
    compare = hmac.compare_digest

    def note(first: Any, second: Any) -> bool:
        seen.append((first, second))
        return compare(first, second)

    monkeypatch.setattr("oahu.service.keys.hmac.compare_digest", note)
    for tried in (token, token[:-1], "oahu_unknown_secret", "nothing", ""):
        file.check(tried)
    assert len(seen) == 5
    assert {(len(first), len(second)) for first, second in seen} == {(64, 64)}


@given(st.text(st.characters(exclude_categories=[]), max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_is_a_key(file: KeyFile, text: str) -> None:
    assert file.check(text) is None
    assert file.check(f"oahu_{text}") is None


def test_a_removed_key_is_none(file: KeyFile) -> None:
    token, other = file.add("one", "read"), file.add("two", "admin")
    assert file.remove(id_of(token)).name == "one"
    assert file.check(token) is None
    assert file.check(other) is not None


def test_one_cannot_remove_what_is_not_there(file: KeyFile) -> None:
    file.add("one", "read")
    with pytest.raises(InvalidInputError, match="There is no key 'x'"):
        file.remove("x")


@pytest.mark.parametrize("role", ["", "root", "Admin", None])
def test_a_role_is_one_of_three(file: KeyFile, role: Any) -> None:
    with pytest.raises(InvalidInputError, match="read, feedback, admin"):
        file.add("one", role)


@pytest.mark.parametrize("name", ["a" * 101, "a\nb", "\x1b[31m"])
def test_a_name_is_one_to_show(file: KeyFile, name: str) -> None:
    with pytest.raises(InvalidInputError, match="printable"):
        file.add(name, "read")
    assert file.all() == []


def test_a_folder_without_keys_needs_none(file: KeyFile) -> None:
    assert not file.needed
    assert file.all() == []


def test_a_folder_that_is_not_there_gets_made(tmp_path: Path) -> None:
    token = KeyFile(tmp_path / "new" / "folder").add("one", "read")
    assert KeyFile(tmp_path / "new" / "folder").check(token)


# -- while it runs -------------------------------------------------------------------------------------------


def test_a_change_counts_after_a_second(tmp_path: Path, clock: Any) -> None:
    running, other = KeyFile(tmp_path), KeyFile(tmp_path)
    kept = other.add("kept", "read")
    assert running.check(kept)
    added = other.add("added", "read")
    assert running.check(added) is None
    clock(oahu.service.keys._LOOK)
    assert running.check(added)
    other.remove(id_of(added))
    assert running.check(added)
    clock(oahu.service.keys._LOOK)
    assert running.check(added) is None
    assert running.still(id_of(added)) is None


def test_the_file_is_looked_at_no_more_than_once_a_second(tmp_path: Path, clock: Any, monkeypatch: Any) -> None:
    file, n = KeyFile(tmp_path), [0]
    load = file._load

    def count() -> None:
        n[0] += 1
        load()

    monkeypatch.setattr(file, "_load", count)
    for _ in range(100):
        file.check("x")
    assert n == [1]


def test_a_change_that_leaves_size_and_time_as_they_were_counts(tmp_path: Path, clock: Any) -> None:
    """Files are told apart also when the clock of the file system is coarse."""
    import os

    writer, running = KeyFile(tmp_path), KeyFile(tmp_path)
    old = writer.add("abc", "read")
    path = tmp_path / "keys.json"
    before = path.stat()
    assert running.check(old)
    kept = json.loads(path.read_text())
    new_secret = "x" * 43
    kept[0] |= {"id": "0" * 8, "sha256": hashlib.sha256(new_secret.encode()).hexdigest()}
    beside = tmp_path / "beside"
    beside.write_text(json.dumps(kept, indent=2))
    os.utime(beside, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert beside.stat().st_size == before.st_size
    beside.replace(path)
    clock(oahu.service.keys._LOOK)
    assert running.check(old) is None
    assert running.check(f"oahu_{'0' * 8}_{new_secret}")


def test_once_there_was_a_key_one_is_needed(tmp_path: Path, clock: Any) -> None:
    running, other = KeyFile(tmp_path), KeyFile(tmp_path)
    token = other.add("only", "read")
    assert running.needed
    other.remove(id_of(token))
    clock(oahu.service.keys._LOOK)
    assert running.needed
    assert running.check(token) is None
    assert not KeyFile(tmp_path).needed  # a service that starts now has none


def test_a_key_can_always_be_needed(tmp_path: Path) -> None:
    assert KeyFile(tmp_path, always=True).needed


BROKEN = {
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


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_not_sound_lets_nobody_in(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    for ask in (
        lambda: KeyFile(tmp_path).needed,
        KeyFile(tmp_path).all,
        lambda: KeyFile(tmp_path).check("oahu_a_"),
    ):
        with pytest.raises(InvalidInputError, match=r"keys\.json is not a file of keys"):
            ask()


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_service_keeps_its_keys_when_the_file_breaks(tmp_path: Path, clock: Any, text: str) -> None:
    token, running = KeyFile(tmp_path).add("one", "read"), KeyFile(tmp_path)
    assert running.check(token)
    (tmp_path / "keys.json").write_text(text)
    clock(oahu.service.keys._LOOK)
    assert running.check(token)
    assert running.needed


def test_an_open_service_is_closed_by_a_file_that_is_not_sound(tmp_path: Path, clock: Any) -> None:
    running = KeyFile(tmp_path)
    assert not running.needed
    (tmp_path / "keys.json").write_text("[{")
    clock(oahu.service.keys._LOOK)
    assert running.needed


def test_a_key_that_could_not_be_written_leaves_the_others(file: KeyFile, tmp_path: Path, monkeypatch: Any) -> None:
    token = file.add("one", "read")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        file.add("two", "read")
    monkeypatch.undo()
    assert [key.name for key in KeyFile(tmp_path).all()] == ["one"]
    assert KeyFile(tmp_path).check(token)


def test_a_key_is_kept_as_plain_json(file: KeyFile, tmp_path: Path) -> None:
    file.add("one", "admin")
    (kept,) = json.loads((tmp_path / "keys.json").read_text())
    assert file.all() == [Key(**kept)]
