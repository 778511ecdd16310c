"""Results as pictures, each as PNG and as SVG. Needs matplotlib: the extra ``plots``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu import plots
from oahu.evaluation.cells import Record
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.report import paper
from oahu.evaluation.report.groups import METHODS, PROTOCOLS, Group, Row, groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Drawing", "draw_all", "draw_group", "images_of", "pair_examples", "retrieval_examples", "style"]

Floats = NDArray[np.float64]

_INK, _MUTED, _FAINT = "#1b2a41", "#687482", "#e4e7eb"
_PAPER: Final = "#a08020"
# Far apart for every kind of eye; in grey, markers and dashes still tell.
_COLORS: Final = ("#30298f", "#cc6677", "#117733", "#aa4499", "#d39a1f", "#4aa3d6", "#3fa796", "#8a8a2a")
_COLORS_UNLEARNED: Final = ("#444444", "#8c8c8c")
_COLORS_OTHER: Final = ("#882255", "#6b3d1e", "#5c7fb0", "#b5532d")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", "*", "p", ">", "h", "d", "8")
_DASHES: Final[tuple[Any, ...]] = ("-", (0, (6, 2)), (0, (2, 1)), (0, (6, 2, 1, 2)), (0, (1, 1.2)))
_PARTS: Final = (
    ("inputs", "#8f9aa8", "..."),
    ("constraints", "#c9d6ea", ""),
    ("learning", "#30298f", ""),
    ("evaluation", "#e3c98f", "///"),
)
_PICTURES: Final = (".jpg", ".jpeg", ".png")
_MOST = 400  # points of a line: more cannot be seen


@dataclass(frozen=True)
class Drawing:
    """A figure that was drawn.

    Attributes
    ----------
    name, caption : str
    stem : Path
        Its files without their endings, .png and .svg.
    group : str
        The slug of the group it belongs to.
    """

    name: str
    caption: str
    stem: Path
    group: str


def draw_all(record: Record, folder: Path, datasets: Mapping[str, Dataset] | None = None) -> list[Drawing]:
    """Draw whatever there are results for into ``folder``; example sheets for data sets that have images."""
    known = {} if datasets is None else datasets
    drawn: list[Drawing] = []
    for protocol in PROTOCOLS:
        for group in groups(record, protocol):
            drawn += draw_group(group, folder, known.get(group.dataset))
    return drawn


def draw_group(group: Group, folder: Path, dataset: Dataset | None = None) -> list[Drawing]:
    """The figures of one group."""
    kinds: dict[str, list[_Kind]] = {
        "classification": [("errors", _errors), ("weights", _weights), ("time", _time)],
        "constraints": [("constraints", _constraints), ("weights", _weights)],
        "verification": [("roc", _roc), ("auc", _auc), ("weights", _weights), ("time", _time)],
        "retrieval": [("recall", _recall), ("weights", _weights), ("time", _time)],
        "sensitivity": [("sensitivity", _sensitivity)],
        "regret": [("regret", _regret)],
    }
    drawn = []
    for name, draw in kinds[group.protocol]:
        if made := draw(group):
            drawn.append(_save(group, name, made, folder))
    for name, sheet, caption in _sheets(group, dataset):
        drawn.append(_save(group, name, (sheet, caption), folder))
    return drawn


_Kind = tuple[str, Callable[[Group], "tuple[Figure, str] | None"]]


def _save(group: Group, name: str, made: tuple[Figure, str], folder: Path) -> Drawing:
    figure, caption = made
    stem = folder / f"{group.slug}-{name}"
    plots.save(figure, stem)
    return Drawing(stem.name, caption, stem, group.slug)


# -- looks -----------------------------------------------------------------------------------------------


def style(row_or_method: Row | str, others: Sequence[str] = ()) -> dict[str, Any]:
    """How a method's line is drawn, in every figure the same; ``others`` are the methods that are not ours."""
    method = row_or_method.method if isinstance(row_or_method, Row) else row_or_method
    if method in METHODS:
        place = METHODS.index(method)
        color = (*_COLORS, *_COLORS_UNLEARNED)[place]
    else:
        which = others.index(method) if method in others else 0
        place, color = len(METHODS) + which, _COLORS_OTHER[which % len(_COLORS_OTHER)]
    ours = method == "OAHU"
    return {
        "color": color,
        "marker": _MARKERS[place % len(_MARKERS)],
        "linestyle": "-" if ours else _DASHES[1 + place % (len(_DASHES) - 1)],
        "linewidth": 2.6 if ours else 1.5,
        "markersize": 6.0 if ours else 4.8,
        "markeredgecolor": "white" if ours else color,
        "markeredgewidth": 0.6,
        "zorder": 5 if ours else 3,
    }


