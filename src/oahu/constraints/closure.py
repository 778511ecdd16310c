"""Seeds and what follows from them, as one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from oahu.constraints.constraint_graph import ConstraintGraph
from oahu.constraints.implied import ImpliedConstraints, check_count
from oahu.constraints.single import Pair, Triplet
from oahu.exceptions import InvalidInputError, InvalidTypeError
from oahu.randomness import RandomState

__all__ = ["closure"]

Seeds = TypeVar("Seeds", bound=Any)


def closure(seeds: Seeds, n_more: int, random_state: RandomState = None, *, exact: bool = True) -> Seeds:
    """Seeds and n more constraints that follow from them, as one stream.

    The paper's "5,000 seeds, then 5,000 more by transitive closure" (Section 4.2). The ones that follow are drawn
    uniformly and without replacement from all that follow and are no seeds, and stand "in chronological order of
    creation": right behind the seed from which they first followed.

    Parameters
    ----------
    seeds : array-like of shape (n, 3), tuple (pairs of shape (n, 2), y of shape (n,)), or sequence of records
        Triplets of items (anchor, positive, negative); or pairs of items and whether they are alike, as truth
        values or +1 and -1; or `Pair` records; or `Triplet` records.
    n_more : int
    random_state : None, int, numpy Generator or RandomState
    exact : bool
        Whether it is an error that fewer than ``n_more`` follow. If not, there are just fewer.

    Returns
    -------
    stream : as ``seeds``: ndarray of shape (n + n_more, 3), (ndarray, ndarray), or list of records

    Examples
    --------
    >>> closure(np.array([[0, 1, 2], [2, 3, 0]]), 2, random_state=0)
    array([[0, 1, 2],
           [1, 0, 2],
           [2, 3, 0],
           [3, 2, 1]])
    """
    check_count("n_more", n_more)
    constraints, restore = _records(seeds)
    graph = ConstraintGraph()
    for constraint in constraints:
        graph.add(constraint)
    triplets = bool(constraints) and isinstance(constraints[0], Triplet)
    following: ImpliedConstraints[Pair] | ImpliedConstraints[Triplet] = (
        graph.implied_triplets if triplets else graph.implied_pairs
    )
    if exact and following.count < n_more:
        raise InvalidInputError(
            f"{n_more} more {'triplets' if triplets else 'pairs'} were asked for, and {following.count} follow "
            f"from {len(constraints)} seed(s). Ask for fewer, pass more seeds over fewer items, or exact=False."
        )
    drawn: Sequence[Pair | Triplet] = following.sample(n_more, random_state)
    behind: list[list[Pair | Triplet]] = [[] for _ in constraints]
    for more, seed in zip(drawn, _first_followed(constraints, drawn), strict=True):
        behind[seed].append(more)
    return cast(Seeds, restore([c for seed, more in zip(constraints, behind, strict=True) for c in (seed, *more)]))


def _first_followed(seeds: Sequence[Pair | Triplet], drawn: Sequence[Pair | Triplet]) -> list[int]:
    """After which seed each of ``drawn`` held: a binary search for all of them at once, over the same replays."""
    low, high = [0] * len(drawn), [len(seeds) - 1] * len(drawn)
    while any(map(int.__lt__, low, high)):
        at: dict[int, list[int]] = {}
        for k, (lo, hi) in enumerate(zip(low, high, strict=True)):
            if lo < hi:
                at.setdefault((lo + hi) // 2, []).append(k)
        graph = ConstraintGraph()
        for middle, seed in enumerate(seeds[: max(at) + 1]):
            graph.add(seed)
            for k in at.get(middle, ()):
                if graph.implies(drawn[k]):
                    high[k] = middle
                else:
                    low[k] = middle + 1
    return low


def _records(seeds: Any) -> tuple[list[Pair | Triplet], Callable[[list[Pair | Triplet]], Any]]:
    """Seeds as records, and what gives records the form that the seeds had."""
    if isinstance(seeds, Sequence) and any(isinstance(seed, Pair | Triplet) for seed in seeds):
        if not all(type(seed) is type(seeds[0]) for seed in seeds):
            raise InvalidTypeError(
                "Seeds must be all Pair or all Triplet records: what follows is of the same kind."
            )
        return list(seeds), list
    if isinstance(seeds, tuple) and len(seeds) == 2:
        items, y = _table(seeds[0], 2), np.asarray(seeds[1])
        if y.shape != items.shape[:1]:
            raise InvalidInputError(
                f"There must be one y for each of {len(items)} pairs. Got y of shape {y.shape}."
            )
        if y.dtype != bool and not np.isin(y, (-1, 1)).all():
            raise InvalidInputError("y must be truth values, or +1 for alike and -1 for unlike.")
        pairs: list[Pair | Triplet] = [
            Pair(i, j, v > 0) for (i, j), v in zip(items.tolist(), y.tolist(), strict=True)
        ]

        def restore(records: list[Any]) -> tuple[Any, Any]:
            same = np.array([record.same for record in records], dtype=bool)
            rows = np.array([record[:2] for record in records], dtype=items.dtype).reshape(-1, 2)
            return rows, (same if y.dtype == bool else np.where(same, 1, -1).astype(y.dtype))

        return pairs, restore
    table = _table(seeds, 3)
    triplets: list[Pair | Triplet] = [Triplet(*row) for row in table.tolist()]
    return triplets, lambda records: np.array(records, dtype=table.dtype).reshape(-1, 3)


def _table(rows: Any, width: int) -> Any:
    try:
        table = np.asarray(rows)
    except ValueError as error:
        raise InvalidInputError(f"Seeds must be rows of {width} items each ({error}).") from error
    if table.ndim != 2 or table.shape[1] != width:
        raise InvalidInputError(
            f"Seeds must be items of shape (n, {width}), such as row numbers. Got shape {table.shape} instead."
        )
    return table
