"""The API documentation for people."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from oahu.service.api.documentation import documentation_page

__all__ = ["router"]

router = APIRouter()


@router.get("/v1/docs", include_in_schema=False)
def get_documentation(request: Request) -> HTMLResponse:
    """Return the API documentation as one HTML page, which needs no other files."""
    return HTMLResponse(documentation_page(request.app.openapi(), str(request.base_url)))
