"""What is accepted: keys, contradictions, undoing. All of it in order, inside the store's transactions."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final

from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.constraints.contradictions import Contradiction
from oahu.service.errors import ConflictError, ContradictoryFeedbackError, InvalidRequestError, NotFoundError
from oahu.service.records import (
    Calibration,
    CatalogueChange,
    Change,
    Click,
    CollectionConfig,
    FeedbackRecord,
    LoggedChange,
    ModelReplacement,
    NewItem,
    Receipt,
    Undo,
    constraints_of,
)
from oahu.service.store import Transaction
from oahu.service.store.interface import Reading, StoredReceipt

__all__ = ["Intake", "counting", "graph_of", "new_graph"]

_SHOWN = 10  # unknown keys that a message names
_SAID: Final = (Triplet, Pair, Click)


def new_graph(config: CollectionConfig) -> ConstraintGraph:
    """What follows from feedback, for a collection's way with contradictions."""
    return ConstraintGraph("newest" if config.contradictions == "newest" else "raise")


def counting(
    entries: Iterable[LoggedChange], undone: Iterable[tuple[int, int]]
) -> list[tuple[int, FeedbackRecord]]:
    """The pieces of feedback that count, of entries in order: those that were not undone."""
    said = [(seq, change) for seq, _, change in entries if isinstance(change, _SAID)]
    if not said:
        return []
    begin, end = said[0][0], said[-1][0]
    out = {seq for first, last in undone for seq in range(max(first, begin), min(last, end) + 1)}
    return [(seq, piece) for seq, piece in said if seq not in out]


def graph_of(
    config: CollectionConfig, pieces: Iterable[tuple[int, FeedbackRecord]]
) -> tuple[ConstraintGraph, array[int]]:
    """What follows from pieces of feedback, and the sequence number that each constraint came with."""
    graph, seqs = new_graph(config), array("q")

    def constraints() -> Iterator[Pair | Triplet]:
        for seq, piece in pieces:
            for constraint in constraints_of(piece):
                seqs.append(seq)
                yield constraint

    graph.extend(constraints())
    return graph, seqs


def _named(changes: Iterable[Change]) -> set[int]:
    """The items that entries of the log are about."""
    named: set[int] = set()
    for change in changes:
        if isinstance(change, Click):
            named.update((change.query, *change.positive, *change.negative))
        elif isinstance(change, Triplet | Pair):
            named.update(change if isinstance(change, Triplet) else change[:2])
    return named


@dataclass
class _Head:
    """A collection as of the last transaction."""

    keys: dict[str, int]
    labels: dict[int, str | None]
    graph: ConstraintGraph
    seqs: array[int]
    last_seq: int
    named: set[int]  # items that the log names, also where it was undone
    calibrated: set[int]  # items whose features thresholds are chosen by


