"""Tests of the idx format of Fashion-MNIST and EMNIST, intact and damaged."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from oahu import DatasetError
from oahu.evaluation.datasets import load
from oahu.evaluation.datasets.idx import read_idx


def idx(array: Any) -> bytes:
    """Return an array in the idx format, byte by byte."""
    array = np.asarray(array)
    content = bytes([0, 0, 8, array.ndim])
    for length in array.shape:
        content += int(length).to_bytes(4, "big")
    return content + bytes(array.ravel().tolist())


def halves(n_train: int = 12, n_test: int = 5, n_classes: int = 10, side: int = 4) -> list[Any]:
    rng = np.random.default_rng(3)
    sizes = (n_train, n_test)
    made = [(rng.integers(256, size=(n, side, side + 1)), rng.integers(n_classes, size=n)) for n in sizes]
    return [array for half in made for array in half]


FASHION = [f"{half}-{kind}-ubyte.gz" for half in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
EMNIST = [
    f"emnist-balanced-{half}-{kind}-ubyte.gz"
    for half in ("train", "test")
    for kind in ("images-idx3", "labels-idx1")
]


def write(home: Path, name: str, files: list[str], contents: list[bytes]) -> None:
    (home / name).mkdir()
    for file, content in zip(files, contents, strict=True):
        (home / name / file).write_bytes(content)


@pytest.fixture
def fashion(tmp_path: Path) -> Path:
    write(tmp_path, "fashion-mnist", FASHION, [gzip.compress(idx(array)) for array in halves()])
    return tmp_path


def test_fashion_mnist_is_read(fashion: Path) -> None:
    train, train_labels, test, test_labels = halves()
    read = load("fashion-mnist", fashion)
    assert read.X.dtype == np.uint8
    assert read.y.dtype == np.int64
    assert read.X.tolist() == [image.ravel().tolist() for image in [*train, *test]]
    assert read.y.tolist() == [*train_labels, *test_labels]
    assert read.is_train is not None
    assert read.is_train.tolist() == [True] * 12 + [False] * 5
    assert (read.name, read.scaling, read.image_shape) == ("fashion-mnist", "range", (4, 5))


@pytest.mark.parametrize("packed", [True, False])
def test_emnist_images_are_transposed(tmp_path: Path, packed: bool) -> None:
    written = halves(n_classes=47)
    contents = [gzip.compress(idx(array)) for array in written]
    if packed:
        (tmp_path / "emnist-balanced").mkdir()
        with zipfile.ZipFile(tmp_path / "emnist-balanced" / "gzip.zip", "w") as archive:
            archive.writestr("gzip/emnist-letters-train-images-idx3-ubyte.gz", b"of another set")
            for file, content in zip(EMNIST, contents, strict=True):
                archive.writestr(f"gzip/{file}", content)
    else:
        write(tmp_path, "emnist-balanced", EMNIST, contents)
    read = load("emnist-balanced", tmp_path)
    assert read.image_shape == (5, 4)
    for row, image in enumerate([*written[0], *written[2]]):
        assert read.X[row].reshape(5, 4).tolist() == [[int(image[j][i]) for j in range(4)] for i in range(5)]
    assert read.y.tolist() == [*written[1], *written[3]]


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=3, max_side=6)), st.integers(0, 9))
def test_round_trip_of_any_array(array: Any, level: int) -> None:
    packed = gzip.compress(idx(array), level)
    assert np.array_equal(read_idx(io.BytesIO(packed), "file", array.ndim), array)


@given(st.data())
def test_truncated_file_is_rejected(data: st.DataObject) -> None:
    packed = gzip.compress(idx(np.arange(60).reshape(3, 4, 5)))
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(DatasetError, match=r"^some file cannot be read"):
        read_idx(io.BytesIO(packed[:cut]), "some file", 3)


@given(st.data())
def test_changed_byte_is_an_error_or_has_no_effect(data: st.DataObject) -> None:
    array = np.arange(60).reshape(3, 4, 5)
    packed = bytearray(gzip.compress(idx(array)))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        read = read_idx(io.BytesIO(packed), "file", 3)
    except DatasetError:
        return
    assert np.array_equal(read, array)  # the time or the name in the header of gzip


IMAGES, LABELS = halves()[:2]


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        (0, idx(IMAGES), "gzip data are damaged"),
        (0, gzip.compress(b""), "must begin with 00000803, but it begins with "),
        (0, gzip.compress(b"\0\0\x08\x03\0\0"), "header must have 16 bytes, but it has 6"),
        (0, gzip.compress(idx(LABELS)), "must begin with 00000803, but it begins with 00000801"),
        (1, gzip.compress(idx(IMAGES)), "must begin with 00000801, but it begins with 00000803"),
        (0, gzip.compress(b"\0\0\x0d\x03" + idx(IMAGES)[4:]), "begins with 00000d03"),
        (0, gzip.compress(idx(IMAGES)[:-1]), "states 240 bytes for shape (12, 4, 5), but it has 239"),
        (0, gzip.compress(idx(IMAGES) + b"\0"), "states 240 bytes for shape (12, 4, 5), but it has more"),
        (0, gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12), "states the invalid shape (4294967295,"),
        (0, gzip.compress(b"\0\0\x08\x03" + b"\0" * 12), "states the invalid shape (0, 0, 0)"),
        (1, gzip.compress(idx(LABELS[:-1])), "it has 11 labels, but there are 12 images"),
        (1, gzip.compress(idx([10, *LABELS[1:]])), "labels must be 0 to 9, but the largest is 10"),
        (2, gzip.compress(idx(IMAGES[:5, :, :3])), "images have shape (4, 3), but the training images have (4, 5)"),
    ],
    ids=lambda value: "file" if isinstance(value, bytes) else str(value),
)
def test_error_names_file_and_problem(fashion: Path, file: int, content: bytes, problem: str) -> None:
    path = fashion / "fashion-mnist" / FASHION[file]
    path.write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        load("fashion-mnist", fashion)
    assert str(caught.value).startswith(f"{path} cannot be read: ")
    assert problem in str(caught.value)
    assert "Delete it and download it again" in str(caught.value)


def test_more_data_than_stated_is_not_unpacked(fashion: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    read: Callable[..., bytes] = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda file, n=-1: sizes.append(n) or read(file, n))
    bomb = gzip.compress(idx(IMAGES) + bytes(50_000_000))
    (fashion / "fashion-mnist" / FASHION[0]).write_bytes(bomb)
    with pytest.raises(DatasetError, match="but it has more"):
        load("fashion-mnist", fashion)
    assert sizes == [16, 240, 1]


def archive_of(contents: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return made.getvalue()


PACKED = {f"gzip/{file}": gzip.compress(idx(array), mtime=0) for file, array in zip(EMNIST, halves(), strict=True)}
WHOLE = archive_of(PACKED)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not a complete .zip archive"),
        (WHOLE[:-30], "not a complete .zip archive"),
        (archive_of({"gzip/emnist-balanced-mapping.txt": b"0 48"}), f"{EMNIST[0]}, {EMNIST[1]}, "),
        (WHOLE.replace(b"\x1f\x8b", b"\x1f\x8c", 1), "Bad CRC-32"),
        (
            archive_of({**PACKED, f"gzip/{EMNIST[2]}": PACKED[f"gzip/{EMNIST[2]}"][:-9]}),
            f"{EMNIST[2]} cannot be read",
        ),
        (
            archive_of({**PACKED, f"gzip/{EMNIST[3]}": PACKED[f"gzip/{EMNIST[1]}"]}),
            "12 labels, but there are 5 images",
        ),
        (WHOLE.replace(b"PK\x01\x02\x14\x03\x14\0\0", b"PK\x01\x02\x14\x03\x14\0\x01", 1), "encrypted"),
        (WHOLE.replace(b"PK\x03\x04", b"PK\x03\x05", 1), "not a complete .zip archive"),
    ],
)
def test_damaged_emnist_archive_is_rejected(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "emnist-balanced" / "gzip.zip"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        load("emnist-balanced", tmp_path)
    assert str(caught.value).startswith(str(path))
    assert problem in str(caught.value)
