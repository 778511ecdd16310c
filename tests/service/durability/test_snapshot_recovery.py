"""A restart gives the same model with complete, damaged or missing snapshots."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu.service.store.snapshots import SnapshotFolder

pytestmark = pytest.mark.server  # runs a real HTTP server

Json = dict[str, Any]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, serve_in: Any) -> tuple[Path, tuple[bytes, Any]]:
    """Return a folder with feedback and several snapshots, with its model and rankings."""
    folder = tmp_path_factory.mktemp("before") / "data"
    with serve_in(folder, snapshot_every=15) as served:
        served.put(40)
        served.add_feedback(60, seed=1)
        served.call("DELETE", "/feedback/7")
        served.add_feedback(60, seed=2)
        served.call("DELETE", "/feedback/80")
        served.add_feedback(10, seed=3)
        return folder, (served.model(), served.ranking())


@pytest.fixture
def before(prepared: tuple[Path, tuple[bytes, Any]], data: Path) -> tuple[bytes, Any]:
    """Copy the prepared folder, and return its model and rankings."""
    shutil.copytree(prepared[0], data)
    return prepared[1]


@pytest.fixture
def snapshots(before: Any, data: Path) -> list[Path]:
    """Return the snapshot files, newest first."""
    found = sorted((data / "snapshots").glob("*/*.oahu"), reverse=True)
    assert len(found) >= 3
    return found


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that records the sequence numbers of loaded snapshots."""
    seqs: list[int] = []
    load = SnapshotFolder.load

    def recording(self: SnapshotFolder, collection: int, seq: int) -> tuple[Any, Json]:
        found = load(self, collection, seq)
        seqs.append(seq)
        return found

    monkeypatch.setattr(SnapshotFolder, "load", recording)
    return seqs


def _flip(path: Path, where: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(where * (len(data) - 1))] ^= 1 << int(100 * where) % 8
    path.write_bytes(data)


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").touch()


def _make_unreadable(path: Path) -> None:
    """Replace the file by a link to itself, which not even the administrator can read."""
    path.unlink()
    path.symlink_to(path)


def _replace_by_another(path: Path) -> None:
    """Replace the file by a valid snapshot of another sequence number."""
    shutil.copy(sorted(path.parent.glob("*.oahu"))[0], path)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "a bit of its length": lambda path: _flip(path, 0.0),
    "a bit of its header": lambda path: _flip(path, 0.1),
    "a bit of its arrays": lambda path: _flip(path, 0.9),
    "its last bit": lambda path: _flip(path, 1.0),
    "cut in the middle": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "the last byte is missing": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "a folder": _make_folder,
    "unreadable": _make_unreadable,
    "another sequence number": _replace_by_another,
}


