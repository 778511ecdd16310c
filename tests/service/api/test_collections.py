"""Collections are created, described, listed and deleted."""

from __future__ import annotations

from typing import Any

import pytest

import oahu


def test_a_collection_is_described_as_it_was_created(live: Any) -> None:
    config = {
        "name": "as-created",
        "dimension": 3,
        "learner": "OAHU",
        "parameters": {"n_layers": 2, "hidden_size": 5, "embedding_size": 2, "random_state": 7},
        "closure": 4,
        "contradictions": "newest",
        "vote": "joint",
    }
    live.ask("POST", "/v1/collections", 201, json=config)
    told = live.ask("GET", "/v1/collections/as-created")
    assert {name: told[name] for name in config} == config


def test_a_new_collection_has_learned_nothing(live: Any) -> None:
    told = live.ask("GET", live.new(n=0))
    seen = {
        name: told[name]
        for name in ("items", "last_seq", "metric_version", "constraints", "pending_feedback", "error_rate")
    }
    assert seen == {
        "items": 0,
        "last_seq": 0,
        "metric_version": 0,
        "constraints": 0,
        "pending_feedback": 0,
        "error_rate": None,
    }
    assert told["ready"]
    assert not told["calibrated"]


def test_creating_answers_what_describing_does(live: Any) -> None:
    made = live.ask("POST", "/v1/collections", 201, json={"name": "both", "dimension": 2})
    told = live.ask("GET", "/v1/collections/both")
    made["candidates"].pop("age_seconds"), told["candidates"].pop("age_seconds")
    assert made == told


def test_all_collections_are_listed(start: Any) -> None:
    service = start()
    paths = {service.new(n=0), service.new(n=0, dimension=7)}
    listed = service.ask("GET", "/v1/collections")["collections"]
    assert {f"/v1/collections/{one['name']}" for one in listed} == paths


def test_a_deleted_collection_is_gone(live: Any) -> None:
    path = live.new()
    assert live.ask("DELETE", path, 204) is None
    assert live.ask("GET", path, 404)["type"] == "urn:oahu:problem:not-found"


def test_a_new_collection_has_nothing_of_a_deleted_one_of_its_name(live: Any) -> None:
    path = live.new()
    live.say(path, {"first": "i0", "second": "i1", "same": True}, headers={"Idempotency-Key": "once"})
    live.ask("DELETE", path, 204)
    live.create(path.rpartition("/")[2])
    assert live.ask("GET", f"{path}/items")["items"] == []
    assert live.ask("GET", f"{path}/feedback")["records"] == []
    live.fill(path.rpartition("/")[2], 2)
    again = live.say(path, {"first": "i0", "second": "i1", "same": True}, headers={"Idempotency-Key": "once"})
    assert (again["first_seq"], again["replayed"]) == (1, False)


def test_a_name_is_given_once(live: Any) -> None:
    name = live.new(n=0).rpartition("/")[2]
    refused = live.ask("POST", "/v1/collections", 409, json={"name": name, "dimension": 4})
    assert name in refused["detail"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "-a", "_a", "a" * 65, "ä", "a\n", "a?", "a#b"])
def test_a_name_must_fit_into_an_address(live: Any, name: str) -> None:
    refused = live.ask("POST", "/v1/collections", 422, json={"name": name, "dimension": 4})
    assert refused["detail"].startswith("body/name: ")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"learner": "Nobody"}, "There is no learner 'Nobody'"),
        ({"parameters": {"nothing": 1}}, "has no parameter 'nothing'"),
        ({"parameters": {"random_state": None}}, "'random_state'"),
        ({"learner": "OAHU", "parameters": {"n_layers": "two"}}, "'n_layers'"),
        ({"learner": "OAHU", "parameters": {"n_layers": -1}}, "'n_layers'"),
        ({"learner": "OAHU", "parameters": {"hidden_size": 10**9}}, "MiB"),
        ({"learner": "OAHU", "parameters": {"dtype": [[["float32"]]]}}, "'dtype'"),
        ({"parameters": {"preprocessor": "x"}}, "preprocessor"),
        ({"dimension": 0}, "dimension"),
        ({"dimension": 10**6}, "16384"),
        ({"dimension": 4.0}, "dimension"),
        ({"dimension": True}, "dimension"),
        ({"closure": -1}, "closure"),
        ({"contradictions": "ignore"}, "contradictions"),
        ({"vote": "nobody"}, "vote"),
        ({"more": 1}, "more"),
    ],
)
def test_what_cannot_be_is_refused_and_said(live: Any, config: dict[str, Any], told: str) -> None:
    before = live.ask("GET", "/v1/collections")
    refused = live.ask("POST", "/v1/collections", 422, json={"name": "cannot-be", "dimension": 4, **config})
    assert told in refused["detail"]
    names = [
        {one["name"] for one in listed["collections"]} for listed in (before, live.ask("GET", "/v1/collections"))
    ]
    assert names[0] == names[1]


