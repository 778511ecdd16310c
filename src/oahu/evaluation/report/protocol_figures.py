"""Figures of each protocol. Each function returns a figure and its caption, or None if there are no results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu import plots
from oahu.evaluation.report import paper
from oahu.evaluation.report.experiments import LEARNS_NOTHING, Experiment, MethodResults
from oahu.evaluation.report.figure_style import (
    GRID,
    INK,
    MUTED,
    PAPER_COLOR,
    add_end_labels,
    label_axes,
    label_bars,
    legend_below,
    line_style,
    new_axes,
    row_styles,
    set_title,
    thin_out,
)
from oahu.evaluation.statistics import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES"]

Floats = NDArray[np.float64]
Draw = Callable[[Experiment], "tuple[Figure, str] | None"]

_STEPS: Final = (
    ("inputs", "#8f9aa8", "..."),
    ("constraints", "#c9d6ea", ""),
    ("learning", "#30298f", ""),
    ("evaluation", "#e3c98f", "///"),
)


def _error_rates(experiment: Experiment) -> tuple[Figure, str] | None:
    """Draw error rates as dots with bars of one standard deviation, and the paper's numbers as hollow diamonds."""
    rows = experiment.ranked("error_rate", "lower")
    if not rows:
        return None
    figure, (ax,) = new_axes(f"Error rate: {experiment.title}", (6.2, 1.3 + 0.36 * len(rows)))
    styles = row_styles(experiment)
    printed = [paper.printed(experiment.dataset, row.method, "error_rate") for row in rows]
    for y, (row, in_paper) in enumerate(zip(rows, printed, strict=True)):
        summary, style = row.summary("error_rate"), styles[row.label]
        bar = {"elinewidth": 1.8, "capsize": 3.5, "linestyle": "", "markersize": 7.5, "color": style["color"]}
        ax.errorbar(summary.mean, y, xerr=_spread(summary), marker=style["marker"], **bar)
        if in_paper:
            mark: dict[str, Any] = {"marker": "D", "markerfacecolor": "none", "linestyle": "", "markersize": 5.5}
            mark |= {"markeredgecolor": PAPER_COLOR, "ecolor": PAPER_COLOR, "elinewidth": 0.9}
            ax.errorbar(in_paper.mean, y + 0.27, xerr=in_paper.std, **mark)
    label_bars(ax, [row.label for row in rows])
    ax.grid(axis="x", color=GRID, linewidth=0.7)
    ax.xaxis.set_major_formatter("{x:g}")
    label_axes(ax, "error rate (lower is better)", "")
    caption = f"Error rate on {experiment.title}. The best method is first. Bars show one standard deviation."
    if any(printed):
        ax.plot([], [], "D", markerfacecolor="none", markeredgecolor=PAPER_COLOR, label="paper")
        legend_below(figure)
        caption += " Hollow diamonds are the paper's numbers."
    return figure, caption


def _constraint_counts(experiment: Experiment) -> tuple[Figure, str] | None:
    rows, counts = _rows_with(experiment, "error_rate"), experiment.sweep
    if not rows or not counts:
        return None
    figure, (ax,) = new_axes(f"Error by number of constraints: {experiment.title}", (6.6, 4.6))
    styles, ends, has_level = row_styles(experiment), [], False
    width = (counts[-1] - counts[0]) or 1.0
    for i, row in enumerate(rows):
        own, style = [n for n in row.sweep if row.summary("error_rate", n).n], styles[row.label]
        shift = width * 0.002 * (i - len(rows) / 2)  # so that bars do not hide each other
        if not own or len(own) < 2 < len(counts):
            summary, has_level = row.summary("error_rate"), True
            level = {name: style[name] for name in ("color", "linestyle", "linewidth", "zorder")}
            ax.axhline(summary.mean, **level)
            ends.append((summary.mean, row.label, level))
            continue
        means, spreads = _means_and_spreads([row.summary("error_rate", n) for n in own])
        ax.errorbar(np.add(own, shift), means, yerr=spreads, elinewidth=1.0, capsize=2.2, **style)
        ends.append((means[-1], row.label, style))
    ax.set_xlim(counts[0] - 0.03 * width, counts[-1] + 0.03 * width)
    if len(counts) <= 10:
        ax.set_xticks(counts)
        ax.tick_params(axis="x", labelsize=8)
    label_axes(ax, "constraints", "error rate")
    ax.yaxis.set_major_formatter("{x:g}")
    add_end_labels(figure, ax, ends)
    caption = f"Error rate on {experiment.title} by number of constraints. Bars show one standard deviation."
    return (
        figure,
        caption
        + " Horizontal lines show methods that were measured with only one number of constraints." * has_level,
    )


