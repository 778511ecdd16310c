"""Middleware that turns middleware errors and unhandled exceptions into error responses."""

from __future__ import annotations

import logging

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oahu.service.api.problems import problem, service_problem
from oahu.service.api.request_info import request_id
from oahu.service.errors import ServiceError

__all__ = ["ErrorResponseMiddleware"]

_POLICY_VIOLATION = 1008  # WebSocket close code

log = logging.getLogger("oahu.service")


class ErrorResponseMiddleware:
    """Send the problem details of a `ServiceError` as the response. For any other error, send the status 500.

    If the connection is a WebSocket, close it instead. The details of an unexpected error are logged, but never
    sent to the client.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            try:
                await self.app(scope, receive, send)
            except ServiceError:
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_and_record_start(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        id_ = request_id(scope)
        try:
            await self.app(scope, receive, send_and_record_start)
        except ClientDisconnect:
            raise
        except ServiceError as error:
            if started:
                raise
            await service_problem(id_, error)(scope, receive, send)
        except Exception:
            log.exception("request %s failed", id_, extra={"request_id": id_})
            if started:
                raise  # the server closes the connection
            response = problem(
                id_, 500, "internal", "Internal error", f"Internal error. See the service log for request {id_}."
            )
            await response(scope, receive, send)
