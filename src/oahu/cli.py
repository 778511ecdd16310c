"""oahu from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oahu.exceptions import ModelFileError
from oahu.learners import OAHU, load
from oahu.metrics import EnsembleMetric
from oahu.version import __version__

__all__ = ["app"]

app = typer.Typer(
    help="Similarity metrics that change with every piece of feedback.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_console = Console()
_errors = Console(stderr=True)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        _console.print(__version__, highlight=False)
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the model and the plot go.")] = Path("demo-output"),
    triplets: Annotated[int, typer.Option(min=100, help="How many triplets to stream.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, the stream and the network.")] = 0,
) -> None:
    """Stream real digits through OAHU and watch it learn."""
    from oahu.demo import run

    try:
        run(_console, out, triplets, seed)
    except ImportError as error:
        _fail(error)


@app.command()
def info(model: Annotated[Path, typer.Argument(help="A file written by save().")]) -> None:
    """Describe a model file."""
    try:
        loaded = load(model)
    except (ModelFileError, OSError) as error:
        _fail(error)
    _console.print(_described(loaded))


def _fail(error: Exception) -> NoReturn:
    _errors.print(Text.assemble(("error: ", "red"), str(error)))
    raise typer.Exit(1) from error


def _described(loaded: OAHU | EnsembleMetric) -> Table:
    metric = loaded.metric() if isinstance(loaded, OAHU) else loaded
    table = Table(show_header=False, box=None)
    table.add_row("class", type(loaded).__name__)
    table.add_row("features", f"{metric.n_features:,}")
    table.add_row("constraints learned", f"{metric.version:,}")
    for expert in metric.spaces:
        table.add_row(f"weight of {expert.name}", f"{expert.weight:.4f}")
    if isinstance(loaded, OAHU):
        table.add_row("utilization", f"{loaded.utilization_:.4f}")
        for name, value in loaded.get_params().items():
            table.add_row(name, Text(str(value)))
    return table
