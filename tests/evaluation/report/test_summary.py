"""Sentences say what the numbers say, also when OAHU loses."""

from __future__ import annotations

from typing import Any

import pytest

from oahu.evaluation.report.experiments import Experiment, experiments
from oahu.evaluation.report.summary import about, headlines
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial


def runs(method: str, values: list[float], score: str = "error_rate", **more: Any) -> list[Outcome]:
    protocol, dataset = more.pop("protocol", "classification"), more.pop("dataset", "digits")
    return [
        Outcome(Trial(protocol, dataset, method, run, more), {score: value}) for run, value in enumerate(values)
    ]


def record(*outcomes: Outcome) -> BenchmarkRecord:
    return BenchmarkRecord("oahu benchmark", "", 1.0, {}, {}, outcomes)


def only(*outcomes: Outcome) -> Experiment:
    (experiment,) = experiments(record(*outcomes), outcomes[0].trial.protocol)
    return experiment


GOOD, MIDDLE, BAD = [0.1, 0.11, 0.12], [0.2, 0.21, 0.22], [0.3, 0.31, 0.32]


def test_a_win_is_said() -> None:
    said = headlines(record(*runs("OAHU", GOOD), *runs("LEGO", MIDDLE), *runs("Euclidean", BAD)))
    assert said == [
        "Against other learners, OAHU is significantly better in 1 of 1 comparisons, significantly worse in 0, and "
        "not told apart in 0.",
        "Against metrics that learn nothing, OAHU is significantly better in 1 of 1 comparisons, significantly "
        "worse in 0, and not told apart in 0.",
        "Classification: OAHU is best on digits (untuned).",
        "Nowhere is a metric that learns nothing significantly better than OAHU.",
    ]


def test_a_loss_to_doing_nothing_is_said() -> None:
    mixed = [*runs("OAHU", MIDDLE), *runs("Euclidean", GOOD), *runs("Cosine", BAD)]
    assert headlines(record(*mixed))[-2:] == [
        "Classification: Euclidean is best on digits (untuned).",
        "OAHU does significantly worse than Euclidean, which learns nothing, on digits (untuned) in "
        "classification.",
    ]
    said = about(only(*mixed)).replace("\N{NO-BREAK SPACE}", " ")
    assert "the best is Euclidean with 0.110." in said
    assert (
        "OAHU is 0.100 worse than Euclidean (p < 0.001) and 0.100 better than Cosine (p < 0.001), which learn"
        in said
    )


def test_higher_is_better_where_it_is() -> None:
    more = {"protocol": "verification", "score": "auc"}
    mixed = [*runs("OAHU", BAD, **more), *runs("Cosine", GOOD, **more)]
    assert "Verification: OAHU is best on digits (untuned)." in headlines(record(*mixed))
    assert "0.200 better than Cosine" in about(only(*mixed))


def test_learners_are_named_by_verdict() -> None:
    mixed = [
        *runs("OAHU", MIDDLE),
        *runs("LEGO", BAD),
        *runs("RDML", BAD),
        *runs("OASIS", GOOD),
        *runs("mine", MIDDLE),
    ]
    assert about(only(*mixed)).endswith(
        "Among learners it is significantly better than LEGO and RDML; significantly worse than OASIS and not told "
        "apart from mine."
    )


def test_the_paper_is_quoted() -> None:
    assert "0.110 (the paper: 0.18)" in about(only(*runs("OAHU", GOOD, dataset="fashion-mnist")))


def test_one_run_is_not_a_verdict() -> None:
    mixed = [*runs("OAHU", [0.1]), *runs("Euclidean", [0.3])]
    assert headlines(record(*mixed)) == ["Classification: OAHU is best on digits (untuned)."]
    assert "0.200 better than Euclidean (too few runs for a test)" in about(only(*mixed))


def test_a_small_difference_is_called_not_significant() -> None:
    said = about(only(*runs("OAHU", [0.1, 0.3, 0.2]), *runs("Euclidean", [0.15, 0.3, 0.2])))
    assert "0.017 better than Euclidean (not significant, p" in said


def test_what_failed_is_counted() -> None:
    failed = Outcome(Trial("classification", "digits", "LEGO", 0), error="no")
    assert headlines(record(failed))[-1] == "1 of 1 measurements failed; they are listed under Failures."
    assert about(only(failed)) == "Nothing could be measured."


def test_without_oahu_the_best_is_named() -> None:
    assert (
        about(only(*runs("LEGO", BAD), *runs("RDML", GOOD))) == "OAHU has no result. The best is RDML with 0.110."
    )


def test_nothing_says_nothing() -> None:
    assert headlines(record()) == ["Nothing was measured."]


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ((0.3, 0.2), "falls from 0.300 to 0.200"),
        ((0.2, 0.3), "rises from 0.200 to 0.300"),
        ((0.2, 0.2), "stays at 0.200"),
    ],
)
def test_more_constraints_help_or_not(errors: tuple[float, float], words: str) -> None:
    more = {"protocol": "constraints"}
    few, many = (runs("OAHU", [e], n_constraints=n, **more) for e, n in zip(errors, (1000, 9000), strict=True))
    assert about(only(*few, *many)) == f"From 1,000 to 9,000 constraints, the error rate of OAHU {words}."


def test_sensitivity_is_held_against_the_papers_claim() -> None:
    places = {0.1: 0.2, 0.6: 0.21, 0.9: 0.405}
    swept = [
        o
        for v, e in places.items()
        for o in runs("OAHU", [e], protocol="sensitivity", vary="tau", params={"tau": v})
    ]
    said = about(only(*swept))
    assert said.startswith("Over tau, the accuracy of OAHU is best at 0.1 (0.800) and worst at 0.9 (0.595).")
    assert "here it moves by 0.010 up to 0.6 and is 0.200 lower beyond" in said


@pytest.mark.parametrize(
    ("regrets", "words"),
    [
        ([1.0, 3.0], "stays below √(T ln N) in 2 of 2 runs; on average it is 0.50 of it"),
        ([1.0, 7.0], "stays below √(T ln N) in 1 of 2 runs; on average it is 1.00 of it"),
        ([8.0, 8.0], "exceeds √(T ln N) in 2 of 2 runs; on average it is 2.00 of it"),
        ([2.0], "stays below √(T ln N) in the one run there is; on average it is 0.50 of it"),
    ],
)
def test_regret_is_held_against_the_bound(regrets: list[float], words: str) -> None:
    found = [
        Outcome(Trial("regret", "digits", "OAHU", r), {"regret": x, "bound": 4.0}) for r, x in enumerate(regrets)
    ]
    assert about(only(*found)) == f"The measured regret {words}."
