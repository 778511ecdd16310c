"""API keys: who may do what. Only hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from oahu.exceptions import InvalidInputError
from oahu.io.atomic_files import write_atomically

__all__ = ["ROLES", "Key", "KeyFile", "Role", "allows"]

#: Read: search and look. Feedback: that, and say what is alike. Admin: everything.
Role = Literal["read", "feedback", "admin"]

ROLES = get_args(Role)
_FILE = "keys.json"
_LOOK = 1.0  # seconds after which a change of the file counts
_LONGEST = 100  # characters of a name

log = logging.getLogger("oahu.service")


def allows(role: Role, needed: Role) -> bool:
    """Whether one role may do what another may.

    >>> allows("admin", "read"), allows("read", "feedback")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)


@dataclass(frozen=True)
class Key:
    """A key as it is kept: its secret only as a hash."""

    id: str
    name: str
    role: Role
    sha256: str
    created: float


class KeyFile:
    """The keys of a service, in a file that can be changed while it runs: that is how keys are rotated.

    A key is ``oahu_<id>_<secret>``. The secret has 256 random bits, so a plain hash of it tells nothing.

    Parameters
    ----------
    folder : path
        Of the service.
    always : bool
        Whether a key is needed also if there are none: then nobody is let in.
    """

    def __init__(self, folder: Path, always: bool = False) -> None:
        self._path = folder / _FILE
        self._keys: dict[str, Key] = {}
        self._locked = always
        self._looked, self._stamp = -_LOOK, (0, 0, 0)

    def all(self) -> list[Key]:
        self._read(now=True)
        return list(self._keys.values())

    @property
    def needed(self) -> bool:
        """Whether a key is needed. If there are none, everyone on this machine may do everything.

        Once there was one, one is needed until the service starts again: removing the last key opens no door.
        """
        self._read()
        return self._locked

    def check(self, token: str) -> Key | None:
        """The key that a token is, if it is one; takes as long if it is not."""
        self._read()
        _, _, rest = token.partition("oahu_")
        id_, _, secret = rest.partition("_")
        key = self._keys.get(id_)
        same = hmac.compare_digest(_hash(secret), key.sha256 if key else _hash(""))
        return key if key is not None and same and token.startswith("oahu_") else None

    def still(self, id_: str) -> Key | None:
        """A key that was checked before, if it is still one."""
        self._read()
        return self._keys.get(id_)

    def add(self, name: str, role: Role) -> str:
        """Make a key; what is returned is shown once and kept nowhere."""
        if role not in ROLES:
            raise InvalidInputError(f"A role must be one of {', '.join(ROLES)}. Got {role!r}.")
        if len(name) > _LONGEST or not name.isprintable():
            raise InvalidInputError(f"A key's name has up to {_LONGEST} printable characters. Got {name!r}.")
        self._read(now=True)
        id_, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        self._write({**self._keys, id_: Key(id_, name, role, _hash(secret), time.time())})
        return f"oahu_{id_}_{secret}"

    def remove(self, id_: str) -> Key:
        """Let a key be none any more."""
        self._read(now=True)
        if id_ not in self._keys:
            raise InvalidInputError(f"There is no key {id_!r}: there are {', '.join(self._keys) or 'none'}.")
        removed = self._keys[id_]
        self._write({other: key for other, key in self._keys.items() if other != id_})
        return removed

    def _read(self, now: bool = False) -> None:
        """Look at the file, if it is time. A service that runs keeps its keys if it cannot read new ones."""
        clock = time.monotonic()
        if not now and clock - self._looked < _LOOK:
            return
        first = self._looked < 0
        try:
            self._load()
        except (OSError, InvalidInputError) as error:
            if now or first:
                raise
            log.error("the keys stay as they were: %s", error)
            self._locked = True
        self._looked = clock

    def _load(self) -> None:
        try:
            told = self._path.stat()
        except FileNotFoundError:
            self._keys, self._stamp = {}, (0, 0, 0)
            return
        stamp = told.st_mtime_ns, told.st_size, told.st_ino
        if stamp != self._stamp:
            self._keys, self._stamp = _parsed(self._path), stamp
            self._locked = self._locked or bool(self._keys)

    def _write(self, keys: dict[str, Key]) -> None:
        """Replace the file, whole; only its owner may read it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps([asdict(key) for key in keys.values()], indent=2), mode=0o600)
        self._load()


def _parsed(path: Path) -> dict[str, Key]:
    """The keys of a file; what is not one could open a door, so it is refused whole."""
    try:
        keys = [Key(**one) for one in json.loads(path.read_text())]
        sound = all(key.role in ROLES and len(key.sha256) == 64 and key.sha256.isascii() for key in keys)
        if not sound:
            raise ValueError("a key has no known role or no hash")
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{path} is not a file of keys ({error}). Make keys with `oahu keys add` in place of it."
        ) from error
    return {key.id: key for key in keys}


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
