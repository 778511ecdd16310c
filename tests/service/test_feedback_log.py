"""The catalogue and the feedback log behave like a reference model in plain Python, also after failures."""

from __future__ import annotations

import copy
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.service.collection import Collection
from oahu.service.errors import (
    ConflictError,
    ContradictoryFeedbackError,
    InvalidRequestError,
    NotFoundError,
    ServiceError,
    StoreUnavailableError,
)
from oahu.service.feedback_log import effective_feedback
from oahu.service.learner_factory import example_kind
from oahu.service.records import (
    CatalogueChange,
    Click,
    CollectionConfig,
    Feedback,
    FeedbackRecord,
    LoggedChange,
    ModelReplacement,
    NewItem,
    Receipt,
    Undo,
    constraints_of,
)
from oahu.service.settings import Settings
from oahu.service.store import SQLiteStore
from oahu.service.training_examples import encode_examples, expand

TIMEOUT = 600.0  # seconds; only a real hang exceeds it
CONFIG = CollectionConfig("things", 1, "Euclidean", closure=2, contradictions="refuse")


def vector(value: float) -> bytes:
    return np.array([value], np.float32).tobytes()


def new(key: str, value: float = 0.0, label: str | None = None) -> NewItem:
    return NewItem(key, vector(value), label)


class Harness:
    """A collection without its background thread. Methods wait for the commit of their command."""

    def __init__(self, store: SQLiteStore, config: CollectionConfig = CONFIG, max_items: int = 100) -> None:
        self.store, self.config = store, config
        self._settings = Settings(max_items=max_items)
        if not store.collections():
            store.commit(lambda t: t.create(config)).result(TIMEOUT)
        self.collection = self.loaded()
        self.id = self.collection.id
        self.log = self.collection.feedback_log

    def loaded(self) -> Collection:
        """Return a second collection object, loaded from the store."""
        (stored,) = self.store.collections()
        collection = Collection(stored, self.store, self._settings)
        collection.catalogue.load()
        collection.feedback_log.load()
        return collection

    def put(self, *items: NewItem) -> CatalogueChange:
        return self.collection.put_items(items).result(TIMEOUT)

    def delete(self, *keys: str) -> CatalogueChange:
        return self.collection.delete_items(keys).result(TIMEOUT)

    def add(self, *records: FeedbackRecord | Feedback, request: str | None = None, **options: Any) -> Receipt:
        return self.collection.add_feedback(list(records), request, **options).result(TIMEOUT)

    def undo(self, first: int, last: int | None = None) -> int:
        return self.collection.undo(first, last).result(TIMEOUT)

    def replace_model(self) -> int:
        """Log a model replacement without validating the file."""
        return self.submit_replacement().result(TIMEOUT)

    def submit_replacement(self) -> Future[int]:
        return self.store.commit(lambda t: self.log.replace_model(t, b"model"))

    def in_one_group(self, *submits: Callable[[], Future[Any]]) -> list[Any]:
        """Submit commands that are committed together. Return the result or the error of each."""
        blocked, submitted = Event(), Event()
        self.store.commit(lambda _: blocked.set() or submitted.wait(TIMEOUT))
        assert blocked.wait(TIMEOUT)
        futures = [submit() for submit in submits]
        submitted.set()
        return [future.exception(TIMEOUT) or future.result(TIMEOUT) for future in futures]

    def submit_failure(self) -> Future[Any]:
        """Submit a command that makes the commit of its group fail."""

        def fail(transaction: Any) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        return self.store.commit(fail)

    @property
    def entries(self) -> list[Any]:
        """The log entries, with keys instead of numbers."""
        return [entry.change for entry, _ in self.log.page(0, 1000)]

    @property
    def keys_with_features(self) -> set[str]:
        return {key for _, keys, _ in self.store.vectors(self.id) for key in keys}

    def number(self, key: str) -> int:
        return self.collection.catalogue.item(key).number


@pytest.fixture
def harness(store: SQLiteStore) -> Harness:
    made = Harness(store)
    made.put(*(new(key, at) for at, key in enumerate("abcdef")))
    return made


@pytest.fixture
def newest(store: SQLiteStore) -> Harness:
    """A collection in which newer feedback overrides older feedback."""
    made = Harness(store, replace(CONFIG, contradictions="newest"))
    made.put(*(new(key, at) for at, key in enumerate("abcdef")))
    return made


