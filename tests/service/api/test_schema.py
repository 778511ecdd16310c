"""The schema says what is answered: schemathesis finds no 5xx and no answer that is not documented."""

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

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
KNOWN = "known"  # a collection that is there
DIMENSION, N_ITEMS = 4, 12


def described() -> dict[str, Any]:
    """The schema of a service, as it answers it."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(data=Path(folder), page=False))
        told: dict[str, Any] = app.openapi()
        app.state.service.close()
    return told


def aimed(node: Any, within: bool) -> Any:
    """A schema by which what is there is hit: the collection, and its items, vectors of their length."""
    if isinstance(node, list):
        return [aimed(one, within) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("name") == "name" and node.get("in") == "path":
        known = {"enum": [KNOWN]}
        return node | {"schema": known if within else {"anyOf": [known, node["schema"]]}}
    if within and node.get("name") == "key" and node.get("in") == "path":
        return node | {"schema": {"enum": ["i0", "i1", "nobody"]}}
    if within and node.get("name") == "seq":
        return node | {"schema": {"type": "integer", "minimum": 1, "maximum": 20}}
    if within and node.get("maxLength") == 512:
        return {"enum": [f"i{at}" for at in range(N_ITEMS)]}
    if within and node.get("type") == "array" and node.get("items") == {"type": "number"}:
        numbers = {"type": "number", "minimum": -10, "maximum": 10}
        return {"type": "array", "items": numbers, "minItems": DIMENSION, "maxItems": DIMENSION}
    return {name: value if name in ANSWERS else aimed(value, within) for name, value in node.items()}


ANSWERS = ("WeightsAtVersion",)  # has numbers, and is not sent
SCHEMA = described()
PLAIN = schemathesis.openapi.from_dict(aimed(SCHEMA, within=False))
AIMED = schemathesis.openapi.from_dict(aimed(SCHEMA, within=True))
AIMED.config.phases.update(phases=["fuzzing"])
AIMED.config.generation.update(modes=[schemathesis.GenerationMode.POSITIVE])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, run: Any) -> Iterator[Any]:
    """A service in which nothing becomes large."""
    limits = {"max_dimension": 32, "max_model": 2**20, "max_collections": 10, "max_batch": 50, "max_k": 50}
    data = tmp_path_factory.mktemp("schema")
    with run(create_app(Settings(data=data, page=False, **limits))) as service:
        yield service


def some(n: int) -> settings:
    return settings(max_examples=n, suppress_health_check=list(HealthCheck))


@PLAIN.parametrize()
@some(5)
def test_every_answer_to_anything_is_documented(case: schemathesis.Case, small: Any) -> None:
    ask(case, small)


@AIMED.parametrize()
@some(20)
def test_every_answer_about_what_is_there_is_documented(case: schemathesis.Case, small: Any) -> None:
    ask(case, small)


def ask(case: schemathesis.Case, service: Any) -> None:
    there = {one.config.name: one.n_items for one in service.service.collections}
    if KNOWN not in there:
        service.create(KNOWN)
    if there.get(KNOWN, 0) < N_ITEMS:
        service.fill(KNOWN, N_ITEMS)
    if case.path.endswith("/events"):
        _end_soon(case)
    answer = case.call(base_url=service.url)
    case.validate_response(answer, checks=CHECKS)


def _end_soon(case: schemathesis.Case) -> None:
    """Let a stream of events end with the first."""
    given = case.query.get("limit") if isinstance(case.query, dict) else None
    last = given[-1] if isinstance(given, list) and given else given
    if last is None or str(last).strip().lstrip("+").isdigit():
        case.query = {**(case.query or {}), "limit": 1}


def operations() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", told)
        for path, methods in SCHEMA["paths"].items()
        for method, told in methods.items()
    ]


@pytest.mark.parametrize(("name", "told"), operations(), ids=[name for name, _ in operations()])
def test_every_refusal_is_documented_as_a_problem(name: str, told: dict[str, Any]) -> None:
    refusals = {status: answer for status, answer in told["responses"].items() if int(status) >= 400}
    kinds = {
        (kind, str(content["schema"]))
        for answer in refusals.values()
        for kind, content in answer["content"].items()
    }
    assert kinds == {("application/problem+json", "{'$ref': '#/components/schemas/Problem'}")}


@pytest.mark.parametrize(("name", "told"), operations(), ids=[name for name, _ in operations()])
def test_every_operation_says_what_it_does(name: str, told: dict[str, Any]) -> None:
    assert told["description"].endswith(".")
