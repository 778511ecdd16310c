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

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import ModelFileError
from oahu.io import model_files
from oahu.learners.base import Learner
from oahu.service.catalogue import Catalogue
from oahu.service.collection_encoder import CollectionEncoder
from oahu.service.encoder_process import EncoderProcess
from oahu.service.errors import ContradictoryFeedbackError, InvalidRequestError, NotFoundError, OverloadedError
from oahu.service.event_bus import EventBus
from oahu.service.feedback_log import FeedbackLog
from oahu.service.learner_factory import check_uploaded, new_learner
from oahu.service.learner_loop import LearnerLoop
from oahu.service.query_engine import ClassificationResult, ComparisonResult, QueryEngine, SearchResult
from oahu.service.records import Calibration, CatalogueChange, FeedbackRecord, NewItem, PublishedMetric, Receipt
from oahu.service.settings import Settings
from oahu.service.store import Store, Transaction
from oahu.service.store.interface import StoredCollection, StoreReader
from oahu.tasks.indexed_items import AfterBlock

__all__ = ["Collection", "Counts"]

T = TypeVar("T")


class Counts:
    """Counters for monitoring. They start at 0 when the service starts."""

    def __init__(self) -> None:
        self.accepted = self.contradictions = self.undone = self.refreshes = 0


class Collection:
    """A catalogue, its feedback log, its learner and its query engine.

    Methods that change the collection return a future. The future completes when the change is on disk.

    Attributes
    ----------
    catalogue : Catalogue
    feedback_log : FeedbackLog
    learner : LearnerLoop
    queries : QueryEngine
    encoder : CollectionEncoder
    events : EventBus
    counts : Counts
    unlearned_metric : Metric
        The metric of the untrained learner.
    ready : bool
        Whether the collection is loaded.
    """

    def __init__(
        self, stored: StoredCollection, store: Store, settings: Settings, process: EncoderProcess | None = None
    ) -> None:
        self.stored = stored
        self.id, self.config, self.created = stored
        self._store, self._settings = store, settings
        self.events, self.counts = EventBus(), Counts()
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
        self.encoder = CollectionEncoder(self.config, process, store.encoder(self.id), self._store_encoder)
        self.unlearned_metric = new_learner(self.config).metric()
        self.ready = False
        self._deleted = self._frozen = False

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
        self.encoder.close()
        self.learner.close()

    def delete(self) -> None:
        """Delete the collection and everything in it, and stop the learner."""
        self._submit(self._delete).result()
        self.discard()

    def freeze(self, frozen: bool = True) -> None:
        """Reject all later changes until ``freeze(False)``, while a copy of the collection is built."""

        def command(transaction: Transaction) -> None:
            self._frozen = frozen

        self._store.commit(command).result()

    def discard(self) -> None:
        """Stop the learner and delete its snapshots, after the collection was deleted from the store."""
        self.events.close()
        self.encoder.close()
        self.learner.stop()
        self._store.drop_snapshots(self.id, self._store.snapshots(self.id))

    # -- items -------------------------------------------------------------------------------------------

    def put_items(self, items: Sequence[NewItem], quota: int | None = None) -> Future[CatalogueChange]:
        """Add items, or replace the items with the same keys. Either all items are stored or none.

        ``quota`` is the maximum number of items in the collection that the API key allows.
        """

        def command(transaction: Transaction) -> CatalogueChange:
            change = self.catalogue.put_items(transaction, items, self._in_use(transaction), quota)
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

    def add_feedback(self, records: Sequence[FeedbackRecord], request: str | None = None) -> Future[Receipt]:
        """Add feedback records.

        Either all records are stored or none. ``request`` is the idempotency key of the request.
        """
        self.learner.raise_if_failed()
        behind = self.feedback_log.last_seq - self.published.version
        if behind > 0 and behind + len(records) > self._settings.max_learning_lag:
            raise OverloadedError(
                f"{behind:,} feedback records are not learned yet (limit {self._settings.max_learning_lag:,}, "
                "OAHU_MAX_LEARNING_LAG). Send the request again later.",
                retry_after=2,
            )

        def command(transaction: Transaction) -> Receipt:
            try:
                receipt = self.feedback_log.append(transaction, records, request)
            except ContradictoryFeedbackError:
                self.counts.contradictions += 1
                raise
            if records and not receipt.replayed:
                transaction.after_commit(lambda: self._feedback_accepted(receipt))
            return receipt

        return self._submit(command, len(records))

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

    # -- queries -----------------------------------------------------------------------------------------

    def search(
        self, query: str | NDArray[Any], k: int, label: str | None = None, use_feedback: bool = True
    ) -> SearchResult:
        """Return the k items that are most similar to the query. See `QueryEngine.search`."""
        return self.queries.search(query, k, label, use_feedback)

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
            **asdict(self.config),
            "encoder": self.encoder.name,
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
            if self._frozen:
                raise OverloadedError(
                    f"The texts of {self.config.name!r} are being encoded again. Send the request again later.",
                    retry_after=2,
                )
            return command(transaction)

        return self._store.commit(run, weight)

    def _store_encoder(self, data: bytes) -> None:
        self._submit(lambda transaction: transaction.store_encoder(self.id, data)).result()

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
        self.events.publish("items", added=len(change.added), removed=len(change.removed))

    def _feedback_accepted(self, receipt: Receipt) -> None:
        n = receipt.last_seq - receipt.first_seq + 1
        self.counts.accepted += n
        self.learner.notify(receipt.last_seq)
        self.events.publish("feedback", seq=receipt.last_seq, accepted=n)

    def _log_changed(self, seq: int) -> None:
        self.counts.undone += 1
        self.learner.notify(seq)
        self.events.publish("undo", seq=seq)

    def _metric_published(self, published: PublishedMetric) -> None:
        self.events.publish("metric", **published.describe(self.feedback_log.last_seq))
