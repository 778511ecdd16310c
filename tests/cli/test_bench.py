"""Tests of `oahu bench`: options, report, interruption, failures and warnings."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import oahu
import oahu.cli.bench_command
from oahu.cli import app
from oahu.cli.bench import run
from oahu.cli.bench_command import BenchOptions
from oahu.cli.bench_progress import ProgressTable
from oahu.cli.options import ProtocolName
from oahu.evaluation.protocols import DEFAULT_METHODS
from oahu.evaluation.trials import BenchmarkRecord

pytestmark = pytest.mark.slow

runner = CliRunner()
FEW = ("--methods", "OAHU,LEGO,Euclidean", "--jobs", "1")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAHU_DATA_HOME", str(tmp_path / "sets"))
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)  # the default number of jobs: no worker processes
    monkeypatch.setattr(oahu.cli.bench_command, "console", Console(width=200))
    monkeypatch.setattr(oahu.cli.bench_command, "error_console", Console(width=200, stderr=True))


def run_bench(out: Path, *words: str) -> BenchmarkRecord:
    """Run a command that must succeed and return its record."""
    result = runner.invoke(app, ["bench", *words, "--out", str(out)])
    assert result.exit_code == 0, result.output
    return BenchmarkRecord.load(out / "results.json")


def scores(record: BenchmarkRecord) -> dict[str, dict[str, float]]:
    return {outcome.trial.id: outcome.as_json()["scores"] for outcome in record.outcomes}


def test_quick_compares_all_default_methods(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "classification", "--quick")
    assert not record.failures
    rows = {outcome.trial.method for outcome in record.results("classification")}
    assert rows == set(DEFAULT_METHODS)
    assert record.outcomes[0].trial.method == record.reference == "AnchoredOAHU"


def test_quick_paper_runs_all_protocols(tmp_path: Path) -> None:
    """It also writes all files."""
    record = run_bench(tmp_path / "out", "paper", "--quick", "--runs", "1", "--constraints", "100", *FEW)
    assert not record.failures
    protocols = {outcome.trial.protocol for outcome in record.outcomes}
    assert protocols == {"classification", "constraints", "verification", "retrieval", "sensitivity", "regret"}
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written >= {"results.json", "report.html", "tables.md", "tables.tex", "figures", "trials"}
    drawn = {path.suffix for path in (tmp_path / "out" / "figures").iterdir()}
    assert drawn == {".png", ".svg"}


def test_tuning_prints_its_choices(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "classification", "--quick", "--tune", *FEW)
    assert {outcome.trial.stage for outcome in record.outcomes} == {"tuning", "result"}
    for outcome in record.results("classification"):
        assert outcome.trial.settings["tuned"]
        assert outcome.trial.settings["scaling"] in ("range", "standard", "unit", "centred")
    chosen = {
        outcome.trial.method: outcome.trial.settings["params"] for outcome in record.results("classification")
    }
    assert set(chosen["OAHU"]) == {"tau"}
    assert set(chosen["LEGO"]) == {"learning_rate"}
    again = runner.invoke(app, ["bench", "classification", "--quick", "--tune", *FEW, "--out", str(tmp_path)])
    assert "chosen by tuning for classification on digits" in again.output


def test_scaling_limits_the_choices_of_tuning(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "classification", "--quick", "--tune", "--scaling", "unit", *FEW)
    assert {outcome.trial.settings["scaling"] for outcome in record.outcomes} == {"unit"}


def test_options_reach_the_trials(tmp_path: Path) -> None:
    words = ("--constraints", "300", "--scaling", "centred", "--pca", "20", "--k", "3", "--queries", "50")
    record = run_bench(
        tmp_path, "classification", "--quick", "--runs", "1", "--seed", "7", *words, *FEW, "--set", "OAHU.tau=0.3"
    )
    for outcome in record.outcomes:
        settings = outcome.trial.settings
        names = ("n_constraints", "n_seeds", "scaling", "pca", "k", "queries", "seed")
        assert [settings[name] for name in names] == [300, 150, "centred", 20, 3, 50, 7]
        assert outcome.scores["error_rate"] * 50 == pytest.approx(round(outcome.scores["error_rate"] * 50))
    ours = next(outcome for outcome in record.outcomes if outcome.trial.method == "OAHU")
    assert ours.trial.settings["learner"]["tau"] == 0.3


def test_parameter_changes_the_trial(tmp_path: Path) -> None:
    words = ("classification", "--quick", "--runs", "1", "--methods", "OAHU", "--jobs", "1")
    before = scores(run_bench(tmp_path, *words))
    after = scores(run_bench(tmp_path, *words, "--set", "OAHU.learning_rate=1e-9"))
    assert not before.keys() & after.keys()
    assert list(before.values()) != list(after.values())


def test_own_data_own_learner_and_model_file(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "mine.npz", X=X[:300], y=y[:300])
    oahu.EuclideanMetric(64).save(tmp_path / "plain.oahu")
    methods = f"Euclidean,{tmp_path / 'plain.oahu'},oahu:AdaSORS"
    words = ("--dataset", str(tmp_path / "mine.npz"), "--methods", methods, "--constraints", "200", "--jobs", "1")
    record = run_bench(tmp_path / "out", "classification", *words, "--runs", "2", "--scaling", "none")
    errors: dict[str, list[float]] = {}
    for outcome in record.outcomes:
        errors.setdefault(outcome.trial.method, []).append(outcome.scores["error_rate"])
    assert errors["plain"] == errors["Euclidean"]
    assert len(errors["AdaSORS"]) == 2
    np.savez(tmp_path / "bare.npz", X=X[:300])
    np.save(tmp_path / "labels.npy", y[:300])
    words = ("--dataset", str(tmp_path / "bare.npz"), "--labels", str(tmp_path / "labels.npy"), "--jobs", "1")
    again = run_bench(
        tmp_path / "other", "classification", *words, "--methods", "Euclidean", "--runs", "2", "--scaling", "none"
    )
    assert len(again.outcomes) == 2


SHORT = ("classification", "--quick", "--runs", "2", "--constraints", "100", "--methods", "OASIS,Euclidean")
INTERRUPTING_SCRIPT = """
import os, signal
from oahu.cli import app
from oahu.cli.bench_progress import ProgressTable

signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the test runner ignores SIGINT
on_outcome = ProgressTable.on_outcome

def interrupt_after_the_second(self, outcome, stored):
    on_outcome(self, outcome, stored)
    if self.n_measured == 2:
        os.killpg(0, signal.SIGINT)  # like Ctrl-C in a terminal

ProgressTable.on_outcome = interrupt_after_the_second
app()
"""


def trial_times(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "trials").glob("*.json")}


def check_continuation(tmp_path: Path, kept: dict[str, int]) -> None:
    """Check that the same command measures only the other trials and gives the scores of an uninterrupted run."""
    whole = run_bench(tmp_path / "whole", *SHORT, "--jobs", "1")
    assert scores(run_bench(tmp_path / "cut", *SHORT, "--jobs", "1")) == scores(whole)
    assert kept.items() <= trial_times(tmp_path / "cut").items()


def test_interrupted_benchmark_continues_with_equal_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_outcome = ProgressTable.on_outcome

    def interrupt_after_the_second(self: ProgressTable, outcome: Any, stored: bool) -> None:
        on_outcome(self, outcome, stored)
        if self.n_measured == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressTable, "on_outcome", interrupt_after_the_second)
        result = runner.invoke(app, ["bench", *SHORT, "--jobs", "1", "--out", str(tmp_path / "cut")])
    assert result.exit_code == 1
    assert "Interrupted. 2 trials are stored in" in result.output
    kept = trial_times(tmp_path / "cut")
    assert len(kept) == 2
    check_continuation(tmp_path, kept)


@pytest.mark.server
def test_interrupt_signal_reaches_workers_without_a_traceback(tmp_path: Path) -> None:
    """The signal reaches the whole process group; only the main process handles it."""
    command = [sys.executable, "-c", INTERRUPTING_SCRIPT, "bench", *SHORT, "--jobs", "2"]
    command += ["--out", str(tmp_path / "cut")]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=False)
    assert done.returncode == 1
    assert "Interrupted. 2 trials are stored in" in done.stderr
    assert "Traceback" not in done.stderr
    kept = trial_times(tmp_path / "cut")
    assert len(kept) >= 2  # the workers finish the trials that they have begun
    check_continuation(tmp_path, kept)


def test_failing_method_is_reported(tmp_path: Path) -> None:
    oahu.EuclideanMetric(7).save(tmp_path / "narrow.oahu")  # digits have 64 features
    methods = f"Euclidean,{tmp_path / 'narrow.oahu'}"
    words = ["bench", "classification", "--quick", "--methods", methods, "--jobs", "1", "--out", str(tmp_path)]
    result = runner.invoke(app, words)
    assert result.exit_code == 1
    assert "failed: narrow on digits, run 0" in result.output
    record = BenchmarkRecord.load(tmp_path / "results.json")
    assert {outcome.trial.method for outcome in record.failures} == {"narrow"}
    assert len(list(record.results("classification"))) == 2
    assert "narrow" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dataset", "nothing"), "There is no data set 'nothing'"),
        (("--dataset", "fashion-mnist"), "oahu datasets get fashion-mnist"),
        (("--quick", "--methods", "OAHU,OAHU"), "Two methods are named 'OAHU'"),
        (("--quick", "--methods", "Siamese"), "There is no method 'Siamese'"),
        (("--quick", "--methods", "nowhere:Learner"), "cannot be imported"),
        (("--quick", "--scaling", "tiny"), "The setting 'scaling' must be one of"),
        (("--quick", "--tune", "--scaling", "unit,tiny"), "The setting 'scaling' must be one of"),
        (("--quick", "--set", "LEGO.nothing=1", "--methods", "LEGO"), "nothing"),
        (("--quick", "--set", "OAHU.tau=0.1", "--methods", "LEGO"), "METHOD.NAME=VALUE"),
        (("--quick", "--set", "LEGO.learning_rate", "--methods", "LEGO"), "NAME=VALUE"),
        (("--quick", "--methods", ""), "There is no method ''"),
        (("--quick", "--people", "disjoint"), "--people does not apply to classification"),
        (("--quick", "--folds", "3"), "--folds and --tune-items can only be used with --tune"),
        (("--quick", "--seeds", "2000"), "n_seeds"),
        (("--quick", "--pca", "65"), "'pca' must be from 1 to 64"),
        (("--dataset", "nowhere.npz"), "There is no file nowhere.npz"),
        (("--dataset", __file__, "--labels", "nowhere.npy"), "There is no file nowhere.npy"),
    ],
)
def test_invalid_options_are_rejected_and_nothing_is_written(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    result = runner.invoke(app, ["bench", "classification", *words, "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_missing_data_sets_of_the_paper_are_skipped(tmp_path: Path) -> None:
    result = runner.invoke(app, ["bench", "paper", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "Skipping fashion-mnist, because it is not available" in result.output
    assert "None of the data sets is available" in result.output


def test_live_table_on_a_terminal(tmp_path: Path) -> None:
    order = BenchOptions(
        protocol=ProtocolName.classification, methods="OAHU, Euclidean", quick=True, jobs=1, out=tmp_path / "out"
    )
    screen = io.StringIO()
    assert run(Console(file=io.StringIO()), Console(force_terminal=True, width=120, file=screen), order)
    seen = screen.getvalue()
    for word in ("classification on digits", "OAHU", "error_rate", "seconds per trial", "trials,", "left"):
        assert word in seen
    assert "4 of 4 trials" in seen


def test_stored_trials_and_a_replaced_report_are_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["bench", "classification", "--quick", "--runs", "1", "--methods", "Euclidean,Cosine", "--jobs", "1"]
    words += ["--out", str(tmp_path)]
    for extra, message in (([], ""), ([], "Cosine 0 (stored)"), (["--pca", "8"], "Replacing the report of")):
        monkeypatch.setattr("sys.argv", ["oahu", *words, *extra])
        result = runner.invoke(app, [*words, *extra])
        assert result.exit_code == 0
        assert message in result.output
        assert bool(message) == ("(stored)" in result.output or "Replacing the report" in result.output)
    kept = tmp_path / "figures" / "mine.png"
    kept.write_bytes(b"")
    before = {path.name for path in (tmp_path / "figures").iterdir()}
    assert "classification-digits-untuned-errors.png" in before
    retrieved = runner.invoke(app, ["bench", "retrieval", *words[2:]])
    assert retrieved.exit_code == 0
    after = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {name.partition("-")[0] for name in after} == {"retrieval", "mine.png"}


def test_output_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    words = ["bench", "classification", "--quick", "--methods", "Euclidean", "--out", str(tmp_path / "taken")]
    result = runner.invoke(app, words)
    assert result.exit_code == 1
    assert "Cannot create the folder" in " ".join(result.output.split())
    assert (tmp_path / "taken").read_text() == "mine"


def test_quick_accepts_folds_and_tune_items(tmp_path: Path) -> None:
    words = ("--tune", "--folds", "3", "--tune-items", "150", "--scaling", "unit,range", "--methods", "Euclidean")
    record = run_bench(tmp_path, "classification", "--quick", *words)
    tuning = [outcome.trial.settings for outcome in record.outcomes if outcome.trial.stage == "tuning"]
    assert {(settings["folds"], settings["tune_items"]) for settings in tuning} == {(3, 150)}


# -- scaling and reference -------------------------------------------------------------------------------


@pytest.fixture
def raw_digits(tmp_path: Path) -> str:
    """Return the path of a user's file: digits with values from 0 to 16."""
    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "raw.npz", X=X[:300], y=y[:300])
    return str(tmp_path / "raw.npz")


