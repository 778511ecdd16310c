"""Tests of a user's own files in all formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oahu import DatasetError, InvalidInputError, StreamError
from oahu.evaluation.datasets import Dataset, load

X = np.array([[0.5, 1.0], [2.0, -3.0], [4.25, 0.0]])
Y = ["tea", "tea", "cup"]
IDS = ["a", "b", "7"]


def as_npz(folder: Path) -> Path:
    np.savez(folder / "mine.npz", X=X, y=Y, ids=IDS)
    return folder / "mine.npz"


def as_csv(folder: Path) -> Path:
    lines = ["id,f,g,label", *(f"{i},{f},{g},{y}" for i, (f, g), y in zip(IDS, X, Y, strict=True))]
    (folder / "mine.csv").write_text("\n".join(lines))
    return folder / "mine.csv"


def as_tsv(folder: Path) -> Path:
    (folder / "mine.tsv").write_text(as_csv(folder).read_text().replace(",", "\t"))
    return folder / "mine.tsv"


def as_parquet(folder: Path) -> Path:
    pq.write_table(pa.table({"id": IDS, "f": X[:, 0], "g": X[:, 1], "label": Y}), folder / "mine.parquet")
    return folder / "mine.parquet"


def check(read: Dataset) -> None:
    assert read.X.dtype == np.float32
    assert read.X.tolist() == X.tolist()
    assert read.y.tolist() == Y
    assert (read.name, read.scaling, read.is_train, read.image_shape) == ("mine", "none", None, None)


@pytest.mark.parametrize("write", [as_npz, as_csv, as_tsv, as_parquet])
@pytest.mark.parametrize("kind", [str, Path])
def test_all_formats_give_the_same_data_set(tmp_path: Path, write: Any, kind: Any) -> None:
    read = load(kind(write(tmp_path)))
    check(read)
    assert read.keys is not None
    assert read.keys.tolist() == IDS


@pytest.mark.parametrize("suffix", [".npy", ".txt", ".csv"])
def test_labels_can_be_in_a_separate_file(tmp_path: Path, suffix: str) -> None:
    np.save(tmp_path / "mine.npy", X)
    labels = tmp_path / f"labels{suffix}"
    if suffix == ".npy":
        np.save(labels, Y)
    else:
        labels.write_text("\n".join(Y))
    read = load(tmp_path / "mine.npy", labels=labels)
    check(read)
    assert read.keys is None
    assert type(read.X) is np.ndarray  # and no map of a file that may go away


def test_separate_labels_replace_those_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("1\n2\n1")
    read = load(as_npz(tmp_path), labels=tmp_path / "labels.txt")
    assert read.y.dtype == np.int64
    assert read.y.tolist() == [1, 2, 1]


def test_archive_can_have_split_and_keys(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", X=X, y=Y, is_train=[True, False, True], image=["one", "two", "three"])
    read = load(tmp_path / "mine.npz")
    assert read.is_train is not None
    assert read.keys is not None
    assert (read.is_train.tolist(), read.keys.tolist()) == ([True, False, True], ["one", "two", "three"])


def test_archive_can_have_8_bit_features(tmp_path: Path) -> None:
    Q = np.array([[0, 255], [4, 8]], dtype=np.uint8)
    np.savez(tmp_path / "mine.npz", Q=Q, low=np.float32([1, 2]), step=np.float32([0.5, 1]), y=[3, 4])
    read = load(tmp_path / "mine.npz")
    assert read.X.tolist() == [[1.0, 257.0], [3.0, 10.0]]
    assert read.y.tolist() == [3, 4]


def test_uint8_is_preserved(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", X=np.arange(6, dtype=np.uint8).reshape(3, 2), y=[1.0, 2.0, 1.0])
    read = load(tmp_path / "mine.npz")
    assert read.X.dtype == np.uint8
    assert read.y.dtype == np.int64


def test_error_without_labels_says_how_to_give_them(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", X)
    with pytest.raises(InvalidInputError, match=r"mine.npy has no labels\. Store the labels as an array 'y'"):
        load(tmp_path / "mine.npy")


def test_wrong_number_of_labels_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("1\n2")
    with pytest.raises(DatasetError, match=r"labels.txt must be .* one for each of the 3 items"):
        load(as_npz(tmp_path), labels=tmp_path / "labels.txt")


def test_error_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("f,label\n1,a\nx,b\n")
    with pytest.raises(StreamError, match="line 3"):
        load(tmp_path / "mine.csv")


def test_values_that_are_not_finite_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("f,label\n1,a\nnan,b\n")
    with pytest.raises(DatasetError, match=r"must be finite float32 numbers\. Row 1 contains NaN"):
        load(tmp_path / "mine.csv")


@pytest.mark.parametrize("name", ["none.npz", "none.npy", "none.csv"])
def test_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=name):
        load(tmp_path / name)


def test_other_file_types_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine.doc").write_text("hello")
    with pytest.raises(InvalidInputError, match=r"must be in a .npy, .npz, .csv"):
        load(tmp_path / "mine.doc")


def test_damaged_archive_is_rejected(tmp_path: Path) -> None:
    path = as_npz(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DatasetError, match=r"cannot be read as a .npz archive"):
        load(path)
