"""Progress of `oahu bench`: a live table on a terminal, otherwise one line per trial."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from oahu.cli.output import NOTHING, cell, number, table
from oahu.evaluation.benchmark import Listener, Plan
from oahu.evaluation.protocols import PROTOCOLS
from oahu.evaluation.statistics import Summary
from oahu.evaluation.trials import Outcome, Trial

__all__ = ["ProgressTable", "format_duration", "format_params"]


class ProgressTable(Listener):
    """Live table with a row for each method. If the output is not a terminal, a line is printed for each trial."""

    def __init__(self, console: Console, jobs: int) -> None:
        self.console, self.jobs = console, jobs
        self.n_measured = self.n_stored = 0
        self._trials: dict[str, Trial] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._title, self._start_time = "", time.monotonic()
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)

    def __enter__(self) -> ProgressTable:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def on_start(self, title: str, trials: Sequence[Trial]) -> None:
        self._title, self._trials, self._outcomes = title, {trial.id: trial for trial in trials}, {}
        self.n_stored = 0
        self._start_time = time.monotonic()
        if not self.console.is_terminal:
            self.console.print(f"{title}: {len(trials)} trials", highlight=False)

    def on_outcome(self, outcome: Outcome, stored: bool) -> None:
        self.n_measured += outcome.error is None
        self.n_stored += stored
        self._outcomes[outcome.trial.id] = outcome
        if not self.console.is_terminal:
            result = outcome.error or ", ".join(f"{k} {number(v)}" for k, v in outcome.scores.items())
            place = f"{len(self._outcomes)}/{len(self._trials)} {outcome.trial.method} {outcome.trial.run}"
            place += " (stored)" * stored
            self.console.print(f"{place}: {result}", highlight=False, markup=False, soft_wrap=True)

    def on_tuned(self, plan: Plan, choices: Mapping[str, Any]) -> None:
        chosen = table("method", "scaling", "parameters")
        for name, (scaling, params) in choices.items():
            chosen.add_row(cell(name), scaling, cell(format_params(params)))
        self.console.print(
            f"\nScaling and parameters chosen by tuning for {plan.protocol} on {plan.dataset.name}:",
            highlight=False,
        )
        self.console.print(chosen)

    def on_note(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def on_warning(self, text: str) -> None:
        self.console.print(Text.assemble(("warning: ", "yellow"), text), soft_wrap=True)

    def _render(self) -> RenderableType:
        if not self._trials:
            return Text("")
        score = PROTOCOLS[next(iter(self._trials.values())).protocol].score
        rows = table("method", ">done", f">{score}", ">seconds per trial")
        for method in dict.fromkeys(trial.method for trial in self._trials.values()):
            total = sum(trial.method == method for trial in self._trials.values())
            done = [outcome for outcome in self._outcomes.values() if outcome.trial.method == method]
            rows.add_row(cell(method), f"{len(done)}/{total}", *self._row(done, score))
        stored = f" ({self.n_stored} stored)" if self.n_stored else ""
        status = f"{len(self._outcomes)} of {len(self._trials)} trials{stored}, {self._time_left()} left"
        return Group(Text(f"\n{self._title}", style="bold"), rows, Text(status, style="dim"))

    def _row(self, done: list[Outcome], score: str) -> tuple[str, str]:
        values = [outcome.scores[score] for outcome in done if score in outcome.scores]
        failed = sum(outcome.error is not None for outcome in done)
        mean = (_format_mean(values) if values else NOTHING) + (f" ({failed} failed)" if failed else "")
        seconds = [sum(outcome.seconds.values()) for outcome in done if outcome.error is None]
        return mean, number(sum(seconds) / len(seconds), 1) if seconds else NOTHING

    def _time_left(self) -> str:
        """Return an estimate of the remaining time, as text.

        The estimate uses the mean time of each method. For a method without results, it uses the mean time of all
        methods.
        """
        spent: dict[str, list[float]] = {}
        for outcome in self._outcomes.values():
            spent.setdefault(outcome.trial.method, []).append(sum(outcome.seconds.values()))
        if not spent:
            return "unknown time"
        overall = sum(map(sum, spent.values())) / len(self._outcomes)
        means = {method: sum(times) / len(times) for method, times in spent.items()}
        rest = [trial.method for key, trial in self._trials.items() if key not in self._outcomes]
        return format_duration(sum(means.get(method, overall) for method in rest) / self.jobs)


def _format_mean(values: list[float]) -> str:
    """Return the mean as text. For several values, the text includes the standard deviation."""
    summary = Summary.of(values)
    return number(summary.mean) + (f" ± {number(summary.std)}" if summary.n > 1 else "")


def format_params(params: Mapping[str, Any]) -> str:
    """Return parameters as ``name=value, ...``."""
    return ", ".join(f"{name}={value}" for name, value in params.items()) or NOTHING


def format_duration(seconds: float) -> str:
    """Return a duration as text, such as "40 s" or "2:05 min"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"
