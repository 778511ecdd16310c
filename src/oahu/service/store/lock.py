"""One process at a time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from oahu.service.errors import StoreBusyError

__all__ = ["Lock"]


class Lock:
    """A file that one process holds; the system lets go of it when the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _take(self._file)
        except OSError as error:
            holder = os.read(self._file, 32).decode(errors="replace").strip()
            os.close(self._file)
            who = f" (process {holder})" if holder else ""
            raise StoreBusyError(
                f"{path.parent} is in use by another oahu service{who}: one store has one writer. "
                "Stop that one first, or take another folder with --data."
            ) from error
        with suppress(OSError):  # on a full disk nobody is told who holds it, but it is held
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0) if hasattr(os, "pwrite") else None

    def release(self) -> None:
        """Let go; once more changes nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


if os.name == "nt":  # pragma: no cover

    def _take(file: int) -> None:
        import msvcrt

        os.lseek(file, 1024, os.SEEK_SET)  # beyond what is written: others may read who holds it
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
else:

    def _take(file: int) -> None:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
