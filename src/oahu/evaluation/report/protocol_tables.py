"""Main table of each protocol."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from oahu.evaluation.report import paper
from oahu.evaluation.report.click_tables import precision_table
from oahu.evaluation.report.experiments import Experiment, MethodResults
from oahu.evaluation.report.report_table import EMPTY, ReportTable, TableCell, format_number
from oahu.evaluation.report.table_parts import (
    ScoreColumn,
    best_rows,
    explain_tests,
    failure_notes,
    method_lines,
    missing_notes,
    p_text,
    params_text,
    score_cell,
    setting_text,
)
from oahu.evaluation.statistics import Summary

__all__ = ["auc_table", "classification_table", "constraints_table", "main_table", "regret_table"]
__all__ += ["retrieval_table", "sensitivity_table", "verification_table"]

_PRINTED: Final = ("error_rate", "macro_f1", "utilization")
_UTILIZATION: Final = ScoreColumn("utilization", "higher", False)


def main_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return the main table of an experiment."""
    kinds: dict[str, Callable[[Experiment, bool], ReportTable]] = {
        "classification": classification_table,
        "constraints": constraints_table,
        "verification": verification_table,
        "retrieval": retrieval_table,
        "sensitivity": sensitivity_table,
        "regret": regret_table,
        "clicks": precision_table,
    }
    return kinds[experiment.protocol](experiment, paired)


def classification_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return a table of error rate, macro F1 and utilization, next to the numbers in the paper."""
    columns = [ScoreColumn("error_rate", "lower", True), ScoreColumn("macro_f1", "higher", False), _UTILIZATION]
    dataset, measured = experiment.dataset, {row.method for row in experiment.rows}
    in_paper = paper.CLASSIFICATION.get(dataset, {})
    lines, remarks = method_lines(experiment, columns, paired, [name for name in in_paper if name not in measured])
    rows = []
    for row, (label, error, f1, utilization) in lines:
        method = row.method if row else label.text
        p = TableCell(p_text(experiment, row, "error_rate", "lower", paired))
        printed = [TableCell(str(paper.printed(dataset, method, score) or EMPTY)) for score in _PRINTED]
        rows.append((label, error, p, f1, utilization, *(printed if in_paper else []), *_configuration_cells(row)))
    header = ["Method", "Error", "p", "F1", "U"]
    header += ["Paper: error", "Paper: F1", "Paper: U"] if in_paper else []
    notes = [*explain_tests(experiment, paired), "U is the share of constraints that changed the model."]
    if in_paper:
        notes.append("The paper prints two decimals, so its 0.00 is a value below 0.005.")
    title = f"Classification: {experiment.title}"
    return ReportTable(title, (*header, "Scaling", "Parameters"), tuple(rows), (*notes, *remarks))


def verification_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return a table of AUC, accuracy at the calibrated threshold and equal error rate over the folds."""
    columns = [
        ScoreColumn("auc", "higher", True),
        ScoreColumn("accuracy", "higher", True),
        ScoreColumn("eer", "lower", True),
        _UTILIZATION,
    ]
    lines, remarks = method_lines(experiment, columns, paired)
    rows = []
    for row, (label, auc, *others) in lines:
        p = TableCell(p_text(experiment, row, "auc", "higher", paired))
        n_folds = row.summary("auc").n if row else 0
        rows.append((label, auc, p, *others, TableCell(str(n_folds)), *_configuration_cells(row)))
    header = ("Method", "AUC", "p", "Accuracy", "EER", "U", "Folds", "Scaling", "Parameters")
    notes = [
        *explain_tests(experiment, paired),
        "The threshold for the accuracy is calibrated on the other folds. p is the p-value of the AUC comparison.",
        *_missing_pairs(experiment),
        paper.PAPER_NOTES["verification"],
    ]
    return ReportTable(f"Verification: {experiment.title}", header, tuple(rows), (*notes, *remarks))


def _missing_pairs(experiment: Experiment) -> list[str]:
    """Return a note on official pairs that are left out, because one of their images has no features."""
    missing = {o.trial.run: o.facts.get("n_missing", 0) for row in experiment.rows for o in row.outcomes}
    n = sum(missing.values())
    return (
        [f"{n:,} pairs of the folds are left out, because the data set does not contain one of their images."]
        if n
        else []
    )


def auc_table(experiment: Experiment) -> ReportTable:
    """Return a table of the AUC of each method in each fold."""
    folds = sorted({outcome.trial.run for row in experiment.rows for outcome in row.outcomes})
    rows = []
    for row in experiment.rows:
        aucs = {outcome.trial.run: outcome.scores.get("auc", float("nan")) for outcome in row.outcomes}
        rows.append((TableCell(row.label), *(TableCell(format_number(aucs.get(f, float("nan")))) for f in folds)))
    header = ("Method", *(f"Fold {fold + 1}" for fold in folds))
    return ReportTable(f"AUC per fold: {experiment.title}", header, tuple(rows))


