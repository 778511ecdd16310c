"""The trials of a benchmark and their results: the contents of ``results.json``."""

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
    """One measurement to make: one method on one data set, in one run.

    Attributes
    ----------
    protocol : {"classification", "constraints", "verification", "retrieval", "sensitivity", "regret"}
    dataset, method : str
    run : int
        The number of the run, or of the fold where the protocol has folds.
    settings : mapping
        Everything else that the scores depend on, as JSON values: ``seed``, ``n_constraints``, ``n_seeds``,
        ``scaling``, ``pca``, ``params`` (of the learner), ``k``, ``queries``, and the settings a protocol adds.
    stage : {"result", "tuning"}
        Tuning trials use development data only, and ``run`` is the fold.
    """

    protocol: str
    dataset: str
    method: str
    run: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    stage: str = "result"

    @property
    def id(self) -> str:
        """A unique name. If a result with the same id is stored, the trial is not measured again."""
        text = json.dumps(
            [self.protocol, self.dataset, self.method, self.run, self.settings, self.stage], sort_keys=True
        )
        return f"{self.protocol}-{self.method}-{self.run}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Outcome:
    """The result of a trial.

    Attributes
    ----------
    trial : Trial
    scores : dict
        Numbers by name: ``error_rate``, ``macro_f1``, ``utilization``, ``auc``, ``accuracy``, ``recall@1``, ...
    curves : dict
        Data for figures: ``weights`` (``rounds``, ``weights``), ``roc`` (``far``, ``tar``), ``regret``
        (``rounds``, ``regret``, ``bound``), ``examples``.
    seconds : dict
        Time per step: ``inputs``, ``constraints``, ``learning``, ``evaluation``. Compilation is not included.
    facts : dict
        Further information: the number of drawn and of implied constraints, package versions, warnings.
    error : str, optional
        The error message of a trial that failed and has no scores.
    """

    trial: Trial
    scores: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values; scores that are not finite become None."""
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
        """Return the outcome that `as_json` wrote."""
        trial = Trial(**{name: data[name] for name in _TRIAL_FIELDS})
        scores = {name: float("nan") if value is None else float(value) for name, value in data["scores"].items()}
        return cls(trial, scores, data["curves"], data["seconds"], data["facts"], data["error"])


@dataclass(frozen=True)
class BenchmarkRecord:
    """All results of a benchmark: the contents of ``results.json``.

    Attributes
    ----------
    command : str
        The command that repeats the benchmark.
    started : str
        Start time, in ISO format.
    seconds : float
        Total duration of all sessions of this command; pauses between them are not included.
    machine : dict
        Processor, number of cores, operating system, package versions.
    datasets : dict
        ``n_items``, ``n_features`` and ``n_classes`` of each data set, by name.
    outcomes : tuple of Outcome
        Results of all trials, including those of tuning.
    reference : str
        The reference method of the significance tests and win/tie/loss counts.
    warnings : tuple of str
        Warnings about the whole benchmark, such as an input scale that does not suit a method.
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
        """Iterate over the successful outcomes of a protocol, without those of tuning."""
        for outcome in self.outcomes:
            trial = outcome.trial
            wanted = trial.stage == "result" and trial.protocol == protocol and dataset in (None, trial.dataset)
            if wanted and outcome.error is None:
                yield outcome

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The outcomes that have an error and no scores."""
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)

    def save(self, path: Path) -> None:
        """Write the record to a file, atomically."""
        data = {"format": _FORMAT, **vars(self), "outcomes": [outcome.as_json() for outcome in self.outcomes]}
        write_json(path, data)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a record that `save` wrote."""
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
