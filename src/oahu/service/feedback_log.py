"""The feedback log of a collection, and the constraint graph that is built from the log.

When a feedback record is accepted, its constraints are added to the graph. The record is also expanded into
training examples: its constraints, and further constraints that the graph implies. The training examples are
written to the store, where the learner reads them. Queries use the graph to look up similar and dissimilar items.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, Protocol

from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.constraints.contradictions import Contradiction
from oahu.service.errors import ConflictError, ContradictoryFeedbackError, InvalidRequestError, NotFoundError
from oahu.service.learner_factory import example_kind
from oahu.service.records import (
    Change,
    Click,
    CollectionConfig,
    FeedbackRecord,
    LoggedChange,
    ModelReplacement,
    Receipt,
    Undo,
    constraints_of,
    first_changed_seq,
    undone_between,
)
from oahu.service.store import Store, StoreReader, Transaction
from oahu.service.store.interface import StoredReceipt
from oahu.service.training_examples import encode_examples, expand

__all__ = ["FeedbackLog", "Items", "effective_records"]

_MAX_LINKS: Final = 10  # links of a proof in an error message
_FEEDBACK: Final = (Triplet, Pair, Click)


def effective_records(
    entries: Iterable[LoggedChange], undone: Iterable[tuple[int, int]]
) -> list[tuple[int, FeedbackRecord]]:
    """Return the feedback records that are not undone, with their sequence numbers."""
    feedback = [(seq, change) for seq, _, change in entries if isinstance(change, _FEEDBACK)]
    if not feedback:
        return []
    skipped = undone_between(undone, feedback[0][0], feedback[-1][0])
    return [(seq, record) for seq, record in feedback if seq not in skipped]


class Items(Protocol):
    """The interface that converts the keys of items to item numbers, and item numbers to keys."""

    def number_of(self, transaction: Transaction, key: str, where: str, at: int) -> int:
        """Return the item number of the item with this key. See `Catalogue.number_of`."""
        ...

    def key_of(self, number: int) -> str:
        """Return the key of the item with this item number. The item may be deleted."""
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
        entries = self._store.log(self._collection, after, limit)
        effective = {seq for seq, _ in effective_records(entries, self._store.undone(self._collection))}
        return [(entry._replace(change=self._with_keys(entry.change)), entry.seq in effective) for entry in entries]

    def _with_keys(self, change: Change) -> Change:
        key_of = self._items.key_of
        if isinstance(change, Undo | ModelReplacement):
            return change
        if isinstance(change, Click):
            positive, negative = tuple(map(key_of, change.positive)), tuple(map(key_of, change.negative))
            return Click(key_of(change.query), positive, negative)
        if isinstance(change, Triplet):
            return Triplet(*map(key_of, change))
        return change._replace(first=key_of(change.first), second=key_of(change.second))

    # -- commands ----------------------------------------------------------------------------------------

    def append(
        self, transaction: Transaction, records: Sequence[FeedbackRecord], request: str | None = None
    ) -> Receipt:
        """Add feedback records. Either all records are stored or none.

        ``request`` is the idempotency key of the request. A second request with the same idempotency key returns
        the same receipt and changes nothing.
        """
        digest = ""
        if request is not None:
            digest = hashlib.sha256(repr(records).encode()).hexdigest()
            if stored := transaction.find_receipt(self._collection, request):
                return _replayed_receipt(request, digest, stored)
        state = self._current(transaction)
        numbered = [self._with_numbers(transaction, record, at) for at, record in enumerate(records)]
        constraints = [constraints_of(record) for record in numbered]
        self._reject_contradictions(state, constraints)
        transaction.after_rollback(self._reload)
        first = state.last_seq + 1
        examples = [self._extend(state, seq, record) for seq, record in enumerate(numbered, first)]
        state.referenced.update(_referenced(numbered))
        state.last_seq += len(numbered)
        transaction.append(self._collection, first, numbered)
        transaction.store_examples(self._collection, enumerate(examples, first))
        receipt = Receipt(first, state.last_seq)
        if request is not None:
            transaction.store_receipt(self._collection, request, StoredReceipt(digest, first, state.last_seq))
        self._commit_seq(transaction, state.last_seq)
        return receipt

    def undo(self, transaction: Transaction, first: int, last: int) -> int:
        """Undo the active feedback records from ``first`` to ``last``. Return the sequence number of the undo."""
        state = self._current(transaction)
        if not 1 <= first <= last <= state.last_seq:
            raise NotFoundError(f"There is no feedback record {first}. The log has {state.last_seq} entries.")
        entries = transaction.log(self._collection, first - 1, last - first + 1)
        if not effective_records(entries, transaction.undone(self._collection)):
            if isinstance(entries[0].change, Undo | ModelReplacement):
                raise InvalidRequestError(
                    f"Log entry {first} is an undo or a model upload. Only feedback can be undone."
                )
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

    def _with_numbers(self, transaction: Transaction, record: FeedbackRecord, at: int) -> FeedbackRecord:
        def number(key: Any) -> int:
            return self._items.number_of(transaction, key, "feedback", at)

        if isinstance(record, Click):
            positive, negative = tuple(map(number, record.positive)), tuple(map(number, record.negative))
            return Click(number(record.query), positive, negative)
        if isinstance(record, Triplet):
            return Triplet(*map(number, record))
        return Pair(number(record.first), number(record.second), record.same)

    def _extend(self, state: _State, seq: int, record: FeedbackRecord) -> bytes:
        """Add the constraints of a record to the graph. Return the encoded training examples of the record.

        The lock is acquired for each record separately, so that queries do not wait for a large request.
        """
        with self._lock:
            state.seqs.extend([seq] * len(constraints_of(record)))
            examples = expand(state.graph, record, seq, self._config.closure, self._kind)
        return encode_examples(record, examples)

    def _append_undo(self, transaction: Transaction, undo: Undo) -> int:
        """Append an undo to the log, rebuild the graph, and expand later records into training examples again.

        The undo can change the training examples of all records after the first undone record.
        """
        state = self._current(transaction)
        transaction.after_rollback(self._reload)
        changed = first_changed_seq(transaction.undos(self._collection), undo)
        transaction.append(self._collection, state.last_seq + 1, [undo])
        entries = effective_records(transaction.log(self._collection), transaction.undone(self._collection))
        rebuilt = self._build_state([entry for entry in entries if entry[0] < changed])
        examples = [(seq, self._extend(rebuilt, seq, record)) for seq, record in entries if seq >= changed]
        transaction.store_examples(self._collection, examples)
        rebuilt.last_seq, rebuilt.referenced = state.last_seq + 1, state.referenced
        with self._lock:
            self._state = rebuilt
        self._commit_seq(transaction, rebuilt.last_seq)
        return rebuilt.last_seq

    def _commit_seq(self, transaction: Transaction, seq: int) -> None:
        def set_last_seq() -> None:
            self.last_seq = seq

        transaction.after_commit(set_last_seq)

    # -- contradictions ----------------------------------------------------------------------------------

    def _reject_contradictions(self, state: _State, constraints: Sequence[Sequence[Pair | Triplet]]) -> None:
        flat = [(at, constraint) for at, given in enumerate(constraints) for constraint in given]
        if self._config.contradictions == "newest":
            for at, constraint in flat:  # a constraint that contradicts itself is always rejected
                if found := ConstraintGraph().first_contradiction([constraint]):
                    raise self._contradiction_error(state, found, at, 0, [(at, constraint)])
            return
        begin = len(state.seqs)
        with self._lock:
            found = state.graph.first_contradiction(constraint for _, constraint in flat)
        if found is not None:
            at = flat[found.number - begin][0]
            raise self._contradiction_error(state, found, at, begin, flat)

    def _contradiction_error(
        self,
        state: _State,
        found: Contradiction,
        at: int,
        begin: int,
        constraints: list[tuple[int, Pair | Triplet]],
    ) -> ContradictoryFeedbackError:
        """Return the error for a contradiction, with its proof.

        Constraints are numbered in the order of their addition to the graph. Constraints from number ``begin`` on
        come from the request.
        """
        key_of = self._items.key_of
        chain, sentences = [], []
        for number, first, second, same in found.chain:
            pair: dict[str, Any] = {"first": key_of(first), "second": key_of(second), "same": same}
            in_request = number >= begin
            source = {"record": constraints[number - begin][0]} if in_request else {"seq": state.seqs[number]}
            chain.append(source | pair)
            sentences.append(
                f"{'this request' if in_request else f'feedback {state.seqs[number]}'} states {_sentence(pair)}"
            )
        first, second, same = found.pair
        pair = {"first": key_of(first), "second": key_of(second), "same": same}
        proof = "; ".join([*sentences[:_MAX_LINKS], "..."][: len(sentences)]) or "an item is similar to itself"
        return ContradictoryFeedbackError(
            f"Feedback record {at} of the request states {_sentence(pair)}, but {proof}. Nothing was accepted. "
            "Undo the earlier feedback, or remove this record from the request.",
            chain,
            record=at,
            pair=pair,
        )

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
        entries = reader.log(self._collection)
        state = self._build_state(effective_records(entries, reader.undone(self._collection)))
        state.referenced = _referenced(entry.change for entry in entries)
        state.last_seq = entries[-1].seq if entries else 0
        with self._lock:
            self._state = state

    def _build_state(self, records: Iterable[tuple[int, FeedbackRecord]]) -> _State:
        """Return a new state. Its graph contains the constraints of the given records."""
        graph = ConstraintGraph("newest" if self._config.contradictions == "newest" else "raise")
        seqs = array("q")

        def constraints() -> Iterator[Pair | Triplet]:
            for seq, record in records:
                for constraint in constraints_of(record):
                    seqs.append(seq)
                    yield constraint

        graph.extend(constraints())
        return _State(graph, seqs, 0, set())


def _replayed_receipt(request: str, digest: str, stored: StoredReceipt) -> Receipt:
    if stored.digest != digest:
        used = f"other feedback (log entries {stored.first_seq} to {stored.last_seq})"
        raise InvalidRequestError(
            f"The idempotency key {request!r} was already used for {used if stored.first_seq else 'other items'}. "
            "Use a new key for new feedback."
        )
    return Receipt(stored.first_seq, stored.last_seq, replayed=True)


def _sentence(pair: dict[str, Any]) -> str:
    relation = "similar" if pair["same"] else "dissimilar"
    return f"that {pair['first']!r} and {pair['second']!r} are {relation}"


def _referenced(changes: Iterable[Change]) -> set[int]:
    """Return the item numbers to which log entries refer."""
    numbers: set[int] = set()
    for change in changes:
        if isinstance(change, Click):
            numbers.update((change.query, *change.positive, *change.negative))
        elif isinstance(change, Triplet):
            numbers.update(change)
        elif isinstance(change, Pair):
            numbers.update(change[:2])
    return numbers
