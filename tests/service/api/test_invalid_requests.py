"""Invalid requests get problem details (RFC 9457) and change nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def filled_path(server: Any) -> str:
    """The path of a collection with items and feedback that no test of this module changes."""
    path: str = server.new_collection()
    server.add_feedback(path, {"first": "i0", "second": "i1", "same": True})
    server.request("POST", f"{path}/search", json={"key": "i0"})
    return path


def problem_of(server: Any, method: str, path: str, **options: Any) -> dict[str, Any]:
    """Send a request, check that it changes nothing, and return its problem details."""
    before = server.stored_rows()
    response = server.http.request(method, path, **options)
    assert server.stored_rows() == before
    assert 400 <= response.status_code < 500, response.text
    assert response.headers["content-type"] == "application/problem+json"
    result: dict[str, Any] = response.json()
    assert result["status"] == response.status_code
    assert result["type"].startswith("urn:oahu:problem:")
    assert result["title"]
    assert result["detail"]
    assert result["request_id"] == response.headers["x-request-id"]
    assert "Traceback" not in response.text
    return result


def items_with(**changed: Any) -> dict[str, Any]:
    """Return a batch with a valid item and an item with changed fields."""
    good = {"key": "good", "vector": [1, 2, 3, 4]}
    return {"items": [good, {"key": "new", "vector": [1, 2, 3, 4], **changed}]}


def batch(*more: Any) -> dict[str, Any]:
    """Return a batch with valid feedback and more."""
    return {"feedback": [{"anchor": "i2", "positive": "i3", "negative": "i4"}, *more]}


# -- invalid JSON -------------------------------------------------------------------------------------------

DEEP = b"[" * 100_000 + b"]" * 100_000
INVALID_JSON = {
    "nothing closed": b'{"key": "i0"',
    "NaN": b'{"items": [{"key": "a", "vector": [NaN, 1, 2, 3]}]}',
    "Infinity": b'{"items": [{"key": "a", "vector": [Infinity, 1, 2, 3]}]}',
    "-Infinity": b'{"items": [{"key": "a", "vector": [-Infinity, 1, 2, 3]}]}',
    "beyond floats": b'{"items": [{"key": "a", "vector": [1e999, 1, 2, 3]}]}',
    "deep": DEEP,
    "deep in a payload": b'{"items": [{"key": "a", "vector": [1,2,3,4], "payload": {"a": ' + DEEP + b"}}]}",
    "invalid UTF-8": b'{"items": [{"key": "\xff\xfe", "vector": [1, 2, 3, 4]}]}',
    "half a character": b'{"items": [{"key": "\\ud800", "vector": [1, 2, 3, 4]}]}',
    "UTF-16": '{"key": "i0"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"key": "i0"}',
    "NUL": b'{"key": "i0"}\x00',
    "two values": b'{"key": "i0"}{"key": "i0"}',
    "comment": b'{"key": "i0"} // a comment',
    "single quotes": b"{'key': 'i0'}",
}
TAKES_JSON = ["items", "items/delete", "feedback", "search", "compare", "classify", "calibrate", "restore"]


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        *(pytest.param("items", body, id=f"items-{name}") for name, body in INVALID_JSON.items()),
        *(pytest.param(operation, b"{", id=operation) for operation in TAKES_JSON),
    ],
)
def test_invalid_json_is_rejected_with_its_location(
    server: Any, filled_path: str, operation: str, body: bytes
) -> None:
    method = "PUT" if operation == "items" else "POST"
    result = problem_of(server, method, f"{filled_path}/{operation}", content=body, headers=JSON)
    assert (result["status"], result["type"]) == (400, "urn:oahu:problem:invalid-json")
    assert "invalid JSON at " in result["detail"]


OTHER_FORMS = [b"", b"null", b"[]", b"0", b'"text"', b"true", b"{}", b'{"": 1}', b'{"items": null}']


def test_json_of_another_form_is_rejected(server: Any, filled_path: str) -> None:
    for operation, body in [
        *(("items", body) for body in OTHER_FORMS),  # one model
        *(("search", body) for body in OTHER_FORMS),  # a choice of models
        *((operation, b"0") for operation in TAKES_JSON if operation not in ("items", "search")),
    ]:
        method = "PUT" if operation == "items" else "POST"
        assert (
            problem_of(server, method, f"{filled_path}/{operation}", content=body, headers=JSON)["status"] == 422
        ), (operation, body)


def test_other_content_types_are_rejected(server: Any, filled_path: str) -> None:
    for kind in [
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"),
        *("json", "", "*/*", "application/octet-stream", "application/json-seq", "a" * 1000),
    ]:
        body = json.dumps(batch()).encode()
        result = problem_of(server, "POST", f"{filled_path}/feedback", content=body, headers={"Content-Type": kind})
        assert result["status"] == 415, kind
        assert "application/json" in result["detail"]


def test_a_content_type_with_charset_is_accepted(server: Any) -> None:
    path = server.new_collection()
    body = json.dumps(batch()).encode()
    server.request(
        "POST", f"{path}/feedback", content=body, headers={"Content-Type": "application/JSON; charset=utf-8"}
    )


# -- invalid values -----------------------------------------------------------------------------------------

MANY = range(10_001)
ITEMS: dict[str, tuple[dict[str, Any], str]] = {
    "too short": ({"vector": [1, 2, 3]}, "items/1/vector must have 4 numbers. Got 3 instead."),
    "too long": ({"vector": [1, 2, 3, 4, 5]}, "items/1/vector must have 4 numbers. Got 5 instead."),
    "no numbers": ({"vector": []}, "items/1/vector must have 4 numbers. Got 0 instead."),
    "nested": ({"vector": [[1, 2, 3, 4]]}, "body/items/1/vector/0"),
    "text for a number": ({"vector": [1, "2", 3, 4]}, "body/items/1/vector/1"),
    "truth for a number": ({"vector": [1, True, 3, 4]}, "body/items/1/vector/1"),
    "null for a number": ({"vector": [1, None, 3, 4]}, "body/items/1/vector/1"),
    "null for a vector": ({"vector": None}, "body/items/1: an item needs exactly one of 'vector', 'text' and"),
    "a large vector": ({"vector": [1e10, 0, 0, 0]}, "norm of items/1/vector must be at most 1e+09. Got 1e+10"),
    "the largest vector": ({"vector": [1.7e308] * 4}, "norm of items/1/vector"),
    "NaN in base64": ({"vector": "AADAfwAAwH8AAMB/AADAfw=="}, "items/1/vector must be finite"),
    "short base64": ({"vector": "AAAAAA=="}, "items/1/vector must have 4 numbers. Got 1 instead."),
    "odd base64": ({"vector": "AAAAA"}, "items/1/vector"),
    "no base64": ({"vector": "%%%%"}, "body/items/1/vector"),
    "a number for a key": ({"key": 7}, "body/items/1/key"),
    "a key twice": ({"key": "good"}, "'good' occurs again"),
    "an empty label": ({"label": ""}, "body/items/1/label"),
    "a label of two lines": ({"label": "a\nb"}, "body/items/1/label"),
    "a long label": ({"label": "a" * 129}, "body/items/1/label"),
    "a list for a payload": ({"payload": [1]}, "body/items/1/payload"),
    "a large payload": (
        {"payload": {"a": "x" * 70_000}},
        "items/1/payload must have at most 65536 bytes as JSON. Got 70008",
    ),
    "a deep payload": ({"payload": {"a": json.loads("[" * 200 + "]" * 200)}}, "items/1/payload"),
    "an unknown field": ({"colour": "red"}, "body/items/1/colour"),
}
FEEDBACK: dict[str, tuple[Any, str]] = {
    "an item like itself": ({"first": "i0", "second": "i0", "same": True}, "body/feedback/1: 'first' and 'second'"),
    "a triplet of two": ({"anchor": "i0", "positive": "i1", "negative": "i1"}, "three different items"),
    "a click of nothing": ({"query": "i0"}, "one positive or negative item"),
    "a click on both": ({"query": "i0", "positive": ["i1"], "negative": ["i1"]}, "different items"),
    "too many clicks": ({"query": "i0", "positive": [f"{at}" for at in range(101)]}, "body/feedback/1/positive"),
    "a number for truth": ({"first": "i0", "second": "i1", "same": 1}, "body/feedback/1/same"),
    "a form that is none": ({"like": "i0"}, "'anchor' or 'first' or 'query'"),
    "two forms in one": ({"anchor": "i0", "first": "i1", "query": "i2"}, "body/feedback/1"),
    "a text": ("i0", "body/feedback/1"),
}
ALIKE = {"first": "i0", "second": "i1", "same": True}
OTHERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "no items": ("items", {"items": []}, "body/items"),
    "no vector": ("items", {"items": [{"key": "a"}]}, "body/items/0: an item needs exactly one of 'vector'"),
    "no key": ("items", {"items": [{"vector": [1, 2, 3, 4]}]}, "body/items/0/key: Field required"),
    "too many items": ("items", {"items": [{"key": f"{at}", "vector": [1, 2, 3, 4]} for at in MANY]}, "10000"),
    "too many keys": ("items/delete", {"keys": [f"{at}" for at in MANY]}, "10000"),
    "a deleted key twice": ("items/delete", {"keys": ["i0", "i0"]}, "'i0' occurs again"),
    "no feedback": ("feedback", {"feedback": []}, "body/feedback"),
    "too much feedback": ("feedback", {"feedback": [ALIKE for _ in MANY]}, "10000"),
    "k of nothing": ("search", {"key": "i0", "k": 0}, "body/k"),
    "k below": ("search", {"key": "i0", "k": -5}, "body/k"),
    "a large k": ("search", {"key": "i0", "k": 1_001}, "k must be at most 1000"),
    "a huge k": ("search", {"key": "i0", "k": 10**30}, "body/k"),
    "a half k": ("search", {"key": "i0", "k": 1.5}, "body/k"),
    "a large k of votes": ("classify", {"key": "i0", "k": 10**6}, "k must be at most 1000"),
    "a key and a vector": ("search", {"key": "i0", "vector": [1, 2, 3, 4]}, "body/vector"),
    "neither": ("search", {"k": 3}, "'key' or 'vector'"),
    "a vector too short to search": ("search", {"vector": [1]}, "vector must have 4 numbers. Got 1 instead."),
    "a search for a large vector": ("search", {"vector": [1e300, 1e300, 1, 1]}, "norm of vector"),
    "one key as a text": ("items/delete", {"keys": "i0"}, "body/keys: Input should be a valid list. Got one text"),
    "one item as an object": (
        "items",
        {"items": {"key": "a"}},
        "body/items: Input should be a valid list. Got one obj",
    ),
    "one result as a text": (
        "feedback",
        {"feedback": [{"query": "i0", "positive": "i1"}]},
        'body/feedback/0/positive: Input should be a valid list. Got one text instead; write ["i1"]',
    ),
    "one to compare": ("compare", {"first": {"key": "i0"}}, "body/second"),
    "nothing to compare": ("compare", {"first": {}, "second": {"key": "i0"}}, "body/first"),
    "two lengths": ("compare", {"first": {"key": "i0"}, "second": {"vector": [1]}}, "second/vector must have 4"),
    "one pair": ("calibrate", {"pairs": [ALIKE], "target": "eer"}, "body/pairs"),
    "a version below": ("restore", {"metric_version": -1}, "body/metric_version"),
}


def check_invalid(server: Any, filled_path: str, operation: str, body: Any, detail: str) -> None:
    method = "PUT" if operation == "items" else "POST"
    result = problem_of(server, method, f"{filled_path}/{operation}", json=body)
    assert result["status"] == 422
    assert detail in result["detail"]


@pytest.mark.parametrize(("changed", "detail"), ITEMS.values(), ids=ITEMS)
def test_invalid_items_are_rejected(server: Any, filled_path: str, changed: Any, detail: str) -> None:
    check_invalid(server, filled_path, "items", items_with(**changed), detail)


@pytest.mark.parametrize(("feedback", "detail"), FEEDBACK.values(), ids=FEEDBACK)
def test_invalid_feedback_is_rejected(server: Any, filled_path: str, feedback: Any, detail: str) -> None:
    check_invalid(server, filled_path, "feedback", batch(feedback), detail)


@pytest.mark.parametrize(("operation", "body", "detail"), OTHERS.values(), ids=OTHERS)
def test_other_invalid_requests_are_rejected(
    server: Any, filled_path: str, operation: str, body: Any, detail: str
) -> None:
    check_invalid(server, filled_path, operation, body, detail)


UNKNOWN = {
    "deleted": ("POST", "items/delete", {"keys": ["i0", "unknown"]}),
    "an anchor": ("POST", "feedback", batch({"anchor": "unknown", "positive": "i1", "negative": "i2"})),
    "one of a pair": ("POST", "feedback", batch({"first": "i0", "second": "unknown", "same": True})),
    "a negative": ("POST", "feedback", batch({"query": "i0", "positive": ["i1"], "negative": ["unknown"]})),
    "searched": ("POST", "search", {"key": "unknown"}),
    "classified": ("POST", "classify", {"key": "unknown"}),
    "compared": ("POST", "compare", {"first": {"key": "i0"}, "second": {"key": "unknown"}}),
    "fetched": ("GET", "items/unknown", None),
    "shown": ("GET", "thumbnails/unknown", None),
}


@pytest.mark.parametrize(("method", "operation", "body"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_items_are_named(server: Any, filled_path: str, method: str, operation: str, body: Any) -> None:
    result = problem_of(server, method, f"{filled_path}/{operation}", json=body)
    assert (result["status"], result["key"]) == (404, "unknown")


def test_invalid_query_parameters_are_rejected(server: Any, filled_path: str) -> None:
    for query in [
        *("after=-1", f"after={2**63}", "after=" + "9" * 5_000, "after=x", "limit=0", "limit=1001", "limit=1.5"),
        *("label=", "label=%00", "label=" + "a" * 129),
    ]:
        result = problem_of(server, "GET", f"{filled_path}/items?{query}")
        assert result["status"] == 422, query
        assert result["detail"].startswith(f"query/{query.partition('=')[0]}")


def test_unknown_paths_are_not_found(server: Any) -> None:
    for path in [
        *("/v1", "/v1/", "/nothing", "/v2/collections", "/docs", "/redoc", "//", "/v1/collections/"),
        *("/v1/collections/%2e%2e", "/v1/collections/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/v1/collections/a%00"),
        *("/v1/collections/%ff", "/v1/collections/" + "a" * 5_000),
    ]:
        assert problem_of(server, "GET", path)["status"] in (404, 422), path


def test_unknown_methods_are_rejected_with_the_allowed_ones(server: Any) -> None:
    for method in ["POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "PROPFIND"]:
        assert problem_of(server, method, "/v1/openapi.json")["status"] == 405, method
        assert "GET" in server.http.request(method, "/v1/openapi.json").headers["allow"]


# -- too large bodies ---------------------------------------------------------------------------------------


def chunks(n: int) -> Iterator[bytes]:
    for _ in range(n):
        yield bytes(2**20)


def test_a_body_above_the_default_limit_is_too_large(server: Any, filled_path: str) -> None:
    result = problem_of(server, "PUT", f"{filled_path}/items", content=bytes(33 * 2**20), headers=JSON)
    assert (result["status"], result["type"]) == (413, "urn:oahu:problem:too-large")
    assert problem_of(server, "PUT", f"{filled_path}/items", content=chunks(33), headers=JSON)["status"] == 413
    assert problem_of(server, "PUT", f"{filled_path}/model", content=chunks(33))["status"] == 413


def test_a_body_of_exactly_the_limit_is_accepted(start_server: Any) -> None:
    server = start_server(max_body=2_000)
    path = server.new_collection(n=2)
    body = json.dumps({"key": "i0"}).encode()
    fits, not_fits = body.ljust(2_000), body.ljust(2_001)
    server.request("POST", f"{path}/search", content=fits, headers=JSON)
    server.request("POST", f"{path}/search", 413, content=not_fits, headers=JSON)
    server.request("POST", f"{path}/search", 413, content=iter([not_fits]), headers=JSON)


# -- many errors --------------------------------------------------------------------------------------------

MANY_ERRORS = {
    "wrong numbers": ("search", b'{"vector": [' + b"null," * 99_999 + b"null]}"),
    "wrong items": ("items", b'{"items": [' + b"{}," * 99_999 + b"{}]}"),
    "wrong keys": ("items/delete", b'{"keys": [' + b"0," * 99_999 + b"0]}"),
    "wrong feedback": ("feedback", b'{"feedback": [' + b"{}," * 99_999 + b"{}]}"),
    "unknown fields": ("search", json.dumps({"key": "i0", **{f"f{at}": 0 for at in range(100_000)}}).encode()),
    "fields of feedback": (
        "feedback",
        json.dumps(batch({f"f{at}": 0 for at in range(100_000)} | {"query": "a"})).encode(),
    ),
}


@pytest.mark.parametrize(("operation", "body"), MANY_ERRORS.values(), ids=MANY_ERRORS)
def test_many_errors_give_a_short_response(server: Any, filled_path: str, operation: str, body: bytes) -> None:
    method = "PUT" if operation == "items" else "POST"
    result = problem_of(server, method, f"{filled_path}/{operation}", content=body, headers=JSON)
    assert len(result["errors"]) < 10


def test_long_field_names_are_shortened_in_errors(server: Any, filled_path: str) -> None:
    response = server.http.post(f"{filled_path}/search", json={"key": "i0", "x" * 100_000: 1})
    assert response.status_code == 422
    assert len(response.content) < 2_000


# -- random input --------------------------------------------------------------------------------------------

FIELDS = (
    st.sampled_from(
        [
            *("items", "key", "vector", "label", "payload", "thumbnail", "keys", "feedback", "anchor", "positive"),
            *(
                "negative",
                "first",
                "second",
                "same",
                "query",
                "k",
                "use_feedback",
                "pairs",
                "target",
                "metric_version",
            ),
        ]
    )
    | st.text()
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["i0", "i1", "i2"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@given(operation=st.sampled_from(TAKES_JSON), body=ANYTHING)
@settings(max_examples=150)
def test_random_json_is_accepted_or_changes_nothing(
    server: Any, filled_path: str, operation: str, body: Any
) -> None:
    before = server.stored_rows()
    response = server.http.request(
        "PUT" if operation == "items" else "POST", f"{filled_path}/{operation}", json=body
    )
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert server.stored_rows() == before


@given(body=st.binary(max_size=200))
@settings(max_examples=50)
def test_random_bytes_are_rejected(server: Any, filled_path: str, body: bytes) -> None:
    assert server.http.post(f"{filled_path}/compare", content=body, headers=JSON).status_code in (400, 422)


@given(vector=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
@settings(max_examples=60)
def test_vectors_of_any_norm_are_searched_or_rejected(server: Any, filled_path: str, vector: list[float]) -> None:
    response = server.http.post(f"{filled_path}/search", json={"vector": vector})
    length = math.hypot(*vector) / 1e9
    assert response.status_code == (200 if length <= 1 else 422), response.text
