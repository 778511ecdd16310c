"""Trials of a benchmark and their results, which are stored in ``results.json``."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Any, Final, Self

from oahu.exceptions import InvalidInputError
from oahu.io.atomic_files import write_atomically

__all__ = ["BenchmarkRecord", "Outcome", "Trial", "package_versions", "write_json"]

_FORMAT: Final = 2
_PACKAGES: Final = ("oahu", "numpy", "scipy", "scikit-learn", "numba", "joblib")
_TRIAL_FIELDS: Final = ("protocol", "dataset", "method", "run", "settings", "stage")


@dataclass(frozen=True)
class Trial:
    """One run of one method on one data set.

    Attributes
    ----------
    protocol : str
        Name of the protocol: "classification", "constraints", "verification", "retrieval", "sensitivity", "regret"
        or "clicks".
    dataset, method : str
        Names of the data set and of the method.
    run : int
        Number of the run, or of the fold if the protocol has folds. Numbers start at 0.
    settings : mapping
        All other values that the scores depend on, as JSON values: ``seed``, ``n_constraints``, ``n_seeds``,
        ``scaling``, ``pca``, ``params`` (parameters of the learner), ``k``, ``queries``, and the settings of the
        protocol.
    stage : {"result", "tuning"}
        Whether the trial measures a result or is part of tuning. Tuning trials use only development data, and
        ``run`` is the number of the fold.
    """

    protocol: str
    dataset: str
    method: str
    run: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    stage: str = "result"

    @property
    def id(self) -> str:
        """Unique id of the trial. If an outcome with the same id is stored, the trial is not measured again."""
        text = json.dumps(
            [self.protocol, self.dataset, self.method, self.run, self.settings, self.stage], sort_keys=True
        )
        return f"{self.protocol}-{self.method}-{self.run}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Outcome:
    """Result of a trial.

    Attributes
    ----------
    trial : Trial
        The trial.
    scores : dict
        Scores by name: ``error_rate``, ``macro_f1``, ``utilization``, ``auc``, ``accuracy``, ``recall@1``, ...
    curves : dict
        Data for figures, by name: ``weights`` (with ``rounds`` and ``weights``), ``roc`` (with ``far`` and
        ``tar``), ``regret`` (with ``rounds``, ``regret`` and ``bound``), ``clicks`` (with ``clicks`` and a list for
        each score) and ``examples``.
    seconds : dict
        Seconds per step: ``inputs``, ``constraints``, ``learning``, ``evaluation``. Compilation is not included.
    facts : dict
        Further information: the numbers of drawn and of implied constraints, package versions, warnings.
    error : str, optional
        Error message, if the trial failed. A failed trial has no scores.
    """

    trial: Trial
    scores: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values. Scores that are not finite become None."""
        return {
            **vars(self.trial),
            "scores": {name: value if isfinite(value) else None for name, value in self.scores.items()},
            "curves": dict(self.curves),
            "seconds": {name: round(value, 4) for name, value in self.seconds.items()},
            "facts": dict(self.facts),
            "error": self.error,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return an outcome from the JSON values that `as_json` returned."""
        trial = Trial(**{name: data[name] for name in _TRIAL_FIELDS})
        scores = {name: float("nan") if value is None else float(value) for name, value in data["scores"].items()}
        return cls(trial, scores, data["curves"], data["seconds"], data["facts"], data["error"])


@dataclass(frozen=True)
class BenchmarkRecord:
    """All results of a benchmark: the contents of ``results.json``.

    Attributes
    ----------
    command : str
        Command line that repeats the benchmark.
    started : str
        Start time, in ISO format.
    seconds : float
        Total duration of the benchmark in seconds. If the benchmark was interrupted and continued, pauses are not
        included.
    machine : dict
        Processor, number of cores, operating system, and package versions.
    datasets : dict
        ``n_items``, ``n_features`` and ``n_classes`` of each data set, by the name of the data set.
    outcomes : tuple of Outcome
        Outcomes of all trials, including tuning trials.
    reference : str
        Name of the reference method. The significance tests and the win/tie/loss counts compare it with the other
        methods.
    warnings : tuple of str
        Warnings about the whole benchmark, for example about an input scale that does not suit a method.
    """

    command: str
    started: str
    seconds: float
    machine: Mapping[str, Any]
    datasets: Mapping[str, Mapping[str, Any]]
    outcomes: tuple[Outcome, ...]
    reference: str = "AnchoredOAHU"
    warnings: tuple[str, ...] = ()

    def results(self, protocol: str, dataset: str | None = None) -> Iterator[Outcome]:
        """Yield the outcomes of the successful trials of a protocol. Tuning trials are left out."""
        for outcome in self.outcomes:
            trial = outcome.trial
            wanted = trial.stage == "result" and trial.protocol == protocol and dataset in (None, trial.dataset)
            if wanted and outcome.error is None:
                yield outcome

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """Outcomes of the failed trials, including tuning trials."""
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)

    def save(self, path: Path) -> None:
        """Write the results to a JSON file, atomically."""
        data = {"format": _FORMAT, **vars(self), "outcomes": [outcome.as_json() for outcome in self.outcomes]}
        write_json(path, data)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the results from a file that `save` wrote."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if (found := data.pop("format")) != _FORMAT:
                raise InvalidInputError(
                    f"{path} has format {found}, but this version of oahu reads format {_FORMAT}. Run the "
                    "benchmark again."
                )
            data["outcomes"] = tuple(map(Outcome.from_json, data["outcomes"]))
            data["warnings"] = tuple(data["warnings"])
            return cls(**data)
        except InvalidInputError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"{path} does not contain the results of a benchmark: {error}") from error


def write_json(path: Path, data: Any) -> None:
    """Write data to a JSON file, atomically."""
    write_atomically(path, json.dumps(data, allow_nan=False, default=_as_json, indent=1) + "\n")


def _as_json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value.tolist()


def package_versions(packages: Iterable[str] = _PACKAGES) -> dict[str, str]:
    """Return the versions of Python and of the installed packages."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
