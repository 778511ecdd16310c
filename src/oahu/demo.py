"""The demo: handwritten digits stream by as triplets, two learners take them, and unseen digits judge both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from oahu import plots
from oahu.constraints import sample_triplets
from oahu.learners import OAHU, AnchoredOAHU, Cosine
from oahu.tasks import Classifier, Retriever

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["run"]

Learner = Cosine | OAHU | AnchoredOAHU

_NAMES = ("unlearned", "OAHU", "AnchoredOAHU")
_PARTS = 40  # of the stream; after each, the learners are judged
_BAR = 24  # characters for a weight of 1
_TABLE_LINES = 9


class _Mark(NamedTuple):
    """What held-out digits say about a metric."""

    found: float  # of the 10 that are found for each, the share that shows the same digit
    right: float  # the share of triplets ordered right


class _Digits(NamedTuple):
    """Digits whose triplets are learned, and others to be judged by."""

    items: NDArray[np.float64]
    labels: NDArray[np.intp]
    stream: NDArray[np.intp]
    others: NDArray[np.float64]
    truth: NDArray[np.intp]
    triplets: NDArray[np.float64]  # of the others: (n, 3, 64)

    @classmethod
    def load(cls, n_triplets: int, seed: int) -> _Digits:
        X, y = load_digits(return_X_y=True)
        items, others, labels, truth = train_test_split(X / 16.0, y, test_size=0.5, stratify=y, random_state=seed)
        stream = sample_triplets(labels, n_triplets, seed)
        triplets = others[sample_triplets(truth, 2_000, seed + 1)]
        return cls(items, labels, stream, others, truth, triplets)

    def judge(self, learner: Learner) -> _Mark:
        """Search for each of the others among the rest of them, none of which was learned from."""
        every = range(len(self.others))
        retriever = Retriever(learner.metric()).add(every, self.others)
        found = np.array(retriever.search_batch(self.others, k=10, exclude=[[key] for key in every]).keys)
        return _Mark(float(np.mean(self.truth[found] == self.truth[:, None])), learner.score(self.triplets))

    def mislabelled(self, learner: Learner) -> int:
        """How many of the others are labelled wrong by their 5 nearest among those that were learned from."""
        neighbours = Classifier(learner.metric(), k=5).fit(self.items, self.labels)
        return int(np.sum(neighbours.predict(self.others) != self.truth))


class _Course:
    """The two learners, and everybody's marks as the stream goes by."""

    def __init__(self, digits: _Digits, seed: int) -> None:
        self.digits = digits
        self.unlearned = Cosine().initialize(digits.items.shape[1])
        self.paper = OAHU(learning_rate=0.05, preprocessor=digits.items, random_state=seed)
        self.anchored = AnchoredOAHU(preprocessor=digits.items, random_state=seed)
        self.steps: list[int] = []
        self.marks: dict[str, list[_Mark]] = {name: [] for name in _NAMES}

    def compile(self) -> None:
        for learner in (self.paper, self.anchored):
            learner.fit(self.digits.stream[:1])

    def follow(self) -> Iterator[int]:
        """Learn the stream from its beginning, part by part; yields how many triplets were learned."""
        unlearned = self.digits.judge(self.unlearned)
        for learner in (self.paper, self.anchored):
            learner.initialize(self.digits.items.shape[1])
        yield self._mark(unlearned)
        for part in np.array_split(self.digits.stream, _PARTS):
            self.paper.partial_fit(part)
            self.anchored.partial_fit(part)
            yield self._mark(unlearned)

    def _mark(self, unlearned: _Mark) -> int:
        marks = (unlearned, self.digits.judge(self.paper), self.digits.judge(self.anchored))
        for name, mark in zip(_NAMES, marks, strict=True):
            self.marks[name].append(mark)
        self.steps.append(self.anchored.n_seen_)
        return self.anchored.n_seen_


def run(console: Console, folder: Path, n_triplets: int = 20_000, seed: int = 0) -> None:
    """Stream, show, plot and save; everything written goes to ``folder``."""
    drawn, axes = plots.figure(2, "The same triplets, two learners, judged on held-out digits", size=(6.0, 4.0))
    course = _Course(_Digits.load(n_triplets, seed), seed)
    console.print(
        "\n[bold]1,797 handwritten digits, 8 x 8 pixels.[/bold] Half of them stream by as triplets\n"
        "(this one is like that one, unlike the other); half are held out to judge by.\n"
        "OAHU is the paper's learner. AnchoredOAHU starts near the unlearned cosine, and\n"
        "moves away only as far as the stream has earned.\n",
        highlight=False,
    )
    with console.status("Compiling the updates (once; they are kept on disk) ..."):
        course.compile()
    with threadpool_limits(1):  # products this small only wait for a second thread
        _show(console, course)
    console.print(_summary(course))
    console.print(_closing(course), highlight=False, soft_wrap=True)

    folder.mkdir(parents=True, exist_ok=True)
    anchored, paper, picture = (folder / name for name in ("digits.oahu", "digits-paper.oahu", "learning.png"))
    course.anchored.save(anchored)
    course.paper.save(paper)
    _draw(axes, course)
    drawn.savefig(picture)
    console.print(
        f"AnchoredOAHU:  {anchored}\nOAHU:          {paper}\nThe picture:   {picture}\n",
        soft_wrap=True,
        markup=False,
    )


