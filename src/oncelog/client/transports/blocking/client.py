"""The blocking client, and the base of every blocking object."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self, TypeVar

from oncelog.client.net.flows import Flow
from oncelog.client.net.settings import ClientSettings
from oncelog.client.transports.blocking.ownership import OwnedCondition, OwnedLock, Ownership
from oncelog.client.transports.blocking.transport import BlockingTransport
from oncelog.client.transports.calls.call import BlockingCalls
from oncelog.client.transports.calls.client import ClientCalls

T = TypeVar("T")


class BlockingBase(BlockingCalls):
    """A transport and its end. Threads that share one take turns: one call runs at a time."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__(settings)
        self._ownership = Ownership()
        self._lock = OwnedCondition(self._ownership)
        self._transport = BlockingTransport(settings, self._lock)
        self._one_at_a_time = OwnedLock(self._ownership)

    def _run(self, flow: Flow[T]) -> T:
        try:
            with self._one_at_a_time.ours():
                return self._transport.run(flow)
        finally:
            flow.close()

    def _held(self) -> AbstractContextManager[object]:
        return self._lock.ours()

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Client(ClientCalls, BlockingBase):
    """Asks a cluster, on the calling thread. Threads may share one; they take turns."""


class BackgroundRun:
    """A thread that carries one flow to its end, and then calls `ended`."""

    def __init__(self, transport: BlockingTransport, flow: Flow[None], ended: Callable[[], None], name: str) -> None:
        self._transport = transport
        self._flow = flow
        self._ended = ended
        self._name = name
        self._thread: threading.Thread | None = None
        self._running = threading.Lock()
        self.is_over = False

    def start(self) -> None:
        """Once. Where a signal's handler has raised amid it, again: of two threads, one has nothing to do."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
        with self._running:  # by whom it may be run that was not noted
            return

    def _run(self) -> None:
        if not self._running.acquire(blocking=False):
            return
        try:
            self._transport.run(self._flow)
        finally:
            self.is_over = True
            self._ended()
            self._running.release()
