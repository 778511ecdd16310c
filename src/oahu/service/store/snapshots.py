"""Models as of a sequence number: files beside the database, because they can be made again from the log."""

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

_NAME: Final = re.compile(r"[0-9]{20}\.oahu\Z")


class SnapshotFolder:
    """A folder for every collection, and a file for every snapshot, named by its sequence number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, collection: int, seq: int, learner: Any, notes: dict[str, Any]) -> None:
        path = self._path(collection, seq)
        path.parent.mkdir(parents=True, exist_ok=True)
        model_files.save(learner, path, notes)

    def of(self, collection: int) -> list[int]:
        """The sequence numbers there are, newest first."""
        found = (self._folder / str(collection)).glob("*.oahu")
        return sorted((int(path.stem) for path in found if _NAME.match(path.name)), reverse=True)

    def load(self, collection: int, seq: int) -> tuple[Any, dict[str, Any]]:
        path = self._path(collection, seq)
        return load(path), model_files.read_notes(path)

    def drop(self, collection: int, seqs: Iterable[int]) -> None:
        """Remove some, as far as the system lets it: their notes tell that they are of before."""
        folder = self._folder / str(collection)
        left = folder.glob(".oahu-*.tmp")  # of a process that was killed while writing
        for path in [*(self._path(collection, seq) for seq in seqs), *left]:
            _remove(path)
        with suppress(OSError):
            folder.rmdir()  # if nothing is in it

    def _path(self, collection: int, seq: int) -> Path:
        return self._folder / str(collection) / f"{seq:020d}.oahu"


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        logging.getLogger("oahu.service").warning("%s could not be removed: %s", path, error)
