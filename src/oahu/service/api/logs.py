"""Logs as lines of JSON."""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO

import orjson

__all__ = ["JsonLines", "log_to"]

_PLAIN = frozenset(vars(logging.makeLogRecord({})))


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, and whatever was given as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: value for name, value in vars(record).items() if name not in _PLAIN and name != "message"}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(told, default=str).decode()


def log_to(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    """Write what oahu and the server say to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in ("oahu", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("uvicorn.access").disabled = True  # oahu.access tells more
