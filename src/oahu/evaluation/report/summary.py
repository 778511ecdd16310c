"""A record in plain sentences: who wins where, and what learning was worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Final

from oahu.evaluation.cells import Record
from oahu.evaluation.report import paper
from oahu.evaluation.report.groups import UNLEARNED, Group, Row, groups
from oahu.evaluation.report.tables import DECIDES
from oahu.evaluation.report.text_table import number, p_value
from oahu.evaluation.statistics import Better, Comparison, Tally

__all__ = ["about", "headlines"]

_WHAT: Final = {"error_rate": "an error rate", "auc": "an AUC", "recall@1": "a Recall@1"}


def headlines(record: Record, paired: bool = False) -> list[str]:
    """Who wins where, and what learning was worth: also where it was worth nothing."""
    said = [*_overall(record, paired), *_winners(record), *_unlearned(record, paired)]
    if record.failures:
        n = len(record.failures)
        said.append(f"{n:,} of {len(record.outcomes):,} measurements failed; they are listed under Failures.")
    if said:
        return said
    told = [words for kind in _TOLD for group in groups(record, kind) if (words := about(group, paired))]
    return told or ["No task was measured with scores to compare." if record.outcomes else "Nothing was measured."]


def about(group: Group, paired: bool = False) -> str:
    """What a group's numbers say; nothing, if that is what they say."""
    return _TOLD[group.protocol](group) if group.protocol in _TOLD else _compared(group, paired)


def _tested(record: Record, paired: bool) -> Iterator[tuple[Group, Row, Comparison]]:
    for protocol, (score, better) in DECIDES.items():
        for group in groups(record, protocol):
            for row in group.rows:
                compared = group.against(row, score, better, paired)
                if compared and compared.verdict:
                    yield group, row, compared


def _overall(record: Record, paired: bool) -> list[str]:
    """Wins, ties and losses against learners, and against doing nothing."""
    found = [(row.method in UNLEARNED, compared) for _, row, compared in _tested(record, paired)]
    said = []
    for unlearned, what in ((False, "other learners"), (True, "metrics that learn nothing")):
        tally = Tally.of(compared for is_unlearned, compared in found if is_unlearned == unlearned)
        if n := tally.wins + tally.ties + tally.losses:
            said.append(
                f"Against {what}, OAHU is significantly better in {tally.wins} of {n} comparisons, significantly "
                f"worse in {tally.losses}, and not told apart in {tally.ties}."
            )
    return said


def _winners(record: Record) -> list[str]:
    """For each task, who has the best mean on which data set."""
    said = []
    for protocol, (score, better) in DECIDES.items():
        best: dict[str, list[str]] = {}
        for group in groups(record, protocol):
            ranked = group.ranked(score, better)
            if len(ranked) > 1:
                best.setdefault(ranked[0].label, []).append(group.name)
        if best:
            ours_first = sorted(best, key=lambda label: label != "OAHU")
            words = [f"{label} is best on {_list(best[label])}" for label in ours_first]
            said.append(f"{protocol.capitalize()}: {'; '.join(words)}.")
    return said


def _unlearned(record: Record, paired: bool) -> list[str]:
    """Where a metric that learns nothing beats OAHU."""
    found = [(group, row, compared) for group, row, compared in _tested(record, paired) if row.method in UNLEARNED]
    lost: dict[str, list[str]] = {}
    for group, row, compared in found:
        if compared.verdict == "loss":
            lost.setdefault(row.method, []).append(f"{group.name} in {group.protocol}")
    if lost:
        return [
            f"OAHU does significantly worse than {method}, which learns nothing, on {_list(places)}."
            for method, places in lost.items()
        ]
    return ["Nowhere is a metric that learns nothing significantly better than OAHU."] if found else []


def _compared(group: Group, paired: bool) -> str:
    score, better = DECIDES[group.protocol]
    ranked, ours = group.ranked(score, better), group.ours
    if not ranked:
        return "Nothing could be measured."
    best = ranked[0]
    if ours is None or ours not in ranked:
        return f"OAHU has no result. The best is {best.label} with {number(best.summary(score).mean)}."
    said = f"OAHU reaches {_WHAT[score]} of {number(ours.summary(score).mean)}{_of_paper(group, score)}"
    if len(ranked) == 1:
        return f"{said}; there is nothing to compare it with."
    if best is ours:
        said += ", the best of all methods."
    else:
        said += f"; the best is {best.label} with {number(best.summary(score).mean)}."
    return " ".join([said, *_baselines(group, score, better, paired), *_verdicts(group, score, better, paired)])


def _of_paper(group: Group, score: str) -> str:
    printed = paper.printed(group.dataset, "OAHU", score)
    return f" (the paper: {printed.mean:.2f})" if printed else ""


