"""Generation of the pairs and triplets that a new constraint implies.

The pairs and triplets are combinations of groups of items. A component is a set of similar items. It is identified
by one of its items, the root (components.py). A change is the addition of a constraint to the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, permutations
from typing import NamedTuple

from oahu.constraints.components import Components, Merge, Span
from oahu.constraints.implied import PairBlock, TripletBlock

__all__ = ["Changes", "ItemGroup", "changes_of_addition", "changes_of_rebuild", "new_pairs", "new_triplets"]


class ItemGroup(NamedTuple):
    """Items that share one component before a change and share one component after the change.

    Attributes
    ----------
    span : Span
        The items of the group.
    old_root, root : int
        The root of the items' component before the change, and the root after the change.
    newly_dissimilar : list of ItemGroup
        The groups whose items became dissimilar to the items of this group.
    """

    span: Span
    old_root: int
    root: int
    newly_dissimilar: list[ItemGroup]


#: A dictionary from the root of each changed component to the component's groups.
Changes = dict[int, list[ItemGroup]]


def changes_of_addition(
    components: Components, root: int, merge: Merge | None, new_neighbours: list[int]
) -> Changes:
    """Return the changed components after adding a constraint that does not contradict the graph.

    Parameters
    ----------
    components : Components
    root : int
        The root of the component that contains the constraint's first item.
    merge : Merge or None
        The merge of two components, or None if the constraint merged no components.
    new_neighbours : list of int
        The roots of the components that became dissimilar to the component of ``root``. After a merge, the roots of
        the components that became dissimilar to the items in ``merge.kept``.
    """
    dissimilar = [_unchanged(components, other) for other in new_neighbours]
    if merge is None:
        return {root: [ItemGroup(components.span(root), root, root, dissimilar)]}
    for_removed = [
        _unchanged(components, other) for other in components.neighbours(root) if other not in merge.removed_edges
    ]
    kept = ItemGroup(merge.kept, root, root, dissimilar)
    return {root: [kept, ItemGroup(merge.removed, merge.removed_root, root, for_removed)]}


def changes_of_rebuild(
    components: Components, old_root: dict[int, int], old_edges: dict[int, dict[int, int]]
) -> Changes:
    """Return the changed components after components were dissolved and built again from their items.

    Parameters
    ----------
    components : Components
    old_root, old_edges : dict
        The result of `Components.dissolve`.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for item, old in old_root.items():
        groups.setdefault((components.find(item), old), []).append(item)
    changes: Changes = {}
    for (root, old), items in groups.items():
        changes.setdefault(root, []).append(ItemGroup(Span(items, 0, len(items)), old, root, []))
    for root, parts in changes.items():
        neighbours = list(_neighbours(components, root, changes))
        for part in parts:
            before = old_edges[part.old_root]
            part.newly_dissimilar.extend(other for other in neighbours if other.old_root not in before)
    return changes


def new_pairs(changes: Changes) -> Iterator[PairBlock]:
    """Yield blocks of the pairs that the graph implies after the changes but did not imply before."""
    for groups in changes.values():
        for one, two in combinations(groups, 2):
            yield PairBlock(one.span, two.span, True)
    for group in chain.from_iterable(changes.values()):
        for other in group.newly_dissimilar:
            if other.root not in changes or group.root < other.root:  # otherwise the other group yields the block
                yield PairBlock(group.span, other.span, False)


def new_triplets(components: Components, changes: Changes) -> Iterator[TripletBlock]:
    """Yield blocks of the triplets that the graph implies after the changes but did not imply before."""
    for root, groups in changes.items():
        # A similar pair across two groups is new, so it is new with every negative.
        for anchors, positives in permutations(groups, 2):
            for other in _neighbours(components, root, changes):
                yield TripletBlock(anchors.span, positives.span, other.span)
        # A similar pair within a group is old, so only new negatives make new triplets.
        for group in groups:
            for other in group.newly_dissimilar:
                yield TripletBlock(group.span, group.span, other.span)
                if other.root not in changes:
                    yield TripletBlock(other.span, other.span, group.span)


def _unchanged(components: Components, root: int) -> ItemGroup:
    return ItemGroup(components.span(root), root, root, [])


def _neighbours(components: Components, root: int, changes: Changes) -> Iterator[ItemGroup]:
    for other in components.neighbours(root):
        yield from changes.get(other) or (_unchanged(components, other),)
