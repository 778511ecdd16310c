"""Results as tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any, Final

from oahu.evaluation.cells import Outcome, Record
from oahu.evaluation.report import paper
from oahu.evaluation.report.groups import PROTOCOLS, UNLEARNED, Group, Row, groups, in_order, setting
from oahu.evaluation.report.text_table import NOTHING, Entry, Table, number, p_value, plus_minus
from oahu.evaluation.statistics import Better, Comparison, Summary, Tally

__all__ = ["DECIDES", "at_a_glance", "auc_by_fold", "classification", "constraints", "datasets", "everything"]
__all__ += ["failures", "of_group", "regret", "retrieval", "sensitivity", "settings", "time", "verification"]
__all__ += ["warned", "win_tie_loss"]

_PARTS: Final = ("inputs", "constraints", "learning", "evaluation")
_WHERE: Final = ("Protocol", "Data set", "Method", "Run", "Stage")
_PRINTED: Final = ("error_rate", "macro_f1", "utilization")
DECIDES: Final[dict[str, tuple[str, Better]]] = {
    "classification": ("error_rate", "lower"),
    "verification": ("auc", "higher"),
    "retrieval": ("recall@1", "higher"),
}
# -- the tables of a protocol ----------------------------------------------------------------------------


def of_group(group: Group, paired: bool = False) -> Table:
    """The main table of a group."""
    kinds: dict[str, Callable[[Group, bool], Table]] = {
        "classification": classification,
        "constraints": constraints,
        "verification": verification,
        "retrieval": retrieval,
        "sensitivity": sensitivity,
        "regret": regret,
    }
    return kinds[group.protocol](group, paired)


def classification(group: Group, paired: bool = False) -> Table:
    """Error rate, macro F1 and utilization, the paper's beside them."""
    scores: list[_Score] = [("error_rate", "lower", True), ("macro_f1", "higher", False)]
    scores.append(("utilization", "higher", False))
    known = paper.CLASSIFICATION.get(group.dataset, {})
    lines, absent = _lines(group, scores, paired, [name for name in known if name not in _methods(group)])
    header = ["Method", "Error", "p", "F1", "U"]
    if known:
        header += ["Paper: error", "Paper: F1", "Paper: U"]
    header += ["Scaling", "Parameters"]
    rows = []
    for row, (label, error, f1, used) in lines:
        method = row.method if row else label.text
        beside = [Entry(str(paper.printed(group.dataset, method, s) or NOTHING)) for s in _PRINTED] if known else []
        how = [Entry(_said(row, "scaling")), Entry(_params(row))] if row else [Entry(NOTHING)] * 2
        rows.append((label, error, Entry(_p(group, row, "error_rate", "lower", paired)), f1, used, *beside, *how))
    notes = [*_test_notes(group, paired), "U is the share of constraints that changed the model."]
    if known:
        notes.append("The paper prints two decimals; its 0.00 is anything below 0.005.")
    return Table(f"Classification: {group.title}", tuple(header), tuple(rows), (*notes, *absent))


def verification(group: Group, paired: bool = False) -> Table:
    """AUC, accuracy at the calibrated threshold and equal error rate over the folds."""
    scores: list[_Score] = [("auc", "higher", True), ("accuracy", "higher", True), ("eer", "lower", True)]
    scores.append(("utilization", "higher", False))
    lines, absent = _lines(group, scores, paired)
    header = ("Method", "AUC", "p", "Accuracy", "EER", "U", "Folds", "Scaling", "Parameters")
    rows = []
    for row, (label, auc, *others) in lines:
        p = Entry(_p(group, row, "auc", "higher", paired))
        how = (_said(row, "scaling"), _params(row)) if row else (NOTHING, NOTHING)
        n = row.summary("auc").n if row else 0
        rows.append((label, auc, p, *others, Entry(str(n)), *map(Entry, how)))
    notes = [
        *_test_notes(group, paired),
        "Accuracy is that at a threshold calibrated on other pairs; p is that of AUC.",
        *_missing(group),
    ]
    return Table(
        f"Verification: {group.title}", header, tuple(rows), (*notes, paper.NOT_STATED["verification"], *absent)
    )


