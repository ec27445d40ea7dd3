"""The blocking consumer. A thread of its own speaks with the group's coordinator."""

from __future__ import annotations

from functools import cached_property

from oncelog.client.consumer.core import ConsumedRecord
from oncelog.client.errors import ClientError
from oncelog.client.groups.membership import Membership
from oncelog.client.transports.blocking.client import BackgroundRun, BlockingBase
from oncelog.client.transports.blocking.transport import BlockingTransport
from oncelog.client.transports.calls.consumer import RECORDS_MAX, ConsumerCalls


class Consumer(ConsumerCalls, BlockingBase):
    """Reads the partitions it is told to, or is a member of a group that divides topics among its members.

    For one thread at a time. A subscriber's heartbeats are sent by a thread of its own, so that it may compute between two
    polls for as long as `max_poll_interval_ms`.
    """

    _membership: BackgroundRun | None = None

    @cached_property
    def _group_transport(self) -> BlockingTransport:
        return BlockingTransport(self._settings, self._lock)

    def poll(self, timeout_ms: float = 1000, *, records_max: int = RECORDS_MAX) -> list[ConsumedRecord]:
        """Records as soon as there are any; an empty list when none came in time.

        A subscriber's partitions change here and nowhere else, and what was returned before counts as read. Raises
        OffsetOutOfRange, NoOffset, BrokerRefused or RetriesExhausted; MemberFenced when another consumer has the group
        instance id.
        """
        try:
            records = self._run(self._core.poll(timeout_ms, records_max))
            self._core.mark_received()
        except ClientError:
            raise
        except BaseException:
            with self._lock.ours():
                self._core.take_back()
            raise
        return records

    def close(self) -> None:
        """Give up what is assigned, commit if that was asked for, and leave the group; a static member stays in it.

        A process that was forked leaves no group and commits nothing: it is not the member. Raises what `on_revoked` raises,
        when everything is closed.
        """
        if self._transport.is_closed:
            return
        if not self._ownership.is_ours:
            self._group_transport.close()
            super().close()
            return
        try:
            if self._group is not None:
                self._transport.leave_to_this_thread()
                self._run(self._group.end())
        finally:
            if self._group is not None and self._membership is not None:
                self._group.stop()
                self._membership.join()
            self._group_transport.close()
            super().close()

    def _wake_poll(self) -> None:
        self._transport.wake()

    def _wake_member(self) -> None:
        self._group_transport.wake()

    def _start(self, member: Membership) -> None:
        if self._membership is None:
            self._membership = BackgroundRun(
                self._group_transport, member.run(), self._transport.wake, name="oncelog-member"
            )
        self._membership.start()
