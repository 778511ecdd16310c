"""Items are added, replaced, listed, fetched and deleted, whatever their keys."""

from __future__ import annotations

import base64
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


def put(service: Any, path: str, *items: dict[str, Any], status: int = 200) -> Any:
    return service.ask("PUT", f"{path}/items", status, json={"items": list(items)})


def address(path: str, key: str, what: str = "items") -> str:
    return f"{path}/{what}/{quote(key, safe='').replace('.', '%2E')}"


# -- what is put is there ------------------------------------------------------------------------------------


def test_an_item_is_fetched_as_it_was_put(live: Any) -> None:
    path = live.new(n=0)
    payload = {"title": "ä <b>", "sizes": [1, 2.5, None, True], "deep": {"er": {}}}
    assert put(live, path, item(label="tea", payload=payload)) == {"stored": 1}
    fetched = live.ask("GET", f"{path}/items/one")
    assert fetched == {"key": "one", "label": "tea", "payload": payload, "has_thumbnail": False}


def test_an_item_needs_no_label_or_payload(live: Any) -> None:
    path = live.new(n=0)
    put(live, path, item())
    fetched = live.ask("GET", f"{path}/items/one")
    assert fetched == {"key": "one", "label": None, "payload": None, "has_thumbnail": False}


def test_an_items_features_are_answered_if_they_are_asked_for(live: Any) -> None:
    path = live.new(n=0)
    put(live, path, {"key": "one", "vector": [0.5, -1, 0, 1e-3]})
    fetched = live.ask("GET", f"{path}/items/one?vector=true")
    assert fetched["vector"] == np.array([0.5, -1, 0, 1e-3], np.float32).tolist()
    assert "vector" not in live.ask("GET", f"{path}/items/one")
    live.ask("GET", f"{path}/items/two?vector=true", 404)


def test_an_item_that_is_put_again_is_replaced_whole(live: Any) -> None:
    path = live.new(n=0)
    put(live, path, item(label="tea", payload={"a": 1}))
    put(live, path, {"key": "one", "vector": [0, 0, 0, 1]})
    assert live.ask("GET", f"{path}/items/one")["payload"] is None
    assert live.ask("GET", path)["items"] == 1


def test_features_in_base64_are_those_in_numbers(live: Any) -> None:
    path = live.new()
    numbers = [0.5, -1.0, 2.0, 0.25]
    text = base64.b64encode(struct.pack("<4f", *numbers)).decode()
    found = [
        live.ask("POST", f"{path}/search", json={"vector": vector, "k": 12})["matches"]
        for vector in (numbers, text)
    ]
    assert found[0] == found[1]


def test_items_are_found_as_soon_as_they_are_put(live: Any) -> None:
    path = live.new()
    put(live, path, item("new", vector=[9, 9, 9, 9]))
    found = live.ask("POST", f"{path}/search", json={"vector": [9, 9, 9, 9], "k": 1})
    assert found["matches"][0]["key"] == "new"


def test_items_are_listed_in_pages_in_the_order_in_which_they_were_added(live: Any) -> None:
    path = live.new(n=7)
    seen, after, pages = [], 0, 0
    while after is not None:
        page = live.ask("GET", f"{path}/items", params={"after": after, "limit": 3})
        assert len(page["items"]) <= 3
        seen += [one["key"] for one in page["items"]]
        after, pages = page["next"], pages + 1
    assert (seen, pages) == ([f"i{at}" for at in range(7)], 3)


def test_items_of_a_label_are_listed(live: Any) -> None:
    path = live.new(n=7)
    listed = live.ask("GET", f"{path}/items", params={"label": "odd"})["items"]
    assert [one["key"] for one in listed] == ["i1", "i3", "i5"]


def test_deleted_items_are_neither_listed_nor_found(live: Any) -> None:
    path = live.new(n=5)
    assert live.ask("POST", f"{path}/items/delete", json={"keys": ["i1", "i3"]}) == {"deleted": 2}
    left = ["i0", "i2", "i4"]
    assert [one["key"] for one in live.ask("GET", f"{path}/items")["items"]] == left
    found = live.ask("POST", f"{path}/search", json={"vector": [0, 0, 0, 0], "k": 9})["matches"]
    assert sorted(one["key"] for one in found) == left
    live.ask("GET", f"{path}/items/i1", 404)


def test_deleting_one_that_is_not_there_deletes_none(live: Any) -> None:
    path = live.new(n=3)
    refused = live.ask("POST", f"{path}/items/delete", 404, json={"keys": ["i0", "nobody"]})
    assert (refused["key"], refused["at"]) == ("nobody", 1)
    assert live.ask("GET", path)["items"] == 3


