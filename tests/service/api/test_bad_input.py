"""Whatever is wrong with a request is told, as RFC 9457 has it, and nothing of it is stored."""

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
def there(live: Any) -> str:
    """A collection with items and feedback, which nothing in this file may change."""
    path: str = live.new()
    live.say(path, {"first": "i0", "second": "i1", "same": True})
    live.ask("POST", f"{path}/search", json={"key": "i0"})
    return path


def refused(live: Any, method: str, path: str, **sent: Any) -> dict[str, Any]:
    """The problem that a request is answered with, if that is sound and nothing was stored."""
    before = live.state()
    answer = live.http.request(method, path, **sent)
    assert live.state() == before
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["status"] == answer.status_code
    assert told["type"].startswith("urn:oahu:problem:")
    assert told["title"]
    assert told["detail"]
    assert told["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    return told


def one(**changed: Any) -> dict[str, Any]:
    """A batch of a good item and another that is changed."""
    good = {"key": "good", "vector": [1, 2, 3, 4]}
    return {"items": [good, {"key": "new", "vector": [1, 2, 3, 4], **changed}]}


def said(*pieces: Any) -> dict[str, Any]:
    """Good feedback, and more."""
    return {"feedback": [{"anchor": "i2", "positive": "i3", "negative": "i4"}, *pieces]}


# -- bodies that cannot be read ------------------------------------------------------------------------------

DEEP = b"[" * 100_000 + b"]" * 100_000
UNREADABLE = {
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


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("operation", TAKES_JSON)
def test_what_is_not_json_is_refused_and_said_where(live: Any, there: str, operation: str, body: bytes) -> None:
    method = "PUT" if operation == "items" else "POST"
    told = refused(live, method, f"{there}/{operation}", content=body, headers=JSON)
    assert (told["status"], told["type"]) == (400, "urn:oahu:problem:invalid-json")
    assert "invalid JSON at " in told["detail"]


@pytest.mark.parametrize("operation", TAKES_JSON)
@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"0", b'"text"', b"true", b"{}", b'{"": 1}', b'{"items": null}']
)
def test_json_of_another_form_is_refused(live: Any, there: str, operation: str, body: bytes) -> None:
    method = "PUT" if operation == "items" else "POST"
    assert refused(live, method, f"{there}/{operation}", content=body, headers=JSON)["status"] == 422


@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"),
        *("json", "", "*/*", "application/octet-stream", "application/json-seq", "a" * 1000),
    ],
)
def test_json_that_does_not_say_so_is_refused(live: Any, there: str, kind: str) -> None:
    body = json.dumps(said()).encode()
    told = refused(live, "POST", f"{there}/feedback", content=body, headers={"Content-Type": kind})
    assert told["status"] == 415
    assert "application/json" in told["detail"]


def test_json_that_says_its_characters_is_taken(live: Any) -> None:
    path = live.new()
    body = json.dumps(said()).encode()
    live.ask("POST", f"{path}/feedback", content=body, headers={"Content-Type": "application/JSON; charset=utf-8"})


# -- values that cannot be meant -----------------------------------------------------------------------------

