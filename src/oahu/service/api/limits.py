"""How much a caller may send, and how often."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import Receive

from oahu.service.errors import OverloadedError, ServiceError

__all__ = ["Bodies", "GoneError", "Rates", "TooLargeError", "TooOftenError", "TooSlowError"]

_CALLERS: Final = 10_000  # whose rates are kept
_PATIENCE: Final = 60.0  # seconds that a body may take to arrive


class TooOftenError(ServiceError):
    """More requests came than may come."""

    status, kind, title = 429, "too-often", "Too many requests"


class TooLargeError(ServiceError):
    """A body has more bytes than it may."""

    status, kind, title = 413, "too-large", "The request is too large"


class TooSlowError(ServiceError):
    """A body did not arrive in time."""

    status, kind, title = 408, "too-slow", "The request took too long"


class GoneError(Exception):
    """Whoever asked is gone: nobody waits for an answer."""


class Rates:
    """A bucket of ``burst`` tokens for every caller, filled at ``rate`` tokens a second; 0 is without limit."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Take a token of a caller's, or raise `TooOftenError`."""
        if self._rate <= 0:
            return
        now = time.monotonic()
        tokens, then = self._buckets.pop(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        self._buckets[caller] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._buckets) > _CALLERS:
            self._buckets.popitem(last=False)
        if tokens < 1:
            wait = (1 - tokens) / self._rate
            raise TooOftenError(f"{self._rate:g} requests a second are allowed.", retry_after=wait)


class Bodies:
    """Reads bodies: each up to ``most`` bytes, all that are held at a time up to ``together``."""

    def __init__(self, most: int, together: int) -> None:
        self._most, self._together = most, together
        self._held = 0

    def check(self, length: str) -> None:
        """Refuse a body by the length that it says it has, before any of it is read."""
        if length.isdecimal() and int(length[:20]) > self._most:
            raise self._too_large()

    @asynccontextmanager
    async def read(self, receive: Receive) -> AsyncIterator[bytes]:
        """A body, whole; it is counted as long as the request goes on."""
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(_PATIENCE):
                    while await self._more(body, receive):
                        pass
            except TimeoutError:
                raise TooSlowError(f"The body did not arrive within {_PATIENCE:g} seconds.") from None
            yield bytes(body)
        finally:
            self._held -= len(body)

    async def _more(self, body: bytearray, receive: Receive) -> bool:
        """Read what has arrived; whether more is to come."""
        message = await receive()
        if message["type"] != "http.request":
            raise GoneError
        some = message.get("body", b"")
        body += some
        self._held += len(some)
        if len(body) > self._most:
            raise self._too_large()
        if self._held > self._together:
            raise OverloadedError("Too much is being received at once.", retry_after=1)
        return bool(message.get("more_body"))

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"A request may have {self._most} bytes (OAHU_MAX_BODY). Send it in parts.")
