"""The policy "newest": add a contradicting constraint and drop older pairs until the contradiction is gone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oahu.constraints.changes import Changes, changes_of_rebuild
from oahu.constraints.contradictions import GivenPair
from oahu.constraints.graph_state import GraphState
from oahu.constraints.proofs import ItemPair

__all__ = ["add_newest"]


def add_newest(
    state: GraphState, similar: ItemPair | None, dissimilar: ItemPair | None
) -> tuple[tuple[GivenPair, ...], Callable[[], Changes]]:
    """Add a constraint that contradicts older constraints. Drop older pairs until the graph is consistent.

    The components that contain the constraint's items are split into single items. The given pairs that contain
    these items are then added again, from the newest to the oldest. A pair that contradicts newer pairs is dropped.
    All other components stay the same, because the new constraint does not involve their items.

    Returns
    -------
    dropped : tuple of GivenPair
        The dropped pairs, oldest first.
    changes : callable
        A function that returns the changed components (changes.py).
    """
    components, proofs = state.components, state.proofs
    touched = (components.find(item) for item in (*(similar or ()), *(dissimilar or ())))
    old_root, old_edges = components.dissolve(touched)
    for item in old_root:
        proofs.unlink(item)
    dropped = _opposites(state, similar, dissimilar)
    state.record(similar, dissimilar)
    codes = ((code, i, j) for i in old_root for j, code in proofs.given[i].items() if i < j or j not in old_root)
    for code, i, j in sorted(codes, reverse=True):
        same = code & 1
        if state.are_dissimilar(i, j) if same else components.find(i) == components.find(j):
            dropped.append(proofs.given_pair(i, j))
            proofs.discard(i, j)
        elif same:
            state.merge(i, j)
        else:
            state.separate(i, j)
    dropped.sort(key=lambda pair: (pair.number, not pair.same))
    return tuple(dropped), partial(changes_of_rebuild, components, old_root, old_edges)


def _opposites(state: GraphState, similar: ItemPair | None, dissimilar: ItemPair | None) -> list[GivenPair]:
    """Return the given pairs that have the same items as a constraint's pairs, but the opposite labels."""
    proofs = state.proofs
    return [
        proofs.given_pair(*pair)
        for pair, same in ((similar, True), (dissimilar, False))
        if pair and proofs.is_given(*pair, not same)
    ]
