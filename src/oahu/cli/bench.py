"""`oahu bench`: build the plans of a benchmark from its options, run them and write the report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import joblib
from rich.console import Console
from rich.text import Text

from oahu.cli.bench_command import BenchOptions
from oahu.cli.bench_progress import ProgressTable, format_duration, format_params
from oahu.cli.train_command import parse_parameter
from oahu.evaluation import datasets
from oahu.evaluation.benchmark import PAPER_EXPERIMENTS, Plan, bench, default_methods
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method, as_methods
from oahu.evaluation.protocols.methods import reference_method
from oahu.evaluation.report import html_page
from oahu.evaluation.trials import BenchmarkRecord
from oahu.exceptions import InvalidInputError

__all__ = ["run"]

_QUICK_SETTINGS: Final[Mapping[str, Any]] = {"n_constraints": 1_000, "n_seeds": 500, "n_clicks": 100}
_CLICK_DATASETS: Final = ("tiles:colour", "tiles:shape")
_QUICK_PLAN: Final[Mapping[str, Any]] = {"runs": 2, "folds": 2, "tune_items": 300}
_OPTION_NAMES: Final = {
    "n_constraints": "--constraints",
    "n_seeds": "--seeds",
    "n_clicks": "--clicks",
    "click_queries": "--click-queries",
}


def run(console: Console, errors: Console, options: BenchOptions) -> bool:
    """Run the benchmark and write its report. Return False if a trial failed or the user pressed Ctrl+C."""
    if not options.tune and (options.folds or options.tune_items):
        raise InvalidInputError("--folds and --tune-items can only be used with --tune.")
    methods = _methods(options)
    reference = reference_method(methods, options.reference)
    plans = _plans(errors, options)
    jobs = options.jobs or joblib.cpu_count()
    table = ProgressTable(errors, jobs)
    command = f"oahu {shlex.join(sys.argv[1:])}"
    if (before := _command_of(options.out)) not in (None, command):
        message = f"Replacing the report of `{before}` in {options.out}. The stored trials are not deleted."
        errors.print(message, style="yellow", highlight=False, markup=False, soft_wrap=True)
    try:
        with table:
            record = bench(plans, methods, options.out, jobs, table, command, reference)
    except KeyboardInterrupt:
        message = f"\nInterrupted. {table.n_measured:,} trials are stored in {options.out}. "
        errors.print(message + "Run the same command again to continue.", highlight=False, soft_wrap=True)
        return False
    with errors.status("Writing the report ..."):
        path = html_page.write(record, options.out, {plan.dataset.name: plan.dataset for plan in plans})
    _print_summary(console, record, path)
    return all(failure.trial.stage == "tuning" for failure in record.failures)


def _command_of(out: Path) -> str | None:
    """Return the command that wrote the results in a folder, or None if the folder contains no results."""
    try:
        return BenchmarkRecord.load(out / "results.json").command
    except (OSError, InvalidInputError):
        return None


def _methods(options: BenchOptions) -> list[Method]:
    """Return the methods of the benchmark, with the parameters that --set METHOD.NAME=VALUE sets."""
    protocols = PAPER_EXPERIMENTS if options.protocol == "paper" else (options.protocol.value,)
    methods = as_methods(options.method_names or default_methods(protocols))
    for text in options.parameters or ():
        method_name, _, setting = text.partition(".")
        method = next((one for one in methods if one.name.lower() == method_name.lower()), None)
        if method is None or method.learner is None:
            names = ", ".join(one.name for one in methods if one.learner is not None)
            raise InvalidInputError(
                f"--set must have the form METHOD.NAME=VALUE. METHOD must be one of {names}. Got {text!r} instead."
            )
        name, value = parse_parameter(setting)
        try:
            method.learner.set_params(**{name: value})
            method.learner.check_parameters()
        except ValueError as error:
            raise InvalidInputError(f"--set {text}: {error}") from error
        # Tuning must not vary a parameter that the user has set.
        fixed = replace(method, grid={each: values for each, values in method.grid.items() if each != name})
        methods = [fixed if one is method else one for one in methods]
    return methods


def _plans(errors: Console, options: BenchOptions) -> list[Plan]:
    names_by_protocol = _dataset_names(options)
    loaded: dict[str, Dataset] = {}
    for name in dict.fromkeys(name for names in names_by_protocol.values() for name in names):
        dataset = _load(errors, name, options)
        if dataset is not None:
            loaded[name] = dataset
    plans = [
        _plan(options, protocol, loaded[name], tune)
        for protocol, names in names_by_protocol.items()
        for name in names
        if name in loaded
        for tune in _tuning_modes(options, protocol)
    ]
    if not plans:
        raise InvalidInputError(
            "None of the data sets is available. `oahu datasets` shows how to get the data sets."
        )
    return plans


def _dataset_names(options: BenchOptions) -> dict[str, tuple[str, ...]]:
    """Return the names of the data sets for each protocol."""
    is_paper, given = options.protocol == "paper", tuple(options.datasets or ())
    protocols = tuple(PAPER_EXPERIMENTS) if is_paper else (options.protocol.value,)
    if options.quick:
        return dict.fromkeys(protocols, given or ("digits",))
    if not given:
        return {protocol: PAPER_EXPERIMENTS.get(protocol, _CLICK_DATASETS) for protocol in protocols}
    if not is_paper:
        return {options.protocol.value: given}
    in_paper = dict.fromkeys(name for names in PAPER_EXPERIMENTS.values() for name in names)
    for name in given:
        if name not in in_paper:
            raise InvalidInputError(
                f"For the experiment 'paper', --dataset must be one of {', '.join(in_paper)}. Got {name!r} instead."
            )
    return {
        protocol: tuple(name for name in names if name in given) for protocol, names in PAPER_EXPERIMENTS.items()
    }


def _tuning_modes(options: BenchOptions, protocol: str) -> tuple[bool, ...]:
    """Return the modes to run: without tuning (False), with tuning (True), or both for `paper --tune`."""
    if not options.tune or not PROTOCOLS[protocol].tunable:
        return (False,)
    return (False, True) if options.protocol == "paper" else (True,)


def _load(errors: Console, name: str, options: BenchOptions) -> Dataset | None:
    """Return a data set, or None if the data set is missing and the user did not name it."""
    with errors.status(f"Reading {name} ..."):
        is_given = options.datasets or options.quick
        if is_given or datasets.source(name.partition(":")[0]).is_available(datasets.data_home()):
            return datasets.load(name, labels=options.labels) if options.labels else datasets.load(name)
    message = f"Skipping {name}, because it is not available. `oahu datasets` shows how to get {name}."
    errors.print(message, style="yellow", highlight=False, soft_wrap=True)
    return None


def _plan(options: BenchOptions, protocol: str, dataset: Dataset, tune: bool) -> Plan:
    available = PROTOCOLS[protocol].settings(dataset)
    for name in options.settings:
        if name not in available and options.protocol != "paper":  # `paper` runs several protocols
            option = _OPTION_NAMES.get(name, f"--{name}")
            raise InvalidInputError(f"{option} does not apply to {protocol}. See `oahu bench --help`.")
    settings = {**(_QUICK_SETTINGS if options.quick else {}), **options.settings}
    settings = {name: value for name, value in settings.items() if name in available}
    given = {"runs": options.runs, "folds": options.folds, "tune_items": options.tune_items}
    fields: dict[str, Any] = dict(_QUICK_PLAN) if options.quick else {}
    fields |= {name: value for name, value in given.items() if value is not None}
    if options.scalings:
        fields["scalings"] = options.scalings
    return Plan(protocol, dataset, tune=tune, settings=settings, **fields)


def _print_summary(console: Console, record: BenchmarkRecord, path: Path) -> None:
    """Print the time of each step, the failed trials and the path of the report."""
    spent: dict[str, float] = {}
    for outcome in record.outcomes:
        for step, seconds in outcome.seconds.items():
            spent[step] = spent.get(step, 0.0) + seconds
    total = sum(spent.values()) or 1.0
    shares = ", ".join(
        f"{step} {seconds / total:.0%}" for step, seconds in sorted(spent.items(), key=lambda x: -x[1])
    )
    n_trials = f"{len(record.outcomes):,} trials in {format_duration(record.seconds)}"
    console.print(f"\n{n_trials}: {shares}. Reference: {record.reference}.", highlight=False, soft_wrap=True)
    for failure in record.failures:
        trial = failure.trial
        what, where = "failed: ", f"{trial.method} on {trial.dataset}, run {trial.run}"
        if trial.stage == "tuning":  # this candidate is eliminated; the others remain
            what, where = "failed in tuning: ", f"{where}, with {format_params(trial.settings['params'])}"
        console.print(Text.assemble((what, "red"), f"{where}: {failure.error}"), soft_wrap=True)
    console.print(f"Report: {path}", soft_wrap=True, highlight=False, markup=False)
