"""The code of the shorter guides of the service runs from top to bottom."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
import uvicorn

from oahu.service.api.app import create_app
from oahu.service.settings import Settings

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a running service."""
    app = create_app(Settings(data=tmp_path / "oahu-data", page=False))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.mark.server
def test_the_guide_on_import_and_export(url: str, tmp_path: Path) -> None:
    page = (GUIDES / "import-and-export.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "teas.csv").write_text(table)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed = []
    for block in re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL):
        commands = block.replace("--create", f"--create --url {url}").replace("oahu ", f"{sys.executable} -m oahu ")
        done = subprocess.run(
            ["bash", "-euc", commands], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        printed += done.stderr.splitlines()
    assert printed == [
        "Added 3 items to 'teas'.",
        "teas-export contains 3 items and 0 log entries of 'teas'.",
        "Created the collection 'teas-copy' with 3 items and 0 log entries.",
    ]


def test_the_guide_on_texts_and_images(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = "".join(BLOCK.findall((GUIDES / "texts-and-images.md").read_text(encoding="utf-8")))
    names: dict[str, object] = {}
    exec(compile(code.replace("http://127.0.0.1:8000", url), "texts-and-images.md", "exec"), names)
    names["help_pages"].close()  # type: ignore[attr-defined]
    assert capsys.readouterr().out.split("\n")[:4] == ["delivery", "password", "refund", "(2, 64)"]
