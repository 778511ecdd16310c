"""Metrics for Prometheus."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oahu.service.collection import Collection
from oahu.service.service import Service

__all__ = ["PrometheusMetrics"]

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class PrometheusMetrics:
    """The Prometheus metrics: request latencies, and the current state of the service."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._request_seconds = Histogram(
            "oahu_request_seconds",
            "Time in seconds until the response started.",
            ["method", "route", "status"],
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self._registry.register(_ServiceCollector(service))

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record one request."""
        self._request_seconds.labels(method, route, str(status)).observe(seconds)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _ServiceCollector(Collector):
    """A collector that reads the state of the store and of the collections when Prometheus requests the metrics."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        write_queue = GaugeMetricFamily(
            "oahu_write_queue", "Number of items and feedback records in the write queue."
        )
        write_queue.add_metric([], self._service.store.queue_weight)
        commits = CounterMetricFamily("oahu_store_commits", "Number of group commits to disk.")
        commits.add_metric([], self._service.store.n_commits)
        yield write_queue
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


def _pending_feedback(collection: Collection) -> float:
    return float(collection.describe()["pending_feedback"])


def _candidates_behind(collection: Collection) -> float:
    return float(collection.describe()["candidates"]["constraints_behind"])


def _comparison(collection: Collection, name: str, field: str = "value") -> float:
    """Return an estimate of the comparison in the report, or NaN if there is not enough feedback."""
    found = collection.report().everything.comparison
    return math.nan if found is None else float(getattr(getattr(found, name), field))


_COUNTERS: tuple[tuple[str, str, Callable[[Collection], float]], ...] = (
    ("oahu_feedback_accepted", "Number of feedback records accepted since the start.", lambda c: c.counts.accepted),
    (
        "oahu_contradictions",
        "Number of requests rejected because of a contradiction.",
        lambda c: c.counts.contradictions,
    ),
    (
        "oahu_feedback_refused",
        "Number of feedback records refused because of a contradiction, in requests with other accepted records.",
        lambda c: c.counts.refused,
    ),
    ("oahu_undone", "Number of undo, restore and model upload operations.", lambda c: c.counts.undone),
    ("oahu_refreshes", "Number of times that the whole catalogue was encoded again.", lambda c: c.counts.refreshes),
    (
        "oahu_constraints_rejected",
        "Number of constraints that were not learned because they would overflow the model.",
        lambda c: c.learner.n_rejected,
    ),
)
_GAUGES: tuple[tuple[str, str, Callable[[Collection], float]], ...] = (
    ("oahu_items", "Number of items in the catalogue.", lambda c: c.queries.index.n_items),
    ("oahu_metric_version", "Sequence number of the last learned log entry.", lambda c: c.published.version),
    ("oahu_constraints_learned", "Number of learned constraints.", lambda c: c.published.constraints),
    ("oahu_feedback_pending", "Number of log entries that are not learned yet.", _pending_feedback),
    (
        "oahu_candidates_behind",
        "Number of constraints learned since the catalogue was encoded.",
        _candidates_behind,
    ),
    (
        "oahu_refresh_seconds",
        "Duration of the last encoding of the catalogue in seconds.",
        lambda c: c.queries.refresh_seconds,
    ),
    (
        "oahu_precision_before",
        "Precision of the unlearned ranking in interleaved searches. NaN without enough feedback.",
        lambda c: _comparison(c, "precision_before"),
    ),
    (
        "oahu_precision_now",
        "Precision of the learned ranking in interleaved searches. NaN without enough feedback.",
        lambda c: _comparison(c, "precision_now"),
    ),
    (
        "oahu_improvement",
        "Improvement of the precision by learning. NaN without enough feedback.",
        lambda c: _comparison(c, "improvement"),
    ),
    (
        "oahu_improvement_low",
        "Lower end of the 95 % confidence interval of the improvement.",
        lambda c: _comparison(c, "improvement", "low"),
    ),
    (
        "oahu_improvement_high",
        "Upper end of the 95 % confidence interval of the improvement.",
        lambda c: _comparison(c, "improvement", "high"),
    ),
    (
        "oahu_wins_learned",
        "Number of queries that the learned ranking won in interleaved searches.",
        lambda c: _comparison(c, "wins", "learned"),
    ),
    (
        "oahu_wins_unlearned",
        "Number of queries that the unlearned ranking won in interleaved searches.",
        lambda c: _comparison(c, "wins", "unlearned"),
    ),
    (
        "oahu_report_missing",
        "Number of queries with clicks on interleaved searches that the report still needs.",
        lambda c: c.report().everything.missing,
    ),
    (
        "oahu_learned_factor",
        "1 if searches use the learned metric, 0 if they went back to the unlearned metric.",
        lambda c: c.measurement.factor,
    ),
    ("oahu_healthy", "1 if the collection is loaded and its learner runs.", lambda c: float(c.is_healthy)),
)
