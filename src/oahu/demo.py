"""Demo: learn from triplets of handwritten digits, and evaluate the metrics on held-out digits."""

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

DemoLearner = Cosine | OAHU | AnchoredOAHU

_NAMES = ("AnchoredOAHU", "OAHU", "unlearned")
_N_BATCHES = 40  # the learners are evaluated after each batch of the stream
_BAR_WIDTH = 24  # characters for a weight of 1
_N_SUMMARY_ROWS = 9


class _Scores(NamedTuple):
    """The quality of a metric on held-out digits, as two shares."""

    precision: float  # share of matches with the query's digit, among the 10 matches of each query
    triplets: float  # share of triplets whose positive is closer to the anchor than the negative


class _Digits(NamedTuple):
    """Training digits with a stream of triplets, and held-out digits with triplets for the evaluation."""

    items: NDArray[np.float64]
    labels: NDArray[np.intp]
    stream: NDArray[np.intp]
    held_out: NDArray[np.float64]
    truth: NDArray[np.intp]
    held_out_triplets: NDArray[np.float64]  # (n, 3, 64)

    @classmethod
    def load(cls, n_triplets: int, seed: int) -> _Digits:
        X, y = load_digits(return_X_y=True)
        items, held_out, labels, truth = train_test_split(X / 16.0, y, test_size=0.5, stratify=y, random_state=seed)
        stream = sample_triplets(labels, n_triplets, seed)
        held_out_triplets = held_out[sample_triplets(truth, 2_000, seed + 1)]
        return cls(items, labels, stream, held_out, truth, held_out_triplets)

    def evaluate(self, learner: DemoLearner) -> _Scores:
        """Return the scores of a learner's metric on the held-out digits.

        For the precision, each held-out digit is a query for a search in the other held-out digits.
        """
        rows = range(len(self.held_out))
        retriever = Retriever(learner.metric()).add(rows, self.held_out)
        found = np.array(retriever.search_batch(self.held_out, k=10, exclude=[[row] for row in rows]).keys)
        precision = float(np.mean(self.truth[found] == self.truth[:, None]))
        return _Scores(precision, learner.score(self.held_out_triplets))

    def count_errors(self, learner: DemoLearner) -> int:
        """Return the number of held-out digits that a 5-nearest-neighbour classifier misclassifies."""
        classifier = Classifier(learner.metric(), k=5).fit(self.items, self.labels)
        return int(np.sum(classifier.predict(self.held_out) != self.truth))


class _Experiment:
    """Two learners and the unlearned metric, with the scores of all three after each batch of the stream."""

    def __init__(self, digits: _Digits, seed: int) -> None:
        self.digits = digits
        self.anchored = AnchoredOAHU(preprocessor=digits.items, random_state=seed)
        self.paper = OAHU(learning_rate=0.05, preprocessor=digits.items, random_state=seed)
        self.unlearned = Cosine().initialize(digits.items.shape[1])
        self.steps: list[int] = []
        self.scores: dict[str, list[_Scores]] = {name: [] for name in _NAMES}

    def compile(self) -> None:
        """Compile the learning steps before the live display starts."""
        for learner in (self.anchored, self.paper):
            learner.fit(self.digits.stream[:1])

    def run(self) -> Iterator[int]:
        """Learn the triplets batch by batch. After each batch, yield the total number of triplets learned."""
        unlearned = self.digits.evaluate(self.unlearned)
        for learner in (self.anchored, self.paper):
            learner.initialize(self.digits.items.shape[1])
        yield self._evaluate(unlearned)
        for batch in np.array_split(self.digits.stream, _N_BATCHES):
            self.anchored.partial_fit(batch)
            self.paper.partial_fit(batch)
            yield self._evaluate(unlearned)

    def _evaluate(self, unlearned: _Scores) -> int:
        scores = (self.digits.evaluate(self.anchored), self.digits.evaluate(self.paper), unlearned)
        for name, score in zip(_NAMES, scores, strict=True):
            self.scores[name].append(score)
        self.steps.append(self.anchored.n_seen_)
        return self.anchored.n_seen_


def run(console: Console, folder: Path, n_triplets: int = 20_000, seed: int = 0) -> None:
    """Run the demo: learn from the digits, show the progress, and write two models and a picture to ``folder``."""
    title = "Scores on held-out digits after each batch of triplets"
    picture, axes = plots.figure(2, title, size=(6.0, 4.0))
    experiment = _Experiment(_Digits.load(n_triplets, seed), seed)
    console.print(
        "\n[bold]1,797 handwritten digits, 8 x 8 pixels.[/bold] The learners get triplets of one half\n"
        "(anchor and positive show the same digit, the negative another digit). The other half is\n"
        "held out for evaluation. AnchoredOAHU starts at the unlearned cosine metric and moves away\n"
        "from it only as far as the evidence allows. OAHU is the learner of the paper.\n",
        highlight=False,
    )
    with console.status("Compiling (once; the result is cached on disk) ..."):
        experiment.compile()
    with threadpool_limits(1):  # a second thread slows such small matrix products down
        _show(console, experiment)
    console.print(_summary(experiment))
    console.print(_conclusion(experiment), highlight=False, soft_wrap=True)

    folder.mkdir(parents=True, exist_ok=True)
    anchored, paper, curves = (folder / name for name in ("digits.oahu", "digits-paper.oahu", "learning.png"))
    experiment.anchored.save(anchored)
    experiment.paper.save(paper)
    _draw(axes, experiment)
    picture.savefig(curves)
    console.print(
        f"AnchoredOAHU:  {anchored}\nOAHU:          {paper}\nPicture:       {curves}\n",
        soft_wrap=True,
        markup=False,
    )


