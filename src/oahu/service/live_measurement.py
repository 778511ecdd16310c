"""The live measurement of a collection: evaluates every click before it is learned, and reports the results.

Outcomes of searches are written in the transaction that stores the click. They depend only on the click and on what
the search has shown. Orderings are computed by the learner loop, immediately before it learns the clicks. Both are
stored once and never computed again, so that a restart or a replay of the log gives the same report.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from threading import RLock
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import OverflowedItemError
from oahu.metrics import Metric
from oahu.service.errors import ServiceError
from oahu.service.feature_store import FeatureStore
from oahu.service.feedback_log import source_factors
from oahu.service.guard import Guard, GuardState
from oahu.service.outcomes import OUTCOME, ShownList, is_held_out, mark, merge, query_id
from oahu.service.records import Click, Feedback, LoggedChange, QueryVector, Receipt, is_undone
from oahu.service.report import Section, section_of
from oahu.service.store import Store, StoreReader, Transaction
from oahu.service.store.interface import StoredOrdering, StoredOutcome

__all__ = ["ORDERING", "LiveMeasurement", "Report"]

#: One evaluated click in memory.
ORDERING: Final = np.dtype(
    [("seq", np.int64), ("query", np.int64), ("learned", np.float32), ("unlearned", np.float32)]
)
_MAX_PAIRS: Final = 100  # pairs of one alike and one other item that are evaluated per click

log = logging.getLogger("oahu.service")


class Report(NamedTuple):
    """The live measurement of a collection.

    Attributes
    ----------
    everything : Section
        The estimates from all clicks.
    recent : Section or None
        The estimates from the last searches and clicks, if a number was given.
    held_out : Section
        The estimates from the clicks on queries that are held out from learning.
    guard : GuardState
        Whether searches use the learned metric.
    """

    everything: Section
    recent: Section | None
    held_out: Section
    guard: GuardState


class _Rows:
    """A growing array of rows with ascending sequence numbers."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._rows, self._n = rows, len(rows)

    @property
    def rows(self) -> NDArray[Any]:
        return self._rows[: self._n]

    def put(self, row: NDArray[Any]) -> int:
        """Add a row, or replace the row with the same sequence number. Return its index."""
        at = int(np.searchsorted(self.rows["seq"], row["seq"]))
        if at < self._n and self._rows["seq"][at] == row["seq"]:
            self._rows[at] = row
            return at
        if self._n == len(self._rows):
            larger = np.empty(max(64, 2 * self._n), self._rows.dtype)
            larger[: self._n] = self._rows
            self._rows = larger
        self._rows[at + 1 : self._n + 1] = self._rows[at : self._n].copy()
        self._rows[at] = row
        self._n += 1
        return at


