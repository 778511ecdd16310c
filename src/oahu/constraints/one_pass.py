"""The one-pass construction of OPML: triplets from labelled items, with one item per class in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from oahu.constraints.tuples import Pairs, Triplets

__all__ = ["RULES", "OnePass", "Rule"]

Rule = Literal["author", "latest"]

#: How the negative is chosen if an item has the same class as the item before it.
RULES = ("author", "latest")


class _ItemOrigin:
    """Mixin: errors name the item of the stream that completed a constraint."""

    rows: list[int]

    def origin(self, position: int) -> tuple[str, int]:
        return "item", self.rows[position]


class _StreamPairs(_ItemOrigin, Pairs):
    pass


class _StreamTriplets(_ItemOrigin, Triplets):
    pass


@dataclass
class OnePass:
    """The state of OPML's one-pass construction of triplets: the latest item of each class.

    After two classes have been seen, each item x of a known class forms a triplet: x, the previous item of its
    class as the positive, and an item of another class as the negative. If the item just before x has another
    class, it is the negative. Otherwise, the rule "author" takes the latest item of the newest class (or of the
    second newest, if x belongs to the newest), like the authors' code. The rule "latest" takes the latest item of
    another class. Memory is O(classes * d).

    Examples
    --------
    >>> stream = OnePass("latest", np.empty((0, 1)))
    >>> _, triplets = stream.add(np.array([[1.0], [2.0], [3.0], [4.0]]), ["a", "b", "a", "a"], start=0)
    >>> triplets.values()[:, :, 0].tolist()
    [[3.0, 1.0, 2.0], [4.0, 3.0, 2.0]]
    """

    rule: Rule
    slots: NDArray[np.floating]  # (n_classes, d): the latest item of each class, in the order of first occurrence
    classes: dict[Any, int] = field(default_factory=dict)  # {label: its slot}
    recency: list[int] = field(default_factory=list)  # slots, the latest last

    def copy(self) -> OnePass:
        return OnePass(self.rule, self.slots.copy(), dict(self.classes), list(self.recency))

    def add(self, items: NDArray[Any], labels: Any, start: int) -> tuple[Pairs | None, Triplets | None]:
        """Add items. Return the pairs that they form while there is only one class, and the triplets.

        Parameters
        ----------
        items : ndarray of shape (m, d), of the type of ``slots``
        labels : sequence of m labels
        start : int
            The row number of the first item, for error messages.
        """
        offset = len(self.slots)
        table = np.concatenate([self.slots, items])
        at = list(range(offset))  # for each slot, the row of its item
        pairs, triplets, rows = [], [], []  # the first items form the pairs, so their rows come first
        for t, label in enumerate(labels):
            own = self.classes.setdefault(label, len(self.classes))
            if own == len(at):
                at.append(-1)
            elif len(self.classes) == 1:
                pairs.append((offset + t, at[own]))
                rows.append(start + t)
            else:
                triplets.append((offset + t, at[own], at[self._negative_class(own)]))
                rows.append(start + t)
            at[own] = offset + t
            if own in self.recency:
                self.recency.remove(own)
            self.recency.append(own)
        self.slots = table[at]
        return self._pairs(table, pairs, rows), self._triplets(table, triplets, rows[len(pairs) :])

    def _negative_class(self, own: int) -> int:
        """Return the slot of the negative for an item of the class in slot ``own``."""
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
