"""`oahu bench`: the paper's evaluation, and the same on any data."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import joblib
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from oahu.cli.output import NOTHING, cell, number, table
from oahu.cli.train import parameter
from oahu.evaluation import datasets
from oahu.evaluation.benchmark import PAPER, Listener, Plan, bench
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method, as_methods
from oahu.evaluation.report import html_page
from oahu.evaluation.statistics import Summary
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial
from oahu.exceptions import InvalidInputError

__all__ = ["Order", "run"]

_QUICK: dict[str, Any] = {"n_constraints": 1_000, "n_seeds": 500}
_FLAGS = {"n_constraints": "--constraints", "n_seeds": "--seeds"}
_QUICK_PLAN: dict[str, Any] = {"runs": 2, "folds": 2, "tune_items": 300}


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line."""

    protocol: str
    datasets: tuple[str, ...] = ()
    labels: Path | None = None
    methods: tuple[str, ...] = ()
    runs: int | None = None
    jobs: int = 1
    out: Path = Path("bench-output")
    tune: bool = False
    quick: bool = False
    folds: int | None = None
    tune_items: int | None = None
    scalings: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def run(console: Console, errors: Console, order: Order) -> bool:
    """Measure, and write the report; False if a cell failed."""
    if not order.tune and (order.folds or order.tune_items):
        raise InvalidInputError("--folds and --tune-items are for --tune, which is not given.")
    methods = _methods(order)
    plans = _plans(errors, order)
    jobs = order.jobs or joblib.cpu_count()
    table = _LiveTable(errors, jobs)
    command = f"oahu {shlex.join(sys.argv[1:])}"
    if (before := _command_of(order.out)) not in (None, command):
        told = f"{order.out} holds the report of `{before}`: it is replaced. The trials measured for it stay."
        errors.print(told, style="yellow", highlight=False, markup=False, soft_wrap=True)
    try:
        with table:
            record = bench(plans, methods, order.out, jobs, table, command)
    except KeyboardInterrupt:
        kept = f"{table.n_seen:,} trials are kept in {order.out}"
        errors.print(f"\nStopped: {kept}. The same command goes on from there.", highlight=False, soft_wrap=True)
        return False
    with errors.status("Writing the report ..."):
        path = html_page.write(record, order.out, {plan.dataset.name: plan.dataset for plan in plans})
    _show(console, record, path)
    return all(failure.trial.stage == "tuning" for failure in record.failures)


def _command_of(out: Path) -> str | None:
    """What has written the results in a folder, if there are any."""
    try:
        return BenchmarkRecord.load(out / "results.json").command
    except (OSError, InvalidInputError):
        return None


def _methods(order: Order) -> list[Method]:
    """The rows, with parameters set by ``METHOD.NAME=VALUE``."""
    methods = as_methods(order.methods or None)
    for text in order.parameters:
        owner, _, setting = text.partition(".")
        found = [method for method in methods if method.name.lower() == owner.lower()]
        if not found or found[0].learner is None:
            names = ", ".join(method.name for method in methods)
            raise InvalidInputError(
                f"A parameter is set by METHOD.NAME=VALUE, METHOD one of {names}. Got {text!r} instead."
            )
        name, value = parameter(setting)
        try:
            found[0].learner.set_params(**{name: value})
            found[0].learner._check_parameters()
        except ValueError as error:
            raise InvalidInputError(f"{text}: {error}") from error
        grid = {one: values for one, values in found[0].grid.items() if one != name}  # what is set is not tuned
        methods = [replace(method, grid=grid) if method is found[0] else method for method in methods]
    return methods


def _plans(errors: Console, order: Order) -> list[Plan]:
    wanted = {order.protocol: order.datasets} if order.protocol != "paper" else dict(PAPER)
    if order.protocol == "paper" and order.datasets and not order.quick:
        every = dict.fromkeys(name for sets in PAPER.values() for name in sets)
        for name in order.datasets:
            if name not in every:
                raise InvalidInputError(f"The paper's evaluation is on {', '.join(every)}. Got {name!r} instead.")
        wanted = {name: tuple(one for one in sets if one in order.datasets) for name, sets in PAPER.items()}
    if order.quick:
        wanted = dict.fromkeys(wanted, order.datasets or ("digits",))
    if order.protocol != "paper" and not order.datasets and not order.quick:
        wanted = {order.protocol: PAPER[order.protocol]}
    loaded: dict[str, Dataset] = {}
    for name in dict.fromkeys(name for names in wanted.values() for name in names):
        data = _load(errors, name, order)
        if data is not None:
            loaded[name] = data
    plans = [
        _plan(order, protocol, loaded[name], tune)
        for protocol, names in wanted.items()
        for name in names
        if name in loaded
        for tune in _tunings(order, protocol)
    ]
    if not plans:
        raise InvalidInputError("None of the data sets is here. `oahu datasets` says how to get them.")
    return plans


def _tunings(order: Order, protocol: str) -> tuple[bool, ...]:
    """Untuned, tuned, or both: the paper's evaluation with --tune has both."""
    if not order.tune or not PROTOCOLS[protocol].tunable:
        return (False,)
    return (False, True) if order.protocol == "paper" else (True,)


def _load(errors: Console, name: str, order: Order) -> Dataset | None:
    """A data set; None if it is one of several and not here."""
    with errors.status(f"Reading {name} ..."):
        if order.datasets or order.quick or datasets.source(name).here(datasets.data_home()):
            return datasets.load(name, labels=order.labels) if order.labels else datasets.load(name)
    errors.print(f"{name} is not here and is left out: see `oahu datasets`.", style="yellow", highlight=False)
    return None