# -- the state in memory equals the stored state ------------------------------------------------------------------


def state(collection: Collection, store: SQLiteStore) -> dict[str, Any]:
    """Return the state in memory of a collection."""
    catalogue = store.commit(collection.catalogue._current).result(TIMEOUT)
    log = store.commit(collection.feedback_log._current).result(TIMEOUT)
    items = sorted(item for group in log.graph.components() for item in group)
    return {
        "numbers": catalogue.numbers,
        "labels": catalogue.labels,
        "last_seq": (log.last_seq, collection.feedback_log.last_seq),
        "seqs": list(log.seqs),
        "referenced": log.referenced,
        "similar": {item: sorted(log.graph.similar_to(item)) for item in items},
        "dissimilar": {item: [other for other in items if log.graph.are_dissimilar(item, other)] for item in items},
    }


def expected_examples(harness: Harness) -> list[tuple[int, bytes]]:
    """Return the training examples of the effective records, expanded one by one from the beginning."""
    policy: Any = "newest" if harness.config.contradictions == "newest" else "raise"
    graph, examples = ConstraintGraph(policy), []
    kind = example_kind(harness.config)
    for seq, feedback in effective_feedback(harness.store.log(harness.id), harness.store.undone(harness.id)):
        record = feedback.record
        examples.append((seq, encode_examples(record, expand(graph, record, seq, harness.config.closure, kind))))
    return examples


# -- the reference model ---------------------------------------------------------------------------------------


@dataclass
class ReferenceModel:
    """The reference model in plain Python. A revision is a key with its features, numbered from 0."""

    newest: bool
    revisions: list[tuple[str, float]] = field(default_factory=list)
    current: dict[str, int] = field(default_factory=dict)
    labels: dict[str, str | None] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)
    undone: set[int] = field(default_factory=set)
    receipts: dict[str, tuple[Any, Receipt]] = field(default_factory=dict)
    calibrated: set[int] = field(default_factory=set)
    stored: set[int] = field(default_factory=set)  # revisions with stored features

    @property
    def referenced(self) -> set[int]:
        records = [one for one in self.log if not isinstance(one, Undo | ModelReplacement)]
        return {revision for record in records for revision in items_of(record)}

    def effective(self) -> list[FeedbackRecord]:
        return [
            record
            for seq, record in enumerate(self.log, 1)
            if seq not in self.undone and not isinstance(record, Undo | ModelReplacement)
        ]

    def put(self, items: list[tuple[str, float, str | None]]) -> None:
        removed = []
        for key, value, label in items:
            before = self.current.get(key)
            if before is None or self.revisions[before][1] != value:
                self.revisions.append((key, value))
                self.current[key] = len(self.revisions) - 1
                self.stored.add(self.current[key])
                removed += [] if before is None else [before]
            self.labels[key] = label
        self.stored -= set(removed) - self.referenced - self.calibrated

    def delete(self, keys: list[str]) -> None:
        self._check_keys(keys)
        removed = {self.current.pop(key) for key in set(keys)}
        for key in set(keys):
            del self.labels[key]
        self.stored -= removed - self.referenced - self.calibrated

    def feedback(self, records: list[FeedbackRecord], request: str | None) -> Receipt:
        if request in self.receipts:
            before, receipt = self.receipts[request]
            if before != records:
                raise InvalidRequestError("")
            return receipt._replace(replayed=True)
        self._check_keys([key for record in records for key in items_of(record)])
        added = [translated(record, self.current.__getitem__) for record in records]
        if self.newest:
            if not all(consistent([one]) for record in added for one in constraints_of(record)):
                raise ContradictoryFeedbackError("", [])
            accepted = list(range(len(added)))
        else:
            accepted = self._accepted(added)
        refused = tuple({"record": at} for at in range(len(added)) if at not in accepted)
        receipt = Receipt(len(self.log) + 1, len(self.log) + len(accepted), refused=refused)
        self.log += [added[at] for at in accepted]
        if request is not None:
            self.receipts[request] = records, receipt
        return receipt

    def _accepted(self, added: list[FeedbackRecord]) -> list[int]:
        """Return the indexes of the records that agree with the log and with the accepted records before them."""
        accepted: list[int] = []
        for at, record in enumerate(added):
            earlier = [*self.effective(), *(added[other] for other in accepted)]
            if consistent([one for other in [*earlier, record] for one in constraints_of(other)]):
                accepted.append(at)
        if not accepted:
            raise ContradictoryFeedbackError("", [])
        return accepted

    def undo(self, first: int, last: int) -> int:
        if not 1 <= first <= last <= len(self.log):
            raise NotFoundError("")
        effective = {
            seq
            for seq in set(range(first, last + 1)) - self.undone
            if not isinstance(self.log[seq - 1], Undo | ModelReplacement)
        }
        if not effective:
            no_feedback = isinstance(self.log[first - 1], Undo | ModelReplacement)
            raise InvalidRequestError("") if no_feedback else ConflictError("")
        self.undone |= effective
        self.log.append(Undo(first, last))
        return len(self.log)

    def replace_model(self) -> int:
        self.log.append(ModelReplacement("x"))
        return len(self.log)

    def calibrate(self, pairs: list[tuple[str, str, bool]]) -> None:
        self._check_keys([key for pair in pairs for key in pair[:2]])
        self.calibrated = {self.current[key] for pair in pairs for key in pair[:2]}

    def _check_keys(self, keys: list[str]) -> None:
        if any(key not in self.current for key in keys):
            raise NotFoundError("")