def bench_output(out: Path, *words: str) -> str:
    result = runner.invoke(app, ["bench", "classification", *words, "--jobs", "1", "--out", str(out)])
    return " ".join(result.output.split())


def test_own_file_is_used_as_given_and_scaling_is_printed(raw_digits: str, tmp_path: Path) -> None:
    words = ("--dataset", raw_digits, "--methods", "Euclidean", "--runs", "1")
    assert "Inputs of raw: features are used as given (none)." in bench_output(tmp_path / "a", *words)
    record = BenchmarkRecord.load(tmp_path / "a" / "results.json")
    assert record.outcomes[0].trial.settings["scaling"] == "none"
    output = bench_output(tmp_path / "b", *words, "--scaling", "unit")
    assert "Inputs of raw: each item is scaled to length 1 (unit)." in output


def test_learners_that_need_another_scale_are_named(raw_digits: str, tmp_path: Path) -> None:
    words = ("--dataset", raw_digits, "--constraints", "50", "--runs", "1", "--methods", "RDML,oahu:OPML")
    output = bench_output(tmp_path / "a", *words)
    assert "warning: RDML: thresholds and step sizes are designed for distances near 1" in output
    assert "warning: OPML: gamma ||x - n||^2 must be below 1" in output
    assert "rejects such triplets, and its runs fail. Use --scaling unit" in output
    assert "Warning: RDML" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    output = bench_output(tmp_path / "b", *words, "--scaling", "unit")
    assert "warning" not in output
    assert "failed" not in output


