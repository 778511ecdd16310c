"""Operations on collections."""

from __future__ import annotations

from typing import Any

import pytest

import oahu


def test_describe_returns_the_configuration(server: Any) -> None:
    config = {
        "name": "as-created",
        "dimension": 3,
        "learner": "OAHU",
        "parameters": {"n_layers": 2, "hidden_size": 5, "embedding_size": 2, "random_state": 7},
        "closure": 4,
        "contradictions": "newest",
        "vote": "joint",
    }
    server.request("POST", "/v1/collections", 201, json=config)
    result = server.request("GET", "/v1/collections/as-created")
    assert {name: result[name] for name in config} == config


def test_a_new_collection_learns_no_implied_constraints(server: Any) -> None:
    assert server.request("GET", server.new_collection())["closure"] == 0


def test_a_new_collection_is_empty(server: Any) -> None:
    result = server.request("GET", server.new_collection(n=0))
    seen = {
        name: result[name]
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
    assert result["ready"]
    assert not result["calibrated"]


def test_create_returns_the_same_as_describe(server: Any) -> None:
    made = server.request("POST", "/v1/collections", 201, json={"name": "both", "dimension": 2})
    result = server.request("GET", "/v1/collections/both")
    made["candidates"].pop("age_seconds"), result["candidates"].pop("age_seconds")
    assert made == result


def test_list_collections(start_server: Any) -> None:
    server = start_server()
    paths = {server.new_collection(n=0), server.new_collection(n=0, dimension=7)}
    listed = server.request("GET", "/v1/collections")["collections"]
    assert {f"/v1/collections/{one['name']}" for one in listed} == paths


def test_delete_collection(server: Any) -> None:
    path = server.new_collection()
    assert server.request("DELETE", path, 204) is None
    assert server.request("GET", path, 404)["type"] == "urn:oahu:problem:not-found"


def test_a_new_collection_has_no_data_of_a_deleted_one_with_its_name(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, {"first": "i0", "second": "i1", "same": True}, headers={"Idempotency-Key": "once"})
    server.request("DELETE", path, 204)
    server.create_collection(path.rpartition("/")[2])
    assert server.request("GET", f"{path}/items")["items"] == []
    assert server.request("GET", f"{path}/feedback")["records"] == []
    server.add_items(path.rpartition("/")[2], 2)
    again = server.add_feedback(
        path, {"first": "i0", "second": "i1", "same": True}, headers={"Idempotency-Key": "once"}
    )
    assert (again["first_seq"], again["replayed"]) == (1, False)


def test_names_are_unique(server: Any) -> None:
    name = server.new_collection(n=0).rpartition("/")[2]
    rejected = server.request("POST", "/v1/collections", 409, json={"name": name, "dimension": 4})
    assert name in rejected["detail"]


def test_invalid_names_are_rejected(server: Any) -> None:
    for name in ["", ".", "..", "a/b", "a b", "-a", "_a", "a" * 65, "ä", "a\n", "a?", "a#b"]:
        rejected = server.request("POST", "/v1/collections", 422, json={"name": name, "dimension": 4})
        assert rejected["detail"].startswith("body/name: "), name


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"learner": "Unknown"}, "There is no learner 'Unknown'"),
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
        ({"contradictions": "reject"}, "contradictions"),
        ({"vote": "unknown"}, "vote"),
        ({"more": 1}, "more"),
    ],
)
def test_invalid_configurations_are_rejected(server: Any, config: dict[str, Any], message: str) -> None:
    before = server.request("GET", "/v1/collections")
    rejected = server.request("POST", "/v1/collections", 422, json={"name": "invalid", "dimension": 4, **config})
    assert message in rejected["detail"]
    names = [
        {one["name"] for one in listed["collections"]}
        for listed in (before, server.request("GET", "/v1/collections"))
    ]
    assert names[0] == names[1]


def test_the_number_of_collections_is_limited(start_server: Any) -> None:
    server = start_server(max_collections=1)
    server.new_collection(n=0)
    rejected = server.request("POST", "/v1/collections", 422, json={"name": "another", "dimension": 4})
    assert "1 collections" in rejected["detail"]


@pytest.mark.parametrize("learner", oahu.LEARNERS)
def test_every_learner_can_be_served(server: Any, learner: str) -> None:
    """Every learner learns all forms of feedback, and all operations work with it."""
    path = server.new_collection(learner=learner)
    server.add_feedback(
        path,
        {"anchor": "i0", "positive": "i1", "negative": "i2"},
        {"first": "i3", "second": "i4", "same": True},
        {"query": "i5", "positive": ["i6", "i7"], "negative": ["i8"]},
    )
    found = server.request("POST", f"{path}/search", json={"key": "i9", "k": 3})
    assert (found["metric_version"], len(found["matches"])) == (3, 3)
    pairs = [{"first": "i0", "second": "i1", "same": True}, {"first": "i0", "second": "i2", "same": False}]
    server.request("POST", f"{path}/calibrate", json={"pairs": pairs, "target": "accuracy"})
    compared = server.request(
        "POST", f"{path}/compare", json={"first": {"key": "i0"}, "second": {"vector": [0, 1, 0, 1]}}
    )
    assert compared["answer"] in ("yes", "no", "unknown")
    assert server.request("POST", f"{path}/classify", json={"key": "i9"})["label"] in ("even", "odd")
    assert server.request("GET", path)["learner_error"] is None


REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
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


@pytest.mark.parametrize(("method", "operation", "sent"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_to_a_collection_that_was_just_deleted_gets_a_response(
    server: Any, method: str, operation: str, sent: dict[str, Any]
) -> None:
    """The request got the collection before it was deleted."""
    path = server.new_collection()
    name = path.rpartition("/")[2]
    before = server.service.collection(name)
    server.request("DELETE", path, 204)
    server.service._collections[name] = before
    try:
        response = server.http.request(method, f"{path}/{operation}", **sent)
    finally:
        del server.service._collections[name]
    assert response.status_code < 500, response.text


def test_an_upload_to_a_collection_that_was_just_deleted_is_rejected(server: Any) -> None:
    path = server.new_collection()
    name = path.rpartition("/")[2]
    data, before = server.http.get(f"{path}/model").content, server.service.collection(name)
    server.request("DELETE", path, 204)
    server.service._collections[name] = before
    try:
        response = server.http.put(f"{path}/model", content=data)
    finally:
        del server.service._collections[name]
    assert response.status_code == 404, response.text
