"""Atomic file writes: the old file or the complete new one, flushed to disk in the right order."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oahu.io import atomic_files
from oahu.io.atomic_files import replace_atomically, write_atomically


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, bytes]]:
    """The files in the folder at each call of fsync."""
    folders: list[dict[str, bytes]] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        folders.append({path.name: path.read_bytes() for path in tmp_path.iterdir()})
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    return folders


@pytest.mark.parametrize(("data", "expected"), [(b"\x00\xff", b"\x00\xff"), ("naïve\n", "naïve\n".encode())])
def test_bytes_and_text_are_written_as_they_are(tmp_path: Path, data: Any, expected: bytes) -> None:
    write_atomically(tmp_path / "file", data)
    assert (tmp_path / "file").read_bytes() == expected
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_write_flushes_the_temporary_file_then_renames_then_flushes_the_folder(
    tmp_path: Path, synced: list[dict[str, bytes]]
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    write_atomically(tmp_path / "file", b"new")
    before, after = synced
    temporary = before.keys() - {"file"}
    assert before["file"] == b"old"
    assert [before[name] for name in temporary] == [b"new"]
    assert after == {"file": b"new"}


def test_replace_flushes_the_temporary_file_then_renames_then_flushes_the_folder(
    tmp_path: Path, synced: list[dict[str, bytes]]
) -> None:
    (tmp_path / "part").write_bytes(b"new")
    replace_atomically(tmp_path / "part", tmp_path / "file")
    assert synced == [{"part": b"new"}, {"file": b"new"}]


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(call, fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_the_mode_sets_the_permissions(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"secret", mode=0o600)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


# -- kills -----------------------------------------------------------------------------------------------

#: Writes a file in a process that kills itself at a given step. It loads the module without the package.
KILLED_WRITE = """
import importlib.util, os, pathlib, signal, sys

source, path, step = sys.argv[1:]
spec = importlib.util.spec_from_file_location("atomic_files", source)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
fdopen, fsync, replace = os.fdopen, os.fsync, pathlib.Path.replace
n_synced = 0

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def open_half(*arguments):
    file = fdopen(*arguments, buffering=0)

    class Half:
        __enter__ = lambda self: self
        __exit__ = lambda self, *_: None
        def write(self, data):
            file.write(data[: len(data) // 2])
            kill()

    return Half()

def kill_at_sync(descriptor):
    global n_synced
    n_synced += 1
    if n_synced == (1 if step == "flush of the file" else 2):
        kill()
    fsync(descriptor)

if step == "write":
    os.fdopen = open_half
elif step == "rename":
    pathlib.Path.replace = lambda *_: kill()
else:
    os.fsync = kill_at_sync
module.write_atomically(path, b"new" * 100_000)
"""


@pytest.mark.parametrize(
    ("step", "survivor"),
    [
        ("write", b"old"),
        ("flush of the file", b"old"),
        ("rename", b"old"),
        ("flush of the folder", b"new" * 100_000),
    ],
    ids=["write", "flush of the file", "rename", "flush of the folder"],  # pytest adds the id to the environment
)
def test_a_kill_at_any_step_leaves_the_old_file_or_the_complete_new_one(
    tmp_path: Path, step: str, survivor: bytes
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    command = [sys.executable, "-I", "-c", KILLED_WRITE, atomic_files.__file__, str(tmp_path / "file"), step]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "file").read_bytes() == survivor
    unfinished = [path for path in tmp_path.iterdir() if path.name != "file"]
    assert len(unfinished) == (0 if survivor != b"old" else 1)