def _styles(group: Group) -> dict[str, dict[str, Any]]:
    """Of each row; a second row of one method has hollow markers."""
    others = [name for name in dict.fromkeys(row.method for row in group.rows) if name not in METHODS]
    found: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for row in group.rows:
        look = style(row, others)
        if row.method in seen:
            look |= {"markerfacecolor": "white", "markeredgecolor": look["color"], "markeredgewidth": 1.0}
        seen.add(row.method)
        found[row.label] = look
    return found


def _axes(title: str, size: tuple[float, float] = (6.4, 4.0), rows: int = 1) -> tuple[Figure, list[Axes]]:
    figure, axes = plots.figure(rows=rows, size=size)
    for ax in axes:
        ax.grid(axis="y", color=_FAINT, linewidth=0.7)
        ax.set_axisbelow(True)
    _title(axes[0], title)
    return figure, axes


def _title(ax: Axes, text: str) -> None:
    made = ax.set_title("", loc="left", fontsize=11, color=_INK, fontweight="bold", pad=10)
    made.set(text=fill(text, 60), parse_math=False)


def _names(ax: Axes, x: str, y: str) -> None:
    ax.set_xlabel(x, fontsize=9, color=_INK)
    ax.set_ylabel(y, fontsize=9, color=_INK)


def _end_labels(figure: Figure, ax: Axes, ends: list[tuple[float, str, dict[str, Any]]]) -> None:
    if ends:
        figure.draw_without_rendering()  # the layout decides how far apart letters are
        heights, names, styles = zip(*ends, strict=True)
        plots.end_labels(ax, heights, names, styles)


def _bar_names(ax: Axes, names: Sequence[str]) -> None:
    ax.set_yticks(range(len(names)), names, parse_math=False, fontsize=9, color=_INK)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _key_below(figure: Figure) -> None:
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8.5, labelcolor=_INK)


def _thin(*arrays: Any) -> list[Floats]:
    n = min(len(array) for array in arrays)
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MOST)).round().astype(int))
    return [np.asarray(array, dtype=float)[chosen] for array in arrays]


def _with(group: Group, score: str) -> list[Row]:
    return [row for row in group.rows if row.summary(score).n]


# -- a figure for each kind of result --------------------------------------------------------------------


def _errors(group: Group) -> tuple[Figure, str] | None:
    """Dots with bars of one standard deviation, the paper's as a hollow diamond."""
    rows = sorted(_with(group, "error_rate"), key=lambda row: row.summary("error_rate").mean)
    if not rows:
        return None
    figure, (ax,) = _axes(f"Error rate: {group.title}", (6.2, 1.3 + 0.36 * len(rows)))
    looks = _styles(group)
    printed = [paper.printed(group.dataset, row.method, "error_rate") for row in rows]
    for y, (row, theirs) in enumerate(zip(rows, printed, strict=True)):
        summary, look = row.summary("error_rate"), looks[row.label]
        spread = summary.std if summary.n > 1 else 0.0
        bar = {"elinewidth": 1.8, "capsize": 3.5, "linestyle": "", "markersize": 7.5, "color": look["color"]}
        ax.errorbar(summary.mean, y, xerr=spread, marker=look["marker"], **bar)
        if theirs:
            mark: dict[str, Any] = {
                "marker": "D",
                "markerfacecolor": "none",
                "markeredgecolor": _PAPER,
                "linestyle": "",
            }
            ax.errorbar(
                theirs.mean, y + 0.27, xerr=theirs.std, ecolor=_PAPER, elinewidth=0.9, markersize=5.5, **mark
            )
    _bar_names(ax, [row.label for row in rows])
    ax.grid(axis="x", color=_FAINT, linewidth=0.7)
    ax.xaxis.set_major_formatter("{x:g}")
    _names(ax, "error rate (further left is better)", "")
    caption = f"Error rate on {group.title}, best first, with bars of one standard deviation."
    if any(printed):
        ax.plot([], [], "D", markerfacecolor="none", markeredgecolor=_PAPER, label="the paper's")
        _key_below(figure)
        caption += " Hollow diamonds are what the paper prints."
    return figure, caption


