"""Only one process can open a store, and a killed `oahu serve` restarts without losses."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from oahu.service.errors import StoreBusyError
from oahu.service.store import SQLiteStore

pytestmark = pytest.mark.server  # starts and kills processes

_OAHU = [sys.executable, "-m", "oahu"]


def test_a_second_process_is_rejected_and_the_first_continues(fork_server: Any, data: Path) -> None:
    pid = fork_server.start(data=data, port=0, page=False)
    address = fork_server.address()
    with pytest.raises(StoreBusyError, match=re.escape(f"{data} is in use") + f".*process {pid}"):
        SQLiteStore(data)
    assert httpx.get(f"{address}/readyz", trust_env=False, verify=False).status_code == 200


def test_after_a_kill_the_store_can_be_opened_at_once(fork_server: Any, data: Path) -> None:
    fork_server.start(data=data, port=0, page=False)
    fork_server.address()
    fork_server.end(signal.SIGKILL)
    SQLiteStore(data).close()


def test_a_child_process_does_not_hold_the_lock(data: Path) -> None:
    store = SQLiteStore(data)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    store.close()
    try:
        SQLiteStore(data).close()
    finally:
        child.communicate(b"\n")


# -- the real command ----------------------------------------------------------------------------------------


@pytest.fixture
def command(data: Path) -> Iterator[Callable[[], tuple[Any, str]]]:
    """Return a function that starts `oahu serve` and returns the process and its address."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> tuple[Any, str]:
        run = [*_OAHU, "serve", "--no-page", "--port", "0", "--data", str(data)]
        process = subprocess.Popen(run, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        started.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(rb"listens at (http://[\d.]+:\d+)", line):
                return process, found[1].decode()
        raise AssertionError("oahu serve did not start")

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_no_acknowledged_change_is_lost_when_the_command_is_killed(command: Any, clients: Any, config: Any) -> None:
    def request(method: str, path: str, body: Any = None) -> Any:
        answer = httpx.request(
            method, f"{address}/v1/collections{path}", json=body, timeout=600, trust_env=False, verify=False
        )
        assert answer.is_success, answer.text
        return answer.json()

    process, address = command()
    request("POST", "", config)
    request("PUT", "/triplets/items", {"items": clients.base_items()})
    endpoint = clients.Endpoint()
    active_clients = [clients.Client(endpoint, f"client{at}", "triplets", at, True) for at in range(3)]
    with clients.running(endpoint, active_clients):
        endpoint.connect(address)
        endpoint.wait_for_answers(40)
        process.kill()
        process.wait()
        endpoint.connect(None)
        _, address = command()
        endpoint.connect(address)
        endpoint.pause(len(active_clients))
    clients.check_items(request("GET", "/triplets/items?limit=1000")["items"], active_clients)
    clients.check_log(request("GET", "/triplets/feedback?limit=1000")["records"], active_clients)