def items_of(record: FeedbackRecord) -> list[Any]:
    if isinstance(record, Click):
        return [record.query, *record.positive, *record.negative, *record.shown]
    return list(record if isinstance(record, Triplet) else record[:2])


def without_proofs(result: Any) -> Any:
    """Return a receipt in which the refused records have only their indexes. Return other results unchanged."""
    if not isinstance(result, Receipt):
        return result
    return result._replace(refused=tuple({"record": one["record"]} for one in result.refused))


def translated(record: FeedbackRecord, to: Callable[[Any], Any]) -> FeedbackRecord:
    if isinstance(record, Click):
        return Click(to(record.query), *(tuple(map(to, part)) for part in record[1:]))
    if isinstance(record, Triplet):
        return Triplet(*map(to, record))
    return Pair(to(record.first), to(record.second), record.same)


def consistent(constraints: list[Pair | Triplet]) -> bool:
    """Return whether no dissimilar pair is in the same group of similar items."""
    pairs = [pair for one in constraints for pair in (one.pairs if isinstance(one, Triplet) else (one,))]
    group = {item: item for pair in pairs for item in pair[:2]}
    for first, second, same in pairs:
        if same:
            old, now = group[first], group[second]
            group = {item: now if at == old else at for item, at in group.items()}
    return all(group[first] != group[second] for first, second, same in pairs if not same)


KEYS = st.sampled_from("abcd")
RECORDS = st.one_of(
    st.builds(Triplet, KEYS, KEYS, KEYS),
    st.builds(Pair, KEYS, KEYS, st.booleans()),
    st.builds(Click, KEYS, *[st.lists(KEYS, max_size=2).map(tuple)] * 3),
)
PUTS = st.lists(
    st.tuples(KEYS, st.sampled_from([0.0, 1.0]), st.sampled_from([None, "x", "y"])), min_size=1, max_size=4
)
COMMANDS = st.one_of(
    st.tuples(st.just("put"), PUTS),
    st.tuples(st.just("failing put"), PUTS),
    st.tuples(st.just("delete"), st.lists(KEYS, min_size=1, max_size=2)),
    st.tuples(
        st.just("feedback"), st.lists(RECORDS, min_size=1, max_size=3), st.sampled_from([None, None, "one", "two"])
    ),
    st.tuples(st.just("undo"), st.integers(0, 8), st.integers(0, 2)),
    st.tuples(st.just("replace_model")),
    st.tuples(st.just("calibrate"), st.lists(st.tuples(KEYS, KEYS, st.booleans()), max_size=2)),
)


