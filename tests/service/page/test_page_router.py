"""The page and the HTTP API in one application."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from oahu.service.api.app import create_app
from oahu.service.records import CollectionConfig
from oahu.service.settings import Settings

pytestmark = pytest.mark.server

HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/collections", "/v1/openapi.json"])
def test_the_api_responds(address: str, path: str) -> None:
    assert httpx.get(address + path, headers=HTML).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/nothing", 404), ("PATCH", "/v1/collections", 405)]
)
def test_api_errors_are_problem_details(address: str, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, address + path, headers=HTML)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_a_program_gets_problem_details_for_an_unknown_path(address: str) -> None:
    assert httpx.get(f"{address}/nothing").headers["content-type"] == "application/problem+json"


def test_a_browser_gets_a_page_for_an_unknown_path(address: str) -> None:
    answer = httpx.get(f"{address}/nothing", headers=HTML)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")


def test_an_unknown_collection_is_not_found(address: str) -> None:
    assert httpx.get(f"{address}/collections/nothing", headers=HTML).status_code == 404


def test_the_page_is_not_in_the_openapi_schema(address: str) -> None:
    paths = httpx.get(f"{address}/v1/openapi.json").json()["paths"]
    assert not [path for path in paths if "nicegui" in path or path in ("/", "/login", "/logout")]


@pytest.mark.parametrize("path", ["/", "/login", "/nothing"])
def test_the_middleware_applies_to_the_page(address: str, path: str) -> None:
    answer = httpx.get(address + path, headers=HTML)
    assert answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_a_websocket_from_another_site_is_rejected(address: str) -> None:
    answer = httpx.get(
        f"{address}/_nicegui_ws/socket.io/?EIO=4&transport=websocket",
        headers={
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Origin": "https://elsewhere.example",
        },
    )
    assert answer.status_code == 403


def test_the_page_has_no_links_to_other_hosts(address: str) -> None:
    text = httpx.get(f"{address}/").text
    hosts = set(re.findall(r"(?:src|href|url)\s*[=(:]\s*[\"']?((?:https?:)?//[^\"')\s]+)", text))
    assert hosts == set()


def _get(app: FastAPI, path: str, before: Callable[[], Any] = lambda: None) -> httpx.Response:
    """Run an application and return its response to a request."""

    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as client:
            before()
            return await client.get(f"http://127.0.0.1{path}")

    return asyncio.run(get())


def test_one_process_can_create_several_applications(tmp_path: Path) -> None:
    shown = []
    for name in ("this", "that"):
        app = create_app(Settings(data=tmp_path / name))
        text = _get(
            app, "/", lambda app=app, name=name: app.state.service.create(CollectionConfig(name, 2, "Euclidean"))
        ).text
        shown.append([one in text for one in ("/collections/this", "/collections/that")])
    assert shown == [[True, False], [False, True]]


def test_the_service_is_closed_with_the_application(tmp_path: Path) -> None:
    assert _get(create_app(Settings(data=tmp_path)), "/readyz").status_code == 200
    create_app(Settings(data=tmp_path)).state.service.close()  # the folder is free