def _baselines(group: Group, score: str, better: Better, paired: bool) -> list[str]:
    """How it does against doing nothing, also where that is better."""
    words = []
    for method in UNLEARNED:
        row, ours = group.row(method), group.ours
        if row is None or ours is None or not row.summary(score).n:
            continue
        difference = ours.summary(score).mean - row.summary(score).mean
        gain = -difference if better == "lower" else difference
        size = "the same as" if abs(gain) < 0.0005 else f"{abs(gain):.3f} {'better' if gain > 0 else 'worse'} than"
        words.append(f"{size} {method}{_weight(group.against(row, score, better, paired))}")
    which = "which learns nothing" if len(words) == 1 else "which learn nothing"
    return [f"OAHU is {_list(words)}, {which}."] if words else []


def _weight(compared: Comparison | None) -> str:
    if compared is None or compared.verdict is None:
        return " (too few runs for a test)"
    p = p_value(compared.p)
    p = f"p < {p[1:]}" if p.startswith("<") else f"p = {p}"
    p = p.replace(" ", "\N{NO-BREAK SPACE}")
    return f" ({p})" if compared.verdict != "tie" else f" (not significant, {p})"


def _verdicts(group: Group, score: str, better: Better, paired: bool) -> list[str]:
    named: dict[str | None, list[str]] = {"win": [], "loss": [], "tie": []}
    for row in group.rows:
        compared = group.against(row, score, better, paired)
        if compared and compared.verdict and row.method not in UNLEARNED:
            named[compared.verdict].append(row.label)
    words = {"win": "significantly better than", "loss": "significantly worse than", "tie": "not told apart from"}
    parts = [f"{words[verdict]} {_list(names)}" for verdict, names in named.items() if verdict and names]
    return [f"Among learners it is {_list(parts, '; ')}."] if parts else []


def _constraints(group: Group) -> str:
    ours = group.ours
    if ours is None or len(ours.places) < 2:
        return ""
    first, last = ours.places[0], ours.places[-1]
    before, after = (ours.summary("error_rate", place).mean for place in (first, last))
    if not isfinite(before - after):
        return ""
    move = "falls" if after < before - 0.0005 else "rises" if after > before + 0.0005 else "stays"
    way = f"at {before:.3f}" if move == "stays" else f"from {before:.3f} to {after:.3f}"
    return f"From {first:,.0f} to {last:,.0f} constraints, the error rate of OAHU {move} {way}."


def _sensitivity(group: Group) -> str:
    ours = group.ours
    if ours is None or len(ours.places) < 2:
        return ""
    vary = dict(group.apart).get("vary", "value")
    found = {place: ours.summary("error_rate", place) for place in ours.places}
    means = {place: 1 - summary.mean for place, summary in found.items() if summary.n}
    if len(means) < 2:
        return ""
    best, worst = max(means, key=lambda x: means[x]), min(means, key=lambda x: means[x])
    said = (
        f"Over {vary}, the accuracy of OAHU is best at {best:g} ({means[best]:.3f}) and worst at "
        f"{worst:g} ({means[worst]:.3f})."
    )
    return said + _claim(vary, means)


def _claim(vary: str, means: dict[float, float]) -> str:
    """What the paper says about it, and whether it is so here."""
    if vary == "tau":
        low, high = (
            [mean for place, mean in means.items() if (place <= 0.6) == is_low] for is_low in (True, False)
        )
        if low and high:
            lost = sum(low) / len(low) - sum(high) / len(high)
            spread = max(low) - min(low)
            return (
                f" The paper says that it stays the same up to 0.6 and drops beyond: here it moves by {spread:.3f} "
                f"up to 0.6 and is {abs(lost):.3f} {'lower' if lost >= 0 else 'higher'} beyond, on average."
            )
    return " The paper says 50." if vary == "embedding_size" else ""


def _regret(group: Group) -> str:
    ours = group.ours
    if ours is None:
        return ""
    regrets, bounds = ours.values("regret"), ours.values("bound")
    both = [(r, b) for r, b in zip(regrets, bounds, strict=True) if isfinite(r) and isfinite(b) and b > 0]
    if not both:
        return ""
    below, n = sum(r <= b for r, b in both), len(both)
    shares = [r / b for r, b in both]
    runs = "in the one run there is" if n == 1 else f"in {below or n} of {n} runs"
    under = "stays below" if below else "exceeds"
    return f"The measured regret {under} √(T ln N) {runs}; on average it is {sum(shares) / n:.2f} of it."


_TOLD: Final[dict[str, Callable[[Group], str]]] = {
    "constraints": _constraints,
    "sensitivity": _sensitivity,
    "regret": _regret,
}


def _list(words: list[str], between: str = ", ") -> str:
    return words[0] if len(words) == 1 else f"{between.join(words[:-1])} and {words[-1]}"
