"""What is accepted: the same as a simple model in plain Python accepts, whatever fails on the way."""

from __future__ import annotations

import copy
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oahu.constraints import Pair, Triplet
from oahu.service.errors import (
    ConflictError,
    ContradictoryFeedbackError,
    InvalidRequestError,
    NotFoundError,
    ServiceError,
    StoreUnavailableError,
)
from oahu.service.intake import Intake, counting
from oahu.service.records import (
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
from oahu.service.store import SQLiteStore

PATIENCE = 30.0
CONFIG = CollectionConfig("things", 1)


def vector(value: float) -> bytes:
    return np.array([value], np.float32).tobytes()


def new(key: str, value: float = 0.0, label: str | None = None) -> NewItem:
    return NewItem(key, vector(value), label)


class Door:
    """An intake and its store; every method of the intake is a command that is waited for."""

    def __init__(self, store: SQLiteStore, config: CollectionConfig = CONFIG, max_items: int = 100) -> None:
        self.store, self.config, self._max_items = store, config, max_items
        known = [kept.id for kept in store.collections()]
        self.id = known[0] if known else store.commit(lambda t: t.create(config)).result(PATIENCE).id
        self.names: dict[int, str] = {}
        for numbers, keys, _ in store.vectors(self.id):
            self.names.update(zip(numbers, keys, strict=True))
        self.intake = self.fresh()

    def fresh(self) -> Intake:
        return Intake(self.id, self.config, self._max_items, self.names.__getitem__)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given: self.store.commit(lambda t: self.call(t, name, *given)).result(PATIENCE)

    def call(self, transaction: Any, name: str, *given: Any) -> Any:
        result = getattr(self.intake, name)(transaction, *given)
        if name == "put_items":
            self.names.update({number: key for number, key, _, _ in result.added})
        return result

    def together(self, commands: list[Callable[[Any], Any]]) -> list[Any]:
        """Run commands in one group; what each returned or raised."""
        begun, enough = Event(), Event()
        self.store.commit(lambda _: begun.set() or enough.wait(PATIENCE))
        begun.wait(PATIENCE)
        futures = [self.store.commit(command) for command in commands]
        enough.set()
        return [future.exception(PATIENCE) or future.result(PATIENCE) for future in futures]

    @property
    def said(self) -> list[Any]:
        """The log, with keys for numbers."""

        def named(change: Any) -> Any:
            if isinstance(change, Undo | ModelReplacement):
                return change
            if isinstance(change, Click):
                some = (tuple(self.names[n] for n in part) for part in change[1:])
                return Click(self.names[change.query], *some)
            return type(change)(*(one if type(one) is bool else self.names[one] for one in change))

        return [named(entry.change) for entry in self.store.log(self.id)]

    @property
    def kept(self) -> set[str]:
        """The keys whose features are kept."""
        return {key for _, keys, _ in self.store.vectors(self.id) for key in keys}

    def number(self, key: str) -> int:
        return self.store.items_by_key(self.id, [key])[key].number


@pytest.fixture
def door(store: SQLiteStore) -> Door:
    made = Door(store)
    made.put_items([new(key, at) for at, key in enumerate("abcdef")])
    return made


@pytest.fixture
def newest(store: SQLiteStore) -> Door:
    made = Door(store, replace(CONFIG, contradictions="newest"))
    made.put_items([new(key, at) for at, key in enumerate("abcdef")])
    return made


# -- the state is that of the store ----------------------------------------------------------------------------


def state(intake: Intake, store: SQLiteStore) -> dict[str, Any]:
    """What an intake decides by."""
    head = store.commit(intake._ready).result(PATIENCE)
    items = sorted(item for group in head.graph.components() for item in group)
    return {
        "keys": head.keys,
        "labels": head.labels,
        "last_seq": head.last_seq,
        "seqs": list(head.seqs),
        "named": head.named,
        "calibrated": head.calibrated,
        "alike": {item: sorted(head.graph.similar_to(item)) for item in items},
        "unlike": {item: [other for other in items if head.graph.are_dissimilar(item, other)] for item in items},
    }


# -- the model -------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """The same in plain Python. A thing is a key with certain features, counted from 0."""

    newest: bool
    things: list[tuple[str, float]] = field(default_factory=list)
    now: dict[str, int] = field(default_factory=dict)
    labels: dict[str, str | None] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)
    undone: set[int] = field(default_factory=set)
    answers: dict[str, tuple[Any, Receipt]] = field(default_factory=dict)
    calibrated: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)  # things whose features are kept

    @property
    def named(self) -> set[int]:
        return {
            thing
            for piece in self.log
            if not isinstance(piece, Undo | ModelReplacement)
            for thing in things_of(piece)
        }

    def counted(self) -> list[FeedbackRecord]:
        return [
            piece
            for seq, piece in enumerate(self.log, 1)
            if seq not in self.undone and not isinstance(piece, Undo | ModelReplacement)
        ]

    def put(self, items: list[tuple[str, float, str | None]]) -> None:
        gone = []
        for key, value, label in items:
            before = self.now.get(key)
            if before is None or self.things[before][1] != value:
                self.things.append((key, value))
                self.now[key] = len(self.things) - 1
                self.kept.add(self.now[key])
                gone += [] if before is None else [before]
            self.labels[key] = label
        self.kept -= set(gone) - self.named - self.calibrated

    def delete(self, keys: list[str]) -> None:
        self._check_keys(keys)
        gone = {self.now.pop(key) for key in set(keys)}
        for key in set(keys):
            del self.labels[key]
        self.kept -= gone - self.named - self.calibrated

    def feedback(self, pieces: list[FeedbackRecord], request: str | None) -> Receipt:
        if request in self.answers:
            before, receipt = self.answers[request]
            if before != pieces:
                raise InvalidRequestError("")
            return receipt._replace(replayed=True)
        self._check_keys([key for piece in pieces for key in things_of(piece)])
        said = [translated(piece, self.now.__getitem__) for piece in pieces]
        tried = [[one] for piece in said for one in constraints_of(piece)] if self.newest else []
        whole = [] if self.newest else [one for piece in [*self.counted(), *said] for one in constraints_of(piece)]
        if not all(consistent(one) for one in [*tried, whole]):
            raise ContradictoryFeedbackError("", [])
        receipt = Receipt(len(self.log) + 1, len(self.log) + len(said))
        self.log += said
        if request is not None:
            self.answers[request] = pieces, receipt
        return receipt

    def undo(self, first: int, last: int) -> None:
        if not 1 <= first <= last <= len(self.log):
            raise NotFoundError("")
        counted = {
            seq
            for seq in set(range(first, last + 1)) - self.undone
            if not isinstance(self.log[seq - 1], Undo | ModelReplacement)
        }
        if not counted:
            wrong = isinstance(self.log[first - 1], Undo | ModelReplacement)
            raise InvalidRequestError("") if wrong else ConflictError("")
        self.undone |= counted
        self.log.append(Undo(first, last))

    def replace(self) -> None:
        self.log.append(ModelReplacement("x"))

    def calibrate(self, pairs: list[tuple[str, str, bool]]) -> None:
        self._check_keys([key for pair in pairs for key in pair[:2]])
        self.calibrated = {self.now[key] for pair in pairs for key in pair[:2]}

    def _check_keys(self, keys: list[str]) -> None:
        if any(key not in self.now for key in keys):
            raise NotFoundError("")


