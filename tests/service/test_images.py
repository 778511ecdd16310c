"""Thumbnails: encoded PNG files are valid, and image types are detected."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from oahu.service.images import encode_png, image_type

SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 12))


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the chunks of a PNG file. Check their checksums."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, found = 8, []
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + content)
        found.append((kind, content))
        at += 12 + length
    return found


def pixels(data: bytes) -> NDArray[Any]:
    """Decode a PNG file of 8-bit grey values without filters, as the standard defines it."""
    (_, head), (_, packed), _ = chunks(data)
    width, height, *rest = struct.unpack(">IIBBBBB", head)
    assert rest == [8, 0, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


@given(arrays(np.uint8, SHAPES))
def test_a_png_contains_every_pixel(grey: NDArray[Any]) -> None:
    np.testing.assert_array_equal(pixels(encode_png(grey)), grey)


@given(arrays(np.float64, SHAPES, elements=st.floats(-1e3, 1e3)))
def test_values_are_rounded_and_clipped(grey: NDArray[Any]) -> None:
    assert np.abs(pixels(encode_png(grey)) - np.clip(grey, 0, 255)).max() <= 0.5


@given(arrays(np.uint8, SHAPES))
def test_a_png_has_the_required_chunks(grey: NDArray[Any]) -> None:
    assert [kind for kind, _ in chunks(encode_png(grey))] == [b"IHDR", b"IDAT", b"IEND"]


def test_matplotlib_reads_the_same_image() -> None:
    from matplotlib import image

    grey = np.random.default_rng(0).integers(0, 256, (9, 14))
    read = image.imread(io.BytesIO(encode_png(grey)), format="png")
    np.testing.assert_array_equal(np.round(read * 255), grey)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"GIF87a....", "image/gif"),
        (b"GIF89a....", "image/gif"),
    ],
)
def test_images_are_detected_by_their_first_bytes(data: bytes, kind: str) -> None:
    assert image_type(data) == kind


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PN",
        b"GIF88a....",
        b"RIFF\x10\x00\x00\x00WAVEfmt ",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<html><script>alert(1)</script>",
        b" \x89PNG\r\n\x1a\n",
        b"BM....",
    ],
)
def test_other_files_are_not_images(data: bytes) -> None:
    assert image_type(data) is None
