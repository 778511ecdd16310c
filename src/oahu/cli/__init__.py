"""Command line interface. Each command has its own module and imports the library only when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from oahu.cli import datasets_command, keys_command
from oahu.cli.backup_command import backup
from oahu.cli.bench_command import bench
from oahu.cli.classify_command import classify
from oahu.cli.commands import add_command
from oahu.cli.compare_command import compare
from oahu.cli.demo_command import demo
from oahu.cli.evaluate_command import evaluate
from oahu.cli.import_commands import export_collection, import_collection, import_items
from oahu.cli.info_command import info
from oahu.cli.search_command import search
from oahu.cli.serve_command import serve
from oahu.cli.train_command import train
from oahu.version import __version__

__all__ = ["app"]

app = typer.Typer(
    help="Learn similarity metrics from feedback, use them and serve them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


for _command in (demo, train, classify, compare, search, evaluate, info, bench):
    add_command(app, _command)
app.add_typer(datasets_command.app, name="datasets")
add_command(app, serve)
app.add_typer(keys_command.app, name="keys")
add_command(app, backup)
add_command(app, export_collection, "export-collection")
add_command(app, import_collection, "import-collection")
add_command(app, import_items, "import-items")