def things_of(piece: FeedbackRecord) -> list[Any]:
    if isinstance(piece, Click):
        return [piece.query, *piece.positive, *piece.negative]
    return list(piece if isinstance(piece, Triplet) else piece[:2])


def translated(piece: FeedbackRecord, to: Callable[[Any], Any]) -> FeedbackRecord:
    if isinstance(piece, Click):
        return Click(to(piece.query), tuple(map(to, piece.positive)), tuple(map(to, piece.negative)))
    if isinstance(piece, Triplet):
        return Triplet(*map(to, piece))
    return Pair(to(piece.first), to(piece.second), piece.same)


def consistent(constraints: list[Pair | Triplet]) -> bool:
    """Whether groups of alike things have nobody unlike in them."""
    pairs = [pair for one in constraints for pair in (one.pairs if isinstance(one, Triplet) else (one,))]
    group = {thing: thing for pair in pairs for thing in pair[:2]}
    for first, second, same in pairs:
        if same:
            old, now = group[first], group[second]
            group = {thing: now if at == old else at for thing, at in group.items()}
    return all(group[first] != group[second] for first, second, same in pairs if not same)


KEYS = st.sampled_from("abcd")
PIECES = st.one_of(
    st.builds(Triplet, KEYS, KEYS, KEYS),
    st.builds(Pair, KEYS, KEYS, st.booleans()),
    st.builds(Click, KEYS, st.lists(KEYS, max_size=2).map(tuple), st.lists(KEYS, max_size=2).map(tuple)),
)
PUTS = st.lists(
    st.tuples(KEYS, st.sampled_from([0.0, 1.0]), st.sampled_from([None, "x", "y"])), min_size=1, max_size=4
)
COMMANDS = st.one_of(
    st.tuples(st.just("put"), PUTS),
    st.tuples(st.just("poisoned"), PUTS),
    st.tuples(st.just("delete"), st.lists(KEYS, min_size=1, max_size=2)),
    st.tuples(
        st.just("feedback"), st.lists(PIECES, min_size=1, max_size=3), st.sampled_from([None, None, "one", "two"])
    ),
    st.tuples(st.just("undo"), st.integers(0, 8), st.integers(0, 2)),
    st.tuples(st.just("replace")),
    st.tuples(st.just("calibrate"), st.lists(st.tuples(KEYS, KEYS, st.booleans()), max_size=2)),
)


