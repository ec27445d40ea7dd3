"""What every blocking object has: a cluster, a transport of its own, and an end."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TypeVar

from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Flow
from oncelog.client.net.settings import ClientSettings
from oncelog.client.transports.blocking.ownership import OwnedLock, Ownership
from oncelog.client.transports.blocking.transport import BlockingTransport

T = TypeVar("T")


class BlockingBase:
    """A cluster, a transport of its own, and the time between making and closing both."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._cluster = Cluster(settings)
        self._ownership = Ownership()
        self._lock = OwnedLock(self._ownership)
        self._transport = BlockingTransport(settings, self._lock)
        self._one_at_a_time = OwnedLock(self._ownership)

    def _run(self, flow: Flow[T]) -> T:
        try:
            with self._one_at_a_time.ours():
                return self._transport.run(flow)
        finally:
            flow.close()

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