class GroupsOfCommands(RuleBasedStateMachine):
    """Run groups of commands on a collection and on the reference model. Some groups fail."""

    @initialize(
        newest=st.booleans(), learner=st.sampled_from(["OASIS", "Euclidean"])
    )  # a triplet learner and a pair learner
    def begin(self, newest: bool, learner: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.config = replace(CONFIG, learner=learner, contradictions="newest" if newest else "refuse")
        self._open()
        self.model = ReferenceModel(newest)
        self.model.put([(key, 0.0, None) for key in "abc"])
        self.harness.put(*(new(key) for key in "abc"))

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.store.close()
            shutil.rmtree(self.folder)

    @rule(commands=st.lists(COMMANDS, min_size=1, max_size=4), fails=st.sampled_from([False, False, False, True]))
    def group(self, commands: list[Any], fails: bool) -> None:
        before = copy.deepcopy(self.model)
        expected = [self._expected(*command) for command in commands]
        submits = [lambda command=command: self._submit(*command) for command in commands]
        found = self.harness.in_one_group(*submits, *([self.harness.submit_failure] if fails else []))
        if fails:
            self.model = before
            expected = [one if isinstance(one, type) else StoreUnavailableError for one in expected]
        for command, wanted, result in zip(commands, expected, found, strict=False):
            got = without_proofs(result)
            assert got == wanted if not isinstance(wanted, type) else isinstance(got, wanted), command

    @rule()
    def restart(self) -> None:
        self.harness.store.close()
        self._open()

    def _open(self) -> None:
        store = SQLiteStore(self.folder)
        store._writer.database.execute("PRAGMA synchronous = OFF")  # this test is not about power failures
        self.harness = Harness(store, self.config)

    @invariant()
    def the_log_equals_the_log_of_the_model(self) -> None:
        if hasattr(self, "harness"):
            expected = [
                one if isinstance(one, Undo | ModelReplacement) else translated(one, self._key)
                for one in self.model.log
            ]
            found = self.harness.entries
            assert [
                ModelReplacement("x") if isinstance(one, ModelReplacement) else one for one in found
            ] == expected

    @invariant()
    def the_items_equal_the_items_of_the_model(self) -> None:
        if hasattr(self, "harness"):
            items = self.harness.collection.catalogue.page(0, 100)
            assert {item.key: item.label for item in items} == self.model.labels

    @invariant()
    def the_stored_features_equal_the_features_of_the_model(self) -> None:
        if hasattr(self, "harness"):
            stored = []
            for _, keys, data in self.harness.store.vectors(self.harness.id):
                stored += list(zip(keys, np.frombuffer(data, np.float32).tolist(), strict=True))
            assert sorted(stored) == sorted(self.model.revisions[revision] for revision in self.model.stored)

    @invariant()
    def the_state_in_memory_equals_the_stored_state(self) -> None:
        if hasattr(self, "harness"):
            store = self.harness.store
            assert state(self.harness.collection, store) == state(self.harness.loaded(), store)

    @invariant()
    def the_training_examples_equal_the_examples_of_a_replay(self) -> None:
        if hasattr(self, "harness"):
            stored = {
                entry.seq: entry.examples for entry in self.harness.store.training_log(self.harness.id, 0, 999)
            }
            assert all(stored[seq] == examples for seq, examples in expected_examples(self.harness))

    def _key(self, revision: int) -> str:
        return self.model.revisions[revision][0]

    def _expected(self, name: str, *given: Any) -> Any:
        """Return the result of the model, or the class of its error."""
        if name == "failing put":
            return UnicodeEncodeError
        if name == "undo":
            given = (given[0], given[0] + given[1])
        try:
            result = getattr(self.model, name)(*given)
        except ServiceError as error:
            return type(error)
        return result

    def _submit(self, name: str, *given: Any) -> Future[Any]:
        collection = self.harness.collection
        if name in ("put", "failing put"):
            invalid = [new("\ud800")] if name == "failing put" else []
            return _without_result(collection.put_items([new(*item) for item in given[0]] + invalid))
        if name == "delete":
            return _without_result(collection.delete_items(given[0]))
        if name == "feedback":
            return collection.add_feedback(*given)
        if name == "undo":
            return collection.undo(given[0], given[0] + given[1])
        if name == "replace_model":
            return self.harness.submit_replacement()
        return collection.calibrate(given[0], {"target": "f1"})


def _without_result(future: Future[Any]) -> Future[Any]:
    """Return a future that completes with None, or with the same error."""
    made: Future[Any] = Future()

    def done(_: Any) -> None:
        error = future.exception()
        made.set_exception(error) if error else made.set_result(None)

    future.add_done_callback(done)
    return made


TestGroupsOfCommands = GroupsOfCommands.TestCase
TestGroupsOfCommands.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


# -- items -----------------------------------------------------------------------------------------------------


def test_an_item_with_new_features_gets_a_new_number(harness: Harness) -> None:
    harness.add(Pair("a", "b", True))
    before = harness.number("a")
    change = harness.put(new("a", 77.0))
    assert change.removed == [before]
    assert harness.number("a") != before
    assert harness.log.similar_to(harness.number("a")) == []
    harness.add(Pair("a", "b", False))  # does not contradict the feedback about the old features


def test_an_item_with_the_same_features_keeps_its_number(harness: Harness) -> None:
    before = harness.number("a")
    change = harness.put(NewItem("a", vector(0.0), "label", {"n": 1}))
    assert (change.added, change.removed, change.relabelled) == ([], [], [(before, "label")])
    assert harness.collection.catalogue.item("a").payload == {"n": 1}


def test_putting_the_same_items_again_changes_nothing_and_uses_no_numbers(harness: Harness) -> None:
    for _ in range(3):
        change = harness.put(new("a", 0.0), new("b", 1.0))
        assert (change.added, change.removed, change.relabelled) == ([], [], [])
    harness.put(new("new"))
    assert harness.number("new") == harness.number("f") + 1


def test_the_last_item_of_a_repeated_key_is_stored(harness: Harness) -> None:
    change = harness.put(new("x", 1.0), new("x", 2.0), new("x", 1.0))
    assert len(change.added) == 3
    assert change.removed == [item.number for item in change.added[:2]]
    assert harness.number("x") == change.added[2].number


def test_features_without_references_are_deleted(harness: Harness) -> None:
    harness.delete("a")
    harness.put(new("b", 99.0))
    assert [numbers for numbers, _, _ in harness.store.vectors(harness.id)] == [[3, 4, 5, 6, 7]]


@pytest.mark.parametrize("undone", [False, True])
def test_features_of_items_in_the_log_are_kept(harness: Harness, undone: bool) -> None:
    harness.add(Triplet("a", "b", "c"))
    if undone:
        harness.undo(1)
    harness.delete("a", "b", "c", "d")
    assert harness.keys_with_features == {"a", "b", "c", "e", "f"}


def test_features_of_the_query_of_an_empty_click_are_kept(harness: Harness) -> None:
    harness.add(Click("a", (), ()))
    harness.delete("a", "b")
    assert harness.keys_with_features == {"a", "c", "d", "e", "f"}


def test_features_of_calibration_pairs_are_kept(harness: Harness) -> None:
    harness.collection.calibrate([("a", "b", True)], {"target": "f1"}).result(TIMEOUT)
    harness.delete("a", "b", "c")
    assert harness.keys_with_features == {"a", "b", "d", "e", "f"}


def test_deleting_a_missing_item_deletes_nothing(harness: Harness) -> None:
    with pytest.raises(NotFoundError, match="'missing'") as caught:
        harness.delete("a", "missing")
    assert caught.value.more == {"key": "missing", "at": 1}
    assert harness.number("a") == 1


def test_deleting_a_repeated_key_deletes_it_once(harness: Harness) -> None:
    assert harness.delete("a", "a").removed == [1]


def test_the_number_of_items_is_limited(store: SQLiteStore) -> None:
    harness = Harness(store, max_items=3)
    harness.put(new("a"), new("b"))
    with pytest.raises(InvalidRequestError, match="at most 3 items"):
        harness.put(new("c"), new("d"))
    harness.put(new("a", 5.0), new("c"), new("c", 1.0))  # two of these replace items
    assert len(harness.collection.catalogue.page(0, 10)) == 3


# -- idempotency -----------------------------------------------------------------------------------------------


def test_a_repeated_request_gets_the_same_receipt_and_adds_nothing(harness: Harness) -> None:
    records = [Pair("a", "b", True), Triplet("a", "c", "d")]
    receipt = harness.add(*records, request="request")
    assert harness.add(*records, request="request") == receipt._replace(replayed=True)
    assert harness.entries == records


def test_a_repeated_request_in_the_same_group_counts_once(harness: Harness) -> None:
    receipts = harness.in_one_group(
        *[lambda: harness.collection.add_feedback([Pair("a", "b", True)], "request")] * 3
    )
    assert [receipt.replayed for receipt in receipts] == [False, True, True]
    assert len(harness.entries) == 1


def test_a_receipt_outlives_a_restart_and_the_deletion_of_its_items(open_store: Any) -> None:
    harness = Harness(open_store())
    harness.put(new("a"), new("b", 1.0))
    receipt = harness.add(Pair("a", "b", True), request="request")
    harness.delete("a")
    harness.store.close()
    again = Harness(open_store()).add(Pair("a", "b", True), request="request")
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
def test_an_idempotency_key_cannot_be_reused_for_other_feedback(
    harness: Harness, other: list[FeedbackRecord]
) -> None:
    harness.add(Pair("a", "b", True), request="request")
    with pytest.raises(InvalidRequestError, match="used for other feedback"):
        harness.add(*other, request="request")
    assert len(harness.entries) == 1


def test_a_rejected_request_can_be_sent_again(harness: Harness) -> None:
    with pytest.raises(NotFoundError):
        harness.add(Pair("a", "new", True), request="request")
    harness.put(new("new", 9.0))
    assert harness.add(Pair("a", "new", True), request="request") == Receipt(1, 1)


# -- feedback --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        Pair("a", "missing", True),
        Pair("missing", "a", False),
        Triplet("a", "b", "missing"),
        Triplet("missing", "a", "b"),
        Click("missing", ("a",), ()),
        Click("a", ("b", "missing"), ("c",)),
        Click("a", ("b",), ("c", "missing")),
    ],
)
def test_a_missing_key_is_named_and_nothing_is_accepted(harness: Harness, record: FeedbackRecord) -> None:
    with pytest.raises(NotFoundError, match="'missing'") as caught:
        harness.add(Pair("a", "b", True), record)
    assert caught.value.more == {"key": "missing", "at": 1}
    assert harness.entries == []


