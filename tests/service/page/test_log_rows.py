"""The rows of the feedback log on the page, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from oahu.constraints import Pair
from oahu.service.collection import Collection
from oahu.service.page.browser_data import keys_of, log_row, tiles
from oahu.service.page.feedback_log_view import recent_feedback
from oahu.service.records import Click, CollectionConfig, Feedback, NewItem, QueryVector
from oahu.service.service import Service
from oahu.service.settings import Settings

VECTOR = QueryVector(np.ones(3, np.float32).tobytes())


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    service = Service(Settings(data=tmp_path))
    service.open()
    made = service.create(CollectionConfig("things", 3))
    rows = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    made.put_items([NewItem(f"i{at}", row.tobytes()) for at, row in enumerate(rows)]).result()
    yield made
    service.close()


def test_every_kind_of_log_entry_has_a_row(collection: Collection) -> None:
    click = Click(VECTOR, ("i1",), ("i2",), ("i3",))
    collection.add_feedback([Feedback(click, source="ann"), Pair("i0", VECTOR, True)]).result()
    collection.weigh_source("ann", 0.5).result()
    collection.weigh_source("ann", 0).result()
    collection.change_settings({"parameters": {"prior": 1.0}})
    entries = collection.feedback_log.page(0, 10)
    shown = tiles(collection, [key for entry, _ in entries for key in keys_of(entry.change)])
    first, second, *notes = [log_row(entry, active, shown) for entry, active in entries]
    assert first["item"]["key"] == second["similar"][0]["key"] == str(VECTOR)
    assert str(VECTOR).startswith("query vector ")
    assert [one["key"] for one in first["similar"] + first["dissimilar"]] == ["i1", "i2"]
    assert [first["active"], second["active"]] == [False, True]
    assert [row["note"] for row in notes] == [
        "All earlier feedback of ann weighted by 0.5",
        "All earlier feedback of ann undone",
        "Settings changed: parameters",
    ]


def test_recent_feedback_on_an_item_includes_feedback_on_query_vectors(collection: Collection) -> None:
    collection.add_feedback([Pair("i0", VECTOR, True), Click("i0", ("i1",), ())]).result()
    found = recent_feedback(collection, "i0")
    assert (found["i1"].same, found["i1"].seq) == (True, 2)
