"""Snapshots only save time: whatever becomes of them, the model is the same bits."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu.constraints import Triplet
from oahu.exceptions import ModelFileError
from oahu.io import model_files
from oahu.service.learner_loop import new_learner
from oahu.service.records import CollectionConfig, Undo
from oahu.service.store.snapshots import SnapshotFolder

NOTES = {"seq": 7, "time": [1.5], "undone": [[1, 2]]}


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path / "snapshots")


def learner(n_seen: int = 0) -> Any:
    made = new_learner(CollectionConfig("a", 3, "OASIS"))
    return made.partial_fit(np.random.default_rng(n_seen).normal(size=(n_seen, 3, 3))) if n_seen else made


# -- the folder ------------------------------------------------------------------------------------------------


def test_a_snapshot_is_read_back_with_its_notes(folder: SnapshotFolder) -> None:
    folder.save(1, 7, learner(4), NOTES)
    read, notes = folder.load(1, 7)
    assert model_files.to_bytes(read) == model_files.to_bytes(learner(4))
    assert notes == NOTES


def test_snapshots_are_listed_from_the_newest_for_each_collection(folder: SnapshotFolder) -> None:
    for seq in (9, 100, 20):
        folder.save(1, seq, learner(), {})
    folder.save(2, 50, learner(), {})
    assert (folder.of(1), folder.of(2), folder.of(3)) == ([100, 20, 9], [50], [])


def test_a_snapshot_of_the_same_number_takes_the_place_of_the_other(folder: SnapshotFolder) -> None:
    folder.save(1, 7, learner(1), {})
    folder.save(1, 7, learner(2), NOTES)
    read, notes = folder.load(1, 7)
    assert (read.n_seen_, notes) == (2, NOTES)


def test_what_is_dropped_is_gone_and_the_others_stay(folder: SnapshotFolder) -> None:
    for seq in (1, 2, 3):
        folder.save(1, seq, learner(), {})
    folder.drop(1, [1, 3, 99])
    assert folder.of(1) == [2]


def test_when_all_are_dropped_nothing_is_left(folder: SnapshotFolder, tmp_path: Path) -> None:
    folder.save(1, 1, learner(), {})
    (tmp_path / "snapshots" / "1" / ".oahu-of-one-that-was-killed.tmp").write_bytes(b"half")
    folder.drop(1, [1])
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_dropping_where_nothing_is_is_no_error(folder: SnapshotFolder) -> None:
    folder.drop(1, [1])
    assert folder.of(1) == []


def test_files_that_are_no_snapshots_are_left_out(folder: SnapshotFolder, tmp_path: Path) -> None:
    folder.save(1, 5, learner(), {})
    for name in ("notes.txt", "latest.oahu", ".oahu-abc.tmp", "-3.oahu"):
        (tmp_path / "snapshots" / "1" / name).write_bytes(b"")
    assert folder.of(1) == [5]


def test_a_snapshot_that_is_not_there_is_an_error(folder: SnapshotFolder) -> None:
    with pytest.raises(OSError, match="No such file"):
        folder.load(1, 1)


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: b"", lambda data: data + b"x"])
def test_a_damaged_snapshot_is_an_error(folder: SnapshotFolder, tmp_path: Path, damage: Any) -> None:
    folder.save(1, 1, learner(), {})
    (path,) = (tmp_path / "snapshots" / "1").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelFileError):
        folder.load(1, 1)


# -- the model does not depend on them -------------------------------------------------------------------------


def snapshots(tmp_path: Path) -> list[Path]:
    """The files, newest first."""
    return sorted((tmp_path / "data" / "snapshots").glob("*/*.oahu"), reverse=True)


@pytest.fixture
def stopped(lab: Any, tmp_path: Path) -> Any:
    """A log that was learned, with three snapshots of it and some that came after the last."""
    one = lab(options={"snapshot_every": 20, "keep_snapshots": 10})
    for seed in range(4):
        one.say(*one.pieces(9, seed))
        one.learn()
    one.before = one.model()
    one.loop.stop()
    assert len(snapshots(tmp_path)) >= 3
    return one


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(place: float) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(place * (len(data) - 1))] ^= 4
        path.write_bytes(data)

    flip.__name__ = f"flipped at {place}"
    return flip


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def of_another_learner(path: Path) -> None:
    notes = model_files.read_notes(path)
    model_files.save(new_learner(CollectionConfig("a", 5, "LEGO")), path, notes | {"time": [0.0]})


DAMAGES = [
    truncated,
    emptied,
    Path.unlink,
    replaced_by_a_folder,
    of_another_learner,
    *(flipped(place) for place in (0.0, 0.01, 0.3, 0.7, 1.0)),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("how_many", [1, 2, 100])
def test_a_corrupt_snapshot_falls_back_to_the_one_before(
    stopped: Any, tmp_path: Path, damage: Any, how_many: int
) -> None:
    for path in snapshots(tmp_path)[:how_many]:
        damage(path)
    stopped.restart(kill=True)
    assert stopped.model() == stopped.before


def test_a_sound_snapshot_is_used(stopped: Any) -> None:
    newest = stopped.store.snapshots(stopped.id)[0]
    stopped.restart(kill=True)
    assert stopped.loop.published.version == newest


def test_the_one_before_a_corrupt_snapshot_is_used(stopped: Any, tmp_path: Path) -> None:
    truncated(snapshots(tmp_path)[0])
    before = stopped.store.snapshots(stopped.id)[1]
    stopped.restart(kill=True)
    assert stopped.loop.published.version == before


def test_a_snapshot_of_another_log_is_not_used(stopped: Any, tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "data" / "oahu.db")
    database.execute("UPDATE log SET time = time + 1")  # as if all of it was said at another time
    database.commit()
    database.close()
    stopped.restart(kill=True)
    assert stopped.loop.published.version == 0
    assert stopped.model() == stopped.before


def test_a_database_that_was_put_back_is_learned_as_it_is(lab: Any, tmp_path: Path) -> None:
    one = lab(options={"snapshot_every": 3, "keep_snapshots": 10})
    one.say(*one.pieces(10))
    one.learn()
    one.restart()
    one.loop.stop()
    one.store.close()
    shutil.copytree(tmp_path / "data", tmp_path / "backup", ignore=shutil.ignore_patterns("snapshots", "lock"))
    one.store = one._open()
    one._start()
    one.say(*one.pieces(10, 1))
    one.learn()
    one.restart()  # with snapshots of a log of 20
    one.loop.stop()
    one.store.close()
    for name in ("oahu.db", "oahu.db-wal", "oahu.db-shm"):
        (tmp_path / "data" / name).unlink(missing_ok=True)
    for path in (tmp_path / "backup").iterdir():
        shutil.copy(path, tmp_path / "data")
    one.log = one.log[:10]
    one.store = one._open()
    one._start()
    one.say(*one.pieces(10, 2))  # the same numbers, and other feedback
    found = one.model()
    shutil.rmtree(tmp_path / "data" / "snapshots")
    one.restart(kill=True)
    assert found == one.model()


def test_a_snapshot_that_has_learned_what_was_undone_is_not_used(stopped: Any) -> None:
    newest = stopped.store.snapshots(stopped.id)[0]
    stopped.say(Undo(newest - 1, newest - 1))
    stopped.restart(kill=True)
    assert stopped.loop.published.version < newest - 1


def test_a_snapshot_of_before_what_was_undone_is_used(stopped: Any) -> None:
    newest = stopped.store.snapshots(stopped.id)[0]
    stopped.say(Undo(newest + 1, newest + 1))
    stopped.restart(kill=True)
    assert stopped.loop.published.version == newest


def test_only_so_many_snapshots_are_kept(lab: Any) -> None:
    one = lab(options={"snapshot_every": 1, "keep_snapshots": 4}, closure=0)
    for seed in range(12):
        one.say(Triplet(1, 4, 2 + 3 * (seed % 7)))
        one.learn()
        one.model()  # when the turn is over
        assert len(one.store.snapshots(one.id)) <= 4
    assert one.store.snapshots(one.id)[:2] == [12, 11]
