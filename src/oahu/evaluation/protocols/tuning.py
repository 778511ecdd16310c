"""Choosing input scaling and parameters on development data, the same way for every method.

All candidates of a method race: every round measures those that are left on more folds of the cross-validation, and
keeps the better third, at least two. Whoever wins has been measured on all folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any, Final

import numpy as np

from oahu.evaluation.datasets.base import Dataset
from oahu.evaluation.protocols.base import Protocol
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.records import Cell, Outcome
from oahu.exceptions import InvalidInputError

__all__ = ["TUNED_SCALINGS", "Candidate", "race"]

#: The input scalings that are tried with every method.
TUNED_SCALINGS: Final = ("range", "standard", "unit", "centred")

Candidate = tuple[str, Mapping[str, Any]]  # an input scaling, and parameters
Run = Callable[[Sequence[Cell]], Sequence[Outcome]]

_KEPT: Final = 3  # one of so many goes on to the next round
_FEWEST: Final = 2


def race(
    protocol: Protocol,
    dataset: Dataset,
    methods: Sequence[Method],
    settings: Mapping[str, Any],
    run: Run,
    scalings: Sequence[str] = TUNED_SCALINGS,
) -> dict[str, Candidate]:
    """The best scaling and parameters of each method, by its name.

    Parameters
    ----------
    settings : mapping
        Of the cells that are to be measured with them; with ``folds`` and what else `Protocol.validate` needs.
    run : callable
        Measures cells.
    """
    n_folds = settings["folds"]
    left = {method.name: _candidates(method, scalings) for method in methods}
    scores: dict[str, dict[int, list[float]]] = {name: {} for name in left}
    failed: dict[str, str] = {}
    for first, last in _rounds(n_folds):
        cells = [
            (method, i, _cell(protocol, dataset, method, candidate, fold, settings))
            for fold in range(first, last)
            for method in methods
            for i, candidate in left[method.name].items()
        ]
        for (method, i, _), outcome in zip(cells, run([cell for *_, cell in cells]), strict=True):
            value = float("nan") if outcome.error is not None else outcome.scores[protocol.score]
            failed.update({method.name: outcome.error} if outcome.error is not None else {})
            scores[method.name].setdefault(i, []).append(value if protocol.higher else -value)
        for name, candidates in left.items():
            kept = max(_FEWEST, ceil(len(candidates) / _KEPT)) if last < n_folds else 1
            ranked = sorted(candidates, key=lambda i: -_mean(scores[name][i]))
            left[name] = {i: candidates[i] for i in ranked[:kept] if np.isfinite(_mean(scores[name][i]))}
            if not left[name]:
                raise InvalidInputError(f"{name} could not be tuned, all its candidates failed: {failed[name]}")
    return {name: next(iter(candidates.values())) for name, candidates in left.items()}


def _candidates(method: Method, scalings: Sequence[str]) -> dict[int, Candidate]:
    pairs = [(scaling, params) for params in method.candidates for scaling in scalings]
    return dict(enumerate(pairs))


def _rounds(n_folds: int) -> list[tuple[int, int]]:
    """The folds of every round: one, two, three, ..., and what is left."""
    edges = [0]
    while edges[-1] < n_folds:
        edges.append(min(n_folds, edges[-1] + len(edges)))
    return list(pairwise(edges))


def _cell(
    protocol: Protocol,
    dataset: Dataset,
    method: Method,
    candidate: Candidate,
    fold: int,
    settings: Mapping[str, Any],
) -> Cell:
    scaling, params = candidate
    params = {**settings["params"], **params}
    told = {**settings, "scaling": scaling, "params": params, "learner": method.described}
    return Cell(protocol.name, dataset.name, method.name, fold, told, stage="tuning")


def _mean(scores: Sequence[float]) -> float:
    """Minus infinity if any of them is missing."""
    mean = float(np.mean(scores))
    return mean if np.isfinite(mean) else -np.inf
