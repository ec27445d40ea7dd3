"""Whose an object is: a process that was forked has a copy of it, and of its sockets, but none of its threads."""

from __future__ import annotations

import os
import threading
from types import TracebackType

from oncelog.client.errors import IllegalState


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
    """A reentrant lock that a forked process does not wait for: nobody is there who would release it."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._ownership.require()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()

    def is_free(self) -> bool:
        """Whether no other thread has it."""
        is_taken = self._lock.acquire(blocking=False)
        if is_taken:
            self._lock.release()
        return is_taken


class OwnedCondition(threading.Condition):
    """A condition whose lock is one, too."""

    def __init__(self, ownership: Ownership) -> None:
        super().__init__()
        self._ownership = ownership

    def __enter__(self) -> bool:
        self._ownership.require()
        return super().__enter__()
