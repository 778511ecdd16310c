"""Tests of the runner: reproducible scores, stored trials, failures, warnings and threads."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import oahu
from oahu.evaluation import datasets
from oahu.evaluation.benchmark import Plan, bench
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method, as_methods
from oahu.evaluation.runner import _WARM_UP_CONSTRAINTS as WARM_UP
from oahu.evaluation.runner import Runner
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial
from oahu.exceptions import InvalidInputError

FEW = {"n_constraints": 100, "n_seeds": 50}
SMALL = oahu.OAHU(n_layers=2, hidden_size=8, embedding_size=4)
METHODS = as_methods([SMALL, "LEGO", "Euclidean"])


@pytest.fixture(scope="module")
def digits() -> Dataset:
    all_digits = datasets.load("digits")
    return Dataset("some digits", all_digits.X[:160], all_digits.y[:160])


def trials_of(data: Dataset, methods: list[Method] = METHODS, protocol: str = "classification") -> list[Trial]:
    how = PROTOCOLS[protocol]
    return [
        trial
        for method in methods
        for trial in how.trials(data, method, 2, {**how.settings(data, **FEW), "learner": method.identity})
    ]


def numbers(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return all results of each trial except its time; NaN is None, so that it equals itself."""
    without = {"seconds": None}
    return {outcome.trial.id: json.loads(json.dumps({**outcome.as_json(), **without})) for outcome in outcomes}


def runner(out: Path, data: Dataset, methods: list[Method] = METHODS, jobs: int = 1) -> Runner:
    return Runner(out, {data.name: data}, methods, jobs)


def stored(out: Path) -> dict[str, int]:
    """Return the names and modification times of the stored trials."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "trials").glob("[!.]*.json")}


@pytest.fixture(scope="module")
def expected(digits: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the results of one job, in order."""
    return numbers(runner(tmp_path_factory.mktemp("expected"), digits).run(trials_of(digits)))


# -- reproducible scores ------------------------------------------------------------------------------------


def test_all_trials_are_measured(digits: Dataset, expected: dict[str, Any]) -> None:
    assert set(expected) == {trial.id for trial in trials_of(digits)}
    assert all(one["error"] is None and 0 < one["scores"]["error_rate"] < 1 for one in expected.values())
    assert len({json.dumps(one["scores"]) for one in expected.values()}) == 6


def test_scores_do_not_depend_on_the_jobs(digits: Dataset, expected: dict[str, Any], tmp_path: Path) -> None:
    found = runner(tmp_path, digits, jobs=2).run(trials_of(digits))
    assert numbers(found) == expected
    assert [outcome.trial.id for outcome in found] == [trial.id for trial in trials_of(digits)]


def test_scores_do_not_depend_on_the_order(digits: Dataset, expected: dict[str, Any], tmp_path: Path) -> None:
    assert numbers(runner(tmp_path, digits).run(trials_of(digits)[::-1])) == expected


@pytest.mark.parametrize("index", [0, 1, 2])
def test_scores_do_not_depend_on_other_methods(
    digits: Dataset, expected: dict[str, Any], tmp_path: Path, index: int
) -> None:
    found = numbers(
        runner(tmp_path, digits, METHODS[index : index + 1]).run(trials_of(digits, METHODS[index : index + 1]))
    )
    assert found == {name: one for name, one in expected.items() if one["method"] == METHODS[index].name}


def test_scores_do_not_depend_on_other_data_sets(digits: Dataset, expected: dict[str, Any], tmp_path: Path) -> None:
    other = replace(digits, name="other digits", X=digits.X[:, ::-1])
    both = Runner(tmp_path, {digits.name: digits, other.name: other}, METHODS)
    found = numbers(both.run([*trials_of(other), *trials_of(digits)]))
    assert {name: found[name] for name in expected} == expected


# -- stored trials ----------------------------------------------------------------------------------------


