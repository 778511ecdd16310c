"""The power fails: what is left is what was flushed to disk, and nothing acknowledged is missing from it.

A killed process leaves to the system what it has written. Here all is lost that was not flushed: a library that is
loaded before the system's keeps a copy of every file as it was last flushed, and the service goes on from those.
It takes a C compiler and Linux; where these are not, there is nothing to test.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

Json = dict[str, Any]

_SOURCE = Path(__file__).with_name("flushed.c")
_CUTS = 4


def _compile(folder: Path) -> Path | None:
    """The library, if this system can make it."""
    made = folder / "flushed.so"
    compiler = shutil.which("cc") if sys.platform == "linux" else None
    if compiler is None:
        return None
    run = [compiler, "-shared", "-fPIC", "-o", str(made), str(_SOURCE), "-ldl"]
    return made if subprocess.run(run, capture_output=True, check=False).returncode == 0 else None


def _can_compile() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return _compile(Path(folder)) is not None


if _can_compile():

    def test_nothing_acknowledged_is_lost_when_the_power_fails(
        tmp_path: Path, new_nursery: Any, customers: Any, config: Json
    ) -> None:
        disk, flushed = tmp_path / "disk", tmp_path / "flushed"
        disk.mkdir()
        flushed.mkdir()
        nursery = new_nursery(LD_PRELOAD=str(_compile(tmp_path)), WATCHED=f"{disk}/", FLUSHED=str(flushed))
        line = customers.Line()
        people = [customers.Customer(line, f"person{at}", "triplets", at, True) for at in range(4)]

        def start(at: int) -> str:
            settings = {"port": 0, "page": False, "snapshot_every": 20, "max_collections": 1}
            nursery.start(data=disk / f"{at}", **settings)
            address: str = nursery.address()
            return address

        def ask(method: str, path: str, body: Any = None) -> Any:
            url = f"{address}/v1/collections{path}"
            answer = httpx.request(method, url, json=body, timeout=60, trust_env=False)
            assert answer.is_success, answer.text
            return answer.json()

        address = start(0)
        ask("POST", "", config)
        ask("PUT", "/triplets/items", {"items": customers.base_items()})
        with customers.at_work(line, people):
            line.connect(address)
            for at in range(_CUTS):
                pid = nursery.pid
                line.wait_for_answers(20 + 20 * at, lambda pid=pid: os.kill(pid, signal.SIGKILL))
                assert nursery.reap() == -signal.SIGKILL
                line.connect(None)
                assert _left(flushed, disk, at) == {"oahu.db", "oahu.db-wal"}
                address = start(at + 1)
                line.connect(address)
            line.pause(len(people))
            customers.check_items(ask("GET", "/triplets/items?limit=1000")["items"], people)
            customers.check_log(ask("GET", "/triplets/feedback?limit=1000")["records"], people)

    def _left(flushed: Path, disk: Path, at: int) -> set[str]:
        """Put what was flushed of a folder, and is still there, into the next one; the names of these files."""
        (disk / f"{at + 1}").mkdir()
        names = {path.name for path in (disk / f"{at}").iterdir() if (flushed / f"{at}%{path.name}").exists()}
        for name in names:
            shutil.copy(flushed / f"{at}%{name}", disk / f"{at + 1}" / name)
            shutil.copy(flushed / f"{at}%{name}", flushed / f"{at + 1}%{name}")  # that is on disk from the start
        return names
