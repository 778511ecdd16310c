"""Tests of LFW: attributes, pairs, and pairs without attributes."""

from __future__ import annotations

import gzip
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu import DatasetError
from oahu.evaluation.datasets import Dataset, load

IMAGES = [
    ("Ann Lee", 1),
    ("Ann Lee", 2),
    ("Ann Lee", 13),
    ("Bo", 1),
    ("Bo", 2),
    ("Cy de la Z", 1),
    ("Cy de la Z", 4),
]
VALUES = np.round(np.random.default_rng(1).normal(size=(len(IMAGES), 73)), 6)
FOLDS = "2\t1\nAnn_Lee\t1\t13\nBo\t2\tCy_de_la_Z\t4\nBo\t1\t2\nAnn_Lee\t2\tBo\t1\n"
TRAIN = "2\nAnn_Lee\t1\t2\nBo\t1\t2\nAnn_Lee\t1\tBo\t2\nBo\t1\tCy_de_la_Z\t1\n"
TEST = "1\nCy_de_la_Z\t1\t4\nAnn_Lee\t13\tBo\t1\n"


def attributes(images: Any = IMAGES, values: Any = VALUES) -> str:
    lines = ["# LFW attributes", "#\tperson\timagenum\t" + "\t".join(f"Trait {i}" for i in range(73))]
    for (person, image), row in zip(images, values, strict=True):
        lines.append("\t".join([person, str(image), *(repr(float(value)) for value in row)]))
    return "\n".join(lines) + "\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "lfw"
    folder.mkdir()
    (folder / "lfw_attributes.txt").write_text(attributes())
    (folder / "pairs.txt").write_text(FOLDS)
    (folder / "pairsDevTrain.txt").write_text(TRAIN)
    (folder / "pairsDevTest.txt").write_text(TEST)
    return tmp_path


def named(read: Dataset, fold: Any) -> list[tuple[str, str, bool]]:
    assert read.keys is not None
    rows = zip(fold.pairs, fold.same, strict=True)
    return [(str(read.keys[first]), str(read.keys[second]), bool(same)) for (first, second), same in rows]


def test_attributes_are_read(home: Path) -> None:
    read = load("lfw", home)
    assert read.X.dtype == np.float32
    assert np.array_equal(read.X, VALUES.astype(np.float32))
    assert read.keys is not None
    assert read.keys.tolist()[:4] == ["Ann_Lee_0001", "Ann_Lee_0002", "Ann_Lee_0013", "Bo_0001"]
    assert read.y.tolist() == ["Ann_Lee"] * 3 + ["Bo"] * 2 + ["Cy_de_la_Z"] * 2
    assert (read.scaling, read.is_train, read.image_shape) == ("standard", None, None)


def test_views_have_the_official_pairs(home: Path) -> None:
    read = load("lfw", home)
    assert read.views is not None
    assert [named(read, fold) for fold in read.views.folds] == [
        [("Ann_Lee_0001", "Ann_Lee_0013", True), ("Bo_0002", "Cy_de_la_Z_0004", False)],
        [("Bo_0001", "Bo_0002", True), ("Ann_Lee_0002", "Bo_0001", False)],
    ]
    train, test = (named(read, fold) for fold in read.views.development)
    assert train == [
        ("Ann_Lee_0001", "Ann_Lee_0002", True),
        ("Bo_0001", "Bo_0002", True),
        ("Ann_Lee_0001", "Bo_0002", False),
        ("Bo_0001", "Cy_de_la_Z_0001", False),
    ]
    assert test == [("Cy_de_la_Z_0001", "Cy_de_la_Z_0004", True), ("Ann_Lee_0013", "Bo_0001", False)]
    assert [fold.n_missing for fold in (*read.views.development, *read.views.folds)] == [0, 0, 0, 0]
    assert len(read.views.pairs) == 10


