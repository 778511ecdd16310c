"""Analogue retrieval: the items of a catalogue that are most like a query, under a metric that may change."""

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
from oahu.tasks.encoded_items import VOTES, Found, Gallery, Vote, as_metric, counted_from, neighbour_scores
from oahu.tasks.matches import Key, Neighbours, Result, Results
from oahu.tasks.ranking import first_k, ranked

__all__ = ["Retriever"]

Combine = Literal["max", "sum"]

_COMBINE: Final = get_args(Combine)
_BLOCK = 4096  # queries answered at a time
_ROOM = 2**20  # neighbours in each space that are found at a time
_FEW = 1024  # items: not worth making anew
_KEYS: Final = (str, int, np.integer)


@dataclass(frozen=True, eq=False)
class _Catalogue:
    """Everything a search looks at: one value, so that a search sees one state of the retriever.

    Of ``keys``, ``items`` and ``places`` only what is before ``n_added`` belongs to it: later values share and
    extend them. ``places`` holds where the items are that are there, of which there are ``n_present``.
    """

    gallery: Gallery
    keys: list[Key]
    items: NDArray[Any]
    places: dict[Key, int]
    n_added: int
    n_present: int

    def place(self, key: Key) -> int | None:
        """Where an item is, if it is there."""
        place = self.places.get(key)
        return None if place is None or place >= self.n_added else place

    def places_of(self, keys: list[Key]) -> NDArray[np.int64]:
        """Where items are; an error for one that is not there."""
        places = [self.place(key) for key in keys]
        if None in places:
            missing = keys[places.index(None)]
            raise InvalidInputError(
                f"There is no item {shorten(missing)} in the retriever, which has {self.n_present}."
            )
        return np.array(places, np.int64)

    def present(self) -> tuple[list[Key], NDArray[Any]]:
        """The keys and features of the items that are there, in the order in which they were added.

        Only for who is writing: another one would extend ``places`` meanwhile.
        """
        if self.n_present == self.n_added:
            return self.keys[: self.n_added], self.items[: self.n_added]
        there = self.places_there()
        return list(there), self.items[list(there.values())]

    def places_there(self) -> dict[Key, int]:
        """``places``, without what a call that was interrupted left there. Only for who is writing."""
        if len(self.places) == self.n_present:
            return self.places
        return {key: place for key, place in self.places.items() if place < self.n_added}


