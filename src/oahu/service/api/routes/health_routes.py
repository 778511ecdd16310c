"""Operations for health checks and Prometheus metrics."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from oahu.service.api.access import RequireRead, get_access, get_service
from oahu.service.api.monitoring import PrometheusMetrics
from oahu.service.api.problems import RESPONSES
from oahu.service.errors import ServiceError

__all__ = ["router"]

router = APIRouter(tags=["health"], responses=RESPONSES)


class Health(BaseModel):
    """The response while the process is running."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """The response if all collections are loaded and no learner has failed."""

    ready: Literal[True]


class NotReadyError(ServiceError):
    """A collection is loading, or its learner has failed."""

    status, kind, title = 503, "not-ready", "The service is not ready"


@router.get("/healthz")
async def health() -> Health:
    """Return 200 while the process is running."""
    return Health(status="ok")


@router.get("/readyz")
async def readiness(request: Request) -> Readiness:
    """Return 200 if all collections are loaded and no learner has failed."""
    if not get_service(request).is_ready:
        raise NotReadyError("A collection is loading, or its learner has failed.", retry_after=1)
    return Readiness(ready=True)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "Metrics in the text format of Prometheus."}},
)
def prometheus_metrics(request: Request, access: RequireRead) -> Response:
    """Return metrics in the text format of Prometheus."""
    get_access(request).check_all_collections(request)
    metrics: PrometheusMetrics = request.app.state.metrics
    return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")
