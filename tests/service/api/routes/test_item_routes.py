"""Operations on items."""

from __future__ import annotations

import base64
import re
import struct
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oahu.service.images import encode_png

PNG = encode_png(np.eye(4) * 255)
KINDS = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0 and more",
    "image/webp": b"RIFF1234WEBPVP8 ",
    "image/gif": b"GIF89a and more",
}


def item(key: str = "one", **more: Any) -> dict[str, Any]:
    return {"key": key, "vector": [1.0, 2.0, 3.0, 4.0], **more}


def put(server: Any, path: str, *items: dict[str, Any], status: int = 200) -> Any:
    return server.request("PUT", f"{path}/items", status, json={"items": list(items)})


def address(path: str, key: str, what: str = "items") -> str:
    return f"{path}/{what}/{quote(key, safe='').replace('.', '%2E')}"


# -- put, get, list, delete ---------------------------------------------------------------------------------


def test_get_item(server: Any) -> None:
    path = server.new_collection(n=0)
    payload = {"title": "ä <b>", "sizes": [1, 2.5, None, True], "deep": {"er": {}}}
    assert put(server, path, item(label="tea", payload=payload)) == {"stored": 1}
    fetched = server.request("GET", f"{path}/items/one")
    assert fetched == {"key": "one", "label": "tea", "payload": payload, "has_thumbnail": False}


def test_label_and_payload_are_optional(server: Any) -> None:
    path = server.new_collection(n=0)
    put(server, path, item())
    fetched = server.request("GET", f"{path}/items/one")
    assert fetched == {"key": "one", "label": None, "payload": None, "has_thumbnail": False}


def test_features_are_returned_on_request(server: Any) -> None:
    path = server.new_collection(n=0)
    put(server, path, {"key": "one", "vector": [0.5, -1, 0, 1e-3]})
    fetched = server.request("GET", f"{path}/items/one?vector=true")
    assert fetched["vector"] == np.array([0.5, -1, 0, 1e-3], np.float32).tolist()
    assert "vector" not in server.request("GET", f"{path}/items/one")
    server.request("GET", f"{path}/items/two?vector=true", 404)


def test_put_replaces_the_whole_item(server: Any) -> None:
    path = server.new_collection(n=0)
    put(server, path, item(label="tea", payload={"a": 1}))
    put(server, path, {"key": "one", "vector": [0, 0, 0, 1]})
    assert server.request("GET", f"{path}/items/one")["payload"] is None
    assert server.request("GET", path)["items"] == 1


def test_base64_vectors_equal_number_vectors(server: Any) -> None:
    path = server.new_collection()
    numbers = [0.5, -1.0, 2.0, 0.25]
    text = base64.b64encode(struct.pack("<4f", *numbers)).decode()
    found = [
        server.request("POST", f"{path}/search", json={"vector": vector, "k": 12})["matches"]
        for vector in (numbers, text)
    ]
    assert found[0] == found[1]


def test_the_next_search_finds_new_items(server: Any) -> None:
    path = server.new_collection()
    put(server, path, item("new", vector=[9, 9, 9, 9]))
    found = server.request("POST", f"{path}/search", json={"vector": [9, 9, 9, 9], "k": 1})
    assert found["matches"][0]["key"] == "new"


def test_list_items_in_pages(server: Any) -> None:
    path = server.new_collection(n=7)
    seen, after, pages = [], 0, 0
    while after is not None:
        page = server.request("GET", f"{path}/items", params={"after": after, "limit": 3})
        assert len(page["items"]) <= 3
        seen += [one["key"] for one in page["items"]]
        after, pages = page["next"], pages + 1
    assert (seen, pages) == ([f"i{at}" for at in range(7)], 3)


def test_list_items_of_a_label(server: Any) -> None:
    path = server.new_collection(n=7)
    listed = server.request("GET", f"{path}/items", params={"label": "odd"})["items"]
    assert [one["key"] for one in listed] == ["i1", "i3", "i5"]


