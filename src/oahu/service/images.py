"""Functions for images: decode an image in a request, detect its type, and encode an image as PNG."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.service.errors import InvalidRequestError

__all__ = ["decode_image", "encode_png", "image_type"]


def image_type(data: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, WebP or GIF image, or None for other data.

    The service rejects other formats, because some of them (such as SVG) can contain scripts.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return "image/gif" if data[:6] in (b"GIF87a", b"GIF89a") else None


def decode_image(text: str, where: str) -> bytes:
    """Return the content of an image file in base64. ``where`` is the name of the request field in errors."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidRequestError(f"{where} is not valid base64 ({error}).", where=where) from error
    if image_type(data) is None:
        raise InvalidRequestError(f"{where} must be a PNG, JPEG, WebP or GIF image.", where=where)
    return data


def encode_png(grey: NDArray[Any]) -> bytes:
    """Return a grey image as the content of a PNG file.

    Parameters
    ----------
    grey : ndarray of shape (height, width)
        0 is black, 255 is white.

    >>> image_type(encode_png(np.zeros((2, 3))))
    'image/png'
    """
    pixels = np.clip(np.round(grey), 0, 255).astype(np.uint8)
    height, width = pixels.shape
    lines = np.hstack([np.zeros((height, 1), np.uint8), pixels])  # every line starts with its filter type, 0 (none)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