class Doors(RuleBasedStateMachine):
    """Groups of commands, some of which fail, on the intake and on the model."""

    @initialize(newest=st.booleans())
    def begin(self, newest: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.config = replace(CONFIG, contradictions="newest" if newest else "refuse")
        self._open()
        self.model = Model(newest)
        self.model.put([(key, 0.0, None) for key in "abc"])
        self.door.put_items([new(key) for key in "abc"])

    def teardown(self) -> None:
        if hasattr(self, "door"):
            self.door.store.close()
            shutil.rmtree(self.folder)

    @rule(commands=st.lists(COMMANDS, min_size=1, max_size=4), breaks=st.sampled_from([False, False, False, True]))
    def group(self, commands: list[Any], breaks: bool) -> None:
        before = copy.deepcopy(self.model)
        expected = [self._expected(*command) for command in commands]
        run = [lambda t, command=command: self._run(t, *command) for command in commands]
        found = self.door.together([*run, *([_broken] if breaks else [])])
        if breaks:
            self.model = before
            expected = [one if isinstance(one, type) else StoreUnavailableError for one in expected]
        for command, wanted, got in zip(commands, expected, found, strict=False):
            assert got == wanted if not isinstance(wanted, type) else isinstance(got, wanted), command

    def _open(self) -> None:
        store = SQLiteStore(self.folder)
        store._writing.database.execute("PRAGMA synchronous = OFF")  # nobody pulls the plug here
        self.door = Door(store, self.config)

    @rule()
    def restart(self) -> None:
        self.door.store.close()
        self._open()

    @invariant()
    def the_log_is_that_of_the_model(self) -> None:
        if hasattr(self, "door"):
            log = [
                one if isinstance(one, Undo | ModelReplacement) else translated(one, self._name)
                for one in self.model.log
            ]
            said = [ModelReplacement("x") if isinstance(one, ModelReplacement) else one for one in self.door.said]
            assert said == log

    @invariant()
    def the_items_are_those_of_the_model(self) -> None:
        if hasattr(self, "door"):
            items = self.door.store.items(self.door.id, 0, 100, None)
            assert {item.key: item.label for item in items} == self.model.labels

    @invariant()
    def the_features_are_those_of_the_model(self) -> None:
        if hasattr(self, "door"):
            kept = []
            for _, keys, data in self.door.store.vectors(self.door.id):
                kept += list(zip(keys, np.frombuffer(data, np.float32).tolist(), strict=True))
            assert sorted(kept) == sorted(self.model.things[thing] for thing in self.model.kept)

    @invariant()
    def what_it_decides_by_is_what_is_stored(self) -> None:
        if hasattr(self, "door"):
            store = self.door.store
            assert state(self.door.intake, store) == state(self.door.fresh(), store)

    def _name(self, thing: int) -> str:
        return self.model.things[thing][0]

    def _expected(self, name: str, *given: Any) -> Any:
        """What the model returns, or the class of its error."""
        if name == "poisoned":
            return UnicodeEncodeError
        if name == "undo":
            given = (given[0], given[0] + given[1])
        try:
            return getattr(self.model, name)(*given)
        except ServiceError as error:
            return type(error)

    def _run(self, transaction: Any, name: str, *given: Any) -> Any:
        call = self.door.call
        if name in ("put", "poisoned"):
            poison = [new("\ud800")] if name == "poisoned" else []
            call(transaction, "put_items", [new(*item) for item in given[0]] + poison)
        elif name == "delete":
            call(transaction, "delete_items", *given)
        elif name == "feedback":
            return call(transaction, "feedback", *given)[0]
        elif name == "undo":
            call(transaction, "undo", given[0], given[0] + given[1])
        elif name == "replace":
            call(transaction, "replace", b"model")
        else:
            call(transaction, "calibrate", *given, {"target": "f1"})
        return None


def _broken(transaction: Any) -> None:
    raise sqlite3.OperationalError("disk I/O error")


TestDoors = Doors.TestCase
TestDoors.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


# -- items -----------------------------------------------------------------------------------------------------


def test_an_item_with_new_features_is_a_new_thing(door: Door) -> None:
    door.feedback([Pair("a", "b", True)])
    before = door.number("a")
    change = door.put_items([new("a", 77.0)])
    assert change.removed == [before]
    assert door.number("a") != before
    assert door.intake.alike_to(door.store, door.number("a")) == []
    door.feedback([Pair("a", "b", False)])  # which does not contradict what was said of the other


def test_an_item_with_the_same_features_stays_the_same_thing(door: Door) -> None:
    before = door.number("a")
    change = door.put_items([NewItem("a", vector(0.0), "label", {"n": 1})])
    assert (change.added, change.removed, change.labelled) == ([], [], [(before, "label")])
    assert door.store.items_by_key(door.id, ["a"])["a"].payload == {"n": 1}


def test_putting_the_same_again_changes_nothing_and_takes_no_numbers(door: Door) -> None:
    for _ in range(3):
        change = door.put_items([new("a", 0.0), new("b", 1.0)])
        assert (change.added, change.removed, change.labelled) == ([], [], [])
    door.put_items([new("new")])
    assert door.number("new") == door.number("f") + 1


def test_a_key_that_is_there_twice_is_the_last(door: Door) -> None:
    change = door.put_items([new("x", 1.0), new("x", 2.0), new("x", 1.0)])
    assert len(change.added) == 3
    assert change.removed == [number for number, *_ in change.added[:2]]
    assert door.number("x") == change.added[2][0]


def test_features_that_nothing_refers_to_are_forgotten(door: Door) -> None:
    door.delete_items(["a"])
    door.put_items([new("b", 99.0)])
    assert [numbers for numbers, _, _ in door.store.vectors(door.id)] == [[3, 4, 5, 6, 7]]


@pytest.mark.parametrize("undone", [False, True])
def test_features_that_feedback_refers_to_stay(door: Door, undone: bool) -> None:
    door.feedback([Triplet("a", "b", "c")])
    if undone:  # the log still names them
        door.undo(1, 1)
    door.delete_items(["a", "b", "c", "d"])
    assert door.kept == {"a", "b", "c", "e", "f"}


def test_features_that_a_click_on_nothing_refers_to_stay(door: Door) -> None:
    door.feedback([Click("a", (), ())])
    door.delete_items(["a", "b"])
    assert door.kept == {"a", "c", "d", "e", "f"}


def test_features_that_thresholds_are_chosen_by_stay(door: Door) -> None:
    door.calibrate([("a", "b", True)], {"target": "f1"})
    door.delete_items(["a", "b", "c"])
    assert door.kept == {"a", "b", "d", "e", "f"}


def test_deleting_what_is_not_there_deletes_nothing(door: Door) -> None:
    with pytest.raises(NotFoundError, match="'nobody'") as caught:
        door.delete_items(["a", "nobody"])
    assert caught.value.more == {"key": "nobody", "at": 1}
    assert door.number("a") == 1


def test_deleting_one_twice_deletes_it_once(door: Door) -> None:
    assert door.delete_items(["a", "a"]).removed == [1]


def test_there_are_only_so_many_items(store: SQLiteStore) -> None:
    door = Door(store, max_items=3)
    door.put_items([new("a"), new("b")])
    with pytest.raises(InvalidRequestError, match="at most 3 items"):
        door.put_items([new("c"), new("d")])
    door.put_items([new("a", 5.0), new("c"), new("c", 1.0)])  # two of these are no more than there were
    assert len(store.items(door.id, 0, 10, None)) == 3


# -- idempotency -----------------------------------------------------------------------------------------------


def test_the_same_request_again_gets_the_same_receipt_and_adds_nothing(door: Door) -> None:
    pieces = [Pair("a", "b", True), Triplet("a", "c", "d")]
    receipt, _ = door.feedback(pieces, "request")
    again, accepted = door.feedback(list(pieces), "request")
    assert again == receipt._replace(replayed=True)
    assert accepted == []
    assert door.said == pieces


def test_the_same_request_in_the_same_group_counts_once(door: Door) -> None:
    same = [lambda t: door.intake.feedback(t, [Pair("a", "b", True)], "request")[0]] * 3
    assert [receipt.replayed for receipt in door.together(same)] == [False, True, True]
    assert len(door.said) == 1


def test_a_request_is_remembered_after_a_restart_and_after_its_items_are_gone(open_store: Any) -> None:
    door = Door(open_store())
    door.put_items([new("a"), new("b", 1.0)])
    receipt, _ = door.feedback([Pair("a", "b", True)], "request")
    door.delete_items(["a"])
    door.store.close()
    again, _ = Door(open_store()).feedback([Pair("a", "b", True)], "request")
    assert again == receipt._replace(replayed=True)


@pytest.mark.parametrize(
    "other",
    [
        [Pair("a", "b", False)],
        [Pair("a", "c", True)],
        [Pair("b", "a", True)],
        [Pair("a", "b", True), Pair("a", "b", True)],
        [Triplet("a", "b", "c")],
        [Click("a", ("b",), ())],
    ],
)
def test_the_same_key_for_other_feedback_is_refused(door: Door, other: list[FeedbackRecord]) -> None:
    door.feedback([Pair("a", "b", True)], "request")
    with pytest.raises(InvalidRequestError, match="used for other feedback"):
        door.feedback(other, "request")
    assert len(door.said) == 1


def test_a_request_that_was_refused_can_be_sent_again(door: Door) -> None:
    with pytest.raises(NotFoundError):
        door.feedback([Pair("a", "new", True)], "request")
    door.put_items([new("new", 9.0)])
    receipt, _ = door.feedback([Pair("a", "new", True)], "request")
    assert receipt == Receipt(1, 1)


# -- feedback --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece",
    [
        Pair("a", "nobody", True),
        Pair("nobody", "a", False),
        Triplet("a", "b", "nobody"),
        Triplet("nobody", "a", "b"),
        Click("nobody", ("a",), ()),
        Click("a", ("b", "nobody"), ("c",)),
        Click("a", ("b",), ("c", "nobody")),
    ],
)
def test_an_unknown_key_is_named_and_nothing_is_accepted(door: Door, piece: FeedbackRecord) -> None:
    with pytest.raises(NotFoundError, match="'nobody'") as caught:
        door.feedback([Pair("a", "b", True), piece])
    assert caught.value.more == {"key": "nobody", "at": 1}
    assert door.said == []