def test_every_log_entry_has_a_sequence_number(harness: Harness) -> None:
    assert harness.add(Pair("a", "b", True), Pair("b", "c", True)) == Receipt(1, 2)
    assert harness.undo(1) == 3
    assert harness.replace_model() == 4
    assert harness.add(Click("a", ("b", "c"), ("d", "e"))) == Receipt(5, 5)
    assert [entry.seq for entry in harness.store.log(harness.id)] == [1, 2, 3, 4, 5]
    assert harness.log.last_seq == 5


def test_a_contradiction_is_proved_with_keys_and_sequence_numbers(harness: Harness) -> None:
    harness.add(Click("a", ("b", "c"), ("d",)))  # two constraints with one sequence number
    harness.add(Pair("e", "c", True))
    with pytest.raises(ContradictoryFeedbackError) as caught:
        harness.add(Pair("f", "d", True), Triplet("f", "e", "a"), all_or_nothing=True)
    more = caught.value.more
    assert more["record"] == 1
    assert more["pair"] == {"first": "f", "second": "e", "same": True}
    assert more["proof"] == [
        {"record": 0, "first": "f", "second": "d", "same": True},
        {"seq": 1, "first": "d", "second": "a", "same": False},
        {"seq": 1, "first": "a", "second": "c", "same": True},
        {"seq": 2, "first": "c", "second": "e", "same": True},
    ]


