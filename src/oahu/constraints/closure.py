"""The transitive closure of the paper: one stream of given constraints (seeds) and the constraints they imply."""

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


def closure(seeds: Seeds, n_implied: int, random_state: RandomState = None, *, exact: bool = True) -> Seeds:
    """Return one stream of the given constraints (seeds) and ``n_implied`` constraints that the seeds imply.

    The paper uses 5,000 seeds and 5,000 implied constraints, obtained "by transitive closure" (Section 4.2). The
    implied constraints are drawn uniformly without replacement from all implied constraints that are not seeds. In
    the stream, each implied constraint comes after the seed that first implied it, and before the next seed. The
    paper calls this the "chronological order of creation".

    Parameters
    ----------
    seeds : array-like of shape (n, 3), tuple (pairs of shape (n, 2), y of shape (n,)), or sequence
        The given constraints. Each row of an array is a triplet of items: anchor, positive and negative. A tuple
        contains pairs of items and the labels of the pairs: booleans, or +1 and -1. A sequence contains only `Pair`
        objects or only `Triplet` objects.
    n_implied : int
        The number of implied constraints in the stream.
    random_state : None, int, numpy Generator or RandomState
    exact : bool
        Whether to raise an error if the seeds imply fewer than ``n_implied`` constraints. If False, the stream then
        contains all implied constraints.

    Returns
    -------
    stream : ndarray of shape (n + n_implied, 3), tuple of two ndarrays, or list
        The stream, of the same type as ``seeds``: an array, a tuple or a list of `Pair` or `Triplet` objects.

    Examples
    --------
    >>> closure(np.array([[0, 1, 2], [2, 3, 0]]), 2, random_state=0)
    array([[0, 1, 2],
           [1, 0, 2],
           [2, 3, 0],
           [3, 2, 1]])
    """
    check_count("n_implied", n_implied)
    constraints, restore = _to_records(seeds)
    graph = ConstraintGraph()
    for constraint in constraints:
        graph.add(constraint)
    triplets = bool(constraints) and isinstance(constraints[0], Triplet)
    implied: ImpliedConstraints[Pair] | ImpliedConstraints[Triplet] = (
        graph.implied_triplets if triplets else graph.implied_pairs
    )
    if exact and implied.count < n_implied:
        raise InvalidInputError(
            f"The 'n_implied' parameter is {n_implied}, but {len(constraints)} seeds imply only {implied.count} "
            f"{'triplets' if triplets else 'pairs'}. Use a smaller n_implied, more seeds or exact=False."
        )
    drawn: Sequence[Pair | Triplet] = implied.sample(n_implied, random_state)
    implied_by: list[list[Pair | Triplet]] = [[] for _ in constraints]
    for constraint, seed in zip(drawn, _first_implied(constraints, drawn), strict=True):
        implied_by[seed].append(constraint)
    stream = [c for seed, more in zip(constraints, implied_by, strict=True) for c in (seed, *more)]
    return cast(Seeds, restore(stream))


def _first_implied(seeds: Sequence[Pair | Triplet], drawn: Sequence[Pair | Triplet]) -> list[int]:
    """Return, for each drawn constraint, the smallest i such that seeds 0 to i imply the constraint.

    The function runs one binary search for all drawn constraints together. Each iteration adds the seeds one by one
    to a new graph. It tests each drawn constraint after the seed at the middle of the constraint's search range.
    """
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


def _to_records(seeds: Any) -> tuple[list[Pair | Triplet], Callable[[list[Pair | Triplet]], Any]]:
    """Return the seeds as `Pair` or `Triplet` objects, and a conversion function.

    The function converts a list of such objects to the type of ``seeds``.
    """
    if isinstance(seeds, Sequence) and any(isinstance(seed, Pair | Triplet) for seed in seeds):
        if not all(type(seed) is type(seeds[0]) for seed in seeds):
            raise InvalidTypeError(
                "The seed constraints must be all Pair or all Triplet objects, because "
                "implied constraints have the "
                "type of the seeds."
            )
        return list(seeds), list
    if isinstance(seeds, tuple) and len(seeds) == 2:
        items, y = _as_rows(seeds[0], 2), np.asarray(seeds[1])
        if y.shape != items.shape[:1]:
            raise InvalidInputError(
                f"The labels of {len(items)} pairs must have shape ({len(items)},). Got shape {y.shape} instead."
            )
        if y.dtype != bool and not np.isin(y, (-1, 1)).all():
            raise InvalidInputError("The labels must be booleans, or +1 for similar and -1 for dissimilar pairs.")
        pairs: list[Pair | Triplet] = [
            Pair(i, j, v > 0) for (i, j), v in zip(items.tolist(), y.tolist(), strict=True)
        ]

        def restore(records: list[Any]) -> tuple[Any, Any]:
            same = np.array([record.same for record in records], dtype=bool)
            rows = np.array([record[:2] for record in records], dtype=items.dtype).reshape(-1, 2)
            return rows, (same if y.dtype == bool else np.where(same, 1, -1).astype(y.dtype))

        return pairs, restore
    table = _as_rows(seeds, 3)
    triplets: list[Pair | Triplet] = [Triplet(*row) for row in table.tolist()]
    return triplets, lambda records: np.array(records, dtype=table.dtype).reshape(-1, 3)


def _as_rows(rows: Any, width: int) -> Any:
    try:
        table = np.asarray(rows)
    except ValueError as error:
        raise InvalidInputError(f"The seed constraints must be rows of {width} items each ({error}).") from error
    if table.ndim != 2 or table.shape[1] != width:
        raise InvalidInputError(
            f"The seed constraints must be an array of shape (n, {width}) of items, for example row numbers. "
            f"Got shape {table.shape} instead."
        )
    return table
