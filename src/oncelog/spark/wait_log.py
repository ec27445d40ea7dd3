"""Warnings in the log while a broker does not answer, so that no program is silent for a minute."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from oncelog.client.errors import RetriesExhausted

logger = logging.getLogger("oncelog.spark")

FIRST_MS = 1000
"""A healthy broker answers long before."""
INTERVAL_MS = 5000
LOOK_MS = 200


class WaitLog:
    """Logs a line when an answer is missing for a second after `begin`, and then every five seconds, until `end`.

    The line is `what`, as "no answer from localhost:9092", then the time, then `ending`. For one thread, as a context; it
    may begin and end as often as it likes, and `begin` may name something else.
    """

    def __init__(self, what: str, ending: str = "") -> None:
        self._what = what
        self._ending = ending
        self._since_ms: float | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="oncelog-wait-log", daemon=True)

    def begin(self, what: str | None = None) -> None:
        self._what = what or self._what
        self._since_ms = time.monotonic() * 1000

    def end(self) -> None:
        self._since_ms = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        told_since_ms: float | None = None
        due_ms = FIRST_MS
        while not self._is_over.wait(LOOK_MS / 1000):
            since_ms = self._since_ms
            if since_ms != told_since_ms:
                told_since_ms, due_ms = since_ms, FIRST_MS
            if since_ms is None:
                continue
            waited_ms = time.monotonic() * 1000 - since_ms
            if waited_ms >= due_ms:
                due_ms += INTERVAL_MS
                logger.warning("oncelog: %s for %.0f s%s", self._what, waited_ms / 1000, self._ending)


@contextmanager
def answered(servers: str, what: str, limit_ms: float, setting: str) -> Iterator[None]:
    """Warn in the log while a cluster does not answer, and name in the error the time and its setting."""
    limit = f"{limit_ms / 1000:.0f} s ({setting})"
    with WaitLog(f"no answer from {servers} about {what}", f"; giving up after {limit}") as wait:
        wait.begin()
        try:
            yield
        except RetriesExhausted as error:
            raise RetriesExhausted(f"no answer from {servers} about {what} in {limit}: {error}") from error
