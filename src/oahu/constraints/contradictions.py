"""Why a constraint cannot be true, link by link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from oahu.constraints.single import Pair, Triplet
from oahu.exceptions import ContradictionError

__all__ = ["Contradiction", "GivenPair"]

_LONGEST: Final = 10  # links of a chain that a message shows


class GivenPair(NamedTuple):
    """A pair that was said: by which constraint, and what. A triplet says two, under one number."""

    number: int
    first: Any
    second: Any
    same: bool


class Contradiction:
    """Why a constraint cannot be true together with what was held when it arrived.

    Attributes
    ----------
    constraint : Pair or Triplet
    number : int
        Its place in the stream, counted from 0.
    pair : Pair
        What it says that contradicts: itself, or one of a triplet's two pairs.
    """

    def __init__(
        self, constraint: Pair | Triplet, number: int, pair: Pair, prove: Callable[[], list[GivenPair]]
    ) -> None:
        self.constraint, self.number, self.pair = constraint, number, pair
        self._prove: Callable[[], list[GivenPair]] | None = prove
        self._chain: tuple[GivenPair, ...] = ()

    @property
    def chain(self) -> tuple[GivenPair, ...]:
        """What proves the opposite of ``pair``, in order from its first to its second item.

        At most one link says unlike. An item is like itself without proof: then the chain is empty. A triplet that
        contradicts what follows from its own similar pair has that as the first link, under its own number.
        """
        if self._prove is not None:
            self._chain, self._prove = tuple(self._prove()), None
        return self._chain

    def __str__(self) -> str:
        first, second, same = self.pair
        words = [_in_words(*link) for link in self.chain]
        if len(words) > _LONGEST:
            half = _LONGEST // 2
            words[half:-half] = [f"... {len(words) - 2 * half} more ..."]
        proof = "; ".join(words) if words else "an item is like itself"
        opposite = "unlike" if same else "alike"
        return (
            f"Constraint {_in_words(self.number, first, second, same)}, but they are {opposite}: {proof}. "
            "Correct one of these."
        )

    def error(self) -> ContradictionError:
        return ContradictionError(str(self), self.constraint, self.chain)


def _in_words(number: int, first: Any, second: Any, same: bool) -> str:
    return f"#{number} says {first!r} and {second!r} are {'alike' if same else 'unlike'}"
