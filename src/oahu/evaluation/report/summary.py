"""Summary of a benchmark in sentences: the best method of each task, and comparisons with unlearned metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Final

from oahu.evaluation.report import paper
from oahu.evaluation.report.experiments import (
    LEARNS_NOTHING,
    MAIN_SCORES,
    UNLEARNED,
    Experiment,
    MethodResults,
    experiments,
)
from oahu.evaluation.report.report_table import format_number, format_p_value
from oahu.evaluation.statistics import Better, SignificanceTest, WinTieLoss
from oahu.evaluation.trials import BenchmarkRecord

__all__ = ["headlines", "summarize"]

_SCORE_NAMES: Final = {
    "error_rate": "an error rate",
    "auc": "an AUC",
    "recall@1": "a Recall@1",
    "precision@10": "a precision@10",
}
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"


def headlines(record: BenchmarkRecord, paired: bool = False) -> list[str]:
    """Return sentences on the main findings: wins and losses of the reference method, and the best methods."""
    sentences = [*_counts(record, paired), *_best_methods(record), *_losses_to_unlearned(record, paired)]
    if record.failures:
        n = len(record.failures)
        sentences.append(f"{n:,} of {len(record.outcomes):,} trials failed. They are listed under Failures.")
    sentences += [f"Warning: {warning}" for warning in record.warnings]
    if sentences:
        return sentences
    details = [
        text for name in _SUMMARIES for each in experiments(record, name) if (text := summarize(each, paired))
    ]
    return details or ["There are no scores to compare." if record.outcomes else "Nothing was measured."]


def summarize(experiment: Experiment, paired: bool = False) -> str:
    """Return sentences on the result of one experiment, or an empty string if there are no results."""
    if experiment.protocol in _SUMMARIES:
        return _SUMMARIES[experiment.protocol](experiment)
    return _comparison(experiment, paired)


# -- all experiments -------------------------------------------------------------------------------------


def _tests(record: BenchmarkRecord, paired: bool) -> Iterator[tuple[Experiment, MethodResults, SignificanceTest]]:
    for protocol, (score, better) in MAIN_SCORES.items():
        for experiment in experiments(record, protocol):
            for row in experiment.rows:
                test = experiment.test(row, score, better, paired)
                if test and test.verdict:
                    yield experiment, row, test


def _counts(record: BenchmarkRecord, paired: bool) -> list[str]:
    """Return sentences on the reference method's wins, ties and losses against learners and unlearned metrics."""
    found = [(row.method in LEARNS_NOTHING, test) for _, row, test in _tests(record, paired)]
    sentences = []
    for unlearned, others in ((False, "other learners"), (True, "unlearned metrics")):
        counts = WinTieLoss.of(test for is_unlearned, test in found if is_unlearned == unlearned)
        if n := counts.wins + counts.ties + counts.losses:
            sentences.append(
                f"Against {others}, {record.reference} is significantly better in {counts.wins} of {n} "
                f"comparisons, significantly worse in {counts.losses}, and not significantly different in "
                f"{counts.ties}."
            )
    return sentences


def _best_methods(record: BenchmarkRecord) -> list[str]:
    """Return one sentence per task with the best methods, by mean score, on the data sets."""
    sentences = []
    for protocol, (score, better) in MAIN_SCORES.items():
        best: dict[str, list[str]] = {}
        for experiment in experiments(record, protocol):
            ranked = experiment.ranked(score, better)
            if len(ranked) > 1:
                best.setdefault(ranked[0].label, []).append(experiment.name)
        if best:
            reference_first = sorted(best, key=lambda label: label != record.reference)
            words = [f"{label} is best on {_join(best[label])}" for label in reference_first]
            sentences.append(f"{protocol.capitalize()}: {'; '.join(words)}.")
    return sentences


def _losses_to_unlearned(record: BenchmarkRecord, paired: bool) -> list[str]:
    """Return sentences on the experiments in which an unlearned metric is better than the reference method."""
    found = [each for each in _tests(record, paired) if each[1].method in UNLEARNED]
    lost: dict[str, list[str]] = {}
    for experiment, row, test in found:
        if test.verdict == "loss":
            lost.setdefault(row.method, []).append(f"{experiment.name} in {experiment.protocol}")
    if lost:
        return [
            f"{record.reference} is significantly worse than {method}, which learns nothing, on {_join(places)}."
            for method, places in lost.items()
        ]
    return [f"No unlearned metric is significantly better than {record.reference}."] if found else []


# -- one experiment --------------------------------------------------------------------------------------


def _comparison(experiment: Experiment, paired: bool) -> str:
    score, better = MAIN_SCORES[experiment.protocol]
    ranked, reference, name = experiment.ranked(score, better), experiment.reference, experiment.reference_name
    if not ranked:
        return "All trials failed."
    best = ranked[0]
    if reference is None or reference not in ranked:
        return f"{name} has no result. The best method is {best.label} with {_mean(best, score)}."
    text = f"{name} reaches {_SCORE_NAMES[score]} of {_mean(reference, score)}{_in_paper(experiment, score)}"
    if len(ranked) == 1:
        return f"{text}. There is no other method to compare it with."
    if best is reference:
        text += ", the best of all methods."
    else:
        text += f"; the best method is {best.label} with {_mean(best, score)}."
    sentences = [text, *_gains(experiment, score, better, paired), *_verdicts(experiment, score, better, paired)]
    return " ".join([*sentences, *_changed_queries(reference)])


def _mean(row: MethodResults, score: str) -> str:
    return format_number(row.summary(score).mean)


