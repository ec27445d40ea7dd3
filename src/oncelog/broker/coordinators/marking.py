"""The markers of one transaction: appended to the partitions that are here, and sent to those that others lead.

A Complete record must not outlive a marker, nor a decision the records that it is about: both go to the write-ahead log before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from oncelog.broker.coordinators.known_brokers import KnownBrokers
from oncelog.broker.coordinators.markers import MarkerDelivery, MarkerOutcome, MarkerSender, outcome_of
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.coordination import Promise
from oncelog.environment import Clock
from oncelog.log import Appended, PartitionLog
from oncelog.records import ControlType
from oncelog.transactions import MarkersToSend, TopicPartition
from oncelog.wire import ErrorCode

_NONE = ErrorCode.none


class Marking:
    """Has the partitions of decided transactions marked."""

    def __init__(
        self, clock: Clock, durability: Durability, known_brokers: KnownBrokers, node_id: int, offsets: CommittedOffsets
    ) -> None:
        self._clock = clock
        self._durability = durability
        self._known_brokers = known_brokers
        self._offsets = offsets
        self._sender = MarkerSender(clock, known_brokers, node_id, self._deliver_here)

    def leaders_changed(self) -> None:
        """Partitions have other leaders now, or are gone: what waited for them has its turn."""
        self._sender.leaders_changed()

    def write(
        self,
        partition: Partition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        *,
        committed: bool,
    ) -> ErrorCode:
        """Append one marker, and apply it to the committed offsets where the partition holds them.

        Errors: those of the log; not_leader_or_follower, while the committed offsets are not known.
        """
        holds_offsets = partition.topic == CONSUMER_OFFSETS
        if holds_offsets and not partition.is_offline and self._offsets.error_at(partition.index) is not _NONE:
            # As Kafka's KafkaApis tells a coordinator whose marker meets another one that is being loaded, or unloaded.
            return ErrorCode.not_leader_or_follower
        control = ControlType.COMMIT if committed else ControlType.ABORT
        result = partition.append_marker(
            control, producer_id, producer_epoch, coordinator_epoch, transaction_version, self._clock.now_ms()
        )
        if not isinstance(result, Appended):
            return result.error
        if holds_offsets:
            self._offsets.replay_marker(partition.index, producer_id, committed, result.last_offset + 1)
        return _NONE

    def put_first(self, markers: MarkersToSend) -> Promise[bool]:
        """Resolved when a decision that is written from then on cannot outlive what the transaction's partitions have now.

        False: it can, for one of them is offline.
        """
        return self._durability.put_first(one.log for one in self._partitions(markers) if one.unopened is None)

    async def mark_all(
        self, markers: MarkersToSend, coordinator_epoch: int, is_coordinated: Callable[[], bool]
    ) -> bool:
        """Return True once every partition has its marker, and no Complete record can outlive the markers here.

        False if another coordinator is to see to it.
        """
        left = await self._mark_here(markers, coordinator_epoch)
        while True:
            if left and not await self._sender.deliver(
                MarkerDelivery(markers, coordinator_epoch, is_coordinated), left
            ):
                return False
            self._flush_as_asked(one.log for one in self._partitions(markers) if not one.is_offline)
            if await self.put_first(markers):
                return True
            left = [(one.topic, one.index) for one in self._partitions(markers) if one.is_offline]

    async def _mark_here(self, markers: MarkersToSend, coordinator_epoch: int) -> Collection[TopicPartition]:
        """Append the markers to the partitions that are here; return those that have not got theirs, on every replica."""
        partitions = self._partitions(markers)
        left: list[TopicPartition] = []
        if len(partitions) < len(markers.partitions):
            left += sorted(markers.partitions.difference((one.topic, one.index) for one in partitions))
        marked: list[tuple[TopicPartition, Promise[ErrorCode]]] = []
        for partition in partitions:
            error = self._mark(partition, markers, coordinator_epoch)
            key = partition.topic, partition.index
            if error is _NONE:
                marked.append((key, self._known_brokers.committed(partition)))
            elif outcome_of(error) is not MarkerOutcome.DONE:
                left.append(key)
        for key, committed in marked:
            if await committed is not _NONE:
                left.append(key)
        return left

    def _mark(self, partition: Partition, markers: MarkersToSend, coordinator_epoch: int) -> ErrorCode:
        error = self._mark_with(partition, markers, coordinator_epoch)
        if error is not ErrorCode.transaction_coordinator_fenced or self._known_brokers.has_others:
            return error
        # Nobody else decides how transactions end: what was before this one was written by hand, and ends none of them.
        return self._mark_with(partition, markers, partition.log.producers.coordinator_epoch_of(markers.producer_id))

    def _mark_with(self, partition: Partition, markers: MarkersToSend, coordinator_epoch: int) -> ErrorCode:
        return self.write(
            partition,
            markers.producer_id,
            markers.producer_epoch,
            coordinator_epoch,
            markers.transaction_version,
            committed=markers.committed,
        )

    def _deliver_here(self, delivery: MarkerDelivery, key: TopicPartition) -> Promise[ErrorCode]:
        """Resolved when every replica has the marker: a Complete record must not outlive it."""
        partition = self._known_brokers.partition(*key)
        if partition is None:
            return Promise.ready(ErrorCode.not_leader_or_follower)
        error = self._mark(partition, delivery.markers, delivery.coordinator_epoch)
        if error is not _NONE:
            return Promise.ready(error)
        return self._known_brokers.committed(partition)

    def _flush_as_asked(self, logs: Iterable[PartitionLog]) -> None:
        """Begin the flush that flush.messages asks for; the transaction does not wait for it."""
        now_ms = self._clock.now_ms()
        asking = [log for log in logs if log.durability.needs_flush(now_ms)]
        if asking:
            self._durability.make_durable(asking)

    def _partitions(self, markers: MarkersToSend) -> list[Partition]:
        """The partitions of a transaction that are here: of others another broker sees to it that they are kept."""
        find = self._known_brokers.partition
        names = sorted(markers.partitions)
        return [partition for topic, index in names if (partition := find(topic, index)) is not None]
