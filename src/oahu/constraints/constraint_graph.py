"""The constraint graph: stores given constraints and derives the constraints that they imply.

Similarity is an equivalence relation, so similar items form components. If two items are dissimilar, every item of
one item's component is dissimilar to every item of the other item's component. These two statements are equivalent
to the four rules in a footnote of the paper's Section 3. The graph stores the components, and an edge between two
components if they are dissimilar. The implied pairs and triplets are combinations of items of these components.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from itertools import chain
from typing import Any, Final, Literal, overload

from oahu.constraints.add_result import AddResult
from oahu.constraints.changes import changes_of_addition
from oahu.constraints.contradictions import Contradiction, GivenPair
from oahu.constraints.first_contradiction import first_contradiction
from oahu.constraints.graph_state import GraphState
from oahu.constraints.implied import ImpliedConstraints, all_pairs, all_triplets, check_count
from oahu.constraints.newest_policy import add_newest
from oahu.constraints.proofs import ItemPair
from oahu.constraints.single import Click, Pair, Triplet, split_click, validate_constraint
from oahu.constraints.variants import sample_completions, sample_variants
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten
from oahu.parameters import check_choice
from oahu.randomness import RandomState

__all__ = ["ConstraintGraph", "Policy"]

Policy = Literal["raise", "ignore", "newest"]

_POLICIES: Final = ("raise", "ignore", "newest")


class ConstraintGraph:
    """A graph of given pairs, triplets and clicks. It derives all constraints that the given constraints imply.

    Adding a constraint takes amortised near-constant time (logarithmic in the worst case). Memory grows with the
    number of added constraints, not with the number of implied constraints.

    Parameters
    ----------
    policy : {"raise", "ignore", "newest"}
        The reaction to a constraint that contradicts earlier constraints. "raise" raises `ContradictionError`.
        "ignore" does not add the constraint. "newest" adds the constraint and removes older pairs from the graph
        until there is no contradiction. With "newest", a contradicting constraint takes time proportional to the
        number of items in the components of its own items. A constraint can also contradict itself: a dissimilar
        pair of an item with itself, or a triplet whose negative is also its anchor or positive. Such a constraint
        raises `ContradictionError`, unless the policy is "ignore".

    Notes
    -----
    An item is any hashable value. ``len(graph)`` is the number of distinct given pairs. A triplet counts as two
    pairs. A click is added as its pairs, and each of them counts as one constraint. Constraints are numbered from 0
    in the order of arrival. A constraint that raises an error gets no number.

    Examples
    --------
    >>> graph = ConstraintGraph()
    >>> graph.add(Triplet("tea", "green tea", "coffee")).new_pairs.sample(10)
    [Pair(first='green tea', second='coffee', same=False)]
    >>> list(graph.add(Pair("espresso", "coffee", same=True)).new_pairs)
    [Pair(first='espresso', second='tea', same=False), Pair(first='espresso', second='green tea', same=False)]
    >>> graph.proof("espresso", "green tea")  # doctest: +NORMALIZE_WHITESPACE
    (GivenPair(number=1, first='espresso', second='coffee', same=True),
     GivenPair(number=0, first='coffee', second='tea', same=False),
     GivenPair(number=0, first='tea', second='green tea', same=True))
    """

    def __init__(self, policy: Policy = "raise") -> None:
        check_choice(self, "policy", policy, _POLICIES)
        self.policy: Final = policy
        self._state = GraphState(keep_newest=policy == "newest")

    # -- adding ----------------------------------------------------------------------------------------------

    @overload
    def add(self, constraint: Pair | Triplet) -> AddResult: ...
    @overload
    def add(self, constraint: Click) -> tuple[AddResult, ...]: ...
    def add(self, constraint: Pair | Triplet | Click) -> AddResult | tuple[AddResult, ...]:
        """Add a constraint. The result contains the constraints that the graph implies only since this call.

        A rejected constraint does not change the graph.

        For a click, the result is a tuple with one result for each pair of the click. Only the last of them can
        list its newly implied constraints. With policy "raise", a click with a contradicting pair does not change
        the graph. With the other policies, each pair is treated on its own.
        """
        if isinstance(constraint, Click):
            return self._add_click(constraint)
        state = self._state
        n_items = len(state.items)
        similar, dissimilar = state.enter(constraint)
        contradiction = state.proofs.contradiction(constraint, state.version, similar, dissimilar)
        if contradiction and (self.policy != "newest" or _contradicts_itself(similar, dissimilar)):
            return self._reject(contradiction, n_items)
        find = state.components.find
        new_similar = similar if similar and find(similar[0]) != find(similar[1]) else None
        new_dissimilar = dissimilar if dissimilar and not state.are_dissimilar(*dissimilar) else None
        own_pairs = tuple(filter(None, (new_similar, new_dissimilar)))
        own_triplet = None
        if own_pairs and similar and dissimilar and similar[0] != similar[1]:
            own_triplet = (*similar, dissimilar[1])
        if contradiction:
            _ = contradiction.chain  # computes the proof before its pairs are dropped
            dropped, changes = add_newest(state, similar, dissimilar)
            return AddResult(
                state,
                constraint,
                contradiction,
                dropped=dropped,
                changes=changes,
                own_pairs=own_pairs,
                own_triplet=own_triplet,
            )
        state.record(similar, dissimilar)
        if not own_pairs:
            return AddResult(state, constraint)
        merge = state.merge(*new_similar) if new_similar else None
        new_neighbours = merge.new_neighbours if merge else []
        if new_dissimilar:
            root = state.separate(*new_dissimilar)
            if root is not None:
                new_neighbours.append(root)
        changes = partial(changes_of_addition, state.components, find(own_pairs[0][0]), merge, new_neighbours)
        return AddResult(state, constraint, changes=changes, own_pairs=own_pairs, own_triplet=own_triplet)

    def _add_click(self, click: Click) -> tuple[AddResult, ...]:
        pairs = split_click(click)
        contradiction = self.first_contradiction(pairs) if self.policy == "raise" else None
        if contradiction:
            raise contradiction.error()
        return tuple(self.add(pair) for pair in pairs)

    def _reject(self, contradiction: Contradiction, n_items: int) -> AddResult:
        """Raise or ignore a contradiction, depending on the policy.

        The items that only the rejected constraint contains are removed: all items numbered ``n_items`` or higher.
        """
        error = None if self.policy == "ignore" else contradiction.error()
        self._state.remove_items(n_items)
        if error:
            raise error
        self._state.version += 1
        return AddResult(self._state, contradiction.constraint, contradiction, accepted=False)

    def extend(self, constraints: Iterable[Pair | Triplet | Click]) -> None:
        """Add constraints one by one. A click is added as in `add`.

        `extend` is twice as fast as `add`, because it does not compute the newly implied constraints.

        If a constraint raises an error, the constraints before it stay in the graph.
        """
        state = self._state
        for constraint in constraints:
            if isinstance(constraint, Click):
                self._add_click(constraint)
                continue
            n_items = len(state.items)
            similar, dissimilar = state.enter(constraint)
            if state.proofs.contradiction(constraint, state.version, similar, dissimilar):
                state.remove_items(n_items)
                self.add(constraint)
                continue
            state.apply(similar, dissimilar)

    def copy(self) -> ConstraintGraph:
        """Return an independent copy of the graph. Copying is faster than adding the constraints again."""
        other = ConstraintGraph(self.policy)
        other._state = self._state.copy()
        return other

    def first_contradiction(self, constraints: Iterable[Pair | Triplet | Click]) -> Contradiction | None:
        """Return the first contradiction that adding these constraints would cause, or None if there is none.

        The graph does not change. The constraints in the result are numbered as if they were added. The time is
        proportional to the number of these constraints plus the number of edges of the components that contain
        their items.
        """
        split = chain.from_iterable(map(split_click, constraints))
        return first_contradiction(self._state, split)

    # -- relations -------------------------------------------------------------------------------------------

    def are_similar(self, a: Hashable, b: Hashable) -> bool:
        """Return whether two items are similar. An item is similar to itself."""
        i, j = self._state.number(a), self._state.number(b)
        if i is None or j is None:
            return a == b
        return self._state.components.find(i) == self._state.components.find(j)

    def are_dissimilar(self, a: Hashable, b: Hashable) -> bool:
        """Return whether two items are dissimilar."""
        i, j = self._state.number(a), self._state.number(b)
        return i is not None and j is not None and self._state.are_dissimilar(i, j)

    def implies(self, constraint: Pair | Triplet | Click) -> bool:
        """Return whether the graph contains or implies a constraint.

        The graph implies a triplet or a click if it contains or implies all pairs of the triplet or click.
        """
        pairs: tuple[Pair, ...]
        if isinstance(constraint, Click):
            pairs = split_click(constraint)
        else:
            validate_constraint(constraint)
            pairs = constraint.pairs if isinstance(constraint, Triplet) else (constraint,)
        return all(self.are_similar(a, b) if same else self.are_dissimilar(a, b) for a, b, same in pairs)

    def proof(self, a: Hashable, b: Hashable) -> tuple[GivenPair, ...] | None:
        """Return the chain of given pairs that proves that two items are similar or dissimilar.

        The chain leads from ``a`` to ``b``. If the items are similar, all pairs of the chain are similar. If the
        items are dissimilar, exactly one pair of the chain is dissimilar. The chain is empty if ``a`` and ``b`` are
        the same item. The result is None if the graph implies no relation between the items. The chain is not
        always the shortest possible proof.
        """
        return self._state.proof(a, b)

    def similar_to(self, item: Hashable) -> list[Any]:
        """Return all other items that are similar to ``item``."""
        state = self._state
        number = state.number(item)
        if number is None:
            return []
        members = state.components.members[state.components.find(number)]
        return [state.items[other] for other in members if other != number]

    def components(self) -> list[tuple[Any, ...]]:
        """Return the groups of similar items, one tuple per group.

        The items of a group are in the order of their first occurrence in the constraints. The groups are in the
        order of their first items.
        """
        groups: dict[int, list[Any]] = {}
        for number, item in enumerate(self._state.items):
            groups.setdefault(self._state.components.find(number), []).append(item)
        return [tuple(group) for group in groups.values()]

    @property
    def n_items(self) -> int:
        """The number of distinct items in the constraints."""
        return len(self._state.items)

    def __len__(self) -> int:
        return self._state.proofs.n_given

    def __bool__(self) -> bool:
        return True

    def __contains__(self, item: Hashable) -> bool:
        return self._state.number(item) is not None

    # -- implied constraints ---------------------------------------------------------------------------------

    @property
    def implied_pairs(self) -> ImpliedConstraints[Pair]:
        """All implied pairs that were not given."""
        state, given = self._state, self._state.proofs.given
        blocks = all_pairs(state.components)
        return ImpliedConstraints(state, blocks, state.pair, lambda t: t[1] in given[t[0]], len(self))

    @property
    def implied_triplets(self) -> ImpliedConstraints[Triplet]:
        """All implied triplets that were not given.

        With policy "newest", a given triplet counts as not given if one of its pairs was removed from the graph.
        """
        state = self._state
        return ImpliedConstraints(
            state,
            all_triplets(state.components),
            state.triplet,
            lambda t: state.is_given_triplet(*t),
            state.count_given_triplets(),
        )

    @overload
    def sample_implied(
        self, limit: int, random_state: RandomState = None, *, kind: Literal["pairs"] = "pairs"
    ) -> list[Pair]: ...
    @overload
    def sample_implied(
        self, limit: int, random_state: RandomState = None, *, kind: Literal["triplets"]
    ) -> list[Triplet]: ...
    def sample_implied(
        self, limit: int, random_state: RandomState = None, *, kind: Literal["pairs", "triplets"] = "pairs"
    ) -> list[Pair] | list[Triplet]:
        """Draw at most ``limit`` implied constraints that were not given, uniformly without replacement.

        Time and memory grow with the size of the graph and with ``limit``, not with the number of implied
        constraints. To list all implied constraints, iterate over `implied_pairs` or `implied_triplets`.

        Parameters
        ----------
        limit : int
            The maximum number of constraints to draw.
        random_state : None, int, numpy Generator or RandomState
        kind : {"pairs", "triplets"}
            The kind of constraints to draw.
        """
        if kind not in ("pairs", "triplets"):
            raise InvalidInputError(
                f"The 'kind' parameter must be 'pairs' or 'triplets'. Got {shorten(kind)} instead."
            )
        if kind == "pairs":
            return self.implied_pairs.sample(limit, random_state)
        return self.implied_triplets.sample(limit, random_state)

    @overload
    def variants(self, constraint: Pair, limit: int, random_state: RandomState = None) -> list[Pair]: ...
    @overload
    def variants(self, constraint: Triplet, limit: int, random_state: RandomState = None) -> list[Triplet]: ...
    def variants(
        self, constraint: Pair | Triplet, limit: int, random_state: RandomState = None
    ) -> list[Pair] | list[Triplet]:
        """Return at most ``limit`` distinct variants of a constraint, made by replacing items with similar items.

        A constraint that the graph neither contains nor implies has no variants. Variants are drawn at random, each
        in constant time. If fewer than ``limit`` variants exist, the result may still miss some of them.
        """
        check_count("limit", limit)
        return sample_variants(self._state, constraint, limit, random_state) if self.implies(constraint) else []

    def completions(self, pair: Pair, limit: int, random_state: RandomState = None) -> list[Triplet]:
        """Return at most ``limit`` distinct triplets that extend a given or implied pair by a third item.

        For a similar pair, the third item is dissimilar to both items. For a dissimilar pair, the third item is
        similar to one of the two items.
        """
        check_count("limit", limit)
        return sample_completions(self._state, pair, limit, random_state) if self.implies(pair) else []


def _contradicts_itself(similar: ItemPair | None, dissimilar: ItemPair | None) -> bool:
    """Return whether a constraint contradicts itself. No graph can contain such a constraint."""
    if dissimilar is None:
        return False
    return dissimilar[0] == dissimilar[1] or (similar is not None and similar[1] == dissimilar[1])
