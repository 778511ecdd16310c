"""Snapshots only save time. The model is bit for bit the same with missing or damaged snapshots."""

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
from oahu.service.learner_factory import new_learner
from oahu.service.records import CollectionConfig, Undo
from oahu.service.store.snapshots import SnapshotFolder

NOTES = {"seq": 7, "time": [1.5], "undone": [[1, 2]]}


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path / "snapshots")


def learner(n_seen: int = 0) -> Any:
    made = new_learner(CollectionConfig("a", 3, "OASIS"))
    return made.partial_fit(np.random.default_rng(n_seen).normal(size=(n_seen, 3, 3))) if n_seen else made


# -- the folder ----------------------------------------------------------------------------------------------


def test_a_snapshot_is_read_back_with_its_notes(folder: SnapshotFolder) -> None:
    folder.save(1, 7, learner(4), NOTES)
    read, notes = folder.load(1, 7)
    assert model_files.to_bytes(read) == model_files.to_bytes(learner(4))
    assert notes == NOTES


def test_snapshots_are_listed_per_collection_newest_first(folder: SnapshotFolder) -> None:
    for seq in (9, 100, 20):
        folder.save(1, seq, learner(), {})
    folder.save(2, 50, learner(), {})
    assert (folder.sequence_numbers(1), folder.sequence_numbers(2), folder.sequence_numbers(3)) == (
        [100, 20, 9],
        [50],
        [],
    )


def test_a_snapshot_with_the_same_sequence_number_is_replaced(folder: SnapshotFolder) -> None:
    folder.save(1, 7, learner(1), {})
    folder.save(1, 7, learner(2), NOTES)
    read, notes = folder.load(1, 7)
    assert (read.n_seen_, notes) == (2, NOTES)


def test_dropping_snapshots_keeps_other_snapshots(folder: SnapshotFolder) -> None:
    for seq in (1, 2, 3):
        folder.save(1, seq, learner(), {})
    folder.drop(1, [1, 3, 99])
    assert folder.sequence_numbers(1) == [2]


def test_dropping_all_snapshots_removes_the_folder(folder: SnapshotFolder, tmp_path: Path) -> None:
    folder.save(1, 1, learner(), {})
    (tmp_path / "snapshots" / "1" / ".oahu-of-a-killed-process.tmp").write_bytes(b"half")
    folder.drop(1, [1])
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_dropping_a_missing_snapshot_is_no_error(folder: SnapshotFolder) -> None:
    folder.drop(1, [1])
    assert folder.sequence_numbers(1) == []


def test_other_files_are_ignored(folder: SnapshotFolder, tmp_path: Path) -> None:
    folder.save(1, 5, learner(), {})
    for name in ("notes.txt", "latest.oahu", ".oahu-abc.tmp", "-3.oahu"):
        (tmp_path / "snapshots" / "1" / name).write_bytes(b"")
    assert folder.sequence_numbers(1) == [5]


def test_loading_a_missing_snapshot_is_an_error(folder: SnapshotFolder) -> None:
    with pytest.raises(OSError, match="No such file"):
        folder.load(1, 1)


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: b"", lambda data: data + b"x"])
def test_a_damaged_snapshot_is_an_error(folder: SnapshotFolder, tmp_path: Path, damage: Any) -> None:
    folder.save(1, 1, learner(), {})
    (path,) = (tmp_path / "snapshots" / "1").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelFileError):
        folder.load(1, 1)


# -- the model does not depend on snapshots ------------------------------------------------------------------


def snapshots(tmp_path: Path) -> list[Path]:
    """Return the snapshot files, newest first."""
    return sorted((tmp_path / "data" / "snapshots").glob("*/*.oahu"), reverse=True)


@pytest.fixture
def stopped_harness(make_harness: Any, tmp_path: Path) -> Any:
    """A stopped harness with a learned log, at least three snapshots, and records after the last snapshot."""
    harness = make_harness(options={"snapshot_every": 20, "keep_snapshots": 10}, closure=1)
    for seed in range(4):
        harness.append(*harness.records(9, seed))
        harness.learn()
    harness.before = harness.model()
    harness.loop.stop()
    assert len(snapshots(tmp_path)) >= 3
    return harness


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


