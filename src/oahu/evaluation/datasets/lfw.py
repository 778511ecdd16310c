"""Labeled Faces in the Wild (LFW): attributes of faces, and the official pairs for verification.

The features of ``lfw`` are the 73 attributes of Kumar et al. The features of ``lfw-soft`` are 40 attributes that
the user has predicted as probabilities. The probabilities are converted to logits, because most probabilities
are close to 0 or 1. Both data sets have the same pairs.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset, Fold, Views
from oahu.evaluation.datasets.prepared import features_of, image_folder_of, keys_of, read_arrays
from oahu.evaluation.datasets.source import DatasetSource, RemoteFile, damaged_file
from oahu.exceptions import DatasetError

__all__ = ["SOFT_SOURCE", "SOURCE"]

_ATTRIBUTES: Final = "lfw/lfw_attributes.txt"
_PACKED: Final = f"{_ATTRIBUTES}.gz"
_SOFT: Final = "lfw/lfw_facer40.npz"
_FOLDS, _DEV_TRAIN, _DEV_TEST = _PAIRS = "lfw/pairs.txt", "lfw/pairsDevTrain.txt", "lfw/pairsDevTest.txt"
_MAX_BYTES: Final = 1 << 28  # of a text file; the largest official one has about ten million
_CLIP: Final = 2.0**-12  # half the spacing of float16 below 1: the rounding error of a stored 1


def _read(home: Path) -> Dataset:
    plain = home / _ATTRIBUTES
    X, keys, persons = _read_attributes(plain if plain.is_file() else home / _PACKED)
    return Dataset(
        "lfw",
        X,
        persons,
        scaling="standard",
        keys=keys,
        views=_read_views(home, keys),
        image_folder=image_folder_of(home, "lfw"),
    )


def _read_soft(home: Path) -> Dataset:
    """Return the data set with logits as features. Probabilities are clipped, so that all logits are finite."""
    path = home / _SOFT
    arrays = read_arrays(path, ("X", "image"))
    X = features_of(arrays, path)
    keys = keys_of(arrays, path, len(X))
    if keys is None:
        raise DatasetError(
            f"{path} must contain an array 'image' with the names of the images, such as Aaron_Eckhart_0001."
        )
    if X.min() < 0 or X.max() > 1:
        raise DatasetError(f"'X' in {path} must be probabilities in [0, 1]. Got {X.min()} to {X.max()} instead.")
    _check_unique(keys, path)
    clipped = np.clip(X.astype(np.float64), _CLIP, 1 - _CLIP)
    logits = (np.log(clipped) - np.log1p(-clipped)).astype(np.float32)
    persons = np.array([key.rpartition("_")[0] for key in keys.tolist()])
    return Dataset(
        "lfw-soft",
        logits,
        persons,
        scaling="standard",
        keys=keys,
        views=_read_views(home, keys),
        image_folder=image_folder_of(home, "lfw"),
    )


# -- attributes ------------------------------------------------------------------------------------------


def _read_attributes(path: Path) -> tuple[NDArray[np.float32], NDArray[np.str_], NDArray[np.str_]]:
    """Return the attribute values, the image names and the persons' names in the attribute file."""
    lines = _read_text(path).splitlines()
    names = lines[1].rstrip().split("\t") if len(lines) > 1 else []
    if names[:3] != ["#", "person", "imagenum"] or len(names) == 3:
        raise damaged_file(
            path, "its second line must contain the column names: '#', 'person', 'imagenum' and the attributes"
        )
    rows, keys, persons = [], [], []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            cells = line.rstrip().split("\t")
            if len(cells) != len(names) - 1:
                raise damaged_file(
                    path, f"line {number} must have {len(names) - 1} columns, but it has {len(cells)}"
                )
            persons.append(cells[0].replace(" ", "_"))
            keys.append(_image_key(persons[-1], cells[1], path, number))
            rows.append(_parse_values(cells[2:], path, number))
    if not rows:
        raise damaged_file(path, "it has no items")
    found = np.array(keys)
    _check_unique(found, path)
    return np.array(rows, dtype=np.float32), found, np.array(persons)


def _parse_values(cells: list[str], path: Path, number: int) -> list[float]:
    try:
        values = list(map(float, cells))
    except ValueError as error:
        raise damaged_file(path, f"line {number}: {error}") from error
    if not all(map(math.isfinite, values)):
        raise damaged_file(path, f"line {number}: the values must be finite")
    return values


def _image_key(person: str, image: str, path: Path, number: int) -> str:
    """Return the name of an image, such as Aaron_Eckhart_0001."""
    if not person or not (image.isascii() and image.isdecimal()):
        raise damaged_file(
            path, f"line {number} must have a person and an image number, but it has {person!r} and {image!r}"
        )
    return f"{person}_{int(image):04d}"


def _check_unique(keys: NDArray[np.str_], path: Path) -> None:
    unique, counts = np.unique(keys, return_counts=True)
    if counts.max() > 1:
        raise damaged_file(path, f"it contains the image {unique[counts.argmax()]} {counts.max()} times")


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = (
                gzip.GzipFile(fileobj=file).read(_MAX_BYTES) if path.suffix == ".gz" else file.read(_MAX_BYTES)
            )
        if len(content) == _MAX_BYTES:
            raise damaged_file(path, f"it has more than {_MAX_BYTES:,} bytes of text")
        return content.decode()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged_file(path, f"its gzip data are damaged or incomplete ({error})") from error
    except UnicodeDecodeError as error:
        raise damaged_file(path, f"it is not UTF-8 text ({error})") from error


