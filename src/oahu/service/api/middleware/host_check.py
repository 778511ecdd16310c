"""Middleware that rejects requests with an unknown host name."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from oahu.service.api.access import AccessControl
from oahu.service.api.hosts import host_name, is_loopback
from oahu.service.errors import ServiceError
from oahu.service.settings import Settings

__all__ = ["HostCheckMiddleware", "WrongHostError"]


class WrongHostError(ServiceError):
    """The host name in the ``Host`` header is not a name of this service."""

    status, kind, title = 421, "wrong-host", "Unknown host name"


class HostCheckMiddleware:
    """Reject requests with an unknown host name in the ``Host`` header.

    This prevents DNS rebinding: the host name of another web site can point to this machine, and scripts of that
    site could then use a service without API keys. If the service has API keys, every host name is accepted, unless
    OAHU_TRUSTED_HOSTS is set.
    """

    def __init__(self, app: ASGIApp, settings: Settings, access: AccessControl) -> None:
        self.app, self._access = app, access
        self._names = {settings.host.lower(), *(name.lower() for name in settings.trusted_hosts)}
        self._has_trusted_hosts = bool(settings.trusted_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            host = Headers(scope=scope).get("host", "")
            if not self._is_accepted(host_name(host)):
                raise WrongHostError(
                    f"The Host header {host!r} is not a known name of this service. Add the name to "
                    "OAHU_TRUSTED_HOSTS."
                )
        await self.app(scope, receive, send)

    def _is_accepted(self, name: str) -> bool:
        if name in self._names or is_loopback(name):
            return True
        return bool(name) and not self._access.is_open and not self._has_trusted_hosts
