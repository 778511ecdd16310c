"""The one-pass construction of OPML: triplets from labelled items, with one item per class in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from oahu.constraints.tuples import Pairs, Triplets

__all__ = ["RULES", "OnePass", "Rule"]

Rule = Literal["author", "latest"]

#: The rules that choose the negative if an item has the same class as the item before it.
RULES = ("author", "latest")


class _ItemOrigin:
    """Mixin for constraints from a stream of items. Error messages name the item that completed a constraint."""

    rows: list[int]

    def origin(self, position: int) -> tuple[str, int]:
        return "item", self.rows[position]


class _StreamPairs(_ItemOrigin, Pairs):
    pass


class _StreamTriplets(_ItemOrigin, Triplets):
    pass


@dataclass
class OnePass:
    """OPML's one-pass construction of triplets from labelled items. It stores only the latest item of each class.

    As soon as two classes have occurred, each item x whose class has occurred before forms a triplet. The anchor is
    x. The positive is the previous item of the same class. If the item just before x has another class, that item
    is the negative. If the item just before x has the same class, a rule chooses the negative. The rule "latest"
    takes the latest item of another class. The rule "author", as in the authors' code, takes the latest item of the
    newest class. The newest class is the class whose first item came last. If x belongs to the newest class, the
    rule uses the second newest class. The construction takes O(n_classes * d) memory.

    Examples
    --------
    >>> stream = OnePass("latest", np.empty((0, 1)))
    >>> _, triplets = stream.add(np.array([[1.0], [2.0], [3.0], [4.0]]), ["a", "b", "a", "a"], start=0)
    >>> triplets.values()[:, :, 0].tolist()
    [[3.0, 1.0, 2.0], [4.0, 3.0, 2.0]]
    """

    rule: Rule
    slots: NDArray[np.floating]  # (n_classes, d): the latest item of each class, in the order of first occurrence
    classes: dict[Any, int] = field(default_factory=dict)  # {label: slot of the class}
    recency: list[int] = field(
        default_factory=list
    )  # the slots in the order of their latest items, the latest item last

    def copy(self) -> OnePass:
        return OnePass(self.rule, self.slots.copy(), dict(self.classes), list(self.recency))

    def add(self, items: NDArray[Any], labels: Any, start: int) -> tuple[Pairs | None, Triplets | None]:
        """Add items. Return the pairs and triplets that the items form.

        As long as only one class has occurred, an item forms a similar pair with the previous item. Later items
        form triplets.

        Parameters
        ----------
        items : ndarray of shape (m, d), of the type of ``slots``
        labels : sequence of m labels
        start : int
            The row number of the first item in the user's input, for error messages.
        """
        offset = len(self.slots)
        table = np.concatenate([self.slots, items])
        at = list(range(offset))  # the row of the item in each slot
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
        """Return the row of ``slots`` with the negative for an item of the class in row ``own``."""
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