def _click_curve(experiment: Experiment, score: str, name: str) -> tuple[Figure, str] | None:
    """Draw a score by number of clicks: a line for each method, with a band of one standard deviation."""
    rows, numbers = _rows_with(experiment, score), experiment.sweep
    if not rows or not numbers:
        return None
    figure, (ax,) = new_axes(f"{name} by number of clicks: {experiment.title}", (6.8, 4.8))
    styles, ends = row_styles(experiment), []
    for row in rows:
        own, style = [n for n in row.sweep if row.summary(score, n).n], styles[row.label]
        means, spreads = _means_and_spreads([row.summary(score, n) for n in own])
        unlearned = row.method in LEARNS_NOTHING
        if unlearned:
            style = {key: value for key, value in style.items() if not key.startswith("marker")}
        ax.plot(own, means, **style)
        if spreads.any() and not unlearned:
            band: dict[str, Any] = {"alpha": 0.13, "linewidth": 0, "color": style["color"]}
            ax.fill_between(own, means - spreads, means + spreads, **band)
        ends.append((means[-1], row.label, style))
    if len(numbers) > 1:
        ax.set_xscale("log")
    ax.set_xticks(numbers, [f"{n:,.0f}" for n in numbers])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter("{x:g}")
    label_axes(ax, "clicks", name)
    add_end_labels(figure, ax, ends)
    n_runs = max(len(row.outcomes) for row in rows)
    caption = f"{name} on {experiment.title} after different numbers of clicks, on queries without feedback"
    bands = f". Lines are means of {n_runs} runs, bands one standard deviation." if n_runs > 1 else ", one run."
    return figure, caption + bands


def _click_precision(experiment: Experiment) -> tuple[Figure, str] | None:
    return _click_curve(experiment, "precision@10", "Precision@10")


def _click_errors(experiment: Experiment) -> tuple[Figure, str] | None:
    return _click_curve(experiment, "error_rate", "k-NN error")


def _changed_queries(experiment: Experiment) -> tuple[Figure, str] | None:
    """Draw the shares of queries made better (upwards) and worse (downwards) by the last click."""
    rows = [row for row in experiment.ranked("better", "higher") if row.method not in LEARNS_NOTHING]
    if not rows:
        return None
    figure, (ax,) = new_axes(f"Queries better and worse: {experiment.title}", (6.2, 1.3 + 0.36 * len(rows)))
    sides = (("better", 1, "#3fa796", ""), ("worse", -1, "#c1440e", "///"))
    for side, sign, color, hatch in sides:
        values = np.array([row.summary(side).mean for row in rows])
        low, high = (
            np.array([row.summary(f"{side}_{end}", row.sweep[-1]).mean for row in rows]) for end in ("low", "high")
        )
        box: dict[str, Any] = {
            "color": color,
            "edgecolor": "white",
            "hatch": hatch,
            "linewidth": 0.6,
            "height": 0.62,
        }
        errors = np.abs(np.array([values - low, high - values])[:: int(sign)])
        ax.barh(range(len(rows)), 100 * sign * values, label=side, **box)
        line: dict[str, Any] = {"linestyle": "", "color": INK, "elinewidth": 1.0, "capsize": 2.2}
        ax.errorbar(100 * sign * values, range(len(rows)), xerr=100 * errors, **line)
    ax.axvline(0, color=INK, linewidth=0.8)
    label_bars(ax, [row.label for row in rows])
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", color=GRID, linewidth=0.7)
    ax.xaxis.set_major_formatter(lambda x, _: f"{abs(x):g}")
    legend_below(figure)
    label_axes(ax, "percent of the unseen queries: worse to the left, better to the right", "")
    caption = (
        f"Share of unseen queries with a higher (better) or lower (worse) precision@10 than by the unlearned "
        f"ranking, after {experiment.sweep[-1]:,.0f} clicks on {experiment.title}. Bars show 95 % confidence "
        "intervals of one run."
    )
    return figure, caption


