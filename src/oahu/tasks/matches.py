"""What a search answers: typed results, made from arrays when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from oahu.metrics import Metric
from oahu.tasks.encoded_items import Found

__all__ = ["Evidence", "Key", "Match", "Neighbours", "Result", "Results"]

Key = str | int

_BLOCK = 4096  # pairs scored at a time


@dataclass(frozen=True)
class Evidence:
    """That an item is among the k nearest in one space.

    Attributes
    ----------
    space : str
        Such as "E_2", the expert with two hidden layers.
    rank : int
        1 for the nearest.
    distance : float or None
        In that space; None for a metric that has none.
    score : float
        What it contributed: ``exp(-(D - d_min) / (d_max - d_min)) alpha``.
    """

    space: str
    rank: int
    distance: float | None
    score: float


@dataclass(frozen=True)
class Match:
    """An item that was found.

    Attributes
    ----------
    key : str or int
    score : float
        What the results are sorted by; it compares items of one search, not searches.
    distance : float or None
        The metric's own distance from the query; None for a metric that has none.
    similarity : float
        The metric's score, higher is more alike: minus the distance where there is one.
    evidence : tuple of Evidence
        The spaces that found it, strongest first.
    """

    key: Key
    score: float
    distance: float | None
    similarity: float
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Result(Sequence[Match]):
    """The answer to a query: matches, best first. ``version`` is that of the metric which gave it."""

    matches: tuple[Match, ...]
    version: int

    @property
    def keys(self) -> list[Key]:
        """The keys of the matches, best first."""
        return [match.key for match in self.matches]

    @overload
    def __getitem__(self, at: int) -> Match: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Match, ...]: ...
    def __getitem__(self, at: int | slice) -> Match | tuple[Match, ...]:
        return self.matches[at]

    def __len__(self) -> int:
        return len(self.matches)

    def __iter__(self) -> Iterator[Match]:
        return iter(self.matches)


class Results(Sequence[Result]):
    """The answers to many queries, as arrays; an item of it is a `Result`.

    Attributes
    ----------
    scores : ndarray of shape (n_queries, k)
        As in `Match`; 0 where there are fewer than k.
    version : int
        The version of the metric that gave the answers.
    """

    def __init__(
        self,
        metric: Metric,
        queries: NDArray[Any],
        catalogue: tuple[Sequence[Key], NDArray[Any]],
        found: Neighbours,
        positions: NDArray[np.int64],
        scores: NDArray[np.float64],
    ) -> None:
        self._metric, self._queries, self._found = metric, queries, found
        self._keys, self._items = catalogue
        self._positions, self.scores, self.version = positions, scores, metric.version

    @property
    def keys(self) -> list[list[Key]]:
        """The keys found for each query, best first."""
        return [[self._keys[at] for at in row if at >= 0] for row in self._positions.tolist()]

    @cached_property
    def similarities(self) -> NDArray[np.float64]:
        """The metric's score of a query and each item found, (n_queries, k); minus infinity where there is none.

        Computed when it is first asked for.
        """
        return self._similar(slice(None))

    @overload
    def __getitem__(self, at: int) -> Result: ...
    @overload
    def __getitem__(self, at: slice) -> list[Result]: ...
    def __getitem__(self, at: int | slice) -> Result | list[Result]:
        if isinstance(at, slice):
            return [self._result(row) for row in range(*at.indices(len(self)))]
        return self._result(range(len(self))[at])

    def __len__(self) -> int:
        return len(self._positions)

    def __repr__(self) -> str:
        return f"<answers to {len(self)} queries by version {self.version} of the metric>"

    def _result(self, query: int) -> Result:
        one = slice(query, query + 1)
        similar = self.similarities[one] if "similarities" in vars(self) else self._similar(one)
        matches = []
        for position, score, similarity in zip(self._positions[query], self.scores[query], similar[0], strict=True):
            if position >= 0:
                distance = 0.0 - float(similarity) if self._found.has_distances else None
                evidence = self._found.evidence(query, int(position))
                matches.append(Match(self._keys[position], float(score), distance, float(similarity), evidence))
        return Result(tuple(matches), self.version)

    def _similar(self, queries: slice) -> NDArray[np.float64]:
        """`similarities` of some queries."""
        asked, positions = self._queries[queries], self._positions[queries]
        there = positions >= 0
        similarities = np.full(there.shape, -np.inf)
        rows, at = np.nonzero(there)[0], positions[there]
        values = np.empty(len(at))
        for start in range(0, len(at), _BLOCK):
            part = slice(start, start + _BLOCK)
            values[part] = self._metric.score(asked[rows[part]], self._items[at[part]])
        similarities[there] = values
        return similarities


@dataclass(frozen=True, eq=False)
class Neighbours:
    """What was found in every space, and what it scored: (n_spaces, n_queries, k) each."""

    names: tuple[str, ...]
    found: Found
    scores: NDArray[np.float64]
    has_distances: bool

    def evidence(self, query: int, position: int) -> tuple[Evidence, ...]:
        """The spaces that found an item, strongest first."""
        spaces, ranks = np.nonzero(self.found.positions[:, query] == position)
        evidence = [
            Evidence(
                self.names[space],
                int(rank) + 1,
                float(self.found.distances[space, query, rank]) if self.has_distances else None,
                float(self.scores[space, query, rank]),
            )
            for space, rank in zip(spaces, ranks, strict=True)
        ]
        return tuple(sorted(evidence, key=lambda one: -one.score))