def _missing(group: Group) -> list[str]:
    """How many official pairs name an image that the data set does not have."""
    missing = {
        outcome.cell.run: outcome.facts.get("n_missing", 0) for row in group.rows for outcome in row.outcomes
    }
    n = sum(missing.values())
    return [f"{n:,} of the folds' pairs name an image that is not in the data: they are left out."] if n else []


def auc_by_fold(group: Group) -> Table:
    """AUC of each method in each fold."""
    folds = sorted({outcome.cell.run for row in group.rows for outcome in row.outcomes})
    rows = []
    for row in group.rows:
        found = {outcome.cell.run: outcome.scores.get("auc", float("nan")) for outcome in row.outcomes}
        rows.append((Entry(row.label), *(Entry(number(found.get(fold, float("nan")))) for fold in folds)))
    header = ("Method", *(f"Fold {fold + 1}" for fold in folds))
    return Table(f"AUC per fold: {group.title}", header, tuple(rows))


def retrieval(group: Group, paired: bool = False) -> Table:
    """Recall@K for every K there is."""
    found = {name for row in group.rows for outcome in row.outcomes for name in outcome.scores}
    depths = sorted(int(name.removeprefix("recall@")) for name in found if re.fullmatch(r"recall@\d+", name))
    scores: list[_Score] = [(f"recall@{k}", "higher", True) for k in depths]
    lines, absent = _lines(group, [*scores, ("utilization", "higher", False)], paired)
    header = ("Method", *(f"R@{k}" for k in depths), "U", "Scaling", "Parameters")
    rows = []
    for row, entries in lines:
        how = (_said(row, "scaling"), _params(row)) if row else (NOTHING, NOTHING)
        rows.append((*entries, *map(Entry, how)))
    notes = [
        *_test_notes(group, paired),
        "R@K is the share of queries with an item of their own class among the first K.",
    ]
    return Table(f"Retrieval: {group.title}", header, tuple(rows), (*notes, paper.NOT_STATED["retrieval"], *absent))


def constraints(group: Group, paired: bool = False) -> Table:
    """Error rate against the number of constraints."""
    places: list[float | None] = list(group.places) or [None]
    best = [_best([row.summary("error_rate", place) for row in group.rows], "lower") for place in places]
    rows = []
    for i, row in enumerate(group.rows):
        line = [Entry(row.label)]
        for place, top in zip(places, best, strict=True):
            compared = group.against(row, "error_rate", "lower", paired, place)
            summary = row.summary("error_rate", place) if row.at(place) else Summary.of(())
            line.append(_entry(summary, i in top, compared) if row.outcomes else Entry("failed"))
        rows.append(tuple(line))
    header = ("Method", *(NOTHING if place is None else f"{place:,.0f}" for place in places))
    notes = (
        *_test_notes(group, paired),
        paper.NOT_STATED["constraints"],
        *_failure_notes(group),
        *_absent(group.absent),
    )
    return Table(f"Error against constraints: {group.title}", header, tuple(rows), notes)


def sensitivity(group: Group, paired: bool = False) -> Table:
    """Accuracy and F1 for each value of a parameter."""
    vary = dict(group.apart).get("vary", "value")
    places = [(row, place) for row in group.rows for place in row.places]
    errors = [row.summary("error_rate", place) for row, place in places]
    f1s = [row.summary("macro_f1", place) for row, place in places]
    accuracies = [Summary(1 - error.mean, error.std, error.n) for error in errors]
    top, top_f1 = _best(accuracies, "higher"), _best(f1s, "higher")
    rows = [
        (
            Entry(row.label),
            Entry(f"{place:g}"),
            _entry(accuracies[i], i in top),
            _entry(f1s[i], i in top_f1),
            Entry(str(accuracies[i].n)),
        )
        for i, (row, place) in enumerate(places)
    ]
    notes = (
        "Accuracy is 1 - error.",
        paper.NOT_STATED["sensitivity"],
        *_failure_notes(group),
        *_absent(group.absent),
    )
    return Table(f"Sensitivity: {group.title}", ("Method", vary, "Accuracy", "F1", "Runs"), tuple(rows), notes)


