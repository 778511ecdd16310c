"""A disk that is full, read-only or failing: requests are rejected, nothing is lost, and the service recovers."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.server  # runs a real HTTP server

Json = dict[str, Any]
Fault = Callable[[Any], AbstractContextManager[None]]

LARGE = {"text": "x" * 20_000}  # needs pages of its own

# -- faults --------------------------------------------------------------------------------------------------


@contextmanager
def _database_full(served: Any) -> Iterator[None]:
    """The database cannot grow."""
    database = served.service.store._writer.database
    ((pages,),) = database.execute("PRAGMA page_count").fetchall()
    database.execute(f"PRAGMA max_page_count = {pages}")
    yield
    database.execute("PRAGMA max_page_count = 1073741823")


@contextmanager
def _read_only(served: Any) -> Iterator[None]:
    database = served.service.store._writer.database
    database.execute("PRAGMA query_only = ON")
    yield
    database.execute("PRAGMA query_only = OFF")


@contextmanager
def _file_size_limit(served: Any) -> Iterator[None]:
    """A limit of the file size makes a write fail in the middle."""
    size = (served.service.settings.data / "oahu.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class _FailingConnection:
    """A connection that cannot flush its commits to disk."""

    def __init__(self, database: sqlite3.Connection, rolls_back: bool) -> None:
        self._database, self._rolls_back = database, rolls_back

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql != "COMMIT":
            return self._database.execute(sql, *values)
        if self._rolls_back:
            self._database.execute("ROLLBACK")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


def _flushing_fails(rolls_back: bool) -> Fault:
    """Return a fault: flushing fails, and SQLite may roll back."""

    @contextmanager
    def failing(served: Any) -> Iterator[None]:
        writer = served.service.store._writer
        database = writer.database
        writer.database = _FailingConnection(database, rolls_back)
        yield
        writer.database = database

    return failing


#: The faults, and the HTTP status of rejected requests.
FAULTS: dict[str, tuple[Fault, int]] = {
    "full": (_database_full, 507),
    "read-only": (_read_only, 503),
    "a write fails": (_file_size_limit, 503),
    "flushing fails": (_flushing_fails(rolls_back=False), 503),
    "flushing fails and SQLite rolls back": (_flushing_fails(rolls_back=True), 503),
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> tuple[Fault, int]:
    return FAULTS[request.param]


@pytest.fixture
def service(serve: Any) -> Iterator[Any]:
    """A service with items and feedback."""
    with serve(snapshot_every=20) as served:
        served.put(40)
        served.add_feedback(30, seed=1)
        served.model()
        yield served


def _add_until_rejected(service: Any, status: int, record: Json, key: str | None = None) -> Any:
    """Add feedback until a request is rejected, and return the response. The first requests may still fit."""
    for _ in range(500):
        answer = service.request("POST", "/feedback", {"feedback": [record]}, key)
        if answer.status_code != 200:
            assert answer.status_code == status, answer.text
            return answer
        service.request("PUT", "/items", {"items": [{"key": "large", "vector": [0.0] * 8, "payload": LARGE}]})
    pytest.fail("no request was rejected")


NEW = {"first": "i0", "second": "i4", "same": True}
OPPOSITE = NEW | {"same": False}


# -- behaviour -----------------------------------------------------------------------------------------------


def test_a_rejected_request_gets_a_reason_and_searches_continue(service: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    n_rankings = len(service.ranking())
    with fail(service):
        service.request("PUT", "/items", {"items": [{"key": "new", "vector": [1.0] * 8, "payload": LARGE}]})
        assert len(service.ranking()) == n_rankings
        answer = _add_until_rejected(service, status, NEW)
        assert service.call("POST", "/search", {"key": "i0", "k": 5})["matches"]
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert "Nothing was stored" in answer.json()["detail"]


def test_rejected_items_are_not_stored(service: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    before = service.keys()
    new = [{"key": f"new {at}", "vector": [1.0] * 8, "payload": LARGE} for at in range(3)]
    with fail(service):
        _add_until_rejected(service, status, NEW)
        answer = service.request("PUT", "/items", {"items": new})
        assert answer.status_code == status
        assert set(service.keys()) - {"large"} == set(before)
    assert set(service.keys()) - {"large"} == set(before)


def test_the_log_holds_exactly_the_accepted_feedback(service: Any, fault: tuple[Fault, int]) -> None:
    fail, _ = fault
    n_records = len(service.log())
    with fail(service):
        for at in range(20):
            pairs = [{"first": f"i{at}", "second": f"i{at + other}", "same": False} for other in (1, 2)]
            answer = service.request("POST", "/feedback", {"feedback": pairs})
            if answer.status_code == 200:
                n_records += 2
            assert len(service.log()) == n_records
    assert [entry["seq"] for entry in service.log()] == list(range(1, n_records + 1))


def test_a_rejected_undo_has_no_effect(service: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    service.add_feedback(170, seed=7, at_once=170)
    answers: dict[int, int] = {}
    with fail(service):
        _add_until_rejected(service, status, NEW)
        while list(answers.values()).count(status) < 3:  # the first undos may fit into the remaining space
            answers[len(answers) + 1] = service.request("DELETE", f"/feedback/{len(answers) + 1}").status_code
        assert set(answers.values()) <= {200, status}
        assert [entry["active"] for entry in service.log()[: len(answers)]] == [
            answer != 200 for answer in answers.values()
        ]
    rejected = max(seq for seq, answer in answers.items() if answer == status)
    assert service.call("DELETE", f"/feedback/{rejected}")


def test_only_accepted_feedback_rejects_contradictions(service: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    record = {"first": "apart", "second": "i1", "same": True}
    service.call("PUT", "/items", {"items": [{"key": "apart", "vector": [1.0] * 8}]})
    service.call("POST", "/feedback", {"feedback": [NEW]})
    with fail(service):
        _add_until_rejected(service, status, NEW | {"second": "i8"})
        many = [record] * 100  # a single small record may still fit
        assert service.request("POST", "/feedback", {"feedback": many}).status_code == status
    assert service.request("POST", "/feedback", {"feedback": [OPPOSITE]}).status_code == 409
    assert service.call("POST", "/feedback", {"feedback": [record | {"same": False}]})["accepted"] == 1
    assert service.request("POST", "/feedback", {"feedback": [record]}).status_code == 409


def test_a_rejected_request_can_be_repeated_and_counts_once(service: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    with fail(service):
        _add_until_rejected(service, status, NEW)
        for _ in range(3):
            assert service.request("POST", "/feedback", {"feedback": [NEW]}, key="again").status_code == status
    first = service.call("POST", "/feedback", {"feedback": [NEW]}, key="again")
    assert not first["replayed"]
    assert service.call("POST", "/feedback", {"feedback": [NEW]}, key="again") == first | {"replayed": True}
    assert service.log()[-1]["seq"] == first["last_seq"]


def test_the_service_recovers_and_a_restart_changes_nothing(
    serve: Any, fault: tuple[Fault, int], expected_model: Any
) -> None:
    fail, status = fault
    with serve(snapshot_every=20) as served:
        served.put(40)
        served.add_feedback(30, seed=1)
        with fail(served):
            _add_until_rejected(served, status, NEW)
        served.put(5, begin=100, payload=LARGE)
        served.add_feedback(30, seed=2)
        served.call("DELETE", "/feedback/5")
        assert set(served.keys()) - {"large"} == {f"i{at}" for at in [*range(40), *range(100, 105)]}
        assert served.model() == expected_model()
        before = served.log(), sorted(served.keys()), served.model(), served.ranking()
    with serve() as served:
        assert (served.log(), sorted(served.keys()), served.model(), served.ranking()) == before


def test_a_collection_that_cannot_be_stored_does_not_exist(service: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    new = {"name": "new", "dimension": 3, "learner": "Euclidean"}
    with fail(service):
        for at in range(90):
            new["name"] = f"new-{at}"
            if (answer := service.http.post(f"{service.url}/collections", json=new)).status_code != 201:
                break
        assert answer.status_code == status
        assert service.http.get(f"{service.url}/collections/{new['name']}").status_code == 404
    assert service.http.post(f"{service.url}/collections", json=new).status_code == 201


# -- snapshots -----------------------------------------------------------------------------------------------


def _raise_no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(params=["opening", "flushing", "renaming"])
def no_space_for_snapshots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot file cannot be opened, flushed or renamed."""
    if request.param == "opening":
        real = os.open

        def opened(path: Any, *rest: Any, **more: Any) -> int:
            return _raise_no_space() if str(path).endswith(".tmp") else real(path, *rest, **more)

        monkeypatch.setattr(os, "open", opened)
    elif request.param == "flushing":
        monkeypatch.setattr(os, "fsync", _raise_no_space)
    else:
        monkeypatch.setattr(Path, "replace", _raise_no_space)