def test_sequence_numbers_count_everything_in_the_log(door: Door) -> None:
    assert door.feedback([Pair("a", "b", True), Pair("b", "c", True)])[0] == Receipt(1, 2)
    door.undo(1, 1)
    door.replace(b"model")
    assert door.feedback([Click("a", ("b", "c"), ("d", "e"))])[0] == Receipt(5, 5)
    assert [entry.seq for entry in door.store.log(door.id)] == [1, 2, 3, 4, 5]


def test_a_contradiction_is_proved_by_keys_and_sequence_numbers(door: Door) -> None:
    door.feedback([Click("a", ("b", "c"), ("d",))])  # two constraints under one number
    door.feedback([Pair("e", "c", True)])
    with pytest.raises(ContradictoryFeedbackError) as caught:
        door.feedback([Pair("f", "d", True), Triplet("f", "e", "a")])
    more = caught.value.more
    assert more["piece"] == 1
    assert more["pair"] == {"first": "f", "second": "e", "same": True}
    assert more["chain"] == [
        {"piece": 0, "first": "f", "second": "d", "same": True},
        {"seq": 1, "first": "d", "second": "a", "same": False},
        {"seq": 1, "first": "a", "second": "c", "same": True},
        {"seq": 2, "first": "c", "second": "e", "same": True},
    ]


