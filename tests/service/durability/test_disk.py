"""A disk that is full, cannot be written to, or fails: it is told, nothing is lost, and it passes."""

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

Json = dict[str, Any]
Fault = Callable[[Any], AbstractContextManager[None]]

LARGE = {"text": "x" * 20_000}  # a payload that needs space of its own

# -- what can be wrong ---------------------------------------------------------------------------------------


@contextmanager
def _full(served: Any) -> Iterator[None]:
    """The database must not grow."""
    database = served.service.store._writing.database
    ((pages,),) = database.execute("PRAGMA page_count").fetchall()
    database.execute(f"PRAGMA max_page_count = {pages}")
    yield
    database.execute("PRAGMA max_page_count = 1073741823")


@contextmanager
def _read_only(served: Any) -> Iterator[None]:
    database = served.service.store._writing.database
    database.execute("PRAGMA query_only = ON")
    yield
    database.execute("PRAGMA query_only = OFF")


@contextmanager
def _too_large(served: Any) -> Iterator[None]:
    """The system lets no file grow beyond what the log of the database is: a write fails, in the middle."""
    size = (served.service.settings.data / "oahu.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class _Failing:
    """A connection whose commits cannot be flushed to disk."""

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


def _not_flushed(rolls_back: bool) -> Fault:
    """Flushing fails; SQLite goes back by itself, or leaves that to others."""

    @contextmanager
    def failing(served: Any) -> Iterator[None]:
        writing = served.service.store._writing
        database = writing.database
        writing.database = _Failing(database, rolls_back)
        yield
        writing.database = database

    return failing


#: What is wrong, and the status that tells it.
FAULTS: dict[str, tuple[Fault, int]] = {
    "full": (_full, 507),
    "read-only": (_read_only, 503),
    "a write fails": (_too_large, 503),
    "flushing fails": (_not_flushed(rolls_back=False), 503),
    "flushing fails and all is rolled back": (_not_flushed(rolls_back=True), 503),
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> tuple[Fault, int]:
    return FAULTS[request.param]


@pytest.fixture
def shop(serve: Any) -> Iterator[Any]:
    """A service with items and feedback."""
    with serve(snapshot_every=20) as served:
        served.put(40)
        served.say(30, seed=1)
        served.model()
        yield served


def _refused(shop: Any, status: int, said: Json, key: str | None = None) -> Any:
    """Say something until it is refused: what is left of the space is used up before."""
    for _ in range(500):
        answer = shop.ask("POST", "/feedback", {"feedback": [said]}, key)
        if answer.status_code != 200:
            assert answer.status_code == status, answer.text
            return answer
        shop.ask("PUT", "/items", {"items": [{"key": "large", "vector": [0.0] * 8, "payload": LARGE}]})
    pytest.fail("it was never refused")


NEW = {"first": "i0", "second": "i4", "same": True}
CONTRARY = NEW | {"same": False}


# -- what must be --------------------------------------------------------------------------------------------


def test_whoever_is_refused_is_told_why_and_when_to_try_again(shop: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    with fail(shop):
        answer = _refused(shop, status, NEW)
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert "nothing was stored" in answer.json()["detail"]


def test_nothing_of_items_that_are_refused_is_stored(shop: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    before = shop.keys()
    new = [{"key": f"new {at}", "vector": [1.0] * 8, "payload": LARGE} for at in range(3)]
    with fail(shop):
        _refused(shop, status, NEW)
        answer = shop.ask("PUT", "/items", {"items": new})
        assert answer.status_code == status
        assert set(shop.keys()) - {"large"} == set(before)
    assert set(shop.keys()) - {"large"} == set(before)


def test_what_is_accepted_or_not_is_in_the_log_or_not(shop: Any, fault: tuple[Fault, int]) -> None:
    fail, _ = fault
    wanted = len(shop.log())
    with fail(shop):
        for at in range(20):
            said = [{"first": f"i{at}", "second": f"i{at + other}", "same": False} for other in (1, 2)]
            answer = shop.ask("POST", "/feedback", {"feedback": said})
            if answer.status_code == 200:
                wanted += 2
            assert len(shop.log()) == wanted
    assert [entry["seq"] for entry in shop.log()] == list(range(1, wanted + 1))


def test_an_undo_that_is_refused_has_not_happened(shop: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    with fail(shop):
        _refused(shop, status, NEW)
        answers = {seq: shop.ask("DELETE", f"/feedback/{seq}").status_code for seq in range(1, 31)}
        assert set(answers.values()) <= {200, status}
        assert status in answers.values()
        assert [entry["active"] for entry in shop.log()[:30]] == [one != 200 for one in answers.values()]
    refused = max(seq for seq, answer in answers.items() if answer == status)
    assert shop.get("DELETE", f"/feedback/{refused}")


def test_what_is_refused_is_not_believed(shop: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    piece = {"first": "apart", "second": "i1", "same": True}
    shop.get("PUT", "/items", {"items": [{"key": "apart", "vector": [1.0] * 8}]})
    with fail(shop):
        _refused(shop, status, NEW)
        assert shop.ask("POST", "/feedback", {"feedback": [piece]}).status_code == status
    assert shop.get("POST", "/feedback", {"feedback": [piece | {"same": False}]})["accepted"] == 1
    assert shop.ask("POST", "/feedback", {"feedback": [piece]}).status_code == 409


def test_what_was_accepted_before_is_believed_on(shop: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    shop.get("POST", "/feedback", {"feedback": [NEW]})
    with fail(shop):
        _refused(shop, status, NEW | {"second": "i8"})
    assert shop.ask("POST", "/feedback", {"feedback": [CONTRARY]}).status_code == 409


def test_a_request_that_was_refused_can_be_sent_again_and_counts_once(shop: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    with fail(shop):
        _refused(shop, status, NEW)
        for _ in range(3):
            assert shop.ask("POST", "/feedback", {"feedback": [NEW]}, key="again").status_code == status
    first = shop.get("POST", "/feedback", {"feedback": [NEW]}, key="again")
    assert not first["replayed"]
    assert shop.get("POST", "/feedback", {"feedback": [NEW]}, key="again") == first | {"replayed": True}
    assert shop.log()[-1]["seq"] == first["last_seq"]


def test_searching_goes_on(shop: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    before = shop.ranking()
    with fail(shop):
        shop.ask("PUT", "/items", {"items": [{"key": "new", "vector": [1.0] * 8, "payload": LARGE}] * 1})
        assert len(shop.ranking()) == len(before)
        _refused(shop, status, NEW)
        assert shop.get("POST", "/search", {"key": "i0", "k": 5})["matches"]


def test_when_it_is_over_everything_goes_on_as_if_nothing_had_been(
    shop: Any, fault: tuple[Fault, int], must_be: Any
) -> None:
    fail, status = fault
    with fail(shop):
        _refused(shop, status, NEW)
    shop.put(5, begin=100, payload=LARGE)
    shop.say(30, seed=2)
    shop.get("DELETE", "/feedback/5")
    assert set(shop.keys()) - {"large"} == {f"i{at}" for at in [*range(40), *range(100, 105)]}
    assert shop.model() == must_be()


def test_after_a_restart_everything_is_as_it_was(serve: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    with serve(snapshot_every=20) as served:
        served.put(40)
        served.say(30, seed=1)
        with fail(served):
            _refused(served, status, NEW)
        served.say(10, seed=2)
        before = served.log(), sorted(served.keys()), served.model(), served.ranking()
    with serve() as served:
        assert (served.log(), sorted(served.keys()), served.model(), served.ranking()) == before


def test_a_collection_that_cannot_be_stored_is_not_there(shop: Any, fault: tuple[Fault, int]) -> None:
    fail, status = fault
    new = {"name": "new", "dimension": 3, "learner": "Euclidean"}
    with fail(shop):
        for at in range(90):
            new["name"] = f"new-{at}"
            if (answer := shop.http.post(f"{shop.url}/collections", json=new)).status_code != 201:
                break
        assert answer.status_code == status
        assert shop.http.get(f"{shop.url}/collections/{new['name']}").status_code == 404
    assert shop.http.post(f"{shop.url}/collections", json=new).status_code == 201


# -- snapshots -----------------------------------------------------------------------------------------------


def _no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(params=["opening", "flushing", "renaming"])
def no_space_for_snapshots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file can be neither begun, or finished, or take its place."""
    if request.param == "opening":
        real = os.open

        def opened(path: Any, *rest: Any, **more: Any) -> int:
            return _no_space() if str(path).endswith(".tmp") else real(path, *rest, **more)

        monkeypatch.setattr(os, "open", opened)
    elif request.param == "flushing":
        monkeypatch.setattr(os, "fsync", _no_space)
    else:
        monkeypatch.setattr(Path, "replace", _no_space)


def test_learning_goes_on_without_snapshots(serve: Any, must_be: Any, no_space_for_snapshots: None) -> None:
    with serve(snapshot_every=5) as served:
        served.put(40)
        served.say(40, seed=1)
        served.get("DELETE", "/feedback/5")
        served.say(20, seed=2)
        assert served.model() == must_be()


def test_a_snapshot_that_cannot_be_kept_leaves_nothing(
    serve: Any, data: Path, no_space_for_snapshots: None
) -> None:
    with serve(snapshot_every=5) as served:
        served.put(40)
        served.say(40, seed=1)
        served.model()
    assert [path for path in data.glob("snapshots/**/*") if path.is_file()] == []


def test_snapshots_are_kept_again_when_there_is_space(
    serve: Any, data: Path, must_be: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(snapshot_every=5) as served:
        served.put(40)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", _no_space)
            served.say(20, seed=1)
            served.model()
        served.say(20, seed=2)
        served.model()
    assert list(data.glob("snapshots/*/*.oahu"))
    with serve() as served:
        assert served.model() == must_be()


# -- a disk that is truly full -------------------------------------------------------------------------------

_MOUNT = 'mount -t tmpfs -o size=3m none "$0"'


def _can_mount() -> bool:
    """Whether this system lets us have a small disk of our own."""
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run(["unshare", "-rm", "sh", "-c", _MOUNT, folder], capture_output=True, check=False)
        return tried.returncode == 0


if _can_mount():

    @pytest.fixture(scope="module")
    def report(tmp_path_factory: pytest.TempPathFactory) -> Json:
        """What happened on a small disk that was filled up, and emptied again."""
        disk = tmp_path_factory.mktemp("disk")
        script = str(Path(__file__).with_name("small_disk.py"))
        run = ["unshare", "-rm", "sh", "-c", f'{_MOUNT} && exec "$1" -W ignore "$2" "$0"', str(disk)]
        done = subprocess.run([*run, sys.executable, script], capture_output=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr.decode()[-3_000:]
        found: Json = json.loads(done.stdout)
        return found

    def test_on_a_full_disk_everything_is_refused_clearly(report: Json) -> None:
        assert report["refused"]
        assert {(status, retry) for status, retry in report["refused"]} <= {(507, "30"), (503, "10")}
        assert 507 in [status for status, _ in report["refused"]]

    def test_on_a_full_disk_searching_and_reading_go_on(report: Json) -> None:
        assert report["answers while full"] == [200, 200, 200, 200]

    def test_on_a_full_disk_nothing_accepted_is_lost_and_nothing_else_is_there(report: Json) -> None:
        assert report["there"] == report["accepted"]

    def test_when_a_disk_has_space_again_everything_goes_on(report: Json) -> None:
        assert report["accepted after"] == 30
        assert report["model is the log"]

    def test_after_a_full_disk_a_restart_changes_nothing(report: Json) -> None:
        assert report["restart is equal"]

    def test_a_service_is_not_started_on_a_full_disk_and_says_why(report: Json) -> None:
        assert "oahu.db cannot be opened" in report["start"]
