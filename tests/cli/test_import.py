"""`oahu export-collection`, `oahu import-collection` and `oahu import-items`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import uvicorn
from typer.testing import CliRunner

from oahu import Client
from oahu.cli import app
from oahu.service.api.app import create_app
from oahu.service.keys import KeyFile
from oahu.service.settings import Settings

runner = CliRunner()


def call(*arguments: Any, status: int = 0) -> str:
    result = runner.invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == status, result.stderr
    return " ".join(result.stderr.split())


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a service that needs a key."""
    key = KeyFile(tmp_path / "data").add("tests", "admin")
    monkeypatch.setenv("OAHU_KEY", key)
    application = create_app(Settings(data=tmp_path / "data", page=False, fresh_wait=600.0))
    server = uvicorn.Server(uvicorn.Config(application, log_config=None, access_log=False))
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        with Client(f"http://127.0.0.1:{listening.getsockname()[1]}", "shop", key) as connected:
            yield connected
        server.should_exit = True
        thread.join()


def test_a_foreign_table_is_imported_exported_and_imported_again(client: Client, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(1_200, 3)).round(4)
    lines = [f"sku-{at},Title {at},{at / 2},{a},{b},{c}" for at, (a, b, c) in enumerate(rows.tolist())]
    table = tmp_path / "items.csv"
    table.write_text("sku,title,price,emb_0,emb_1,emb_2\n" + "\n".join(lines))
    url = str(client._http.base_url).removesuffix("v1/")
    mapping = ("--key", "sku", "--vector", "emb_*", "--payload", "title,price", "--url", url)
    assert "no collection 'shop'" in call("import-items", table, "--collection", "shop", *mapping, status=1)
    for _ in range(2):  # the command can be repeated
        printed = call("import-items", table, "--collection", "shop", *mapping, "--create")
        assert printed == "Added 1,200 items to 'shop'."
    assert client.describe()["items"] == 1_200
    assert client.item("sku-7", vector=True)["payload"] == {"title": "Title 7", "price": 3.5}
    client.feedback(query="sku-1", positive=["sku-2"], negative=["sku-3"])
    found = client.search("sku-1")["matches"]

    out, copy = tmp_path / "out", tmp_path / "copy"
    printed = call("export-collection", "shop", "--out", out, "--data", tmp_path / "data")
    assert printed.endswith("contains 1,200 items and 1 log entries of 'shop'.")
    assert "already exists" in call(
        "export-collection", "shop", "--out", out, "--data", tmp_path / "data", status=1
    )
    printed = call("import-collection", out, "--data", copy, "--name", "second")
    assert printed == "Created the collection 'second' with 1,200 items and 1 log entries."
    assert "already exists" in call("import-collection", out, "--data", copy, "--name", "second", status=1)
    application = create_app(Settings(data=copy, page=False, fresh_wait=600.0))
    application.state.service.open()
    imported = application.state.service.collection("second")
    matches = imported.search("sku-1", 10).matches
    application.state.service.close()
    assert [(key, match.distance) for key, match, _ in matches] == [(one["key"], one["distance"]) for one in found]


def test_texts_are_imported_with_the_encoder(client: Client, tmp_path: Path) -> None:
    table = tmp_path / "items.tsv"
    table.write_text("id\ttext\tkind\n1\tgreen tea\ttea\n2\tred wine\t\n")
    url = str(client._http.base_url).removesuffix("v1/")
    arguments = ("import-items", table, "--collection", "shop", "--key", "id", "--text", "text", "--label", "kind")
    assert "Create the collection first" in call(*arguments, "--url", url, "--create", status=1)
    client.create(dimension=4, encoder="lsa")
    call(*arguments, "--url", url)
    (match,) = client.search(text="a glass of wine", k=1)["matches"]
    assert (match["key"], match["label"]) == ("2", None)


def test_export_needs_service_data(tmp_path: Path) -> None:
    printed = call("export-collection", "shop", "--out", tmp_path / "out", "--data", tmp_path, status=1)
    assert "contains no service data" in printed
    assert "No such file" in call("import-collection", tmp_path / "missing", "--data", tmp_path / "data", status=1)
    assert not (tmp_path / "data").exists()