def test_reference_is_tested_against_the_others(raw_digits: str, tmp_path: Path) -> None:
    words = ("--dataset", raw_digits, "--runs", "2", "--methods", "Euclidean,Cosine", "--reference", "cosine")
    assert "Reference: Cosine." in bench_output(tmp_path, *words)
    assert "| Cosine against | raw | Win/tie/loss |" in (tmp_path / "tables.md").read_text(encoding="utf-8")


def test_learner_of_a_third_party_is_measured(
    raw_digits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "third_party_learner.py").write_text(
        "import numpy as np\n"
        "import oahu\n"
        "class Scale(oahu.TripletLearner):\n"
        "    def initial_arrays(self, n_features, dtype, rng):\n"
        "        return {'scale': np.ones(n_features, dtype)}\n"
        "    def learn_triplets(self, arrays, triplets, used):\n"
        "        used[:] = True\n"
        "    def build_metric(self, arrays, version):\n"
        "        return oahu.MahalanobisMetric(np.diag(arrays['scale']), version)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = ("--dataset", raw_digits, "--runs", "1", "--methods", "third_party_learner:Scale,Euclidean")
    record = run_bench(tmp_path / "out", "classification", *words, "--constraints", "50", "--jobs", "1")
    errors = {outcome.trial.method: outcome.scores["error_rate"] for outcome in record.outcomes}
    assert errors["Scale"] == errors["Euclidean"]
    assert record.reference == "Euclidean"
