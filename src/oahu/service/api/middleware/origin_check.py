"""Middleware that rejects write requests from pages of other sites (CSRF protection)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from oahu.service.api.request_info import changes_state
from oahu.service.errors import ForbiddenError

__all__ = ["OriginCheckMiddleware", "WrongOriginError"]


class WrongOriginError(ForbiddenError):
    """The ``Origin`` header contains another site."""

    kind = "wrong-origin"


class OriginCheckMiddleware:
    """Reject requests that may change data if the ``Origin`` header contains another site.

    Browsers send this header with every such request. A page of another site therefore cannot change data with the
    credentials of a logged-in user (CSRF). Programs usually do not send this header and are not affected.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and changes_state(scope):
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
                raise WrongOriginError(
                    f"Requests from pages of other sites are rejected. Got the origin {origin!r}."
                )
        await self.app(scope, receive, send)
