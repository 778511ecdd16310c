"""`oahu train`: a stream from a file or a pipe, a learner in a file, a progress bar between them."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from oahu import learners
from oahu.exceptions import InvalidInputError
from oahu.io.features import read_features
from oahu.io.streams import StreamLine, read_stream
from oahu.learners.base import Learner
from oahu.training import StreamPosition, Trainer, file_batches, live_batches

__all__ = ["Order", "parameter", "run"]


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line."""

    constraints: str
    model: Path
    features: Path | None = None
    learner: str | None = None
    parameters: tuple[str, ...] = ()
    new_lines: bool = False
    save_every: float = 10.0

    @property
    def live(self) -> bool:
        """Whether lines come as they happen: from a pipe, not from a file."""
        return self.constraints == "-" or not Path(self.constraints).is_file()

    @property
    def source(self) -> str:
        return "standard input" if self.constraints == "-" else self.constraints


def run(console: Console, order: Order) -> bool:
    """Learn until the stream ends; False if an interrupt ended it before. What was learned is saved either way."""
    if not order.model.resolve().parent.is_dir():
        raise InvalidInputError(f"There is no folder {order.model.resolve().parent} for the model.")
    learner, position = _begin(order)
    learner._check_parameters()
    features = None if order.features is None else read_features(order.features)
    trainer = Trainer(learner, order.model, order.source, features, position, order.save_every)
    reading = _Reading(order)
    lines: Iterator[StreamLine] = iter(reading)
    if not order.new_lines:
        lines = position.behind(lines, order.source)
    with _until_interrupted() as interrupted, _progress(console, trainer, reading) as show:
        try:
            for batch in live_batches(lines, interrupted) if order.live else file_batches(lines):
                trainer.learn(batch)
                show()
                if interrupted():
                    break
        finally:
            trainer.save()
    console.print(_summary(trainer, order, bool(interrupted())), highlight=False, soft_wrap=True, markup=False)
    return not interrupted()


class _Reading:
    """The stream's lines, and how many bytes of them were read."""

    def __init__(self, order: Order) -> None:
        self.n_bytes = 0
        self.size = None if order.live else Path(order.constraints).stat().st_size
        self._lines = read_stream(_standard_input() if order.constraints == "-" else order.constraints)

    def __iter__(self) -> Iterator[StreamLine]:
        for line in self._lines:
            self.n_bytes += len(line.text) + 1
            yield line


class _StandardInput(io.BufferedReader):
    name = "standard input"


def _standard_input() -> Any:
    """Standard input with a buffer of its own: Python closes its one at the end, and threads may wait for it."""
    try:
        return _StandardInput(io.FileIO(os.dup(sys.stdin.fileno())))
    except (OSError, AttributeError):  # it is no file
        return "-"


def _begin(order: Order) -> tuple[Learner[Any], StreamPosition]:
    """A new learner, or the one in the file and how far it got."""
    given = dict(map(parameter, order.parameters))
    if not order.model.exists():
        name = order.learner or "OAHU"
        if name not in learners.LEARNERS:
            raise InvalidInputError(f"There is no learner {name!r}. There are {', '.join(learners.LEARNERS)}.")
        learner: Learner[Any] = getattr(learners, name)(random_state=0)
        _check_names(learner, given)
        return learner.set_params(**given), StreamPosition()
    learner = learners.load(order.model)
    if not isinstance(learner, Learner):
        raise InvalidInputError(f"{order.model} holds a {type(learner).__name__}, which is not a learner.")
    if order.learner not in (None, type(learner).__name__):
        raise InvalidInputError(
            f"{order.model} holds a learner of the kind {type(learner).__name__}, not {order.learner}. Take "
            "another file for a new one."
        )
    _check_names(learner, given)
    for name, value in given.items():
        held = learner.get_params()[name]
        if held != value:
            raise InvalidInputError(f"{order.model} has learned with {name}={held!r}, not {name}={value!r}.")
    position = StreamPosition.of(order.model)
    if position is None and not order.new_lines:
        raise InvalidInputError(
            f"{order.model} does not say which lines it has learned. If all lines of {order.source} are new to it, "
            "say so (--new-lines)."
        )
    return learner, StreamPosition() if order.new_lines or position is None else position


def parameter(text: str) -> tuple[str, Any]:
    """``name=value``, the value as JSON if it is any, or else as it stands."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInputError(f"A parameter is set by NAME=VALUE. Got {text!r} instead.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _check_names(learner: Learner[Any], given: dict[str, Any]) -> None:
    known = [name for name in learner.get_params() if name != "preprocessor"]
    for name in given:
        if name not in known:
            raise InvalidInputError(
                f"{type(learner).__name__} has no parameter {name!r}. It has {', '.join(known)}."
            )


@contextmanager
def _until_interrupted() -> Iterator[Any]:
    """Whether SIGINT or SIGTERM came. They wait for the batch at hand; a second one does not."""
    came: list[int] = []

    def note(number: int, _: Any) -> None:
        came.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(console: Console, trainer: Trainer, reading: _Reading) -> Iterator[Callable[[], None]]:
    """A bar that says how far learning is; what it gives back is called when there is something new."""
    columns = (
        BarColumn(bar_width=30),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("reading", total=reading.size)
        start, began = trainer.position.lines, time.monotonic()

        def show() -> None:
            learned = trainer.position.lines
            rate = (learned - start) / max(time.monotonic() - began, 1e-9)
            used = f", {trainer.learner.utilization_:.0%} used" if learned else ""
            text = f"{learned:,} lines, {rate:,.0f} a second{used}"
            progress.update(task, description=text, completed=reading.n_bytes)

        yield show


def _summary(trainer: Trainer, order: Order, interrupted: bool) -> str:
    lines = trainer.position.lines
    if not lines:
        return f"{order.source} has no lines: nothing was learned."
    text = f"{lines:,} lines learned; the model is {order.model}."
    same = "The same command without --new-lines" if order.new_lines else "The same command"
    return f"Stopped. {text} {same} goes on from there." if interrupted else text
