"""Team-draft interleaving: one list of the best items of two rankings, for a comparison by clicks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Interleaving", "interleave", "team_draft"]

Item = TypeVar("Item", bound=Hashable)
Rows = NDArray[np.intp]


class Interleaving(NamedTuple, Generic[Item]):
    """An interleaved list, and which ranking contributed each item.

    Attributes
    ----------
    items : list
        The items, best first.
    from_first : list of bool
        Whether the first ranking contributed the item.
    """

    items: list[Item]
    from_first: list[bool]


def team_draft(
    first: Sequence[Item], second: Sequence[Item], k: int, rng: np.random.Generator
) -> Interleaving[Item]:
    """Return the first ``k`` items of two interleaved rankings (team draft; Radlinski et al., CIKM 2008).

    In each round, a coin decides which ranking chooses first. Each ranking then chooses its best item that is not
    in the list yet. A ranking without such an item chooses nothing. After n choices of a ranking, the list contains
    its n best items. So the list always contains the ``k // 2`` best items of both rankings.

    Parameters
    ----------
    first, second : sequence
        Two rankings, best item first. Each needs at least ``k`` items, or all items.

    Examples
    --------
    >>> items, from_first = team_draft("abcd", "bxya", 4, np.random.default_rng(0))
    >>> items, from_first
    (['b', 'a', 'c', 'x'], [False, True, True, False])
    """
    chosen: dict[Item, bool] = {}
    remaining = {True: iter(first), False: iter(second)}
    for coin in (rng.random(k) < 0.5).tolist():
        for side in (coin, not coin):
            best = next((item for item in remaining[side] if item not in chosen), None)
            if best is not None and len(chosen) < k:
                chosen[best] = side
        if len(chosen) == k:
            break
    return Interleaving(list(chosen), list(chosen.values()))


def interleave(first: Rows, second: Rows, k: int, rng: np.random.Generator) -> Rows:
    """Return the first ``k`` items of two interleaved rankings of row numbers. See `team_draft`."""
    found: Interleaving[Any] = team_draft(first.tolist(), second.tolist(), k, rng)
    return np.array(found.items, dtype=np.intp)
