"""Tests of the sensitivity and the regret protocol."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oahu
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method, as_method
from oahu.evaluation.protocols.classification_protocol import split_halves
from oahu.evaluation.trials import Outcome

Measure = Callable[..., Outcome]
RecordingMethod = Callable[[str], Method]

TAUS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
SIZES = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]

# -- sensitivity -----------------------------------------------------------------------------------------


def test_one_parameter_varies_in_each_trial(digits: Dataset) -> None:
    protocol = PROTOCOLS["sensitivity"]
    settings = protocol.settings(digits, params={"tau": 0.25, "beta": 0.9})
    trials = protocol.trials(digits, as_method("OAHU"), 2, settings)
    found = [(trial.settings["vary"], trial.run, trial.settings["params"]) for trial in trials]
    expected = [("tau", run, {"tau": tau, "beta": 0.9}) for run in (0, 1) for tau in TAUS]
    expected += [
        ("embedding_size", run, {"tau": 0.25, "beta": 0.9, "embedding_size": size})
        for run in (0, 1)
        for size in SIZES
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert len({trial.id for trial in trials}) == 38


@pytest.mark.parametrize("method", ["LEGO", "OASIS", "OPML", "Euclidean", oahu.CosineMetric(64)])
def test_only_oahu_has_sensitivity_trials(digits: Dataset, method: Any) -> None:
    protocol = PROTOCOLS["sensitivity"]
    assert protocol.trials(digits, as_method(method), 2, protocol.settings(digits)) == []


@pytest.mark.parametrize("params", [{"tau": 0.6}, {"embedding_size": 3}])
def test_trial_uses_its_parameters(
    digits: Dataset, measure: Measure, recording: RecordingMethod, params: dict[str, Any]
) -> None:
    method = recording("OAHU")
    changed = measure("sensitivity", digits, method, params=params)
    [(learner, _, _)] = type(method.learner).calls
    (name,) = params
    assert getattr(learner, name) == params[name]
    assert changed.scores == measure("classification", digits, method, params=params).scores


# -- regret ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["LEGO", "OASIS", "Euclidean", oahu.CosineMetric(64)])
def test_only_oahu_has_regret_trials(digits: Dataset, method: Any) -> None:
    protocol = PROTOCOLS["regret"]
    assert list(protocol.trials(digits, as_method(method), 2, protocol.settings(digits))) == []
    assert len(protocol.trials(digits, as_method("OAHU"), 2, protocol.settings(digits))) == 2


def loss_by_hand(near: float, far: float, tau: float) -> float:
    """Return the paper's ABTL: the mean of both losses, with thresholds at the distances."""
    c1 = tau / (math.exp(2) - 1) * (math.exp(near) - 1)
    c2 = -tau / (1 - math.exp(-2)) * (math.exp(-far) - 1) + (2 - tau)
    attraction = max(0.0, near / (2 - c1) - c1 / (2 - c1))
    repulsion = max(0.0, 1 - far / c2)
    return (attraction + repulsion) / 2


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_regret_matches_a_plain_recomputation(
    digits: Dataset, measure: Measure, recording: RecordingMethod, tau: float
) -> None:
    method = recording("OAHU")
    outcome = measure("regret", digits, method, n_constraints=60, n_seeds=30, params={"tau": tau})
    fed = type(method.learner).calls
    assert len(fed) == 60
    learner = oahu.OAHU(**{**fed[0][0].get_params(), "preprocessor": None}).initialize(64)
    hedge, experts, regrets = 0.0, [0.0, 0.0, 0.0], []
    for _, (triplet,), _ in fed:
        spaces = learner.metric().spaces
        losses = []
        for space in spaces:
            anchor, positive, negative = space.encode(triplet).astype(float)
            losses.append(loss_by_hand(math.dist(anchor, positive), math.dist(anchor, negative), tau))
        hedge += sum(space.weight * loss for space, loss in zip(spaces, losses, strict=True))
        experts = [before + loss for before, loss in zip(experts, losses, strict=True)]
        regrets.append(hedge - min(experts))
        learner.partial_fit(triplet[None])
    assert learner.tau == tau
    scores, curve = outcome.scores, outcome.curves["regret"]
    assert scores["regret"] == pytest.approx(regrets[-1], abs=1e-4)  # distances of float32, sixty of them
    assert scores["hedge_loss"] == pytest.approx(hedge / 60, rel=1e-4)
    assert scores["best_loss"] == pytest.approx(min(experts) / 60, rel=1e-4)
    assert scores["best_expert"] == experts.index(min(experts))
    assert curve["rounds"] == list(range(1, 61))
    np.testing.assert_allclose(curve["regret"], regrets, atol=1e-4)
    assert outcome.facts["n_experts"] == 3


def test_bound_is_sqrt_of_rounds_times_log_of_experts(digits: Dataset, measure: Measure) -> None:
    learner = oahu.OAHU(n_layers=3, hidden_size=4, embedding_size=2)
    outcome = measure("regret", digits, learner, n_constraints=300, n_seeds=150)
    rounds, bound = (outcome.curves["regret"][name] for name in ("rounds", "bound"))
    assert outcome.scores["bound"] == pytest.approx(math.sqrt(300 * math.log(4)))
    assert bound == pytest.approx([math.sqrt(t * math.log(4)) for t in rounds])
    assert (rounds[0], rounds[-1], len(rounds)) == (1, 300, 128)
    assert rounds == sorted(set(rounds))


def test_regret_uses_the_stream_of_classification(
    digits: Dataset, measure: Measure, recording: RecordingMethod
) -> None:
    method = recording("OAHU")
    measure("classification", digits, method, n_constraints=40, n_seeds=20)
    measure("regret", digits, method, n_constraints=40, n_seeds=20)
    (classifier_learner, rows, _), *rounds = type(method.learner).calls
    np.testing.assert_array_equal(
        np.concatenate([triplet for _, triplet, _ in rounds]), classifier_learner.preprocessor[rows]
    )
    assert {learner.random_state for learner, *_ in rounds} == {classifier_learner.random_state}
    assert len(classifier_learner.preprocessor) == len(split_halves(digits, 0, 0)[0])


def test_fewer_constraints_than_seeds(digits: Dataset, measure: Measure) -> None:
    """As in classification, the default of 5,000 seeds is limited to the 20 constraints."""
    learner = oahu.OAHU(n_layers=1, hidden_size=4, embedding_size=2)
    for protocol in ("classification", "sensitivity", "regret"):
        measure(protocol, digits, learner, n_constraints=20, n_seeds=5_000)
