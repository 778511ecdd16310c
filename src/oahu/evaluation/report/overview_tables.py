"""Tables that cover all data sets: overview, wins and losses, time, settings, failures and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final

from oahu.evaluation.protocols.methods import DEFAULT_METHODS
from oahu.evaluation.report import paper
from oahu.evaluation.report.click_tables import click_error_table, last_click_table, shares_table
from oahu.evaluation.report.experiments import (
    MAIN_SCORES,
    PROTOCOL_NAMES,
    UNLEARNED,
    Experiment,
    MethodResults,
    experiments,
    format_setting,
    sort_methods,
)
from oahu.evaluation.report.protocol_tables import auc_table, main_table
from oahu.evaluation.report.report_table import EMPTY, ReportTable, TableCell, format_number
from oahu.evaluation.report.table_parts import params_text, setting_text, values_text
from oahu.evaluation.statistics import Better, SignificanceTest, Summary, WinTieLoss
from oahu.evaluation.trials import BenchmarkRecord, Outcome

__all__ = ["all_tables", "datasets_table", "failures_table", "overview_table", "settings_table", "time_table"]
__all__ += ["more_tables", "warnings_table", "win_tie_loss_tables"]

_STEPS: Final = ("inputs", "constraints", "learning", "evaluation")
_TRIAL_HEADER: Final = ("Protocol", "Data set", "Method", "Run", "Stage")


def all_tables(record: BenchmarkRecord, paired: bool = False) -> list[ReportTable]:
    """Return all tables of a benchmark, in the order of the report."""
    tables = [overview_table(record, paired)]
    for protocol in PROTOCOL_NAMES:
        found = experiments(record, protocol)
        if found and protocol in MAIN_SCORES:
            tables += win_tie_loss_tables(record, protocol, paired)
        for experiment in found:
            tables.append(main_table(experiment, paired))
            tables += more_tables(experiment, paired)
        tables += [time_table(record, protocol), settings_table(record, protocol)] if found else []
    optional = (failures_table(record), warnings_table(record))
    tables = tables if tables[0].rows else tables[1:]
    return [*tables, datasets_table(record), *(table for table in optional if table.rows)]


def more_tables(experiment: Experiment, paired: bool = False) -> list[ReportTable]:
    """Return the tables of an experiment other than its main table."""
    if experiment.protocol == "verification":
        return [auc_table(experiment)]
    if experiment.protocol == "clicks":
        errors, last = click_error_table(experiment, paired), last_click_table(experiment, paired)
        return [errors, shares_table(experiment), last]
    return []


# -- results ---------------------------------------------------------------------------------------------


def overview_table(record: BenchmarkRecord, paired: bool = False) -> ReportTable:
    """Return the overview table. It has one line per data set and task.

    A line shows the scores of the reference method, of the unlearned metrics, and of the best other method.
    """
    with_paper = record.reference == "OAHU"
    measured = {outcome.trial.method for outcome in record.outcomes}
    unlearned = [name for name in UNLEARNED if name in DEFAULT_METHODS or name in measured]
    rows = []
    for protocol, (score, better) in MAIN_SCORES.items():
        for experiment in experiments(record, protocol):
            rows.append(_overview_row(experiment, score, better, paired, with_paper, unlearned))
    header = ("Task", "Data set", "Score", record.reference, *(("Paper",) if with_paper else ()), *unlearned)
    header += ("Best other", "Its score", "Win/tie/loss")
    notes = (
        f"Error: lower is better. AUC, R@1 and P@10: higher is better. Win/tie/loss: comparisons of "
        f"{record.reference} with all other methods, at significance level 0.05.",
    )
    return ReportTable("At a glance", header, tuple(rows), notes)


def _overview_row(
    experiment: Experiment,
    score: str,
    better: Better,
    paired: bool,
    with_paper: bool,
    unlearned: Sequence[str],
) -> tuple[TableCell, ...]:
    ranked, reference = experiment.ranked(score, better), experiment.reference
    others = [row for row in ranked if row is not reference]
    tests = [experiment.test(row, score, better, paired) for row in others]
    is_classification = experiment.protocol == "classification"
    printed = paper.printed(experiment.dataset, "OAHU", score) if is_classification else None
    is_best = reference is not None and ranked[:1] == [reference] and len(ranked) > 1
    name = {"error_rate": "error", "auc": "AUC", "recall@1": "R@1", "precision@10": "P@10"}[score]
    return (
        *map(TableCell, (experiment.protocol, experiment.title, name)),
        TableCell(_mean_text(reference, score), bold=is_best),
        *([TableCell(f"{printed.mean:.2f}" if printed else EMPTY)] if with_paper else []),
        *(TableCell(_mean_text(experiment.row(method), score)) for method in unlearned),
        TableCell(others[0].label if others else EMPTY),
        TableCell(_mean_text(others[0], score) if others else EMPTY, bold=bool(others) and ranked[0] is others[0]),
        TableCell(str(WinTieLoss.of(test for test in tests if test))),
    )


def _mean_text(row: MethodResults | None, score: str) -> str:
    return EMPTY if row is None else format_number(row.summary(score).mean)


def win_tie_loss_tables(record: BenchmarkRecord, protocol: str, paired: bool = False) -> list[ReportTable]:
    """Return tables of the reference method's wins, ties and losses, separately for tuned and untuned results."""
    score, better = MAIN_SCORES[protocol]
    tables = []
    for tuned in (True, False):
        found = [each for each in experiments(record, protocol) if each.tuned == tuned and each.reference]
        if found:
            tables.append(_win_tie_loss_table(found, score, better, paired))
    return tables


