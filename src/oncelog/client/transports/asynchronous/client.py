"""The asyncio client, and the base of every asyncio object."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self, TypeVar

from oncelog.client.net.flows import Flow
from oncelog.client.net.settings import ClientSettings
from oncelog.client.transports.asynchronous.transport import AsyncTransport
from oncelog.client.transports.calls.call import AsyncCalls
from oncelog.client.transports.calls.client import ClientCalls

T = TypeVar("T")


class AsyncBase(AsyncCalls):
    """A transport and its end. For the event loop that first uses it, and no other."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__(settings)
        self._transport = AsyncTransport(settings)

    async def _run(self, flow: Flow[T]) -> T:
        return await self._transport.run(flow)

    def _held(self) -> AbstractContextManager[object]:
        """Flows run on the event loop, as the caller does: none runs meanwhile."""
        return nullcontext()

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class AsyncClient(ClientCalls, AsyncBase):
    """Asks a cluster. Tasks may share one, and need not take turns. See Client, whose methods these are."""
