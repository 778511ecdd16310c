"""Middleware that gives every request an id."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from itertools import count
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oahu.service.api.request_info import REQUEST_ID

__all__ = ["RequestIdMiddleware"]

_VALID_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")


class RequestIdMiddleware:
    """Take the request id from the ``X-Request-ID`` header, or create an id. Send the id with the response.

    The log and error responses contain the same id. An id from a client is replaced if it has more than 64
    characters, or if it contains characters other than letters, digits and ``_.:-``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._new_ids = _unique_ids()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        sent_id = Headers(scope=scope).get("x-request-id", "")
        id_ = sent_id if _VALID_ID.match(sent_id) else next(self._new_ids)
        scope[REQUEST_ID] = id_

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-request-id", id_.encode())]
            await send(message)

        await self.app(scope, receive, send_with_id)


def _unique_ids() -> Iterator[str]:
    """Yield ids that consist of a random prefix and a counter.

    A counter is cheaper than new random bytes for every request.
    """
    prefix = secrets.token_hex(8)
    return (f"{prefix}-{number:x}" for number in count(1))
