"""Tests of CIFAR's binary archives, in greyscale and in colour, intact and damaged."""

from __future__ import annotations

import gzip
import io
import tarfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu import DatasetError
from oahu.evaluation.datasets import load
from oahu.evaluation.datasets.grey import grey

RNG = np.random.default_rng(7)


def batch(n: int, n_classes: int) -> tuple[Any, Any]:
    return RNG.integers(256, size=(n, 3072), dtype=np.uint8), RNG.integers(n_classes, size=n)


CIFAR_10 = {f"cifar-10-batches-bin/data_batch_{number}.bin": batch(number, 10) for number in range(1, 6)}
CIFAR_10["cifar-10-batches-bin/test_batch.bin"] = batch(4, 10)
CIFAR_100 = {"cifar-100-binary/train.bin": batch(6, 100), "cifar-100-binary/test.bin": batch(3, 100)}
PATHS = {"cifar10-gray": "cifar10-gray/cifar-10-binary.tar.gz", "cifar100": "cifar100/cifar-100-binary.tar.gz"}


def records(data: Any, labels: Any, coarse: bool) -> bytes:
    """Return the published format, byte by byte: the labels of an image, then its pixels."""
    content = bytearray()
    for image, label in zip(data, labels, strict=True):
        content += bytes([label % 20, label] if coarse else [label]) + image.tobytes()
    return bytes(content)


def members(name: str) -> dict[str, bytes]:
    """Return the files of an archive, not in the order of their numbers."""
    batches = CIFAR_10 if name == "cifar10-gray" else CIFAR_100
    folder = next(iter(batches)).partition("/")[0]
    packed = {member: records(*content, name == "cifar100") for member, content in batches.items()}
    return {f"{folder}/readme.html": b"<html>", **dict(reversed(packed.items()))}


def tar(contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def write_archive(home: Path, name: str, content: bytes) -> None:
    path = home / PATHS[name]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def error_of(home: Path, name: str) -> str:
    """Return the error message for an archive that cannot be read."""
    with pytest.raises(DatasetError) as caught:
        load(name, home)
    assert str(caught.value).startswith(str(home / PATHS[name]))
    return str(caught.value)


# -- reading ---------------------------------------------------------------------------------------------


def test_cifar_10_is_converted_to_greyscale(tmp_path: Path) -> None:
    write_archive(tmp_path, "cifar10-gray", tar(members("cifar10-gray")))
    dataset = load("cifar10-gray", tmp_path)
    colours = np.concatenate([data for data, _ in CIFAR_10.values()]).astype(int)
    red, green, blue = colours[:, :1024], colours[:, 1024:2048], colours[:, 2048:]
    assert dataset.X.dtype == np.uint8
    assert dataset.X.tolist() == ((4899 * red + 9617 * green + 1868 * blue + 8192) >> 14).tolist()
    assert dataset.y.dtype == np.int64
    assert dataset.y.tolist() == [label for _, labels in CIFAR_10.values() for label in labels]
    assert dataset.is_train is not None
    assert dataset.is_train.tolist() == [True] * 15 + [False] * 4
    assert (dataset.scaling, dataset.image_shape) == ("range", (32, 32))


def test_cifar_100_without_features_has_pixels_and_fine_labels(tmp_path: Path) -> None:
    write_archive(tmp_path, "cifar100", tar(members("cifar100")))
    dataset = load("cifar100", tmp_path)
    assert dataset.X.shape == (9, 3072)
    assert dataset.image_shape == (32, 32, 3)
    data = np.concatenate([data for data, _ in CIFAR_100.values()])
    for colour in range(3):
        plane = data[:, 1024 * colour : 1024 * (colour + 1)]
        assert np.array_equal(dataset.X.reshape(9, 32, 32, 3)[..., colour], plane.reshape(9, 32, 32))
    assert dataset.y.tolist() == [label for _, labels in CIFAR_100.values() for label in labels]
    assert dataset.is_train is not None
    assert dataset.is_train.tolist() == [True] * 6 + [False] * 3
    assert dataset.scaling == "range"


# -- greyscale -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("colour", "expected"),
    [
        ((0, 0, 0), 0),
        ((255, 255, 255), 255),
        ((255, 0, 0), 76),  # 76.245
        ((0, 255, 0), 150),  # 149.685
        ((0, 0, 255), 29),  # 29.07
        ((1, 1, 1), 1),
        ((10, 20, 30), 18),  # 18.15
        ((200, 100, 50), 124),  # 124.2
    ],
)
def test_grey_matches_a_hand_calculation(colour: tuple[int, int, int], expected: int) -> None:
    assert grey(np.array(colour, dtype=np.uint8).reshape(1, 3, 1)).tolist() == [[expected]]


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_grey_is_the_rounded_luminance(colour: tuple[int, int, int]) -> None:
    weights = Fraction(299, 1000), Fraction(587, 1000), Fraction(114, 1000)
    exact = sum(weight * value for weight, value in zip(weights, colour, strict=True))
    (value,) = grey(np.array(colour, dtype=np.uint8).reshape(1, 3, 1))[0].tolist()
    assert abs(value - exact) <= Fraction(51, 100)


