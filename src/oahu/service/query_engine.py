"""The searcher: metric and catalogue in, answers out.

Candidates come from the last complete embedding of the catalogue; the live metric ranks them. So a ranking is
always one metric's, the newest, and only which items are candidates can be a little old. In the background the
catalogue is embedded anew and takes over whole.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Lock
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from oahu.index.threads import limit_threads
from oahu.metrics import Metric
from oahu.service.catalogue_index import CatalogueIndex
from oahu.service.feature_store import FeatureStore
from oahu.service.records import Calibration, CatalogueChange, PublishedMetric
from oahu.tasks import Classifier, Comparator, Match, Retriever
from oahu.tasks.indexed_items import AfterBlock, IndexedItems, VoteMode

__all__ = [
    "ClassificationResult",
    "ComparisonResult",
    "Known",
    "QueryEngine",
    "QueryResult",
    "Relation",
    "SearchResult",
]

Relation = Literal["alike", "unlike"]

_NONE: Final = np.empty(0, np.int64)
_FEW: Final = 1024  # items: not worth making anew
_BY_ONE: Final = 2**28  # numbers that one thread passes over: it need not wait for another that comes late


class Known(Protocol):
    """What is known of a query that is an item."""

    def alike(self) -> list[int]:
        """The items that are known to be like it."""
        ...

    def unlike(self, others: list[int]) -> set[int]:
        """Which of some items are known to be unlike it."""
        ...


@dataclass(frozen=True)
class QueryResult:
    """What every answer tells of the metric that gave it."""

    published: PublishedMetric
    candidates: PublishedMetric  # the metric that the catalogue was last embedded with


@dataclass(frozen=True)
class SearchResult(QueryResult):
    """What a search found, best first: each item's key, its match (by number), and what was said of it."""

    matches: tuple[tuple[str, Match, Relation | None], ...]


@dataclass(frozen=True)
class ClassificationResult(QueryResult):
    """How likely each label is, best first; how familiar the item is."""

    labels: tuple[tuple[str, float], ...]
    familiarity: float


@dataclass(frozen=True)
class ComparisonResult(QueryResult):
    """Whether two items are alike."""

    answer: str
    probability: float | None
    vote_share: float
    score: float
    yes_below: float
    no_from: float
    calibrated: bool


class Asking:
    """Counts who is being answered, as a context; what can wait lets them finish. Safe with threads."""

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

    def wait_until_over(self, timeout: float) -> None:
        """Until nobody is being answered, or time runs out."""
        with self._changed:
            self._changed.wait_for(lambda: not self._n, timeout)


