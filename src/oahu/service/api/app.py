"""The service as an ASGI application: operations, health checks, Prometheus metrics and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from oahu.service.api.access import AccessControl, Sessions
from oahu.service.api.hosts import public_setting
from oahu.service.api.middleware import middleware_stack
from oahu.service.api.monitoring import PrometheusMetrics
from oahu.service.api.problems import Problem, handle_problems
from oahu.service.api.routes import ROUTERS
from oahu.service.keys import KeyFile
from oahu.service.service import Service
from oahu.service.settings import Settings
from oahu.version import __version__

__all__ = ["create_app"]

_SUMMARY = "Similarity search that learns from feedback."


def create_app(settings: Settings) -> FastAPI:
    """Return the application.

    This function locks the data folder. The collections are loaded later, when the server starts the application.
    """
    keys = KeyFile(settings.data, always=public_setting(settings) is not None)
    keys.all()  # raises an error for an invalid key file before the service starts
    service, sessions = Service(settings), Sessions(keys)
    access, metrics = AccessControl(keys, sessions), PrometheusMetrics(service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if not app.state.is_open:
            await to_thread.run_sync(service.open)
        try:
            yield
        finally:
            await to_thread.run_sync(service.close)

    app = FastAPI(
        title="oahu",
        summary=_SUMMARY,
        version=__version__,
        lifespan=lifespan,
        middleware=middleware_stack(settings, access, metrics),
        openapi_url="/v1/openapi.json",
        docs_url=None,  # FastAPI's documentation pages load scripts from another site; /v1/docs does not
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service, app.state.access, app.state.sessions, app.state.metrics = service, access, sessions, metrics
    app.state.is_open = False
    app.state.running_searches = app.state.open_streams = 0
    handle_problems(app)
    for router in ROUTERS:
        app.include_router(router)
    _extend_schema(app)
    if settings.page:
        from oahu.service.page import mount

        mount(app, service, keys, sessions)
    return app


def _extend_schema(app: FastAPI) -> None:
    """Add the format of error responses and the API key header to the OpenAPI schema."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            components = schema.setdefault("components", {})
            components.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"key": []}, {}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
