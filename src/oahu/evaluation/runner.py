"""Parallel measurement of trials. Outcomes are stored, so that an interrupted benchmark can continue."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import joblib
import numba
import numpy as np
from threadpoolctl import threadpool_limits

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method
from oahu.evaluation.protocols.constraint_streams import ConstraintCache
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial, package_versions, write_json
from oahu.exceptions import InvalidInputError

__all__ = ["Runner"]

OnOutcome = Callable[[Outcome, bool], None]

_WARM_UP_ITEMS: Final = 144  # enough for every protocol
_WARM_UP_CONSTRAINTS: Final = 20
_warmed_up: set[tuple[str, ...]] = set()  # trials whose code this process has compiled


class Runner:
    """Measure trials and store their outcomes in a folder.

    The scores of a trial do not depend on the order of the trials or on the number of jobs. Each trial uses one
    thread. The measured time of a trial does not include compilation.

    Parameters
    ----------
    out : path
        Folder for the outcomes. Successful trials with a stored outcome are not measured again.
    datasets : mapping of names to Dataset
        Data sets of the trials, by name.
    methods : sequence of Method
        Methods of the trials.
    jobs : int
        Number of parallel processes.
    reference : str
        Name of the reference method of the significance tests.
    """

    def __init__(
        self,
        out: Path,
        datasets: Mapping[str, Dataset],
        methods: Sequence[Method],
        jobs: int = 1,
        reference: str = "",
    ) -> None:
        if jobs < 1:
            raise InvalidInputError(f"'jobs' must be at least 1. Got {jobs} instead.")
        self.out = out.absolute()  # a worker process may have another working directory
        self.datasets, self.jobs, self.reference = datasets, jobs, reference
        self.methods = {method.name: method for method in methods}
        self.outcomes: dict[str, Outcome] = {}
        self.warnings: list[str] = []
        self._ids: dict[str, None] = {}  # ids of all requested trials, in order
        self._started, self._start_time = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
        try:
            (out / "trials").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"Cannot create the folder {out} for the results: {error.strerror}.") from error

    def run(self, trials: Sequence[Trial], on_outcome: OnOutcome | None = None) -> list[Outcome]:
        """Measure trials or load their stored outcomes. Return the outcomes in the order of the trials.

        ``on_outcome(outcome, stored)`` is called for each trial as soon as its outcome is available.
        """
        missing = []
        self._ids.update(dict.fromkeys(trial.id for trial in trials))
        for trial in trials:
            stored = self._load(trial)
            if stored is None:
                missing.append(trial)
            else:
                self._add(stored, on_outcome, stored=True)
        with warnings.catch_warnings(), closing(self._measure_all(missing)) as measured:
            # joblib warns when an interrupt ends its workers.
            warnings.filterwarnings("ignore", ".*tasks which were still being processed")
            for outcome in measured:
                self._add(outcome, on_outcome, stored=False)
        return [self.outcomes[trial.id] for trial in trials]

    def mark_failed(self, trials: Sequence[Trial], error: str) -> None:
        """Add a failed outcome with the message ``error`` for each trial. The trials are not measured."""
        for trial in trials:
            self._ids[trial.id] = None
            self.outcomes[trial.id] = Outcome(trial, error=error)

    def add_warning(self, text: str) -> None:
        """Add a warning about the whole benchmark to the results. A repeated warning is added only once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def record(self, command: str) -> BenchmarkRecord:
        """Return the results of all trials so far."""
        datasets = {
            name: {"n_items": len(data), "n_features": data.n_features, "n_classes": data.n_classes}
            for name, data in self.datasets.items()
        }
        before = _seconds_before(self.out / "results.json", command)
        seconds = round(before + time.monotonic() - self._start_time, 1)
        outcomes = tuple(self.outcomes[each] for each in self._ids if each in self.outcomes)
        machine = _machine(self.jobs)
        return BenchmarkRecord(
            command, self._started, seconds, machine, datasets, outcomes, self.reference, tuple(self.warnings)
        )

    def _add(self, outcome: Outcome, on_outcome: OnOutcome | None, *, stored: bool) -> None:
        self.outcomes[outcome.trial.id] = outcome
        if on_outcome is not None:
            on_outcome(outcome, stored)

    def _load(self, trial: Trial) -> Outcome | None:
        """Return the stored outcome of a trial, or None if the file is missing or damaged."""
        try:
            return Outcome.from_json(json.loads(self._path(trial).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _path(self, trial: Trial) -> Path:
        return self.out / "trials" / f"{re.sub('[^-.=+ a-zA-Z0-9_]', '_', trial.id)[-128:]}.json"

    def _measure_all(self, trials: Sequence[Trial]) -> Generator[Outcome]:
        """Measure the trials. Yield the outcomes in the order in which the trials finish."""
        cache = self.out / "constraints"
        tasks = (
            joblib.delayed(_measure)(
                trial, self.datasets[trial.dataset], self.methods[trial.method], cache, self._path(trial)
            )
            for trial in trials
        )
        jobs = min(self.jobs, max(1, len(trials)))
        with joblib.parallel_config("loky", initializer=_ignore_interrupts) if jobs > 1 else nullcontext():
            yield from joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)


def _ignore_interrupts() -> None:
    """Ignore SIGINT in a worker process. After Ctrl+C, all processes get SIGINT. The main process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _measure(trial: Trial, dataset: Dataset, method: Method, cache: Path, path: Path) -> Outcome:
    """Measure a trial in one thread and store its outcome. If the trial fails, the outcome contains the error."""
    protocol = PROTOCOLS[trial.protocol]
    measure = protocol.measure if trial.stage == "result" else protocol.validate
    try:
        with _one_thread(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _warm_up(trial, dataset, method)
            caught.clear()
            outcome = measure(trial, dataset, method, ConstraintCache(cache))
        facts = {**outcome.facts, "versions": package_versions()}
        if caught:
            facts["warnings"] = list(dict.fromkeys(str(warning.message) for warning in caught))
        outcome = replace(outcome, facts=facts)
        write_json(path, outcome.as_json())
    except Exception as error:
        return Outcome(trial, error=f"{type(error).__name__}: {error}")
    return outcome


def _warm_up(trial: Trial, dataset: Dataset, method: Method) -> None:
    """Compile the code that a trial needs: measure a trial on a tiny random data set. Do this once per process."""
    learner = None if method.learner is None else (method.learner.__class__, method.learner.get_params(deep=False))
    key = (trial.protocol, method.name, str(learner), str(dataset.n_features))
    if key in _warmed_up:
        return
    _warmed_up.add(key)
    rng = np.random.default_rng(0)
    items = rng.normal(size=(_WARM_UP_ITEMS, dataset.n_features)).astype(np.float32)
    tiny = Dataset("warm-up", items, np.arange(_WARM_UP_ITEMS) % 3, scaling="unit")
    changed: dict[str, Any] = {"scaling": "unit", "pca": None, "n_constraints": _WARM_UP_CONSTRAINTS}
    changed |= dict.fromkeys(("n_seeds", "of", "n_clicks"), _WARM_UP_CONSTRAINTS)
    settings = {**trial.settings, **changed, "queries": None, "k": min(trial.settings.get("k", 1), 5)}
    tiny_trial = Trial(trial.protocol, tiny.name, method.name, 0, settings)
    with suppress(Exception):  # the trial itself reports the error
        PROTOCOLS[trial.protocol].measure(tiny_trial, tiny, method, ConstraintCache())


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit numba and BLAS to one thread."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        numba.set_num_threads(before)


def _seconds_before(results: Path, command: str) -> float:
    """Return the total duration of earlier, interrupted sessions of the same command, in seconds."""
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
        "versions": package_versions(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