def regret(group: Group, paired: bool = False) -> Table:
    """What following the weights cost beyond the best single expert in hindsight."""
    names = ("hedge_loss", "best_loss", "regret", "bound")
    rows = []
    for row in group.rows:
        for outcome in row.outcomes:
            values = [outcome.scores.get(name, float("nan")) for name in names]
            best = number(outcome.scores.get("best_expert", float("nan")), 0)
            rows.append(_regret_row(row.label, str(outcome.cell.run), best, values))
        if len(row.outcomes) > 1:
            rows.append(_regret_row(row.label, "mean", NOTHING, [row.summary(name).mean for name in names]))
    header = (
        "Method",
        "Run",
        "Best expert",
        "Loss of OAHU",
        "Loss of the best",
        "Regret",
        "√(T ln N)",
        "Regret / √(T ln N)",
    )
    notes: tuple[str, ...] = (
        "Losses are means of a round. Regret is the loss of the weighted experts over all rounds minus that of the "
        "expert that was best in hindsight.",
    )
    notes += (paper.NOT_STATED["regret"], *_failure_notes(group), *_absent(group.absent))
    return Table(f"Regret: {group.title}", header, tuple(rows), notes)


def _regret_row(label: str, run: str, best: str, values: list[float]) -> tuple[Entry, ...]:
    share = values[2] / values[3] if values[3] else float("nan")
    return (
        *map(Entry, (label, run, best)),
        *(Entry(number(value, 4)) for value in values[:2]),
        *(Entry(number(value, 1)) for value in values[2:]),
        Entry(number(share)),
    )


# -- tables over all data sets ---------------------------------------------------------------------------


def at_a_glance(record: Record, paired: bool = False) -> Table:
    """A line for each data set of the three tasks: OAHU, the paper, doing nothing, and the best of the others."""
    rows = []
    for protocol, (score, better) in DECIDES.items():
        for group in groups(record, protocol):
            rows.append(_glance(group, score, better, paired))
    header = ("Task", "Data set", "Score", "OAHU", "Paper", *UNLEARNED, "Best other", "Its score", "Win/tie/loss")
    notes = (
        "Error: lower is better; AUC and R@1: higher is better. Win/tie/loss is over all other methods, at 0.05.",
    )
    return Table("At a glance", header, tuple(rows), notes)


def _glance(group: Group, score: str, better: Better, paired: bool) -> tuple[Entry, ...]:
    ranked, ours = group.ranked(score, better), group.ours
    others = [row for row in ranked if row is not ours]
    compared = [group.against(row, score, better, paired) for row in others]
    printed = paper.printed(group.dataset, "OAHU", score) if group.protocol == "classification" else None
    unlearned = [Entry(_mean(group.row(method), score)) for method in UNLEARNED]
    name = {"error_rate": "error", "auc": "AUC", "recall@1": "R@1"}[score]
    return (
        *map(Entry, (group.protocol, group.title, name)),
        Entry(_mean(ours, score), bold=ours is not None and ranked[:1] == [ours] and len(ranked) > 1),
        Entry(f"{printed.mean:.2f}" if printed else NOTHING),
        *unlearned,
        Entry(others[0].label if others else NOTHING),
        Entry(_mean(others[0], score) if others else NOTHING, bold=bool(others) and ranked[0] is others[0]),
        Entry(str(Tally.of(each for each in compared if each))),
    )


def _mean(row: Row | None, score: str) -> str:
    return NOTHING if row is None else number(row.summary(score).mean)


def win_tie_loss(record: Record, protocol: str, paired: bool = False) -> list[Table]:
    """Where OAHU is better, equal or worse: one table for tuned and one for untuned results."""
    score, better = DECIDES[protocol]
    made = []
    for tuned in (True, False):
        found = [group for group in groups(record, protocol) if group.tuned == tuned and group.ours]
        if found:
            made.append(_win_tie_loss(found, score, better, paired))
    return made