def test_grey_does_not_depend_on_the_number_of_images() -> None:
    images = RNG.integers(256, size=(9000, 3, 2), dtype=np.uint8)
    assert np.array_equal(grey(images), np.concatenate([grey(images[:4500]), grey(images[4500:])]))


# -- damaged archives ------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 1, 15, 100, 0.3, 0.9, -9, -1])
def test_truncated_archive_is_rejected(tmp_path: Path, left: float) -> None:
    archive = tar(members("cifar10-gray"))
    write_archive(tmp_path, "cifar10-gray", archive[: int(left * len(archive)) if 0 < left < 1 else int(left)])
    assert "damaged or incomplete" in error_of(tmp_path, "cifar10-gray")


@pytest.mark.parametrize("where", [0.2, 0.5, 0.8])
def test_changed_byte_is_detected(tmp_path: Path, where: float) -> None:
    archive = bytearray(tar(members("cifar10-gray")))
    archive[int(where * len(archive))] ^= 1
    write_archive(tmp_path, "cifar10-gray", bytes(archive))
    error_of(tmp_path, "cifar10-gray")


def test_data_after_the_archive_is_rejected(tmp_path: Path) -> None:
    write_archive(tmp_path, "cifar10-gray", tar(members("cifar10-gray")) + gzip.compress(bytes(3_000_000)))
    assert "data follows the end of the archive" in error_of(tmp_path, "cifar10-gray")


def test_huge_member_is_not_read(tmp_path: Path) -> None:
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.size = 1 << 40
    write_archive(tmp_path, "cifar10-gray", gzip.compress(member.tobuf() + bytes(10_240)))
    assert "but CIFAR has fewer than" in error_of(tmp_path, "cifar10-gray")


def test_missing_member_is_named(tmp_path: Path) -> None:
    contents = members("cifar10-gray")
    del contents["cifar-10-batches-bin/data_batch_3.bin"]
    write_archive(tmp_path, "cifar10-gray", tar(contents))
    message = error_of(tmp_path, "cifar10-gray")
    assert "does not contain cifar-10-batches-bin/data_batch_3.bin" in message


def test_link_is_not_followed(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in CIFAR_100:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
            archive.addfile(link)
    write_archive(tmp_path, "cifar100", packed.getvalue())
    assert "does not contain" in error_of(tmp_path, "cifar100")


IMAGE = bytes(3072)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "its size must be a multiple of 3,074 bytes, but it has 0 bytes"),
        (b"\0\1" + IMAGE[1:], "its size must be a multiple of 3,074 bytes, but it has 3,073 bytes"),
        (b"\1" + IMAGE, "its size must be a multiple of 3,074 bytes, but it has 3,073 bytes"),
        (b"\0\1" + IMAGE + b"\0\x64" + IMAGE, "labels must be 0 to 99, but image 1 has label 100"),
    ],
)
def test_damaged_batch_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    contents = members("cifar100") | {"cifar-100-binary/test.bin": content}
    write_archive(tmp_path, "cifar100", tar(contents))
    message = error_of(tmp_path, "cifar100")
    assert ", cifar-100-binary/test.bin cannot be read" in message
    assert problem in message
