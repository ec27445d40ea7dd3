"""The blocking client, and the base of every blocking object."""

from __future__ import annotations

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
