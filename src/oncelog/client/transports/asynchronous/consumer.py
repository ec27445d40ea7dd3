"""The asyncio consumer. A task of its own speaks with the group's coordinator."""

from __future__ import annotations

import asyncio
from functools import cached_property

from oncelog.client.consumer.core import ConsumedRecord
from oncelog.client.errors import ClientError
from oncelog.client.groups.membership import Membership
from oncelog.client.transports.asynchronous.client import AsyncBase
from oncelog.client.transports.asynchronous.transport import AsyncTransport
from oncelog.client.transports.calls.consumer import RECORDS_MAX, ConsumerCalls


class AsyncConsumer(ConsumerCalls, AsyncBase):
    """Reads partitions, or is a member of a group. See Consumer, whose methods these are. For one task at a time.

    A task of its own sends a subscriber's heartbeats: let the event loop run while you compute.
    """

    _membership: asyncio.Task[None] | None = None

    @cached_property
    def _group_transport(self) -> AsyncTransport:
        return AsyncTransport(self._settings)

    async def poll(self, timeout_ms: float = 1000, *, records_max: int = RECORDS_MAX) -> list[ConsumedRecord]:
        """Records as soon as there are any; an empty list when none came in time.

        A subscriber's partitions change here and nowhere else, and what was returned before counts as read. Raises
        OffsetOutOfRange, NoOffset, BrokerRefused or RetriesExhausted; MemberFenced when another consumer has the group
        instance id.
        """
        try:
            records = await self._run(self._core.poll(timeout_ms, records_max))
            self._core.mark_received()
        except (ClientError, asyncio.CancelledError):
            raise
        except BaseException:
            self._core.take_back()
            raise
        return records

    async def close(self) -> None:
        """Give up what is assigned, commit if that was asked for, and leave the group; a static member stays in it.

        Raises what `on_revoked` raises, when everything is closed.
        """
        if self._transport.is_closed:
            return
        try:
            if self._group is not None:
                await self._run(self._group.end())
        finally:
            if self._membership is not None:
                await _end_of(self._membership)
            await self._group_transport.close()
            await super().close()

    def _wake_poll(self) -> None:
        self._transport.wake()

    def _wake_member(self) -> None:
        self._group_transport.wake()

    def _start(self, member: Membership) -> None:
        if self._membership is None:
            flow = member.run()
            self._membership = asyncio.create_task(self._group_transport.run(flow))
            self._membership.add_done_callback(lambda _: flow.close())  # a task that is cancelled may never have begun


async def _end_of(task: asyncio.Task[None]) -> None:
    """Wait for a task, and raise its error. Cancelling the wait does not cancel the task."""
    if not task.done():
        await asyncio.wait((task,))
    if not task.cancelled():
        task.result()
