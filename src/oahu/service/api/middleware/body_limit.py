"""Middleware that reads request bodies and limits their size, their transfer time and their total memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oahu.service.api.request_info import changes_state
from oahu.service.errors import OverloadedError, ServiceError
from oahu.service.settings import Settings

__all__ = ["BodyLimitMiddleware", "BodyReader", "BodyTimeoutError", "BodyTooLargeError"]

_BODY_TIMEOUT: Final = 60.0  # seconds


class BodyTooLargeError(ServiceError):
    """A request body exceeds the size limit."""

    status, kind, title = 413, "too-large", "Request body too large"


class BodyTimeoutError(ServiceError):
    """A request body did not arrive in time."""

    status, kind, title = 408, "timeout", "Request body timed out"


class BodyReader:
    """A reader for request bodies of up to ``max_body`` bytes each and ``max_buffered`` bytes in total."""

    def __init__(self, max_body: int, max_buffered: int) -> None:
        self._max_body, self._max_buffered = max_body, max_buffered
        self._buffered = 0

    def check_length(self, content_length: str) -> None:
        """Raise an error if the ``Content-Length`` header exceeds the limit.

        The caller calls this method before it reads the body.
        """
        if content_length.isdecimal() and int(content_length[:20]) > self._max_body:
            raise self._too_large()

    @asynccontextmanager
    async def read(self, receive: Receive) -> AsyncIterator[bytes]:
        """Yield the complete body. The body counts towards ``max_buffered`` until the ``with`` block ends."""
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(_BODY_TIMEOUT):
                    while await self._read_chunk(body, receive):
                        pass
            except TimeoutError:
                raise BodyTimeoutError(
                    f"The request body did not arrive within {_BODY_TIMEOUT:g} seconds."
                ) from None
            yield bytes(body)
        finally:
            self._buffered -= len(body)

    async def _read_chunk(self, body: bytearray, receive: Receive) -> bool:
        """Append the next chunk to ``body``. Return whether more chunks follow."""
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        body += chunk
        self._buffered += len(chunk)
        if len(body) > self._max_body:
            raise self._too_large()
        if self._buffered > self._max_buffered:
            raise OverloadedError(
                "The request bodies in memory exceed the limit (OAHU_MAX_BUFFERED). Send the request again later.",
                retry_after=1,
            )
        return bool(message.get("more_body"))

    def _too_large(self) -> BodyTooLargeError:
        return BodyTooLargeError(
            f"A request body must have at most {self._max_body} bytes (OAHU_MAX_BODY). Split the request into "
            "smaller requests."
        )


class BodyLimitMiddleware:
    """Read the body of a request that may change data, and pass the body to the application in one message.

    A request with a safe method (such as GET) is passed on unchanged, because its response can be a long stream.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self._reader = BodyReader(settings.max_body, settings.max_buffered)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not changes_state(scope):
            await self.app(scope, receive, send)
            return
        self._reader.check_length(Headers(scope=scope).get("content-length", ""))
        async with self._reader.read(receive) as body:
            await self.app(scope, _receive_body(body, receive), send)


def _receive_body(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI ``receive`` function that first returns the body, and then messages from ``receive``."""
    pending: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def receive_again() -> Message:
        nonlocal pending
        if pending is None:
            return await receive()
        message, pending = pending, None
        return message

    return receive_again
