"""EMNIST Balanced: 28 x 28 images of handwritten digits and letters. The files store the images transposed."""

from __future__ import annotations

import io
import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.idx import read_labelled, train_and_test
from oahu.evaluation.datasets.source import DatasetSource, RemoteFile, damaged_file

__all__ = ["SOURCE"]

_LabelledImages = tuple[NDArray[np.uint8], NDArray[np.uint8]]

_N_CLASSES: Final = 47
_ARCHIVE: Final = "emnist-balanced/gzip.zip"
_MAX_BYTES: Final = 1 << 28  # gzipped; five times the size of the official files
_FILES: Final = tuple(
    f"emnist-balanced/emnist-balanced-{half}-{content}-ubyte.gz"
    for half in ("train", "test")
    for content in ("images-idx3", "labels-idx1")
)


def _read(home: Path) -> Dataset:
    with ExitStack() as opened:
        files: list[tuple[IO[bytes], object]]
        if all((home / file).is_file() for file in _FILES):
            files = [(opened.enter_context((home / file).open("rb")), home / file) for file in _FILES]
        else:
            with (home / _ARCHIVE).open("rb") as packed:
                files = _from_archive(packed, home / _ARCHIVE)
        train = read_labelled(files[0], files[1], _N_CLASSES)
        test = read_labelled(files[2], files[3], _N_CLASSES)
    return train_and_test("emnist-balanced", _transpose_images(train), _transpose_images(test), files[2][1])


def _from_archive(packed: IO[bytes], path: Path) -> list[tuple[IO[bytes], object]]:
    """Return the four gzipped files of EMNIST Balanced that the archive contains, with their names."""
    wanted = [file.rpartition("/")[2] for file in _FILES]
    try:
        with zipfile.ZipFile(packed) as archive:
            members = {member.filename.rpartition("/")[2]: member for member in archive.infolist()}
            missing = [name for name in wanted if name not in members]
            if missing:
                raise damaged_file(path, f"the archive does not contain {', '.join(missing)}")
            if sum(members[name].file_size for name in wanted) > _MAX_BYTES:
                raise damaged_file(path, f"{', '.join(wanted)} have more than {_MAX_BYTES:,} bytes")
            return [(io.BytesIO(archive.read(members[name])), f"{path}, {name}") for name in wanted]
    except (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, OSError, zlib.error) as error:
        raise damaged_file(path, f"it is not a complete .zip archive ({error})") from error


def _transpose_images(half: _LabelledImages) -> _LabelledImages:
    """Swap rows and columns of the images."""
    images, labels = half
    return images.swapaxes(1, 2), labels


SOURCE: Final = DatasetSource(
    name="emnist-balanced",
    title="EMNIST Balanced, handwritten digits and letters",
    n_items=131_600,
    n_features=784,
    n_classes=_N_CLASSES,
    task="classification",
    licence="none stated",
    homepage="https://www.nist.gov/itl/products-and-services/emnist-dataset",
    file_sets=((_ARCHIVE,), _FILES),
    downloads=(
        RemoteFile(
            _ARCHIVE,
            ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
            "md5:58c8d27c78d21e728a6bc7b3cc06412e",
        ),
    ),
    read=_read,
    note="The archive contains all EMNIST data sets. Its size is about 560 MB.",
)
