"""The calls of a consumer: partitions as records, from positions that the caller sets or that a group remembers."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from datetime import timedelta

from oncelog.client.consumer.core import ConsumerCore
from oncelog.client.consumer.fetching import MIB, FetchSettings
from oncelog.client.consumer.offsets import parse_reset
from oncelog.client.errors import IllegalState
from oncelog.client.groups.consumer import GroupConsumer
from oncelog.client.groups.membership import Membership
from oncelog.client.groups.settings import Callbacks, OnPartitions, group_settings
from oncelog.client.groups.wanted_topics import TopicPattern
from oncelog.client.net.settings import DEFAULT_RETRY, ClientSettings, RetryPolicy, parse_addresses
from oncelog.client.transports.calls.call import Call, Calls
from oncelog.client.values import GroupMetadata, IsolationLevel, OffsetAndMetadata, OffsetSpec, TopicPartition
from oncelog.security.values import PLAINTEXT, Security

RECORDS_MAX = 10_000
"""The most records that a poll returns, unless `records_max` says otherwise."""


class ConsumerCalls(Calls):
    """Every method raises IllegalState where the consumer was made without what the method needs."""

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
        """With a `group_id` the consumer commits offsets, and can subscribe. Names and defaults are Kafka's but for these.

        `auto_offset_reset` says where to go on when there is no offset, or the log does not have it any more: "earliest",
        which is the default, "latest", so long ago, or "none", which makes that a NoOffset or an OffsetOutOfRange.
        Positions are committed by themselves only with `auto_commit_interval_ms`: in that interval, before partitions are
        given up, and at the end.

        With the `group_protocol` "classic" the members divide the partitions: `assignors` are range, roundrobin and
        cooperative-sticky, in order of preference (without any, range and then cooperative-sticky); all members must have
        one in common, and only if each of them is cooperative does a member keep its partitions during a rebalance.
        A member without a heartbeat for `session_timeout_ms` (45 s) loses its partitions; `heartbeat_interval_ms` is 3 s. With
        "consumer" (KIP-848) the broker divides, by its `group_remote_assignor` "uniform" or "range", and these three are the
        broker's settings. With either, a member that does not poll for `max_poll_interval_ms` loses its partitions, one with a
        `group_instance_id` keeps them over a restart within the session timeout, and topics and partitions that were added
        are found within `metadata_max_age_ms`.

        With `include_control`, the ends of transactions are records too. For the others see Fetcher.
        Raises ValueError for a value that is none.
        """
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
            wake_poll=self._wake_poll,
            wake_member=self._wake_member,
            new_member_id=str(uuid.uuid4()),
        )

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._core.assignment

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return self._core.paused

    @Call
    async def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions and no others, from offsets or from where an OffsetSpec says.

        Raises BrokerRefused or RetriesExhausted.
        """
        await self._core.assign(partitions)

    @Call
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

        The callbacks get the partitions that came or went, are called from `poll`, `unsubscribe` and `close`, and may use
        this consumer. An AsyncConsumer's may be coroutine functions. Revoked partitions are still ours, and can be committed,
        until `on_revoked` returns. Lost ones are not: the member was away for longer than a timeout. `on_lost` is called with
        them, or `on_revoked` where there is none. What a callback raises comes out of `poll` when the change is made.
        """
        member = self._member()
        member.subscribe(topics, Callbacks(on_assigned, on_revoked, on_lost), pattern=pattern)
        self._start(member.member)

    @Call
    async def unsubscribe(self) -> None:
        """Give up everything and leave the group. Raises what `on_revoked` raises."""
        await self._member().unsubscribe()

    @Call
    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on elsewhere: at an offset, or where an OffsetSpec says. Raises BrokerRefused or RetriesExhausted."""
        await self._core.seek({partition: offset})

    @Call
    async def seek_to_beginning(self, partitions: Iterable[TopicPartition]) -> None:
        """Go back to the first records that are there. Raises BrokerRefused or RetriesExhausted."""
        await self._core.seek(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    @Call
    async def seek_to_end(self, partitions: Iterable[TopicPartition]) -> None:
        """Pass over all that is there: up to the last stable offset, or the high watermark for read_uncommitted.

        Raises BrokerRefused or RetriesExhausted.
        """
        await self._core.seek(dict.fromkeys(partitions, OffsetSpec.LATEST))

    @Call
    async def seek_to_times(self, times_ms: Mapping[TopicPartition, int]) -> None:
        """Go on at the first record that is as late as a time in ms since 1970; at the end, where there is none.

        Raises BrokerRefused or RetriesExhausted.
        """
        await self._core.seek_to_times(times_ms)

    @Call
    async def seek_to_committed(self) -> None:
        """Go back to what the group has committed, in every partition: what is read after a transaction was aborted.

        Raises NoOffset, BrokerRefused or RetriesExhausted.
        """
        await self._member().seek_to_committed()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions, which stay assigned, until they are resumed or given up."""
        with self._held():
            self._core.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        with self._held():
            self._core.resume(partitions)

    def position(self, partition: TopicPartition) -> int:
        """The offset at which `poll` goes on; offsets without a record to hand out are behind it.

        Raises NoOffset for a partition that a group has handed out and `poll` has not begun to read.
        """
        return self._core.position(partition)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Every position, as `commit` and a producer's `send_offsets_to_transaction` take it."""
        return self._core.positions()

    @Call
    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        """Commit offsets for the group, or the positions, and return when they are.

        Raises CommitFailed when this consumer is no member of the group any more, or not in its newest generation: nothing
        is committed then. Raises MemberFenced, BrokerRefused or RetriesExhausted.
        """
        await self._member().commit(offsets)

    @Call
    async def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets of these partitions, or of those assigned; a partition without one is left out.

        With read_committed, waits until no open transaction has an offset of them pending. Raises BrokerRefused or
        RetriesExhausted.
        """
        return await self._member().committed(partitions)

    def group_metadata(self) -> GroupMetadata:
        """The member's identity, for a producer's `send_offsets_to_transaction` (KIP-447).

        Raises CommitFailed for a subscriber that is no member of the group, or has a loss that `poll` has not reported: its offsets
        must not be committed.
        """
        with self._held():
            return self._member().metadata()

    @Call
    async def lag(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Count the records that `poll` would still return of these partitions, or of those assigned, up to their end as it is now.

        Offsets do not tell: the markers that end transactions take offsets, and so do aborted records, which read_committed
        passes over; the difference of two offsets is an upper bound. So the batches from the position to the last stable
        offset (the high watermark, for read_uncommitted) are fetched and the records in their headers counted, without
        those of markers and aborted transactions. That is exact, and takes as long as fetching what is ahead.
        Raises OffsetOutOfRange, NoOffset, BrokerRefused or RetriesExhausted.
        """
        return await self._core.lag(partitions)

    @abstractmethod
    def _wake_poll(self) -> None: ...

    @abstractmethod
    def _wake_member(self) -> None: ...

    @abstractmethod
    def _start(self, member: Membership) -> None:
        """Have the member speak with the coordinator in the background, unless it does so already."""

    def _member(self) -> GroupConsumer:
        if self._group is None:
            raise IllegalState("this consumer was made without a group_id")
        return self._group