def _constraints(group: Group) -> tuple[Figure, str] | None:
    rows, places = _with(group, "error_rate"), group.places
    if not rows or not places:
        return None
    figure, (ax,) = _axes(f"Error by number of constraints: {group.title}", (6.6, 4.6))
    looks, ends, level = _styles(group), [], False
    width = (places[-1] - places[0]) or 1.0
    for i, row in enumerate(rows):
        own, look = [place for place in row.places if row.summary("error_rate", place).n], looks[row.label]
        shift = width * 0.002 * (i - len(rows) / 2)  # so that bars do not hide each other
        if not own or len(own) < 2 < len(places):
            summary, level = row.summary("error_rate"), True
            ax.axhline(summary.mean, **_bare(look))
            ends.append((summary.mean, row.label, _bare(look)))
            continue
        summaries = [row.summary("error_rate", place) for place in own]
        means, spreads = _means(summaries)
        ax.errorbar(np.add(own, shift), means, yerr=spreads, elinewidth=1.0, capsize=2.2, **look)
        ends.append((means[-1], row.label, look))
    ax.set_xlim(places[0] - 0.03 * width, places[-1] + 0.03 * width)
    if len(places) <= 10:
        ax.set_xticks(places)
        ax.tick_params(axis="x", labelsize=8)
    _names(ax, "constraints", "error rate")
    ax.yaxis.set_major_formatter("{x:g}")
    _end_labels(figure, ax, ends)
    caption = f"Error rate on {group.title} against the number of constraints, with bars of one standard deviation."
    return figure, caption + " A level line is a method that was measured once." * level


def _weights(group: Group) -> tuple[Figure, str] | None:
    """Where the weights were: the mean of the runs that were watched at the same rounds as the longest."""
    curves = [] if group.ours is None else group.ours.curves("weights")
    watched = [_thin(curve["rounds"], curve["weights"]) for curve in curves if len(curve["rounds"]) > 1]
    if not watched:
        return None
    rounds = max((curve[0] for curve in watched), key=lambda each: float(each[-1]))
    alike = [weights for each, weights in watched if np.array_equal(each, rounds)]
    mean = np.mean(alike, axis=0)
    figure, (ax,) = plots.figure(1, size=(6.2, 3.8))
    plots.weights_over_time(ax, rounds, mean)
    _title(ax, f"Metric weights of OAHU: {group.title}")
    _names(ax, "constraints learned", "weight, stacked")
    ax.yaxis.set_major_formatter("{x:g}")
    over = f"the mean of {len(alike)} runs" if len(alike) > 1 else "one run"
    caption = f"Metric weights of OAHU on {group.title}, {over}: E0 is the shallowest metric. "
    return figure, caption + f"In the end E{int(mean[-1].argmax())} weighs most, {mean[-1].max():.2f}."


def _roc(group: Group) -> tuple[Figure, str] | None:
    """Mean true accept rate of the folds at each false accept rate."""
    rows = [row for row in group.rows if row.curves("roc")]
    if not rows:
        return None
    figure, (ax,) = _axes(f"ROC: {group.title}", (6.4, 4.6))
    looks = _styles(group)
    far = np.unique(np.concatenate([np.linspace(0, 1, 201), np.geomspace(1e-3, 0.1, 60)]))
    ax.plot([0, 1], [0, 1], ":", color=_MUTED, linewidth=1)
    for row in sorted(rows, key=lambda row: -row.summary("auc").mean):
        mean = np.mean([_true_rate(curve, far) for curve in row.curves("roc")], axis=0)
        auc = row.summary("auc")
        label = f"{row.label}  {auc.mean:.3f}" if auc.n else row.label
        ax.plot(far, mean, label="?", markevery=(0.05, 0.11), **looks[row.label])
        ax.lines[-1].set_gid(label)
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    ax.xaxis.set_major_formatter("{x:g}")
    _names(ax, "false accept rate", "true accept rate, mean of the folds")
    legend = ax.legend(frameon=False, fontsize=8.5, labelcolor=_INK, loc="center left", bbox_to_anchor=(1.0, 0.5))
    legend.set_title("AUC")
    named = [line.get_gid() for line in ax.lines[1:]]
    for text, name in zip(legend.get_texts(), named, strict=True):
        text.set(text=name, parse_math=False)
    return figure, f"ROC curves on {group.title}, the mean over folds; beside each method its mean AUC, best first."


