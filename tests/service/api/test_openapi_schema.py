"""Schemathesis finds no server error and no undocumented response."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from oahu.service.api.app import create_app
from oahu.service.settings import Settings

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
KNOWN = "known"  # the name of an existing collection
DIMENSION, N_ITEMS = 4, 12


def openapi_schema() -> dict[str, Any]:
    """Return the OpenAPI schema of the service."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(data=Path(folder), page=False))
        result: dict[str, Any] = app.openapi()
        app.state.service.close()
    return result


def targeted(node: Any, within: bool) -> Any:
    """Return a schema that generates names of existing collections. If ``within``, also keys of existing items."""
    if isinstance(node, list):
        return [targeted(one, within) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("name") == "name" and node.get("in") == "path":
        known = {"enum": [KNOWN]}
        return node | {"schema": known if within else {"anyOf": [known, node["schema"]]}}
    if within and node.get("name") == "key" and node.get("in") == "path":
        return node | {"schema": {"enum": ["i0", "i1", "unknown"]}}
    if within and node.get("name") == "seq":
        return node | {"schema": {"type": "integer", "minimum": 1, "maximum": 20}}
    if within and node.get("maxLength") == 512:
        return {"enum": [f"i{at}" for at in range(N_ITEMS)]}
    if within and node.get("type") == "array" and node.get("items") == {"type": "number"}:
        numbers = {"type": "number", "minimum": -10, "maximum": 10}
        return {"type": "array", "items": numbers, "minItems": DIMENSION, "maxItems": DIMENSION}
    return {name: value if name in RESPONSES else targeted(value, within) for name, value in node.items()}


RESPONSES = ("WeightsAtVersion",)  # responses with number arrays
SCHEMA = openapi_schema()
PLAIN = schemathesis.openapi.from_dict(targeted(SCHEMA, within=False))
TARGETED = schemathesis.openapi.from_dict(targeted(SCHEMA, within=True))
TARGETED.config.phases.update(phases=["fuzzing"])
TARGETED.config.generation.update(modes=[schemathesis.GenerationMode.POSITIVE])


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory, run_app: Any) -> Iterator[Any]:
    """A server with small limits."""
    limits = {"max_dimension": 32, "max_model": 2**22, "max_collections": 10, "max_batch": 50, "max_k": 50}
    data = tmp_path_factory.mktemp("schema")
    with run_app(create_app(Settings(data=data, page=False, **limits))) as server:
        yield server


def example_settings(n: int) -> settings:
    return settings(max_examples=n, suppress_health_check=list(HealthCheck))


@PLAIN.parametrize()
@example_settings(5)
def test_random_requests_get_documented_responses(case: schemathesis.Case, small_server: Any) -> None:
    send(case, small_server)


@TARGETED.parametrize()
@example_settings(20)
def test_requests_for_existing_items_get_documented_responses(case: schemathesis.Case, small_server: Any) -> None:
    send(case, small_server)


def send(case: schemathesis.Case, server: Any) -> None:
    filled_path = {one.config.name: one.queries.index.n_items for one in server.service.collections}
    if KNOWN not in filled_path:
        server.create_collection(KNOWN)
    if filled_path.get(KNOWN, 0) < N_ITEMS:
        server.add_items(KNOWN, N_ITEMS)
    if case.path.endswith("/events"):
        _limit_event_stream(case)
    response = case.call(base_url=server.url, timeout=600.0)  # a request may wait until a kernel is compiled
    case.validate_response(response, checks=CHECKS)


def _limit_event_stream(case: schemathesis.Case) -> None:
    """End the event stream after the first event."""
    given = case.query.get("limit") if isinstance(case.query, dict) else None
    last = given[-1] if isinstance(given, list) and given else given
    if last is None or str(last).strip().lstrip("+").isdigit():
        case.query = {**(case.query or {}), "limit": 1}


def test_every_operation_is_described_and_documents_its_errors_as_problems() -> None:
    problem = ("application/problem+json", "{'$ref': '#/components/schemas/Problem'}")
    for path, methods in SCHEMA["paths"].items():
        for method, operation in methods.items():
            assert operation["description"].endswith("."), (method, path)
            kinds = {
                (kind, str(content["schema"]))
                for status, response in operation["responses"].items()
                for kind, content in response.get("content", {}).items()
                if int(status) >= 400
            }
            assert kinds == {problem}, (method, path)