class Interrupting:
    """Raises KeyboardInterrupt after a number of trials."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, outcome: Outcome, found: bool) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.server)])
def test_interrupted_run_continues(digits: Dataset, expected: dict[str, Any], tmp_path: Path, jobs: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        runner(tmp_path, digits, jobs=jobs).run(trials_of(digits), Interrupting(after=2))
    before = stored(tmp_path)
    assert len(before) >= 2
    found = runner(tmp_path, digits).run(trials_of(digits))
    assert numbers(found) == expected
    assert before.items() <= stored(tmp_path).items()


def test_trials_are_stored_when_they_finish(digits: Dataset, tmp_path: Path) -> None:
    counts: list[int] = []
    runner(tmp_path, digits).run(trials_of(digits), lambda *seen: counts.append(len(stored(tmp_path))))
    assert counts == [1, 2, 3, 4, 5, 6]


def test_stored_trials_are_not_measured_again(
    digits: Dataset, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner(tmp_path, digits).run(trials_of(digits))
    monkeypatch.setattr("oahu.evaluation.runner._measure", None)
    seen: list[bool] = []
    found = runner(tmp_path, digits).run(trials_of(digits), lambda outcome, found: seen.append(found))
    assert numbers(found) == expected
    assert seen == [True] * 6


@pytest.mark.parametrize(
    "content", [b"", b'{"protocol": "classi', b"{}", b"null", b"[]", b'"text"', b"7", b"\xff\xfe"], ids=repr
)
def test_trial_with_a_damaged_file_is_measured_again(
    digits: Dataset, expected: dict[str, Any], tmp_path: Path, content: bytes
) -> None:
    trials = trials_of(digits)[-2:]
    runner(tmp_path, digits).run(trials)
    path = tmp_path / "trials" / f"{trials[0].id}.json"
    path.write_bytes(content)
    found = numbers(runner(tmp_path, digits).run(trials))
    assert found == {trial.id: expected[trial.id] for trial in trials}
    assert Outcome.from_json(json.loads(path.read_text())).trial.id == trials[0].id


def test_trial_with_damaged_scores_is_measured_again(
    digits: Dataset, expected: dict[str, Any], tmp_path: Path
) -> None:
    trial = trials_of(digits)[-1]
    runner(tmp_path, digits).run([trial])
    path = tmp_path / "trials" / f"{trial.id}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "scores": None}))
    assert numbers(runner(tmp_path, digits).run([trial])) == {trial.id: expected[trial.id]}


def test_changed_data_set_is_measured_again(digits: Dataset, tmp_path: Path) -> None:
    """Stored outcomes of a file's earlier contents must not be used."""
    other = replace(digits, X=digits.X[::-1].copy())
    old, new = (runner(tmp_path, data).run(trials_of(data)[-1:]) for data in (digits, other))
    assert new[0].scores["error_rate"] != old[0].scores["error_rate"]


def test_any_method_name_can_be_stored(digits: Dataset, tmp_path: Path) -> None:
    methods = as_methods([("tau 0.1/0.2: ../mine\n" + "x" * 300, oahu.Euclidean())])
    (one, two) = runner(tmp_path, digits, methods).run(trials_of(digits, methods))
    assert one.error is None
    assert two.error is None
    assert len(stored(tmp_path)) == 2


# -- failures --------------------------------------------------------------------------------------------


class Unreliable(oahu.OASIS):
    """Fails in every second call while ``fails`` is True."""

    fails, calls = True, 0

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        Unreliable.calls += len(X) > WARM_UP  # the warm-up's calls do not count
        if len(X) > WARM_UP and Unreliable.fails and Unreliable.calls % 2 == 0:
            raise RuntimeError("fails at times")
        return super().partial_fit(X, y)


@pytest.fixture
def unreliable() -> Iterator[list[Method]]:
    Unreliable.fails, Unreliable.calls = True, 0
    yield as_methods([Unreliable(), "Euclidean"])
    Unreliable.fails, Unreliable.calls = True, 0


def test_failure_is_an_outcome(digits: Dataset, tmp_path: Path, unreliable: list[Method]) -> None:
    outcomes = runner(tmp_path, digits, unreliable).run(trials_of(digits, unreliable))
    assert [outcome.error for outcome in outcomes] == [None, "RuntimeError: fails at times", None, None]
    assert outcomes[1].scores == {}
    assert (outcomes[1].trial.method, outcomes[1].trial.run) == ("Unreliable", 1)


def test_failed_trial_is_measured_again(digits: Dataset, tmp_path: Path, unreliable: list[Method]) -> None:
    first = runner(tmp_path, digits, unreliable).run(trials_of(digits, unreliable))
    before = stored(tmp_path)
    Unreliable.fails, Unreliable.calls = False, 0
    again = runner(tmp_path, digits, unreliable).run(trials_of(digits, unreliable))
    assert Unreliable.calls == 1
    assert all(outcome.error is None for outcome in again)
    assert numbers([first[0], *first[2:]]).items() <= numbers(again).items()
    assert {name: stored(tmp_path)[name] for name in before} == before