def _true_rate(curve: Mapping[str, Any], far: Floats) -> Floats:
    x, y = np.asarray(curve["far"], dtype=float), np.asarray(curve["tar"], dtype=float)
    order = np.lexsort((y, x))
    x, y = np.r_[0.0, x[order], 1.0], np.r_[0.0, y[order], 1.0]
    last = np.searchsorted(x, far, side="right") - 1  # of a vertical step, its upper end
    after = np.minimum(last + 1, len(x) - 1)
    gap = x[after] - x[last]
    share = np.divide(far - x[last], gap, out=np.zeros_like(far), where=gap > 0)
    found: Floats = y[last] + share * (y[after] - y[last])
    return found


def _auc(group: Group) -> tuple[Figure, str] | None:
    """A dot for each fold, the mean as a bar."""
    rows = sorted(_with(group, "auc"), key=lambda row: -row.summary("auc").mean)
    if not rows:
        return None
    figure, (ax,) = _axes(f"AUC per fold: {group.title}", (6.2, 1.3 + 0.36 * len(rows)))
    looks = _styles(group)
    for y, row in enumerate(rows):
        values = [value for value in row.values("auc") if isfinite(value)]
        look = looks[row.label]
        ax.plot(values, [y] * len(values), linestyle="", marker=look["marker"], color=look["color"], alpha=0.55)
        ax.plot([np.mean(values)] * 2, [y - 0.3, y + 0.3], color=_INK, linewidth=2)
    _bar_names(ax, [row.label for row in rows])
    ax.grid(axis="x", color=_FAINT, linewidth=0.7)
    ax.xaxis.set_major_formatter("{x:g}")
    _names(ax, "AUC (further right is better)", "")
    return figure, f"AUC on {group.title}: a mark for each fold, an upright line at their mean, best first."


def _recall(group: Group) -> tuple[Figure, str] | None:
    names = {name for row in group.rows for outcome in row.outcomes for name in outcome.scores}
    depths = sorted(int(name[7:]) for name in names if name.startswith("recall@") and name[7:].isdigit())
    if not depths:
        return None
    figure, (ax,) = _axes(f"Recall@K: {group.title}", (6.6, 4.6))
    looks, ends = _styles(group), []
    for row in group.rows:
        found = [(k, row.summary(f"recall@{k}")) for k in depths if row.summary(f"recall@{k}").n]
        if found:
            ks, (means, spreads) = [k for k, _ in found], _means([summary for _, summary in found])
            ax.errorbar(ks, means, yerr=spreads, elinewidth=1.0, capsize=2.2, **looks[row.label])
            ends.append((means[-1], row.label, looks[row.label]))
    ax.set_xscale("log", base=2)
    ax.set_xticks(depths, [str(k) for k in depths])
    ax.minorticks_off()
    _names(ax, "K", "Recall@K")
    _end_labels(figure, ax, ends)
    return figure, f"Recall@K on {group.title}: how many queries find their own class among the first K."


def _sensitivity(group: Group) -> tuple[Figure, str] | None:
    rows = [row for row in _with(group, "error_rate") if row.places]
    if not rows:
        return None
    vary = dict(group.apart).get("vary", "value")
    shown = {"tau": "τ", "embedding_size": "embedding size"}.get(vary, vary)
    figure, axes = _axes(f"Accuracy by {shown}: {group.dataset}", (6.2, 2.9), rows=2)
    looks = _styles(group)
    _title(axes[1], f"Macro F1 by {shown}: {group.dataset}")
    for ax, score, name in zip(axes, ("error_rate", "macro_f1"), ("accuracy", "macro F1"), strict=True):
        for row in rows:
            means, spreads = _means([row.summary(score, place) for place in row.places])
            heights = 1 - means if score == "error_rate" else means
            ax.errorbar(
                row.places,
                heights,
                yerr=spreads,
                elinewidth=1.0,
                capsize=2.2,
                capthick=1.0,
                label=row.label,
                **looks[row.label],
            )
        ax.set_xticks(group.places)
        ax.xaxis.set_major_formatter("{x:g}")
        _names(ax, shown, name)
        if vary == "tau":
            _threshold(ax)
    if len(rows) > 1:
        axes[0].legend(frameon=False, fontsize=8.5, labelcolor=_INK)
    words = " The theorem of the paper asks for τ below 2/3." if vary == "tau" else ""
    return figure, f"Accuracy and macro F1 on {group.title} as {shown} changes.{words}"


