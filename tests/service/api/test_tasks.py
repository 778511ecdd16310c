"""Searching, comparing, calibrating and classifying, with the metric that answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu


def ask(service: Any, path: str, task: str, status: int = 200, **asked: Any) -> Any:
    return service.ask("POST", f"{path}/{task}", status, json=asked)


ASKED = {
    "search": {"key": "i0"},
    "classify": {"key": "i0"},
    "compare": {"first": {"key": "i0"}, "second": {"key": "i1"}},
    "calibrate": {
        "pairs": [{"first": "i0", "second": "i1", "same": True}, {"first": "i0", "second": "i2", "same": False}],
        "target": "accuracy",
    },
}


@pytest.mark.parametrize("task", ASKED)
def test_every_answer_names_the_metric_that_gave_it(live: Any, task: str, wait: Any) -> None:
    path = live.new(closure=0)
    live.say(
        path,
        {"anchor": "i0", "positive": "i1", "negative": "i2"},
        {"query": "i3", "positive": ["i4"], "negative": ["i5"]},
    )
    wait(lambda: live.ask("GET", path)["metric_version"] == 2)
    answer = ask(live, path, task, **ASKED[task])
    assert (answer["metric_version"], answer["constraints"]) == (2, 2)


def test_how_stale_the_candidates_are_is_told_and_ends(live: Any, wait: Any) -> None:
    path = live.new(closure=0)
    live.say(path, {"anchor": "i0", "positive": "i1", "negative": "i2"})
    answer = ask(live, path, "search", key="i0")
    behind = answer["constraints"] - answer["candidates"]["constraints_behind"]
    assert behind == answer["candidates"]["metric_version"]
    wait(lambda: ask(live, path, "search", key="i0")["candidates"]["constraints_behind"] == 0)


# -- search --------------------------------------------------------------------------------------------------


def test_a_search_by_key_leaves_the_item_out_and_one_by_its_features_does_not(live: Any) -> None:
    path = live.new()
    vector = rows()[0].tolist()
    assert "i0" not in keys(ask(live, path, "search", key="i0", k=12))
    assert keys(ask(live, path, "search", vector=vector, k=12))[0] == "i0"


def test_a_search_ranks_as_the_downloaded_model_does(live: Any, tmp_path: Path) -> None:
    path = live.new()
    live.say(path, {"query": "i0", "positive": ["i1", "i2"], "negative": ["i3", "i4"]})
    query = [0.3, -0.2, 0.9, 0.1]
    found = ask(live, path, "search", vector=query, k=12)
    (tmp_path / "m.oahu").write_bytes(live.http.get(f"{path}/model").content)
    retriever = oahu.Retriever(oahu.load(tmp_path / "m.oahu").metric(), vote="experts")
    retriever.add([f"i{at}" for at in range(12)], rows())
    expected = retriever.search(np.array(query, np.float32), 12)
    assert keys(found) == [match.key for match in expected.matches]
    distances = [match.distance for match in expected.matches]
    assert [one["distance"] for one in found["matches"]] == pytest.approx(distances)


def test_k_results_are_found_or_as_many_as_there_are(live: Any) -> None:
    path = live.new(n=5)
    assert len(ask(live, path, "search", key="i0", k=3)["matches"]) == 3
    assert len(ask(live, path, "search", key="i0", k=1000)["matches"]) == 4


def test_a_search_for_a_label_finds_only_that(live: Any) -> None:
    path = live.new()
    found = ask(live, path, "search", key="i0", k=12, label="odd")
    assert sorted(keys(found)) == ["i1", "i11", "i3", "i5", "i7", "i9"]


def test_a_label_nobody_has_finds_nothing(live: Any) -> None:
    assert ask(live, live.new(), "search", key="i0", label="none")["matches"] == []


def test_payloads_come_if_they_are_asked_for(live: Any) -> None:
    path = live.new(n=2)
    assert ask(live, path, "search", key="i0")["matches"][0]["payload"] is None
    assert ask(live, path, "search", key="i0", payload=True)["matches"][0]["payload"] == {"at": 1}


def test_an_empty_collection_finds_nothing(live: Any) -> None:
    assert ask(live, live.new(n=0), "search", vector=[1, 2, 3, 4])["matches"] == []


def test_without_trust_what_was_said_is_told_and_does_not_rank(live: Any, tmp_path: Path) -> None:
    path = live.new()
    last = keys(ask(live, path, "search", key="i0", k=11))[-1]
    live.say(path, {"first": "i0", "second": last, "same": True})
    found = ask(live, path, "search", key="i0", k=11, use_feedback=False)["matches"]
    (tmp_path / "m.oahu").write_bytes(live.http.get(f"{path}/model").content)
    retriever = oahu.Retriever(oahu.load(tmp_path / "m.oahu").metric(), vote="experts")
    retriever.add([f"i{at}" for at in range(12)], rows())
    assert [one["key"] for one in found] == retriever.similar_to("i0", 11).keys
    assert {one["key"]: one["feedback"] for one in found}[last] == "similar"


# -- compare, calibrate --------------------------------------------------------------------------------------


def test_an_item_is_like_itself(live: Any) -> None:
    path = live.new()
    ranked = keys(ask(live, path, "search", key="i0", k=11))
    pairs = [{"first": "i0", "second": ranked[at], "same": same} for at, same in ((0, True), (-1, False))]
    ask(live, path, "calibrate", pairs=pairs, target="accuracy")
    answer = ask(live, path, "compare", first={"key": "i0"}, second={"vector": rows()[0].tolist()})
    assert (answer["answer"], answer["calibrated"]) == ("yes", True)


def test_comparing_is_by_the_thresholds_it_tells(live: Any) -> None:
    path = live.new()
    ask(live, path, "calibrate", **ASKED["calibrate"])
    for at in range(1, 12):
        told = ask(live, path, "compare", first={"key": "i0"}, second={"key": f"i{at}"})
        expected = (
            "yes" if told["score"] < told["yes_below"] else "no" if told["score"] >= told["no_from"] else "unknown"
        )
        assert told["answer"] == expected


def test_calibration_stays_with_a_metric_that_moves(live: Any) -> None:
    path = live.new()
    ask(live, path, "calibrate", **ASKED["calibrate"])
    live.say(path, {"anchor": "i0", "positive": "i1", "negative": "i2"})
    answer = ask(live, path, "compare", first={"key": "i0"}, second={"key": "i1"})
    assert (answer["calibrated"], answer["metric_version"]) == (True, 1)
    assert live.ask("GET", path)["calibrated"]


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
def test_a_target_is_one_that_there_is(live: Any, target: dict[str, Any]) -> None:
    path = live.new()
    ask(live, path, "calibrate", 422, pairs=ASKED["calibrate"]["pairs"], **target)
    assert not live.ask("GET", path)["calibrated"]


def test_pairs_of_one_kind_calibrate_nothing(live: Any) -> None:
    path = live.new()
    pairs = [{"first": "i0", "second": "i1", "same": True}, {"first": "i0", "second": "i2", "same": True}]
    ask(live, path, "calibrate", 422, pairs=pairs, target="accuracy")
    assert not live.ask("GET", path)["calibrated"]


def test_pairs_of_unknown_items_calibrate_nothing(live: Any) -> None:
    path = live.new()
    pairs = [{"first": "i0", "second": "nobody", "same": True}, {"first": "i0", "second": "i2", "same": False}]
    assert ask(live, path, "calibrate", 404, pairs=pairs, target="accuracy")["key"] == "nobody"
    assert not live.ask("GET", path)["calibrated"]


# -- classify ------------------------------------------------------------------------------------------------


def test_votes_are_shares_of_one(live: Any) -> None:
    answer = ask(live, live.new(), "classify", key="i0", k=5)
    shares = [one["share"] for one in answer["votes"]]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    assert answer["label"] == answer["votes"][0]["label"]


def test_an_item_is_classified_by_the_others(live: Any) -> None:
    path = live.new(n=0)
    items = [{"key": f"i{at}", "vector": [0, 0, 0, at], "label": "own" if at == 0 else "other"} for at in range(3)]
    live.ask("PUT", f"{path}/items", json={"items": items})
    assert ask(live, path, "classify", key="i0", k=2)["label"] == "other"
    assert ask(live, path, "classify", vector=[0, 0, 0, 0], k=1)["label"] == "own"


def test_without_labels_there_is_no_vote(live: Any) -> None:
    path = live.new(n=0)
    live.ask("PUT", f"{path}/items", json={"items": [{"key": "a", "vector": [1, 2, 3, 4]}]})
    answer = ask(live, path, "classify", vector=[1, 2, 3, 4])
    assert (answer["label"], answer["votes"]) == (None, [])


def rows() -> np.ndarray[Any, Any]:
    """The features that a collection of 12 items is filled with."""
    return np.random.default_rng(12).normal(size=(12, 4)).round(3).astype(np.float32)


def keys(found: Any) -> list[str]:
    return [one["key"] for one in found["matches"]]
