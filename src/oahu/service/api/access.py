"""Who asks, and whether they may."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.datastructures import Headers

from oahu.service.collection import Collection
from oahu.service.errors import ForbiddenError, UnauthorizedError
from oahu.service.keys import Key, KeyFile, Role, allows
from oahu.service.service import Service

__all__ = ["COOKIE", "Access", "Admin", "MayChange", "MayRead", "Reader", "Sayer", "Sessions", "service_of"]

COOKIE: Final = "oahu_session"
_LASTS: Final = 12 * 3600.0  # seconds
_MOST: Final = 1_000


class Sessions:
    """Who has logged in at the page: a random name in a cookie, for a key that was shown once."""

    def __init__(self, keys: KeyFile) -> None:
        self._keys = keys
        self._sessions: dict[str, tuple[str, float]] = {}

    def begin(self, token: str) -> str | None:
        """A new session for a key, if it is one."""
        key = self._keys.check(token)
        if key is None:
            return None
        now = time.monotonic()
        self._sessions = {one: told for one, told in self._sessions.items() if told[1] > now}
        while len(self._sessions) >= _MOST:
            self._sessions.pop(next(iter(self._sessions)))
        name = secrets.token_urlsafe(32)
        self._sessions[name] = key.id, now + _LASTS
        return name

    def end(self, name: str) -> None:
        self._sessions.pop(name, None)

    def role(self, name: str | None) -> Role | None:
        """What the holder of a session may do; everything if there are no keys, nothing if the key is gone."""
        if not self._keys.needed:
            return "admin"
        id_, until = self._sessions.get(name or "", ("", 0.0))
        key = self._keys.still(id_) if until > time.monotonic() else None
        return key.role if key else None


class Access:
    """Whether a request may do something. Sessions only let look: what changes something needs a key in its header,
    which no other site can send."""

    def __init__(self, keys: KeyFile, sessions: Sessions) -> None:
        self._keys, self._sessions = keys, sessions

    @property
    def is_open(self) -> bool:
        """Whether everyone may do everything."""
        return not self._keys.needed

    def key(self, headers: Headers) -> Key | None:
        """The key that a request shows, if it is one."""
        token = _token(headers)
        return self._keys.check(token) if token else None

    def check(self, request: Request, needed: Role) -> None:
        """Raise an error if a request may not do what needs a role."""
        role = self._role(request)
        if role is None:
            raise self.unauthorized()
        if not allows(role, needed):
            raise ForbiddenError(f"That needs a key of role {needed!r}; this one is {role!r}.")

    def unauthorized(self) -> UnauthorizedError:
        return UnauthorizedError("Send a key as 'Authorization: Bearer oahu_...'. `oahu keys add` makes one.")

    def _role(self, request: Request) -> Role | None:
        if self.is_open:
            return "admin"
        if _token(request.headers):
            key = self.key(request.headers)
            return key.role if key else None
        if request.method in ("GET", "HEAD"):
            role = self._sessions.role(request.cookies.get(COOKIE))
            return "read" if role else None
        return None


def _token(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return (token if scheme.lower() == "bearer" else headers.get("x-api-key", "")).strip()


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _may(role: Role) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        access: Access = request.app.state.access
        access.check(request, role)

    return check


def _of(role: Role) -> Callable[[Request], Awaitable[Collection]]:
    may = _may(role)

    async def check(request: Request) -> Collection:
        await may(request)
        return service_of(request).collection(request.path_params["name"])

    return check


#: Nothing but a check: for who may look, or change everything.
MayRead = Annotated[None, Depends(_may("read"))]
MayChange = Annotated[None, Depends(_may("admin"))]

#: The collection that a path names, for who may read, say what is alike, or change everything.
Reader = Annotated[Collection, Depends(_of("read"))]
Sayer = Annotated[Collection, Depends(_of("feedback"))]
Admin = Annotated[Collection, Depends(_of("admin"))]