def test_the_message_contains_the_proof(harness: Harness) -> None:
    harness.add(Pair("a", "b", True))
    with pytest.raises(ContradictoryFeedbackError) as caught:
        harness.add(Pair("b", "a", False))
    assert str(caught.value) == (
        "Feedback record 0 of the request states that 'b' and 'a' are dissimilar, but feedback 1 states that 'b' "
        "and 'a' are similar. Nothing was accepted. The setting 'contradictions' of the collection is 'refuse'. "
        "Undo the earlier feedback, remove this record from the request, or change the setting to 'newest', so "
        "that new feedback replaces earlier feedback."
    )


def test_a_long_proof_is_shortened_in_the_message_only(store: SQLiteStore) -> None:
    harness = Harness(store)
    harness.put(*(new(f"k{at}", at) for at in range(30)))
    harness.add(*(Pair(f"k{at}", f"k{at + 1}", True) for at in range(29)))
    with pytest.raises(ContradictoryFeedbackError) as caught:
        harness.add(Pair("k0", "k29", False))
    assert len(caught.value.more["proof"]) == 29
    assert "feedback 10 states" in str(caught.value)
    assert "feedback 11 states" not in str(caught.value)
    assert "; ...." in str(caught.value)


def test_a_contradiction_rejects_the_whole_request_if_it_is_all_or_nothing(harness: Harness) -> None:
    harness.add(Pair("a", "b", True))
    before = state(harness.collection, harness.store)
    with pytest.raises(ContradictoryFeedbackError):
        harness.add(Pair("c", "d", True), Pair("a", "b", False), Pair("e", "f", True), all_or_nothing=True)
    assert state(harness.collection, harness.store) == before
    assert len(harness.entries) == 1