def test_deleted_items_are_neither_listed_nor_found(server: Any) -> None:
    path = server.new_collection(n=5)
    assert server.request("POST", f"{path}/items/delete", json={"keys": ["i1", "i3"]}) == {"deleted": 2}
    left = ["i0", "i2", "i4"]
    assert [one["key"] for one in server.request("GET", f"{path}/items")["items"]] == left
    found = server.request("POST", f"{path}/search", json={"vector": [0, 0, 0, 0], "k": 9})["matches"]
    assert sorted(one["key"] for one in found) == left
    server.request("GET", f"{path}/items/i1", 404)


def test_deleting_an_unknown_item_deletes_none(server: Any) -> None:
    path = server.new_collection(n=3)
    rejected = server.request("POST", f"{path}/items/delete", 404, json={"keys": ["i0", "missing"]})
    assert (rejected["key"], rejected["at"]) == ("missing", 1)
    assert server.request("GET", path)["items"] == 3


# -- thumbnails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_get_thumbnail_with_its_media_type(server: Any, kind: str) -> None:
    path = server.new_collection(n=0)
    put(server, path, item(thumbnail=base64.b64encode(KINDS[kind]).decode()))
    response = server.http.get(f"{path}/thumbnails/one")
    assert (response.headers["content-type"], response.content) == (kind, KINDS[kind])
    assert server.request("GET", f"{path}/items/one")["has_thumbnail"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (base64.b64encode(b"<svg onload=alert(1)>").decode(), "must be a PNG, JPEG, WebP or GIF image"),
        (base64.b64encode(b"<html><script>").decode(), "must be a PNG, JPEG, WebP or GIF image"),
        ("AAAAA", "base64"),
        ("not base64!", "thumbnail"),
        (base64.b64encode(PNG + bytes(256 * 2**10)).decode(), "262144"),
    ],
)
def test_invalid_thumbnails_are_rejected(server: Any, text: str, message: str) -> None:
    path = server.new_collection(n=0)
    rejected = put(server, path, item(thumbnail=text), status=422)
    assert message in rejected["detail"]
    assert server.request("GET", path)["items"] == 0


def test_a_missing_thumbnail_is_not_found(server: Any) -> None:
    server.request("GET", f"{server.new_collection(n=1)}/thumbnails/i0", 404)


# -- keys ----------------------------------------------------------------------------------------------------

UNUSUAL = [
    *("a/b", "/etc/passwd", "a//b", "..a", "a.", "...", "C:\\x", "delete"),
    *("?", "#", "a?b=c#d", "%2e%2e", "%", "a b", " "),
    *("äöü", "日本", "\U0001f41f", "\u202ertl", "\u2028"),
    *("'; DROP TABLE items; --", "<script>alert(1)</script>", "a" * 512),
]


@pytest.mark.parametrize("key", UNUSUAL)
def test_unusual_keys_work_in_all_operations(server: Any, key: str) -> None:
    path = server.new_collection(n=2)
    put(server, path, item(key, payload={"mine": True}, thumbnail=base64.b64encode(PNG).decode()))
    assert server.request("GET", address(path, key))["key"] == key
    assert server.http.get(address(path, key, "thumbnails")).content == PNG
    server.add_feedback(path, {"first": key, "second": "i0", "same": True})
    assert server.request("GET", f"{path}/feedback")["records"][0]["first"] == key
    found = server.request("POST", f"{path}/search", json={"key": "i0", "k": 1})["matches"][0]
    assert (found["key"], found["feedback"]) == (key, "similar")
    server.request("POST", f"{path}/items/delete", json={"keys": [key]})
    server.request("GET", address(path, key), 404)


def test_keys_with_dot_segments_are_rejected(server: Any) -> None:
    for key in [".", "..", "../../etc/passwd", "a/../b", "a/.", "./a", "..\\..\\windows", "a/.."]:
        path = server.new_collection(n=1)
        assert (
            "must not contain '.' or '..' as a path segment" in put(server, path, item(key), status=422)["detail"]
        )
        assert server.request("GET", path)["items"] == 1
        server.request("GET", address(path, key), 404)


def test_keys_with_control_characters_or_too_many_characters_are_rejected(server: Any) -> None:
    for key in ["", "a\x00b", "a\nb", "\x7f", "\t", "a" * 513]:
        path = server.new_collection(n=1)
        assert put(server, path, item(), item(key), status=422)["detail"].startswith("body/items/1/key: "), key
        assert server.request("GET", path)["items"] == 1


