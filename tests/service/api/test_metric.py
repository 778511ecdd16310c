"""The history of a metric, its file, and going back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu

TRIPLET = {"anchor": "i0", "positive": "i1", "negative": "i2"}


def learned(service: Any, path: str) -> Any:
    """Wait until all is learned, by asking something."""
    return service.ask("POST", f"{path}/search", json={"key": "i0"})


def model(service: Any, path: str) -> bytes:
    learned(service, path)
    answer = service.http.get(f"{path}/model")
    assert answer.headers["content-type"] == "application/octet-stream"
    content: bytes = answer.content
    return content


def test_the_history_says_how_the_weights_moved(live: Any, wait: Any) -> None:
    path = live.new()
    for _ in range(3):
        live.say(path, TRIPLET)
        learned(live, path)
    told = wait(lambda: (h := live.ask("GET", f"{path}/history")) and h["points"][-1]["metric_version"] == 3 and h)
    weights = live.ask("GET", path)["weights"]
    assert told["spaces"] == list(weights)
    assert told["points"][-1]["weights"] == pytest.approx(list(weights.values()))
    versions = [one["metric_version"] for one in told["points"]]
    assert versions == sorted(set(versions))


def test_a_downloaded_model_is_the_one_that_learned(live: Any, tmp_path: Path) -> None:
    path = live.new(learner="OAHU", parameters={"n_layers": 2, "hidden_size": 6, "embedding_size": 3}, closure=0)
    live.say(path, TRIPLET, {"anchor": "i3", "positive": "i4", "negative": "i5"})
    (tmp_path / "it.oahu").write_bytes(model(live, path))
    rows = np.random.default_rng(12).normal(size=(12, 4)).round(3).astype(np.float32)
    own = oahu.OAHU(n_layers=2, hidden_size=6, embedding_size=3, random_state=0)
    own.partial_fit(rows[[[0, 1, 2], [3, 4, 5]]])
    loaded = oahu.load(tmp_path / "it.oahu")
    assert (loaded.n_seen_, type(loaded)) == (2, oahu.OAHU)
    np.testing.assert_array_equal(loaded.metric().transform(rows), own.metric().transform(rows))


def test_a_download_is_offered_as_a_file(live: Any) -> None:
    path = live.new()
    name = path.rpartition("/")[2]
    answer = live.http.get(f"{path}/model")
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}.oahu"'


def test_an_uploaded_model_takes_over(live: Any) -> None:
    source, target = live.new(), live.new()
    live.say(source, TRIPLET)
    data = model(live, source)
    sent = live.ask("PUT", f"{target}/model", content=data, headers={"Content-Type": "application/octet-stream"})
    assert sent == {"seq": 1}
    assert model(live, target) == data
    assert live.ask("GET", f"{target}/feedback")["records"][0]["kind"] == "model"


def test_learning_goes_on_from_an_uploaded_model(live: Any) -> None:
    source, target = live.new(closure=0), live.new(closure=0)
    live.say(source, TRIPLET)
    live.ask("PUT", f"{target}/model", content=model(live, source))
    more = {"anchor": "i3", "positive": "i4", "negative": "i5"}
    for path in (source, target):
        live.say(path, more)
    assert model(live, source) == model(live, target)


def test_a_model_for_other_items_or_of_another_kind_is_refused(live: Any) -> None:
    path = live.new()
    for config, told in (({"dimension": 5}, "features"), ({"learner": "OASIS"}, "OASIS")):
        refused = live.ask("PUT", f"{path}/model", 422, content=model_of(live, **config))
        assert told in refused["detail"]
    assert live.ask("GET", path)["last_seq"] == 0


def model_of(service: Any, **config: Any) -> bytes:
    content: bytes = service.http.get(f"{service.new(**config)}/model").content
    return content


def test_what_is_no_model_is_refused(live: Any) -> None:
    path = live.new()
    whole = model_of(live)
    turned = bytearray(whole)
    turned[len(turned) // 2] ^= 1
    for data in (b"", b"x", b"\x80\x04\x95pickle", whole[:-1], whole[:100], bytes(turned), b"\xff" * 5_000):
        live.ask("PUT", f"{path}/model", 422, content=data)
    assert live.ask("GET", path)["last_seq"] == 0


def test_a_metric_and_not_a_learner_is_refused(live: Any, tmp_path: Path) -> None:
    path = live.new(learner="Euclidean")
    oahu.EuclideanMetric(4).save(tmp_path / "m.oahu")
    live.ask("PUT", f"{path}/model", 422, content=(tmp_path / "m.oahu").read_bytes())


def test_going_back_makes_the_model_of_then(live: Any) -> None:
    path = live.new()
    live.say(path, TRIPLET)
    then = model(live, path)
    live.say(path, {"anchor": "i3", "positive": "i4", "negative": "i5"}, {"query": "i6", "positive": ["i7"]})
    assert model(live, path) != then
    assert live.ask("POST", f"{path}/restore", json={"metric_version": 1}) == {"seq": 4}
    assert model(live, path) == then
    assert [one["active"] for one in live.ask("GET", f"{path}/feedback")["records"]] == [True, False, False, True]


def test_one_can_go_back_to_the_beginning(live: Any) -> None:
    path = live.new()
    then = model(live, path)
    live.say(path, TRIPLET, TRIPLET)
    live.ask("POST", f"{path}/restore", json={"metric_version": 0})
    assert model(live, path) == then


@pytest.mark.parametrize(
    ("version", "status"), [(2, 409), (3, 404), (-1, 422), (2**62, 404), (1.5, 422), ("1", 422)]
)
def test_one_cannot_go_back_to_what_never_was(live: Any, version: Any, status: int) -> None:
    path = live.new()
    live.say(path, TRIPLET, TRIPLET)
    live.ask("POST", f"{path}/restore", status, json={"metric_version": version})
    assert live.ask("GET", path)["last_seq"] == 2
