"""The demo: real handwritten digits stream by as triplets, and the metric learns while one looks on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from oahu import plots
from oahu.constraints import sample_triplets
from oahu.learners import OAHU

__all__ = ["run"]

_BAR = 30  # characters for a weight of 1/2
_TABLE_LINES = 9


@dataclass(frozen=True)
class _Digits:
    """Triplets to learn, and triplets of other digits to be judged by."""

    items: NDArray[np.float64]
    stream: NDArray[np.intp]
    held_out: NDArray[np.float64]  # (n, 3, 64)

    @classmethod
    def load(cls, n_triplets: int, seed: int) -> _Digits:
        X, y = load_digits(return_X_y=True)
        items, others, labels, other_labels = train_test_split(
            X / 16.0, y, test_size=0.5, stratify=y, random_state=seed
        )
        stream = sample_triplets(labels, n_triplets, seed)
        held_out = others[sample_triplets(other_labels, 2_000, seed + 1)]
        return cls(items, stream, held_out)

    def unlearned_accuracy(self) -> float:
        """How often plain Euclidean distance orders a held-out triplet right."""
        anchor, positive, negative = self.held_out.transpose(1, 0, 2)
        near = np.linalg.norm(anchor - positive, axis=1)
        return float(np.mean(near < np.linalg.norm(anchor - negative, axis=1)))


def run(console: Console, folder: Path, n_triplets: int = 20_000, seed: int = 0) -> None:
    """Stream, show, plot and save; everything written goes to ``folder``."""
    drawn, (left, right) = plots.figure(2, "OAHU learning a metric for digits, one triplet at a time")
    digits = _Digits.load(n_triplets, seed)
    unlearned = digits.unlearned_accuracy()
    console.print(
        "\n[bold]1,797 handwritten digits, 8 x 8 pixels.[/bold] Half of them stream by as triplets\n"
        "(this one is like that one, unlike the other); half are held out to judge by.\n",
        highlight=False,
    )
    learner = OAHU(learning_rate=0.05, preprocessor=digits.items, random_state=seed)
    with console.status("Compiling the update (once; it is kept on disk) ..."):
        learner.fit(digits.stream[:1])
    learner.initialize(digits.items.shape[1])

    steps, accuracies = [0], [learner.score(digits.held_out)]
    for seen in _streamed(console, learner, digits.stream, accuracies):
        steps.append(seen)
        accuracies.append(learner.score(digits.held_out))

    console.print(_summary(steps, accuracies, learner))
    console.print(
        f"\nHeld-out triplets ordered right: [bold]{accuracies[-1]:.1%}[/bold] after {learner.n_seen_:,} triplets, "
        f"each seen once;\n{accuracies[0]:.1%} by the untrained network, {unlearned:.1%} by plain Euclidean "
        f"distance.\n{learner.utilization_:.0%} of the triplets moved the model.\n",
        highlight=False,
        soft_wrap=True,
    )
    folder.mkdir(parents=True, exist_ok=True)
    model, picture = folder / "digits.oahu", folder / "learning.png"
    learner.save(model)
    plots.accuracy_over_time(left, steps, accuracies, unlearned)
    plots.weights_over_time(right, learner.history_rounds_, learner.weight_history_)
    drawn.savefig(picture)
    console.print(f"The model:  {model}\nThe plot:   {picture}\n", soft_wrap=True, markup=False)


def _streamed(console: Console, learner: OAHU, stream: NDArray[np.intp], accuracies: list[float]) -> Iterator[int]:
    """Learn the stream in a hundred parts, showing each; yields how many triplets were learned."""
    progress = Progress(
        TextColumn("learning"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TextColumn("triplets"),
        TimeRemainingColumn(),
        console=console,
    )
    task = progress.add_task("learning", total=len(stream))
    with Live(console=console, refresh_per_second=12) as live:
        for part in np.array_split(stream, 100):
            learner.partial_fit(part)
            yield learner.n_seen_
            progress.update(task, completed=learner.n_seen_)
            live.update(Group(progress, _weights(learner, accuracies[-1])))


def _weights(learner: OAHU, accuracy: float) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for level, weight in enumerate(learner.metric_weights_):
        bar = "█" * max(1, round(weight * 2 * _BAR))
        name = "linear" if level == 0 else f"{level} hidden layer{'s' * (level > 1)}"
        table.add_row(f"E_{level}", Text(name, style="dim"), f"{weight:.2f}", Text(bar, style="cyan"))
    return Group(table, f"held-out triplets ordered right: [bold]{accuracy:.1%}[/bold]")


def _summary(steps: list[int], accuracies: list[float], learner: OAHU) -> Table:
    table = Table(
        title="\nHeld-out accuracy, and the weight of each depth", title_justify="left", title_style="bold"
    )
    for name in ("triplets", "accuracy", *(f"E_{level}" for level in range(len(learner.metric_weights_)))):
        table.add_column(name, justify="right")
    rounds, history = learner.history_rounds_, learner.weight_history_
    for i in np.unique(np.linspace(0, len(steps) - 1, _TABLE_LINES).round().astype(int)):
        at = np.searchsorted(rounds, steps[i], side="right") - 1
        weights = history[at] if at >= 0 else np.full(history.shape[1], 1 / history.shape[1])
        table.add_row(f"{steps[i]:,}", f"{accuracies[i]:.1%}", *(f"{weight:.3f}" for weight in weights))
    return table
