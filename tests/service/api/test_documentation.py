"""The documentation page describes every operation and schema, and loads nothing from elsewhere."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from oahu.service.api.documentation import documentation_page
from oahu.service.keys import KeyFile

JSON = {"Content-Type": "application/json"}
WITHOUT_END = {"meta", "br"}


class Page(HTMLParser):
    """The ids, links and other references of a page. Tags must be closed in the right order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids, self.links, self.loaded = list[str](), list[str](), list[str]()
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in WITHOUT_END:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(str(value))
            elif name == "href" and tag == "a":
                self.links.append(str(value))
            elif name in ("src", "href", "action", "srcset", "data") or name.startswith("on"):
                self.loaded.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def response(server: Any) -> httpx.Response:
    found: httpx.Response = server.http.get("/v1/docs")
    assert found.status_code == 200
    return found


def test_the_page_loads_nothing(response: httpx.Response) -> None:
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    page = Page(response.text)
    assert page.loaded == []
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"@import|url\(", response.text)


def test_all_links_lead_to_a_part_of_the_page_or_the_document(response: httpx.Response, server: Any) -> None:
    page = Page(response.text)
    assert len(page.ids) == len(set(page.ids))
    others = {link for link in page.links if not link.startswith("#")}
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert others == {"openapi.json"}
    assert server.http.get("/v1/openapi.json").status_code == 200


def without_spaces(text: str) -> str:
    return "".join(text.replace("``", "").split())


def test_every_operation_schema_and_field_is_described(response: httpx.Response, server: Any) -> None:
    document, page = server.request("GET", "/v1/openapi.json"), Page(response.text)
    text = without_spaces(page.text)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method}{path}" in text
            assert without_spaces(operation["description"]) in text
            assert operation["operationId"] in page.ids
    for name, schema in document["components"]["schemas"].items():
        assert f"schema-{name}" in page.ids
        for field, inner in schema.get("properties", {}).items():
            assert field in text
            assert without_spaces(inner.get("description", "")) in text


def test_the_examples_have_the_address_of_the_service(response: httpx.Response, server: Any) -> None:
    text = Page(response.text).text
    assert f"curl -X POST {server.url}/v1/collections/teas/search" in text
    assert """-d '{"key": "sencha"}'""" in text


CURL = re.compile(
    r"curl (?:-X (\w+) )?(\S+)(?: \\\n  -H 'Content-Type: application/json' \\\n  -d '(.*?)')?\n?$", re.DOTALL
)


def test_the_service_accepts_the_examples(start_server: Any) -> None:
    server = start_server()
    examples = re.findall(r"<h4>Example</h4><pre>(.*?)</pre>", server.http.get("/v1/docs").text, re.DOTALL)
    commands = [match.groups() for example in examples if (match := CURL.match(unescape(example)))]
    assert len(commands) > 25
    assert sum(body is not None for _, _, body in commands) > 10
    items = [
        {"key": key, "vector": [1, 0, at], "label": key} for at, key in enumerate(("sencha", "gyokuro", "assam"))
    ]
    for method, url, body in commands:
        if "/events" in url:
            continue  # never ends
        server.http.delete("/v1/collections/teas")
        if not url.endswith("/collections"):
            server.create_collection("teas", 3)
            server.request("PUT", "/v1/collections/teas/items", json={"items": items})
        status = server.http.request(method or "GET", url, content=body, headers=JSON).status_code
        assert status not in (400, 405, 422) or "encode" in url, (
            method,
            url,
            body,
        )  # the collection has no encoder


def test_the_page_needs_no_api_key(start_server: Any, tmp_path: Path) -> None:
    KeyFile(tmp_path / "data").add("one", "read")
    server = start_server()
    assert server.http.get("/v1/docs").status_code == 200
    assert server.http.get("/v1/collections").status_code == 401


def test_texts_are_escaped() -> None:
    hostile = "<script>alert('x')</script> & \"more\""
    operation = {"tags": ["t"], "summary": hostile, "description": hostile, "operationId": "o", "responses": {}}
    document = {
        "info": {"title": hostile, "version": "1"},
        "paths": {"/<b>": {"get": operation}},
        "components": {"schemas": {"S": {"description": hostile, "properties": {"<i>": {"default": hostile}}}}},
    }
    page = Page(documentation_page(document, "http://host/<u>"))
    assert not page.tags & {"script", "i", "u"}
    assert page.text.count(hostile) >= 4
