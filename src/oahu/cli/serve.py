"""oahu serve, keys and backup."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from oahu.exceptions import DatasetError, InvalidInputError

__all__ = ["Order", "add_key", "back_up", "list_keys", "remove_key", "run"]


@dataclass(frozen=True)
class Order:
    """What to serve."""

    given: dict[str, Any]  # settings that were given, by name
    demo: bool


def run(errors: Console, order: Order) -> None:
    """Serve until a signal comes."""
    try:
        from oahu.service.api.logs import configure_logging
        from oahu.service.serve import serve
    except ImportError as error:
        raise ImportError(f"{error}. The service needs more: pip install 'oahu[service]'") from error
    settings = _settings(order.given)
    tell = _teller(errors)

    def started(address: str, app: Any) -> None:
        if order.demo:
            _fill(tell, app.state.service)
        where = f"{address}/" if settings.page else f"{address}/v1/openapi.json"
        tell(f"oahu listens at {where}, its data is in {settings.data}. Stop it with Ctrl+C.")

    configure_logging()
    try:
        serve(settings, started)
    except sqlite3.Error as error:
        raise InvalidInputError(f"The store in {settings.data} cannot be used: {error}.") from error


def _teller(errors: Console) -> Callable[[str], None]:
    """Says what goes on: to people in words, to programs in their log."""
    if sys.stderr.isatty():
        return lambda text: errors.print(text, markup=False, soft_wrap=True)
    return logging.getLogger("oahu.service").info


def _settings(given: dict[str, Any]) -> Any:
    """What was given on the command line, before what the environment says."""
    from pydantic import ValidationError

    from oahu.service.settings import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        wrong = error.errors()[0]
        where = str(wrong["loc"][0])
        name = f"--{where}" if given.get(where) is not None else f"OAHU_{where.upper()}"
        raise InvalidInputError(f"{name} cannot be {wrong['input']!r}: {wrong['msg']}.") from error


def _fill(tell: Callable[[str], None], service: Any) -> None:
    """Put real images into the service, if they are not there."""
    from oahu.service.demo_data import create_image_collection

    there = {collection.config.name for collection in service.collections}
    if "digits" not in there:
        tell("Filling the collection 'digits' with 1,797 handwritten digits ...")
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        create_image_collection(
            service, "digits", images.reshape(-1, 8, 8) * (255 / 16), labels, [str(digit) for digit in range(10)]
        )
    if "fashion-mnist" not in there:
        from oahu.evaluation.datasets import load

        try:
            data = load("fashion-mnist")
        except (DatasetError, OSError):
            return  # it is not on this machine
        tell("Filling the collection 'fashion-mnist' with 10,000 photographs of clothes ...")
        images = data.X[:10_000].reshape(-1, 28, 28)
        scale = 255 / max(1.0, float(images.max()))
        create_image_collection(service, "fashion-mnist", images * scale, data.y[:10_000], _CLOTHES)


_CLOTHES = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]


# -- keys and backups ----------------------------------------------------------------------------------------


def add_key(console: Console, errors: Console, data: Path, name: str, role: str) -> None:
    """Make a key and show it, once."""
    from oahu.service.keys import KeyFile

    token = KeyFile(data).add(name, role)  # type: ignore[arg-type]
    errors.print(f"A key of role {role}. It is shown once and kept nowhere: only its hash is.")
    console.print(token, highlight=False, soft_wrap=True)


def list_keys(console: Console, data: Path) -> None:
    """Show which keys there are."""
    from oahu.service.keys import KeyFile

    table = Table("id", "name", "role", "created", box=None)
    for key in KeyFile(data).all():
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(key.created))
        table.add_row(key.id, Text(key.name), key.role, made)
    console.print(table if table.row_count else "There are no keys: everyone on this machine may do everything.")


def remove_key(errors: Console, data: Path, id_: str) -> None:
    """Let a key be none any more, also of a service that runs."""
    from oahu.service.keys import KeyFile

    key = KeyFile(data).revoke(id_)
    errors.print(Text(f"The key {key.id} ({key.name}) does not open anything any more."))


def back_up(errors: Console, data: Path, out: Path) -> None:
    """Copy the store as it is at one moment, also of a service that runs."""
    from oahu.service.store.sqlite import DATABASE

    source = data / DATABASE
    if not source.is_file():
        raise InvalidInputError(f"There is no store in {data}: {DATABASE} is missing.")
    if out.exists():
        raise InvalidInputError(f"{out} is there already: take another name.")
    if not out.absolute().parent.is_dir():
        raise InvalidInputError(f"There is no folder {out.absolute().parent} for it.")
    beside = out.with_name(f".{out.name}.tmp")
    try:
        _copy(source, beside)
        beside.replace(out)
    except sqlite3.Error as error:
        raise InvalidInputError(f"{source} cannot be copied to {out}: {error}.") from error
    finally:
        beside.unlink(missing_ok=True)
    errors.print(
        Text(
            f"{out} holds everything but the keys. To go back to it, put it into an empty folder as {DATABASE} and "
            "serve that."
        ),
        soft_wrap=True,
    )


def _copy(source: Path, target: Path) -> None:
    """A copy of a database, in one file and on disk when this returns."""
    target.unlink(missing_ok=True)
    read = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
    write = sqlite3.connect(target)
    try:
        read.backup(write)
        write.execute("PRAGMA journal_mode = DELETE")
    finally:
        write.close()
        read.close()
    with target.open("rb") as file:
        os.fsync(file.fileno())
