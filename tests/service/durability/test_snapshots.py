"""A restart makes the same model, whatever is left of the snapshots."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu.service.store.snapshots import SnapshotFolder

Json = dict[str, Any]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, serve_in: Any) -> tuple[Path, tuple[bytes, Any]]:
    """A folder with feedback and several snapshots; the model and the rankings as they were."""
    folder = tmp_path_factory.mktemp("before") / "data"
    with serve_in(folder, snapshot_every=15) as served:
        served.put(40)
        served.say(60, seed=1)
        served.get("DELETE", "/feedback/7")
        served.say(60, seed=2)
        served.get("DELETE", "/feedback/80")
        served.say(10, seed=3)
        return folder, (served.model(), served.ranking())


@pytest.fixture
def before(told: tuple[Path, tuple[bytes, Any]], data: Path) -> tuple[bytes, Any]:
    """The model and the rankings as they were; the folder is there as it was left."""
    shutil.copytree(told[0], data)
    return told[1]


@pytest.fixture
def snapshots(before: Any, data: Path) -> list[Path]:
    """The files, newest first."""
    found = sorted((data / "snapshots").glob("*/*.oahu"), reverse=True)
    assert len(found) >= 3
    return found


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sequence numbers of the snapshots that could be read."""
    seqs: list[int] = []
    load = SnapshotFolder.load

    def spied(self: SnapshotFolder, collection: int, seq: int) -> tuple[Any, Json]:
        found = load(self, collection, seq)
        seqs.append(seq)
        return found

    monkeypatch.setattr(SnapshotFolder, "load", spied)
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
    """By anyone, the administrator too: a link to itself."""
    path.unlink()
    path.symlink_to(path)


def _take_another(path: Path) -> None:
    """A sound file, of another place in the log."""
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
    "of another place in the log": _take_another,
}


