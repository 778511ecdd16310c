"""What is accepted: keys, contradictions, undoing. All of it in order, inside the store's transactions."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.constraints.contradictions import Contradiction
from oahu.service.errors import ConflictError, ContradictedError, InvalidError, NotThereError
from oahu.service.records import (
    Calibration,
    Click,
    Config,
    Entry,
    ItemsChange,
    NewItem,
    Piece,
    Receipt,
    Replaced,
    Undo,
    constraints_of,
)
from oahu.service.store import Transaction
from oahu.service.store.base import Answered, Reading

__all__ = ["Intake", "counting", "graph_of", "new_graph"]

_SHOWN = 10  # unknown keys that a message names


def new_graph(config: Config) -> ConstraintGraph:
    """What follows from feedback, for a collection's way with contradictions."""
    return ConstraintGraph("newest" if config.contradictions == "newest" else "raise")


def counting(entries: Iterable[Entry], undone: Iterable[tuple[int, int]]) -> list[tuple[int, Piece]]:
    """The pieces of feedback that count: those that were not undone."""
    out = {seq for first, last in undone for seq in range(first, last + 1)}
    return [
        (seq, change) for seq, _, change in entries if seq not in out and not isinstance(change, Undo | Replaced)
    ]


def graph_of(config: Config, pieces: Iterable[tuple[int, Piece]]) -> tuple[ConstraintGraph, array[int]]:
    """What follows from pieces of feedback, and the sequence number that each constraint came with."""
    graph, seqs = new_graph(config), array("q")
    for seq, piece in pieces:
        for constraint in constraints_of(piece):
            graph.add(constraint)
            seqs.append(seq)
    return graph, seqs


@dataclass
class _Head:
    """A collection as of the last transaction."""

    keys: dict[str, int]
    labels: dict[int, str | None]
    graph: ConstraintGraph
    seqs: array[int]
    last_seq: int
    calibrated: set[int]  # items whose features thresholds are chosen by