def test_a_restart_begins_at_the_newest_snapshot(
    before: Any, snapshots: list[Path], loaded: list[int], serve: Any
) -> None:
    with serve() as served:
        assert (served.model(), served.ranking()) == before
    assert loaded == [int(snapshots[0].stem)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_restart_skips_a_damaged_snapshot(
    before: Any, snapshots: list[Path], loaded: list[int], serve: Any, damage: str
) -> None:
    DAMAGES[damage](snapshots[0])
    with serve() as served:
        assert (served.model(), served.ranking()) == before
    valid = [int(snapshots[1].stem)]
    assert loaded == ([int(snapshots[0].stem), *valid] if damage == "another sequence number" else valid)


def _damage_each_differently(paths: list[Path]) -> None:
    """Damage all snapshots, each in another way."""
    damages = [damage for name, damage in DAMAGES.items() if name != "another sequence number"]
    for path, damage in zip(paths, cycle(damages), strict=False):
        damage(path)


def test_a_restart_without_valid_snapshots_learns_the_whole_log(
    before: Any, snapshots: list[Path], loaded: list[int], serve: Any
) -> None:
    _damage_each_differently(snapshots)
    with serve() as served:
        assert (served.model(), served.ranking()) == before
    assert loaded == []


def test_learning_and_undo_with_damaged_snapshots(
    before: Any, snapshots: list[Path], serve: Any, expected_model: Any
) -> None:
    _damage_each_differently(snapshots[1:-1])
    with serve(snapshot_every=10) as served:
        served.add_feedback(20, seed=4)
        served.call("DELETE", "/feedback/3")
        served.add_feedback(20, seed=5)
        assert served.model() == expected_model()


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_bit_does_not_change_the_model(before: Any, snapshots: list[Path], serve: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for path in snapshots:
        _flip(path, rng.random())
    with serve() as served:
        assert served.model() == before[0]


def test_the_log_alone_gives_the_same_model(before: Any, data: Path, serve: Any) -> None:
    shutil.rmtree(data / "snapshots")
    with serve() as served:
        assert (served.model(), served.ranking()) == before


def test_a_restart_from_an_old_snapshot(before: Any, snapshots: list[Path], loaded: list[int], serve: Any) -> None:
    for path in snapshots[:-1]:
        path.unlink()
    with serve() as served:
        assert (served.model(), served.ranking()) == before
    assert loaded == [int(snapshots[-1].stem)]


def test_temporary_files_of_a_killed_process_are_removed(
    before: Any, snapshots: list[Path], serve: Any, expected_model: Any
) -> None:
    leftover = snapshots[0].with_name(".oahu-0123456789abcdef.tmp")
    leftover.write_bytes(snapshots[0].read_bytes()[:100])
    with serve(snapshot_every=5) as served:
        assert served.model() == before[0]
        served.add_feedback(20, seed=4)
        assert served.model() == expected_model()
    assert not leftover.exists()


def test_other_files_among_the_snapshots_are_ignored(before: Any, snapshots: list[Path], serve: Any) -> None:
    for name in ("x.oahu", "²³.oahu", "-1.oahu", "99999999999999999999999999.oahu", "12", "README"):
        snapshots[0].with_name(name).write_bytes(b"something else")
    with serve() as served:
        assert served.model() == before[0]


def test_undo_works_if_snapshots_cannot_be_deleted(
    before: Any, serve: Any, expected_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with serve() as served:
        monkeypatch.setattr(Path, "unlink", fail)
        served.call("DELETE", "/feedback/3")
        assert served.model() == expected_model()
    with serve() as served:
        assert served.model() == expected_model()


def test_learning_works_without_a_snapshot_folder(before: Any, data: Path, serve: Any, expected_model: Any) -> None:
    shutil.rmtree(data / "snapshots")
    (data / "snapshots").write_text("a file")
    with serve(snapshot_every=5) as served:
        served.add_feedback(20, seed=4)
        served.call("DELETE", "/feedback/3")
        assert served.model() == expected_model()


# -- changes that are stored but not learned -----------------------------------------------------------------


def test_an_undo_that_was_only_stored_is_applied_after_a_restart(
    serve: Any, expected_model: Any, data: Path
) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.add_feedback(50, seed=1)
        served.model()
        served.collection.learner.stop()  # later feedback is stored, but not learned
        served.collection.undo(5).result()
        served.collection.undo(30).result()
    seqs = [int(path.stem) for path in data.glob("snapshots/*/*.oahu")]
    assert max(seqs) >= 30, "the test needs an outdated snapshot"
    with serve() as served:
        assert served.model() == expected_model()


def test_feedback_that_was_only_stored_is_learned_after_a_restart(serve: Any, expected_model: Any) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.add_feedback(50, seed=1)
        served.model()
        served.collection.learner.stop()
        for record in range(5):
            served.add_feedback(3, seed=10 + record)
        served.collection.undo(52).result()
        served.add_feedback(3, seed=20)
    with serve() as served:
        assert served.model() == expected_model()


@pytest.fixture
def other_model(config: Json) -> bytes:
    """Return a model of the same learner that has learned other constraints."""
    from oahu.io import model_files
    from oahu.service.learner_factory import new_learner
    from oahu.service.records import CollectionConfig

    rng = np.random.default_rng(9)
    learner = new_learner(CollectionConfig(**config)).partial_fit(rng.normal(size=(30, 3, 8)).astype(np.float32))
    return model_files.to_bytes(learner)


def test_a_replacement_model_outlives_a_restart(serve: Any, other_model: bytes) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.add_feedback(30, seed=1)
        served.collection.replace_model(other_model).result()
        model = served.model()
        assert model == other_model
    with serve() as served:
        assert served.model() == other_model


def test_learning_from_a_replacement_model_outlives_a_restart(
    serve: Any, expected_model: Any, other_model: bytes
) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.add_feedback(30, seed=1)
        served.collection.replace_model(other_model).result()
        served.add_feedback(30, seed=2)
        served.call("DELETE", "/feedback/12")
        served.call("DELETE", "/feedback/40")
        model = served.model()
        assert model == expected_model()
    with serve() as served:
        assert served.model() == model


def test_a_replacement_that_was_only_stored_is_applied_after_a_restart(
    serve: Any, expected_model: Any, other_model: bytes
) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.add_feedback(30, seed=1)
        served.model()
        served.collection.learner.stop()
        served.collection.replace_model(other_model).result()
        served.add_feedback(5, seed=2)
        served.collection.undo(3).result()
    with serve() as served:
        assert served.model() == expected_model()


def test_a_restored_version_outlives_a_restart(serve: Any) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.add_feedback(30, seed=1)
        before = served.model()
        served.add_feedback(30, seed=2)
        served.call("POST", "/restore", {"metric_version": 30})
        assert served.model() == before
    with serve() as served:
        assert served.model() == before


@pytest.mark.parametrize("learns", [True, False], ids=["learned", "only stored"])
def test_restoring_a_version_from_before_an_undo_outlives_a_restart(
    serve: Any, expected_model: Any, learns: bool
) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.add_feedback(30, seed=1)
        before = served.model()
        served.call("DELETE", "/feedback/5")
        served.add_feedback(30, seed=2)
        served.model()
        if not learns:
            served.collection.learner.stop()
        served.collection.restore(30).result()
        assert expected_model() == before
        assert not learns or served.model() == before
    with serve() as served:
        assert served.model() == before


def test_restoring_a_version_from_before_a_replacement_outlives_a_restart(serve: Any, other_model: bytes) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.add_feedback(30, seed=1)
        before = served.model()
        served.collection.replace_model(other_model).result()
        served.add_feedback(30, seed=2)
        served.call("POST", "/restore", {"metric_version": 30})
        assert served.model() == before
    with serve() as served:
        assert served.model() == before


def test_restoring_a_version_right_after_a_replacement(serve: Any, other_model: bytes) -> None:
    with serve() as served:
        served.put(40)
        served.add_feedback(30, seed=1)
        before = served.model()
        served.collection.replace_model(other_model).result()
        served.call("POST", "/restore", {"metric_version": 30})
        assert served.model() == before