class LiveMeasurement:
    """The evaluations of the clicks of a collection.

    Parameters
    ----------
    on_switch : callable
        A function that is called with the new `GuardState` when searches begin to use another metric.
    """

    def __init__(
        self,
        store: Store,
        collection: int,
        features: FeatureStore,
        item_of: Callable[[int], str | QueryVector],
        on_switch: Callable[[GuardState], None],
    ) -> None:
        self._store, self._collection, self._features, self._item_of = store, collection, features, item_of
        self._on_switch = on_switch
        self._lock = RLock()
        self._clear()

    def _clear(self) -> None:
        self._outcomes, self._orderings = _Rows(np.empty(0, OUTCOME)), _Rows(np.empty(0, ORDERING))
        self._guard = Guard()
        self._cached: dict[tuple[int | None, float], Report] = {}
        self._last_evaluated = 0

    def load(self) -> None:
        """Load all evaluations of clicks that are not undone. Call this method after each undo."""
        with self._lock:
            before = self._guard.state.factor
            active = _active_filter(self._store, self._collection)
            stored = self._store.orderings(self._collection)
            last_stored = stored[-1].seq if stored else 0
            pending = [StoredOrdering(*row) for row in self._orderings.rows.tolist() if row[0] > last_stored]
            stored += pending  # their transaction is still in the queue
            last_evaluated = max(self._last_evaluated, last_stored)
            self._clear()
            self._last_evaluated = last_evaluated
            outcomes = merge(one for one in self._store.outcomes(self._collection) if active(one.seq))
            self._outcomes = _Rows(outcomes)
            self._orderings = _Rows(np.array([tuple(one) for one in stored if active(one.seq)], ORDERING))
            self._guard.update(self._outcomes.rows, 0)
            state = self._guard.state
        if state.factor != before:
            self._on_switch(state)

    # -- clicks on shown results ---------------------------------------------------------------------------

    def record(
        self,
        transaction: Transaction,
        given: Sequence[Feedback],
        receipt: Receipt,
        shown: Mapping[str, ShownList | None],
    ) -> None:
        """Store the outcomes of the accepted clicks that refer to known impressions.

        Call this method in the transaction that appends the feedback to the log.
        """
        refused = {one["record"] for one in receipt.refused}
        accepted = [one for at, one in enumerate(given) if at not in refused]
        outcomes = []
        for seq, one in enumerate(accepted, receipt.first_seq):
            found = shown.get(one.impression or "")
            if one.impression is not None and found is not None and isinstance(one.record, Click):
                content = mark(one.record, found).to_json()
                outcomes.append(StoredOutcome(seq, one.impression, query_id(one.record.query), content))
        if not outcomes:
            return
        transaction.store_outcomes(self._collection, outcomes)
        active = _active_filter(transaction, self._collection)
        rows = []
        for impression in dict.fromkeys(one.impression for one in outcomes):
            clicks = transaction.outcomes(self._collection, impression)
            rows.append(merge(one for one in clicks if active(one.seq))[0])
        transaction.after_commit(lambda: self._put(rows))

    def _put(self, rows: Sequence[NDArray[Any]]) -> None:
        with self._lock:
            before = self._guard.state.factor
            changed = min(self._outcomes.put(row) for row in rows)
            self._guard.update(self._outcomes.rows, changed)
            self._cached.clear()
            state = self._guard.state
        if state.factor != before:
            self._on_switch(state)

    # -- clicks before learning ----------------------------------------------------------------------------

    def evaluate(self, after: int, limit: int, undone: set[int], learned: Metric, unlearned: Metric) -> None:
        """Evaluate both metrics on the clicks of the next log entries. Call this method before they are learned.

        A click that has an evaluation keeps it. If the items of a click overflow a metric, it has no evaluation.
        """
        after, end = max(after, self._last_evaluated), after + limit
        entries = [] if end <= after else self._store.log(self._collection, after, end - after)
        clicks = [entry for entry in entries if isinstance(entry.change, Click) and entry.seq not in undone]
        self._last_evaluated = max(self._last_evaluated, end)
        pairs = [_pairs(entry) for entry in clicks]
        chosen = [(entry, numbers) for entry, numbers in zip(clicks, pairs, strict=True) if len(numbers)]
        if not chosen:
            return
        with suppress(OverflowedItemError):
            items = self._features.take(np.concatenate([numbers for _, numbers in chosen]))
            shares = [
                _shares_correct(metric, items, [len(n) for _, n in chosen]) for metric in (learned, unlearned)
            ]
            found = [
                StoredOrdering(entry.seq, query_id(self._item_of(entry.change.query)), *values)  # type: ignore[union-attr]
                for (entry, _), values in zip(chosen, zip(*shares, strict=True), strict=True)
            ]
            self._add_orderings(found)  # now, so that a report after the learning contains them
            self._store_orderings(found)

    def _store_orderings(self, orderings: Sequence[StoredOrdering]) -> None:
        def command(transaction: Transaction) -> None:
            transaction.store_orderings(self._collection, orderings)
            active = _active_filter(transaction, self._collection)
            rest = [one for one in orderings if active(one.seq)]
            transaction.after_commit(lambda: self._add_orderings(rest))

        with suppress(
            ServiceError
        ):  # the service is closing; the clicks are evaluated again before they are learned
            self._store.commit(command, weight=0)

    def _add_orderings(self, orderings: Sequence[StoredOrdering]) -> None:
        with self._lock:
            for one in orderings:
                self._orderings.put(np.array(tuple(one), ORDERING))
            self._cached.clear()

    # -- results -------------------------------------------------------------------------------------------

    @property
    def factor(self) -> float:
        """1 if searches use the learned metric, 0 if they use the unlearned metric."""
        return self._guard.state.factor

    def report(self, last: int | None, held_out: float) -> Report:
        """Return the report over all clicks, and over the last ``last`` searches and clicks.

        ``held_out`` is the share of queries that are held out from learning.
        """
        with self._lock:
            found = self._cached.get((last, held_out))
            if found is None:
                outcomes, orderings = self._outcomes.rows, self._orderings.rows
                outcomes_held, orderings_held = (
                    rows[[is_held_out(query, held_out) for query in rows["query"].tolist()]]
                    if held_out and len(rows)
                    else rows[:0]
                    for rows in (outcomes, orderings)
                )
                found = Report(
                    everything=section_of(outcomes, orderings),
                    recent=None if last is None else section_of(outcomes[-last:], orderings[-last:]),
                    held_out=section_of(outcomes_held, orderings_held),
                    guard=self._guard.state,
                )
                self._cached[last, held_out] = found
            return found


def _active_filter(reader: StoreReader, collection: int) -> Callable[[int], bool]:
    """Return a function that tells whether a feedback record is neither undone nor of a source with weight 0."""
    undone = reader.undone(collection)
    without_weight = {
        seq
        for source, factor in source_factors(reader, collection).items()
        if factor.weight == 0
        for seq in reader.source_seqs(collection, source)
        if seq < factor.seq
    }
    return lambda seq: seq not in without_weight and not is_undone(seq, undone)


def _pairs(entry: LoggedChange) -> NDArray[np.int64]:
    """Return triplets of a click: the query, an item marked as alike, and another item."""
    click = entry.change
    assert isinstance(click, Click)
    others = click.negative or click.shown
    pairs = list(product((click.query,), click.positive, others))[:_MAX_PAIRS]
    return np.array(pairs, np.int64).reshape(-1, 3)


def _shares_correct(metric: Metric, triplets: NDArray[Any], counts: Sequence[int]) -> list[float]:
    """Return the share of correctly ordered triplets of each click. A tie counts one half."""
    alike, other = metric.scores_to_first(triplets.reshape(-1, triplets.shape[2]), 3)
    correct = (alike > other) + 0.5 * (alike == other)
    starts = np.cumsum([0, *counts[:-1]])
    return [float(one) for one in np.add.reduceat(correct, starts) / np.array(counts)]
