"""The class `DatasetSource`: registry entry of a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.downloads import DownloadProgress, RemoteFile, download
from oahu.exceptions import DatasetError

__all__ = ["DatasetSource", "RemoteFile", "TaskName", "damaged_file"]

TaskName = Literal["classification", "verification", "retrieval"]


@dataclass(frozen=True)
class DatasetSource:
    """Registry entry of a data set: its size, licence and files.

    Attributes
    ----------
    name, title : str
        Short name and full title of the data set.
    n_items, n_features, n_classes : int or None
        Published numbers of items, features and classes. None if a number depends on the user's file.
    task : {"classification", "verification", "retrieval"}
        Task that the data set is usually used for.
    licence, homepage : str
        Licence, and address of the official web page.
    file_sets : tuple of tuples of str
        Alternative sets of files, as paths relative to the data folder. One complete set is sufficient. Only the
        registry entry ``any``, which is for user files, has an empty tuple.
    read : callable
        Function with one argument, the data folder. It reads the files and returns the data set.
    downloads : tuple of RemoteFile
        Files that can be downloaded.
    note : str
        Further information for the user.
    labelings : tuple of str
        Names of the labelings, if items can be alike in several ways. The first one is the default.
    """

    name: str
    title: str
    n_items: int | None
    n_features: int | None
    n_classes: int | None
    task: TaskName
    licence: str
    homepage: str
    file_sets: tuple[tuple[str, ...], ...]
    read: Callable[[Path], Dataset]
    downloads: tuple[RemoteFile, ...] = ()
    note: str = ""
    labelings: tuple[str, ...] = ()

    def is_available(self, home: Path) -> bool:
        """Return whether the data folder contains a complete set of files."""
        return any(not _missing(files, home) for files in self.file_sets)

    def missing_files(self, home: Path) -> tuple[str, ...]:
        """Return the missing files of the most complete set of files, or () if a set is complete."""
        return min((_missing(files, home) for files in self.file_sets), key=len, default=())

    def manual_files(self, home: Path) -> tuple[str, ...]:
        """Return the missing files that cannot be downloaded."""
        downloadable = {remote.path for remote in self.downloads}
        return tuple(path for path in self.missing_files(home) if path not in downloadable)

    def load(self, home: Path) -> Dataset:
        """Return the data set. If it is missing, raise `DatasetError` with instructions."""
        if not self.is_available(home):
            raise DatasetError(self._instructions(home))
        return self.read(home)

    def fetch(self, home: Path, progress: DownloadProgress | None = None) -> None:
        """Download missing files. If a file cannot be downloaded, raise `DatasetError` with instructions."""
        if self.is_available(home):
            return
        try:
            for remote in self.downloads:
                download(remote, home, self.homepage, progress)
        except DatasetError as error:
            missing = ", ".join(self.missing_files(home))
            raise DatasetError(f"{error} {self.name} needs {missing} in {home}.") from error
        if not self.is_available(home):
            raise DatasetError(self._instructions(home))

    def _instructions(self, home: Path) -> str:
        if not self.file_sets:
            return self.note
        missing, manual = self.missing_files(home), self.manual_files(home)
        if manual:
            how = f"It cannot be downloaded. Copy {' and '.join(manual)} to that folder (see {self.homepage})."
            if manual != missing:
                how += f" `oahu datasets get {self.name}` downloads the other files."
        else:
            how = f"Run `oahu datasets get {self.name}`, or copy {', '.join(missing)} to that folder."
        return f"The data set {self.name} is not in {home}. {how} {self.note}".rstrip()


def _missing(files: tuple[str, ...], home: Path) -> tuple[str, ...]:
    return tuple(path for path in files if not (home / path).is_file())


def damaged_file(file: object, problem: str) -> DatasetError:
    """Return a `DatasetError` for a file with unexpected content."""
    return DatasetError(
        f"{file} cannot be read: {problem}. The file is damaged, or it is not the official file. Delete it and "
        "download it again."
    )
