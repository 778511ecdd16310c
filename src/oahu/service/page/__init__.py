"""The page."""

from __future__ import annotations

from fastapi import FastAPI

from oahu.service.api.access import Sessions
from oahu.service.keys import KeyFile
from oahu.service.service import Service

__all__ = ["mount"]


def mount(app: FastAPI, service: Service, keys: KeyFile, sessions: Sessions) -> None:
    """Put the page before the service."""
