"""The Retriever: search for the items that are most similar to a query (called analogue retrieval in the paper)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final, Literal, Self, TypeGuard, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.arrays import as_array
from oahu.exceptions import InvalidInputError, InvalidTypeError
from oahu.io import model_files
from oahu.io.model_files import Content, storable
from oahu.messages import shorten
from oahu.metrics import Metric
from oahu.parameters import check_choice, check_integer
from oahu.tasks.indexed_items import (
    VOTE_MODES,
    IndexedItems,
    SpaceNeighbours,
    VoteMode,
    as_metric,
    neighbour_scores,
    offset_error_rows,
)
from oahu.tasks.matches import Key, RetrievalResult, RetrievalResults
from oahu.tasks.ranking import combine_votes, without_excluded

__all__ = ["Retriever"]

Combine = Literal["max", "sum"]

_COMBINE: Final = get_args(Combine)
_BLOCK = 4096  # queries searched at a time
_MAX_NEIGHBOURS = 2**20  # neighbours per space that are found at a time
_COMPACT_FROM = 1024  # a retriever with fewer positions is never compacted
_KEY_TYPES: Final = (str, int, np.integer)


@dataclass(frozen=True, eq=False)
class _RetrieverState:
    """An immutable snapshot of the retriever. A search uses one snapshot from beginning to end.

    Later snapshots may share ``keys``, ``items`` and ``positions`` with this snapshot and add entries. Only entries
    with a position below ``n_added`` belong to this snapshot. ``positions`` maps the key of each item to its
    position. Removed items are not in ``positions``. ``n_present`` is the number of items that have not been
    removed.
    """

    indexed: IndexedItems
    keys: list[Key]
    items: NDArray[Any]
    positions: dict[Key, int]
    n_added: int
    n_present: int

    def position(self, key: Key) -> int | None:
        """Return the position of the item with this key, or None if there is no such item."""
        position = self.positions.get(key)
        return None if position is None or position >= self.n_added else position

    def positions_of(self, keys: list[Key]) -> NDArray[np.int64]:
        """Return the positions of the items with these keys.

        Raise `InvalidInputError` for a key that does not exist.
        """
        positions = [self.position(key) for key in keys]
        if None in positions:
            missing = keys[positions.index(None)]
            raise InvalidInputError(
                f"The retriever has no item with the key {shorten(missing)}. The retriever has {self.n_present} "
                "items."
            )
        return np.array(positions, np.int64)

    def present(self) -> tuple[list[Key], NDArray[Any]]:
        """Return the keys and features of the items that have not been removed, in the order of addition.

        The caller must hold the write lock, because other writers change ``positions``.
        """
        if self.n_present == self.n_added:
            return self.keys[: self.n_added], self.items[: self.n_added]
        positions = self.valid_positions()
        return list(positions), self.items[list(positions.values())]

    def valid_positions(self) -> dict[Key, int]:
        """Return ``positions`` without entries that an interrupted call of `add` left in the dictionary.

        The caller must hold the write lock.
        """
        if len(self.positions) == self.n_present:
            return self.positions
        return {key: position for key, position in self.positions.items() if position < self.n_added}


@storable
class Retriever:
    """Find the items that are most similar to a query, with any metric. The metric can be replaced at any time.

    ``vote="joint"`` searches the metric's joint vectors, ``metric.transform(X)``. Matches are ordered by the
    metric's distance. A vector database that contains the exported vectors returns the same order.

    ``vote="experts"`` is the vote of Section 3.6 of the paper. Each of the k nearest items in each of the L + 1
    spaces gets the score ``exp(-(D - d_min) / (d_max - d_min)) alpha``. The matches are the k distinct items with
    the highest scores. For an `EnsembleMetric`, the order by score differs from the order by distance: on the
    digits dataset, both orders have the same first ten matches for only about one query in eight. For metrics with
    one space, both orders are the same.

    Items with equal distances or equal scores are ordered by the time of their addition.

    The retriever is thread-safe. If another thread changes the items or the metric during a search, the search does
    not use the change.

    Parameters
    ----------
    metric : Metric
        Any metric, for example ``learner.metric()`` or a metric loaded from a file.
    vote : {"joint", "experts"}, default="joint"
        "joint" searches the joint vectors. "experts" lets each space of the metric vote.
    combine : {"max", "sum"}, default="max"
        How ``vote="experts"`` combines the scores of an item that several experts found. "max" takes the highest
        score, as in the paper. "sum" adds the scores.
    approximate : bool, default=False
        Search a graph of neighbouring items (HNSW) instead of all items. This is faster for millions of items, but
        may miss some neighbours. The optional dependencies ``oahu[ann]`` must be installed.

    Examples
    --------
    >>> from oahu import CosineMetric, Retriever
    >>> teas = Retriever(CosineMetric(2)).add(["black", "green", "mint"], [[1.0, 0.0], [0.9, 0.3], [0.0, 1.0]])
    >>> teas.search([1.0, 0.1], k=2).keys
    ['black', 'green']
    >>> teas.similar_to("mint", k=1)[0].key
    'green'
    """

    def __init__(
        self,
        metric: Metric,
        vote: VoteMode = "joint",
        combine: Combine = "max",
        approximate: bool = False,
    ) -> None:
        check_choice(self, "vote", vote, VOTE_MODES)
        check_choice(self, "combine", combine, _COMBINE)
        check_choice(self, "approximate", approximate, (True, False))
        self._vote, self._combine, self._approximate = vote, combine, bool(approximate)
        checked = as_metric(metric, self)
        no_items = np.empty((0, checked.n_features), checked.dtype)
        self._state = self._new_state(checked, [], no_items)
        self._write_lock = Lock()

    # -- contents ----------------------------------------------------------------------------------------

    @property
    def metric(self) -> Metric:
        """The current metric."""
        return self._state.indexed.metric

    @property
    def vote(self) -> VoteMode:
        """The search mode for a metric with several spaces: "joint" or "experts"."""
        return self._vote

    @property
    def combine(self) -> Combine:
        """The rule that combines the scores of an item that several experts found: "max" or "sum"."""
        return self._combine

    @property
    def keys(self) -> list[Key]:
        """The keys of all items, in the order of addition."""
        with self._write_lock:
            return self._state.present()[0]

    def contents(self) -> tuple[list[Key], NDArray[Any]]:
        """Return the keys and the features of all items, in the order of addition."""
        with self._write_lock:
            keys, items = self._state.present()
        return keys, items.copy()

    def __len__(self) -> int:
        return self._state.n_present

    def __contains__(self, key: object) -> bool:
        return _is_key(key) and self._state.position(key) is not None

    def __repr__(self) -> str:
        return f"<retriever of {len(self)} items with version {self.metric.version} of the metric>"

    # -- changes -----------------------------------------------------------------------------------------

    def add(self, keys: Iterable[Key], X: ArrayLike) -> Self:
        """Add items.

        Parameters
        ----------
        keys : sequence of n strings or integers
            The keys of the items. The retriever must not contain items with these keys yet.
        X : array-like of shape (n, n_features)
            The features of the items. They are stored in the dtype of the metric with which the retriever was
            created, float32 by default.
        """
        with self._write_lock:
            names, items = self._validate(keys, X)
            existing = next((key for key in names if self._state.position(key) is not None), None)
            if existing is not None:
                raise InvalidInputError(
                    f"The retriever already has an item with the key {shorten(existing)}. Use update() to replace "
                    "it."
                )
            self._state = _extended(self._state, names, items)
        return self

    def update(self, keys: Iterable[Key], X: ArrayLike) -> Self:
        """Replace the features of existing items. The items move to the end of the order of addition."""
        with self._write_lock:
            names, items = self._validate(keys, X)
            before = self._state
            replaced, others = before.positions_of(names), _without(before, names)
            after = _extended(others, names, items)  # before the old items are removed, because adding may fail
            self._state = replace(after, indexed=after.indexed.remove(replaced))
            self._compact()
        return self

    def remove(self, keys: Iterable[Key]) -> Self:
        """Remove the items with these keys."""
        with self._write_lock:
            before, names = self._state, _distinct_keys(keys)
            removed, others = before.positions_of(names), _without(before, names)
            self._state = replace(others, indexed=before.indexed.remove(removed))
            self._compact()
        return self

    def set_metric(self, metric: Metric) -> Self:
        """Replace the metric.

        All items are encoded with the new metric, block by block, while searches use the old metric. Then the new
        metric replaces the old metric atomically. Calls of `add`, `update` and `remove` wait until then.
        """
        checked = as_metric(metric, self)
        if checked.n_features != self.metric.n_features:
            raise InvalidInputError(
                f"The metric must accept items with {self.metric.n_features} features, like the items in the "
                f"retriever. Got a metric for {checked.n_features} features instead."
            )
        with self._write_lock:
            self._state = self._new_state(checked, *self._state.present())
        return self

    # -- searching ---------------------------------------------------------------------------------------

    def search(self, x: ArrayLike, k: int = 10, exclude: Key | Iterable[Key] | None = None) -> RetrievalResult:
        """Return the k items that are most similar to a query, best first.

        Parameters
        ----------
        x : array-like of shape (n_features,)
        k : int, default=10
        exclude : key, or collection of keys, optional
            The keys of items to leave out of the result, for example the key of the query itself.
        """
        query = as_array(x, "query")
        if query.ndim != 1:
            raise InvalidInputError(
                f"search() needs one item of shape (n_features,). Got shape {query.shape} instead. Use "
                "search_batch() for many items."
            )
        return self._search(self._state, query[None], k, [_excluded_keys(exclude)])[0]

    def search_batch(
        self, X: ArrayLike, k: int = 10, exclude: Iterable[Key | Iterable[Key] | None] | None = None
    ) -> RetrievalResults:
        """Return the k items that are most similar to each of many queries.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        k : int, default=10
        exclude : sequence of n keys, None, or collections of keys
            For each query, the keys of items to leave out of its result.
        """
        queries = as_array(X, "queries")
        if queries.ndim != 2:
            raise InvalidInputError(
                f"search_batch() needs items of shape (n, n_features). Got shape {queries.shape} instead."
            )
        excluded: list[list[Key]] = []
        if exclude is not None:
            if isinstance(exclude, str | bytes | Set) or not isinstance(exclude, Iterable):
                raise InvalidTypeError(
                    f"exclude= must be a sequence with one entry for each query. Got {shorten(exclude)} instead."
                )
            excluded = [_excluded_keys(keys) for keys in exclude]
            if len(excluded) != len(queries):
                raise InvalidInputError(
                    f"exclude= must have one entry for each of the {len(queries)} queries. "
                    f"Got {len(excluded)} entries instead."
                )
        return self._search(self._state, queries, k, excluded)

    def similar_to(self, key: Key, k: int = 10) -> RetrievalResult:
        """Return the k other items that are most similar to an item of the retriever."""
        state, names = self._state, _distinct_keys([key])
        (position,) = state.positions_of(names)
        return self._search(state, state.items[position : position + 1], k, [names])[0]

    def _search(
        self, state: _RetrieverState, queries: NDArray[Any], k: int, exclude: list[list[Key]]
    ) -> RetrievalResults:
        check_integer(self, "k", k, least=1)
        state.indexed.metric.check_dense(queries)
        parts, outdated = _search_blocks(state, queries, k, exclude, self._combine)
        if outdated:
            with self._write_lock:
                state = self._state
                parts, _ = _search_blocks(state, queries, k, exclude, self._combine)
        if len(parts) == 1:
            return RetrievalResults(state.indexed, state.keys, *parts[0])
        neighbours, positions, distances, scores = zip(*parts, strict=True)
        return RetrievalResults(
            state.indexed,
            state.keys,
            SpaceNeighbours(*(np.concatenate(arrays, axis=1) for arrays in zip(*neighbours, strict=True))),
            np.concatenate(positions),
            np.concatenate(distances),
            None if scores[0] is None else np.concatenate(scores),
        )

    # -- files -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric, the keys and the items to a file that `oahu.load` reads."""
        model_files.save(self, path)

    def _to_content(self) -> Content:
        with self._write_lock:
            metric, (keys, items) = self.metric, self._state.present()
        settings = {"vote": self._vote, "combine": self._combine, "approximate": self._approximate}
        names = np.frombuffer(json.dumps(keys).encode(), np.uint8)
        return model_files.with_nested_model(Content(settings, {"keys": names, "items": items}), "metric", metric)

    @classmethod
    def _from_content(cls, content: Content) -> Retriever:
        settings = {name: content.state[name] for name in ("vote", "combine", "approximate")}
        retriever = cls(model_files.nested_model(content, "metric"), **settings)
        keys = json.loads(content.array("keys", (None,), np.uint8).tobytes())
        items = content.array("items", (len(keys), retriever.metric.n_features))
        return retriever.add(keys, items) if keys else retriever

    def __reduce__(self) -> tuple[Any, ...]:
        settings = (self._vote, self._combine, self._approximate)
        with self._write_lock:
            return _restored, (type(self), self.metric, settings, *self._state.present())

    # -- internals ---------------------------------------------------------------------------------------

    def _new_state(self, metric: Metric, keys: list[Key], items: NDArray[Any]) -> _RetrieverState:
        indexed = IndexedItems.empty(metric, self._vote, self._approximate).add(items)
        positions = {key: position for position, key in enumerate(keys)}
        return _RetrieverState(indexed, keys, items, positions, len(keys), len(keys))

    def _compact(self) -> None:
        """Index the items again if more than half of the positions belong to removed items."""
        state = self._state
        if state.n_added > max(_COMPACT_FROM, 2 * state.n_present):
            self._state = self._new_state(state.indexed.metric, *state.present())

    def _validate(self, keys: Iterable[Key], X: ArrayLike) -> tuple[list[Key], NDArray[Any]]:
        names = _distinct_keys(keys)
        items = self.metric.check_dense(X)
        if len(names) != len(items):
            raise InvalidInputError(f"Every item needs a key. Got {len(names)} keys for {len(items)} items.")
        return names, items


