"""One thread writes, and what waits together goes to disk together: all of a command or nothing, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oahu.service.errors import OverloadedError, ServiceError, StoreFullError, StoreUnavailableError
from oahu.service.store.group_commit import GroupCommit

PATIENCE = 30.0


class BrokenError(Exception):
    """Of the database, and not of a command."""


class Ledger:
    """A database that is a list: what is on disk, and what is only being written."""

    def __init__(self) -> None:
        self.disk: list[Any] = []
        self.written: list[Any] = []
        self.broken: set[str] = set()
        self.committed: list[Callable[[], None]] = []
        self.undone: list[Callable[[], None]] = []
        self.marks = (0, 0, 0)

    def begin(self) -> None:
        self.written, self.committed, self.undone = [], [], []
        self._try("begin")

    def savepoint(self) -> Ledger:
        self.marks = len(self.written), len(self.committed), len(self.undone)
        return self

    def release(self) -> None:
        self._try("release")

    def back_to_savepoint(self) -> None:
        written, committed, undone = self.marks
        calls = self.undone[undone:]
        del self.written[written:], self.committed[committed:], self.undone[undone:]
        for call in calls:
            call()

    def commit(self) -> list[Callable[[], None]]:
        self._try("commit")
        self.disk += self.written
        return self.committed

    def rollback(self) -> list[Callable[[], None]]:
        self.written = []
        return self.undone

    def problem(self, error: Exception) -> ServiceError | None:
        return StoreFullError("The disk is full.") if isinstance(error, BrokenError) else None

    def _try(self, what: str) -> None:
        if what in self.broken:
            raise BrokenError(what)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def group(ledger: Ledger) -> Iterator[GroupCommit]:
    made = GroupCommit(ledger, most_waiting=100)
    yield made
    made.close()


@contextmanager
def busy(group: GroupCommit) -> Iterator[None]:
    """What is submitted inside waits together, behind a command that runs until the end of it."""
    begun, enough = Event(), Event()

    def hold(_: Ledger) -> None:
        begun.set()
        enough.wait(PATIENCE)

    held = group.submit(hold, 0)
    assert begun.wait(PATIENCE)
    try:
        yield
    finally:
        enough.set()
    held.result(PATIENCE)


def writing(what: Any) -> Callable[[Ledger], Any]:
    def command(ledger: Ledger) -> Any:
        ledger.written.append(what)
        return what

    return command


def failing(what: Any, error: Exception) -> Callable[[Ledger], Any]:
    """A command that fails when it has already written something."""

    def command(ledger: Ledger) -> None:
        ledger.written.append(what)
        raise error

    return command


# -- order and groups ------------------------------------------------------------------------------------------


def test_commands_are_stored_in_the_order_in_which_they_came(group: GroupCommit, ledger: Ledger) -> None:
    wait([group.submit(writing(i), 1) for i in range(90)], PATIENCE)
    assert ledger.disk == list(range(90))


def test_whoever_waits_gets_what_its_command_returned(group: GroupCommit) -> None:
    with busy(group):
        futures = [group.submit(writing(i), 1) for i in range(5)]
    assert [future.result(PATIENCE) for future in futures] == [0, 1, 2, 3, 4]


def test_what_waits_together_is_committed_together(group: GroupCommit) -> None:
    with busy(group):
        futures = [group.submit(writing(i), 1) for i in range(50)]
    wait(futures, PATIENCE)
    assert group.n_commits == 2  # the one that kept the others waiting, and theirs


def test_a_group_does_not_grow_without_bound(ledger: Ledger) -> None:
    group = GroupCommit(ledger, most_waiting=100_000)
    with busy(group):
        futures = [group.submit(writing(i), 6_000) for i in range(3)]
    wait(futures, PATIENCE)
    group.close()
    assert group.n_commits == 4


COMMANDS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([None, ValueError(), BrokenError()])), max_size=6)


@given(st.lists(COMMANDS, max_size=6))
@settings(max_examples=50)
def test_what_is_on_disk_is_what_was_said_to_be(groups: list[list[tuple[int, Exception | None]]]) -> None:
    ledger = Ledger()
    group = GroupCommit(ledger, 1000)
    said: list[int] = []
    for commands in groups:
        with busy(group):
            futures = [group.submit(failing(what, e) if e else writing(what), 1) for what, e in commands]
        wait(futures, PATIENCE)
        said += [future.result() for future in futures if future.exception() is None]
    group.close()
    assert ledger.disk == said


# -- what fails ------------------------------------------------------------------------------------------------


def test_a_command_that_fails_leaves_no_trace_and_the_others_go_on(group: GroupCommit, ledger: Ledger) -> None:
    with busy(group):
        futures = [
            group.submit(writing("a"), 1),
            group.submit(failing("b", ValueError()), 1),
            group.submit(writing("c"), 1),
        ]
    assert isinstance(futures[1].exception(PATIENCE), ValueError)
    assert [futures[0].result(PATIENCE), futures[2].result(PATIENCE)] == ["a", "c"]
    assert ledger.disk == ["a", "c"]


def test_a_command_that_fails_is_told_before_the_next_runs(group: GroupCommit) -> None:
    happened: list[str] = []

    def fails(ledger: Ledger) -> None:
        ledger.undone.append(lambda: happened.append("undone"))
        raise ValueError

    with busy(group):
        group.submit(fails, 1)
        last = group.submit(lambda _: happened.append("next"), 1)
    last.result(PATIENCE)
    assert happened == ["undone", "next"]


def test_what_a_failed_command_wanted_to_be_called_is_not(group: GroupCommit) -> None:
    happened: list[str] = []

    def fails(ledger: Ledger) -> None:
        ledger.committed.append(lambda: happened.append("stored"))
        raise ValueError

    wait([group.submit(fails, 1)], PATIENCE)
    assert not happened


def test_calls_after_a_commit_come_when_it_is_on_disk_and_before_any_answer(
    group: GroupCommit, ledger: Ledger
) -> None:
    seen: list[tuple[list[Any], bool]] = []
    futures: list[Future[Any]] = []

    def command(ledger: Ledger) -> None:
        ledger.written.append("a")
        ledger.committed.append(lambda: seen.append((list(ledger.disk), futures[0].done())))

    with busy(group):
        futures.append(group.submit(command, 1))
    futures[0].result(PATIENCE)
    assert seen == [(["a"], False)]


def test_a_group_that_cannot_be_committed_fails_whole(group: GroupCommit, ledger: Ledger) -> None:
    with busy(group):
        futures = [group.submit(writing(i), 1) for i in range(3)]
        futures.append(group.submit(lambda ledger: ledger.broken.add("commit"), 0))
    assert all(isinstance(future.exception(PATIENCE), StoreFullError) for future in futures)
    assert ledger.disk == []


def test_a_group_that_cannot_begin_fails_whole(group: GroupCommit, ledger: Ledger) -> None:
    with busy(group):
        futures = [group.submit(writing(i), 1) for i in range(3)]
        ledger.broken.add("begin")
    assert all(isinstance(future.exception(PATIENCE), StoreFullError) for future in futures)
    assert ledger.disk == []


def test_a_database_that_breaks_under_a_command_fails_the_group(group: GroupCommit, ledger: Ledger) -> None:
    with busy(group):
        futures = [group.submit(writing("a"), 1), group.submit(failing("b", BrokenError()), 1)]
    assert all(isinstance(future.exception(PATIENCE), StoreFullError) for future in futures)
    assert ledger.disk == []


def test_a_command_that_failed_in_a_group_that_failed_is_told_its_own_error(
    group: GroupCommit, ledger: Ledger
) -> None:
    with busy(group):
        own = group.submit(failing("a", KeyError("mine")), 1)
        group.submit(failing("b", BrokenError()), 1)
    assert isinstance(own.exception(PATIENCE), KeyError)


def test_a_group_that_fails_calls_what_was_left_for_that(group: GroupCommit) -> None:
    undone: list[str] = []

    def command(ledger: Ledger) -> None:
        ledger.undone.append(lambda: undone.append("a"))

    with busy(group):
        group.submit(command, 1)
        last = group.submit(failing("b", BrokenError()), 1)
    last.exception(PATIENCE)
    assert undone == ["a"]


def test_what_comes_after_a_group_that_failed_is_stored(group: GroupCommit, ledger: Ledger) -> None:
    group.submit(failing("a", BrokenError()), 1).exception(PATIENCE)
    assert group.submit(writing("b"), 1).result(PATIENCE) == "b"
    assert ledger.disk == ["b"]


def test_a_call_that_fails_changes_nothing_for_others(group: GroupCommit) -> None:
    called: list[str] = []

    def command(ledger: Ledger) -> str:
        ledger.committed.append(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
        ledger.committed.append(lambda: called.append("next"))
        return "stored"

    assert group.submit(command, 1).result(PATIENCE) == "stored"
    assert called == ["next"]


# -- leaving ---------------------------------------------------------------------------------------------------


def test_a_command_that_is_cancelled_while_it_waits_is_left_out(group: GroupCommit, ledger: Ledger) -> None:
    with busy(group):
        gone, last = group.submit(writing("gone"), 1), group.submit(writing("there"), 1)
        assert gone.cancel()
    last.result(PATIENCE)
    assert ledger.disk == ["there"]


def test_when_all_that_wait_are_cancelled_nothing_is_committed(group: GroupCommit) -> None:
    with busy(group):
        assert group.submit(writing("gone"), 1).cancel()
    group.close()
    assert group.n_commits == 1


def test_a_command_that_runs_cannot_be_cancelled(group: GroupCommit, ledger: Ledger) -> None:
    begun, enough = Event(), Event()

    def command(ledger: Ledger) -> None:
        ledger.written.append("a")
        begun.set()
        enough.wait(PATIENCE)

    future = group.submit(command, 1)
    begun.wait(PATIENCE)
    assert not future.cancel()
    enough.set()
    future.result(PATIENCE)
    assert ledger.disk == ["a"]


# -- bounds ----------------------------------------------------------------------------------------------------


def test_what_is_too_much_is_refused_before_it_is_accepted(group: GroupCommit, ledger: Ledger) -> None:
    with busy(group):
        taken = group.submit(writing("a"), 60)
        with pytest.raises(OverloadedError, match="60 items and pieces of feedback wait"):
            group.submit(writing("b"), 41)
        also = group.submit(writing("c"), 40)
    wait([taken, also], PATIENCE)
    assert ledger.disk == ["a", "c"]


def test_being_overloaded_says_when_to_try_again(group: GroupCommit) -> None:
    with busy(group):
        group.submit(writing("a"), 100)
        with pytest.raises(OverloadedError) as caught:
            group.submit(writing("b"), 1)
    assert caught.value.retry_after


def test_one_that_is_larger_than_the_bound_is_taken_when_nothing_waits(group: GroupCommit) -> None:
    assert group.submit(writing("a"), 1000).result(PATIENCE) == "a"


@pytest.mark.parametrize("command", [writing("a"), failing("a", ValueError()), failing("a", BrokenError())])
def test_what_is_stored_or_refused_does_not_wait_any_more(group: GroupCommit, command: Any) -> None:
    wait([group.submit(command, 100)], PATIENCE)
    group.close()
    assert group.waiting == 0


def test_closing_stores_what_waits(ledger: Ledger) -> None:
    group = GroupCommit(ledger, 100)
    futures = [group.submit(writing(i), 1) for i in range(20)]
    group.close()
    assert all(future.done() for future in futures)
    assert ledger.disk == list(range(20))


def test_after_closing_nothing_is_accepted(ledger: Ledger) -> None:
    group = GroupCommit(ledger, 100)
    group.close()
    with pytest.raises(StoreUnavailableError, match="shutting down"):
        group.submit(writing("a"), 1)
    assert ledger.disk == []
