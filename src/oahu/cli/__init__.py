"""oahu from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oahu.exceptions import ModelFileError, OAHUError
from oahu.learners import load
from oahu.learners.base import Learner
from oahu.metrics import EnsembleMetric, Metric
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
def train(
    constraints: Annotated[str, typer.Option(help="Triplets or pairs, as JSON Lines or CSV; - is standard input.")],
    model: Annotated[Path, typer.Option(help="The file to keep the learner in. If it is there, learning goes on.")],
    features: Annotated[
        Path | None, typer.Option(help="The items' features (.npy, .npz, .csv), for constraints by id.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help="Which learner, when the model is new.  [default: OAHU]")
    ] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the learner.")
    ] = None,
    new_lines: Annotated[
        bool, typer.Option("--new-lines", help="All lines are new to the model: skip none.")
    ] = False,
    save_every: Annotated[float, typer.Option(min=0, help="Seconds after which the model is written again.")] = 10,
) -> None:
    """Learn from a stream of constraints, and go on where it stopped."""
    from oahu.cli.train import Order, run

    order = Order(constraints, model, features, learner, tuple(parameters or ()), new_lines, save_every)
    try:
        finished = run(_errors, order)
    except (OAHUError, OSError) as error:
        _fail(error)
    if not finished:
        raise typer.Exit(130)


@app.command()
def info(model: Annotated[Path, typer.Argument(help="A file written by save().")]) -> None:
    """Describe a model file."""
    try:
        loaded = load(model)
    except (ModelFileError, OSError) as error:
        _fail(error)
    _console.print(_described(loaded))


def _fail(error: Exception) -> NoReturn:
    _errors.print(Text.assemble(("error: ", "red"), str(error)), soft_wrap=True)
    raise typer.Exit(1) from error


def _described(loaded: Learner[Any] | Metric) -> Table:
    metric: Metric = loaded.metric() if isinstance(loaded, Learner) else loaded
    table = Table(show_header=False, box=None)
    table.add_row("class", type(loaded).__name__)
    table.add_row("features", f"{metric.n_features:,}")
    table.add_row("constraints learned", f"{metric.version:,}")
    if isinstance(metric, EnsembleMetric):
        for expert in metric.spaces:
            table.add_row(f"weight of {expert.name}", f"{expert.weight:.4f}")
    if isinstance(loaded, Learner):
        for name in ("utilization", "utilization_similar", "utilization_dissimilar"):
            if hasattr(loaded, f"{name}_"):
                table.add_row(name.replace("_", " "), f"{getattr(loaded, f'{name}_'):.4f}")
        for name, value in loaded.get_params().items():
            table.add_row(name, Text(str(value)))
    return table
