"""The constraint graph: stores given constraints and derives the constraints that they imply.

Similarity is an equivalence relation, so similar items form components. If two items are dissimilar, all items of
their two components are dissimilar. These are the four rules of the paper's footnote in Section 3. The graph stores
the components and the dissimilar edges between them. The implied pairs and triplets are combinations of items of
these components.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from typing import Any, Final, Literal, overload

from oahu.constraints.add_result import AddResult
from oahu.constraints.changes import changes_of_addition
from oahu.constraints.contradictions import Contradiction, GivenPair
from oahu.constraints.first_contradiction import first_contradiction
from oahu.constraints.graph_state import GraphState
from oahu.constraints.implied import ImpliedConstraints, all_pairs, all_triplets, check_count
from oahu.constraints.newest_policy import add_newest
from oahu.constraints.proofs import ItemPair
from oahu.constraints.single import Pair, Triplet, validate_constraint
from oahu.constraints.variants import sample_completions, sample_variants
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten
from oahu.parameters import check_choice
from oahu.randomness import RandomState

__all__ = ["ConstraintGraph", "Policy"]

Policy = Literal["raise", "ignore", "newest"]

_POLICIES: Final = ("raise", "ignore", "newest")


class ConstraintGraph:
    """A graph of given pairs and triplets. It derives all constraints that the given constraints imply.

    Adding a constraint takes amortised near-constant time (logarithmic in the worst case). Memory grows with the
    number of added constraints, not with the number of implied constraints.

    Parameters
    ----------
    policy : {"raise", "ignore", "newest"}
        The reaction to a constraint that contradicts earlier constraints. "raise" raises `ContradictionError`.
        "ignore" does not add the constraint. "newest" adds the constraint and drops older pairs until there is no
        contradiction. This takes time proportional to the sizes of the components of the constraint's items. A
        constraint can also contradict itself: a dissimilar pair of an item with itself, or a triplet whose negative
        is also its anchor or positive. Such a constraint raises `ContradictionError`, unless the policy is
        "ignore".

    Notes
    -----
    An item is any hashable value. ``len(graph)`` is the number of distinct given pairs. A triplet counts as two
    pairs. Constraints are numbered from 0 in the order of arrival. A constraint that raises an error gets no
    number.

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

    def add(self, constraint: Pair | Triplet) -> AddResult:
        """Add a constraint. The result contains the newly implied constraints.

        A rejected constraint does not change the graph.
        """
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

    def _reject(self, contradiction: Contradiction, n_items: int) -> AddResult:
        """Raise or ignore a contradiction, depending on the policy. Remove the items that its constraint added."""
        error = None if self.policy == "ignore" else contradiction.error()
        self._state.remove_items(n_items)
        if error:
            raise error
        self._state.version += 1
        return AddResult(self._state, contradiction.constraint, contradiction, accepted=False)

    def extend(self, constraints: Iterable[Pair | Triplet]) -> None:
        """Add constraints one by one.

        This is twice as fast as `add`, because newly implied constraints are not computed.

        If a constraint raises an error, the constraints before it stay in the graph.
        """
        state = self._state
        for constraint in constraints:
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

    def first_contradiction(self, constraints: Iterable[Pair | Triplet]) -> Contradiction | None:
        """Return the first contradiction that adding these constraints would cause, or None. Add nothing.

        The constraints are numbered as if they were added. The time is proportional to the number of constraints
        plus the number of dissimilar edges between the components of their items.
        """
        return first_contradiction(self._state, constraints)

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

    def implies(self, constraint: Pair | Triplet) -> bool:
        """Return whether a constraint is given or implied.

        For a triplet, both of its pairs must be given or implied.
        """
        validate_constraint(constraint)
        pairs = constraint.pairs if isinstance(constraint, Triplet) else (constraint,)
        return all(self.are_similar(a, b) if same else self.are_dissimilar(a, b) for a, b, same in pairs)

    def proof(self, a: Hashable, b: Hashable) -> tuple[GivenPair, ...] | None:
        """Return the chain of given pairs that proves that two items are similar or dissimilar.

        The chain leads from ``a`` to ``b``. All links are similar pairs if the items are similar. Exactly one link
        is a dissimilar pair if the items are dissimilar. The chain is empty if ``a`` and ``b`` are the same item.
        The result is None if the graph implies no relation between the items. A shorter proof may exist.
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
        """Return the groups of similar items. Items and groups are in the order of first occurrence."""
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

        A given triplet counts as not given if one of its pairs was dropped.
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

        Time and memory grow with the graph and the limit, not with the number of implied constraints. To list all
        implied constraints, iterate over `implied_pairs` or `implied_triplets`.

        Parameters
        ----------
        limit : int
            The maximum number of constraints.
        random_state : None, int, numpy Generator or RandomState
        kind : {"pairs", "triplets"}
            The kind of constraints.
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

        A constraint that is not implied has no variants. Each variant is drawn in constant time. If there are few
        variants, some of them may be missing in the result.
        """
        check_count("limit", limit)
        return sample_variants(self._state, constraint, limit, random_state) if self.implies(constraint) else []

    def completions(self, pair: Pair, limit: int, random_state: RandomState = None) -> list[Triplet]:
        """Return at most ``limit`` distinct triplets that extend an implied pair by a third item.

        The third item is dissimilar to both items of a similar pair. It is similar to one of the two items of a
        dissimilar pair.
        """
        check_count("limit", limit)
        return sample_completions(self._state, pair, limit, random_state) if self.implies(pair) else []


def _contradicts_itself(similar: ItemPair | None, dissimilar: ItemPair | None) -> bool:
    """Return whether a constraint contradicts itself. No graph can contain such a constraint."""
    if dissimilar is None:
        return False
    return dissimilar[0] == dissimilar[1] or (similar is not None and similar[1] == dissimilar[1])
