"""Snapshots of learners, in files next to the database. Lost snapshots can be rebuilt from the log."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from oahu.io import model_files
from oahu.loading import load

__all__ = ["SnapshotFolder"]

_FILE_NAME: Final = re.compile(r"[0-9]{20}\.oahu\Z")


class SnapshotFolder:
    """A folder for each collection, with a file for each snapshot.

    The name of a file is the sequence number of the last log entry that the learner has learned.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, collection: int, seq: int, learner: Any, notes: dict[str, Any]) -> None:
        """Store a learner that has learned the log up to ``seq``, with the metadata ``notes``, in one file."""
        path = self._path(collection, seq)
        path.parent.mkdir(parents=True, exist_ok=True)
        model_files.save(learner, path, notes)

    def sequence_numbers(self, collection: int) -> list[int]:
        """Return the sequence numbers of the snapshots, newest first."""
        files = (self._folder / str(collection)).glob("*.oahu")
        return sorted((int(path.stem) for path in files if _FILE_NAME.match(path.name)), reverse=True)

    def load(self, collection: int, seq: int) -> tuple[Any, dict[str, Any]]:
        """Return the learner and the metadata (``notes``) of a snapshot."""
        path = self._path(collection, seq)
        return load(path), model_files.read_notes(path)

    def drop(self, collection: int, seqs: Iterable[int]) -> None:
        """Delete snapshots.

        If a file cannot be deleted, its metadata (the ``notes`` of `save`) still show that the snapshot is
        outdated.
        """
        folder = self._folder / str(collection)
        leftovers = folder.glob(".oahu-*.tmp")  # from a process that was killed while writing
        for path in [*(self._path(collection, seq) for seq in seqs), *leftovers]:
            _delete(path)
        with suppress(OSError):
            folder.rmdir()  # succeeds if the folder is empty

    def _path(self, collection: int, seq: int) -> Path:
        return self._folder / str(collection) / f"{seq:020d}.oahu"


def _delete(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        logging.getLogger("oahu.service").warning("cannot delete %s: %s", path, error)
