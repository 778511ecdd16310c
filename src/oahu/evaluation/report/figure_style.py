"""Common style of the report's figures: colours, markers, axes and labels."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu import plots
from oahu.evaluation.protocols.methods import DEFAULT_METHODS
from oahu.evaluation.report.experiments import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GRID", "INK", "MUTED", "PAPER_COLOR", "add_end_labels", "label_axes", "label_bars", "legend_below"]
__all__ += ["line_style", "new_axes", "row_styles", "set_title", "thin_out"]

INK, MUTED, GRID = "#1b2a41", "#687482", "#e4e7eb"
PAPER_COLOR: Final = "#a08020"  # colour of the paper's numbers
# Colours that stay distinct with colour blindness; markers and dashes distinguish them in greyscale.
_COLORS: Final = (
    "#c1440e", "#30298f", "#cc6677", "#117733", "#aa4499", "#d39a1f", "#4aa3d6", "#3fa796", "#8a8a2a",
)  # fmt: skip
_COLORS_UNLEARNED: Final = ("#444444", "#8c8c8c")
_COLORS_OTHER: Final = ("#882255", "#6b3d1e", "#5c7fb0", "#b5532d")
_MARKERS: Final = ("H", "o", "s", "^", "D", "v", "P", "X", "<", "*", "p", ">", "h", "d", "8")
_DASHES: Final[tuple[Any, ...]] = ((0, (6, 2)), (0, (2, 1)), (0, (6, 2, 1, 2)), (0, (1, 1.2)))
_MAX_POINTS: Final = 400


def line_style(method: str, reference: str, others: Sequence[str] = ()) -> dict[str, Any]:
    """Return the line style of a method. Only the reference method has a solid line.

    A method that `oahu bench` compares by default has the same style in every figure. ``others`` lists the methods
    in the figure that are not compared by default. Their styles depend on their order in this list.
    """
    if method in DEFAULT_METHODS:
        position = DEFAULT_METHODS.index(method)
        color = (*_COLORS, *_COLORS_UNLEARNED)[position]
    else:
        index = others.index(method) if method in others else 0
        position, color = len(DEFAULT_METHODS) + index, _COLORS_OTHER[index % len(_COLORS_OTHER)]
    is_reference = method == reference
    return {
        "color": color,
        "marker": _MARKERS[position % len(_MARKERS)],
        "linestyle": "-" if is_reference else _DASHES[position % len(_DASHES)],
        "linewidth": 2.6 if is_reference else 1.5,
        "markersize": 6.0 if is_reference else 4.8,
        "markeredgecolor": "white" if is_reference else color,
        "markeredgewidth": 0.6,
        "zorder": 5 if is_reference else 3,
    }


def row_styles(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Return the line styles of the rows, by label.

    If a method has several rows, all its rows except the first have hollow markers.
    """
    names = dict.fromkeys(row.method for row in experiment.rows)
    others = [name for name in names if name not in DEFAULT_METHODS]
    styles: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for row in experiment.rows:
        style = line_style(row.method, experiment.reference_name, others)
        if row.method in seen:
            style |= {"markerfacecolor": "white", "markeredgecolor": style["color"], "markeredgewidth": 1.0}
        seen.add(row.method)
        styles[row.label] = style
    return styles


def new_axes(title: str, size: tuple[float, float] = (6.4, 4.0), rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, with a title and horizontal grid lines."""
    figure, axes = plots.figure(rows=rows, size=size)
    for ax in axes:
        ax.grid(axis="y", color=GRID, linewidth=0.7)
        ax.set_axisbelow(True)
    set_title(axes[0], title)
    return figure, axes


def set_title(ax: Axes, text: str) -> None:
    title = ax.set_title("", loc="left", fontsize=11, color=INK, fontweight="bold", pad=10)
    title.set(text=fill(text, 60), parse_math=False)


def label_axes(ax: Axes, x: str, y: str) -> None:
    ax.set_xlabel(x, fontsize=9, color=INK)
    ax.set_ylabel(y, fontsize=9, color=INK)


def add_end_labels(figure: Figure, ax: Axes, ends: list[tuple[float, str, dict[str, Any]]]) -> None:
    """Write a label at the right end of each line. ``ends`` contains tuples (height, name, line style)."""
    if ends:
        figure.draw_without_rendering()  # the distance between labels depends on the layout
        heights, names, styles = zip(*ends, strict=True)
        plots.end_labels(ax, heights, names, styles)


def label_bars(ax: Axes, names: Sequence[str]) -> None:
    """Write the names next to horizontal bars, from top to bottom."""
    ax.set_yticks(range(len(names)), names, parse_math=False, fontsize=9, color=INK)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def legend_below(figure: Figure) -> None:
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8.5, labelcolor=INK)


def thin_out(*arrays: Any) -> list[NDArray[np.float64]]:
    """Return at most 400 evenly spaced points of each curve. More points would not be visible."""
    n = min(len(array) for array in arrays)
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MAX_POINTS)).round().astype(int))
    return [np.asarray(array, dtype=float)[chosen] for array in arrays]
