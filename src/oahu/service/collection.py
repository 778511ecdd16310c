"""A collection: the store, the learner loop and the searcher, tied together.

What changes something returns a future that is done when it is on disk. What asks answers at once, from any thread.
"""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Triplet
from oahu.exceptions import InvalidInputError, ModelFileError, NotFittedError, OverflowedItemError
from oahu.io import model_files
from oahu.learners.base import Learner
from oahu.service.catalogue_index import CatalogueIndex
from oahu.service.errors import (
    ConflictError,
    ContradictoryFeedbackError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
)
from oahu.service.event_bus import EventBus
from oahu.service.feature_store import FeatureStore
from oahu.service.intake import Intake, counting
from oahu.service.learner_loop import LearnerLoop, new_learner
from oahu.service.query_engine import ClassificationResult, ComparisonResult, QueryEngine, SearchResult
from oahu.service.records import (
    CatalogueChange,
    CatalogueItem,
    Change,
    Click,
    FeedbackRecord,
    HistoryPoint,
    LoggedChange,
    ModelReplacement,
    NewItem,
    PublishedMetric,
    Receipt,
    Undo,
)
from oahu.service.settings import Settings
from oahu.service.store import Store, Transaction
from oahu.service.store.interface import StoredCollection
from oahu.tasks.indexed_items import AfterBlock

__all__ = ["Collection", "Counts"]

_LARGEST = 1e9  # length of an item


@dataclass(frozen=True)
class _Known:
    """What is known of an item."""

    intake: Intake
    store: Store
    number: int

    def alike(self) -> list[int]:
        return self.intake.alike_to(self.store, self.number)

    def unlike(self, others: list[int]) -> set[int]:
        return self.intake.unlike(self.store, self.number, others)


class Counts:
    """What has happened since the service started, for gauges."""

    def __init__(self) -> None:
        self.accepted = self.contradictions = self.undone = self.refreshes = 0


