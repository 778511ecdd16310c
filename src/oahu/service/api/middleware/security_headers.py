"""Middleware that adds security headers to every response."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oahu.service.api.request_info import is_api_request

__all__ = ["SecurityHeadersMiddleware"]

_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; connect-src 'self'; font-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'self'; form-action 'self'; object-src 'none'"
)
_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
]
# The API forbids caching, because another user of the same cache may not have an API key.
_API_HEADERS: Final = [*_HEADERS, (b"cache-control", b"no-store")]


class SecurityHeadersMiddleware:
    """Add security headers to every response, and ``Cache-Control: no-store`` to responses of the API.

    Headers that the application has already set are not changed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        extra = _API_HEADERS if is_api_request(scope) else _HEADERS

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in extra if pair[0] not in present)]
            await send(message)

        await self.app(scope, receive, send_with_headers)
