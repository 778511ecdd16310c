"""Search results. The results are stored as arrays, and `Match` objects are created on access."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from oahu.tasks.indexed_items import IndexedItems, SpaceNeighbours, neighbour_scores

__all__ = ["Key", "Match", "RetrievalResult", "RetrievalResults", "SpaceVote"]

Key = str | int


@dataclass(frozen=True)
class SpaceVote:
    """The vote of one space for a match.

    Each space votes for the k items that are nearest to the query in this space.

    Attributes
    ----------
    space : str
        The name of the space: "joint" for the joint vectors, or the name of an expert. For example, "E_2" is the
        expert with two hidden layers.
    rank : int
        The rank of the match in that space: 1 for the nearest item.
    distance : float or None
        The distance between query and match in that space. None for a metric without distances.
    score : float
        The paper's score of the match in that space, ``exp(-(D - d_min) / (d_max - d_min)) alpha``. The score
        depends on k and on the distances of the other k - 1 items. Scores of different searches are therefore not
        comparable.
    """

    space: str
    rank: int
    distance: float | None
    score: float


@dataclass(frozen=True)
class Match:
    """An item that a search found.

    Attributes
    ----------
    key : str or int
    distance : float or None
        The metric's distance between query and item. None for a metric without distances.
    similarity : float
        The negative distance, or the score for a metric without distances. A higher value means more similar.
    votes : tuple of SpaceVote
        The votes of the spaces that found the item, highest score first. ``repr`` omits the votes.
    """

    key: Key
    distance: float | None
    similarity: float
    votes: tuple[SpaceVote, ...] = field(repr=False)


@dataclass(frozen=True)
class RetrievalResult(Sequence[Match]):
    """The matches of a query, best first.

    Attributes
    ----------
    matches : tuple of Match
    version : int
        The version of the metric that the search used.
    vote_scores : tuple of float
        The paper's score of each match. With ``vote="experts"``, matches are ordered by this score. The score
        depends on k. Distances of different searches are comparable, but scores are not. ``repr`` omits the scores.
    """

    matches: tuple[Match, ...]
    version: int
    vote_scores: tuple[float, ...] = field(default=(), repr=False)

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


class RetrievalResults(Sequence[RetrievalResult]):
    """The results for many queries: a sequence with one `RetrievalResult` for each query.

    Attributes
    ----------
    distances : ndarray of shape (n_queries, k)
        The metric's distances between each query and its matches, best match first. For a metric without distances,
        the entries are negative scores. If there are fewer than k matches, the remaining entries are infinite.
    version : int
        The version of the metric that the searches used.
    """

    def __init__(
        self,
        indexed: IndexedItems,
        keys: Sequence[Key],
        neighbours: SpaceNeighbours,
        positions: NDArray[np.int64],
        distances: NDArray[np.float64],
        vote_scores: NDArray[np.float64] | None = None,
    ) -> None:
        self._space_names, self._weights = indexed.space_names, indexed.weights
        self._has_distances = indexed.metric.measure == "l2"
        self._keys, self._neighbours, self._positions = keys, neighbours, positions
        self._vote_scores = vote_scores
        self.distances, self.version = distances, indexed.metric.version

    @property
    def keys(self) -> list[list[Key]]:
        """The keys of the matches of each query, best first."""
        return [[self._keys[at] for at in row if at >= 0] for row in self._positions.tolist()]

    @property
    def similarities(self) -> NDArray[np.float64]:
        """The negative distances, as an array of shape (n_queries, k).

        The entry of a missing match is minus infinity.
        """
        return 0.0 - self.distances

    @property
    def vote_scores(self) -> NDArray[np.float64]:
        """The paper's scores of the matches, as an array of shape (n_queries, k).

        The entry of a missing match is 0.
        """
        return self._space_scores[0] if self._vote_scores is None else self._vote_scores

    @cached_property
    def _space_scores(self) -> NDArray[np.float64]:
        """The paper's scores of the neighbours in every space, as an array of shape (n_spaces, n_queries, k)."""
        return neighbour_scores(self._neighbours.distances, self._weights)

    @overload
    def __getitem__(self, at: int) -> RetrievalResult: ...
    @overload
    def __getitem__(self, at: slice) -> list[RetrievalResult]: ...
    def __getitem__(self, at: int | slice) -> RetrievalResult | list[RetrievalResult]:
        if isinstance(at, slice):
            return [self._result(row) for row in range(*at.indices(len(self)))]
        return self._result(range(len(self))[at])

    def __len__(self) -> int:
        return len(self._positions)

    def __repr__(self) -> str:
        return f"<results of {len(self)} queries with version {self.version} of the metric>"

    def _result(self, query: int) -> RetrievalResult:
        matches = []
        for position, distance in zip(self._positions[query].tolist(), self.distances[query].tolist(), strict=True):
            if position >= 0:
                shown = distance if self._has_distances else None
                matches.append(Match(self._keys[position], shown, 0.0 - distance, self._votes(query, position)))
        scores = self.vote_scores[query, : len(matches)].tolist()
        return RetrievalResult(tuple(matches), self.version, tuple(scores))

    def _votes(self, query: int, position: int) -> tuple[SpaceVote, ...]:
        """Return the votes of the spaces that found an item, highest score first."""
        spaces, ranks = np.nonzero(self._neighbours.positions[:, query] == position)
        votes = [
            SpaceVote(
                self._space_names[space],
                int(rank) + 1,
                float(self._neighbours.distances[space, query, rank]) if self._has_distances else None,
                float(self._space_scores[space, query, rank]),
            )
            for space, rank in zip(spaces, ranks, strict=True)
        ]
        return tuple(sorted(votes, key=lambda vote: -vote.score))
