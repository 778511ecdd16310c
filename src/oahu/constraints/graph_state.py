"""The data of a constraint graph: numbered items, their components, and the given pairs and triplets."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from oahu.constraints.components import Components, Merge, pack, unpack
from oahu.constraints.contradictions import GivenPair
from oahu.constraints.proofs import ItemPair, Proofs
from oahu.constraints.single import Pair, Triplet, check_hashable, validate_constraint

__all__ = ["GraphState"]


class GraphState:
    """The data of a `ConstraintGraph`. Items are numbered in the order of their first occurrence.

    Attributes
    ----------
    version : int
        The number of constraints that were added or ignored.
    items : list
        The items. The position of an item is its number.
    numbers : dict
        A dictionary from each item to the item's number.
    components : Components
    proofs : Proofs
    given_triplets : set of int
        The given triplets, each packed into one integer. Policy "newest" may have removed pairs of these triplets.
    keep_newest : bool
        Whether a pair that is given again gets the number of the newest constraint that contains the pair. If
        False, the pair keeps its first number.
    """

    __slots__ = ("components", "given_triplets", "items", "keep_newest", "numbers", "proofs", "version")

    def __init__(self, keep_newest: bool) -> None:
        self.keep_newest = keep_newest
        self.version = 0
        self.items: list[Any] = []
        self.numbers: dict[Hashable, int] = {}
        self.components = Components()
        self.proofs = Proofs(self.items, self.components)
        self.given_triplets: set[int] = set()

    def number(self, item: Hashable) -> int | None:
        """Return the number of an item, or None if no constraint contains the item."""
        check_hashable(item)
        return self.numbers.get(item)

    def enter(self, constraint: Pair | Triplet) -> tuple[ItemPair | None, ItemPair | None]:
        """Assign a number to each new item of a constraint. Return the constraint's similar and dissimilar pair.

        The pairs contain item numbers. A missing pair is None.
        """
        validate_constraint(constraint)
        first, second, third = constraint
        i, j = self._enter_item(first), self._enter_item(second)
        if isinstance(constraint, Triplet):
            return (i, j), (i, self._enter_item(third))
        return ((i, j), None) if third else (None, (i, j))

    def _enter_item(self, item: Hashable) -> int:
        number = self.numbers.get(item)
        if number is None:
            number = self.numbers[item] = len(self.items)
            self.items.append(item)
            self.components.add_item(number)
            self.proofs.add_item()
        return number

    def remove_items(self, first: int) -> None:
        """Remove all items numbered ``first`` or higher. Only a rejected constraint may contain these items."""
        if first < len(self.items):
            for item in self.items[first:]:
                del self.numbers[item]
            del self.items[first:]
            self.components.remove_items(first)
            self.proofs.remove_items(first)

    def record(self, similar: ItemPair | None, dissimilar: ItemPair | None) -> None:
        """Store the pairs of a given constraint, with the next constraint number."""
        if similar:
            self.proofs.record(*similar, 2 * self.version + 1, replace=self.keep_newest)
        if dissimilar:
            self.proofs.record(*dissimilar, 2 * self.version, replace=self.keep_newest)
            if similar and similar[0] != similar[1]:
                self.given_triplets.add(pack(pack(*similar), dissimilar[1]))
        self.version += 1

    def apply(self, similar: ItemPair | None, dissimilar: ItemPair | None) -> None:
        """Add a constraint that does not contradict the graph."""
        self.record(similar, dissimilar)
        if similar:
            self.merge(*similar)
        if dissimilar:
            self.separate(*dissimilar)

    def merge(self, i: int, j: int) -> Merge | None:
        """Make two items similar. Return the merge, or None if the items were similar already."""
        root_i, root_j = self.components.find(i), self.components.find(j)
        if root_i == root_j:
            return None
        merge = self.components.merge(i, j, root_i, root_j)
        self.proofs.link(merge.child, merge.parent)
        return merge

    def separate(self, i: int, j: int) -> int | None:
        """Make two items dissimilar. Return the root of j's component, or None if they were dissimilar already."""
        root_i, root_j = self.components.find(i), self.components.find(j)
        if root_j in self.components.neighbours(root_i):
            return None
        self.components.separate(i, j, root_i, root_j)
        return root_j

    def are_dissimilar(self, i: int, j: int) -> bool:
        find = self.components.find
        return self.components.edge(find(i), find(j)) is not None

    def proof(self, a: Hashable, b: Hashable) -> tuple[GivenPair, ...] | None:
        """Return the given pairs that lead from ``a`` to ``b``, or None if the graph implies no relation."""
        i, j = self.number(a), self.number(b)
        if i is None or j is None:
            return () if a == b else None
        root, other = self.components.find(i), self.components.find(j)
        if root == other:
            return tuple(self.proofs.path(i, j))
        edge = self.components.edge(root, other)
        return None if edge is None else tuple(self.proofs.path(i, j, edge))

    def is_given_triplet(self, anchor: int, positive: int, negative: int) -> bool:
        """Return whether a triplet was given and both of its pairs are still in the graph."""
        return pack(pack(anchor, positive), negative) in self.given_triplets and self._has_pairs(
            anchor, positive, negative
        )

    def count_given_triplets(self) -> int:
        if not self.keep_newest:
            return len(self.given_triplets)
        split = ((unpack(pair), negative) for pair, negative in map(unpack, self.given_triplets))
        return sum(self._has_pairs(anchor, positive, negative) for (anchor, positive), negative in split)

    def _has_pairs(self, anchor: int, positive: int, negative: int) -> bool:
        return self.proofs.is_given(anchor, positive, True) and self.proofs.is_given(anchor, negative, False)

    def pair(self, i: int, j: int, same: int) -> Pair:
        return Pair(self.items[i], self.items[j], bool(same))

    def triplet(self, anchor: int, positive: int, negative: int) -> Triplet:
        return Triplet(self.items[anchor], self.items[positive], self.items[negative])

    def copy(self) -> GraphState:
        other = GraphState(self.keep_newest)
        other.version = self.version
        other.items, other.numbers = self.items.copy(), self.numbers.copy()
        other.components = self.components.copy()
        other.proofs = self.proofs.copy(other.items, other.components)
        other.given_triplets = self.given_triplets.copy()
        return other
