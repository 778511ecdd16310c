"""A whole benchmark: protocols on data sets, tuned or not, into a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from oahu.evaluation.cells import Cell, Outcome, Record
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method, as_methods
from oahu.evaluation.protocols.tuning import TUNED_SCALINGS, race
from oahu.evaluation.runner import Runner
from oahu.exceptions import InvalidInputError

__all__ = ["PAPER", "Listener", "Plan", "bench"]

#: What the paper measures: each of its protocols, and the data sets that it takes. ``lfw-soft`` is ours.
PAPER: Final[Mapping[str, tuple[str, ...]]] = {
    "classification": ("fashion-mnist", "emnist-balanced", "cifar10-gray"),
    "constraints": ("fashion-mnist", "cifar10-gray"),
    "verification": ("lfw", "lfw-soft"),
    "retrieval": ("cars196", "cifar100"),
    "sensitivity": ("fashion-mnist",),
    "regret": ("fashion-mnist",),
}

_FOLDS: Final = 10
_TUNE_ITEMS: Final = 10_000


@dataclass(frozen=True)
class Plan:
    """One protocol on one data set.

    Attributes
    ----------
    protocol : str
        One of `oahu.evaluation.protocols.PROTOCOLS`.
    dataset : Dataset
    runs : int, optional
        As many as the protocol has by default.
    tune : bool
        Whether scaling and parameters are chosen by cross-validation on development data first.
    settings : mapping
        What is to be other than the protocol's defaults: ``n_constraints``, ``scaling``, ``k``, ...
    folds, tune_items : int
        Folds of the cross-validation, and development items that it is done on at most.
    scalings : sequence of str
        The input scalings that tuning chooses from.
    """

    protocol: str
    dataset: Dataset
    runs: int | None = None
    tune: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    folds: int = _FOLDS
    tune_items: int = _TUNE_ITEMS
    scalings: Sequence[str] = TUNED_SCALINGS

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise InvalidInputError(f"There is no protocol {self.protocol!r}. There are {', '.join(PROTOCOLS)}.")
        PROTOCOLS[self.protocol].check(self.dataset)
        settings = PROTOCOLS[self.protocol].settings(self.dataset, **self.settings)
        if self.settings.get("n_seeds", 0) > settings["n_constraints"]:
            raise InvalidInputError(
                f"n_seeds is how many of the {settings['n_constraints']:,} constraints are drawn. "
                f"Got {self.settings['n_seeds']:,} instead."
            )
        for scaling in self.scalings:
            PROTOCOLS[self.protocol].settings(self.dataset, scaling=scaling)
        if (self.runs is not None and self.runs < 1) or self.folds < 2:
            raise InvalidInputError(
                f"There must be at least one run and two folds. Got {self.runs} run(s) and {self.folds} fold(s)."
            )


class Listener:
    """Is told how a benchmark goes on; this one does nothing."""

    def begins(self, title: str, cells: Sequence[Cell]) -> None:
        """These cells are measured next."""

    def seen(self, outcome: Outcome, found: bool) -> None:
        """A cell is done, or was found done in the folder."""

    def chosen(self, plan: Plan, choices: Mapping[str, Any]) -> None:
        """Tuning has chosen a scaling and parameters for each method."""


def bench(
    plans: Sequence[Plan],
    methods: Sequence[Any] | None = None,
    out: str | Path = "bench-output",
    jobs: int = 1,
    listener: Listener | None = None,
    command: str = "oahu.evaluation.benchmark(...)",
) -> Record:
    """Measure methods as planned; writes ``out/results.json`` and, as they finish, ``out/cells``.

    Run again with the same folder, it goes on where it was interrupted. A cell that fails is reported in the
    record, and the others go on.

    Parameters
    ----------
    plans : sequence of Plan
    methods : sequence of Method, Learner, Metric, (name, Learner or Metric) or str, optional
        The rows: see `oahu.evaluation.protocols.as_method`. Those of the paper and its related work by default.
    out : path
    jobs : int
        Cells measured at the same time. The numbers do not depend on it.
    listener : Listener, optional
    command : str
        How it can be done again, for the record.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from oahu import Euclidean
    >>> from oahu.evaluation import datasets
    >>> plan = Plan("classification", datasets.load("digits"), runs=1)
    >>> record = bench([plan], methods=[Euclidean()], out=mkdtemp())
    >>> round(record.outcomes[0].scores["error_rate"], 2)
    0.03
    """
    rows, told = as_methods(methods), listener or Listener()
    names = {plan.dataset.name: plan.dataset for plan in plans}
    for plan in plans:
        if plan.dataset.digest != names[plan.dataset.name].digest:
            raise InvalidInputError(f"Two data sets are named {plan.dataset.name!r}: name them differently.")
    runner = Runner(Path(out), names, rows, jobs)
    try:
        for plan in plans:
            _follow(plan, rows, runner, told)
    finally:
        record = runner.record(command)
        record.save(Path(out) / "results.json")
    return record


def _follow(plan: Plan, methods: Sequence[Method], runner: Runner, listener: Listener) -> None:
    protocol, dataset = PROTOCOLS[plan.protocol], plan.dataset
    settings = protocol.settings(dataset, **plan.settings)
    title = f"{plan.protocol} on {dataset.name}"
    measured = [method for method in methods if protocol.cells(dataset, method, 1, settings)]
    if not measured:
        names = ", ".join(method.name for method in methods)
        raise InvalidInputError(f"There is nothing to measure by {plan.protocol} of {names}.")

    def run(cells: Sequence[Cell], title: str) -> list[Outcome]:
        listener.begins(title, cells)
        return runner.run(cells, listener.seen)

    choices: Mapping[str, Any] = {}
    if plan.tune and protocol.tunable:
        tuning = {**settings, "folds": plan.folds, "tune_items": plan.tune_items, "tuned": True}
        choices = race(
            protocol, dataset, measured, tuning, lambda cells: run(cells, f"tuning {title}"), plan.scalings
        )
        listener.chosen(plan, choices)
    cells: list[Cell] = []
    for method in measured:
        own = {**settings, "learner": method.described}
        if method.name in choices:
            scaling, params = choices[method.name]
            own |= {"scaling": scaling, "params": {**settings["params"], **params}, "tuned": True}
        planned = protocol.cells(dataset, method, plan.runs or protocol.runs, own)
        if plan.tune and protocol.tunable and method.name not in choices:
            why = "None of its candidates could be measured in tuning: see there."
            runner.refuse([replace(cell, settings={**cell.settings, "tuned": True}) for cell in planned], why)
        else:
            cells += planned
    run(sorted(cells, key=lambda cell: cell.run), title)
