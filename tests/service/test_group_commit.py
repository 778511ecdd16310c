"""Group commit: commands run in order, completely or not at all, and waiting commands share a commit."""

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

TIMEOUT = 600.0  # seconds; only a real hang exceeds it


class BrokenError(Exception):
    """A failure of the database."""


class ListDatabase:
    """A database in two lists: committed values, and values of the open transaction."""

    def __init__(self) -> None:
        self.disk: list[Any] = []
        self.written: list[Any] = []
        self.broken: set[str] = set()
        self.after_commit: list[Callable[[], None]] = []
        self.after_rollback: list[Callable[[], None]] = []
        self.saved = (0, 0, 0)

    def begin(self) -> None:
        self.written, self.after_commit, self.after_rollback = [], [], []
        self._fail_if_broken("begin")

    def savepoint(self) -> ListDatabase:
        self.saved = len(self.written), len(self.after_commit), len(self.after_rollback)
        return self

    def release(self) -> None:
        self._fail_if_broken("release")

    def back_to_savepoint(self) -> None:
        written, after_commit, after_rollback = self.saved
        calls = self.after_rollback[after_rollback:]
        del self.written[written:], self.after_commit[after_commit:], self.after_rollback[after_rollback:]
        for call in calls:
            call()

    def commit(self) -> list[Callable[[], None]]:
        self._fail_if_broken("commit")
        self.disk += self.written
        return self.after_commit

    def rollback(self) -> list[Callable[[], None]]:
        self.written = []
        return self.after_rollback

    def problem(self, error: Exception) -> ServiceError | None:
        return StoreFullError("The disk is full.") if isinstance(error, BrokenError) else None

    def _fail_if_broken(self, operation: str) -> None:
        if operation in self.broken:
            raise BrokenError(operation)


@pytest.fixture
def database() -> ListDatabase:
    return ListDatabase()


@pytest.fixture
def group(database: ListDatabase) -> Iterator[GroupCommit]:
    made = GroupCommit(database, max_write_queue=100)
    yield made
    made.close()


@contextmanager
def one_group(group: GroupCommit) -> Iterator[None]:
    """Collect the commands of the block in one group, while another command blocks the writer."""
    blocked, released = Event(), Event()

    def block(_: ListDatabase) -> None:
        blocked.set()
        released.wait(TIMEOUT)

    blocking = group.submit(block, 0)
    assert blocked.wait(TIMEOUT)
    try:
        yield
    finally:
        released.set()
    blocking.result(TIMEOUT)


def writing(value: Any) -> Callable[[ListDatabase], Any]:
    def command(database: ListDatabase) -> Any:
        database.written.append(value)
        return value

    return command


def failing(value: Any, error: Exception) -> Callable[[ListDatabase], Any]:
    """Return a command that writes a value and then fails."""

    def command(database: ListDatabase) -> None:
        database.written.append(value)
        raise error

    return command


# -- order and groups ------------------------------------------------------------------------------------------


def test_commands_are_stored_in_the_order_of_submission(group: GroupCommit, database: ListDatabase) -> None:
    wait([group.submit(writing(i), 1) for i in range(90)], TIMEOUT)
    assert database.disk == list(range(90))


def test_a_future_gets_the_result_of_its_command(group: GroupCommit) -> None:
    with one_group(group):
        futures = [group.submit(writing(i), 1) for i in range(5)]
    assert [future.result(TIMEOUT) for future in futures] == [0, 1, 2, 3, 4]


def test_waiting_commands_are_committed_together(group: GroupCommit) -> None:
    with one_group(group):
        futures = [group.submit(writing(i), 1) for i in range(50)]
    wait(futures, TIMEOUT)
    assert group.n_commits == 2  # the blocking command, and the group


def test_the_size_of_a_group_is_limited(database: ListDatabase) -> None:
    group = GroupCommit(database, max_write_queue=100_000)
    with one_group(group):
        futures = [group.submit(writing(i), 6_000) for i in range(3)]
    wait(futures, TIMEOUT)
    group.close()
    assert group.n_commits == 4


