"""Tests of experiments: how outcomes are grouped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oahu.evaluation import protocols
from oahu.evaluation.protocols import DEFAULT_METHODS
from oahu.evaluation.report.experiments import (
    MAIN_SCORES,
    PROTOCOL_NAMES,
    experiments,
    format_setting,
    sort_methods,
)
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial


def outcome(method: str, run: int = 0, value: float = 0.5, error: str | None = None, **settings: Any) -> Outcome:
    protocol, dataset = settings.pop("protocol", "classification"), settings.pop("dataset", "b")
    stage = settings.pop("stage", "result")
    scores = {} if error else {"error_rate": value}
    return Outcome(Trial(protocol, dataset, method, run, settings, stage), scores, error=error)


def record(*outcomes: Outcome) -> BenchmarkRecord:
    return BenchmarkRecord("oahu benchmark", "", 0.0, {}, {"b": {}, "a": {}}, outcomes, "OAHU")


def test_default_methods_come_first() -> None:
    assert sort_methods(["zeta", "Cosine", "alpha", "LEGO", "OAHU"]) == ["OAHU", "LEGO", "Cosine", "zeta", "alpha"]
    assert sort_methods(reversed(DEFAULT_METHODS)) == list(DEFAULT_METHODS)


def test_order_of_experiments() -> None:
    mixed = [outcome("OAHU", dataset=d, tuned=t) for d in ("a", "new", "b") for t in (False, True)]
    found = [(experiment.dataset, experiment.tuned) for experiment in experiments(record(*mixed), "classification")]
    assert found == [("b", True), ("b", False), ("a", True), ("a", False), ("new", True), ("new", False)]


def test_tuning_trials_are_ignored() -> None:
    assert experiments(record(outcome("OAHU", stage="tuning")), "classification") == []


def test_variants_are_separate_experiments() -> None:
    mixed = [outcome("OAHU", protocol="verification", people=who) for who in ("shared", "disjoint")]
    found = experiments(record(*mixed), "verification")
    assert [experiment.title for experiment in found] == [
        "b · untuned · people: disjoint",
        "b · untuned · people: shared",
    ]
    assert found[0].name == "b (untuned, people: disjoint)"


def test_runs_with_different_settings_are_one_row() -> None:
    mixed = [outcome("OAHU", run, run / 10, scaling="unit" if run else "range") for run in range(3)]
    (experiment,) = experiments(record(*mixed), "classification")
    assert [row.values("error_rate") for row in experiment.rows] == [[0.0, 0.1, 0.2]]


def test_run_measured_twice_gives_two_labelled_rows() -> None:
    mixed = [
        outcome("OAHU", run, seed=run, params={"tau": tau, "beta": 1}) for run in range(2) for tau in (0.1, 0.2)
    ]
    (experiment,) = experiments(record(*mixed), "classification")
    assert [row.label for row in experiment.rows] == ["OAHU (tau 0.1)", "OAHU (tau 0.2)"]
    assert [len(row.outcomes) for row in experiment.rows] == [2, 2]


def test_sweep_is_one_row() -> None:
    mixed = [outcome("OAHU", 0, n / 1e4, protocol="constraints", n_constraints=n) for n in (2000, 1000)]
    (experiment,) = experiments(record(*mixed), "constraints")
    (row,) = experiment.rows
    assert experiment.sweep == row.sweep == [1000, 2000]
    assert row.values("error_rate", 2000) == [0.2]


def test_parameter_values_are_a_sweep() -> None:
    mixed = [outcome("OAHU", 0, v, protocol="sensitivity", vary="tau", params={"tau": v}) for v in (0.1, 0.9)]
    (experiment,) = experiments(record(*mixed), "sensitivity")
    assert experiment.sweep == [0.1, 0.9]


def test_failures_belong_to_their_row() -> None:
    (experiment,) = experiments(record(outcome("OAHU"), outcome("LEGO", error="no")), "classification")
    assert [(row.method, len(row.outcomes), len(row.failed)) for row in experiment.rows] == [
        ("OAHU", 1, 0),
        ("LEGO", 0, 1),
    ]
    assert experiment.row("LEGO") is None


def test_methods_of_other_data_sets_are_missing() -> None:
    first, second = experiments(record(outcome("OAHU"), outcome("LEGO", dataset="a")), "classification")
    assert first.missing == ("LEGO",)
    assert second.missing == ("OAHU",)


def test_slugs_are_unique_file_names() -> None:
    mixed = [outcome("OAHU", dataset=name) for name in ("../a b", "a/b", "a<b>")]
    slugs = [experiment.slug for experiment in experiments(record(*mixed), "classification")]
    assert len(set(slugs)) == 3
    assert all(slug.replace("-", "").isalnum() for slug in slugs)


def test_paired_test_uses_equal_runs() -> None:
    reference = [outcome("OAHU", run, 0.1 * run) for run in (0, 1, 2)]
    other = [outcome("LEGO", run, 0.1 * run + 0.05) for run in (2, 1, 3)]
    (experiment,) = experiments(record(*reference, *other), "classification")
    compared = experiment.test(experiment.rows[1], "error_rate", "lower", paired=True)
    assert compared is not None
    assert (compared.reference.n, compared.verdict) == (2, "win")


def test_reference_is_not_compared_with_itself() -> None:
    (experiment,) = experiments(record(outcome("OAHU", 0), outcome("OAHU", 1)), "classification")
    assert experiment.test(experiment.rows[0], "error_rate", "lower") is None


def test_settings_are_formatted() -> None:
    assert [format_setting(value) for value in (10_000, 0.10, True, None, "unit")] == [
        "10,000",
        "0.1",
        "yes",
        format_setting(None),
        "unit",
    ]


def test_unlearned_metric_is_constant_in_a_sweep() -> None:
    learned = [
        replace(outcome("LEGO", 0, n / 1e4, protocol="constraints", n_constraints=n), facts={"n_seen": n})
        for n in (1000, 2000)
    ]
    (experiment,) = experiments(
        record(*learned, outcome("mine", 0, 0.3, protocol="constraints", n_constraints=2000)), "constraints"
    )
    assert [experiment.rows[1].values("error_rate", n) for n in (1000, 2000)] == [[0.3], [0.3]]
    assert [experiment.rows[0].values("error_rate", n) for n in (1000, 2000)] == [[0.1], [0.2]]
    (experiment,) = experiments(record(learned[1]), "constraints")
    assert experiment.rows[0].values("error_rate", 1000) == []


def test_report_covers_every_protocol_and_its_score() -> None:
    assert tuple(protocols.PROTOCOLS) == PROTOCOL_NAMES
    for name, (score, better) in MAIN_SCORES.items():
        assert (protocols.PROTOCOLS[name].score, protocols.PROTOCOLS[name].higher_is_better) == (
            score,
            better == "higher",
        )