def _threshold(ax: Axes) -> None:
    ax.axvline(2 / 3, color=_MUTED, linestyle=":", linewidth=1.2)
    ax.annotate("2/3", (2 / 3, 0.02), (3, 0), ("data", "axes fraction"), "offset points", fontsize=8, color=_MUTED)


def _regret(group: Group) -> tuple[Figure, str] | None:
    curves = [curve for row in group.rows for curve in row.curves("regret") if len(curve["rounds"]) > 1]
    if not curves:
        return None
    figure, (ax,) = _axes(f"Regret: {group.title}", (6.4, 4.0))
    looks = style("OAHU")
    ends: list[tuple[float, str, dict[str, Any]]] = []
    for i, curve in enumerate(curves):
        rounds, regret = _thin(curve["rounds"], curve["regret"])
        line: dict[str, Any] = {"color": looks["color"], "linewidth": 1.4, "alpha": 0.5 if len(curves) > 1 else 1.0}
        ax.plot(rounds, regret, **line)
        if i == 0:
            ends.append((float(np.mean([c["regret"][-1] for c in curves])), "measured", line | {"alpha": 1.0}))
    longest = max(curves, key=lambda curve: curve["rounds"][-1])
    bound: dict[str, Any] = {"color": _PAPER, "linestyle": (0, (5, 2)), "linewidth": 1.8}
    ax.plot(*_thin(longest["rounds"], longest["bound"]), **bound)
    ends.append((longest["bound"][-1], "√(T ln N)", bound))
    ax.axhline(0, color=_MUTED, linewidth=0.8)
    ax.set_xlim(0, longest["rounds"][-1])
    ax.yaxis.set_major_formatter("{x:,g}")
    _names(ax, "constraints learned, T", "regret against the best expert")
    _end_labels(figure, ax, ends)
    runs = f"{len(curves)} runs" if len(curves) > 1 else "one run"
    measured = f"Measured regret on {group.title}, {runs}, against the best single expert in hindsight"
    return figure, f"{measured}; dashed, √(T ln N)."


def _time(group: Group) -> tuple[Figure, str] | None:
    rows = [row for row in group.rows if any(s > 0 for part, _, _ in _PARTS for s in row.seconds(part))]
    if not rows:
        return None
    figure, (ax,) = _axes(f"Time of a run: {group.title}", (6.2, 1.3 + 0.36 * len(rows)))
    ends = np.zeros(len(rows))
    for part, color, hatch in _PARTS:
        spent = np.nan_to_num([np.mean([s for s in row.seconds(part) if isfinite(s)] or [0.0]) for row in rows])
        if not spent.any():
            continue
        box: dict[str, Any] = {
            "color": color,
            "edgecolor": "white",
            "hatch": hatch,
            "linewidth": 0.6,
            "height": 0.62,
        }
        ax.barh(range(len(rows)), spent, left=ends, label=part, **box)
        ends = ends + spent
    for y, total in enumerate(ends):
        ax.annotate(
            _short(total), (total, y), (4, 0), textcoords="offset points", va="center", fontsize=8, color=_INK
        )
    _bar_names(ax, [row.label for row in rows])
    ax.grid(axis="y", visible=False)
    ax.set_xlim(0, 1.12 * (ends.max() or 1.0))
    ax.xaxis.set_major_formatter("{x:g}")
    _key_below(figure)
    _names(ax, "seconds, mean of the runs", "")
    return figure, f"Where the time of a run went on {group.title}, in seconds."


def _short(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2g} s"