def test_the_chain_is_also_said_in_words(door: Door) -> None:
    door.feedback([Pair("a", "b", True)])
    with pytest.raises(ContradictoryFeedbackError) as caught:
        door.feedback([Pair("b", "a", False)])
    assert str(caught.value) == (
        "Piece 0 says that 'b' and 'a' are unlike, but feedback 1 says 'b' and 'a' are alike. Nothing of this "
        "request was accepted: undo one of these, or leave it out."
    )


def test_a_long_chain_is_cut_in_words_only(store: SQLiteStore) -> None:
    door = Door(store)
    door.put_items([new(f"k{at}", at) for at in range(30)])
    door.feedback([Pair(f"k{at}", f"k{at + 1}", True) for at in range(29)])
    with pytest.raises(ContradictoryFeedbackError) as caught:
        door.feedback([Pair("k0", "k29", False)])
    assert len(caught.value.more["chain"]) == 29
    assert "feedback 10 says" in str(caught.value)
    assert "feedback 11 says" not in str(caught.value)
    assert "; ...." in str(caught.value)


def test_what_contradicts_leaves_nothing_of_its_request(door: Door) -> None:
    door.feedback([Pair("a", "b", True)])
    before = state(door.intake, door.store)
    with pytest.raises(ContradictoryFeedbackError):
        door.feedback([Pair("c", "d", True), Pair("a", "b", False), Pair("e", "f", True)])
    assert state(door.intake, door.store) == before
    assert len(door.said) == 1


