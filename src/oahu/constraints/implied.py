"""Implied constraints. They can be counted and sampled without listing all of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from math import isqrt
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from oahu.constraints.components import Components, Span
from oahu.constraints.graph_state import GraphState
from oahu.constraints.single import Pair, Triplet
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten
from oahu.randomness import RandomState, as_generator

__all__ = [
    "ImpliedConstraints",
    "PairBlock",
    "TripletBlock",
    "all_pairs",
    "all_triplets",
    "check_count",
    "check_not_stale",
]

Constraint = TypeVar("Constraint", Pair, Triplet)


class PairBlock(NamedTuple):
    """All pairs of an item from the span ``first`` and a different item from the span ``second``."""

    first: Span
    second: Span
    same: bool

    @property
    def size(self) -> int:
        (_, start, stop), (_, start2, stop2) = self.first, self.second
        n = stop - start
        return n * (n - 1) // 2 if self.first is self.second else n * (stop2 - start2)

    def at(self, position: int) -> tuple[int, int, int]:
        """Return the pair at a position of the block, as (first item, second item, same)."""
        (items, start, _), (items2, start2, stop2) = self.first, self.second
        if self.first is self.second:
            # The pairs (i, j) with i < j are ordered by j. So j (j - 1) / 2 pairs come before (0, j).
            j = (1 + isqrt(1 + 8 * position)) // 2
            return items[start + position - j * (j - 1) // 2], items[start + j], self.same
        i, j = divmod(position, stop2 - start2)
        return items[start + i], items2[start2 + j], self.same


class TripletBlock(NamedTuple):
    """All triplets of items from three spans, except triplets with an equal anchor and positive."""

    anchors: Span
    positives: Span
    negatives: Span

    @property
    def size(self) -> int:
        (_, start, stop), (_, start2, stop2), (_, start3, stop3) = self
        return (stop - start) * (stop2 - start2 - (self.anchors is self.positives)) * (stop3 - start3)

    def at(self, position: int) -> tuple[int, int, int]:
        """Return the triplet at a position of the block, as (anchor, positive, negative)."""
        (items, start, _), (items2, start2, stop2), (items3, start3, stop3) = self
        one_span = self.anchors is self.positives
        position, k = divmod(position, stop3 - start3)
        i, j = divmod(position, stop2 - start2 - one_span)
        return items[start + i], items2[start2 + j + (one_span and j >= i)], items3[start3 + k]


def all_pairs(components: Components) -> Iterator[PairBlock]:
    """Yield blocks with all pairs of a graph, both given and implied."""
    spans = {root: components.span(root) for root in components.members}
    for root, span in spans.items():
        if span.stop > 1:
            yield PairBlock(span, span, True)
        for other in components.neighbours(root):
            if root < other:
                yield PairBlock(span, spans[other], False)


def all_triplets(components: Components) -> Iterator[TripletBlock]:
    """Yield blocks with all triplets of a graph, both given and implied."""
    spans = {root: components.span(root) for root in components.members}
    for root, span in spans.items():
        if span.stop > 1:
            for other in components.neighbours(root):
                yield TripletBlock(span, span, spans[other])


class ImpliedConstraints(Generic[Constraint]):
    """Implied constraints that can be counted, sampled and iterated over. They are not stored in a list.

    Each constraint occurs once. A pair (a, b) does not occur again as (b, a). The order of iteration depends only
    on the constraints that were added to the graph. Given constraints are left out. This object can be used until
    the next call of `ConstraintGraph.add`. Afterwards, it raises `InvalidInputError`.
    """

    def __init__(
        self,
        state: GraphState,
        blocks: Iterable[PairBlock] | Iterable[TripletBlock],
        make: Callable[[int, int, int], Constraint],
        is_given: Callable[[tuple[int, int, int]], bool],
        n_given: int,
    ) -> None:
        self._state, self._version = state, state.version
        self._blocks: list[PairBlock | TripletBlock] = list(blocks)
        self._ends = list(accumulate(block.size for block in self._blocks))
        self._make: Callable[[int, int, int], Constraint] = make
        self._is_given, self._n_given = is_given, n_given

    @property
    def count(self) -> int:
        """The number of constraints. Unlike ``len``, `count` also works for numbers above ``sys.maxsize``."""
        self._check_not_stale()
        return (self._ends[-1] if self._ends else 0) - self._n_given

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return self.count > 0

    def __iter__(self) -> Iterator[Constraint]:
        for block in self._blocks:
            for position in range(block.size):
                self._check_not_stale()
                found = block.at(position)
                if not self._is_given(found):
                    yield self._make(*found)

    def sample(self, limit: int, random_state: RandomState = None) -> list[Constraint]:
        """Return at most ``limit`` constraints, drawn uniformly without replacement.

        The result has the order of iteration.
        """
        check_count("limit", limit)
        rng = as_generator(random_state)
        if limit >= self.count:
            return list(self)
        drawn: list[tuple[int, tuple[int, int, int]]] = []
        positions = _random_order(self._ends[-1], rng)
        while len(drawn) < limit:
            position = next(positions)
            block = bisect_right(self._ends, position)
            found = self._blocks[block].at(position - (self._ends[block - 1] if block else 0))
            if not self._is_given(found):
                drawn.append((position, found))
        return [self._make(*found) for _, found in sorted(drawn)]

    def _check_not_stale(self) -> None:
        check_not_stale(self._version, self._state.version)


def _random_order(n: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield the integers from 0 to n - 1 in random order. This Fisher-Yates shuffle stores only moved entries."""
    moved: dict[int, int] = {}
    for i in range(n):
        j = i + _random_below(n - i, rng)
        yield moved.get(j, j)
        moved[j] = moved.pop(i, i)


def _random_below(n: int, rng: np.random.Generator) -> int:
    """Return a random integer from 0 to n - 1. n may have more than 64 bits."""
    n_bits = (n - 1).bit_length()
    n_bytes = (n_bits + 7) // 8
    while True:
        number = int.from_bytes(rng.bytes(n_bytes), "little") >> (8 * n_bytes - n_bits)
        if number < n:
            return number


def check_not_stale(version: int, current: int) -> None:
    """Raise `InvalidInputError` if a graph is at version ``current`` and no longer at version ``version``."""
    if version != current:
        raise InvalidInputError(
            "These implied constraints are out of date, because constraints were added after they were requested. "
            "Read implied constraints before the next add(), or request them from the graph again."
        )


def check_count(name: str, value: Any) -> None:
    """Raise `InvalidInputError` unless ``value``, the value of the parameter ``name``, is an int of at least 0."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
        raise InvalidInputError(
            f"The {name!r} parameter must be an int of at least 0. Got {shorten(value)} instead."
        )