def test_pairs_without_attributes_are_counted(home: Path) -> None:
    remaining = [place for place, image in enumerate(IMAGES) if image != ("Bo", 2)]
    text = attributes([IMAGES[place] for place in remaining], VALUES[remaining])
    (home / "lfw" / "lfw_attributes.txt").write_text(text)
    read = load("lfw", home)
    assert read.views is not None
    assert [fold.n_missing for fold in (*read.views.development, *read.views.folds)] == [2, 0, 1, 1]
    assert [len(fold) for fold in (*read.views.development, *read.views.folds)] == [2, 2, 1, 1]
    assert [named(read, fold) for fold in read.views.folds] == [
        [("Ann_Lee_0001", "Ann_Lee_0013", True)],
        [("Ann_Lee_0002", "Bo_0001", False)],
    ]


def test_gzipped_attributes_are_equal(home: Path) -> None:
    expected = load("lfw", home)
    path = home / "lfw" / "lfw_attributes.txt"
    (home / "lfw" / "lfw_attributes.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    read = load("lfw", home)
    assert np.array_equal(read.X, expected.X)
    assert read.y.tolist() == expected.y.tolist()


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_line_endings_do_not_matter(home: Path, ending: str) -> None:
    expected = load("lfw", home)
    for path in (home / "lfw").iterdir():
        path.write_bytes((path.read_text() + "\n").replace("\n", ending).encode())
    assert np.array_equal(load("lfw", home).X, expected.X)


FIRST = "Ann Lee\t1\t"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("#\tperson", "#\tname", "its second line must contain the column names"),
        (FIRST, f"{FIRST}0.5\t", "line 3 must have 75 columns, but it has 76"),
        (FIRST, "Ann Lee\tone\t", "line 3 must have a person and an image number, but it has 'Ann_Lee' and 'one'"),
        (FIRST, "\t1\t", "line 3 must have a person and an image number, but it has '' and '1'"),
        (repr(float(VALUES[1, 3])), "a lot", "line 4: could not convert string to float: 'a lot'"),
        (repr(float(VALUES[1, 3])), "nan", "line 4: the values must be finite"),
        ("Ann Lee\t2\t", FIRST, "it contains the image Ann_Lee_0001 2 times"),
    ],
)
def test_error_in_attributes_is_named(home: Path, old: str, new: str, problem: str) -> None:
    path = home / "lfw" / "lfw_attributes.txt"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DatasetError) as caught:
        load("lfw", home)
    assert str(caught.value).startswith(f"{path} cannot be read: {problem}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "its second line must contain the column names"),
        (b"<html>\n<body>moved</body>\n</html>", "its second line must contain the column names"),
        (attributes([], []).encode(), "it has no items"),
        (attributes().encode()[:-40], "line 9 must have 75 columns"),
        (attributes().encode("utf-16"), "it is not UTF-8 text"),
    ],
)
def test_other_files_are_rejected(home: Path, content: bytes, problem: str) -> None:
    (home / "lfw" / "lfw_attributes.txt").write_bytes(content)
    with pytest.raises(DatasetError, match=problem):
        load("lfw", home)