class Collection:
    """A catalogue, what people said about it, and the metric that came of it."""

    def __init__(self, kept: StoredCollection, store: Store, settings: Settings) -> None:
        self.id, self.config, self.created = kept
        self._store, self._settings = store, settings
        self.events, self.counts = EventBus(), Counts()
        dtype = np.dtype(self.config.parameters.get("dtype", "float32"))
        self.vectors = FeatureStore(self.config.dimension, dtype, store.n_vectors(self.id))
        self._intake = Intake(self.id, self.config, settings.max_items, self.vectors.name)
        self._loop = LearnerLoop(
            store,
            self.id,
            self.config,
            self.vectors,
            self._moved,
            settings.snapshot_every,
            settings.keep_snapshots,
        )
        self.start = new_learner(self.config).metric()  # where it started from
        self._searcher = QueryEngine(
            self.vectors, lambda: self._loop.published, self.config.vote, settings.candidates
        )
        self._searcher.calibration = store.calibration(self.id)
        self._loaded_until = store.last_seq(self.id)
        self.ready = False

    def open(self) -> None:
        """Learn what is in the log, and embed the catalogue: both at once if nothing is left to learn."""
        with ThreadPoolExecutor(1) as other:
            self._read_features()
            learned = self._loop.published.version == self._loaded_until
            embedding = other.submit(self._embed) if learned else None
            self._loop.prime(*self._intake.load(self._store))
            if embedding is not None:
                embedding.result()
            self._loop.start()
            self._loop.wake(self._loaded_until)
            self._loop.wait_for(self._loaded_until, np.inf)
            if embedding is None:
                self._embed()
        self.ready = True

    def _read_features(self) -> None:
        for numbers, keys, data in self._store.vectors(self.id):
            self.vectors.add(numbers, keys, data)

    def _embed(self) -> None:
        found = list(self._store.keys(self.id))
        self._searcher.load([number for _, number, _ in found], [label for _, _, label in found])

    def close(self) -> None:
        self.events.close()
        self._loop.close()

    def delete(self) -> Future[None]:
        """Delete everything in it; what waits behind that is refused."""
        return self._store.commit(self._intake.delete)

    def forget(self) -> None:
        """Close a collection that was deleted, without keeping anything."""
        self.events.close()
        self._loop.stop()
        self._store.drop_snapshots(self.id, self._store.snapshots(self.id))

    # -- changing items ----------------------------------------------------------------------------------

    def put_items(self, items: Sequence[NewItem]) -> Future[CatalogueChange]:
        """Add items, or replace those that are there."""

        def command(transaction: Transaction) -> CatalogueChange:
            change = self._intake.put_items(transaction, items)
            if change.added:  # before anyone can see them; if it comes to nothing, the numbers are given again
                numbers, keys, _, data = zip(*change.added, strict=True)
                self.vectors.add(numbers, keys, b"".join(data))
            transaction.after_commit(lambda: self._items_changed(change))
            return change

        return self._store.commit(command, len(items))

    def delete_items(self, keys: Sequence[str]) -> Future[CatalogueChange]:
        """Delete items."""

        def command(transaction: Transaction) -> CatalogueChange:
            change = self._intake.delete_items(transaction, keys)
            transaction.after_commit(lambda: self._items_changed(change))
            return change

        return self._store.commit(command, len(keys))

    def settle(self) -> None:
        """Let items that were stored be found."""
        self._searcher.settle()

    def _items_changed(self, change: CatalogueChange) -> None:
        self._searcher.change(change)
        self.events.publish("items", added=len(change.added), removed=len(change.removed))

    def features(self, vector: Sequence[float] | str, where: str) -> NDArray[Any]:
        """An item's features, checked: numbers, or their little-endian float32 bytes in base64."""
        d = self.config.dimension
        try:
            if isinstance(vector, str):
                row = np.frombuffer(base64.b64decode(vector, validate=True), "<f4")
            else:
                row = np.asarray(vector, np.float64)
        except (ValueError, OverflowError) as error:
            raise InvalidRequestError(
                f"{where} must be {d} numbers, or float32 in base64 ({error}).", where=where
            ) from error
        if row.shape != (d,):
            raise InvalidRequestError(f"{where} must have {d} numbers. Got {row.size}.", where=where)
        if not np.isfinite(row).all():
            raise InvalidRequestError(
                f"{where} has a value that is not finite, at {int(np.argmin(np.isfinite(row)))}.", where=where
            )
        if (length := math.hypot(*row.tolist())) > _LARGEST:
            raise InvalidRequestError(
                f"{where} has length {length:.3g}; {_LARGEST:.0e} is the most. Scale the features.", where=where
            )
        return row.astype(self.vectors.dtype)

    # -- feedback ----------------------------------------------------------------------------------------

    def feedback(self, pieces: Sequence[FeedbackRecord], request: str | None = None) -> Future[Receipt]:
        """Accept pieces of feedback, all or none."""
        self._loop.check()
        behind = self._loop.behind
        if behind + len(pieces) > self._settings.max_behind and behind:
            raise OverloadedError(
                f"{behind} pieces of feedback wait to be learned; {self._settings.max_behind} may.", retry_after=2
            )

        def command(transaction: Transaction) -> Receipt:
            try:
                receipt, accepted = self._intake.feedback(transaction, pieces, request)
            except ContradictoryFeedbackError:
                self.counts.contradictions += 1
                raise
            if accepted:
                transaction.after_commit(lambda: self._said(receipt.last_seq, len(accepted)))
            return receipt

        return self._store.commit(command, len(pieces))

    def undo(self, seq: int, last: int | None = None) -> Future[int]:
        """Let a piece of feedback not count any more; the sequence number of that."""

        def command(transaction: Transaction) -> int:
            self._intake.undo(transaction, seq, seq if last is None else last)
            return self._at_end(transaction)

        return self._store.commit(command)

    def restore(self, version: int) -> Future[int]:
        """Go back to a version of the metric: nothing counts that came after it."""

        def command(transaction: Transaction) -> int:
            self._intake.restore(transaction, version)
            return self._at_end(transaction)

        return self._store.commit(command)

    def replace_model(self, data: bytes) -> Future[int]:
        """Let a model from a file take over, and learn on top of it from then on."""
        try:
            model = model_files.from_bytes(data, "the model")
        except ModelFileError as error:
            raise InvalidRequestError(str(error)) from error
        if type(model).__name__ != self.config.learner or not isinstance(model, Learner):
            raise InvalidRequestError(
                f"{self.config.name!r} learns with {self.config.learner}. The file contains {type(model).__name__}."
            )
        if model.n_features_in_ != self.config.dimension:
            raise InvalidRequestError(
                f"{self.config.name!r} has items of {self.config.dimension} features. The model is for "
                f"{model.n_features_in_}."
            )
        with _overflowing():
            self._searcher.try_out(model.metric())

        def command(transaction: Transaction) -> int:
            self._intake.replace(transaction, data)
            return self._at_end(transaction)

        return self._store.commit(command)

    def calibrate(self, pairs: Sequence[tuple[str, str, bool]], target: dict[str, Any]) -> Future[None]:
        """Keep labelled pairs, by which thresholds are chosen for every metric from now on."""

        def command(transaction: Transaction) -> None:
            calibration = self._intake.calibrate(transaction, pairs, target)

            def done() -> None:
                self._searcher.calibration = calibration

            transaction.after_commit(done)

        return self._store.commit(command, 1)

    def check_calibration(self, pairs: Sequence[tuple[str, str, bool]], target: dict[str, Any]) -> None:
        """Raise `InvalidRequestError` for pairs that no threshold can be chosen by."""
        from oahu.tasks import Comparator

        rows = self._rows_of({key for pair in pairs for key in pair[:2]})
        values = np.array([[rows[first][1], rows[second][1]] for first, second, _ in pairs])
        try:
            Comparator(self.published.metric).calibrate(values, [same for _, _, same in pairs], **target)
        except InvalidInputError as error:
            raise InvalidRequestError(str(error)) from error

    def _at_end(self, transaction: Transaction) -> int:
        seq = transaction.last_seq(self.id)
        transaction.after_commit(lambda: self._changed_log(seq))
        return seq

    def _said(self, seq: int, n: int) -> None:
        self.counts.accepted += n
        self._loop.wake(seq)
        self.events.publish("feedback", seq=seq, accepted=n)

    def _changed_log(self, seq: int) -> None:
        self.counts.undone += 1
        self._loop.wake(seq)
        self.events.publish("undo", seq=seq)

    # -- the metric --------------------------------------------------------------------------------------

    @property
    def published(self) -> PublishedMetric:
        """The live metric."""
        return self._loop.published

    @property
    def behind(self) -> int:
        """Entries of the log that the live metric has not learned yet."""
        return self._loop.behind

    def fresh(self, timeout: float | None = None) -> PublishedMetric:
        """The live metric, when it has learned all that was said before the call, or time runs out."""
        return self._loop.wait_for(self._loop.head, self._settings.fresh_wait if timeout is None else timeout)

    def _soon(self) -> Callable[[], PublishedMetric]:
        """`fresh`, of now: the learner is told at once, and what this returns waits for it when it is called."""
        head, until = self._loop.head, time.monotonic() + self._settings.fresh_wait
        if self._settings.fresh_wait > 0:
            self._loop.want(head)
        return lambda: self._loop.wait_for(head, until - time.monotonic())

    def model(self) -> bytes:
        """The learner as a file that `oahu.load` reads."""
        return self._loop.file()

    def history(self) -> list[HistoryPoint]:
        """How the weights moved."""
        return [*self._store.history(self.id)] or [self.published.moment]

    def _moved(self, published: PublishedMetric) -> None:
        self.events.publish("metric", **self.metric_state(published))

    def metric_state(self, published: PublishedMetric) -> dict[str, Any]:
        """What there is to tell of a metric."""
        return {
            "metric_version": published.version,
            "constraints": published.constraints,
            "weights": published.weights,
            "error_rate": published.loss,
            "pending_feedback": max(0, self._loop.head - published.version),
        }

    # -- asking ------------------------------------------------------------------------------------------

    def search(
        self, query: str | NDArray[Any], k: int, label: str | None = None, trust: bool = True
    ) -> SearchResult:
        """The k items most like one that is there, without itself, or like features.

        If ``trust``, items that are known to be like it come first, and those known to be unlike it last.
        """
        vector, number = self._query(query)
        live = self._soon()
        known = None if number is None else _Known(self._intake, self._store, number)
        with self._searcher.answering(), _overflowing():
            return self._searcher.search(vector, k, live, label, number, known, trust)

    def classify(self, query: str | NDArray[Any], k: int) -> ClassificationResult:
        """The labels that the nearest labelled items vote for."""
        vector, number = self._query(query)
        with self._searcher.answering(), _overflowing():
            return self._searcher.classify(vector, k, self._soon(), number)

    def compare(self, first: str | NDArray[Any], second: str | NDArray[Any]) -> ComparisonResult:
        """Whether two items are alike."""
        (one, _), (two, _) = self._query(first), self._query(second)
        try:
            with _overflowing():
                return self._searcher.compare(one, two, self.fresh())
        except NotFittedError as error:
            raise ConflictError(f"{error} POST labelled pairs to calibrate.") from error

    def _query(self, query: str | NDArray[Any]) -> tuple[NDArray[Any], int | None]:
        if not isinstance(query, str):
            return query, None
        number, vector = self._rows_of([query])[query]
        return vector, number

    def _rows_of(self, keys: Iterable[str]) -> dict[str, tuple[int, NDArray[Any]]]:
        """The numbers and the features of items."""
        wanted = list(keys)
        table, found = self.vectors.table, self._store.items_by_key(self.id, wanted)
        for key in wanted:
            if key not in found:
                raise NotFoundError(f"There is no item {key!r} in {self.config.name!r}.", key=key)
        numbers = [found[key].number for key in wanted]
        if all(number in table for number in numbers):
            return dict(zip(wanted, zip(numbers, table.take(numbers), strict=True), strict=True))
        return self._rows_of(wanted)  # a table took over between two looks

    def items(self, keys: Sequence[str]) -> dict[str, CatalogueItem]:
        return self._store.items_by_key(self.id, keys)

    def item(self, key: str) -> CatalogueItem:
        found = self._store.items_by_key(self.id, [key])
        if key not in found:
            raise NotFoundError(f"There is no item {key!r} in {self.config.name!r}.", key=key)
        return found[key]

    def vector(self, key: str) -> NDArray[Any]:
        """The features of an item."""
        return self._rows_of([key])[key][1]

    def page(self, after: int, limit: int, label: str | None = None) -> list[CatalogueItem]:
        """Some of the items, in the order in which they were added."""
        return self._store.items(self.id, after, limit, label)

    @property
    def catalogue(self) -> CatalogueIndex:
        """All items, as they are now."""
        self._searcher.settle()
        return self._searcher.catalogue

    def thumbnail(self, key: str) -> bytes | None:
        return self._store.thumbnail(self.id, key)

    # -- the log -----------------------------------------------------------------------------------------

    def log(self, after: int, limit: int) -> list[tuple[LoggedChange, bool]]:
        """Entries of the log with keys for numbers, and whether each counts."""
        entries = self._store.log(self.id, after, limit)
        counted = {seq for seq, _ in counting(entries, self._store.undone(self.id))}
        return [(entry._replace(change=self._named(entry.change)), entry.seq in counted) for entry in entries]

    @property
    def last_seq(self) -> int:
        return self._loop.head

    def _named(self, change: Change) -> Change:
        name = self.vectors.name
        if isinstance(change, Undo | ModelReplacement):
            return change
        if isinstance(change, Click):
            return Click(name(change.query), tuple(map(name, change.positive)), tuple(map(name, change.negative)))
        if isinstance(change, Triplet):
            return Triplet(*map(name, change))
        return change._replace(first=name(change.first), second=name(change.second))

    # -- housekeeping ------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What there is to know of the collection."""
        catalogue, published = self._searcher.catalogue, self.published
        return {
            **asdict(self.config),
            "created": self.created,
            "items": catalogue.n_items,
            "last_seq": self.last_seq,
            **self.metric_state(published),
            "candidates": {
                "metric_version": catalogue.published.version,
                "constraints_behind": published.constraints - catalogue.published.constraints,
                "age_seconds": max(0.0, time.time() - catalogue.made),
            },
            "calibrated": self._searcher.calibration is not None,
            "ready": self.ready,
            "learner_error": None if self._loop.error is None else repr(self._loop.error),
        }

    @property
    def refresh_seconds(self) -> float:
        """How long it last took to embed the catalogue anew."""
        return self._searcher.refresh_seconds

    @property
    def n_items(self) -> int:
        return self._searcher.catalogue.n_items

    @property
    def n_refused(self) -> int:
        return self._loop.n_refused

    @property
    def is_healthy(self) -> bool:
        return self.ready and self._loop.error is None

    def let_answer(self, timeout: float) -> None:
        """Wait until nobody is being answered, or time runs out."""
        self._searcher.asking.wait_until_over(timeout)

    def wants_refresh(self) -> bool:
        """Whether the catalogue is to be embedded anew now."""
        due = self._searcher.refreshed + self._settings.refresh_every
        return self.ready and time.monotonic() >= due and self._searcher.is_stale

    def refresh(self, rest: AfterBlock | None = None) -> None:
        """Embed the catalogue anew; ``rest`` as in `IndexedItems.add`."""
        self._searcher.refresh(rest)
        self.counts.refreshes += 1
        published = self._searcher.catalogue.published
        self.events.publish("refresh", metric_version=published.version, seconds=self._searcher.refresh_seconds)


@contextmanager
def _overflowing() -> Iterator[None]:
    """`OverflowedItemError` as `InvalidRequestError`."""
    try:
        yield
    except OverflowedItemError as error:
        raise InvalidRequestError(str(error)) from error
