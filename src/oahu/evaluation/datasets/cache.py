"""Where data sets are kept, and how their files get there."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from oahu.exceptions import DatasetError
from oahu.io.atomic_files import replace_atomically
from oahu.version import __version__

__all__ = ["Progress", "Remote", "data_home", "download"]

Progress = Callable[[str, int, int | None], None]
"""Told the name of a file, how many of its bytes are here, and how many there are, if that is known."""

_TIMEOUT: Final = 30.0  # seconds without a byte
_ATTEMPTS: Final = 3  # at one address, as long as each brings something
_BLOCK: Final = 1 << 18  # bytes


def data_home() -> Path:
    """The folder of data sets: OAHU_DATA_HOME, or ``oahu`` in the platform's folder for caches."""
    chosen = os.environ.get("OAHU_DATA_HOME")
    return Path(chosen).expanduser() if chosen else _caches() / "oahu"


def _caches() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return chosen if chosen.is_absolute() else Path.home() / ".cache"  # a relative one is to be ignored


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded.

    Attributes
    ----------
    path : str
        Where it goes, below the folder of data sets.
    urls : tuple of str
        The official address, then others that have the same bytes.
    checksum : str, optional
        As ``md5:...`` or ``sha256:...``. None says that nobody has published one.
    """

    path: str
    urls: tuple[str, ...]
    checksum: str | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class _FailedError(Exception):
    """An address does not give what is asked for."""


class _DroppedError(_FailedError):
    """A connection ended before everything had arrived."""


def download(remote: Remote, home: Path, homepage: str, progress: Progress | None = None) -> Path:
    """Get a file into the folder of data sets, unless it is there.

    Bytes go into NAME.part, which takes the file's name when all are there and the checksum is right. What an
    interrupted download left is continued where a checksum can tell whether the two parts belong together.
    """
    target = home / remote.path
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    problems = []
    for url in remote.urls:
        try:
            _fill(part, url, remote, progress)
            _verify(part, remote)
        except _FailedError as error:
            problems.append(f"{url}: {error}")
        else:
            replace_atomically(part, target)
            return target
    checksum = f", {remote.checksum.replace(':', ' ')}" if remote.checksum else ""
    raise DatasetError(
        f"{remote.name} could not be downloaded ({'; '.join(problems)}). Try again later, or put the file into "
        f"{target.parent} yourself, from {homepage}{checksum}."
    )


def _fill(part: Path, url: str, remote: Remote, progress: Progress | None) -> None:
    """Bring in what is missing, in as many connections as it takes."""
    if remote.checksum is None:
        part.unlink(missing_ok=True)  # it may be of another version of the file
    for attempt in range(1, _ATTEMPTS + 1):
        before = _size(part)
        try:
            _receive(part, url, remote.name, progress)
        except _DroppedError:
            if attempt == _ATTEMPTS or _size(part) <= before:
                raise
        else:
            return


def _receive(part: Path, url: str, name: str, progress: Progress | None) -> None:
    """One connection: append to the part if the server can, otherwise write it anew."""
    have = _size(part)
    response = _asked(url, have)
    if response is None:  # nothing is beyond what we have
        return
    with response:
        if response.status == 206 and _first_byte(response) != have:
            part.unlink(missing_ok=True)
            raise _FailedError("the server sent another part of the file than it was asked for")
        done = have if response.status == 206 else 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        with part.open("ab" if done else "wb") as file:
            while block := _read(response):
                file.write(block)
                done += len(block)
                if progress is not None:
                    progress(name, done, total)
    if total is not None and done < total:
        raise _DroppedError(f"the connection ended after {done:,} of {total:,} bytes")


def _asked(url: str, have: int) -> HTTPResponse | None:
    """The answer of the server; None if it says that the bytes we have are all."""
    request = Request(url, headers={"User-Agent": f"oahu/{__version__}", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response: HTTPResponse = urlopen(request, timeout=_TIMEOUT)
    except HTTPError as error:
        with error:
            if error.code != 416 or not have:
                raise _FailedError(f"HTTP status {error.code}, {error.reason}") from error
            all_here = error.headers.get("Content-Range", "").strip() == f"bytes */{have}"
        return None if all_here else _asked(url, 0)
    except URLError as error:
        raise _FailedError(str(error.reason)) from error
    except (OSError, HTTPException) as error:
        raise _FailedError(str(error) or type(error).__name__) from error
    return response


def _first_byte(response: HTTPResponse) -> int | None:
    found = re.match(r"\s*bytes (\d+)-", response.headers.get("Content-Range", ""))
    return None if found is None else int(found[1])


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read(_BLOCK)
    except (OSError, HTTPException) as error:
        raise _DroppedError(f"the connection broke ({str(error) or type(error).__name__})") from error


def _verify(part: Path, remote: Remote) -> None:
    if remote.checksum is None:
        return
    kind, _, expected = remote.checksum.partition(":")
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    if found != expected:
        part.unlink()
        raise _FailedError(f"the {kind} of what arrived is {found}, not {expected}, so it was removed")


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0
