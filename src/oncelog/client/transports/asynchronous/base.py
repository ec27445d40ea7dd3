"""What every asyncio object has: a cluster, a transport of its own, and an end."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TypeVar

from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Flow
from oncelog.client.net.settings import ClientSettings
from oncelog.client.transports.asynchronous.transport import AsyncTransport

T = TypeVar("T")


class AsyncBase:
    """For the event loop that first uses it, and no other."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._cluster = Cluster(settings)
        self._transport = AsyncTransport(settings)

    async def _run(self, flow: Flow[T]) -> T:
        return await self._transport.run(flow)

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