# -- pairs -----------------------------------------------------------------------------------------------


def _read_views(home: Path, keys: NDArray[Any]) -> Views:
    rows = {key: row for row, key in enumerate(keys.tolist())}
    train, test = _read_single_fold(home / _DEV_TRAIN, rows), _read_single_fold(home / _DEV_TEST, rows)
    return Views((train, test), _read_folds(home / _FOLDS, rows))


def _read_single_fold(path: Path, rows: Mapping[str, int]) -> Fold:
    folds = _read_folds(path, rows)
    if len(folds) != 1:
        raise damaged_file(path, f"it must contain one list of pairs, but it contains {len(folds)}")
    return folds[0]


def _read_folds(path: Path, rows: Mapping[str, int]) -> tuple[Fold, ...]:
    """Read the folds from a file that lists pairs of images.

    A fold lists the pairs of the same person first, then the same number of pairs of different persons.
    """
    lines = [line.split() for line in _read_text(path).rstrip().splitlines()]
    header = lines[0] if lines else []
    if len(header) not in (1, 2) or not all(cell.isascii() and cell.isdecimal() and int(cell) for cell in header):
        raise damaged_file(
            path, "its first line must have the number of folds, if there are several, and the number of pairs"
        )
    n_folds, n_pairs = (1, *map(int, header))[-2:]
    if len(lines) - 1 != n_folds * 2 * n_pairs:
        expected = f"{n_folds} x 2 x {n_pairs} pairs"
        raise damaged_file(path, f"its first line states {expected}, but {len(lines) - 1:,} lines follow")
    starts = range(1, len(lines), 2 * n_pairs)
    return tuple(
        _parse_fold(lines[start : start + 2 * n_pairs], start + 1, n_pairs, path, rows) for start in starts
    )


def _parse_fold(lines: list[list[str]], first: int, n_same: int, path: Path, rows: Mapping[str, int]) -> Fold:
    pairs, same = [], []
    for place, cells in enumerate(lines):
        is_same = place < n_same
        if len(cells) != (3 if is_same else 4):
            what = "a person and two images" if is_same else "a person, an image, another person and an image"
            raise damaged_file(path, f"line {first + place} must be {what}")
        one, other = (cells[0], cells[1]), (cells[0 if is_same else 2], cells[-1])
        found = [rows.get(_image_key(*image, path, first + place)) for image in (one, other)]
        if None not in found:
            pairs.append(found)
            same.append(is_same)
    if not pairs:
        raise DatasetError(
            f"None of the images in lines {first} to {first + len(lines) - 1} of {path} has features. The image "
            "names in the feature file must match the image names in the list of pairs."
        )
    return Fold(np.array(pairs, dtype=np.intp), np.array(same), n_missing=len(lines) - len(pairs))


# -- registry ----------------------------------------------------------------------------------------

_HOMEPAGE: Final = "http://vis-www.cs.umass.edu/lfw/"
_SHA256: Final = {
    _FOLDS: ("5976006", "ea42330c62c92989f9d7c03237ed5d591365e89b3e649747777b70e692dc1592"),
    _DEV_TRAIN: ("5976012", "1d454dada7dfeca0e7eab6f65dc4e97a6312d44cf142207be28d688be92aabfa"),
    _DEV_TEST: ("5976009", "7cb06600ea8b2814ac26e946201cdb304296262aad67d046a16a7ec85d0ff87c"),
}
_LISTS: Final = tuple(
    RemoteFile(
        path,
        (f"{_HOMEPAGE}{path.removeprefix('lfw/')}", f"https://ndownloader.figshare.com/files/{copy}"),
        f"sha256:{sha256}",
    )
    for path, (copy, sha256) in _SHA256.items()
)

SOURCE: Final = DatasetSource(
    name="lfw",
    title="Labeled Faces in the Wild, 73 attributes",
    n_items=13_143,
    n_features=73,
    n_classes=5_721,
    task="verification",
    licence="for research",
    homepage=_HOMEPAGE,
    file_sets=((_ATTRIBUTES, *_PAIRS), (_PACKED, *_PAIRS)),
    downloads=(
        *_LISTS,
        RemoteFile(
            _ATTRIBUTES, ("http://www.cs.columbia.edu/CAVE/databases/pubfig/download/lfw_attributes.txt",), None
        ),
    ),
    read=_read,
    note="No checksum of the attribute file is published. Each line is validated when the file is read.",
)

SOFT_SOURCE: Final = DatasetSource(
    name="lfw-soft",
    title="Labeled Faces in the Wild, logits of 40 attributes",
    n_items=12_949,
    n_features=40,
    n_classes=5_649,
    task="verification",
    licence="for research",
    homepage=_HOMEPAGE,
    file_sets=((_SOFT, *_PAIRS),),
    downloads=_LISTS,
    read=_read_soft,
    note=(
        "Predict the attributes of the images with a model of your choice. Store an array 'X' of probabilities, of "
        "shape (n_images, n_attributes), and an array 'image' of image names such as Aaron_Eckhart_0001."
    ),
)