@pytest.mark.parametrize(
    "piece",
    [Pair("a", "a", False), Triplet("a", "b", "a"), Triplet("a", "b", "b"), Click("a", ("b", "c"), ("d", "c"))],
)
@pytest.mark.parametrize("policy", ["door", "newest"])
def test_what_cannot_be_true_is_refused_whatever_the_policy(
    piece: FeedbackRecord, policy: str, request: pytest.FixtureRequest
) -> None:
    door = request.getfixturevalue(policy)
    with pytest.raises(ContradictoryFeedbackError) as caught:
        door.feedback([Pair("e", "f", True), piece])
    assert caught.value.more["piece"] == 1
    assert all(link["piece"] == 1 for link in caught.value.more["chain"])
    assert "but ." not in str(caught.value)
    assert door.said == []


def test_the_newest_is_believed_if_that_is_the_policy(newest: Door) -> None:
    newest.feedback([Pair("a", "b", True)])
    newest.feedback([Pair("a", "b", False)])
    a, b = newest.number("a"), newest.number("b")
    assert newest.intake.unlike(newest.store, a, [b]) == {b}
    assert newest.intake.alike_to(newest.store, a) == []
    assert len(newest.said) == 2


def test_an_item_is_called_by_its_key_even_if_it_is_only_being_stored(store: SQLiteStore) -> None:
    door = Door(store)
    intake = Intake(door.id, CONFIG, 100, {}.__getitem__)  # whose names come only after the commit
    said = [
        lambda t: intake.put_items(t, [new("a"), new("b", 1.0)]),
        lambda t: intake.feedback(t, [Pair("a", "b", True)]),
        lambda t: intake.feedback(t, [Pair("a", "b", False)]),
    ]
    *_, error = door.together(said)
    assert error.more["pair"] == {"first": "a", "second": "b", "same": False}


# -- undoing ---------------------------------------------------------------------------------------------------


def test_what_was_undone_can_be_said_the_other_way_round(door: Door) -> None:
    door.feedback([Pair("a", "b", True)])
    assert door.undo(1, 1) == Undo(1, 1)
    door.feedback([Pair("a", "b", False)])
    assert door.said == [Pair("a", "b", True), Undo(1, 1), Pair("a", "b", False)]


def test_what_does_not_rest_on_what_was_undone_still_holds(door: Door) -> None:
    door.feedback([Pair("a", "b", True), Pair("c", "d", True)])
    door.undo(1, 1)
    with pytest.raises(ContradictoryFeedbackError) as caught:
        door.feedback([Pair("c", "d", False)])
    assert [link["seq"] for link in caught.value.more["chain"]] == [2]


@pytest.mark.parametrize(("first", "last"), [(0, 0), (-1, 1), (3, 3), (1, 3), (2, 1), (2**62, 2**62)])
def test_what_is_not_there_cannot_be_undone(door: Door, first: int, last: int) -> None:
    door.feedback([Pair("a", "b", True), Pair("c", "d", True)])
    with pytest.raises(NotFoundError):
        door.undo(first, last)
    assert len(door.said) == 2


