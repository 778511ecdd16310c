"""How commands answer: tables for people, JSON for programs."""

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

__all__ = ["NOTHING", "Advance", "cell", "number", "print_facts", "print_json", "print_rest"]
__all__ += ["progress", "table"]

NOTHING = "-"


def print_json(value: Any) -> None:
    """One JSON value to standard output, indented for a terminal. What is no finite number is null."""
    typer.echo(json.dumps(_plain(value), allow_nan=False, indent=2 if sys.stdout.isatty() else None))


def _plain(value: Any) -> Any:
    """The value in types that JSON has."""
    if isinstance(value, float | np.floating):
        return float(value) if isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(vars(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return str(value) if isinstance(value, Path) else value


def table(*titles: str) -> Table:
    """An empty table. A column whose title begins with > is one of numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for title in titles:
        right = title.startswith(">")
        justify: Any = "right" if right else "left"
        made.add_column(title.removeprefix(">"), justify=justify, no_wrap=right, overflow="fold")
    return made


def cell(value: Any, style: str = "") -> Text:
    """A value as it is: nothing in it is markup."""
    return Text(NOTHING if value is None else str(value), style=style)


def number(value: float | None, digits: int = 3) -> str:
    """A number for people."""
    return NOTHING if value is None or not isfinite(value) else f"{value:.{digits}f}"


def print_facts(console: Console, facts: Mapping[str, str | None], below: bool = True) -> None:
    """What there is to say, below a table or alone, each on its line; None leaves a fact out."""
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


def print_rest(console: Console, n_shown: int, n: int, what: str) -> None:
    """That there are more than are shown, if there are."""
    if n_shown < n:
        console.print(f"{n_shown} of {n:,} {what} are shown; --limit 0 shows all.", style="dim", highlight=False)


class Advance(Protocol):
    """How a long computation says how far it is."""

    def __call__(self, n: int, doing: str | None = None) -> None: ...


@contextmanager
def progress(console: Console, total: int, doing: str) -> Iterator[Advance]:
    """A bar, if somebody is there to see it."""
    columns = (
        BarColumn(bar_width=30),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as shown:
        task = shown.add_task(doing, total=total)

        def advance(n: int, doing: str | None = None) -> None:
            shown.update(task, advance=n, description=doing)

        yield advance
