"""What Prometheus reads: the right numbers, and no more names than there are."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

TRIPLET = {"anchor": "i0", "positive": "i1", "negative": "i2"}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(service: Any) -> Samples:
    answer = service.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(service: Any, name: str, **labels: str) -> float:
    return samples(service)[name, frozenset(labels.items())]


@pytest.fixture
def told(live: Any) -> Any:
    """A collection's gauges, by name."""
    path = live.new(closure=0)
    name = path.rpartition("/")[2]
    return live, path, lambda gauge: value(live, gauge, collection=name)


def test_feedback_accepted_and_learned_is_counted(told: Any) -> None:
    live, path, gauge = told
    live.say(path, TRIPLET, {"first": "i3", "second": "i4", "same": True}, TRIPLET)
    live.ask("POST", f"{path}/search", json={"key": "i0"})
    assert gauge("oahu_feedback_accepted_total") == 3
    assert gauge("oahu_metric_version") == 3
    assert gauge("oahu_constraints_learned") == 2  # the pair completes no triplet
    assert gauge("oahu_feedback_pending") == 0


def test_what_comes_twice_is_counted_once(told: Any) -> None:
    live, path, gauge = told
    for _ in range(2):
        live.say(path, TRIPLET, headers={"Idempotency-Key": "once"})
    assert gauge("oahu_feedback_accepted_total") == 1


def test_contradictions_are_counted(told: Any) -> None:
    live, path, gauge = told
    live.say(path, {"first": "i3", "second": "i4", "same": True})
    for _ in range(2):
        live.say(path, {"first": "i3", "second": "i4", "same": False}, status=409)
    assert gauge("oahu_contradictions_total") == 2
    assert gauge("oahu_feedback_accepted_total") == 1


def test_what_is_undone_is_counted(told: Any) -> None:
    live, path, gauge = told
    live.say(path, TRIPLET)
    live.ask("DELETE", f"{path}/feedback/1")
    assert gauge("oahu_undone_total") == 1


def test_refreshes_are_counted_and_timed(told: Any, wait: Any) -> None:
    live, path, gauge = told
    assert gauge("oahu_refreshes_total") == 0
    live.say(path, TRIPLET)
    wait(lambda: gauge("oahu_refreshes_total") >= 1)
    assert gauge("oahu_refresh_seconds") > 0
    wait(lambda: gauge("oahu_candidates_behind") == 0)


def test_items_are_counted(told: Any) -> None:
    live, path, gauge = told
    live.ask("POST", f"{path}/items/delete", json={"keys": ["i0", "i1"]})
    assert gauge("oahu_items") == 10
    assert gauge("oahu_healthy") == 1


def test_commits_are_counted(live: Any) -> None:
    path = live.new(n=2)
    before = value(live, "oahu_store_commits_total")
    live.say(path, {"first": "i0", "second": "i1", "same": True})
    assert value(live, "oahu_store_commits_total") > before
    assert value(live, "oahu_store_waiting") == 0


def test_a_deleted_collection_has_no_gauges(live: Any) -> None:
    path = live.new(n=0)
    live.ask("DELETE", path, 204)
    assert path.rpartition("/")[2] not in live.http.get("/metrics").text


def test_requests_are_timed_by_route_and_not_by_path(live: Any) -> None:
    path = live.new()
    labels = {"method": "POST", "route": "/v1/collections/{name}/search", "status": "200"}
    live.ask("POST", f"{path}/search", json={"key": "i0"})
    before = value(live, "oahu_request_seconds_count", **labels)
    live.ask("POST", f"{path}/search", json={"key": "i1"})
    assert value(live, "oahu_request_seconds_count", **labels) == before + 1
    assert value(live, "oahu_request_seconds_sum", **labels) > 0


def test_what_strangers_ask_for_makes_no_new_names(start: Any) -> None:
    service = start()

    def names() -> int:
        return len(samples(service))

    for _ in range(2):  # the first of each makes its name
        service.http.get("/x"), service.http.request("STRANGE", "/x"), service.http.get("/v1/collections/x/items/y")
        service.http.get("/x", headers={"Host": "evil.example"}), service.http.post("/x"), names()
    before = names()
    for at in range(50):
        service.http.get(f"/stranger/{at}")
        service.http.post(f"/stranger/{at}")
        service.http.request(f"STRANGE{at}", f"/{at}")
        service.http.get(f"/v1/collections/c{at}/items/{at}")
        service.http.get(f"/{at}", headers={"Host": f"evil{at}.example"})
    assert names() == before
