"""Demo: two groups of users click in the same catalogue, and search learns what each group means by alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from threadpoolctl import threadpool_limits

from oahu import plots
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.tiles import tiles
from oahu.evaluation.protocols.click_protocol import ClickProtocol, checkpoints
from oahu.evaluation.protocols.constraint_streams import ConstraintCache
from oahu.evaluation.protocols.methods import Method, as_method
from oahu.evaluation.trials import Outcome, Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["run"]

Floats = NDArray[np.float64]

_MEANINGS: Final = ("colour", "shape")  # what the two groups of users mean by alike
_UNLEARNED, _PEER, _OURS = "unlearned", "LEGO", "AnchoredOAHU"
_METHODS: Final[Mapping[str, str]] = {_UNLEARNED: "Cosine", _PEER: "LEGO", _OURS: "AnchoredOAHU"}
_SCORES: Final = ("precision@10", "better", "worse")

_INK, _MUTED, _GRID, _WRONG = "#1b2a41", "#687482", "#e4e7eb", "#d1323f"
_STYLES: Final[Mapping[str, Mapping[str, Any]]] = {
    _UNLEARNED: {"color": "#7b8794", "linewidth": 1.4, "linestyle": "--"},
    _PEER: {"color": "#dd7700", "linewidth": 1.8, "marker": "s", "markersize": 4.5},
    _OURS: {"color": "#4466cc", "linewidth": 2.6, "marker": "o", "markersize": 6},
}

# The picture, in inches.
_WIDTH, _HEIGHT = 10.0, 7.2
_LEFT, _COLUMNS, _TOP = 0.6, (1.35, 4.25, 7.15), 2.75  # of the example pictures
_TILE, _STEP, _ROW = 0.4, 0.44, 0.5
_N_MATCHES: Final = 6  # of each example
_LABEL: Final = 0.17  # least distance of two labels, relative to the height of a chart


class _Curves(NamedTuple):
    """The scores of a method in one run, after each number of clicks. Each list starts with the score at 0 clicks.

    ``better`` and ``worse`` are the shares of queries with a higher and a lower precision@10 than unlearned.
    """

    precision: list[float]
    better: list[float]
    worse: list[float]


class _Experiment:
    """The unlearned metric and two learners, each with the clicks of both groups of users, in several runs.

    Both groups have the same name of the data set, and therefore the same catalogue and queries in each run.
    """

    def __init__(self, n_clicks: int, noise: float, n_runs: int, seed: int) -> None:
        self.data = tiles()
        self.settings = {"n_clicks": n_clicks, "noise": noise, "seed": seed}
        self.n_runs = n_runs
        self.clicks = [0, *checkpoints(n_clicks)]
        self.curves: dict[tuple[str, str], list[_Curves]] = {
            (meaning, method): [] for meaning in _MEANINGS for method in _METHODS
        }
        self.examples: dict[str, Mapping[str, Any]] = {}  # of AnchoredOAHU's first run, by meaning

    def run(self) -> Iterator[None]:
        """Measure all methods. Yield after each measurement."""
        for number in range(self.n_runs):
            for meaning, name in self.curves:
                data = replace(self.data, y=self.data.labelings[meaning])
                method = as_method(_METHODS[name])
                outcome = _measure(data, method, number, self.settings)
                start = _measure(data, _untrained(method), number, self.settings | {"n_clicks": 1})
                values = (_first(start, score) + outcome.curves["clicks"][score] for score in _SCORES)
                self.curves[meaning, name].append(_Curves(*values))
                if name == _OURS:
                    self.examples.setdefault(meaning, outcome.curves["examples"])
                yield

    def values(self, meaning: str, method: str) -> Floats:
        """Return the scores of the runs so far, of shape (3, n_runs, n_checkpoints)."""
        runs = self.curves[meaning, method]
        return np.array(runs, dtype=float).reshape(len(runs), len(_SCORES), len(self.clicks)).transpose(1, 0, 2)

    def means(self, meaning: str, method: str) -> _Curves:
        """Return the means of the runs so far. At least one run must be complete."""
        return _Curves(*self.values(meaning, method).mean(axis=1).tolist())


def _measure(data: Dataset, method: Method, number: int, settings: Mapping[str, Any]) -> Outcome:
    """Measure a method in run ``number``. The simulated user marks all ten shown items of each click."""
    protocol = ClickProtocol()
    trial = Trial(protocol.name, data.name, method.name, number, protocol.settings(data, **settings))
    return protocol.measure(trial, data, method, ConstraintCache())


def _untrained(method: Method) -> Method:
    """Return the method without learning. After a click, it has the scores of the method before the first click."""
    kind = type(method.learner)
    ignores_clicks = type(kind.__name__, (kind,), {"partial_fit": lambda self, X, y=None: self})
    return replace(method, learner=ignores_clicks())


def _first(outcome: Outcome, score: str) -> list[float]:
    return list(outcome.curves["clicks"][score][:1])


# -- output ----------------------------------------------------------------------------------------------


def run(
    console: Console, folder: Path, n_clicks: int = 300, noise: float = 0.1, n_runs: int = 10, seed: int = 0
) -> None:
    """Run the demo: learn from simulated clicks, print the scores, and write a picture to ``folder``."""
    figure, charts, page = _new_picture()  # fails before learning if matplotlib is missing
    experiment = _Experiment(n_clicks, noise, n_runs, seed)
    console.print(_introduction(noise), highlight=False)
    with threadpool_limits(1):  # a second thread slows such small matrix products down
        _show(console, experiment)
    console.print(_conclusion(experiment), highlight=False, soft_wrap=True)
    _draw(charts, page, experiment)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "learning.png"
    figure.savefig(path, dpi=170, facecolor="white")
    console.print(f"Picture: {path}\n", soft_wrap=True, markup=False)


def _introduction(noise: float) -> str:
    return (
        "\n[bold]2,000 tiles: small pictures with a shape, a colour and a size.[/bold]\n"
        "Half of them are the catalogue. Two groups of users search it and mark the ten\n"
        "shown tiles as alike or not alike: one group means the same colour, the other\n"
        f"means the same shape. {noise:.0%} of the marks are wrong. The scores are measured\n"
        "on the other half: queries that nobody has clicked. Better and worse: the shares\n"
        "of these queries that have more and fewer alike matches after the last click\n"
        "than unlearned.\n"
    )


def _show(console: Console, experiment: _Experiment) -> None:
    """Run the experiment. Show the progress and the means of the runs so far."""
    columns = (TextColumn("measuring"), BarColumn(bar_width=40), MofNCompleteColumn(), TextColumn("trials"))
    progress = Progress(*columns, console=console)
    task = progress.add_task("measuring", total=experiment.n_runs * len(experiment.curves))
    with Live(console=console) as live:
        live.update(Group(progress, "", _table(experiment)))
        for _ in experiment.run():
            progress.advance(task)
            live.update(Group(progress, "", _table(experiment)))


def _table(experiment: _Experiment) -> Table:
    """Return a table of precision@10 by number of clicks, and of the shares of queries better and worse."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), title_justify="left", title_style="bold")
    table.title = "Precision@10 by number of clicks"
    table.add_column("alike means")
    table.add_column("method")
    for name in (*(f"{n:,}" for n in experiment.clicks), "better", "worse"):
        table.add_column(name, justify="right")
    for meaning in _MEANINGS:
        for method in _METHODS:
            name = f"same {meaning}" if method == _UNLEARNED else ""
            cells = [""] * (len(experiment.clicks) + 2)
            if experiment.curves[meaning, method]:
                means = experiment.means(meaning, method)
                shares = means.better[-1:] + means.worse[-1:] if method != _UNLEARNED else []
                cells = [f"{value:.0%}" for value in means.precision + shares]
            table.add_row(name, method, *cells, style="bold" if method == _OURS else None)
        table.add_section()
    return table


