"""Group commit: one thread writes, and whatever waits meanwhile goes to disk together."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any, Protocol

from oahu.service.errors import OverloadedError, ServiceError, StoreUnavailableError

__all__ = ["Connection", "GroupCommit"]

_MOST = 10_000  # of weight, in a group


class Connection(Protocol):
    """What a group needs of a database."""

    def begin(self) -> None: ...

    def savepoint(self) -> Any:
        """What a command is given."""
        ...

    def release(self) -> None: ...

    def back_to_savepoint(self) -> None: ...

    def commit(self) -> list[Callable[[], None]]:
        """Put all of it on disk; what is to be called then."""
        ...

    def rollback(self) -> list[Callable[[], None]]:
        """Nothing of it happened; what is to be called then."""
        ...

    def problem(self, error: Exception) -> ServiceError | None:
        """What is wrong with the database, if that is what it is."""
        ...


class GroupCommit:
    """Commands one after the other in one thread; what waits together is committed together.

    A command that fails comes to nothing, and the others go on. If the commit fails, all of its group come to
    nothing, and whoever waits is told why. A command that is cancelled while it waits is left out.
    """

    def __init__(self, connection: Connection, most_waiting: int) -> None:
        self._connection, self._most_waiting = connection, most_waiting
        self._queue: deque[tuple[Callable[[Any], Any], Future[Any], int]] = deque()
        self._changed = Condition()
        self._weight, self._closed = 0, False
        self.n_commits = 0
        self._thread = Thread(target=self._run, name="oahu-store", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The weight of what waits."""
        return self._weight

    def submit(self, command: Callable[[Any], Any], weight: int) -> Future[Any]:
        future: Future[Any] = Future()
        with self._changed:
            if self._closed:
                raise StoreUnavailableError("The service is shutting down.", retry_after=5)
            if self._weight and self._weight + weight > self._most_waiting:
                raise OverloadedError(
                    f"{self._weight} items and pieces of feedback wait to be stored; {self._most_waiting} may.",
                    retry_after=1,
                )
            self._queue.append((command, future, weight))
            self._weight += weight
            self._changed.notify()
        return future

    def close(self) -> None:
        """Commit what waits, and stop."""
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
                group: list[tuple[Callable[[Any], Any], Future[Any], int]] = []
                weight = 0
                while self._queue and (not group or weight + self._queue[0][2] <= _MOST):
                    group.append(self._queue.popleft())
                    weight += group[-1][2]
            try:
                wanted = [one[:2] for one in group if one[1].set_running_or_notify_cancel()]
                if wanted:
                    self._commit(wanted)
            finally:
                with self._changed:
                    self._weight -= weight

    def _commit(self, group: list[tuple[Callable[[Any], Any], Future[Any]]]) -> None:
        done: list[tuple[Future[Any], Any]] = []
        try:
            self._connection.begin()
            for command, future in group:
                try:
                    result = command(self._connection.savepoint())
                    self._connection.release()
                    done.append((future, result))
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
            _quietly(call)
        for future, result in done:
            future.set_result(result)

    def _fail(self, group: list[tuple[Callable[[Any], Any], Future[Any]]], error: Exception) -> None:
        problem = self._connection.problem(error) or error
        for call in self._connection.rollback():
            _quietly(call)
        logging.getLogger("oahu.service").error("a group of %d was not stored: %s", len(group), problem)
        for _, future in group:
            if not future.done():
                future.set_exception(problem)


def _quietly(call: Callable[[], None]) -> None:
    """What is called when all is settled cannot change what is on disk: an error in it is only told."""
    try:
        call()
    except Exception:
        logging.getLogger("oahu.service").exception("after a commit")
