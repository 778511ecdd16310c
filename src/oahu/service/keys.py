"""API keys and their roles. Only hashes of keys are stored."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from oahu.exceptions import InvalidInputError
from oahu.io.atomic_files import write_atomically

__all__ = ["ROLES", "Key", "KeyFile", "Role", "allows"]

#: The "read" role can search and read data. The "feedback" role can also add feedback. The "admin" role can do
#: everything.
Role = Literal["read", "feedback", "admin"]

ROLES = get_args(Role)

_Stamp = tuple[int, int, int]
_NO_FILE: Final[_Stamp] = (0, 0, 0)
_FILE = "keys.json"
_RELOAD_INTERVAL = 1.0  # seconds between two checks of the file
_MAX_NAME = 100  # characters

log = logging.getLogger("oahu.service")


def allows(role: Role, needed: Role) -> bool:
    """Return whether a role includes the permissions of the needed role.

    >>> allows("admin", "read"), allows("read", "feedback")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)


@dataclass(frozen=True)
class Key:
    """A stored API key, with the hash of its secret.

    Attributes
    ----------
    collections : tuple of str, or None
        The collections that the key can use. None means all collections.
    max_items : int or None
        Maximum number of items in a collection to which this key adds items.
    requests_per_minute : int or None
        Maximum number of requests per minute.
    """

    id: str
    name: str
    role: Role
    sha256: str
    created: float
    collections: tuple[str, ...] | None = None
    max_items: int | None = None
    requests_per_minute: int | None = None

    def allows_collection(self, name: str) -> bool:
        """Return whether the key can use a collection."""
        return self.collections is None or name in self.collections

    def as_json(self) -> dict[str, Any]:
        """Return the fields with a value. A file without limits can be read by older versions of oahu."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class KeyFile:
    """The file with the API keys of a service. A running service reads changes of the file within a second.

    The token of a key has the form ``oahu_<id>_<secret>``. The secret has 256 random bits. The file contains only
    the hash of the secret. The hash needs no salt, because such a secret cannot be guessed.

    Parameters
    ----------
    folder : path
        The data folder of the service.
    always : bool
        Whether requests need a key even if the file contains no keys. If so, a service without keys rejects all
        requests.
    """

    def __init__(self, folder: Path, always: bool = False) -> None:
        self._path = folder / _FILE
        self._keys: dict[str, Key] = {}
        self._required = always
        self._loaded_at, self._stamp = -_RELOAD_INTERVAL, _NO_FILE
        self._reported: tuple[_Stamp | None, str] | None = None  # the last logged error

    def all(self) -> list[Key]:
        """Return all keys in the file."""
        self._reload(now=True)
        return list(self._keys.values())

    def is_required(self) -> bool:
        """Return whether requests need a key.

        If they do not, everyone who can connect to the service has all permissions.

        Once the service has loaded a key, a key is required until the service restarts. Revoking the last key
        therefore does not give everybody access.
        """
        self._reload()
        return self._required

    def authenticate(self, token: str) -> Key | None:
        """Return the key of a valid token, or None for an invalid token. Both cases take the same time."""
        self._reload()
        _, _, rest = token.partition("oahu_")
        id_, _, secret = rest.partition("_")
        key = self._keys.get(id_)
        same = hmac.compare_digest(_hash(secret), key.sha256 if key else _hash(""))
        return key if key is not None and same and token.startswith("oahu_") else None

    def find(self, id_: str) -> Key | None:
        """Return the key with this id, or None if there is no such key."""
        self._reload()
        return self._keys.get(id_)

    def add(
        self,
        name: str,
        role: Role,
        *,
        collections: Sequence[str] | None = None,
        max_items: int | None = None,
        requests_per_minute: int | None = None,
    ) -> str:
        """Create a key and return its token. The token itself is not stored. See `Key` for the limits."""
        if role not in ROLES:
            raise InvalidInputError(f"The role must be one of {', '.join(ROLES)}. Got {role!r} instead.")
        if len(name) > _MAX_NAME or not name.isprintable():
            raise InvalidInputError(
                f"The name of a key must consist of at most {_MAX_NAME} printable characters. Got {name!r} instead."
            )
        if collections is not None and not (collections and all(collections)):
            raise InvalidInputError("The collections of a key must be names. Leave them out for all collections.")
        for limit, value in (("max_items", max_items), ("requests_per_minute", requests_per_minute)):
            if value is not None and value < 1:
                raise InvalidInputError(f"The limit {limit} of a key must be at least 1. Got {value} instead.")
        self._reload(now=True)
        id_, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        names = None if collections is None else tuple(collections)
        key = Key(id_, name, role, _hash(secret), time.time(), names, max_items, requests_per_minute)
        self._write({**self._keys, id_: key})
        return f"oahu_{id_}_{secret}"

    def revoke(self, id_: str) -> Key:
        """Revoke the key with this id and return the key."""
        self._reload(now=True)
        if id_ not in self._keys:
            raise InvalidInputError(f"There is no key {id_!r}. Existing keys: {', '.join(self._keys) or 'none'}.")
        revoked = self._keys[id_]
        self._write({other: key for other, key in self._keys.items() if other != id_})
        return revoked

    def _reload(self, now: bool = False) -> None:
        """Read the file again if the last check was some time ago, or if ``now`` is True.

        If the file cannot be read, a running service keeps the keys that it has loaded.
        """
        clock = time.monotonic()
        if not now and clock - self._loaded_at < _RELOAD_INTERVAL:
            return
        first = self._loaded_at < 0
        try:
            self._load()
        except (OSError, InvalidInputError) as error:
            if now or first:
                raise
            self._required = True
            self._log_once(error)
        else:
            self._reported = None
        self._loaded_at = clock

    def _log_once(self, error: Exception) -> None:
        """Log that the file cannot be read, once for each change of the file."""
        stamp = None
        with suppress(OSError):
            stamp = self._file_stamp()
        if self._reported != (stamp, str(error)):
            self._reported = stamp, str(error)
            log.error("cannot reload the API keys; the previous keys stay valid: %s", error)

    def _load(self) -> None:
        stamp = self._file_stamp()
        if stamp != self._stamp:
            self._keys = {} if stamp == _NO_FILE else _parse(self._path)
            self._stamp = stamp
            self._required = self._required or bool(self._keys)

    def _file_stamp(self) -> _Stamp:
        """Return file properties, such as the modification time, that change whenever the file is written."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return _NO_FILE
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _write(self, keys: dict[str, Key]) -> None:
        """Replace the file atomically. Only the owner of the file can read it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps([key.as_json() for key in keys.values()], indent=2), mode=0o600)
        self._load()


def _parse(path: Path) -> dict[str, Key]:
    """Return the keys in a file. Raise `InvalidInputError` if a key is invalid."""
    try:
        keys = [_key(one) for one in json.loads(path.read_text())]
        valid = all(key.role in ROLES and len(key.sha256) == 64 and key.sha256.isascii() for key in keys)
        if not valid:
            raise ValueError("a key has an unknown role or an invalid hash")
        if not all(_has_valid_limits(key) for key in keys):
            raise ValueError("a key has an invalid limit")
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{path} is not a valid file of API keys ({error}). Delete the file and create keys with `oahu keys "
            "add`."
        ) from error
    return {key.id: key for key in keys}


def _key(stored: dict[str, Any]) -> Key:
    fields = dict(stored)  # raises an error for text and numbers
    collections = fields.pop("collections", None)
    return Key(**fields, collections=tuple(collections) if isinstance(collections, list) else collections)


def _has_valid_limits(key: Key) -> bool:
    """Return whether the limits have the right types. A damaged limit must not become an unlimited key."""
    names: Any = key.collections
    numbers: list[Any] = [key.max_items, key.requests_per_minute]
    are_names = names is None or (isinstance(names, tuple) and all(isinstance(name, str) for name in names))
    return are_names and all(number is None or (type(number) is int and number > 0) for number in numbers)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
