"""Tests of prepared .npz archives in the data folder."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oahu import DatasetError
from oahu.evaluation.datasets import load
from oahu.evaluation.datasets.prepared import features_of

RNG = np.random.default_rng(5)
X = RNG.normal(size=(6, 4)).astype(np.float32)
Y = np.array([0, 1, 2, 0, 1, 2], dtype=np.int16)
IS_TRAIN = np.array([True, False, True, True, False, False])


def test_cars196_has_features_and_split(tmp_path: Path) -> None:
    np.savez(tmp_path / "cars196-features.npz", X=X, y=Y, is_train=IS_TRAIN)
    read = load("cars196", tmp_path)
    assert read.X.dtype == np.float32
    assert np.array_equal(read.X, X)
    assert read.y.dtype == np.int64
    assert read.y.tolist() == Y.tolist()
    assert read.is_train is not None
    assert read.is_train.tolist() == IS_TRAIN.tolist()
    assert (read.name, read.scaling, read.image_shape, read.keys) == ("cars196", "unit", None, None)


@given(
    arrays(np.uint8, (3, 2)),
    arrays(np.float32, 2, elements=st.floats(-100, 100, width=32)),
    arrays(np.float32, 2, elements=st.floats(0, 100, width=32)),
)
def test_features_in_8_bits(Q: Any, low: Any, step: Any) -> None:
    made = features_of({"Q": Q, "low": low, "step": step}, Path("file.npz"))
    assert made.dtype == np.float32
    exact = [[float(low[j]) + int(Q[i, j]) * float(step[j]) for j in range(2)] for i in range(3)]
    assert np.allclose(made, exact, rtol=1e-6, atol=1e-2)


def test_cifar_100_prefers_features(tmp_path: Path) -> None:
    (tmp_path / "cifar100").mkdir()
    (tmp_path / "cifar100" / "cifar-100-python.tar.gz").write_bytes(b"not read")
    Q = RNG.integers(256, size=(6, 2), dtype=np.uint8)
    low, step = np.float32([1, 2]), np.float32([0.5, 0.25])
    np.savez(tmp_path / "cifar100-features.npz", Q=Q, low=low, step=step, y=Y)
    read = load("cifar100", tmp_path)
    assert read.X.tolist() == (np.array([1, 2]) + Q * np.array([0.5, 0.25])).tolist()  # exact in binary
    assert (read.scaling, read.is_train) == ("unit", None)


@pytest.mark.parametrize(("name", "file"), [("cifar10-gray", "cifar10-gray"), ("cifar100", "cifar100-features")])
def test_complete_cifar_has_the_official_split(tmp_path: Path, name: str, file: str) -> None:
    images = np.zeros((60_000, 1024), dtype=np.uint8)
    np.savez_compressed(tmp_path / f"{file}.npz", X=images, y=np.zeros(60_000, dtype=np.uint8))
    read = load(name, tmp_path)
    assert read.is_train is not None
    assert np.flatnonzero(read.is_train).tolist() == list(range(50_000))


def test_image_folder_belongs_to_the_data_set(tmp_path: Path) -> None:
    np.savez(tmp_path / "cars196-features.npz", X=np.eye(3, dtype=np.float32), y=[0, 1, 1], image=["a", "b", "c"])
    assert load("cars196", tmp_path).image_folder is None
    (tmp_path / "cars196" / "images").mkdir(parents=True)
    cars = load("cars196", tmp_path)
    assert cars.image_folder == tmp_path / "cars196" / "images"
    assert cars.keys is not None
    assert cars.keys.tolist() == ["a", "b", "c"]


def test_split_in_the_archive_takes_precedence(tmp_path: Path) -> None:
    np.savez(tmp_path / "cifar10-gray.npz", X=np.zeros((6, 1024), np.uint8), y=Y, is_train=IS_TRAIN)
    read = load("cifar10-gray", tmp_path)
    assert read.is_train is not None
    assert read.is_train.tolist() == IS_TRAIN.tolist()
    assert (read.scaling, read.image_shape, read.X.dtype) == ("range", (32, 32), np.uint8)


@pytest.mark.parametrize("images", [np.zeros((6, 1024)), np.zeros((6, 3072), np.uint8)])
def test_grey_cifar_rejects_other_arrays(tmp_path: Path, images: Any) -> None:
    np.savez(tmp_path / "cifar10-gray.npz", X=images, y=Y)
    with pytest.raises(DatasetError, match=r"must be greyscale images: uint8 of shape \(n_items, 1024\)"):
        load("cifar10-gray", tmp_path)


BYTES = np.zeros((6, 4), np.uint8)
ONES = np.ones(4, np.float32)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            {"y": Y},
            "must contain the features as an array 'X', or as arrays 'Q', 'low' and 'step'. It contains 'y'",
        ),
        ({"Z": X}, "It contains no array with a known name"),
        ({"Q": BYTES, "low": ONES, "y": Y}, "or as arrays 'Q', 'low' and 'step'. It contains 'Q', 'low', 'y'"),
        ({"X": X}, "must contain the labels as an array 'y'. It contains 'X'"),
        ({"X": X[0], "y": Y}, "'X' in .* must be a numeric array of shape"),
        ({"X": X[:, :0], "y": Y}, "'X' in .* must be a numeric array of shape"),
        ({"X": X.astype(str), "y": Y}, "'X' in .* must be a numeric array of shape"),
        ({"X": X, "y": Y[:5]}, "'y' in .* one for each of the 6 items. Got int16 of shape"),
        ({"X": X, "y": Y + 0.5}, "'y' in .* integers or strings"),
        ({"X": X, "y": Y, "is_train": Y}, "'is_train' in .* must be true or false"),
        ({"X": X, "y": Y, "is_train": IS_TRAIN[:5]}, "'is_train' in .* must be true or false"),
        ({"X": X, "y": Y, "keys": X}, "'keys' in .* must be strings or integers"),
        (
            {"X": np.where(np.arange(6)[:, None] == 2, np.inf, X), "y": Y},
            "must be finite float32 numbers. Row 2 contains NaN",
        ),
        ({"X": np.full((6, 4), 1e300), "y": Y}, "must be finite float32 numbers. Row 0 contains NaN"),
        ({"Q": X, "low": ONES, "step": ONES, "y": Y}, "'Q' in .* must be a uint8 array"),
        ({"Q": BYTES, "low": ONES[:3], "step": ONES, "y": Y}, r"'low' in .* must be a float array of shape \(4,\)"),
        ({"Q": BYTES, "low": ONES, "step": ONES.astype(str), "y": Y}, "'step' in .* must be a float array"),
        ({"Q": BYTES, "low": ONES * np.nan, "step": ONES, "y": Y}, "must be finite float32 numbers"),
        ({"X": np.array([[Path()]]), "y": Y}, "cannot be read as a .npz archive"),
    ],
)
def test_error_names_file_and_problem(tmp_path: Path, content: dict[str, Any], problem: str) -> None:
    path = tmp_path / "cars196-features.npz"
    np.savez(path, **content)
    with pytest.raises(DatasetError, match=problem) as caught:
        load("cars196", tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_truncated_archive_is_rejected(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "cars196-features.npz"
    np.savez(path, X=X, y=Y)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if keep < 1 else int(keep)])
    with pytest.raises(DatasetError, match=r"cannot be read as a .npz archive"):
        load("cars196", tmp_path)


def test_encrypted_archive_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "cars196-features.npz"
    np.savez(path, X=X, y=Y)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="encrypted"):
        load("cars196", tmp_path)


@pytest.mark.parametrize("write", [lambda file: np.save(file, X), lambda file: pickle.dump({"X": 1}, file)])
def test_other_files_are_rejected(tmp_path: Path, write: Any) -> None:
    with (tmp_path / "cars196-features.npz").open("wb") as file:
        write(file)
    with pytest.raises(DatasetError, match=r"cannot be read as a .npz archive"):
        load("cars196", tmp_path)


@given(st.data())
def test_changed_byte_is_an_error_or_has_no_effect(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "cars196-features.npz"
    np.savez(path, X=X, y=Y)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        read = load("cars196", path.parent)
    except DatasetError:
        return
    assert np.array_equal(read.X, X)
    assert read.y.tolist() == Y.tolist()
