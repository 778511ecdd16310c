"""Data folders of every earlier store format are opened with their models, rules and receipts."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from oahu.constraints import Pair, Triplet
from oahu.service.errors import ContradictoryFeedbackError
from oahu.service.records import Click, CollectionConfig, Receipt
from oahu.service.store.sqlite import _FORMAT, _SCHEMA, DATABASE

TIMEOUT = 600.0  # seconds; only a real hang exceeds it

#: Scripts that remove everything from a database that a store format has added.
DOWNGRADES = {
    3: "DROP TABLE texts; DROP TABLE encoders; PRAGMA user_version = 2;",
    2: """
DROP INDEX log_by_source;
DROP INDEX query_vectors;
DROP TABLE contradictions;
DROP TABLE refusals;
ALTER TABLE log DROP COLUMN weight;
ALTER TABLE log DROP COLUMN source;
ALTER TABLE receipts DROP COLUMN details;
PRAGMA user_version = 1;
""",
}


def downgrade(folder: Path, version: int) -> None:
    """Change a database to an earlier format, with the settings as they were stored in this format."""
    database = sqlite3.connect(folder / "oahu.db")
    for from_version in range(_FORMAT, version, -1):
        database.executescript(DOWNGRADES[from_version])
    for id_, text in database.execute("SELECT id, config FROM collections").fetchall():
        config = json.loads(text)
        del config["encoder"]
        if version == 1:
            del config["revision"]
            config["contradictions"] = {"refuse": "reject"}.get(config["contradictions"], config["contradictions"])
        database.execute("UPDATE collections SET config = ? WHERE id = ?", (json.dumps(config), id_))
    database.commit()
    database.close()


def schema(path: Path) -> list[Any]:
    """The columns and indexes of all tables of a database."""
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [
            (
                name,
                *(database.execute(f"PRAGMA {what}({name})").fetchall() for what in ("table_info", "index_list")),
            )
            for name in sorted(names)
        ]


def test_the_first_format_is_that_of_oahu_0_1_0(open_store: Any, tmp_path: Path) -> None:
    open_store().close()
    downgrade(tmp_path / "data", 1)
    with closing(sqlite3.connect(tmp_path / "first.db")) as database:
        database.executescript(_SCHEMA)
    assert schema(tmp_path / "data" / DATABASE) == schema(tmp_path / "first.db")


@pytest.mark.parametrize("version", range(1, _FORMAT))
def test_a_migrated_store_has_the_tables_of_a_new_store(open_store: Any, tmp_path: Path, version: int) -> None:
    for name in ("data", "new"):
        open_store(name).close()
    downgrade(tmp_path / "data", version)
    open_store().close()
    assert schema(tmp_path / "data" / DATABASE) == schema(tmp_path / "new" / DATABASE)


@pytest.mark.parametrize("version", range(1, _FORMAT))
@pytest.mark.parametrize("policy", ["refuse", "newest"])
@pytest.mark.parametrize("keep_snapshots", [True, False])
def test_a_store_of_an_earlier_format_is_migrated(
    open_service: Any, items: Any, settings: Any, policy: Any, keep_snapshots: bool, version: int
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
    downgrade(settings.data, version)
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