def retrieval_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return a table of Recall@K for every K."""
    names = {name for row in experiment.rows for outcome in row.outcomes for name in outcome.scores}
    depths = sorted(int(name.removeprefix("recall@")) for name in names if re.fullmatch(r"recall@\d+", name))
    columns = [*(ScoreColumn(f"recall@{k}", "higher", True) for k in depths), _UTILIZATION]
    lines, remarks = method_lines(experiment, columns, paired)
    rows = [(*cells, *_configuration_cells(row)) for row, cells in lines]
    header = ("Method", *(f"R@{k}" for k in depths), "U", "Scaling", "Parameters")
    notes = [
        *explain_tests(experiment, paired),
        "R@K is the share of queries with an item of their own class among the first K matches.",
        paper.PAPER_NOTES["retrieval"],
    ]
    return ReportTable(f"Retrieval: {experiment.title}", header, tuple(rows), (*notes, *remarks))


def constraints_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return a table of the error rate for each number of constraints."""
    counts: list[float | None] = list(experiment.sweep) or [None]
    best = [best_rows([row.summary("error_rate", n) for row in experiment.rows], "lower") for n in counts]
    rows = []
    for i, row in enumerate(experiment.rows):
        cells = [TableCell(row.label)]
        for n, top in zip(counts, best, strict=True):
            test = experiment.test(row, "error_rate", "lower", paired, n)
            summary = row.summary("error_rate", n) if row.at(n) else Summary.of(())
            cells.append(score_cell(summary, i in top, test) if row.outcomes else TableCell("failed"))
        rows.append(tuple(cells))
    header = ("Method", *(EMPTY if n is None else f"{n:,.0f}" for n in counts))
    notes = (*explain_tests(experiment, paired), paper.PAPER_NOTES["constraints"], *_remarks(experiment))
    return ReportTable(f"Error by number of constraints: {experiment.title}", header, tuple(rows), notes)


def sensitivity_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return a table of accuracy and F1 for each value of a parameter."""
    parameter = dict(experiment.variant).get("vary", "value")
    places = [(row, value) for row in experiment.rows for value in row.sweep]
    errors = [row.summary("error_rate", value) for row, value in places]
    f1s = [row.summary("macro_f1", value) for row, value in places]
    accuracies = [Summary(1 - error.mean, error.std, error.n) for error in errors]
    best, best_f1 = best_rows(accuracies, "higher"), best_rows(f1s, "higher")
    rows = [
        (
            TableCell(row.label),
            TableCell(f"{value:g}"),
            score_cell(accuracies[i], i in best),
            score_cell(f1s[i], i in best_f1),
            TableCell(str(accuracies[i].n)),
        )
        for i, (row, value) in enumerate(places)
    ]
    notes = ("Accuracy is 1 - error.", paper.PAPER_NOTES["sensitivity"], *_remarks(experiment))
    header = ("Method", parameter, "Accuracy", "F1", "Runs")
    return ReportTable(f"Sensitivity: {experiment.title}", header, tuple(rows), notes)


def regret_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return a table of OAHU's regret relative to its best expert, next to the paper's bound."""
    names = ("hedge_loss", "best_loss", "regret", "bound")
    rows = []
    for row in experiment.rows:
        for outcome in row.outcomes:
            values = [outcome.scores.get(name, float("nan")) for name in names]
            best = format_number(outcome.scores.get("best_expert", float("nan")), 0)
            rows.append(_regret_row(row.label, str(outcome.trial.run), best, values))
        if len(row.outcomes) > 1:
            rows.append(_regret_row(row.label, "mean", EMPTY, [row.summary(name).mean for name in names]))
    losses = ("Loss of OAHU", "Loss of the best expert")
    header = ("Method", "Run", "Best expert", *losses, "Regret", "√(T ln N)", "Regret / √(T ln N)")
    notes = (
        "Losses are means per round. Regret is the total loss of the weighted experts minus the total loss of the "
        "expert that was best in hindsight.",
        paper.PAPER_NOTES["regret"],
        *_remarks(experiment),
    )
    return ReportTable(f"Regret: {experiment.title}", header, tuple(rows), notes)


def _regret_row(label: str, run: str, best: str, values: list[float]) -> tuple[TableCell, ...]:
    share = values[2] / values[3] if values[3] else float("nan")
    return (
        *map(TableCell, (label, run, best)),
        *(TableCell(format_number(value, 4)) for value in values[:2]),
        *(TableCell(format_number(value, 1)) for value in values[2:]),
        TableCell(format_number(share)),
    )


def _configuration_cells(row: MethodResults | None) -> list[TableCell]:
    """Return the cells with the scaling and the parameters of a row."""
    texts = (setting_text(row, "scaling"), params_text(row)) if row else (EMPTY, EMPTY)
    return list(map(TableCell, texts))


def _remarks(experiment: Experiment) -> list[str]:
    return [*failure_notes(experiment), *missing_notes(experiment.missing)]
