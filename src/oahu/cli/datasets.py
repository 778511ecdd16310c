"""`oahu datasets`: which data sets there are, which are here, and getting those that are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bars

from oahu.cli.output import NOTHING, cell, print_facts, print_json, table
from oahu.evaluation.datasets import DATASETS, Source, data_home, fetch, source
from oahu.evaluation.datasets.downloads import Progress

__all__ = ["get", "show"]

_TASKS = {"classification": "classify", "verification": "verify", "retrieval": "retrieve"}


def show(console: Console, as_json: bool) -> None:
    """List all data sets, and whether they are here."""
    home = data_home()
    if as_json:
        print_json({"home": home, "datasets": [_described(source(name), home) for name in DATASETS]})
        return
    listed = table("name", ">items x features", ">classes", "task", "licence", "here")
    for column in listed.columns:
        column.no_wrap = True
    for name in DATASETS:
        entry = source(name)
        here = _here(entry, home)
        listed.add_row(
            cell(name, "bold"),
            cell(_size(entry)),
            cell(_count(entry.n_classes)),
            cell(_TASKS[entry.task]),
            cell(entry.licence),
            cell(here, "green" if here == "yes" else ""),
        )
    console.print(listed)
    print_facts(console, _facts(home))


def get(console: Console, errors: Console, names: Sequence[str]) -> None:
    """Download data sets, one after the other, into the folder of data sets."""
    home = data_home()
    entries = [source(name) for name in dict.fromkeys(names)]  # a wrong name is told before anything is done
    for entry in entries:
        with _bars(errors) as progress:
            fetch(entry.name, home, progress)
        console.print(cell(_got(entry, home)), soft_wrap=True)


def _got(entry: Source, home: Path) -> str:
    if entry.forms == ((),):
        return f"{entry.name} comes with oahu: there is nothing to get."
    return f"{entry.name} is in {home}."


@contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    """A bar for each file, if somebody is there to see it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def progress(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield progress


def _here(entry: Source, home: Path) -> str:
    """yes, or what to do."""
    if not entry.forms:
        return "path"
    if entry.here(home):
        return "yes"
    return "put" if entry.to_put(home) else "get"


def _size(entry: Source) -> str:
    if entry.n_items is None:
        return NOTHING
    return f"{entry.n_items:,} x {'yours' if entry.n_features is None else _count(entry.n_features)}"


def _count(n: int | None) -> str:
    return NOTHING if n is None else f"{n:,}"


def _facts(home: Path) -> dict[str, str | None]:
    notes: dict[str, str | None] = {name: _note(source(name), home) for name in DATASETS}
    way = "`oahu datasets get NAME` downloads it into the folder; put: a file goes there by your hands"
    return {"folder": str(home), "get": way, **notes}


def _note(entry: Source, home: Path) -> str | None:
    """What to put where, and what else to know."""
    put = [f"Put {' and '.join(entry.to_put(home))} there."] if entry.to_put(home) else []
    return " ".join([*put, *([entry.note] if entry.note else [])]) or None


def _described(entry: Source, home: Path) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "n_items": entry.n_items,
        "n_features": entry.n_features,
        "n_classes": entry.n_classes,
        "task": entry.task,
        "licence": entry.licence,
        "homepage": entry.homepage or None,
        "here": entry.here(home),
        "can_be_downloaded": bool(entry.forms) and not entry.to_put(home),
        "lacking": entry.lacking(home),
        "note": entry.note or None,
    }
