"""Items and queries as texts and images, with the built-in encoder and with encoder functions."""

from __future__ import annotations

import base64
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu
from oahu.exceptions import InvalidInputError
from oahu.service.api.app import create_app
from oahu.service.images import encode_png
from oahu.service.service import Service
from oahu.service.settings import Settings

PNG = encode_png(np.eye(4) * 255)
DOCS = Path(__file__).parents[3] / "docs"
#: An encoder module of a user. It counts its loads in a file, and fails for some inputs.
MODULE = '''
import os, time
from pathlib import Path

with open(Path(__file__).with_name("loads"), "a") as file:
    file.write("x")


def encode(inputs):
    """Counts of letters of a text, or the sum of the bytes of an image."""
    with open(Path(__file__).with_name("calls"), "a") as file:
        file.write(f"{len(inputs)} ")
    rows = []
    for one in inputs:
        if isinstance(one, bytes):
            rows.append([len(one), sum(one) % 251, 1, 0])
            continue
        if one == "hang":
            time.sleep(3600)
        if one == "exit":
            os._exit(3)
        if one == "invalid":
            raise ValueError("this text is not allowed")
        if one == "fail":
            raise RuntimeError("no memory left")
        rows.append([one.count(letter) for letter in "aeio"])
    if inputs == ["short"]:
        return rows[:0]
    if inputs == ["nan"]:
        return [[float("nan")] * 4]
    return [[0.5] * 3] if inputs == ["other dimension"] else rows
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the module ``letters``, which can be imported."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "letters.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def letters(module: Path, start_server: Any) -> Any:
    """A server with the encoder function, and the path of a collection."""
    server = start_server(encoder="letters:encode", encoder_timeout=600.0)
    return server, server.new_collection(n=0)


def put(server: Any, path: str, *items: dict[str, Any], status: int = 200) -> Any:
    return server.request("PUT", f"{path}/items", status, json={"items": list(items)})


def search(server: Any, path: str, status: int = 200, **query: Any) -> Any:
    return server.request("POST", f"{path}/search", status, json={"k": 3, **query})


def keys(found: Any) -> list[str]:
    return [match["key"] for match in found["matches"]]


def vector(server: Any, path: str, key: str) -> list[float]:
    found: list[float] = server.request("GET", f"{path}/items/{key}?vector=true")["vector"]
    return found


def sentences() -> list[str]:
    """The sections of the documentation, as real texts."""
    texts = [
        part for page in sorted(DOCS.glob("**/*.md")) for part in page.read_text(encoding="utf-8").split("\n\n")
    ]
    return [text for text in texts if len(text.split()) > 12][:150]


# -- encoder functions -----------------------------------------------------------------------------------------


def test_items_and_queries_as_texts_and_images(letters: Any) -> None:
    server, path = letters
    image = base64.b64encode(PNG).decode()
    stored = put(
        server,
        path,
        {"key": "a", "text": "banana"},
        {"key": "b", "vector": [0, 5, 0, 0]},
        {"key": "c", "image": image, "label": "picture"},
    )
    assert stored == {"stored": 3}
    assert vector(server, path, "a") == [3, 0, 0, 0]
    assert vector(server, path, "c") == [len(PNG), sum(PNG) % 251, 1, 0]
    assert keys(search(server, path, text="papaya", k=1)) == ["a"]
    assert keys(search(server, path, image=image, k=1)) == ["c"]
    body = {"text": "papaya", "k": 1}
    assert server.request("POST", f"{path}/classify", json={"image": image, "k": 1})["label"] == "picture"
    assert server.request("POST", f"{path}/encode", json={"texts": ["io", "a"]})["vectors"] == [
        base64.b64encode(np.array(row, "<f4").tobytes()).decode() for row in ([0, 0, 1, 1], [1, 0, 0, 0])
    ]
    assert server.request("GET", path)["encoder"] == "letters:encode"
    assert search(server, path, **body)["matches"] == search(server, path, vector=[3, 0, 0, 0], k=1)["matches"]


def test_a_batch_of_searches_mixes_texts_images_vectors_and_keys(letters: Any) -> None:
    server, path = letters
    image = base64.b64encode(PNG).decode()
    put(
        server,
        path,
        *({"key": one, "text": one} for one in ("banana", "tree", "kiwi")),
        {"key": "c", "image": image},
    )
    queries: list[dict[str, Any]] = [
        {"text": "papaya", "k": 1},
        {"image": image, "k": 2, "payload": True},
        {"vector": [0, 2, 0, 0]},
        {"key": "kiwi", "use_feedback": False},
        {"text": "ii", "label": "unknown"},
    ]
    results = server.request("POST", f"{path}/search/batch", json={"searches": queries})["results"]
    for query, result in zip(queries, results, strict=True):
        assert result["matches"] == server.request("POST", f"{path}/search", json=query)["matches"]
    assert keys(results[0]) == ["banana"]
    assert keys(results[1])[0] == "c"
    calls = [{"text": "papaya"}, {"text": "invalid"}]
    problem = server.request("POST", f"{path}/search/batch", 422, json={"searches": calls})
    assert "this text is not allowed" in problem["detail"]
    problem = server.request(
        "POST", f"{path}/search/batch", 422, json={"searches": [{"text": "a"}, {"text": "xyz"}]}
    )
    assert "searches/1" in problem["detail"]
    with oahu.Client(server.url, path.rpartition("/")[2]) as client:
        many = client.search_many(texts=["papaya", "ee"], k=1) + client.search_many(images=[PNG], k=1)
        assert [keys(one) for one in many] == [["banana"], ["tree"], ["c"]]
        with pytest.raises(InvalidInputError, match="exactly one of 'queries'"):
            client.search_many(["banana"], texts=["a"])
        with pytest.raises(InvalidInputError, match="'texts' must be a list"):
            client.search_many(texts="papaya")


def test_a_patch_with_a_text_or_an_image(letters: Any) -> None:
    server, path = letters
    put(server, path, {"key": "a", "text": "banana", "label": "fruit", "payload": {"price": 2, "old": 1}})
    collection = server.service.collection(path.rpartition("/")[2])
    stored = lambda: [text for _, text in server.service.store.texts(collection.id)]  # noqa: E731

    def patch(status: int = 200, request: str | None = None, **fields: Any) -> Any:
        headers = {} if request is None else {"Idempotency-Key": request}
        body = {"items": [{"key": "a", **fields}]}
        return server.request("PATCH", f"{path}/items", status, json=body, headers=headers)

    patch(payload={"old": None})  # the text stays, for a later refit
    assert (vector(server, path, "a"), stored()) == ([3, 0, 0, 0], ["banana"])
    assert patch(request="one", text="tree") == {"changed": 1, "replayed": False}
    assert (vector(server, path, "a"), stored()) == ([0, 2, 0, 0], ["tree"])
    item = server.request("GET", f"{path}/items/a")
    assert (item["label"], item["payload"]) == ("fruit", {"price": 2})
    patch(image=base64.b64encode(PNG).decode())
    assert (vector(server, path, "a"), stored()) == ([len(PNG), sum(PNG) % 251, 1, 0], [])
    assert patch(request="one", text="tree") == {"changed": 1, "replayed": True}
    assert vector(server, path, "a")[0] == len(PNG)
    patch(422, request="one", text="kiwi")
    for fields in ({"text": "a", "vector": [1, 2, 3, 4]}, {"text": None}, {"vector": None}, {"image": "?"}):
        patch(422, **fields)
    with oahu.Client(server.url, path.rpartition("/")[2]) as client:
        assert client.patch(["a"], texts=["kiwi"], labels=[None]) == 1
        assert (client.item("a")["label"], vector(server, path, "a")) == (None, [0, 0, 2, 0])
        assert client.patch(["a"], images=[PNG]) == 1
        with pytest.raises(InvalidInputError, match="at most one of"):
            client.patch(["a"], texts=["kiwi"], images=[PNG])
    assert vector(server, path, "a")[0] == len(PNG)


def test_feedback_on_texts_and_images(letters: Any) -> None:
    server, path = letters
    image = base64.b64encode(PNG).decode()
    put(server, path, *({"key": one, "text": one} for one in ("banana", "tree", "kiwi", "gnu")))
    found = search(server, path, text="ea")
    click = {"query": {"text": "ea"}, "positive": ["kiwi"], "impression": found["impression"], "source": "ann"}
    feedback = [
        click,
        {"first": {"image": image}, "second": "gnu", "same": True},
        {"anchor": "tree", "positive": {"text": "ee"}, "negative": {"vector": [9, 9, 9, 9]}},
    ]
    headers = {"Idempotency-Key": "one"}
    for replayed in (False, True):
        received = server.add_feedback(path, *feedback, headers=headers)
        assert (received["accepted"], received["last_seq"], received["replayed"]) == (3, 3, replayed)
    server.add_feedback(path, {**click, "query": {"text": "eo"}}, headers=headers, status=422)
    first = search(server, path, text="ea")["matches"][0]
    assert (first["key"], first["feedback"]) == ("kiwi", "similar")
    assert search(server, path, image=image)["matches"][0]["key"] == "gnu"
    record = server.request("GET", f"{path}/feedback")["records"][0]
    assert (record["query"], record["source"]) == ({"vector": [1, 1, 0, 0]}, "ann")
    assert record["shown"] == [key for key in keys(found) if key != "kiwi"]
    before = server.stored_rows()
    wrong = {"query": {"text": "xyz"}, "positive": ["tree"]}
    assert "feedback/1/query" in server.add_feedback(path, click, wrong, status=422)["detail"]
    assert server.stored_rows() == before
    with oahu.Client(server.url, path.rpartition("/")[2]) as client:
        client.feedback(text="oo", positive=["tree"], source="bob", weight=0.5)
        client.feedback(image=PNG, negative=["tree"])
        assert client.search(text="oo")["matches"][0]["feedback"] == "similar"
        with pytest.raises(InvalidInputError, match="exactly one of a key"):
            client.feedback(query="tree", text="oo", positive=["kiwi"])


def test_a_refit_encodes_the_texts_of_feedback(start_server: Any) -> None:
    server = start_server()
    path = server.new_collection(n=0, dimension=8, encoder="lsa")
    texts = sentences()[:40]
    put(server, path, *({"key": f"t{at}", "text": text} for at, text in enumerate(texts[:20])))
    queries = [" ".join(text.split()[:9]) for text in texts[:3]]
    queries.append(queries[0].upper())  # the same vector
    for at, query in enumerate(queries):
        click = {"query": {"text": query}, "positive": [f"t{at + 5}"]}
        server.add_feedback(path, click, headers={"Idempotency-Key": str(at)})
    before = [search(server, path, text=query)["matches"][0]["key"] for query in queries]
    assert before[1:3] == ["t6", "t7"]
    put(server, path, *({"key": f"t{at}", "text": text} for at, text in enumerate(texts) if at >= 20))
    old = [record["query"] for record in server.request("GET", f"{path}/feedback")["records"]]
    server.request("POST", f"{path}/encoder/refit")
    assert [search(server, path, text=query)["matches"][0]["key"] for query in queries] == before
    new = [record["query"] for record in server.request("GET", f"{path}/feedback")["records"]]
    assert all(one != other for one, other in zip(old, new, strict=True))
    click = {"query": {"text": queries[0]}, "positive": ["t5"]}
    assert server.add_feedback(path, click, headers={"Idempotency-Key": "0"})["replayed"]


def test_two_texts_of_feedback_can_get_the_same_vector(letters: Any) -> None:
    server, path = letters
    put(server, path, *({"key": one, "text": one} for one in ("banana", "tree", "kiwi")))
    for text, positive in (("ae", "tree"), ("oi", "kiwi")):
        server.add_feedback(path, {"query": {"text": text}, "positive": [positive]})
    store = server.service.store
    rewrite = "UPDATE texts SET text = 'io' WHERE text IN ('ae', 'oi')"
    store.commit(lambda transaction: transaction.database.execute(rewrite)).result()
    server.request("POST", f"{path}/encoder/refit")
    assert len(server.request("GET", f"{path}/feedback")["records"]) == 2
    assert search(server, path, text="io")["matches"][0]["feedback"] == "similar"


def test_a_refit_keeps_impressions_settings_sources_and_query_vectors(start_server: Any) -> None:
    server = start_server()
    path = server.new_collection(n=0, dimension=8, encoder="lsa", contradictions="refuse")
    texts = sentences()[:40]
    put(server, path, *({"key": f"t{at}", "text": text} for at, text in enumerate(texts[:20])))
    found = search(server, path, text=texts[0])
    query = {"vector": [0.5] * 8}
    server.request("PATCH", path, json={"closure": 2})
    pair = {"first": "t1", "second": "t2", "same": True, "source": "ann"}
    server.add_feedback(path, pair, {"query": query, "positive": ["t3"], "source": "bob", "weight": 0.5})
    server.add_feedback(path, {**pair, "same": False, "source": "eve"}, status=409)
    put(server, path, *({"key": f"t{at}", "text": text} for at, text in enumerate(texts) if at >= 20))
    sources = server.request("GET", f"{path}/sources")["sources"]
    assert {one["source"]: one["refused"] for one in sources} == {"ann": 0, "bob": 0, "eve": 1}
    before = server.request("GET", f"{path}/feedback")
    server.request("POST", f"{path}/encoder/refit")
    state = server.request("GET", path)
    assert (state["closure"], state["contradictions"], state["feedback"]) == (2, "refuse", 2)
    assert server.request("GET", f"{path}/sources")["sources"] == sources
    assert server.request("GET", f"{path}/feedback") == before
    assert search(server, path, **query)["matches"][0]["feedback"] == "similar"
    shown = keys(found)
    click = {"query": "t9", "positive": [shown[0]], "impression": found["impression"]}
    assert server.add_feedback(path, click)["unknown_impressions"] == []
    (record,) = server.request("GET", f"{path}/feedback?after={state['last_seq']}")["records"]
    assert record["shown"] == shown[1:]


def test_the_client_sends_texts_and_images(letters: Any) -> None:
    server, path = letters
    with oahu.Client(server.url, path.rpartition("/")[2]) as client:
        assert client.put(["a", "b"], texts=["banana", "tree"], labels=["fruit", "plant"]) == 2
        assert client.put(["c"], images=[PNG], labels=["picture"], thumbnails=[PNG]) == 1
        assert [client.search(**query, k=1)["matches"][0]["key"] for query in ({"text": "a"}, {"image": PNG})] == [
            "a",
            "c",
        ]
        assert (client.classify(text="ee", k=1)["label"], client.classify(image=PNG, k=1)["label"]) == (
            "plant",
            "picture",
        )
        assert client.encode(["io", "a"]).tolist() == [[0, 0, 1, 1], [1, 0, 0, 0]]
        assert client.encode(images=[PNG]).tolist() == [[len(PNG), sum(PNG) % 251, 1, 0]]
        assert client.refit_encoder() == 2
        for call in (
            lambda: client.put(["a"]),
            lambda: client.put(["a"], [[1, 2, 3, 4]], texts=["a"]),
            lambda: client.put(["a", "b"], texts=["a"]),
            lambda: client.search(),
            lambda: client.search("a", text="a"),
            lambda: client.classify(text="a", image=PNG),
            lambda: client.encode(),
            lambda: client.encode(["a"], images=[PNG]),
        ):
            with pytest.raises(InvalidInputError):
                call()
        assert client.describe()["items"] == 3


def test_compare_takes_texts(letters: Any) -> None:
    server, _ = letters
    path = server.new_collection(n=0, learner="Cosine")
    put(server, path, {"key": "a", "text": "banana"})
    same = server.request("POST", f"{path}/compare", json={"first": {"key": "a"}, "second": {"text": "mama"}})
    other = server.request("POST", f"{path}/compare", json={"first": {"text": "a"}, "second": {"text": "e"}})
    assert same["score"] > other["score"]


def test_the_function_is_loaded_once_and_gets_batches(letters: Any, module: Path) -> None:
    server, path = letters
    put(server, path, *({"key": f"i{at}", "text": "a" * (at + 1)} for at in range(150)))
    search(server, path, text="aa")
    assert (module / "loads").read_text() == "x"
    assert (module / "calls").read_text().split() == ["64", "64", "22", "1"]


@pytest.mark.parametrize(
    ("text", "status", "kind", "message"),
    [
        ("invalid", 422, "invalid", "this text is not allowed"),
        ("fail", 502, "encoder-failed", "RuntimeError: no memory left"),
        ("exit", 502, "encoder-failed", "process of the encoder letters:encode ended"),
        ("short", 502, "encoder-failed", "must return 1 vectors"),
        ("nan", 502, "encoder-failed", "NaN or infinity"),
        ("other dimension", 422, "invalid", "returns vectors with 3 features"),
    ],
)
def test_errors_of_the_function(letters: Any, text: str, status: int, kind: str, message: str) -> None:
    server, path = letters
    problem = put(server, path, {"key": "a", "text": text}, status=status)
    assert message in problem["detail"]
    assert problem["type"] == f"urn:oahu:problem:{kind}"
    assert server.request("GET", path)["items"] == 0
    put(server, path, {"key": "b", "text": "banana"})  # the encoder still works
    assert keys(search(server, path, text="a")) == ["b"]


def test_a_failing_request_does_not_fail_requests_of_the_same_batch(letters: Any) -> None:
    server, path = letters
    texts = ["a", "invalid", "e", "fail", "i"] * 4
    with ThreadPoolExecutor(len(texts)) as executor:
        found = executor.map(
            lambda at: (
                server.http.put(f"{path}/items", json={"items": [{"key": f"i{at}", "text": texts[at]}]}).status_code
            ),
            range(len(texts)),
        )
        assert list(found) == [200, 422, 200, 502, 200] * 4


def test_a_hanging_function_ends_at_the_time_limit_and_blocks_no_other_request(
    module: Path, start_server: Any, wait_until: Any
) -> None:
    server = start_server(encoder="letters:encode", encoder_timeout=3.0)
    path = server.new_collection()
    with ThreadPoolExecutor(1) as executor:
        hanging = executor.submit(search, server, path, 504, text="hang")
        wait_until(lambda: (module / "calls").exists(), "the call")
        assert len(search(server, path, vector=[1, 0, 0, 0])["matches"]) == 3
        server.add_feedback(path, {"first": "i0", "second": "i1", "same": True})
        assert "took longer than 3 s" in hanging.result()["detail"]
    assert len(search(server, path, text="banana")["matches"]) == 3
    assert (module / "loads").read_text() == "xx"  # the process started again


def test_the_queue_of_the_encoder_is_limited(module: Path, start_server: Any, wait_until: Any) -> None:
    server = start_server(encoder="letters:encode", encoder_timeout=3.0, max_encoder_queue=2)
    path = server.new_collection()
    with ThreadPoolExecutor(1) as executor:
        hanging = executor.submit(search, server, path, 504, text="hang")
        wait_until(lambda: (module / "calls").exists(), "the call")
        problem = server.request("POST", f"{path}/encode", 503, json={"texts": ["a", "e"]})
        assert "OAHU_MAX_ENCODER_QUEUE" in problem["detail"]
        hanging.result()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("letters", "must have the form 'package.module:function'"),
        ("letters:unknown", "has no attribute 'unknown'"),
        ("letters:__name__", "is not a function"),
        ("no_such_module:encode", "No module named 'no_such_module'"),
    ],
)
def test_an_encoder_that_cannot_be_loaded(module: Path, tmp_path: Path, address: str, message: str) -> None:
    settings = Settings(data=tmp_path / "data", page=False, encoder=address)
    with pytest.raises(InvalidInputError, match=message):
        open_service(settings)
    open_service(settings.model_copy(update={"encoder": None}))  # the folder is not locked


def open_service(settings: Settings) -> None:
    """Open a service and close it again."""
    service = Service(settings)
    try:
        service.open()
    finally:
        service.close()


# -- requests without an encoder, and invalid requests ---------------------------------------------------------


def test_a_text_needs_an_encoder(server: Any) -> None:
    path = server.new_collection()
    assert "has no encoder for a text" in put(server, path, {"key": "a", "text": "tea"}, status=422)["detail"]
    assert "has no encoder for a text" in search(server, path, 422, text="tea")["detail"]
    assert server.request("GET", path)["encoder"] is None
    assert server.request("POST", f"{path}/encoder/refit", 409)["detail"].startswith("No item of")


def test_an_item_has_one_source_of_features(server: Any) -> None:
    path = server.new_collection(n=0, encoder="lsa")
    for fields in ({}, {"text": "a", "vector": [1, 2, 3, 4]}, {"text": "a", "image": "AAAA"}):
        problem = put(server, path, {"key": "a", **fields}, status=422)
        assert "exactly one of 'vector', 'text' and 'image'" in problem["detail"]


def test_images_must_be_images(letters: Any) -> None:
    server, path = letters
    for image in ("AAAA", "AAAAA", base64.b64encode(b"<svg onload=alert(1)>").decode()):
        problem = put(server, path, {"key": "b", "vector": [1, 2, 3, 4]}, {"key": "a", "image": image}, status=422)
        assert "items/1/image" in problem["detail"]


# -- the built-in encoder --------------------------------------------------------------------------------------


def lsa_collection(server: Any, dimension: int = 24) -> tuple[str, list[str]]:
    """Return the path of a collection with the documentation as items, and the texts."""
    texts = sentences()
    path = server.new_collection(n=0, dimension=dimension, encoder="lsa")
    put(server, path, *({"key": f"text-{at}", "text": text} for at, text in enumerate(texts)))
    return path, texts


def test_lsa_finds_real_texts_by_some_of_their_words(server: Any) -> None:
    path, texts = lsa_collection(server, 100)
    hits = 0
    for at in range(0, 150, 5):
        query = " ".join(texts[at].split()[::2])  # every second word, so that no word pair is known
        hits += f"text-{at}" in keys(search(server, path, text=query))
    assert hits >= 27  # of 30; a random ranking finds 0.6
    lengths = [np.linalg.norm(vector(server, path, f"text-{at}")) for at in range(5)]
    assert np.allclose(lengths, 1, atol=1e-5)


def test_lsa_gives_the_same_vectors_in_another_collection_and_after_a_restart(tmp_path: Path, run_app: Any) -> None:
    settings = Settings(data=tmp_path / "data", page=False)
    with run_app(create_app(settings)) as server:
        path, texts = lsa_collection(server)
        other, _ = lsa_collection(server)
        before = search(server, path, text=texts[3], k=10)["matches"]
        assert search(server, other, text=texts[3], k=10)["matches"] == before
    with closing(sqlite3.connect(settings.data / "oahu.db")) as database:
        first, second = (data for (data,) in database.execute("SELECT data FROM encoders"))
    assert first == second
    with run_app(create_app(settings)) as server:
        assert search(server, path, text=texts[3], k=10)["matches"] == before


def test_lsa_needs_texts_with_words_before_queries(server: Any) -> None:
    path = server.new_collection(n=0, encoder="lsa")
    assert "Add items with texts first" in search(server, path, 409, text="tea")["detail"]
    assert "must contain a word" in put(server, path, {"key": "a", "text": "?!"}, status=422)["detail"]
    put(server, path, {"key": "a", "text": "green tea"}, {"key": "b", "text": "black coffee"})
    assert keys(search(server, path, text="a green leaf")) == ["a", "b"]
    assert "knows none of the words" in search(server, path, 422, text="wine")["detail"]
    image = base64.b64encode(PNG).decode()
    assert "encodes only texts" in search(server, path, 422, image=image)["detail"]


def test_two_first_requests_fit_the_encoder_once(server: Any) -> None:
    path = server.new_collection(n=0, encoder="lsa")
    with ThreadPoolExecutor(2) as executor:
        both = executor.map(
            lambda text: put(server, path, {"key": text, "text": f"{text} tea"}), ["green", "black"]
        )
        assert list(both) == [{"stored": 1}] * 2
    collection = server.service.collection(path.rpartition("/")[2])
    assert collection.encoder._lsa.to_bytes() == server.service.store.encoder(collection.id)
    assert len(collection.encoder._lsa.terms) == 3  # of one of the two texts


def test_refit_knows_the_words_of_all_texts_and_keeps_feedback(server: Any) -> None:
    path = server.new_collection(n=0, dimension=8, encoder="lsa")
    put(server, path, {"key": "green", "text": "green tea", "label": "tea", "payload": {"price": 3}})
    put(server, path, {"key": "black", "text": "black tea"}, {"key": "wine", "text": "red wine"})
    put(server, path, {"key": "vector", "vector": [1, 0, 0, 0, 0, 0, 0, 0]})
    server.add_feedback(path, {"query": "green", "positive": ["wine"], "negative": ["black"]})
    repeated = {"headers": {"Idempotency-Key": "third"}}
    undone = server.add_feedback(path, {"first": "black", "second": "vector", "same": True}, **repeated)
    server.request("DELETE", f"{path}/feedback/{undone['last_seq']}")
    log = server.request("GET", f"{path}/feedback")
    assert "knows none of the words" in search(server, path, 422, text="wine")["detail"]
    assert server.request("POST", f"{path}/encoder/refit") == {"texts": 3}
    assert keys(search(server, path, text="wine", k=1)) == ["wine"]
    assert server.request("GET", f"{path}/feedback") == log
    collection = server.service.collection(path.rpartition("/")[2])
    named = "SELECT id FROM collections WHERE json_extract(config, '$.name') = ?"
    assert server.service.store._query(named, collection.config.name) == [
        (collection.id,)
    ]  # the old one is deleted
    again = server.add_feedback(path, {"first": "black", "second": "vector", "same": True}, **repeated)
    assert again == {**undone, "replayed": True}  # a retry after the refit stores nothing
    found = search(server, path, key="green")["matches"]
    assert (found[0]["key"], found[0]["feedback"]) == ("wine", "similar")
    assert found[-1]["feedback"] == "dissimilar"
    state = server.request("GET", path)
    assert (state["items"], state["last_seq"], state["metric_version"], state["encoder"]) == (4, 3, 3, "lsa")
    item = server.request("GET", f"{path}/items/green")
    assert (item["label"], item["payload"]) == ("tea", {"price": 3})
    assert vector(server, path, "vector") == [1, 0, 0, 0, 0, 0, 0, 0]
    server.add_feedback(path, {"query": "green", "positive": ["wine"]})  # changes are accepted again


def test_a_refit_outlasts_a_restart(tmp_path: Path, run_app: Any) -> None:
    settings = Settings(data=tmp_path / "data", page=False, fresh_wait=600.0)
    with run_app(create_app(settings)) as server:
        path, texts = lsa_collection(server)
        server.add_feedback(path, {"query": "text-1", "positive": ["text-2"], "negative": ["text-3"]})
        put(server, path, {"key": "new", "text": "a samovar keeps water hot"})
        server.request("POST", f"{path}/encoder/refit")
        server.add_feedback(path, {"query": "text-4", "positive": ["text-5"], "negative": ["text-6"]})
        before = [search(server, path, text=text, k=10)["matches"] for text in (texts[1], "samovar")]
        assert before[1][0]["key"] == "new"
    with run_app(create_app(settings)) as server:
        after = [search(server, path, text=text, k=10)["matches"] for text in (texts[1], "samovar")]
        assert after == before
        assert [one.name for one in (settings.data / "snapshots").iterdir()] == [
            str(server.service.collection(path.rpartition("/")[2]).id)
        ]


def test_searches_continue_and_changes_are_rejected_during_a_refit(server: Any) -> None:
    path = server.new_collection(n=0, encoder="lsa")
    put(server, path, {"key": "a", "text": "green tea"})
    collection = server.service.collection(path.rpartition("/")[2])
    collection.freeze()  # the first step of a refit
    assert keys(search(server, path, text="green")) == ["a"]
    problem = put(server, path, {"key": "b", "text": "tea"}, status=503)
    assert "are being encoded again. Send the request again later." in problem["detail"]
    server.request("DELETE", path, 503)
    collection.freeze(False)
    put(server, path, {"key": "b", "text": "tea"})


def test_refit_equals_a_collection_that_had_all_texts_at_once(server: Any) -> None:
    texts = sentences()[:40]
    path = server.new_collection(n=0, dimension=16, encoder="lsa")
    for at, text in enumerate(texts):
        put(server, path, {"key": f"t{at}", "text": text})
    server.request("POST", f"{path}/encoder/refit")
    other = server.new_collection(n=0, dimension=16, encoder="lsa")
    put(server, other, *({"key": f"t{at}", "text": text} for at, text in enumerate(texts)))
    assert search(server, path, text=texts[0])["matches"] == search(server, other, text=texts[0])["matches"]


def test_a_text_is_deleted_with_its_item(server: Any) -> None:
    path = server.new_collection(n=0, encoder="lsa")
    put(server, path, {"key": "a", "text": "green tea"}, {"key": "b", "text": "secret"})
    server.request("POST", f"{path}/items/delete", json={"keys": ["b"]})
    put(server, path, {"key": "a", "vector": [1, 2, 3, 4]})
    collection = server.service.collection(path.rpartition("/")[2])
    assert server.service.store.texts(collection.id) == []
    assert server.request("POST", f"{path}/encoder/refit", 409)["detail"].startswith("No item of")


def test_a_failed_refit_changes_nothing(server: Any) -> None:
    path = server.new_collection(n=0, encoder="lsa")
    put(server, path, {"key": "a", "text": "green tea"})
    put(server, path, {"key": "a", "text": "?!"})  # no word is left
    assert "must contain a word" in server.request("POST", f"{path}/encoder/refit", 422)["detail"]
    put(server, path, {"key": "b", "text": "green"})
    assert keys(search(server, path, text="green", k=1)) == ["b"]


def test_a_refit_with_a_function_encodes_the_texts_again(letters: Any, module: Path) -> None:
    server, path = letters
    put(server, path, {"key": "a", "text": "banana"}, {"key": "b", "text": "tree"})
    calls = (module / "calls").read_text()
    assert server.request("POST", f"{path}/encoder/refit") == {"texts": 2}
    assert (module / "calls").read_text() == f"{calls}2 "
    assert vector(server, path, "a") == [3, 0, 0, 0]
