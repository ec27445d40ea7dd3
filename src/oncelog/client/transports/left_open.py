"""What becomes of producers that nobody closes: nothing waits for them, but what they lose is said."""

from __future__ import annotations

import atexit
import logging
from typing import Protocol
from weakref import WeakSet

logger = logging.getLogger("oncelog.client")


class LeftOpen(Protocol):
    def unwritten(self) -> int:
        """How many records would be lost if this process ended now."""
        ...


_producers: WeakSet[LeftOpen] = WeakSet()


def watch(producer: LeftOpen) -> None:
    """Have the end of the process say what the producer had not written by then."""
    if not _producers:
        atexit.unregister(_say_what_is_lost)
        atexit.register(_say_what_is_lost)
    _producers.add(producer)


def say_lost(count: int, why: str) -> None:
    """On standard error, unless the program has set up logging otherwise."""
    records = "1 record" if count == 1 else f"{count} records"
    logger.error("%s, and %s that it had not written may be lost", why, records)


def _say_what_is_lost() -> None:
    for producer in list(_producers):
        count = producer.unwritten()
        if count:
            say_lost(count, "the program has ended without closing a producer")
