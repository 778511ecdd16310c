"""What is measured and what came out: the contents of ``results.json``."""

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

__all__ = ["Cell", "Outcome", "Record", "versions", "write_json"]

_FORMAT: Final = 1
_PACKAGES: Final = ("oahu", "numpy", "scipy", "scikit-learn", "numba", "joblib")


@dataclass(frozen=True)
class Cell:
    """One thing to measure: a method on a data set, once.

    Attributes
    ----------
    protocol : {"classification", "constraints", "verification", "retrieval", "sensitivity", "regret"}
    dataset, method : str
    run : int
        Which of the independent runs; the fold, where folds are what is repeated.
    settings : mapping
        Whatever else the numbers depend on, as JSON has it: ``seed``, ``n_constraints``, ``n_seeds``, ``scaling``,
        ``pca``, ``params`` (of the learner), ``k``, ``queries``, and what a protocol adds.
    stage : {"result", "tuning"}
        Cells of tuning are measured on development data, and ``run`` is the fold.
    """

    protocol: str
    dataset: str
    method: str
    run: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    stage: str = "result"

    @property
    def id(self) -> str:
        """Names the cell among all others: what was measured under it need not be measured again."""
        text = json.dumps(
            [self.protocol, self.dataset, self.method, self.run, self.settings, self.stage], sort_keys=True
        )
        return f"{self.protocol}-{self.method}-{self.run}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Outcome:
    """What came of a cell.

    Attributes
    ----------
    scores : dict
        Numbers by name: ``error_rate``, ``macro_f1``, ``utilization``, ``auc``, ``accuracy``, ``recall@1``, ...
    curves : dict
        What is drawn: ``weights`` (``rounds``, ``weights``), ``roc`` (``far``, ``tar``), ``regret`` (``rounds``,
        ``regret``, ``bound``), ``examples``.
    seconds : dict
        Where the time went: ``inputs``, ``constraints``, ``learning``, ``evaluation``.
    facts : dict
        What else is worth knowing: how many constraints were drawn and how many followed from them, the versions
        of what computed, warnings.
    error : str, optional
        Why there are no scores.
    """

    cell: Cell
    scores: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            **vars(self.cell),
            "scores": {name: value if isfinite(value) else None for name, value in self.scores.items()},
            "curves": dict(self.curves),
            "seconds": {name: round(value, 4) for name, value in self.seconds.items()},
            "facts": dict(self.facts),
            "error": self.error,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        cell = Cell(**{name: data[name] for name in ("protocol", "dataset", "method", "run", "settings", "stage")})
        scores = {name: float("nan") if value is None else float(value) for name, value in data["scores"].items()}
        return cls(cell, scores, data["curves"], data["seconds"], data["facts"], data["error"])


@dataclass(frozen=True)
class Record:
    """A whole benchmark: ``results.json``.

    Attributes
    ----------
    command : str
        What one types to get it again.
    started : str
        When, in ISO form.
    seconds : float
        How long it took, pauses not counted.
    machine : dict
        Processor, cores, system, versions of what computes.
    datasets : dict
        For each data set by name: ``n_items``, ``n_features``, ``n_classes``.
    outcomes : tuple of Outcome
        Those of tuning included.
    """

    command: str
    started: str
    seconds: float
    machine: Mapping[str, Any]
    datasets: Mapping[str, Mapping[str, Any]]
    outcomes: tuple[Outcome, ...]

    def results(self, protocol: str, dataset: str | None = None) -> Iterator[Outcome]:
        """What was measured by a protocol, without tuning and failures."""
        for outcome in self.outcomes:
            cell = outcome.cell
            asked = cell.stage == "result" and cell.protocol == protocol and dataset in (None, cell.dataset)
            if asked and outcome.error is None:
                yield outcome

    @property
    def failures(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)

    def save(self, path: Path) -> None:
        """Write it; whoever reads it meanwhile sees the old one or the new one."""
        data = {"format": _FORMAT, **vars(self), "outcomes": [outcome.as_json() for outcome in self.outcomes]}
        write_json(path, data)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data.pop("format") != _FORMAT:
                raise InvalidInputError(f"{path} is of another version of oahu.")
            data["outcomes"] = tuple(map(Outcome.from_json, data["outcomes"]))
            return cls(**data)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"{path} does not hold the results of a benchmark: {error}") from error


def write_json(path: Path, data: Any) -> None:
    """Write data to a file, whole or not at all."""
    write_atomically(path, json.dumps(data, allow_nan=False, default=_plain, indent=1) + "\n")


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value.tolist()


def versions(packages: Iterable[str] = _PACKAGES) -> dict[str, str]:
    """Of Python and of what computes."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