def test_outcome_that_cannot_be_stored_is_a_failure(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A curve with NaN cannot be stored as JSON; the other trials are still measured."""
    protocol = PROTOCOLS["classification"]
    measure = type(protocol).measure

    def with_nan(self: Any, trial: Trial, *rest: Any) -> Outcome:
        outcome = measure(self, trial, *rest)
        return replace(outcome, curves={"weights": [float("nan")]}) if trial.run == 0 else outcome

    monkeypatch.setattr(type(protocol), "measure", with_nan)
    methods = as_methods(["Euclidean"])
    outcomes = runner(tmp_path, digits, methods).run(trials_of(digits, methods))
    assert outcomes[0].error is not None
    assert outcomes[1].error is None


# -- warnings --------------------------------------------------------------------------------------------


class Warner(oahu.OASIS):
    """Warns twice with one message and once with another."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        for words in ("mind the gap", "mind the gap", "and the step"):
            warnings.warn(words, stacklevel=1)
        return super().partial_fit(X, y)


def test_warnings_are_recorded_once_per_trial(digits: Dataset, tmp_path: Path) -> None:
    """No warning reaches the caller, where it would be an error."""
    methods = as_methods([Warner(), "Euclidean"])
    one, _, quiet, _ = runner(tmp_path, digits, methods).run(trials_of(digits, methods))
    assert one.facts["warnings"] == ["mind the gap", "and the step"]
    assert "warnings" not in quiet.facts


# -- threads ---------------------------------------------------------------------------------------------


def threads() -> tuple[int, list[int]]:
    return numba.get_num_threads(), [library["num_threads"] for library in threadpool_info()]


class Counting(oahu.OASIS):
    """Records the number of threads, and can fail."""

    noted: tuple[int, list[int]]
    fails = False

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        Counting.noted = threads()
        if Counting.fails:
            raise RuntimeError("no")
        return super().partial_fit(X, y)


@pytest.mark.parametrize("fails", [False, True])
def test_trial_uses_one_thread_and_restores_the_others(digits: Dataset, tmp_path: Path, fails: bool) -> None:
    Counting.fails = fails
    n_numba, methods = numba.get_num_threads(), as_methods([Counting()])
    with threadpool_limits(2):
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
        before = threads()
        try:
            runner(tmp_path, digits, methods).run(trials_of(digits, methods)[:1])
            assert threads() == before
        finally:
            numba.set_num_threads(n_numba)
    assert max(Counting.noted[1]) == Counting.noted[0] == 1
    assert max(before[1]) == 2


# -- the record ------------------------------------------------------------------------------------------


def test_record_has_all_outcomes(digits: Dataset, expected: dict[str, Any], tmp_path: Path) -> None:
    measured = runner(tmp_path, digits)
    measured.run(trials_of(digits)[:3])
    measured.run(trials_of(digits)[3:])
    record = measured.record("some command")
    assert numbers(list(record.outcomes)) == expected
    assert record.command == "some command"
    assert record.datasets == {"some digits": {"n_items": 160, "n_features": 64, "n_classes": 10}}
    assert record.machine["jobs"] == 1
    assert record.machine["versions"]["oahu"] == oahu.__version__


def test_duration_is_summed_over_sessions(digits: Dataset, tmp_path: Path) -> None:
    first = runner(tmp_path, digits).record("")
    replace(first, seconds=1000.0).save(tmp_path / "results.json")
    assert runner(tmp_path, digits).record("").seconds >= 1000
    (tmp_path / "results.json").write_text("null")
    assert runner(tmp_path, digits).record("").seconds < 1000


def test_record_round_trip(digits: Dataset, expected: dict[str, Any], tmp_path: Path) -> None:
    measured = runner(tmp_path, digits)
    measured.run(trials_of(digits))
    record = measured.record("again")
    record.save(tmp_path / "results.json")
    loaded = BenchmarkRecord.load(tmp_path / "results.json")
    assert numbers(list(loaded.outcomes)) == expected
    assert replace(loaded, outcomes=()) == replace(record, outcomes=())


def test_workers_started_in_another_folder_write_to_the_right_one(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan("classification", digits, runs=2, settings={"n_constraints": 100, "n_seeds": 50})
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        record = bench([plan], ["Euclidean"], "out", jobs=2)
        assert not record.failures
        assert len(list((tmp_path / place / "out" / "trials").glob("*.json"))) == 2


def test_zero_jobs_are_rejected(digits: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'jobs' must be at least 1"):
        runner(tmp_path / "out", digits, jobs=0)
    assert not (tmp_path / "out").exists()
