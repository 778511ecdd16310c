"""Run a complete benchmark: protocols on data sets, with or without tuning of the methods.

All results are written to one folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method, as_methods
from oahu.evaluation.protocols.methods import reference_method
from oahu.evaluation.protocols.scale_advice import scale_warnings
from oahu.evaluation.protocols.scaling import describe_scaling
from oahu.evaluation.protocols.tuning import TUNED_SCALINGS, Candidate, tune
from oahu.evaluation.runner import Runner
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial
from oahu.exceptions import InvalidInputError

__all__ = ["PAPER_EXPERIMENTS", "Listener", "Plan", "bench", "default_methods"]

#: The data sets that the paper uses with each protocol. ``lfw-soft`` is not in the paper.
PAPER_EXPERIMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "classification": ("fashion-mnist", "emnist-balanced", "cifar10-gray"),
    "constraints": ("fashion-mnist", "cifar10-gray"),
    "verification": ("lfw", "lfw-soft"),
    "retrieval": ("cars196", "cifar100"),
    "sensitivity": ("fashion-mnist",),
    "regret": ("fashion-mnist",),
}


@dataclass(frozen=True)
class Plan:
    """Plan to run one protocol on one data set.

    Attributes
    ----------
    protocol : str
        Name of the protocol, one of `oahu.evaluation.protocols.PROTOCOLS`.
    dataset : Dataset
        Data set of the plan.
    runs : int, optional
        Number of runs. By default, the protocol's default number of runs.
    tune : bool
        Whether to tune the methods first. Tuning chooses the scaling and the parameters of each method by
        cross-validation on development data.
    settings : mapping
        Values of settings that differ from the protocol's defaults, by name. Examples of settings are
        ``n_constraints``, ``scaling`` and ``k``.
    folds : int
        Number of folds of the cross-validation.
    tune_items : int
        Maximum number of development items in the cross-validation.
    scalings : sequence of str
        Input scalings that tuning tries.
    """

    protocol: str
    dataset: Dataset
    runs: int | None = None
    tune: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    folds: int = 10
    tune_items: int = 10_000
    scalings: Sequence[str] = TUNED_SCALINGS

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise InvalidInputError(
                f"There is no protocol {self.protocol!r}. The protocols are {', '.join(PROTOCOLS)}."
            )
        protocol = PROTOCOLS[self.protocol]
        protocol.check_dataset(self.dataset)
        settings = protocol.settings(self.dataset, **self.settings)
        if self.settings.get("n_seeds", 0) > settings.get("n_constraints", 0):
            raise InvalidInputError(
                f"The setting 'n_seeds' must be at most 'n_constraints' ({settings['n_constraints']:,}). "
                f"Got {self.settings['n_seeds']:,} instead."
            )
        for scaling in self.scalings:
            protocol.settings(self.dataset, scaling=scaling)
        if (self.runs is not None and self.runs < 1) or self.folds < 2:
            raise InvalidInputError(
                f"A plan needs at least one run and two folds. Got {self.runs} run(s) and {self.folds} fold(s)."
            )


class Listener:
    """Base class of objects that are notified about the progress of a benchmark.

    The methods of this class do nothing. Subclasses override the methods that they need.
    """

    def on_start(self, title: str, trials: Sequence[Trial]) -> None:
        """Called before a group of trials is measured."""

    def on_outcome(self, outcome: Outcome, stored: bool) -> None:
        """Called after a trial has been measured. If ``stored``, its stored outcome has been loaded instead."""

    def on_tuned(self, plan: Plan, choices: Mapping[str, Candidate]) -> None:
        """Called after tuning has chosen a scaling and parameters for each method."""

    def on_note(self, text: str) -> None:
        """Called with information about the inputs of a data set, such as the scaling of its features."""

    def on_warning(self, text: str) -> None:
        """Called with a warning about a plan, for example about an input scale that does not suit a method."""


def bench(
    plans: Sequence[Plan],
    methods: Sequence[Any] | None = None,
    out: str | Path = "bench-output",
    jobs: int = 1,
    listener: Listener | None = None,
    command: str = "oahu.evaluation.benchmark.bench(...)",
    reference: str | None = None,
) -> BenchmarkRecord:
    """Run all plans. Return the results and write them to ``out/results.json``.

    Finished trials are stored in ``out/trials``. A second call with the same folder continues an interrupted
    benchmark. A failed trial does not stop the benchmark. The returned results include the failed trials.

    Parameters
    ----------
    plans : sequence of Plan
        Plans to run.
    methods : sequence of Method, Learner, Metric, (name, Learner or Metric) or str, optional
        Methods to compare. `oahu.evaluation.protocols.as_method` documents the allowed values. By default, the
        default methods of the protocols in ``plans``.
    out : path
        Folder for the results.
    jobs : int
        Number of parallel processes. The scores do not depend on this number.
    listener : Listener, optional
        Object that is notified about the progress.
    command : str
        Command line that repeats the benchmark, to be stored with the results.
    reference : str, optional
        Reference method of the significance tests. By default, the first method in
        `oahu.evaluation.protocols.DEFAULT_METHODS` that is among ``methods``: AnchoredOAHU, or else OAHU, and so
        on.

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
    listener = listener or Listener()
    compared = as_methods(default_methods(plan.protocol for plan in plans) if methods is None else methods)
    reference = reference_method(compared, reference)
    by_name = {plan.dataset.name: plan.dataset for plan in plans}
    for plan in plans:
        if plan.dataset.digest != by_name[plan.dataset.name].digest:
            raise InvalidInputError(f"Two data sets are named {plan.dataset.name!r}. Give them different names.")
    runner = Runner(Path(out), by_name, compared, jobs, reference)
    try:
        for plan in plans:
            _run_plan(plan, compared, runner, listener)
    finally:
        record = runner.record(command)
        record.save(Path(out) / "results.json")
    return record


