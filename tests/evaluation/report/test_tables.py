"""Tests of the tables: every method, its numbers, marks and notes."""

from __future__ import annotations

import statistics
from dataclasses import replace
from math import nan
from typing import Any

import pytest
from scipy import stats

from oahu.evaluation.protocols import DEFAULT_METHODS
from oahu.evaluation.report import overview_tables, protocol_tables
from oahu.evaluation.report.experiments import Experiment, experiments
from oahu.evaluation.report.report_table import ReportTable, TableCell, format_number
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial

DASH = format_number(nan)
ERRORS = {
    "OAHU": [0.18, 0.19, 0.17],
    "LEGO": [0.35, 0.36, 0.34],
    "Euclidean": [0.15, 0.16, 0.14],
    "mine": [0.18, 0.16, 0.21],
}


def outcome(method: str, run: int, protocol: str = "classification", **more: Any) -> Outcome:
    dataset, error, stage = (
        more.pop("dataset", "fashion-mnist"),
        more.pop("error", None),
        more.pop("stage", "result"),
    )
    scores, seconds, facts = more.pop("scores", {}), more.pop("seconds", {}), more.pop("facts", {})
    trial = Trial(protocol, dataset, method, run, more, stage)
    return Outcome(trial, scores, seconds=seconds, facts=facts, error=error)


def record(*outcomes: Outcome) -> BenchmarkRecord:
    datasets = {"fashion-mnist": {"n_items": 70_000, "n_features": 784, "n_classes": 10}}
    return BenchmarkRecord("oahu benchmark", "2026-01-02", 1.0, {}, datasets, outcomes, "OAHU")


def classified(errors: dict[str, list[float]], **more: Any) -> list[Outcome]:
    return [
        outcome(method, run, scores={"error_rate": e, "macro_f1": 1 - e, "utilization": nan}, **more)
        for method, values in errors.items()
        for run, e in enumerate(values)
    ]


def only(*outcomes: Outcome, protocol: str = "classification") -> Experiment:
    (experiment,) = experiments(record(*outcomes), protocol)
    return experiment


def column(table: ReportTable, name: str) -> dict[str, TableCell]:
    where = table.header.index(name)
    return {row[0].text: row[where] for row in table.rows}


# -- classification --------------------------------------------------------------------------------------


def test_classification_has_mean_and_std_of_every_method() -> None:
    table = protocol_tables.classification_table(only(*classified(ERRORS)))
    errors, f1s = column(table, "Error"), column(table, "F1")
    for method, values in ERRORS.items():
        spread = statistics.stdev(values)
        assert errors[method].text == f"{statistics.fmean(values):.3f} ± {spread:.3f}"
        assert f1s[method].text == f"{1 - statistics.fmean(values):.3f} ± {spread:.3f}"


def test_marks_and_p_values_come_from_the_t_test() -> None:
    table = protocol_tables.classification_table(only(*classified(ERRORS)))
    assert {method: entry.mark for method, entry in column(table, "Error").items() if entry.text != "not run"} == {
        "OAHU": "",
        "LEGO": "•",
        "Euclidean": "∘",
        "mine": "",
    }
    p = stats.ttest_ind(ERRORS["OAHU"], ERRORS["mine"]).pvalue
    assert column(table, "p")["mine"].text == f"{p:.3f}"


def test_paired_test_is_noted() -> None:
    table = protocol_tables.classification_table(only(*classified(ERRORS)), paired=True)
    p = stats.ttest_rel(ERRORS["OAHU"], ERRORS["mine"]).pvalue
    assert column(table, "p")["mine"].text == f"{p:.3f}"
    assert any("paired" in note for note in table.notes)


def test_best_is_bold() -> None:
    errors = column(protocol_tables.classification_table(only(*classified(ERRORS))), "Error")
    assert [method for method, entry in errors.items() if entry.bold] == ["Euclidean"]


def test_classification_shows_the_numbers_of_the_paper() -> None:
    table = protocol_tables.classification_table(only(*classified(ERRORS)))
    assert column(table, "Paper: error")["LEGO"].text == "0.35 ± 0.01"
    assert column(table, "Paper: U")["OAHU"].text == "1.00 ± 0.00"
    assert column(table, "Paper: F1")["mine"].text == DASH


def test_other_data_sets_have_no_columns_for_the_paper() -> None:
    table = protocol_tables.classification_table(only(*classified(ERRORS, dataset="own")))
    assert not any("Paper" in name for name in table.header)


def test_methods_of_the_paper_that_were_not_run_are_listed() -> None:
    table = protocol_tables.classification_table(only(*classified(ERRORS)))
    assert [row[0].text for row in table.rows] == ["OAHU", "LEGO", "RDML", "OASIS", "OPML", "Euclidean", "mine"]
    assert column(table, "Error")["RDML"].text == "not run"
    assert column(table, "Paper: error")["RDML"].text == "0.22 ± 0.01"
    assert "Not run here: RDML, OASIS, OPML." in table.notes


