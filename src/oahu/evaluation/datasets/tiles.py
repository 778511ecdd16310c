"""Tiles: small pictures that the project draws itself, with a shape, a colour and a size each."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.source import DatasetSource

__all__ = ["COLOURS", "SHAPES", "SIZES", "SOURCE", "draw_tiles", "tiles"]

Floats = NDArray[np.float64]

SHAPES: Final = ("disc", "square", "triangle", "diamond", "cross", "ring")
COLOURS: Final = ("red", "yellow", "green", "cyan", "blue", "magenta")
SIZES: Final = ("small", "medium", "large")

_N_TILES: Final = 2_000
_N_COMPONENTS: Final = 64
_SIDE: Final = 12  # pixels
_SAMPLES: Final = 4  # per pixel and direction: the mean of the samples smooths the edges of a shape
_SEED: Final = 0

# Red, green and blue of each colour, relative to grey.
_HUES: Final = np.array(
    [[1, -0.5, -0.5], [0.5, 0.5, -1], [-0.5, 1, -0.5], [-1, 0.5, 0.5], [-0.5, -0.5, 1], [0.5, -1, 0.5]]
)
_RADII: Final = np.array([0.5, 0.62, 0.76])  # half of the picture's width is 1
_BACKGROUND: Final = 0.1
_GREY: Final = 0.6
_SATURATION: Final = 0.22

# Standard deviations of the random differences between tiles of the same shape, colour and size. With these values,
# the precision at 10 of the unlearned metric is about .5 for the colour and .7 for the shape.
_POSITION_NOISE: Final = 0.12
_RADIUS_NOISE: Final = 0.03  # relative to the radius
_COLOUR_NOISE: Final = 0.05
_PIXEL_NOISE: Final = 0.05


def tiles() -> Dataset:
    """Return the data set: 2,000 tiles, always the same. The features are the first 64 principal components.

    Two tiles can be alike in three ways: the data set has the labelings ``shape``, ``colour`` and ``size``.

    Examples
    --------
    >>> data = tiles()
    >>> data.X.shape, data.images.shape, list(data.labelings)
    ((2000, 64), (2000, 12, 12, 3), ['shape', 'colour', 'size'])
    """
    rng = np.random.default_rng(_SEED)
    shape, colour, size = (rng.integers(len(names), size=_N_TILES) for names in (SHAPES, COLOURS, SIZES))
    images = draw_tiles(shape, colour, size, rng)
    labelings = {
        "shape": np.array(SHAPES)[shape],
        "colour": np.array(COLOURS)[colour],
        "size": np.array(SIZES)[size],
    }
    X = _principal_components(images.reshape(_N_TILES, -1), _N_COMPONENTS)
    return Dataset("tiles", X, labelings["shape"], scaling="none", labelings=labelings, images=images)


def draw_tiles(
    shape: NDArray[np.integer], colour: NDArray[np.integer], size: NDArray[np.integer], rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Return one picture for each tile, of shape (n, 12, 12, 3), with values from 0 to 255.

    Parameters
    ----------
    shape, colour, size : ndarray of int, of shape (n,)
        Positions in `SHAPES`, `COLOURS` and `SIZES`.
    rng : Generator
        Source of the differences between tiles of the same shape, colour and size: the position, the radius, the
        tone of the colour, and the noise of each pixel.
    """
    n = len(shape)
    radius = _RADII[size] * (1 + _RADIUS_NOISE * rng.normal(size=n))
    centre = _POSITION_NOISE * rng.normal(size=(n, 2))
    tone = _GREY + _SATURATION * _HUES[colour] + _COLOUR_NOISE * rng.normal(size=(n, 3))
    cover = np.empty((n, _SIDE, _SIDE))
    for kind in range(len(SHAPES)):
        own = np.flatnonzero(shape == kind)
        cover[own] = _coverage(kind, radius[own], centre[own])
    pictures = cover[..., None] * tone[:, None, None] + (1 - cover[..., None]) * _BACKGROUND
    pictures += _PIXEL_NOISE * rng.normal(size=pictures.shape)
    return np.asarray(np.rint(255 * pictures.clip(0, 1)), np.uint8)


def _coverage(kind: int, radius: Floats, centre: Floats) -> Floats:
    """Return the share of each pixel that the shape covers, of shape (n, 12, 12)."""
    n_samples = _SIDE * _SAMPLES
    grid = (np.arange(n_samples) + 0.5) / n_samples * 2 - 1
    x = ((grid - centre[:, :1]) / radius[:, None])[:, None, :]
    y = ((grid - centre[:, 1:]) / radius[:, None])[:, :, None]
    inside = _is_inside(SHAPES[kind], x, y)
    return np.asarray(inside.reshape(-1, _SIDE, _SAMPLES, _SIDE, _SAMPLES).mean(axis=(2, 4)))


def _is_inside(shape: str, x: Floats, y: Floats) -> NDArray[np.bool_]:
    """Return whether points lie inside a shape of radius 1. The y axis points downwards."""
    width, height = np.abs(x), np.abs(y)
    inside: dict[str, NDArray[np.bool_]] = {
        "disc": x**2 + y**2 < 1,
        "square": np.maximum(width, height) < 0.86,
        "triangle": (y > -0.8) & (y < 0.9) & (width < 0.56 * (y + 0.8)),
        "diamond": width + height < 1.1,
        "cross": ((width < 0.33) & (height < 1)) | ((height < 0.33) & (width < 1)),
        "ring": (x**2 + y**2 < 1) & (x**2 + y**2 > 0.55**2),
    }
    return inside[shape]


def _principal_components(pixels: NDArray[np.uint8], n_components: int) -> NDArray[np.float32]:
    """Return the first principal components of the pixels, scaled to [0, 1].

    The sign of a component is chosen so that its largest weight is positive. The values are rounded to five
    decimals, so that they do not depend on the number of threads of the linear algebra library.
    """
    centred = pixels / 255 - pixels.mean(axis=0) / 255
    _, directions = np.linalg.eigh(centred.T @ centred)
    basis = directions[:, ::-1][:, :n_components]
    largest = np.abs(basis).argmax(axis=0)
    basis = basis * np.sign(basis[largest, np.arange(n_components)])
    return np.asarray(np.round(centred @ basis, 5), np.float32)


def _read(home: Path) -> Dataset:
    return tiles()


SOURCE: Final = DatasetSource(
    name="tiles",
    title="Tiles, small pictures with a shape, a colour and a size",
    n_items=_N_TILES,
    n_features=_N_COMPONENTS,
    n_classes=len(SHAPES),
    task="retrieval",
    licence="MIT",
    homepage="",
    file_sets=((),),
    read=_read,
    labelings=("shape", "colour", "size"),
)