COMMANDS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([None, ValueError(), BrokenError()])), max_size=6)


@given(st.lists(COMMANDS, max_size=6))
@settings(max_examples=50)
def test_exactly_the_successful_commands_are_stored(groups: list[list[tuple[int, Exception | None]]]) -> None:
    database = ListDatabase()
    group = GroupCommit(database, 1000)
    succeeded: list[int] = []
    for commands in groups:
        with one_group(group):
            futures = [group.submit(failing(value, e) if e else writing(value), 1) for value, e in commands]
        wait(futures, TIMEOUT)
        succeeded += [future.result() for future in futures if future.exception() is None]
    group.close()
    assert database.disk == succeeded


# -- failures --------------------------------------------------------------------------------------------------


def test_a_failed_command_is_rolled_back_alone(group: GroupCommit, database: ListDatabase) -> None:
    with one_group(group):
        futures = [
            group.submit(writing("a"), 1),
            group.submit(failing("b", ValueError()), 1),
            group.submit(writing("c"), 1),
        ]
    assert isinstance(futures[1].exception(TIMEOUT), ValueError)
    assert [futures[0].result(TIMEOUT), futures[2].result(TIMEOUT)] == ["a", "c"]
    assert database.disk == ["a", "c"]


def test_rollback_calls_run_before_the_next_command(group: GroupCommit) -> None:
    calls: list[str] = []

    def fails(database: ListDatabase) -> None:
        database.after_rollback.append(lambda: calls.append("rolled back"))
        raise ValueError

    with one_group(group):
        group.submit(fails, 1)
        last = group.submit(lambda _: calls.append("next"), 1)
    last.result(TIMEOUT)
    assert calls == ["rolled back", "next"]


def test_a_failed_command_runs_no_commit_calls(group: GroupCommit) -> None:
    calls: list[str] = []

    def fails(database: ListDatabase) -> None:
        database.after_commit.append(lambda: calls.append("stored"))
        raise ValueError

    wait([group.submit(fails, 1)], TIMEOUT)
    assert not calls


def test_commit_calls_run_after_the_commit_and_before_any_result(
    group: GroupCommit, database: ListDatabase
) -> None:
    seen: list[tuple[list[Any], bool]] = []
    futures: list[Future[Any]] = []

    def command(database: ListDatabase) -> None:
        database.written.append("a")
        database.after_commit.append(lambda: seen.append((list(database.disk), futures[0].done())))

    with one_group(group):
        futures.append(group.submit(command, 1))
    futures[0].result(TIMEOUT)
    assert seen == [(["a"], False)]


def test_a_failed_commit_fails_the_whole_group(group: GroupCommit, database: ListDatabase) -> None:
    with one_group(group):
        futures = [group.submit(writing(i), 1) for i in range(3)]
        futures.append(group.submit(lambda database: database.broken.add("commit"), 0))
    assert all(isinstance(future.exception(TIMEOUT), StoreFullError) for future in futures)
    assert database.disk == []


def test_a_failed_begin_fails_the_whole_group(group: GroupCommit, database: ListDatabase) -> None:
    with one_group(group):
        futures = [group.submit(writing(i), 1) for i in range(3)]
        database.broken.add("begin")
    assert all(isinstance(future.exception(TIMEOUT), StoreFullError) for future in futures)
    assert database.disk == []


def test_a_database_failure_during_a_command_fails_the_group(group: GroupCommit, database: ListDatabase) -> None:
    with one_group(group):
        futures = [group.submit(writing("a"), 1), group.submit(failing("b", BrokenError()), 1)]
    assert all(isinstance(future.exception(TIMEOUT), StoreFullError) for future in futures)
    assert database.disk == []


def test_a_failed_command_of_a_failed_group_gets_its_own_error(group: GroupCommit, database: ListDatabase) -> None:
    with one_group(group):
        own = group.submit(failing("a", KeyError("mine")), 1)
        group.submit(failing("b", BrokenError()), 1)
    assert isinstance(own.exception(TIMEOUT), KeyError)


