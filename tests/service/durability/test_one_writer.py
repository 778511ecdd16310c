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


def test_a_second_service_in_another_process_is_refused_and_the_first_goes_on(
    nursery: Any, data: Path, tmp_path: Path
) -> None:
    pid = nursery.start(data=data, port=0, page=False)
    address = nursery.address()
    with pytest.raises(StoreBusyError, match=re.escape(f"{data} is in use") + f".*process {pid}"):
        SQLiteStore(data)
    assert httpx.get(f"{address}/readyz", trust_env=False).status_code == 200
    nursery.end()


def test_after_a_kill_the_next_gets_in_at_once(nursery: Any, data: Path) -> None:
    nursery.start(data=data, port=0, page=False)
    nursery.address()
    nursery.end(signal.SIGKILL)
    SQLiteStore(data).close()


def test_a_process_that_is_only_forked_off_does_not_hold_the_folder(data: Path) -> None:
    """What a service starts, such as a helper, must not keep others out when the service is gone."""
    store = SQLiteStore(data)
    helper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
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
    command: Any, customers: Any, oracle: Any, data: Path, config: Any
) -> None:
    process, address = command()
    assert httpx.post(f"{address}/v1/collections", json=config, trust_env=False).status_code == 201
    items = f"{address}/v1/collections/triplets/items"
    assert httpx.put(items, json={"items": customers.base_items()}, trust_env=False).status_code == 200
    line = customers.Line()
    people = [customers.Customer(line, f"person{at}", "triplets", at, True) for at in range(3)]
    line.connect(address)
    for person in people:
        person.start()
    line.wait_for_answers(100)
    process.send_signal(signal.SIGKILL)
    process.wait()
    line.connect(None)
    process, address = command()
    line.connect(address)
    line.pause(len(people))
    line.hang_up()
    for person in people:
        person.join()
    if line.failures:
        raise line.failures[0]
    log = httpx.get(f"{address}/v1/collections/triplets/feedback?limit=1000", trust_env=False).json()["entries"]
    customers.check_log(log, people)
    found = httpx.get(f"{items.replace(items[: items.index('/v1')], address)}?limit=1000", trust_env=False).json()
    customers.check_items(found["items"], people)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    kept = oracle.read(data, "triplets")
    newest = max(data.glob("snapshots/*/*.oahu"))
    assert int(newest.stem) == len(log)
