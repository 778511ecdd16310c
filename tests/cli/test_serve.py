"""`oahu serve`, `oahu keys` and `oahu backup`: output, exit codes and durability."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import oahu.cli.serve_command
from oahu import DatasetError, Pair, Triplet
from oahu.cli import app
from oahu.service.keys import KeyFile
from oahu.service.records import CollectionConfig, NewItem
from oahu.service.service import Service
from oahu.service.settings import Settings

runner = CliRunner()
ROWS = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
TIMEOUT = 600.0  # seconds; only a real hang exceeds it


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove settings from the environment, and restore the loggers."""
    for name in [name for name in os.environ if name.startswith("OAHU_")]:
        monkeypatch.delenv(name)
    loggers = [logging.getLogger(name) for name in ("oahu", "uvicorn", "uvicorn.access")]
    before = [(one.handlers, one.propagate, one.level, one.disabled) for one in loggers]
    yield
    for one, (handlers, propagate, level, disabled) in zip(loggers, before, strict=True):
        one.handlers, one.propagate, one.disabled = handlers, propagate, disabled
        one.setLevel(level)


def call(*arguments: str) -> Any:
    return runner.invoke(app, list(arguments), catch_exceptions=False)


def failed(*arguments: str) -> str:
    """Run a command that fails, and return its one line of output."""
    result = call(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    (line,) = result.stderr.splitlines()
    return line


# -- errors and help -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("serve",), ("keys",), ("keys", "add"), ("keys", "list"), ("keys", "revoke"), ("backup",)]
)
def test_every_command_has_help(words: tuple[str, ...]) -> None:
    result = call(*words, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_serve_help_lists_the_options() -> None:
    output = call("serve", "--help").stdout
    assert all(option in output for option in ("--data", "--host", "--port", "--demo", "--no-page", "OAHU_"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.7.7", "127.evil.example", "example.com"])
def test_a_public_address_without_a_key_is_rejected(tmp_path: Path, host: str) -> None:
    line = failed("serve", "--host", host, "--data", str(tmp_path / "data"))
    assert f"With host {host}, other machines can reach the service" in line
    assert "oahu keys add --role admin" in line
    assert not (tmp_path / "data").exists()


def test_a_revoked_key_does_not_permit_a_public_address(tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    file.revoke(file.add("gone", "admin").split("_")[1])
    assert "other machines can reach the service" in failed("serve", "--host", "0.0.0.0", "--data", str(tmp_path))


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        line = failed("serve", "--port", str(port), "--data", str(tmp_path / "data"))
    assert line == f"error: Cannot listen on 127.0.0.1, port {port}: Address already in use."
    assert not (tmp_path / "data").exists()


def test_an_address_of_another_machine_is_an_error(tmp_path: Path) -> None:
    KeyFile(tmp_path).add("one", "admin")
    assert "Cannot listen on 203.0.113.1" in failed("serve", "--host", "203.0.113.1", "--data", str(tmp_path))


def test_a_store_in_use_is_an_error(tmp_path: Path) -> None:
    service = Service(Settings(data=tmp_path))
    try:
        line = failed("serve", "--port", "0", "--no-page", "--data", str(tmp_path))
    finally:
        service.close()
    assert f"{tmp_path} is in use by another oahu service (process {os.getpid()})" in line


def test_an_invalid_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "oahu.db").write_bytes(b"this is no database" * 1000)
    assert "oahu.db" in failed("serve", "--port", "0", "--no-page", "--data", str(tmp_path))


def test_a_database_with_missing_tables_is_an_error(tmp_path: Path) -> None:
    """Missing tables are found when the service opens."""
    Service(Settings(data=tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "oahu.db")) as database:
        database.execute("DROP TABLE collections")
    assert "no such table" in failed("serve", "--port", "0", "--no-page", "--data", str(tmp_path))


def test_a_file_as_data_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "file" in failed("serve", "--port", "0", "--no-page", "--data", str(tmp_path / "file"))


def test_an_invalid_key_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text("{")
    assert "keys.json is not a valid file of API keys" in failed(
        "serve", "--port", "0", "--no-page", "--data", str(tmp_path)
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PORT", "x", "OAHU_PORT cannot be 'x'"),
        ("RATE", "-1", "OAHU_RATE cannot be '-1'"),
        ("TRUSTED_HOSTS", "[a", "OAHU_TRUSTED_HOSTS cannot be '[a'"),
        ("MAX_BODY", "0", "OAHU_MAX_BODY cannot be '0'"),
        ("KEEP_SNAPSHOTS", "1", "OAHU_KEEP_SNAPSHOTS cannot be '1'"),
    ],
)
def test_an_invalid_setting_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"OAHU_{name}", value)
    assert message in failed("serve", "--data", str(tmp_path))


@pytest.mark.parametrize("text", ["a.example, b.example,", '["a.example", "b.example"]'])
def test_trusted_hosts_are_comma_separated_or_json(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("OAHU_TRUSTED_HOSTS", text)
    assert Settings().trusted_hosts == ("a.example", "b.example")


@pytest.mark.parametrize(("name", "value"), [("TRUSTED_HOSTS", "a.example"), ("HTTPS", "true")])
def test_a_proxy_without_a_key_is_rejected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str
) -> None:
    monkeypatch.setenv(f"OAHU_{name}", value)
    line = failed("serve", "--data", str(tmp_path))
    assert f"With OAHU_{name}={value}, other machines can reach the service" in line


# -- the command in a process ------------------------------------------------------------------------------------


class Command:
    """`oahu serve` in a separate process."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-m", "oahu", "serve", "--no-page", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment
        )
        self.lines: list[str] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._listening.wait(TIMEOUT), self.lines
        self.http = httpx.Client(base_url=self.url, timeout=TIMEOUT, trust_env=False)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"oahu listens at http://[\d.]+:(\d+)/", line):
                self.url = f"http://127.0.0.1:{found[1]}"
                self._listening.set()
        self._listening.set()

    def wait_for(self, words: str) -> bool:
        """Wait until a line of output contains some words."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end and not any(words in line for line in self.lines):
            time.sleep(0.01)
        return any(words in line for line in self.lines)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(TIMEOUT)
        self._reader.join()
        self.http.close()
        self.process.communicate()
        return code

    def request(self, method: str, path: str, **sent: Any) -> Any:
        answer = self.http.request(method, f"/v1/collections{path}", **sent)
        assert answer.is_success, answer.text
        return answer.json()

    def fill(self) -> None:
        self.request("POST", "", json={"name": "c", "dimension": 4})
        items = [{"key": f"i{at}", "vector": row} for at, row in enumerate(ROWS.tolist())]
        self.request("PUT", "/c/items", json={"items": items})


@pytest.fixture
def serve() -> Iterator[Callable[..., Command]]:
    """Start the command; the process is killed at the end of the test."""
    commands: list[Command] = []

    def start(*arguments: str, **environment: str) -> Command:
        commands.append(Command(*arguments, **environment))
        return commands[-1]

    yield start
    for command in commands:
        command.end(signal.SIGKILL)


@pytest.mark.server
def test_a_stop_signal_finishes_requests_and_loses_nothing(serve: Any, tmp_path: Path) -> None:
    """There are requests in flight and an open event stream."""
    command = serve("--data", str(tmp_path))
    command.fill()
    acknowledged: list[int] = []
    enough, ended = threading.Event(), threading.Event()

    def give_feedback(worker: int) -> None:
        with (
            httpx.Client(base_url=command.url, timeout=TIMEOUT, trust_env=False) as http,
            suppress(httpx.TransportError),
        ):
            for at in range(100_000):
                record = {"anchor": f"i{worker}", "positive": f"i{5 + at % 7}", "negative": f"i{12 + at % 7}"}
                answer = http.post("/v1/collections/c/feedback", json={"feedback": [record]})
                if answer.status_code != 200:
                    return
                acknowledged.append(answer.json()["last_seq"])
                if len(acknowledged) > 60:
                    enough.set()

    def listen() -> None:
        url = f"{command.url}/v1/collections/c/events"
        with httpx.stream("GET", url, timeout=TIMEOUT, trust_env=False) as answer:
            for _ in answer.iter_lines():
                pass
        ended.set()  # the server ended the stream

    threads = [threading.Thread(target=give_feedback, args=(worker,)) for worker in range(3)]
    threads.append(threading.Thread(target=listen))
    for thread in threads:
        thread.start()
    assert enough.wait(TIMEOUT)
    assert command.end(signal.SIGTERM) == 0
    for thread in threads:
        thread.join()
    assert ended.is_set()

    again = Service(Settings(data=tmp_path))
    again.open()
    collection = again.collection("c")
    assert len(acknowledged) == len(set(acknowledged))
    assert collection.feedback_log.last_seq >= max(acknowledged)
    assert collection.published.version == collection.feedback_log.last_seq
    again.close()


@pytest.mark.server
def test_a_terminal_shows_the_address_and_errors(tmp_path: Path) -> None:
    main, side = pty.openpty()
    command = [sys.executable, "-m", "oahu", "serve", "--no-page", "--port", "0", "--data", str(tmp_path)]
    process = subprocess.Popen(command, stderr=side, stdout=subprocess.DEVNULL, env=os.environ | {"TERM": "dumb"})
    os.close(side)
    try:
        output = read_until(main, "to stop.")
        url = re.findall(r"http://[\d.]+:\d+", output)[0]
        assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        (tmp_path / "keys.json").write_text("{")
        output += request_until(main, f"{url}/v1/collections", "cannot reload the API keys")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 0
    finally:
        process.kill()
        process.wait()
        os.close(main)
    first, second = output.replace("\r", "").splitlines()[:2]
    assert first == f"oahu listens at {url}/v1/openapi.json, data folder: {tmp_path}. Press Ctrl+C to stop."
    assert second.startswith("error: cannot reload the API keys; the previous keys stay valid: ")


def read_until(terminal: int, words: str) -> str:
    """Read a terminal until it shows some words."""
    output, end = "", time.monotonic() + TIMEOUT
    while words not in output:
        assert time.monotonic() < end, output
        if select.select([terminal], [], [], 1)[0]:
            output += os.read(terminal, 65_536).decode()
    return output


def request_until(terminal: int, url: str, words: str) -> str:
    """Repeat a request until a terminal shows some words."""
    output, end = "", time.monotonic() + TIMEOUT
    while words not in output or not output.endswith("\n"):
        assert time.monotonic() < end, output
        httpx.get(url, trust_env=False)
        if select.select([terminal], [], [], 0.05)[0]:
            output += os.read(terminal, 65_536).decode()
    return output


@pytest.mark.server
def test_a_public_address_needs_a_key_and_limits_headers(serve: Any, tmp_path: Path) -> None:
    key = KeyFile(tmp_path).add("one", "admin")
    command = serve("--data", str(tmp_path), "--host", "0.0.0.0")
    assert command.http.get("/v1/collections").status_code == 401
    command.http.headers["Authorization"] = f"Bearer {key}"
    assert command.request("GET", "") == {"collections": []}
    host, port = command.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=TIMEOUT)) as connection:
        with suppress(OSError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 4")
    assert command.end() == 0


@pytest.mark.server
def test_a_second_signal_stops_at_once(serve: Any, tmp_path: Path) -> None:
    """This also holds with an incomplete request. The log consists of JSON lines and contains the address."""
    command = serve("--data", str(tmp_path))
    host, port = command.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)))) as connection:
        connection.sendall(b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        answer = command.http.get("/healthz", headers={"X-Request-ID": "mine"})
        assert "server" not in answer.headers
        command.process.send_signal(signal.SIGINT)
        assert command.wait_for("Waiting for connections to close")
        assert command.end(signal.SIGINT) == 0
    records = [json.loads(line) for line in command.lines]
    assert "mine" in [line["request_id"] for line in records if line["logger"] == "oahu.access"]
    (where,) = [line["message"] for line in records if "listens at" in line["message"]]
    assert where == f"oahu listens at {command.url}/v1/openapi.json, data folder: {tmp_path}. Press Ctrl+C to stop."
    assert not [line for line in command.lines if "timeout graceful shutdown" in line]


# -- examples ------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Service]:
    service = Service(Settings(data=tmp_path / "data"))
    service.open()
    yield service
    service.close()


@pytest.mark.slow
def test_the_examples_contain_digits_with_thumbnails(store: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_downloaded(*_: Any) -> None:
        raise DatasetError("not downloaded")

    monkeypatch.setattr("oahu.evaluation.datasets.load", not_downloaded)
    output: list[str] = []
    oahu.cli.serve_command._add_examples(output.append, store)
    digits = store.collection("digits")
    images, labels = load_digits(return_X_y=True)
    assert (digits.describe()["items"], len(output)) == (1797, 1)
    item = digits.catalogue.item("digits-00017")
    assert (item.label, item.has_thumbnail) == (str(labels[17]), True)
    found = digits.search((images[17] / 16).astype(np.float32), 1)
    assert found.matches[0][0] == "digits-00017"
    oahu.cli.serve_command._add_examples(output.append, store)  # existing collections are not added again
    assert len(output) == 1


def test_the_examples_contain_clothes_if_downloaded(store: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = np.arange(2 * 784).reshape(2, 784) / 784, np.array([0, 9])
    filled_with: dict[str, Any] = {}
    monkeypatch.setattr(
        "oahu.service.demo_data.create_image_collection",
        lambda _, name, *content: filled_with.update({name: content}),
    )
    monkeypatch.setattr("oahu.evaluation.datasets.load", lambda _: type("Data", (), {"X": images, "y": labels}))
    oahu.cli.serve_command._add_examples(lambda _: None, store)
    assert list(filled_with) == ["digits", "fashion-mnist"]
    pictures, classes, names = filled_with["fashion-mnist"]
    assert (pictures.shape, pictures.max()) == ((2, 28, 28), 255)
    assert [names[at] for at in classes] == ["T-shirt", "ankle boot"]


# -- keys ----------------------------------------------------------------------------------------------------


def test_a_new_key_is_the_only_output_and_has_its_role(tmp_path: Path) -> None:
    result = call("keys", "add", "--role", "feedback", "--name", "the shop", "--data", str(tmp_path))
    assert result.exit_code == 0
    (token,) = result.stdout.splitlines()
    key = KeyFile(tmp_path).authenticate(token)
    assert key is not None
    assert (key.name, key.role) == ("the shop", "feedback")
    assert token not in result.stderr


def test_keys_are_listed_without_their_secrets(tmp_path: Path) -> None:
    tokens = [KeyFile(tmp_path).add(name, "read") for name in ("one", "[red]two[/red]")]
    output = call("keys", "list", "--data", str(tmp_path)).stdout
    assert all(token.split("_")[1] in output for token in tokens)
    assert not any(token.split("_", 2)[2] in output for token in tokens)
    assert "[red]two[/red]" in output


def test_an_empty_key_list_says_so(tmp_path: Path) -> None:
    assert "There are no keys" in call("keys", "list", "--data", str(tmp_path)).stdout


def test_a_key_is_revoked(tmp_path: Path) -> None:
    token = KeyFile(tmp_path).add("one", "read")
    result = call("keys", "revoke", token.split("_")[1], "--data", str(tmp_path))
    assert result.exit_code == 0
    assert KeyFile(tmp_path).authenticate(token) is None


def test_revoking_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    assert "There is no key 'nothing'" in failed("keys", "revoke", "nothing", "--data", str(tmp_path))


def test_an_unknown_role_is_rejected(tmp_path: Path) -> None:
    result = call("keys", "add", "--role", "root", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert KeyFile(tmp_path).all() == []


def test_the_data_folder_can_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAHU_DATA", str(tmp_path / "elsewhere"))
    call("keys", "add", "--role", "read")
    assert len(KeyFile(tmp_path / "elsewhere").all()) == 1


# -- backups -------------------------------------------------------------------------------------------------


FEEDBACK = [Triplet("i0", "i1", "i2"), Pair("i3", "i4", True), Triplet("i5", "i6", "i7")]


def filled(service: Service) -> Any:
    collection = service.create(CollectionConfig("c", 4))
    items = [NewItem(f"i{at}", row.tobytes(), f"l{at % 3}", {"at": at}, b"GIF89a") for at, row in enumerate(ROWS)]
    collection.put_items(items).result()
    collection.queries.apply_changes()
    collection.add_feedback(FEEDBACK, "once").result()
    collection.undo(1).result()
    collection.delete_items(["i19"]).result()
    collection.queries.apply_changes()
    return collection


def contents(collection: Any) -> dict[str, Any]:
    """Return everything a collection shows."""
    collection.learner.wait_for(collection.feedback_log.last_seq, 600)
    return {
        "items": collection.catalogue.page(0, 100),
        "image": collection.catalogue.thumbnail("i0"),
        "log": collection.feedback_log.page(0, 100),
        "model": collection.learner.model_file(),
        "found": [(key, match.similarity, output) for key, match, output in collection.search("i0", 20).matches],
        "config": collection.config,
    }


def test_a_backup_of_a_running_service_restores_everything(store: Service, tmp_path: Path) -> None:
    before = contents(filled(store))
    result = call("backup", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "copy.db"))
    assert result.exit_code == 0
    store.collection("c").delete_items(["i0"]).result()  # after the backup
    (tmp_path / "back").mkdir()
    (tmp_path / "copy.db").rename(tmp_path / "back" / "oahu.db")
    again = Service(Settings(data=tmp_path / "back"))
    again.open()
    try:
        assert contents(again.collection("c")) == before
        receipt = again.collection("c").add_feedback(FEEDBACK, "once")
        assert receipt.result().replayed
    finally:
        again.close()


def test_a_backup_during_writes_is_consistent(store: Service, tmp_path: Path) -> None:
    """The copy contains a prefix of the log, and its integrity check passes."""
    collection = filled(store)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            collection.add_feedback([Triplet("i0", "i1", "i2")] * 20).result()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for at in range(3):
            assert (
                call("backup", "--data", str(tmp_path / "data"), "--out", str(tmp_path / f"{at}.db")).exit_code == 0
            )
    finally:
        stop.set()
        writer.join()
    for at in range(3):
        with closing(sqlite3.connect(tmp_path / f"{at}.db")) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            seqs = [seq for (seq,) in copy.execute("SELECT seq FROM log ORDER BY seq")]
        assert seqs == list(range(1, len(seqs) + 1))
        assert (len(seqs) - 4) % 20 == 0


def test_a_backup_of_a_stopped_service_is_one_file(tmp_path: Path) -> None:
    service = Service(Settings(data=tmp_path / "data"))
    service.open()
    filled(service)
    service.close()
    before = sorted(path.name for path in (tmp_path / "data").iterdir())
    assert call("backup", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "b.db")).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.db", "data"]
    assert set(before) <= {path.name for path in (tmp_path / "data").iterdir()}


def test_a_backup_says_that_keys_are_missing(store: Service, tmp_path: Path) -> None:
    output = call("backup", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "b.db")).stderr
    assert "all data except the API keys" in output


@pytest.mark.parametrize("odd", ["a b#c?d%41.db", "ä.db"])
def test_a_backup_can_have_any_name(store: Service, tmp_path: Path, odd: str) -> None:
    assert call("backup", "--data", str(tmp_path / "data"), "--out", str(tmp_path / odd)).exit_code == 0
    assert (tmp_path / odd).stat().st_size > 0


def test_a_data_folder_can_have_any_name(tmp_path: Path) -> None:
    data = tmp_path / "a b#c?d%41"
    Service(Settings(data=data)).close()
    assert call("backup", "--data", str(data), "--out", str(tmp_path / "b.db")).exit_code == 0


def test_a_backup_does_not_replace_a_file(store: Service, tmp_path: Path) -> None:
    (tmp_path / "b.db").write_text("mine")
    assert "already exists" in failed("backup", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "b.db"))
    assert (tmp_path / "b.db").read_text() == "mine"


@pytest.mark.parametrize(
    ("data", "out", "message"),
    [
        ("nowhere", "b.db", "contains no service data"),
        ("broken", "b.db", "Cannot copy"),
        ("broken", "no/b.db", "the folder"),
    ],
)
def test_a_failed_backup_is_an_error_and_leaves_no_file(tmp_path: Path, data: str, out: str, message: str) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "oahu.db").write_bytes(b"no database" * 1000)
    assert message in failed("backup", "--data", str(tmp_path / data), "--out", str(tmp_path / out))
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]
