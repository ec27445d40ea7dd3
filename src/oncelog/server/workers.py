"""Threads for work that keeps the processor busy for long. The codecs release the interpreter while they work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from oncelog.environment import RefusedError

T = TypeVar("T")


class _Job:
    __slots__ = ("done", "work")

    def __init__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.work: Callable[[], Any] | None = work
        self.done: Callable[[Any], None] | None = done

    def cancel(self) -> None:
        self.work = self.done = None

    def finish(self, result: Any) -> None:
        if self.done is not None:
            self.done(result)


class _Worker:
    """One thread, started when it is first needed."""

    def __init__(
        self, name: str, call_back: Callable[[Callable[[], None]], object], on_bug: Callable[[BaseException], None]
    ) -> None:
        self._name = name
        self._call_back = call_back
        self._on_bug = on_bug
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def put(self, job: _Job) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise RefusedError("the machine has no thread for it") from error
            self._thread = thread
        self._queue.put(job)

    def stop(self) -> None:
        self._is_stopped = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            work = job.work
            if work is None or self._is_stopped:
                continue
            try:
                self._call_back(partial(job.finish, work()))
            except Exception as error:  # noqa: BLE001 - a thread that ends in silence leaves everybody waiting
                self._call_back(partial(self._on_bug, error))
            # What it was about must not be kept until the next comes.
            del job, work


class WorkerThreads:
    """`call_back` brings a callback to the thread that owns the broker; `on_bug` is told there of what work should never raise."""

    def __init__(
        self, call_back: Callable[[Callable[[], None]], object], on_bug: Callable[[BaseException], None]
    ) -> None:
        self._short = _Worker("oncelog-work", call_back, on_bug)
        self._long = _Worker("oncelog-long-work", call_back, on_bug)

    def run(self, work: Callable[[], T], done: Callable[[T], None], *, is_long: bool) -> _Job:
        job = _Job(work, done)
        (self._long if is_long else self._short).put(job)
        return job

    def stop(self) -> None:
        for worker in (self._short, self._long):
            worker.stop()
