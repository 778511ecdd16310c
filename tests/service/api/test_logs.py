"""Log formats: JSON lines, and short lines for a terminal."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.service.api.logs import JsonFormatter, TerminalFormatter, configure_logging

LOGGERS = ("oahu", "uvicorn", "uvicorn.access")


@pytest.fixture(autouse=True)
def _restore_loggers() -> Iterator[None]:
    """Restore the loggers after each test."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(one.handlers, one.propagate, one.level, one.disabled) for one in loggers]
    yield
    for one, (handlers, propagate, level, disabled) in zip(loggers, before, strict=True):
        one.handlers, one.propagate, one.disabled = handlers, propagate, disabled
        one.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def record(message: str, *values: Any, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    return logging.getLogger("oahu.test").makeRecord("oahu.test", level, "", 0, message, values, None, extra=extra)


def test_every_request_is_logged_as_json(server: Any, wait_until: Any) -> None:
    stream = io.StringIO()
    configure_logging(stream)
    path = server.new_collection(n=2)
    server.http.post(f"{path}/search", json={"key": "i0"}, headers={"X-Request-ID": "abc"})
    server.http.get("/nothing/%0a%1b[31m{}")
    wait_until(lambda: '"status":404' in stream.getvalue())  # the line is written after the response
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (mine,) = [line for line in lines if line.get("request_id") == "abc"]
    assert (mine["method"], mine["path"], mine["status"]) == ("POST", f"{path}/search", 200)
    assert (mine["level"], mine["logger"], mine["client"]) == ("info", "oahu.access", "127.0.0.1")
    assert mine["milliseconds"] > 0
    (unknown,) = [line for line in lines if line.get("status") == 404]
    assert unknown["path"] == "/nothing/\n\x1b[31m{}"


def test_api_keys_are_not_logged(start_server: Any, tmp_path: Any, wait_until: Any) -> None:
    from oahu.service.keys import KeyFile

    key = KeyFile(tmp_path / "data").add("one", "read")
    stream = io.StringIO()
    configure_logging(stream)
    server = start_server()
    for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}, {"Authorization": f"Basic {key}"}):
        server.http.get("/v1/collections", headers=headers)
    wait_until(lambda: stream.getvalue().count('"path":"/v1/collections"') == 3)
    assert key.split("_", 2)[2] not in stream.getvalue()


@given(message=st.text(), value=st.text(st.characters(exclude_categories=[])) | st.binary() | st.integers())
def test_any_record_is_one_line_of_json(message: str, value: Any) -> None:
    line = JsonFormatter().format(record(message.replace("%", "%%"), path=value))
    assert "\n" not in line
    result = json.loads(line)
    assert result["level"] in ("info", "'info'")
    if isinstance(value, str) and value.isascii():
        assert (result["message"], result["path"]) == (message.replace("%", "%%"), value)


def test_a_traceback_is_part_of_the_line() -> None:
    try:
        raise RuntimeError("broken\nin two")
    except RuntimeError:
        info = sys.exc_info()
    one = record("failed", level=logging.ERROR)
    one.exc_info = info
    line = JsonFormatter().format(one)
    assert "\n" not in line
    assert "RuntimeError: broken\nin two" in json.loads(line)["trace"]


def test_the_time_is_utc_with_milliseconds() -> None:
    one = record("x")
    one.created, one.msecs = 0.25, 250.0
    assert json.loads(JsonFormatter().format(one))["time"] == "1970-01-01T00:00:00.250Z"


def test_a_terminal_gets_warnings_and_errors_only() -> None:
    terminal = Terminal()
    configure_logging(terminal)
    logging.getLogger("oahu.access").info("GET / 200")
    logging.getLogger("uvicorn.error").info("Started")
    logging.getLogger("oahu.service").warning("no snapshot of %r could be kept", "teas")
    logging.getLogger("uvicorn.error").error("address already in use")
    assert terminal.getvalue() == "warning: no snapshot of 'teas' could be kept\nerror: address already in use\n"


@given(st.text())
def test_control_characters_are_escaped_on_a_terminal(feedback: str) -> None:
    line = TerminalFormatter().format(record("%s", feedback, level=logging.ERROR))
    assert line.isprintable()
    if feedback.isprintable():
        assert line == f"error: {feedback}"