def test_there_is_a_most_of_collections(start: Any) -> None:
    service = start(max_collections=1)
    service.new(n=0)
    refused = service.ask("POST", "/v1/collections", 422, json={"name": "another", "dimension": 4})
    assert "1 collections" in refused["detail"]


@pytest.mark.parametrize("learner", oahu.LEARNERS)
def test_every_learner_can_be_served(live: Any, learner: str) -> None:
    """Feedback in all forms is learned, and all tasks answered, whatever learns."""
    path = live.new(learner=learner)
    live.say(
        path,
        {"anchor": "i0", "positive": "i1", "negative": "i2"},
        {"first": "i3", "second": "i4", "same": True},
        {"query": "i5", "positive": ["i6", "i7"], "negative": ["i8"]},
    )
    found = live.ask("POST", f"{path}/search", json={"key": "i9", "k": 3})
    assert (found["metric_version"], len(found["matches"])) == (3, 3)
    pairs = [{"first": "i0", "second": "i1", "same": True}, {"first": "i0", "second": "i2", "same": False}]
    live.ask("POST", f"{path}/calibrate", json={"pairs": pairs, "target": "accuracy"})
    compared = live.ask(
        "POST", f"{path}/compare", json={"first": {"key": "i0"}, "second": {"vector": [0, 1, 0, 1]}}
    )
    assert compared["answer"] in ("yes", "no", "unknown")
    assert live.ask("POST", f"{path}/classify", json={"key": "i9"})["label"] in ("even", "odd")
    assert live.ask("GET", path)["learner_error"] is None


AFTERWARDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "put": ("PUT", "items", {"json": {"items": [{"key": "new", "vector": [1, 2, 3, 4]}]}}),
    "delete": ("POST", "items/delete", {"json": {"keys": ["i0"]}}),
    "feedback": ("POST", "feedback", {"json": {"feedback": [{"first": "i0", "second": "i1", "same": True}]}}),
    "search": ("POST", "search", {"json": {"key": "i0"}}),
    "search by vector": ("POST", "search", {"json": {"vector": [1, 2, 3, 4]}}),
    "log": ("GET", "feedback", {}),
    "history": ("GET", "history", {}),
    "events": ("GET", "events", {}),
    "model": ("GET", "model", {}),
}


@pytest.mark.parametrize(("method", "operation", "sent"), AFTERWARDS.values(), ids=AFTERWARDS)
def test_a_request_that_is_overtaken_by_the_deletion_of_its_collection_is_answered(
    live: Any, method: str, operation: str, sent: dict[str, Any]
) -> None:
    """It was let in while the collection was there, and finds it gone."""
    path = live.new()
    name = path.rpartition("/")[2]
    before = live.service.collection(name)
    live.ask("DELETE", path, 204)
    live.service._collections[name] = before
    try:
        answer = live.http.request(method, f"{path}/{operation}", **sent)
    finally:
        del live.service._collections[name]
    assert answer.status_code < 500, answer.text


def test_a_model_that_is_overtaken_by_the_deletion_of_its_collection_is_not_kept(live: Any) -> None:
    path = live.new()
    name = path.rpartition("/")[2]
    data, before = live.http.get(f"{path}/model").content, live.service.collection(name)
    live.ask("DELETE", path, 204)
    live.service._collections[name] = before
    try:
        answer = live.http.put(f"{path}/model", content=data)
    finally:
        del live.service._collections[name]
    assert answer.status_code == 404, answer.text