@pytest.mark.parametrize(
    "record",
    [Pair("a", "a", False), Triplet("a", "b", "a"), Triplet("a", "b", "b"), Click("a", ("b", "c"), ("d", "c"))],
)
@pytest.mark.parametrize("policy", ["harness", "newest"])
def test_a_record_that_contradicts_itself_is_rejected_under_every_policy(
    record: FeedbackRecord, policy: str, request: pytest.FixtureRequest
) -> None:
    harness = request.getfixturevalue(policy)
    with pytest.raises(ContradictoryFeedbackError) as caught:
        harness.add(Pair("e", "f", True), record, all_or_nothing=True)
    assert caught.value.more["record"] == 1
    assert all(link["record"] == 1 for link in caught.value.more["proof"])
    assert "but ." not in str(caught.value)
    assert harness.entries == []


def test_newer_feedback_overrides_older_feedback_with_the_newest_policy(newest: Harness) -> None:
    newest.add(Pair("a", "b", True))
    newest.add(Pair("a", "b", False))
    a, b = newest.number("a"), newest.number("b")
    assert newest.log.dissimilar(a, [b]) == {b}
    assert newest.log.similar_to(a) == []
    assert len(newest.entries) == 2


def test_a_contradiction_names_items_of_the_same_group_by_key(store: SQLiteStore) -> None:
    harness = Harness(store)
    collection = harness.collection
    *_, error = harness.in_one_group(
        lambda: collection.put_items([new("a"), new("b", 1.0)]),
        lambda: collection.add_feedback([Pair("a", "b", True)]),
        lambda: collection.add_feedback([Pair("a", "b", False)]),
    )
    assert error.more["pair"] == {"first": "a", "second": "b", "same": False}


# -- undo ------------------------------------------------------------------------------------------------------


def test_the_opposite_of_undone_feedback_is_accepted(harness: Harness) -> None:
    harness.add(Pair("a", "b", True))
    assert harness.undo(1) == 2
    harness.add(Pair("a", "b", False))
    assert harness.entries == [Pair("a", "b", True), Undo(1, 1), Pair("a", "b", False)]


def test_other_feedback_still_holds_after_an_undo(harness: Harness) -> None:
    harness.add(Pair("a", "b", True), Pair("c", "d", True))
    harness.undo(1)
    with pytest.raises(ContradictoryFeedbackError) as caught:
        harness.add(Pair("c", "d", False))
    assert [link["seq"] for link in caught.value.more["proof"]] == [2]


@pytest.mark.parametrize(("first", "last"), [(0, 0), (-1, 1), (3, 3), (1, 3), (2, 1), (2**62, 2**62)])
def test_missing_entries_cannot_be_undone(harness: Harness, first: int, last: int) -> None:
    harness.add(Pair("a", "b", True), Pair("c", "d", True))
    with pytest.raises(NotFoundError):
        harness.undo(first, last)
    assert len(harness.entries) == 2


def test_feedback_cannot_be_undone_twice(harness: Harness) -> None:
    harness.add(Pair("a", "b", True))
    harness.undo(1)
    with pytest.raises(ConflictError, match="already undone"):
        harness.undo(1)


def test_an_undo_cannot_be_undone(harness: Harness) -> None:
    harness.add(Pair("a", "b", True))
    harness.undo(1)
    with pytest.raises(InvalidRequestError, match="is not feedback"):
        harness.undo(2)


def test_a_model_replacement_cannot_be_undone(harness: Harness) -> None:
    harness.replace_model()
    with pytest.raises(InvalidRequestError, match="is not feedback"):
        harness.undo(1)


