"""All operations of the HTTP API, with one module for each resource."""

from __future__ import annotations

from fastapi import APIRouter

from oahu.service.api.routes import (
    collection_routes,
    event_routes,
    feedback_routes,
    health_routes,
    item_routes,
    metric_routes,
    report_routes,
    search_routes,
)

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (
    collection_routes.router,
    item_routes.router,
    feedback_routes.router,
    search_routes.router,
    metric_routes.router,
    report_routes.router,
    event_routes.router,
    health_routes.router,
)
