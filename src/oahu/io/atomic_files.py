"""Atomic file writes. A reader sees either the old file or the complete new file, even after a crash."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["replace_atomically", "write_atomically"]


def write_atomically(path: str | os.PathLike[str], data: bytes | str, *, mode: int = 0o666) -> None:
    """Write a file atomically: write a temporary file in the same folder, then rename it.

    The data is on disk when this function returns. If the path is a symbolic link, the target of the link is
    written.

    Parameters
    ----------
    path : path
        File to write.
    data : bytes or str
        Content of the file. A string is written as UTF-8.
    mode : int
        Permissions of the file, before the umask is applied.
    """
    target = Path(path).resolve()
    temporary = target.with_name(f".oahu-{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def replace_atomically(temporary: Path, path: Path) -> None:
    """Rename a complete temporary file to ``path`` in the same folder. Then flush the folder to disk."""
    with temporary.open("rb+") as file:  # Windows flushes only files that are open for writing
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a rename in the folder survives a crash. This works only on POSIX systems."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