def test_failure_is_noted() -> None:
    failed = [outcome("SOML", run, error="Traceback ...\nOverflowError: too far") for run in (0, 2)]
    table = protocol_tables.classification_table(only(*classified(ERRORS), *failed))
    assert column(table, "Error")["SOML"].text == "failed"
    assert "SOML failed in run 0, 2: OverflowError: too far" in table.notes


def test_other_runs_of_a_failed_method_count() -> None:
    table = protocol_tables.classification_table(only(*classified(ERRORS), outcome("LEGO", 3, error="no")))
    assert column(table, "Error")["LEGO"].text == "0.350 ± 0.010"
    assert "LEGO failed in run 3: no" in table.notes


def test_unlearned_metrics_have_no_utilization() -> None:
    assert {
        entry.text
        for entry in column(protocol_tables.classification_table(only(*classified(ERRORS))), "U").values()
    } == {DASH}


def test_one_run_has_no_std_and_no_test() -> None:
    table = protocol_tables.classification_table(only(*classified({"OAHU": [0.2], "LEGO": [0.3]})))
    assert column(table, "Error")["LEGO"] == TableCell("0.300")
    assert column(table, "p")["LEGO"].text == DASH
    assert "Each method has one run, so there is no standard deviation and no significance test." in table.notes


def test_no_test_without_the_reference() -> None:
    table = protocol_tables.classification_table(only(*classified({"LEGO": [0.2, 0.3], "RDML": [0.5, 0.6]})))
    assert all(entry.text == DASH for entry in column(table, "p").values())
    assert table.notes[0].endswith("because the reference method OAHU has no results here.")


def test_tuned_settings_are_shown() -> None:
    chosen = [
        outcome("OAHU", run, scores={"error_rate": 0.1}, scaling=scaling, params={"tau": tau}, tuned=True)
        for run, (scaling, tau) in enumerate([("range", 0.1), ("range", 0.3), ("unit", 0.2)])
    ]
    table = protocol_tables.classification_table(only(*chosen))
    assert column(table, "Scaling")["OAHU"].text == "range in 2, unit in 1 runs"
    assert column(table, "Parameters")["OAHU"].text == "tau 0.1 to 0.3"


# -- the other protocols ---------------------------------------------------------------------------------


def test_verification_has_auc_accuracy_and_eer() -> None:
    aucs = {"OAHU": [0.9, 0.92], "RDML": [0.8, 0.81]}
    folds = [
        outcome(method, fold, "verification", dataset="lfw", scores={"auc": a, "accuracy": a - 0.1, "eer": 1 - a})
        for method, values in aucs.items()
        for fold, a in enumerate(values)
    ]
    experiment = only(*folds, protocol="verification")
    table = protocol_tables.verification_table(experiment)
    assert column(table, "AUC")["RDML"] == TableCell("0.805 ± 0.007", mark="•")
    assert column(table, "Accuracy")["OAHU"] == TableCell("0.810 ± 0.014", bold=True)
    assert column(table, "EER")["OAHU"].bold
    assert column(protocol_tables.auc_table(experiment), "Fold 2")["OAHU"].text == "0.920"


def test_retrieval_has_a_column_for_each_depth() -> None:
    scores = {f"recall@{k}": k / 100 for k in (32, 1, 2, 16, 4, 8)}
    table = protocol_tables.retrieval_table(
        only(outcome("OAHU", 0, "retrieval", scores=scores), protocol="retrieval")
    )
    assert table.header[1:7] == ("R@1", "R@2", "R@4", "R@8", "R@16", "R@32")
    assert [entry.text for entry in table.rows[0][1:7]] == ["0.010", "0.020", "0.040", "0.080", "0.160", "0.320"]


def test_constraints_table_has_a_column_for_each_count() -> None:
    swept = [
        outcome(method, run, "constraints", n_constraints=n, scores={"error_rate": base + run / 100 - n / 1e5})
        for method, base, ns in (("OAHU", 0.2, (1000, 2000)), ("LEGO", 0.5, (1000, 2000)), ("Cosine", 0.4, (2000,)))
        for n in ns
        for run in range(3)
    ]
    table = protocol_tables.constraints_table(only(*swept, protocol="constraints"))
    assert table.header == ("Method", "1,000", "2,000")
    assert column(table, "1,000")["LEGO"] == TableCell("0.500 ± 0.010", mark="•")
    assert column(table, "2,000")["OAHU"] == TableCell("0.190 ± 0.010", bold=True)
    assert column(table, "1,000")["Cosine"].text == column(table, "2,000")["Cosine"].text == "0.390 ± 0.010"


