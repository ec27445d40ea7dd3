"""Waiting for an outcome."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_SECONDS = 30


def until(ready: Callable[[], bool], timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Ask until it is so: Kafka's broker learns of a change from its controller, a moment after the answer."""
    deadline = time.monotonic() + timeout_seconds
    while not ready():
        assert time.monotonic() < deadline, "it did not come about"