class Intake:
    """The door of a collection. Its methods are commands for the store, which runs them one after the other.

    What it knows is as of the last command. If that comes to nothing, it reads it again from the store.
    """

    def __init__(
        self, collection: int, config: CollectionConfig, max_items: int, name: Callable[[int], str]
    ) -> None:
        self._collection, self._config, self._max_items, self._name_of = collection, config, max_items, name
        self._head: _Head | None = None
        self._n_open = 0  # commands that changed something and are not on disk yet
        self._deleted = False
        self._changing = RLock()  # the graph: who asks what is known is in another thread

    def delete(self, transaction: Transaction) -> None:
        """Delete the collection and all that is in it; whatever waits behind this is refused."""
        transaction.after_rollback(self._undelete)
        transaction.delete(self._collection)
        self._deleted = True

    def _undelete(self) -> None:
        self._deleted = False

    # -- items -------------------------------------------------------------------------------------------

    def put_items(self, transaction: Transaction, items: Sequence[NewItem]) -> CatalogueChange:
        """Add items, or replace those that are there. What was said of an item is said of its features."""
        head = self._ready(transaction)
        n_new = len({item.key for item in items} - head.keys.keys())
        if len(head.keys) + n_new > self._max_items:
            raise InvalidRequestError(f"A collection has at most {self._max_items} items; this would make it more.")
        self._change(transaction)
        change, news = CatalogueChange(), self._news(transaction, head, items)
        numbers = iter(transaction.new_numbers(self._collection, sum(news)))
        for item, new in zip(items, news, strict=True):
            before = head.keys.get(item.key)
            number = next(numbers) if new or before is None else before
            transaction.put(self._collection, item, number, new)
            if new:
                change.added.append((number, item.key, item.label, item.vector))
                if before is not None:
                    change.removed.append(before)
            elif head.labels[number] != item.label:
                change.labelled.append((number, item.label))
            head.keys[item.key], head.labels[number] = number, item.label
        change.forgotten.extend(self._forget(transaction, head, change.removed))
        return change

    def _news(self, transaction: Transaction, head: _Head, items: Sequence[NewItem]) -> list[bool]:
        """Whether the features of each are others than its key had before."""
        known: dict[str, bytes] = {}
        news = []
        for item in items:
            if item.key not in known and item.key in head.keys:
                known[item.key] = transaction.vector(self._collection, head.keys[item.key])
            news.append(known.get(item.key) != item.vector)
            known[item.key] = item.vector
        return news

    def delete_items(self, transaction: Transaction, keys: Sequence[str]) -> CatalogueChange:
        """Delete items, all of them or none. Feedback about them stays learned, and so do the features it needs."""
        head = self._ready(transaction)
        gone = list(dict.fromkeys(keys))
        numbers = [self._number(head, key, "keys", at) for at, key in enumerate(gone)]
        self._change(transaction)
        transaction.remove(self._collection, gone)
        for key in gone:
            del head.keys[key]
        return CatalogueChange(removed=numbers, forgotten=self._forget(transaction, head, numbers))

    def _forget(self, transaction: Transaction, head: _Head, numbers: list[int]) -> list[int]:
        """Do without the features of items that are gone, but for those that something refers to; which."""
        gone = [number for number in numbers if number not in head.named and number not in head.calibrated]
        transaction.forget(self._collection, gone)
        for number in numbers:
            del head.labels[number]
        return gone

    # -- feedback ----------------------------------------------------------------------------------------

    def feedback(
        self, transaction: Transaction, pieces: Sequence[FeedbackRecord], request: str | None = None
    ) -> tuple[Receipt, list[FeedbackRecord]]:
        """Accept pieces of feedback, all of them or none; the same request again is only answered again."""
        digest = ""
        if request is not None:
            digest = hashlib.sha256(repr(pieces).encode()).hexdigest()
            if before := transaction.answered(self._collection, request):
                return self._again(request, digest, before), []
        head = self._ready(transaction)
        numbered = [self._numbered(head, piece, at) for at, piece in enumerate(pieces)]
        constraints = [(at, one) for at, piece in enumerate(numbered) for one in constraints_of(piece)]
        self._check(head, constraints)
        self._change(transaction)
        first = head.last_seq + 1
        with self._changing:
            head.graph.extend(one for _, one in constraints)
            head.seqs.extend(first + at for at, _ in constraints)
        head.named.update(_named(numbered))
        head.last_seq += len(numbered)
        transaction.append(self._collection, first, numbered)
        receipt = Receipt(first, head.last_seq)
        if request is not None:
            transaction.answer(self._collection, request, StoredReceipt(digest, *receipt[:2]))
        return receipt, numbered

    def _again(self, request: str, digest: str, before: StoredReceipt) -> Receipt:
        if before.digest != digest:
            raise InvalidRequestError(
                f"The idempotency key {request!r} was used for other feedback before (it is {before.first_seq} to "
                f"{before.last_seq} of the log). Use a new key for new feedback."
            )
        return Receipt(before.first_seq, before.last_seq, replayed=True)

    def _check(self, head: _Head, constraints: list[tuple[int, Pair | Triplet]]) -> None:
        if self._config.contradictions == "newest":
            for at, one in constraints:  # whatever was said before, some cannot be true
                if found := ConstraintGraph().first_contradiction([one]):
                    raise self._contradicted(head, found, at, 0, [(at, one)])
            return
        begin = len(head.seqs)
        with self._changing:
            found = head.graph.first_contradiction(one for _, one in constraints)
        if found is not None:
            at = constraints[found.number - begin][0]
            raise self._contradicted(head, found, at, begin, constraints)

    def _contradicted(
        self,
        head: _Head,
        found: Contradiction,
        at: int,
        begin: int,
        constraints: list[tuple[int, Pair | Triplet]],
    ) -> ContradictoryFeedbackError:
        def name(number: int) -> str:
            return self._name(head, number)

        chain, words = [], []
        for number, first, second, same in found.chain:
            link: dict[str, Any] = {"first": name(first), "second": name(second), "same": same}
            own = number >= begin
            where = {"piece": constraints[number - begin][0]} if own else {"seq": head.seqs[number]}
            chain.append(where | link)
            said = "this feedback" if own else f"feedback {head.seqs[number]}"
            words.append(f"{said} says {name(first)!r} and {name(second)!r} are {'alike' if same else 'unlike'}")
        first, second, same = found.pair
        proof = "; ".join([*words[:_SHOWN], "..."][: len(words)]) or "an item is like itself"
        return ContradictoryFeedbackError(
            f"Piece {at} says that {name(first)!r} and {name(second)!r} are {'alike' if same else 'unlike'}, but "
            f"{proof}. Nothing of this request was accepted: undo one of these, or leave it out.",
            chain,
            piece=at,
            pair={"first": name(first), "second": name(second), "same": same},
        )

    def undo(self, transaction: Transaction, first: int, last: int) -> Undo:
        """Let pieces of feedback not count any more: one of them, or all in a range that still do."""
        head = self._ready(transaction)
        if not 1 <= first <= last <= head.last_seq:
            raise NotFoundError(f"There is no feedback {first}: the log has {head.last_seq} entries.")
        entries = transaction.log(self._collection, first - 1, last - first + 1)
        counted = counting(entries, transaction.undone(self._collection))
        if not counted:
            if isinstance(entries[0].change, Undo | ModelReplacement):
                raise InvalidRequestError(f"Entry {first} of the log is no feedback: only feedback can be undone.")
            raise ConflictError(f"Feedback {first} was undone already.")
        return self._undone(transaction, head, Undo(first, last))

    def restore(self, transaction: Transaction, version: int) -> Undo:
        """Let all be as it was at a version: nothing that came after it counts, neither feedback nor undoing it."""
        head = self._ready(transaction)
        if not 0 <= version <= head.last_seq:
            raise NotFoundError(f"There is no version {version}: the log has {head.last_seq} entries.")
        if version == head.last_seq:
            raise ConflictError(f"Version {version} is the newest already.")
        return self._undone(transaction, head, Undo(version + 1, head.last_seq))

    def _undone(self, transaction: Transaction, head: _Head, change: Undo) -> Undo:
        self._change(transaction)
        head.last_seq += 1
        transaction.append(self._collection, head.last_seq, [change])
        graph, seqs = self._following(transaction, transaction.log(self._collection))
        with self._changing:
            head.graph, head.seqs = graph, seqs
        return change

    def replace(self, transaction: Transaction, data: bytes) -> ModelReplacement:
        """Let a model from a file take over."""
        head = self._ready(transaction)
        self._change(transaction)
        change = ModelReplacement(hashlib.sha256(data).hexdigest())
        head.last_seq += 1
        transaction.append(self._collection, head.last_seq, [change])
        transaction.keep_model(self._collection, head.last_seq, data)
        return change

    def calibrate(
        self, transaction: Transaction, pairs: Sequence[tuple[str, str, bool]], target: dict[str, Any]
    ) -> Calibration:
        """Keep labelled pairs to choose thresholds by."""
        head = self._ready(transaction)
        numbered = tuple(
            (self._number(head, first, f"pairs/{at}", 0), self._number(head, second, f"pairs/{at}", 1), same)
            for at, (first, second, same) in enumerate(pairs)
        )
        self._change(transaction)
        head.calibrated = {number for pair in numbered for number in pair[:2]}
        calibration = Calibration(numbered, target, head.last_seq)
        transaction.calibrate(self._collection, calibration)
        return calibration

    def load(self, reading: Reading) -> tuple[ConstraintGraph, int]:
        """Get ready; a copy of what follows from feedback, and the sequence number up to which that is."""
        with self._changing:
            head = self._ready(reading)
            return head.graph.copy(), head.last_seq

    def alike_to(self, reading: Reading, number: int) -> list[int]:
        """The items that are known to be like one."""
        with self._changing:
            return self._peek(reading).graph.similar_to(number)

    def unlike(self, reading: Reading, number: int, others: Iterable[int]) -> set[int]:
        """Which of some items are known to be unlike another."""
        with self._changing:
            graph = self._peek(reading).graph
            return {other for other in others if graph.are_dissimilar(number, other)}

    def _peek(self, reading: Reading) -> _Head:
        """The state to look at, from any thread."""
        head = self._head or self._loaded(reading)
        if not self._n_open:  # else there may be more than this reading sees: it is not to decide by
            self._head = head
        return head

    # -- inside ------------------------------------------------------------------------------------------

    def _ready(self, reading: Reading) -> _Head:
        """The state to decide by."""
        if self._deleted:
            raise NotFoundError(f"There is no collection {self._config.name!r}.", collection=self._config.name)
        with self._changing:
            if self._head is None:
                self._head = self._loaded(reading)
            return self._head

    def _change(self, transaction: Transaction) -> None:
        """To be called before the state is changed: if that comes to nothing, it is read again."""
        self._n_open += 1
        transaction.after_commit(self._stored)
        transaction.after_rollback(self._reset)

    def _stored(self) -> None:
        with self._changing:
            self._n_open -= 1

    def _reset(self) -> None:
        with self._changing:
            self._n_open -= 1
            self._head = None

    def _loaded(self, reading: Reading) -> _Head:
        keys, labels = {}, {}
        for key, number, label in reading.keys(self._collection):
            keys[key], labels[number] = number, label
        calibration = reading.calibration(self._collection)
        calibrated = {number for pair in calibration.pairs for number in pair[:2]} if calibration else set()
        entries = reading.log(self._collection)
        graph, seqs = self._following(reading, entries)
        named = _named(entry.change for entry in entries)
        return _Head(keys, labels, graph, seqs, entries[-1].seq if entries else 0, named, calibrated)

    def _following(self, reading: Reading, entries: Sequence[LoggedChange]) -> tuple[ConstraintGraph, array[int]]:
        """What follows from the feedback that counts, and the sequence number that each constraint came with."""
        return graph_of(self._config, counting(entries, reading.undone(self._collection)))

    def _numbered(self, head: _Head, piece: FeedbackRecord, at: int) -> FeedbackRecord:
        """A piece of feedback with numbers for its keys."""

        def number(key: Any) -> int:
            return self._number(head, key, "feedback", at)

        if isinstance(piece, Click):
            likes, unlikes = tuple(map(number, piece.positive)), tuple(map(number, piece.negative))
            return Click(number(piece.query), likes, unlikes)
        if isinstance(piece, Triplet):
            return Triplet(*map(number, piece))
        return Pair(number(piece.first), number(piece.second), piece.same)

    def _number(self, head: _Head, key: str, where: str, at: int) -> int:
        number = head.keys.get(key)
        if number is None:
            raise NotFoundError(
                f"There is no item {key!r} in {self._config.name!r} ({where}/{at}).", key=key, at=at
            )
        return number

    def _name(self, head: _Head, number: int) -> str:
        try:
            return self._name_of(number)
        except KeyError:  # so new that it is only being stored
            return next(key for key, one in head.keys.items() if one == number)
