"""Group commit: one thread runs all write commands. It commits several waiting commands together."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any, NamedTuple, Protocol

from oahu.service.errors import OverloadedError, ServiceError, StoreUnavailableError

__all__ = ["Connection", "GroupCommit"]

_MAX_GROUP_WEIGHT = 10_000

log = logging.getLogger("oahu.service")


class Connection(Protocol):
    """The database operations that a group commit needs."""

    def begin(self) -> None: ...

    def savepoint(self) -> Any:
        """Set a savepoint before a command. Return the transaction for the command."""
        ...

    def release(self) -> None: ...

    def back_to_savepoint(self) -> None: ...

    def commit(self) -> list[Callable[[], None]]:
        """Commit all commands to disk. Return the functions to call after the commit."""
        ...

    def rollback(self) -> list[Callable[[], None]]:
        """Roll back all commands. Return the functions to call after the rollback."""
        ...

    def problem(self, error: Exception) -> ServiceError | None:
        """Return the `ServiceError` for a database error, or None if the command itself raised the error."""
        ...


class _Request(NamedTuple):
    command: Callable[[Any], Any]
    future: Future[Any]
    weight: int


class GroupCommit:
    """A thread that runs commands one after the other, and commits waiting commands as a group.

    If a command fails, only this command is rolled back. If the commit fails, the whole group is rolled back, and
    all futures of the group receive the error. A command that is cancelled while it waits in the queue is skipped.

    Parameters
    ----------
    max_write_queue : int
        Maximum total weight of the commands in the write queue. The weight of a command is an argument of `submit`.
    """

    def __init__(self, connection: Connection, max_write_queue: int) -> None:
        self._connection, self._max_write_queue = connection, max_write_queue
        self._queue: deque[_Request] = deque()
        self._changed = Condition()
        self._weight, self._closed = 0, False
        self.n_commits = 0
        self._thread = Thread(target=self._run, name="oahu-store", daemon=True)
        self._thread.start()

    @property
    def queue_weight(self) -> int:
        """The total weight of all waiting and running commands."""
        return self._weight

    def submit(self, command: Callable[[Any], Any], weight: int) -> Future[Any]:
        """Append a command to the write queue. If the queue is empty, it accepts a command of any weight."""
        future: Future[Any] = Future()
        with self._changed:
            if self._closed:
                raise StoreUnavailableError("The service is shutting down.", retry_after=5)
            if self._weight and self._weight + weight > self._max_write_queue:
                raise OverloadedError(
                    f"The write queue is full: {self._weight:,} items and feedback records (limit "
                    f"{self._max_write_queue:,}, OAHU_MAX_WRITE_QUEUE). Send the request again later.",
                    retry_after=1,
                )
            self._queue.append(_Request(command, future, weight))
            self._weight += weight
            self._changed.notify()
        return future

    def close(self) -> None:
        """Commit the commands in the write queue, then stop the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if not self._queue:
                    return
                group: list[_Request] = []
                weight = 0
                while self._queue and (not group or weight + self._queue[0].weight <= _MAX_GROUP_WEIGHT):
                    group.append(self._queue.popleft())
                    weight += group[-1].weight
            try:
                active = [request for request in group if request.future.set_running_or_notify_cancel()]
                if active:
                    self._commit(active)
            finally:
                with self._changed:
                    self._weight -= weight

    def _commit(self, group: list[_Request]) -> None:
        succeeded: list[tuple[Future[Any], Any]] = []
        try:
            self._connection.begin()
            for command, future, _ in group:
                try:
                    result = command(self._connection.savepoint())
                    self._connection.release()
                    succeeded.append((future, result))
                except Exception as error:
                    if self._connection.problem(error):
                        raise
                    self._connection.back_to_savepoint()
                    future.set_exception(error)
            calls = self._connection.commit()
            self.n_commits += 1
        except Exception as error:
            self._fail(group, error)
            return
        for call in calls:
            _run_and_log(call)
        for future, result in succeeded:
            future.set_result(result)

    def _fail(self, group: list[_Request], error: Exception) -> None:
        problem = self._connection.problem(error) or error
        for call in self._connection.rollback():
            _run_and_log(call)
        log.error("rolled back a group of %d commands: %s", len(group), problem)
        for request in group:
            if not request.future.done():
                request.future.set_exception(problem)


def _run_and_log(call: Callable[[], None]) -> None:
    """Call a function after a commit or a rollback. Its errors are logged, because the commit cannot be undone."""
    try:
        call()
    except Exception:
        log.exception("a function that was called after a commit or rollback failed")
