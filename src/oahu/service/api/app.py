"""The application: the operations, health, gauges, and the page if it is wanted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from anyio import to_thread
from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from oahu.service.api.access import Access, MayRead, Sessions
from oahu.service.api.gauges import Gauges
from oahu.service.api.guard import Guard
from oahu.service.api.hosts import how_others_reach
from oahu.service.api.problems import RESPONSES, Problem, handle_problems
from oahu.service.api.routes import ROUTERS
from oahu.service.errors import ServiceError
from oahu.service.keys import KeyFile
from oahu.service.service import Service
from oahu.service.settings import Settings
from oahu.version import __version__

__all__ = ["create_app"]

_SUMMARY = "Search that learns from every click."


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application. It takes the folder at once, and opens it when it starts."""
    keys = KeyFile(settings.data, always=how_others_reach(settings) is not None)
    keys.all()  # a file that cannot be read is told now
    service, sessions = Service(settings), Sessions(keys)
    access = Access(keys, sessions)

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
        openapi_url="/v1/openapi.json",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # one address for one thing
    )
    gauges = Gauges(service)
    app.state.service, app.state.access, app.state.sessions = service, access, sessions
    app.state.is_open = False
    app.state.asking = app.state.streams = 0
    handle_problems(app)
    for router in ROUTERS:
        app.include_router(router)
    _add_health(app, service, gauges)
    _add_problem_schema(app)
    if settings.page:
        from oahu.service.page import mount

        mount(app, service, keys, sessions)
    app.add_middleware(Guard, settings=settings, access=access, gauges=gauges)
    return app


def _add_health(app: FastAPI, service: Service, gauges: Gauges) -> None:
    @app.get("/healthz", tags=["health"], responses=RESPONSES)
    async def healthy() -> Health:
        """Whether the process is alive."""
        return Health(status="ok")

    @app.get("/readyz", tags=["health"], responses=RESPONSES)
    async def ready() -> Readiness:
        """Whether all collections are open and all learners well."""
        if not service.is_ready:
            raise NotReadyError("Not all collections are open with their learners well.", retry_after=1)
        return Readiness(ready=True)

    @app.get(
        "/metrics",
        tags=["health"],
        response_class=Response,
        responses=RESPONSES | {200: {"content": {"text/plain": {}}, "description": "For Prometheus."}},
    )
    def metrics(access: MayRead) -> Response:
        """Gauges in the format that Prometheus reads."""
        return Response(gauges.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


class Health(BaseModel):
    """The process is alive."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """All collections are open, and all learners well."""

    ready: Literal[True]


class NotReadyError(ServiceError):
    """Not yet, or not any more."""

    status, kind, title = 503, "not-ready", "The service is not ready"


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
