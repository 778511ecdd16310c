"""The application: the operations, health, gauges, and the page if it is wanted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi

from oahu.service.api.access import Access, Reader, Sessions
from oahu.service.api.gauges import Gauges
from oahu.service.api.guard import Guard
from oahu.service.api.problems import RESPONSES, Problem, handle_problems
from oahu.service.api.routes import router
from oahu.service.keys import KeyFile
from oahu.service.service import Service
from oahu.service.settings import Settings
from oahu.version import __version__

__all__ = ["create_app"]

_SUMMARY = "Search that learns from every click."


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application. It takes the folder at once, and opens it when it starts."""
    service, keys = Service(settings), KeyFile(settings.data)
    sessions = Sessions(keys)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
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
        openapi_url="/v1/openapi.json",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
    )
    gauges = Gauges(service)
    app.state.service, app.state.access, app.state.sessions = service, Access(keys, sessions), sessions
    app.state.asking = app.state.streams = 0
    handle_problems(app)
    app.include_router(router)
    _add_health(app, service, gauges)
    _add_problem_schema(app)
    if settings.page:
        from oahu.service.page import mount

        mount(app, service, keys, sessions)
    app.add_middleware(Guard, settings=settings, keys=keys, gauges=gauges)
    return app


def _add_health(app: FastAPI, service: Service, gauges: Gauges) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthy() -> dict[str, str]:
        """Whether the process is alive."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"], responses={503: {"description": "Not ready", **_READY}})
    async def ready(response: Response) -> dict[str, Any]:
        """Whether all collections are open and all learners well."""
        if not service.is_ready:
            response.status_code = 503
        return {
            "ready": service.is_ready,
            "collections": {one.config.name: one.is_healthy for one in service.collections},
        }

    @app.get(
        "/metrics",
        tags=["health"],
        response_class=Response,
        responses=RESPONSES | {200: {"content": {"text/plain": {}}, "description": "For Prometheus."}},
    )
    def metrics(request: Request, access: Reader) -> Response:
        """Gauges in the format that Prometheus reads."""
        return Response(gauges.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


_READY: dict[str, Any] = {"content": {"application/json": {"schema": {"type": "object"}}}}


def _add_problem_schema(app: FastAPI) -> None:
    """Describe problems once, and how to show a key."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            parts = made.setdefault("components", {})
            parts.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
            parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            made["security"] = [{"key": []}, {}]
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]