@pytest.fixture(scope="module")
def path(server: Any) -> str:
    """A collection that all examples share."""
    found: str = server.new_collection(n=0)
    return found


@given(keys=st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=8, unique=True))
@settings(max_examples=40)
def test_a_batch_is_stored_completely_or_not_at_all(server: Any, path: str, keys: list[str]) -> None:
    before = listed(server, path)
    response = server.http.put(f"{path}/items", json={"items": [item(key) for key in keys]})
    assert response.status_code in (200, 422), response.text
    after = listed(server, path)
    assert after == (before | set(keys) if response.status_code == 200 else before)


def listed(server: Any, path: str) -> set[str]:
    return {one["key"] for one in server.request("GET", f"{path}/items", params={"limit": 1000})["items"]}


# -- patch ---------------------------------------------------------------------------------------------------


def patch(server: Any, path: str, *items: dict[str, Any], status: int = 200, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.request("PATCH", f"{path}/items", status, json={"items": list(items)}, headers=names)


def whole(server: Any, path: str, key: str = "one") -> dict[str, Any]:
    """Return an item with its vector and thumbnail."""
    thumbnail = server.http.get(address(path, key, "thumbnails"))
    fetched = server.request("GET", f"{address(path, key)}?vector=true")
    return fetched | {"thumbnail": thumbnail.content if thumbnail.status_code == 200 else None}


THUMBNAIL = base64.b64encode(PNG).decode()
PAYLOAD = {"title": "Sencha", "size": {"cm": 3, "inch": 1.2}, "tags": ["new", "green"]}
FIELDS: dict[str, tuple[Any, Any]] = {
    "vector": ([9, 8, 7, 6], [9, 8, 7, 6]),
    "label": ("black", "black"),
    "payload": ({"title": "Assam"}, PAYLOAD | {"title": "Assam"}),
    "thumbnail": (base64.b64encode(KINDS["image/gif"]).decode(), KINDS["image/gif"]),
}


@pytest.fixture
def full_item(server: Any) -> str:
    """The path of a collection with an item that has all fields."""
    found: str = server.new_collection(n=3)
    put(server, found, item(label="green", payload=PAYLOAD, thumbnail=THUMBNAIL))
    return found


@pytest.mark.parametrize("field", FIELDS)
def test_a_patch_changes_one_field_and_keeps_the_others(server: Any, full_item: str, field: str) -> None:
    before = whole(server, full_item)
    sent, stored = FIELDS[field]
    assert patch(server, full_item, {"key": "one", field: sent}) == {"changed": 1, "replayed": False}
    assert whole(server, full_item) == before | {field: stored}


@pytest.mark.parametrize("field", ["label", "payload", "thumbnail"])
def test_null_removes_a_field(server: Any, full_item: str, field: str) -> None:
    before = whole(server, full_item)
    patch(server, full_item, {"key": "one", field: None})
    after = {field: None} | ({"has_thumbnail": False} if field == "thumbnail" else {})
    assert whole(server, full_item) == before | after


# The test cases of RFC 7396, appendix A, that start and end with an object.
RFC_7396: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    (None, {"a": {"b": None}}, {"a": {}}),
]


@pytest.mark.parametrize(("before", "change", "after"), RFC_7396)
def test_payloads_are_merged_as_in_rfc_7396(server: Any, before: Any, change: Any, after: Any) -> None:
    path = server.new_collection(n=0)
    put(server, path, item(payload=before))
    patch(server, path, {"key": "one", "payload": change})
    assert server.request("GET", f"{path}/items/one")["payload"] == after


def test_the_next_search_uses_a_patched_item(server: Any, full_item: str) -> None:
    patch(server, full_item, {"key": "one", "vector": [9, 9, 9, 9], "label": "found", "payload": {"at": 100}})
    search = {"vector": [9, 9, 9, 9], "k": 1, "label": "found", "filter": {"field": "at", "equals": 100}}
    found = server.request("POST", f"{full_item}/search", json=search)["matches"]
    assert (found[0]["key"], found[0]["distance"]) == ("one", pytest.approx(0, abs=1e-3))
    assert server.request("GET", full_item)["items"] == 4


