"""What stands before every request: its size and rate, where it comes from, and what is told of it."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Iterator
from itertools import count
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oahu.service.api.access import Access
from oahu.service.api.gauges import Gauges
from oahu.service.api.hosts import is_loopback, name_of
from oahu.service.api.limits import Bodies, GoneError, Rates
from oahu.service.api.problems import problem, problem_of
from oahu.service.errors import ForbiddenError, ServiceError
from oahu.service.settings import Settings

__all__ = ["Guard"]

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS: Final = _SAFE | {"POST", "PUT", "DELETE", "PATCH"}
_API: Final = "/v1/"
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")
_POLICY: Final = (
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
    (b"content-security-policy", _POLICY.encode()),
]

_NO_STORE: Final = (b"cache-control", b"no-store")  # who looks later may not be who asked

log = logging.getLogger("oahu.access")
_errors = logging.getLogger("oahu.service")


class WrongHostError(ServiceError):
    """A request names another machine."""

    status, kind, title = 421, "wrong-host", "The service is not known by that name"


class WrongOriginError(ForbiddenError):
    """A page of another site asks for a change."""

    kind = "wrong-origin"


class Guard:
    """ASGI middleware: request ids, limits, headers, hosts and origins, the access log, unexpected errors."""

    def __init__(self, app: ASGIApp, settings: Settings, access: Access, gauges: Gauges) -> None:
        self._app, self._access, self._gauges = app, access, gauges
        self._own = {settings.host.lower(), *(name.lower() for name in settings.trusted_hosts)}
        self._names_given = bool(settings.trusted_hosts)
        self._ids = _new_ids()
        self._rates = Rates(settings.rate, settings.burst)
        self._bodies = Bodies(settings.max_body, settings.max_buffered)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._talk(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _talk(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(scope, Headers(scope=scope))
        except ServiceError:
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in or not, and tell of it."""
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        scope["oahu_request_id"] = id_ = given if _ID.match(given) else next(self._ids)
        begin, status, waited = time.perf_counter(), 0, 0.0

        async def answer(message: Message) -> None:
            nonlocal status, waited
            if message["type"] == "http.response.start":
                status, waited = message["status"], time.perf_counter() - begin
                message["headers"] = _with_ours(message["headers"], id_, scope["path"])
            await send(message)

        try:
            await self._let_in(scope, headers, receive, answer)
        except ServiceError as error:
            await problem_of(id_, error)(scope, receive, answer)
        except GoneError:
            status = 499  # as nginx has it
        except Exception:
            _errors.exception("request %s failed", id_, extra={"request_id": id_})
            if status:
                raise  # it is half answered: all that is left is to close the connection
            await problem(id_, 500, "internal", "Something went wrong", "See the log, by the request id.")(
                scope, receive, answer
            )
        finally:
            self._tell(scope, status or 500, waited)

    async def _let_in(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        self._check(scope, headers)
        if scope["method"] in _SAFE:
            await self._app(scope, receive, send)
            return
        self._bodies.check(headers.get("content-length", ""))
        async with self._bodies.read(receive) as body:
            await self._app(scope, _replayed(body, receive), send)

    # -- where it comes from, and how often --------------------------------------------------------------

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Raise an error if a request is not to be let in, before anything of it is read."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._known(name_of(host)):
            raise WrongHostError(
                f"Requests are for this machine, not for {host!r}. Other names are set with OAHU_TRUSTED_HOSTS."
            )
        unsafe = scope["type"] == "websocket" or scope["method"] not in _SAFE
        if unsafe and origin is not None and origin.partition("://")[2] != host:
            raise WrongOriginError(f"A page of {origin!r} may not do that here.")
        key = self._access.key(headers)
        self._rates.take(key.id if key else str((scope.get("client") or ("",))[0]))
        if key is None and unsafe and scope["path"].startswith(_API) and not self._access.is_open:
            raise self._access.unauthorized()

    def _known(self, name: str) -> bool:
        """Whether the service is meant: without keys, another name may be a page's that points to this machine."""
        if name in self._own or is_loopback(name):
            return True
        return bool(name) and not self._access.is_open and not self._names_given

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = getattr(scope.get("route"), "path", None) or "other"
        self._gauges.seen(method, route, status, seconds)
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


def _new_ids() -> Iterator[str]:
    """Ids that nobody else gives: the system is asked for random bytes once, not for every request."""
    prefix = secrets.token_hex(8)
    return (f"{prefix}-{number:x}" for number in count(1))


def _with_ours(headers: list[tuple[bytes, bytes]], id_: str, path: str) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, and those that every answer has."""
    own = {name.lower() for name, _ in headers}
    ours = [*_HEADERS, _NO_STORE] if path.startswith(_API) else _HEADERS
    return [*headers, *(pair for pair in ours if pair[0] not in own), (b"x-request-id", id_.encode())]


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What the app receives: the body in one piece, then whatever else comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
