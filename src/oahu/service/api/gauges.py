"""Prometheus gauges."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oahu.service.collection import Collection
from oahu.service.service import Service

__all__ = ["Gauges"]

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Gauges:
    """What is measured of a service; what it is, is asked when someone looks."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "oahu_request_seconds",
            "How long requests waited for their answer to begin.",
            ["method", "route", "status"],
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self._registry.register(_State(service))

    def seen(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._seconds.labels(method, route, str(status)).observe(seconds)

    def text(self) -> bytes:
        """All of it, in the format that Prometheus reads."""
        return generate_latest(self._registry)


class _State(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        waiting = GaugeMetricFamily("oahu_store_waiting", "Items and pieces of feedback that wait to be stored.")
        waiting.add_metric([], self._service.store.waiting)
        commits = CounterMetricFamily("oahu_store_commits", "Groups that were committed to disk.")
        commits.add_metric([], self._service.store.n_commits)
        yield waiting
        yield commits
        for name, help_, value in _COUNTERS:
            counter = CounterMetricFamily(name, help_, labels=["collection"])
            for collection in self._service.collections:
                counter.add_metric([collection.config.name], value(collection))
            yield counter
        for name, help_, value in _GAUGES:
            gauge = GaugeMetricFamily(name, help_, labels=["collection"])
            for collection in self._service.collections:
                gauge.add_metric([collection.config.name], value(collection))
            yield gauge


def _candidates_behind(collection: Collection) -> float:
    return float(collection.describe()["candidates"]["constraints_behind"])


_COUNTERS: tuple[tuple[str, str, Callable[[Collection], float]], ...] = (
    ("oahu_feedback_accepted", "Pieces of feedback accepted since the start.", lambda c: c.counts.accepted),
    ("oahu_contradictions", "Requests refused for a contradiction.", lambda c: c.counts.contradictions),
    ("oahu_undone", "Times that feedback was undone or a model restored.", lambda c: c.counts.undone),
    ("oahu_refreshes", "Times that the catalogue was embedded anew.", lambda c: c.counts.refreshes),
    ("oahu_constraints_refused", "Constraints that would have overflowed the model.", lambda c: c.n_refused),
)
_GAUGES: tuple[tuple[str, str, Callable[[Collection], float]], ...] = (
    ("oahu_items", "Items of the catalogue.", lambda c: c.n_items),
    ("oahu_metric_version", "The last entry of the log that is learned.", lambda c: c.published.version),
    ("oahu_constraints_learned", "Constraints that the metric has learned.", lambda c: c.published.constraints),
    ("oahu_feedback_behind", "Entries of the log that are not learned yet.", lambda c: c.behind),
    ("oahu_candidates_behind", "Constraints learned since the catalogue was embedded.", _candidates_behind),
    ("oahu_refresh_seconds", "How long embedding the catalogue last took.", lambda c: c.refresh_seconds),
    ("oahu_healthy", "Whether the collection is open and its learner well.", lambda c: float(c.is_healthy)),
)
