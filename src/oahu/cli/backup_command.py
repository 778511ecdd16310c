"""`oahu backup`: copy the data of a service."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import oahu
from oahu.cli.inputs import check_folder
from oahu.cli.options import DataFolder
from oahu.cli.output import error_console
from oahu.io.atomic_files import replace_atomically

__all__ = ["BackupOptions", "backup"]


@dataclass(frozen=True, kw_only=True)
class BackupOptions:
    """Options of `oahu backup`."""

    out: Annotated[Path, typer.Option(help="Backup file to create. It must not exist yet.")]
    data: DataFolder = Path("oahu-data")


def backup(options: BackupOptions) -> None:
    """Copy the data of a service into one file. The service may be running.

    API keys are not copied. To restore a backup, copy the file to an empty folder, name it oahu.db, and run
    `oahu serve` with that folder as --data.
    """
    from oahu.service.store.sqlite import DATABASE

    source, out = options.data / DATABASE, options.out
    if not source.is_file():
        raise oahu.InvalidInputError(f"{options.data} contains no service data: {DATABASE} is missing.")
    if out.exists():
        raise oahu.InvalidInputError(f"{out} already exists. Choose another name.")
    check_folder(out)
    partial = out.with_name(f".{out.name}.tmp")
    try:
        _copy_database(source, partial)
        replace_atomically(partial, out)
    except sqlite3.Error as error:
        raise oahu.InvalidInputError(f"Cannot copy {source} to {out}: {error}.") from error
    finally:
        partial.unlink(missing_ok=True)
    error_console.print(
        Text(
            f"{out} contains all data except the API keys. To restore this backup, copy the file to an empty "
            f"folder, name it {DATABASE}, and run `oahu serve` with that folder as --data."
        ),
        soft_wrap=True,
    )


def _copy_database(source: Path, target: Path) -> None:
    """Copy a database into one file. The copy is consistent even if the service writes at the same time."""
    target.unlink(missing_ok=True)
    source_connection = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
    target_connection = sqlite3.connect(target)
    try:
        source_connection.backup(target_connection)
        target_connection.execute("PRAGMA journal_mode = DELETE")
    finally:
        target_connection.close()
        source_connection.close()
