"""oahu from a shell: the demo and the description of a model file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import oahu
from oahu.cli import app

runner = CliRunner()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A short demo's folder and output."""
    folder = tmp_path_factory.mktemp("demo")
    result = runner.invoke(app, ["demo", "--out", str(folder), "--triplets", "3000"], catch_exceptions=False)
    assert result.exit_code == 0
    return folder, result.output


def test_demo_shows_progress_weights_and_accuracy(demo: tuple[Path, str]) -> None:
    _, output = demo
    assert "3000/3000 triplets" in output
    assert all(f"E_{level}" in output for level in range(6))
    assert "100% of the triplets moved the model" in output


def test_demo_learns(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    learner = oahu.load(folder / "digits.oahu")
    assert learner.n_seen_ == 3_000
    assert np.ptp(learner.metric_weights_) > 0.05


def test_demo_draws_a_picture_and_says_where_it_is(demo: tuple[Path, str]) -> None:
    folder, output = demo
    assert (folder / "learning.png").read_bytes().startswith(b"\x89PNG")
    unwrapped = output.replace("\n", "")
    assert str(folder / "learning.png") in unwrapped
    assert str(folder / "digits.oahu") in unwrapped


def test_info_describes_a_learner(demo: tuple[Path, str]) -> None:
    result = runner.invoke(app, ["info", str(demo[0] / "digits.oahu")])
    assert result.exit_code == 0
    for expected in ("OAHU", "3,000", "weight of E_5", "learning_rate"):
        assert expected in result.output


def test_info_describes_a_metric(tmp_path: Path) -> None:
    oahu.OAHU(n_layers=1, random_state=0).initialize(3).metric().save(tmp_path / "metric.oahu")
    result = runner.invoke(app, ["info", str(tmp_path / "metric.oahu")])
    assert result.exit_code == 0
    assert "EnsembleMetric" in result.output


@pytest.mark.parametrize("content", [None, b"not a model"])
def test_info_of_no_model_is_an_error_that_names_the_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.oahu"
    if content is not None:
        path.write_bytes(content)
    result = runner.invoke(app, ["info", str(path)])
    assert result.exit_code == 1
    assert "broken.oahu" in result.stderr.replace("\n", "")


def test_version_is_printed() -> None:
    assert runner.invoke(app, ["--version"]).output.strip() == oahu.__version__


@pytest.mark.parametrize("name", ["[/no]", "[bold]a"])
def test_names_that_look_like_markup_are_only_names(tmp_path: Path, name: str) -> None:
    result = runner.invoke(app, ["info", str(tmp_path / name)])
    assert result.exit_code == 1
    assert name in result.stderr.replace("\n", "")
    out = tmp_path / name.replace("/", "")
    done = runner.invoke(app, ["demo", "--out", str(out), "--triplets", "100"], catch_exceptions=False)
    assert str(out) in done.output.replace("\n", "")


def test_demo_without_matplotlib_says_what_to_install_before_it_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "pip install 'oahu[plots]'" in result.stderr
    assert not (tmp_path / "out").exists()
