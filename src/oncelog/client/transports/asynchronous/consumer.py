"""The asyncio consumer: partitions as records, from positions that the caller sets or that a group remembers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta

from oncelog.client.consumer.core import ConsumedRecord, ConsumerCore
from oncelog.client.consumer.fetching import MIB, FetchSettings
from oncelog.client.consumer.offset_reset import parse_reset
from oncelog.client.errors import ClientError, IllegalState
from oncelog.client.groups.consumer import GroupConsumer
from oncelog.client.groups.settings import Callbacks, OnPartitions, group_settings
from oncelog.client.groups.wanted_topics import TopicPattern
from oncelog.client.net.retry_policy import DEFAULT_RETRY, RetryPolicy
from oncelog.client.net.settings import ClientSettings, parse_addresses
from oncelog.client.transports.asynchronous.base import AsyncBase
from oncelog.client.transports.asynchronous.transport import AsyncTransport
from oncelog.client.values import GroupMetadata, IsolationLevel, OffsetAndMetadata, OffsetSpec, TopicPartition
from oncelog.security.values import PLAINTEXT, Security

RECORDS_MAX = 10_000


class AsyncConsumer(AsyncBase):
    """Reads partitions, or is a member of a group. See Consumer, whose methods these are. For one task at a time.

    A subscriber's heartbeats are sent by a task of its own: who computes must let the event loop run.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        group_protocol: str = "classic",
        assignors: Iterable[str] | None = None,
        group_remote_assignor: str | None = None,
        session_timeout_ms: int | None = None,
        heartbeat_interval_ms: int | None = None,
        max_poll_interval_ms: int = 300_000,
        metadata_max_age_ms: int = 300_000,
        exclude_internal_topics: bool = True,
        auto_commit_interval_ms: float | None = None,
        auto_offset_reset: str | timedelta = "earliest",
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        include_control: bool = False,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        max_bytes: int = 50 * MIB,
        partition_bytes: int = MIB,
        client_id: str = "oncelog",
        request_timeout_ms: float = 30_000,
        call_timeout_ms: float = 60_000,
        retry_backoff_ms: float = DEFAULT_RETRY.backoff_ms,
        retry_backoff_max_ms: float = DEFAULT_RETRY.backoff_max_ms,
        security: Security = PLAINTEXT,
    ) -> None:
        """See Consumer."""
        super().__init__(
            ClientSettings(
                parse_addresses(bootstrap_servers, security),
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                call_timeout_ms=call_timeout_ms,
                security=security,
                retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            )
        )
        self._group_transport = AsyncTransport(self._settings)
        self._pump: asyncio.Task[None] | None = None
        self._group: GroupConsumer | None = None
        fetching = FetchSettings(isolation_level, min_bytes, max_wait_ms, max_bytes, partition_bytes)
        reset = parse_reset(auto_offset_reset)
        if group_id is None:
            self._core = ConsumerCore(self._cluster, fetching, reset=reset, include_control=include_control)
            return
        group = group_settings(
            group_id,
            group_instance_id=group_instance_id,
            group_protocol=group_protocol,
            group_remote_assignor=group_remote_assignor,
            assignors=assignors,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            exclude_internal_topics=exclude_internal_topics,
        )
        self._core = self._group = GroupConsumer(
            self._cluster,
            fetching,
            group,
            reset=reset,
            include_control=include_control,
            auto_commit_interval_ms=auto_commit_interval_ms,
            wake_poll=self._transport.wake,
            wake_pump=self._group_transport.wake,
            new_member_id=str(uuid.uuid4()),
        )

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._core.assignment

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return self._core.paused

    async def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions and no others, from offsets or from where an OffsetSpec says.

        Raises BrokerRefused or RetriesExhausted.
        """
        await self._run(self._core.assign(partitions))

    async def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: TopicPattern | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Read topics as a member of the group, which the first `poll` joins; again, for other topics.

        In place of topics, a `pattern` has every topic read whose whole name matches: a regular expression of Python's, as a
        str or compiled. Topics that are made are found within `metadata_max_age_ms`, and internal ones are left out unless
        `exclude_internal_topics` is False. With a SubscriptionPattern the broker compares (KIP-848, `group_protocol`
        "consumer"), in the syntax of RE2, and finds topics that are made by itself.
        Raises TypeError or ValueError for what is no name and for what is no pattern.

        The callbacks get the partitions that came or went, are called from `poll`, `unsubscribe` and `close`, may use this
        consumer, and may be coroutine functions. Those revoked are still ours, and can be committed, until `on_revoked`
        returns. Those lost are not: the member was away for longer than a timeout. `on_lost` hears of them, or `on_revoked`
        where there is none. What a callback raises comes out of `poll` when the change is made.
        """
        member = self._member()
        self._transport.require_loop()
        member.subscribe(topics, Callbacks(on_assigned, on_revoked, on_lost), pattern=pattern)
        if self._pump is None:
            self._pump = asyncio.create_task(self._group_transport.run(member.member.pump()))

    async def unsubscribe(self) -> None:
        """Give up everything and leave the group. Raises what `on_revoked` raises."""
        await self._run(self._member().unsubscribe())

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on elsewhere: at an offset, or where an OffsetSpec says. Raises BrokerRefused or RetriesExhausted."""
        await self._run(self._core.seek({partition: offset}))

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition]) -> None:
        """Go back to the first records that are there. Raises BrokerRefused or RetriesExhausted."""
        await self._run(self._core.seek(dict.fromkeys(partitions, OffsetSpec.EARLIEST)))

    async def seek_to_end(self, partitions: Iterable[TopicPartition]) -> None:
        """Pass over all that is there: up to the last stable offset, or the high watermark for read_uncommitted.

        Raises BrokerRefused or RetriesExhausted.
        """
        await self._run(self._core.seek(dict.fromkeys(partitions, OffsetSpec.LATEST)))

    async def seek_to_times(self, times_ms: Mapping[TopicPartition, int]) -> None:
        """Go on at the first record that is as late as a time in ms since 1970; at the end, where there is none.

        Raises BrokerRefused or RetriesExhausted.
        """
        await self._run(self._core.seek_to_times(times_ms))

    async def seek_to_committed(self) -> None:
        """Go back to what the group has committed, in every partition: what is read after a transaction was aborted.

        Raises NoOffset, BrokerRefused or RetriesExhausted.
        """
        await self._run(self._member().seek_to_committed())

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions, which stay assigned, until they are resumed or given up."""
        self._core.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._core.resume(partitions)

    def position(self, partition: TopicPartition) -> int:
        """The offset at which `poll` goes on; offsets without a record to hand out are behind it.

        Raises NoOffset for a partition that a group has handed out and `poll` has not begun to read.
        """
        return self._core.position(partition)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Every position, as `commit` and a producer's `send_offsets_to_transaction` take it."""
        return self._core.positions()

    async def poll(self, timeout_ms: float = 1000, *, records_max: int = RECORDS_MAX) -> list[ConsumedRecord]:
        """Records as soon as there are any; an empty list when none came in time.

        A subscriber's partitions change here and nowhere else, and what was returned before counts as read. Raises
        OffsetOutOfRange, NoOffset, BrokerRefused or RetriesExhausted; MemberFenced when another consumer has the group
        instance id.
        """
        try:
            records = await self._run(self._core.poll(timeout_ms, records_max))
            self._core.settle()
        except (ClientError, asyncio.CancelledError):
            raise
        except BaseException:
            self._core.take_back()
            raise
        return records

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        """Commit offsets for the group, or the positions, and return when they are.

        Raises CommitFailed when this consumer is no member of the group any more, or not in its newest generation: nothing
        is committed then. Raises MemberFenced, BrokerRefused or RetriesExhausted.
        """
        await self._run(self._member().commit(offsets))

    async def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed in these partitions, or in those assigned; one without an offset is left out.

        With read_committed, waits until no open transaction has an offset of them pending. Raises BrokerRefused or
        RetriesExhausted.
        """
        return await self._run(self._member().committed(partitions))

    def group_metadata(self) -> GroupMetadata:
        """Who commits, for a producer's `send_offsets_to_transaction` (KIP-447).

        Raises CommitFailed for a subscriber that is no member of the group, or was not told yet what it lost: its offsets
        must not be committed.
        """
        return self._member().metadata()

    async def lag(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """How many records `poll` would still return of these partitions, or of those assigned, up to their end as it is now.

        Offsets do not tell: the markers that end transactions take offsets, and so do aborted records, which read_committed
        passes over; the difference of two offsets is an upper bound. So the batches from the position to the last stable
        offset (the high watermark, for read_uncommitted) are fetched and the records in their headers counted, without
        those of markers and aborted transactions. That is exact, and takes as long as fetching what is ahead.
        Raises OffsetOutOfRange, NoOffset, BrokerRefused or RetriesExhausted.
        """
        return await self._run(self._core.lag(partitions))

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
            if self._pump is not None:
                await _end_of(self._pump)
            await self._group_transport.close()
            await super().close()

    def _member(self) -> GroupConsumer:
        if self._group is None:
            raise IllegalState("this consumer was made without a group_id")
        return self._group


async def _end_of(task: asyncio.Task[None]) -> None:
    """Wait for it, and raise what it raised. Who is cancelled meanwhile does not cancel it."""
    if not task.done():
        await asyncio.wait((task,))
    if not task.cancelled():
        task.result()
