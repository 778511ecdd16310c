"""`oahu export-collection`, `oahu import-collection` and `oahu import-items`: collections as files."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import oahu
from oahu.cli.options import DataFolder
from oahu.cli.output import error_console

__all__ = ["export_collection", "import_collection", "import_items"]


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of `oahu export-collection`."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.", show_default=False)]
    out: Annotated[Path, typer.Option(help="Folder to create. It must not exist yet.")]
    data: DataFolder = Path("oahu-data")


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of `oahu import-collection`."""

    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of an exported collection.", show_default=False)
    ]
    name: Annotated[
        str | None, typer.Option(help="Name of the new collection.", show_default="the exported name")
    ] = None
    data: DataFolder = Path("oahu-data")


@dataclass(frozen=True, kw_only=True)
class ImportItemsOptions:
    """Options of `oahu import-items`."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV or Parquet file.", show_default=False)]
    collection: Annotated[str, typer.Option(help="Name of the collection.")]
    key: Annotated[str, typer.Option(help="Column of the keys.")]
    vector: Annotated[
        str | None, typer.Option(help="Column of vectors, or a pattern of number columns such as 'emb_*'.")
    ] = None
    text: Annotated[str | None, typer.Option(help="Column of texts for the encoder, instead of vectors.")] = None
    label: Annotated[str | None, typer.Option(help="Column of labels.")] = None
    payload: Annotated[
        str, typer.Option(help="Columns of the payload, separated by commas. Patterns are possible.")
    ] = ""
    create: Annotated[bool, typer.Option("--create", help="Create the collection if it does not exist.")] = False
    url: Annotated[str, typer.Option(help="Address of the service.")] = "http://127.0.0.1:8000"


def export_collection(options: ExportOptions) -> None:
    """Write a collection to a folder: items, feedback, thumbnails and settings. The service may be running."""
    from oahu.service.collection_folder import export_collection as export
    from oahu.service.store.sqlite import DATABASE

    if not (options.data / DATABASE).is_file():
        raise oahu.InvalidInputError(f"{options.data} contains no service data: {DATABASE} is missing.")
    try:
        n_items, n_entries = export(options.data, options.name, options.out)
    except sqlite3.Error as error:
        raise oahu.InvalidInputError(f"Cannot read the data in {options.data}: {error}.") from error
    _report(f"{options.out} contains {n_items:,} items and {n_entries:,} log entries of {options.name!r}.")


def import_collection(options: ImportOptions) -> None:
    """Create a collection from an exported folder. The service must not be running.

    The learner learns the feedback again. If the folder is damaged, nothing is stored.
    """
    from oahu.service.collection_folder import import_collection as import_

    name, n_items, n_entries = import_(options.folder, options.data, options.name)
    _report(f"Created the collection {name!r} with {n_items:,} items and {n_entries:,} log entries.")


def import_items(options: ImportItemsOptions) -> None:
    """Add the items of a CSV or Parquet file to a collection of a running service.

    The environment variable OAHU_KEY contains the API key, if the service needs one. The command can be repeated:
    an item replaces an existing item with the same key.
    """
    with oahu.Client(options.url, options.collection, os.environ.get("OAHU_KEY")) as client:
        n = client.put_file(
            options.file,
            key=options.key,
            vector=options.vector,
            text=options.text,
            label=options.label,
            payload=[name.strip() for name in options.payload.split(",") if name.strip()],
            create=options.create,
        )
    _report(f"Added {n:,} items to {options.collection!r}.")


def _report(message: str) -> None:
    error_console.print(Text(message), soft_wrap=True)
