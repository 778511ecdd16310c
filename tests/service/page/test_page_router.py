"""The page beside the interface: neither is in the other's way."""

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

HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/collections", "/v1/openapi.json"])
def test_the_interface_answers(address: str, path: str) -> None:
    assert httpx.get(address + path, headers=HTML).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/nothing", 404), ("PATCH", "/v1/collections", 405)]
)
def test_problems_of_the_interface_stay_problems(address: str, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, address + path, headers=HTML)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_a_program_that_asks_for_nothing_gets_a_problem(address: str) -> None:
    assert httpx.get(f"{address}/nothing").headers["content-type"] == "application/problem+json"


def test_a_person_who_asks_for_nothing_gets_a_page(address: str) -> None:
    answer = httpx.get(f"{address}/nothing", headers=HTML)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")


def test_a_collection_that_is_not_there_is_404(address: str) -> None:
    assert httpx.get(f"{address}/collections/nothing", headers=HTML).status_code == 404


def test_the_page_is_not_in_the_description_of_the_interface(address: str) -> None:
    paths = httpx.get(f"{address}/v1/openapi.json").json()["paths"]
    assert not [path for path in paths if "nicegui" in path or path in ("/", "/login", "/logout")]


@pytest.mark.parametrize("path", ["/", "/login", "/nothing"])
def test_the_guard_is_before_the_page(address: str, path: str) -> None:
    answer = httpx.get(address + path, headers=HTML)
    assert answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_other_sites_get_no_socket(address: str) -> None:
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


def test_the_page_names_no_other_machine(address: str) -> None:
    text = httpx.get(f"{address}/").text
    named = set(re.findall(r"(?:src|href|url)\s*[=(:]\s*[\"']?((?:https?:)?//[^\"')\s]+)", text))
    assert named == set()


def _ask(app: FastAPI, path: str, before: Callable[[], Any] = lambda: None) -> httpx.Response:
    """What an application answers while it lives."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as client:
            before()
            return await client.get(f"http://127.0.0.1{path}")

    return asyncio.run(ask())


def test_one_process_can_make_a_service_after_another(tmp_path: Path) -> None:
    seen = []
    for name in ("this", "that"):
        app = create_app(Settings(data=tmp_path / name))
        text = _ask(
            app, "/", lambda app=app, name=name: app.state.service.create(CollectionConfig(name, 2, "Euclidean"))
        ).text
        seen.append([one in text for one in ("/collections/this", "/collections/that")])
    assert seen == [[True, False], [False, True]]


def test_the_service_closes_when_its_page_does(tmp_path: Path) -> None:
    assert _ask(create_app(Settings(data=tmp_path)), "/readyz").status_code == 200
    create_app(Settings(data=tmp_path)).state.service.close()  # the folder is free