class QueryEngine:
    """Answers from a catalogue that changes and a metric that moves. Safe with threads.

    Parameters
    ----------
    published : callable
        The live metric.
    n_candidates : int
        From each space, at least.
    """

    def __init__(
        self,
        vectors: FeatureStore,
        published: Callable[[], PublishedMetric],
        vote: VoteMode,
        n_candidates: int = 50,
    ) -> None:
        self._vectors, self._published, self._vote, self._n_candidates = vectors, published, vote, n_candidates
        self.catalogue = CatalogueIndex.of(published(), vote, vectors.table, [], [])
        self._changes: deque[CatalogueChange] = deque()
        self._changing, self._refreshing = Lock(), Lock()
        self._since: list[CatalogueChange] | None = (
            None  # what changed since the catalogue began to be embedded anew
        )
        self.asking = Asking()
        self._comparator: tuple[int, Calibration | None, Comparator] | None = None
        self.calibration: Calibration | None = None
        self.refresh_seconds = 0.0
        self.refreshed = time.monotonic()

    # -- the catalogue -----------------------------------------------------------------------------------

    def load(self, numbers: list[int], labels: list[str | None]) -> None:
        """Begin with these items."""
        self.catalogue = CatalogueIndex.of(self._published(), self._vote, self._vectors.table, numbers, labels)

    def change(self, change: CatalogueChange) -> None:
        """Items have changed; they will be there when `settle` returns."""
        self._changes.append(change)

    def settle(self) -> None:
        """Take in all changes of the items so far."""
        while self._changes:
            with self._changing:
                if self._changes:
                    change = self._changes.popleft()
                    self._vectors.drop(change.forgotten)
                    self.catalogue = self.catalogue.changed(change, self._vectors.table)
                    if self._since is not None:
                        self._since.append(change)

    def try_out(self, metric: Metric) -> None:
        """`OverflowedItemError` if there is an item that a metric cannot measure."""
        self.settle()
        catalogue = self.catalogue
        numbers, _ = catalogue.present()
        IndexedItems.empty(metric, self._vote).add(catalogue.table.take(numbers))

    @property
    def is_stale(self) -> bool:
        """Whether the catalogue was embedded by an older metric than the live one, or is mostly of items gone."""
        catalogue = self.catalogue
        hollow = len(catalogue.numbers) > max(_FEW, 2 * catalogue.n_items)
        return hollow or catalogue.published.version != self._published().version

    def refresh(self, rest: AfterBlock | None = None) -> None:
        """Embed the catalogue anew, beside the old one, and let it take over whole.

        ``rest`` is as in `IndexedItems.add`.
        """
        with self._refreshing:
            begin = time.monotonic()
            try:
                self.settle()
                since: list[CatalogueChange] = []
                with self._changing:
                    catalogue, self._since = self.catalogue, since
                numbers, labels = catalogue.present()
                fresh = CatalogueIndex.of(self._published(), self._vote, catalogue.table, numbers, labels, rest)
                with self._changing:
                    for change in since:
                        fresh = fresh.changed(change, self._vectors.table)
                    self.catalogue = fresh
            finally:
                with self._changing:
                    self._since = None
                self.refreshed = time.monotonic()
                self.refresh_seconds = self.refreshed - begin

    # -- answers -----------------------------------------------------------------------------------------

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While somebody is being answered: what can wait does, and the learner has a processor to itself."""
        with self.asking, limit_threads(1 + self.catalogue.size // _BY_ONE):
            yield

    def search(
        self,
        query: NDArray[Any],
        k: int,
        live: Callable[[], PublishedMetric],
        label: str | None = None,
        without: int | None = None,
        known: Known | None = None,
        trust: bool = True,
    ) -> SearchResult:
        """The k items most like a query, of a label if one is given.

        The ``live`` metric is asked for when there are candidates that it can rank: till then it may go on
        learning. If ``trust``, those known to be like it come first, and those known to be unlike it last, whatever
        the metric says.
        """
        self.settle()
        catalogue = self.catalogue
        n = max(2 * k, self._n_candidates)
        gallery = catalogue.gallery if label is None else catalogue.with_label(label)
        found, unlike = self._candidates(catalogue, gallery, query, k, n, without, known if trust else None)
        alike = catalogue.there(known.alike(), label) if known else _NONE
        numbers = np.union1d(found, self._nearest(catalogue, query, alike, n)) if trust else found
        published = live()
        if not len(numbers):
            return SearchResult(published, catalogue.published, ())
        ranking = Retriever(published.metric, self._vote).add(numbers.tolist(), catalogue.table.take(numbers))
        if known and not trust:
            unlike = known.unlike(numbers.tolist())
        said: dict[Any, Relation] = {**dict.fromkeys(alike.tolist(), "alike"), **dict.fromkeys(unlike, "unlike")}
        matches = _ranked(ranking, query, k, said if trust else {})
        named = tuple((catalogue.table.name(int(one.key)), one, said.get(one.key)) for one in matches)
        return SearchResult(published, catalogue.published, named)

    def _nearest(
        self, catalogue: CatalogueIndex, query: NDArray[Any], numbers: NDArray[np.int64], n: int
    ) -> NDArray[np.int64]:
        """Some items, or if there are many the nearest of them."""
        if len(numbers) <= n:
            return numbers
        return catalogue.candidates(query[None], n, catalogue.only(numbers), None)

    def _candidates(
        self,
        catalogue: CatalogueIndex,
        gallery: IndexedItems,
        query: NDArray[Any],
        k: int,
        n: int,
        without: int | None,
        known: Known | None,
    ) -> tuple[NDArray[np.int64], set[int]]:
        """Candidates, and which of them are known to be unlike the query: more if too few are not."""
        while True:
            found = catalogue.candidates(query[None], n, gallery, without)
            unlike = known.unlike(found.tolist()) if known else set()
            if len(found) - len(unlike) >= k or n >= len(catalogue.numbers):
                return found, unlike
            n *= 4

    def classify(
        self, query: NDArray[Any], k: int, live: Callable[[], PublishedMetric], without: int | None
    ) -> ClassificationResult:
        """The labels that the nearest labelled items vote for; ``live`` as in `search`."""
        self.settle()
        catalogue = self.catalogue
        gallery = catalogue.with_label(None)
        numbers = catalogue.candidates(query[None], max(2 * k, self._n_candidates), gallery, without)
        published = live()
        if not len(numbers):
            return ClassificationResult(published, catalogue.published, (), 0.0)
        labels = catalogue.labels[catalogue.places[numbers]].astype(str)
        classifier = Classifier(published.metric, k=min(k, len(numbers)), vote=self._vote)
        classifier.fit(catalogue.table.take(numbers), labels)
        shares = classifier.predict_proba(query[None])[0]
        order = np.argsort(-shares, kind="stable")
        votes = tuple((str(classifier.classes_[at]), float(shares[at])) for at in order if shares[at] > 0)
        return ClassificationResult(
            published, catalogue.published, votes, float(classifier.familiarity(query[None])[0])
        )

    def compare(self, first: NDArray[Any], second: NDArray[Any], published: PublishedMetric) -> ComparisonResult:
        """Whether two items are alike, by thresholds for this very metric."""
        comparator = self._comparing(published)
        found = comparator.compare(first, second)
        yes_below, no_from = comparator.thresholds
        calibrated = hasattr(comparator, "yes_below_")
        return ComparisonResult(
            published,
            self.catalogue.published,
            found.answer,
            found.probability,
            found.vote_share,
            found.score,
            yes_below,
            no_from,
            calibrated,
        )

    def _comparing(self, published: PublishedMetric) -> Comparator:
        """A comparator for a metric, calibrated by the pairs that are kept for that."""
        kept, calibration = self._comparator, self.calibration
        if kept is not None and kept[0] == published.version and kept[1] is calibration:
            return kept[2]
        comparator = Comparator(published.metric)
        if calibration is not None:
            try:
                pairs = self._vectors.take([pair[:2] for pair in calibration.pairs])
            except IndexError:  # another calibration took over, and items of this one are gone
                return self._comparing(published)
            comparator.calibrate(pairs, [pair[2] for pair in calibration.pairs], **calibration.target)
        self._comparator = published.version, calibration, comparator
        return comparator


def _ranked(ranking: Retriever, query: NDArray[Any], k: int, said: dict[Any, Relation]) -> list[Match]:
    """The k best: those said to be alike first, then the others, then those said to be unlike.

    How experts vote depends on who is asked about, so each kind is asked about for itself.
    """
    kinds: dict[Relation | None, list[Any]] = {"alike": [], None: [], "unlike": []}
    for key in ranking.keys:
        kinds[said.get(key)].append(key)
    matches: list[Match] = []
    for kind, keys in kinds.items():
        if keys and len(matches) < k:
            others = [key for other in kinds if other != kind for key in kinds[other]]
            matches += ranking.search(query, min(k - len(matches), len(keys)), exclude=others)
    return matches
