"""Writing what is decided about groups: each record goes to the partition of `__consumer_offsets` that owns its group."""

from __future__ import annotations

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from enum import Enum

from oncelog.broker.config.configuration import Settings
from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.known_brokers import KnownBrokers
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, Topics
from oncelog.coordination import Promise
from oncelog.coordination.deadline import Deadline
from oncelog.coordination.internal_topics import client_error
from oncelog.environment import Clock
from oncelog.groups import GroupCoordinator, GroupRecord, OffsetRecord, encode
from oncelog.log import Appended, Origin
from oncelog.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, build_batch, read_header
from oncelog.wire import ErrorCode


class Recorded(Enum):
    """The subject of a group's record. An answer about the one need not wait for the other."""

    MEMBERS = "members"
    OFFSETS = "offsets"

    @staticmethod
    def by(record: GroupRecord) -> Recorded:
        return Recorded.OFFSETS if isinstance(record, OffsetRecord) else Recorded.MEMBERS


class UnconfirmedRecords:
    """The end offsets of the last records of groups, by partition of `__consumer_offsets`, in the order of the log."""

    def __init__(self) -> None:
        self._ends: defaultdict[int, OrderedDict[tuple[str, Recorded], int]] = defaultdict(OrderedDict)

    def note(self, partition: int, group: str, kind: Recorded, end_offset: int) -> None:
        ends = self._ends[partition]
        ends[group, kind] = end_offset
        ends.move_to_end((group, kind))

    def end(self, partition: int, group: str, kind: Recorded) -> int | None:
        """None if all that is recorded is confirmed."""
        return self._ends[partition].get((group, kind))

    def confirm(self, partition: int, end_offset: int) -> None:
        """All before this offset is below the high watermark."""
        ends = self._ends[partition]
        while ends and next(iter(ends.values())) <= end_offset:
            ends.popitem(last=False)

    def forget(self, partition: int) -> None:
        self._ends.pop(partition, None)


logger = logging.getLogger("oncelog.groups")

NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class GroupLog:
    """The log of one broker's group coordinator."""

    def __init__(
        self,
        clock: Clock,
        known_brokers: KnownBrokers,
        settings: Settings,
        topics: Topics,
        coordinator: GroupCoordinator,
        elections: Elections,
        unconfirmed: UnconfirmedRecords,
    ) -> None:
        self._clock = clock
        self._known_brokers = known_brokers
        self._topics = topics
        self._unconfirmed = unconfirmed
        self._coordinator = coordinator
        self._elections = elections
        self._timeout_ms = settings.number("offsets.commit.timeout.ms")

    def partition_for(self, group: str) -> int:
        return self._coordinator.partition_for(group)

    def error(self, group: str) -> ErrorCode:
        """none if this broker coordinates the group. One that is alone also does so where there is no group at all yet.

        Errors: not_coordinator, coordinator_load_in_progress.
        """
        return self.error_at(self.partition_for(group))

    def error_at(self, partition: int) -> ErrorCode:
        error = self._elections.error(partition)
        if error is ErrorCode.none or self._topics.named(CONSUMER_OFFSETS) is not None:
            return error
        return error if self._known_brokers.has_others else ErrorCode.none

    @property
    def is_loading(self) -> bool:
        return self._elections.is_loading

    def is_confirmed(self, group: str, kind: Recorded) -> bool:
        """True if all that is recorded of the group is known to be below the high watermark."""
        return self._unconfirmed.end(self.partition_for(group), group, kind) is None

    async def committed(self, group: str, kind: Recorded) -> ErrorCode:
        """Wait until what is known of the group now cannot be lost with this broker. One that is alone waits for nothing.

        What is recorded of other groups, or of other things, keeps nobody waiting: below min.insync.replicas that may be long.
        Errors: not_coordinator, if another broker coordinates the group by then, or this one has loaded it anew;
        coordinator_not_available after offsets.commit.timeout.ms, as from Kafka's new coordinator. The members of a group have one
        connection each, and their heartbeats come behind what waits. What is recorded stays, and is told once it is confirmed.
        """
        index = self.partition_for(group)
        partition = self._topics.partition(CONSUMER_OFFSETS, index)
        end_offset = self._unconfirmed.end(index, group, kind)
        if partition is None or end_offset is None:
            return ErrorCode.none
        term = self._elections.term(index)
        error = await self._in_time(self._known_brokers.committed(partition, end_offset))
        if self._elections.term(index) is not term:
            return ErrorCode.not_coordinator
        if error is ErrorCode.none:
            self._unconfirmed.confirm(index, end_offset)
        return client_error(error)

    async def _in_time(self, committed: Promise[ErrorCode]) -> ErrorCode:
        if committed.is_resolved:
            return committed.value
        deadline = Deadline(self._clock, self._timeout_ms)
        try:
            return committed.value if await deadline.until(committed) else ErrorCode.request_timed_out
        finally:
            deadline.end()

    def append(self, group: str, records: Sequence[GroupRecord], producer: tuple[int, int] = NO_PRODUCER) -> ErrorCode:
        """Write what a client asked for, as one batch, and make it true; or say what it is told when that cannot be.

        `producer` is the id and epoch of the transaction that the records belong to.
        """
        return self._append(group, records, producer, Origin.COORDINATOR)

    def append_obliged(self, group: str, records: Sequence[GroupRecord]) -> ErrorCode:
        """Write what time, or the end of a topic, has brought, as one batch, and make it true, if the log takes it."""
        return self._append(group, records, NO_PRODUCER, Origin.OBLIGED)

    def _append(
        self, group: str, records: Sequence[GroupRecord], producer: tuple[int, int], origin: Origin
    ) -> ErrorCode:
        partition = self._home(group)
        producer_id, producer_epoch = producer
        is_transactional = producer_id != NO_PRODUCER_ID
        batch = build_batch(
            [encode(record) for record in records],
            leader_epoch=partition.leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            # Coordinators write every batch with sequence 0; the log does not check theirs.
            base_sequence=0 if is_transactional else -1,
            transactional=is_transactional,
        )
        result = partition.append(batch, read_header(batch), origin, verified=is_transactional)
        if not isinstance(result, Appended):
            return client_error(result.error)
        for position, record in enumerate(records):
            offset = result.base_offset + position
            self._coordinator.replay(partition.index, record, producer_id, is_transactional, offset)
        for kind in {Recorded.by(record) for record in records}:
            self.note(group, kind, result.last_offset + 1)
        if logger.isEnabledFor(logging.INFO):
            _say(group, records, producer_id)
        return ErrorCode.none

    def note(self, group: str, kind: Recorded, end_offset: int) -> None:
        """This has been recorded of the group: others may not have it yet."""
        if self._known_brokers.has_others:
            self._unconfirmed.note(self.partition_for(group), group, kind, end_offset)

    def _home(self, group: str) -> Partition:
        partition = self._topics.partition(CONSUMER_OFFSETS, self._coordinator.partition_for(group))
        assert partition is not None, group
        return partition


def _say(group: str, records: Sequence[GroupRecord], producer_id: int) -> None:
    # Imported here: a broker that says less starts without it.
    from oncelog.groups.records import news_of

    for news in news_of(records, producer_id):
        logger.info("group %s: %s", group, news)
