"""Tests of a complete benchmark, from plans to results.json."""

from __future__ import annotations

import importlib
import json
import linecache
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu
from oahu.evaluation import datasets
from oahu.evaluation.benchmark import PAPER_EXPERIMENTS, Listener, Plan, bench
from oahu.evaluation.datasets import DATASETS, Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method
from oahu.evaluation.protocols.classification_protocol import split_halves
from oahu.evaluation.runner import _WARM_UP_CONSTRAINTS as WARM_UP
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial
from oahu.exceptions import InvalidInputError

FEW: dict[str, Any] = {"n_constraints": 100, "n_seeds": 50}
SMALL = oahu.OAHU(n_layers=2, hidden_size=8, embedding_size=4)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    all_digits = datasets.load("digits")
    return Dataset("some digits", all_digits.X[:160], all_digits.y[:160])


@pytest.fixture(scope="module")
def plans(digits: Dataset) -> list[Plan]:
    """Return a plan for every protocol, with few constraints."""
    return [
        Plan("classification", digits, runs=2, settings=FEW),
        Plan("constraints", digits, runs=1, settings=FEW),
        Plan("verification", digits, runs=2, settings=FEW),
        Plan("retrieval", digits, settings=FEW),
        Plan("regret", digits, settings=FEW),
    ]


METHODS = [SMALL, "OPML", "Cosine"]
# Cells of OAHU, OPML and Cosine: two runs, or ten numbers of constraints, of which OPML has none and Cosine one.
N_TRIALS = 2 * 3 + (10 + 0 + 1) + 2 * 3 + 1 * 3 + 1


def numbers(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        outcome.trial.id: json.loads(json.dumps({**outcome.as_json(), "seconds": None})) for outcome in outcomes
    }


def stored(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "trials").glob("[!.]*.json")}


class RecordingListener(Listener):
    """Records all calls; it can interrupt the benchmark."""

    def __init__(self, stop_after: int = 0) -> None:
        self.started: list[tuple[str, int]] = []
        self.outcomes: list[Outcome] = []
        self.choices: list[tuple[Plan, Mapping[str, Any]]] = []
        self.stop_after = stop_after

    def on_start(self, title: str, trials: Sequence[Trial]) -> None:
        self.started.append((title, len(trials)))

    def on_outcome(self, outcome: Outcome, stored: bool) -> None:
        self.outcomes.append(outcome)
        if len(self.outcomes) == self.stop_after:
            raise KeyboardInterrupt

    def on_tuned(self, plan: Plan, choices: Mapping[str, Any]) -> None:
        self.choices.append((plan, choices))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def listener() -> RecordingListener:
    return RecordingListener()


@pytest.fixture(scope="module")
def record(plans: list[Plan], folder: Path, listener: RecordingListener) -> BenchmarkRecord:
    return bench(plans, METHODS, folder, listener=listener, command="again")


# -- complete benchmarks -------------------------------------------------------------------------------------------


def test_protocols_measure_the_methods_they_apply_to(record: BenchmarkRecord) -> None:
    assert not record.failures
    assert len(record.outcomes) == N_TRIALS
    rows = {(outcome.trial.protocol, outcome.trial.method) for outcome in record.outcomes}
    assert {method for protocol, method in rows if protocol == "classification"} == {"OAHU", "OPML", "Cosine"}
    assert {method for protocol, method in rows if protocol == "constraints"} == {"OAHU", "Cosine"}
    assert {method for protocol, method in rows if protocol == "regret"} == {"OAHU"}


def test_results_are_stored(record: BenchmarkRecord, folder: Path) -> None:
    loaded = BenchmarkRecord.load(folder / "results.json")
    assert numbers(loaded.outcomes) == numbers(record.outcomes)
    assert [outcome.trial for outcome in loaded.outcomes] == [outcome.trial for outcome in record.outcomes]
    assert replace(loaded, outcomes=()) == replace(record, outcomes=())
    assert loaded.command == "again"


def test_listener_receives_each_plan_and_trial(record: BenchmarkRecord, listener: RecordingListener) -> None:
    counts = {"classification": 6, "constraints": 11, "verification": 6, "retrieval": 3, "regret": 1}
    assert listener.started == [(f"{name} on some digits", n) for name, n in counts.items()]
    assert [outcome.trial.id for outcome in listener.outcomes] == [outcome.trial.id for outcome in record.outcomes]


def test_trials_are_sorted_by_run(listener: RecordingListener, record: BenchmarkRecord) -> None:
    """An interrupted benchmark then has equal runs of all methods."""
    runs = [outcome.trial.run for outcome in record.results("classification")]
    assert runs == sorted(runs) == [0, 0, 0, 1, 1, 1]


