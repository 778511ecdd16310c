"""A simulated user who marks search results as alike or not alike, and can be selective, careless or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

__all__ = ["USER_MODELS", "Marks", "SimulatedUser"]

Rows = NDArray[np.intp]
Bools = NDArray[np.bool_]

#: How a user looks at the shown items, and which of them the user marks.
USER_MODELS: Final = ("all", "alike", "not-alike", "cascade", "position")


class Marks(NamedTuple):
    """The marks of one click.

    Attributes
    ----------
    positives, negatives : ndarray of int
        Items marked as alike and items marked as not alike, in the order in which they were shown.
    unmarked : ndarray of int
        Items that the user saw and did not mark, in the order in which they were shown.
    """

    positives: Rows
    negatives: Rows
    unmarked: Rows


@dataclass(frozen=True)
class SimulatedUser:
    """A user whose marks follow from labels: an item is alike if it has the label of the query.

    Attributes
    ----------
    model : str
        One of `USER_MODELS`:

        - ``all``: marks every shown item.
        - ``alike``: marks only the alike items. The other items remain unmarked.
        - ``not-alike``: marks only the items that are not alike. The other items remain unmarked.
        - ``cascade``: looks at the items from the first to the last, marks the first alike item, and stops. The
          items before it remain unmarked. The user does not see the items after it.
        - ``position``: sees the item at position i = 1, 2, ... with probability 1 / i, and marks all items seen.
    noise : float in [0, 0.5]
        Probability that the user takes an item for the opposite of what it is, independently for each item. A user
        with noise 0.5 gives no information.
    careless : float in [0, 1]
        Share of clicks by careless users, who take each item for alike with probability 1/2.

    Examples
    --------
    >>> user = SimulatedUser("alike")
    >>> user.mark(np.array([7, 8, 9]), np.array([True, False, True]), np.random.default_rng(0))
    Marks(positives=array([7, 9]), negatives=array([], dtype=int64), unmarked=array([8]))
    """

    model: str = "all"
    noise: float = 0.0
    careless: float = 0.0

    def __post_init__(self) -> None:
        if self.model not in USER_MODELS:
            raise InvalidInputError(
                f"The user model must be one of {', '.join(USER_MODELS)}. Got {shorten(self.model)} instead."
            )
        for name, value, highest in (("noise", self.noise, 0.5), ("careless", self.careless, 1.0)):
            if not 0 <= value <= highest:
                raise InvalidInputError(
                    f"The {name!r} of a simulated user must be a number from 0 to {highest:g}. "
                    f"Got {shorten(value)} instead."
                )

    def mark(self, shown: Rows, is_alike: Any, rng: np.random.Generator) -> Marks:
        """Return the marks of one click.

        The number of random numbers drawn depends only on the number of shown items. So users with the same
        generator make the same mistakes at the same positions, whatever the items are.

        Parameters
        ----------
        shown : ndarray of int, of shape (k,)
            The shown items, best first.
        is_alike : ndarray of bool, of shape (k,)
            Whether each shown item has the label of the query.
        rng : Generator
            Source of the mistakes, of careless clicks, and of the items seen.
        """
        k = len(shown)
        is_careless = rng.random() < self.careless
        guesses, flips, looks = rng.random((3, k))
        taken = np.asarray(is_alike, bool) ^ (flips < self.noise)
        if is_careless:
            taken = guesses < 0.5
        seen, marked = self._seen_and_marked(taken, looks)
        return Marks(shown[marked & taken], shown[marked & ~taken], shown[seen & ~marked])

    def _seen_and_marked(self, taken: Bools, looks: NDArray[np.float64]) -> tuple[Bools, Bools]:
        """Return the items that the user sees and the items that the user marks. ``taken`` marks alike items."""
        everything = np.ones(len(taken), bool)
        if self.model == "alike":
            return everything, taken
        if self.model == "not-alike":
            return everything, ~taken
        if self.model == "cascade":
            is_seen: Bools = np.cumsum(taken) - taken == 0  # no alike item comes before it
            return is_seen, taken & is_seen
        if self.model == "position":
            seen = looks * np.arange(1, len(taken) + 1) < 1
            return seen, seen
        return everything, everything
