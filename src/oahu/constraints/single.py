"""One constraint between named items: a pair or a triplet."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oahu.exceptions import InvalidTypeError
from oahu.messages import shorten

__all__ = ["Pair", "Triplet", "check_hashable", "validate_constraint"]


class Pair(NamedTuple):
    """Two items that are similar (``same=True``) or dissimilar (``same=False``).

    An item is given by an id, such as a row number or a string. In a stream file, an item may also be a list of
    feature values.

    >>> Pair("tea", "coffee", same=False)
    Pair(first='tea', second='coffee', same=False)
    """

    first: Any
    second: Any
    same: bool


class Triplet(NamedTuple):
    """An anchor that is similar to the positive and dissimilar to the negative.

    >>> Triplet("tea", "green tea", "coffee").pairs
    (Pair(first='tea', second='green tea', same=True), Pair(first='tea', second='coffee', same=False))
    """

    anchor: Any
    positive: Any
    negative: Any

    @property
    def pairs(self) -> tuple[Pair, Pair]:
        """The similar pair and the dissimilar pair that the triplet consists of."""
        return Pair(self.anchor, self.positive, True), Pair(self.anchor, self.negative, False)


def validate_constraint(constraint: Any) -> None:
    """Raise `InvalidTypeError` unless the argument is a `Pair` or a `Triplet` of hashable items."""
    if isinstance(constraint, Pair):
        same: Any = constraint.same
        if same is not True and same is not False and not isinstance(same, np.bool_):
            raise InvalidTypeError(f"'same' of a Pair must be True or False. Got {shorten(same)} instead.")
    elif not isinstance(constraint, Triplet):
        raise InvalidTypeError(
            f"A constraint must be a Pair or a Triplet of oahu.constraints. Got {shorten(constraint)} instead."
        )
    try:
        hash(constraint)
    except TypeError:
        for item in constraint:
            check_hashable(item)
        raise


def check_hashable(item: Any) -> None:
    """Raise `InvalidTypeError` unless the item is hashable."""
    try:
        hash(item)
    except TypeError as error:
        raise InvalidTypeError(
            "An item of a constraint must be hashable, such as a row number or a string. "
            f"Got {shorten(item)} instead."
        ) from error