def test_feedback_applies_after_a_patch_unless_the_vector_changes(server: Any, full_item: str) -> None:
    server.add_feedback(full_item, {"first": "one", "second": "i0", "same": True})
    for change, relation in (({"payload": {"x": 1}}, "similar"), ({"vector": [1, 2, 3, 5]}, None)):
        patch(server, full_item, {"key": "one", **change})
        found = server.request("POST", f"{full_item}/search", json={"key": "one"})["matches"]
        assert {one["key"]: one["feedback"] for one in found}["i0"] == relation


LARGE = {"text": "a" * 40_000}
INVALID_PATCHES: dict[str, tuple[dict[str, Any], int, str]] = {
    "unknown item": ({"key": "missing", "label": "x"}, 404, "There is no item 'missing'"),
    "no change": ({"key": "i0"}, 422, "body/items/1: expected at least one of 'vector', 'text', 'image', 'label'"),
    "no vector": ({"key": "i0", "vector": None}, 422, "body/items/1/vector"),
    "short vector": ({"key": "i0", "vector": [1]}, 422, "items/1/vector must have 4 numbers. Got 1"),
    "list as payload": ({"key": "i0", "payload": [1]}, 422, "body/items/1/payload"),
    "twice": ({"key": "one", "label": "x"}, 422, "The key 'one' occurs again at index 1"),
    "unknown field": ({"key": "i0", "labels": "x"}, 422, "body/items/1/labels"),
    "large together": (
        {"key": "large", "payload": {"more": "a" * 40_000}},
        422,
        "items/1/payload, merged into the stored payload, must have at most 65536 bytes",
    ),
}


@pytest.mark.parametrize("name", INVALID_PATCHES)
def test_an_invalid_patch_changes_nothing(server: Any, full_item: str, name: str) -> None:
    wrong, status, message = INVALID_PATCHES[name]
    put(server, full_item, item("large", payload=LARGE))
    before = server.stored_rows()
    good = {"key": "one", "vector": [0, 0, 0, 1], "label": "changed"}
    key = {"Idempotency_Key": "once"}
    rejected = patch(server, full_item, good, wrong, status=status, **key)
    assert message in rejected["detail"]
    assert server.stored_rows() == before
    assert not patch(server, full_item, good, **key)["replayed"]  # the key is not used up


def test_a_repeated_patch_changes_nothing(server: Any, full_item: str) -> None:
    """A late retry does not overwrite a change that another client made in between."""
    change = {"key": "one", "payload": {"stock": 3}}
    assert not patch(server, full_item, change, Idempotency_Key="sale")["replayed"]
    patch(server, full_item, {"key": "one", "payload": {"stock": 2}})
    assert patch(server, full_item, change, Idempotency_Key="sale") == {"changed": 1, "replayed": True}
    assert server.request("GET", f"{full_item}/items/one")["payload"]["stock"] == 2


def test_an_idempotency_key_of_another_request_is_rejected(server: Any, full_item: str) -> None:
    key = {"Idempotency-Key": "k"}
    patch(server, full_item, {"key": "one", "label": "a"}, Idempotency_Key="k")
    rejected = patch(server, full_item, {"key": "one", "label": "b"}, status=422, Idempotency_Key="k")
    assert "was already used for another request" in rejected["detail"]
    pair = {"first": "one", "second": "i0", "same": True}
    assert "used for other items" in server.add_feedback(full_item, pair, status=422, headers=key)["detail"]


def test_patches_and_their_receipts_survive_a_restart(start_server: Any) -> None:
    server = start_server()
    path = server.new_collection(n=2)
    patch(server, path, {"key": "i0", "payload": {"new": True}}, Idempotency_Key="k")
    server.service.close()
    server = start_server()
    assert server.request("GET", f"{path}/items/i0")["payload"] == {"at": 0, "new": True}
    assert patch(server, path, {"key": "i0", "payload": {"new": True}}, Idempotency_Key="k")["replayed"]


# -- find ----------------------------------------------------------------------------------------------------

