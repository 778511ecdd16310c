"""Middleware that limits the request rate of each client."""

from __future__ import annotations

import time
from collections import OrderedDict
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from oahu.service.api.access import AccessControl
from oahu.service.api.request_info import COUNT_REQUESTS, client_address
from oahu.service.errors import ServiceError
from oahu.service.settings import Settings

__all__ = ["RateLimitMiddleware", "RateLimitedError", "TokenBuckets"]

_MAX_CALLERS: Final = 10_000


class RateLimitedError(ServiceError):
    """The client exceeded the request rate."""

    status, kind, title = 429, "rate-limited", "Too many requests"


class TokenBuckets:
    """One token bucket per client, with at most ``burst`` tokens and ``rate`` new tokens per second.

    A rate of 0 means no limit. ``name`` describes the limit in error messages. Only the buckets of the 10,000 most
    recent clients are kept.
    """

    def __init__(self, rate: float, burst: int, name: str | None = None) -> None:
        self._name = f"{rate:g} requests per second (OAHU_RATE)" if name is None else name
        self._rate, self._burst = rate, float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Take one token from the bucket of a client. Raise `RateLimitedError` if the bucket is empty."""
        if self._rate <= 0:
            return
        now = time.monotonic()
        tokens, updated_at = self._buckets.pop(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - updated_at) * self._rate)
        self._buckets[caller] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._buckets) > _MAX_CALLERS:
            self._buckets.popitem(last=False)
        if tokens < 1:
            wait = (1 - tokens) / self._rate
            raise RateLimitedError(f"Too many requests. The limit is {self._name}.", retry_after=wait)

    def spend(self, caller: str, count: int) -> None:
        """Take ``count`` further tokens for an accepted request. The number of tokens can become negative."""
        tokens, updated_at = self._buckets.get(caller, (self._burst, time.monotonic()))
        self._buckets[caller] = tokens - count, updated_at


class RateLimitMiddleware:
    """Limit the requests per second of each API key, and the requests per minute of keys with such a limit.

    Requests without a key are limited by client address. An operation can count as several requests for the limit
    per minute. It is accepted if at least one request is left, and later requests wait longer.
    """

    def __init__(self, app: ASGIApp, settings: Settings, access: AccessControl) -> None:
        self.app, self._access = app, access
        self._buckets = TokenBuckets(settings.rate, settings.burst)
        self._key_buckets: dict[int, TokenBuckets] = {}  # by requests per minute

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            key = self._access.key(scope)
            if key is not None and (limit := key.requests_per_minute) is not None:
                name = f"{limit} requests per minute, the limit of this API key"
                buckets = self._key_buckets.setdefault(limit, TokenBuckets(limit / 60, limit, name))
                buckets.take(key.id)
                scope[COUNT_REQUESTS] = partial(buckets.spend, key.id)
            self._buckets.take(key.id if key else client_address(scope))
        await self.app(scope, receive, send)