def _means(summaries: list[Any]) -> tuple[Floats, Floats]:
    """Means, and spreads with 0 where one run has none."""
    return np.array([s.mean for s in summaries]), np.array([s.std if s.n > 1 else 0.0 for s in summaries])


def _bare(look: dict[str, Any]) -> dict[str, Any]:
    return {name: look[name] for name in ("color", "linestyle", "linewidth", "zorder")}


# -- example sheets --------------------------------------------------------------------------------------


def images_of(dataset: Dataset | None, names: Iterable[Any]) -> dict[Any, Floats]:
    """The images of items, by the keys or the row numbers that they are asked by; none if there are no images."""
    rows = {} if dataset is None else _rows(dataset, names)
    if dataset is None or not rows:
        return {}
    if dataset.image_shape is not None:
        return dict(zip(rows, plots.as_images(dataset.X[list(rows.values())], dataset.image_shape), strict=True))
    if dataset.pictures is None or dataset.keys is None:
        return {}
    found = [path for path in sorted(dataset.pictures.rglob("*")) if path.suffix.lower() in _PICTURES]
    files = {name: path for path in found for name in (path.stem, path.name)}
    wanted = {name: str(dataset.keys[row]) for name, row in rows.items()}
    return {name: plots.read_image(files[key]) for name, key in wanted.items() if key in files}


def _rows(dataset: Dataset, names: Iterable[Any]) -> dict[Any, int]:
    """Where items are: whole numbers are rows, words are keys; those that are not there are left out."""
    known = {} if dataset.keys is None else {str(key): row for row, key in enumerate(dataset.keys)}
    found = {name: name if isinstance(name, int) else known.get(name, -1) for name in names}
    return {name: row for name, row in found.items() if 0 <= row < len(dataset)}


def pair_examples(examples: Mapping[str, Any], dataset: Dataset | None) -> Figure | None:
    """Pairs that were judged right and wrong, with the vote share of each; None without their images.

    An entry has ``a`` and ``b``, keys or row numbers, ``same`` and ``vote_share``.
    """
    entries = [(entry, kind == "right") for kind in ("right", "wrong") for entry in examples.get(kind) or ()]
    images = images_of(dataset, [entry[side] for entry, _ in entries for side in "ab"])
    shown = [(entry, right) for entry, right in entries if {entry["a"], entry["b"]} <= images.keys()]
    if not shown:
        return None
    pairs = [(images[entry["a"]], images[entry["b"]]) for entry, _ in shown]
    words = [f"{'same' if entry['same'] else 'different'}, P = {entry['vote_share']:.2f}" for entry, _ in shown]
    return plots.pair_sheet(pairs, words, [right for _, right in shown])


def retrieval_examples(examples: Mapping[str, Any], dataset: Dataset | None) -> Figure | None:
    """Queries that found their class first and queries that did not; None without their images.

    An entry has ``query`` and ``found``, nearest first, keys or row numbers; right is what has the query's label.
    """
    entries = [entry for kind in ("right", "wrong") for entry in examples.get(kind) or ()]
    images = images_of(dataset, [name for entry in entries for name in (entry["query"], *entry["found"])])
    shown = [entry for entry in entries if {entry["query"], *entry["found"]} <= images.keys()]
    if not shown or dataset is None:
        return None
    label = {name: dataset.y[row] for name, row in _rows(dataset, images).items()}
    right = [[bool(label[name] == label[entry["query"]]) for name in entry["found"]] for entry in shown]
    queries = [images[entry["query"]] for entry in shown]
    return plots.contact_sheet(queries, [[images[name] for name in entry["found"]] for entry in shown], right=right)


def _sheets(group: Group, dataset: Dataset | None) -> Iterable[tuple[str, Figure, str]]:
    """The examples of OAHU, of the first run that has some."""
    kinds: dict[str, tuple[Any, str]] = {
        "verification": (pair_examples, "Pairs that OAHU judged right (solid green) and wrong (dashed red)"),
        "retrieval": (
            retrieval_examples,
            "Queries and what OAHU found: their class in solid green, others dashed red",
        ),
    }
    found = group.ours.curves("examples") if group.ours else []
    if found and group.protocol in kinds:
        draw, caption = kinds[group.protocol]
        sheet = draw(found[0], dataset)
        if sheet is not None:
            yield "examples", sheet, f"{caption}, {group.title}."
