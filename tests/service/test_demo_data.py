"""Demo collections: images as items, with their pixels as features."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from matplotlib import image

from oahu.service import demo_data
from oahu.service.service import Service

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 3, 5))
LABELS = np.array([0, 1, 2, 0, 1, 2, 0])
NAMES = ["shirt", "coat", "bag"]


@pytest.fixture
def collection(service: Service, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(demo_data, "_BATCH", 3)
    demo_data.create_image_collection(service, "pictures", IMAGES, LABELS, NAMES)
    return service.collection("pictures")


def test_every_image_is_an_item_with_its_label(collection: Any) -> None:
    found = collection.catalogue.page(0, 100)
    assert [item.key for item in found] == [f"pictures-{at:05d}" for at in range(7)]
    assert [item.label for item in found] == [NAMES[label] for label in LABELS]
    assert collection.queries.index.n_items == 7


def test_the_features_of_an_image_are_its_pixels(collection: Any) -> None:
    numbers = [item.number for item in collection.catalogue.page(0, 100)]
    np.testing.assert_allclose(collection.catalogue.features.take(numbers) * 255, IMAGES.reshape(7, -1), atol=1e-4)


def test_a_thumbnail_is_the_enlarged_negative_with_a_white_frame(collection: Any) -> None:
    thumbnail = image.imread(io.BytesIO(collection.catalogue.thumbnail("pictures-00002")), format="png") * 255
    assert thumbnail.shape == (5 * 9, 7 * 9)
    rows, columns = (
        np.round(np.linspace(0, n * 9 - 1, n)).astype(int) for n in (5, 7)
    )  # the centres of the enlarged pixels
    pixels = thumbnail[np.ix_(rows, columns)]
    assert np.corrcoef(pixels[1:-1, 1:-1].ravel(), 255 - IMAGES[2].ravel())[0, 1] > 0.95
    assert min(pixels[0].min(), pixels[-1].min(), pixels[:, 0].min(), pixels[:, -1].min()) > 240


def test_images_can_be_searched_at_once(collection: Any) -> None:
    assert len(collection.search("pictures-00000", 10).matches) == 6
