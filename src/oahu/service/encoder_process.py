"""The encoder of a service: a function of the user that runs in its own process.

The process loads the function once. A call that takes too long ends with the process, which then starts again. A
slow or failing function therefore delays only the requests that need it.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Connection
from threading import Condition, Thread
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError
from oahu.service.errors import (
    EncoderFailedError,
    EncoderTimeoutError,
    InvalidRequestError,
    OverloadedError,
    ServiceError,
)

__all__ = ["EncoderInput", "EncoderProcess", "InputKind"]

InputKind = Literal["text", "image"]
EncoderInput = str | bytes

_LOAD_TIMEOUT: Final = 600.0  # seconds; a large model may be downloaded first
_MAX_MESSAGE: Final = 500  # characters of an error of the function

log = logging.getLogger("oahu.service")


class _Request:
    """A waiting request: its inputs, and the vectors of the inputs that are already encoded."""

    def __init__(self, kind: InputKind, inputs: Sequence[EncoderInput]) -> None:
        self.kind, self.inputs = kind, list(inputs)
        self.future: Future[NDArray[np.float32]] = Future()
        self.done: list[NDArray[np.float32]] = []
        self.n_done = 0

    @property
    def n_left(self) -> int:
        return len(self.inputs) - self.n_done

    def next_inputs(self, count: int) -> list[EncoderInput]:
        return self.inputs[self.n_done : self.n_done + count]

    def add(self, vectors: NDArray[np.float32]) -> None:
        self.done.append(vectors)
        self.n_done += len(vectors)

    def finish(self) -> None:
        try:
            vectors = np.concatenate(self.done)
        except ValueError as error:
            self.fail(EncoderFailedError(f"The encoder returned vectors of different lengths ({error})."))
            return
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(vectors)

    def fail(self, error: ServiceError) -> None:
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class EncoderProcess:
    """An encoder function in its own process, with a thread that sends batches of inputs to it.

    Parameters
    ----------
    address : str
        The function, as ``package.module:function``. It gets a list of texts or a list of images (the bytes of
        image files), and returns one vector for each of them.
    timeout : float
        Maximum time in seconds of one call.
    max_batch : int
        Maximum number of inputs of one call. Inputs of several requests share a call.
    max_queue : int
        Maximum number of inputs that wait.
    """

    def __init__(self, address: str, timeout: float, max_batch: int, max_queue: int) -> None:
        module, _, function = address.partition(":")
        if not all(part.isidentifier() for part in [*module.split("."), *function.split(".")]):
            raise InvalidInputError(
                f"The encoder must have the form 'package.module:function'. Got {address!r} instead."
            )
        self.address = address
        self._timeout, self._max_batch, self._max_queue = timeout, max_batch, max_queue
        self._queue: deque[_Request] = deque()
        self._changed, self._closed, self._n_waiting = Condition(), False, 0
        self._process: Any = None
        self._connection: Connection | None = None
        self._thread = Thread(target=self._run, name="oahu-encoder", daemon=True)

    def start(self) -> None:
        """Load the function. Raise `InvalidInputError` if it cannot be loaded."""
        try:
            self._start_process()
        except ServiceError as error:
            raise InvalidInputError(str(error)) from error
        self._thread.start()

    def close(self) -> None:
        """Stop the process. Waiting requests fail."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if (process := self._process) is not None:
            process.kill()  # the thread then stops waiting for an answer
        if self._thread.ident is not None:
            self._thread.join()
        self._stop_process()

    def submit(self, kind: InputKind, inputs: Sequence[EncoderInput]) -> Future[NDArray[np.float32]]:
        """Return a future of the vectors, an array of shape (n_inputs, dimension)."""
        request = _Request(kind, inputs)
        with self._changed:
            if self._closed:
                raise OverloadedError("The service is shutting down.", retry_after=1)
            if self._n_waiting and self._n_waiting + len(inputs) > self._max_queue:
                raise OverloadedError(
                    f"{self._n_waiting:,} texts and images wait for the encoder (limit {self._max_queue:,}, "
                    "OAHU_MAX_ENCODER_QUEUE). Send the request again later.",
                    retry_after=2,
                )
            self._n_waiting += len(inputs)
            self._queue.append(request)
            self._changed.notify()
        return request.future

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            try:
                self._encode(batch)
            except Exception as error:  # for example, no memory for a new process
                log.exception("the encoder %s failed", self.address)
                self._stop_process()
                for request, _ in batch:
                    request.fail(EncoderFailedError(f"The encoder {self.address} failed: {_describe(error)}"))
            self._put_back([request for request, _ in batch])
        for request in self._queue:
            request.fail(OverloadedError("The service is shutting down.", retry_after=1))

    def _next_batch(self) -> list[tuple[_Request, int]] | None:
        """Wait for requests. Return the requests of the next call and their numbers of inputs in this call.

        The first request can be larger than a call. It then returns to the end of the queue, so that a large
        request delays each other request by one call.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            if self._closed:
                return None
            kind, room = self._queue[0].kind, self._max_batch
            batch: list[tuple[_Request, int]] = []
            while self._queue and room and self._queue[0].kind == kind:
                request = self._queue.popleft()
                batch.append((request, min(room, request.n_left)))
                room -= batch[-1][1]
            return batch

    def _put_back(self, requests: list[_Request]) -> None:
        """Return unfinished requests to the end of the queue."""
        with self._changed:
            for request in requests:
                if request.future.done() or request.future.cancelled():
                    self._n_waiting -= len(request.inputs)
                elif request.n_left:
                    self._queue.append(request)
                else:
                    self._n_waiting -= len(request.inputs)
                    request.finish()

    def _encode(self, batch: list[tuple[_Request, int]]) -> None:
        """Encode the inputs of a batch. After an error of the function, each request is encoded separately."""
        inputs = [one for request, count in batch for one in request.next_inputs(count)]
        try:
            vectors = self._call(inputs)
        except EncoderTimeoutError as error:
            for request, _ in batch:
                request.fail(error)
        except ServiceError as error:
            if len(batch) == 1:
                batch[0][0].fail(error)
                return
            for one in batch:
                self._encode([one])
        else:
            end = 0
            for request, count in batch:
                request.add(vectors[end : end + count])
                end += count

    def _call(self, inputs: list[EncoderInput]) -> NDArray[np.float32]:
        """Return the vectors of the inputs. Raise a `ServiceError` if the function fails."""
        if self._closed:
            raise OverloadedError("The service is shutting down.", retry_after=1)
        if self._connection is None:
            self._start_process()
        connection = self._connection
        try:
            if connection is None:
                raise EOFError
            connection.send(inputs)
            if not connection.poll(self._timeout):
                self._stop_process()
                raise EncoderTimeoutError(
                    f"The encoder {self.address} took longer than {self._timeout:g} s for {len(inputs)} inputs "
                    "(OAHU_ENCODER_TIMEOUT). Send the request again, or send vectors.",
                    retry_after=1,
                )
            status, answer = connection.recv()
        except (EOFError, OSError) as error:
            self._stop_process()
            raise EncoderFailedError(
                f"The process of the encoder {self.address} ended. It starts again with the next request.",
                retry_after=1,
            ) from error
        if status == "invalid":
            raise InvalidRequestError(f"The encoder {self.address} rejected the input: {answer}")
        if status == "failed":
            log.error("the encoder %s failed: %s", self.address, answer)
            raise EncoderFailedError(f"The encoder {self.address} failed: {answer}")
        vectors: NDArray[np.float32] = answer
        return vectors

    # -- the process ---------------------------------------------------------------------------------------

    def _start_process(self) -> None:
        context = multiprocessing.get_context("spawn")  # a forked process would share the threads' locks
        connection, other = context.Pipe()
        process = context.Process(target=_serve, args=(self.address, other), name="oahu-encoder", daemon=True)
        process.start()
        other.close()
        self._process, self._connection = process, connection
        if self._closed:
            process.kill()
        try:
            loaded = connection.poll(_LOAD_TIMEOUT)
            status, message = connection.recv() if loaded else ("failed", f"no answer in {_LOAD_TIMEOUT:g} s")
        except (EOFError, OSError):
            status, message = "failed", "its process ended"
        if status != "ready":
            self._stop_process()
            raise EncoderFailedError(f"The encoder {self.address} cannot be loaded: {message}")

    def _stop_process(self) -> None:
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None:
            process.kill()
            process.join()
        if connection is not None:
            connection.close()


# -- inside the process ------------------------------------------------------------------------------------


def _serve(address: str, connection: Connection) -> None:
    """Load the function and answer calls until the service ends."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl+C in a terminal reaches all processes; the service ends this
    if (folder := os.getcwd()) not in sys.path:  # noqa: PTH109 - an entry of sys.path is a text
        sys.path.insert(0, folder)
    try:
        function = _load(address)
    except Exception as error:
        connection.send(("failed", _describe(error)))
        return
    connection.send(("ready", ""))
    while True:
        try:
            inputs = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(_answer(function, inputs))


def _load(address: str) -> Callable[[Any], Any]:
    module, _, names = address.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"{address} is not a function")
    function: Callable[[Any], Any] = found
    return function


def _answer(function: Callable[[Any], Any], inputs: list[EncoderInput]) -> tuple[str, Any]:
    """Call the function. Return a status, and the vectors or an error message."""
    try:
        result = function(inputs)
    except ValueError as error:
        return "invalid", _describe(error)
    except Exception as error:
        return "failed", _describe(error)
    try:
        vectors = np.ascontiguousarray(result, np.float32)
    except (ValueError, TypeError) as error:
        return "failed", f"it must return one vector for each input ({_describe(error)})"
    if vectors.ndim != 2 or len(vectors) != len(inputs):
        return "failed", f"it must return {len(inputs)} vectors. Got an array of shape {vectors.shape} instead."
    if not np.isfinite(vectors).all():
        return "failed", "it returned a vector with NaN or infinity"
    return "encoded", vectors


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MAX_MESSAGE]
