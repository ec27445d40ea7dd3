"""Signals whose handlers raise, at one step after the other of a call.

CPython looks for signals when a Python function begins or goes on, and when a function in C has returned. The profiler is
called at the same steps, and can raise there as a handler would.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
STEPS = ("call", "c_return")


class TimeIsUp(Exception):
    """What a handler raises, as Celery's SoftTimeLimitExceeded."""


class Interruption:
    """One signal at the step with this number, counted from 0, of one call on the calling thread."""

    def __init__(self, step: int) -> None:
        self._left = step
        self.was_raised = False
        self.place = "nowhere"

    def interrupts(self, call: Callable[[], T]) -> T:
        """Raises TimeIsUp, unless the call is over before, or that was raised where nobody hears of it."""
        look = self._look  # Python lets go of its own reference when it raises
        sys.setprofile(look)
        try:
            return call()
        except RuntimeError as error:
            # threading.Condition waits without its lock, and releases it none the less where it is interrupted then.
            if isinstance(error.__context__, TimeIsUp):
                raise error.__context__ from None
            raise
        finally:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        # Python's own import would leave a lock behind that all threads need.
        if event not in STEPS or self.was_raised or frame.f_code.co_filename.startswith("<frozen importlib"):
            return
        self._left -= 1
        if self._left < 0:
            self.was_raised = True
            self.place = f"{event} of {frame.f_code.co_qualname}, line {frame.f_lineno} of {frame.f_code.co_filename}"
            raise TimeIsUp


def interruptions(first: int = 0, every: int = 1) -> Iterator[Interruption]:
    """One for each step, until a call was over before it. With `every`, only that part of the steps, from `first`."""
    for step in itertools.count(first, every):
        interruption = Interruption(step)
        yield interruption
        if not interruption.was_raised:
            return
