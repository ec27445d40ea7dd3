"""Ownership of an object by one process: a forked one has a copy of it and of its sockets, but none of its threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from oncelog.client.errors import IllegalState

FOR_EVER = -1.0


class Ownership:
    """The process that has made something, and no other, may use it."""

    def __init__(self) -> None:
        self._process_id = os.getpid()

    @property
    def is_ours(self) -> bool:
        return self._process_id == os.getpid()

    def require(self) -> None:
        """Raises IllegalState in a process that was forked since."""
        if not self.is_ours:
            raise IllegalState(
                f"process {self._process_id} has made this client, and {os.getpid()} was forked from it since: "
                "a process makes clients of its own"
            )


class OwnedLock:
    """A reentrant lock that a forked process does not wait for: it has no thread that would release it.

    It is held with `with lock.ours():`. No step of Python's is between its being taken and the block, nor between the block
    and its release, so that a signal's handler that raises leaves it to nobody.
    """

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._lock = threading.RLock()

    def ours(self) -> AbstractContextManager[object]:
        """Raises IllegalState in a process that was forked since."""
        self._ownership.require()
        return self._lock

    def is_free(self) -> bool:
        """True if no other thread holds it."""
        is_taken = self._lock.acquire(blocking=False)
        if is_taken:
            self._lock.release()
        return is_taken


class OwnedCondition(OwnedLock):
    """A lock, and the threads that wait for a change of what it guards.

    They do not hold it meanwhile: threading.Condition takes it from a waiting thread, and a signal's handler that raises between
    that and its giving it back would make it a RuntimeError.
    """

    def __init__(self, ownership: Ownership) -> None:
        super().__init__(ownership)
        self._waiting: list[threading.Lock] = []

    def wait_for(self, is_so: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until it is so, asking with the lock held, or until the time is over; return whether it is so."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self.ours():
                if is_so():
                    return True
                changed = threading.Lock()
                changed.acquire()
                self._waiting.append(changed)
            left_s = FOR_EVER if until_s is None else max(0.0, until_s - time.monotonic())
            if not changed.acquire(timeout=left_s):
                with self.ours():
                    self._waiting = [other for other in self._waiting if other is not changed]
                    return is_so()

    def notify_all(self) -> None:
        """Wake the threads that wait. Call it with the lock held."""
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            changed.release()