def _show(console: Console, course: _Course) -> None:
    """Follow the stream before the reader's eyes."""
    progress = Progress(
        TextColumn("learning"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TextColumn("triplets"),
        TimeRemainingColumn(),
        console=console,
    )
    task = progress.add_task("learning", total=len(course.digits.stream))
    with Live(console=console, refresh_per_second=12) as live:
        for seen in course.follow():
            progress.update(task, completed=seen)
            live.update(Group(progress, "", _weights(course), "", _now(course)))


def _weights(course: _Course) -> Columns:
    """The weights of both learners, side by side."""
    paper = {space.name: space.weight for space in course.paper.metric().spaces}
    anchored = {part.name: part.weight for part in course.anchored.metric().parts}
    return Columns([_bars("OAHU", paper), _bars("AnchoredOAHU", anchored)], padding=(0, 4))


def _bars(learner: str, weights: dict[str, float]) -> Table:
    table = Table.grid(Column(), Column(), Column(min_width=_BAR), padding=(0, 1))
    table.title, table.title_justify, table.title_style = f"weights of {learner}", "left", "bold"
    for name, weight in weights.items():
        table.add_row(name, f"{weight:.2f}", Text("█" * ceil(weight * _BAR), style="cyan"))
    return table


def _now(course: _Course) -> Table:
    """The last marks of all three."""
    table = Table.grid(Column(), Column(justify="right"), Column(justify="right"), padding=(0, 2))
    table.add_row("[bold]held-out digits", "[bold]same digit in 10", "[bold]triplets right")
    for name, marks in course.marks.items():
        table.add_row(name, f"{marks[-1].found:.1%}", f"{marks[-1].right:.1%}")
    return table


def _summary(course: _Course) -> Table:
    """Nine moments of the stream: both measures, side by side."""
    rows = np.unique(np.linspace(0, len(course.steps) - 1, _TABLE_LINES).round().astype(int))
    found, rights = _titled("same digit among the 10 found"), _titled("triplets ordered right")
    found.add_column("triplets", justify="right")
    for name in _NAMES:
        found.add_column(name, justify="right")
        rights.add_column(name, justify="right")
    for row in rows:
        marks = [course.marks[name][row] for name in _NAMES]
        found.add_row(f"{course.steps[row]:,}", *(f"{mark.found:.1%}" for mark in marks))
        rights.add_row(*(f"{mark.right:.1%}" for mark in marks))
    both = Table.grid(padding=(0, 3, 0, 0))
    both.add_row(found, rights)
    return both


def _titled(title: str) -> Table:
    return Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )


def _closing(course: _Course) -> str:
    """What was measured, whichever way it went."""
    unlearned, paper, anchored = (course.marks[name][-1] for name in _NAMES)
    wrong = [course.digits.mislabelled(one) for one in (course.paper, course.anchored, course.unlearned)]
    return (
        f"\nAfter {course.steps[-1]:,} triplets, each seen once, OAHU orders {paper.right:.1%} of those held out "
        f"right,\nAnchoredOAHU {anchored.right:.1%}, plain cosine {unlearned.right:.1%}.\n"
        f"[bold]Of ten digits found by search, {10 * paper.found:.1f} are right by OAHU, "
        f"{10 * anchored.found:.1f} by AnchoredOAHU, {10 * unlearned.found:.1f} by plain cosine.[/bold]\n"
        f"The 5 nearest mislabel {wrong[0]} of {len(course.digits.truth)} digits by OAHU, {wrong[1]} by "
        f"AnchoredOAHU, {wrong[2]} by plain cosine.\n"
    )


def _draw(axes: Sequence[Axes], course: _Course) -> None:
    """Both measures, with all three lines."""
    for ax, measure, title, best in (
        (axes[0], "found", "Same digit among the ten found by search", 1),
        (axes[1], "right", "Triplets ordered right", 1),
    ):
        curves = {name: [getattr(mark, measure) for mark in marks] for name, marks in course.marks.items()}
        plots.learning_curves(ax, course.steps, curves, title, best)