# -- thumbnails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_thumbnail_is_answered_as_what_it_is(live: Any, kind: str) -> None:
    path = live.new(n=0)
    put(live, path, item(thumbnail=base64.b64encode(KINDS[kind]).decode()))
    answer = live.http.get(f"{path}/thumbnails/one")
    assert (answer.headers["content-type"], answer.content) == (kind, KINDS[kind])
    assert live.ask("GET", f"{path}/items/one")["has_thumbnail"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (base64.b64encode(b"<svg onload=alert(1)>").decode(), "must be a PNG, JPEG, WebP or GIF image"),
        (base64.b64encode(b"<html><script>").decode(), "must be a PNG, JPEG, WebP or GIF image"),
        ("AAAAA", "base64"),
        ("not base64!", "thumbnail"),
        (base64.b64encode(PNG + bytes(256 * 2**10)).decode(), "262144"),
    ],
)
def test_what_is_no_small_image_is_no_thumbnail(live: Any, text: str, told: str) -> None:
    path = live.new(n=0)
    refused = put(live, path, item(thumbnail=text), status=422)
    assert told in refused["detail"]
    assert live.ask("GET", path)["items"] == 0


def test_an_item_without_a_thumbnail_has_none(live: Any) -> None:
    live.ask("GET", f"{live.new(n=1)}/thumbnails/i0", 404)


# -- keys ----------------------------------------------------------------------------------------------------

ODD = [
    *("a/b", "/etc/passwd", "a//b", "..a", "a.", "...", "C:\\x", "delete"),
    *("?", "#", "a?b=c#d", "%2e%2e", "%", "a b", " "),
    *("äöü", "日本", "\U0001f41f", "\u202ertl", "\u2028"),
    *("'; DROP TABLE items; --", "<script>alert(1)</script>", "a" * 512),
]


@pytest.mark.parametrize("key", ODD)
def test_an_odd_key_is_a_key_like_any_other(live: Any, key: str) -> None:
    path = live.new(n=2)
    put(live, path, item(key, payload={"mine": True}, thumbnail=base64.b64encode(PNG).decode()))
    assert live.ask("GET", address(path, key))["key"] == key
    assert live.http.get(address(path, key, "thumbnails")).content == PNG
    live.say(path, {"first": key, "second": "i0", "same": True})
    assert live.ask("GET", f"{path}/feedback")["records"][0]["first"] == key
    found = live.ask("POST", f"{path}/search", json={"key": "i0", "k": 1})["matches"][0]
    assert (found["key"], found["feedback"]) == (key, "similar")
    live.ask("POST", f"{path}/items/delete", json={"keys": [key]})
    live.ask("GET", address(path, key), 404)


@pytest.mark.parametrize("key", [".", "..", "../../etc/passwd", "a/../b", "a/.", "./a", "..\\..\\windows", "a/.."])
def test_a_key_that_an_address_would_lose_is_refused(live: Any, key: str) -> None:
    path = live.new(n=1)
    assert "must not contain '.' or '..' as a path segment" in put(live, path, item(key), status=422)["detail"]
    assert live.ask("GET", path)["items"] == 1
    live.ask("GET", address(path, key), 404)


@pytest.mark.parametrize("key", ["", "a\x00b", "a\nb", "\x7f", "\t", "a" * 513])
def test_a_key_has_no_control_characters_and_an_end(live: Any, key: str) -> None:
    path = live.new(n=1)
    assert put(live, path, item(), item(key), status=422)["detail"].startswith("body/items/1/key: ")
    assert live.ask("GET", path)["items"] == 1


@pytest.fixture(scope="module")
def path(live: Any) -> str:
    """A collection that examples share."""
    found: str = live.new(n=0)
    return found


@given(keys=st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=8, unique=True))
@settings(max_examples=40)
def test_a_batch_is_taken_whole_and_is_what_was_sent_or_not_at_all(live: Any, path: str, keys: list[str]) -> None:
    before = listed(live, path)
    answer = live.http.put(f"{path}/items", json={"items": [item(key) for key in keys]})
    assert answer.status_code in (200, 422), answer.text
    after = listed(live, path)
    assert after == (before | set(keys) if answer.status_code == 200 else before)


def listed(service: Any, path: str) -> set[str]:
    return {one["key"] for one in service.ask("GET", f"{path}/items", params={"limit": 1000})["items"]}
