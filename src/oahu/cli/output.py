"""Output of commands: tables, progress bars and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

__all__ = [
    "NOTHING",
    "Advance",
    "article",
    "cell",
    "console",
    "error_console",
    "number",
    "print_facts",
    "print_hidden_count",
    "print_json",
    "progress",
    "progress_bar",
    "table",
]

NOTHING = "-"

console = Console()
error_console = Console(stderr=True)


def article(name: str) -> str:
    """Return a name with its indefinite article.

    >>> article("AnchoredOAHU"), article("OAHU"), article("Retriever")
    ('an AnchoredOAHU', 'an OAHU', 'a Retriever')
    """
    spoken_vowels = "AEIOaeio"
    return f"{'an' if name[:1] in spoken_vowels else 'a'} {name}"


def print_json(value: Any) -> None:
    """Print a value as JSON, indented if the output is a terminal. NaN and infinity become null."""
    typer.echo(json.dumps(_jsonable(value), allow_nan=False, indent=2 if sys.stdout.isatty() else None))


def _jsonable(value: Any) -> Any:
    """Convert a value to JSON types."""
    if isinstance(value, float | np.floating):
        return float(value) if isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return _jsonable(vars(value))
    if isinstance(value, Mapping):
        return {str(name): _jsonable(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return _jsonable(value.tolist())
    return str(value) if isinstance(value, Path) else value


def table(*titles: str) -> Table:
    """Return an empty table with these column titles. If a title begins with >, its column is right-aligned."""
    empty = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for title in titles:
        right = title.startswith(">")
        justify: Any = "right" if right else "left"
        empty.add_column(title.removeprefix(">"), justify=justify, no_wrap=right, overflow="fold")
    return empty


def cell(value: Any, style: str = "") -> Text:
    """Return a table cell with the value as plain text, without Rich markup."""
    return Text(NOTHING if value is None else str(value), style=style)


def number(value: float | None, digits: int = 3) -> str:
    """Return a number as text with a fixed number of decimals, or a dash for None."""
    return NOTHING if value is None or not isfinite(value) else f"{value:.{digits}f}"


def print_facts(console: Console, facts: Mapping[str, str | None], below: bool = True) -> None:
    """Print one line for each name and its value. Skip values that are None.

    If ``below`` is true, print an empty line first, to separate the lines from a table above.
    """
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, fact in facts.items():
        if fact is not None:
            grid.add_row(Text(name), Text(fact))
    if grid.row_count:
        if below:
            console.print()
        console.print(grid)


def print_hidden_count(console: Console, n_shown: int, n: int, noun: str) -> None:
    """If some rows of a table are not shown, print the number of shown rows and the number of all rows."""
    if n_shown < n:
        console.print(f"{n_shown} of {n:,} {noun} are shown. --limit 0 shows all.", style="dim", highlight=False)


class Advance(Protocol):
    """Function that advances a progress bar by ``n`` steps. The function can also change the text of the bar."""

    def __call__(self, n: int, description: str | None = None) -> None: ...


def progress_bar(console: Console) -> Progress:
    """Return a progress bar. The bar is visible only on a terminal, and disappears at the end."""
    columns = (
        BarColumn(bar_width=30),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


@contextmanager
def progress(console: Console, total: int, description: str) -> Iterator[Advance]:
    """Show a progress bar of ``total`` steps. Yield the function that advances the bar."""
    with progress_bar(console) as bar:
        task = bar.add_task(description, total=total)

        def advance(n: int, description: str | None = None) -> None:
            bar.update(task, advance=n, description=description)

        yield advance
