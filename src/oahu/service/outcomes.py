"""Outcomes of searches: which of the shown results users marked as alike, and which ranking contributed them.

An outcome belongs to an impression. Several clicks can refer to the same impression; their marks are combined, and
the newest mark of a result counts. The store keeps the marks of each click. The memory keeps one row of 32 bytes
for each impression.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from oahu.service.records import Click, QueryVector
from oahu.service.store.interface import StoredOutcome
from oahu.tasks.interleaving import Interleaving

__all__ = ["OUTCOME", "Outcome", "ShownList", "Sides", "is_held_out", "mark", "merge", "query_id"]

_QUERY_IDS: Final = 2**63

#: One impression in memory. ``depth`` is 0 if the search was not interleaved. ``learned`` and ``unlearned`` are the
#: numbers of alike results among the first ``depth`` results of each ranking. The credits are the numbers of alike
#: results that each ranking contributed.
OUTCOME: Final = np.dtype(
    [
        ("seq", np.int64),
        ("query", np.int64),
        ("shown", np.int16),
        ("alike", np.int16),
        ("served", np.int16),
        ("depth", np.int16),
        ("learned", np.int16),
        ("unlearned", np.int16),
        ("learned_credit", np.int16),
        ("unlearned_credit", np.int16),
    ]
)


def query_id(query: str | QueryVector) -> int:
    """Return a hash of a query in [0, 2^63). It depends only on the key or the features of the query."""
    key = query.key if isinstance(query, QueryVector) else query
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) >> 1


def is_held_out(query: int, share: float) -> bool:
    """Return whether the feedback on a query is held out from learning. ``query`` is a `query_id`.

    >>> sum(is_held_out(query_id(f"item {n}"), 0.25) for n in range(1000))
    248
    """
    return query < share * _QUERY_IDS


class Sides(NamedTuple):
    """The part of each ranking in an interleaved list. Sets of positions are bits of an integer.

    Attributes
    ----------
    depth : int
        The list contains the ``depth`` best results of both rankings.
    from_learned : int
        The positions that the learned ranking contributed.
    top_learned, top_unlearned : int
        The positions of the ``depth`` best results of each ranking.
    """

    depth: int
    from_learned: int
    top_learned: int
    top_unlearned: int

    @classmethod
    def of(
        cls, drafted: Interleaving[Any], learned: Sequence[Hashable], unlearned: Sequence[Hashable], depth: int
    ) -> Self:
        """Return the sides of a list that was drafted from two rankings."""
        position = {item: at for at, item in enumerate(drafted.items)}
        return cls(
            depth,
            _bits(at for at, is_learned in enumerate(drafted.from_first) if is_learned),
            *(_bits(position[item] for item in ranking[:depth]) for ranking in (learned, unlearned)),
        )


class ShownList(NamedTuple):
    """The results that a search has shown.

    Attributes
    ----------
    keys : tuple of str
        The keys of the results, best first.
    sides : Sides or None
        The parts of the two rankings if the search was interleaved.
    is_learned : bool
        Whether a search that is not interleaved used the learned metric.
    """

    keys: tuple[str, ...]
    sides: Sides | None = None
    is_learned: bool = True


class Outcome(NamedTuple):
    """The marks of one or more clicks on one impression. Sets of positions are bits of an integer."""

    n_shown: int
    alike: int
    not_alike: int
    sides: Sides | None
    is_learned: bool

    def to_json(self) -> list[Any]:
        """Return JSON data. The integers can have 100 bits, so they are stored as hexadecimal numbers."""
        sides = None if self.sides is None else [self.sides.depth, *(f"{one:x}" for one in self.sides[1:])]
        return [self.n_shown, f"{self.alike:x}", f"{self.not_alike:x}", sides, self.is_learned]

    @classmethod
    def from_json(cls, packed: Sequence[Any]) -> Self:
        """Return the outcome that `to_json` encoded."""
        n_shown, alike, not_alike, sides, is_learned = packed
        unpacked = None if sides is None else Sides(sides[0], *(int(one, 16) for one in sides[1:]))
        return cls(n_shown, int(alike, 16), int(not_alike, 16), unpacked, is_learned)

    def row(self, seq: int, query: int) -> tuple[int, ...]:
        """Return the row of the impression, with the fields of `OUTCOME`."""
        values = (seq, query, self.n_shown, self.alike.bit_count(), int(self.is_learned))
        if self.sides is None:
            return (*values, 0, 0, 0, 0, 0)
        depth, from_learned, *tops = self.sides
        credit = (self.alike & from_learned).bit_count()
        in_tops = ((self.alike & top).bit_count() for top in tops)
        return (*values, depth, *in_tops, credit, self.alike.bit_count() - credit)


def mark(click: Click, shown: ShownList) -> Outcome:
    """Return the outcome of a click on shown results. Items that were not shown do not count."""
    position = {key: at for at, key in enumerate(shown.keys)}
    alike, not_alike = (
        _bits(position[key] for key in keys if key in position) for keys in (click.positive, click.negative)
    )
    return Outcome(len(shown.keys), alike, not_alike & ~alike, shown.sides, shown.is_learned)


def merge(outcomes: Iterable[StoredOutcome]) -> NDArray[Any]:
    """Return one row for each impression, in the order of their first clicks. See `OUTCOME`."""
    merged: dict[str, tuple[int, int, Outcome]] = {}
    for seq, impression, query, content in outcomes:
        new = Outcome.from_json(content)
        if impression in merged:
            seq, query, before = merged[impression]
            new = new._replace(
                alike=before.alike & ~new.not_alike | new.alike,
                not_alike=before.not_alike & ~new.alike | new.not_alike,
            )
        merged[impression] = seq, query, new
    return np.array([outcome.row(seq, query) for seq, query, outcome in merged.values()], OUTCOME)


def _bits(positions: Iterable[int]) -> int:
    return sum(1 << at for at in set(positions))
