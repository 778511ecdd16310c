"""Operations on feedback."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

TRIPLET = {"anchor": "i0", "positive": "i1", "negative": "i2"}
ALIKE = {"first": "i3", "second": "i4", "same": True}
UNLIKE = {"first": "i3", "second": "i5", "same": False}
CLICK = {"query": "i6", "positive": ["i7", "i8"], "negative": ["i9"]}
DEFAULTS = {"weight": 1.0, "source": None}
NOTHING_REFUSED: dict[str, Any] = {"refused": [], "unknown_impressions": []}


def log_records(server: Any, path: str) -> list[dict[str, Any]]:
    """Return the feedback log without the times."""
    found: list[dict[str, Any]] = server.request("GET", f"{path}/feedback")["records"]
    for entry in found:
        assert entry.pop("time") > 1.7e9
    return found


def search(server: Any, path: str, **body: Any) -> Any:
    return server.request("POST", f"{path}/search", json={"key": "i0", **body})


# -- add and list -------------------------------------------------------------------------------------------


def test_clicks_triplets_and_pairs_are_logged(server: Any) -> None:
    path = server.new_collection()
    received = server.add_feedback(path, TRIPLET, ALIKE, UNLIKE, CLICK)
    assert received == {"accepted": 4, "first_seq": 1, "last_seq": 4, "replayed": False, **NOTHING_REFUSED}
    kinds = ["triplet", "pair", "pair", "click"]
    feedback = [TRIPLET, ALIKE, UNLIKE, CLICK | {"shown": []}]
    assert log_records(server, path) == [
        {"seq": seq, "kind": kind, "active": True, **DEFAULTS, **one}
        for seq, (kind, one) in enumerate(zip(kinds, feedback, strict=True), 1)
    ]


def test_sequence_numbers_continue_across_requests(server: Any) -> None:
    path = server.new_collection()
    first, second = server.add_feedback(path, TRIPLET, ALIKE), server.add_feedback(path, CLICK)
    assert (first["last_seq"], second["first_seq"], second["last_seq"]) == (2, 3, 3)


def test_the_next_search_uses_acknowledged_feedback(server: Any) -> None:
    path = server.new_collection()
    for _ in range(20):
        received = server.add_feedback(path, {"query": "i0", "positive": ["i1"], "negative": ["i2"]})
        assert search(server, path)["metric_version"] >= received["last_seq"]


def test_feedback_changes_the_ranking(server: Any) -> None:
    path = server.new_collection()
    before = [one["key"] for one in search(server, path, k=11)["matches"]]
    server.add_feedback(path, {"query": "i0", "positive": [before[-1]], "negative": [before[0]]})
    after = [one["key"] for one in search(server, path, k=11)["matches"]]
    assert (after[0], after[-1]) == (before[-1], before[0])


def test_a_click_can_have_only_positives_or_only_negatives(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, {"query": "i0", "positive": ["i1"]}, {"query": "i0", "negative": ["i2"]})
    feedback = {one["key"]: one["feedback"] for one in search(server, path, k=11)["matches"]}
    assert (feedback["i1"], feedback["i2"], feedback["i3"]) == ("similar", "dissimilar", None)


def test_the_log_is_paginated(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, *[TRIPLET] * 5)
    first = server.request("GET", f"{path}/feedback", params={"limit": 3})
    rest = server.request("GET", f"{path}/feedback", params={"limit": 3, "after": first["next"]})
    assert [one["seq"] for one in first["records"] + rest["records"]] == [1, 2, 3, 4, 5]
    assert rest["next"] is None


def test_the_log_contains_the_keys_of_deleted_items(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, ALIKE)
    server.request("POST", f"{path}/items/delete", json={"keys": ["i3", "i4"]})
    assert log_records(server, path)[0]["first"] == "i3"


# -- idempotency ---------------------------------------------------------------------------------------------


def test_a_repeated_request_gets_the_same_response_and_changes_nothing(server: Any) -> None:
    path = server.new_collection()
    once = {"headers": {"Idempotency-Key": "order-1"}}
    first, again = (
        server.add_feedback(path, TRIPLET, CLICK, **once),
        server.add_feedback(path, TRIPLET, CLICK, **once),
    )
    assert again == first | {"replayed": True}
    assert len(log_records(server, path)) == 2


def test_ten_concurrent_repetitions_are_stored_once(server: Any) -> None:
    path = server.new_collection()

    def send(_: int) -> Any:
        return server.add_feedback(path, TRIPLET, headers={"Idempotency-Key": "at-once"})

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(send, range(10)))
    assert sorted(one["replayed"] for one in answers) == [False] + [True] * 9
    assert len(log_records(server, path)) == 1


def test_an_idempotency_key_cannot_be_used_for_another_request(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, TRIPLET, headers={"Idempotency-Key": "mine"})
    rejected = server.add_feedback(path, CLICK, headers={"Idempotency-Key": "mine"}, status=422)
    assert "'mine'" in rejected["detail"]
    assert len(log_records(server, path)) == 1


def test_idempotency_keys_belong_to_a_collection(server: Any) -> None:
    for path in (server.new_collection(), server.new_collection()):
        assert not server.add_feedback(path, TRIPLET, headers={"Idempotency-Key": "shared"})["replayed"]


@pytest.mark.parametrize("key", ["", "a b", "a" * 129, "ä".encode()])
def test_invalid_idempotency_keys_are_rejected(server: Any, key: Any) -> None:
    path = server.new_collection()
    rejected = server.add_feedback(path, TRIPLET, headers={"Idempotency-Key": key}, status=422)
    assert "idempotency-key" in rejected["detail"].lower()
    assert log_records(server, path) == []


# -- contradictions ------------------------------------------------------------------------------------------


def test_a_contradiction_response_contains_the_proof(server: Any) -> None:
    path = server.new_collection(contradictions="refuse")
    server.add_feedback(
        path, {"first": "i0", "second": "i1", "same": True}, {"first": "i1", "second": "i2", "same": True}
    )
    rejected = server.add_feedback(path, {"first": "i0", "second": "i2", "same": False}, status=409)
    assert rejected["type"] == "urn:oahu:problem:contradiction"
    assert rejected["pair"] == {"first": "i0", "second": "i2", "same": False}
    linked = {frozenset((link["first"], link["second"])): (link["seq"], link["same"]) for link in rejected["proof"]}
    assert linked == {frozenset(("i0", "i1")): (1, True), frozenset(("i1", "i2")): (2, True)}


def test_a_proof_can_refer_to_the_same_request(server: Any) -> None:
    path = server.new_collection(contradictions="refuse")
    received = server.add_feedback(path, ALIKE, ALIKE | {"same": False})
    (refused,) = received["refused"]
    assert refused["record"] == 1
    assert [link["record"] for link in refused["proof"]] == [0]


def test_refused_records_are_listed_and_the_others_are_stored(server: Any) -> None:
    path = server.new_collection(contradictions="refuse")
    server.add_feedback(path, ALIKE)
    received = server.add_feedback(path, TRIPLET, ALIKE | {"same": False}, CLICK, UNLIKE, UNLIKE | {"same": True})
    assert (received["accepted"], received["first_seq"], received["last_seq"]) == (3, 2, 4)
    assert [one["record"] for one in received["refused"]] == [1, 4]
    assert received["refused"][0]["pair"] == ALIKE | {"same": False}
    assert received["refused"][0]["proof"] == [{"seq": 1, **ALIKE}]
    assert "'i3' and 'i4' are dissimilar" in received["refused"][0]["reason"]
    assert received["refused"][1]["proof"] == [{"record": 3, **UNLIKE}]
    assert [one["kind"] for one in log_records(server, path)] == ["pair", "triplet", "click", "pair"]


def test_a_retry_lists_the_same_refused_records(server: Any) -> None:
    path = server.new_collection(contradictions="refuse")
    server.add_feedback(path, ALIKE)
    once = {"headers": {"Idempotency-Key": "some"}}
    first = server.add_feedback(path, TRIPLET, ALIKE | {"same": False}, **once)
    server.request("DELETE", f"{path}/feedback/1")  # now the refused record would be accepted
    assert first["refused"]
    assert server.add_feedback(path, TRIPLET, ALIKE | {"same": False}, **once) == first | {"replayed": True}


def test_a_model_without_refused_records_equals_a_model_of_the_accepted_records(server: Any) -> None:
    mixed, clean = server.new_collection(contradictions="refuse"), server.new_collection(contradictions="refuse")
    server.add_feedback(mixed, ALIKE, TRIPLET, ALIKE | {"same": False}, CLICK)
    server.add_feedback(clean, ALIKE, TRIPLET, CLICK)
    assert model(server, mixed) == model(server, clean)


def test_an_all_or_nothing_request_with_a_contradiction_changes_nothing(server: Any) -> None:
    path = server.new_collection(contradictions="refuse")
    server.add_feedback(path, ALIKE)
    feedback = [TRIPLET, CLICK, ALIKE | {"same": False}]
    body = {"feedback": feedback, "all_or_nothing": True}
    rejected = server.request("POST", f"{path}/feedback", 409, json=body)
    assert (rejected["setting"], rejected["policy"], rejected["record"]) == ("contradictions", "refuse", 2)
    assert "'contradictions'" in rejected["detail"]
    assert len(log_records(server, path)) == 1
    assert server.request("GET", path)["last_seq"] == 1


def test_ignored_feedback_has_no_effect_until_the_earlier_feedback_is_undone(server: Any) -> None:
    path, clean = server.new_collection(contradictions="ignore"), server.new_collection(contradictions="ignore")
    server.add_feedback(path, ALIKE, TRIPLET, ALIKE | {"same": False})
    server.add_feedback(clean, ALIKE, TRIPLET)
    assert [one["active"] for one in log_records(server, path)] == [True, True, False]
    learned = model(server, path)
    assert learned == model(server, clean)
    server.request("DELETE", f"{path}/feedback/1")
    assert [one["active"] for one in log_records(server, path)][:3] == [False, True, True]
    assert model(server, path) != learned


def test_the_default_is_to_keep_the_newest_feedback(server: Any) -> None:
    path = server.new_collection()
    assert server.request("GET", path)["contradictions"] == "newest"
    assert server.add_feedback(path, ALIKE, ALIKE | {"same": False})["accepted"] == 2


def test_the_idempotency_key_of_a_rejected_request_can_be_used_again(server: Any) -> None:
    path = server.new_collection(contradictions="refuse")
    seq = server.add_feedback(path, ALIKE)["last_seq"]
    opposite = ALIKE | {"same": False}
    server.add_feedback(path, opposite, headers={"Idempotency-Key": "later"}, status=409)
    server.request("DELETE", f"{path}/feedback/{seq}")
    assert not server.add_feedback(path, opposite, headers={"Idempotency-Key": "later"})["replayed"]


def test_the_newest_policy_keeps_the_newest_feedback(server: Any) -> None:
    path = server.new_collection(contradictions="newest")
    server.add_feedback(path, {"first": "i0", "second": "i1", "same": True})
    server.add_feedback(path, {"first": "i0", "second": "i1", "same": False})
    feedback = {one["key"]: one["feedback"] for one in search(server, path, k=11)["matches"]}
    assert feedback["i1"] == "dissimilar"


# -- undo ----------------------------------------------------------------------------------------------------


def model(server: Any, path: str) -> bytes:
    search(server, path)  # waits until everything is learned
    content: bytes = server.http.get(f"{path}/model").content
    return content


def test_undo_gives_the_model_without_the_record(server: Any) -> None:
    with_it, without = server.new_collection(), server.new_collection()
    server.add_feedback(with_it, TRIPLET, CLICK)
    server.request("DELETE", f"{with_it}/feedback/2")
    server.add_feedback(without, TRIPLET)
    assert model(server, with_it) == model(server, without)


def test_an_undone_record_stays_in_the_log_as_inactive(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, TRIPLET, CLICK)
    assert server.request("DELETE", f"{path}/feedback/1") == {"seq": 3}
    assert [(one["seq"], one["kind"], one["active"]) for one in log_records(server, path)] == [
        (1, "triplet", False),
        (2, "click", True),
        (3, "undo", True),
    ]


def test_the_next_search_uses_an_undo(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, {"query": "i0", "positive": ["i1"]})
    undone = server.request("DELETE", f"{path}/feedback/1")
    found = search(server, path, k=11)
    assert found["metric_version"] >= undone["seq"]
    assert {one["feedback"] for one in found["matches"]} == {None}


@pytest.mark.parametrize(
    ("seq", "status"), [("0", 404), ("-1", 404), ("9", 404), (str(2**70), 404), ("x", 422), ("1.5", 422)]
)
def test_an_unknown_record_cannot_be_undone(server: Any, seq: str, status: int) -> None:
    path = server.new_collection()
    server.add_feedback(path, TRIPLET)
    server.request("DELETE", f"{path}/feedback/{seq}", status)
    assert [one["active"] for one in log_records(server, path)] == [True]


def test_a_record_cannot_be_undone_twice(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, TRIPLET)
    server.request("DELETE", f"{path}/feedback/1")
    server.request("DELETE", f"{path}/feedback/1", 409)
    assert len(log_records(server, path)) == 2


def test_an_undo_cannot_be_undone(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, TRIPLET)
    server.request("DELETE", f"{path}/feedback/1")
    server.request("DELETE", f"{path}/feedback/2", 422)