def test_undoing_a_range_undoes_its_active_records(harness: Harness) -> None:
    harness.add(*(Pair("a", other, True) for other in "bcd"))
    harness.undo(2)
    harness.undo(1, 4)
    assert effective_feedback(harness.store.log(harness.id), harness.store.undone(harness.id)) == []


ENTRIES = [LoggedChange(seq, 0.0, Undo(1, 1) if seq % 4 == 0 else Pair(seq, 99, True)) for seq in range(1, 12)]


@pytest.mark.parametrize("undone", [[], [(1, 1)], [(2, 3), (3, 9)], [(1, 10**15)], [(5, 5), (5, 6), (100, 200)]])
def test_effective_feedback_is_not_undone(undone: list[tuple[int, int]]) -> None:
    for begin, end in combinations(range(len(ENTRIES) + 1), 2):
        assert effective_feedback(ENTRIES[begin:end], undone) == [
            (entry.seq, Feedback(entry.change))
            for entry in ENTRIES[begin:end]
            if entry.seq % 4 and not any(first <= entry.seq <= last for first, last in undone)
        ]


# -- failures, and reads from other threads --------------------------------------------------------------------


def test_a_failed_command_does_not_affect_other_commands_of_its_group(harness: Harness) -> None:
    collection = harness.collection
    first, error, last = harness.in_one_group(
        lambda: collection.add_feedback([Pair("a", "b", True)]),
        lambda: collection.put_items([new("z", 1.0), new("\ud800")]),
        lambda: collection.add_feedback([Pair("c", "d", True)]),
    )
    assert isinstance(error, UnicodeEncodeError)
    assert (first, last) == (Receipt(1, 1), Receipt(2, 2))
    assert harness.entries == [Pair("a", "b", True), Pair("c", "d", True)]


def test_reads_do_not_see_feedback_that_was_rolled_back(harness: Harness) -> None:
    harness.in_one_group(lambda: harness.collection.add_feedback([Pair("a", "b", True)]), harness.submit_failure)
    assert harness.log.similar_to(1) == []
    assert harness.log.last_seq == 0


def test_reads_never_read_the_log(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.add(Triplet("a", "b", "c"))
    loaded = harness.loaded().feedback_log
    reads: list[Any] = []
    monkeypatch.setattr(harness.store, "log", lambda *given: reads.append(given) or [])
    harness.in_one_group(lambda: harness.collection.add_feedback([Pair("d", "e", True)]), harness.submit_failure)
    assert loaded.similar_to(1) == [2]
    assert harness.log.similar_to(1) == [2]
    assert harness.log.dissimilar(1, [2, 3, 4]) == {3}
    assert reads == []


def test_the_next_command_repeats_a_failed_reload(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.add(Pair("a", "b", True))
    writer = harness.store._writer

    def unreadable(*_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "log", unreadable)
        harness.in_one_group(
            lambda: harness.collection.add_feedback([Pair("c", "d", True)]), harness.submit_failure
        )
        assert harness.log.similar_to(1) == []  # the graph is not available
    assert harness.add(Pair("c", "d", True)) == Receipt(2, 2)
    assert harness.log.similar_to(1) == [2]


def test_reads_see_an_undo(harness: Harness) -> None:
    harness.add(Pair("a", "b", True))
    assert harness.log.similar_to(1) == [2]
    harness.undo(1)
    assert harness.log.similar_to(1) == []


def test_a_deleted_collection_rejects_all_commands(harness: Harness) -> None:
    collection = harness.collection
    _, *errors = harness.in_one_group(
        lambda: collection._submit(collection._delete),
        lambda: collection.put_items([new("x")]),
        lambda: collection.add_feedback([Pair("a", "b", True)]),
        lambda: collection.undo(1),
    )
    assert [type(error) for error in errors] == [NotFoundError] * 3
    assert harness.store.collections() == []


def test_a_deletion_that_is_rolled_back_changes_nothing(harness: Harness) -> None:
    collection = harness.collection
    errors = harness.in_one_group(lambda: collection._submit(collection._delete), harness.submit_failure)
    assert all(isinstance(error, StoreUnavailableError) for error in errors)
    assert harness.add(Pair("a", "b", True)) == Receipt(1, 1)