def _win_tie_loss_table(found: list[Experiment], score: str, better: Better, paired: bool) -> ReportTable:
    reference = found[0].reference_name
    others = (row.method for experiment in found for row in experiment.rows if row is not experiment.reference)
    in_paper = any(experiment.dataset in paper.CLASSIFICATION for experiment in found)
    with_paper = in_paper and score == "error_rate" and reference == "OAHU"
    rows = []
    for method in sort_methods(dict.fromkeys(others)):
        tests = [_test_of(experiment, method, score, better, paired) for experiment in found]
        verdicts = [TableCell(each) if isinstance(each, str) else _verdict_cell(each) for each in tests]
        counts = TableCell(str(WinTieLoss.of(each for each in tests if not isinstance(each, str))), bold=True)
        printed = "3/0/0" if method in paper.CLASSIFICATION["fashion-mnist"] else EMPTY
        rows.append((TableCell(method), *verdicts, counts, *([TableCell(printed)] if with_paper else [])))
    protocol, tuned = found[0].protocol, "tuned" if found[0].tuned else "untuned"
    names = [" · ".join([each.dataset, *(f"{name}: {value}" for name, value in each.variant)]) for each in found]
    header = (f"{reference} against", *names, "Win/tie/loss", *(("Paper",) if with_paper else ()))
    notes = (
        f"Methods are compared by {score.replace('_', ' ')}. Win: {reference} is significantly better. Loss: "
        f"{reference} is significantly worse. The significance level is 0.05.",
    )
    return ReportTable(f"Wins, ties and losses: {protocol}, {tuned}", header, tuple(rows), notes)


def _test_of(
    experiment: Experiment, method: str, score: str, better: Better, paired: bool
) -> SignificanceTest | str:
    """Return the significance test of the reference method against a method, or the reason for a missing test."""
    row = experiment.row(method)
    test = experiment.test(row, score, better, paired) if row else None
    return test or ("failed" if method in {row.method for row in experiment.rows} else "not run")


def _verdict_cell(test: SignificanceTest) -> TableCell:
    return TableCell(test.verdict or "too few runs", mark=test.mark)


# -- how the results were measured -----------------------------------------------------------------------


def time_table(record: BenchmarkRecord, protocol: str) -> ReportTable:
    """Return a table of the mean time of each step of a run, and of the total time of all runs, in seconds."""
    rows = []
    for experiment in experiments(record, protocol):
        for row in experiment.rows:
            steps = [row.seconds(step) for step in _STEPS]
            total = sum(value for step in steps for value in step if isfinite(value))
            means = (format_number(Summary.of(step).mean, 2) for step in steps)
            texts = (experiment.title, row.label, str(len(row.outcomes)), *means, format_number(total, 1))
            rows.append(tuple(map(TableCell, texts)))
    tuning = [o for o in record.outcomes if o.trial.stage == "tuning" and o.trial.protocol == protocol]
    spent = sum(value for outcome in tuning for value in outcome.seconds.values() if isfinite(value))
    notes = ["Mean seconds per run. Compilation is not included."]
    notes += [f"In addition, tuning took {spent:,.1f} s for {len(tuning):,} trials."] if tuning else []
    header = ("Data set", "Method", "Runs", *(f"{step.capitalize()}, s" for step in _STEPS), "All runs, s")
    return ReportTable(f"Time: {protocol}", header, tuple(rows), tuple(notes))


