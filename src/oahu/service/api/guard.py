"""What stands before every request: its size and rate, where it comes from, and what is told of it."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections import OrderedDict
from typing import Any, Final

from fastapi.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oahu.service.api.gauges import Gauges
from oahu.service.api.problems import problem
from oahu.service.keys import KeyFile
from oahu.service.settings import Settings

__all__ = ["Guard", "is_loopback"]

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_CALLERS: Final = 10_000  # whose rates are kept
_PATIENCE: Final = 60.0  # seconds that a body may take to arrive
_ID: Final = re.compile(r"[\w.:-]{1,64}\Z")
_POLICY: Final = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; connect-src 'self' ws: wss:; font-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'self'; form-action 'self'; object-src 'none'"
)
_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _POLICY.encode()),
]

log = logging.getLogger("oahu.access")


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    return host in _LOOPBACK or host.startswith("127.")


class Guard:
    """ASGI middleware: request ids, limits, headers, hosts and origins, the access log."""

    def __init__(self, app: ASGIApp, settings: Settings, keys: KeyFile, gauges: Gauges) -> None:
        self._app, self._settings, self._keys, self._gauges = app, settings, keys, gauges
        self._rates: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get("x-request-id", "")
        scope["oahu_request_id"] = given if _ID.match(given) else uuid.uuid4().hex
        refused = self._refused(scope, headers)
        if scope["type"] == "websocket":
            if refused is not None:
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                more = [pair for pair in _HEADERS if pair[0] not in own]
                message["headers"] = [
                    *message["headers"],
                    *more,
                    (b"x-request-id", scope["oahu_request_id"].encode()),
                ]
            await send(message)

        try:
            if refused is not None:
                await refused(scope, receive, answer)
            elif scope["method"] in _SAFE:
                await self._app(scope, receive, answer)
            else:
                await self._with_body(scope, receive, answer, headers)
        finally:
            self._tell(scope, status, time.perf_counter() - begin)

    # -- where it comes from, and how often --------------------------------------------------------------

    def _refused(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        """The answer to a request that is not let in."""
        id_ = scope["oahu_request_id"]
        host = headers.get("host", "")
        if not self._known(host):
            return problem(
                id_,
                421,
                "wrong-host",
                "The service is not known by that name",
                f"Requests are for this machine, not for {host!r}. Other names are set with OAHU_TRUSTED_HOSTS.",
            )
        origin = headers.get("origin")
        unsafe = scope["type"] == "websocket" or scope["method"] not in _SAFE
        if unsafe and origin is not None and origin.partition("://")[2] != host:
            return problem(
                id_, 403, "wrong-origin", "That is not allowed", f"A page of {origin!r} may not do that here."
            )
        wait = self._too_often(self._caller(scope, headers))
        if wait > 0:
            rate = self._settings.rate
            return problem(
                id_, 429, "too-often", "Too many requests", f"{rate:g} requests a second are allowed.", wait
            )
        return None

    def _known(self, host: str) -> bool:
        """Whether the service is meant: without keys, another name may be a page's that points to this machine."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        name = name.strip("[]").lower()
        trusted = self._settings.trusted_hosts
        if name in trusted or name == self._settings.host.lower():
            return True
        return is_loopback(name) if not self._keys.needed or trusted else bool(name)

    def _caller(self, scope: Scope, headers: dict[str, str]) -> str:
        token = headers.get("authorization", "").removeprefix("Bearer ") or headers.get("x-api-key", "")
        key = self._keys.check(token) if token else None
        return key.id if key else str((scope.get("client") or ("",))[0])

    def _too_often(self, caller: str) -> float:
        """How long to wait, in seconds: a bucket of ``burst`` tokens that fills at ``rate``."""
        rate, burst = self._settings.rate, self._settings.burst
        if rate <= 0:
            return 0.0
        now = time.monotonic()
        tokens, then = self._rates.pop(caller, (float(burst), now))
        tokens = min(float(burst), tokens + (now - then) * rate)
        self._rates[caller] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._rates) > _CALLERS:
            self._rates.popitem(last=False)
        return 0.0 if tokens >= 1 else (1 - tokens) / rate

    # -- how large it is ---------------------------------------------------------------------------------

    async def _with_body(self, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]) -> None:
        """Read the body, as far as it may go, then let the app have it."""
        most, id_ = self._settings.max_body, scope["oahu_request_id"]
        too_large = problem(
            id_, 413, "too-large", "The request is too large", f"A request may have {most} bytes. Send it in parts."
        )
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > most:
            await too_large(scope, receive, send)
            return
        body, size = bytearray(), 0
        try:
            while True:
                message = await asyncio.wait_for(receive(), _PATIENCE)
                if message["type"] != "http.request":
                    return  # whoever asked is gone
                body += message.get("body", b"")
                self._buffered += len(body) - size
                size = len(body)
                if size > most:
                    await too_large(scope, receive, send)
                    return
                if self._buffered > self._settings.max_buffered:
                    busy = "Too much is being received at once."
                    await problem(id_, 503, "overloaded", "The service is busy", busy, 1)(scope, receive, send)
                    return
                if not message.get("more_body"):
                    break
            await self._app(scope, _replayed(bytes(body), receive), send)
        except TimeoutError:
            late = "The body did not arrive in time."
            await problem(id_, 400, "too-slow", "The request took too long", late)(scope, receive, send)
        finally:
            self._buffered -= size

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        self._gauges.seen(scope["method"], route, status, seconds)
        log.info(
            "%s %s %d",
            scope["method"],
            scope["path"],
            status,
            extra={
                "request_id": scope["oahu_request_id"],
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "milliseconds": round(seconds * 1e3, 2),
                "client": (scope.get("client") or ("",))[0],
            },
        )


def _replayed(body: bytes, receive: Receive) -> Any:
    """What the app receives: the body in one piece, then whatever else comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