def _changed_queries(row: MethodResults) -> list[str]:
    """Return a sentence on the unseen queries that clicks made better and worse, if the protocol measures them."""
    better, worse = row.summary("better"), row.summary("worse")
    if not better.n or not worse.n or not row.sweep:
        return []
    return [
        f"After {row.sweep[-1]:,.0f} clicks, it ranks {better.mean:.1%} of the unseen queries better than the "
        f"unlearned ranking, and {worse.mean:.1%} worse."
    ]


def _in_paper(experiment: Experiment, score: str) -> str:
    printed = paper.printed(experiment.dataset, experiment.reference_name, score)
    return f" (paper: {printed.mean:.2f})" if printed else ""


def _gains(experiment: Experiment, score: str, better: Better, paired: bool) -> list[str]:
    """Return a sentence on the differences between the reference method and the unlearned metrics."""
    words = []
    for method in UNLEARNED:
        row, reference = experiment.row(method), experiment.reference
        if row is None or reference is None or row is reference or not row.summary(score).n:
            continue
        difference = reference.summary(score).mean - row.summary(score).mean
        gain = -difference if better == "lower" else difference
        size = "equal to" if abs(gain) < 0.0005 else f"{abs(gain):.3f} {'better' if gain > 0 else 'worse'} than"
        words.append(f"{size} {method}{_significance(experiment.test(row, score, better, paired))}")
    which = "which learns nothing" if len(words) == 1 else "which learn nothing"
    return [f"{experiment.reference_name} is {_join(words)}, {which}."] if words else []


def _significance(test: SignificanceTest | None) -> str:
    if test is None or test.verdict is None:
        return " (too few runs for a test)"
    p = format_p_value(test.p)
    p = (f"p < {p[1:]}" if p.startswith("<") else f"p = {p}").replace(" ", _NO_BREAK)
    return f" ({p})" if test.verdict != "tie" else f" (not significant, {p})"


def _verdicts(experiment: Experiment, score: str, better: Better, paired: bool) -> list[str]:
    """Return a sentence on the significance tests of the reference method against the other learners."""
    labels: dict[str | None, list[str]] = {"win": [], "loss": [], "tie": []}
    for row in experiment.rows:
        test = experiment.test(row, score, better, paired)
        if test and test.verdict and row.method not in LEARNS_NOTHING:
            labels[test.verdict].append(row.label)
    words = {
        "win": "significantly better than",
        "loss": "significantly worse than",
        "tie": "not significantly different from",
    }
    parts = [f"{words[verdict]} {_join(names)}" for verdict, names in labels.items() if verdict and names]
    return [f"Among learners it is {_join(parts, '; ')}."] if parts else []


def _constraints(experiment: Experiment) -> str:
    row = experiment.reference
    if row is None or len(row.sweep) < 2:
        return ""
    first, last = row.sweep[0], row.sweep[-1]
    before, after = (row.summary("error_rate", value).mean for value in (first, last))
    if not isfinite(before - after):
        return ""
    change = "falls" if after < before - 0.0005 else "rises" if after > before + 0.0005 else "stays"
    values = f"at {before:.3f}" if change == "stays" else f"from {before:.3f} to {after:.3f}"
    name = experiment.reference_name
    return f"From {first:,.0f} to {last:,.0f} constraints, the error rate of {name} {change} {values}."


def _sensitivity(experiment: Experiment) -> str:
    row = experiment.row("OAHU")
    if row is None or len(row.sweep) < 2:
        return ""
    parameter = dict(experiment.variant).get("vary", "value")
    summaries = {value: row.summary("error_rate", value) for value in row.sweep}
    accuracy = {value: 1 - summary.mean for value, summary in summaries.items() if summary.n}
    if len(accuracy) < 2:
        return ""
    best, worst = max(accuracy, key=lambda x: accuracy[x]), min(accuracy, key=lambda x: accuracy[x])
    text = (
        f"For different values of {parameter}, the accuracy of OAHU is best at {best:g} ({accuracy[best]:.3f}) and "
        f"worst at {worst:g} ({accuracy[worst]:.3f})."
    )
    return text + _paper_claim(parameter, accuracy)


def _paper_claim(parameter: str, accuracy: dict[float, float]) -> str:
    """Return a sentence on the paper's claim about a parameter, and on the measured values."""
    if parameter == "tau":
        low, high = (
            [mean for value, mean in accuracy.items() if (value <= 0.6) == is_low] for is_low in (True, False)
        )
        if low and high:
            lost = sum(low) / len(low) - sum(high) / len(high)
            spread = max(low) - min(low)
            return (
                f" The paper states that the accuracy is constant up to 0.6 and lower above 0.6. Here the accuracy "
                f"varies by {spread:.3f} up to 0.6. Above 0.6 it is {abs(lost):.3f} "
                f"{'lower' if lost >= 0 else 'higher'} on average."
            )
    return " The paper states that 50 is best." if parameter == "embedding_size" else ""


def _regret(experiment: Experiment) -> str:
    row = experiment.row("OAHU")
    if row is None:
        return ""
    regrets, bounds = row.values("regret"), row.values("bound")
    both = [(r, b) for r, b in zip(regrets, bounds, strict=True) if isfinite(r) and isfinite(b) and b > 0]
    if not both:
        return ""
    below, n = sum(r <= b for r, b in both), len(both)
    share = sum(r / b for r, b in both) / n
    runs = "in the only run" if n == 1 else f"in {below or n} of {n} runs"
    relation = "is below" if below else "exceeds"
    return (
        f"The measured regret {relation} √(T ln N) {runs}. On average, the regret is {share:.2f} times √(T ln N)."
    )


_SUMMARIES: Final[dict[str, Callable[[Experiment], str]]] = {
    "constraints": _constraints,
    "sensitivity": _sensitivity,
    "regret": _regret,
}


def _join(words: list[str], between: str = ", ") -> str:
    return words[0] if len(words) == 1 else f"{between.join(words[:-1])} and {words[-1]}"
