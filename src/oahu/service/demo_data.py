"""Real images, to try the service with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from oahu.service.images import encode_png
from oahu.service.records import CollectionConfig, NewItem
from oahu.service.service import Service

__all__ = ["fill"]

_AT_ONCE = 2_000
_WIDTH = 64  # pixels of a thumbnail, about


def fill(service: Service, name: str, images: NDArray[Any], labels: NDArray[Any], names: Sequence[str]) -> None:
    """A collection of grey images, 0 black and 255 white: their pixels are the features."""
    n, height, width = images.shape
    zoom = max(1, _WIDTH // (width + 2))
    rows = (images.reshape(n, -1) / 255).astype(np.float32)
    collection = service.create(CollectionConfig(name, height * width, closure=8))
    for start in range(0, n, _AT_ONCE):
        items = [
            NewItem(
                key=f"{name}-{at:05d}",
                vector=rows[at].tobytes(),
                label=names[int(labels[at])],
                payload={"number": at},
                thumbnail=encode_png(255 - ndimage.zoom(np.pad(images[at], 1), zoom, order=3)),
            )
            for at in range(start, min(n, start + _AT_ONCE))
        ]
        collection.put_items(items).result()
    collection.settle()
