"""Feedback in three forms: accepted in order or not at all, once, logged, undone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

TRIPLET = {"anchor": "i0", "positive": "i1", "negative": "i2"}
ALIKE = {"first": "i3", "second": "i4", "same": True}
UNLIKE = {"first": "i3", "second": "i5", "same": False}
CLICK = {"query": "i6", "positive": ["i7", "i8"], "negative": ["i9"]}


def entries(service: Any, path: str) -> list[dict[str, Any]]:
    """The log, without when things were said."""
    found: list[dict[str, Any]] = service.ask("GET", f"{path}/feedback")["records"]
    for entry in found:
        assert entry.pop("time") > 1.7e9
    return found


def search(service: Any, path: str, **asked: Any) -> Any:
    return service.ask("POST", f"{path}/search", json={"key": "i0", **asked})


# -- what is said --------------------------------------------------------------------------------------------


def test_feedback_in_every_form_is_logged_as_it_was_said(live: Any) -> None:
    path = live.new()
    received = live.say(path, TRIPLET, ALIKE, UNLIKE, CLICK)
    assert received == {"accepted": 4, "first_seq": 1, "last_seq": 4, "replayed": False}
    kinds = ["triplet", "pair", "pair", "click"]
    said = [TRIPLET, ALIKE, UNLIKE, CLICK]
    assert entries(live, path) == [
        {"seq": seq, "kind": kind, "active": True, **one}
        for seq, (kind, one) in enumerate(zip(kinds, said, strict=True), 1)
    ]


def test_sequence_numbers_go_on_from_request_to_request(live: Any) -> None:
    path = live.new()
    first, second = live.say(path, TRIPLET, ALIKE), live.say(path, CLICK)
    assert (first["last_seq"], second["first_seq"], second["last_seq"]) == (2, 3, 3)


def test_what_was_acknowledged_counts_in_the_next_answer(live: Any) -> None:
    path = live.new()
    for _ in range(20):
        received = live.say(path, {"query": "i0", "positive": ["i1"], "negative": ["i2"]})
        assert search(live, path)["metric_version"] >= received["last_seq"]


def test_feedback_moves_the_ranking(live: Any) -> None:
    path = live.new()
    before = [one["key"] for one in search(live, path, k=11)["matches"]]
    live.say(path, {"query": "i0", "positive": [before[-1]], "negative": [before[0]]})
    after = [one["key"] for one in search(live, path, k=11)["matches"]]
    assert (after[0], after[-1]) == (before[-1], before[0])


def test_a_click_may_have_only_positives_or_only_negatives(live: Any) -> None:
    path = live.new()
    live.say(path, {"query": "i0", "positive": ["i1"]}, {"query": "i0", "negative": ["i2"]})
    said = {one["key"]: one["feedback"] for one in search(live, path, k=11)["matches"]}
    assert (said["i1"], said["i2"], said["i3"]) == ("similar", "dissimilar", None)


def test_the_log_comes_in_pages(live: Any) -> None:
    path = live.new()
    live.say(path, *[TRIPLET] * 5)
    first = live.ask("GET", f"{path}/feedback", params={"limit": 3})
    rest = live.ask("GET", f"{path}/feedback", params={"limit": 3, "after": first["next"]})
    assert [one["seq"] for one in first["records"] + rest["records"]] == [1, 2, 3, 4, 5]
    assert rest["next"] is None


def test_the_log_names_items_that_are_gone(live: Any) -> None:
    path = live.new()
    live.say(path, ALIKE)
    live.ask("POST", f"{path}/items/delete", json={"keys": ["i3", "i4"]})
    assert entries(live, path)[0]["first"] == "i3"


# -- once ----------------------------------------------------------------------------------------------------


def test_the_same_request_again_is_answered_again_and_changes_nothing(live: Any) -> None:
    path = live.new()
    once = {"headers": {"Idempotency-Key": "order-1"}}
    first, again = live.say(path, TRIPLET, CLICK, **once), live.say(path, TRIPLET, CLICK, **once)
    assert again == first | {"replayed": True}
    assert len(entries(live, path)) == 2


def test_a_request_sent_ten_times_at_once_counts_once(live: Any) -> None:
    path = live.new()

    def send(_: int) -> Any:
        return live.say(path, TRIPLET, headers={"Idempotency-Key": "at-once"})

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(send, range(10)))
    assert sorted(one["replayed"] for one in answers) == [False] + [True] * 9
    assert len(entries(live, path)) == 1


def test_a_key_of_one_request_is_not_for_another(live: Any) -> None:
    path = live.new()
    live.say(path, TRIPLET, headers={"Idempotency-Key": "mine"})
    refused = live.say(path, CLICK, headers={"Idempotency-Key": "mine"}, status=422)
    assert "'mine'" in refused["detail"]
    assert len(entries(live, path)) == 1


def test_the_same_key_in_two_collections_is_two_requests(live: Any) -> None:
    for path in (live.new(), live.new()):
        assert not live.say(path, TRIPLET, headers={"Idempotency-Key": "shared"})["replayed"]


@pytest.mark.parametrize("key", ["", "a b", "a" * 129, "ä".encode()])
def test_an_odd_idempotency_key_is_refused(live: Any, key: Any) -> None:
    path = live.new()
    refused = live.say(path, TRIPLET, headers={"Idempotency-Key": key}, status=422)
    assert "idempotency-key" in refused["detail"].lower()
    assert entries(live, path) == []


# -- contradictions ------------------------------------------------------------------------------------------


def test_a_contradiction_is_answered_with_the_chain_that_proves_it(live: Any) -> None:
    path = live.new()
    live.say(path, {"first": "i0", "second": "i1", "same": True}, {"first": "i1", "second": "i2", "same": True})
    refused = live.say(path, {"first": "i0", "second": "i2", "same": False}, status=409)
    assert refused["type"] == "urn:oahu:problem:contradiction"
    assert refused["pair"] == {"first": "i0", "second": "i2", "same": False}
    linked = {frozenset((link["first"], link["second"])): (link["seq"], link["same"]) for link in refused["chain"]}
    assert linked == {frozenset(("i0", "i1")): (1, True), frozenset(("i1", "i2")): (2, True)}


def test_a_request_that_contradicts_itself_names_its_own_pieces(live: Any) -> None:
    path = live.new()
    refused = live.say(path, ALIKE, ALIKE | {"same": False}, status=409)
    assert refused["record"] == 1
    assert [link["record"] for link in refused["chain"]] == [0]


def test_of_a_request_with_a_contradiction_nothing_is_accepted(live: Any) -> None:
    path = live.new()
    live.say(path, ALIKE)
    live.say(path, TRIPLET, CLICK, ALIKE | {"same": False}, status=409)
    assert len(entries(live, path)) == 1
    assert live.ask("GET", path)["last_seq"] == 1


def test_a_refused_request_may_come_again_with_its_key(live: Any) -> None:
    path = live.new()
    seq = live.say(path, ALIKE)["last_seq"]
    opposite = ALIKE | {"same": False}
    live.say(path, opposite, headers={"Idempotency-Key": "later"}, status=409)
    live.ask("DELETE", f"{path}/feedback/{seq}")
    assert not live.say(path, opposite, headers={"Idempotency-Key": "later"})["replayed"]


def test_a_collection_may_believe_the_newest(live: Any) -> None:
    path = live.new(contradictions="newest")
    live.say(path, {"first": "i0", "second": "i1", "same": True})
    live.say(path, {"first": "i0", "second": "i1", "same": False})
    said = {one["key"]: one["feedback"] for one in search(live, path, k=11)["matches"]}
    assert said["i1"] == "dissimilar"


# -- undone --------------------------------------------------------------------------------------------------


def model(service: Any, path: str) -> bytes:
    search(service, path)  # which waits until all is learned
    content: bytes = service.http.get(f"{path}/model").content
    return content


def test_without_a_piece_the_model_is_what_it_would_have_been(live: Any) -> None:
    with_it, without = live.new(), live.new()
    live.say(with_it, TRIPLET, CLICK)
    live.ask("DELETE", f"{with_it}/feedback/2")
    live.say(without, TRIPLET)
    assert model(live, with_it) == model(live, without)


def test_an_undone_piece_stays_in_the_log_and_does_not_count(live: Any) -> None:
    path = live.new()
    live.say(path, TRIPLET, CLICK)
    assert live.ask("DELETE", f"{path}/feedback/1") == {"seq": 3}
    assert [(one["seq"], one["kind"], one["active"]) for one in entries(live, path)] == [
        (1, "triplet", False),
        (2, "click", True),
        (3, "undo", True),
    ]


def test_undoing_counts_in_the_next_answer(live: Any) -> None:
    path = live.new()
    live.say(path, {"query": "i0", "positive": ["i1"]})
    undone = live.ask("DELETE", f"{path}/feedback/1")
    found = search(live, path, k=11)
    assert found["metric_version"] >= undone["seq"]
    assert {one["feedback"] for one in found["matches"]} == {None}


@pytest.mark.parametrize(
    ("seq", "status"), [("0", 404), ("-1", 404), ("9", 404), (str(2**70), 404), ("x", 422), ("1.5", 422)]
)
def test_what_was_not_said_cannot_be_undone(live: Any, seq: str, status: int) -> None:
    path = live.new()
    live.say(path, TRIPLET)
    live.ask("DELETE", f"{path}/feedback/{seq}", status)
    assert [one["active"] for one in entries(live, path)] == [True]


def test_what_is_undone_cannot_be_undone_again(live: Any) -> None:
    path = live.new()
    live.say(path, TRIPLET)
    live.ask("DELETE", f"{path}/feedback/1")
    live.ask("DELETE", f"{path}/feedback/1", 409)
    assert len(entries(live, path)) == 2


def test_an_undo_cannot_be_undone(live: Any) -> None:
    path = live.new()
    live.say(path, TRIPLET)
    live.ask("DELETE", f"{path}/feedback/1")
    live.ask("DELETE", f"{path}/feedback/2", 422)
