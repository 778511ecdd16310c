"""The feedback of a source can be listed, weighted and undone as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

GOOD = [
    {"query": "i0", "positive": ["i1"], "negative": ["i2"], "source": "ann"},
    {"first": "i3", "second": "i4", "same": True, "source": "bob"},
    {"anchor": "i5", "positive": "i6", "negative": "i7", "source": "ann"},
    {"query": "i8", "positive": ["i9"], "source": "bob"},
]
TROLL = [
    {"first": "i0", "second": "i1", "same": False, "source": "troll"},
    {"first": "i3", "second": "i4", "same": False, "source": "troll"},
]
NEUTRAL = {"first": "i10", "second": "i11", "same": True}


def model(server: Any, path: str) -> bytes:
    server.request("POST", f"{path}/search", json={"key": "i0"})  # waits until everything is learned
    content: bytes = server.http.get(f"{path}/model").content
    return content


def sources(server: Any, path: str, **params: Any) -> dict[str, Any]:
    found = server.request("GET", f"{path}/sources", params=params)["sources"]
    return {one.pop("source"): one for one in found}


def without(feedback: list[dict[str, Any]], source: str) -> list[dict[str, Any]]:
    return [one for one in feedback if one.get("source") != source]


def test_a_source_that_contradicts_the_others_is_visible(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, *GOOD, NEUTRAL, *TROLL)
    found = sources(server, path)
    assert list(found) == ["ann", "bob", "troll"]
    assert [(one["stored"], one["contradicted"]) for one in found.values()] == [(2, 1), (2, 1), (2, 2)]
    assert [one["share_contradicted"] for one in found.values()] == [0.5, 0.5, 1.0]
    assert {one["weight"] for one in found.values()} == {1.0}


def test_the_records_of_a_long_chain_count_less(server: Any) -> None:
    path = server.new_collection()
    pairs = [("i0", "i1", "ann"), ("i1", "i2", "bob"), ("i2", "i3", "bob"), ("i3", "i4", "eve")]
    server.add_feedback(path, *({"first": a, "second": b, "same": True, "source": c} for a, b, c in pairs))
    server.add_feedback(path, {"first": "i0", "second": "i4", "same": False, "source": "troll"})
    found = sources(server, path)
    assert {name: one["contradicted"] for name, one in found.items()} == {
        "ann": 0.25,
        "bob": 0.5,
        "eve": 0.25,
        "troll": 0.25,
    }


def test_careless_sources_have_the_largest_shares(server: Any) -> None:
    """Half of the clicks of two sources are wrong, and 2 % of the clicks of the others."""
    path = server.new_collection(n=200, learner="Euclidean")
    rng = np.random.default_rng(0)
    clicks = []
    for _ in range(1_200):
        source = int(rng.integers(20))
        query, *others = rng.permutation(200)[:40].tolist()
        alike = [f"i{at}" for at in others if at % 20 == query % 20][:2]
        not_alike = [f"i{at}" for at in others if at % 20 != query % 20][:2]
        if rng.random() < (0.5 if source < 2 else 0.02):
            alike, not_alike = not_alike, alike
        clicks.append({"query": f"i{query}", "positive": alike, "negative": not_alike, "source": f"s{source:02}"})
    server.add_feedback(path, *clicks)
    shares = {name: one["share_contradicted"] for name, one in sources(server, path).items()}
    assert set(sorted(shares, key=lambda name: -shares[name])[:2]) == {"s00", "s01"}


def test_a_source_that_contradicts_itself_is_not_contradicted_by_others(server: Any) -> None:
    path = server.new_collection()
    pair = {"first": "i0", "second": "i1", "source": "ann"}
    server.add_feedback(path, pair | {"same": True}, pair | {"same": False})
    assert sources(server, path)["ann"]["contradicted"] == 0


def test_undone_feedback_contradicts_nobody(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, *GOOD, *TROLL)
    server.request("DELETE", f"{path}/sources/troll")
    found = sources(server, path)
    assert [one["contradicted"] for one in found.values()] == [0, 0, 0]
    assert found["troll"] | {"weight": 0.0} == found["troll"]
    server.request("PUT", f"{path}/sources/troll", json={"weight": 1})
    assert [one["contradicted"] for one in sources(server, path).values()] == [1, 1, 2]


def test_refused_feedback_counts_as_contradicted(server: Any) -> None:
    path = server.new_collection(contradictions="refuse")
    once = {"headers": {"Idempotency-Key": "first"}}
    for _ in range(2):  # a retry counts once
        server.add_feedback(path, *GOOD, *TROLL, **once)
    assert sources(server, path)["troll"] == {
        "stored": 0,
        "refused": 2,
        "contradicted": 0,
        "share_contradicted": 1.0,
        "weight": 1.0,
    }
    assert sources(server, path)["ann"]["share_contradicted"] == 0


def test_requests_that_are_refused_as_a_whole_are_counted_for_their_source(server: Any) -> None:
    """A client that sends one click per request gets status 409 for each refused click."""
    path = server.new_collection(contradictions="refuse")
    server.add_feedback(path, *GOOD)
    for one in TROLL:
        server.add_feedback(path, one, status=409)
    server.add_feedback(path, NEUTRAL)  # the counts are stored before
    found = sources(server, path)
    assert (found["troll"]["stored"], found["troll"]["refused"], found["troll"]["share_contradicted"]) == (
        0,
        2,
        1.0,
    )


@pytest.mark.parametrize("learner", ["AnchoredOAHU", "OASIS", "LEGO"])
@pytest.mark.parametrize("closure", [0, 2])
def test_undoing_a_source_equals_undoing_its_records(server: Any, learner: str, closure: int) -> None:
    whole, single = (server.new_collection(learner=learner, closure=closure) for _ in range(2))
    feedback = [GOOD[0], TROLL[0], GOOD[1], NEUTRAL, GOOD[2], TROLL[1], GOOD[3]]
    for path in (whole, single):
        server.add_feedback(path, *feedback)
        model(server, path)
    undone = server.request("DELETE", f"{whole}/sources/troll")
    assert undone == {"seq": 8}
    for seq in (2, 6):
        server.request("DELETE", f"{single}/feedback/{seq}")
    assert model(server, whole) == model(server, single)
    log = server.request("GET", f"{whole}/feedback")["records"]
    assert [one["seq"] for one in log if not one["active"]] == [2, 6]
    assert (log[-1]["kind"], log[-1]["source"], log[-1]["weight"]) == ("source", "troll", 0)


def test_a_weight_equals_feedback_with_this_weight(server: Any) -> None:
    path, weighted = server.new_collection(), server.new_collection()
    server.add_feedback(path, *(one | {"weight": 0.5} for one in GOOD))
    model(server, path)
    server.request("PUT", f"{path}/sources/ann", json={"weight": 0.25})
    server.add_feedback(weighted, *(one | {"weight": 0.125 if one["source"] == "ann" else 0.5} for one in GOOD))
    assert model(server, path) == model(server, weighted)


def test_a_new_weight_replaces_the_weight_before(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, *GOOD)
    before = model(server, path)
    for weight in (0.5, 0, 0.2, 1):
        server.request("PUT", f"{path}/sources/ann", json={"weight": weight})
        assert sources(server, path)["ann"]["weight"] == weight
    assert model(server, path) == before


def test_later_feedback_of_a_source_has_its_own_weight(server: Any) -> None:
    path, expected = server.new_collection(), server.new_collection()
    server.add_feedback(path, GOOD[0], GOOD[1])
    server.request("DELETE", f"{path}/sources/ann")
    server.add_feedback(path, GOOD[2])
    server.add_feedback(expected, GOOD[1], GOOD[2])
    assert model(server, path) == model(server, expected)


def test_repeating_a_weight_changes_nothing(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, *GOOD)
    first = server.request("DELETE", f"{path}/sources/ann")
    assert server.request("DELETE", f"{path}/sources/ann") == first
    assert server.request("GET", path)["last_seq"] == 5


def test_a_restore_takes_back_the_weight_of_a_source(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, *GOOD)
    before = model(server, path)
    server.request("DELETE", f"{path}/sources/ann")
    assert model(server, path) != before
    server.request("POST", f"{path}/restore", json={"metric_version": 4})
    assert model(server, path) == before
    assert sources(server, path)["ann"]["weight"] == 1


def test_sources_with_any_characters_can_be_undone(server: Any) -> None:
    path = server.new_collection()
    source = "user/ä?#%&:1"
    server.add_feedback(path, GOOD[0] | {"source": source})
    server.request("DELETE", f"{path}/sources/user%2F%C3%A4%3F%23%25%26%3A1")
    assert sources(server, path)[source]["weight"] == 0


def test_sources_are_listed_in_pages(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, *(GOOD[0] | {"source": f"s{at}"} for at in range(5)), NEUTRAL)
    first = server.request("GET", f"{path}/sources", params={"limit": 3})
    rest = server.request("GET", f"{path}/sources", params={"limit": 3, "after": first["next"]})
    assert [one["source"] for one in first["sources"] + rest["sources"]] == [f"s{at}" for at in range(5)]
    assert rest["next"] is None


def test_an_unknown_source_cannot_be_weighted(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, NEUTRAL)
    server.request("DELETE", f"{path}/sources/nobody", 404)
    server.request("PUT", f"{path}/sources/nobody", 404, json={"weight": 0.5})


@pytest.mark.parametrize("weight", [-0.1, 1.1, None, "1"])
def test_invalid_weights_of_sources_are_rejected(server: Any, weight: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, *GOOD)
    server.request("PUT", f"{path}/sources/ann", 422, json={"weight": weight})
    assert sources(server, path)["ann"]["weight"] == 1


@pytest.mark.parametrize(
    "wrong", [{"weight": 0}, {"weight": 1.5}, {"weight": "1"}, {"source": ""}, {"source": "a\n"}, {"source": 3}]
)
def test_invalid_weights_and_sources_of_feedback_are_rejected(server: Any, wrong: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, NEUTRAL | wrong, status=422)
    assert server.request("GET", path)["last_seq"] == 0


def test_a_learner_without_weights_rejects_them(server: Any) -> None:
    path = server.new_collection(learner="OASIS")
    rejected = server.add_feedback(path, GOOD[0], GOOD[1] | {"weight": 0.5}, status=422)
    assert "feedback/1/weight" in rejected["detail"]
    server.add_feedback(path, *GOOD)
    server.request("PUT", f"{path}/sources/ann", 422, json={"weight": 0.5})
    server.request("PUT", f"{path}/sources/ann", json={"weight": 0})
