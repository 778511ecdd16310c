"""One process at a time, and the real command: `oahu serve` is killed, started again, and counts."""

from __future__ import annotations

import os
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

_OAHU = [sys.executable, "-m", "oahu"]


def test_a_second_service_in_another_process_is_refused_and_the_first_goes_on(nursery: Any, data: Path) -> None:
    pid = nursery.start(data=data, port=0, page=False)
    address = nursery.address()
    with pytest.raises(StoreBusyError, match=re.escape(f"{data} is in use") + f".*process {pid}"):
        SQLiteStore(data)
    assert httpx.get(f"{address}/readyz", trust_env=False).status_code == 200


def test_after_a_kill_the_next_gets_in_at_once(nursery: Any, data: Path) -> None:
    nursery.start(data=data, port=0, page=False)
    nursery.address()
    nursery.end(signal.SIGKILL)
    SQLiteStore(data).close()


def test_a_process_that_a_service_started_does_not_hold_its_folder(data: Path) -> None:
    store = SQLiteStore(data)
    helper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    store.close()
    try:
        SQLiteStore(data).close()
    finally:
        helper.communicate(b"\n")


def test_the_command_is_refused_in_one_line_where_another_serves(serve: Any, data: Path) -> None:
    with serve() as served:
        served.put(3)
        second = subprocess.run(
            [*_OAHU, "serve", "--no-page", "--port", "0", "--data", str(data)],
            capture_output=True,
            timeout=120,
            check=False,
        )
        told = second.stderr.decode().strip().splitlines()
        assert second.returncode == 1
        assert len(told) == 1
        assert told[0].startswith(f"error: {data} is in use by another oahu service (process {os.getpid()})")
        assert served.keys() == ["i0", "i1", "i2"]


# -- the real command ----------------------------------------------------------------------------------------


@pytest.fixture
def command(data: Path) -> Iterator[Callable[[], tuple[Any, str]]]:
    """Starts `oahu serve`; the process and where it listens."""
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


def test_the_command_is_killed_while_people_use_it_and_nothing_is_lost(
    command: Any, customers: Any, config: Any
) -> None:
    def ask(method: str, path: str, body: Any = None) -> Any:
        answer = httpx.request(method, f"{address}/v1/collections{path}", json=body, timeout=60, trust_env=False)
        assert answer.is_success, answer.text
        return answer.json()

    process, address = command()
    ask("POST", "", config)
    ask("PUT", "/triplets/items", {"items": customers.base_items()})
    line = customers.Line()
    people = [customers.Customer(line, f"person{at}", "triplets", at, True) for at in range(3)]
    with customers.at_work(line, people):
        line.connect(address)
        line.wait_for_answers(100)
        process.kill()
        process.wait()
        line.connect(None)
        _, address = command()
        line.connect(address)
        line.pause(len(people))
    customers.check_items(ask("GET", "/triplets/items?limit=1000")["items"], people)
    customers.check_log(ask("GET", "/triplets/feedback?limit=1000")["records"], people)
