"""Models as of a sequence number: files beside the database, because they can be made again from the log."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oahu.learners import load
from oahu.metrics import files

__all__ = ["SnapshotFolder"]


class SnapshotFolder:
    """A folder for every collection, and a file for every snapshot, named by its sequence number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, collection: int, seq: int, learner: Any, notes: dict[str, Any]) -> None:
        path = self._path(collection, seq)
        path.parent.mkdir(parents=True, exist_ok=True)
        files.save(learner, path, notes)

    def of(self, collection: int) -> list[int]:
        """The sequence numbers there are, newest first."""
        found = (self._folder / str(collection)).glob("*.oahu")
        return sorted((int(path.stem) for path in found if path.stem.isdigit()), reverse=True)

    def load(self, collection: int, seq: int) -> tuple[Any, dict[str, Any]]:
        path = self._path(collection, seq)
        return load(path), files.read_notes(path)

    def drop(self, collection: int, seqs: Iterable[int]) -> None:
        for seq in seqs:
            self._path(collection, seq).unlink(missing_ok=True)
        folder = self._folder / str(collection)
        for left in folder.glob(".oahu-*.tmp"):
            left.unlink(missing_ok=True)  # of a process that was killed while writing
        if folder.is_dir() and not any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)

    def _path(self, collection: int, seq: int) -> Path:
        return self._folder / str(collection) / f"{seq:020d}.oahu"
