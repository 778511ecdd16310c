"""After a power failure, the flushed data contain every acknowledged change.

The operating system keeps everything that a killed process wrote. A power failure loses unflushed data. A preloaded
library therefore copies every file when it is flushed, and the service restarts from the copies. The
test needs Linux and a C compiler.
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
import pytest

Json = dict[str, Any]

pytestmark = pytest.mark.server  # starts and kills processes

_SOURCE = Path(__file__).with_name("flushed.c")
_N_FAILURES = 4


def _compile(folder: Path) -> Path | None:
    """Compile the library. Return None if this system has no compiler."""
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

    def test_no_acknowledged_change_is_lost_in_a_power_failure(
        tmp_path: Path, new_fork_server: Any, clients: Any, config: Json
    ) -> None:
        disk, flushed = tmp_path / "disk", tmp_path / "flushed"
        disk.mkdir()
        flushed.mkdir()
        fork_server = new_fork_server(LD_PRELOAD=str(_compile(tmp_path)), WATCHED=f"{disk}/", FLUSHED=str(flushed))
        endpoint = clients.Endpoint()
        active_clients = [clients.Client(endpoint, f"client{at}", "triplets", at, True) for at in range(4)]

        def start(at: int) -> str:
            settings = {"port": 0, "page": False, "snapshot_every": 20, "max_collections": 1}
            fork_server.start(data=disk / f"{at}", **settings)
            address: str = fork_server.address()
            return address

        def request(method: str, path: str, body: Any = None) -> Any:
            url = f"{address}/v1/collections{path}"
            answer = httpx.request(method, url, json=body, timeout=600, trust_env=False, verify=False)
            assert answer.is_success, answer.text
            return answer.json()

        address = start(0)
        request("POST", "", config)
        request("PUT", "/triplets/items", {"items": clients.base_items()})
        with clients.running(endpoint, active_clients):
            endpoint.connect(address)
            for at in range(_N_FAILURES):
                pid = fork_server.pid
                endpoint.wait_for_answers(20 + 20 * at, lambda pid=pid: os.kill(pid, signal.SIGKILL))
                assert fork_server.reap() == -signal.SIGKILL
                endpoint.connect(None)
                assert _copy_flushed(flushed, disk, at) == {"oahu.db", "oahu.db-wal"}
                address = start(at + 1)
                endpoint.connect(address)
            endpoint.pause(len(active_clients))
            clients.check_items(request("GET", "/triplets/items?limit=1000")["items"], active_clients)
            clients.check_log(request("GET", "/triplets/feedback?limit=1000")["records"], active_clients)

    def _copy_flushed(flushed: Path, disk: Path, at: int) -> set[str]:
        """Copy the flushed files of a folder that still exist to the next one; return their names."""
        (disk / f"{at + 1}").mkdir()
        names = {path.name for path in (disk / f"{at}").iterdir() if (flushed / f"{at}%{path.name}").exists()}
        for name in names:
            shutil.copy(flushed / f"{at}%{name}", disk / f"{at + 1}" / name)
            shutil.copy(flushed / f"{at}%{name}", flushed / f"{at + 1}%{name}")  # flushed from the start
        return names
