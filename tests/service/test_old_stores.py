"""Data folders of oahu 0.1.0 are opened with their models, rules and receipts."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from oahu.constraints import Pair, Triplet
from oahu.service.errors import ContradictoryFeedbackError
from oahu.service.records import Click, CollectionConfig, Receipt

TIMEOUT = 600.0  # seconds; only a real hang exceeds it

#: Removes everything from a database that formats 2 and 3 have added.
DOWNGRADE = """
DROP TABLE outcomes;
DROP TABLE orderings;
DROP INDEX log_by_source;
DROP INDEX query_vectors;
DROP TABLE contradictions;
DROP TABLE refusals;
ALTER TABLE log DROP COLUMN weight;
ALTER TABLE log DROP COLUMN source;
ALTER TABLE receipts DROP COLUMN details;
PRAGMA user_version = 1;
"""


def downgrade(folder: Path) -> None:
    """Change a database to format 1, with the settings as oahu 0.1.0 stored them."""
    database = sqlite3.connect(folder / "oahu.db")
    database.executescript(DOWNGRADE)
    for id_, text in database.execute("SELECT id, config FROM collections").fetchall():
        config = json.loads(text)
        del config["revision"]
        config["contradictions"] = {"refuse": "reject"}.get(config["contradictions"], config["contradictions"])
        database.execute("UPDATE collections SET config = ? WHERE id = ?", (json.dumps(config), id_))
    database.commit()
    database.close()


@pytest.mark.parametrize("policy", ["refuse", "newest"])
@pytest.mark.parametrize("keep_snapshots", [True, False])
def test_a_store_of_the_first_format_is_upgraded(
    open_service: Any, items: Any, settings: Any, policy: Any, keep_snapshots: bool
) -> None:
    service = open_service()
    config = CollectionConfig("things", 4, "AnchoredOAHU", {"n_random": 8}, closure=1, contradictions=policy)
    collection = service.create(config)
    collection.put_items(items(10)).result(TIMEOUT)
    collection.add_feedback([Triplet("i0", "i2", "i1"), Click("i3", ("i5",), ("i4",))], "key").result(TIMEOUT)
    collection.add_feedback([Pair("i6", "i8", True)]).result(TIMEOUT)
    collection.undo(1).result(TIMEOUT)
    collection.learner.wait_for(4, TIMEOUT)
    before = collection.learner.model_file()
    service.close()
    downgrade(settings.data)
    if not keep_snapshots:
        shutil.rmtree(settings.data / "snapshots")

    collection = open_service().collection("things")
    assert collection.learner.model_file() == before
    assert collection.config == config
    again = collection.add_feedback([Triplet("i0", "i2", "i1"), Click("i3", ("i5",), ("i4",))], "key")
    assert again.result(TIMEOUT) == Receipt(1, 2, replayed=True)
    contradiction = collection.add_feedback([Pair("i6", "i8", False)])
    if policy == "refuse":
        with pytest.raises(ContradictoryFeedbackError):
            contradiction.result(TIMEOUT)
    else:
        assert contradiction.result(TIMEOUT) == Receipt(5, 5)
