"""Sensitivity of OAHU to its parameters (Section 4.6 of the paper), and regret of OAHU's weighted experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.classification_protocol import ClassificationProtocol, split_halves
from oahu.evaluation.protocols.constraint_streams import ConstraintCache, generator_for
from oahu.evaluation.protocols.method_training import Stopwatch
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.protocols.scaling import fit_scaling
from oahu.evaluation.trials import Outcome, Trial
from oahu.learners import OAHU
from oahu.learners.oahu.loss import local_loss

__all__ = ["RegretProtocol", "SensitivityProtocol"]

_CURVE_POINTS: Final = 128


class SensitivityProtocol(ClassificationProtocol):
    """Measure the classification error of OAHU for different values of one parameter."""

    name = "sensitivity"
    tunable = False
    runs = 3
    varied: Final[Mapping[str, tuple[Any, ...]]] = {
        "tau": tuple(round(0.1 * i, 1) for i in range(1, 10)),
        "embedding_size": tuple(range(10, 101, 10)),
    }

    def trials(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> list[Trial]:
        if not isinstance(method.learner, OAHU):
            return []
        return [
            Trial(
                self.name,
                dataset.name,
                method.name,
                run,
                {**settings, "vary": name, "params": {**settings["params"], name: value}},
            )
            for name, values in self.varied.items()
            for run in range(runs)
            for value in values
        ]


class RegretProtocol(ClassificationProtocol):
    """Measure the regret of OAHU.

    The regret is the loss of the weighted experts minus the loss of the single expert that was best in hindsight.
    """

    name = "regret"
    score = "regret"
    tunable = False
    runs = 1

    def trials(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> list[Trial]:
        if not isinstance(method.learner, OAHU):
            return []
        return list(super(ClassificationProtocol, self).trials(dataset, method, runs, settings))

    def measure(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        stopwatch, settings = Stopwatch(), trial.settings
        development, _ = split_halves(dataset, settings["seed"], trial.run)
        seed_words = (settings["seed"], dataset.name, "run", trial.run)
        with stopwatch("inputs"):
            transform = fit_scaling(dataset.X[development], settings["scaling"], settings["pca"])
            items = transform(dataset.X[development])
        with stopwatch("constraints"):
            n = settings["n_constraints"]
            stream = cache.get("triplets", dataset.y[development], n, min(settings["n_seeds"], n), seed_words)
        learner = method.build(settings["params"], generator_for(*seed_words, "learner", method.name))
        with stopwatch("learning"):
            losses, weights = _losses_and_weights(learner, items[stream.rows])
        scores, curve = _regret(losses, weights)
        return Outcome(trial, scores, {"regret": curve}, stopwatch.seconds, {"n_experts": losses.shape[1]})


def _losses_and_weights(
    learner: Any, triplets: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each expert's loss and weight for each triplet, measured before the learner learns the triplet."""
    learner.initialize(triplets.shape[2])
    losses = np.empty((len(triplets), len(learner.metric_weights_)))
    weights = np.empty_like(losses)
    for t, triplet in enumerate(triplets):
        weights[t] = learner.metric_weights_
        to_positive, to_negative = learner.metric().space_distances(triplet[[0, 0]], triplet[1:]).T
        losses[t] = local_loss(to_positive, to_negative, learner.tau)
        learner.partial_fit(triplet[None])
    return losses, weights


def _regret(losses: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the final scores, and the curve of the regret relative to the best expert in hindsight."""
    n_rounds, n_experts = losses.shape
    hedge, experts = np.cumsum((weights * losses).sum(axis=1)), np.cumsum(losses, axis=0)
    regret = hedge - experts.min(axis=1)
    rounds = np.arange(1, n_rounds + 1)
    bound = np.sqrt(rounds * np.log(n_experts))
    chosen = np.unique(np.linspace(0, n_rounds - 1, _CURVE_POINTS).astype(int))
    curve = {"rounds": rounds[chosen].tolist(), "regret": regret[chosen].tolist(), "bound": bound[chosen].tolist()}
    scores = {
        "regret": float(regret[-1]),
        "bound": float(bound[-1]),
        "best_expert": float(experts[-1].argmin()),
        "hedge_loss": float(hedge[-1] / n_rounds),
        "best_loss": float(experts[-1].min() / n_rounds),
    }
    return scores, curve