def _show(console: Console, experiment: _Experiment) -> None:
    """Run the experiment with a live display."""
    progress = Progress(
        TextColumn("learning"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TextColumn("triplets"),
        TimeRemainingColumn(),
        console=console,
    )
    task = progress.add_task("learning", total=len(experiment.digits.stream))
    with Live(console=console, refresh_per_second=12) as live:
        for n_learned in experiment.run():
            progress.update(task, completed=n_learned)
            live.update(Group(progress, "", _weights(experiment), "", _current_scores(experiment)))


def _weights(experiment: _Experiment) -> Columns:
    """Return the weights of the spaces of both learners as bars, with the learners side by side."""
    anchored = {space.name: space.weight for space in experiment.anchored.metric().weighted_spaces}
    paper = {space.name: space.weight for space in experiment.paper.metric().spaces}
    return Columns([_bars("AnchoredOAHU", anchored), _bars("OAHU", paper)], padding=(0, 4))


def _bars(learner: str, weights: dict[str, float]) -> Table:
    table = Table.grid(Column(), Column(), Column(min_width=_BAR_WIDTH), padding=(0, 1))
    table.title, table.title_justify, table.title_style = f"weights of {learner}", "left", "bold"
    for name, weight in weights.items():
        table.add_row(name, f"{weight:.2f}", Text("█" * ceil(weight * _BAR_WIDTH), style="cyan"))
    return table


def _current_scores(experiment: _Experiment) -> Table:
    """Return a table of the latest scores of both learners and the unlearned metric."""
    table = Table.grid(Column(), Column(justify="right"), Column(justify="right"), padding=(0, 2))
    table.add_row("[bold]held-out digits", "[bold]same digit in 10", "[bold]correct triplets")
    for name, scores in experiment.scores.items():
        table.add_row(name, f"{scores[-1].precision:.1%}", f"{scores[-1].triplets:.1%}")
    return table


def _summary(experiment: _Experiment) -> Table:
    """Return two tables side by side, one for each score, with one row for each of nine points of the stream."""
    rows = np.unique(np.linspace(0, len(experiment.steps) - 1, _N_SUMMARY_ROWS).round().astype(int))
    precision, triplets = _score_table("same digit among 10 matches"), _score_table("triplets ordered correctly")
    precision.add_column("triplets", justify="right")
    for name in _NAMES:
        precision.add_column(name, justify="right")
        triplets.add_column(name, justify="right")
    for row in rows:
        scores = [experiment.scores[name][row] for name in _NAMES]
        precision.add_row(f"{experiment.steps[row]:,}", *(f"{score.precision:.1%}" for score in scores))
        triplets.add_row(*(f"{score.triplets:.1%}" for score in scores))
    both = Table.grid(padding=(0, 3, 0, 0))
    both.add_row(precision, triplets)
    return both


def _score_table(title: str) -> Table:
    return Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )


def _conclusion(experiment: _Experiment) -> str:
    """Return sentences with the final scores of both learners and the unlearned metric."""
    anchored, paper, unlearned = (experiment.scores[name][-1] for name in _NAMES)
    learners = (experiment.anchored, experiment.paper, experiment.unlearned)
    errors = [experiment.digits.count_errors(learner) for learner in learners]
    return (
        f"\nAfter {experiment.steps[-1]:,} triplets, each seen once:\n"
        f"[bold]Of 10 matches, {10 * anchored.precision:.1f} show the same digit with AnchoredOAHU, "
        f"{10 * paper.precision:.1f} with OAHU, {10 * unlearned.precision:.1f} with the unlearned metric.[/bold]\n"
        f"Of the held-out triplets, {anchored.triplets:.1%} are ordered correctly with AnchoredOAHU, "
        f"{paper.triplets:.1%} with OAHU, {unlearned.triplets:.1%} with the unlearned metric.\n"
        f"5 nearest neighbours misclassify {errors[0]} of {len(experiment.digits.truth)} digits with AnchoredOAHU, "
        f"{errors[1]} with OAHU, {errors[2]} with the unlearned metric.\n"
    )


def _draw(axes: Sequence[Axes], experiment: _Experiment) -> None:
    """Draw each of the two scores as curves over the number of triplets learned."""
    titles = {"precision": "Same digit among the ten matches of a search", "triplets": "Triplets ordered correctly"}
    for ax, (measure, title) in zip(axes, titles.items(), strict=True):
        curves = {name: [getattr(score, measure) for score in scores] for name, scores in experiment.scores.items()}
        plots.learning_curves(ax, experiment.steps, curves, title, 1)
