"""Search, compare, calibrate and classify."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu


def post(server: Any, path: str, task: str, status: int = 200, **body: Any) -> Any:
    return server.request("POST", f"{path}/{task}", status, json=body)


BODIES = {
    "search": {"key": "i0"},
    "classify": {"key": "i0"},
    "compare": {"first": {"key": "i0"}, "second": {"key": "i1"}},
    "calibrate": {
        "pairs": [{"first": "i0", "second": "i1", "same": True}, {"first": "i0", "second": "i2", "same": False}],
        "target": "accuracy",
    },
}


@pytest.mark.parametrize("task", BODIES)
def test_every_response_contains_the_metric_version(server: Any, task: str, wait_until: Any) -> None:
    path = server.new_collection(closure=0)
    server.add_feedback(
        path,
        {"anchor": "i0", "positive": "i1", "negative": "i2"},
        {"query": "i3", "positive": ["i4"], "negative": ["i5"]},
    )
    wait_until(lambda: server.request("GET", path)["metric_version"] == 2)
    if task == "compare":
        post(server, path, "calibrate", **BODIES["calibrate"])
    response = post(server, path, task, **BODIES[task])
    assert (response["metric_version"], response["constraints"]) == (2, 2)


def test_the_response_contains_the_age_of_the_candidates(server: Any, wait_until: Any) -> None:
    path = server.new_collection(closure=0)
    server.add_feedback(path, {"anchor": "i0", "positive": "i1", "negative": "i2"})
    response = post(server, path, "search", key="i0")
    behind = response["constraints"] - response["candidates"]["constraints_behind"]
    assert behind == response["candidates"]["metric_version"]
    wait_until(lambda: post(server, path, "search", key="i0")["candidates"]["constraints_behind"] == 0)


# -- search --------------------------------------------------------------------------------------------------


def test_a_search_by_key_excludes_the_item_itself(server: Any) -> None:
    path = server.new_collection()
    vector = rows()[0].tolist()
    assert "i0" not in keys(post(server, path, "search", key="i0", k=12))
    assert keys(post(server, path, "search", vector=vector, k=12))[0] == "i0"


def test_a_search_ranks_like_the_downloaded_model(server: Any, tmp_path: Path) -> None:
    path = server.new_collection()
    server.add_feedback(path, {"query": "i0", "positive": ["i1", "i2"], "negative": ["i3", "i4"]})
    query = [0.3, -0.2, 0.9, 0.1]
    found = post(server, path, "search", vector=query, k=12)
    (tmp_path / "m.oahu").write_bytes(server.http.get(f"{path}/model").content)
    retriever = oahu.Retriever(oahu.load(tmp_path / "m.oahu").metric(), vote="experts")
    retriever.add([f"i{at}" for at in range(12)], rows())
    expected = retriever.search(np.array(query, np.float32), 12)
    assert keys(found) == [match.key for match in expected.matches]
    distances = [match.distance for match in expected.matches]
    assert [one["distance"] for one in found["matches"]] == pytest.approx(distances)


def test_a_search_returns_at_most_k_results(server: Any) -> None:
    path = server.new_collection(n=5)
    assert len(post(server, path, "search", key="i0", k=3)["matches"]) == 3
    assert len(post(server, path, "search", key="i0", k=1000)["matches"]) == 4


def test_a_search_can_be_limited_to_a_label(server: Any) -> None:
    path = server.new_collection()
    found = post(server, path, "search", key="i0", k=12, label="odd")
    assert sorted(keys(found)) == ["i1", "i11", "i3", "i5", "i7", "i9"]


def test_a_search_for_an_unknown_label_returns_nothing(server: Any) -> None:
    assert post(server, server.new_collection(), "search", key="i0", label="none")["matches"] == []


def test_payloads_are_returned_on_request(server: Any) -> None:
    path = server.new_collection(n=2)
    assert post(server, path, "search", key="i0")["matches"][0]["payload"] is None
    assert post(server, path, "search", key="i0", payload=True)["matches"][0]["payload"] == {"at": 1}


def test_a_search_in_an_empty_collection_returns_nothing(server: Any) -> None:
    assert post(server, server.new_collection(n=0), "search", vector=[1, 2, 3, 4])["matches"] == []


def test_without_use_feedback_the_metric_alone_ranks(server: Any, tmp_path: Path) -> None:
    path = server.new_collection()
    last = keys(post(server, path, "search", key="i0", k=11))[-1]
    server.add_feedback(path, {"first": "i0", "second": last, "same": True})
    found = post(server, path, "search", key="i0", k=11, use_feedback=False)["matches"]
    (tmp_path / "m.oahu").write_bytes(server.http.get(f"{path}/model").content)
    retriever = oahu.Retriever(oahu.load(tmp_path / "m.oahu").metric(), vote="experts")
    retriever.add([f"i{at}" for at in range(12)], rows())
    assert [one["key"] for one in found] == retriever.similar_to("i0", 11).keys
    assert {one["key"]: one["feedback"] for one in found}[last] == "similar"


# -- filters -------------------------------------------------------------------------------------------------


def test_a_search_can_be_limited_by_payload_fields(server: Any) -> None:
    path = server.new_collection()
    between = {"and": [{"field": "at", "gte": 3, "lt": 7}, {"not": {"field": "at", "in": [4, 5]}}]}
    assert sorted(keys(post(server, path, "search", key="i0", k=12, filter=between))) == ["i3", "i6"]
    assert keys(post(server, path, "search", key="i0", filter={"field": "other", "exists": True})) == []
    assert len(keys(post(server, path, "search", key="i0", k=12, filter=None))) == 11


FILTER_ERRORS: list[tuple[Any, str]] = [
    ({"field": "at", "eq": 1}, "body/filter: unknown test 'eq'; the tests are equals, in, gt"),
    ({"field": "at"}, "body/filter: expected at least one test of the field"),
    ({"field": "at", "equals": None}, "body/filter/equals: expected a text, a number, true or false"),
    ({"field": "at", "exists": None}, "body/filter/exists: expected true or false"),
    ({"field": "at", "exists": False, "gt": 1}, "body/filter: 'exists': false cannot be combined"),
    ({"field": "a..b", "equals": 1}, "body/filter/field: expected names separated by single dots"),
    ({"and": []}, "body/filter/and: "),
    (
        {"and": [{"field": "at", "gt": 1}, {"or": [{"field": "at", "lt": True}]}]},
        "body/filter/and/1/or/0/lt: expected",
    ),
    ({"not": {"and": [{"field": "b", "in": [1, [2]]}]}}, "body/filter/not/and/0/in/1: expected a text, a number"),
    ({"at": 1}, "body/filter: expected an object with the field 'field' or 'and' or 'or' or 'not'"),
    ({"or": [{"field": "at", "gt": 1}] * 101}, "body/filter: a filter can have at most 100 conditions"),
]


@pytest.mark.parametrize(("condition", "message"), FILTER_ERRORS)
def test_the_error_of_an_invalid_filter_contains_its_path(server: Any, condition: Any, message: str) -> None:
    path = server.new_collection(n=2)
    assert post(server, path, "search", 422, key="i0", filter=condition)["detail"].startswith(message)
    rejected = post(server, path, "search/batch", 422, searches=[{"key": "i0"}, {"key": "i0", "filter": condition}])
    assert rejected["detail"].startswith(message.replace("body/filter", "body/searches/1/filter"))


def test_a_deeply_nested_filter_is_rejected(server: Any) -> None:
    condition: dict[str, Any] = {"field": "at", "exists": True}
    for _ in range(300):
        condition = {"not": condition}
    rejected = post(server, server.new_collection(n=1), "search", 422, key="i0", filter=condition)
    assert "16 levels of and, or, not" in rejected["detail"]


# -- batches of searches -------------------------------------------------------------------------------------


def test_a_batch_gets_the_same_results_as_single_searches(server: Any) -> None:
    path = server.new_collection(n=40)
    server.add_feedback(path, {"query": "i0", "positive": ["i7", "i9"], "negative": ["i3"]})
    post(server, path, "search", key="i0")
    searches: list[dict[str, Any]] = [
        {"key": "i0", "k": 5},
        {"vector": [0.3, -0.2, 0.9, 0.1], "k": 40, "payload": True},
        {"key": "i1", "k": 3, "label": "odd", "filter": {"field": "at", "gt": 10}},
        {"key": "i0", "k": 5, "use_feedback": False},
        {"vector": rows()[2].tolist(), "filter": {"field": "at", "equals": 1}},
        {"vector": rows()[2].tolist(), "filter": {"field": "at", "equals": True}},
    ]
    results = post(server, path, "search/batch", searches=searches)["results"]
    assert len(results) == len(searches)
    for search, result in zip(searches, results, strict=True):
        single = post(server, path, "search", **search)
        assert single["metric_version"] == result["metric_version"] == 1
        assert single["matches"] == result["matches"]


def test_a_batch_with_an_invalid_search_is_rejected_with_its_index(server: Any) -> None:
    path = server.new_collection()
    good = {"key": "i0"}
    missing = post(server, path, "search/batch", 404, searches=[good, {"key": "missing"}])
    assert (missing["key"], missing["at"]) == ("missing", 1)
    assert missing["detail"].startswith("searches/1: There is no item 'missing' in ")
    assert "at" not in post(server, path, "search", 404, key="missing")
    short = post(server, path, "search/batch", 422, searches=[good, {"vector": [1]}])
    assert short["detail"] == "searches/1/vector must have 4 numbers. Got 1 instead."
    large = post(server, path, "search/batch", 422, searches=[good, {"key": "i0", "k": 1_001}])
    assert large["detail"] == "searches/1/k must be at most 1000 (OAHU_MAX_K). Got 1001 instead."
    assert "body/searches" in post(server, path, "search/batch", 422, searches=[])["detail"]


def test_the_size_of_a_batch_is_limited(server: Any) -> None:
    path = server.new_collection(n=2)
    many = post(server, path, "search/batch", 422, searches=[{"key": "i0"}] * 1_001)
    assert "up to 1000 searches (OAHU_MAX_QUERIES). Got 1001 instead." in many["detail"]
    wide = post(server, path, "search/batch", 422, searches=[{"key": "i0", "k": 1_000}] * 101)
    assert "The sum of their k is 101000." in wide["detail"]


# -- compare, calibrate --------------------------------------------------------------------------------------


def test_an_item_is_similar_to_itself(server: Any) -> None:
    path = server.new_collection()
    ranked = keys(post(server, path, "search", key="i0", k=11))
    pairs = [{"first": "i0", "second": ranked[at], "same": same} for at, same in ((0, True), (-1, False))]
    post(server, path, "calibrate", pairs=pairs, target="accuracy")
    response = post(server, path, "compare", first={"key": "i0"}, second={"vector": rows()[0].tolist()})
    assert (response["answer"], response["calibrated"]) == ("yes", True)


def test_the_answer_follows_from_the_returned_thresholds(server: Any) -> None:
    path = server.new_collection()
    post(server, path, "calibrate", **BODIES["calibrate"])
    for at in range(1, 12):
        result = post(server, path, "compare", first={"key": "i0"}, second={"key": f"i{at}"})
        expected = (
            "yes"
            if result["score"] < result["yes_below"]
            else "no"
            if result["score"] >= result["no_from"]
            else "unknown"
        )
        assert result["answer"] == expected


def test_the_default_learner_has_no_threshold_before_calibration(server: Any) -> None:
    path = server.new_collection()
    problem = post(server, path, "compare", 409, first={"key": "i0"}, second={"key": "i1"})
    assert "send labelled pairs to the calibrate operation" in problem["detail"]


def test_the_calibration_stays_when_the_metric_changes(server: Any) -> None:
    path = server.new_collection()
    post(server, path, "calibrate", **BODIES["calibrate"])
    server.add_feedback(path, {"anchor": "i0", "positive": "i1", "negative": "i2"})
    response = post(server, path, "compare", first={"key": "i0"}, second={"key": "i1"})
    assert (response["calibrated"], response["metric_version"]) == (True, 1)
    assert server.request("GET", path)["calibrated"]


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"target": "best"},
        {"target": "eer", "target_far": 0.1},
        {"target_frr": 0.1},
        {"target_far": 2},
        {"target_far": "0.1"},
    ],
)
def test_invalid_targets_are_rejected(server: Any, target: dict[str, Any]) -> None:
    path = server.new_collection()
    post(server, path, "calibrate", 422, pairs=BODIES["calibrate"]["pairs"], **target)
    assert not server.request("GET", path)["calibrated"]


def test_calibration_needs_similar_and_dissimilar_pairs(server: Any) -> None:
    path = server.new_collection()
    pairs = [{"first": "i0", "second": "i1", "same": True}, {"first": "i0", "second": "i2", "same": True}]
    post(server, path, "calibrate", 422, pairs=pairs, target="accuracy")
    assert not server.request("GET", path)["calibrated"]


@pytest.mark.filterwarnings("ignore:target_far.* needs .* pairs:UserWarning")
def test_calibrate_and_compare_warn_about_too_few_pairs(server: Any) -> None:
    path = server.new_collection()
    pairs = [{"first": "i0", "second": f"i{at}", "same": at % 2 == 0} for at in range(1, 12)]
    calibrated = post(server, path, "calibrate", pairs=pairs, target_far=0.01)
    (warning,) = calibrated["warnings"]
    assert warning.startswith("target_far=0.01 needs about 1,000 dissimilar pairs")
    compared = post(server, path, "compare", first={"key": "i0"}, second={"key": "i1"})
    assert compared["warnings"] == [warning]


def test_calibration_without_a_target_rate_gives_no_warnings(server: Any) -> None:
    path = server.new_collection()
    pairs = [{"first": "i0", "second": f"i{at}", "same": at % 2 == 0} for at in range(1, 12)]
    assert post(server, path, "calibrate", pairs=pairs, target="f1")["warnings"] == []
    assert post(server, path, "compare", first={"key": "i0"}, second={"key": "i1"})["warnings"] == []


def test_calibration_with_unknown_items_is_rejected(server: Any) -> None:
    path = server.new_collection()
    pairs = [{"first": "i0", "second": "missing", "same": True}, {"first": "i0", "second": "i2", "same": False}]
    assert post(server, path, "calibrate", 404, pairs=pairs, target="accuracy")["key"] == "missing"
    assert not server.request("GET", path)["calibrated"]


# -- classify ------------------------------------------------------------------------------------------------


def test_vote_shares_sum_to_one(server: Any) -> None:
    response = post(server, server.new_collection(), "classify", key="i0", k=5)
    shares = [one["share"] for one in response["votes"]]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    assert response["label"] == response["votes"][0]["label"]


def test_an_item_does_not_vote_for_itself(server: Any) -> None:
    path = server.new_collection(n=0)
    items = [{"key": f"i{at}", "vector": [0, 0, 0, at], "label": "own" if at == 0 else "other"} for at in range(3)]
    server.request("PUT", f"{path}/items", json={"items": items})
    assert post(server, path, "classify", key="i0", k=2)["label"] == "other"
    assert post(server, path, "classify", vector=[0, 0, 0, 0], k=1)["label"] == "own"


def test_classify_without_labels_returns_no_label(server: Any) -> None:
    path = server.new_collection(n=0)
    server.request("PUT", f"{path}/items", json={"items": [{"key": "a", "vector": [1, 2, 3, 4]}]})
    response = post(server, path, "classify", vector=[1, 2, 3, 4])
    assert (response["label"], response["votes"]) == (None, [])


def rows() -> np.ndarray[Any, Any]:
    """Return the features of the items in a collection of 12."""
    return np.random.default_rng(12).normal(size=(12, 4)).round(3).astype(np.float32)


def keys(found: Any) -> list[str]:
    return [one["key"] for one in found["matches"]]
