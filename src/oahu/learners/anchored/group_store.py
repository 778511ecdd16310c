"""The stored groups of AnchoredOAHU: groups that wait for a round, and earlier groups for replay."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import numpy as np

from oahu.learners.anchored.groups import Groups

__all__ = ["GroupStore"]

_MAX_GROUPS: Final = 10_000
_MAX_NUMBERS: Final = 2**23  # in stored items that are not rows of the feature table


class GroupStore:
    """Groups in the order in which they were accepted.

    At most 10,000 learned groups are stored, and at most 2^23 numbers of their items that are not rows of the
    feature table. The oldest groups are removed first.
    """

    def __init__(self, learned: Groups | None = None) -> None:
        self.pending: list[Groups] = []
        self._batches: list[Groups] = []
        self._ends: list[int] = []  # the number of groups up to the end of each batch, including removed groups
        self._n_removed = 0
        self.n_vectors = 0
        if learned is not None:
            self._append(learned)

    def copy(self) -> GroupStore:
        """Return a store with the same groups."""
        store = GroupStore()
        store.__dict__.update(self.__dict__)
        store.pending, store._batches, store._ends = list(self.pending), list(self._batches), list(self._ends)
        return store

    def __len__(self) -> int:
        """The number of learned groups."""
        return self._ends[-1] - self._n_removed if self._ends else 0

    def draw(self, numbers: Iterable[int]) -> list[Groups]:
        """Return single learned groups. Number 0 is the oldest group."""
        chosen = []
        for number in numbers:
            position = number + self._n_removed
            index = bisect_right(self._ends, position)
            batch = self._batches[index]
            place = position - (self._ends[index] - len(batch))
            chosen.append(batch.cut(place, place + 1))
        return chosen

    def batches(self) -> list[Groups]:
        """Return all learned groups, oldest first, in batches."""
        return list(self._batches)

    def latest(self, n_items: int) -> list[Groups]:
        """Return the latest groups, oldest first, with at least ``n_items`` items if there are so many."""
        parts: list[Groups] = []
        for part in reversed(self._batches + self.pending):
            if n_items <= 0:
                break
            parts.append(part)
            n_items -= len(part.rows)
        return parts[::-1]

    def take_pending(self) -> Groups:
        """Return the groups that wait, and count them as learned."""
        groups = Groups.joined(self.pending)
        self.pending = []
        self._append(groups)
        self._remove_oldest()
        return groups

    def _append(self, groups: Groups) -> None:
        self._batches.append(groups)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(groups))
        self.n_vectors += len(groups.vectors)

    def _remove_oldest(self) -> None:
        limit = _MAX_NUMBERS // max(1, self._batches[-1].vectors.shape[1])
        while True:
            oldest = self._batches[0]
            n_excess = int(np.searchsorted(oldest.vector_offsets, self.n_vectors - limit))
            n = min(max(len(self) - _MAX_GROUPS, n_excess), len(oldest), len(self) - 1)
            if n <= 0:
                return
            self._n_removed += n
            self.n_vectors -= int(oldest.vector_offsets[n])
            if n < len(oldest):
                self._batches[0] = oldest.cut(n, len(oldest))
            else:
                del self._batches[0], self._ends[0]
