"""The result of adding one constraint to a constraint graph."""

from __future__ import annotations

from collections.abc import Callable

from oahu.constraints.changes import Changes, new_pairs, new_triplets
from oahu.constraints.contradictions import Contradiction, GivenPair
from oahu.constraints.graph_state import GraphState
from oahu.constraints.implied import ImpliedConstraints, check_not_stale
from oahu.constraints.proofs import ItemPair
from oahu.constraints.single import Pair, Triplet

__all__ = ["AddResult"]


class AddResult:
    """The result of `ConstraintGraph.add`.

    Attributes
    ----------
    constraint : Pair or Triplet
    number : int
        The constraint's position among all constraints that the graph has received, counted from 0.
    accepted : bool
        Whether the constraint was added. A rejected constraint does not change the graph.
    contradiction : Contradiction or None
        The contradiction between the constraint and earlier constraints, if there is one.
    dropped : tuple of GivenPair
        With policy "newest", the given pairs that were removed from the graph, oldest first. One pair of a triplet
        can be removed while its other pair stays.
    """

    __slots__ = (
        "_changes",
        "_own_pairs",
        "_own_triplet",
        "_state",
        "_version",
        "accepted",
        "constraint",
        "contradiction",
        "dropped",
        "number",
    )

    def __init__(
        self,
        state: GraphState,
        constraint: Pair | Triplet,
        contradiction: Contradiction | None = None,
        *,
        accepted: bool = True,
        dropped: tuple[GivenPair, ...] = (),
        changes: Callable[[], Changes] = dict,
        own_pairs: tuple[ItemPair, ...] = (),
        own_triplet: tuple[int, int, int] | None = None,
    ) -> None:
        """``own_pairs`` and ``own_triplet`` are the pairs and the triplet of the constraint.

        They contain only pairs and triplets that the graph did not imply before the constraint was added.
        """
        self.constraint, self.contradiction, self.accepted, self.dropped = (
            constraint,
            contradiction,
            accepted,
            dropped,
        )
        self._state, self._version, self._changes = state, state.version, changes
        self._own_pairs, self._own_triplet = own_pairs, own_triplet
        self.number = state.version - 1

    @property
    def new_pairs(self) -> ImpliedConstraints[Pair]:
        """The pairs that the graph implies only since the constraint was added.

        The constraint's own pairs are left out.
        """
        own = {pair for i, j in self._own_pairs for pair in ((i, j), (j, i))}
        blocks = new_pairs(self._read_changes())
        return ImpliedConstraints(
            self._state, blocks, self._state.pair, lambda t: t[:2] in own, len(self._own_pairs)
        )

    @property
    def new_triplets(self) -> ImpliedConstraints[Triplet]:
        """The triplets that the graph implies only since the constraint was added.

        The constraint itself is left out.
        """
        own = self._own_triplet
        blocks = new_triplets(self._state.components, self._read_changes())
        return ImpliedConstraints(
            self._state, blocks, self._state.triplet, lambda t: t == own, int(own is not None)
        )

    def _read_changes(self) -> Changes:
        check_not_stale(self._version, self._state.version)
        return self._changes()
