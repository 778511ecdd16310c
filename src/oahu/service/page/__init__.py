"""The web page for searches, feedback and the state of the metric. The page runs in the process of the service."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from oahu.service.api.access import Sessions
from oahu.service.keys import KeyFile
from oahu.service.page import collection_page, home_page  # noqa: F401 - importing them registers the pages
from oahu.service.page.layout import ICON, not_found_page
from oahu.service.page.login import add_login, redirect_to_login
from oahu.service.page.visitor import Visitor
from oahu.service.service import Service

__all__ = ["mount"]

_STATIC_FILES: Final = "/_nicegui/"
_SOCKET: Final = "/_nicegui_ws/"
_RECONNECT_SECONDS: Final = 3.0


def mount(app: FastAPI, service: Service, keys: KeyFile, sessions: Sessions) -> None:
    """Add the web page to the application of the service.

    The routes of the HTTP API have precedence over the page.
    """
    visitor = Visitor(service, keys, sessions)
    add_login(app, visitor)
    app.router.lifespan_context = _with_page_lifespan(app.router.lifespan_context)
    app.router.default = _PageRouter(app.router.default, visitor)


def _with_page_lifespan(service_lifespan: Any) -> Any:
    """Return a lifespan that starts the page after the service and stops the page before the service."""
    nicegui_app.user_middleware.clear()  # remove the middleware of an earlier application in the same process
    nicegui_app.middleware_stack = None
    ui.run_with(
        FastAPI(),  # NiceGUI would mount itself before our routes; `_PageRouter` forwards to it instead
        title="oahu",
        favicon=ICON,
        language="en-US",
        dark=None,
        tailwind=False,
        reconnect_timeout=_RECONNECT_SECONDS,
        binding_refresh_interval=None,
        show_welcome_message=False,
        cache_control_directives="public, max-age=86400",
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with service_lifespan(app) as state, nicegui_app.router.lifespan_context(nicegui_app):
            yield state

    return lifespan


class _PageRouter:
    """A router that forwards page requests to NiceGUI. Visitors without the read role are redirected to the login.

    Parameters
    ----------
    fallback : ASGI application
        The application that handles all other requests.
    """

    def __init__(self, fallback: ASGIApp, visitor: Visitor) -> None:
        self._fallback, self._visitor = fallback, visitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        visitor = self._visitor.of_connection(connection)
        path: str = scope["path"]
        if path.startswith(_STATIC_FILES):
            await nicegui_app(scope, receive, send)
        elif path.startswith(_SOCKET) or (scope["type"] == "http" and _is_page(path)):
            if visitor.role is not None:
                visitor.attach(connection)
                await nicegui_app(scope, receive, send)
            elif scope["type"] == "http":
                await redirect_to_login(_path_with_query(scope))(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http" and _accepts_html(connection):
            await not_found_page("This page does not exist.")(scope, receive, send)
        else:
            await self._fallback(scope, receive, send)


def _is_page(path: str) -> bool:
    return path in ("/", "/favicon.ico") or re.fullmatch("/collections/[^/]+", path) is not None


def _accepts_html(connection: HTTPConnection) -> bool:
    """Return whether a request comes from a browser and its path is outside the HTTP API."""
    return not connection.url.path.startswith("/v1") and "text/html" in connection.headers.get("accept", "")


def _path_with_query(scope: Scope) -> str:
    query: str = scope["query_string"].decode("latin-1")
    return quote(scope["path"]) + (f"?{query}" if query else "")