def _weights(experiment: Experiment) -> tuple[Figure, str] | None:
    """Draw OAHU's metric weights, averaged over the runs. Runs shorter than the longest run are left out."""
    row = experiment.row("OAHU")
    curves = [] if row is None else row.curves("weights")
    histories = [thin_out(curve["rounds"], curve["weights"]) for curve in curves if len(curve["rounds"]) > 1]
    if not histories:
        return None
    rounds = max((history[0] for history in histories), key=lambda each: float(each[-1]))
    equal = [weights for own_rounds, weights in histories if np.array_equal(own_rounds, rounds)]
    mean = np.mean(equal, axis=0)
    figure, (ax,) = plots.figure(1, size=(6.2, 3.8))
    plots.weights_over_time(ax, rounds, mean)
    set_title(ax, f"Metric weights of OAHU: {experiment.title}")
    label_axes(ax, "constraints learned", "weight, stacked")
    ax.yaxis.set_major_formatter("{x:g}")
    runs = f"mean of {len(equal)} runs" if len(equal) > 1 else "one run"
    caption = f"Metric weights of OAHU on {experiment.title}, {runs}. E0 is the shallowest expert. "
    return figure, caption + f"At the end, E{int(mean[-1].argmax())} has the largest weight, {mean[-1].max():.2f}."


def _roc(experiment: Experiment) -> tuple[Figure, str] | None:
    """Draw ROC curves: the true accept rate at each false accept rate, averaged over the folds."""
    rows = [row for row in experiment.rows if row.curves("roc")]
    if not rows:
        return None
    figure, (ax,) = new_axes(f"ROC: {experiment.title}", (6.4, 4.6))
    styles = row_styles(experiment)
    far = np.unique(np.concatenate([np.linspace(0, 1, 201), np.geomspace(1e-3, 0.1, 60)]))
    ax.plot([0, 1], [0, 1], ":", color=MUTED, linewidth=1)
    for row in sorted(rows, key=lambda row: -row.summary("auc").mean):
        mean = np.mean([_true_accept_rates(curve, far) for curve in row.curves("roc")], axis=0)
        auc = row.summary("auc")
        ax.plot(far, mean, label="?", markevery=(0.05, 0.11), **styles[row.label])
        ax.lines[-1].set_gid(f"{row.label}  {auc.mean:.3f}" if auc.n else row.label)
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    ax.xaxis.set_major_formatter("{x:g}")
    label_axes(ax, "false accept rate", "true accept rate, mean of the folds")
    legend = ax.legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="center left", bbox_to_anchor=(1.0, 0.5))
    legend.set_title("AUC")
    for text, line in zip(legend.get_texts(), ax.lines[1:], strict=True):
        text.set(text=line.get_gid(), parse_math=False)
    return (
        figure,
        f"ROC curves on {experiment.title}, mean of the folds. The legend shows the mean AUC. The best "
        f"method is first.",
    )


def _true_accept_rates(curve: Mapping[str, Any], far: Floats) -> Floats:
    """Return the true accept rates of a ROC curve at the false accept rates ``far``, by interpolation.

    If the curve has several true accept rates at one false accept rate, the highest one is returned.
    """
    x, y = np.asarray(curve["far"], dtype=float), np.asarray(curve["tar"], dtype=float)
    order = np.lexsort((y, x))
    x, y = np.r_[0.0, x[order], 1.0], np.r_[0.0, y[order], 1.0]
    last = np.searchsorted(x, far, side="right") - 1
    after = np.minimum(last + 1, len(x) - 1)
    gap = x[after] - x[last]
    share = np.divide(far - x[last], gap, out=np.zeros_like(far), where=gap > 0)
    rates: Floats = y[last] + share * (y[after] - y[last])
    return rates