def test_sensitivity_has_a_row_for_each_value() -> None:
    swept = [
        outcome(
            "OAHU",
            run,
            "sensitivity",
            vary="tau",
            params={"tau": v},
            scores={"error_rate": v / 2, "macro_f1": 1 - v},
        )
        for v in (0.1, 0.9)
        for run in range(2)
    ]
    table = protocol_tables.sensitivity_table(only(*swept, protocol="sensitivity"))
    assert [[entry.text for entry in row[1:]] for row in table.rows] == [
        ["0.1", "0.950 ± 0.000", "0.900 ± 0.000", "2"],
        ["0.9", "0.550 ± 0.000", "0.100 ± 0.000", "2"],
    ]
    assert table.rows[0][2].bold


def test_regret_and_bound() -> None:
    scores = {"regret": 10.0, "bound": 40.0, "best_expert": 2.0, "hedge_loss": 0.1101, "best_loss": 0.1}
    runs = [outcome("OAHU", run, "regret", scores=scores | {"regret": 10.0 * (run + 1)}) for run in range(2)]
    table = protocol_tables.regret_table(only(*runs, protocol="regret"))
    assert [entry.text for entry in table.rows[0]] == [
        "OAHU",
        "0",
        "2",
        "0.1101",
        "0.1000",
        "10.0",
        "40.0",
        "0.250",
    ]
    assert [entry.text for entry in table.rows[2][5:]] == ["15.0", "40.0", "0.375"]


def test_share_is_empty_without_a_bound() -> None:
    table = protocol_tables.regret_table(
        only(outcome("OAHU", 0, "regret", scores={"regret": 1.0, "bound": 0.0}), protocol="regret")
    )
    assert table.rows[0][-1].text == DASH


# -- overview --------------------------------------------------------------------------------------


def test_wins_ties_and_losses_over_data_sets() -> None:
    other = {**ERRORS, "LEGO": [0.18, 0.17, 0.19], "mine": []}
    mixed = record(
        *classified(ERRORS), *classified(other, dataset="own"), outcome("mine", 0, dataset="own", error="no")
    )
    (table,) = overview_tables.win_tie_loss_tables(mixed, "classification")
    rows = {row[0].text: [f"{entry.text}{entry.mark}" for entry in row[1:]] for row in table.rows}
    assert rows == {
        "LEGO": ["win•", "tie", "1/1/0", "3/0/0"],
        "Euclidean": ["loss∘", "loss∘", "0/0/2", DASH],
        "mine": ["tie", "failed", "0/1/0", DASH],
    }


def test_tuned_and_untuned_are_counted_separately() -> None:
    mixed = record(*classified(ERRORS, tuned=True), *classified(ERRORS, tuned=False))
    made = overview_tables.win_tie_loss_tables(mixed, "classification")
    assert [table.title.rsplit(", ")[-1] for table in made] == ["tuned", "untuned"]


def test_overview_marks_the_best_method() -> None:
    (row,) = overview_tables.overview_table(record(*classified(ERRORS))).rows
    assert [entry.text for entry in row[3:]] == ["0.180", "0.18", "0.150", DASH, "Euclidean", "0.150", "1/1/1"]
    assert (row[3].bold, row[8].bold) == (False, True)


def test_time_has_means_and_a_total() -> None:
    runs = [
        outcome("OAHU", run, seconds={"inputs": 0.5, "constraints": 1.0, "learning": run, "evaluation": 2.0})
        for run in (1, 3)
    ]
    tuning = outcome("OAHU", 0, stage="tuning", seconds={"learning": 7.0})
    table = overview_tables.time_table(record(*runs, tuning), "classification")
    assert [entry.text for entry in table.rows[0][2:]] == ["2", "0.50", "1.00", "2.00", "2.00", "11.0"]
    assert "In addition, tuning took 7.0 s for 1 trials." in table.notes


def test_settings_of_each_row() -> None:
    facts = {"n_seen": 10_000, "n_drawn": 8_700, "n_implied": 1_300}
    runs = [
        outcome("OAHU", run, facts=facts, seed=run + 5, n_constraints=10_000, scaling="range", k=5, queries=None)
        for run in (0, 1)
    ]
    table = overview_tables.settings_table(record(*runs), "classification")
    assert column(table, "Random seed")["fashion-mnist · untuned"].text == "5 to 6"
    assert column(table, "Implied constraints")["fashion-mnist · untuned"].text == "1,300"
    assert column(table, "Constraints")["fashion-mnist · untuned"].text == "10,000"


def test_data_sets_show_the_sizes_in_the_paper() -> None:
    (row,) = overview_tables.datasets_table(record()).rows
    assert [entry.text for entry in row] == ["fashion-mnist", "70,000", "784", "10", "70,000", "784", "10"]