def default_methods(protocols: Iterable[str]) -> list[str]:
    """Return the names of the methods that some protocols compare by default, without repetitions."""
    return list(dict.fromkeys(name for protocol in protocols for name in PROTOCOLS[protocol].default_methods))


def _run_plan(plan: Plan, methods: Sequence[Method], runner: Runner, listener: Listener) -> None:
    protocol, dataset = PROTOCOLS[plan.protocol], plan.dataset
    settings = protocol.settings(dataset, **plan.settings)
    title = f"{plan.protocol} on {dataset.name}"
    applicable = [method for method in methods if protocol.applies_to(method)]
    measured = [method for method in applicable if protocol.trials(dataset, method, 1, settings)]
    if not measured:
        names = ", ".join(method.name for method in methods)
        raise InvalidInputError(f"The protocol {plan.protocol} does not apply to {names}.")

    def run(trials: Sequence[Trial], title: str) -> list[Outcome]:
        listener.on_start(title, trials)
        return runner.run(trials, listener.on_outcome)

    choices: Mapping[str, Candidate] = {}
    tuned = plan.tune and protocol.tunable
    if tuned:
        tuning = {**settings, "folds": plan.folds, "tune_items": plan.tune_items, "tuned": True}
        choices = tune(
            protocol, dataset, measured, tuning, lambda trials: run(trials, f"tuning {title}"), plan.scalings
        )
        listener.on_tuned(plan, choices)
    else:
        scaling = settings["scaling"]
        listener.on_note(f"Inputs of {dataset.name}: {describe_scaling(scaling, settings['pca'])} ({scaling}).")
        for warning in scale_warnings(dataset, measured, settings):
            runner.add_warning(warning)
            listener.on_warning(warning)
    trials: list[Trial] = []
    for method in measured:
        own_settings = {**settings, "learner": method.identity}
        if method.name in choices:
            scaling, params = choices[method.name]
            own_settings |= {"scaling": scaling, "params": {**settings["params"], **params}, "tuned": True}
        planned = protocol.trials(dataset, method, plan.runs or protocol.runs, own_settings)
        if tuned and method.name not in choices:
            error = "All parameter values failed in tuning. See the failed tuning trials."
            marked = [replace(trial, settings={**trial.settings, "tuned": True}) for trial in planned]
            runner.mark_failed(marked, error)
        else:
            trials += planned
    run(sorted(trials, key=lambda trial: trial.run), title)
