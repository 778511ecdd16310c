"""Logs: lines of JSON for programs, short lines for people."""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO

import orjson

__all__ = ["JsonLines", "ShortLines", "log_to"]

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, and whatever was given as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(told, default=str).decode()
        except TypeError:  # half a character somewhere, which no JSON has
            return orjson.dumps({name: ascii(value) for name, value in told.items()}).decode()


class ShortLines(logging.Formatter):
    """A record as a line to read. What a request says cannot end the line, or paint the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        said = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in record.getMessage())
        line = f"{record.levelname.lower()}: {said}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def log_to(stream: TextIO | None = None) -> None:
    """Write what oahu and the server say to a stream, or to standard error: to a terminal only what is wrong."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ShortLines() if stream.isatty() else JsonLines())
    for name in ("oahu", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING if stream.isatty() else logging.INFO)
    logging.getLogger("uvicorn.access").disabled = True  # oahu.access tells more
