"""The given pairs, and the proofs that they form: chains of given pairs from one item to another."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, Final

from oahu.constraints.components import Components, unpack
from oahu.constraints.contradictions import Contradiction, GivenPair
from oahu.constraints.single import Pair, Triplet

__all__ = ["ItemPair", "Proofs"]

#: Two item numbers.
ItemPair = tuple[int, int]

_NO_PARENT: Final = -1


class Proofs:
    """The given pairs, and a spanning forest of the given similar pairs.

    The forest has one tree for each component. The path between two items of a tree proves that they are similar.

    Parameters
    ----------
    items : list
        The items. The position of an item is its number. This is the list of the graph, not a copy.
    components : Components
        The components that the given pairs form. This is the object of the graph, not a copy.

    Attributes
    ----------
    given : list of dict
        For each item, a dictionary of its given pairs: {other item: code}. `record` explains the
        code.
    n_given : int
        The number of distinct given pairs.
    """

    __slots__ = ("components", "given", "items", "n_given", "parent")

    def __init__(self, items: list[Any], components: Components) -> None:
        self.items, self.components = items, components
        self.given: list[dict[int, int]] = []
        self.parent: list[int] = []
        self.n_given = 0

    def add_item(self) -> None:
        self.given.append({})
        self.parent.append(_NO_PARENT)

    def remove_items(self, first: int) -> None:
        """Remove all items numbered ``first`` or higher. No given pair may contain these items."""
        del self.given[first:], self.parent[first:]

    def record(self, i: int, j: int, code: int, *, replace: bool) -> None:
        """Store a given pair.

        ``code`` is 2 * n + s, where n is the number of the constraint, and s is 1 for a similar pair and 0 for a
        dissimilar pair.

        With ``replace=True``, the code of a pair that was given before is replaced.
        """
        given = self.given[i]
        if i == j:
            return
        if j not in given:
            self.n_given += 1
        elif not replace:
            return
        given[j] = self.given[j][i] = code

    def discard(self, i: int, j: int) -> None:
        """Remove a given pair."""
        del self.given[i][j], self.given[j][i]
        self.n_given -= 1

    def given_pair(self, i: int, j: int) -> GivenPair:
        code = self.given[i][j]
        return GivenPair(code >> 1, self.items[i], self.items[j], bool(code & 1))

    def is_given(self, i: int, j: int, same: bool) -> bool:
        """Return whether a pair was given with this label."""
        code = self.given[i].get(j)
        return code is not None and code & 1 == same

    def link(self, child: int, parent: int) -> None:
        """Attach the tree of ``child`` below ``parent``. The links from ``child`` up to its root are reversed."""
        links = self.parent
        while child != _NO_PARENT:
            links[child], child, parent = parent, links[child], child

    def unlink(self, item: int) -> None:
        """Make an item a tree of its own. The caller must call this method for all items of the item's tree."""
        self.parent[item] = _NO_PARENT

    def path(self, i: int, j: int, edge: int | None = None) -> list[GivenPair]:
        """Return the given pairs that lead from i to j.

        Parameters
        ----------
        i, j : int
            Two items of one component. If ``edge`` is given, the items belong to two dissimilar components.
        edge : int, optional
            The packed dissimilar pair that connects these two components.
        """
        if edge is not None:
            near, far = unpack(edge)
            find = self.components.find
            if find(near) != find(i):
                near, far = far, near
            return [*self.path(i, near), self.given_pair(near, far), *self.path(far, j)]
        up = [i]
        if i != j:
            while (i := self.parent[i]) != _NO_PARENT:
                up.append(i)
        height = {item: n for n, item in enumerate(up)}
        down = [j]
        while j not in height:
            j = self.parent[j]
            down.append(j)
        return [self.given_pair(*link) for link in pairwise(up[: height[j]] + down[::-1])]

    def contradiction(
        self, constraint: Pair | Triplet, number: int, similar: ItemPair | None, dissimilar: ItemPair | None
    ) -> Contradiction | None:
        """Return the contradiction between a constraint and the given pairs, or None.

        The proof is computed when it is first accessed. Constraints that are added before this access do not change
        the proof, because the path between two items of a tree stays the same when the tree grows.
        """
        find = self.components.find
        if similar:
            edge = self.components.edge(find(similar[0]), find(similar[1]))
            if edge is not None:
                return Contradiction(constraint, number, _pairs(constraint)[0], partial(self.path, *similar, edge))
        if dissimilar:
            root = find(dissimilar[1])
            if find(dissimilar[0]) == root:
                return Contradiction(constraint, number, _pairs(constraint)[-1], partial(self.path, *dissimilar))
            if similar and find(similar[1]) == root:  # a triplet whose positive and negative are similar
                first, second = _pairs(constraint)
                own_pair, path = GivenPair(number, *first), partial(self.path, similar[1], dissimilar[1])
                return Contradiction(constraint, number, second, lambda: [own_pair, *path()])
        return None

    def copy(self, items: list[Any], components: Components) -> Proofs:
        other = Proofs(items, components)
        other.given = [pairs.copy() for pairs in self.given]
        other.parent, other.n_given = self.parent.copy(), self.n_given
        return other


def _pairs(constraint: Pair | Triplet) -> tuple[Pair, ...]:
    return constraint.pairs if isinstance(constraint, Triplet) else (constraint,)
