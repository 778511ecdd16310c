"""Middleware that rejects write requests without a valid API key before the request body is read."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from oahu.service.api.access import AccessControl
from oahu.service.api.request_info import changes_state, is_api_request

__all__ = ["AuthenticationMiddleware"]


class AuthenticationMiddleware:
    """Require a valid API key for every API request that may change data.

    This middleware does not check the role of the key. Each operation checks the role later. The early check
    ensures that the service does not read or parse the body of a request without a key.
    """

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self.app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        needs_key = scope["type"] in ("http", "websocket") and changes_state(scope) and is_api_request(scope)
        if needs_key and not self._access.is_open and self._access.key(scope) is None:
            raise self._access.unauthorized()
        await self.app(scope, receive, send)
