"""Results of a benchmark, grouped by experiment and by method."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import nan
from typing import Any, Final

from oahu.evaluation.protocols.methods import DEFAULT_METHODS
from oahu.evaluation.statistics import Better, SignificanceTest, Summary, compare_runs
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial

__all__ = ["LEARNS_NOTHING", "MAIN_SCORES", "PROTOCOL_NAMES", "UNLEARNED", "Experiment", "MethodResults"]
__all__ += ["experiments", "format_setting", "sort_methods"]

PROTOCOL_NAMES: Final = (
    *("classification", "constraints", "verification", "retrieval", "sensitivity", "regret", "clicks"),
)

#: The unlearned metrics.
UNLEARNED: Final = ("Euclidean", "Cosine", "CentredCosine")

#: The methods for which constraints do not change the ranking of other queries.
LEARNS_NOTHING: Final = (*UNLEARNED, "Rocchio")

#: The score by which methods are compared in each task, and whether lower or higher is better.
MAIN_SCORES: Final[dict[str, tuple[str, Better]]] = {
    "classification": ("error_rate", "lower"),
    "verification": ("auc", "higher"),
    "retrieval": ("recall@1", "higher"),
    "clicks": ("precision@10", "higher"),
}

#: The settings that separate the experiments of a protocol.
_VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "verification": ("people",),
    "sensitivity": ("vary",),
    "clicks": ("user", "noise", "careless", "click_queries", "interleave", "baseline"),
}
_HIDDEN: Final = {"careless": 0.0, "click_queries": "catalogue", "interleave": "no", "baseline": "cosine"}


@dataclass(frozen=True)
class MethodResults:
    """Results of one method in an experiment: one row of a table.

    Attributes
    ----------
    label : str
        Name of the method. If the method has several rows, the label includes the settings that differ between the
        rows.
    method : str
        Name of the method.
    outcomes : tuple of Outcome
        Outcomes of the successful runs, sorted by the number of the run.
    failed : tuple of Outcome
        Outcomes of the failed runs, sorted by the number of the run.
    """

    label: str
    method: str
    outcomes: tuple[Outcome, ...]
    failed: tuple[Outcome, ...] = ()

    @property
    def sweep(self) -> list[float]:
        """Values of the varied setting for which results exist.

        Depending on the protocol, these values are numbers of constraints or clicks, or values of a parameter.
        """
        return sorted({value for outcome in self.outcomes for value in _sweep_values(outcome)})

    def at(self, value: float | None) -> list[Outcome]:
        """Return the outcomes at one value of the varied setting.

        For None, return all outcomes. An unlearned metric does not depend on the setting: return all its outcomes.
        """
        everywhere = value is None or (self.learned_nothing and len(self.sweep) == 1)
        return [outcome for outcome in self.outcomes if everywhere or value in _sweep_values(outcome)]

    @property
    def learned_nothing(self) -> bool:
        return not any("n_seen" in outcome.facts for outcome in self.outcomes)

    def values(self, score: str, at: float | None = None) -> list[float]:
        """Return a score of each run, or NaN for a run without this score. ``at`` is passed to the method `at`."""
        return [_score(outcome, score, at) for outcome in self.at(at)]

    def summary(self, score: str, at: float | None = None) -> Summary:
        """Return the mean and the standard deviation of a score."""
        return Summary.of(self.values(score, at))

    def seconds(self, step: str) -> list[float]:
        """Return the duration of a step in each run, in seconds."""
        return [_as_float(outcome.seconds.get(step)) for outcome in self.outcomes]

    def curves(self, name: str) -> list[Mapping[str, Any]]:
        """Return the curve ``name`` of each run. Runs without this curve are left out."""
        return [outcome.curves[name] for outcome in self.outcomes if outcome.curves.get(name)]


@dataclass(frozen=True)
class Experiment:
    """Results of all methods in one protocol on one data set, either with or without tuning.

    Attributes
    ----------
    variant : tuple of (name, value)
        Further settings that distinguish this experiment from others, such as ``people`` in verification.
    title : str
        Title of the experiment: the name of the data set, "tuned" or "untuned", and the variant.
    slug : str
        The title in a form that can be part of a file name.
    rows : tuple of MethodResults
        Results of each method, in the order of `sort_methods`.
    missing : tuple of str
        Methods that have results of this protocol only on other data sets.
    reference_name : str
        Name of the reference method of the significance tests.
    """

    protocol: str
    dataset: str
    tuned: bool
    variant: tuple[tuple[str, str], ...]
    title: str
    slug: str
    rows: tuple[MethodResults, ...]
    missing: tuple[str, ...]
    reference_name: str

    @property
    def name(self) -> str:
        """Title of the experiment for use in a sentence."""
        words = ["tuned" if self.tuned else "untuned", *(f"{name}: {value}" for name, value in self.variant)]
        return f"{self.dataset} ({', '.join(words)})"

    @property
    def reference(self) -> MethodResults | None:
        """Row of the reference method, or None if the reference method has no results."""
        return self.row(self.reference_name)

    def row(self, method: str) -> MethodResults | None:
        """Return the first row with results of a method, or None if there is no such row."""
        return next((row for row in self.rows if row.method == method and row.outcomes), None)

    def ranked(self, score: str, better: Better) -> list[MethodResults]:
        """Return the rows that have this score, best row first."""
        rows = [row for row in self.rows if row.summary(score).n]
        return sorted(rows, key=lambda row: row.summary(score).mean * (1 if better == "lower" else -1))

    @property
    def sweep(self) -> list[float]:
        """Values of the varied setting for which at least one method has results."""
        return sorted({value for row in self.rows for value in row.sweep})

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for row in self.rows for outcome in row.failed]

    def test(
        self, row: MethodResults, score: str, better: Better, paired: bool = False, at: float | None = None
    ) -> SignificanceTest | None:
        """Return the significance test of the reference method against a row.

        Return None if the row is the reference method, or if one of the two methods has no results.
        """
        reference = self.reference
        if reference is None or row is reference or not row.at(at) or not reference.at(at):
            return None
        if not paired:
            return compare_runs(reference.values(score, at), row.values(score, at), better=better)
        first, second = _by_run(reference, score, at), _by_run(row, score, at)
        runs = sorted(first.keys() & second.keys())
        return compare_runs([first[run] for run in runs], [second[run] for run in runs], better=better, paired=True)


def experiments(record: BenchmarkRecord, protocol: str) -> list[Experiment]:
    """Return the experiments of a protocol, sorted by data set. For each data set, tuned results come first."""
    outcomes: dict[tuple[str, bool, tuple[tuple[str, str], ...]], list[Outcome]] = {}
    for outcome in record.outcomes:
        if outcome.trial.stage == "result" and outcome.trial.protocol == protocol:
            outcomes.setdefault(_experiment_key(outcome.trial), []).append(outcome)
    datasets = list(dict.fromkeys([*record.datasets, *(name for name, _, _ in outcomes)]))
    keys = sorted(outcomes, key=lambda key: (datasets.index(key[0]), not key[1], key[2]))
    methods = sort_methods({outcome.trial.method: None for own in outcomes.values() for outcome in own})
    slugs: set[str] = set()
    return [_experiment(protocol, key, outcomes[key], methods, slugs, record.reference) for key in keys]


def _experiment(
    protocol: str, key: Any, outcomes: list[Outcome], methods: list[str], slugs: set[str], reference: str
) -> Experiment:
    dataset, tuned, variant = key
    words = [dataset, "tuned" if tuned else "untuned", *(f"{name}: {value}" for name, value in variant)]
    slug = _slug(f"{protocol} {' '.join(words)}")
    while slug in slugs:
        slug += "-2"
    slugs.add(slug)
    present = {outcome.trial.method for outcome in outcomes}
    rows = [row for method in methods if method in present for row in _rows(method, outcomes)]
    missing = tuple(method for method in methods if method not in present)
    return Experiment(protocol, dataset, tuned, variant, " · ".join(words), slug, tuple(rows), missing, reference)


def _rows(method: str, outcomes: list[Outcome]) -> list[MethodResults]:
    """Return the rows of a method. If a run was repeated with other settings, each combination has a row."""
    own = sorted((o for o in outcomes if o.trial.method == method), key=lambda o: o.trial.run)
    runs = [(outcome.trial.run, _sweep_value(outcome.trial)) for outcome in own]
    if len(set(runs)) == len(runs):
        return [_row(method, method, own)]
    settings = [_flat_settings(outcome.trial) for outcome in own]
    names = sorted({name for each in settings for name in each})
    differing = [name for name in names if len({json.dumps(each.get(name)) for each in settings}) > 1]
    by_label: dict[str, list[Outcome]] = {}
    for outcome, each in zip(own, settings, strict=True):
        words = ", ".join(f"{name} {format_setting(each.get(name))}" for name in differing)
        by_label.setdefault(f"{method} ({words})" if words else method, []).append(outcome)
    return [_row(label, method, runs) for label, runs in by_label.items()]


def _row(label: str, method: str, outcomes: list[Outcome]) -> MethodResults:
    measured = tuple(outcome for outcome in outcomes if outcome.error is None)
    failed = tuple(outcome for outcome in outcomes if outcome.error is not None)
    return MethodResults(label, method, measured, failed)


def sort_methods(methods: Iterable[str]) -> list[str]:
    """Return methods in the order of the report: default methods first, then other methods in the given order."""
    last = len(DEFAULT_METHODS)
    return sorted(methods, key=lambda name: DEFAULT_METHODS.index(name) if name in DEFAULT_METHODS else last)


def format_setting(value: Any) -> str:
    """Return the value of a setting as text."""
    if value is None:
        return "–"  # noqa: RUF001
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _experiment_key(trial: Trial) -> tuple[str, bool, tuple[tuple[str, str], ...]]:
    values = ((name, trial.settings.get(name)) for name in _VARIANTS.get(trial.protocol, ()))
    variant = tuple(
        (name.replace("_", " "), str(value))
        for name, value in values
        if value is not None and value != _HIDDEN.get(name)
    )
    return trial.dataset, bool(trial.settings.get("tuned")), variant


def _sweep_value(trial: Trial) -> float | None:
    value: Any = None
    if trial.protocol == "constraints":
        value = trial.settings.get("n_constraints")
    elif trial.protocol == "sensitivity":
        value = (trial.settings.get("params") or {}).get(trial.settings.get("vary"))
    return value if isinstance(value, int | float) else None


def _sweep_values(outcome: Outcome) -> list[float]:
    """Return the values of the varied setting in one outcome. With clicks, one outcome has several values."""
    if outcome.trial.protocol == "clicks":
        return list((outcome.curves.get("clicks") or {}).get("clicks", ()))
    value = _sweep_value(outcome.trial)
    return [] if value is None else [value]


def _score(outcome: Outcome, name: str, at: float | None) -> float:
    """Return a score of an outcome. With clicks, ``at`` is the number of clicks. None means all clicks."""
    curve = outcome.curves.get("clicks")
    if curve and at is not None:
        return _as_float(dict(zip(curve["clicks"], curve.get(name, ()), strict=False)).get(at))
    return _as_float(outcome.scores.get(name))


def _flat_settings(trial: Trial) -> dict[str, Any]:
    """Return the settings and parameters of a trial in one dict, without the random seed and the varied setting."""
    swept = {"constraints": "n_constraints", "sensitivity": trial.settings.get("vary")}.get(trial.protocol)
    flat = {**trial.settings, **(trial.settings.get("params") or {})}
    return {name: value for name, value in flat.items() if name not in ("params", "seed", swept)}


def _by_run(row: MethodResults, score: str, at: float | None) -> dict[int, float]:
    return {outcome.trial.run: _score(outcome, score, at) for outcome in row.at(at)}


def _as_float(value: Any) -> float:
    return nan if value is None else float(value)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
