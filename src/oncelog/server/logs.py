"""What a broker as a process says: the records of `logging` under the name oncelog, one line each, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class TextLines(logging.Formatter):
    """Names that clients chose are in the messages: whatever would end or hide a line is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname} {record.name}: {_escaped(_message(self, record))}"


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(self, record),
        }
        return json.dumps(told, ensure_ascii=False)


def begin_logging(level: str, log_format: LogFormat) -> None:
    """From now on say what is at this level or above."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format is LogFormat.JSON else TextLines())
    logger = logging.getLogger("oncelog")
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    message = record.getMessage()
    return message if not record.exc_info else f"{message}\n{formatter.formatException(record.exc_info)}"


def _escaped(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