def test_what_was_undone_cannot_be_undone_again(door: Door) -> None:
    door.feedback([Pair("a", "b", True)])
    door.undo(1, 1)
    with pytest.raises(ConflictError, match="undone already"):
        door.undo(1, 1)


def test_an_undoing_cannot_be_undone(door: Door) -> None:
    door.feedback([Pair("a", "b", True)])
    door.undo(1, 1)
    with pytest.raises(InvalidRequestError, match="no feedback"):
        door.undo(2, 2)


def test_a_model_that_took_over_is_no_feedback(door: Door) -> None:
    door.replace(b"model")
    with pytest.raises(InvalidRequestError, match="no feedback"):
        door.undo(1, 1)


def test_of_a_range_what_still_counts_is_undone(door: Door) -> None:
    door.feedback([Pair("a", b, True) for b in "bcd"])
    door.undo(2, 2)
    door.undo(1, 4)
    assert counting(door.store.log(door.id), door.store.undone(door.id)) == []


ENTRIES = [LoggedChange(seq, 0.0, Undo(1, 1) if seq % 4 == 0 else Pair(seq, 99, True)) for seq in range(1, 12)]


@pytest.mark.parametrize("undone", [[], [(1, 1)], [(2, 3), (3, 9)], [(1, 10**15)], [(5, 5), (5, 6), (100, 200)]])
def test_what_counts_is_what_was_not_undone(undone: list[tuple[int, int]]) -> None:
    for begin, end in combinations(range(len(ENTRIES) + 1), 2):
        found = counting(ENTRIES[begin:end], undone)
        assert found == [
            (entry.seq, entry.change)
            for entry in ENTRIES[begin:end]
            if entry.seq % 4 and not any(first <= entry.seq <= last for first, last in undone)
        ]


# -- what fails, and who looks meanwhile -----------------------------------------------------------------------


def test_who_looks_while_something_is_being_stored_does_not_change_what_is_decided_by(door: Door) -> None:
    def fails(transaction: Any) -> None:
        door.intake.put_items(transaction, [new("z", 1.0), new("\ud800")])

    def looks(transaction: Any) -> None:
        other = Thread(target=door.intake.alike_to, args=(door.store, 1))
        other.start()
        other.join()

    said = [
        lambda t: door.intake.feedback(t, [Pair("a", "b", True)])[0],
        fails,  # after it, all is read again
        looks,  # and sees nothing yet of the first
        lambda t: door.intake.feedback(t, [Pair("c", "d", True)])[0],
    ]
    first, error, _, last = door.together(said)
    assert isinstance(error, UnicodeEncodeError)
    assert (first, last) == (Receipt(1, 1), Receipt(2, 2))
    assert door.said == [Pair("a", "b", True), Pair("c", "d", True)]


def test_who_looks_after_an_undoing_sees_it(door: Door) -> None:
    door.feedback([Pair("a", "b", True)])
    assert door.intake.alike_to(door.store, 1) == [2]
    door.undo(1, 1)
    assert door.intake.alike_to(door.store, 1) == []


def test_who_looks_first_of_all_sees_what_was_stored(door: Door) -> None:
    door.feedback([Triplet("a", "b", "c")])
    fresh = door.fresh()
    assert fresh.alike_to(door.store, 1) == [2]
    assert fresh.unlike(door.store, 1, [2, 3, 4]) == {3}


def test_a_collection_that_is_deleted_accepts_nothing_more(door: Door) -> None:
    said = [
        door.intake.delete,
        lambda t: door.intake.put_items(t, [new("x")]),
        lambda t: door.intake.feedback(t, [Pair("a", "b", True)]),
        lambda t: door.intake.undo(t, 1, 1),
    ]
    _, *errors = door.together(said)
    assert [type(error) for error in errors] == [NotFoundError] * 3
    assert door.store.collections() == []


def test_a_deletion_that_comes_to_nothing_changes_nothing(door: Door) -> None:
    errors = door.together([door.intake.delete, _broken])
    assert all(isinstance(error, StoreUnavailableError) for error in errors)
    assert door.feedback([Pair("a", "b", True)])[0] == Receipt(1, 1)
