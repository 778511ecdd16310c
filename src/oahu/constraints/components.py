"""Components of similar items, stored in a union-find, and edges between dissimilar components.

Items are represented by numbers: 0, 1, 2 and so on, in the order of their first occurrence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["Components", "Merge", "Span", "pack", "unpack"]

_BITS: Final = 32  # bits of an item number: two numbers are packed into one int to save memory
_NO_EDGES: Final[dict[int, int]] = {}


class Span(NamedTuple):
    """A slice of a component's list of items. It stays valid, because items are only appended to the list."""

    items: list[int]
    start: int
    stop: int


class Merge(NamedTuple):
    """The result of merging two components.

    Attributes
    ----------
    kept, removed : Span
        The items of the component that keeps its root, and the items of the component that loses its root.
    removed_root : int
        The root of the component that lost its root.
    removed_edges : dict
        The edges of the component of ``removed_root`` before the merge.
    new_neighbours : list of int
        Roots of the components that became dissimilar to the items in ``kept``.
    child, parent : int
        The two items that the constraint made similar. ``child`` was in the component with fewer items.
    """

    kept: Span
    removed: Span
    removed_root: int
    removed_edges: dict[int, int]
    new_neighbours: list[int]
    child: int
    parent: int


class Components:
    """A union-find over item numbers, with edges between dissimilar components.

    A component is a set of similar items. It is identified by one of its items, the root. Each component has a list
    of its items and a dictionary of its edges. The dictionary maps the root of each dissimilar component to the
    given pair of items that created the edge. The pair is packed into one int (see `pack`).
    """

    __slots__ = ("edges", "members", "parent")

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.members: dict[int, list[int]] = {}
        self.edges: dict[int, dict[int, int]] = {}

    def add_item(self, item: int) -> None:
        """Add an item as a component of its own. Its number must be the number of items so far."""
        self.parent.append(item)
        self.members[item] = [item]

    def remove_items(self, first: int) -> None:
        """Remove all items numbered ``first`` or higher.

        `merge` and `separate` must not have been called for these items.
        """
        for item in range(first, len(self.parent)):
            del self.members[item]
        del self.parent[first:]

    def find(self, item: int) -> int:
        """Return the root of an item's component."""
        parent = self.parent
        while (up := parent[item]) != item:
            parent[item] = item = parent[up]
        return item

    def edge(self, root: int, other: int) -> int | None:
        """Return the packed given pair that makes two components dissimilar, or None if they are not dissimilar."""
        return self.edges.get(root, _NO_EDGES).get(other)

    def neighbours(self, root: int) -> dict[int, int]:
        """Return the edges of a component, as {root of a dissimilar component: packed given pair}."""
        return self.edges.get(root, _NO_EDGES)

    def merge(self, i: int, j: int, root_i: int, root_j: int) -> Merge:
        """Merge the components of items i and j. ``root_i`` and ``root_j`` are the roots of these components.

        The component with more edges keeps its root, so only the edges of the other component are moved.
        """
        edges = self.edges
        if len(edges.get(root_i, _NO_EDGES)) < len(edges.get(root_j, _NO_EDGES)):
            i, j, root_i, root_j = j, i, root_j, root_i
        removed_edges = edges.pop(root_j, None) or {}
        new_neighbours = []
        if removed_edges:
            kept_edges = edges.setdefault(root_i, {})
            for other, pair in removed_edges.items():
                back = edges[other]
                del back[root_j]
                if other not in kept_edges:
                    kept_edges[other] = back[root_i] = pair
                    new_neighbours.append(other)
        self.parent[root_j] = root_i
        items, moved = self.members[root_i], self.members.pop(root_j)
        n = len(items)
        if n >= len(moved):
            items.extend(moved)
            kept, removed = Span(items, 0, n), Span(items, n, len(items))
            return Merge(kept, removed, root_j, removed_edges, new_neighbours, j, i)
        n = len(moved)
        moved.extend(items)
        self.members[root_i] = moved
        kept, removed = Span(moved, n, len(moved)), Span(moved, 0, n)
        return Merge(kept, removed, root_j, removed_edges, new_neighbours, i, j)

    def separate(self, i: int, j: int, root_i: int, root_j: int) -> None:
        """Make the components of two items dissimilar, if they are not dissimilar yet."""
        edges = self.edges.setdefault(root_i, {})
        if root_j not in edges:
            edges[root_j] = self.edges.setdefault(root_j, {})[root_i] = pack(i, j)

    def dissolve(self, roots: Iterable[int]) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
        """Split components into components with one item each and no edges.

        Returns
        -------
        old_root : dict
            The root of each item before the split.
        old_edges : dict
            The edges of each component before the split.
        """
        roots = dict.fromkeys(roots)
        old_edges = {root: self.edges.pop(root, {}) for root in roots}
        old_root = {item: root for root in roots for item in self.members.pop(root)}
        for root, edges in old_edges.items():
            for other in edges.keys() - roots.keys():
                del self.edges[other][root]
        for item in old_root:
            self.parent[item], self.members[item] = item, [item]
        return old_root, old_edges

    def span(self, root: int) -> Span:
        """Return all items of a component."""
        items = self.members[root]
        return Span(items, 0, len(items))

    def copy(self) -> Components:
        other = Components()
        other.parent = self.parent.copy()
        other.members = {root: items.copy() for root, items in self.members.items()}
        other.edges = {root: edges.copy() for root, edges in self.edges.items()}
        return other


def pack(i: int, j: int) -> int:
    """Return two item numbers as one int."""
    return i << _BITS | j


def unpack(code: int) -> tuple[int, int]:
    """Return the two numbers that `pack` combined into ``code``. The first number may itself be a packed pair."""
    return code >> _BITS, code & ((1 << _BITS) - 1)
