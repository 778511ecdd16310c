"""How much parameters matter, Section 4.6 of the paper, and what the hedge loses against the best expert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.cells import Cell, Outcome
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.classification import Classification, halves
from oahu.evaluation.protocols.draws import Draws, generator_for
from oahu.evaluation.protocols.learning import Clock
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.protocols.scaling import fit_inputs
from oahu.learners import OAHU
from oahu.learners.oahu.loss import local_loss

__all__ = ["Regret", "Sensitivity"]

_DRAWN: Final = 128


class Sensitivity(Classification):
    """The error of classification as one parameter of OAHU varies."""

    name = "sensitivity"
    tunable = False
    runs = 3
    varied: Final[Mapping[str, tuple[Any, ...]]] = {
        "tau": tuple(round(0.1 * i, 1) for i in range(1, 10)),
        "embedding_size": tuple(range(10, 101, 10)),
    }

    def cells(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> list[Cell]:
        known = {} if method.learner is None else method.learner.get_params()
        return [
            Cell(
                self.name,
                dataset.name,
                method.name,
                run,
                {**settings, "vary": name, "params": {**settings["params"], name: value}},
            )
            for name, values in self.varied.items()
            if name in known
            for run in range(runs)
            for value in values
        ]


class Regret(Classification):
    """The weighted loss of OAHU's experts, less that of the single expert that was best in hindsight."""

    name = "regret"
    score = "regret"
    tunable = False
    runs = 1

    def cells(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> Any:
        return super().cells(dataset, method, runs, settings) if isinstance(method.learner, OAHU) else []

    def measure(self, cell: Cell, dataset: Dataset, method: Method, draws: Draws) -> Outcome:
        clock, settings = Clock(), cell.settings
        development, _ = halves(dataset, settings["seed"], cell.run)
        words = (settings["seed"], dataset.name, "run", cell.run)
        with clock("inputs"):
            items = fit_inputs(dataset.X[development], settings["scaling"], settings["pca"])(dataset.X[development])
        with clock("constraints"):
            n = settings["n_constraints"]
            stream = draws.get("triplets", dataset.y[development], n, min(settings["n_seeds"], n), words)
        learner = method.build(settings["params"], generator_for(*words, "learner", method.name))
        with clock("learning"):
            losses, weights = _each_round(learner, items[stream.rows])
        scores, curve = _regret(losses, weights)
        return Outcome(cell, scores, {"regret": curve}, clock.seconds, {"n_experts": losses.shape[1]})


def _each_round(learner: Any, triplets: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each expert's loss on every triplet, and the weights, as they were before it was learned."""
    learner.initialize(triplets.shape[2])
    losses = np.empty((len(triplets), len(learner.metric_weights_)))
    weights = np.empty_like(losses)
    for t, triplet in enumerate(triplets):
        weights[t] = learner.metric_weights_
        near, far = learner.metric().apart(triplet[[0, 0]], triplet[1:]).T
        losses[t] = local_loss(near, far, learner.tau)
        learner.partial_fit(triplet[None])
    return losses, weights


def _regret(losses: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[dict[str, float], dict[str, Any]]:
    """What the hedge lost more than the best expert in hindsight, at every round and at the end."""
    n_rounds, n_experts = losses.shape
    hedge, experts = np.cumsum((weights * losses).sum(axis=1)), np.cumsum(losses, axis=0)
    regret = hedge - experts.min(axis=1)
    rounds = np.arange(1, n_rounds + 1)
    bound = np.sqrt(rounds * np.log(n_experts))
    some = np.unique(np.linspace(0, n_rounds - 1, _DRAWN).astype(int))
    curve = {"rounds": rounds[some].tolist(), "regret": regret[some].tolist(), "bound": bound[some].tolist()}
    scores = {
        "regret": float(regret[-1]),
        "bound": float(bound[-1]),
        "best_expert": float(experts[-1].argmin()),
        "hedge_loss": float(hedge[-1] / n_rounds),
        "best_loss": float(experts[-1].min() / n_rounds),
    }
    return scores, curve
