"""Tests of downloads: a file arrives complete or not at all, whatever the server does."""

from __future__ import annotations

import hashlib
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu import DatasetError
from oahu.evaluation.datasets import data_home, downloads
from oahu.evaluation.datasets.downloads import RemoteFile, download

CONTENT = np.random.default_rng(0).bytes(1_000_000)
SHA256, MD5 = hashlib.sha256(CONTENT).hexdigest(), hashlib.md5(CONTENT).hexdigest()
HOMEPAGE = "https://example.org/set"


def remote(*urls: str, checksum: str | None = f"sha256:{SHA256}") -> RemoteFile:
    return RemoteFile("set/items.gz", urls, checksum)


@pytest.fixture
def server(server: Any) -> Any:
    server.content = CONTENT
    return server


def error_of(wanted: RemoteFile, home: Path) -> str:
    """Return the message of a failed download, after which the file must not exist."""
    with pytest.raises(DatasetError) as caught:
        download(wanted, home, HOMEPAGE)
    assert not (home / wanted.path).exists()
    return str(caught.value)


# -- downloading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("checksum", [f"sha256:{SHA256}", f"md5:{MD5}", None])
def test_file_is_complete(server: Any, tmp_path: Path, checksum: str | None) -> None:
    got = download(remote(server.url("items.gz"), checksum=checksum), tmp_path / "new", HOMEPAGE)
    assert got == tmp_path / "new" / "set" / "items.gz"
    assert got.read_bytes() == CONTENT
    assert [path.name for path in got.parent.iterdir()] == ["items.gz"]


def test_existing_file_is_not_replaced(server: Any, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "items.gz").write_bytes(b"copied by the user")
    download(remote(server.url("items.gz")), tmp_path, HOMEPAGE)
    assert server.requests == []
    assert (tmp_path / "set" / "items.gz").read_bytes() == b"copied by the user"


def test_progress_counts_up_to_the_total(server: Any, tmp_path: Path) -> None:
    reported: list[tuple[str, int, int | None]] = []
    download(remote(server.url("items.gz")), tmp_path, HOMEPAGE, lambda *values: reported.append(values))
    counts = [done for _, done, _ in reported]
    assert counts == sorted(set(counts))
    assert reported[-1] == ("items.gz", len(CONTENT), len(CONTENT))
    assert {(name, total) for name, _, total in reported} == {("items.gz", len(CONTENT))}


def test_lost_connection_is_resumed(server: Any, tmp_path: Path) -> None:
    server.drops = [300_000, 400_000]
    reported: list[int] = []
    got = download(remote(server.url("items.gz")), tmp_path, HOMEPAGE, lambda _, done, __: reported.append(done))
    assert got.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == [None, "bytes=300000-", "bytes=700000-"]
    assert reported == sorted(reported)


def test_earlier_download_is_resumed(server: Any, tmp_path: Path) -> None:
    server.drops = [100_000, 100_000, 100_000]
    message = error_of(remote(server.url("items.gz")), tmp_path)
    assert "the connection ended after 300,000 of 1,000,000 bytes" in message
    assert (tmp_path / "set" / "items.gz.part").stat().st_size == 300_000
    server.requests.clear()
    assert download(remote(server.url("items.gz")), tmp_path, HOMEPAGE).read_bytes() == CONTENT
    assert server.requests == [("/items.gz", "bytes=300000-")]


def test_server_without_ranges_starts_again(server: Any, tmp_path: Path) -> None:
    server.ranges, server.drops = False, [300_000]
    assert download(remote(server.url("items.gz")), tmp_path, HOMEPAGE).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == [None, "bytes=300000-"]


def test_earlier_part_without_checksum_is_discarded(server: Any, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "items.gz.part").write_bytes(b"of another version")
    assert download(remote(server.url("items.gz"), checksum=None), tmp_path, HOMEPAGE).read_bytes() == CONTENT
    assert server.requests == [("/items.gz", None)]


def test_complete_part_is_used(server: Any, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "items.gz.part").write_bytes(CONTENT)
    assert download(remote(server.url("items.gz")), tmp_path, HOMEPAGE).read_bytes() == CONTENT


