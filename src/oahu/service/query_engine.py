"""The query engine: searches, classifies and compares items with the newest metric.

A search has two steps. First, it takes candidates from an index of the catalogue. The index was encoded with a
recent metric, which is not always the newest metric. Then the search ranks the candidates with the newest metric.
Only the choice of candidates can therefore be outdated, never the ranking. From time to time, a background thread
encodes the catalogue again and replaces the index.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from threading import Condition, Lock
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError, NotFittedError, OverflowedItemError
from oahu.index.threads import limit_threads
from oahu.metrics import Metric
from oahu.service.catalogue import Catalogue
from oahu.service.catalogue_index import CatalogueIndex
from oahu.service.errors import ConflictError, InvalidRequestError, NotFoundError
from oahu.service.filters import Filter
from oahu.service.records import Calibration, CatalogueChange, PublishedMetric
from oahu.tasks import Classifier, Comparator, Match, Retriever
from oahu.tasks.indexed_items import AfterBlock, IndexedItems, VoteMode

__all__ = [
    "ClassificationResult",
    "ComparisonResult",
    "FeedbackRelations",
    "MetricSource",
    "QueryEngine",
    "QueryResult",
    "RankedItem",
    "Relation",
    "SearchQuery",
    "SearchResult",
]

#: The relation between an item and the query according to feedback.
Relation = Literal["similar", "dissimilar"]

_NO_ITEMS: Final = np.empty(0, np.int64)
_MIN_POSITIONS: Final = 1024  # smaller indexes are not rebuilt to remove masked items
_PER_THREAD: Final = 2**28  # vector components per thread; a second thread is used only for more components


class MetricSource(Protocol):
    """The interface from which the query engine gets metrics."""

    @property
    def published(self) -> PublishedMetric:
        """The newest metric."""
        ...

    def request(self, seq: int) -> None:
        """Request a metric that has learned the log up to ``seq``."""
        ...

    def wait_for(self, seq: int, timeout: float) -> PublishedMetric:
        """Wait up to ``timeout`` seconds until the log is learned up to ``seq``. Return the newest metric."""
        ...


class FeedbackRelations(Protocol):
    """The interface to look up similar and dissimilar items according to feedback."""

    @property
    def last_seq(self) -> int:
        """The last sequence number of the log."""
        ...

    def similar_to(self, number: int) -> list[int]:
        """Return the items that are similar to an item."""
        ...

    def dissimilar(self, number: int, others: Iterable[int]) -> set[int]:
        """Return the items in ``others`` that are dissimilar to an item."""
        ...


@dataclass(frozen=True)
class QueryResult:
    """The base class of the results of queries, with the metrics that were used.

    Attributes
    ----------
    published : PublishedMetric
        The metric that ranked the items.
    candidates : PublishedMetric
        The metric that encoded the index from which the candidates were taken.
    """

    published: PublishedMetric
    candidates: PublishedMetric


class RankedItem(NamedTuple):
    """One result of a search.

    Attributes
    ----------
    match : Match
        The score, the distance and the similarity of the item. ``match.key`` is the item number, not the key of the
        item.
    relation : {"similar", "dissimilar"} or None
        The relation between the item and the query according to feedback. None if there is no feedback about them.
    """

    key: str
    match: Match
    relation: Relation | None


@dataclass(frozen=True)
class SearchResult(QueryResult):
    """The results of a search, best first."""

    matches: tuple[RankedItem, ...]


@dataclass(frozen=True)
class ClassificationResult(QueryResult):
    """The labels with their shares of the votes, largest share first, and the familiarity of the query.

    The familiarity is defined in `Classifier.familiarity`.
    """

    labels: tuple[tuple[str, float], ...]
    familiarity: float


@dataclass(frozen=True)
class ComparisonResult(QueryResult):
    """The answer whether two items are similar.

    Attributes
    ----------
    warnings : tuple of str
        The warnings of the calibration.
    """

    answer: str
    probability: float | None
    vote_share: float
    score: float
    yes_below: float
    no_from: float
    calibrated: bool
    warnings: tuple[str, ...]


class SearchQuery(NamedTuple):
    """A search.

    Attributes
    ----------
    query : str or ndarray
        The key of an item in the catalogue, or the features of any item.
    k : int
        The number of results.
    label : str or None
        Only return items with this label.
    use_feedback : bool
        Whether to use feedback about the query in the ranking. If True, items that are similar to the query
        according to feedback are ranked first. Items that are dissimilar according to feedback are ranked last.
    filter : Filter or None
        Only return items whose payloads match this filter.
    """

    query: str | NDArray[Any]
    k: int
    label: str | None = None
    use_feedback: bool = True
    filter: Filter | None = None


@dataclass(frozen=True, eq=False)
class _Selection:
    """The items that a search may return: all items, or those with a label, or those that match a filter.

    Attributes
    ----------
    numbers : ndarray or None
        The sorted item numbers. None if there is no filter on payloads.
    """

    index: CatalogueIndex
    label: str | None
    numbers: NDArray[np.int64] | None

    @cached_property
    def gallery(self) -> IndexedItems:
        """The encoded items."""
        if self.numbers is not None:
            return self.index.only(self.numbers)
        return self.index.gallery if self.label is None else self.index.with_label(self.label)

    def similar(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Return those of the given items that a search may return."""
        existing = self.index.existing(numbers, self.label)
        return existing if self.numbers is None else np.intersect1d(existing, self.numbers)


