"""Labeled Faces in the Wild: attributes of faces, and the official pairs to verify.

``lfw`` has the 73 attributes of Kumar et al. ``lfw-soft`` has 40 attributes as probabilities, from a predictor that
the user has run: they are given as logits, since probabilities crowd at 0 and 1. Both have the same pairs.
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
from oahu.evaluation.datasets.prepared import features_of, names_of, pictures_in, read_arrays
from oahu.evaluation.datasets.source import Remote, Source, damaged
from oahu.exceptions import DatasetError

__all__ = ["SOFT_SOURCE", "SOURCE"]

_ATTRIBUTES: Final = "lfw/lfw_attributes.txt"
_PACKED: Final = f"{_ATTRIBUTES}.gz"
_SOFT: Final = "lfw/lfw_facer40.npz"
_FOLDS, _DEV_TRAIN, _DEV_TEST = _PAIRS = "lfw/pairs.txt", "lfw/pairsDevTrain.txt", "lfw/pairsDevTest.txt"
_LIMIT: Final = 1 << 28  # bytes of a text; the largest official one has some ten million
_LEAST: Final = 2.0**-12  # half of the step of half precision below 1: a probability of 1 may be less by that


def _read(home: Path) -> Dataset:
    plain = home / _ATTRIBUTES
    X, keys, persons = _attributes(plain if plain.is_file() else home / _PACKED)
    return Dataset(
        "lfw",
        X,
        persons,
        scaling="standard",
        keys=keys,
        views=_views(home, keys),
        pictures=pictures_in(home, "lfw"),
    )


def _read_soft(home: Path) -> Dataset:
    """Logits of probabilities that are clipped to where half precision can tell them from 0 and 1."""
    path = home / _SOFT
    arrays = read_arrays(path, ("X", "image"))
    X = features_of(arrays, path)
    keys = names_of(arrays, path, len(X))
    if keys is None:
        raise DatasetError(f"{path} must have the images' names, such as Aaron_Eckhart_0001, as an array 'image'.")
    if X.min() < 0 or X.max() > 1:
        raise DatasetError(f"'X' in {path} must be probabilities, from 0 to 1. Got {X.min()} to {X.max()}.")
    _check_once(keys, path)
    clipped = np.clip(X.astype(np.float64), _LEAST, 1 - _LEAST)
    logits = (np.log(clipped) - np.log1p(-clipped)).astype(np.float32)
    persons = np.array([key.rpartition("_")[0] for key in keys.tolist()])
    return Dataset(
        "lfw-soft",
        logits,
        persons,
        scaling="standard",
        keys=keys,
        views=_views(home, keys),
        pictures=pictures_in(home, "lfw"),
    )


# -- attributes ------------------------------------------------------------------------------------------


def _attributes(path: Path) -> tuple[NDArray[np.float32], NDArray[np.str_], NDArray[np.str_]]:
    """Values, images and persons of the attribute file: a person, an image's number and a value for each name."""
    lines = _text(path).splitlines()
    names = lines[1].rstrip().split("\t") if len(lines) > 1 else []
    if names[:3] != ["#", "person", "imagenum"] or len(names) == 3:
        raise damaged(path, "its second line must name the columns: #, person, imagenum and the attributes")
    rows, keys, persons = [], [], []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            cells = line.rstrip().split("\t")
            if len(cells) != len(names) - 1:
                raise damaged(path, f"line {number} must have {len(names) - 1} columns, and it has {len(cells)}")
            persons.append(cells[0].replace(" ", "_"))
            keys.append(_key(persons[-1], cells[1], path, number))
            rows.append(_values(cells[2:], path, number))
    if not rows:
        raise damaged(path, "it has no items")
    found = np.array(keys)
    _check_once(found, path)
    return np.array(rows, dtype=np.float32), found, np.array(persons)


def _values(cells: list[str], path: Path, number: int) -> list[float]:
    try:
        values = list(map(float, cells))
    except ValueError as error:
        raise damaged(path, f"line {number}: {error}") from error
    if not all(map(math.isfinite, values)):
        raise damaged(path, f"line {number}: the values must be finite")
    return values


def _key(person: str, image: str, path: Path, number: int) -> str:
    """The name of an image, such as Aaron_Eckhart_0001."""
    if not person or not (image.isascii() and image.isdecimal()):
        raise damaged(path, f"line {number} must have a person and an image's number, not {person!r} and {image!r}")
    return f"{person}_{int(image):04d}"


def _check_once(keys: NDArray[np.str_], path: Path) -> None:
    unique, counts = np.unique(keys, return_counts=True)
    if counts.max() > 1:
        raise damaged(path, f"it has the image {unique[counts.argmax()]} {counts.max()} times")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = gzip.GzipFile(fileobj=file).read(_LIMIT) if path.suffix == ".gz" else file.read(_LIMIT)
        if len(content) == _LIMIT:
            raise damaged(path, f"it has more than {_LIMIT:,} bytes of text")
        return content.decode()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path, f"its gzip data are broken or end early ({error})") from error
    except UnicodeDecodeError as error:
        raise damaged(path, f"it is not UTF-8 text ({error})") from error


