"""Feedback about queries that are no items, and about results that were shown and not marked."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu
from oahu.io import model_files
from oahu.service.api.app import create_app
from oahu.service.settings import Settings

QUERY = [0.25, -0.5, 1.0, 0.1]


def features(server: Any, path: str, key: str) -> Any:
    return np.float32(server.request("GET", f"{path}/items/{key}", params={"vector": True})["vector"])


def model(server: Any, path: str) -> bytes:
    server.request("POST", f"{path}/search", json={"key": "i0"})  # waits until everything is learned
    content: bytes = server.http.get(f"{path}/model").content
    return content


def expected_model(clicks: list[oahu.Click]) -> bytes:
    learner = oahu.AnchoredOAHU(random_state=0).initialize(4)
    for click in clicks:
        learner.partial_fit([click])
    return model_files.to_bytes(learner)


def records(server: Any, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.request("GET", f"{path}/feedback")["records"]
    return found


# -- query vectors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_base64", [False, True])
def test_a_click_on_a_vector_is_learned_and_logged(server: Any, as_base64: bool) -> None:
    path = server.new_collection()
    vector = base64.b64encode(np.float32(QUERY).tobytes()).decode() if as_base64 else QUERY
    server.add_feedback(path, {"query": {"vector": vector}, "positive": ["i1"], "negative": ["i2"]})
    click = oahu.Click(np.float32(QUERY), [features(server, path, "i1")], [features(server, path, "i2")])
    assert model(server, path) == expected_model([click])
    (record,) = records(server, path)
    assert np.float32(record["query"]["vector"]).tolist() == np.float32(QUERY).tolist()
    assert (record["positive"], record["negative"]) == (["i1"], ["i2"])


def test_triplets_and_pairs_can_contain_vectors(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(
        path,
        {"anchor": {"vector": QUERY}, "positive": "i1", "negative": {"vector": [1, 0, 0, 0]}},
        {"first": "i3", "second": {"vector": QUERY}, "same": False},
    )
    one, three = features(server, path, "i1"), features(server, path, "i3")
    expected = [
        oahu.Click(np.float32(QUERY), [one], [np.float32([1, 0, 0, 0])]),
        oahu.Click(three, [], [np.float32(QUERY)]),
    ]
    assert model(server, path) == expected_model(expected)
    triplet, pair = records(server, path)
    assert triplet["anchor"] == pair["second"]
    assert pair["first"] == "i3"


def test_an_exported_log_gives_the_same_model_in_another_collection(server: Any) -> None:
    """The log, sent as new feedback, is an export and an import of the feedback."""
    one, two = server.new_collection(), server.new_collection()
    rng = np.random.default_rng(0)
    for row in rng.normal(size=(5, 4)):
        server.add_feedback(
            one,
            {"query": {"vector": row.tolist()}, "positive": ["i1"], "shown": ["i4"], "weight": 0.7, "source": "a"},
        )
    surplus = ("seq", "time", "kind", "active")
    exported = [{name: value for name, value in one.items() if name not in surplus} for one in records(server, one)]
    server.add_feedback(two, *exported)
    assert model(server, one) == model(server, two)


def test_vectors_survive_a_restart_and_an_undo(run_app: Any, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, page=False, fresh_wait=600)
    on_vector = {"query": {"vector": QUERY}, "positive": ["i1"]}
    on_item = {"query": "i3", "positive": ["i4"]}
    with run_app(create_app(settings)) as server:
        path, clean = server.new_collection(), server.new_collection()
        server.add_feedback(path, on_vector, on_item, {"query": {"vector": QUERY}, "negative": ["i2"]})
        server.add_feedback(clean, on_item)
        before = model(server, path)
    shutil.rmtree(tmp_path / "snapshots")  # the model is learned again from the log
    with run_app(create_app(settings)) as server:
        assert model(server, path) == before
        assert records(server, path)[0]["query"] == {"vector": np.float32(QUERY).tolist()}
        server.request("DELETE", f"{path}/feedback/1")
        server.request("DELETE", f"{path}/feedback/3")
        assert model(server, path) == model(server, clean)
        server.add_feedback(path, on_vector)  # the vector is still known
        server.add_feedback(clean, on_vector)
        assert model(server, path) == model(server, clean)


def test_equal_vectors_are_one_query(server: Any) -> None:
    path = server.new_collection(contradictions="refuse")
    server.add_feedback(path, {"query": {"vector": QUERY}, "positive": ["i1"]})
    rejected = server.add_feedback(path, {"query": {"vector": QUERY}, "negative": ["i1"]}, status=409)
    assert rejected["proof"][0]["seq"] == 1
    assert "query vector" in rejected["detail"]


def test_a_query_vector_is_no_item(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, {"query": {"vector": QUERY}, "positive": ["i1", "i2"]})
    assert server.request("GET", path)["items"] == 12
    found = server.request("POST", f"{path}/search", json={"key": "i1", "k": 100})["matches"]
    assert sorted(one["key"] for one in found) == sorted(f"i{at}" for at in range(12) if at != 1)
    assert {one["key"]: one["feedback"] for one in found}["i2"] == "similar"  # both are similar to the query


def test_a_search_for_the_same_vector_uses_its_feedback(server: Any) -> None:
    path = server.new_collection()

    def found(vector: list[float], **options: Any) -> list[Any]:
        matches = server.request("POST", f"{path}/search", json={"vector": vector, "k": 12, **options})["matches"]
        return [(match["key"], match["feedback"]) for match in matches]

    before = [key for key, _ in found(QUERY)]
    server.add_feedback(path, {"query": {"vector": QUERY}, "positive": [before[-1]], "negative": [before[0]]})
    after = found(QUERY)
    assert (after[0], after[-1]) == ((before[-1], "similar"), (before[0], "dissimilar"))
    assert {relation for _, relation in found([0.2, -0.5, 1.0, 0.1])} == {None}  # another vector
    server.request("DELETE", f"{path}/feedback/1")
    assert {relation for _, relation in found(QUERY)} == {None}


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ({"vector": [1, 2]}, "feedback/0/query/vector must have 4 numbers"),
        ({"vector": [1, 2, 3, 1e30]}, "norm of feedback/0/query/vector"),
        ({"vector": "AAAA"}, "feedback/0/query/vector"),
        ({"key": "i1"}, "vector"),
        (3, "query"),
        (None, "query"),
    ],
)
def test_invalid_query_vectors_are_rejected_and_nothing_is_stored(server: Any, query: Any, detail: str) -> None:
    path = server.new_collection()
    rejected = server.add_feedback(path, {"query": query, "positive": ["i1"]}, status=422)
    assert detail in rejected["detail"]
    assert records(server, path) == []


def test_a_vector_of_a_rejected_request_is_not_stored(server: Any) -> None:
    path = server.new_collection()
    before = server.stored_rows()
    server.add_feedback(path, {"query": {"vector": QUERY}, "positive": ["missing"]}, status=404)
    assert server.stored_rows() == before


# -- shown results -------------------------------------------------------------------------------------------


def test_shown_results_are_learned_as_weak_evidence(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, {"query": "i0", "positive": ["i1"], "shown": ["i2", "i3"], "weight": 0.5})
    rows = [features(server, path, f"i{at}") for at in range(4)]
    expected = oahu.Click(rows[0], [rows[1]], [], [rows[2], rows[3]], 0.5)
    assert model(server, path) == expected_model([expected])
    assert records(server, path)[0]["shown"] == ["i2", "i3"]


def test_an_impression_replaces_the_list_of_shown_results(server: Any) -> None:
    path, explicit = server.new_collection(), server.new_collection()
    found = server.request("POST", f"{path}/search", json={"vector": QUERY, "k": 6})
    keys = [one["key"] for one in found["matches"]]
    click = {"query": {"vector": QUERY}, "positive": [keys[1]], "negative": [keys[4]]}
    received = server.add_feedback(path, click | {"impression": found["impression"]})
    assert received["unknown_impressions"] == []
    shown = [keys[at] for at in (0, 2, 3, 5)]
    assert records(server, path)[0]["shown"] == shown
    server.add_feedback(explicit, click | {"shown": shown})
    assert model(server, path) == model(server, explicit)


def test_filtered_and_batched_searches_have_impressions(server: Any) -> None:
    path = server.new_collection()
    patches = [{"key": f"i{at}", "payload": {"price": at}} for at in range(12)]
    server.request("PATCH", f"{path}/items", json={"items": patches})
    cheap = {"field": "price", "lt": 6}
    searches = [
        {"key": "i0", "k": 4, "filter": cheap},
        {"vector": QUERY, "k": 3},
        {"vector": QUERY, "filter": cheap},
    ]
    results = server.request("POST", f"{path}/search/batch", json={"searches": searches})["results"]
    one = server.request("POST", f"{path}/search", json=searches[0])
    assert one["matches"] == results[0]["matches"]
    impressions = [result["impression"] for result in (*results, one)]
    assert len(set(impressions)) == 4
    shown = [[match["key"] for match in result["matches"]] for result in results]
    assert set(shown[2]) == {f"i{at}" for at in range(6)}
    clicks = [
        {"query": "i0", "positive": [shown[0][1]], "impression": impressions[0]},
        {"query": {"vector": QUERY}, "positive": [shown[1][0]], "impression": impressions[1]},
        {"query": {"vector": QUERY}, "negative": [shown[2][-1]], "impression": impressions[2]},
    ]
    assert server.add_feedback(path, *clicks)["unknown_impressions"] == []
    assert [record["shown"] for record in records(server, path)] == [
        [shown[0][0], *shown[0][2:]],
        shown[1][1:],
        shown[2][:-1],
    ]
    again = server.request("POST", f"{path}/search", json=searches[2])["matches"]
    assert again[-1] == {
        **again[-1],
        "key": shown[2][-1],
        "feedback": "dissimilar",
    }  # feedback applies with filters


def test_feedback_that_is_undone_as_a_source_does_not_count(server: Any) -> None:
    path = server.new_collection()
    count = lambda: server.request("GET", path)["feedback"]  # noqa: E731
    for source in ("ann", "bob", "ann"):
        server.add_feedback(path, {"query": "i0", "positive": ["i1"], "source": source})
    assert count() == 3
    server.request("DELETE", f"{path}/sources/ann")
    assert count() == 1
    server.request("PATCH", path, json={"parameters": {"n_random": 8}})
    server.add_feedback(path, {"query": "i0", "positive": ["i1"], "source": "ann"})
    assert count() == 2
    server.request("PUT", f"{path}/sources/ann", json={"weight": 0.5})
    assert count() == 4
    server.request("DELETE", f"{path}/feedback/2")
    assert count() == 3


def test_deleted_results_of_an_impression_are_left_out(server: Any) -> None:
    path = server.new_collection()
    found = server.request("POST", f"{path}/search", json={"key": "i0", "k": 4})
    keys = [one["key"] for one in found["matches"]]
    server.request("POST", f"{path}/items/delete", json={"keys": [keys[2]]})
    server.add_feedback(path, {"query": "i0", "positive": [keys[0]], "impression": found["impression"]})
    assert records(server, path)[0]["shown"] == [keys[1], keys[3]]


def test_a_click_with_an_unknown_impression_is_learned_without_shown_results(server: Any) -> None:
    path = server.new_collection()
    click = {"query": "i0", "positive": ["i1"]}
    received = server.add_feedback(path, click, click | {"negative": ["i2"], "impression": "long-ago"})
    assert (received["accepted"], received["unknown_impressions"]) == (2, [1])
    assert [one["shown"] for one in records(server, path)] == [[], []]


def test_a_retry_after_the_impression_expired_gets_the_same_answer(start_server: Any) -> None:
    server = start_server(max_impressions=1)
    path = server.new_collection()
    found = server.request("POST", f"{path}/search", json={"key": "i0", "k": 3})
    click = {"query": "i0", "positive": [found["matches"][0]["key"]], "impression": found["impression"]}
    once = {"headers": {"Idempotency-Key": "click"}}
    first = server.add_feedback(path, click, **once)
    server.request("POST", f"{path}/search", json={"key": "i1"})  # drops the impression
    assert server.add_feedback(path, click, **once) == first | {"replayed": True}
    assert server.add_feedback(path, click)["unknown_impressions"] == [0]


def test_a_click_has_either_shown_results_or_an_impression(server: Any) -> None:
    path = server.new_collection()
    click = {"query": "i0", "positive": ["i1"], "shown": ["i2"], "impression": "x"}
    assert "not both" in server.add_feedback(path, click, status=422)["detail"]


def test_a_shown_item_must_not_be_marked(server: Any) -> None:
    path = server.new_collection()
    click = {"query": "i0", "positive": ["i1"], "shown": ["i1"]}
    assert "different items" in server.add_feedback(path, click, status=422)["detail"]
