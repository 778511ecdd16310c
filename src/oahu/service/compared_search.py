"""Searches with the learned metric, with the unlearned metric, or with both interleaved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

import numpy as np

from oahu.metrics import Metric
from oahu.service.catalogue import Catalogue
from oahu.service.outcomes import Sides
from oahu.service.query_engine import FeedbackRelations, MetricSource, QueryEngine, SearchResult
from oahu.service.records import CatalogueChange, PublishedMetric
from oahu.tasks.indexed_items import VoteMode
from oahu.tasks.interleaving import team_draft

__all__ = ["ComparedSearch", "ShownResult"]

_MAX_SHOWN = 100  # results of which the sides are remembered


class ShownResult(NamedTuple):
    """The result of a search, and which ranking contributed the items. See `ShownList`."""

    result: SearchResult
    sides: Sides | None
    is_learned: bool


class _FixedMetric:
    """A metric source with one metric. It waits for the learner, so that all searches wait for earlier feedback."""

    def __init__(self, metric: Metric, learned: MetricSource) -> None:
        self.published = PublishedMetric(metric, 0, 0, None, 0.0)
        self._learned = learned

    def request(self, seq: int) -> None:
        """Request that the learner learns the log up to ``seq``."""
        self._learned.request(seq)

    def wait_for(self, seq: int, timeout: float) -> PublishedMetric:
        """Wait up to ``timeout`` seconds until the log is learned up to ``seq``. Return the one metric."""
        self._learned.wait_for(seq, timeout)
        return self.published


class ComparedSearch:
    """Chooses the ranking of each search, and interleaves the learned and the unlearned ranking.

    The unlearned ranking needs an index of its own. The index is built for the first search that needs it.

    Parameters
    ----------
    learned : QueryEngine
        The query engine with the metric of the learner.
    run_serially : callable
        A function that runs a function between two commands of the store, so that no change of the catalogue is
        missed or applied twice.
    """

    def __init__(
        self,
        learned: QueryEngine,
        catalogue: Catalogue,
        relations: FeedbackRelations,
        metrics: MetricSource,
        n_candidates: int,
        fresh_wait: float,
        run_serially: Callable[[Callable[[], None]], None],
    ) -> None:
        self._learned, self._catalogue, self._relations, self._metrics = learned, catalogue, relations, metrics
        self._n_candidates, self._fresh_wait, self._run_serially = n_candidates, fresh_wait, run_serially
        self._unlearned: QueryEngine | None = None
        self._building, self._drawing = Lock(), Lock()
        self._rng = np.random.default_rng()

    def add_change(self, change: CatalogueChange) -> None:
        """Queue a change of the catalogue for the index of the unlearned ranking."""
        if self._unlearned is not None:
            self._unlearned.add_change(change)

    def forget_unlearned(self) -> None:
        """Drop the unlearned ranking after a change of settings. The next search that needs it builds it again."""
        self._unlearned = None

    def search(
        self,
        run: Callable[[QueryEngine], SearchResult],
        k: int,
        share: float,
        factor: float,
        unlearned: Metric,
        vote: VoteMode,
    ) -> ShownResult:
        """Return the results of a search.

        Parameters
        ----------
        run : callable
            Runs the search with the given query engine.
        share : float
            The probability that the search is interleaved.
        factor : float
            1 if other searches use the learned metric, 0 if they use the unlearned metric.
        """
        with self._drawing:
            is_interleaved = share > 0 and k > 1 and self._rng.random() < share
        if not is_interleaved and factor:
            return ShownResult(run(self._learned), None, True)
        others = self._with_learned_version(run(self._unlearned_engine(unlearned, vote)))
        return (
            self._interleaved(run(self._learned), others, k) if is_interleaved else ShownResult(others, None, False)
        )

    def _interleaved(self, learned: SearchResult, unlearned: SearchResult, k: int) -> ShownResult:
        first, second = ([match.key for match in result.matches] for result in (learned, unlearned))
        with self._drawing:
            drafted = team_draft(first, second, k, self._rng)
        shown = drafted.items[:_MAX_SHOWN]
        drafted_shown = drafted._replace(items=shown, from_first=drafted.from_first[:_MAX_SHOWN])
        sides = Sides.of(drafted_shown, first, second, len(shown) // 2)
        by_key = {match.key: match for match in (*unlearned.matches, *learned.matches)}
        matches = tuple(by_key[key] for key in drafted.items)
        return ShownResult(replace(learned, matches=matches), sides, True)

    def _with_learned_version(self, result: SearchResult) -> SearchResult:
        """Return a result of the unlearned ranking with the version of what the learner has learned."""
        newest = replace(self._metrics.published, metric=result.published.metric)
        return replace(result, published=newest, candidates=newest)

    def _unlearned_engine(self, metric: Metric, vote: VoteMode) -> QueryEngine:
        engine = self._unlearned
        if engine is None:
            with self._building:
                if self._unlearned is None:
                    self._run_serially(lambda: self._build(metric, vote))
                engine = self._unlearned
        assert engine is not None
        return engine

    def _build(self, metric: Metric, vote: VoteMode) -> None:
        metrics = _FixedMetric(metric, self._metrics)
        engine = QueryEngine(self._catalogue, self._relations, metrics, vote, self._n_candidates, self._fresh_wait)
        engine.load()
        self._unlearned = engine
