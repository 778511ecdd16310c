"""Listing and download of data sets for `oahu datasets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as ProgressBars

from oahu.cli.output import NOTHING, cell, print_facts, print_json, table
from oahu.evaluation.datasets import DATASETS, DatasetSource, data_home, fetch, source
from oahu.evaluation.datasets.downloads import DownloadProgress

__all__ = ["download_datasets", "print_datasets"]

_TASKS = {"classification": "classify", "verification": "verify", "retrieval": "retrieve"}


def print_datasets(console: Console, as_json: bool) -> None:
    """Print a list of all data sets. The list shows which data sets are available."""
    home = data_home()
    if as_json:
        print_json({"home": home, "datasets": [_as_json(source(name), home) for name in DATASETS]})
        return
    listed = table("name", ">items x features", ">classes", "task", "licence", "available")
    for column in listed.columns:
        column.no_wrap = True
    for name in DATASETS:
        entry = source(name)
        available = _availability(entry, home)
        listed.add_row(
            cell(name, "bold"),
            cell(_size(entry)),
            cell(_count(entry.n_classes)),
            cell(_TASKS[entry.task]),
            cell(entry.licence),
            cell(available, "green" if available == "yes" else ""),
        )
    console.print(listed)
    print_facts(console, _facts(home))


def download_datasets(console: Console, errors: Console, names: Sequence[str]) -> None:
    """Download data sets into the data folder."""
    home = data_home()
    entries = [source(name) for name in dict.fromkeys(names)]  # an unknown name is rejected before any download
    for entry in entries:
        with _show_progress(errors) as progress:
            fetch(entry.name, home, progress)
        console.print(cell(_result(entry, home)), soft_wrap=True)


def _result(entry: DatasetSource, home: Path) -> str:
    if entry.file_sets == ((),):
        return f"{entry.name} is included in oahu. There is nothing to download."
    return f"{entry.name} is in {home}."


@contextmanager
def _show_progress(console: Console) -> Iterator[DownloadProgress]:
    """Show a progress bar for each file if the output is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with ProgressBars(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def progress(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield progress


def _availability(entry: DatasetSource, home: Path) -> str:
    """Return "yes" if the data set is available, or else the way to get it: "path", "copy" or "download"."""
    if not entry.file_sets:
        return "path"
    if entry.is_available(home):
        return "yes"
    return "copy" if entry.manual_files(home) else "download"


def _size(entry: DatasetSource) -> str:
    if entry.n_items is None:
        return NOTHING
    return f"{entry.n_items:,} x {'any' if entry.n_features is None else _count(entry.n_features)}"


def _count(n: int | None) -> str:
    return NOTHING if n is None else f"{n:,}"


def _facts(home: Path) -> dict[str, str | None]:
    notes: dict[str, str | None] = {name: _note(source(name), home) for name in DATASETS}
    command = "`oahu datasets get NAME` downloads a data set to this folder"
    return {"folder": str(home), "download": command, "copy": "copy the files to this folder yourself", **notes}


def _note(entry: DatasetSource, home: Path) -> str | None:
    """Return the files to copy, the note and the labelings of a data set as text, or None if there are none."""
    files = entry.manual_files(home)
    copy = [f"Copy {' and '.join(files)} to this folder."] if files else []
    labelings = (
        [f"Labels: {' or '.join(f'{entry.name}:{each}' for each in entry.labelings)}."] if entry.labelings else []
    )
    return " ".join([*copy, *([entry.note] if entry.note else []), *labelings]) or None


def _as_json(entry: DatasetSource, home: Path) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "n_items": entry.n_items,
        "n_features": entry.n_features,
        "n_classes": entry.n_classes,
        "task": entry.task,
        "licence": entry.licence,
        "homepage": entry.homepage or None,
        "available": entry.is_available(home),
        "downloadable": bool(entry.file_sets) and not entry.manual_files(home),
        "missing_files": entry.missing_files(home),
        "note": entry.note or None,
        "labelings": entry.labelings,
    }
