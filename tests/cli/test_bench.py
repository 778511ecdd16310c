"""`oahu bench` measures, writes a report, goes on where it stopped, and says what failed."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

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
from oahu.cli.options import Protocol
from oahu.evaluation.trials import BenchmarkRecord

runner = CliRunner()
FEW = ("--methods", "OAHU,LEGO,Euclidean", "--jobs", "1")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAHU_DATA_HOME", str(tmp_path / "sets"))
    monkeypatch.setattr(oahu.cli.bench_command, "console", Console(width=200))
    monkeypatch.setattr(oahu.cli.bench_command, "error_console", Console(width=200, stderr=True))


def benched(out: Path, *words: str) -> BenchmarkRecord:
    """What a command that succeeds leaves."""
    result = runner.invoke(app, ["bench", *words, "--out", str(out)])
    assert result.exit_code == 0, result.output
    return BenchmarkRecord.load(out / "results.json")


def scores(record: BenchmarkRecord) -> dict[str, dict[str, float]]:
    return {outcome.trial.id: outcome.as_json()["scores"] for outcome in record.outcomes}


def test_every_method_in_quick(tmp_path: Path) -> None:
    record = benched(tmp_path, "classification", "--quick")
    assert not record.failures
    rows = {outcome.trial.method for outcome in record.results("classification")}
    assert rows == {"OAHU", "LEGO", "RDML", "OASIS", "OPML", "POLA", "SOML", "SORS", "Euclidean", "Cosine"}


def test_every_protocol_in_quick(tmp_path: Path) -> None:
    """And all that is written."""
    record = benched(tmp_path / "out", "paper", "--quick", "--runs", "1", "--constraints", "100", *FEW)
    assert not record.failures
    protocols = {outcome.trial.protocol for outcome in record.outcomes}
    assert protocols == {"classification", "constraints", "verification", "retrieval", "sensitivity", "regret"}
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written >= {"results.json", "report.html", "tables.md", "tables.tex", "figures", "trials"}
    drawn = {path.suffix for path in (tmp_path / "out" / "figures").iterdir()}
    assert drawn == {".png", ".svg"}


def test_tuning_reports_what_it_chose(tmp_path: Path) -> None:
    record = benched(tmp_path, "classification", "--quick", "--tune", *FEW)
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
    assert "Chosen for classification on digits" in again.output


def test_one_scaling_to_choose_from_is_the_one_that_is_chosen(tmp_path: Path) -> None:
    record = benched(tmp_path, "classification", "--quick", "--tune", "--scaling", "unit", *FEW)
    assert {outcome.trial.settings["scaling"] for outcome in record.outcomes} == {"unit"}


def test_options_reach_the_cells(tmp_path: Path) -> None:
    words = ("--constraints", "300", "--scaling", "centred", "--pca", "20", "--k", "3", "--queries", "50")
    record = benched(
        tmp_path, "classification", "--quick", "--runs", "1", "--seed", "7", *words, *FEW, "--set", "OAHU.tau=0.3"
    )
    for outcome in record.outcomes:
        settings = outcome.trial.settings
        names = ("n_constraints", "n_seeds", "scaling", "pca", "k", "queries", "seed")
        assert [settings[name] for name in names] == [300, 150, "centred", 20, 3, 50, 7]
        assert outcome.scores["error_rate"] * 50 == pytest.approx(round(outcome.scores["error_rate"] * 50))
    ours = next(outcome for outcome in record.outcomes if outcome.trial.method == "OAHU")
    assert ours.trial.settings["learner"]["tau"] == 0.3


def test_a_parameter_that_was_set_is_another_cell(tmp_path: Path) -> None:
    words = ("classification", "--quick", "--runs", "1", "--methods", "OAHU", "--jobs", "1")
    before = scores(benched(tmp_path, *words))
    after = scores(benched(tmp_path, *words, "--set", "OAHU.learning_rate=1e-9"))
    assert not before.keys() & after.keys()
    assert list(before.values()) != list(after.values())


def test_own_data_own_learner_and_a_model_file(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "mine.npz", X=X[:300], y=y[:300])
    oahu.EuclideanMetric(64).save(tmp_path / "plain.oahu")
    methods = f"Euclidean,{tmp_path / 'plain.oahu'},oahu:AdaSORS"
    words = ("--dataset", str(tmp_path / "mine.npz"), "--methods", methods, "--constraints", "200", "--jobs", "1")
    record = benched(tmp_path / "out", "classification", *words, "--runs", "2", "--scaling", "none")
    errors: dict[str, list[float]] = {}
    for outcome in record.outcomes:
        errors.setdefault(outcome.trial.method, []).append(outcome.scores["error_rate"])
    assert errors["plain"] == errors["Euclidean"]
    assert len(errors["AdaSORS"]) == 2
    np.savez(tmp_path / "bare.npz", X=X[:300])
    np.save(tmp_path / "labels.npy", y[:300])
    words = ("--dataset", str(tmp_path / "bare.npz"), "--labels", str(tmp_path / "labels.npy"), "--jobs", "1")
    again = benched(
        tmp_path / "other", "classification", *words, "--methods", "Euclidean", "--runs", "2", "--scaling", "none"
    )
    assert len(again.outcomes) == 2


@pytest.mark.parametrize("whom", ["the command", "its group"])
def test_interrupted_and_continued_is_the_same(tmp_path: Path, whom: str) -> None:
    """SIGINT in the middle; the same command goes on, and ends as one that was never stopped.

    Ctrl-C in a terminal reaches the whole group of processes.
    """
    words = ["bench", "classification", "--quick", "--runs", "40", "--methods", "OAHU,POLA,Euclidean"]
    whole = benched(tmp_path / "whole", *words[1:])
    command = [sys.executable, "-m", "oahu", *words, "--jobs", "2", "--out", str(tmp_path / "cut")]
    pipe = subprocess.PIPE
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also if whoever runs the tests does not
    with subprocess.Popen(
        command, stderr=pipe, stdout=pipe, text=True, start_new_session=True, preexec_fn=listening
    ) as process:
        trials = tmp_path / "cut" / "trials"
        while process.poll() is None and (not trials.is_dir() or len(list(trials.glob("*.json"))) < 2):
            time.sleep(0.01)
        (os.kill if whom == "the command" else os.killpg)(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    kept = {path.name: path.stat().st_mtime_ns for path in trials.glob("*.json")}
    assert 2 <= len(kept) < 120
    assert process.returncode == 1
    assert "Stopped" in said
    assert "Traceback" not in said
    continued = benched(tmp_path / "cut", *words[1:])
    assert scores(continued) == scores(whole)
    assert {name: (trials / name).stat().st_mtime_ns for name in kept} == kept


def test_a_failing_method_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
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
    ("words", "said"),
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
        (("--quick", "--people", "disjoint"), "--people means nothing to classification"),
        (("--quick", "--folds", "3"), "--folds and --tune-items are for --tune"),
        (("--quick", "--seeds", "2000"), "n_seeds"),
        (("--quick", "--pca", "65"), "pca must be from 1 to 64"),
        (("--dataset", "nowhere.npz"), "There is no file nowhere.npz"),
        (("--dataset", __file__, "--labels", "nowhere.npy"), "There is no file nowhere.npy"),
    ],
)
def test_what_cannot_be_measured_is_said_and_nothing_is_written(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    result = runner.invoke(app, ["bench", "classification", *words, "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert said in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_data_sets_that_are_not_here_are_left_out_of_the_paper(tmp_path: Path) -> None:
    result = runner.invoke(app, ["bench", "paper", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "fashion-mnist is not here and is left out" in result.output
    assert "None of the data sets is here" in result.output


def test_a_terminal_sees_a_live_table_with_the_time_left(tmp_path: Path) -> None:
    order = BenchOptions(
        protocol=Protocol.classification, methods="OAHU, Euclidean", quick=True, jobs=1, out=tmp_path / "out"
    )
    screen = io.StringIO()
    assert run(Console(file=io.StringIO()), Console(force_terminal=True, width=120, file=screen), order)
    seen = screen.getvalue()
    for word in ("classification on digits", "OAHU", "error_rate", "seconds a trial", "trials,", "left"):
        assert word in seen
    assert "4 of 4 trials" in seen


def test_what_is_found_done_is_told_and_the_report_of_another_command_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bench", "classification", "--quick", "--runs", "1", "--methods", "Euclidean,Cosine", "--jobs", "1"]
    words += ["--out", str(tmp_path)]
    for extra, told in (([], ""), ([], "Cosine 0 (found done)"), (["--pca", "8"], "holds the report of")):
        monkeypatch.setattr("sys.argv", ["oahu", *words, *extra])
        result = runner.invoke(app, [*words, *extra])
        assert result.exit_code == 0
        assert told in result.output
        assert bool(told) == ("found done" in result.output or "is replaced" in result.output)
    kept = tmp_path / "figures" / "mine.png"
    kept.write_bytes(b"")
    before = {path.name for path in (tmp_path / "figures").iterdir()}
    assert "classification-digits-untuned-errors.png" in before
    retrieved = runner.invoke(app, ["bench", "retrieval", *words[2:]])
    assert retrieved.exit_code == 0
    after = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {name.partition("-")[0] for name in after} == {"retrieval", "mine.png"}


def test_results_go_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    words = ["bench", "classification", "--quick", "--methods", "Euclidean", "--out", str(tmp_path / "taken")]
    result = runner.invoke(app, words)
    assert result.exit_code == 1
    assert "cannot be one" in " ".join(result.output.split())
    assert (tmp_path / "taken").read_text() == "mine"


def test_folds_and_items_of_tuning_are_taken_in_quick_too(tmp_path: Path) -> None:
    words = ("--tune", "--folds", "3", "--tune-items", "150", "--scaling", "unit,range", "--methods", "Euclidean")
    record = benched(tmp_path, "classification", "--quick", *words)
    tuning = [outcome.trial.settings for outcome in record.outcomes if outcome.trial.stage == "tuning"]
    assert {(settings["folds"], settings["tune_items"]) for settings in tuning} == {(3, 150)}
