"""What follows, counted and drawn from products of components, and never listed unless it is asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from math import isqrt
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from oahu.constraints.single import Pair, Triplet
from oahu.exceptions import InvalidInputError
from oahu.randomness import RandomState, as_generator

__all__ = ["ImpliedConstraints", "PairBlock", "Span", "TripletBlock", "check_fresh", "check_number"]

Constraint = TypeVar("Constraint", Pair, Triplet)


class Span(NamedTuple):
    """Some of a component's items: a stretch of its list, which only ever grows at the end."""

    items: list[int]
    start: int
    stop: int


class PairBlock(NamedTuple):
    """Each of ``first`` with each of ``second``; all pairs within, if they are one."""

    first: Span
    second: Span
    same: bool

    @property
    def size(self) -> int:
        (_, start, stop), (_, start2, stop2) = self.first, self.second
        n = stop - start
        return n * (n - 1) // 2 if self.first is self.second else n * (stop2 - start2)

    def at(self, place: int) -> tuple[int, int, int]:
        (items, start, _), (items2, start2, stop2) = self.first, self.second
        if self.first is self.second:
            j = (1 + isqrt(1 + 8 * place)) // 2  # the pairs (i, j) with i < j, by j: j(j - 1)/2 come before
            return items[start + place - j * (j - 1) // 2], items[start + j], self.same
        i, j = divmod(place, stop2 - start2)
        return items[start + i], items2[start2 + j], self.same


class TripletBlock(NamedTuple):
    """Each anchor with each positive (not itself) and each negative."""

    anchors: Span
    positives: Span
    negatives: Span

    @property
    def size(self) -> int:
        (_, start, stop), (_, start2, stop2), (_, start3, stop3) = self
        return (stop - start) * (stop2 - start2 - (self.anchors is self.positives)) * (stop3 - start3)

    def at(self, place: int) -> tuple[int, int, int]:
        (items, start, _), (items2, start2, stop2), (items3, start3, stop3) = self
        within = self.anchors is self.positives
        place, k = divmod(place, stop3 - start3)
        i, j = divmod(place, stop2 - start2 - within)
        return items[start + i], items2[start2 + j + (within and j >= i)], items3[start3 + k]


class ImpliedConstraints(Generic[Constraint]):
    """Constraints that follow, counted without listing them: iterate over them, or draw some.

    Each is there once, in an order that depends only on the constraints that were added; a pair is there in one of
    its two directions. What was given is left out. To be used before the next `ConstraintGraph.add`.
    """

    def __init__(
        self,
        version: Callable[[], int],
        blocks: Iterable[PairBlock] | Iterable[TripletBlock],
        record: Callable[[int, int, int], Constraint],
        given: Callable[[tuple[int, int, int]], bool],
        n_given: int,
    ) -> None:
        self._now: Callable[[], int] = version
        self._version = version()
        self._blocks: list[PairBlock | TripletBlock] = list(blocks)
        self._ends = list(accumulate(block.size for block in self._blocks))
        self._record: Callable[[int, int, int], Constraint] = record
        self._given, self._n_given = given, n_given

    @property
    def count(self) -> int:
        """How many; ``len`` is the same, up to ``sys.maxsize``."""
        self._check()
        return (self._ends[-1] if self._ends else 0) - self._n_given

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return self.count > 0

    def __iter__(self) -> Iterator[Constraint]:
        for block in self._blocks:
            for place in range(block.size):
                self._check()
                found = block.at(place)
                if not self._given(found):
                    yield self._record(*found)

    def sample(self, limit: int, random_state: RandomState = None) -> list[Constraint]:
        """At most ``limit`` of them, uniformly and without replacement, in the order of iteration."""
        check_number("limit", limit)
        rng = as_generator(random_state)
        if limit >= self.count:
            return list(self)
        drawn: list[tuple[int, tuple[int, int, int]]] = []
        places = _shuffled(self._ends[-1], rng)
        while len(drawn) < limit:
            place = next(places)
            block = bisect_right(self._ends, place)
            found = self._blocks[block].at(place - (self._ends[block - 1] if block else 0))
            if not self._given(found):
                drawn.append((place, found))
        return [self._record(*found) for _, found in sorted(drawn)]

    def _check(self) -> None:
        check_fresh(self._version, self._now())


def _shuffled(n: int, rng: np.random.Generator) -> Iterator[int]:
    """The numbers below n in random order, as many as are asked for: a shuffle that keeps only what it moved."""
    moved: dict[int, int] = {}
    for i in range(n):
        j = i + _below(n - i, rng)
        yield moved.get(j, j)
        moved[j] = moved.pop(i, i)


def _below(n: int, rng: np.random.Generator) -> int:
    """A number below n, which may be more than 64 bits hold."""
    n_bits = (n - 1).bit_length()
    n_bytes = (n_bits + 7) // 8
    while True:
        number = int.from_bytes(rng.bytes(n_bytes), "little") >> (8 * n_bytes - n_bits)
        if number < n:
            return number


def check_fresh(asked: int, now: int) -> None:
    """Refuse to say what newly followed when the graph has moved on."""
    if asked != now:
        raise InvalidInputError("The graph has changed since: ask for what follows before you add the next.")


def check_number(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
        raise InvalidInputError(f"The {name!r} parameter must be an int of at least 0. Got {value!r} instead.")
