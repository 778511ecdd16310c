"""OPML's one-pass construction: a labelled stream makes its own triplets, with one item of each class in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from oahu.constraints.tuples import Pairs, Triplets

__all__ = ["RULES", "OnePass", "Rule"]

Rule = Literal["author", "latest"]

#: How the negative is chosen when an item is of the same class as the one before it.
RULES = ("author", "latest")


class _OfItems:
    """Constraints that speak of the items which completed them."""

    rows: list[int]

    def origin(self, position: int) -> tuple[str, int]:
        return "item", self.rows[position]


class _StreamPairs(_OfItems, Pairs):
    pass


class _StreamTriplets(_OfItems, Triplets):
    pass


@dataclass
class OnePass:
    """Where a labelled stream stands: the last item of every class.

    An item x whose class was seen before, once two classes were, makes the triplet of x, the last item of its
    class, and an item of another class: the item just before x if it is of another class. Otherwise "author" takes
    the last item of the class that was created last (or of the one created before it, if that is x's own), which is
    what the authors' code does; "latest" takes the last item that was of another class. Memory O(classes * d).

    Examples
    --------
    >>> stream = OnePass("latest", np.empty((0, 1)))
    >>> _, triplets = stream.take(np.array([[1.0], [2.0], [3.0], [4.0]]), ["a", "b", "a", "a"], start=0)
    >>> triplets.values()[:, :, 0].tolist()
    [[3.0, 1.0, 2.0], [4.0, 3.0, 2.0]]
    """

    rule: Rule
    slots: NDArray[np.floating]  # (n_classes, d): the last item of each class, in order of creation
    classes: dict[Any, int] = field(default_factory=dict)  # label: its slot
    recency: list[int] = field(default_factory=list)  # slots, the most recently seen last

    def copy(self) -> OnePass:
        return OnePass(self.rule, self.slots.copy(), dict(self.classes), list(self.recency))

    def take(self, items: NDArray[Any], labels: Any, start: int) -> tuple[Pairs | None, Triplets | None]:
        """What a block of items makes: pairs while there is one class, and then triplets.

        Parameters
        ----------
        items : ndarray of shape (m, d), of the slots' type
        labels : sequence of m labels
        start : int
            The row of the first item in the caller's table, for errors.
        """
        offset = len(self.slots)
        table = np.concatenate([self.slots, items])
        at = list(range(offset))  # the row of the table that is each slot's item
        pairs, triplets, rows = [], [], []  # the pairs are those of the first items, so their rows come first
        for t, label in enumerate(labels):
            own = self.classes.setdefault(label, len(self.classes))
            if own == len(at):
                at.append(-1)
            elif len(self.classes) == 1:
                pairs.append((offset + t, at[own]))
                rows.append(start + t)
            else:
                triplets.append((offset + t, at[own], at[self._other(own)]))
                rows.append(start + t)
            at[own] = offset + t
            if own in self.recency:
                self.recency.remove(own)
            self.recency.append(own)
        self.slots = table[at]
        return self._pairs(table, pairs, rows), self._triplets(table, triplets, rows[len(pairs) :])

    def _other(self, own: int) -> int:
        """The class of the negative for an item of the class ``own``."""
        if self.recency[-1] != own:
            return self.recency[-1]
        if self.rule == "latest":
            return self.recency[-2]
        newest = len(self.classes) - 1
        return newest - 1 if newest == own else newest

    @staticmethod
    def _pairs(table: NDArray[Any], indices: list[tuple[int, int]], rows: list[int]) -> Pairs | None:
        if not indices:
            return None
        pairs = _StreamPairs(np.array(indices), np.ones(len(indices), bool), preprocessor=table)
        pairs.rows = rows
        return pairs

    @staticmethod
    def _triplets(table: NDArray[Any], indices: list[tuple[int, int, int]], rows: list[int]) -> Triplets | None:
        if not indices:
            return None
        triplets = _StreamTriplets(np.array(indices), preprocessor=table)
        triplets.rows = rows
        return triplets
