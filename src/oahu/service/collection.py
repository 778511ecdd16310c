"""A collection: a catalogue of items, a feedback log, and the learned metric.

Data flow::

    put_items ────▶ Catalogue ──────────────────────┐ features, candidates
                        │ item number of each key   ▼
    add_feedback ─▶ FeedbackLog ── relations ─▶ QueryEngine ──▶ search, classify, compare
                        │ log, training examples    ▲
                        ▼                           │ published metrics
                      Store ─────────────────▶ LearnerLoop

Only the feedback log has a constraint graph. The learner loop reads only from the store. The query engine gets
metrics from the learner loop. If a command changes several components, `Collection` makes all changes in one
transaction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import ModelFileError
from oahu.io import model_files
from oahu.learners.base import Learner
from oahu.metrics import Metric
from oahu.service.catalogue import Catalogue
from oahu.service.compared_search import ComparedSearch, ShownResult
from oahu.service.errors import (
    ContradictoryFeedbackError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    ServiceError,
)
from oahu.service.event_bus import EventBus
from oahu.service.feedback_log import FeedbackLog, digest_of
from oahu.service.feedback_sources import SourceSummary, list_sources
from oahu.service.guard import GuardState
from oahu.service.impressions import Impressions
from oahu.service.learner_factory import check_uploaded, example_kind, new_learner
from oahu.service.learner_loop import LearnerLoop
from oahu.service.live_measurement import LiveMeasurement, Report
from oahu.service.query_engine import ClassificationResult, ComparisonResult, QueryEngine, SearchResult
from oahu.service.records import (
    Calibration,
    CatalogueChange,
    Click,
    CollectionConfig,
    Feedback,
    FeedbackRecord,
    NewItem,
    PublishedMetric,
    Receipt,
    items_of,
)
from oahu.service.settings import Settings
from oahu.service.store import Store, Transaction
from oahu.service.store.interface import StoredCollection, StoreReader
from oahu.tasks.indexed_items import AfterBlock

__all__ = ["Collection", "Counts"]

T = TypeVar("T")

log = logging.getLogger("oahu.service")


class Counts:
    """Counters for monitoring. They start at 0 when the service starts."""

    def __init__(self) -> None:
        self.accepted = self.contradictions = self.refused = self.undone = self.refreshes = 0


class Collection:
    """A catalogue, its feedback log, its learner and its query engine.

    Methods that change the collection return a future. The future completes when the change is on disk.

    Attributes
    ----------
    catalogue : Catalogue
    feedback_log : FeedbackLog
    learner : LearnerLoop
    queries : QueryEngine
    impressions : Impressions
        The results of recent searches, for clicks that refer to them.
    measurement : LiveMeasurement
        The evaluations of all clicks.
    compared : ComparedSearch
    events : EventBus
    counts : Counts
    unlearned_metric : Metric
        The metric of the untrained learner.
    ready : bool
        Whether the collection is loaded.
    """

    def __init__(self, stored: StoredCollection, store: Store, settings: Settings) -> None:
        self.id, self.config, self.created = stored
        self._store, self._settings = store, settings
        self.events, self.counts = EventBus(), Counts()
        self.impressions = Impressions(settings.max_impressions, settings.impression_seconds)
        self.catalogue = Catalogue(store, self.id, self.config, settings.max_items)
        self.feedback_log = FeedbackLog(store, self.id, self.config, self.catalogue)
        self.learner = LearnerLoop(
            store,
            self.id,
            self.config,
            self.catalogue.features,
            self._metric_published,
            settings.snapshot_every,
            settings.keep_snapshots,
            self._evaluate_clicks,
        )
        self.queries = QueryEngine(
            self.catalogue,
            self.feedback_log,
            self.learner,
            self.config.vote,
            settings.candidates,
            settings.fresh_wait,
        )
        self.queries.calibration = store.calibration(self.id)
        self.measurement = LiveMeasurement(
            store, self.id, self.catalogue.features, self.catalogue.item_of, self._metric_switched
        )
        self.compared = ComparedSearch(
            self.queries,
            self.catalogue,
            self.feedback_log,
            self.learner,
            settings.candidates,
            settings.fresh_wait,
            lambda call: self._submit(lambda _: call(), 0).result(),
        )
        self.unlearned_metric = new_learner(self.config).metric()
        self.ready = False
        self._deleted = False
        self._changing_settings = Lock()

    def open(self) -> None:
        """Load the catalogue and the log, learn the log entries that are not learned yet, and build the index.

        If the newest snapshot of the learner has learned the whole log, the index is built while the log is loaded.
        """
        last_seq = self.feedback_log.last_seq
        with ThreadPoolExecutor(1) as executor:
            self.catalogue.load()
            is_learned = self.published.version == last_seq
            indexing = executor.submit(self.queries.load) if is_learned else None
            self.feedback_log.load()
            self.measurement.load()
            if indexing is not None:
                indexing.result()
            self.learner.start()
            self.learner.notify(last_seq)
            self.learner.wait_for(last_seq, np.inf)
            if indexing is None:
                self.queries.load()
        self.ready = True

    def close(self) -> None:
        """Stop the learner and save a snapshot."""
        self.events.close()
        self.learner.close()

    def delete(self) -> None:
        """Delete the collection and everything in it, and stop the learner."""
        self._submit(self._delete).result()
        self.events.close()
        self.learner.stop()
        self._store.drop_snapshots(self.id, self._store.snapshots(self.id))

    # -- items -------------------------------------------------------------------------------------------

    def put_items(self, items: Sequence[NewItem]) -> Future[CatalogueChange]:
        """Add items, or replace the items with the same keys. Either all items are stored or none."""

        def command(transaction: Transaction) -> CatalogueChange:
            change = self.catalogue.put_items(transaction, items, self._in_use(transaction))
            transaction.after_commit(lambda: self._catalogue_changed(change))
            return change

        return self._submit(command, len(items))

    def delete_items(self, keys: Sequence[str]) -> Future[CatalogueChange]:
        """Delete items.

        Either all given items are deleted or none. Feedback about deleted items still affects the metric.
        """

        def command(transaction: Transaction) -> CatalogueChange:
            change = self.catalogue.delete_items(transaction, keys, self._in_use(transaction))
            transaction.after_commit(lambda: self._catalogue_changed(change))
            return change

        return self._submit(command, len(keys))

    # -- feedback ----------------------------------------------------------------------------------------

    def add_feedback(
        self,
        records: Sequence[FeedbackRecord | Feedback],
        request: str | None = None,
        *,
        all_or_nothing: bool = False,
    ) -> Future[Receipt]:
        """Add feedback records.

        If a record is refused because it contradicts earlier feedback, the other records are stored, unless
        ``all_or_nothing`` is true. After any other error, no record is stored. ``request`` is the idempotency key
        of the request.
        """
        given = [Feedback.of(record) for record in records]
        self._check_weights(given)
        self.learner.raise_if_failed()
        behind = self.feedback_log.last_seq - self.published.version
        if behind > 0 and behind + len(records) > self._settings.max_learning_lag:
            raise OverloadedError(
                f"{behind:,} feedback records are not learned yet (limit {self._settings.max_learning_lag:,}, "
                "OAHU_MAX_LEARNING_LAG). Send the request again later.",
                retry_after=2,
            )

        resolved, unknown = self._with_impressions(given)
        shown = {one.impression: self.impressions.get(one.impression) for one in given if one.impression}

        def command(transaction: Transaction) -> Receipt:
            try:
                receipt = self.feedback_log.append(
                    transaction,
                    resolved,
                    request,
                    digest=None if request is None else digest_of(given),
                    all_or_nothing=all_or_nothing,
                    unknown_impressions=unknown,
                )
            except ContradictoryFeedbackError as error:
                self.counts.contradictions += 1
                self._count_refused([given[one["record"]].source for one in error.more.get("refused", ())])
                raise
            if records and not receipt.replayed:
                self.measurement.record(transaction, given, receipt, shown)
                transaction.after_commit(lambda: self._feedback_accepted(receipt))
            return receipt

        return self._submit(command, len(records))

    def _count_refused(self, sources: Iterable[str | None]) -> None:
        """Count refused records of a request of which nothing is stored, in a command of its own."""
        known = [source for source in sources if source is not None]
        if known:
            with suppress(ServiceError):  # the count of a source may miss some refused records
                self._submit(lambda transaction: transaction.count_refused(self.id, known), 0)

    def _check_weights(self, feedback: Sequence[Feedback]) -> None:
        """Raise `InvalidRequestError` if feedback has weights that the learner cannot learn."""
        weighted = next((at for at, one in enumerate(feedback) if one.weight != 1), None)
        if weighted is not None:
            self._check_learns_weights(f"feedback/{weighted}/weight")

    def _check_learns_weights(self, where: str) -> None:
        if example_kind(self.config) != "clicks":
            raise InvalidRequestError(
                f"The learner {self.config.learner} of {self.config.name!r} does not learn weights, so {where} "
                "must be 1. AnchoredOAHU learns weights.",
                where=where,
            )

    def _with_impressions(self, feedback: Sequence[Feedback]) -> tuple[list[Feedback], list[int]]:
        """Replace impressions by the shown items. Return the feedback, and the indexes of unknown impressions.

        Items that were deleted since the search are left out, and so are the marked items.
        """
        shown = {one.impression: self.impressions.shown(one.impression) for one in feedback if one.impression}
        existing = self.catalogue.items(list({key for keys in shown.values() for key in keys or ()}))
        resolved, unknown = [], []
        for at, one in enumerate(feedback):
            if one.impression is not None and isinstance(one.record, Click):
                keys = shown[one.impression]
                if keys is None:
                    unknown.append(at)
                marked = set(items_of(one.record))
                rest = tuple(key for key in keys or () if key in existing and key not in marked)
                one = one._replace(record=one.record._replace(shown=one.record.shown + rest))
            resolved.append(one)
        return resolved, unknown

    def sources(self, after: str = "", limit: int = 1_000) -> list[SourceSummary]:
        """Return at most ``limit`` sources of feedback after the source ``after``, in alphabetical order."""
        return list_sources(self._store, self.id, after, limit)

    def weigh_source(self, source: str, weight: float) -> Future[int]:
        """Multiply the weights of all feedback that a source has given so far by ``weight``, between 0 and 1.

        0 undoes the feedback. 1 restores it. The model becomes identical to a model that learned the feedback with
        these weights from the beginning. The result of the future is the sequence number of the new log entry.
        """
        if not 0 <= weight <= 1:
            raise InvalidRequestError(f"'weight' must be between 0 and 1. Got {weight} instead.", where="weight")
        if weight not in (0, 1):
            self._check_learns_weights("weight")
        return self._change_log(lambda transaction: self.feedback_log.weigh_source(transaction, source, weight))

    def undo(self, seq: int, last: int | None = None) -> Future[int]:
        """Undo a feedback record, or all records from ``seq`` to ``last``.

        The result of the future is the sequence number of the undo.
        """
        return self._change_log(
            lambda transaction: self.feedback_log.undo(transaction, seq, seq if last is None else last)
        )

    def restore(self, version: int) -> Future[int]:
        """Restore an earlier version of the metric. All later log entries are undone."""
        return self._change_log(lambda transaction: self.feedback_log.restore(transaction, version))

    def replace_model(self, data: bytes) -> Future[int]:
        """Replace the learner by the learner in a model file. Later feedback trains the new learner."""
        try:
            model = model_files.from_bytes(data, "the model")
        except ModelFileError as error:
            raise InvalidRequestError(str(error)) from error
        if type(model).__name__ != self.config.learner or not isinstance(model, Learner):
            raise InvalidRequestError(
                f"The model must be of type {self.config.learner}, the learner of {self.config.name!r}. Got "
                f"{type(model).__name__} instead."
            )
        if model.n_features_in_ != self.config.dimension:
            raise InvalidRequestError(
                f"The model must have {self.config.dimension} features, like the items of {self.config.name!r}. "
                f"Got {model.n_features_in_} features instead."
            )
        check_uploaded(model)
        self.queries.check_metric(model.metric())
        return self._change_log(lambda transaction: self.feedback_log.replace_model(transaction, data))

    # -- settings ----------------------------------------------------------------------------------------

    def change_settings(self, changes: Mapping[str, Any]) -> int:
        """Change settings, and wait until the change is on disk. Return the last sequence number of the log.

        If the change affects what was learned, the learner learns the whole log again with the new settings.
        Searches use the old metric until the new metric is complete.

        Parameters
        ----------
        changes : mapping
            New values of ``contradictions``, ``closure``, ``vote``, ``interleave``, ``held_out`` and
            ``parameters``. The value of ``parameters`` contains only the parameters to change. None sets a
            parameter to its default.
        """
        with self._changing_settings:
            before = self.config
            changed = dict(changes)
            if "parameters" in changed:
                merged = {**before.parameters, **changed["parameters"]}
                changed["parameters"] = {name: value for name, value in merged.items() if value is not None}
            changed = {name: value for name, value in changed.items() if getattr(before, name) != value}
            config = replace(before, **changed)
            if config.parameters.get("dtype", "float32") != self.catalogue.features.dtype:
                raise InvalidRequestError(
                    f"The parameter 'dtype' of {config.name!r} cannot be changed, because the features of the "
                    f"items are stored as {self.catalogue.features.dtype}. Create a new collection."
                )
            unlearned = new_learner(config, self._settings.max_model).metric()
            if not changed:
                return self.feedback_log.last_seq

            def command(transaction: Transaction) -> int:
                seq, applied = self.feedback_log.change_settings(transaction, config, changed)
                transaction.after_commit(lambda: self._settings_changed(seq, applied, unlearned))
                return seq

            return self._submit(command).result()

    # -- queries -----------------------------------------------------------------------------------------

    def search(
        self, query: str | NDArray[Any], k: int, label: str | None = None, use_feedback: bool = True
    ) -> SearchResult:
        """Return the k items that are most similar to the query. See `QueryEngine.search`."""
        return self.compare_search(lambda engine: engine.search(query, k, label, use_feedback), k, 0.0).result

    def compare_search(
        self, run: Callable[[QueryEngine], SearchResult], k: int, interleave: float | None = None
    ) -> ShownResult:
        """Run a search for k items with the learned ranking, or with the learned and the unlearned ranking.

        Parameters
        ----------
        run : callable
            Runs the search with the given query engine.
        interleave : float or None
            The probability that the rankings are interleaved. None uses the setting of the collection.
        """
        share = self.config.interleave if interleave is None else interleave
        factor, unlearned = self.measurement.factor, self.unlearned_metric
        return self.compared.search(run, k, share, factor, unlearned, self.config.vote)

    def report(self, last: int | None = None) -> Report:
        """Return whether learning improves search, over all clicks and over the last ``last`` clicks."""
        return self.measurement.report(last, self.config.held_out)

    def classify(self, query: str | NDArray[Any], k: int) -> ClassificationResult:
        """Return the votes of the k nearest labelled items for each label. See `QueryEngine.classify`."""
        return self.queries.classify(query, k)

    def compare(self, first: str | NDArray[Any], second: str | NDArray[Any]) -> ComparisonResult:
        """Return whether two items are similar. See `QueryEngine.compare`."""
        return self.queries.compare(first, second)

    def calibrate(self, pairs: Sequence[tuple[str, str, bool]], target: dict[str, Any]) -> Future[None]:
        """Store labelled pairs and a target.

        After every change of the metric, `compare` chooses its thresholds from them.
        """

        def command(transaction: Transaction) -> None:
            def number(key: str, at: int, side: int) -> int:
                return self.catalogue.number_of(transaction, key, f"pairs/{at}", side)

            numbered = tuple((number(a, at, 0), number(b, at, 1), same) for at, (a, b, same) in enumerate(pairs))
            calibration = Calibration(numbered, target, transaction.last_seq(self.id))
            transaction.store_calibration(self.id, calibration)

            def set_calibration() -> None:
                self.queries.calibration = calibration

            transaction.after_commit(set_calibration)

        return self._submit(command)

    def refresh_index(self, after_block: AfterBlock | None = None) -> None:
        """Encode the catalogue with the newest metric and publish an event. See `QueryEngine.refresh`."""
        self.queries.refresh(after_block)
        self.counts.refreshes += 1
        version = self.queries.index.published.version
        self.events.publish("refresh", metric_version=version, seconds=self.queries.refresh_seconds)

    # -- state -------------------------------------------------------------------------------------------

    @property
    def published(self) -> PublishedMetric:
        """The newest metric."""
        return self.learner.published

    @property
    def is_healthy(self) -> bool:
        """Whether the collection is open and its learner has not failed."""
        return self.ready and self.learner.error is None

    def describe(self) -> dict[str, Any]:
        """Return the settings and the state of the collection as JSON data."""
        index, published, last_seq = self.queries.index, self.published, self.feedback_log.last_seq
        return {
            **{name: value for name, value in asdict(self.config).items() if name != "revision"},
            "created": self.created,
            "items": index.n_items,
            "last_seq": last_seq,
            **published.describe(last_seq),
            "candidates": {
                "metric_version": index.published.version,
                "constraints_behind": published.constraints - index.published.constraints,
                "age_seconds": max(0.0, time.time() - index.created),
            },
            "calibrated": self.queries.calibration is not None,
            "ready": self.ready,
            "learner_error": None if self.learner.error is None else repr(self.learner.error),
        }

    # -- commands ----------------------------------------------------------------------------------------

    def _submit(self, command: Callable[[Transaction], T], weight: int = 1) -> Future[T]:
        """Run a command in a transaction.

        The command fails with `NotFoundError` if the collection was deleted before.
        """

        def run(transaction: Transaction) -> T:
            if self._deleted:
                raise NotFoundError(f"There is no collection {self.config.name!r}.", collection=self.config.name)
            return command(transaction)

        return self._store.commit(run, weight)

    def _change_log(self, command: Callable[[Transaction], int]) -> Future[int]:
        """Run a command that appends an undo or a model replacement to the log."""

        def run(transaction: Transaction) -> int:
            seq = command(transaction)
            transaction.after_commit(lambda: self._log_changed(seq))
            return seq

        return self._submit(run)

    def _delete(self, transaction: Transaction) -> None:
        transaction.after_rollback(self._delete_rolled_back)
        transaction.delete(self.id)
        self._deleted = True

    def _delete_rolled_back(self, _: StoreReader) -> None:
        self._deleted = False

    def _in_use(self, transaction: Transaction) -> Callable[[int], bool]:
        """Return a function that checks whether the log or the calibration refers to an item."""

        @cache
        def calibrated() -> set[int]:
            calibration = transaction.calibration(self.id)
            return calibration.numbers if calibration else set()

        return lambda number: self.feedback_log.is_referenced(transaction, number) or number in calibrated()

    # -- after a commit ----------------------------------------------------------------------------------

    def _catalogue_changed(self, change: CatalogueChange) -> None:
        self.queries.add_change(change)
        self.compared.add_change(change)
        self.events.publish("items", added=len(change.added), removed=len(change.removed))

    def _feedback_accepted(self, receipt: Receipt) -> None:
        n = receipt.last_seq - receipt.first_seq + 1
        self.counts.accepted += n
        self.counts.refused += len(receipt.refused)
        self.learner.notify(receipt.last_seq)
        self.events.publish("feedback", seq=receipt.last_seq, accepted=n)

    def _log_changed(self, seq: int) -> None:
        self.counts.undone += 1
        self.measurement.load()
        self.learner.notify(seq)
        self.events.publish("undo", seq=seq)

    def _settings_changed(self, seq: int, config: CollectionConfig, unlearned: Metric) -> None:
        if config.vote != self.config.vote:
            self.queries.set_vote(config.vote)
        if (config.vote, config.parameters) != (self.config.vote, self.config.parameters):
            self.compared.forget_unlearned()
        self.config, self.unlearned_metric = config, unlearned
        self.learner.notify(seq)
        self.events.publish("settings", seq=seq)

    def _evaluate_clicks(self, after: int, limit: int, undone: set[int], learned: Metric) -> None:
        self.measurement.evaluate(after, limit, undone, learned, self.unlearned_metric)

    def _metric_switched(self, state: GuardState) -> None:
        used = "learned" if state.factor else "unlearned"
        log.warning(
            "searches of %r use the %s metric, because clicks on interleaved searches show that it is better",
            *(self.config.name, used),
        )
        seq = state.switches[-1].seq if state.switches else 0
        self.events.publish("guard", factor=state.factor, seq=seq, metric=used)

    def _metric_published(self, published: PublishedMetric) -> None:
        self.events.publish("metric", **published.describe(self.feedback_log.last_seq))
