"""Who looks at the page, and what they may do there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastapi import Request
from starlette.requests import HTTPConnection

from oahu.service.api.access import SESSION_COOKIE, Sessions
from oahu.service.errors import ForbiddenError, UnauthorizedError
from oahu.service.keys import KeyFile, Role, allows
from oahu.service.service import Service

__all__ = ["WHY", "Visit"]

#: What is said where something is not allowed.
WHY = "Your key lets you look and search. Saying what is alike needs a key of role feedback."

_SCOPE = "oahu_visit"


@dataclass(frozen=True)
class Visit:
    """A browser that looks at a service. What it may do is asked whenever it does something: keys come and go."""

    service: Service
    keys: KeyFile
    sessions: Sessions
    session: str | None = None

    @property
    def role(self) -> Role | None:
        return self.sessions.role(self.session)

    def may(self, needed: Role) -> bool:
        role = self.role
        return role is not None and allows(role, needed)

    def check(self, needed: Role) -> None:
        """Raise an error if the visitor may not do something."""
        if self.role is None:
            raise UnauthorizedError("Log in with a key.")
        if not self.may(needed):
            raise ForbiddenError(WHY)

    def by(self, connection: HTTPConnection) -> Visit:
        """The visit of whoever is at the other end."""
        return replace(self, session=connection.cookies.get(SESSION_COOKIE))

    def enter(self, connection: HTTPConnection) -> None:
        """Go with a request to where it is answered."""
        connection.scope[_SCOPE] = self

    @staticmethod
    def of(request: Request) -> Visit:
        """The visit that a request belongs to."""
        visit: Visit = request.scope[_SCOPE]
        return visit