def _conclusion(experiment: _Experiment) -> str:
    """Return sentences that compare the two learners with each other and with the unlearned metric."""
    sentences = [f"\nAfter {experiment.clicks[-1]:,} clicks ({_runs(experiment)}):"]
    for meaning in _MEANINGS:
        before, peer, ours = (experiment.means(meaning, method) for method in _METHODS)
        sentences.append(
            f"[bold]Same {meaning}: of ten matches, {10 * ours.precision[-1]:.1f} are alike with {_OURS}, "
            f"{10 * peer.precision[-1]:.1f} with {_PEER}, {10 * before.precision[-1]:.1f} unlearned.[/bold]\n"
            f"  {_OURS} makes {ours.worse[-1]:.0%} of the queries worse, {_PEER} {peer.worse[-1]:.0%}.\n  "
            + _who_leads(experiment.clicks, ours.precision, peer.precision)
        )
    return "\n".join(sentences) + "\n"


def _who_leads(clicks: Sequence[int], ours: Sequence[float], peer: Sequence[float]) -> str:
    """Return a sentence that says after which numbers of clicks LEGO finds more alike items."""
    numbers = [f"{n:,}" for n, own, other in zip(clicks, ours, peer, strict=True) if n and other > own]
    if not numbers:
        return f"{_OURS} is ahead of {_PEER} throughout."
    listed = " and ".join(filter(None, [", ".join(numbers[:-1]), numbers[-1]]))
    return f"{_PEER} is ahead after {listed} clicks."


