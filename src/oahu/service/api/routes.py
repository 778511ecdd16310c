"""All operations."""

from __future__ import annotations

from fastapi import APIRouter

from oahu.service.api import collections, events, feedback, items, metric, tasks

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (
    collections.router,
    items.router,
    feedback.router,
    tasks.router,
    metric.router,
    events.router,
)
