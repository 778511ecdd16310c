"""Log formats: JSON lines for log files and programs, and short lines for a terminal."""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO

import orjson

__all__ = ["JsonFormatter", "TerminalFormatter", "configure_logging"]

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """A formatter for JSON lines with the time, level, logger and message, and the fields of ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(fields, default=str).decode()
        except TypeError:  # JSON cannot contain a lone surrogate
            return orjson.dumps({name: ascii(value) for name, value in fields.items()}).decode()


class TerminalFormatter(logging.Formatter):
    """A formatter for short lines.

    Control characters are escaped. Text from a request therefore cannot start a new line or send commands to the
    terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        message = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in record.getMessage())
        line = f"{record.levelname.lower()}: {message}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logging(stream: TextIO | None = None) -> None:
    """Send the logs of oahu and uvicorn to a stream. The default is standard error.

    For a terminal, warnings and errors are written as short lines. For any other stream, all messages from level
    INFO on are written as JSON lines.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TerminalFormatter() if stream.isatty() else JsonFormatter())
    for name in ("oahu", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING if stream.isatty() else logging.INFO)
    logging.getLogger("uvicorn.access").disabled = True  # oahu.access also logs the request id
