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

from oahu.evaluation.cells import Cell, Outcome
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.protocols.protocol import Protocol

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
    """The best scaling and parameters of each method, by its name; a method that failed with all has none.

    Parameters
    ----------
    settings : mapping
        Of the cells that are to be measured with them; with ``folds`` and what else `Protocol.validate` needs.
    run : callable
        Measures cells.
    """
    n_folds = settings["folds"]
    every = {method.name: _candidates(method, scalings) for method in methods}
    left = {name: list(candidates) for name, candidates in every.items()}
    scores: dict[str, dict[int, list[float]]] = {name: {} for name in every}

    def measure(wanted: Sequence[tuple[Method, int, int]]) -> None:
        cells = [
            _cell(protocol, dataset, method, every[method.name][i], fold, settings) for method, i, fold in wanted
        ]
        for (method, i, _), outcome in zip(wanted, run(cells) if cells else (), strict=True):
            value = float("nan") if outcome.error is not None else outcome.scores[protocol.score]
            scores[method.name].setdefault(i, []).append(value if protocol.higher else -value)

    for first, last in _rounds(n_folds):
        folds = range(first, last)
        measure([(method, i, fold) for fold in folds for method in methods for i in left[method.name]])
        for method in methods:
            name = method.name
            if not any(_is_there(scores[name][i]) for i in left[name]):  # those that went out before come back
                left[name] = [i for i in every[name] if _is_there(scores[name][i])]
                measure([(method, i, fold) for i in left[name] for fold in range(len(scores[name][i]), last)])
            kept = max(_FEWEST, ceil(len(left[name]) / _KEPT)) if last < n_folds else 1
            ranked = sorted(left[name], key=lambda i: -_mean(scores[name][i]))
            left[name] = [i for i in ranked[:kept] if _is_there(scores[name][i])]
    return {name: every[name][ranked[0]] for name, ranked in left.items() if ranked}


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
    return Cell(protocol.tuned_as or protocol.name, dataset.name, method.name, fold, told, stage="tuning")


def _mean(scores: Sequence[float]) -> float:
    """Minus infinity if any of them is missing."""
    return float(np.mean(scores)) if _is_there(scores) else -np.inf


def _is_there(scores: Sequence[float]) -> bool:
    return bool(np.isfinite(scores).all())
