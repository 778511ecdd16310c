"""The page: a gallery that one can search, teach and watch, in the same process as the service."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

from fastapi import FastAPI
from nicegui import app as pages
from nicegui import ui
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from oahu.service.api.access import Sessions
from oahu.service.keys import KeyFile
from oahu.service.page import collection_page, home_page  # noqa: F401 - they are pages
from oahu.service.page.layout import ICON, missing
from oahu.service.page.login import add_login, to_login
from oahu.service.page.visitor import Visit
from oahu.service.service import Service

__all__ = ["mount"]

_FILES: Final = "/_nicegui/"  # scripts and styles, the same for everyone
_SOCKET: Final = "/_nicegui_ws/"
_NEXT: Final = 3.0  # seconds in which a browser may come back to its page


def mount(app: FastAPI, service: Service, keys: KeyFile, sessions: Sessions) -> None:
    """Put the page before the service: what is no operation of its interface is for the page."""
    visit = Visit(service, keys, sessions)
    add_login(app, visit)
    app.router.lifespan_context = _living(app.router.lifespan_context)
    app.router.default = _Door(app.router.default, visit)


def _living(service_lives: Any) -> Any:
    """The page lives while the service does: it begins after it, and ends before."""
    pages.user_middleware.clear()  # of an application before this one, in the same process
    pages.middleware_stack = None
    ui.run_with(
        FastAPI(),  # it would mount all of its own before ours; here the door decides what it gets
        title="oahu",
        favicon=ICON,
        language="en-US",
        dark=None,
        tailwind=False,
        reconnect_timeout=_NEXT,
        binding_refresh_interval=None,
        show_welcome_message=False,
        cache_control_directives="public, max-age=86400",
    )

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[Any]:
        async with service_lives(app) as state, pages.router.lifespan_context(pages):
            yield state

    return living


class _Door:
    """Lets requests through to the page: of who may look, for what is there."""

    def __init__(self, otherwise: ASGIApp, visit: Visit) -> None:
        self._otherwise, self._visit = otherwise, visit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        visit = self._visit.by(connection)
        path: str = scope["path"]
        if path.startswith(_FILES):
            await pages(scope, receive, send)
        elif path.startswith(_SOCKET) or (scope["type"] == "http" and _is_page(path)):
            if visit.role is not None:
                visit.enter(connection)
                await pages(scope, receive, send)
            elif scope["type"] == "http":
                await to_login(_asked(scope))(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http" and _by_browser(connection):
            await missing("There is no such page.")(scope, receive, send)
        else:
            await self._otherwise(scope, receive, send)


def _is_page(path: str) -> bool:
    return path in ("/", "/favicon.ico") or re.fullmatch("/collections/[^/]+", path) is not None


def _by_browser(connection: HTTPConnection) -> bool:
    """Whether a person is to read the answer, not a program."""
    return not connection.url.path.startswith("/v1") and "text/html" in connection.headers.get("accept", "")


def _asked(scope: Scope) -> str:
    query: str = scope["query_string"].decode("latin-1")
    return quote(scope["path"]) + (f"?{query}" if query else "")