@pytest.mark.parametrize(
    "content",
    [gzip.compress(attributes().encode())[:-30], attributes().encode(), b""],
    ids=["cut", "not packed", "empty"],
)
def test_damaged_gzip_is_rejected(home: Path, content: bytes) -> None:
    (home / "lfw" / "lfw_attributes.txt").unlink()
    (home / "lfw" / "lfw_attributes.txt.gz").write_bytes(content)
    with pytest.raises(DatasetError, match=r"lfw_attributes\.txt\.gz cannot be read"):
        load("lfw", home)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("pairs.txt", "", "its first line must have the number of folds"),
        ("pairs.txt", "two\t1\n", "its first line must have the number of folds"),
        ("pairs.txt", FOLDS.replace("2\t1", "0\t1", 1), "its first line must have the number of folds"),
        ("pairs.txt", FOLDS.replace("2\t1", "2\t1\t1", 1), "its first line must have the number of folds"),
        ("pairs.txt", FOLDS.replace("2\t1", "10\t300", 1), "states 10 x 2 x 300 pairs, but 4 lines follow"),
        ("pairs.txt", FOLDS[:-15], "states 2 x 2 x 1 pairs, but 3 lines follow"),
        ("pairs.txt", FOLDS[:-7], "line 5 must be a person, an image, another person and an image"),
        ("pairs.txt", FOLDS.replace("\t1\t13", "\t13", 1), "line 2 must be a person and two images"),
        ("pairs.txt", FOLDS.replace("\t1\t13", "\t1\tx", 1), "line 2 must have a person and an image number"),
        ("pairsDevTrain.txt", FOLDS, "it must contain one list of pairs, but it contains 2"),
        ("pairsDevTest.txt", TEST + "Bo\t1\t2\n", "states 1 x 2 x 1 pairs, but 3 lines follow"),
    ],
)
def test_error_in_pairs_is_named(home: Path, file: str, content: str, problem: str) -> None:
    (home / "lfw" / file).write_text(content)
    with pytest.raises(DatasetError) as caught:
        load("lfw", home)
    assert str(caught.value).startswith(f"{home / 'lfw' / file} cannot be read")
    assert problem in str(caught.value)


def test_attributes_of_other_images_are_rejected(home: Path) -> None:
    text = attributes([(f"Nobody {place}", 1) for place in range(len(IMAGES))])
    (home / "lfw" / "lfw_attributes.txt").write_text(text)
    with pytest.raises(DatasetError, match=r"None of the images in lines 2 to 5 of .*pairsDevTrain.txt"):
        load("lfw", home)


# -- soft attributes -------------------------------------------------------------------------------------

KEYS = [f"{person.replace(' ', '_')}_{image:04d}" for person, image in IMAGES]


def soft(home: Path, **changed: Any) -> Path:
    chances = np.linspace(0, 1, len(KEYS) * 4).reshape(-1, 4).astype(np.float16)
    path = home / "lfw" / "lfw_facer40.npz"
    np.savez(path, **{"X": chances, "image": np.array(KEYS), **changed})
    return path


def test_soft_attributes_are_logits(home: Path) -> None:
    path = soft(home)
    read = load("lfw-soft", home)
    chances = np.load(path)["X"].astype(float)
    assert read.X.dtype == np.float32
    back = np.array([1 / (1 + exp(-float(value))) for value in read.X.ravel()]).reshape(chances.shape)
    assert np.abs(back - chances).max() < 2**-11
    assert np.array_equal(read.X.ravel(), np.sort(read.X.ravel()))
    assert read.y.tolist() == load("lfw", home).y.tolist()
    assert read.scaling == "standard"


def test_soft_attributes_have_the_same_pairs(home: Path) -> None:
    soft(home)
    first, second = load("lfw", home), load("lfw-soft", home)
    assert first.views is not None
    assert second.views is not None
    assert np.array_equal(first.views.pairs, second.views.pairs)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"X": np.full((7, 4), 1.5)}, "must be probabilities in .0, 1.. Got 1.5 to 1.5"),
        ({"X": np.full((7, 4), np.nan)}, "must be finite float32 numbers. Row 0 contains NaN"),
        ({"X": np.zeros((6, 4))}, "'image' in .* one for each of the 6 items"),
        ({"image": np.array(KEYS[:1] * 7)}, "it contains the image Ann_Lee_0001 7 times"),
    ],
)
def test_error_in_soft_attributes_is_named(home: Path, changed: Any, problem: str) -> None:
    soft(home, **changed)
    with pytest.raises(DatasetError, match=problem):
        load("lfw-soft", home)


def test_soft_attributes_need_image_names(home: Path) -> None:
    np.savez(home / "lfw" / "lfw_facer40.npz", X=np.zeros((2, 3)))
    with pytest.raises(DatasetError, match="must contain an array 'image' with the names"):
        load("lfw-soft", home)