MANY = range(10_001)
ITEMS: dict[str, tuple[dict[str, Any], str]] = {
    "too short": ({"vector": [1, 2, 3]}, "items/1/vector must have 4 numbers. Got 3."),
    "too long": ({"vector": [1, 2, 3, 4, 5]}, "items/1/vector must have 4 numbers. Got 5."),
    "no numbers": ({"vector": []}, "items/1/vector must have 4 numbers. Got 0."),
    "nested": ({"vector": [[1, 2, 3, 4]]}, "body/items/1/vector/0"),
    "text for a number": ({"vector": [1, "2", 3, 4]}, "body/items/1/vector/1"),
    "truth for a number": ({"vector": [1, True, 3, 4]}, "body/items/1/vector/1"),
    "null for a number": ({"vector": [1, None, 3, 4]}, "body/items/1/vector/1"),
    "null for a vector": ({"vector": None}, "body/items/1/vector"),
    "far": ({"vector": [1e10, 0, 0, 0]}, "items/1/vector has length 1e+10"),
    "as far as can be": ({"vector": [1.7e308] * 4}, "items/1/vector has length"),
    "NaN in base64": ({"vector": "AADAfwAAwH8AAMB/AADAfw=="}, "items/1/vector has a value that is not finite"),
    "short base64": ({"vector": "AAAAAA=="}, "items/1/vector must have 4 numbers. Got 1."),
    "odd base64": ({"vector": "AAAAA"}, "items/1/vector"),
    "no base64": ({"vector": "%%%%"}, "body/items/1/vector"),
    "a number for a key": ({"key": 7}, "body/items/1/key"),
    "a key twice": ({"key": "good"}, "'good' occurs twice"),
    "an empty label": ({"label": ""}, "body/items/1/label"),
    "a label of two lines": ({"label": "a\nb"}, "body/items/1/label"),
    "a long label": ({"label": "a" * 129}, "body/items/1/label"),
    "a list for a payload": ({"payload": [1]}, "body/items/1/payload"),
    "a large payload": ({"payload": {"a": "x" * 70_000}}, "items/1/payload has 70008 bytes"),
    "a deep payload": ({"payload": {"a": json.loads("[" * 200 + "]" * 200)}}, "items/1/payload"),
    "an unknown field": ({"colour": "red"}, "body/items/1/colour"),
}
PIECES: dict[str, tuple[Any, str]] = {
    "an item like itself": ({"first": "i0", "second": "i0", "same": True}, "body/feedback/1: first and second"),
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
    "no vector": ("items", {"items": [{"key": "a"}]}, "body/items/0/vector: Field required"),
    "no key": ("items", {"items": [{"vector": [1, 2, 3, 4]}]}, "body/items/0/key: Field required"),
    "too many items": ("items", {"items": [{"key": f"{at}", "vector": [1, 2, 3, 4]} for at in MANY]}, "10000"),
    "too many keys": ("items/delete", {"keys": [f"{at}" for at in MANY]}, "10000"),
    "a deleted key twice": ("items/delete", {"keys": ["i0", "i0"]}, "'i0' occurs twice"),
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
    "a vector too short to search": ("search", {"vector": [1]}, "vector must have 4 numbers. Got 1."),
    "a vector too far to search": ("search", {"vector": [1e300, 1e300, 1, 1]}, "vector has length"),
    "one to compare": ("compare", {"first": {"key": "i0"}}, "body/second"),
    "nothing to compare": ("compare", {"first": {}, "second": {"key": "i0"}}, "body/first"),
    "two lengths": ("compare", {"first": {"key": "i0"}, "second": {"vector": [1]}}, "second/vector must have 4"),
    "one pair": ("calibrate", {"pairs": [ALIKE], "target": "eer"}, "body/pairs"),
    "a version below": ("restore", {"metric_version": -1}, "body/metric_version"),
}


def not_valid(live: Any, there: str, operation: str, body: Any, detail: str) -> None:
    method = "PUT" if operation == "items" else "POST"
    told = refused(live, method, f"{there}/{operation}", json=body)
    assert told["status"] == 422
    assert detail in told["detail"]


@pytest.mark.parametrize(("changed", "detail"), ITEMS.values(), ids=ITEMS)
def test_an_item_that_cannot_be_meant_is_refused(live: Any, there: str, changed: Any, detail: str) -> None:
    not_valid(live, there, "items", one(**changed), detail)


@pytest.mark.parametrize(("piece", "detail"), PIECES.values(), ids=PIECES)
def test_feedback_that_cannot_be_meant_is_refused(live: Any, there: str, piece: Any, detail: str) -> None:
    not_valid(live, there, "feedback", said(piece), detail)


@pytest.mark.parametrize(("operation", "body", "detail"), OTHERS.values(), ids=OTHERS)
def test_what_cannot_be_meant_is_refused(live: Any, there: str, operation: str, body: Any, detail: str) -> None:
    not_valid(live, there, operation, body, detail)


UNKNOWN = {
    "deleted": ("POST", "items/delete", {"keys": ["i0", "nobody"]}),
    "an anchor": ("POST", "feedback", said({"anchor": "nobody", "positive": "i1", "negative": "i2"})),
    "one of a pair": ("POST", "feedback", said({"first": "i0", "second": "nobody", "same": True})),
    "a negative": ("POST", "feedback", said({"query": "i0", "positive": ["i1"], "negative": ["nobody"]})),
    "searched": ("POST", "search", {"key": "nobody"}),
    "classified": ("POST", "classify", {"key": "nobody"}),
    "compared": ("POST", "compare", {"first": {"key": "i0"}, "second": {"key": "nobody"}}),
    "fetched": ("GET", "items/nobody", None),
    "shown": ("GET", "thumbnails/nobody", None),
}


@pytest.mark.parametrize(("method", "operation", "body"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_item_is_named(live: Any, there: str, method: str, operation: str, body: Any) -> None:
    told = refused(live, method, f"{there}/{operation}", json=body)
    assert (told["status"], told["key"]) == (404, "nobody")


@pytest.mark.parametrize(
    "query",
    [
        *("after=-1", f"after={2**63}", "after=" + "9" * 5_000, "after=x", "limit=0", "limit=1001", "limit=1.5"),
        *("label=", "label=%00", "label=" + "a" * 129),
    ],
)
def test_a_page_that_cannot_be_is_refused(live: Any, there: str, query: str) -> None:
    told = refused(live, "GET", f"{there}/items?{query}")
    assert told["status"] == 422
    assert told["detail"].startswith(f"query/{query.partition('=')[0]}")


@pytest.mark.parametrize(
    "path",
    [
        *("/v1", "/v1/", "/nothing", "/v2/collections", "/docs", "/redoc", "//", "/v1/collections/"),
        *("/v1/collections/%2e%2e", "/v1/collections/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/v1/collections/a%00"),
        *("/v1/collections/%ff", "/v1/collections/" + "a" * 5_000),
    ],
)
def test_an_address_of_nothing_is_not_found(live: Any, path: str) -> None:
    assert refused(live, "GET", path)["status"] in (404, 422)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "PROPFIND"])