def test_scores_do_not_depend_on_other_plans_and_methods(
    record: BenchmarkRecord, plans: list[Plan], tmp_path: Path
) -> None:
    alone = numbers(bench(plans[:1], ["cosine", SMALL], tmp_path).outcomes)
    assert alone.items() <= numbers(record.outcomes).items()
    assert len(alone) == 4


@pytest.mark.slow
def test_two_jobs_give_equal_scores(record: BenchmarkRecord, plans: list[Plan], tmp_path: Path) -> None:
    assert numbers(bench(plans, METHODS, tmp_path, jobs=2).outcomes) == numbers(record.outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 5, 9])
def test_interrupted_benchmark_continues(
    record: BenchmarkRecord, plans: list[Plan], tmp_path: Path, after: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        bench(plans, METHODS, tmp_path, listener=RecordingListener(stop_after=after))
    before = stored(tmp_path)
    assert len(before) == after
    assert len(BenchmarkRecord.load(tmp_path / "results.json").outcomes) == after
    continued = bench(plans, METHODS, tmp_path)
    assert numbers(continued.outcomes) == numbers(record.outcomes)
    assert before.items() <= stored(tmp_path).items()


def test_more_runs_use_stored_trials(record: BenchmarkRecord, plans: list[Plan], tmp_path: Path) -> None:
    bench([replace(plans[0], runs=1)], METHODS, tmp_path)
    before = stored(tmp_path)
    more = numbers(bench(plans[:1], METHODS, tmp_path).outcomes)
    assert (len(before), len(more)) == (3, 6)
    assert before.items() <= stored(tmp_path).items()
    assert more.items() <= numbers(record.outcomes).items()


def test_seed_changes_the_scores(record: BenchmarkRecord, digits: Dataset, tmp_path: Path) -> None:
    other = bench([Plan("classification", digits, runs=2, settings={**FEW, "seed": 1})], METHODS, tmp_path)
    for method in ("OAHU", "OPML", "Cosine"):
        one, two = (
            {
                outcome.scores["error_rate"]
                for outcome in some.results("classification")
                if outcome.trial.method == method
            }
            for some in (record, other)
        )
        assert one != two


def test_different_settings_are_stored_separately(digits: Dataset, tmp_path: Path) -> None:
    """Trials with another k, another scaling or another learner of the same name are separate."""
    changes: list[tuple[dict[str, Any], Any]] = [
        ({}, oahu.OASIS()),
        ({"k": 1}, oahu.OASIS()),
        ({"scaling": "standard"}, oahu.OASIS()),
        ({"pca": 8}, oahu.OASIS()),
        ({"n_constraints": 90}, oahu.OASIS()),
        ({}, oahu.OASIS(aggressiveness=0.5)),
        ({}, ("OASIS", oahu.RDML())),
        ({}, ("OASIS", oahu.EuclideanMetric(64))),
    ]
    for n, (settings, method) in enumerate(changes, start=1):
        plan = Plan("classification", digits, runs=1, settings={**FEW, **settings})
        together = bench([plan], [method], tmp_path / "together")
        assert len(stored(tmp_path / "together")) == n
        assert numbers(together.outcomes) == numbers(bench([plan], [method], tmp_path / str(n)).outcomes)


# -- rows that users pass --------------------------------------------------------------------------------


def test_learners_and_metrics_can_be_methods(digits: Dataset, tmp_path: Path) -> None:
    learner = oahu.OASIS(aggressiveness=0.01)
    learned = oahu.LEGO(random_state=0).fit(digits.X / np.float32(16), digits.y)
    learned.save(tmp_path / "saved.oahu")
    rows = [learner, ("own", learned.metric()), str(tmp_path / "saved.oahu"), Method("mine", learner=oahu.RDML())]
    record = bench([Plan("classification", digits, runs=1, settings=FEW)], rows, tmp_path / "out")
    scores = {outcome.trial.method: outcome.scores["error_rate"] for outcome in record.outcomes}
    assert list(scores) == ["OASIS", "own", "saved", "mine"]
    assert scores["own"] == scores["saved"]
    assert vars(learner) == vars(oahu.OASIS(aggressiveness=0.01))


def test_duplicate_names_are_rejected_before_any_trial(digits: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="Two methods are named 'OASIS'"):
        bench([Plan("classification", digits)], [oahu.OASIS(), "oasis"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_data_sets_with_equal_names_are_rejected(digits: Dataset, tmp_path: Path) -> None:
    """Their trials could not be distinguished."""
    other = replace(digits, X=digits.X[::-1].copy())
    plans = [Plan("classification", data, runs=1, settings=FEW) for data in (digits, other)]
    with pytest.raises(InvalidInputError, match="some digits"):
        bench(plans, ["Cosine"], tmp_path)


# -- failures --------------------------------------------------------------------------------------------


class Failing(oahu.OASIS):
    """Fails in the first run."""

    calls = 0

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        Failing.calls += len(X) > WARM_UP  # the warm-up's calls do not count
        if Failing.calls == 1 and len(X) > WARM_UP:
            raise RuntimeError("fails once")
        return super().partial_fit(X, y)


def test_failed_trial_is_recorded_and_measured_again(digits: Dataset, tmp_path: Path) -> None:
    Failing.calls = 0
    plan = Plan("classification", digits, runs=2, settings=FEW)
    record = bench([plan], [Failing(), "Cosine"], tmp_path)
    [failure] = record.failures
    assert (failure.trial.method, failure.trial.run, failure.error) == ("Failing", 0, "RuntimeError: fails once")
    assert len(list(record.results("classification"))) == 3
    [loaded] = BenchmarkRecord.load(tmp_path / "results.json").failures
    assert loaded.error == failure.error
    again = bench([plan], [Failing(), "Cosine"], tmp_path)
    assert not again.failures
    assert Failing.calls == 3


# -- tuning ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stretched(digits: Dataset) -> Dataset:
    """Digits with a large feature of noise, for which only the scaling ``standard`` helps."""
    noise = np.random.default_rng(0).normal(0, 1000, (160, 4))
    return Dataset("stretched", np.column_stack([digits.X, noise]).astype(np.float32), digits.y, scaling="none")


def test_results_use_the_scaling_that_tuning_found(stretched: Dataset, tmp_path: Path) -> None:
    listener = RecordingListener()
    plan = Plan(
        "classification",
        stretched,
        runs=2,
        tune=True,
        settings=FEW,
        folds=3,
        scalings=("range", "standard", "none"),
    )
    record = bench([plan], ["Euclidean"], tmp_path, listener=listener)
    assert listener.choices == [(plan, {"Euclidean": ("standard", {})})]
    for outcome in record.results("classification"):
        assert (outcome.trial.settings["scaling"], outcome.trial.settings["tuned"]) == ("standard", True)
    untuned = bench([replace(plan, tune=False)], ["Euclidean"], tmp_path)
    for one, two in zip(record.results("classification"), untuned.results("classification"), strict=True):
        assert one.scores["error_rate"] < two.scores["error_rate"]
        assert two.trial.settings["tuned"] is False


def test_tuning_uses_development_items_only(digits: Dataset, tmp_path: Path) -> None:
    """Changing the test half of the first run changes neither the tuning trials nor the choice."""
    _, test = split_halves(digits, 0, 0)
    X, y = digits.X.copy(), digits.y.copy()
    X[test], y[test] = 16 - X[test], np.roll(y[test], 3)
    method = Method("OASIS", learner=oahu.OASIS(), grid={"aggressiveness": (0.01, 1.0)})
    found = []
    for i, data in enumerate((digits, replace(digits, X=X, y=y))):
        listener = RecordingListener()
        plan = Plan(
            "classification", data, runs=1, tune=True, settings=FEW, folds=2, scalings=("range", "standard")
        )
        record = bench([plan], [method], tmp_path / str(i), listener=listener)
        tuning = [outcome for outcome in record.outcomes if outcome.trial.stage == "tuning"]
        scores = [outcome.scores for outcome in tuning]
        found.append((scores, [choices for _, choices in listener.choices]))
        assert len(tuning) == 4 + 2  # all on the first fold, two on the second
    assert found[0] == found[1]


def test_interrupted_tuning_continues(stretched: Dataset, tmp_path: Path) -> None:
    plan = Plan("retrieval", stretched, tune=True, settings=FEW, folds=3, scalings=("range", "standard"))
    with pytest.raises(KeyboardInterrupt):
        bench([plan], ["Euclidean", "OASIS"], tmp_path / "cut", listener=RecordingListener(stop_after=7))
    before = stored(tmp_path / "cut")
    assert len(before) == 7
    cut = bench([plan], ["Euclidean", "OASIS"], tmp_path / "cut")
    assert before.items() <= stored(tmp_path / "cut").items()
    assert numbers(cut.outcomes) == numbers(
        bench([plan], ["Euclidean", "OASIS"], tmp_path / "uninterrupted").outcomes
    )


def test_parameters_that_are_set_are_not_tuned(digits: Dataset, tmp_path: Path) -> None:
    method = Method("OASIS", learner=oahu.OASIS(), grid={"aggressiveness": (0.5,)})
    settings = {**FEW, "params": {"aggressiveness": 0.3, "normalize": False}}
    plan = Plan("classification", digits, runs=1, tune=True, settings=settings, folds=2, scalings=("range",))
    [result] = bench([plan], [method], tmp_path).results("classification")
    assert result.trial.settings["params"] == {"aggressiveness": 0.5, "normalize": False}


# -- plans -----------------------------------------------------------------------------------------------


def test_paper_experiments_name_existing_protocols_and_data_sets() -> None:
    assert {*PAPER_EXPERIMENTS, "clicks"} == set(PROTOCOLS)
    assert {name for names in PAPER_EXPERIMENTS.values() for name in names} <= set(DATASETS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"protocol": "clustering"}, "no protocol 'clustering'. The protocols are classification, constraints"),
        ({"settings": {"scaling": "minmax"}}, "The setting 'scaling' must be one of range.*Got 'minmax'"),
        ({"scalings": ("range", "minmax")}, "The setting 'scaling' must be one of range.*Got 'minmax'"),
        ({"settings": {"n_constrants": 3}}, "classification has no setting 'n_constrants'"),
        (
            {"protocol": "verification", "settings": {"people": "disjont"}},
            "must be one of shared, disjoint. Got 'disjont'",
        ),
        ({"runs": 0}, "at least one run and two folds. Got 0 run"),
        ({"folds": 1}, "at least one run and two folds. Got None run.* and 1 fold"),
        ({"dataset": Dataset("flat", np.zeros((9, 1)), np.zeros(9))}, "flat has 9 items and 1 class"),
    ],
)
def test_invalid_plan_is_rejected(digits: Dataset, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Plan(**{"protocol": "classification", "dataset": digits, **changed})


def test_method_that_fails_in_tuning_is_a_failure(digits: Dataset, tmp_path: Path) -> None:
    narrow = ("narrow", oahu.EuclideanMetric(7))  # no item has so few features
    plan = Plan("classification", digits, runs=2, tune=True, folds=2, scalings=("range", "unit"))
    record = bench([plan], [narrow, "Euclidean"], tmp_path)
    failed = [outcome.trial for outcome in record.failures if outcome.trial.stage == "result"]
    assert [(trial.method, trial.run, trial.settings["tuned"]) for trial in failed] == [
        ("narrow", 0, True),
        ("narrow", 1, True),
    ]
    assert [outcome.trial.method for outcome in record.results("classification")] == ["Euclidean"] * 2


def test_constraints_protocol_is_tuned_as_classification(digits: Dataset, tmp_path: Path) -> None:
    """The tuning trials are shared."""
    small = {"n_constraints": 100, "n_seeds": 50}
    plans = [
        Plan(protocol, digits, runs=1, tune=True, folds=2, scalings=("range",), settings=small)
        for protocol in ("classification", "constraints")
    ]
    record = bench(plans, ["LEGO"], tmp_path)
    tuned = [outcome.trial for outcome in record.outcomes if outcome.trial.stage == "tuning"]
    assert {trial.protocol for trial in tuned} == {"classification"}
    assert len(tuned) == len({trial.id for trial in tuned})


def test_protocol_without_applicable_method_is_rejected(digits: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="The protocol regret does not apply to LEGO, Euclidean"):
        bench([Plan("regret", digits)], ["LEGO", "Euclidean"], tmp_path)


def test_learner_is_measured_again_after_editing_its_module(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "edited_learner.py"
    plan = Plan("classification", digits, runs=1, settings={"n_constraints": 100, "n_seeds": 50})
    ids = []
    for rate in ("0.5", "0.01"):
        module.write_text(f"from oahu import LEGO\n\n\nclass Mine(LEGO):\n    _edited = {rate}\n")
        linecache.clearcache()
        monkeypatch.delitem(sys.modules, "edited_learner", raising=False)
        importlib.invalidate_caches()
        record = bench([plan], ["edited_learner:Mine"], tmp_path / "out")
        ids.append([outcome.trial.id for outcome in record.outcomes])
    assert ids[0] != ids[1]


def test_duration_is_counted_per_command(digits: Dataset, tmp_path: Path) -> None:
    plan = Plan("classification", digits, runs=1)
    first = bench([plan], ["Euclidean"], tmp_path, command="one")
    (tmp_path / "results.json").write_text(
        (tmp_path / "results.json").read_text().replace(f'"seconds": {first.seconds}', '"seconds": 1000.0', 1)
    )
    assert bench([plan], ["Euclidean"], tmp_path, command="one").seconds >= 1000
    assert bench([plan], ["Euclidean"], tmp_path, command="other").seconds < 1000
