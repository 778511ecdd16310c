"""Downloads of data sets to the data folder.

The package pooch is not used, because it cannot resume an interrupted download of a large file.
"""

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

__all__ = ["DownloadProgress", "RemoteFile", "data_home", "download"]

DownloadProgress = Callable[[str, int, int | None], None]
"""Function that is called with a file name, the number of bytes received so far, and the total number of bytes.

The total number is None if it is unknown.
"""

_TIMEOUT: Final = 30.0  # seconds without any data
_ATTEMPTS: Final = 3  # per address, while each attempt receives data
_BLOCK: Final = 1 << 18  # bytes


def data_home() -> Path:
    """Return the path of the data folder: $OAHU_DATA_HOME, or else ``oahu`` in the platform's cache folder."""
    chosen = os.environ.get("OAHU_DATA_HOME")
    return Path(chosen).expanduser() if chosen else _cache_folder() / "oahu"


def _cache_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (
        chosen if chosen.is_absolute() else Path.home() / ".cache"
    )  # the XDG specification requires an absolute path


@dataclass(frozen=True)
class RemoteFile:
    """A file that can be downloaded.

    Attributes
    ----------
    path : str
        Path of the downloaded file, relative to the data folder.
    urls : tuple of str
        Official download address, followed by the addresses of mirrors.
    checksum : str, optional
        Checksum in the form ``md5:...`` or ``sha256:...``. None if no checksum is published.
    """

    path: str
    urls: tuple[str, ...]
    checksum: str | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class _DownloadError(Exception):
    """Raised if a file cannot be downloaded from an address."""


class _ConnectionLostError(_DownloadError):
    """Raised if a connection ends before the file is complete."""


def download(remote: RemoteFile, home: Path, homepage: str, progress: DownloadProgress | None = None) -> Path:
    """Download a file to the data folder, if the folder does not contain the file. Return the path of the file.

    The data is written to a partial file, NAME.part. When the partial file is complete and its checksum is correct,
    it is renamed to NAME. An interrupted download is resumed only if a checksum is known, because the file on the
    server may have changed.
    """
    target = home / remote.path
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    problems = []
    for url in remote.urls:
        try:
            _complete(part, url, remote, progress)
            _verify(part, remote)
        except _DownloadError as error:
            problems.append(f"{url}: {error}")
        else:
            replace_atomically(part, target)
            return target
    checksum = f" Its checksum must be {remote.checksum.replace(':', ' ')}." if remote.checksum else ""
    raise DatasetError(
        f"{remote.name} could not be downloaded ({'; '.join(problems)}). Try again later, or download the file "
        f"from {homepage} and copy it to {target.parent}.{checksum}"
    )


def _complete(part: Path, url: str, remote: RemoteFile, progress: DownloadProgress | None) -> None:
    """Download the missing bytes of a partial file. Connect again if a connection is lost."""
    if remote.checksum is None:
        part.unlink(missing_ok=True)  # it may belong to another version of the file
    for attempt in range(1, _ATTEMPTS + 1):
        before = _size(part)
        try:
            _receive(part, url, remote.name, progress)
        except _ConnectionLostError:
            if attempt == _ATTEMPTS or _size(part) <= before:
                raise
        else:
            return


def _receive(part: Path, url: str, name: str, progress: DownloadProgress | None) -> None:
    """Append data to a partial file over one connection.

    If the server does not support range requests, the download starts at the first byte again.
    """
    size = _size(part)
    response = _request(url, size)
    if response is None:  # the part is complete
        return
    with response:
        if response.status == 206 and _first_byte(response) != size:
            part.unlink(missing_ok=True)
            raise _DownloadError("the server sent a different part of the file than requested")
        done = size if response.status == 206 else 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        with part.open("ab" if done else "wb") as file:
            while block := _read(response):
                file.write(block)
                done += len(block)
                if progress is not None:
                    progress(name, done, total)
    if total is not None and done < total:
        raise _ConnectionLostError(f"the connection ended after {done:,} of {total:,} bytes")


def _request(url: str, size: int) -> HTTPResponse | None:
    """Return the server's response, or None if the server states that the partial file is complete."""
    request = Request(url, headers={"User-Agent": f"oahu/{__version__}", "Accept-Encoding": "identity"})
    if size:
        request.add_header("Range", f"bytes={size}-")
    try:
        response: HTTPResponse = urlopen(request, timeout=_TIMEOUT)
    except HTTPError as error:
        with error:
            if error.code != 416 or not size:
                raise _DownloadError(f"HTTP status {error.code}, {error.reason}") from error
            is_complete = error.headers.get("Content-Range", "").strip() == f"bytes */{size}"
        return None if is_complete else _request(url, 0)
    except URLError as error:
        raise _DownloadError(str(error.reason)) from error
    except (OSError, HTTPException) as error:
        raise _DownloadError(str(error) or type(error).__name__) from error
    return response


def _first_byte(response: HTTPResponse) -> int | None:
    """Return the position of the first byte in a partial response."""
    found = re.match(r"\s*bytes (\d+)-", response.headers.get("Content-Range", ""))
    return None if found is None else int(found[1])


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read(_BLOCK)
    except (OSError, HTTPException) as error:
        raise _ConnectionLostError(f"the connection was lost ({str(error) or type(error).__name__})") from error


def _verify(part: Path, remote: RemoteFile) -> None:
    if remote.checksum is None:
        return
    kind, _, expected = remote.checksum.partition(":")
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    if found != expected:
        part.unlink()
        raise _DownloadError(f"the {kind} checksum is {found}, but must be {expected}; the file was removed")


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0