def test_a_method_that_there_is_not_is_refused_with_those_that_there_are(live: Any, method: str) -> None:
    assert refused(live, method, "/v1/openapi.json")["status"] == 405
    assert "GET" in live.http.request(method, "/v1/openapi.json").headers["allow"]


# -- bodies that are too large -------------------------------------------------------------------------------


def chunks(n: int) -> Iterator[bytes]:
    for _ in range(n):
        yield bytes(2**20)


def test_a_body_of_100_mb_is_too_large(live: Any, there: str) -> None:
    told = refused(live, "PUT", f"{there}/items", content=bytes(100 * 2**20), headers=JSON)
    assert (told["status"], told["type"]) == (413, "urn:oahu:problem:too-large")


def test_a_body_of_100_mb_in_chunks_is_too_large(live: Any, there: str) -> None:
    assert refused(live, "PUT", f"{there}/items", content=chunks(100), headers=JSON)["status"] == 413


def test_a_model_of_100_mb_is_too_large(live: Any, there: str) -> None:
    assert refused(live, "PUT", f"{there}/model", content=chunks(100))["status"] == 413


def test_a_body_that_ends_at_the_limit_is_taken(start: Any) -> None:
    service = start(max_body=2_000)
    path = service.new(n=2)
    body = json.dumps({"key": "i0"}).encode()
    fits, not_fits = body.ljust(2_000), body.ljust(2_001)
    service.ask("POST", f"{path}/search", content=fits, headers=JSON)
    service.ask("POST", f"{path}/search", 413, content=not_fits, headers=JSON)
    service.ask("POST", f"{path}/search", 413, content=iter([not_fits]), headers=JSON)


# -- errors that are many ------------------------------------------------------------------------------------

MILLION = {
    "wrong numbers": ("search", b'{"vector": [' + b"null," * 999_999 + b"null]}"),
    "wrong items": ("items", b'{"items": [' + b"{}," * 999_999 + b"{}]}"),
    "wrong keys": ("items/delete", b'{"keys": [' + b"0," * 999_999 + b"0]}"),
    "wrong pieces": ("feedback", b'{"feedback": [' + b"{}," * 999_999 + b"{}]}"),
    "unknown fields": ("search", json.dumps({"key": "i0", **{f"f{at}": 0 for at in range(1_000_000)}}).encode()),
    "fields of a piece": (
        "feedback",
        json.dumps(said({f"f{at}": 0 for at in range(1_000_000)} | {"query": "a"})).encode(),
    ),
}


@pytest.mark.parametrize(("operation", "body"), MILLION.values(), ids=MILLION)
def test_a_million_mistakes_are_not_told_one_by_one(live: Any, there: str, operation: str, body: bytes) -> None:
    method = "PUT" if operation == "items" else "POST"
    told = refused(live, method, f"{there}/{operation}", content=body, headers=JSON)
    assert len(told["errors"]) < 10


def test_a_long_name_of_a_field_is_not_told_whole(live: Any, there: str) -> None:
    answer = live.http.post(f"{there}/search", json={"key": "i0", "x" * 100_000: 1})
    assert answer.status_code == 422
    assert len(answer.content) < 2_000


# -- anything ------------------------------------------------------------------------------------------------

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
def test_whatever_json_comes_is_answered_or_refused_whole(live: Any, there: str, operation: str, body: Any) -> None:
    before = live.state()
    answer = live.http.request("PUT" if operation == "items" else "POST", f"{there}/{operation}", json=body)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert live.state() == before


@given(body=st.binary(max_size=200))
@settings(max_examples=50)
def test_whatever_bytes_come_are_refused(live: Any, there: str, body: bytes) -> None:
    assert live.http.post(f"{there}/compare", content=body, headers=JSON).status_code in (400, 422)


@given(vector=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
@settings(max_examples=60)
def test_finite_numbers_are_stored_and_searched_or_refused(live: Any, there: str, vector: list[float]) -> None:
    answer = live.http.post(f"{there}/search", json={"vector": vector})
    length = math.hypot(*vector) / 1e9
    assert answer.status_code == (200 if length <= 1 else 422), answer.text