def _auc_per_fold(experiment: Experiment) -> tuple[Figure, str] | None:
    """Draw the AUC of each method: a marker for each fold, and a line at the mean."""
    rows = experiment.ranked("auc", "higher")
    if not rows:
        return None
    figure, (ax,) = new_axes(f"AUC per fold: {experiment.title}", (6.2, 1.3 + 0.36 * len(rows)))
    styles = row_styles(experiment)
    for y, row in enumerate(rows):
        values = [value for value in row.values("auc") if isfinite(value)]
        style = styles[row.label]
        ax.plot(values, [y] * len(values), linestyle="", marker=style["marker"], color=style["color"], alpha=0.55)
        ax.plot([np.mean(values)] * 2, [y - 0.3, y + 0.3], color=INK, linewidth=2)
    label_bars(ax, [row.label for row in rows])
    ax.grid(axis="x", color=GRID, linewidth=0.7)
    ax.xaxis.set_major_formatter("{x:g}")
    label_axes(ax, "AUC (higher is better)", "")
    return (
        figure,
        f"AUC on {experiment.title}: a marker for each fold and a vertical line at the mean. The best "
        f"method is first.",
    )


def _recall(experiment: Experiment) -> tuple[Figure, str] | None:
    names = {name for row in experiment.rows for outcome in row.outcomes for name in outcome.scores}
    depths = sorted(int(name[7:]) for name in names if name.startswith("recall@") and name[7:].isdigit())
    if not depths:
        return None
    figure, (ax,) = new_axes(f"Recall@K: {experiment.title}", (6.6, 4.6))
    styles, ends = row_styles(experiment), []
    for row in experiment.rows:
        found = [(k, row.summary(f"recall@{k}")) for k in depths if row.summary(f"recall@{k}").n]
        if found:
            means, spreads = _means_and_spreads([summary for _, summary in found])
            style = styles[row.label]
            ax.errorbar([k for k, _ in found], means, yerr=spreads, elinewidth=1.0, capsize=2.2, **style)
            ends.append((means[-1], row.label, style))
    ax.set_xscale("log", base=2)
    ax.set_xticks(depths, [str(k) for k in depths])
    ax.minorticks_off()
    label_axes(ax, "K", "Recall@K")
    add_end_labels(figure, ax, ends)
    caption = (
        f"Recall@K on {experiment.title}: share of queries with an item of their class in the first K matches."
    )
    return figure, caption


def _sensitivity(experiment: Experiment) -> tuple[Figure, str] | None:
    rows = [row for row in _rows_with(experiment, "error_rate") if row.sweep]
    if not rows:
        return None
    parameter = dict(experiment.variant).get("vary", "value")
    symbol = {"tau": "τ", "embedding_size": "embedding size"}.get(parameter, parameter)
    figure, axes = new_axes(f"Accuracy by {symbol}: {experiment.dataset}", (6.2, 2.9), rows=2)
    styles = row_styles(experiment)
    set_title(axes[1], f"Macro F1 by {symbol}: {experiment.dataset}")
    for ax, score, name in zip(axes, ("error_rate", "macro_f1"), ("accuracy", "macro F1"), strict=True):
        for row in rows:
            means, spreads = _means_and_spreads([row.summary(score, value) for value in row.sweep])
            heights = 1 - means if score == "error_rate" else means
            bars: dict[str, Any] = {"elinewidth": 1.0, "capsize": 2.2, "capthick": 1.0, "label": row.label}
            ax.errorbar(row.sweep, heights, yerr=spreads, **bars, **styles[row.label])
        ax.set_xticks(experiment.sweep)
        ax.xaxis.set_major_formatter("{x:g}")
        label_axes(ax, symbol, name)
        if parameter == "tau":
            _mark_two_thirds(ax)
    if len(rows) > 1:
        axes[0].legend(frameon=False, fontsize=8.5, labelcolor=INK)
    theorem = " The paper's theorem requires τ below 2/3." if parameter == "tau" else ""
    return figure, f"Accuracy and macro F1 on {experiment.title} for different values of {symbol}.{theorem}"


def _mark_two_thirds(ax: Axes) -> None:
    ax.axvline(2 / 3, color=MUTED, linestyle=":", linewidth=1.2)
    ax.annotate("2/3", (2 / 3, 0.02), (3, 0), ("data", "axes fraction"), "offset points", fontsize=8, color=MUTED)


