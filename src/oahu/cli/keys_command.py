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

    token = KeyFile(options.data).add(options.name, options.role.value)
    error_console.print(f"New key with role {options.role.value}. Copy the key now: it cannot be shown again.")
    console.print(token, highlight=False, soft_wrap=True)


def list_keys(options: ListKeysOptions) -> None:
    """List the keys without their secrets."""
    from oahu.service.keys import KeyFile

    table = Table("id", "name", "role", "created", box=None)
    for key in KeyFile(options.data).all():
        created = time.strftime("%Y-%m-%d %H:%M", time.localtime(key.created))
        table.add_row(key.id, Text(key.name), key.role, created)
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
