"""Contradictions between constraints, with their proofs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from oahu.constraints.single import Pair, Triplet
from oahu.exceptions import ContradictionError
from oahu.messages import shorten

__all__ = ["Contradiction", "GivenPair"]

_MAX_SHOWN: Final = 10  # maximum number of links of a proof that a message shows


class GivenPair(NamedTuple):
    """A pair of a given constraint, with the number of the constraint. A triplet consists of two pairs."""

    number: int
    first: Any
    second: Any
    same: bool


class Contradiction:
    """A constraint that contradicts the graph, with the proof of the contradiction.

    Attributes
    ----------
    constraint : Pair or Triplet
    number : int
        The constraint's position among all constraints that the graph has received, counted from 0.
    pair : Pair
        The pair that causes the contradiction: the constraint itself, or one of the two pairs of a triplet.
    """

    def __init__(
        self, constraint: Pair | Triplet, number: int, pair: Pair, prove: Callable[[], list[GivenPair]]
    ) -> None:
        """``prove`` is a function that computes `chain`. It is called on the first access to `chain`."""
        self.constraint, self.number, self.pair = constraint, number, pair
        self._prove: Callable[[], list[GivenPair]] | None = prove
        self._chain: tuple[GivenPair, ...] = ()

    @property
    def chain(self) -> tuple[GivenPair, ...]:
        """The proof of the contradiction: a chain of given pairs that imply the opposite of ``pair``.

        The chain leads from the first item of ``pair`` to the second item.

        At most one pair of the chain is dissimilar. The chain is empty if both items of ``pair`` are the same. If
        the two pairs of a triplet contradict each other together with given pairs, the chain starts with the
        similar pair of the triplet. This pair has the number of the triplet.
        """
        if self._prove is not None:
            self._chain, self._prove = tuple(self._prove()), None
        return self._chain

    def __str__(self) -> str:
        first, second, same = self.pair
        links = [_describe(*link) for link in self.chain]
        if len(links) > _MAX_SHOWN:
            half = _MAX_SHOWN // 2
            links[half:-half] = [f"... {len(links) - 2 * half} more ..."]
        proof = "; ".join(links) if links else "an item is similar to itself"
        opposite = "dissimilar" if same else "similar"
        return (
            f"Constraint {_describe(self.number, first, second, same)}, but they are {opposite}: {proof}. "
            "Correct one of these constraints."
        )

    def error(self) -> ContradictionError:
        """Return the error to raise for this contradiction."""
        return ContradictionError(str(self), self.constraint, self.chain)


def _describe(number: int, first: Any, second: Any, same: bool) -> str:
    return f"#{number} states that {shorten(first)} and {shorten(second)} are {'similar' if same else 'dissimilar'}"