class _ActiveQueries:
    """A thread-safe context manager that counts running queries."""

    def __init__(self) -> None:
        self._n, self._changed = 0, Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._n += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._n -= 1
            if not self._n:
                self._changed.notify_all()

    def wait_until_none(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds until no query is running."""
        with self._changed:
            self._changed.wait_for(lambda: not self._n, timeout)


class QueryEngine:
    """A thread-safe query engine. It answers queries while the catalogue changes and the metric is trained.

    Parameters
    ----------
    vote : {"experts", "joint"}
        The ranking rule for a metric with several spaces. See `Retriever`.
    n_candidates : int
        Minimum number of candidates that a search takes from each space.
    fresh_wait : float
        Maximum time in seconds that a query waits until the learner has learned all earlier feedback.

    Attributes
    ----------
    index : CatalogueIndex
        The current index. `apply_changes` updates the index after changes of the catalogue.
    calibration : Calibration or None
        The labelled pairs from which `compare` chooses the thresholds for every new metric.
    refresh_seconds : float
        Duration of the last `refresh` in seconds.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        relations: FeedbackRelations,
        metrics: MetricSource,
        vote: VoteMode,
        n_candidates: int = 50,
        fresh_wait: float = 0.1,
    ) -> None:
        self._catalogue, self._relations, self._metrics, self._vote = catalogue, relations, metrics, vote
        self._n_candidates, self._fresh_wait = n_candidates, fresh_wait
        self.index = CatalogueIndex.build(metrics.published, vote, catalogue.features.table, [], [])
        self._pending: deque[CatalogueChange] = deque()
        self._changing, self._refreshing = Lock(), Lock()
        self._since_refresh: list[CatalogueChange] | None = None  # changes during a refresh
        self.active = _ActiveQueries()
        self._comparator: tuple[int, Calibration | None, Comparator] | None = None
        self.calibration: Calibration | None = None
        self.refresh_seconds = 0.0
        self._has_new_vote = False
        self._refreshed = time.monotonic()

    # -- the index ---------------------------------------------------------------------------------------

    def load(self) -> None:
        """Encode all items of the catalogue and build the index."""
        numbers, labels = self._catalogue.all_items()
        table = self._catalogue.features.table
        self.index = CatalogueIndex.build(self._metrics.published, self._vote, table, numbers, labels)

    def add_change(self, change: CatalogueChange) -> None:
        """Queue a change of the catalogue for `apply_changes`."""
        self._pending.append(change)

    def apply_changes(self) -> None:
        """Apply all queued changes of the catalogue to the index. Every query calls this method first."""
        while self._pending:
            with self._changing:
                if self._pending:
                    self._apply(self._pending[0])

    def _apply(self, change: CatalogueChange) -> None:
        try:
            self._catalogue.features.drop(change.purged)
            self.index = self.index.changed(change, self._catalogue.features.table)
            self._catalogue.payload_index.apply(change)
            if self._since_refresh is not None:
                self._since_refresh.append(change)
        finally:
            self._pending.popleft()  # only now, because a concurrent query must wait until the index has the change

    def check_metric(self, metric: Metric) -> None:
        """Raise `InvalidRequestError` if a metric cannot encode every item of the catalogue."""
        self.apply_changes()
        index = self.index
        numbers, _ = index.items()
        with _overflow_as_invalid_request():
            IndexedItems.empty(metric, self._vote).add(index.table.take(numbers))

    def set_vote(self, vote: VoteMode) -> None:
        """Change the ranking rule. The index is built again at the next refresh."""
        self._vote, self._has_new_vote = vote, True

    def needs_refresh(self, interval: float) -> bool:
        """Return whether the index is outdated and the last refresh is at least ``interval`` seconds old."""
        return time.monotonic() >= self._refreshed + interval and self.is_outdated

    @property
    def is_outdated(self) -> bool:
        """Whether the index was encoded with an older metric than the newest, or most of its items were removed."""
        index = self.index
        mostly_removed = len(index.numbers) > max(_MIN_POSITIONS, 2 * index.n_items)
        return mostly_removed or self._has_new_vote or index.published.version != self._metrics.published.version

    def refresh(self, after_block: AfterBlock | None = None) -> None:
        """Encode the catalogue with the newest metric and replace the index.

        During the refresh, queries use the old index. ``after_block`` is passed to `IndexedItems.add`.
        """
        with self._refreshing:
            begin = time.monotonic()
            try:
                self.apply_changes()
                self._has_new_vote = False
                since: list[CatalogueChange] = []
                with self._changing:
                    index, self._since_refresh = self.index, since
                numbers, labels = index.items()
                fresh = CatalogueIndex.build(
                    self._metrics.published, self._vote, index.table, numbers, labels, after_block
                )
                with self._changing:
                    for change in since:
                        fresh = fresh.changed(change, self._catalogue.features.table)
                    self.index = fresh
            finally:
                with self._changing:
                    self._since_refresh = None
                self._refreshed = time.monotonic()
                self.refresh_seconds = self._refreshed - begin

    # -- queries -----------------------------------------------------------------------------------------

    def search(
        self,
        query: str | NDArray[Any],
        k: int,
        label: str | None = None,
        use_feedback: bool = True,
        filter_: Filter | None = None,
    ) -> SearchResult:
        """Return the k items that are most similar to the query. The query item itself is excluded.

        The parameters are the fields of `SearchQuery`.
        """
        search = SearchQuery(query, k, label, use_feedback, filter_)
        return self._search_all([search], [self._resolve(query)])[0]

    def search_many(self, searches: Sequence[SearchQuery]) -> list[SearchResult]:
        """Return the results of several searches. All searches use the same metric.

        If an item does not exist, the error contains the index of the search as ``at``.
        """
        return self._search_all(searches, [self._resolve_at(at, one.query) for at, one in enumerate(searches)])

    def _search_all(
        self, searches: Sequence[SearchQuery], resolved: Sequence[tuple[NDArray[Any], int | None]]
    ) -> list[SearchResult]:
        """Return the results of searches, given the features and the item number of each query."""
        fresh_metric, selections = cache(self._request_fresh_metric()), dict[str, _Selection]()
        with self._answering():
            self.apply_changes()
            index, results = self.index, list[SearchResult]()
            for search, (vector, number) in zip(searches, resolved, strict=True):
                name = repr((search.label, search.filter))  # by text, because 1 == True in Python
                if name not in selections:
                    selections[name] = self._select(index, search.label, search.filter)
                results.append(self._search(selections[name], search, vector, number, fresh_metric))
        return results

    def classify(self, query: str | NDArray[Any], k: int) -> ClassificationResult:
        """Return the share of each label in the votes of the k nearest labelled items.

        The query item itself has no vote.
        """
        vector, number = self._resolve(query)
        fresh_metric = self._request_fresh_metric()
        with self._answering():
            return self._classify(vector, number, k, fresh_metric)

    def compare(self, first: str | NDArray[Any], second: str | NDArray[Any]) -> ComparisonResult:
        """Return whether two items are similar. The thresholds are calibrated for the newest metric."""
        (one, _), (two, _) = self._resolve(first), self._resolve(second)
        published = self._request_fresh_metric()()
        try:
            with _overflow_as_invalid_request():
                return self._compare(one, two, published)
        except NotFittedError as error:
            raise ConflictError(f"{error} To calibrate, send labelled pairs to the calibrate operation.") from error

    def check_calibration(self, pairs: Sequence[tuple[str, str, bool]], target: dict[str, Any]) -> list[str]:
        """Return the warnings of a calibration with the newest metric.

        Raise `InvalidRequestError` if no threshold can be chosen from the pairs.
        """
        vectors = self._catalogue.vectors({key for pair in pairs for key in pair[:2]})
        values = np.array([[vectors[first][1], vectors[second][1]] for first, second, _ in pairs])
        try:
            comparator = Comparator(self._metrics.published.metric)
            return comparator.calibrate(values, [same for _, _, same in pairs], **target).calibration_warnings_
        except InvalidInputError as error:
            raise InvalidRequestError(str(error)) from error

    def _resolve(self, query: str | NDArray[Any]) -> tuple[NDArray[Any], int | None]:
        """Return the features and the item number of a query.

        The item number is None if the query is neither a key nor a vector in the feedback log.
        """
        if not isinstance(query, str):
            return query, self._catalogue.find_vector(query)
        number, vector = self._catalogue.vectors([query])[query]
        return vector, number

    def _resolve_at(self, at: int, query: str | NDArray[Any]) -> tuple[NDArray[Any], int | None]:
        """Return the features and the item number of the query of one search in a batch."""
        try:
            return self._resolve(query)
        except NotFoundError as error:
            raise NotFoundError(f"searches/{at}: {error}", **{**error.more, "at": at}) from error

    def _request_fresh_metric(self) -> Callable[[], PublishedMetric]:
        """Request a metric that has learned all earlier feedback. Return a function that waits for this metric."""
        last_seq, deadline = self._relations.last_seq, time.monotonic() + self._fresh_wait
        if self._fresh_wait > 0:
            self._metrics.request(last_seq)
        return lambda: self._metrics.wait_for(last_seq, deadline - time.monotonic())

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Count a query as active inside the ``with`` block.

        The number of threads depends on the size of the index. A query in a small index does not use all threads,
        because the learner also needs a processor.
        """
        with self.active, limit_threads(1 + self.index.size // _PER_THREAD), _overflow_as_invalid_request():
            yield

    def _select(self, index: CatalogueIndex, label: str | None, filter_: Filter | None) -> _Selection:
        """Return the items that a search may return."""
        if filter_ is None:
            return _Selection(index, label, None)
        return _Selection(index, label, index.matching(self._catalogue.payload_index.matching(filter_), label))

    def _search(
        self,
        selection: _Selection,
        search: SearchQuery,
        vector: NDArray[Any],
        number: int | None,
        fresh_metric: Callable[[], PublishedMetric],
    ) -> SearchResult:
        index, k, use_feedback = selection.index, search.k, search.use_feedback
        n = max(2 * k, self._n_candidates)
        found, dissimilar = self._candidates(selection, vector, k, n, number, use_feedback)
        similar = _NO_ITEMS if number is None else selection.similar(self._relations.similar_to(number))
        numbers = np.union1d(found, self._nearest(index, vector, similar, n)) if use_feedback else found
        published = fresh_metric()  # only now, so that the learner could work while the candidates were collected
        if not len(numbers):
            return SearchResult(published, index.published, ())
        ranking = Retriever(published.metric, self._vote).add(numbers.tolist(), index.table.take(numbers))
        if number is not None and not use_feedback:
            dissimilar = self._relations.dissimilar(number, numbers.tolist())
        relations: dict[Any, Relation] = {
            **dict.fromkeys(similar.tolist(), "similar"),
            **dict.fromkeys(dissimilar, "dissimilar"),
        }
        matches = _ranked(ranking, vector, k, relations if use_feedback else {})
        ranked = (RankedItem(index.table.key(int(one.key)), one, relations.get(one.key)) for one in matches)
        return SearchResult(published, index.published, tuple(ranked))

    def _candidates(
        self,
        selection: _Selection,
        vector: NDArray[Any],
        k: int,
        n: int,
        number: int | None,
        use_feedback: bool,
    ) -> tuple[NDArray[np.int64], set[int]]:
        """Return the item numbers of the candidates, and the subset that is dissimilar according to feedback.

        If the index contains enough items, at least k candidates are not dissimilar.
        """
        while True:
            if selection.numbers is not None and len(selection.numbers) <= n:
                found = selection.numbers[selection.numbers != number]
            else:
                found = selection.index.candidates(vector[None], n, selection.gallery, number)
            dissimilar: set[int] = set()
            if number is not None and use_feedback:
                dissimilar = self._relations.dissimilar(number, found.tolist())
            if len(found) - len(dissimilar) >= k or n >= len(selection.index.numbers):
                return found, dissimilar
            n *= 4

    def _nearest(
        self, index: CatalogueIndex, vector: NDArray[Any], numbers: NDArray[np.int64], n: int
    ) -> NDArray[np.int64]:
        """Return the given item numbers.

        If there are more than n items, return only the n nearest items in each space.
        """
        if len(numbers) <= n:
            return numbers
        return index.candidates(vector[None], n, index.only(numbers), None)

    def _classify(
        self, vector: NDArray[Any], number: int | None, k: int, fresh_metric: Callable[[], PublishedMetric]
    ) -> ClassificationResult:
        self.apply_changes()
        index = self.index
        numbers = index.candidates(vector[None], max(2 * k, self._n_candidates), index.with_label(None), number)
        published = fresh_metric()
        if not len(numbers):
            return ClassificationResult(published, index.published, (), 0.0)
        labels = index.labels[index.positions[numbers]].astype(str)
        classifier = Classifier(published.metric, k=min(k, len(numbers)), vote=self._vote)
        classifier.fit(index.table.take(numbers), labels)
        found = classifier.votes(vector[None])
        shares = found.shares[0]
        order = np.argsort(-shares, kind="stable")
        votes = tuple((str(classifier.classes_[at]), float(shares[at])) for at in order if shares[at] > 0)
        return ClassificationResult(published, index.published, votes, float(found.familiarity[0]))

    def _compare(self, first: NDArray[Any], second: NDArray[Any], published: PublishedMetric) -> ComparisonResult:
        comparator = self._calibrated_comparator(published)
        found = comparator.compare(first, second)
        yes_below, no_from = comparator.thresholds
        return ComparisonResult(
            published,
            self.index.published,
            found.answer,
            found.probability,
            found.vote_share,
            found.score,
            yes_below,
            no_from,
            calibrated=hasattr(comparator, "yes_below_"),
            warnings=tuple(getattr(comparator, "calibration_warnings_", ())),
        )

    def _calibrated_comparator(self, published: PublishedMetric) -> Comparator:
        """Return a comparator for a metric, calibrated with the stored pairs. The last comparator is cached."""
        cached, calibration = self._comparator, self.calibration
        if cached is not None and cached[0] == published.version and cached[1] is calibration:
            return cached[2]
        comparator = Comparator(published.metric)
        if calibration is not None:
            try:
                pairs = self._catalogue.features.take([pair[:2] for pair in calibration.pairs])
            except IndexError:  # a new calibration replaced this one, and the features of its items were deleted
                return self._calibrated_comparator(published)
            comparator.calibrate(pairs, [pair[2] for pair in calibration.pairs], **calibration.target)
        self._comparator = published.version, calibration, comparator
        return comparator


def _ranked(ranking: Retriever, vector: NDArray[Any], k: int, relations: dict[Any, Relation]) -> list[Match]:
    """Return the k best items: similar items first, then items without a relation, then dissimilar items.

    Each of these three groups is ranked separately, because the votes of experts depend on the set of items.
    """
    groups: dict[Relation | None, list[Any]] = {"similar": [], None: [], "dissimilar": []}
    for key in ranking.keys:
        groups[relations.get(key)].append(key)
    matches: list[Match] = []
    for relation, keys in groups.items():
        if keys and len(matches) < k:
            others = [key for other in groups if other != relation for key in groups[other]]
            matches += ranking.search(vector, min(k - len(matches), len(keys)), exclude=others)
    return matches


@contextmanager
def _overflow_as_invalid_request() -> Iterator[None]:
    """Raise `InvalidRequestError` instead of `OverflowedItemError` inside the ``with`` block."""
    try:
        yield
    except OverflowedItemError as error:
        raise InvalidRequestError(str(error)) from error