def _runs(experiment: _Experiment) -> str:
    return f"mean of {experiment.n_runs} runs" if experiment.n_runs > 1 else "one run"


# -- picture ---------------------------------------------------------------------------------------------


def _new_picture() -> tuple[Figure, Sequence[Axes], Axes]:
    """Return a figure with a chart for each meaning, and axes over the whole figure whose units are inches."""
    figure, charts = plots.figure(2, size=(_WIDTH / 2, _HEIGHT))
    figure.set_layout_engine("none")
    for ax, left in zip(charts, (0.6, 5.5), strict=True):
        ax.set_position((left / _WIDTH, 3.87 / _HEIGHT, 2.7 / _WIDTH, 2.15 / _HEIGHT))
    page = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(0, _HEIGHT), zorder=-1)
    page.set_axis_off()
    return figure, charts, page


def _draw(charts: Sequence[Axes], page: Axes, experiment: _Experiment) -> None:
    """Draw the charts, the examples below them, and the texts around them."""
    for ax, meaning in zip(charts, _MEANINGS, strict=True):
        _draw_chart(ax, experiment, meaning)
    _draw_examples(page, experiment)
    _write(page, _LEFT, 6.87, "One catalogue, two meanings of “alike”: search learns from clicks", 14, bold=True)
    note = (
        f"{experiment.settings['noise']:.0%} of the marks are wrong. Curves: {_runs(experiment)}; "
        "bands: one standard deviation. Worse: fewer alike matches than with the unlearned metric.\n"
        f"Pictures: {_OURS}, the first queries of the first run. Nobody has clicked these queries. "
        "Red frame: not alike."
    )
    _write(page, _LEFT, 0.32, note, 7.5, _MUTED, linespacing=1.5)


def _draw_chart(ax: Axes, experiment: _Experiment, meaning: str) -> None:
    """Draw precision@10 by number of clicks: means of the runs, with bands of one standard deviation."""
    places = np.log10(np.maximum(experiment.clicks, 3))  # 0 is one step to the left of 10
    for method, style in _STYLES.items():
        precision = experiment.values(meaning, method)[0]
        mean, spread = precision.mean(axis=0), precision.std(axis=0)
        ax.plot(places, mean, clip_on=False, zorder=3, gid="curve", **style)
        if method != _UNLEARNED:
            ax.fill_between(places, mean - spread, mean + spread, color=style["color"], alpha=0.14, linewidth=0)
    ax.set(xlim=(places[0], places[-1]), ylim=(min(0.4, ax.get_ylim()[0]), 1.0), axisbelow=True)
    ax.set_xticks(places, [f"{n:,}" for n in experiment.clicks])
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.grid(axis="y", color=_GRID, linewidth=0.7)
    ax.set_xlabel("clicks", fontsize=9, color=_INK)
    inches: dict[str, Any] = {"transform": ax.figure.dpi_scale_trans}
    left, top = ax.get_position().x0 * _WIDTH, ax.get_position().y1 * _HEIGHT
    _write(ax, left, top + 0.36, f"Users mean the same {meaning}", 11, bold=True, **inches)
    _write(ax, left, top + 0.15, "share of alike tiles among the first ten matches", 8.5, _MUTED, **inches)
    _label_ends(ax, {method: experiment.means(meaning, method) for method in _METHODS})


