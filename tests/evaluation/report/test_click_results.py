"""Tests of the tables, figures and sentences about learning from clicks."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu import plots
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.report import click_tables, figures, html_page, overview_tables
from oahu.evaluation.report.example_sheets import click_sheet
from oahu.evaluation.report.experiments import Experiment, experiments
from oahu.evaluation.report.report_table import ReportTable
from oahu.evaluation.report.summary import headlines, summarize
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial

NUMBERS = [10, 100]
# Precision after 10 and 100 clicks, in three runs.
PRECISION = {
    "AnchoredOAHU": ([0.50, 0.52, 0.51], [0.80, 0.82, 0.84]),
    "LEGO": ([0.50, 0.53, 0.52], [0.70, 0.71, 0.72]),
    "Cosine": ([0.50, 0.51, 0.49], [0.50, 0.51, 0.49]),
    "CentredCosine": ([0.48, 0.49, 0.47], [0.48, 0.49, 0.47]),
    "Rocchio": ([0.50, 0.51, 0.49], [0.50, 0.51, 0.49]),
}
SETTINGS = {
    "user": "all", "noise": 0.2, "careless": 0.0, "click_queries": "catalogue", "interleave": "no",
    "baseline": "cosine", "scaling": "unit", "params": {},
}  # fmt: skip


def outcome(method: str, run: int, **changed: Any) -> Outcome:
    first, last = (PRECISION[method][place][run] for place in (0, 1))
    curve: dict[str, Any] = {"clicks": NUMBERS, "precision@10": [first, last], "error_rate": [1 - first, 1 - last]}
    curve |= {"better": [0.1, 0.4], "better_low": [0.05, 0.3], "better_high": [0.2, 0.5]}
    curve |= {"worse": [0.2, 0.1], "worse_low": [0.1, 0.05], "worse_high": [0.3, 0.2]}
    scores = {"precision@10": last, "error_rate": 1 - last, "better": 0.4, "worse": 0.1, "ms_per_click": 2.5}
    if method == "Rocchio":
        scores |= {"second_page": 0.6, "second_page_unlearned": 0.45}
    trial = Trial("clicks", "tiles:colour", method, run, {**SETTINGS, **changed})
    return Outcome(trial, scores, {"clicks": curve}, {"learning": 1.0}, {"n_seen": 5})


def record(**changed: Any) -> BenchmarkRecord:
    outcomes = tuple(outcome(method, run, **changed) for method in PRECISION for run in range(3))
    datasets = {"tiles:colour": {"n_items": 2_000, "n_features": 64, "n_classes": 6}}
    return BenchmarkRecord("oahu bench clicks", "2026-01-02", 1.0, {}, datasets, outcomes, "AnchoredOAHU")


@pytest.fixture
def experiment() -> Experiment:
    (found,) = experiments(record(), "clicks")
    return found


def column(table: ReportTable, name: str) -> dict[str, Any]:
    return {row[0].text: row[table.header.index(name)] for row in table.rows}


def test_columns_are_numbers_of_clicks(experiment: Experiment) -> None:
    assert experiment.sweep == NUMBERS
    table = click_tables.precision_table(experiment)
    for place, name in enumerate(("10", "100")):
        for method, values in PRECISION.items():
            mean, spread = statistics.fmean(values[place]), statistics.stdev(values[place])
            assert column(table, name)[method].text == f"{mean:.3f} ± {spread:.3f}"
    errors = click_tables.click_error_table(experiment)
    assert column(errors, "100")["LEGO"].text == "0.290 ± 0.010"


def test_marks_are_those_of_the_same_number_of_clicks(experiment: Experiment) -> None:
    table = click_tables.precision_table(experiment)
    assert {method: cell.mark for method, cell in column(table, "10").items()}["LEGO"] == ""
    assert {method: cell.mark for method, cell in column(table, "100").items()}["LEGO"] == "•"
    assert column(table, "100")["AnchoredOAHU"].bold


def test_shares_have_the_interval_and_the_baseline(experiment: Experiment) -> None:
    table = click_tables.shares_table(experiment)
    rows = {(row[0].text, row[1].text): [cell.text for cell in row[2:]] for row in table.rows}
    assert rows["LEGO", "better"] == ["10.0 (5.0 to 20.0)", "40.0 (30.0 to 50.0)"]
    assert rows["LEGO", "worse"] == ["20.0 (10.0 to 30.0)", "10.0 (5.0 to 20.0)"]
    assert "the unlearned ranking (cosine)" in table.notes[0]


def test_last_table_has_the_time_and_the_second_page(experiment: Experiment) -> None:
    table = click_tables.last_click_table(experiment)
    assert column(table, "ms per click")["LEGO"].text == "2.50"
    assert any("its next ten items is 0.600 instead of 0.450" in note for note in table.notes)


def test_other_settings_are_other_experiments() -> None:
    both = record().outcomes + record(noise=0.4, interleave="team-draft").outcomes
    found = experiments(BenchmarkRecord("", "", 1.0, {}, {}, both), "clicks")
    assert [each.title for each in found] == [
        "tiles:colour · untuned · user: all · noise: 0.2",
        "tiles:colour · untuned · user: all · noise: 0.4 · interleave: team-draft",
    ]
    assert len({each.slug for each in found}) == 2


def test_overview_has_the_precision_and_the_centred_cosine() -> None:
    table = overview_tables.overview_table(record())
    shown = dict(zip(table.header, (cell.text for cell in table.rows[0]), strict=True))
    expected = {"Score": "P@10", "AnchoredOAHU": "0.820", "Cosine": "0.500", "CentredCosine": "0.480"}
    expected |= {"Best other": "LEGO", "Its score": "0.710", "Win/tie/loss": "4/0/0"}
    assert shown.items() >= expected.items()


def test_methods_that_learn_nothing_are_counted_separately() -> None:
    sentences = headlines(record())
    assert "Against other learners, AnchoredOAHU is significantly better in 1 of 1 comparisons" in sentences[0]
    assert "Against unlearned metrics, AnchoredOAHU is significantly better in 3 of 3" in sentences[1]


def test_sentences_name_the_changed_queries(experiment: Experiment) -> None:
    text = summarize(experiment)
    assert text.startswith("AnchoredOAHU reaches a precision@10 of 0.820, the best of all methods.")
    assert text.endswith(
        "After 100 clicks, it ranks 40.0% of the unseen queries better than the unlearned ranking, and 10.0% worse."
    )


# -- figures -----------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(experiment: Experiment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    monkeypatch.setattr(plots, "save", lambda figure, stem: found.update({stem.name.rsplit("-", 1)[-1]: figure}))
    figures.draw_experiment(experiment, tmp_path)
    return found


def test_figures_of_clicks(drawn: dict[str, Any]) -> None:
    assert set(drawn) == {"precision", "errors", "changed", "time"}


@pytest.mark.parametrize(("name", "turn"), [("precision", lambda x: x), ("errors", lambda x: 1 - x)])
def test_lines_are_means_and_bands_standard_deviations(drawn: dict[str, Any], name: str, turn: Any) -> None:
    ax = drawn[name].axes[0]
    assert ax.get_xscale() == "log"
    lines = [line.get_ydata() for line in ax.lines if list(line.get_xdata()) == NUMBERS]
    for method, values in PRECISION.items():
        means = [turn(statistics.fmean(each)) for each in values]
        assert any(np.allclose(line, means) for line in lines), method
    bands = [
        (path.vertices[:, 1].min(), path.vertices[:, 1].max())
        for each in ax.collections
        for path in each.get_paths()
    ]
    expected = []
    for method in ("AnchoredOAHU", "LEGO"):
        ends = [turn(statistics.fmean(v)) + s * statistics.stdev(v) for v in PRECISION[method] for s in (-1, 1)]
        expected.append((min(ends), max(ends)))
    assert np.allclose(sorted(bands), sorted(expected))


def test_bars_show_better_and_worse_queries(drawn: dict[str, Any]) -> None:
    ax = drawn["changed"].axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["AnchoredOAHU", "LEGO"]
    assert sorted(bar.get_width() for bar in ax.patches) == pytest.approx([-10, -10, 40, 40])
    intervals = {
        tuple(np.round(sorted(segment[:, 0]), 6)) for each in ax.collections for segment in each.get_segments()
    }
    assert intervals == {(30, 50), (-20, -5)}


@pytest.mark.parametrize("has_images", [True, False])
def test_sheet_has_two_rows_per_query(has_images: bool) -> None:
    images = np.random.default_rng(0).integers(256, size=(9, 2, 2, 3)).astype(np.uint8)
    data = Dataset("nine", np.ones((9, 1)), np.arange(9) % 2, images=images if has_images else None)
    examples = {
        "unlearned": [{"query": 0, "found": [1, 2, 3]}, {"query": 4, "found": [5, 6, 7]}],
        "learned": [{"query": 0, "found": [2, 6, 8]}, {"query": 4, "found": [0, 2, 8]}],
    }
    sheet = click_sheet(examples, data)
    assert (sheet is not None) == has_images
    if sheet is not None:
        shown = [np.asarray(image.get_array()) for ax in sheet.axes for image in ax.images]
        rows = [0, 1, 2, 3, 0, 2, 6, 8, 4, 5, 6, 7, 4, 0, 2, 8]
        assert np.allclose(shown, images[rows] / 255)


def test_report_has_all_tables(tmp_path: Path) -> None:
    text = html_page.write(record(), tmp_path).read_text(encoding="utf-8")
    for title in ("Learning from clicks", "Precision@10 by number of clicks", "Error by number of clicks",
                  "Queries made better and worse", "After the last click"):  # fmt: skip
        assert title in text
