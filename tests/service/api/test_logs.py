"""Logs: every line is JSON, or one short line; requests are found by their ids; nothing breaks out of a line."""

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
def _as_before() -> Iterator[None]:
    """Leave the loggers as they were."""
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


def test_every_request_is_a_line_of_json_with_its_id(live: Any) -> None:
    stream = io.StringIO()
    configure_logging(stream)
    path = live.new(n=2)
    live.http.post(f"{path}/search", json={"key": "i0"}, headers={"X-Request-ID": "abc"})
    live.http.get("/nothing/%0a%1b[31m{}")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (mine,) = [line for line in lines if line.get("request_id") == "abc"]
    assert (mine["method"], mine["path"], mine["status"]) == ("POST", f"{path}/search", 200)
    assert (mine["level"], mine["logger"], mine["client"]) == ("info", "oahu.access", "127.0.0.1")
    assert mine["milliseconds"] > 0
    (odd,) = [line for line in lines if line.get("status") == 404]
    assert odd["path"] == "/nothing/\n\x1b[31m{}"


def test_no_log_has_a_key_in_it(start: Any, tmp_path: Any) -> None:
    from oahu.service.keys import KeyFile

    key = KeyFile(tmp_path / "data").add("one", "read")
    stream = io.StringIO()
    configure_logging(stream)
    service = start()
    for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}, {"Authorization": f"Basic {key}"}):
        service.http.get("/v1/collections", headers=headers)
    assert stream.getvalue().count('"path":"/v1/collections"') == 3
    assert key.split("_", 2)[2] not in stream.getvalue()


@given(message=st.text(), value=st.text(st.characters(exclude_categories=[])) | st.binary() | st.integers())
def test_whatever_is_said_is_one_line_of_json(message: str, value: Any) -> None:
    line = JsonFormatter().format(record(message.replace("%", "%%"), path=value))
    assert "\n" not in line
    told = json.loads(line)
    assert told["level"] in ("info", "'info'")
    if isinstance(value, str) and value.isascii():
        assert (told["message"], told["path"]) == (message.replace("%", "%%"), value)


def test_an_error_comes_with_its_trace_in_the_same_line() -> None:
    try:
        raise RuntimeError("broken\nin two")
    except RuntimeError:
        info = sys.exc_info()
    one = record("failed", level=logging.ERROR)
    one.exc_info = info
    line = JsonFormatter().format(one)
    assert "\n" not in line
    assert "RuntimeError: broken\nin two" in json.loads(line)["trace"]


def test_time_is_told_in_utc_with_milliseconds() -> None:
    one = record("x")
    one.created, one.msecs = 0.25, 250.0
    assert json.loads(JsonFormatter().format(one))["time"] == "1970-01-01T00:00:00.250Z"


def test_a_terminal_is_told_what_is_wrong_and_nothing_else() -> None:
    terminal = Terminal()
    configure_logging(terminal)
    logging.getLogger("oahu.access").info("GET / 200")
    logging.getLogger("uvicorn.error").info("Started")
    logging.getLogger("oahu.service").warning("no snapshot of %r could be kept", "teas")
    logging.getLogger("uvicorn.error").error("address already in use")
    assert terminal.getvalue() == "warning: no snapshot of 'teas' could be kept\nerror: address already in use\n"


@given(st.text())
def test_nothing_that_is_said_ends_a_line_or_paints_a_terminal(said: str) -> None:
    line = TerminalFormatter().format(record("%s", said, level=logging.ERROR))
    assert line.isprintable()
    if said.isprintable():
        assert line == f"error: {said}"
