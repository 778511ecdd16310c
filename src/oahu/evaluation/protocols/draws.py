"""The constraints that a comparison learns from: seeds and what follows from them, Section 4.3.2 of the paper."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import closure, sample_pairs, sample_triplets
from oahu.io.atomic_files import write_atomically

__all__ = ["Draws", "Stream", "draw", "generator_for"]


def generator_for(seed: int, *words: Any) -> np.random.Generator:
    """A generator for one purpose: it depends on nothing but the seed and the words."""
    return np.random.default_rng([seed, *(zlib.crc32(str(word).encode()) for word in words)])


@dataclass(frozen=True, eq=False)
class Stream:
    """Constraints in the order in which they are learned.

    Attributes
    ----------
    rows : ndarray of shape (n, 3) or (n, 2)
        Triplets or pairs of rows.
    same : ndarray of shape (n,), optional
        For pairs, +1 where they are alike, and -1.
    followed : ndarray of shape (n,)
        Which of them follow from the others by transitive closure.
    """

    rows: NDArray[np.intp]
    same: NDArray[np.int64] | None
    followed: NDArray[np.bool_]

    @property
    def n_followed(self) -> int:
        return int(self.followed.sum())

    def __len__(self) -> int:
        return len(self.rows)

    def sample(self, n: int, rng: np.random.Generator) -> Stream:
        """So many of them, drawn uniformly, in the order that they have."""
        kept = np.sort(rng.choice(len(self), n, replace=False))
        return Stream(self.rows[kept], None if self.same is None else self.same[kept], self.followed[kept])


def draw(
    kind: Literal["triplets", "pairs"],
    y: NDArray[Any],
    n: int,
    n_seeds: int,
    rng: np.random.Generator,
    exclude: NDArray[np.intp] | None = None,
) -> Stream:
    """Draw seeds from labels, and as many more by transitive closure as make n constraints.

    A few seeds over many items may imply fewer than that, pairs in particular: what is missing is drawn from the
    labels as the seeds were, and stands behind. A constraint in which two items form a pair of ``exclude`` is drawn
    again; one that follows is replaced by another that does.
    """
    exclude = None if exclude is None or not len(exclude) else exclude
    seeds = _seeds(kind, y, n_seeds, rng, exclude)
    n_more = n - n_seeds
    spare = 0 if exclude is None else n_more // 5
    columns = _columns(closure(seeds, n_more + spare, rng, exact=False))
    followed = _is_not(columns, _columns(seeds))
    kept = ~followed | ~_is_excluded(columns[:, : 3 if kind == "triplets" else 2], exclude)
    surplus = int((followed & kept).sum()) - n_more
    if surplus > 0:
        kept[rng.choice(np.flatnonzero(followed & kept), surplus, replace=False)] = False
    followed, columns = followed[kept], columns[kept]
    if len(columns) < n:
        more = _columns(_seeds(kind, y, n - len(columns), rng, exclude))
        columns = np.concatenate([columns, more])
        followed = np.append(followed, np.zeros(len(more), bool))
    if kind == "triplets":
        return Stream(columns, None, followed)
    return Stream(columns[:, :2], columns[:, 2].astype(np.int64), followed)


class Draws:
    """Draws that several cells share, kept in a folder: each is made once.

    Parameters
    ----------
    folder : path, optional
        Without one, nothing is kept.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def get(
        self,
        kind: Literal["triplets", "pairs"],
        y: NDArray[Any],
        n: int,
        n_seeds: int,
        words: tuple[Any, ...],
        exclude: NDArray[np.intp] | None = None,
    ) -> Stream:
        """What `draw` gives with a generator of its own for these words, the first of which is the seed."""
        path = None if self.folder is None else self.folder / f"{_digest(kind, y, n, n_seeds, words, exclude)}.npz"
        found = None if path is None else _kept(path)
        if found is not None:
            return found
        stream = draw(kind, y, n, n_seeds, generator_for(*words, kind), exclude)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            labels: Any = {} if stream.same is None else {"same": stream.same}
            archive = BytesIO()
            np.savez(archive, rows=stream.rows, followed=stream.followed, **labels)
            write_atomically(path, archive.getvalue())
        return stream


def _kept(path: Path) -> Stream | None:
    """What is in a file; None if it is not there, or damaged."""
    try:
        with path.open("rb") as file, np.load(file) as kept:
            return Stream(kept["rows"], kept.get("same"), kept["followed"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def _digest(kind: str, y: NDArray[Any], n: int, n_seeds: int, words: Any, exclude: Any) -> str:
    digest = hashlib.sha256(json.dumps([kind, n, n_seeds, list(map(str, words)), y.dtype.str, len(y)]).encode())
    digest.update(np.ascontiguousarray(y).tobytes())
    digest.update(b"" if exclude is None else np.ascontiguousarray(exclude).tobytes())
    return digest.hexdigest()[:32]


def _seeds(kind: str, y: NDArray[Any], n: int, rng: np.random.Generator, exclude: Any) -> Any:
    sample = sample_triplets if kind == "triplets" else sample_pairs
    return sample(y, n, rng, exclude=exclude)


def _columns(constraints: Any) -> NDArray[np.intp]:
    """Triplets, or pairs and whether they are alike, as three columns."""
    return np.column_stack(constraints) if isinstance(constraints, tuple) else constraints


def _is_not(stream: NDArray[np.intp], seeds: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which rows of a stream are not the seeds, which stand in it in their order."""
    followed, at = np.ones(len(stream), bool), 0
    for i, row in enumerate(stream.tolist()):
        if at < len(seeds) and row == seeds[at].tolist():
            followed[i], at = False, at + 1
    return followed


def _is_excluded(rows: NDArray[np.intp], exclude: NDArray[np.intp] | None) -> NDArray[np.bool_]:
    """Whether any two items of each row form a pair that is excluded, in either order."""
    excluded = np.zeros(len(rows), bool)
    if exclude is None or not len(rows):
        return excluded
    size = int(max(rows.max(), exclude.max())) + 1
    forbidden = np.sort(exclude, axis=1) @ (size, 1)
    for i in range(rows.shape[1]):
        for j in range(i):
            excluded |= np.isin(np.sort(rows[:, [i, j]], axis=1) @ (size, 1), forbidden)
    return excluded
