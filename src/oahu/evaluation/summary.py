"""A record in plain sentences: who wins where, and what learning was worth."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Final

from oahu.evaluation import paper
from oahu.evaluation.groups import PROTOCOLS, UNLEARNED, Group, Row, groups
from oahu.evaluation.records import Record
from oahu.evaluation.statistics import Better, Comparison, Tally
from oahu.evaluation.tables import number, p_value

__all__ = ["sentences"]

_SCORES: Final[dict[str, tuple[str, Better, str]]] = {
    "classification": ("error_rate", "lower", "an error rate"),
    "verification": ("auc", "higher", "an AUC"),
    "retrieval": ("recall@1", "higher", "a Recall@1"),
}


def sentences(record: Record, paired: bool = False) -> list[str]:
    """What the numbers say, in the order of the report; nothing that they do not say."""
    said = _overall(record, paired)
    kinds: dict[str, Callable[[Group], list[str]]] = {
        "constraints": _constraints,
        "sensitivity": _sensitivity,
        "regret": _regret,
    }
    for protocol in PROTOCOLS:
        for group in groups(record, protocol):
            said += kinds[protocol](group) if protocol in kinds else _compared(group, paired)
    if record.failures:
        n = len(record.failures)
        said.append(f"{n:,} of {len(record.outcomes):,} measurements failed; they are listed under Failures.")
    return said or ["Nothing was measured."]


def _overall(record: Record, paired: bool) -> list[str]:
    """Wins, ties and losses against learners, and against doing nothing."""
    found: list[tuple[Row, Comparison]] = []
    for protocol, (score, better, _) in _SCORES.items():
        for group in groups(record, protocol):
            pairs = ((row, group.against(row, score, better, paired)) for row in group.rows)
            found += [(row, compared) for row, compared in pairs if compared]
    said = []
    for unlearned, what in ((False, "Against other learners"), (True, "Against metrics that learn nothing")):
        tally = Tally.of(compared for row, compared in found if (row.method in UNLEARNED) == unlearned)
        tested = tally.wins + tally.ties + tally.losses
        if tested:
            said.append(
                f"{what}, OAHU is significantly better in {tally.wins}, worse in {tally.losses} and not told apart "
                f"in {tally.ties} of {tested} comparisons."
            )
    return said


def _compared(group: Group, paired: bool) -> list[str]:
    score, better, what = _SCORES[group.protocol]
    rows = [row for row in group.rows if row.summary(score).n]
    place = f"{group.protocol.capitalize()} on {group.title}"
    if not rows:
        return [f"{place}: nothing could be measured."]
    sign = 1 if better == "lower" else -1
    best = min(rows, key=lambda row: sign * row.summary(score).mean)
    ours = group.ours
    if ours is None or ours not in rows:
        return [f"{place}: OAHU has no result. The best is {best.label} with {number(best.summary(score).mean)}."]
    said = f"{place}: OAHU reaches {what} of {number(ours.summary(score).mean)}{_of_paper(group, score)}"
    if len(rows) == 1:
        return [f"{said}; there is nothing to compare it with."]
    if best is ours:
        said += ", the best of all methods."
    else:
        said += f"; the best is {best.label} with {number(best.summary(score).mean)}."
    return [" ".join([said, *_baselines(group, score, better, paired), *_verdicts(group, score, better, paired)])]


def _of_paper(group: Group, score: str) -> str:
    printed = paper.printed(group.dataset, "OAHU", score)
    return f" (the paper: {printed.mean:.2f})" if printed else ""


def _baselines(group: Group, score: str, better: Better, paired: bool) -> list[str]:
    """How it does against doing nothing, also where that is better."""
    said = []
    for method in UNLEARNED:
        row, ours = group.row(method), group.ours
        if row is None or ours is None or not row.summary(score).n:
            continue
        difference = ours.summary(score).mean - row.summary(score).mean
        gain = -difference if better == "lower" else difference
        if abs(gain) < 0.0005:
            words = f"{method}, which learns nothing, does the same"
        else:
            words = f"That is {abs(gain):.3f} {'better' if gain > 0 else 'worse'} than {method}, which learns nothing"
        compared = group.against(row, score, better, paired)
        said.append(f"{words}{_weight(compared)}.")
    return said


def _weight(compared: Comparison | None) -> str:
    if compared is None or compared.verdict is None:
        return " (too few runs for a test)"
    p = p_value(compared.p)
    p = f"p {p[0]} {p[1:]}" if p.startswith("<") else f"p = {p}"
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


def _constraints(group: Group) -> list[str]:
    ours = group.ours
    if ours is None or len(ours.places) < 2:
        return []
    first, last = ours.places[0], ours.places[-1]
    before, after = (ours.summary("error_rate", place).mean for place in (first, last))
    if not isfinite(before - after):
        return []
    move = "falls" if after < before - 0.0005 else "rises" if after > before + 0.0005 else "stays"
    way = f"at {before:.3f}" if move == "stays" else f"from {before:.3f} to {after:.3f}"
    return [f"From {first:,.0f} to {last:,.0f} constraints on {group.title}, the error rate of OAHU {move} {way}."]


def _sensitivity(group: Group) -> list[str]:
    ours = group.ours
    if ours is None or len(ours.places) < 2:
        return []
    vary = dict(group.apart).get("vary", "value")
    found = {place: ours.summary("error_rate", place) for place in ours.places}
    means = {place: 1 - summary.mean for place, summary in found.items() if summary.n}
    if len(means) < 2:
        return []
    best, worst = max(means, key=lambda x: means[x]), min(means, key=lambda x: means[x])
    said = (
        f"Over {vary} on {group.dataset}, the accuracy of OAHU is best at {best:g} ({means[best]:.3f}) and worst at "
        f"{worst:g} ({means[worst]:.3f})."
    )
    return [said + _claim(vary, means)]


def _claim(vary: str, means: dict[float, float]) -> str:
    """What the paper says about it, and whether it is so here."""
    if vary == "tau":
        low, high = ([mean for place, mean in means.items() if (place <= 0.6) == is_low] for is_low in (True, False))
        if low and high:
            lost = sum(low) / len(low) - sum(high) / len(high)
            spread = max(low) - min(low)
            return (
                f" The paper says that it stays the same up to 0.6 and drops beyond: here it moves by {spread:.3f} up "
                f"to 0.6 and is {abs(lost):.3f} {'lower' if lost >= 0 else 'higher'} beyond, on average."
            )
    return " The paper says 50." if vary == "embedding_size" else ""


def _regret(group: Group) -> list[str]:
    ours = group.ours
    if ours is None:
        return []
    regrets, bounds = ours.values("regret"), ours.values("bound")
    both = [(r, b) for r, b in zip(regrets, bounds, strict=True) if isfinite(r) and isfinite(b) and b > 0]
    if not both:
        return []
    below, n = sum(r <= b for r, b in both), len(both)
    shares = [r / b for r, b in both]
    runs = "in the one run" if n == 1 else f"in {below} of {n} runs"
    under = "stays below" if below else "exceeds"
    return [
        f"On {group.title}, the measured regret {under} √(T ln N) {runs}; on average it is {sum(shares) / n:.2f} of it."
    ]


def _list(words: list[str], between: str = ", ") -> str:
    return words[0] if len(words) == 1 else f"{between.join(words[:-1])} and {words[-1]}"
