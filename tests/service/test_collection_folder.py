"""Export of a collection to a folder, and import of the folder as an equal collection."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu.constraints import Pair, Triplet
from oahu.exceptions import InvalidInputError
from oahu.service.collection import Collection
from oahu.service.collection_folder import export_collection, import_collection
from oahu.service.errors import ConflictError, InvalidRequestError, StoreBusyError
from oahu.service.images import encode_png
from oahu.service.records import Click, CollectionConfig, Feedback, NewItem, QueryVector
from oahu.service.service import Service

TIMEOUT = 600.0
DIMENSION = 4
PNG = encode_png(np.eye(4) * 255)
GIF = b"GIF89a and more"


def new_items(n: int, seed: int = 0, dtype: str = "float32") -> list[NewItem]:
    """Items with all kinds of content, and unusual keys."""
    rows = np.random.default_rng(seed).normal(size=(n, DIMENSION)).astype(dtype)
    return [
        NewItem(
            f"tea/{at} ä\u2028",
            row.tobytes(),
            ("green", None)[at % 2],
            {"title": f"Tëa {at}", "sizes": [1, 2.5, None]} if at % 3 else None,
            (PNG, GIF, None)[at % 3],
            f"a tea of {at} leaves" if at % 4 == 0 else None,
        )
        for at, row in enumerate(rows)
    ]


def key(at: int) -> str:
    return f"tea/{at} ä\u2028"


def fill(service: Service, name: str = "teas", dtype: str = "float32", **config: Any) -> Collection:
    """Create a collection whose log has clicks, pairs, undos, and feedback on deleted and replaced items."""
    parameters = {"dtype": dtype} if dtype != "float32" else {}
    collection = service.create(CollectionConfig(name, DIMENSION, parameters=parameters, **config))
    collection.put_items(new_items(30, dtype=dtype)).result(TIMEOUT)
    for at in range(0, 20, 2):
        collection.add_feedback([Click(key(at), (key(at + 2),), (key(at + 1), key(at + 3)))]).result(TIMEOUT)
    collection.add_feedback([Pair(key(0), key(25), True), Triplet(key(26), key(27), key(28))]).result(TIMEOUT)
    collection.undo(3).result(TIMEOUT)
    collection.delete_items([key(4), key(29)]).result(TIMEOUT)
    collection.put_items(new_items(3, seed=9, dtype=dtype)).result(TIMEOUT)  # new features for three keys
    collection.add_feedback([Pair(key(0), key(1), False)]).result(TIMEOUT)
    collection.calibrate([(key(6), key(8), True), (key(6), key(7), False)], {"target": "f1"}).result(TIMEOUT)
    return collection


def answers(collection: Collection) -> list[Any]:
    """Searches by keys and by vectors, with all of their results."""
    collection.learner.wait_for(collection.feedback_log.last_seq, TIMEOUT)
    collection.queries.apply_changes()
    collection.refresh_index()
    queries = [key(0), key(6), key(20), np.ones(DIMENSION, np.float32)]
    return [
        [(found, match.distance, relation) for found, match, relation in collection.search(query, 20).matches]
        for query in queries
    ]


def listing(collection: Collection) -> list[Any]:
    return [
        (item, collection.catalogue.thumbnail(item.key), collection.catalogue.vector(item.key).tolist())
        for item in collection.catalogue.page(0, 1000)
    ]


@pytest.mark.parametrize(
    "config",
    [{}, {"closure": 3}, {"learner": "OASIS", "closure": 2}, {"dtype": "float64"}],
    ids=["AnchoredOAHU", "closure", "OASIS", "float64"],
)
def test_an_imported_collection_is_equal(
    open_service: Callable[..., Service], tmp_path: Path, config: dict[str, Any]
) -> None:
    service = open_service()
    collection = fill(service, **config)
    model = (collection.learner.wait_for(14, TIMEOUT), collection.learner.model_file())[1]
    exported = export_collection(service.settings.data, "teas", tmp_path / "out")  # while the service runs
    assert exported == (28, collection.feedback_log.last_seq)
    other = tmp_path / "other"
    assert import_collection(tmp_path / "out", other) == ("teas", *exported)
    imported = open_service(data=other).collection("teas")
    assert (imported.config, imported.created) == (collection.config, collection.created)
    assert answers(imported) == answers(collection)
    assert imported.learner.model_file() == model
    assert listing(imported) == listing(collection)
    assert imported.feedback_log.page(0, 100) == collection.feedback_log.page(0, 100)
    assert imported.queries.calibration == collection.queries.calibration


def test_later_feedback_has_the_same_effect(open_service: Callable[..., Service], tmp_path: Path) -> None:
    service = open_service()
    collection = fill(service, closure=2)
    export_collection(service.settings.data, "teas", tmp_path / "out")
    import_collection(tmp_path / "out", tmp_path / "other")
    imported = open_service(data=tmp_path / "other").collection("teas")
    for one in (collection, imported):
        one.undo(5).result(TIMEOUT)
        one.add_feedback([Click(key(20), (key(22),), (key(1),))]).result(TIMEOUT)
        one.put_items([NewItem("new", np.ones(DIMENSION, np.float32).tobytes())]).result(TIMEOUT)
    assert answers(imported) == answers(collection)


@pytest.mark.parametrize("policy", ["newest", "refuse", "ignore"])
def test_query_vectors_weights_sources_and_settings_are_exported(
    open_service: Callable[..., Service], tmp_path: Path, policy: Any
) -> None:
    service = open_service()
    collection = fill(service, contradictions=policy)
    query = QueryVector(np.float32([0.2, -1, 0.5, 0.1]).tobytes())
    collection.add_feedback(
        [
            Feedback(Click(query, (key(5),), (), (key(6), key(7))), 0.5, "ann"),
            Feedback(Pair(key(10), key(12), True), 1.0, "bob"),
            Feedback(Triplet(query, key(8), key(9)), 0.25, "bob"),
        ]
    ).result(TIMEOUT)
    contradicting = [Feedback(Pair(key(10), key(12), False), 1.0, "eve"), Feedback(Pair(key(1), key(9), True))]
    collection.add_feedback(contradicting).result(TIMEOUT)
    collection.weigh_source("bob", 0.5).result(TIMEOUT)
    collection.change_settings({"closure": 1, "parameters": {"n_random": 8}})
    collection.learner.wait_for(collection.feedback_log.last_seq, TIMEOUT)

    export_collection(service.settings.data, "teas", tmp_path / "out")
    import_collection(tmp_path / "out", tmp_path / "other")
    imported = open_service(data=tmp_path / "other").collection("teas")
    assert imported.feedback_log.page(0, 100) == collection.feedback_log.page(0, 100)
    vector = np.frombuffer(query.data, np.float32)
    for change in ("none", "weight", "undo"):
        for one in (collection, imported):
            if change == "weight":
                one.weigh_source("ann", 0).result(TIMEOUT)
            if change == "undo":
                one.undo(16).result(TIMEOUT)
        assert answers(imported) == answers(collection)
        assert imported.learner.model_file() == collection.learner.model_file()
        assert imported.sources() == collection.sources()
        assert found(imported, vector) == found(collection, vector)
        assert imported.describe()["feedback"] == collection.describe()["feedback"]
    assert (imported.config, imported.config.closure) == (collection.config, 1)
    eve = next(one for one in imported.sources() if one.source == "eve") if policy != "refuse" else None
    assert eve is None or eve.contradicted > 0
    assert {"ann", "bob", "eve"} == {one.source for one in imported.sources()}


def found(collection: Collection, query: Any) -> list[Any]:
    return [(match[0], match[2]) for match in collection.search(query, 20).matches]


def test_a_model_replacement_is_exported(open_service: Callable[..., Service], tmp_path: Path) -> None:
    service = open_service()
    collection = fill(service, learner="OASIS")
    collection.learner.wait_for(14, TIMEOUT)
    collection.replace_model(collection.learner.model_file()).result(TIMEOUT)
    collection.add_feedback([Pair(key(9), key(24), True)]).result(TIMEOUT)
    export_collection(service.settings.data, "teas", tmp_path / "out")
    import_collection(tmp_path / "out", tmp_path / "other")
    imported = open_service(data=tmp_path / "other").collection("teas")
    assert answers(imported) == answers(collection)


def test_the_encoder_and_the_texts_are_exported(open_service: Callable[..., Service], tmp_path: Path) -> None:
    service = open_service()
    collection = fill(service, encoder="lsa")
    vectors = collection.encoder.submit("text", ["green tea", "black coffee"], fit=True).result(TIMEOUT)
    export_collection(service.settings.data, "teas", tmp_path / "out")
    import_collection(tmp_path / "out", tmp_path / "other")
    other = open_service(data=tmp_path / "other")
    imported = other.collection("teas")
    again = imported.encoder.submit("text", ["green tea", "black coffee"]).result(TIMEOUT)
    assert (again == vectors).all()
    assert other.store.texts(imported.id) == service.store.texts(collection.id)


def test_an_import_under_another_name_next_to_the_original(
    open_service: Callable[..., Service], tmp_path: Path
) -> None:
    service = open_service()
    fill(service)
    export_collection(service.settings.data, "teas", tmp_path / "out")
    with pytest.raises(StoreBusyError, match="Stop that service first"):
        import_collection(tmp_path / "out", service.settings.data, "copy")
    service.close()
    with pytest.raises(ConflictError, match="'teas' already exists"):
        import_collection(tmp_path / "out", service.settings.data)
    import_collection(tmp_path / "out", service.settings.data, "copy")
    again = open_service()
    assert answers(again.collection("copy")) == answers(again.collection("teas"))
    assert again.collection("copy").config.name == "copy"


def test_an_export_needs_a_free_folder_and_a_known_collection(
    open_service: Callable[..., Service], tmp_path: Path
) -> None:
    service = open_service()
    fill(service)
    with pytest.raises(InvalidInputError, match=r"no collection 'coffees'.*The collections are: teas"):
        export_collection(service.settings.data, "coffees", tmp_path / "out")
    (tmp_path / "out").mkdir()
    with pytest.raises(InvalidInputError, match="already exists"):
        export_collection(service.settings.data, "teas", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out"]


# -- damaged folders -------------------------------------------------------------------------------------------


@pytest.fixture
def exported(open_service: Callable[..., Service], tmp_path: Path) -> Path:
    """An exported collection."""
    service = open_service()
    fill(service, encoder="lsa").encoder.submit("text", ["green tea"], fit=True).result(TIMEOUT)
    export_collection(service.settings.data, "teas", tmp_path / "out")
    return tmp_path / "out"


def edit_lines(name: str, change: Callable[[list[str]], Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        lines = (folder / name).read_text(encoding="utf-8").split("\n")[:-1]
        change(lines)
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    return edit


def edit_line(name: str, at: int, **fields: Any) -> Callable[[Path], None]:
    def change(lines: list[str]) -> None:
        lines[at] = json.dumps({**json.loads(lines[at]), **fields})

    return edit_lines(name, change)


def edit_head(**fields: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        head = json.loads((folder / "collection.json").read_text())
        head["config"].update(fields.pop("config", {}))
        (folder / "collection.json").write_text(json.dumps({**head, **fields}))

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (edit_lines("items.jsonl", lambda lines: lines.pop()), r"items\.jsonl must have \d+ lines"),
        (edit_lines("feedback.jsonl", lambda lines: lines.pop()), r"feedback\.jsonl must have 14 lines"),
        (edit_lines("feedback.jsonl", lambda lines: lines.pop(0)), r"feedback\.jsonl, line 1: seq must be 1"),
        (edit_lines("items.jsonl", lambda lines: lines.insert(2, "{")), r"items\.jsonl, line 3: "),
        (edit_line("items.jsonl", 1, vector=[1, 2, 3]), r"line 2: the vector must have 4 finite numbers"),
        (edit_line("items.jsonl", 1, vector=[1, 2, 3, 1e300]), r"line 2: the vector must have 4 finite numbers"),
        (edit_line("items.jsonl", 9, key="../up"), r"line 10: .*must not contain"),
        (edit_line("items.jsonl", 1, price=3), r"line 2: "),
        (edit_line("items.jsonl", 1, thumbnail="thumbnails/../../data/oahu.db"), r"not a valid file name"),
        (edit_line("items.jsonl", 1, thumbnail="thumbnails/999.png"), r"line 2: .*No such file"),
        (edit_line("items.jsonl", 3, number=2), r"do not fit together: IntegrityError"),
        (edit_line("feedback.jsonl", 1, change=["vote", 1]), r"line 2: unknown kind of log entry"),
        (edit_line("feedback.jsonl", 1, colour="red"), r"Log entry 2 has the unknown field 'colour'"),
        (edit_line("feedback.jsonl", 1, undos=[[1]]), r"Log entry 2, 'undos': each row must have 2 values"),
        (edit_line("feedback.jsonl", 1, examples="?"), r"feedback\.jsonl, line 2: "),
        (
            edit_line("feedback.jsonl", 1, contradictions=[[1, 2]]),
            r"Log entry 2, 'contradictions': each row must have 1",
        ),
        (edit_line("feedback.jsonl", 1, weight=2), r"feedback\.jsonl, line 2: weight: "),
        (edit_line("feedback.jsonl", 1, source=""), r"feedback\.jsonl, line 2: source: "),
        (edit_head(refusals={"ann": 0}), r"not the head of an exported collection"),
        (edit_head(format=7), r"has format 7"),
        (edit_head(config={"name": "../up"}), r"not the head of an exported collection"),
        (edit_head(config={"learner": "Nobody"}), r"no learner 'Nobody'"),
        (edit_head(config={"colour": "red"}), r"not the head of an exported collection"),
        (lambda folder: (folder / "collection.json").write_text("{"), r"not the head of an exported collection"),
        (lambda folder: (folder / "encoder.safetensors").write_bytes(b"no"), r"encoder\.safetensors is damaged"),
    ],
)
def test_a_damaged_folder_stores_nothing(
    exported: Path, tmp_path: Path, open_service: Callable[..., Service], damage: Any, message: str
) -> None:
    damage(exported)
    with pytest.raises((InvalidInputError, InvalidRequestError), match=message):
        import_collection(exported, tmp_path / "other")
    service = open_service(data=tmp_path / "other")
    assert service.collections == []
    rows = service.store._query("SELECT count(*) FROM vectors UNION ALL SELECT count(*) FROM collections")
    assert rows in ([(0,)], [(0,), (0,)])


@pytest.mark.server
@pytest.mark.parametrize("moment", ["refit", "import", "refit, at the end"])
def test_a_process_that_is_killed_while_it_copies_leaves_one_equal_collection(
    open_service: Callable[..., Service], moment: str
) -> None:
    service = open_service()
    before = answers(fill(service))
    service.close()
    done = subprocess.run([sys.executable, "-c", KILLED_COPY, str(service.settings.data), moment])
    assert done.returncode == -signal.SIGKILL
    again = open_service()
    assert [collection.config.name for collection in again.collections] == ["teas"]
    assert answers(again.collection("teas")) == before
    assert again.store._query("SELECT DISTINCT collection FROM vectors") == [(again.collection("teas").id,)]


#: Copies the collection and kills the process: when the items and the log are stored, or at the end of a refit,
#: before the old collection is deleted.
KILLED_COPY = """
import os, sys
from dataclasses import replace
from pathlib import Path
from oahu.service.collection_copy import build_collection, read_content
from oahu.service.service import Service
from oahu.service.settings import Settings

def killed(rows):
    yield from rows
    if not at_end:
        os.kill(os.getpid(), 9)

moment = sys.argv[2]
at_end = moment.endswith("end")
service = Service(Settings(data=Path(sys.argv[1])))
service.open()
old = service.collection("teas")
content = read_content(service.store, old.stored)
content = replace(content, log=killed(list(content.log)), config=replace(content.config, name="teas"))
build_collection(service.store, service.settings, content, replaces=None if moment == "import" else old)
os.kill(os.getpid(), 9)
"""


def test_an_import_that_was_killed_is_removed_at_the_next_start(
    open_service: Callable[..., Service], tmp_path: Path
) -> None:
    service = open_service()
    config = CollectionConfig("teas", DIMENSION)
    building = service.store.commit(lambda transaction: transaction.create_building(config, 0.0)).result(TIMEOUT)
    assert service.store.collections() == []
    service.close()
    service = open_service()
    assert service.store._query("SELECT * FROM collections") == []
    assert service.create(config).id > building.id
