"""Pictures of a metric learning. Needs matplotlib: the extra ``plots``.

Each function draws into the axes it is given and returns nothing, so that pictures can be put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy_over_time", "figure", "weights_over_time"]

_INK, _MUTED = "#1b2a41", "#7b8794"


def figure(columns: int = 1, title: str = "") -> tuple[Figure, list[Axes]]:
    """A figure with ``columns`` axes side by side, drawn without a screen."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:  # pragma: no cover
        raise ImportError("oahu.plots needs matplotlib: pip install 'oahu[plots]'") from error
    drawn = Figure(figsize=(5.6 * columns, 4.2), layout="constrained", dpi=144)
    axes = list(np.atleast_1d(drawn.subplots(1, columns)))
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(_MUTED)
        ax.tick_params(colors=_INK, labelsize=9)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if title:
        drawn.suptitle(title, color=_INK, fontsize=13, fontweight="bold")
    return drawn, axes


def weights_over_time(ax: Axes, rounds: ArrayLike, weights: ArrayLike) -> None:
    """How the metric weights move between the depths, stacked to 1.

    Parameters
    ----------
    rounds : array-like of shape (n,)
    weights : array-like of shape (n, n_experts)
        Such as a learner's ``history_rounds_`` and ``weight_history_``.
    """
    shares = np.asarray(weights, dtype=float).T
    n_experts = len(shares)
    colors = _depth_colors(n_experts)
    ax.stackplot(np.asarray(rounds), shares, colors=colors, edgecolor="white", linewidth=0.4)
    beginning = shares[:, 0]
    for level, height in enumerate(np.cumsum(beginning) - beginning / 2):
        ink = "white" if level > n_experts / 2 else _INK
        at = (0.015, height)
        ax.annotate(f"$E_{{{level}}}$", at, xycoords=("axes fraction", "data"), va="center", color=ink)
    ax.set_ylim(0, 1)
    ax.set_xlim(np.min(rounds), np.max(rounds))
    _label(ax, "Metric weight of each depth", "triplets learned", "weight, stacked")


def accuracy_over_time(ax: Axes, rounds: ArrayLike, accuracy: ArrayLike, unlearned: float | None = None) -> None:
    """How held-out triplet accuracy grows; ``unlearned`` is what plain Euclidean distance reaches."""
    ax.plot(rounds, accuracy, color=_depth_colors(3)[1], linewidth=2, label="OAHU")
    if unlearned is not None:
        ax.axhline(unlearned, color=_MUTED, linestyle="--", linewidth=1.2, label="Euclidean, unlearned")
    ax.set_xlim(np.min(rounds), np.max(rounds))
    ax.set_ylim(top=1.0)
    ax.legend(frameon=False, fontsize=9, loc="lower right")
    _label(ax, "Held-out triplet accuracy", "triplets learned", "share of triplets ordered right")


def _label(ax: Axes, title: str, x: str, y: str) -> None:
    ax.set_title(title, loc="left", fontsize=11, color=_INK)
    ax.set_xlabel(x, fontsize=9, color=_INK)
    ax.set_ylabel(y, fontsize=9, color=_INK)


def _depth_colors(n: int) -> Any:
    """Light for shallow, dark for deep."""
    from matplotlib import colormaps

    return colormaps["GnBu"](np.linspace(0.3, 1.0, n))