def test_a_failed_group_runs_its_rollback_calls(group: GroupCommit) -> None:
    calls: list[str] = []

    def command(database: ListDatabase) -> None:
        database.after_rollback.append(lambda: calls.append("a"))

    with one_group(group):
        group.submit(command, 1)
        last = group.submit(failing("b", BrokenError()), 1)
    last.exception(TIMEOUT)
    assert calls == ["a"]


def test_commands_after_a_failed_group_are_stored(group: GroupCommit, database: ListDatabase) -> None:
    group.submit(failing("a", BrokenError()), 1).exception(TIMEOUT)
    assert group.submit(writing("b"), 1).result(TIMEOUT) == "b"
    assert database.disk == ["b"]


def test_a_failed_commit_call_does_not_affect_other_calls(group: GroupCommit) -> None:
    called: list[str] = []

    def command(database: ListDatabase) -> str:
        database.after_commit.append(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
        database.after_commit.append(lambda: called.append("next"))
        return "stored"

    assert group.submit(command, 1).result(TIMEOUT) == "stored"
    assert called == ["next"]


# -- cancellation ----------------------------------------------------------------------------------------------


def test_a_command_that_is_cancelled_while_it_waits_is_skipped(group: GroupCommit, database: ListDatabase) -> None:
    with one_group(group):
        cancelled, last = group.submit(writing("cancelled"), 1), group.submit(writing("stored"), 1)
        assert cancelled.cancel()
    last.result(TIMEOUT)
    assert database.disk == ["stored"]


def test_a_group_of_cancelled_commands_is_not_committed(group: GroupCommit) -> None:
    with one_group(group):
        assert group.submit(writing("cancelled"), 1).cancel()
    group.close()
    assert group.n_commits == 1


def test_a_running_command_cannot_be_cancelled(group: GroupCommit, database: ListDatabase) -> None:
    blocked, released = Event(), Event()

    def command(database: ListDatabase) -> None:
        database.written.append("a")
        blocked.set()
        released.wait(TIMEOUT)

    future = group.submit(command, 1)
    blocked.wait(TIMEOUT)
    assert not future.cancel()
    released.set()
    future.result(TIMEOUT)
    assert database.disk == ["a"]


# -- limits ----------------------------------------------------------------------------------------------------


def test_a_full_write_queue_rejects_commands(group: GroupCommit, database: ListDatabase) -> None:
    with one_group(group):
        first = group.submit(writing("a"), 60)
        with pytest.raises(
            OverloadedError, match=r"write queue is full: 60 items and feedback records \(limit 100, "
        ):
            group.submit(writing("b"), 41)
        second = group.submit(writing("c"), 40)
    wait([first, second], TIMEOUT)
    assert database.disk == ["a", "c"]


def test_a_full_write_queue_gives_a_retry_time(group: GroupCommit) -> None:
    with one_group(group):
        group.submit(writing("a"), 100)
        with pytest.raises(OverloadedError) as caught:
            group.submit(writing("b"), 1)
    assert caught.value.retry_after


def test_an_empty_write_queue_accepts_any_weight(group: GroupCommit) -> None:
    assert group.submit(writing("a"), 1000).result(TIMEOUT) == "a"


@pytest.mark.parametrize("command", [writing("a"), failing("a", ValueError()), failing("a", BrokenError())])
def test_finished_commands_leave_the_write_queue(group: GroupCommit, command: Any) -> None:
    wait([group.submit(command, 100)], TIMEOUT)
    group.close()
    assert group.queue_weight == 0


def test_close_commits_the_write_queue(database: ListDatabase) -> None:
    group = GroupCommit(database, 100)
    futures = [group.submit(writing(i), 1) for i in range(20)]
    group.close()
    assert all(future.done() for future in futures)
    assert database.disk == list(range(20))


def test_after_close_commands_are_rejected(database: ListDatabase) -> None:
    group = GroupCommit(database, 100)
    group.close()
    with pytest.raises(StoreUnavailableError, match="shutting down"):
        group.submit(writing("a"), 1)
    assert database.disk == []
