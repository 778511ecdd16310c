"""Measuring many cells: in parallel, stored as they finish, and going on where it was interrupted."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import joblib
import numba
from threadpoolctl import threadpool_limits

from oahu.evaluation.cells import Cell, Outcome, Record, versions, write_json
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method
from oahu.evaluation.protocols.draws import Draws
from oahu.exceptions import InvalidInputError

__all__ = ["Runner"]

Seen = Callable[[Outcome, bool], None]


class Runner:
    """Measures cells of some methods on some data sets, and keeps what came out in a folder.

    A cell's numbers depend on nothing but itself: not on the order, not on how many jobs there are. Each cell
    computes in one thread.

    Parameters
    ----------
    out : path
        Where cells are kept as they finish. Those that are there are not measured again; failures are.
    datasets : mapping of names to Dataset
    methods : sequence of Method
    jobs : int
        How many cells are measured at the same time.
    """

    def __init__(
        self, out: Path, datasets: Mapping[str, Dataset], methods: Sequence[Method], jobs: int = 1
    ) -> None:
        if jobs < 1:
            raise InvalidInputError(f"There must be at least one job. Got {jobs} instead.")
        self.out = out.absolute()  # those who help may be in another folder
        self.datasets, self.jobs = datasets, jobs
        self.methods = {method.name: method for method in methods}
        self.outcomes: dict[str, Outcome] = {}
        self._order: dict[str, None] = {}  # ids, as cells were asked for
        self._started, self._began = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
        try:
            (out / "cells").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(
                f"Results are kept in a folder, and {out} cannot be one: {error.strerror}."
            ) from error

    def run(self, cells: Sequence[Cell], seen: Seen | None = None) -> list[Outcome]:
        """Measure cells, or find what was measured of them; ``seen`` is told of each as soon as it is there.

        With it goes whether it was found done.
        """
        missing = []
        self._order.update(dict.fromkeys(cell.id for cell in cells))
        for cell in cells:
            kept = self._kept(cell)
            if kept is None:
                missing.append(cell)
            else:
                self._take(kept, seen, True)
        with warnings.catch_warnings(), closing(self._measured(missing)) as measured:
            warnings.filterwarnings("ignore", ".*tasks which were still being processed")  # if interrupted
            for outcome in measured:
                self._take(outcome, seen)
        return [self.outcomes[cell.id] for cell in cells]

    def refuse(self, cells: Sequence[Cell], why: str) -> None:
        """Put down that cells cannot be measured."""
        for cell in cells:
            self._order[cell.id] = None
            self.outcomes[cell.id] = Outcome(cell, error=why)

    def record(self, command: str) -> Record:
        """All that was measured so far."""
        datasets = {
            name: {"n_items": len(data), "n_features": data.n_features, "n_classes": data.n_classes}
            for name, data in self.datasets.items()
        }
        before = _seconds_before(self.out / "results.json", command)
        seconds = before + time.monotonic() - self._began
        ordered = tuple(self.outcomes[cell] for cell in self._order if cell in self.outcomes)
        return Record(command, self._started, round(seconds, 1), _machine(self.jobs), datasets, ordered)

    def _take(self, outcome: Outcome, seen: Seen | None, found: bool = False) -> None:
        self.outcomes[outcome.cell.id] = outcome
        if seen is not None:
            seen(outcome, found)

    def _kept(self, cell: Cell) -> Outcome | None:
        try:
            return Outcome.from_json(json.loads(self._path(cell).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or damaged
            return None

    def _path(self, cell: Cell) -> Path:
        return self.out / "cells" / f"{re.sub('[^-.=+ a-zA-Z0-9_]', '_', cell.id)[-128:]}.json"

    def _measured(self, cells: Sequence[Cell]) -> Generator[Outcome]:
        """Outcomes in the order in which they finish."""
        tasks = (
            joblib.delayed(_measure)(
                cell, self.datasets[cell.dataset], self.methods[cell.method], self.out / "draws", self._path(cell)
            )
            for cell in cells
        )
        jobs = min(self.jobs, max(1, len(cells)))
        with joblib.parallel_config("loky", initializer=_deaf) if jobs > 1 else nullcontext():
            yield from joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)


def _deaf() -> None:
    """Leave interrupts, which reach every process of a terminal, to the one that measures with this one's help."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _measure(cell: Cell, dataset: Dataset, method: Method, draws: Path, path: Path) -> Outcome:
    """Measure a cell in one thread, and keep what came out; what goes wrong is an outcome too."""
    protocol = PROTOCOLS[cell.protocol]
    measure = protocol.measure if cell.stage == "result" else protocol.validate
    try:
        with _one_thread(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            outcome = measure(cell, dataset, method, Draws(draws))
        facts = {**outcome.facts, "versions": versions()}
        if warned:
            facts["warnings"] = list(dict.fromkeys(str(warning.message) for warning in warned))
        outcome = replace(outcome, facts=facts)
        write_json(path, outcome.as_json())
    except Exception as error:
        return Outcome(cell, error=f"{type(error).__name__}: {error}")
    return outcome


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in one thread, whatever computes."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        numba.set_num_threads(before)


def _seconds_before(results: Path, command: str) -> float:
    """How long the same command has measured before, if this goes on with it."""
    try:
        before = json.loads(results.read_text(encoding="utf-8"))
        return float(before["seconds"]) if before["command"] == command else 0.0
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def _machine(jobs: int) -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "jobs": jobs,
        "versions": versions(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
