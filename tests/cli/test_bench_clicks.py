"""Tests of `oahu bench clicks`: options, report and interruption."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import oahu.cli.bench_command
from oahu.cli import app, options
from oahu.evaluation.protocols import PROTOCOLS
from oahu.evaluation.protocols.methods import CLICK_METHODS
from oahu.evaluation.trials import BenchmarkRecord

pytestmark = pytest.mark.slow

runner = CliRunner()
FEW = ("--methods", "LEGO,Cosine,rocchio", "--jobs", "1", "--runs", "2")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAHU_DATA_HOME", str(tmp_path / "sets"))
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    monkeypatch.setattr(oahu.cli.bench_command, "console", Console(width=200))
    monkeypatch.setattr(oahu.cli.bench_command, "error_console", Console(width=200, stderr=True))


def run_bench(out: Path, *words: str) -> BenchmarkRecord:
    """Run a command that must succeed and return its record."""
    result = runner.invoke(app, ["bench", "clicks", *words, "--out", str(out)])
    assert result.exit_code == 0, result.output
    return BenchmarkRecord.load(out / "results.json")


def test_quick_compares_all_default_methods(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "--quick", "--clicks", "20", "--runs", "1")
    assert not record.failures
    assert {outcome.trial.method for outcome in record.results("clicks", "digits")} == set(CLICK_METHODS)
    assert record.reference == "AnchoredOAHU"


def test_options_reach_the_trials(tmp_path: Path) -> None:
    words = ("--clicks", "15", "--user", "cascade", "--noise", "0.1", "--careless", "0.2", "--shown", "6")
    words += (
        "--click-queries",
        "held-out",
        "--interleave",
        "team-draft",
        "--refresh",
        "5",
        "--baseline",
        "euclidean",
    )
    record = run_bench(tmp_path, "--dataset", "tiles:size", "--queries", "50", *words, *FEW)
    names = "n_clicks user noise careless shown click_queries interleave refresh baseline queries"
    expected = [15, "cascade", 0.1, 0.2, 6, "held-out", "team-draft", 5, "euclidean", 50]
    for outcome in record.outcomes:
        assert [outcome.trial.settings[name] for name in names.split()] == expected
        assert outcome.trial.dataset == "tiles:size"
        assert outcome.facts["n_unseen"] == 50
    figures = sorted(path.name for path in (tmp_path / "figures").glob("*.svg"))
    assert [name.rsplit("-", 1)[-1] for name in figures] == [
        "changed.svg",
        "errors.svg",
        "examples.svg",
        "precision.svg",
        "time.svg",
    ]


def test_default_data_sets_are_two_labelings_of_the_tiles(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "--clicks", "10", "--methods", "Cosine", "--runs", "1", "--jobs", "1")
    assert list(record.datasets) == ["tiles:colour", "tiles:shape"]


def test_stored_trials_are_not_measured_again(tmp_path: Path) -> None:
    words = ("--dataset", "tiles:shape", "--clicks", "20", "--queries", "50", *FEW)
    first = run_bench(tmp_path, *words)
    result = runner.invoke(app, ["bench", "clicks", *words, "--out", str(tmp_path)])
    assert result.output.count("(stored)") == len(first.outcomes) == 6
    again = BenchmarkRecord.load(tmp_path / "results.json")
    assert [each.as_json() for each in again.outcomes] == [each.as_json() for each in first.outcomes]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("clicks", "--constraints", "10"), "--constraints does not apply to clicks"),
        (("classification", "--quick", "--clicks", "10"), "--clicks does not apply to classification"),
        (("classification", "--quick", "--user", "all"), "--user does not apply to classification"),
        (("classification", "--quick", "--methods", "Rocchio"), "classification does not apply to Rocchio"),
        (("clicks", "--dataset", "tiles:taste"), "The data set tiles has no labeling 'taste'. Use tiles:shape or"),
    ],
)
def test_wrong_options_are_explained(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = runner.invoke(app, ["bench", *words, "--out", str(tmp_path)])
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (options.UserModel, "user"),
        (options.ClickQueries, "click_queries"),
        (options.Interleaving, "interleave"),
        (options.UnlearnedRanking, "baseline"),
    ],
)
def test_options_have_the_values_of_the_protocol(kind: type[StrEnum], setting: str) -> None:
    assert tuple(each.value for each in kind) == PROTOCOLS["clicks"].choices[setting]