def _label_ends(ax: Axes, means: Mapping[str, _Curves]) -> None:
    """Write each method's name and last values next to the end of its curve. Labels do not overlap."""
    low, high = ax.get_ylim()
    heights = {method: (curves.precision[-1] - low) / (high - low) for method, curves in means.items()}
    order = sorted(heights, key=lambda method: heights[method])
    for lower, upper in [*pairwise(order)] * 20:  # move labels apart until none are too close
        overlap = max(0.0, _LABEL - (heights[upper] - heights[lower]))
        heights[lower] -= overlap / 2
        heights[upper] += overlap / 2
    for method, height in heights.items():
        name, color = f"{method} {means[method].precision[-1]:.0%}", str(_STYLES[method]["color"])
        _write(ax, 1.05, height, name, 9, color, bold=True, transform=ax.transAxes)
        if method != _UNLEARNED:
            text = f"{means[method].worse[-1]:.0%} of the queries worse"
            _write(ax, 1.05, height - 0.07, text, 8, _MUTED, transform=ax.transAxes)


def _draw_examples(page: Axes, experiment: _Experiment) -> None:
    """Draw a row for each query: its first matches before learning, and after the clicks of each group."""
    unlearned = experiment.examples[_MEANINGS[0]]["unlearned"]
    n_shown = len(unlearned) * _N_MATCHES
    _write(page, _LEFT, _TOP + 0.36, "query", 9)
    _write(page, _COLUMNS[0], _TOP + 0.36, "before learning", 9, bold=True)
    for row, example in enumerate(unlearned):
        _draw_tiles(page, experiment.data, [example["query"]], _LEFT, row)
        _draw_tiles(page, experiment.data, example["found"][:_N_MATCHES], _COLUMNS[0], row)
    counts = []
    for left, meaning in zip(_COLUMNS[1:], _MEANINGS, strict=True):
        labels, learned = experiment.data.labelings[meaning], experiment.examples[meaning]["learned"]
        before, after = (_are_alike(examples, labels) for examples in (unlearned, learned))
        counts.append(f"{before.sum()} same {meaning}")
        for row, example in enumerate(learned):
            _draw_tiles(page, experiment.data, example["found"][:_N_MATCHES], left, row, ~after[row])
        _write(page, left, _TOP + 0.36, f"after {experiment.clicks[-1]:,} clicks: same {meaning}", 9, bold=True)
        _write(page, left, _TOP + 0.14, f"of {n_shown} tiles, {after.sum()} same {meaning}", 8, _MUTED)
    _write(page, _COLUMNS[0], _TOP + 0.14, f"of {n_shown} tiles, {', '.join(counts)}", 8, _MUTED)


def _are_alike(examples: Sequence[Mapping[str, Any]], labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether the first matches of each query have its label, of shape (n_queries, 6)."""
    return np.array([labels[each["found"][:_N_MATCHES]] == labels[each["query"]] for each in examples])


def _draw_tiles(
    page: Axes,
    data: Dataset,
    items: Sequence[int],
    left: float,
    row: int,
    is_wrong: Sequence[bool] | NDArray[np.bool_] = (),
) -> None:
    """Draw tiles side by side. Wrong matches have a red frame."""
    assert data.images is not None
    bottom = _TOP - (row + 1) * _ROW
    for i, item in enumerate(items):
        x = left + i * _STEP
        page.imshow(data.images[item], extent=(x, x + _TILE, bottom, bottom + _TILE), aspect="auto")
        if len(is_wrong) and is_wrong[i]:
            corners = x + _TILE * np.array([0, 1, 1, 0, 0]), bottom + _TILE * np.array([0, 0, 1, 1, 0])
            page.plot(*corners, color=_WRONG, linewidth=1.8, solid_joinstyle="miter", gid="wrong")


def _write(
    ax: Axes, x: float, y: float, text: str, size: float, color: str = _INK, bold: bool = False, **more: Any
) -> None:
    ax.text(x, y, text, fontsize=size, color=color, va="center", fontweight="bold" if bold else "normal", **more)