class Intake:
    """The door of a collection. Its methods are commands for the store, which runs them one after the other.

    What it knows is as of the last command. If that comes to nothing, it reads it again from the store.
    """

    def __init__(self, collection: int, config: Config, max_items: int, name: Callable[[int], str]) -> None:
        self._collection, self._config, self._max_items, self._name_of = collection, config, max_items, name
        self._head: _Head | None = None
        self._changing = RLock()  # the graph: who asks what is known is in another thread

    # -- items -------------------------------------------------------------------------------------------

    def put_items(self, transaction: Transaction, items: Sequence[NewItem]) -> ItemsChange:
        """Add items, or replace those that are there. What was said of an item is said of its features."""
        head = self._ready(transaction)
        n_new = len({item.key for item in items} - head.keys.keys())
        if len(head.keys) + n_new > self._max_items:
            raise InvalidError(f"A collection has at most {self._max_items} items; this would make it more.")
        transaction.after_rollback(self._reset)
        change = ItemsChange()
        numbers = iter(transaction.new_numbers(self._collection, len(items)))
        for item in items:
            before = head.keys.get(item.key)
            same = before is not None and transaction.vector(self._collection, before) == item.vector
            number = before if same and before is not None else next(numbers)
            transaction.put(self._collection, item, number, new=not same)
            if not same:
                change.added.append((number, item.key, item.label, item.vector))
                if before is not None:
                    change.removed.append(before)
            elif head.labels[number] != item.label:
                change.labelled.append((number, item.label))
            head.keys[item.key], head.labels[number] = number, item.label
        self._forget(transaction, head, change.removed)
        return change

    def delete_items(self, transaction: Transaction, keys: Sequence[str]) -> ItemsChange:
        """Delete items, all of them or none. Feedback about them stays learned, and so do the features it needs."""
        head = self._ready(transaction)
        numbers = [self._number(head, key, "keys", at) for at, key in enumerate(keys)]
        transaction.after_rollback(self._reset)
        transaction.remove(self._collection, keys)
        for key in keys:
            del head.keys[key]
        self._forget(transaction, head, numbers)
        return ItemsChange(removed=numbers)

    def _forget(self, transaction: Transaction, head: _Head, numbers: list[int]) -> None:
        gone = [number for number in numbers if number not in head.graph and number not in head.calibrated]
        transaction.forget(self._collection, gone)
        for number in numbers:
            del head.labels[number]

    # -- feedback ----------------------------------------------------------------------------------------

    def feedback(
        self, transaction: Transaction, pieces: Sequence[Piece], request: str | None = None
    ) -> tuple[Receipt, list[Piece]]:
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
        transaction.after_rollback(self._reset)
        first = head.last_seq + 1
        with self._changing:
            for at, constraint in constraints:
                head.graph.add(constraint)
                head.seqs.append(first + at)
        head.last_seq += len(numbered)
        transaction.append(self._collection, first, numbered)
        receipt = Receipt(first, head.last_seq)
        if request is not None:
            transaction.answer(self._collection, request, Answered(digest, *receipt[:2]))
        return receipt, numbered

    def _again(self, request: str, digest: str, before: Answered) -> Receipt:
        if before.digest != digest:
            raise InvalidError(
                f"The idempotency key {request!r} was used for other feedback before (it is {before.first_seq} to "
                f"{before.last_seq} of the log). Use a new key for new feedback."
            )
        return Receipt(before.first_seq, before.last_seq, replayed=True)

    def _check(self, head: _Head, constraints: list[tuple[int, Pair | Triplet]]) -> None:
        if self._config.contradictions == "newest" or not constraints:
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
    ) -> ContradictedError:
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
        return ContradictedError(
            f"Piece {at} says that {name(first)!r} and {name(second)!r} are {'alike' if same else 'unlike'}, but "
            f"{'; '.join(words[:_SHOWN])}{'; ...' if len(words) > _SHOWN else ''}. Nothing of this request was "
            "accepted: undo one of these, or leave it out.",
            chain,
            piece=at,
            pair={"first": name(first), "second": name(second), "same": same},
        )

    def undo(self, transaction: Transaction, first: int, last: int) -> Undo:
        """Let pieces of feedback not count any more: one of them, or all in a range that still do."""
        head = self._ready(transaction)
        if not 1 <= first <= last <= head.last_seq:
            raise NotThereError(f"There is no feedback {first}: the log has {head.last_seq} entries.")
        counted = counting(
            transaction.log(self._collection, first - 1, last - first + 1), transaction.undone(self._collection)
        )
        if not counted:
            (entry,) = transaction.log(self._collection, first - 1, 1)
            if isinstance(entry.change, Undo | Replaced):
                raise InvalidError(f"Entry {first} of the log is no feedback: only feedback can be undone.")
            raise ConflictError(f"Feedback {first} was undone already.")
        transaction.after_rollback(self._reset)
        change = Undo(first, last)
        transaction.append(self._collection, head.last_seq + 1, [change])
        self._reset()  # what follows from the others is worked out anew
        return change

    def replace(self, transaction: Transaction, data: bytes) -> Replaced:
        """Let a model from a file take over."""
        head = self._ready(transaction)
        transaction.after_rollback(self._reset)
        change = Replaced(hashlib.sha256(data).hexdigest())
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
        transaction.after_rollback(self._reset)
        head.calibrated = {number for pair in numbered for number in pair[:2]}
        calibration = Calibration(numbered, target, head.last_seq)
        transaction.calibrate(self._collection, calibration)
        return calibration

    def known(self, reading: Reading, number: int) -> tuple[list[int], list[int]]:
        """The items that are known to be like one, and those known to be unlike it."""
        with self._changing:
            return self._ready(reading).graph.known(number)

    # -- inside ------------------------------------------------------------------------------------------

    def _ready(self, reading: Reading) -> _Head:
        """The state to decide by. Who is about to change it says before what to do if that comes to nothing."""
        with self._changing:
            if self._head is None:
                self._head = self._loaded(reading)
            return self._head

    def _reset(self) -> None:
        with self._changing:
            self._head = None

    def _loaded(self, transaction: Reading) -> _Head:
        keys, labels = {}, {}
        for key, number, label in transaction.keys(self._collection):
            keys[key], labels[number] = number, label
        entries = transaction.log(self._collection)
        graph, seqs = graph_of(self._config, counting(entries, transaction.undone(self._collection)))
        calibration = transaction.calibration(self._collection)
        calibrated = {number for pair in calibration.pairs for number in pair[:2]} if calibration else set()
        return _Head(keys, labels, graph, seqs, entries[-1].seq if entries else 0, calibrated)

    def _numbered(self, head: _Head, piece: Piece, at: int) -> Piece:
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
            raise NotThereError(
                f"There is no item {key!r} in {self._config.name!r} ({where}/{at}).", key=key, at=at
            )
        return number

    def _name(self, head: _Head, number: int) -> str:
        try:
            return self._name_of(number)
        except KeyError:  # so new that it is only being stored
            return next(key for key, one in head.keys.items() if one == number)
