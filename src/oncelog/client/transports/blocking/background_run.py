"""A flow that goes on beside the calls of the user, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from oncelog.client.net.flows import Flow
from oncelog.client.transports.blocking.transport import BlockingTransport


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