def _plan(order: Order, protocol: str, dataset: Dataset, tune: bool) -> Plan:
    known = PROTOCOLS[protocol].settings(dataset)
    for name in order.settings:
        if name not in known and order.protocol != "paper":  # of the paper's protocols, those take it that know it
            flag = _FLAGS.get(name, f"--{name}")
            raise InvalidInputError(f"{flag} means nothing to {protocol}. See `oahu bench --help`.")
    settings = {**(_QUICK if order.quick else {}), **order.settings}
    settings = {name: value for name, value in settings.items() if name in known}
    asked = {"runs": order.runs, "folds": order.folds, "tune_items": order.tune_items}
    options: dict[str, Any] = _QUICK_PLAN if order.quick else {}
    options = options | {name: value for name, value in asked.items() if value is not None}
    if order.scalings:
        options["scalings"] = order.scalings
    return Plan(protocol, dataset, tune=tune, settings=settings, **options)


def _show(console: Console, record: BenchmarkRecord, path: Path) -> None:
    """Where the time went, what failed, and where the report is."""
    spent: dict[str, float] = {}
    for outcome in record.outcomes:
        for what, seconds in outcome.seconds.items():
            spent[what] = spent.get(what, 0.0) + seconds
    total = sum(spent.values()) or 1.0
    parts = ", ".join(
        f"{what} {seconds / total:.0%}" for what, seconds in sorted(spent.items(), key=lambda x: -x[1])
    )
    console.print(f"\n{len(record.outcomes):,} trials in {_clock(record.seconds)}: {parts}.", highlight=False)
    for failure in record.failures:
        where, what = f"{failure.trial.method} on {failure.trial.dataset}, run {failure.trial.run}", "failed: "
        if failure.trial.stage == "tuning":  # the candidate is out; others were left
            where, what = f"{where}, with {_told(failure.trial.settings['params'])}", "failed in tuning: "
        console.print(Text.assemble((what, "red"), f"{where}: {failure.error}"), soft_wrap=True)
    console.print(f"The report: {path}", soft_wrap=True, highlight=False, markup=False)


class _LiveTable(Listener):
    """A row for each method, while it is measured; without a terminal, a line for each cell."""

    def __init__(self, console: Console, jobs: int) -> None:
        self.console, self.jobs = console, jobs
        self.n_seen = self.n_found = 0
        self._cells: dict[str, Trial] = {}
        self._done: dict[str, Outcome] = {}
        self._title, self._began = "", time.monotonic()
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._drawn)

    def __enter__(self) -> _LiveTable:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def begins(self, title: str, trials: Sequence[Trial]) -> None:
        self._title, self._cells, self._done = title, {one.id: one for one in trials}, {}
        self.n_found = 0
        self._began = time.monotonic()
        if not self.console.is_terminal:
            self.console.print(f"{title}: {len(trials)} trials", highlight=False)

    def seen(self, outcome: Outcome, found: bool) -> None:
        self.n_seen += outcome.error is None
        self.n_found += found
        self._done[outcome.trial.id] = outcome
        if not self.console.is_terminal:
            told = outcome.error or ", ".join(f"{k} {number(v)}" for k, v in outcome.scores.items())
            where = f"{len(self._done)}/{len(self._cells)} {outcome.trial.method} {outcome.trial.run}"
            where += " (found done)" * found
            self.console.print(f"{where}: {told}", highlight=False, markup=False, soft_wrap=True)

    def chosen(self, plan: Plan, choices: Mapping[str, Any]) -> None:
        shown = table("method", "scaling", "parameters")
        for name, (scaling, params) in choices.items():
            shown.add_row(cell(name), scaling, cell(_told(params)))
        self.console.print(f"\nChosen for {plan.protocol} on {plan.dataset.name}:", highlight=False)
        self.console.print(shown)

    def _drawn(self) -> RenderableType:
        if not self._cells:
            return Text("")
        score = PROTOCOLS[next(iter(self._cells.values())).protocol].score
        shown = table("method", ">done", f">{score}", ">seconds a cell")
        for method in dict.fromkeys(one.method for one in self._cells.values()):
            total = sum(one.method == method for one in self._cells.values())
            done = [one for one in self._done.values() if one.trial.method == method]
            shown.add_row(cell(method), f"{len(done)}/{total}", *self._row(done, score))
        found = f" ({self.n_found} found done)" if self.n_found else ""
        left = f"{len(self._done)} of {len(self._cells)} trials{found}, {self._left()} left"
        return Group(Text(f"\n{self._title}", style="bold"), shown, Text(left, style="dim"))

    def _row(self, done: list[Outcome], score: str) -> tuple[str, str]:
        values = [one.scores[score] for one in done if score in one.scores]
        failed = sum(one.error is not None for one in done)
        told = (_spread(values) if values else NOTHING) + (f" ({failed} failed)" if failed else "")
        seconds = [sum(one.seconds.values()) for one in done if one.error is None]
        return told, number(sum(seconds) / len(seconds), 1) if seconds else NOTHING

    def _left(self) -> str:
        """A guess from what the trials of each method took; those not seen yet take the mean of all."""
        spent: dict[str, list[float]] = {}
        for one in self._done.values():
            spent.setdefault(one.trial.method, []).append(sum(one.seconds.values()))
        if not spent:
            return "some time"
        mean = sum(map(sum, spent.values())) / len(self._done)
        rest = [one.method for key, one in self._cells.items() if key not in self._done]
        each = {method: sum(times) / len(times) for method, times in spent.items()}
        return _clock(sum(each.get(method, mean) for method in rest) / self.jobs)


def _spread(values: list[float]) -> str:
    """Their mean, and how far they spread if there are several."""
    summary = Summary.of(values)
    return number(summary.mean) + (f" ± {number(summary.std)}" if summary.n > 1 else "")


def _told(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params.items()) or NOTHING


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"