def settings_table(record: BenchmarkRecord, protocol: str) -> ReportTable:
    """Return a table of the settings of each method."""
    rows = []
    for experiment in experiments(record, protocol):
        for row in experiment.rows:
            n = f"{len(row.outcomes)}" + (f" ({len(row.failed)} failed)" if row.failed else "")
            facts = (values_text(o.facts.get(name) for o in row.outcomes) for name in ("n_seen", "n_implied"))
            settings = (setting_text(row, name) for name in ("scaling", "pca", "k", "queries", "seed"))
            texts = (experiment.title, row.label, n, *facts, *settings, params_text(row))
            rows.append(tuple(map(TableCell, texts)))
    constraints = ("Constraints", "Implied constraints")
    settings_header = ("Scaling", "PCA", "k", "Queries", "Random seed", "Parameters set")
    header = ("Data set", "Method", "Runs", *constraints, *settings_header)
    notes = ["Other parameters have their default values. A dash means all queries, or no PCA."]
    notes += filter(None, (_edge_note(record, experiment) for experiment in experiments(record, protocol)))
    return ReportTable(f"Settings: {protocol}", header, tuple(rows), tuple(notes))


def _edge_note(record: BenchmarkRecord, experiment: Experiment) -> str:
    """Return a note on parameters for which tuning chose the smallest or the largest of the tried values.

    For these parameters, values outside the tried range may be better.
    """
    tried: dict[tuple[str, str], set[float]] = {}
    for outcome in record.outcomes:
        if outcome.trial.stage == "tuning" and outcome.trial.dataset == experiment.dataset:
            for name, value in _numeric_params(outcome):
                tried.setdefault((outcome.trial.method, name), set()).add(value)
    found = [
        f"{row.label} {name} {format_setting(value)}"
        for row in experiment.rows
        for name, value in _numeric_params(row.outcomes[0] if experiment.tuned and row.outcomes else None)
        if len(values := tried.get((row.method, name), set())) > 2 and value in (min(values), max(values))
    ]
    return (
        f"{experiment.title}: tuning chose the smallest or largest value that it tried: {', '.join(found)}."
        if found
        else ""
    )


def _numeric_params(outcome: Outcome | None) -> Iterable[tuple[str, float]]:
    params = (outcome.trial.settings.get("params") or {}) if outcome else {}
    return [(name, value) for name, value in params.items() if type(value) in (int, float)]


def datasets_table(record: BenchmarkRecord) -> ReportTable:
    """Return a table of the sizes of the data sets in this benchmark and in the paper."""
    rows = []
    for name, facts in record.datasets.items():
        own = [facts.get(fact) for fact in ("n_items", "n_features", "n_classes")]
        features, classes, items = paper.DATASETS.get(name, (None, None, None))
        numbers = (TableCell(format_setting(value)) for value in (*own, items, features, classes))
        rows.append((TableCell(name), *numbers))
    header = ("Data set", "Items", "Features", "Classes", "Paper: items", "Paper: features", "Paper: classes")
    return ReportTable("Data sets", header, tuple(rows))


def failures_table(record: BenchmarkRecord) -> ReportTable:
    """Return a table of the failed trials and their errors."""
    rows = [(*_trial_cells(outcome), TableCell(str(outcome.error))) for outcome in record.failures]
    return ReportTable("Failures", (*_TRIAL_HEADER, "Error"), tuple(rows))


def warnings_table(record: BenchmarkRecord) -> ReportTable:
    """Return a table of the warnings of the benchmark and of its trials."""
    rows: list[tuple[TableCell, ...]] = []
    for warning in record.warnings:
        rows.append((*[TableCell(EMPTY)] * len(_TRIAL_HEADER), TableCell(warning)))
    for outcome in record.outcomes:
        for warning in outcome.facts.get("warnings", ()):
            rows.append((*_trial_cells(outcome), TableCell(str(warning))))
    return ReportTable("Warnings", (*_TRIAL_HEADER, "Warning"), tuple(rows))


def _trial_cells(outcome: Outcome) -> tuple[TableCell, ...]:
    trial = outcome.trial
    return tuple(map(TableCell, (trial.protocol, trial.dataset, trial.method, str(trial.run), trial.stage)))
