"""Plots of learning curves, metric weights, ROC curves, embeddings and search results.

Most functions draw on given axes, so that plots can be combined. `contact_sheet` and `pair_sheet` return a figure.
No function needs a display. This module needs matplotlib (the extra ``plots``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isqrt, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.arrays import as_array, as_table
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten
from oahu.randomness import RandomState, as_generator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["as_images", "contact_sheet", "embeddings", "end_labels", "figure", "learning_curves", "pair_sheet"]
__all__ += ["read_image", "roc_curve", "save", "weights_over_time"]

Floats = NDArray[np.float64]

_INK, _MUTED, _FAINT = "#1b2a41", "#7b8794", "#e4e7eb"
# Ten colours that also differ for viewers with red-green colour blindness.
_COLORS = ("#46c", "#d70", "#4a9", "#603", "#fc3", "#b9f", "#160", "#a47", "#228", "#3ef")
_MARKERS = ("o", "^")  # classes 11 to 20 repeat the colours with another marker
_LOWEST = 1e-6  # lower limit of a logarithmic axis of rates
_FRAMES: Any = {True: ("#0b8a5f", "-"), False: ("#d1323f", (0, (2.4, 1.6))), None: (_MUTED, "-")}
_CELL, _WIDEST, _GAP, _LETTER, _LINE = 0.95, 1.7, 0.14, 0.062, 0.14  # inches in a contact sheet
_SMALL_IMAGE = 72  # pixels; smaller images are drawn without interpolation


def figure(
    columns: int = 1, title: str = "", rows: int = 1, size: tuple[float, float] = (5.6, 4.2)
) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``rows`` x ``columns`` axes, and a list of the axes, row by row.

    ``size`` is the size of each axes object in inches.
    """
    drawn = _empty_figure(size[0] * columns, size[1] * rows)
    drawn.set_layout_engine("constrained")
    axes = list(np.ravel(drawn.subplots(rows, columns)))
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(_MUTED)
        ax.tick_params(colors=_INK, labelsize=9)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if title:
        drawn.suptitle(title, color=_INK, fontsize=13, fontweight="bold")
    return drawn, axes


def save(drawn: Figure, stem: Path) -> tuple[Path, Path]:
    """Write a figure to ``stem``.png and ``stem``.svg. The same figure is always written as the same bytes."""
    from matplotlib import rc_context

    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    with rc_context({"svg.hashsalt": stem.name}):
        drawn.savefig(png, facecolor="white")
        drawn.savefig(svg, facecolor="white", metadata={"Date": None})
    return png, svg


def read_image(path: Path) -> Floats:
    """Read an image file as an array of shape (h, w) or (h, w, 3), with values from 0 to 1."""
    from matplotlib.image import imread

    values = np.asarray(imread(path))
    scaled: Floats = values / 255.0 if values.dtype == np.uint8 else values.astype(np.float64)
    return scaled[..., :3] if scaled.ndim == 3 else scaled


def end_labels(ax: Axes, heights: Sequence[float], names: Sequence[str], styles: Sequence[dict[str, Any]]) -> None:
    """Write the names of lines at the right edge of the axes, without overlaps.

    Parameters
    ----------
    ax : Axes
    heights : sequence of float
        Last value of each line, in data coordinates.
    names : sequence of str
        Name of each line.
    styles : sequence of dict
        Style of each line (``color``, ``linestyle``, ``marker``). A sample of the line is shown next to the name.
    """
    n = len(_require_length(names, len(heights), "names"))
    _require_length(styles, n, "styles")
    bottom, top = ax.get_ylim()
    step = 13.0 / 72 * ax.figure.dpi / ax.get_window_extent().height
    wanted = (np.asarray(heights, dtype=float) - bottom) / ((top - bottom) or 1.0)
    across: dict[str, Any] = {"transform": ax.transAxes, "clip_on": False}
    for place, i in zip(_spread_out(np.sort(wanted), step), np.argsort(wanted, kind="stable"), strict=True):
        thin: dict[str, Any] = {"color": styles[i].get("color", _MUTED), "linewidth": 0.7, "alpha": 0.7}
        ax.plot([1.0, 1.03], [wanted[i], place], gid="leader", **thin, **across)
        ax.plot([1.03, 1.08], [place, place], gid="sample", **(styles[i] | {"markevery": [1]}), **across)
        text = ax.text(1.1, place, "", transform=ax.transAxes, va="center", fontsize=8.5, color=_INK)
        text.set(text=names[i], parse_math=False)


