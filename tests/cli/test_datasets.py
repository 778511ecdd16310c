"""Tests of `oahu datasets`: the list and downloads."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import oahu.cli.dataset_listing
import oahu.cli.datasets_command
from oahu.cli import app
from oahu.evaluation.datasets import DATASETS, Dataset, DatasetSource, registry
from oahu.evaluation.datasets.downloads import RemoteFile

runner = CliRunner()
CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sets"
    monkeypatch.setenv("OAHU_DATA_HOME", str(folder))
    monkeypatch.setattr(oahu.cli.datasets_command, "console", Console(width=200))
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Do not log."""


@pytest.fixture
def small(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A data set of one file on a local server."""
    monkeypatch.setenv("no_proxy", "*")
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "items.gz").write_bytes(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "served")) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/items.gz"
        remote = RemoteFile("small/items.gz", (url,), f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")
        entry = DatasetSource(
            name="small",
            title="Small",
            n_items=1,
            n_features=1,
            n_classes=1,
            task="classification",
            licence="MIT",
            homepage="http://example.org/small",
            file_sets=(("small/items.gz",),),
            downloads=(remote,),
            read=lambda home: Dataset("small", np.ones((1, 1)), np.zeros(1, int)),
        )
        monkeypatch.setitem(registry._SOURCES, "small", entry)
        yield "small"
        server.shutdown()
        thread.join()


def run(*arguments: str) -> Any:
    return runner.invoke(app, ["datasets", *arguments], catch_exceptions=False)


def row(output: str, name: str) -> str:
    return next(line for line in output.splitlines() if line.split()[:1] == [name])


def test_all_data_sets_are_listed(home: Path) -> None:
    result = run()
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()[2 : 2 + len(DATASETS)]] == list(DATASETS)
    assert str(home) in row(result.output, "folder")
    assert not home.exists()  # listing makes no folder


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("fashion-mnist", ["70,000 x 784", "10", "classify", "MIT", "download"]),
        ("cars196", ["16,185 x any", "196", "retrieve", "copy"]),
        ("lfw-soft", ["12,949 x 40", "verify", "copy"]),
        ("digits", ["1,797 x 64", "CC BY 4.0", "yes"]),
        ("any", ["-", "your own", "path"]),
    ],
)
def test_row_shows_size_licence_and_availability(home: Path, name: str, facts: list[str]) -> None:
    shown = row(run().output, name)
    assert all(fact in shown for fact in facts)
    assert shown.rstrip().endswith(facts[-1])


def test_files_to_copy_are_named(home: Path) -> None:
    output = " ".join(run().output.split())
    assert "cars196 Copy cars196-features.npz to this folder." in output
    assert "lfw-soft Copy lfw/lfw_facer40.npz to this folder." in output


def test_available_data_set_is_marked(home: Path) -> None:
    home.mkdir()
    np.savez(home / "cars196-features.npz", X=np.ones((1, 1)), y=[0])
    assert row(run().output, "cars196").rstrip().endswith("yes")


def test_json_list(home: Path) -> None:
    listed = json.loads(run("--json").output)
    assert listed["home"] == str(home)
    assert [entry["name"] for entry in listed["datasets"]] == list(DATASETS)
    first = listed["datasets"][0]
    assert (first["n_items"], first["n_features"], first["n_classes"]) == (70_000, 784, 10)
    assert (first["available"], first["downloadable"], len(first["missing_files"])) == (False, True, 4)
    states = {entry["name"]: (entry["available"], entry["downloadable"]) for entry in listed["datasets"]}
    assert states["digits"] == (True, True)
    assert states["cars196"] == (False, False)
    assert states["any"] == (False, False)


def test_get_downloads_a_data_set(home: Path, small: str) -> None:
    result = run("get", small, small, "digits")
    assert result.exit_code == 0, result.stderr
    output = [f"small is in {home}.", "digits is included in oahu. There is nothing to download."]
    assert result.stdout.splitlines() == output
    assert (home / "small" / "items.gz").read_bytes() == CONTENT


def test_progress_bar_on_a_terminal(home: Path, small: str) -> None:
    screen = io.StringIO()
    errors = Console(file=screen, force_terminal=True, width=100)
    oahu.cli.dataset_listing.download_datasets(Console(file=io.StringIO()), errors, [small])
    assert "items.gz" in screen.getvalue()
    assert "MB" in screen.getvalue()


def test_failed_download_names_file_and_folder(home: Path, small: str, tmp_path: Path) -> None:
    (tmp_path / "served" / "items.gz").unlink()
    result = run("get", small)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: items.gz could not be downloaded (http://127.0.0.1")
    assert f"download the file from http://example.org/small and copy it to {home / 'small'}" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_get_explains_files_that_cannot_be_downloaded(home: Path) -> None:
    result = run("get", "cars196")
    assert result.exit_code == 1
    assert f"error: The data set cars196 is not in {home}. It cannot be downloaded" in result.stderr


def test_unknown_name_is_rejected_before_any_download(home: Path, small: str) -> None:
    result = run("get", small, "nosuch")
    assert result.exit_code == 1
    assert "There is no data set 'nosuch'" in result.stderr
    assert not home.exists()


def test_get_needs_a_name(home: Path) -> None:
    assert run("get").exit_code == 2