def another_learner(path: Path) -> None:
    notes = model_files.read_notes(path)
    model_files.save(new_learner(CollectionConfig("a", 5, "LEGO")), path, notes | {"time": [0.0]})


DAMAGES = [
    truncated,
    emptied,
    Path.unlink,
    replaced_by_a_folder,
    another_learner,
    *(flipped(place) for place in (0.0, 0.01, 0.3, 0.7, 1.0)),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("count", [1, 100])
def test_a_damaged_snapshot_does_not_change_the_model(
    stopped_harness: Any, tmp_path: Path, damage: Any, count: int
) -> None:
    for path in snapshots(tmp_path)[:count]:
        damage(path)
    stopped_harness.restart(kill=True)
    assert stopped_harness.model() == stopped_harness.before


def test_the_newest_valid_snapshot_is_used(stopped_harness: Any) -> None:
    newest = stopped_harness.store.snapshots(stopped_harness.id)[0]
    stopped_harness.restart(kill=True)
    assert stopped_harness.loop.published.version == newest


def test_the_snapshot_before_a_damaged_one_is_used(stopped_harness: Any, tmp_path: Path) -> None:
    truncated(snapshots(tmp_path)[0])
    before = stopped_harness.store.snapshots(stopped_harness.id)[1]
    stopped_harness.restart(kill=True)
    assert stopped_harness.loop.published.version == before


def test_a_snapshot_of_another_log_is_not_used(stopped_harness: Any, tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "data" / "oahu.db")
    database.execute("UPDATE log SET time = time + 1")  # a log with other times
    database.commit()
    database.close()
    stopped_harness.restart(kill=True)
    assert stopped_harness.loop.published.version == 0
    assert stopped_harness.model() == stopped_harness.before


def test_a_restored_backup_of_the_database_is_learned_correctly(make_harness: Any, tmp_path: Path) -> None:
    harness = make_harness(options={"snapshot_every": 3, "keep_snapshots": 10})
    harness.append(*harness.records(10))
    harness.learn()
    harness.restart()
    harness.loop.stop()
    harness.store.close()
    shutil.copytree(tmp_path / "data", tmp_path / "backup", ignore=shutil.ignore_patterns("snapshots", "lock"))
    harness.store = harness._open_store()
    harness._load()
    harness.append(*harness.records(10, 1))
    harness.learn()
    harness.restart()  # saves snapshots of a log of 20 entries
    harness.loop.stop()
    harness.store.close()
    for name in ("oahu.db", "oahu.db-wal", "oahu.db-shm"):
        (tmp_path / "data" / name).unlink(missing_ok=True)
    for path in (tmp_path / "backup").iterdir():
        shutil.copy(path, tmp_path / "data")
    harness.log = harness.log[:10]
    harness.store = harness._open_store()
    harness._load()
    harness.append(*harness.records(10, 2))  # the same sequence numbers with other feedback
    found = harness.model()
    shutil.rmtree(tmp_path / "data" / "snapshots")
    harness.restart(kill=True)
    assert found == harness.model()


def test_a_snapshot_that_contains_undone_feedback_is_not_used(stopped_harness: Any) -> None:
    newest = stopped_harness.store.snapshots(stopped_harness.id)[0]
    stopped_harness.append(Undo(newest - 1, newest - 1))
    stopped_harness.restart(kill=True)
    assert stopped_harness.loop.published.version < newest - 1


def test_a_snapshot_from_before_the_undone_feedback_is_used(stopped_harness: Any) -> None:
    newest = stopped_harness.store.snapshots(stopped_harness.id)[0]
    stopped_harness.append(Undo(newest + 1, newest + 1))
    stopped_harness.restart(kill=True)
    assert stopped_harness.loop.published.version == newest


def test_the_number_of_snapshots_is_limited(make_harness: Any) -> None:
    harness = make_harness(options={"snapshot_every": 1, "keep_snapshots": 4}, closure=0)
    for seed in range(12):
        harness.append(Triplet(1, 4, 2 + 3 * (seed % 7)))
        harness.learn()
        harness.model()  # waits for the end of the batch
        assert len(harness.store.snapshots(harness.id)) <= 4
    assert harness.store.snapshots(harness.id)[:2] == [12, 11]
