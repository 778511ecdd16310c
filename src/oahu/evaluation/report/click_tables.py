"""Tables of the protocol ``clicks``: scores by number of clicks, and all scores after the last click."""

from __future__ import annotations

from math import isfinite
from typing import Final

from oahu.evaluation.report.experiments import Experiment, MethodResults
from oahu.evaluation.report.report_table import EMPTY, ReportTable, TableCell, format_number
from oahu.evaluation.report.table_parts import (
    ScoreColumn,
    best_rows,
    explain_tests,
    failure_notes,
    method_lines,
    missing_notes,
    params_text,
    score_cell,
    setting_text,
)
from oahu.evaluation.statistics import Better, Summary

__all__ = ["click_error_table", "last_click_table", "precision_table", "shares_table"]

_LAST: Final = (
    ScoreColumn("error_rate", "lower", True),
    ScoreColumn("precision@10", "higher", True),
    ScoreColumn("ndcg@10", "higher", True),
    ScoreColumn("recall@1", "higher", True),
    ScoreColumn("pair_auc", "higher", True),
)
_SETUP: Final = (
    "The simulated user marks items of the catalogue. The scores are measured on queries that are not in the "
    "catalogue and received no feedback."
)


def precision_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return a table of precision@10 by number of clicks."""
    title = f"Precision@10 by number of clicks: {experiment.title}"
    return _by_clicks(experiment, "precision@10", "higher", paired, title)


def click_error_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return a table of the k-NN error by number of clicks."""
    return _by_clicks(experiment, "error_rate", "lower", paired, f"Error by number of clicks: {experiment.title}")


def _by_clicks(experiment: Experiment, score: str, better: Better, paired: bool, title: str) -> ReportTable:
    numbers: list[float | None] = list(experiment.sweep) or [None]
    best = [best_rows([row.summary(score, n) for row in experiment.rows], better) for n in numbers]
    rows = []
    for i, row in enumerate(experiment.rows):
        cells = [TableCell(row.label)]
        for n, top in zip(numbers, best, strict=True):
            summary = row.summary(score, n) if row.at(n) else Summary.of(())
            test = experiment.test(row, score, better, paired, n)
            cells.append(score_cell(summary, i in top, test) if row.outcomes else TableCell("failed"))
        rows.append(tuple(cells))
    header = ("Method", *(EMPTY if n is None else f"{n:,.0f}" for n in numbers))
    notes = (*explain_tests(experiment, paired), _SETUP, *_remarks(experiment))
    return ReportTable(title, header, tuple(rows), notes)


def shares_table(experiment: Experiment) -> ReportTable:
    """Return a table of the shares of queries made better and worse, by number of clicks."""
    rows = [
        (TableCell(row.label), TableCell(side), *(TableCell(_share_text(row, side, n)) for n in experiment.sweep))
        for row in experiment.rows
        for side in ("better", "worse")
        if row.outcomes
    ]
    header = ("Method", "Queries", *(f"{n:,.0f}" for n in experiment.sweep))
    baseline = _setting(experiment, "baseline")
    notes = (
        "Share of unseen queries whose precision@10 is higher (better) or lower (worse) than by the unlearned "
        f"ranking ({baseline}), in percent, with the 95 % Wilson interval of one run: means of the runs.",
    )
    return ReportTable(f"Queries made better and worse: {experiment.title}", header, tuple(rows), notes)


def last_click_table(experiment: Experiment, paired: bool = False) -> ReportTable:
    """Return a table of all scores after the last click."""
    lines, _ = method_lines(experiment, list(_LAST), paired)
    rows = []
    for row, cells in lines:
        cost = format_number(row.summary("ms_per_click").mean, 2) if row else EMPTY
        texts = (setting_text(row, "scaling"), params_text(row)) if row else (EMPTY, EMPTY)
        rows.append((*cells, *map(TableCell, (cost, *texts))))
    header = ("Method", "Error", "P@10", "nDCG@10", "R@1", "Pair AUC", "ms per click", "Scaling", "Parameters")
    notes = (
        *explain_tests(experiment, paired),
        "ms per click is the time of learning only. Offline methods train again before each evaluation.",
        *_second_page(experiment),
    )
    return ReportTable(f"After the last click: {experiment.title}", header, tuple(rows), notes)


def _share_text(row: MethodResults, side: str, n: float) -> str:
    value, low, high = (row.summary(f"{side}{end}", n).mean for end in ("", "_low", "_high"))
    if not isfinite(value):
        return EMPTY
    return f"{100 * value:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _second_page(experiment: Experiment) -> list[str]:
    """Return a note on Rocchio's second page."""
    row = experiment.row("Rocchio")
    if row is None or not row.summary("second_page").n:
        return []
    after, before = (row.summary(name).mean for name in ("second_page", "second_page_unlearned"))
    return [
        "Rocchio does not change the ranking of queries without feedback. After one click on the first ten items "
        f"of a query, the precision of its next ten items is {after:.3f} instead of {before:.3f}."
    ]


def _setting(experiment: Experiment, name: str) -> str:
    found = {str(o.trial.settings.get(name)) for row in experiment.rows for o in row.outcomes}
    return " or ".join(sorted(found))


def _remarks(experiment: Experiment) -> list[str]:
    return [*failure_notes(experiment), *missing_notes(experiment.missing)]
