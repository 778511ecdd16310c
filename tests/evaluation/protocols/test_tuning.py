"""Tests of tuning: the best candidate wins and has been measured on all folds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oahu
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import ClassificationProtocol, Method, RetrievalProtocol
from oahu.evaluation.protocols.tuning import TUNED_SCALINGS, _rounds, tune
from oahu.evaluation.trials import Outcome, Trial

DATA = Dataset("none", np.zeros((4, 1)), np.zeros(4))
LOWER, HIGHER = (
    ClassificationProtocol(),
    RetrievalProtocol(),
)  # error_rate, and recall@1; what is measured is made up below


class Fake:
    """Returns made-up outcomes: ``badness`` maps (method, scaling, x) and fold to a score or an error."""

    def __init__(self, protocol: Any, badness: Callable[[tuple[str, str, int], int], float | str]) -> None:
        self.protocol, self.badness = protocol, badness
        self.trials: list[Trial] = []
        self.rounds: list[int] = []

    def __call__(self, trials: Sequence[Trial]) -> list[Outcome]:
        self.trials += trials
        self.rounds.append(len(trials))
        return [self._outcome(trial) for trial in trials]

    def _outcome(self, trial: Trial) -> Outcome:
        bad = self.badness(
            (trial.method, trial.settings["scaling"], trial.settings["params"].get("x", 0)), trial.run
        )
        if isinstance(bad, str):
            return Outcome(trial, error=bad)
        return Outcome(trial, {self.protocol.score: -bad if self.protocol.higher_is_better else bad, "other": 0.0})

    def folds(self, method: str, scaling: str, x: int) -> list[int]:
        """Return the folds on which a candidate was measured."""
        return sorted(
            trial.run
            for trial in self.trials
            if (trial.method, trial.settings["scaling"], trial.settings["params"].get("x", 0))
            == (method, scaling, x)
        )


def method(name: str, n: int) -> Method:
    return Method(name, learner=oahu.OAHU(), grid={"x": tuple(range(n))})


def run(fake: Fake, methods: Sequence[Method], folds: int, scalings: Sequence[str] = ("range", "none")) -> Any:
    return tune(fake.protocol, DATA, methods, {"folds": folds, "params": {}}, fake, scalings)


# -- rounds ----------------------------------------------------------------------------------------------


@given(n_folds=st.integers(1, 60))
def test_rounds_partition_the_folds_and_grow_by_one(n_folds: int) -> None:
    rounds = [range(*edges) for edges in _rounds(n_folds)]
    assert list(chain(*rounds)) == list(range(n_folds))
    sizes = [len(folds) for folds in rounds]
    assert sizes[:-1] == list(range(1, len(sizes)))
    assert 1 <= sizes[-1] <= len(sizes)


# -- winners ---------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    protocol=st.sampled_from([LOWER, HIGHER]),
    folds=st.integers(2, 12),
    n=st.integers(1, 12),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_best_candidate_wins_and_was_measured_on_all_folds(
    protocol: Any, folds: int, n: int, seed: int, data: st.DataObject
) -> None:
    best = ("mine", data.draw(st.sampled_from(["range", "none"])), data.draw(st.integers(0, n - 1)))
    noise = np.random.default_rng(seed).random((100, folds))
    fake = Fake(
        protocol,
        lambda candidate, fold: (
            float(noise[2 * candidate[2] + (candidate[1] == "none"), fold]) - 2 * (candidate == best)
        ),
    )
    assert run(fake, [method("mine", n)], folds) == {"mine": (best[1], {"x": best[2]})}
    assert fake.folds(*best) == list(range(folds))


@settings(max_examples=50)
@given(folds=st.integers(2, 12), n=st.integers(1, 12), seed=st.integers(0, 99))
def test_winner_is_the_best_of_those_measured_on_all_folds(folds: int, n: int, seed: int) -> None:
    table = np.random.default_rng(seed).random((n, 2, folds))
    fake = Fake(LOWER, lambda candidate, fold: float(table[candidate[2], int(candidate[1] == "none"), fold]))
    scaling, params = run(fake, [method("mine", n)], folds)["mine"]
    measured = {
        (s, x): table[x, i].mean()
        for x in range(n)
        for i, s in enumerate(("range", "none"))
        if fake.folds("mine", s, x) == list(range(folds))
    }
    assert (scaling, params["x"]) == min(measured, key=lambda one: measured[one])


def test_trials_are_unique_and_each_round_retains_a_third() -> None:
    fake = Fake(LOWER, lambda candidate, fold: float(candidate[2]))
    run(fake, [method("mine", 9)], 10)
    assert fake.rounds == [18 * 1, 6 * 2, 2 * 3, 2 * 4]
    assert set(Counter(trial.id for trial in fake.trials).values()) == {1}
    assert {trial.stage for trial in fake.trials} == {"tuning"}


def test_methods_are_tuned_independently() -> None:
    """One method is best with a large x, the other, worse one with a small x."""
    fake = Fake(LOWER, lambda candidate, fold: -candidate[2] if candidate[0] == "one" else 100 + candidate[2])
    found = run(fake, [method("one", 5), method("two", 4)], 4)
    assert {name: params["x"] for name, (_, params) in found.items()} == {"one": 4, "two": 0}


def test_other_settings_are_preserved() -> None:
    fake = Fake(LOWER, lambda candidate, fold: 0.0)
    settings = {"folds": 2, "params": {"x": 77, "beta": 0.9}, "k": 3, "seed": 9}
    found = tune(LOWER, DATA, [method("mine", 2)], settings, fake, ["range"])
    assert found["mine"] == ("range", {"x": 0})  # between equals, the first
    for trial in fake.trials:
        assert (trial.settings["k"], trial.settings["seed"], trial.settings["params"]["beta"]) == (3, 9, 0.9)
    assert {trial.settings["params"]["x"] for trial in fake.trials} == {0, 1}


def test_scalings_are_tuned_without_parameters() -> None:
    fake = Fake(LOWER, lambda candidate, fold: TUNED_SCALINGS[::-1].index(candidate[1]))
    row = Method("Euclidean", learner=oahu.Euclidean())
    assert run(fake, [row], 2, TUNED_SCALINGS) == {"Euclidean": (TUNED_SCALINGS[-1], {})}


# -- failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fold", range(4))
@pytest.mark.parametrize("how", ["OverflowedItemError: too long", float("nan")], ids=["an error", "nan"])
def test_candidate_that_fails_once_does_not_win(fold: int, how: Any) -> None:
    """The best candidate fails on one of four folds, so that the second best wins."""
    fake = Fake(
        LOWER, lambda candidate, at: how if candidate[2] == 1 and at == fold else float(abs(candidate[2] - 1))
    )
    _, params = run(fake, [method("mine", 5)], 4, ["range"])["mine"]
    assert params["x"] in (0, 2)


def test_eliminated_candidate_wins_if_the_finalists_fail() -> None:
    """Both finalists fail on the last fold, and the other candidates do not."""
    fake = Fake(
        LOWER,
        lambda candidate, at: "ValueError: no" if candidate[2] == 1 and at == 3 else float(abs(candidate[2] - 1)),
    )
    _, params = run(fake, [method("mine", 5)], 4, ["range", "none"])["mine"]
    assert params["x"] in (0, 2)


@pytest.mark.parametrize("last", [False, True])
def test_method_with_failing_candidates_has_no_choice(last: bool) -> None:
    """They fail at once or on the last fold; the other method is not affected."""

    def badness(candidate: tuple[str, str, int], fold: int) -> float | str:
        return "ValueError: no way" if candidate[0] == "bad" and (not last or fold == 3) else 0.0

    assert set(run(Fake(LOWER, badness), [method("good", 3), method("bad", 3)], 4)) == {"good"}


def test_method_without_scores_has_no_choice() -> None:
    assert run(Fake(LOWER, lambda candidate, fold: float("nan")), [method("mine", 3)], 4) == {}
