"""`oahu train`: learn from a stream of constraints and save the learner with its position in the stream."""

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
from typing import TYPE_CHECKING, Annotated, Any

import typer

import oahu
from oahu.cli.inputs import check_folder
from oahu.cli.options import FORMATS
from oahu.cli.output import article, error_console, progress_bar

if TYPE_CHECKING:
    from oahu.io.streams import StreamLine
    from oahu.learners.base import Learner
    from oahu.training import StreamPosition, Trainer

__all__ = ["DEFAULT_LEARNER", "TrainOptions", "check_parameter_names", "parse_parameter", "train"]

DEFAULT_LEARNER = "AnchoredOAHU"


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of `oahu train`."""

    constraints: Annotated[
        str,
        typer.Option(
            help="Triplets, pairs or clicks as JSON Lines or CSV. Use - for standard input.", metavar="FILE"
        ),
    ]
    model: Annotated[
        Path, typer.Option(help="Model file to write. If the file exists, the training of its model continues.")
    ]
    features: Annotated[
        Path | None,
        typer.Option(help=f"Feature table of the items ({FORMATS}). Needed if the constraints contain ids."),
    ] = None
    learner: Annotated[str | None, typer.Option(help="Learner for a new model.", show_default=DEFAULT_LEARNER)] = (
        None
    )
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter of the learner. Can be repeated."),
    ] = None
    new_lines: Annotated[
        bool,
        typer.Option(
            "--new-lines",
            help="Treat all lines as new and learn them, even if the model has learned them before.",
        ),
    ] = False
    save_every: Annotated[float, typer.Option(min=0, help="Time between two saves of the model, in seconds.")] = 10

    @property
    def live(self) -> bool:
        """Whether the lines arrive over time, from standard input or from a pipe, instead of a regular file."""
        return self.constraints == "-" or not Path(self.constraints).is_file()

    @property
    def source(self) -> str:
        """Name of the stream, for messages."""
        return "standard input" if self.constraints == "-" else self.constraints


def train(options: TrainOptions) -> None:
    """Train a learner on a stream of constraints.

    Run the same command again to continue after an interruption, or to learn lines that were added to the file.
    Lines that the model has learned are skipped. The final model is identical to the model of one uninterrupted
    run.
    """
    from oahu.training import Trainer, file_batches, live_batches

    check_folder(options.model)
    learner, position = _open_learner(options)
    learner.check_parameters()
    features = None if options.features is None else oahu.read_features(options.features)
    trainer = Trainer(learner, options.model, options.source, features, position, options.save_every)
    reader = _Reader(options)
    lines: Iterator[StreamLine] = iter(reader)
    if not options.new_lines:
        lines = _skip_learned(trainer, lines)
    with _catch_interrupts() as interrupted, _show_progress(trainer, reader) as show:
        try:
            for batch in live_batches(lines, interrupted) if options.live else file_batches(lines):
                trainer.learn(batch)
                show()
                if interrupted():
                    break
        finally:
            trainer.save()
    summary = _summary(trainer, options, interrupted())
    error_console.print(summary, highlight=False, soft_wrap=True, markup=False)
    if interrupted():
        raise typer.Exit(130)


def _skip_learned(trainer: Trainer, lines: Iterator[StreamLine]) -> Iterator[StreamLine]:
    """Yield the lines that the model has not learned. Raise an error if the learned lines have changed."""
    from oahu.training import StreamMismatchError

    try:
        yield from trainer.skip_learned(lines)
    except StreamMismatchError as error:
        raise oahu.InvalidInputError(f"{error} If all lines are new, use --new-lines.") from error


class _Reader:
    """Iterator over the lines of the stream that counts the bytes read so far."""

    def __init__(self, options: TrainOptions) -> None:
        self.n_bytes = 0
        self.size = None if options.live else Path(options.constraints).stat().st_size
        self._lines = oahu.read_stream(_standard_input() if options.constraints == "-" else options.constraints)

    def __iter__(self) -> Iterator[StreamLine]:
        for line in self._lines:
            self.n_bytes += len(line.text) + 1
            yield line


class _StandardInput(io.BufferedReader):
    name = "standard input"


def _standard_input() -> Any:
    """Open standard input with a separate buffer.

    At exit, Python closes the buffer of ``sys.stdin``. This would block while a thread reads from that buffer.
    """
    try:
        return _StandardInput(io.FileIO(os.dup(sys.stdin.fileno())))
    except (OSError, AttributeError):  # standard input is not a file
        return "-"


def _open_learner(options: TrainOptions) -> tuple[Learner[Any], StreamPosition]:
    """Return the learner and its position in the stream. The learner is new if there is no model file."""
    from oahu.learners.base import Learner
    from oahu.training import StreamPosition

    parameters = dict(map(parse_parameter, options.parameters or ()))
    if not options.model.exists():
        return _new_learner(options.learner or DEFAULT_LEARNER, parameters), StreamPosition()
    learner = oahu.load(options.model)
    if not isinstance(learner, Learner):
        raise oahu.InvalidInputError(
            f"{options.model} contains {article(type(learner).__name__)}, which is not a learner."
        )
    if options.learner not in (None, type(learner).__name__):
        raise oahu.InvalidInputError(
            f"{options.model} contains {article(type(learner).__name__)}, not {article(str(options.learner))}. Use "
            "another --model file for a new model."
        )
    check_parameter_names(learner, parameters)
    for name, value in parameters.items():
        saved = learner.get_params()[name]
        if saved != value:
            raise oahu.InvalidInputError(
                f"{options.model} was trained with {name}={saved!r}. Got {name}={value!r} instead."
            )
    position = StreamPosition.of(options.model)
    if position is None and not options.new_lines:
        raise oahu.InvalidInputError(
            f"{options.model} does not contain its position in the stream. Use --new-lines to learn all lines of "
            f"{options.source}."
        )
    return learner, StreamPosition() if options.new_lines or position is None else position


def _new_learner(name: str, parameters: dict[str, Any]) -> Learner[Any]:
    if name not in oahu.LEARNERS:
        raise oahu.InvalidInputError(f"Unknown learner {name!r}. Choose one of {', '.join(oahu.LEARNERS)}.")
    learner: Learner[Any] = getattr(oahu, name)(random_state=0)
    check_parameter_names(learner, parameters)
    learner.set_params(**parameters)
    return learner


def parse_parameter(text: str) -> tuple[str, Any]:
    """Return the name and the value in ``name=value``. A value that is not valid JSON is a string.

    >>> parse_parameter("tau=0.2"), parse_parameter("dtype=float64")
    (('tau', 0.2), ('dtype', 'float64'))
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise oahu.InvalidInputError(f"--set must have the form NAME=VALUE. Got {text!r} instead.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def check_parameter_names(learner: Learner[Any], parameters: dict[str, Any]) -> None:
    """Raise an error for parameters that the learner does not have."""
    valid = [name for name in learner.get_params() if name not in learner.table_parameters]
    for name in parameters:
        if name not in valid:
            raise oahu.InvalidInputError(
                f"{type(learner).__name__} has no parameter {name!r}. Its parameters are {', '.join(valid)}."
            )


@contextmanager
def _catch_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether the process has received SIGINT or SIGTERM.

    The first signal does not stop the process, so that the caller can finish the current batch. A second signal
    has its default effect.
    """
    received: list[int] = []

    def receive(number: int, _: Any) -> None:
        received.append(number)
        signal.signal(number, previous[signal.Signals(number)])

    previous = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _show_progress(trainer: Trainer, reader: _Reader) -> Iterator[Callable[[], None]]:
    """Show a progress bar. Yield the function that updates the bar."""
    with progress_bar(error_console) as bar:
        task = bar.add_task("reading", total=reader.size)
        first_line, start = trainer.position.lines, time.monotonic()

        def show() -> None:
            n_lines = trainer.position.lines
            rate = (n_lines - first_line) / max(time.monotonic() - start, 1e-9)
            used = f", {trainer.learner.utilization_:.0%} used" if trainer.learner.__sklearn_is_fitted__() else ""
            text = f"{n_lines:,} lines, {rate:,.0f} per second{used}"
            bar.update(task, description=text, completed=reader.n_bytes)

        yield show


def _summary(trainer: Trainer, options: TrainOptions, interrupted: bool) -> str:
    n_lines = trainer.position.lines
    if not n_lines:
        return f"{options.source} has no lines. Nothing was learned."
    use = trainer.describe_use()
    text = f"{n_lines:,} lines learned. Model: {options.model}.{use and ' ' + use}"
    same = "the same command without --new-lines" if options.new_lines else "the same command"
    return f"Interrupted. {text} Run {same} to continue." if interrupted else text