def _spread_out(wanted: Floats, step: float) -> Floats:
    """Return sorted positions, at least ``step`` apart and as close to the positions ``wanted`` as possible.

    The positions are in [0, 1], unless there are too many positions for this interval.
    """
    blocks: list[tuple[float, int]] = []  # (mean of wanted positions minus preceding steps, count)
    for i, place in enumerate(wanted):
        mean, n = float(place) - i * step, 1
        while blocks and blocks[-1][0] > mean:
            before, m = blocks.pop()
            mean, n = (before * m + mean * n) / (m + n), m + n
        blocks.append((mean, n))
    room = 1.0 - step * (len(wanted) - 1)
    low, high = min(0.0, room / 2), max(room, room / 2)  # labels that do not fit extend equally beyond both ends
    bases: Floats = np.clip([mean for mean, _ in blocks], low, high)
    places: Floats = np.repeat(bases, [n for _, n in blocks]) + step * np.arange(len(wanted))
    return places


def weights_over_time(ax: Axes, rounds: ArrayLike, weights: ArrayLike) -> None:
    """Draw the metric weights of the experts over time. The weights are stacked and sum to 1.

    Parameters
    ----------
    ax : Axes
    rounds : array-like of shape (n,)
        Round of each row of ``weights``, such as a learner's ``history_rounds_``. Each triplet is one round.
    weights : array-like of shape (n, n_experts)
        Metric weights of the experts in each round, such as a learner's ``weight_history_``.
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


def learning_curves(ax: Axes, rounds: ArrayLike, curves: Mapping[str, ArrayLike], title: str, best: int) -> None:
    """Draw one learning curve for each method. The label of a curve is the method's name and last value.

    Parameters
    ----------
    ax : Axes
    rounds : array-like of shape (n,)
        Round of each value. Each triplet is one round.
    curves : mapping of str to array-like of shape (n,)
        Values of each method, by name. A constant curve, such as the curve of an unlearned metric, is dashed and
        grey.
    title : str
        Title of the axes.
    best : {0, 1}
        Best possible value: 0 for errors, 1 for accuracies. The vertical axis ends at this value.
    """
    x = np.asarray(rounds)
    names, ends, styles = [], [], []
    n_varying = 0
    for name, curve in curves.items():
        y = np.asarray(_require_length(np.ravel(curve), len(x), f"The curve of {name}"), dtype=float)
        style: dict[str, Any] = {"color": _MUTED, "linewidth": 1.2, "linestyle": "--"}
        if np.ptp(y) > 0:
            dashes = ("-", "-.", ":")[n_varying // 10 % 3]
            style = {"color": _COLORS[n_varying % 10], "linewidth": 2.0, "linestyle": dashes}
            n_varying += 1
        ax.plot(x, y, gid="curve", **style)
        names.append(f"{name} {y[-1]:.1%}")
        ends.append(y[-1])
        styles.append(style)
    ax.set_xlim(x.min(), x.max())
    ax.set_ylim(0.0 if best == 0 else None, 1.0 if best == 1 else None)
    ax.locator_params(axis="x", nbins=5)
    ax.locator_params(axis="y", steps=[1, 2, 5, 10])  # steps of 2.5 % would be rounded in the labels
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    _label(ax, title, "triplets learned", "")
    end_labels(ax, ends, names, styles)


def roc_curve(
    ax: Axes,
    far: ArrayLike,
    tar: ArrayLike,
    label: str | None = None,
    operating_point: ArrayLike | None = None,
    log: bool = False,
) -> None:
    """Draw a ROC curve. Several calls on the same axes draw several curves.

    A ring marks the equal error rate. A diamond marks the operating point.

    Parameters
    ----------
    ax : Axes
    far, tar : array-like of shape (n_thresholds,)
        False accept rates and true accept rates, sorted by threshold: both must rise or both must fall. The end
        points (0, 0) and (1, 1) may be missing.
    label : str, optional
        Name of the curve in the legend.
    operating_point : (far, tar), optional
        Point to mark, such as the false accept rate and the true accept rate at the chosen threshold.
    log : bool, default=False
        Whether the axis of the false accept rate is logarithmic. A later call with ``log=False`` does not make a
        logarithmic axis linear again.
    """
    x, y = _rates(far, "far"), _rates(tar, "tar", np.size(far))
    point = None if operating_point is None else _rates(operating_point, "operating_point", 2)
    x, y = (x[::-1], y[::-1]) if x[0] > x[-1] or y[0] > y[-1] else (x, y)
    sorted_by_threshold = np.all(np.diff(x) >= 0) and np.all(np.diff(y) >= 0)
    _require(sorted_by_threshold, "'far' and 'tar' must both rise or both fall. Sort 'far' and 'tar' by threshold.")
    x, y = np.array([0.0, *x, 1.0]), np.array([0.0, *y, 1.0])
    error, area = float(np.interp(0.0, x + y - 1.0, x)), np.sum(np.diff(x) * (y[1:] + y[:-1])) / 2
    n_before = sum(line.get_gid() == "curve" for line in ax.lines)
    log = log or ax.get_xscale() == "log"
    _rate_axes(ax, log, float(x[x > 0].min()), first=n_before == 0)
    if log:  # a straight line between two thresholds is curved on this axis
        between = np.geomspace(_LOWEST, 1.0, 600)
        x, y = np.sort([*x, *between]), np.sort([*y, *np.interp(between, x, y)])
    style: dict[str, Any] = {"color": _COLORS[n_before % 10], "linestyle": ("-", "--")[n_before // 10 % 2]}
    named = f"{label}: " * bool(label) + f"AUC {area:.3f}, EER {error:.1%}"
    ax.plot(x, y, linewidth=1.8, label=named, gid="curve", zorder=3, **style)
    style |= {"linestyle": "", "marker": "o", "markerfacecolor": "white", "markeredgewidth": 1.6, "markersize": 6.5}
    ax.plot(error, 1.0 - error, gid="equal error", zorder=4, **style)
    if point is not None:
        at = f"operating at FAR {point[0]:.2g}, TAR {point[1]:.3f}"
        style |= {"marker": "D", "markerfacecolor": style["color"], "markeredgecolor": "white", "markersize": 7.5}
        ax.plot(*point, label=at, gid="operating point", zorder=5, **style)
    (chance, ring, *handles), labels = ax.get_legend_handles_labels()
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if log else {"loc": "lower right"}
    place |= {"fontsize": 8, "labelcolor": _INK, "edgecolor": "none", "framealpha": 1.0}
    ax.legend([*handles, ring, chance], labels[2:] + labels[1::-1], **place)


def _rates(data: ArrayLike, what: str, n: int = 0) -> Floats:
    rates = as_array(data, what).astype(np.float64)
    fits = rates.ndim == 1 and len(rates) == (n or len(rates) or 1)
    _require(fits, f"{what} must have shape ({n or 'n_thresholds'},). Got {rates.shape} instead.")
    low, high = rates.min(), rates.max()
    _require(low >= 0 and high <= 1, f"{what} must be rates in [0, 1]. Got {low} to {high} instead.")
    return rates


def _rate_axes(ax: Axes, log: bool, lowest: float, first: bool) -> None:
    """Set up the axes of ROC curves. If ``first``, also draw the diagonal and add the ring to the legend."""
    if first:
        chance = np.append(0.0, np.geomspace(_LOWEST, 1.0, 200))
        ax.plot(chance, chance, ":", color=_MUTED, linewidth=1.2, label="chance", gid="chance")
        ax.plot([], [], "o", color=_MUTED, markerfacecolor="white", markeredgewidth=1.6, label="equal error")
        ax.grid(color=_FAINT, linewidth=0.7)
        ax.set(axisbelow=True, ylim=(-0.015, 1.015))
        ax.yaxis.set_major_formatter("{x:g}")
        _label(ax, "ROC curve", "false accept rate", "true accept rate")
    if log:
        before = 0.01 if first or ax.get_xscale() != "log" else ax.get_xlim()[0]
        ax.set(xscale="log", aspect="auto")
        ax.set_xlim(min(before, max(10 ** np.floor(np.log10(lowest)), _LOWEST)), 1)
    else:
        ax.set(xlim=(-0.015, 1.015), aspect="equal")
        ax.xaxis.set_major_formatter("{x:g}")


def embeddings(
    axes: Any,
    vectors: Any,
    labels: ArrayLike,
    names: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    limit: int = 2000,
    random_state: RandomState = 0,
) -> None:
    """Draw the items of each space as points. The coordinates are the first two principal components of that space.

    Up to 10 classes are distinguished by colour, and up to 20 classes by colour and marker. More classes are
    distinguished by a colour scale.

    Parameters
    ----------
    axes : Axes, or a sequence of at least n_spaces Axes
        Axes to draw on, one for each space. Unused axes are hidden.
    vectors : array-like of shape (n_spaces, n_items, dims), or a sequence of arrays of shape (n_items, dims)
        Vectors of the items in each space, such as ``metric.embed(X)``.
    labels : array-like of shape (n_items,)
        Labels of the items.
    names : sequence of str of length n_spaces, optional
        Names of the spaces.
    weights : array-like of shape (n_spaces,), optional
        Weights of the spaces, such as ``metric.metric_weights``.
    limit : int, default=2000
        Maximum number of items. If there are more items, a random sample of the items is drawn. All spaces show
        the same sample.
    random_state : int, Generator or None, default=0
        Random state for drawing the sample.
    """
    places = list(np.ravel(np.asarray(axes, dtype=object)))
    spaces = [_finite(space, f"vectors[{level}]") for level, space in enumerate(vectors)]
    n, sizes = len(spaces), sorted({len(space) for space in spaces})
    _require(1 <= n <= len(places), f"Each space needs its own axes. Got {len(places)} axes for {n} spaces.")
    _require(
        sizes == [np.size(labels)], f"Every item needs a label. Got {np.size(labels)} labels for {sizes} items."
    )
    _require(limit >= 1, f"The 'limit' parameter must be at least 1. Got {limit} instead.")
    titles = [f"$E_{{{level}}}$" for level in range(n)] if names is None else _require_length(names, n, "names")
    if weights is not None:
        shares = _require_length(as_array(weights, "weights"), n, "weights")
        titles = [f"{title} · weight {share:.2f}" for title, share in zip(titles, shares, strict=True)]
    flat = np.ravel(labels)
    classes, members = np.unique(flat.astype(str) if flat.dtype == object else flat, return_inverse=True)
    # Always in random order, so that no class covers the others.
    shown = as_generator(random_state).permutation(len(members))[:limit]
    for ax, title, space in zip(places, titles, spaces, strict=False):
        points, explained = _principal_components(space[shown])
        _scatter(ax, points, members[shown], len(classes))
        _label(ax, title, *(f"PC {i} · {share:.0%} of variance" for i, share in enumerate(explained, 1)))
    for ax in places[n:]:
        ax.set_axis_off()
    _class_legend(places, [str(name) for name in classes])


def _principal_components(vectors: Floats) -> tuple[Floats, Floats]:
    """Return the coordinates along the first two principal components, and each component's share of the variance.

    The sign of a component is chosen so that its largest entry is positive.
    """
    padding = (0, 1), (0, 1)  # so that there are two components even for a single item or dimension
    centred = np.pad(vectors - vectors.mean(axis=0), padding)
    _, spread, components = np.linalg.svd(centred, full_matrices=False)
    largest = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
    points = centred[:-1] @ (components[:2] * np.where(largest[:2] < 0, -1.0, 1.0)).T
    return points, np.square(spread[:2]) / (np.square(spread).sum() or 1.0)


def _scatter(ax: Axes, points: Floats, members: NDArray[np.intp], n_classes: int) -> None:
    style: dict[str, Any] = {"s": np.clip(10_000 / len(points), 6, 30), "linewidths": 0.2, "edgecolors": "white"}
    if n_classes > 10 * len(_MARKERS):
        ax.scatter(points[:, 0], points[:, 1], c=members, cmap="turbo", vmin=0, vmax=n_classes - 1, **style)
    else:
        for shape, marker in enumerate(_MARKERS[: 1 + (n_classes > 10)]):
            x, y = points[members // 10 == shape].T
            ax.scatter(x, y, c=np.array(_COLORS)[members[members // 10 == shape] % 10], marker=marker, **style)
    ax.set(xticks=[], yticks=[])
    ax.set_aspect("equal", adjustable="datalim")  # equal scales on both axes


def _class_legend(axes: list[Axes], names: list[str]) -> None:
    """Draw one legend, or one colour scale, for all axes. Class names are not interpreted as mathtext."""
    drawn, n = axes[0].figure, len(names)
    if n > 10 * len(_MARKERS):
        ticks = np.linspace(0, n - 1, 6).round()
        scale = drawn.colorbar(axes[0].collections[-1], ax=axes, ticks=ticks, shrink=0.8, aspect=30)
        scale.ax.set_yticklabels([names[int(i)] for i in ticks], fontsize=8, color=_INK, parse_math=False)
        scale.set_label(f"{n} classes, in order", color=_INK, fontsize=9)
    else:
        keys = [axes[0].plot([], [], _MARKERS[i // 10], color=_COLORS[i % 10])[0] for i in range(n)]
        style: dict[str, Any] = {"ncols": 1 + (n > 10), "handletextpad": 0.2, "frameon": False, "fontsize": 9}
        legend = drawn.legend(keys, ["?"] * n, loc="outside right center", labelcolor=_INK, **style)
        for text, name in zip(legend.get_texts(), names, strict=True):
            text.set(text=name, parse_math=False)


def contact_sheet(
    queries: Sequence[ArrayLike],
    results: Sequence[Sequence[ArrayLike]],
    captions: Sequence[Sequence[str]] | None = None,
    titles: Sequence[str] | None = None,
    right: Sequence[Sequence[bool | None]] | None = None,
) -> Figure:
    """Return a figure with one row of images for each query. A row shows the query, followed by its results.

    Parameters
    ----------
    queries : sequence of images
        Images of the queries. An image is an array of shape (h, w) or (h, w, 3). Its values are floats in [0, 1],
        where 1 is white, or have dtype uint8. `as_images` converts features to images.
    results : sequence of sequences of images
        Images of the results of each query. The queries may have different numbers of results.
    captions : sequence of sequences of str, optional
        Short text for each result. Long lines are cut.
    titles : sequence of str, optional
        Short text for each query. Long lines are cut.
    right : sequence of sequences of bool or None, optional
        Whether each result is right: True (solid green frame), False (dashed red frame) or None (unknown).
    """
    n = len(_require_length(results, len(queries), "results"))
    _require(n > 0, "There must be at least one query. Got none.")
    names = _require_length([""] * n if titles is None else titles, n, "titles")
    texts = _require_length([[""] * len(row) for row in results] if captions is None else captions, n, "captions")
    marks = _require_length([[None] * len(row) for row in results] if right is None else right, n, "right")
    rows = [[(_image(query, f"queries[{i}]"), str(names[i]), (_INK, "-"))] for i, query in enumerate(queries)]
    for i, found in enumerate(results):
        _require_length(texts[i], len(found), f"captions[{i}]")
        _require_length(marks[i], len(found), f"right[{i}]")
        for j, (image, text, mark) in enumerate(zip(found, texts[i], marks[i], strict=True)):
            _require(mark in _FRAMES, f"right[{i}][{j}] must be True, False or None. Got {shorten(mark)} instead.")
            rows[i].append((_image(image, f"results[{i}][{j}]"), str(text), _FRAMES[mark]))
    return _sheet(rows, with_key=right is not None)


def pair_sheet(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]],
    captions: Sequence[str],
    right: Sequence[bool | None],
    columns: int = 4,
) -> Figure:
    """Return a figure with pairs of images, several pairs per row. A frame shows whether an answer is right.

    Images, captions and frames have the same form as in `contact_sheet`.
    """
    n = len(pairs)
    _require(n > 0, "There must be at least one pair. Got none.")
    _require_length(captions, n, "captions")
    for i, mark in enumerate(_require_length(right, n, "right")):
        _require(mark in _FRAMES, f"right[{i}] must be True, False or None. Got {shorten(mark)} instead.")
    images = [
        [_image(image, f"pairs[{i}][{side}]") for side, image in enumerate(pair)] for i, pair in enumerate(pairs)
    ]
    across = min(columns, n)
    tall = _CELL * float(
        np.clip(np.median([image.shape[0] / image.shape[1] for two in images for image in two]), 0.5, 2)
    )
    depth = tall + _LINE * (1 + max(text.count("\n") for text in captions)) + 1.5 * _GAP
    wide = 2 * _CELL + 2.5 * _GAP
    drawn = _empty_figure(_GAP + wide * across, _GAP + depth * ceil(n / across) + 2 * _LINE)
    ax = drawn.add_axes((0, 0, 1, 1), xlim=(0, drawn.get_figwidth()), ylim=(drawn.get_figheight(), 0))
    ax.set_axis_off()
    letters = int(2 * _CELL / _LETTER)
    for i, (one, other) in enumerate(images):
        x, y = _GAP + wide * (i % across), _GAP + depth * (i // across)
        for side, image in enumerate((one, other)):
            _picture(ax, image, (x + _CELL * (side + 0.5), y + tall / 2), (_CELL, tall), _FRAMES[right[i]])
        lines = [line if len(line) <= letters else f"{line[: letters - 1]}…" for line in captions[i].split("\n")]
        style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 7.5, "parse_math": False, "color": _INK}
        ax.text(x + _CELL, y + tall + 0.07, "\n".join(lines), **style)
    _frame_legend(drawn, ax)
    return drawn


def _frame_legend(drawn: Figure, ax: Axes) -> None:
    keys = [ax.plot([], [], color=_FRAMES[mark][0], linestyle=_FRAMES[mark][1])[0] for mark in (True, False)]
    place: dict[str, Any] = {"loc": "lower right", "ncols": 2, "handlelength": 3, "frameon": False}
    drawn.legend(keys, ["right", "wrong"], fontsize=7.5, labelcolor=_INK, **place)


def _image(data: ArrayLike, what: str) -> Floats:
    image = as_array(data, what)
    fits = image.ndim in (2, 3) and 0 not in image.shape and image.shape[2:] in ((), (3,))
    _require(fits, f"{what} must be an image of shape (h, w) or (h, w, 3). Got {image.shape} instead.")
    scaled: Floats = image / 255.0 if image.dtype == np.uint8 else image.astype(np.float64)
    low, high = scaled.min(), scaled.max()
    _require(
        low >= 0 and high <= 1,
        f"{what} must be uint8 or have values in [0, 1]. Got {low:g} to {high:g} instead. Use as_images.",
    )
    return scaled


def _sheet(rows: list[list[tuple[Floats, str, Any]]], with_key: bool) -> Figure:
    """Return a figure with images, texts and frames.

    Coordinates of the figure are in inches from the upper left corner.
    """
    images, texts, _ = zip(*(cell for row in rows for cell in row), strict=True)
    width = min(max(_CELL, _LETTER * max(len(line) for text in texts for line in text.split("\n"))), _WIDEST)
    height = _CELL * float(np.clip(np.median([image.shape[0] / image.shape[1] for image in images]), 0.5, 2.0))
    depth = height + _LINE * max(text.count("\n") + bool(text) for text in texts) + 1.5 * _GAP
    lefts = [_GAP, *(4 * _GAP + (width + _GAP) * column for column in range(1, max(map(len, rows))))]
    top, letters = _GAP + 1.5 * _LINE, int(width / _LETTER)
    bottom = top + depth * len(rows)
    drawn = _empty_figure(lefts[-1] + width + _GAP, bottom + 2 * _LINE * with_key)
    ax = drawn.add_axes((0, 0, 1, 1), xlim=(0, drawn.get_figwidth()), ylim=(drawn.get_figheight(), 0))
    ax.set_axis_off()
    style: dict[str, Any] = {"ha": "center", "fontsize": 7.5, "linespacing": 1.25, "parse_math": False}
    for column, left in enumerate(lefts):
        ax.text(left + width / 2, top - 0.5 * _LINE, str(column or "query"), color=_MUTED, **style)
    if len(lefts) > 1:
        ax.plot([lefts[1] - 2 * _GAP] * 2, [_GAP, bottom - _GAP], color=_FAINT, linewidth=1)
    for i, row in enumerate(rows):
        for left, (image, text, frame) in zip(lefts, row, strict=False):
            x, y = left + width / 2, top + depth * i
            _picture(ax, image, (x, y + height / 2), (width, height), frame)
            lines = [line if len(line) <= letters else f"{line[: letters - 1]}…" for line in text.split("\n")]
            ax.text(x, y + height + 0.07, "\n".join(lines), color=_INK, va="top", **style)
    if with_key:
        _frame_legend(drawn, ax)
    return drawn


def _picture(ax: Axes, image: Floats, middle: tuple[float, float], room: tuple[float, float], frame: Any) -> None:
    """Draw an image as large as ``room`` allows, with a frame around it."""
    (x, y), (tall, wide) = middle, image.shape[:2]
    scale = min((room[0] - 0.08) / wide, (room[1] - 0.08) / tall) / 2
    w, h, smooth = wide * scale, tall * scale, None if max(wide, tall) > _SMALL_IMAGE else "nearest"
    extent = (x - w, x + w, y + h, y - h)
    ax.imshow(image, "gray", vmin=0, vmax=1, extent=extent, aspect="auto", interpolation=smooth)
    corners = x + (w + 0.04) * np.array([-1, 1, 1, -1, -1]), y + (h + 0.04) * np.array([-1, -1, 1, 1, -1])
    ax.plot(*corners, color=frame[0], linestyle=frame[1], linewidth=1.6, solid_joinstyle="miter", gid="frame")


def as_images(items: ArrayLike, shape: Sequence[int] | None = None) -> Floats:
    """Return rows of features as images with values in [0, 1], of shape (n_items, h, w) or (n_items, h, w, 3).

    ``shape`` is the shape of an image, (h, w) or (h, w, 3). By default, images are square. Items with s * s
    features become grey images, and items with 3 * s * s features become colour images.

    >>> as_images([[0, 1, 2, 4]]).tolist()
    [[[0.0, 0.25], [0.5, 1.0]]]
    """
    values = _finite(items, "items")
    n = values.shape[1]
    side, color_side = isqrt(n), isqrt(n // 3)
    squares = {side**2: (side, side), 3 * color_side**2: (color_side, color_side, 3)}
    _require(
        shape is not None or n in squares,
        f"{n} features do not form a square image, neither grey nor in colour. Pass the 'shape' parameter.",
    )
    wanted = squares[n] if shape is None else tuple(shape)
    image = len(wanted) in (2, 3) and min(wanted) >= 1 and wanted[2:] in ((), (3,))
    _require(image, f"The 'shape' parameter must be (h, w) or (h, w, 3). Got {wanted} instead.")
    _require(
        prod(wanted) == n, f"An image of shape {wanted} has {prod(wanted)} values, but the items have {n} features."
    )
    values -= values.min()
    values /= values.max() or 1.0
    return values.reshape(-1, *wanted)


def _finite(given: ArrayLike, what: str) -> Floats:
    """Return a copy of a table. Raise an error if a value is not finite."""
    table: Floats = as_table(given, what).astype(np.float64)
    finite = np.isfinite(table).all(axis=1)
    _require(finite.all(), f"The {what} must be finite numbers. Row {finite.argmin()} contains NaN or infinity.")
    return table


def _require_length(given: Any, n: int, what: str) -> Any:
    _require(len(given) == n, f"{what} must have {n} entries. Got {len(given)} instead.")
    return given


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise InvalidInputError(message)


def _empty_figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:  # pragma: no cover
        raise ImportError("oahu.plots needs matplotlib. Install it with: pip install 'oahu[plots]'") from error
    return Figure(figsize=(width, height), dpi=144)


def _label(ax: Axes, title: str, x: str, y: str) -> None:
    ax.set_title(title, loc="left", fontsize=11, color=_INK)
    ax.set_xlabel(x, fontsize=9, color=_INK)
    ax.set_ylabel(y, fontsize=9, color=_INK)


def _depth_colors(n: int) -> Any:
    """Return n colours for experts: light colours for shallow experts, dark colours for deep experts."""
    from matplotlib import colormaps

    return colormaps["GnBu"](np.linspace(0.3, 1.0, n))
