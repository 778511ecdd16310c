"""The feedback log of a collection, and the constraint graph that is built from the log.

When a feedback record is accepted, its constraints are added to the graph. The record is also expanded into
training examples: its constraints, and further constraints that the graph implies. The training examples are
written to the store, where the learner reads them. Queries use the graph to look up similar and dissimilar items.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from threading import RLock
from typing import Any, Final, NamedTuple, Protocol

from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.constraints.contradictions import Contradiction
from oahu.service.contradiction_report import ContradictionReport
from oahu.service.errors import ConflictError, InvalidRequestError, NotFoundError
from oahu.service.learner_factory import example_kind
from oahu.service.outcomes import is_held_out, query_id
from oahu.service.records import (
    FEEDBACK,
    Change,
    Click,
    CollectionConfig,
    Feedback,
    FeedbackRecord,
    LoggedChange,
    ModelReplacement,
    QueryVector,
    Receipt,
    SettingsChange,
    SourceWeight,
    Undo,
    active_undos,
    constraints_of,
    first_changed_seq,
    items_of,
    map_items,
    undone_between,
)
from oahu.service.store import Store, StoreReader, Transaction
from oahu.service.store.interface import StoredReceipt
from oahu.service.training_examples import NO_EXAMPLES, encode_examples, expand

__all__ = ["FeedbackLog", "Items", "digest_of", "effective_feedback", "source_factors"]

_CHUNK: Final = 256  # records that are checked for contradictions at once

#: Numbered feedback with its sequence number.
Entry = tuple[int, Feedback]


class Factor(NamedTuple):
    """The factor for the weights of all feedback of a source before the log entry ``seq``."""

    seq: int
    weight: float


def source_factors(reader: StoreReader, collection: int) -> dict[str, Factor]:
    """Return the current factor of every source that has one."""
    active = {undo.seq for undo in active_undos(reader.undos(collection))}
    weights = reader.source_weights(collection)
    return {change.source: Factor(seq, change.weight) for seq, change in weights if seq in active}


def effective_feedback(
    entries: Iterable[LoggedChange],
    undone: Iterable[tuple[int, int]],
    factors: Mapping[str, Factor] | None = None,
) -> list[Entry]:
    """Return the feedback that has an effect, with its sequence numbers and effective weights.

    Undone feedback has no effect, and neither has feedback of a source with the factor 0.
    """
    feedback = [entry for entry in entries if isinstance(entry.change, FEEDBACK)]
    if not feedback:
        return []
    skipped = undone_between(undone, feedback[0].seq, feedback[-1].seq)
    effective = []
    for seq, _, record, weight, source in feedback:
        factor = (factors or {}).get(source or "")
        if factor is not None and seq < factor.seq:
            weight *= factor.weight
        if weight > 0 and seq not in skipped:
            effective.append((seq, Feedback(record, weight, source)))  # type: ignore[arg-type]
    return effective


def digest_of(feedback: Iterable[Feedback]) -> str:
    """Return a digest of the feedback in a request, to recognize a repeated request."""
    return hashlib.sha256(f"[{', '.join(map(_text_of, feedback))}]".encode()).hexdigest()


def _text_of(feedback: Feedback) -> str:
    """Return a text of a piece of feedback. Feedback that oahu 0.1.0 knew has the text of that version."""
    record = feedback.record
    if feedback != Feedback(record) or (isinstance(record, Click) and record.shown):
        return repr(feedback)
    if isinstance(record, Click):
        return f"Click(query={record.query!r}, positive={record.positive!r}, negative={record.negative!r})"
    return repr(record)


class Items(Protocol):
    """The interface that converts items in requests to item numbers, and item numbers to items."""

    def number_of(self, transaction: Transaction, key: str, where: str, at: int) -> int:
        """Return the item number of the item with this key. See `Catalogue.number_of`."""
        ...

    def number_of_vector(self, transaction: Transaction, vector: QueryVector) -> int:
        """Return the item number of a query vector. See `Catalogue.number_of_vector`."""
        ...

    def item_of(self, number: int) -> str | QueryVector:
        """Return the key of the item with this item number, or the query vector. The item may be deleted."""
        ...


@dataclass
class _State:
    """The state of the log after the last command."""

    graph: ConstraintGraph
    seqs: array[int]  # the sequence number of each constraint in the graph
    last_seq: int
    referenced: set[int]  # items in log entries, including undone entries


class FeedbackLog:
    """The feedback log of a collection, and the constraint graph in memory.

    Methods with a ``transaction`` parameter are commands. The store runs commands one after the other. The other
    methods are thread-safe.

    Attributes
    ----------
    last_seq : int
        The sequence number of the last committed entry.
    """

    def __init__(self, store: Store, collection: int, config: CollectionConfig, items: Items) -> None:
        self._store, self._collection, self._config, self._items = store, collection, config, items
        self._kind = example_kind(config)
        self._state: _State | None = None
        self._lock = RLock()  # protects the graph, which the writer extends while queries read it
        self.last_seq = store.last_seq(collection)

    def load(self) -> None:
        """Load the log and build the constraint graph."""
        self._reload(self._store)

    # -- reads -------------------------------------------------------------------------------------------

    def similar_to(self, number: int) -> list[int]:
        """Return the item numbers of similar items, according to given or implied feedback."""
        with self._lock:
            return [] if self._state is None else self._state.graph.similar_to(number)

    def dissimilar(self, number: int, others: Iterable[int]) -> set[int]:
        """Return the items in ``others`` that are dissimilar to an item, according to given or implied feedback."""
        with self._lock:
            if self._state is None:
                return set()
            graph = self._state.graph
            return {other for other in others if graph.are_dissimilar(number, other)}

    def page(self, after: int, limit: int) -> list[tuple[LoggedChange, bool]]:
        """Return at most ``limit`` log entries with a sequence number above ``after``.

        The entries contain item keys instead of item numbers. The second value of each tuple is True if the entry
        is feedback that is not undone.
        """
        store = self._store
        entries = store.log(self._collection, after, limit)
        undone, factors = store.undone(self._collection), source_factors(store, self._collection)
        effective = {seq for seq, _ in effective_feedback(entries, undone, factors)} - self._ignored(store)
        return [(entry._replace(change=self._with_keys(entry.change)), entry.seq in effective) for entry in entries]

    def _with_keys(self, change: Change) -> Change:
        return map_items(change, self._items.item_of) if isinstance(change, FEEDBACK) else change

    def _ignored(self, reader: StoreReader) -> set[int]:
        """Return the sequence numbers of feedback without effect, because it contradicts earlier feedback."""
        if self._config.contradictions != "ignore":
            return set()
        return {seq for seq, _ in reader.contradictions(self._collection)}

    # -- commands ----------------------------------------------------------------------------------------

    def append(
        self,
        transaction: Transaction,
        records: Sequence[FeedbackRecord | Feedback],
        request: str | None = None,
        *,
        digest: str | None = None,
        all_or_nothing: bool = False,
        unknown_impressions: Sequence[int] = (),
    ) -> Receipt:
        """Add feedback records.

        Contradictions are handled as the setting ``contradictions`` states. All other errors reject all records.

        Parameters
        ----------
        request : str or None
            The idempotency key of the request. A second request with the same idempotency key returns the same
            receipt and changes nothing.
        digest : str or None
            The digest of the feedback as it was sent. By default, the digest of ``records``.
        all_or_nothing : bool
            Whether a refused record rejects the whole request.
        unknown_impressions : sequence of int
            The indexes of the records with an unknown impression, for the receipt.
        """
        given = [Feedback.of(record) for record in records]
        if request is not None:
            digest = digest or digest_of(given)
            if stored := transaction.find_receipt(self._collection, request):
                return _replayed_receipt(request, digest, stored)
        state = self._current(transaction)
        numbered = [self._with_numbers(transaction, feedback, at) for at, feedback in enumerate(given)]
        self._reject_contradictions_of_themselves(numbered)
        first = state.last_seq + 1
        if self._config.contradictions == "refuse":
            accepted, examples, refused = self._accept(transaction, state, numbered, all_or_nothing)
            contradictions: list[tuple[int, int]] = []
        else:
            transaction.after_rollback(self._reload)
            accepted, refused = numbered, []
            examples, contradictions = self._expand(state, list(enumerate(numbered, first)))
        state.referenced.update(number for feedback in accepted for number in items_of(feedback.record))
        state.last_seq += len(accepted)
        transaction.append(self._collection, first, accepted)
        transaction.store_examples(self._collection, examples)
        if contradictions:
            transaction.store_contradictions(self._collection, first, contradictions)
        if refused:
            sources = [source for one in refused if (source := given[one.record].source) is not None]
            transaction.count_refused(self._collection, sources)
        receipt = Receipt(
            first,
            state.last_seq,
            refused=tuple(one._asdict() for one in refused),
            unknown_impressions=tuple(unknown_impressions),
        )
        if request is not None:
            transaction.store_receipt(self._collection, request, _stored_receipt(digest or "", receipt))
        self._commit_seq(transaction, state.last_seq)
        return receipt

    def undo(self, transaction: Transaction, first: int, last: int) -> int:
        """Undo the active feedback records from ``first`` to ``last``. Return the sequence number of the undo."""
        state = self._current(transaction)
        if not 1 <= first <= last <= state.last_seq:
            raise NotFoundError(f"There is no feedback record {first}. The log has {state.last_seq} entries.")
        entries = transaction.log(self._collection, first - 1, last - first + 1)
        if not effective_feedback(entries, transaction.undone(self._collection)):
            if not isinstance(entries[0].change, FEEDBACK):
                raise InvalidRequestError(f"Log entry {first} is not feedback. Only feedback can be undone.")
            raise ConflictError(f"Feedback record {first} is already undone.")
        return self._append_undo(transaction, Undo(first, last))

    def restore(self, transaction: Transaction, version: int) -> int:
        """Undo all log entries after ``version``: feedback, model replacements and undos.

        Return the new sequence number.
        """
        state = self._current(transaction)
        if not 0 <= version <= state.last_seq:
            raise NotFoundError(f"There is no metric version {version}. The newest version is {state.last_seq}.")
        if version == state.last_seq:
            raise ConflictError(f"Metric version {version} is already the newest.")
        return self._append_undo(transaction, Undo(version + 1, state.last_seq))

    def weigh_source(self, transaction: Transaction, source: str, weight: float) -> int:
        """Multiply the weights of all earlier feedback of a source by ``weight``. 0 undoes this feedback.

        A new factor replaces the factor before. Return the sequence number of the new log entry. If nothing
        changes, return the last sequence number.
        """
        state = self._current(transaction)
        seqs = transaction.source_seqs(self._collection, source)
        if not seqs:
            raise NotFoundError(f"There is no feedback of the source {source!r}.", source=source)
        before = source_factors(transaction, self._collection).get(source, Factor(seqs[-1] + 1, 1.0))
        if before.weight == weight and (weight == 1 or seqs[-1] < before.seq):
            return state.last_seq
        return self._append_and_learn_again(transaction, SourceWeight(source, weight), seqs[0], replay=True)

    def change_settings(
        self, transaction: Transaction, config: CollectionConfig, changed: dict[str, Any]
    ) -> tuple[int, CollectionConfig]:
        """Apply new settings to the whole log. Return the last sequence number, and the stored settings.

        ``changed`` contains the new values of the changed settings. If the training examples or the parameters of
        the learner change, the log gets a new entry, after which the learner learns the log again.
        """
        state = self._current(transaction)
        transaction.after_rollback(self._reload)
        self._config = config
        transaction.store_config(self._collection, config)
        rebuilt = self._rebuild(transaction, 1)
        if "parameters" in changed or self._have_changed(transaction, rebuilt.examples):
            seq = rebuilt.state.last_seq = state.last_seq + 1
            self._config = replace(config, revision=seq)
            transaction.store_config(self._collection, self._config)
            transaction.append(self._collection, seq, [SettingsChange(changed)])
            transaction.learn_again(self._collection, seq, 1)
        self._store_rebuilt(transaction, rebuilt)
        return rebuilt.state.last_seq, self._config

    def replace_model(self, transaction: Transaction, data: bytes) -> int:
        """Append a model replacement to the log. Return the sequence number of the new log entry."""
        state = self._current(transaction)
        transaction.after_rollback(self._reload)
        state.last_seq += 1
        replacement = ModelReplacement(hashlib.sha256(data).hexdigest())
        transaction.append(self._collection, state.last_seq, [replacement])
        transaction.store_model(self._collection, state.last_seq, data)
        self._commit_seq(transaction, state.last_seq)
        return state.last_seq

    def is_referenced(self, transaction: Transaction, number: int) -> bool:
        """Return whether the log refers to an item.

        If it does, a replay of the log needs the features of the item.
        """
        return number in self._current(transaction).referenced

    def _with_numbers(self, transaction: Transaction, feedback: Feedback, at: int) -> Feedback:
        def number(item: str | QueryVector) -> int:
            if isinstance(item, QueryVector):
                return self._items.number_of_vector(transaction, item)
            return self._items.number_of(transaction, item, "feedback", at)

        return feedback._replace(record=map_items(feedback.record, number), impression=None)

    def _extend(self, state: _State, seq: int, feedback: Feedback) -> bytes:
        """Add the constraints of a record to the graph. Return the encoded training examples of the record.

        The lock is acquired for each record separately, so that queries do not wait for a large request.
        """
        record = feedback.record
        if self._is_held_out(record):
            return NO_EXAMPLES
        with self._lock:
            state.seqs.extend([seq] * len(constraints_of(record)))
            examples = expand(state.graph, record, seq, self._config.closure, self._kind)
        return encode_examples(record, examples, feedback.weight)

    def _is_held_out(self, record: FeedbackRecord) -> bool:
        """Return whether a numbered record is held out from learning. Its query, or first item, decides."""
        share = self._config.held_out
        return share > 0 and is_held_out(query_id(self._items.item_of(items_of(record)[0])), share)

    def _expand(
        self, state: _State, entries: Sequence[Entry]
    ) -> tuple[list[tuple[int, bytes]], list[tuple[int, int]]]:
        """Add records to the graph. Return their encoded training examples, and their contradictions.

        A contradiction is the sequence number of a record and the sequence number of an earlier record that it
        contradicts. With the policy "ignore", a contradicting record is not added and has no training examples.
        """
        examples, contradictions = [], []
        for start in range(0, len(entries), _CHUNK):
            chunk = entries[start : start + _CHUNK]
            found = self._first_contradiction(state, [feedback for _, feedback in chunk])
            for seq, feedback in chunk:
                own = self._first_contradiction(state, [feedback]) if found else None
                if own is not None:
                    contradictions += [(seq, other) for other in self._contradicted(state, own)]
                is_ignored = own is not None and self._config.contradictions == "ignore"
                examples.append((seq, NO_EXAMPLES if is_ignored else self._extend(state, seq, feedback)))
        return examples, contradictions

    def _accept(
        self, transaction: Transaction, state: _State, feedback: Sequence[Feedback], all_or_nothing: bool
    ) -> tuple[list[Feedback], list[tuple[int, bytes]], list[ContradictionReport]]:
        """Add the records without contradictions to the graph. Return them, their examples, and the other records.

        Raise `ContradictoryFeedbackError` if all records are refused, or if ``all_or_nothing`` is true and one
        record is refused. In this case, the graph does not change.
        """
        first, begin = state.last_seq + 1, len(state.seqs)
        found = self._first_contradiction(state, feedback)
        if found is None:
            transaction.after_rollback(self._reload)
            return list(feedback), self._expand(state, list(enumerate(feedback, first)))[0], []
        if all_or_nothing:
            records = [at for at, one in enumerate(feedback) for _ in constraints_of(one.record)]
            report = self._report(state, found, records[found.number - begin], records, begin)
            raise report.error("refuse", refused=[report._asdict()])
        accepted: list[Feedback] = []
        examples, refused = [], []
        records = []  # the index of the record of each constraint of the request in the graph
        for at, one in enumerate(feedback):
            own = [at] * len(constraints_of(one.record))
            if found := self._first_contradiction(state, [one]):
                refused.append(self._report(state, found, at, records + own, begin))
                continue
            if not accepted:
                transaction.after_rollback(self._reload)
            seq = first + len(accepted)
            examples.append((seq, self._extend(state, seq, one)))
            accepted.append(one)
            records += own
        if not accepted:
            raise refused[0].error("refuse", refused=[report._asdict() for report in refused])
        return accepted, examples, refused

    def _first_contradiction(self, state: _State, feedback: Iterable[Feedback]) -> Contradiction | None:
        with self._lock:
            return state.graph.first_contradiction(
                chain.from_iterable(constraints_of(one.record) for one in feedback)
            )

    @staticmethod
    def _contradicted(state: _State, found: Contradiction) -> list[int]:
        """Return the sequence numbers of the earlier records in the proof of a contradiction."""
        return sorted({state.seqs[link.number] for link in found.chain if link.number < len(state.seqs)})

    def _append_undo(self, transaction: Transaction, undo: Undo) -> int:
        changed = first_changed_seq(transaction.undos(self._collection), undo)
        return self._append_and_learn_again(transaction, undo, changed)

    def _append_and_learn_again(
        self, transaction: Transaction, change: Undo | SourceWeight, first: int, replay: bool = False
    ) -> int:
        """Append a change to the log that affects earlier records, the first of which is ``first``.

        The graph is built again, and the later records are expanded into training examples again, because the
        change can affect the training examples of all of them. An undo makes the learner learn these records again.
        Any other change needs ``replay``.
        """
        state = self._current(transaction)
        transaction.after_rollback(self._reload)
        seq = state.last_seq + 1
        transaction.append(self._collection, seq, [change])
        if replay:
            transaction.learn_again(self._collection, seq, first)
        self._store_rebuilt(transaction, self._rebuild(transaction, first))
        return seq

    def _rebuild(self, transaction: Transaction, first: int) -> _Rebuilt:
        """Return the state of the current log. Examples and contradictions begin at the record ``first``."""
        entries = transaction.log(self._collection)
        undone, factors = transaction.undone(self._collection), source_factors(transaction, self._collection)
        effective = effective_feedback(entries, undone, factors)
        before = [entry for entry in effective if entry[0] < first]
        state = self._build_state(before, self._ignored(transaction))
        examples, contradictions = self._expand(state, [entry for entry in effective if entry[0] >= first])
        with_weight = {seq for seq, _ in effective}
        without_weight = [seq for seq, _ in effective_feedback(entries, undone) if seq not in with_weight]
        examples += [(seq, NO_EXAMPLES) for seq in without_weight if seq >= first]
        state.last_seq, state.referenced = entries[-1].seq if entries else 0, _referenced(entries)
        return _Rebuilt(state, first, examples, contradictions)

    def _store_rebuilt(self, transaction: Transaction, rebuilt: _Rebuilt) -> None:
        transaction.store_examples(self._collection, rebuilt.examples)
        transaction.store_contradictions(self._collection, rebuilt.first, rebuilt.contradictions)
        with self._lock:
            self._state = rebuilt.state
        self._commit_seq(transaction, rebuilt.state.last_seq)

    def _have_changed(self, transaction: Transaction, examples: Sequence[tuple[int, bytes]]) -> bool:
        """Return whether training examples differ from the stored training examples."""
        last = self._current(transaction).last_seq
        stored = {entry.seq: entry.examples for entry in transaction.training_log(self._collection, 0, last)}
        return any(stored[seq] != data for seq, data in examples)

    def _commit_seq(self, transaction: Transaction, seq: int) -> None:
        def set_last_seq() -> None:
            self.last_seq = seq

        transaction.after_commit(set_last_seq)

    # -- contradictions ----------------------------------------------------------------------------------

    def _reject_contradictions_of_themselves(self, feedback: Sequence[Feedback]) -> None:
        """Raise an error for a record that contradicts itself, unless such records are refused one by one."""
        if self._config.contradictions == "refuse":
            return
        for at, one in enumerate(feedback):
            for constraint in constraints_of(one.record):
                if _contradicts_itself(constraint):
                    found = ConstraintGraph().first_contradiction([constraint])
                    assert found is not None
                    raise self._report(_empty_state(), found, at, [at], 0).error_of_itself()

    def _report(
        self, state: _State, found: Contradiction, at: int, records: Sequence[int], begin: int
    ) -> ContradictionReport:
        """Return the report of a contradiction with record ``at`` of the request.

        Constraints are numbered in the order of their addition to the graph. The constraints from number ``begin``
        on come from the request, and ``records`` contains the index of the record of each of them.
        """

        def origin_of(number: int) -> dict[str, int]:
            return {"seq": state.seqs[number]} if number < begin else {"record": records[number - begin]}

        return ContradictionReport.of(found, at, self._name_of, origin_of)

    def _name_of(self, number: int) -> str:
        return str(self._items.item_of(number))

    # -- state -------------------------------------------------------------------------------------------

    def _current(self, reader: StoreReader) -> _State:
        """Return the current state. Load the state if necessary."""
        if self._state is None:
            self._reload(reader)
        assert self._state is not None
        return self._state

    def _reload(self, reader: StoreReader) -> None:
        """Load the state from the store, at the start and after a rollback.

        If loading fails, queries run without the graph, and the next command tries to load the state again.
        """
        with self._lock:
            self._state = None
        self._config = reader.config(self._collection)
        entries = reader.log(self._collection)
        undone, factors = reader.undone(self._collection), source_factors(reader, self._collection)
        state = self._build_state(effective_feedback(entries, undone, factors), self._ignored(reader))
        state.referenced = _referenced(entries)
        state.last_seq = entries[-1].seq if entries else 0
        with self._lock:
            self._state = state

    def _build_state(self, entries: Iterable[Entry], ignored: set[int]) -> _State:
        """Return a new state. Its graph contains the constraints of the given records that are not ignored.

        The policy of the graph is always "newest". With the settings "refuse" and "ignore", the graph contains no
        contradictions, unless the setting was "newest" before.
        """
        graph, seqs = ConstraintGraph("newest"), array("q")

        def constraints() -> Iterator[Pair | Triplet]:
            for seq, feedback in entries:
                if seq in ignored or self._is_held_out(feedback.record):
                    continue
                for constraint in constraints_of(feedback.record):
                    seqs.append(seq)
                    yield constraint

        graph.extend(constraints())
        return _State(graph, seqs, 0, set())


def _empty_state() -> _State:
    return _State(ConstraintGraph("newest"), array("q"), 0, set())


@dataclass
class _Rebuilt:
    """A rebuilt state, with the examples and the contradictions of all records from ``first`` on."""

    state: _State
    first: int
    examples: list[tuple[int, bytes]]
    contradictions: list[tuple[int, int]]


def _stored_receipt(digest: str, receipt: Receipt) -> StoredReceipt:
    details = {"refused": list(receipt.refused), "unknown_impressions": list(receipt.unknown_impressions)}
    return StoredReceipt(digest, receipt.first_seq, receipt.last_seq, details if any(details.values()) else None)


def _replayed_receipt(request: str, digest: str, stored: StoredReceipt) -> Receipt:
    if stored.digest != digest:
        raise InvalidRequestError(
            f"The idempotency key {request!r} was already used for other feedback (log entries "
            f"{stored.first_seq} to {stored.last_seq}). Use a new key for new feedback."
        )
    details = {name: tuple(values) for name, values in (stored.details or {}).items()}
    return Receipt(stored.first_seq, stored.last_seq, replayed=True, **details)


def _contradicts_itself(constraint: Pair | Triplet) -> bool:
    if isinstance(constraint, Triplet):
        return constraint.negative in (constraint.anchor, constraint.positive)
    return constraint.first == constraint.second and not constraint.same


def _referenced(entries: Iterable[LoggedChange]) -> set[int]:
    """Return the item numbers to which log entries refer."""
    records = (entry.change for entry in entries if isinstance(entry.change, FEEDBACK))
    return {number for record in records for number in items_of(record)}
