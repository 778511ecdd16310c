"""Settings of a collection can be changed later. The model is then the model of the log with the new settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oahu.service.api.app import create_app
from oahu.service.settings import Settings

FEEDBACK = [
    {"query": "i0", "positive": ["i1", "i2"], "negative": ["i3"]},
    {"query": {"vector": [1.0, 0.0, 0.5, 0.0]}, "positive": ["i4"], "shown": ["i5"], "source": "ann"},
    {"first": "i2", "second": "i6", "same": True},
    {"anchor": "i7", "positive": "i8", "negative": "i0"},
    {"first": "i0", "second": "i1", "same": False},  # contradicts the first click
]


def model(server: Any, path: str) -> bytes:
    server.request("POST", f"{path}/search", json={"key": "i0"})  # waits until everything is learned
    content: bytes = server.http.get(f"{path}/model").content
    return content


def kinds(server: Any, path: str) -> list[str]:
    return [one["kind"] for one in server.request("GET", f"{path}/feedback")["records"]]


def new_collection(server: Any, **config: Any) -> str:
    path: str = server.new_collection(**config)
    server.add_feedback(path, *FEEDBACK)
    return path


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        ({}, {"closure": 3}),
        ({}, {"parameters": {"learning_rate": 0.1}}),
        ({"parameters": {"learning_rate": 0.1}}, {"parameters": {"prior": 1.0, "learning_rate": None}}),
        ({}, {"contradictions": "ignore"}),
        ({"contradictions": "ignore"}, {"contradictions": "newest", "closure": 1}),
        ({"learner": "OASIS"}, {"closure": 2, "parameters": {"aggressiveness": 0.05}}),
        ({"learner": "LEGO"}, {"closure": 2}),
    ],
)
def test_the_model_is_the_model_of_the_new_settings(server: Any, before: Any, changes: Any) -> None:
    changed = new_collection(server, **before)
    old = model(server, changed)
    parameters = {**before.get("parameters", {}), **changes.get("parameters", {})}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    from_start = new_collection(server, **{**before, **changes, "parameters": parameters})
    state = server.request("PATCH", changed, json=changes)
    assert {name: state[name] for name in changes} == {
        **changes,
        **({"parameters": parameters} if "parameters" in changes else {}),
    }
    assert model(server, changed) == model(server, from_start) != old
    assert kinds(server, changed)[-1] == "settings"
    assert server.request("GET", changed)["metric_version"] == state["last_seq"] == len(FEEDBACK) + 1


def test_settings_can_be_changed_before_the_first_feedback(server: Any) -> None:
    parameters = {"parameters": {"learning_rate": 0.1}}
    changed, from_start = server.new_collection(), server.new_collection(**parameters)
    server.request("PATCH", changed, json=parameters)
    assert model(server, changed) == model(server, from_start)
    for path in (changed, from_start):
        server.add_feedback(path, *FEEDBACK)
    assert model(server, changed) == model(server, from_start)


def test_new_settings_survive_a_restart_and_hold_for_later_feedback(run_app: Any, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, page=False, fresh_wait=600)
    with run_app(create_app(settings)) as server:
        path = new_collection(server)
        model(server, path)
        server.request("PATCH", path, json={"closure": 2, "parameters": {"prior": 1.0}, "contradictions": "refuse"})
        learned = model(server, path)
    with run_app(create_app(settings)) as server:
        assert model(server, path) == learned
        state = server.request("GET", path)
        assert (state["closure"], state["contradictions"], state["parameters"]) == (2, "refuse", {"prior": 1.0})
        server.add_feedback(path, {"first": "i2", "second": "i6", "same": False}, status=409)


def test_a_change_that_is_committed_before_a_kill_is_applied_after_it(start_server: Any, tmp_path: Path) -> None:
    """The folder is copied while the learner has not seen the new settings, as a kill would leave it."""
    import shutil

    server = start_server()
    path = new_collection(server)
    model(server, path)
    collection = server.service.collections[0]
    copy = tmp_path / "killed"
    with collection.learner._training:
        server.request("PATCH", path, json={"parameters": {"learning_rate": 0.1}})
        collection.learner._save_snapshot()  # of the old model
        shutil.copytree(server.service.settings.data, copy)
    expected = model(server, path)
    assert model(start_server(data=copy), path) == expected


def test_searches_use_the_old_metric_until_the_new_metric_is_complete(start_server: Any) -> None:
    server = start_server(fresh_wait=0)
    path = new_collection(server)
    collection = server.service.collections[0]
    before = collection.learner.wait_for(len(FEEDBACK), 600)
    with collection.learner._training:  # the learner cannot start
        server.request("PATCH", path, json={"parameters": {"learning_rate": 0.1}})
        found = server.request("POST", f"{path}/search", json={"key": "i0"})
        assert found["metric_version"] == before.version
    assert collection.learner.wait_for(len(FEEDBACK) + 1, 600).version == len(FEEDBACK) + 1


def test_the_vote_can_be_changed(server: Any) -> None:
    changed, from_start = new_collection(server), new_collection(server, vote="joint")
    state = server.request("PATCH", changed, json={"vote": "joint"})
    assert (state["vote"], state["last_seq"]) == ("joint", len(FEEDBACK))
    found, expected = (
        server.request("POST", f"{path}/search", json={"key": "i9", "k": 11})["matches"]
        for path in (changed, from_start)
    )
    assert found == expected


def test_a_change_without_effect_on_the_model_adds_no_log_entry(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, *FEEDBACK[:4])  # without a contradiction
    learned = model(server, path)
    for changes in ({}, {"closure": 0}, {"contradictions": "refuse"}, {"parameters": {}}):
        server.request("PATCH", path, json=changes)
    assert model(server, path) == learned
    assert len(kinds(server, path)) == 4
    server.add_feedback(path, FEEDBACK[4], status=409)  # the new rule holds


def test_restoring_an_older_version_keeps_the_settings(server: Any) -> None:
    path, from_start = new_collection(server), new_collection(server, parameters={"prior": 1.0})
    server.request("PATCH", path, json={"parameters": {"prior": 1.0}})
    for one in (path, from_start):
        server.request("POST", f"{one}/restore", json={"metric_version": 2})
    assert model(server, path) == model(server, from_start)
    assert server.request("GET", path)["parameters"] == {"prior": 1.0}


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"closure": -1}, "closure"),
        ({"contradictions": "reject"}, "contradictions"),
        ({"vote": "none"}, "vote"),
        ({"parameters": {"dtype": "float64"}}, "'dtype'"),
        ({"parameters": {"learning_rate": -1}}, "learning_rate"),
        ({"parameters": {"unknown": 1}}, "unknown"),
        ({"learner": "OASIS"}, "learner"),
        ({"dimension": 3}, "dimension"),
        ({"name": "other"}, "name"),
    ],
)
def test_invalid_changes_are_rejected_and_change_nothing(server: Any, changes: Any, detail: str) -> None:
    path = server.new_collection()
    before = server.stored_rows()
    rejected = server.request("PATCH", path, 422, json=changes)
    assert detail in rejected["detail"]
    assert server.stored_rows() == before