def _win_tie_loss(found: list[Group], score: str, better: Better, paired: bool) -> Table:
    methods = in_order(dict.fromkeys(row.method for group in found for row in group.rows if row is not group.ours))
    with_paper = any(group.dataset in paper.CLASSIFICATION for group in found) and score == "error_rate"
    rows = []
    for method in methods:
        compared = [_against(group, method, score, better, paired) for group in found]
        words = [Entry(each) if isinstance(each, str) else _verdict(each) for each in compared]
        tally = Entry(str(Tally.of(each for each in compared if not isinstance(each, str))), bold=True)
        printed = (
            (Entry("3/0/0" if method in paper.CLASSIFICATION["fashion-mnist"] else NOTHING),) if with_paper else ()
        )
        rows.append((Entry(method), *words, tally, *printed))
    protocol, how = found[0].protocol, "tuned" if found[0].tuned else "untuned"
    names = [" · ".join([group.dataset, *(f"{k}: {v}" for k, v in group.apart)]) for group in found]
    header = ("OAHU against", *names, "Win/tie/loss", *(("Paper",) if with_paper else ()))
    notes = (
        f"By {score.replace('_', ' ')}: win where OAHU is significantly better, loss where it is worse (0.05).",
    )
    return Table(f"Wins, ties and losses: {protocol}, {how}", header, tuple(rows), notes)


def _against(group: Group, method: str, score: str, better: Better, paired: bool) -> Comparison | str:
    """A comparison, or why there is none."""
    row = group.row(method)
    compared = group.against(row, score, better, paired) if row else None
    return compared or ("failed" if method in _methods(group) else "not run")


def _verdict(compared: Comparison) -> Entry:
    return Entry(compared.verdict or "too few runs", mark=compared.mark)


def time(record: Record, protocol: str) -> Table:
    """Where the time went: seconds of a run, on average, and of all runs."""
    rows = []
    for group in groups(record, protocol):
        for row in group.rows:
            parts = [row.seconds(part) for part in _PARTS]
            means = [Entry(number(Summary.of(part).mean, 2)) for part in parts]
            total = sum(value for part in parts for value in part if isfinite(value))
            line = [
                Entry(group.title),
                Entry(row.label),
                Entry(str(len(row.outcomes))),
                *means,
                Entry(number(total, 1)),
            ]
            rows.append(tuple(line))
    tuning = [o for o in record.outcomes if o.cell.stage == "tuning" and o.cell.protocol == protocol]
    spent = sum(value for outcome in tuning for value in outcome.seconds.values() if isfinite(value))
    notes = (f"Tuning took {spent:,.1f} s more, over {len(tuning):,} measurements.",) if tuning else ()
    header = ("Data set", "Method", "Runs", *(f"{part.capitalize()}, s" for part in _PARTS), "All runs, s")
    return Table(f"Time: {protocol}", header, tuple(rows), ("The mean of a run, in seconds, part by part.", *notes))


def settings(record: Record, protocol: str) -> Table:
    """What each row was run with."""
    names = ("scaling", "pca", "k", "queries", "seed")
    rows = []
    for group in groups(record, protocol):
        for row in group.rows:
            learned = [_counted(o.facts.get(name) for o in row.outcomes) for name in ("n_seen", "n_followed")]
            said = [*map(Entry, learned), *(Entry(_said(row, name)) for name in names)]
            n = f"{len(row.outcomes)}" + (f" ({len(row.failed)} failed)" if row.failed else "")
            rows.append((Entry(group.title), Entry(row.label), Entry(n), *said, Entry(_params(row))))
    header = (
        "Data set",
        "Method",
        "Runs",
        "Constraints",
        "Of them followed",
        "Scaling",
        "PCA",
        "k",
        "Queries",
        "Random seed",
    )
    notes = ["Parameters not named are the defaults. A dash under Queries means all, under PCA none."]
    notes += filter(None, (_edges(record, group) for group in groups(record, protocol)))
    return Table(f"Settings: {protocol}", (*header, "Parameters set"), tuple(rows), tuple(notes))


