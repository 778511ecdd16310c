"""Access control: API keys, browser sessions, and the role that each operation needs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import Scope

from oahu.service.collection import Collection
from oahu.service.errors import ForbiddenError, UnauthorizedError
from oahu.service.keys import Key, KeyFile, Role, allows
from oahu.service.service import Service

__all__ = [
    "SESSION_COOKIE",
    "AccessControl",
    "CollectionForAdmin",
    "CollectionForFeedback",
    "CollectionForReading",
    "RequireAdmin",
    "RequireRead",
    "Sessions",
    "get_access",
    "get_service",
]

SESSION_COOKIE: Final = "oahu_session"
_SESSION_SECONDS: Final = 12 * 3600.0
_MAX_SESSIONS: Final = 1_000
_KEY: Final = "oahu_key"  # scope entry


class _Session(NamedTuple):
    key_id: str
    expires_at: float  # on the monotonic clock


class Sessions:
    """The active browser sessions.

    A login with an API key creates a random session id. The browser stores the session id as a cookie.
    """

    def __init__(self, keys: KeyFile) -> None:
        self._keys = keys
        self._sessions: dict[str, _Session] = {}

    def start(self, token: str) -> str | None:
        """Start a session for an API key.

        Return the session id, or None if the key is not valid or is limited to some collections.
        """
        key = self._keys.authenticate(token)
        if key is None or key.collections is not None:  # the page shows all collections
            return None
        now = time.monotonic()
        self._sessions = {id_: session for id_, session in self._sessions.items() if session.expires_at > now}
        while len(self._sessions) >= _MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        id_ = secrets.token_urlsafe(32)
        self._sessions[id_] = _Session(key.id, now + _SESSION_SECONDS)
        return id_

    def end(self, id_: str) -> None:
        self._sessions.pop(id_, None)

    def role(self, id_: str | None) -> Role | None:
        """Return the role of a session, or None if the session is unknown or expired, or if its key was revoked.

        In a service without API keys, every visitor has the admin role.
        """
        if not self._keys.is_required():
            return "admin"
        session = self._sessions.get(id_ or "")
        if session is None or session.expires_at <= time.monotonic():
            return None
        key = self._keys.find(session.key_id)
        return key.role if key and key.collections is None else None


class AccessControl:
    """The rules that allow or reject requests.

    A session cookie allows only read requests. A write request needs an API key in a header. The reason is that a
    page of another site can make a browser send the cookie, but cannot make the browser send an API key.
    """

    def __init__(self, keys: KeyFile, sessions: Sessions) -> None:
        self._keys, self._sessions = keys, sessions

    @property
    def is_open(self) -> bool:
        """Whether the service needs no API key and allows every request."""
        return not self._keys.is_required()

    def key(self, scope: Scope) -> Key | None:
        """Return the API key of a request, or None if the request has no valid key.

        The result is cached in the scope.
        """
        if _KEY not in scope:
            token = _token(Headers(scope=scope))
            scope[_KEY] = self._keys.authenticate(token) if token else None
        key: Key | None = scope[_KEY]
        return key

    def check(self, request: Request, needed: Role, collection: str | None = None) -> None:
        """Raise an error if a request does not have the permissions of the needed role.

        With ``collection``, also raise an error if the key is limited to other collections.
        """
        role = self._role(request)
        if role is None:
            raise self.unauthorized()
        if not allows(role, needed):
            raise ForbiddenError(
                f"This operation needs an API key with the role {needed!r}. The given key has the role {role!r}."
            )

        key = None if collection is None or self.is_open else self.key(request.scope)
        if key is not None and collection is not None and not key.allows_collection(collection):
            raise ForbiddenError(f"{_scope(key)} Got {collection!r} instead.")

    def check_all_collections(self, request: Request) -> None:
        """Raise an error if the key of a request is limited to some collections."""
        key = None if self.is_open else self.key(request.scope)
        if key is not None and key.collections is not None:
            raise ForbiddenError(f"{_scope(key)} This operation shows all collections.")

    def visible(self, request: Request, collections: Sequence[Collection]) -> list[Collection]:
        """Return the collections that the key of a request can use."""
        key = None if self.is_open else self.key(request.scope)
        return [one for one in collections if key is None or key.allows_collection(one.config.name)]

    def max_items(self, request: Request) -> int | None:
        """Return the limit of items of the key of a request, or None if it has no limit."""
        key = None if self.is_open else self.key(request.scope)
        return None if key is None else key.max_items

    def unauthorized(self) -> UnauthorizedError:
        return UnauthorizedError(
            "A valid API key is required in the header 'Authorization: Bearer oahu_...'. "
            "Create a key with `oahu keys add`."
        )

    def _role(self, request: Request) -> Role | None:
        if self.is_open:
            return "admin"
        if _token(request.headers):
            key = self.key(request.scope)
            return key.role if key else None
        if request.method in ("GET", "HEAD"):
            role = self._sessions.role(request.cookies.get(SESSION_COOKIE))
            return "read" if role else None
        return None


def _scope(key: Key) -> str:
    return f"This API key is limited to the collections {', '.join(map(repr, key.collections or ()))}."


def _token(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return (token if scheme.lower() == "bearer" else headers.get("x-api-key", "")).strip()


def get_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def get_access(request: Request) -> AccessControl:
    access: AccessControl = request.app.state.access
    return access


def _require(role: Role) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        get_access(request).check(request, role)

    return check


def _collection_for(role: Role) -> Callable[[Request], Awaitable[Collection]]:
    async def find(request: Request) -> Collection:
        name: str = request.path_params["name"]
        get_access(request).check(request, role, name)
        return get_service(request).collection(name)

    return find


#: Dependencies that only check the role.
RequireRead = Annotated[None, Depends(_require("read"))]
RequireAdmin = Annotated[None, Depends(_require("admin"))]

#: Dependencies that check the role and return the collection in the path.
CollectionForReading = Annotated[Collection, Depends(_collection_for("read"))]
CollectionForFeedback = Annotated[Collection, Depends(_collection_for("feedback"))]
CollectionForAdmin = Annotated[Collection, Depends(_collection_for("admin"))]
