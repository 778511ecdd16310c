"""Create a demo collection from images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from oahu.service.images import encode_png
from oahu.service.records import CollectionConfig, NewItem
from oahu.service.service import Service

__all__ = ["create_image_collection"]

_BATCH = 2_000
_THUMBNAIL_WIDTH = 64  # pixels, approximately


def create_image_collection(
    service: Service, name: str, images: NDArray[Any], labels: NDArray[Any], label_names: Sequence[str]
) -> None:
    """Create a collection of grey images. The features of an item are the pixels of its image.

    Parameters
    ----------
    images : ndarray of shape (n_items, height, width)
        The images. 0 is black, 255 is white.
    labels : ndarray of shape (n_items,)
        For each image, the index of its label in ``label_names``.
    """
    n, height, width = images.shape
    zoom = max(1, _THUMBNAIL_WIDTH // (width + 2))
    features = (images.reshape(n, -1) / 255).astype(np.float32)
    collection = service.create(CollectionConfig(name, height * width, closure=8))
    for start in range(0, n, _BATCH):
        items = [
            NewItem(
                key=f"{name}-{at:05d}",
                vector=features[at].tobytes(),
                label=label_names[int(labels[at])],
                payload={"number": at},
                thumbnail=encode_png(255 - ndimage.zoom(np.pad(images[at], 1), zoom, order=3)),
            )
            for at in range(start, min(n, start + _BATCH))
        ]
        collection.put_items(items).result()
    collection.queries.apply_changes()