def test_all_failures_are_listed() -> None:
    failed = [outcome("OAHU", 1, error="a"), outcome("LEGO", 2, "regret", stage="tuning", error="b")]
    assert [row[-1].text for row in overview_tables.failures_table(record(*failed)).rows] == ["a", "b"]


def test_all_tables() -> None:
    mixed = [*classified({method: [0.1, 0.2] for method in DEFAULT_METHODS}), outcome("<b>&", 0, error="no")]
    made = overview_tables.all_tables(record(*mixed))
    assert [table.title for table in made] == [
        "At a glance",
        "Wins, ties and losses: classification, untuned",
        "Classification: fashion-mnist · untuned",
        "Time: classification",
        "Settings: classification",
        "Data sets",
        "Failures",
    ]
    assert [row[0].text for row in made[2].rows] == [*DEFAULT_METHODS, "<b>&"]


@pytest.mark.parametrize(
    "protocol", ["classification", "constraints", "verification", "retrieval", "sensitivity", "regret"]
)
def test_table_with_failures_only(protocol: str) -> None:
    table = protocol_tables.main_table(only(outcome("OAHU", 0, protocol, error="no"), protocol=protocol))
    assert "OAHU failed in run 0: no" in table.notes


def test_empty_record() -> None:
    assert [table.title for table in overview_tables.all_tables(record())] == ["Data sets"]


# -- notes --------------------------------------------------------------------------------


def test_missing_pairs_are_noted_once() -> None:
    def verified(method: str, run: int, n_missing: int) -> Outcome:
        return outcome(method, run, "verification", scores={"auc": 0.5}, facts={"n_missing": n_missing})

    some = [verified(method, run, n) for method in ("OAHU", "LEGO") for run, n in enumerate((3, 1_200))]
    assert "1,203 pairs of the folds" in " ".join(
        protocol_tables.verification_table(only(*some, protocol="verification")).notes
    )
    none = verified("OAHU", 0, 0)
    assert "are left out" not in " ".join(
        protocol_tables.verification_table(only(none, protocol="verification")).notes
    )


def test_warnings_are_listed_with_their_trials() -> None:
    warning = outcome("LEGO", 2, scores={"error_rate": 0.5}, facts={"warnings": ["too steep"]})
    table = overview_tables.warnings_table(record(*classified(ERRORS), warning))
    assert [[entry.text for entry in row] for row in table.rows] == [
        ["classification", "fashion-mnist", "LEGO", "2", "result", "too steep"]
    ]
    assert "Warnings" in [table.title for table in overview_tables.all_tables(record(warning))]
    assert "Warnings" not in [table.title for table in overview_tables.all_tables(record(*classified(ERRORS)))]


def test_parameters_tuned_to_the_smallest_or_largest_value_are_noted() -> None:
    def tuned(method: str, chosen: float, tried: list[float]) -> list[Outcome]:
        races = [outcome(method, 0, params={"eta": value}, stage="tuning", tuned=True) for value in tried]
        return [*races, outcome(method, 0, scores={"error_rate": 0.5}, params={"eta": chosen}, tuned=True)]

    some = [*tuned("OAHU", 0.1, [0.1, 0.2, 0.3]), *tuned("LEGO", 0.2, [0.1, 0.2, 0.3]), *tuned("POLA", 1, [1, 2])]
    (text,) = [
        note
        for note in overview_tables.settings_table(record(*some), "classification").notes
        if "value that it tried" in note
    ]
    assert text == "fashion-mnist · tuned: tuning chose the smallest or largest value that it tried: OAHU eta 0.1."
    assert not any(
        "value that it tried" in note
        for note in overview_tables.settings_table(record(*classified(ERRORS)), "classification").notes
    )


def test_tables_name_the_reference_of_the_record() -> None:
    with_lego = replace(record(*classified(ERRORS)), reference="LEGO")
    overview, counts, main, *_ = overview_tables.all_tables(with_lego)
    assert overview.header[3:6] == ("LEGO", "Euclidean", "Cosine")  # the paper's column is about OAHU
    assert counts.header == ("LEGO against", "fashion-mnist", "Win/tie/loss")
    assert any(note.startswith("• LEGO is significantly better") for note in main.notes)
    assert {method: cell.mark for method, cell in column(main, "Error").items() if cell.mark} == {
        "OAHU": "∘",
        "Euclidean": "∘",
        "mine": "∘",
    }


def test_warnings_of_the_benchmark_are_in_the_table() -> None:
    table = overview_tables.warnings_table(replace(record(), warnings=("too large",)))
    assert [cell.text for cell in table.rows[0]] == [*[DASH] * 5, "too large"]
