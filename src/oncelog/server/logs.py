"""The log of a broker process on standard error: the records of the loggers oncelog and asyncio, one line each."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum

PROCESS = "oncelog.process"
"""The logger of messages about the process itself: its end, a failed start, a setting without effect. They are written
at every level.
"""
OF_CLOSED_CONNECTIONS = frozenset({"SSL connection is closed", "socket.send() raised exception."})
"""Messages of event loops about each answer to a client that has hung up."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class TextLines(logging.Formatter):
    """Names that clients chose are in the messages: whatever would end or hide a line is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname} {record.name}: {_escaped(_message(self, record))}"


class Sentences(logging.Formatter):
    """For who started the process. A bug comes with where it was, before the sentence."""

    def format(self, record: logging.LogRecord) -> str:
        sentence = f"oncelog: {record.getMessage()}"
        return f"{self.formatException(record.exc_info)}\n{sentence}" if record.exc_info else sentence


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
    is_json = log_format is LogFormat.JSON
    lines = JsonLines() if is_json else TextLines()
    _say("oncelog", level.upper(), lines)
    _say("asyncio", max(logging.WARNING, logging.getLevelName(level.upper())), lines)
    logging.getLogger("asyncio").addFilter(lambda record: record.getMessage() not in OF_CLOSED_CONNECTIONS)
    _say(PROCESS, logging.DEBUG, lines if is_json else Sentences())


def _say(name: str, level: str | int, formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logger = logging.getLogger(name)
    logger.handlers = [handler]
    logger.setLevel(level)
    logger.propagate = False


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    message = record.getMessage()
    return message if not record.exc_info else f"{message}\n{formatter.formatException(record.exc_info)}"


def _escaped(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