def _edges(record: Record, group: Group) -> str:
    """Which parameters were tuned to the least or the greatest value that was tried: beyond it might be better."""
    tried: dict[tuple[str, str], set[float]] = {}
    for outcome in record.outcomes:
        if outcome.cell.stage == "tuning" and outcome.cell.dataset == group.dataset:
            for name, value in _numbers(outcome):
                tried.setdefault((outcome.cell.method, name), set()).add(value)
    found = [
        f"{row.label} {name} {setting(value)}"
        for row in group.rows
        for name, value in _numbers(row.outcomes[0] if group.tuned and row.outcomes else None)
        if len(values := tried.get((row.method, name), set())) > 2 and value in (min(values), max(values))
    ]
    return f"{group.title}: at an end of what tuning tried: {', '.join(found)}." if found else ""


def _numbers(outcome: Outcome | None) -> Iterable[tuple[str, float]]:
    """The parameters of an outcome that are numbers."""
    params = (outcome.cell.settings.get("params") or {}) if outcome else {}
    return [(name, value) for name, value in params.items() if type(value) in (int, float)]


def datasets(record: Record) -> Table:
    """What was measured on, beside what the paper says it used."""
    rows = []
    for name, facts in record.datasets.items():
        ours = [Entry(setting(facts.get(what))) for what in ("n_items", "n_features", "n_classes")]
        features, classes, items = paper.DATASETS.get(name, (None, None, None))
        rows.append((Entry(name), *ours, *(Entry(setting(value)) for value in (items, features, classes))))
    header = ("Data set", "Items", "Features", "Classes", "Paper: items", "Paper: features", "Paper: classes")
    return Table("Data sets", header, tuple(rows))


def failures(record: Record) -> Table:
    """What has no scores, and why."""
    rows = []
    for outcome in record.failures:
        rows.append((*_where(outcome), Entry(str(outcome.error))))
    return Table("Failures", (*_WHERE, "Why"), tuple(rows))


def warned(record: Record) -> Table:
    """What was measured with a warning."""
    rows = []
    for outcome in record.outcomes:
        for warning in outcome.facts.get("warnings", ()):
            rows.append((*_where(outcome), Entry(str(warning))))
    return Table("Warnings", (*_WHERE, "What was said"), tuple(rows))


def _where(outcome: Outcome) -> tuple[Entry, ...]:
    cell = outcome.cell
    return tuple(map(Entry, (cell.protocol, cell.dataset, cell.method, str(cell.run), cell.stage)))


def everything(record: Record, paired: bool = False) -> list[Table]:
    """All tables of a record, in the order of the report."""
    made = [table for table in [at_a_glance(record, paired)] if table.rows]
    for protocol in PROTOCOLS:
        found = groups(record, protocol)
        if found and protocol in DECIDES:
            made += win_tie_loss(record, protocol, paired)
        for group in found:
            made.append(of_group(group, paired))
            made += [auc_by_fold(group)] if protocol == "verification" else []
        made += [time(record, protocol), settings(record, protocol)] if found else []
    return [*made, datasets(record), *(table for table in (failures(record), warned(record)) if table.rows)]


# -- parts -----------------------------------------------------------------------------------------------

_Score = tuple[str, Better, bool]  # its name, which way is better, whether it is tested