TEAS: dict[str, tuple[str | None, dict[str, Any] | None]] = {
    "sencha": ("green", {"title": "Sencha Superior", "notes": ["Fresh grass", {"more": "Grüner Tee"}], "price": 5}),
    "gyokuro-2": ("green", {"title": "Gyokuro Supreme", "price": 9}),
    "assam_01": ("Black tea", {"title": 'The "Assam"\nblend', "superior": "no text of this"}),
    "Ωmega": (None, {"title": "Äpfel, ÎLE de thé", "code": 2024}),
    "plain": (None, None),
}


@pytest.fixture(scope="module")
def teas(server: Any) -> str:
    found: str = server.new_collection(n=0)
    put(server, found, *(item(key, label=label, payload=payload) for key, (label, payload) in TEAS.items()))
    return found


def find(server: Any, path: str, status: int = 200, **body: Any) -> Any:
    return server.request("POST", f"{path}/items/find", status, json=body)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("sup", ["sencha", "gyokuro-2"]),
        ("SUPER", ["sencha"]),
        ("sup gyo", ["gyokuro-2"]),
        ("gyokuro-", ["gyokuro-2"]),
        ("perior", []),
        ("gras", ["sencha"]),
        ("grün", ["sencha"]),
        ("GRÜ", ["sencha"]),
        ("tee", ["sencha"]),
        ("blend assam", ["assam_01"]),
        ("black", ["assam_01"]),
        ("assam_0", ["assam_01"]),
        ("assam_1", []),
        ("äpf", ["Ωmega"]),
        ("île", ["Ωmega"]),
        ("ω", ["Ωmega"]),
        ("2", ["gyokuro-2"]),
        ("more", []),
        ("plain", ["plain"]),
        ("%", None),
        ("nothing", []),
    ],
)
def test_find_items_by_the_beginnings_of_words(server: Any, teas: str, text: str, keys: list[str] | None) -> None:
    if keys is None:
        assert find(server, teas, 422, text=text)["detail"] == "text must contain a letter or a digit."
    else:
        assert [one["key"] for one in find(server, teas, text=text)["items"]] == keys


def test_find_items_by_several_conditions(server: Any, teas: str) -> None:
    cheap = {"field": "price", "lt": 6}
    found = find(server, teas, text="sup", label="green", filter=cheap)
    expected = {"key": "sencha", "label": "green", "payload": TEAS["sencha"][1], "has_thumbnail": False}
    assert found == {"items": [expected], "next": None}
    assert [one["key"] for one in find(server, teas, filter={"not": cheap}, label="green")["items"]] == [
        "gyokuro-2"
    ]
    assert len(find(server, teas)["items"]) == 5
    assert find(server, teas, 422, filter={"field": "price"})["detail"].startswith("body/filter: expected")


@pytest.mark.parametrize("conditions", [{"text": "many"}, {"filter": {"field": "at", "gte": 0}}])
def test_found_items_are_returned_in_pages(server: Any, conditions: dict[str, Any]) -> None:
    path = server.new_collection(n=0)
    put(server, path, *(item(f"k{at}", payload={"at": at % 3 - 1, "text": "so many"}) for at in range(500)))
    seen, after, wanted = [], 0, [f"k{at}" for at in range(500) if "text" in conditions or at % 3]
    while after is not None:
        page = find(server, path, after=after, limit=170, **conditions)
        seen += [one["key"] for one in page["items"]]
        after = page["next"]
    assert seen == wanted


@given(
    texts=st.lists(st.text('abABäÄß_9 -"\\%\u0130\u212a', max_size=8), min_size=1, max_size=6),
    wanted=st.text("abABäÄ_9 ", min_size=1, max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_find_agrees_with_a_direct_comparison(server: Any, path: str, texts: list[str], wanted: str) -> None:
    stored = [one["key"] for one in server.request("GET", f"{path}/items", params={"limit": 1000})["items"]]
    if stored:
        server.request("POST", f"{path}/items/delete", json={"keys": stored})
    put(server, path, *(item(f"{at}", payload={"field": [text]}) for at, text in enumerate(texts)))
    words = re.findall(r"\w+", wanted.lower())
    if not words:
        find(server, path, 422, text=wanted)
        return
    expected = [
        f"{at}"
        for at, text in enumerate(texts)
        if all(re.search(rf"(?<!\w){word}", f"{text} {at}", re.IGNORECASE) for word in words)
    ]
    assert [one["key"] for one in find(server, path, text=wanted)["items"]] == expected