@storable
class Retriever:
    """Search by likeness: Section 3.6 of the paper, on any metric, which can be changed while searches go on.

    ``vote="experts"`` is the paper's: the k nearest items in each of the L + 1 spaces are candidates and score
    ``exp(-(D - d_min) / (d_max - d_min)) alpha``; the k best distinct ones are the answer. ``vote="joint"`` takes
    the k nearest of one search among the joint vectors.

    Between items that are equally far or score the same, the one that was added first comes first.

    Safe with threads: a search sees the items and the metric as they were when it began, whole.

    Parameters
    ----------
    metric : Metric
        Any metric: ``learner.metric()``, or a loaded one.
    vote : {"experts", "joint"}, default="experts"
    combine : {"max", "sum"}, default="max"
        What an item scores that several experts found: "max", the paper's, its best; "sum", all together.
    approximate : bool, default=False
        Search by a graph instead of exactly: faster among millions of items, and may miss some. Needs the extra
        ``ann``.

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
        vote: Vote = "experts",
        combine: Combine = "max",
        approximate: bool = False,
    ) -> None:
        check_choice(self, "vote", vote, VOTES)
        check_choice(self, "combine", combine, _COMBINE)
        check_choice(self, "approximate", approximate, (True, False))
        self._vote, self._combine, self._approximate = vote, combine, bool(approximate)
        checked = as_metric(metric, self)
        nothing = np.empty((0, checked.n_features), checked.dtype)
        self._state = self._catalogue(checked, [], nothing)
        self._writing = Lock()

    # -- what is in it -----------------------------------------------------------------------------------

    @property
    def metric(self) -> Metric:
        """The metric that searches use now."""
        return self._state.gallery.metric

    @property
    def vote(self) -> Vote:
        """How an ensemble is asked: "experts" or "joint"."""
        return self._vote

    @property
    def combine(self) -> Combine:
        """What an item scores that several experts found: "max" or "sum"."""
        return self._combine

    @property
    def keys(self) -> list[Key]:
        """The keys of all items, in the order in which they were added."""
        with self._writing:
            return self._state.present()[0]

    def contents(self) -> tuple[list[Key], NDArray[Any]]:
        """The keys and the features of all items, in the order in which they were added."""
        with self._writing:
            keys, items = self._state.present()
        return keys, items.copy()

    def __len__(self) -> int:
        return self._state.n_present

    def __contains__(self, key: object) -> bool:
        return _is_key(key) and self._state.place(key) is not None

    def __repr__(self) -> str:
        return f"<retriever of {len(self)} items by version {self.metric.version} of the metric>"

    # -- changing it -------------------------------------------------------------------------------------

    def add(self, keys: Iterable[Key], X: ArrayLike) -> Self:
        """Add items.

        Parameters
        ----------
        keys : sequence of n strings or integers
            Names for the items, none of them there yet.
        X : array-like of shape (n, n_features)
            Kept in the type that the retriever's first metric computes in, float32 if nothing else was asked for.
        """
        with self._writing:
            names, items = self._checked(keys, X)
            there = next((key for key in names if self._state.place(key) is not None), None)
            if there is not None:
                raise InvalidInputError(f"There is an item {shorten(there)} already: update replaces it.")
            self._state = self._extended(self._state, names, items)
        return self

    def update(self, keys: Iterable[Key], X: ArrayLike) -> Self:
        """Replace the features of items that are there. They count as added last."""
        with self._writing:
            names, items = self._checked(keys, X)
            before = self._state
            gone, others = before.places_of(names), _without(before, names)
            after = self._extended(others, names, items)  # before anything is taken out: it may fail
            self._state = replace(after, gallery=after.gallery.remove(gone))
            self._compact()
        return self

    def remove(self, keys: Iterable[Key]) -> Self:
        """Remove items."""
        with self._writing:
            before, names = self._state, _names(keys)
            gone, others = before.places_of(names), _without(before, names)
            self._state = replace(others, gallery=before.gallery.remove(gone))
            self._compact()
        return self

    def set_metric(self, metric: Metric) -> Self:
        """Search by another metric from now on.

        All items are encoded anew, block by block, while searches go on by the old metric; then the new one takes
        over at once. Changes to the items wait until it has.
        """
        checked = as_metric(metric, self)
        if checked.n_features != self.metric.n_features:
            raise InvalidInputError(
                f"The metric is for items of {checked.n_features} features; those in the retriever have "
                f"{self.metric.n_features}."
            )
        with self._writing:
            self._state = self._catalogue(checked, *self._state.present())
        return self

    # -- searching ---------------------------------------------------------------------------------------

    def search(self, x: ArrayLike, k: int = 10, exclude: Key | Iterable[Key] | None = None) -> Result:
        """The k items that are most like a query, best first.

        Parameters
        ----------
        x : array-like of shape (n_features,)
        k : int, default=10
        exclude : key, or collection of keys, optional
            Items that are not to be found, such as the query itself.
        """
        query = as_array(x, "query")
        if query.ndim != 1:
            raise InvalidInputError(
                f"search takes one item of shape (n_features,). Got shape {query.shape} instead: search_batch "
                "takes many."
            )
        return self._search(self._state, query[None], k, [_excluded(exclude)])[0]

    def search_batch(
        self, X: ArrayLike, k: int = 10, exclude: Iterable[Key | Iterable[Key] | None] | None = None
    ) -> Results:
        """The k items that are most like each of many queries.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        k : int, default=10
        exclude : sequence of n keys, None, or collections of keys
            For each query, what is not to be found.
        """
        queries = as_array(X, "queries").copy()  # what is asked of the results later is about these
        if queries.ndim != 2:
            raise InvalidInputError(
                f"search_batch takes items of shape (n, n_features). Got {queries.shape} instead."
            )
        excluded: list[list[Key]] = []
        if exclude is not None:
            if isinstance(exclude, str | bytes | Set) or not isinstance(exclude, Iterable):
                raise InvalidTypeError(
                    f"exclude must be a sequence, with an entry for each query. Got {shorten(exclude)}."
                )
            excluded = [_excluded(out) for out in exclude]
            if len(excluded) != len(queries):
                raise InvalidInputError(
                    f"exclude must say for each of the {len(queries)} queries what is not to be found. "
                    f"Got {len(excluded)} instead."
                )
        return self._search(self._state, queries, k, excluded)

    def similar_to(self, key: Key, k: int = 10) -> Result:
        """The k items that are most like one that is there, without itself."""
        state, names = self._state, _names([key])
        (place,) = state.places_of(names)
        return self._search(state, state.items[place : place + 1], k, [names])[0]

    # -- files -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric, the keys and the items to a file that `oahu.load` reads."""
        model_files.save(self, path)

    def _to_content(self) -> Content:
        with self._writing:
            metric, (keys, items) = self.metric, self._state.present()
        settings = {"vote": self._vote, "combine": self._combine, "approximate": self._approximate}
        names = np.frombuffer(json.dumps(keys).encode(), np.uint8)
        return model_files.with_part(Content(settings, {"keys": names, "items": items}), "metric", metric)

    @classmethod
    def _from_content(cls, content: Content) -> Retriever:
        settings = {name: content.state[name] for name in ("vote", "combine", "approximate")}
        made = cls(model_files.part(content, "metric"), **settings)
        keys = json.loads(content.array("keys", (None,), np.uint8).tobytes())
        items = content.array("items", (len(keys), made.metric.n_features))
        return made.add(keys, items) if keys else made

    def __reduce__(self) -> tuple[Any, ...]:
        settings = (self._vote, self._combine, self._approximate)
        with self._writing:
            return _restored, (type(self), self.metric, settings, *self._state.present())

    # -- inside ------------------------------------------------------------------------------------------

    def _catalogue(self, metric: Metric, keys: list[Key], items: NDArray[Any]) -> _Catalogue:
        gallery = Gallery.empty(metric, self._vote, self._approximate).add(items)
        places = {key: place for place, key in enumerate(keys)}
        return _Catalogue(gallery, keys, items, places, len(keys), len(keys))

    def _extended(self, state: _Catalogue, names: list[Key], items: NDArray[Any]) -> _Catalogue:
        """A state with more items, in memory that it shares with the one before."""
        gallery = state.gallery.add(items)
        begin, end = state.n_added, state.n_added + len(names)
        table = state.items
        if end > len(table):
            table = np.empty((end + end // 2, items.shape[1]), state.items.dtype)
            table[:begin] = state.items[:begin]
        table[begin:end] = items
        places = state.places_there()
        state.keys[begin:] = names
        places.update(zip(names, range(begin, end), strict=True))
        return _Catalogue(gallery, state.keys, table, places, end, state.n_present + len(names))

    def _compact(self) -> None:
        """Make the state anew if its memory is mostly of items that are gone."""
        state = self._state
        if state.n_added > max(_FEW, 2 * state.n_present):
            self._state = self._catalogue(state.gallery.metric, *state.present())

    def _checked(self, keys: Iterable[Key], X: ArrayLike) -> tuple[list[Key], NDArray[Any]]:
        names = _names(keys)
        items = self.metric.check_dense(X)
        if len(names) != len(items):
            raise InvalidInputError(f"Every item needs a key. Got {len(names)} keys for {len(items)} items.")
        return names, items

    def _search(self, state: _Catalogue, queries: NDArray[Any], k: int, exclude: list[list[Key]]) -> Results:
        check_integer(self, "k", k, least=1)
        state.gallery.metric.check_dense(queries)
        found, ahead = _nearest(state, queries, k, exclude)
        if ahead:
            with self._writing:
                state = self._state
                found, _ = _nearest(state, queries, k, exclude)
        gallery = state.gallery
        scores = neighbour_scores(found.distances, gallery.weights)
        positions, totals = ranked(found.positions, scores, k, self._combine == "sum")
        neighbours = Neighbours(gallery.names, found, scores, gallery.metric.measure == "l2")
        return Results(gallery.metric, queries, (state.keys, state.items), neighbours, positions, totals)


def _nearest(state: _Catalogue, queries: NDArray[Any], k: int, exclude: list[list[Key]]) -> tuple[Found, bool]:
    """The k nearest items in every space, and whether any were found that the state does not know yet.

    These are left out. There are some in graphs, which change, while another thread is adding.
    """
    places = [[place for key in keys if (place := state.place(key)) is not None] for keys in exclude]
    excluded = _padded(places, len(queries))
    n_asked = min(k + excluded.shape[1], max(1, state.n_added))
    step = max(1, min(_BLOCK, _ROOM // n_asked))
    parts, ahead = [], False
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        with counted_from(start):
            found = state.gallery.search(queries[rows], n_asked)
        ahead |= bool((found.positions >= state.n_added).any())
        parts.append(first_k(found, k, excluded[rows], state.n_added))
    return Found(*(np.concatenate(part, axis=1) for part in zip(*parts, strict=True))), ahead


def _restored(
    kind: type[Retriever], metric: Metric, settings: tuple[Any, Any, bool], keys: list[Key], items: NDArray[Any]
) -> Retriever:
    made = kind(metric, *settings)
    return made.add(keys, items) if keys else made


def _without(state: _Catalogue, names: list[Key]) -> _Catalogue:
    """A state that does not know some items any more; its gallery still has them."""
    out = set(names)
    places = {key: place for key, place in state.places_there().items() if key not in out}
    return replace(state, places=places, n_present=len(places))


def _is_key(key: object) -> TypeGuard[Key]:
    return isinstance(key, _KEYS) and not isinstance(key, bool)


def _names(keys: Any) -> list[Key]:
    """Keys as a list, checked to be distinct strings or integers."""
    names = _plain(keys)
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise InvalidInputError(f"Keys must be distinct. Got {shorten(twice)} twice.")
    return names


def _excluded(keys: Any) -> list[Key]:
    """What is not to be found: nothing, one key, or some."""
    return [] if keys is None else list(set(_plain([keys] if isinstance(keys, _KEYS) else keys)))


def _plain(keys: Any) -> list[Key]:
    """Keys as a list, checked to be strings or integers."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InvalidTypeError(f"Keys must be a sequence of strings or integers. Got {shorten(keys)} instead.")
    names = list(keys)
    for at, key in enumerate(names):
        if not _is_key(key):
            raise InvalidTypeError(f"A key must be a string or an integer. Got {shorten(key)} at {at} instead.")
    return [
        int(key) if isinstance(key, np.integer) else str(key) if isinstance(key, np.str_) else key for key in names
    ]


def _padded(rows: list[list[int]], n: int) -> NDArray[np.int64]:
    """Rows of different lengths as an array, with -2 where there is nothing; no rows are n empty ones."""
    width = max(map(len, rows), default=0)
    padded = np.full((n, width), -2, np.int64)
    for row, places in enumerate(rows):
        padded[row, : len(places)] = places
    return padded
