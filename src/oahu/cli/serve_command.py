"""`oahu serve`: run the live service."""

from __future__ import annotations

import logging
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import oahu
from oahu.cli.options import DataFolder
from oahu.cli.output import error_console

if TYPE_CHECKING:
    from oahu.service.settings import Settings

__all__ = ["ServeOptions", "serve"]


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of `oahu serve`."""

    data: DataFolder = Path("oahu-data")
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Port to listen on. 0 selects a free port.", show_default="8000"),
    ] = None
    demo: Annotated[bool, typer.Option("--demo", help="Add collections of example images.")] = False
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Function that encodes texts or images as vectors. It gets a list and returns one vector each.",
        ),
    ] = None
    page: Annotated[
        bool | None,
        typer.Option(
            "--page/--no-page", help="Serve the web page in addition to the HTTP API.", show_default="page"
        ),
    ] = None


def serve(options: ServeOptions) -> None:
    """Run the live service: an HTTP search service that learns from feedback.

    All other settings are configured by environment variables that begin with OAHU_.
    """
    try:
        from oahu.service.api.logs import configure_logging
        from oahu.service.serve import serve as run
    except ImportError as error:
        raise ImportError(
            f"{error}. Install the packages of the service with: pip install 'oahu[service]'"
        ) from error
    settings = _settings(options)
    announce = _announcer()

    def started(address: str, app: Any) -> None:
        if options.demo:
            _add_examples(announce, app.state.service)
        url = f"{address}/" if settings.page else f"{address}/v1/openapi.json"
        announce(f"oahu listens at {url}, data folder: {settings.data}. Press Ctrl+C to stop.")

    configure_logging()
    try:
        run(settings, started)
    except sqlite3.Error as error:
        raise oahu.InvalidInputError(f"Cannot use the data in {settings.data}: {error}.") from error


def _announcer() -> Callable[[str], None]:
    """Return a function that prints a message to the terminal, or logs the message if there is no terminal."""
    if sys.stderr.isatty():
        return lambda text: error_console.print(text, markup=False, soft_wrap=True)
    return logging.getLogger("oahu.service").info


def _settings(options: ServeOptions) -> Settings:
    """Return the settings from the options and the environment variables. Options take precedence."""
    from pydantic import ValidationError

    from oahu.service.settings import Settings

    given = {
        "data": options.data,
        "host": options.host,
        "port": options.port,
        "page": options.page,
        "encoder": options.encoder,
    }
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        name = f"--{field}" if field in given else f"OAHU_{field.upper()}"
        raise oahu.InvalidInputError(f"{name} cannot be {first['input']!r}: {first['msg']}.") from error


def _add_examples(announce: Callable[[str], None], service: Any) -> None:
    """Add the example collections that do not exist yet."""
    from oahu.service.demo_data import create_image_collection

    existing = {collection.config.name for collection in service.collections}
    if "digits" not in existing:
        announce("Adding the collection 'digits' with 1,797 handwritten digits ...")
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        create_image_collection(
            service, "digits", images.reshape(-1, 8, 8) * (255 / 16), labels, [str(digit) for digit in range(10)]
        )
    if "fashion-mnist" not in existing:
        from oahu.evaluation.datasets import load

        try:
            data = load("fashion-mnist")
        except (oahu.DatasetError, OSError):
            return  # not downloaded
        announce("Adding the collection 'fashion-mnist' with 10,000 photographs of clothes ...")
        images = data.X[:10_000].reshape(-1, 28, 28)
        scale = 255 / max(1.0, float(images.max()))
        create_image_collection(service, "fashion-mnist", images * scale, data.y[:10_000], _CLOTHES)


_CLOTHES = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]
