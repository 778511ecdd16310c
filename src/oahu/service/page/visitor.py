"""The visitor of a page, with a session and a role."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastapi import Request
from starlette.requests import HTTPConnection

from oahu.service.api.access import SESSION_COOKIE, Sessions
from oahu.service.errors import ForbiddenError, UnauthorizedError
from oahu.service.keys import KeyFile, Role, allows
from oahu.service.service import Service

__all__ = ["FEEDBACK_ROLE_REQUIRED", "Visitor"]

FEEDBACK_ROLE_REQUIRED = "Your API key is read-only. Feedback needs a key with the feedback role."

_SCOPE_ENTRY = "oahu_visitor"


@dataclass(frozen=True)
class Visitor:
    """A browser that uses the page.

    The role is looked up at every action, because API keys can be revoked at any time.
    """

    service: Service
    keys: KeyFile
    sessions: Sessions
    session: str | None = None

    @property
    def role(self) -> Role | None:
        """The role of the visitor's session, or None without a valid session."""
        return self.sessions.role(self.session)

    def may(self, needed: Role) -> bool:
        """Return whether the visitor has the permissions of a role."""
        role = self.role
        return role is not None and allows(role, needed)

    def check(self, needed: Role) -> None:
        """Raise an error if the visitor does not have the permissions of a role."""
        if self.role is None:
            raise UnauthorizedError("Log in with an API key.")
        if not self.may(needed):
            raise ForbiddenError(FEEDBACK_ROLE_REQUIRED)

    def of_connection(self, connection: HTTPConnection) -> Visitor:
        """Return the visitor with the session of a connection."""
        return replace(self, session=connection.cookies.get(SESSION_COOKIE))

    def attach(self, connection: HTTPConnection) -> None:
        """Store the visitor in the scope of a connection. `Visitor.of` reads the visitor from the scope."""
        connection.scope[_SCOPE_ENTRY] = self

    @staticmethod
    def of(request: Request) -> Visitor:
        """Return the visitor that was attached to a request."""
        visitor: Visitor = request.scope[_SCOPE_ENTRY]
        return visitor