def test_part_longer_than_the_file_is_replaced(server: Any, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "items.gz.part").write_bytes(CONTENT + b"more")
    assert download(remote(server.url("items.gz")), tmp_path, HOMEPAGE).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == ["bytes=1000004-", None]


def test_wrong_range_is_rejected(server: Any, tmp_path: Path) -> None:
    server.drops, server.shift = [300_000], 1
    assert "a different part of the file" in error_of(remote(server.url("items.gz")), tmp_path)
    assert not (tmp_path / "set" / "items.gz.part").exists()


def test_wrong_checksum_removes_the_file(server: Any, tmp_path: Path) -> None:
    server.content = CONTENT[:-1] + b"?"
    message = error_of(remote(server.url("items.gz")), tmp_path)
    found = hashlib.sha256(server.content).hexdigest()
    assert f"the sha256 checksum is {found}, but must be {SHA256}" in message
    assert list((tmp_path / "set").iterdir()) == []


@pytest.mark.parametrize("checksum", [f"sha256:{SHA256}", None])
def test_content_length_too_large_is_an_error(server: Any, tmp_path: Path, checksum: str | None) -> None:
    server.extra, server.ranges = 5, False
    assert "1,000,000 of 1,000,005 bytes" in error_of(remote(server.url("items.gz"), checksum=checksum), tmp_path)


def test_content_length_too_small_is_detected_by_the_checksum(server: Any, tmp_path: Path) -> None:
    server.extra = -5
    assert "the sha256 checksum is" in error_of(remote(server.url("items.gz")), tmp_path)


def test_silent_server_times_out(server: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(downloads, "_TIMEOUT", 0.05)
    server.hangs, server.drops = True, [500_000, 0]
    assert "timed out" in error_of(remote(server.url("items.gz")), tmp_path)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_http_error_names_file_and_folder(server: Any, tmp_path: Path, status: int) -> None:
    server.status = status
    message = error_of(remote(server.url("items.gz")), tmp_path)
    assert message.startswith(f"items.gz could not be downloaded ({server.url('items.gz')}: HTTP status {status}")
    assert f"download the file from {HOMEPAGE} and copy it to {tmp_path / 'set'}." in message
    assert f"Its checksum must be sha256 {SHA256}." in message


def test_refused_connection_names_file_and_folder(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:  # bound but not listening, so that connections are refused
        taken.bind(("127.0.0.1", 0))
        message = error_of(remote(f"http://127.0.0.1:{taken.getsockname()[1]}/items.gz"), tmp_path)
    assert "refused" in message
    assert f"and copy it to {tmp_path / 'set'}" in message


def test_response_that_is_not_http_is_an_error(tmp_path: Path, monkeypatch: Any, server: Any) -> None:
    monkeypatch.setattr(type(server), "finish_request", lambda _, request, __: request.sendall(b"hello\r\n"))
    assert "could not be downloaded" in error_of(remote(server.url("items.gz")), tmp_path)


def test_next_address_is_tried(server: Any, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}/items.gz"
        got = download(remote(dead, server.url("copy/items.gz")), tmp_path, HOMEPAGE)
    assert got.read_bytes() == CONTENT
    assert server.requests == [("/copy/items.gz", None)]


# -- data folder ------------------------------------------------------------------------------------------


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("OAHU_DATA_HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    return monkeypatch


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "/home/ada/.cache/oahu"),
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/oahu"),
        ("linux", {"XDG_CACHE_HOME": "caches"}, "/home/ada/.cache/oahu"),
        ("linux", {"XDG_CACHE_HOME": ""}, "/home/ada/.cache/oahu"),
        ("darwin", {"XDG_CACHE_HOME": "/caches"}, "/home/ada/Library/Caches/oahu"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/oahu"),
        ("win32", {}, "/home/ada/AppData/Local/oahu"),
        ("linux", {"OAHU_DATA_HOME": "/sets", "XDG_CACHE_HOME": "/caches"}, "/sets"),
        ("linux", {"OAHU_DATA_HOME": ""}, "/home/ada/.cache/oahu"),
    ],
)
def test_data_folder(
    clean_environment: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    clean_environment.setattr(sys, "platform", platform)
    for name, value in variables.items():
        clean_environment.setenv(name, value)
    assert data_home() == Path(expected)
