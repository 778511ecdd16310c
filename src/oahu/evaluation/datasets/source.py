"""An entry of the registry: what is known of a data set before it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oahu.evaluation.datasets.cache import Progress, Remote, download
from oahu.evaluation.datasets.dataset import Dataset
from oahu.exceptions import DatasetError

__all__ = ["Remote", "Source", "Task", "damaged"]

Task = Literal["classification", "verification", "retrieval"]


@dataclass(frozen=True)
class Source:
    """A data set by name: its size, its terms, its files.

    Attributes
    ----------
    name, title : str
    n_items, n_features, n_classes : int or None
        As published; None where it depends on the user's file.
    task : {"classification", "verification", "retrieval"}
        What it is usually measured by.
    licence, homepage : str
    forms : tuple of tuples of str
        The files that hold the set, below the folder of data sets: all of any one form are enough. No form at all
        says that it is no set of its own, and the note says what it is.
    read : callable
        From the folder of data sets to the data set, once a form is there.
    files : tuple of Remote
        What can be downloaded.
    note : str
        What else to know before getting it.
    """

    name: str
    title: str
    n_items: int | None
    n_features: int | None
    n_classes: int | None
    task: Task
    licence: str
    homepage: str
    forms: tuple[tuple[str, ...], ...]
    read: Callable[[Path], Dataset]
    files: tuple[Remote, ...] = ()
    note: str = ""

    def here(self, home: Path) -> bool:
        """Whether all files of a form are in the folder of data sets."""
        return any(not _lacking(form, home) for form in self.forms)

    def lacking(self, home: Path) -> tuple[str, ...]:
        """The fewest files that would complete the set: none if it is here."""
        return min((_lacking(form, home) for form in self.forms), key=len, default=())

    def to_put(self, home: Path) -> tuple[str, ...]:
        """The files among those lacking that cannot be downloaded."""
        known = {remote.path for remote in self.files}
        return tuple(path for path in self.lacking(home) if path not in known)

    def load(self, home: Path) -> Dataset:
        """Read the set; what is not here is an error that says how to get it."""
        if not self.here(home):
            raise DatasetError(self._absent(home))
        return self.read(home)

    def fetch(self, home: Path, progress: Progress | None = None) -> None:
        """Download what is not here; what cannot be downloaded is an error that says what to put where."""
        if self.here(home):
            return
        try:
            for remote in self.files:
                download(remote, home, self.homepage, progress)
        except DatasetError as error:
            raise DatasetError(f"{error} {self.name} needs {', '.join(self.lacking(home))} in {home}.") from error
        if not self.here(home):
            raise DatasetError(self._absent(home))

    def _absent(self, home: Path) -> str:
        if not self.forms:
            return self.note
        lacking, to_put = self.lacking(home), self.to_put(home)
        if to_put:
            way = f"It cannot be downloaded: put {' and '.join(to_put)} there yourself (see {self.homepage})."
            if to_put != lacking:
                way += f" `oahu datasets get {self.name}` downloads the other files."
        else:
            way = f"`oahu datasets get {self.name}` downloads it, or put {', '.join(lacking)} there."
        return f"The data set {self.name} is not in {home}. {way} {self.note}".rstrip()


def _lacking(form: tuple[str, ...], home: Path) -> tuple[str, ...]:
    return tuple(path for path in form if not (home / path).is_file())


def damaged(file: object, problem: str) -> DatasetError:
    """The error about a file that is here and is not what it should be."""
    return DatasetError(
        f"{file} cannot be read: {problem}. The file is damaged, or is another one than its name says: "
        "delete it, and get it anew."
    )
