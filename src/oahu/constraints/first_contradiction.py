"""Search for the first contradiction in a batch of constraints, without adding the batch to the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oahu.constraints.contradictions import Contradiction, GivenPair
from oahu.constraints.graph_state import GraphState
from oahu.constraints.single import Pair, Triplet, validate_constraint

__all__ = ["first_contradiction"]


def first_contradiction(state: GraphState, constraints: Iterable[Pair | Triplet]) -> Contradiction | None:
    """Return the first contradiction that adding these constraints would cause, or None if there is none."""
    batch = list(constraints)
    items: dict[Any, None] = {}
    for constraint in batch:
        validate_constraint(constraint)
        items.update(dict.fromkeys(constraint if isinstance(constraint, Triplet) else constraint[:2]))
    summary = _summary(state, items)
    n_summary, offset = summary.version, state.version - summary.version
    for constraint in batch:
        similar, dissimilar = summary.enter(constraint)
        if found := summary.proofs.contradiction(constraint, summary.version, similar, dissimilar):
            links: list[GivenPair] = []
            for link in found.chain:
                if link.number >= n_summary:
                    links.append(link._replace(number=link.number + offset))
                else:  # a pair of the summary: replace it by its proof in the graph
                    links += state.proof(link.first, link.second) or ()
            return Contradiction(constraint, found.number + offset, found.pair, links.copy)
        summary.apply(similar, dissimilar)
    return None


def _summary(state: GraphState, items: Iterable[Any]) -> GraphState:
    """Return a small graph that contains only the given items and the relations between them."""
    summary = GraphState(keep_newest=False)
    components = state.components
    first_items: dict[int, Any] = {}  # the first of these items in each component
    for item in items:
        if (number := state.number(item)) is not None:
            first = first_items.setdefault(components.find(number), item)
            if first is not item:
                summary.apply(*summary.enter(Pair(first, item, True)))
    for root, item in first_items.items():
        edges = components.neighbours(root)
        for other in edges if len(edges) < len(first_items) else first_items:
            if root < other and other in edges and other in first_items:
                summary.apply(*summary.enter(Pair(item, first_items[other], False)))
    return summary
