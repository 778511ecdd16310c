"""Tuning: choice of an input scaling and of parameter values for each method, on development data.

The procedure is the same for all methods. A candidate is a combination of a scaling and parameter values. The
candidates of a method are compared by successive elimination. In each round, the remaining candidates are measured
on further folds of a cross-validation. The best third of the candidates remains, but at least two candidates. The
last round ends with the last fold, so the chosen candidate has been measured on all folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any, Final

import numpy as np

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.base_protocol import EvaluationProtocol
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.trials import Outcome, Trial

__all__ = ["TUNED_SCALINGS", "Candidate", "tune"]

#: The input scalings that tuning tries with every method.
TUNED_SCALINGS: Final = ("range", "standard", "unit", "centred")

Candidate = tuple[str, Mapping[str, Any]]  # an input scaling, and parameters
RunTrials = Callable[[Sequence[Trial]], Sequence[Outcome]]

_REDUCTION: Final = 3  # a round keeps one of this many candidates
_MIN_CANDIDATES: Final = 2


def tune(
    protocol: EvaluationProtocol,
    dataset: Dataset,
    methods: Sequence[Method],
    settings: Mapping[str, Any],
    run: RunTrials,
    scalings: Sequence[str] = TUNED_SCALINGS,
) -> dict[str, Candidate]:
    """Return the best scaling and parameters of each method, by the name of the method.

    If all candidates of a method failed, the method is missing in the result.

    Parameters
    ----------
    settings : mapping
        Settings of the trials, including ``folds`` and the settings that `EvaluationProtocol.validate` needs.
    run : callable
        Function that measures trials.
    """
    n_folds = settings["folds"]
    candidates = {method.name: _candidates(method, scalings) for method in methods}
    remaining = {name: list(own) for name, own in candidates.items()}
    scores: dict[str, dict[int, list[float]]] = {name: {} for name in candidates}

    def measure(wanted: Sequence[tuple[Method, int, int]]) -> None:
        trials = [
            _trial(protocol, dataset, method, candidates[method.name][i], fold, settings)
            for method, i, fold in wanted
        ]
        for (method, i, _), outcome in zip(wanted, run(trials) if trials else (), strict=True):
            value = float("nan") if outcome.error is not None else outcome.scores[protocol.score]
            scores[method.name].setdefault(i, []).append(value if protocol.higher_is_better else -value)

    for first, last in _rounds(n_folds):
        folds = range(first, last)
        measure([(method, i, fold) for fold in folds for method in methods for i in remaining[method.name]])
        for method in methods:
            own, name = scores[method.name], method.name
            if not any(_all_finite(own[i]) for i in remaining[name]):  # bring eliminated candidates back
                remaining[name] = [i for i in candidates[name] if _all_finite(own[i])]
                measure([(method, i, fold) for i in remaining[name] for fold in range(len(own[i]), last)])
            n_next = max(_MIN_CANDIDATES, ceil(len(remaining[name]) / _REDUCTION)) if last < n_folds else 1
            ranked = sorted(remaining[name], key=lambda i: -_mean(own[i]))
            remaining[name] = [i for i in ranked[:n_next] if _all_finite(own[i])]
    return {name: candidates[name][ranked[0]] for name, ranked in remaining.items() if ranked}


def _candidates(method: Method, scalings: Sequence[str]) -> dict[int, Candidate]:
    return dict(enumerate((scaling, params) for params in method.candidates for scaling in scalings))


def _rounds(n_folds: int) -> list[tuple[int, int]]:
    """Return the range of folds (start, end) of each round.

    The first round has one fold, and each later round has one more fold than the previous round. The last round may
    have fewer folds.
    """
    edges = [0]
    while edges[-1] < n_folds:
        edges.append(min(n_folds, edges[-1] + len(edges)))
    return list(pairwise(edges))


def _trial(
    protocol: EvaluationProtocol,
    dataset: Dataset,
    method: Method,
    candidate: Candidate,
    fold: int,
    settings: Mapping[str, Any],
) -> Trial:
    scaling, params = candidate
    params = {**settings["params"], **params}
    own = {**settings, "scaling": scaling, "params": params, "learner": method.identity}
    return Trial(protocol.tuned_as or protocol.name, dataset.name, method.name, fold, own, stage="tuning")


def _mean(scores: Sequence[float]) -> float:
    """Return the mean of the scores, or minus infinity if a score is not finite."""
    return float(np.mean(scores)) if _all_finite(scores) else -np.inf


def _all_finite(scores: Sequence[float]) -> bool:
    return bool(np.isfinite(scores).all())
