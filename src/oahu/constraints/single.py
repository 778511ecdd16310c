"""One constraint by name: what people say, before it is numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Pair", "Triplet"]


class Pair(NamedTuple):
    """Two items are alike, or they are not.

    An item is whatever names it: a row number, a string; in a stream by value, its features.

    >>> Pair("tea", "coffee", same=False)
    Pair(first='tea', second='coffee', same=False)
    """

    first: Any
    second: Any
    same: bool


class Triplet(NamedTuple):
    """The anchor is like the positive, and unlike the negative.

    >>> Triplet("tea", "green tea", "coffee").pairs
    (Pair(first='tea', second='green tea', same=True), Pair(first='tea', second='coffee', same=False))
    """

    anchor: Any
    positive: Any
    negative: Any

    @property
    def pairs(self) -> tuple[Pair, Pair]:
        """The one similar and the one dissimilar pair that a triplet says."""
        return Pair(self.anchor, self.positive, True), Pair(self.anchor, self.negative, False)