def _lines(
    group: Group, scores: list[_Score], paired: bool, also: Iterable[str] = ()
) -> tuple[list[tuple[Row | None, list[Entry]]], tuple[str, ...]]:
    """A line for each row and each method that was not run, in order; and notes about what is not there."""
    tops = [_best([row.summary(score) for row in group.rows], better) for score, better, _ in scores]
    lines: list[tuple[Row | None, list[Entry]]] = []
    for i, row in enumerate(group.rows):
        entries = [Entry(row.label)]
        for (score, better, tested), top in zip(scores, tops, strict=True):
            compared = group.against(row, score, better, paired) if tested else None
            entries.append(_entry(row.summary(score), i in top, compared))
        if not row.outcomes:
            entries[1] = Entry("failed")
        lines.append((row, entries))
    absent = in_order(dict.fromkeys([*group.absent, *also]))
    for name in absent:
        lines.append((None, [Entry(name), Entry("not run"), *[Entry(NOTHING)] * (len(scores) - 1)]))
    order = in_order(dict.fromkeys(row.method if row else line[0].text for row, line in lines))
    lines.sort(key=lambda line: order.index(line[0].method if line[0] else line[1][0].text))
    return lines, (*_failure_notes(group), *_absent(absent))


def _entry(summary: Summary, bold: bool, compared: Comparison | None = None) -> Entry:
    return Entry(plus_minus(summary), bold, compared.mark if compared else "")


def _best(summaries: list[Summary], better: Better) -> set[int]:
    """Which are the best, as they are printed; none is, if all are the same."""
    means = {i: round(summary.mean, 3) for i, summary in enumerate(summaries) if summary.n}
    if len(set(means.values())) < 2:
        return set()
    top = min(means.values()) if better == "lower" else max(means.values())
    return {i for i, mean in means.items() if mean == top}


def _p(group: Group, row: Row | None, score: str, better: Better, paired: bool) -> str:
    compared = group.against(row, score, better, paired) if row else None
    return p_value(compared.p) if compared else NOTHING


def _methods(group: Group) -> set[str]:
    return {row.method for row in group.rows}


def _said(row: Row, name: str) -> str:
    """A setting of a row: one value, or those that its runs have."""
    return _counted(outcome.cell.settings.get(name) for outcome in (*row.outcomes, *row.failed))


def _params(row: Row | None) -> str:
    if row is None:
        return NOTHING
    found = [outcome.cell.settings.get("params") or {} for outcome in (*row.outcomes, *row.failed)]
    names = dict.fromkeys(name for params in found for name in params)
    words = [f"{name} {_counted(params.get(name) for params in found)}" for name in names]
    return ", ".join(words) or "defaults"


def _counted(values: Iterable[Any]) -> str:
    """The one value there is, the range of numbers, or the commonest words with how often they occur."""
    found = list(values)
    if found and len(set(map(str, found))) > 1 and all(isinstance(v, int | float) for v in found):
        return f"{setting(min(found))} to {setting(max(found))}"
    counts = Counter(map(setting, found))
    if len(counts) < 2:
        return next(iter(counts), NOTHING)
    words = ", ".join(f"{word} in {n}" for word, n in counts.most_common(3))
    return f"{words} runs" + (" …" if len(counts) > 3 else "")


def _test_notes(group: Group, paired: bool) -> list[str]:
    if group.ours is None:
        return ["OAHU has no results here: nothing is tested against it."]
    test = "a paired Student's t-test" if paired else "Student's t-test"
    ns = {len(row.at(place)) for row in group.rows if row.outcomes for place in (row.places or (None,))}
    if ns == {1}:
        return ["One run each: there is no spread and no test."]
    bold = "Mean ± standard deviation of the runs; the best is bold."
    return [bold, f"• OAHU is better, ∘ OAHU is worse, by {test} at 0.05."]


def _failure_notes(group: Group) -> list[str]:
    """What failed, the same reason said once."""
    runs: dict[tuple[str, str], list[str]] = {}
    for row in group.rows:
        for outcome in row.failed:
            runs.setdefault((row.label, _reason(outcome)), []).append(str(outcome.cell.run))
    return [f"{label} failed in run {', '.join(which)}: {why}" for (label, why), which in runs.items()]


def _reason(outcome: Outcome) -> str:
    lines = str(outcome.error).strip().splitlines()
    return lines[-1] if lines else "no reason was given"


def _absent(methods: Sequence[str]) -> list[str]:
    return [f"Not run here: {', '.join(methods)}."] if methods else []
