"""One constraint between named items: a pair, a triplet or a click."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from oahu.exceptions import InvalidInputError, InvalidTypeError
from oahu.messages import shorten

__all__ = [
    "Click",
    "Pair",
    "Triplet",
    "check_click",
    "check_hashable",
    "check_same",
    "describe_part",
    "split_click",
    "validate_constraint",
]


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


class Click(NamedTuple):
    """Feedback on one query: items that are similar to the query, and items that are dissimilar.

    An item is given by an id, such as a row number or a string, or by a feature vector. The query may be a feature
    vector although the other items are given by ids: then the query is not an item.

    Parameters
    ----------
    query : id or feature vector
    positives : sequence of ids or feature vectors
        The items that are similar to the query.
    negatives : sequence of ids or feature vectors
        The items that are dissimilar to the query. ``positives`` and ``negatives`` must not both be empty.
    shown : sequence of ids or feature vectors
        The items that the user saw and did not mark.
    weight : float, default=1.0
        The importance of the click, in (0, 1]. `Clicks` explains which learners use weights.

    Examples
    --------
    >>> Click("tea", positives=["green tea"], negatives=["coffee"]).pairs
    (Pair(first='tea', second='green tea', same=True), Pair(first='tea', second='coffee', same=False))
    """

    query: Any
    positives: Sequence[Any] = ()
    negatives: Sequence[Any] = ()
    shown: Sequence[Any] = ()
    weight: float = 1.0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """A similar pair for each positive, then a dissimilar pair for each negative."""
        similar = (Pair(self.query, item, True) for item in self.positives)
        return (*similar, *(Pair(self.query, item, False) for item in self.negatives))


def validate_constraint(constraint: Any) -> None:
    """Raise `InvalidTypeError` unless the argument is a `Pair` or a `Triplet` of hashable items."""
    if isinstance(constraint, Pair):
        check_same(constraint)
    elif not isinstance(constraint, Triplet):
        raise InvalidTypeError(
            f"A constraint must be a Pair, a Triplet or a Click of oahu.constraints. Got {shorten(constraint)} "
            "instead."
        )
    try:
        hash(constraint)
    except TypeError:
        for item in constraint:
            check_hashable(item)
        raise


def check_same(pair: Pair) -> None:
    """Raise `InvalidTypeError` unless ``same`` of a pair is True or False."""
    same: Any = pair.same
    if same is not True and same is not False and not isinstance(same, np.bool_):
        raise InvalidTypeError(f"'same' of a Pair must be True or False. Got {shorten(same)} instead.")


def split_click(constraint: Any) -> tuple[Any, ...]:
    """Return the pairs of a valid click. Return any other constraint unchanged, as the only element."""
    if not isinstance(constraint, Click):
        return (constraint,)
    check_click(constraint, "The click")
    pairs = constraint.pairs
    for pair in pairs:
        validate_constraint(pair)
    return pairs


def check_click(click: Click, name: str) -> None:
    """Raise `InvalidInputError` unless the lists and the weight of a click are valid and no id occurs twice.

    ``name`` is the name of the click at the start of error messages. Feature vectors are not compared, because two
    items may have the same features.
    """
    for field in ("positives", "negatives", "shown"):
        part: Any = getattr(click, field)
        if not isinstance(part, list | tuple) and not (isinstance(part, np.ndarray) and part.ndim > 0):
            raise InvalidTypeError(f"{name}: {field!r} must be a list of items. Got {shorten(part)} instead.")
    if len(click.positives) == 0 and len(click.negatives) == 0:
        raise InvalidInputError(f"{name} must have at least one positive or one negative. Got neither.")
    weight: Any = click.weight
    is_number = isinstance(weight, float | int | np.floating | np.integer) and not isinstance(weight, bool)
    if not (is_number and 0 < weight <= 1):
        raise InvalidInputError(f"{name}: 'weight' must be a number in (0, 1]. Got {shorten(weight)} instead.")
    items = (click.query, *click.positives, *click.negatives, *click.shown)
    with suppress(TypeError):  # feature vectors are not hashable
        if len(set(items)) == len(items):
            return
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        if isinstance(item, list | tuple | np.ndarray):
            continue
        check_hashable(item)
        if item in places:
            sizes = len(click.positives), len(click.negatives)
            first, second = (describe_part(position, *sizes) for position in (places[item], place))
            raise InvalidInputError(
                f"{name}: the item {shorten(item)} occurs twice, as the {first} and as the {second}. An item must "
                "not occur twice in a click."
            )
        places[item] = place


def describe_part(place: int, n_positives: int, n_negatives: int) -> str:
    """Return a description of an item of a click, such as "2nd negative".

    ``place`` is the number of the item in the order query, positives, negatives, shown.
    """
    if place == 0:
        return "query"
    rank = place - 1
    for count, noun in ((n_positives, "positive"), (n_negatives, "negative")):
        if rank < count:
            return f"{_ordinal(rank + 1)} {noun}"
        rank -= count
    return f"{_ordinal(rank + 1)} shown item"


def _ordinal(n: int) -> str:
    """Return a number as an ordinal, such as "1st", "2nd" or "11th"."""
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def check_hashable(item: Any) -> None:
    """Raise `InvalidTypeError` unless the item is hashable."""
    try:
        hash(item)
    except TypeError as error:
        raise InvalidTypeError(
            "An item of a constraint must be hashable, such as a row number or a string. "
            f"Got {shorten(item)} instead."
        ) from error
