"""Constraint streams: constraints drawn from labels, and their transitive closure (Section 4.3.2 of the paper)."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import closure, sample_pairs, sample_triplets
from oahu.io.atomic_files import write_atomically

__all__ = ["ConstraintCache", "ConstraintStream", "draw_constraints", "generator_for"]

Kind = Literal["triplets", "pairs"]


def generator_for(seed: int, *words: Any) -> np.random.Generator:
    """Return a random generator. The same seed and the same words always give the same random numbers."""
    return np.random.default_rng([seed, *(zlib.crc32(str(word).encode()) for word in words)])


@dataclass(frozen=True, eq=False)
class ConstraintStream:
    """Constraints in the order in which they are learned.

    Attributes
    ----------
    rows : ndarray of shape (n, 3) or (n, 2)
        Triplets or pairs, as row numbers of their items.
    same : ndarray of shape (n,), optional
        Labels of pairs: +1 for similar pairs, -1 for dissimilar pairs.
    implied : ndarray of shape (n,)
        True for constraints that were derived by transitive closure. False for constraints drawn from labels.
    """

    rows: NDArray[np.intp]
    same: NDArray[np.int64] | None
    implied: NDArray[np.bool_]

    @property
    def n_implied(self) -> int:
        return int(self.implied.sum())

    def __len__(self) -> int:
        return len(self.rows)

    def sample(self, n: int, rng: np.random.Generator) -> ConstraintStream:
        """Return a uniform random sample of ``n`` constraints. They keep their order in the stream."""
        chosen = np.sort(rng.choice(len(self), n, replace=False))
        same = None if self.same is None else self.same[chosen]
        return ConstraintStream(self.rows[chosen], same, self.implied[chosen])


def draw_constraints(
    kind: Kind,
    y: NDArray[Any],
    n: int,
    n_seeds: int,
    rng: np.random.Generator,
    exclude: NDArray[np.intp] | None = None,
) -> ConstraintStream:
    """Return a stream of ``n`` constraints: seed constraints and implied constraints.

    ``n_seeds`` seed constraints are drawn from labels. Implied constraints follow from the seed constraints by
    transitive closure. If there are too few implied constraints, further constraints are
    drawn from the labels and appended. No constraint contains both items of a pair in ``exclude``.
    """
    exclude = None if exclude is None or not len(exclude) else exclude
    seeds = _sample(kind, y, n_seeds, rng, exclude)
    n_implied = n - n_seeds
    n_spare = 0 if exclude is None else n_implied // 5
    columns = _as_columns(closure(seeds, n_implied + n_spare, rng, exact=False))
    implied = _are_implied(columns, _as_columns(seeds))
    usable = ~implied | ~_are_excluded(columns[:, : 3 if kind == "triplets" else 2], exclude)
    surplus = int((implied & usable).sum()) - n_implied
    if surplus > 0:
        usable[rng.choice(np.flatnonzero(implied & usable), surplus, replace=False)] = False
    implied, columns = implied[usable], columns[usable]
    if len(columns) < n:
        more = _as_columns(_sample(kind, y, n - len(columns), rng, exclude))
        columns = np.concatenate([columns, more])
        implied = np.append(implied, np.zeros(len(more), bool))
    if kind == "triplets":
        return ConstraintStream(columns, None, implied)
    return ConstraintStream(columns[:, :2], columns[:, 2].astype(np.int64), implied)


class ConstraintCache:
    """Cache of constraint streams in a folder. Several trials can use the same stream.

    Parameters
    ----------
    folder : path, optional
        Folder for the streams. If it is None, streams are not stored.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def get(
        self,
        kind: Kind,
        y: NDArray[Any],
        n: int,
        n_seeds: int,
        seed_words: tuple[Any, ...],
        exclude: NDArray[np.intp] | None = None,
    ) -> ConstraintStream:
        """Return the stored stream, or draw and store a new stream with `draw_constraints`.

        The random generator of `draw_constraints` is ``generator_for(*seed_words, kind)``. The other parameters
        are those of `draw_constraints`.
        """
        if self.folder is None:
            return draw_constraints(kind, y, n, n_seeds, generator_for(*seed_words, kind), exclude)
        path = self.folder / f"{_digest(kind, y, n, n_seeds, seed_words, exclude)}.npz"
        stream = _load(path)
        if stream is None:
            stream = draw_constraints(kind, y, n, n_seeds, generator_for(*seed_words, kind), exclude)
            _store(stream, path)
        return stream


def _store(stream: ConstraintStream, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    labels: Any = {} if stream.same is None else {"same": stream.same}
    archive = io.BytesIO()
    np.savez(archive, rows=stream.rows, implied=stream.implied, **labels)
    write_atomically(path, archive.getvalue())


def _load(path: Path) -> ConstraintStream | None:
    """Return the stored stream, or None if the file is missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            return ConstraintStream(arrays["rows"], arrays.get("same"), arrays["implied"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def _digest(kind: str, y: NDArray[Any], n: int, n_seeds: int, seed_words: Any, exclude: Any) -> str:
    settings = [kind, n, n_seeds, list(map(str, seed_words)), y.dtype.str, len(y)]
    digest = hashlib.sha256(json.dumps(settings).encode())
    digest.update(np.ascontiguousarray(y).tobytes())
    digest.update(b"" if exclude is None else np.ascontiguousarray(exclude).tobytes())
    return digest.hexdigest()[:32]


def _sample(kind: str, y: NDArray[Any], n: int, rng: np.random.Generator, exclude: Any) -> Any:
    sample = sample_triplets if kind == "triplets" else sample_pairs
    return sample(y, n, rng, exclude=exclude)


def _as_columns(constraints: Any) -> NDArray[np.intp]:
    """Return an array with a row per constraint: the three items of a triplet, or two items and the label."""
    return np.column_stack(constraints) if isinstance(constraints, tuple) else constraints


def _are_implied(stream: NDArray[np.intp], seeds: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return an array that is True for each implied constraint of a stream and False for each seed constraint.

    The seed constraints occur in ``stream`` in the same order as in ``seeds``.
    """
    implied, next_seed = np.ones(len(stream), bool), 0
    for i, row in enumerate(stream.tolist()):
        if next_seed < len(seeds) and row == seeds[next_seed].tolist():
            implied[i], next_seed = False, next_seed + 1
    return implied


def _are_excluded(rows: NDArray[np.intp], exclude: NDArray[np.intp] | None) -> NDArray[np.bool_]:
    """Return an array that is True for each row that contains both items of an excluded pair, in any order."""
    excluded = np.zeros(len(rows), bool)
    if exclude is None or not len(rows):
        return excluded
    size = int(max(rows.max(), exclude.max())) + 1
    forbidden = np.sort(exclude, axis=1) @ (size, 1)
    for i in range(rows.shape[1]):
        for j in range(i):
            excluded |= np.isin(np.sort(rows[:, [i, j]], axis=1) @ (size, 1), forbidden)
    return excluded