# -- pairs -----------------------------------------------------------------------------------------------


def _views(home: Path, keys: NDArray[Any]) -> Views:
    rows = {key: row for row, key in enumerate(keys.tolist())}
    train, test = _single(home / _DEV_TRAIN, rows), _single(home / _DEV_TEST, rows)
    return Views((train, test), _folds(home / _FOLDS, rows))


def _single(path: Path, rows: Mapping[str, int]) -> Fold:
    folds = _folds(path, rows)
    if len(folds) != 1:
        raise damaged(path, f"it must have one list of pairs, and it has {len(folds)}")
    return folds[0]


def _folds(path: Path, rows: Mapping[str, int]) -> tuple[Fold, ...]:
    """The folds of a list of pairs: in each, first those of one person, then as many of two."""
    lines = [line.split() for line in _text(path).rstrip().splitlines()]
    header = lines[0] if lines else []
    if len(header) not in (1, 2) or not all(cell.isascii() and cell.isdecimal() and int(cell) for cell in header):
        raise damaged(path, "its first line must be a number of folds, if there are several, and one of pairs")
    n_folds, n_pairs = (1, *map(int, header))[-2:]
    if len(lines) - 1 != n_folds * 2 * n_pairs:
        expected = f"{n_folds} x 2 x {n_pairs} pairs"
        raise damaged(path, f"its first line announces {expected}, and it has {len(lines) - 1:,} lines more")
    starts = range(1, len(lines), 2 * n_pairs)
    return tuple(_fold(lines[start : start + 2 * n_pairs], start + 1, n_pairs, path, rows) for start in starts)


def _fold(lines: list[list[str]], first: int, n_same: int, path: Path, rows: Mapping[str, int]) -> Fold:
    pairs, same = [], []
    for place, cells in enumerate(lines):
        is_same = place < n_same
        if len(cells) != (3 if is_same else 4):
            what = "a person and two images" if is_same else "a person, an image, another person and an image"
            raise damaged(path, f"line {first + place} must be {what}")
        one, other = (cells[0], cells[1]), (cells[0 if is_same else 2], cells[-1])
        found = [rows.get(_key(*image, path, first + place)) for image in (one, other)]
        if None not in found:
            pairs.append(found)
            same.append(is_same)
    if not pairs:
        raise DatasetError(
            f"None of the images in lines {first} to {first + len(lines) - 1} of {path} has features: the images' "
            "names beside the features must be as in the list of pairs."
        )
    return Fold(np.array(pairs, dtype=np.intp), np.array(same), n_missing=len(lines) - len(pairs))


# -- the registry ----------------------------------------------------------------------------------------

_HOMEPAGE: Final = "http://vis-www.cs.umass.edu/lfw/"
_SHA256: Final = {
    _FOLDS: ("5976006", "ea42330c62c92989f9d7c03237ed5d591365e89b3e649747777b70e692dc1592"),
    _DEV_TRAIN: ("5976012", "1d454dada7dfeca0e7eab6f65dc4e97a6312d44cf142207be28d688be92aabfa"),
    _DEV_TEST: ("5976009", "7cb06600ea8b2814ac26e946201cdb304296262aad67d046a16a7ec85d0ff87c"),
}
_LISTS: Final = tuple(
    Remote(
        path,
        (f"{_HOMEPAGE}{path.removeprefix('lfw/')}", f"https://ndownloader.figshare.com/files/{copy}"),
        f"sha256:{sha256}",
    )
    for path, (copy, sha256) in _SHA256.items()
)

SOURCE: Final = Source(
    name="lfw",
    title="Labeled Faces in the Wild, 73 attributes",
    n_items=13_143,
    n_features=73,
    n_classes=5_721,
    task="verification",
    licence="for research",
    homepage=_HOMEPAGE,
    forms=((_ATTRIBUTES, *_PAIRS), (_PACKED, *_PAIRS)),
    files=(
        *_LISTS,
        Remote(
            _ATTRIBUTES, ("http://www.cs.columbia.edu/CAVE/databases/pubfig/download/lfw_attributes.txt",), None
        ),
    ),
    read=_read,
    note="Nobody has published a checksum of the attributes: they are checked line by line when they are read.",
)

SOFT_SOURCE: Final = Source(
    name="lfw-soft",
    title="Labeled Faces in the Wild, logits of 40 attributes",
    n_items=12_949,
    n_features=40,
    n_classes=5_649,
    task="verification",
    licence="for research",
    homepage=_HOMEPAGE,
    forms=((_SOFT, *_PAIRS),),
    files=_LISTS,
    read=_read_soft,
    note=(
        "The attributes are those of a predictor that you run on the images: an archive with X, probabilities of "
        "shape (n_images, n_attributes), and image, names such as Aaron_Eckhart_0001."
    ),
)
