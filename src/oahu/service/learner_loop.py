"""The learner loop: reads the log, trains the learner, publishes metrics.

The model depends on the log alone. It can always be rebuilt, from the newest valid snapshot or from the beginning.
To undo feedback, the loop returns to a snapshot from before it and replays the rest of the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import TIMEOUT_MAX, Condition, Event, Lock, Thread
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import ModelFileError, OverflowedItemError, RejectedConstraintError
from oahu.io import model_files
from oahu.learners.base import Learner
from oahu.service.errors import LearnerFailedError, ServiceError
from oahu.service.feature_store import FeatureStore
from oahu.service.learner_factory import new_learner, trains_on_pairs
from oahu.service.records import (
    CollectionConfig,
    HistoryPoint,
    PublishedMetric,
    TrainingEntry,
    UndoEntry,
    active_undo_ranges,
    first_changed_seq,
    undone_between,
)
from oahu.service.store import Store
from oahu.service.training_examples import decode_examples

__all__ = ["LearnerLoop"]

_BATCH: Final = 64  # log entries that are learned before a metric is published
_LARGE_BATCH: Final = 1_024  # the same, if the learner is far behind
_LINGER: Final = 0.01  # seconds to wait for more feedback, if no query waits for the metric
_FULL_BATCH: Final = 16  # log entries that are learned without waiting for more
_SAMPLE: Final = 16  # triplets of a batch that the metric is evaluated on before training
_DECAY: Final = 0.98  # of the running error rate, per triplet
_DENSE_HISTORY: Final = 200  # history points are stored at every version up to here, then ever further apart

log = logging.getLogger("oahu.service")


class LearnerLoop:
    """A background thread that learns the log of a collection and publishes metrics.

    Parameters
    ----------
    on_publish : callable
        Called with every published metric, from the background thread.
    snapshot_every : int
        Constraints between two snapshots.
    keep_snapshots : int
        The number of snapshots that are kept.

    Attributes
    ----------
    published : PublishedMetric
        The newest metric.
    n_rejected : int
        Constraints that could not be learned since the service started, because they would overflow the model.
    error : Exception or None
        What stopped the loop.
    """

    def __init__(
        self,
        store: Store,
        collection: int,
        config: CollectionConfig,
        features: FeatureStore,
        on_publish: Callable[[PublishedMetric], None],
        snapshot_every: int = 5_000,
        keep_snapshots: int = 12,
    ) -> None:
        self._store, self._collection, self._config, self._features = store, collection, config, features
        self._on_publish, self._snapshot_every, self._keep_snapshots = on_publish, snapshot_every, keep_snapshots
        self._for_pairs = trains_on_pairs(config)
        self._changed, self._stop, self._training = Condition(), Event(), Lock()
        self._head = 0  # the end of the log, as far as the loop was notified
        self._requested = 0  # a query waits for the metric of this log entry
        self._undos = store.undos(collection)
        self._undone = active_undo_ranges(self._undos)
        last = store.last_seq(collection)
        # Snapshots beyond the end of the log belong to another log, for instance before a backup was restored.
        store.drop_snapshots(collection, [seq for seq in store.snapshots(collection) if seq > last])
        self._learner, self._seq = self._load_snapshot(last)
        self._snapshot = self._seq, self._learner.n_seen_  # position of the last snapshot
        self._last_point = max((point.constraints for point in store.history(collection)), default=-1)
        self._error_rate: float | None = None
        self.n_rejected = 0
        self.error: Exception | None = None
        self.published = self._frozen_metric()
        self._thread = Thread(target=self._run, name=f"oahu-learner-{collection}", daemon=True)

    # -- for other threads -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the background thread."""
        self._thread.start()

    def notify(self, head: int) -> None:
        """Tell the loop that the log now ends at sequence number ``head``."""
        with self._changed:
            self._head = max(self._head, head)
            self._changed.notify_all()

    def request(self, seq: int) -> None:
        """Ask the loop to learn the log up to ``seq`` at once, without waiting for more feedback."""
        if self.published.version < seq:
            with self._changed:
                self._requested = max(self._requested, seq)
                self._changed.notify_all()

    def wait_for(self, seq: int, timeout: float) -> PublishedMetric:
        """Return the metric once it has learned the log up to ``seq``; after ``timeout`` seconds, the newest."""
        if self.published.version < seq and timeout > 0:
            self.request(seq)
            with self._changed:
                self._changed.wait_for(
                    lambda: self.published.version >= seq or self.error is not None, min(timeout, TIMEOUT_MAX)
                )
        return self.published

    def model_file(self) -> bytes:
        """Return the learner as the bytes of a model file."""
        with self._training:
            return model_files.to_bytes(self._learner)

    def history(self) -> list[HistoryPoint]:
        """Return the weights of the metric over time."""
        return [*self._store.history(self._collection)] or [self.published.history_point]

    def raise_if_failed(self) -> None:
        """Raise `LearnerFailedError` if the loop has stopped with an error."""
        if self.error is not None:
            raise LearnerFailedError(
                f"The learner of {self._config.name!r} has failed ({self.error!r}). Restart the service. The log "
                "holds all accepted feedback."
            )

    def stop(self) -> None:
        """Stop the background thread. The rest of the log is learned after the next start."""
        self._stop.set()
        self.notify(self._head)
        if self._thread.ident is not None:
            self._thread.join()

    def close(self) -> None:
        """Stop the background thread and save a snapshot."""
        self.stop()
        if self.error is None and self._seq != self._snapshot[0]:
            self._save_snapshot()

    # -- the background thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._compile()
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._head > self._seq or self._stop.is_set())
                    self._changed.wait_for(self._is_urgent, _LINGER)
                if self._stop.is_set():
                    return
                with self._training:
                    self._advance()
        except Exception as error:
            log.exception("the learner of %r has failed", self._config.name)
            self.error = error
            with self._changed:
                self._changed.notify_all()

    def _is_urgent(self) -> bool:
        """Return whether to learn at once. Otherwise the loop waits a moment: one larger batch costs less."""
        return self._requested > self._seq or self._head - self._seq >= _FULL_BATCH or self._stop.is_set()

    def _compile(self) -> None:
        """Compile the learner before a query waits for it."""
        rows = np.random.default_rng(0).normal(size=(2, 3, self._config.dimension)).astype(self._features.dtype)
        new_learner(self._config).partial_fit(rows).metric().scores_to_first(rows.reshape(6, -1), 3)

    def _advance(self) -> None:
        """Learn the next log entries and publish a metric.

        New undos are applied first, even if other entries precede them in the log. An undo changes the training
        examples of later records, so the entries just read may mix both states; they are read again.
        """
        replay_until = 0  # no metric is published until all entries before the last undo are learned again
        while not self._stop.is_set():
            replaying = self._seq < replay_until
            limit = _LARGE_BATCH if self._head - self._seq >= _LARGE_BATCH else _BATCH
            if replaying:
                limit = min(_LARGE_BATCH, replay_until - self._seq)
            entries = self._store.training_log(self._collection, self._seq, limit)
            if undos := self._store.undos(self._collection, self._undos[-1].seq if self._undos else 0):
                self._roll_back(undos)
                replay_until = undos[-1].seq
                continue
            self._learn(entries, None if replaying else self.published.metric)
            if self._seq >= replay_until:
                self._publish()
                self._save_snapshot_if_due()
                return
            self._save_snapshot_if_due()

    def _learn(self, entries: Sequence[TrainingEntry], metric: Any) -> None:
        """Learn entries up to the first model replacement; ``metric`` is evaluated on a sample of them first."""
        undone = undone_between(self._undone, self._seq, self._seq + len(entries))
        effective = [entry for entry in entries if entry.seq not in undone]
        replacement = next((entry.seq for entry in effective if entry.replaces_model), None)
        if replacement is not None:
            effective = [entry for entry in effective if entry.seq < replacement]
        stated, examples = decode_examples([entry.examples for entry in effective if entry.examples is not None])
        if metric is not None and len(stated):
            self._evaluate(metric, self._features.take(stated[:: -(-len(stated) // _SAMPLE)]))
        n_rejected = 0
        if len(examples) and self._for_pairs:
            n_rejected = self._train(self._features.take(examples[:, :2]), examples[:, 2].astype(bool))
        elif len(examples):
            n_rejected = self._train(self._features.take(examples), None)
        if metric is not None:  # a replay counts nothing twice
            self.n_rejected += n_rejected
        if replacement is not None:
            data = self._store.model(self._collection, replacement)
            self._learner = model_files.from_bytes(data, f"model {replacement}")
        if entries:
            self._seq = entries[-1].seq if replacement is None else replacement

    def _evaluate(self, metric: Any, triplets: NDArray[Any]) -> None:
        """Update the error rate with triplets that the metric has not been trained on."""
        with suppress(OverflowedItemError):
            positive, negative = metric.scores_to_first(triplets.reshape(-1, triplets.shape[2]), 3)
            for wrong in (positive <= negative).astype(float).tolist():
                before = self._error_rate
                self._error_rate = wrong if before is None else _DECAY * before + (1 - _DECAY) * wrong

    def _train(self, values: NDArray[Any], same: NDArray[Any] | None) -> int:
        """Train on constraints; skip those that would overflow the model, and return how many these are."""
        n_rejected = 0
        while len(values):
            try:
                self._learner.partial_fit(values, same)
                break
            except (RejectedConstraintError, OverflowedItemError) as error:
                at = error.row
                n_rejected += 1
                if at:
                    self._learner.partial_fit(values[:at], None if same is None else same[:at])
                values, same = values[at + 1 :], None if same is None else same[at + 1 :]
        return n_rejected

    def _roll_back(self, undos: Sequence[UndoEntry]) -> None:
        """Return to the newest snapshot from before everything that new undos change."""
        changed = undos[0].seq
        for undo in undos:
            changed = min(changed, first_changed_seq(self._undos, undo))
            self._undos = [*self._undos, undo]
        self._undone = active_undo_ranges(self._undos)
        if changed > self._seq:
            return  # nothing of it was learned yet
        outdated = [seq for seq in self._store.snapshots(self._collection) if seq >= changed]
        self._store.drop_snapshots(self._collection, outdated)
        self._learner, self._seq = self._load_snapshot(changed - 1)
        self._snapshot = self._seq, self._learner.n_seen_
        self._last_point = -1
        with suppress(ServiceError):
            self._store.commit(lambda t: t.delete_history(self._collection, changed), weight=0)

    # -- metrics and history -----------------------------------------------------------------------------

    def _frozen_metric(self) -> PublishedMetric:
        learner = self._learner
        return PublishedMetric(learner.metric(), self._seq, learner.n_seen_, self._error_rate, time.time())

    def _publish(self) -> None:
        published = self._frozen_metric()
        with self._changed:
            self.published = published
            self._changed.notify_all()
        self._store_history(published.history_point)
        self._on_publish(published)

    def _store_history(self, point: HistoryPoint) -> None:
        """Store the weights: at first at every version, then ever further apart."""
        if point.constraints - self._last_point >= max(1, self._last_point / _DENSE_HISTORY):
            self._last_point = point.constraints
            with suppress(ServiceError):  # a missing history point does no harm
                self._store.commit(lambda t: t.store_history(self._collection, [point]), weight=0)

    # -- snapshots ---------------------------------------------------------------------------------------

    def _load_snapshot(self, before: int) -> tuple[Learner[Any], int]:
        """Return the newest valid snapshot up to sequence number ``before``, or an untrained learner."""
        for seq in self._store.snapshots(self._collection):
            if seq > before:
                continue
            try:
                learner, notes = self._store.snapshot(self._collection, seq)
            except (ModelFileError, OSError) as error:
                log.warning("skipping snapshot %d of %r: %s", seq, self._config.name, error)
                continue
            if notes == self._snapshot_notes(seq):  # otherwise it is outdated by an undo, or of another log
                return learner, seq
        return new_learner(self._config), 0

    def _snapshot_notes(self, seq: int) -> dict[str, Any]:
        """Return what identifies the log of a snapshot: the time of its last entry, and what of it is undone."""
        times = [entry.time for entry in self._store.log(self._collection, seq - 1, 1)]
        undone = sorted([first, min(last, seq)] for first, last in self._undone if first <= seq)
        return {"seq": seq, "time": times[:1], "undone": undone}

    def _save_snapshot_if_due(self) -> None:
        if self._learner.n_seen_ - self._snapshot[1] >= self._snapshot_every:
            self._save_snapshot()

    def _save_snapshot(self) -> None:
        try:
            self._store.save_snapshot(self._collection, self._seq, self._learner, self._snapshot_notes(self._seq))
            stored = self._store.snapshots(self._collection)
            dropped = set(stored) - set(_spread(stored, self._keep_snapshots))
            self._store.drop_snapshots(self._collection, dropped)
        except OSError as error:
            log.warning("cannot save a snapshot of %r: %s", self._config.name, error)
        self._snapshot = self._seq, self._learner.n_seen_  # after a failure too: do not retry at every batch


def _spread(seqs: Sequence[int], limit: int) -> list[int]:
    """Select the snapshots to keep, given from the newest to the oldest: the newer, the closer together.

    The newest two and the oldest stay. Of the others, the one whose neighbours are closest is removed repeatedly,
    where distances are relative to the distance from the newest.

    >>> _spread([100, 90, 80, 70, 60, 50, 40, 30, 20, 10], 6)
    [100, 90, 80, 70, 50, 10]
    """
    kept = list(seqs)
    while len(kept) > max(limit, 3):
        gaps = [(kept[at - 1] - kept[at + 1]) / (kept[0] - kept[at + 1]) for at in range(2, len(kept) - 1)]
        del kept[2 + gaps.index(min(gaps))]
    return kept
