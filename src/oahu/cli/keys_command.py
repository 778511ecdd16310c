"""`oahu keys`: create, list and revoke the API keys of a service."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from oahu.cli.commands import add_command
from oahu.cli.options import DataFolder, Role
from oahu.cli.output import console, error_console

__all__ = ["app"]

app = typer.Typer(help="Manage the API keys of a service.", no_args_is_help=True)


@dataclass(frozen=True, kw_only=True)
class AddKeyOptions:
    """Options of `oahu keys add`."""

    role: Annotated[
        Role,
        typer.Option(
            help="Role of the key. read: only read. feedback: read and give feedback. admin: all permissions."
        ),
    ]
    name: Annotated[str, typer.Option(help="Name of the key's owner.")] = ""
    collections: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Collections that the key can use, separated by commas. They need not exist yet.",
            show_default="all",
        ),
    ] = None
    max_items: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of items in a collection to which the key adds items.", show_default="none"
        ),
    ] = None
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of requests per minute.", show_default="none")
    ] = None
    data: DataFolder = Path("oahu-data")


@dataclass(frozen=True, kw_only=True)
class ListKeysOptions:
    """Options of `oahu keys list`."""

    data: DataFolder = Path("oahu-data")


@dataclass(frozen=True, kw_only=True)
class RevokeKeyOptions:
    """Options of `oahu keys revoke`."""

    key: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the key, from `oahu keys list`.", show_default=False)
    ]
    data: DataFolder = Path("oahu-data")


def add_key(options: AddKeyOptions) -> None:
    """Create a key and print it. It cannot be printed again. A running service accepts the key within a second."""
    from oahu.service.keys import KeyFile

    given = options.collections
    token = KeyFile(options.data).add(
        options.name,
        options.role.value,
        collections=None if given is None else [name.strip() for name in given.split(",")],
        max_items=options.max_items,
        requests_per_minute=options.requests_per_minute,
    )
    error_console.print(f"New key with role {options.role.value}. Copy the key now: it cannot be shown again.")
    console.print(token, highlight=False, soft_wrap=True)


def list_keys(options: ListKeysOptions) -> None:
    """List the keys without their secrets."""
    from oahu.service.keys import KeyFile

    table = Table("id", "name", "role", "created", "collections", "limits", box=None)
    for key in KeyFile(options.data).all():
        created = time.strftime("%Y-%m-%d %H:%M", time.localtime(key.created))
        names = "all" if key.collections is None else ", ".join(key.collections)
        limits = [
            f"{value:,} {what}"
            for value, what in ((key.max_items, "items"), (key.requests_per_minute, "requests/min"))
            if value is not None
        ]
        table.add_row(key.id, Text(key.name), key.role, created, Text(names), ", ".join(limits))
    console.print(
        table
        if table.row_count
        else "There are no keys. All programs on this machine have full access to the service."
    )


def revoke_key(options: RevokeKeyOptions) -> None:
    """Revoke a key. A running service rejects the key within a second."""
    from oahu.service.keys import KeyFile

    key = KeyFile(options.data).revoke(options.key)
    error_console.print(Text(f"Revoked the key {key.id} ({key.name})."))


add_command(app, add_key, "add")
add_command(app, list_keys, "list")
add_command(app, revoke_key, "revoke")
