"""Metrics for Prometheus."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

TRIPLET = {"anchor": "i0", "positive": "i1", "negative": "i2"}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(server: Any) -> Samples:
    response = server.http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def value(server: Any, name: str, **labels: str) -> float:
    return samples(server)[name, frozenset(labels.items())]


@pytest.fixture
def result(server: Any) -> Any:
    """A server, the path of a collection, and a function that reads its metrics by name."""
    path = server.new_collection(closure=0, contradictions="refuse")
    name = path.rpartition("/")[2]
    return server, path, lambda gauge: value(server, gauge, collection=name)


def test_accepted_and_learned_feedback_is_counted(result: Any) -> None:
    server, path, gauge = result
    server.add_feedback(path, TRIPLET, {"first": "i3", "second": "i4", "same": True}, TRIPLET)
    server.request("POST", f"{path}/search", json={"key": "i0"})
    assert gauge("oahu_feedback_accepted_total") == 3
    assert gauge("oahu_metric_version") == 3
    assert gauge("oahu_constraints_learned") == 3  # each record is one click
    assert gauge("oahu_feedback_pending") == 0


def test_a_repeated_request_is_counted_once(result: Any) -> None:
    server, path, gauge = result
    for _ in range(2):
        server.add_feedback(path, TRIPLET, headers={"Idempotency-Key": "once"})
    assert gauge("oahu_feedback_accepted_total") == 1


def test_contradictions_are_counted(result: Any) -> None:
    server, path, gauge = result
    server.add_feedback(path, {"first": "i3", "second": "i4", "same": True})
    for _ in range(2):
        server.add_feedback(path, {"first": "i3", "second": "i4", "same": False}, status=409)
    server.add_feedback(path, {"first": "i3", "second": "i4", "same": False}, TRIPLET)
    assert gauge("oahu_contradictions_total") == 2
    assert gauge("oahu_feedback_accepted_total") == 2
    assert gauge("oahu_feedback_refused_total") == 1


def test_undos_are_counted(result: Any) -> None:
    server, path, gauge = result
    server.add_feedback(path, TRIPLET)
    server.request("DELETE", f"{path}/feedback/1")
    assert gauge("oahu_undone_total") == 1


def test_refreshes_are_counted(result: Any, wait_until: Any) -> None:
    server, path, gauge = result
    assert gauge("oahu_refreshes_total") == 0
    server.add_feedback(path, TRIPLET)
    wait_until(lambda: gauge("oahu_refreshes_total") >= 1)
    assert gauge("oahu_refresh_seconds") > 0
    wait_until(lambda: gauge("oahu_candidates_behind") == 0)


def test_items_are_counted(result: Any) -> None:
    server, path, gauge = result
    server.request("POST", f"{path}/items/delete", json={"keys": ["i0", "i1"]})
    assert gauge("oahu_items") == 10
    assert gauge("oahu_healthy") == 1


def test_commits_are_counted(server: Any, wait_until: Any) -> None:
    path = server.new_collection(n=2)
    before = value(server, "oahu_store_commits_total")
    server.add_feedback(path, {"first": "i0", "second": "i1", "same": True})
    assert value(server, "oahu_store_commits_total") > before
    wait_until(lambda: value(server, "oahu_write_queue") == 0)  # a background thread may write the history


def test_a_deleted_collection_has_no_metrics(server: Any) -> None:
    path = server.new_collection(n=0)
    server.request("DELETE", path, 204)
    assert path.rpartition("/")[2] not in server.http.get("/metrics").text


def test_requests_are_labelled_by_route(server: Any) -> None:
    path = server.new_collection()
    labels = {"method": "POST", "route": "/v1/collections/{name}/search", "status": "200"}
    server.request("POST", f"{path}/search", json={"key": "i0"})
    before = value(server, "oahu_request_seconds_count", **labels)
    server.request("POST", f"{path}/search", json={"key": "i1"})
    assert value(server, "oahu_request_seconds_count", **labels) == before + 1
    assert value(server, "oahu_request_seconds_sum", **labels) > 0


def test_unknown_paths_and_methods_create_no_new_time_series(start_server: Any) -> None:
    server = start_server()

    def n_time_series() -> int:
        return len(samples(server))

    for _ in range(2):  # the first request of each kind creates its time series
        server.http.get("/x"), server.http.request("STRANGE", "/x"), server.http.get("/v1/collections/x/items/y")
        server.http.get("/x", headers={"Host": "evil.example"}), server.http.post("/x"), n_time_series()
    before = n_time_series()
    for at in range(50):
        server.http.get(f"/stranger/{at}")
        server.http.post(f"/stranger/{at}")
        server.http.request(f"STRANGE{at}", f"/{at}")
        server.http.get(f"/v1/collections/c{at}/items/{at}")
        server.http.get(f"/{at}", headers={"Host": f"evil{at}.example"})
    assert n_time_series() == before
