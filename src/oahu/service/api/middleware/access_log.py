"""Middleware that logs and measures every request."""

from __future__ import annotations

import logging
import time
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oahu.service.api.monitoring import PrometheusMetrics
from oahu.service.api.request_info import SAFE_METHODS, client_address, request_id

__all__ = ["AccessLogMiddleware"]

_KNOWN_METHODS: Final = SAFE_METHODS | {"POST", "PUT", "DELETE", "PATCH"}
_CLIENT_CLOSED_REQUEST: Final = 499  # the status that nginx uses

log = logging.getLogger("oahu.access")


class AccessLogMiddleware:
    """Write one log line for each request, and measure the time until the response starts."""

    def __init__(self, app: ASGIApp, metrics: PrometheusMetrics) -> None:
        self.app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started_at, status, seconds = time.perf_counter(), 500, 0.0

        async def send_and_record_status(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.perf_counter() - started_at
            await send(message)

        try:
            await self.app(scope, receive, send_and_record_status)
        except ClientDisconnect:
            status = _CLIENT_CLOSED_REQUEST
        finally:
            self._record(scope, status, seconds)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # Unknown methods and paths share one label, so that clients cannot create new time series.
        method = scope["method"] if scope["method"] in _KNOWN_METHODS else "other"
        route = getattr(scope.get("route"), "path", None) or "other"
        self._metrics.observe_request(method, route, status, seconds)
        log.info(
            "%s %s %d",
            scope["method"],
            scope["path"],
            status,
            extra={
                "request_id": request_id(scope),
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "milliseconds": round(seconds * 1e3, 2),
                "client": client_address(scope),
            },
        )
