"""API keys and their roles. Only hashes of keys are stored."""

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

#: read: search and view. feedback: read, and give feedback. admin: everything.
Role = Literal["read", "feedback", "admin"]

ROLES = get_args(Role)
_FILE = "keys.json"
_RELOAD_INTERVAL = 1.0  # seconds after which a change of the file takes effect
_MAX_NAME = 100  # characters

log = logging.getLogger("oahu.service")


def allows(role: Role, needed: Role) -> bool:
    """Return whether a role includes the permissions of another.

    >>> allows("admin", "read"), allows("read", "feedback")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)


@dataclass(frozen=True)
class Key:
    """A stored key, with the hash of its secret."""

    id: str
    name: str
    role: Role
    sha256: str
    created: float


class KeyFile:
    """The keys of a service, in a file. A running service picks up changes, so keys can be rotated.

    A key is ``oahu_<id>_<secret>``. The secret has 256 random bits, so a plain hash does not reveal it.

    Parameters
    ----------
    folder : path
        The data folder of the service.
    always : bool
        Whether a key is required even if the file holds none. All requests are then rejected.
    """

    def __init__(self, folder: Path, always: bool = False) -> None:
        self._path = folder / _FILE
        self._keys: dict[str, Key] = {}
        self._required = always
        self._loaded_at, self._stamp = -_RELOAD_INTERVAL, (0, 0, 0)

    def all(self) -> list[Key]:
        """Return all keys in the file."""
        self._reload(now=True)
        return list(self._keys.values())

    def is_required(self) -> bool:
        """Return whether requests need a key. Without any key, every local user may do everything.

        Once a key existed, a key is required until the service restarts: revoking the last key grants no access.
        """
        self._reload()
        return self._required

    def authenticate(self, token: str) -> Key | None:
        """Return the key of a valid token, or None. Takes the same time in both cases."""
        self._reload()
        _, _, rest = token.partition("oahu_")
        id_, _, secret = rest.partition("_")
        key = self._keys.get(id_)
        same = hmac.compare_digest(_hash(secret), key.sha256 if key else _hash(""))
        return key if key is not None and same and token.startswith("oahu_") else None

    def find(self, id_: str) -> Key | None:
        """Return the key with an id, or None if it was revoked."""
        self._reload()
        return self._keys.get(id_)

    def add(self, name: str, role: Role) -> str:
        """Create a key and return its token, which is not stored."""
        if role not in ROLES:
            raise InvalidInputError(f"The role must be one of {', '.join(ROLES)}. Got {role!r}.")
        if len(name) > _MAX_NAME or not name.isprintable():
            raise InvalidInputError(
                f"The name of a key must have at most {_MAX_NAME} printable characters. Got {name!r}."
            )
        self._reload(now=True)
        id_, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        self._write({**self._keys, id_: Key(id_, name, role, _hash(secret), time.time())})
        return f"oahu_{id_}_{secret}"

    def revoke(self, id_: str) -> Key:
        """Revoke a key and return it."""
        self._reload(now=True)
        if id_ not in self._keys:
            raise InvalidInputError(f"There is no key {id_!r}. Existing keys: {', '.join(self._keys) or 'none'}.")
        revoked = self._keys[id_]
        self._write({other: key for other, key in self._keys.items() if other != id_})
        return revoked

    def _reload(self, now: bool = False) -> None:
        """Read the file again if the interval has passed. If that fails, a running service keeps its keys."""
        clock = time.monotonic()
        if not now and clock - self._loaded_at < _RELOAD_INTERVAL:
            return
        first = self._loaded_at < 0
        try:
            self._load()
        except (OSError, InvalidInputError) as error:
            if now or first:
                raise
            log.error("cannot reload the keys, keeping the previous ones: %s", error)
            self._required = True
        self._loaded_at = clock

    def _load(self) -> None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._keys, self._stamp = {}, (0, 0, 0)
            return
        stamp = status.st_mtime_ns, status.st_size, status.st_ino
        if stamp != self._stamp:
            self._keys, self._stamp = _parse(self._path), stamp
            self._required = self._required or bool(self._keys)

    def _write(self, keys: dict[str, Key]) -> None:
        """Replace the file atomically. Only its owner can read it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps([asdict(key) for key in keys.values()], indent=2), mode=0o600)
        self._load()


def _parse(path: Path) -> dict[str, Key]:
    """Parse a file of keys. One invalid key makes the whole file invalid."""
    try:
        keys = [Key(**one) for one in json.loads(path.read_text())]
        valid = all(key.role in ROLES and len(key.sha256) == 64 and key.sha256.isascii() for key in keys)
        if not valid:
            raise ValueError("a key has an unknown role or no hash")
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{path} is not a valid file of keys ({error}). Delete it and create keys with `oahu keys add`."
        ) from error
    return {key.id: key for key in keys}


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