def test_learning_continues_without_snapshots(
    serve: Any, expected_model: Any, no_space_for_snapshots: None
) -> None:
    with serve(snapshot_every=5) as served:
        served.put(40)
        served.add_feedback(40, seed=1)
        served.call("DELETE", "/feedback/5")
        served.add_feedback(20, seed=2)
        assert served.model() == expected_model()


def test_a_snapshot_that_cannot_be_saved_leaves_no_file(
    serve: Any, data: Path, no_space_for_snapshots: None
) -> None:
    with serve(snapshot_every=5) as served:
        served.put(40)
        served.add_feedback(40, seed=1)
        served.model()
    assert [path for path in data.glob("snapshots/**/*") if path.is_file()] == []


def test_snapshots_are_saved_again_once_there_is_space(
    serve: Any, data: Path, expected_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(snapshot_every=5) as served:
        served.put(40)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", _raise_no_space)
            served.add_feedback(20, seed=1)
            served.model()
        served.add_feedback(20, seed=2)
        served.model()
    assert list(data.glob("snapshots/*/*.oahu"))
    with serve() as served:
        assert served.model() == expected_model()


# -- a disk that is really full ------------------------------------------------------------------------------

_MOUNT = 'mount -t tmpfs -o size=3m none "$0"'


def _can_mount() -> bool:
    """Return whether this system can mount a small disk."""
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(["unshare", "-rm", "sh", "-c", _MOUNT, folder], capture_output=True, check=False)
        return result.returncode == 0


if _can_mount():

    @pytest.fixture(scope="module")
    def report(tmp_path_factory: pytest.TempPathFactory) -> Json:
        """Return the report of `small_disk.py`."""
        disk = tmp_path_factory.mktemp("disk")
        script = str(Path(__file__).with_name("small_disk.py"))
        run = ["unshare", "-rm", "sh", "-c", f'{_MOUNT} && exec "$1" -W ignore "$2" "$0"', str(disk)]
        finished = subprocess.run([*run, sys.executable, script], capture_output=True, check=False, timeout=600)
        assert finished.returncode == 0, finished.stderr.decode()[-3_000:]
        found: Json = json.loads(finished.stdout)
        return found

    def test_a_full_disk_rejects_requests_with_a_clear_status(report: Json) -> None:
        assert report["rejected"]
        assert {(status, retry) for status, retry in report["rejected"]} <= {(507, "30"), (503, "10")}
        assert 507 in [status for status, _ in report["rejected"]]

    def test_a_full_disk_does_not_stop_reads_and_searches(report: Json) -> None:
        assert report["answers while full"] == [200, 200, 200, 200]

    def test_a_full_disk_loses_nothing_and_stores_nothing_else(report: Json) -> None:
        assert report["stored"] == report["accepted"]

    def test_a_full_disk_recovers_once_there_is_space(report: Json) -> None:
        assert report["accepted after"] == 30
        assert report["model matches the log"]

    def test_a_restart_after_a_full_disk_changes_nothing(report: Json) -> None:
        assert report["restart is equal"]

    def test_a_service_cannot_start_on_a_full_disk(report: Json) -> None:
        assert "Cannot open" in report["start"]