def _regret(experiment: Experiment) -> tuple[Figure, str] | None:
    curves = [curve for row in experiment.rows for curve in row.curves("regret") if len(curve["rounds"]) > 1]
    if not curves:
        return None
    figure, (ax,) = new_axes(f"Regret: {experiment.title}", (6.4, 4.0))
    color = line_style("OAHU", "OAHU")["color"]
    line: dict[str, Any] = {"color": color, "linewidth": 1.4, "alpha": 0.5 if len(curves) > 1 else 1.0}
    for curve in curves:
        ax.plot(*thin_out(curve["rounds"], curve["regret"]), **line)
    longest = max(curves, key=lambda curve: curve["rounds"][-1])
    bound: dict[str, Any] = {"color": PAPER_COLOR, "linestyle": (0, (5, 2)), "linewidth": 1.8}
    ax.plot(*thin_out(longest["rounds"], longest["bound"]), **bound)
    ax.axhline(0, color=MUTED, linewidth=0.8)
    ax.set_xlim(0, longest["rounds"][-1])
    ax.yaxis.set_major_formatter("{x:,g}")
    label_axes(ax, "constraints learned, T", "regret against the best expert")
    mean_end = float(np.mean([curve["regret"][-1] for curve in curves]))
    ends = [(mean_end, "measured", line | {"alpha": 1.0}), (longest["bound"][-1], "√(T ln N)", bound)]
    add_end_labels(figure, ax, ends)
    runs = f"{len(curves)} runs" if len(curves) > 1 else "one run"
    measured = (
        f"Measured regret on {experiment.title}, {runs}, relative to the single expert that was best in hindsight"
    )
    return figure, f"{measured}. The dashed line is √(T ln N)."


def _time(experiment: Experiment) -> tuple[Figure, str] | None:
    rows = [row for row in experiment.rows if any(s > 0 for step, _, _ in _STEPS for s in row.seconds(step))]
    if not rows:
        return None
    figure, (ax,) = new_axes(f"Time of a run: {experiment.title}", (6.2, 1.3 + 0.36 * len(rows)))
    ends = np.zeros(len(rows))
    for step, color, hatch in _STEPS:
        spent = np.nan_to_num([np.mean([s for s in row.seconds(step) if isfinite(s)] or [0.0]) for row in rows])
        if not spent.any():
            continue
        box: dict[str, Any] = {"color": color, "edgecolor": "white", "hatch": hatch}
        ax.barh(range(len(rows)), spent, left=ends, label=step, linewidth=0.6, height=0.62, **box)
        ends = ends + spent
    text: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": INK}
    for y, total in enumerate(ends):
        ax.annotate(_format_seconds(total), (total, y), (4, 0), **text)
    label_bars(ax, [row.label for row in rows])
    ax.grid(axis="y", visible=False)
    ax.set_xlim(0, 1.12 * (ends.max() or 1.0))
    ax.xaxis.set_major_formatter("{x:g}")
    legend_below(figure)
    label_axes(ax, "seconds, mean of the runs", "")
    return figure, f"Seconds per run on {experiment.title}, by step. Compilation is not included."


def _format_seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2g} s"


def _rows_with(experiment: Experiment, score: str) -> list[MethodResults]:
    return [row for row in experiment.rows if row.summary(score).n]


def _spread(summary: Summary) -> float:
    return summary.std if summary.n > 1 else 0.0


def _means_and_spreads(summaries: list[Summary]) -> tuple[Floats, Floats]:
    return np.array([summary.mean for summary in summaries]), np.array(list(map(_spread, summaries)))


#: The figures of each protocol, by the last word of their file names.
FIGURES: Final[Mapping[str, Mapping[str, Draw]]] = {
    "classification": {"errors": _error_rates, "weights": _weights, "time": _time},
    "constraints": {"constraints": _constraint_counts, "weights": _weights},
    "verification": {"roc": _roc, "auc": _auc_per_fold, "weights": _weights, "time": _time},
    "retrieval": {"recall": _recall, "weights": _weights, "time": _time},
    "sensitivity": {"sensitivity": _sensitivity},
    "regret": {"regret": _regret},
    "clicks": {"precision": _click_precision, "errors": _click_errors, "changed": _changed_queries, "time": _time},
}
