"""A lock file that allows only one process per store."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from oahu.service.errors import StoreBusyError

__all__ = ["Lock"]


class Lock:
    """An exclusive lock on a file. The operating system releases the lock when the process ends or is killed."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _acquire(self._file)
        except OSError as error:
            holder = os.read(self._file, 32).decode(errors="replace").strip()
            os.close(self._file)
            process = f" (process {holder})" if holder else ""
            raise StoreBusyError(
                f"{path.parent} is in use by another oahu service{process}. Only one process can use a folder. "
                "Stop that service first, or choose another folder with --data."
            ) from error
        with suppress(OSError):  # on a full disk the file has no process id, but the lock works
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0) if hasattr(os, "pwrite") else None

    def release(self) -> None:
        """Release the lock. A second call has no effect."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


if os.name == "nt":  # pragma: no cover

    def _acquire(file: int) -> None:
        import msvcrt

        os.lseek(file, 1024, os.SEEK_SET)  # beyond the process id, so that other processes can read it
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
else:

    def _acquire(file: int) -> None:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