def test_the_newest_snapshot_is_where_a_restart_begins(
    before: Any, snapshots: list[Path], used: list[int], serve: Any
) -> None:
    with serve() as served:
        assert (served.model(), served.ranking()) == before
    assert used == [int(snapshots[0].stem)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_falls_back_to_the_one_before(
    before: Any, snapshots: list[Path], used: list[int], serve: Any, damage: str
) -> None:
    DAMAGES[damage](snapshots[0])
    with serve() as served:
        assert (served.model(), served.ranking()) == before
    sound = [int(snapshots[1].stem)]
    assert used == ([int(snapshots[0].stem), *sound] if damage == "of another place in the log" else sound)


@pytest.mark.parametrize("damage", DAMAGES)
def test_where_all_snapshots_are_damaged_everything_is_learned_again(
    before: Any, snapshots: list[Path], serve: Any, damage: str
) -> None:
    for path in snapshots[:-1] if damage == "of another place in the log" else snapshots:
        DAMAGES[damage](path)
    with serve() as served:
        assert (served.model(), served.ranking()) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_learning_and_undoing_go_on_over_damaged_snapshots(
    before: Any, snapshots: list[Path], serve: Any, must_be: Any, damage: str
) -> None:
    for path in snapshots[1:-1]:
        DAMAGES[damage](path)
    with serve(snapshot_every=10) as served:
        served.say(20, seed=4)
        served.get("DELETE", "/feedback/3")
        served.say(20, seed=5)
        assert served.model() == must_be()


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_bit_anywhere_does_not_get_into_the_model(
    before: Any, snapshots: list[Path], serve: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    for path in snapshots:
        _flip(path, rng.random())
    with serve() as served:
        assert served.model() == before[0]


def test_the_log_alone_makes_the_same_model(before: Any, data: Path, serve: Any) -> None:
    shutil.rmtree(data / "snapshots")
    with serve() as served:
        assert (served.model(), served.ranking()) == before


def test_a_snapshot_that_is_behind_is_caught_up_with(
    before: Any, snapshots: list[Path], used: list[int], serve: Any
) -> None:
    for path in snapshots[:-1]:
        path.unlink()
    with serve() as served:
        assert (served.model(), served.ranking()) == before
    assert used == [int(snapshots[-1].stem)]


def test_files_of_a_process_that_was_killed_while_writing_do_no_harm(
    before: Any, snapshots: list[Path], serve: Any, must_be: Any
) -> None:
    left = snapshots[0].with_name(".oahu-0123456789abcdef.tmp")
    left.write_bytes(snapshots[0].read_bytes()[:100])
    with serve(snapshot_every=5) as served:
        assert served.model() == before[0]
        served.say(20, seed=4)
        assert served.model() == must_be()
    assert not left.exists()


def test_foreign_files_among_the_snapshots_do_no_harm(before: Any, snapshots: list[Path], serve: Any) -> None:
    for name in ("x.oahu", "²³.oahu", "-1.oahu", "99999999999999999999999999.oahu", "12", "README"):
        snapshots[0].with_name(name).write_bytes(b"something else")
    with serve() as served:
        assert served.model() == before[0]


def test_undoing_goes_on_where_snapshots_cannot_be_removed(
    before: Any, serve: Any, must_be: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with serve() as served:
        monkeypatch.setattr(Path, "unlink", refuse)
        served.get("DELETE", "/feedback/3")
        assert served.model() == must_be()
    with serve() as served:
        assert served.model() == must_be()


def test_learning_goes_on_where_there_is_no_folder_for_snapshots(
    before: Any, data: Path, serve: Any, must_be: Any
) -> None:
    shutil.rmtree(data / "snapshots")
    (data / "snapshots").write_text("a file")
    with serve(snapshot_every=5) as served:
        served.say(20, seed=4)
        served.get("DELETE", "/feedback/3")
        assert served.model() == must_be()


# -- what happened just before the end -----------------------------------------------------------------------


def test_an_undo_that_was_not_learned_any_more_is_learned_at_the_next_start(
    serve: Any, must_be: Any, data: Path
) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.say(50, seed=1)
        served.model()
        served.collection._loop.stop()  # what is said from now on is only stored
        served.collection.undo(5).result()
        served.collection.undo(30).result()
    kept = [int(path.stem) for path in data.glob("snapshots/*/*.oahu")]
    assert max(kept) >= 30, "there is no snapshot of before that could be taken by mistake"
    with serve() as served:
        assert served.model() == must_be()


def test_feedback_that_was_not_learned_any_more_is_learned_at_the_next_start(serve: Any, must_be: Any) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.say(50, seed=1)
        served.model()
        served.collection._loop.stop()
        for piece in range(5):
            served.say(3, seed=10 + piece)
        served.collection.undo(52).result()
        served.say(3, seed=20)
    with serve() as served:
        assert served.model() == must_be()


@pytest.fixture
def other_model(config: Json) -> bytes:
    """A model of the same kind that has learned something else."""
    from oahu.io import model_files
    from oahu.service.learner_loop import new_learner
    from oahu.service.records import CollectionConfig

    rng = np.random.default_rng(9)
    learner = new_learner(CollectionConfig(**config)).partial_fit(rng.normal(size=(30, 3, 8)).astype(np.float32))
    return model_files.to_bytes(learner)


def test_a_model_that_took_over_is_there_after_a_restart(serve: Any, other_model: bytes) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.say(30, seed=1)
        served.collection.replace_model(other_model).result()
        model = served.model()
        assert model == other_model
    with serve() as served:
        assert served.model() == other_model


def test_learning_on_top_of_a_model_that_took_over_is_the_same_after_a_restart(
    serve: Any, must_be: Any, other_model: bytes
) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.say(30, seed=1)
        served.collection.replace_model(other_model).result()
        served.say(30, seed=2)
        served.get("DELETE", "/feedback/12")
        served.get("DELETE", "/feedback/40")
        model = served.model()
        assert model == must_be()
    with serve() as served:
        assert served.model() == model


def test_a_model_that_did_not_take_over_any_more_does_so_at_the_next_start(
    serve: Any, must_be: Any, other_model: bytes
) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.say(30, seed=1)
        served.model()
        served.collection._loop.stop()
        served.collection.replace_model(other_model).result()
        served.say(5, seed=2)
        served.collection.undo(3).result()
    with serve() as served:
        assert served.model() == must_be()


def test_going_back_to_a_version_is_the_same_after_a_restart(serve: Any) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.say(30, seed=1)
        then = served.model()
        served.say(30, seed=2)
        served.get("POST", "/restore", {"metric_version": 30})
        assert served.model() == then
    with serve() as served:
        assert served.model() == then


@pytest.mark.parametrize("learns", [True, False], ids=["learned", "only stored"])
def test_going_back_to_before_something_was_undone_is_the_same_after_a_restart(
    serve: Any, must_be: Any, learns: bool
) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.say(30, seed=1)
        then = served.model()
        served.get("DELETE", "/feedback/5")
        served.say(30, seed=2)
        served.model()
        if not learns:
            served.collection._loop.stop()
        served.collection.restore(30).result()
        assert must_be() == then
        assert not learns or served.model() == then
    with serve() as served:
        assert served.model() == then


def test_going_back_to_before_a_model_took_over_takes_it_away(serve: Any, other_model: bytes) -> None:
    with serve(snapshot_every=10) as served:
        served.put(40)
        served.say(30, seed=1)
        then = served.model()
        served.collection.replace_model(other_model).result()
        served.say(30, seed=2)
        served.get("POST", "/restore", {"metric_version": 30})
        assert served.model() == then
    with serve() as served:
        assert served.model() == then


def test_going_back_at_once_after_a_model_took_over_takes_it_away(serve: Any, other_model: bytes) -> None:
    with serve() as served:
        served.put(40)
        served.say(30, seed=1)
        then = served.model()
        served.collection.replace_model(other_model).result()
        served.get("POST", "/restore", {"metric_version": 30})
        assert served.model() == then
