"""Tests of the summary: its sentences match the numbers, for wins and for losses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oahu.evaluation.report.experiments import Experiment, experiments
from oahu.evaluation.report.summary import headlines, summarize
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial


def runs(method: str, values: list[float], score: str = "error_rate", **more: Any) -> list[Outcome]:
    protocol, dataset = more.pop("protocol", "classification"), more.pop("dataset", "digits")
    return [
        Outcome(Trial(protocol, dataset, method, run, more), {score: value}) for run, value in enumerate(values)
    ]


def record(*outcomes: Outcome) -> BenchmarkRecord:
    return BenchmarkRecord("oahu benchmark", "", 1.0, {}, {}, outcomes, "OAHU")


def only(*outcomes: Outcome) -> Experiment:
    (experiment,) = experiments(record(*outcomes), outcomes[0].trial.protocol)
    return experiment


GOOD, MIDDLE, BAD = [0.1, 0.11, 0.12], [0.2, 0.21, 0.22], [0.3, 0.31, 0.32]


def test_win_is_reported() -> None:
    text = headlines(record(*runs("OAHU", GOOD), *runs("LEGO", MIDDLE), *runs("Euclidean", BAD)))
    assert text == [
        "Against other learners, OAHU is significantly better in 1 of 1 comparisons, significantly worse in 0, and "
        "not significantly different in 0.",
        "Against unlearned metrics, OAHU is significantly better in 1 of 1 comparisons, significantly worse in 0, "
        "and not significantly different in 0.",
        "Classification: OAHU is best on digits (untuned).",
        "No unlearned metric is significantly better than OAHU.",
    ]


def test_loss_to_an_unlearned_metric_is_reported() -> None:
    mixed = [*runs("OAHU", MIDDLE), *runs("Euclidean", GOOD), *runs("Cosine", BAD)]
    assert headlines(record(*mixed))[-2:] == [
        "Classification: Euclidean is best on digits (untuned).",
        "OAHU is significantly worse than Euclidean, which learns nothing, on digits (untuned) in classification.",
    ]
    text = summarize(only(*mixed)).replace("\N{NO-BREAK SPACE}", " ")
    assert "the best method is Euclidean with 0.110." in text
    assert (
        "OAHU is 0.100 worse than Euclidean (p < 0.001) and 0.100 better than Cosine (p < 0.001), which learn"
        in text
    )


def test_higher_auc_is_better() -> None:
    more = {"protocol": "verification", "score": "auc"}
    mixed = [*runs("OAHU", BAD, **more), *runs("Cosine", GOOD, **more)]
    assert "Verification: OAHU is best on digits (untuned)." in headlines(record(*mixed))
    assert "0.200 better than Cosine" in summarize(only(*mixed))


def test_learners_are_listed_by_verdict() -> None:
    mixed = [
        *runs("OAHU", MIDDLE),
        *runs("LEGO", BAD),
        *runs("RDML", BAD),
        *runs("OASIS", GOOD),
        *runs("mine", MIDDLE),
    ]
    assert summarize(only(*mixed)).endswith(
        "Among learners it is significantly better than LEGO and RDML; significantly worse than OASIS and not "
        "significantly different from mine."
    )


def test_number_of_the_paper_is_quoted() -> None:
    assert "0.110 (paper: 0.18)" in summarize(only(*runs("OAHU", GOOD, dataset="fashion-mnist")))


def test_one_run_gives_no_verdict() -> None:
    mixed = [*runs("OAHU", [0.1]), *runs("Euclidean", [0.3])]
    assert headlines(record(*mixed)) == ["Classification: OAHU is best on digits (untuned)."]
    assert "0.200 better than Euclidean (too few runs for a test)" in summarize(only(*mixed))


def test_small_difference_is_not_significant() -> None:
    text = summarize(only(*runs("OAHU", [0.1, 0.3, 0.2]), *runs("Euclidean", [0.15, 0.3, 0.2])))
    assert "0.017 better than Euclidean (not significant, p" in text


def test_failures_are_counted() -> None:
    failed = Outcome(Trial("classification", "digits", "LEGO", 0), error="no")
    assert headlines(record(failed))[-1] == "1 of 1 trials failed. They are listed under Failures."
    assert summarize(only(failed)) == "All trials failed."


def test_best_method_is_named_without_the_reference() -> None:
    assert (
        summarize(only(*runs("LEGO", BAD), *runs("RDML", GOOD)))
        == "OAHU has no result. The best method is RDML with 0.110."
    )


def test_empty_record() -> None:
    assert headlines(record()) == ["Nothing was measured."]


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ((0.3, 0.2), "falls from 0.300 to 0.200"),
        ((0.2, 0.3), "rises from 0.200 to 0.300"),
        ((0.2, 0.2), "stays at 0.200"),
    ],
)
def test_change_with_the_number_of_constraints(errors: tuple[float, float], words: str) -> None:
    more = {"protocol": "constraints"}
    few, many = (runs("OAHU", [e], n_constraints=n, **more) for e, n in zip(errors, (1000, 9000), strict=True))
    assert summarize(only(*few, *many)) == f"From 1,000 to 9,000 constraints, the error rate of OAHU {words}."


def test_sensitivity_is_compared_with_the_claim_of_the_paper() -> None:
    errors = {0.1: 0.2, 0.6: 0.21, 0.9: 0.405}
    swept = [
        o
        for v, e in errors.items()
        for o in runs("OAHU", [e], protocol="sensitivity", vary="tau", params={"tau": v})
    ]
    text = summarize(only(*swept))
    assert text.startswith(
        "For different values of tau, the accuracy of OAHU is best at 0.1 (0.800) and worst at 0.9 (0.595)."
    )
    assert "Here the accuracy varies by 0.010 up to 0.6. Above 0.6 it is 0.200 lower on average" in text


@pytest.mark.parametrize(
    ("regrets", "words"),
    [
        ([1.0, 3.0], "is below √(T ln N) in 2 of 2 runs. On average, the regret is 0.50 times √(T ln N)"),
        ([1.0, 7.0], "is below √(T ln N) in 1 of 2 runs. On average, the regret is 1.00 times √(T ln N)"),
        ([8.0, 8.0], "exceeds √(T ln N) in 2 of 2 runs. On average, the regret is 2.00 times √(T ln N)"),
        ([2.0], "is below √(T ln N) in the only run. On average, the regret is 0.50 times √(T ln N)"),
    ],
)
def test_regret_is_compared_with_the_bound(regrets: list[float], words: str) -> None:
    found = [
        Outcome(Trial("regret", "digits", "OAHU", r), {"regret": x, "bound": 4.0}) for r, x in enumerate(regrets)
    ]
    assert summarize(only(*found)) == f"The measured regret {words}."


def test_reference_of_the_record_is_compared() -> None:
    outcomes = (*runs("OAHU", GOOD), *runs("LEGO", MIDDLE), *runs("Euclidean", BAD))
    with_lego = replace(record(*outcomes), reference="LEGO")
    assert headlines(with_lego)[0].startswith("Against other learners, LEGO is significantly better in 0 of 1")
    (experiment,) = experiments(with_lego, "classification")
    assert summarize(experiment).startswith("LEGO reaches an error rate of 0.210; the best method is OAHU")


def test_warnings_of_the_benchmark_are_listed() -> None:
    assert headlines(replace(record(), warnings=("too large",))) == ["Warning: too large"]