_Ranked = tuple[SpaceNeighbours, NDArray[np.int64], NDArray[np.float64], NDArray[np.float64] | None]


def _search_blocks(
    state: _RetrieverState, queries: NDArray[Any], k: int, exclude: list[list[Key]], combine: Combine
) -> tuple[list[_Ranked], bool]:
    """Search for validated queries, block by block, and rank the matches.

    The first returned value contains the arguments of `RetrievalResults` for each block. The second value is True
    if an approximate index found items that another thread added after ``state`` was created. Such items are left
    out of the results.
    """
    excluded = _padded(
        [[position for key in keys if (position := state.position(key)) is not None] for keys in exclude],
        len(queries),
    )
    n_wanted = min(k + excluded.shape[1], max(1, state.n_added))
    step = max(1, min(_BLOCK, _MAX_NEIGHBOURS // n_wanted))
    parts, outdated = [], False
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        with offset_error_rows(start):
            vectors = state.indexed.encode_queries(queries[rows])
            found = state.indexed.nearest(vectors, n_wanted)
        outdated |= bool((found.positions >= state.n_added).any())
        neighbours = without_excluded(found, k, excluded[rows], state.n_added)
        parts.append(_ranked(state, vectors, neighbours, k, combine))
    return parts, outdated


def _ranked(
    state: _RetrieverState, vectors: list[NDArray[Any]], found: SpaceNeighbours, k: int, combine: Combine
) -> _Ranked:
    """Rank neighbours by distance if there is one space, and by the paper's vote if there are several spaces."""
    if len(found.positions) == 1:
        missing = k - found.positions.shape[2]
        if missing > 0:
            widths = ((0, 0), (0, 0), (0, missing))
            found = SpaceNeighbours(
                np.pad(found.positions, widths, constant_values=-1),
                np.pad(found.distances, widths, constant_values=np.inf),
            )
        return found, found.positions[0], found.distances[0], None
    scores = neighbour_scores(found.distances, state.indexed.weights)
    positions, totals = combine_votes(found.positions, scores, k, combine == "sum")
    return found, positions, state.indexed.combined_distances(vectors, positions, state.items), totals


def _extended(state: _RetrieverState, names: list[Key], items: NDArray[Any]) -> _RetrieverState:
    """Return a state with additional items. The new state shares memory with the given state."""
    indexed = state.indexed.add(items)
    begin, end = state.n_added, state.n_added + len(names)
    table = state.items
    if end > len(table):
        table = np.empty((end + end // 2, items.shape[1]), state.items.dtype)
        table[:begin] = state.items[:begin]
    table[begin:end] = items
    positions = state.valid_positions()
    state.keys[begin:] = names
    positions.update(zip(names, range(begin, end), strict=True))
    return _RetrieverState(indexed, state.keys, table, positions, end, state.n_present + len(names))


def _restored(
    kind: type[Retriever], metric: Metric, settings: tuple[Any, Any, bool], keys: list[Key], items: NDArray[Any]
) -> Retriever:
    retriever = kind(metric, *settings)
    return retriever.add(keys, items) if keys else retriever


def _without(state: _RetrieverState, names: list[Key]) -> _RetrieverState:
    """Return a state without the items with these keys. The vectors of these items stay in the index."""
    removed = set(names)
    positions = {key: position for key, position in state.valid_positions().items() if key not in removed}
    return replace(state, positions=positions, n_present=len(positions))


def _is_key(key: object) -> TypeGuard[Key]:
    return isinstance(key, _KEY_TYPES) and not isinstance(key, bool)


def _distinct_keys(keys: Any) -> list[Key]:
    """Return keys as a list of distinct strings and integers."""
    names = _python_keys(keys)
    if len(set(names)) < len(names):
        duplicate, _ = Counter(names).most_common(1)[0]
        raise InvalidInputError(f"Keys must be distinct. Got {shorten(duplicate)} twice.")
    return names


def _excluded_keys(keys: Any) -> list[Key]:
    """Return a list of keys. The argument is None, a key, or a collection of keys."""
    return [] if keys is None else list(set(_python_keys([keys] if isinstance(keys, _KEY_TYPES) else keys)))


def _python_keys(keys: Any) -> list[Key]:
    """Return keys as a list of Python strings and integers."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InvalidTypeError(f"Keys must be a sequence of strings or integers. Got {shorten(keys)} instead.")
    names = list(keys)
    for index, key in enumerate(names):
        if not _is_key(key):
            raise InvalidTypeError(
                f"A key must be a string or an integer. Got {shorten(key)} at index {index} instead."
            )
    return [
        int(key) if isinstance(key, np.integer) else str(key) if isinstance(key, np.str_) else key for key in names
    ]


def _padded(rows: list[list[int]], n: int) -> NDArray[np.int64]:
    """Return rows of different lengths as an array of n rows, padded with -2.

    If there are fewer than n rows, the remaining rows of the array contain only -2.
    """
    width = max(map(len, rows), default=0)
    padded = np.full((n, width), -2, np.int64)
    for row, positions in zip(padded, rows, strict=False):
        row[: len(positions)] = positions
    return padded
