"""Random variants of a constraint, made by replacing its items with similar items."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from oahu.constraints.graph_state import GraphState
from oahu.constraints.single import Pair, Triplet
from oahu.randomness import RandomState, as_generator

__all__ = ["sample_completions", "sample_variants"]


def sample_variants(
    state: GraphState, constraint: Pair | Triplet, limit: int, random_state: RandomState
) -> list[Pair] | list[Triplet]:
    """Return at most ``limit`` variants of a constraint, made by replacing items with similar items."""
    if isinstance(constraint, Triplet):
        spans = [_component(state, item) for item in constraint]
        return [Triplet(*items) for items in _draw(state, spans, constraint, limit, random_state)]
    spans = [_component(state, item) for item in constraint[:2]]
    drawn = _draw(state, spans, constraint[:2], limit, random_state)
    return [Pair(first, second, constraint.same) for first, second in drawn]


def sample_completions(state: GraphState, pair: Pair, limit: int, random_state: RandomState) -> list[Triplet]:
    """Return at most ``limit`` triplets that extend a pair by a third item and that the graph implies."""
    rng = as_generator(random_state)
    first, second = _component(state, pair.first), _component(state, pair.second)
    if not pair.same:
        spans = [first, first, second] if len(first) > 1 else [second, second, first]
    else:
        spans = [first, first, _random_neighbour(state, first[0], rng) if first else []]
    return [Triplet(*items) for items in _draw(state, spans, (), limit, rng)]


def _component(state: GraphState, item: Hashable) -> list[int]:
    """Return all items that are similar to an item, as item numbers. For an unknown item, the list is empty."""
    number = state.number(item)
    return [] if number is None else state.components.members[state.components.find(number)]


def _random_neighbour(state: GraphState, item: int, rng: np.random.Generator) -> list[int]:
    """Return the items of a random component that is dissimilar to an item's component."""
    edges = state.components.neighbours(state.components.find(item))
    if not edges:
        return []
    return state.components.members[next(islice(edges, int(rng.integers(len(edges))), None))]


def _draw(
    state: GraphState, spans: Sequence[list[int]], excluded: tuple[Any, ...], limit: int, random_state: RandomState
) -> Collection[tuple[Any, ...]]:
    """Draw distinct tuples with one item from each span, but not ``excluded``. A tuple's first two items differ."""
    sizes = [len(span) for span in spans]
    one_span = spans[0] is spans[1]  # if True, the second item is drawn from the remaining items
    sizes[1] -= one_span
    if not limit or not all(sizes):
        return ()
    found: dict[Hashable, tuple[Any, ...]] = {}
    for row in (as_generator(random_state).random((2 * limit, len(spans))) * sizes).astype(np.intp).tolist():
        row[1] += one_span and row[1] >= row[0]
        items = tuple(state.items[span[at]] for span, at in zip(spans, row, strict=True))
        if _key(items) != _key(excluded):
            found.setdefault(_key(items), items)
        if len(found) == limit:
            break
    return found.values()


def _key(items: tuple[Any, ...]) -> Hashable:
    """Return a hashable value that identifies a constraint. The pairs (a, b) and (b, a) have the same value."""
    return frozenset(items) if len(items) == 2 else items
