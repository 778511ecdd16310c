"""`oahu datasets`: list and download data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from oahu.cli.commands import report_errors
from oahu.cli.options import JsonFlag
from oahu.cli.output import console, error_console

__all__ = ["app"]

app = typer.Typer(help="List data sets for `oahu bench`, and download them.", invoke_without_command=True)


@app.callback()
def datasets(context: typer.Context, as_json: JsonFlag = False) -> None:
    from oahu.cli.dataset_listing import print_datasets

    if context.invoked_subcommand is None:
        with report_errors():
            print_datasets(console, as_json)


@app.command("get")
def get_datasets(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Names of data sets from `oahu datasets`.", show_default=False),
    ],
) -> None:
    """Download data sets from their official sources. Interrupted downloads are resumed."""
    from oahu.cli.dataset_listing import download_datasets

    with report_errors():
        download_datasets(console, error_console, names)
