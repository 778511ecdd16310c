"""The history of the metric, the model file, and restore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu

TRIPLET = {"anchor": "i0", "positive": "i1", "negative": "i2"}


def wait_until_learned(server: Any, path: str) -> Any:
    """Wait until all feedback is learned, by a search."""
    return server.request("POST", f"{path}/search", json={"key": "i0"})


def model(server: Any, path: str) -> bytes:
    wait_until_learned(server, path)
    response = server.http.get(f"{path}/model")
    assert response.headers["content-type"] == "application/octet-stream"
    content: bytes = response.content
    return content


def test_history_contains_the_weights_of_each_version(server: Any, wait_until: Any) -> None:
    path = server.new_collection()
    for _ in range(3):
        server.add_feedback(path, TRIPLET)
        wait_until_learned(server, path)
    result = wait_until(
        lambda: (h := server.request("GET", f"{path}/history")) and h["points"][-1]["metric_version"] == 3 and h
    )
    weights = server.request("GET", path)["weights"]
    assert result["spaces"] == list(weights)
    assert result["points"][-1]["weights"] == pytest.approx(list(weights.values()))
    versions = [one["metric_version"] for one in result["points"]]
    assert versions == sorted(set(versions))


def test_the_downloaded_model_equals_a_locally_trained_one(server: Any, tmp_path: Path) -> None:
    path = server.new_collection(
        learner="OAHU", parameters={"n_layers": 2, "hidden_size": 6, "embedding_size": 3}, closure=0
    )
    server.add_feedback(path, TRIPLET, {"anchor": "i3", "positive": "i4", "negative": "i5"})
    (tmp_path / "it.oahu").write_bytes(model(server, path))
    rows = np.random.default_rng(12).normal(size=(12, 4)).round(3).astype(np.float32)
    own = oahu.OAHU(n_layers=2, hidden_size=6, embedding_size=3, random_state=0)
    own.partial_fit(rows[[[0, 1, 2], [3, 4, 5]]])
    loaded = oahu.load(tmp_path / "it.oahu")
    assert (loaded.n_seen_, type(loaded)) == (2, oahu.OAHU)
    np.testing.assert_array_equal(loaded.metric().transform(rows), own.metric().transform(rows))


def test_the_download_has_a_file_name(server: Any) -> None:
    path = server.new_collection()
    name = path.rpartition("/")[2]
    response = server.http.get(f"{path}/model")
    assert response.headers["content-disposition"] == f'attachment; filename="{name}.oahu"'


def test_an_uploaded_model_replaces_the_learner(server: Any) -> None:
    source, target = server.new_collection(), server.new_collection()
    server.add_feedback(source, TRIPLET)
    data = model(server, source)
    sent = server.request(
        "PUT", f"{target}/model", content=data, headers={"Content-Type": "application/octet-stream"}
    )
    assert sent == {"seq": 1}
    assert model(server, target) == data
    assert server.request("GET", f"{target}/feedback")["records"][0]["kind"] == "model"


def test_learning_continues_with_an_uploaded_model(server: Any) -> None:
    source, target = server.new_collection(closure=0), server.new_collection(closure=0)
    server.add_feedback(source, TRIPLET)
    server.request("PUT", f"{target}/model", content=model(server, source))
    more = {"anchor": "i3", "positive": "i4", "negative": "i5"}
    for path in (source, target):
        server.add_feedback(path, more)
    assert model(server, source) == model(server, target)


def test_models_of_another_dimension_or_learner_are_rejected(server: Any) -> None:
    path = server.new_collection()
    for config, result in (({"dimension": 5}, "features"), ({"learner": "OASIS"}, "OASIS")):
        rejected = server.request("PUT", f"{path}/model", 422, content=model_of(server, **config))
        assert result in rejected["detail"]
    assert server.request("GET", path)["last_seq"] == 0


def model_of(server: Any, **config: Any) -> bytes:
    content: bytes = server.http.get(f"{server.new_collection(**config)}/model").content
    return content


def test_damaged_model_files_are_rejected(server: Any) -> None:
    path = server.new_collection()
    whole = model_of(server)
    turned = bytearray(whole)
    turned[len(turned) // 2] ^= 1
    for data in (b"", b"x", b"\x80\x04\x95pickle", whole[:-1], whole[:100], bytes(turned), b"\xff" * 5_000):
        server.request("PUT", f"{path}/model", 422, content=data)
    assert server.request("GET", path)["last_seq"] == 0


def test_a_metric_file_is_rejected(server: Any, tmp_path: Path) -> None:
    path = server.new_collection(learner="Euclidean")
    oahu.EuclideanMetric(4).save(tmp_path / "m.oahu")
    server.request("PUT", f"{path}/model", 422, content=(tmp_path / "m.oahu").read_bytes())


def test_restore_gives_the_earlier_model(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, TRIPLET)
    then = model(server, path)
    server.add_feedback(
        path, {"anchor": "i3", "positive": "i4", "negative": "i5"}, {"query": "i6", "positive": ["i7"]}
    )
    assert model(server, path) != then
    assert server.request("POST", f"{path}/restore", json={"metric_version": 1}) == {"seq": 4}
    assert model(server, path) == then
    assert [one["active"] for one in server.request("GET", f"{path}/feedback")["records"]] == [
        True,
        False,
        False,
        True,
    ]


def test_restore_of_version_zero(server: Any) -> None:
    path = server.new_collection()
    then = model(server, path)
    server.add_feedback(path, TRIPLET, TRIPLET)
    server.request("POST", f"{path}/restore", json={"metric_version": 0})
    assert model(server, path) == then


@pytest.mark.parametrize(
    ("version", "status"), [(2, 409), (3, 404), (-1, 422), (2**62, 404), (1.5, 422), ("1", 422)]
)
def test_invalid_versions_cannot_be_restored(server: Any, version: Any, status: int) -> None:
    path = server.new_collection()
    server.add_feedback(path, TRIPLET, TRIPLET)
    server.request("POST", f"{path}/restore", status, json={"metric_version": version})
    assert server.request("GET", path)["last_seq"] == 2
