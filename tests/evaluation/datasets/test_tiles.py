"""Tests of the tiles: their pictures, features and labelings."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from oahu.evaluation.datasets import Dataset, load
from oahu.evaluation.datasets.tiles import COLOURS, SHAPES, SIZES, draw_tiles


@pytest.fixture(scope="module")
def drawn() -> Dataset:
    return load("tiles")


def test_tiles_are_always_the_same(drawn: Dataset) -> None:
    again = load("tiles")
    assert again.digest == drawn.digest
    assert np.array_equal(again.images, drawn.images)


def test_every_combination_of_names_occurs(drawn: Dataset) -> None:
    names = {tuple(row) for row in np.column_stack([drawn.labelings[name] for name in ("shape", "colour", "size")])}
    assert names == {(shape, colour, size) for shape in SHAPES for colour in COLOURS for size in SIZES}


@pytest.mark.parametrize("name", ["shape", "colour", "size"])
def test_labeling_changes_only_the_labels(drawn: Dataset, name: str) -> None:
    chosen = load(f"tiles:{name}")
    assert np.array_equal(chosen.y, drawn.labelings[name])
    assert np.array_equal(chosen.X, drawn.X)


def test_features_are_principal_components_of_the_pictures(drawn: Dataset) -> None:
    pixels = drawn.images.reshape(len(drawn), -1) / 255
    expected = PCA(64, svd_solver="full").fit_transform(pixels)
    assert np.allclose(np.abs(drawn.X), np.abs(expected), atol=1e-4)


class Still:
    """Random generator whose numbers are all 0."""

    def normal(self, size: object) -> np.ndarray:
        return np.zeros(size)


def area(shape: str, size: str) -> float:
    """Return the share of a picture that a tile without random differences covers."""
    picture = draw_tiles(*(np.array([at]) for at in (SHAPES.index(shape), 0, SIZES.index(size))), Still())[
        0, ..., 0
    ]
    background, colour = round(255 * 0.1), round(255 * 0.82)
    return float((picture.astype(float) - background).mean() / (colour - background))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("disc", np.pi),
        ("square", 4 * 0.86**2),
        ("triangle", 0.56 * 1.7**2),
        ("diamond", 2 * 1.1**2),
        ("cross", 2 * 4 * 0.33 - 4 * 0.33**2),
        ("ring", np.pi * (1 - 0.55**2)),
    ],
)
@pytest.mark.parametrize(("size", "radius"), [("small", 0.5), ("medium", 0.62), ("large", 0.76)])
def test_shapes_have_the_area_of_the_formula(shape: str, expected: float, size: str, radius: float) -> None:
    assert area(shape, size) == pytest.approx(expected * radius**2 / 4, rel=0.08)


@pytest.mark.parametrize(
    ("colour", "expected"), [("red", [209, 125, 125]), ("yellow", [181, 181, 97]), ("green", [125, 209, 125])]
)
def test_centre_of_a_disc_has_the_colour(colour: str, expected: list[int]) -> None:
    picture = draw_tiles(*(np.array([at]) for at in (0, COLOURS.index(colour), 2)), Still())[0]
    assert picture[6, 6].tolist() == expected
    assert picture[0, 0].tolist() == [26, 26, 26]
