"""Cells, rows and notes that several tables of the report share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from oahu.evaluation.report.experiments import Experiment, MethodResults, format_setting, sort_methods
from oahu.evaluation.report.report_table import EMPTY, TableCell, format_p_value, format_summary
from oahu.evaluation.statistics import Better, SignificanceTest, Summary
from oahu.evaluation.trials import Outcome

__all__ = ["ScoreColumn", "best_rows", "failure_notes", "method_lines", "missing_notes", "p_text", "params_text"]
__all__ += ["explain_tests", "score_cell", "setting_text", "values_text"]


class ScoreColumn(NamedTuple):
    """Column of a table: the score, whether lower or higher is better, and whether to run significance tests."""

    score: str
    better: Better
    tested: bool


def method_lines(
    experiment: Experiment, columns: list[ScoreColumn], paired: bool, also: Iterable[str] = ()
) -> tuple[list[tuple[MethodResults | None, list[TableCell]]], tuple[str, ...]]:
    """Return the lines of a table, and notes about failed and missing methods.

    A line has the label and the scores of a method. There are also lines for methods that were not run: the missing
    methods of the experiment, and the methods in ``also``.
    """
    best = [best_rows([row.summary(c.score) for row in experiment.rows], c.better) for c in columns]
    lines: list[tuple[MethodResults | None, list[TableCell]]] = []
    for i, row in enumerate(experiment.rows):
        cells = [TableCell(row.label)]
        for (score, better, tested), top in zip(columns, best, strict=True):
            test = experiment.test(row, score, better, paired) if tested else None
            cells.append(score_cell(row.summary(score), i in top, test))
        if not row.outcomes:
            cells[1] = TableCell("failed")
        lines.append((row, cells))
    missing = sort_methods(dict.fromkeys([*experiment.missing, *also]))
    for name in missing:
        lines.append((None, [TableCell(name), TableCell("not run"), *[TableCell(EMPTY)] * (len(columns) - 1)]))
    order = sort_methods(dict.fromkeys(row.method if row else line[0].text for row, line in lines))
    lines.sort(key=lambda line: order.index(line[0].method if line[0] else line[1][0].text))
    return lines, (*failure_notes(experiment), *missing_notes(missing))


def score_cell(summary: Summary, bold: bool, test: SignificanceTest | None = None) -> TableCell:
    """Return a cell with the mean, the standard deviation and the mark of a significance test."""
    return TableCell(format_summary(summary), bold, test.mark if test else "")


def best_rows(summaries: list[Summary], better: Better) -> set[int]:
    """Return the indices of the best rounded means. If all rounded means are equal, return an empty set."""
    means = {i: round(summary.mean, 3) for i, summary in enumerate(summaries) if summary.n}
    if len(set(means.values())) < 2:
        return set()
    top = min(means.values()) if better == "lower" else max(means.values())
    return {i for i, mean in means.items() if mean == top}


def p_text(experiment: Experiment, row: MethodResults | None, score: str, better: Better, paired: bool) -> str:
    """Return the p-value of the test of the reference method against a row, as text."""
    test = experiment.test(row, score, better, paired) if row else None
    return format_p_value(test.p) if test else EMPTY


def setting_text(row: MethodResults, name: str) -> str:
    """Return the values of a setting in the runs of a row, as text."""
    return values_text(outcome.trial.settings.get(name) for outcome in (*row.outcomes, *row.failed))


def params_text(row: MethodResults | None) -> str:
    """Return the parameters that were set in the runs of a row, as text."""
    if row is None:
        return EMPTY
    params = [outcome.trial.settings.get("params") or {} for outcome in (*row.outcomes, *row.failed)]
    names = dict.fromkeys(name for each in params for name in each)
    words = [f"{name} {values_text(each.get(name) for each in params)}" for name in names]
    return ", ".join(words) or "defaults"


def values_text(values: Iterable[Any]) -> str:
    """Return values as text: a single value, a range of numbers, or the most frequent words with their counts."""
    found = list(values)
    if found and len(set(map(str, found))) > 1 and all(isinstance(v, int | float) for v in found):
        return f"{format_setting(min(found))} to {format_setting(max(found))}"
    counts = Counter(map(format_setting, found))
    if len(counts) < 2:
        return next(iter(counts), EMPTY)
    words = ", ".join(f"{word} in {n}" for word, n in counts.most_common(3))
    return f"{words} runs" + (" …" if len(counts) > 3 else "")


def explain_tests(experiment: Experiment, paired: bool) -> list[str]:
    """Return notes that explain means, marks and the significance test."""
    name = experiment.reference_name
    if experiment.reference is None:
        return [f"There are no significance tests, because the reference method {name} has no results here."]
    test = "a paired Student's t-test" if paired else "Student's t-test"
    ns = {len(row.at(value)) for row in experiment.rows if row.outcomes for value in (row.sweep or (None,))}
    if ns == {1}:
        return ["Each method has one run, so there is no standard deviation and no significance test."]
    explained = "Mean ± standard deviation of the runs. The best mean is bold."
    return [explained, f"• {name} is significantly better, ∘ {name} is significantly worse, by {test} at 0.05."]


def failure_notes(experiment: Experiment) -> list[str]:
    """Return one note for each method and error message, with the numbers of the failed runs."""
    runs: dict[tuple[str, str], list[str]] = {}
    for row in experiment.rows:
        for outcome in row.failed:
            runs.setdefault((row.label, _last_line(outcome)), []).append(str(outcome.trial.run))
    return [f"{label} failed in run {', '.join(which)}: {error}" for (label, error), which in runs.items()]


def _last_line(outcome: Outcome) -> str:
    lines = str(outcome.error).strip().splitlines()
    return lines[-1] if lines else "no error message"


def missing_notes(methods: Sequence[str]) -> list[str]:
    """Return a note with the names of methods without results."""
    return [f"Not run here: {', '.join(methods)}."] if methods else []
