"""Markers for partitions that other brokers lead, or nobody leads now: each is tried until its partition has it.

The markers of any number of transactions for one broker go in one WriteTxnMarkers request, and there is one request at a time
for each broker. What waits for one partition holds up no other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from oncelog.broker.coordinators.known_brokers import AWAY, GONE, KnownBrokers, Leader, MarkerErrors, MarkersOfProducer
from oncelog.coordination import Promise, sleep, start
from oncelog.environment import Clock
from oncelog.transactions import MarkersToSend, TopicPartition
from oncelog.wire import ErrorCode, construct, message_class, message_module

logger = logging.getLogger("oncelog.transactions")

RETRY_MIN_MS = 20
RETRY_MAX_MS = 1000


class MarkerOutcome(Enum):
    """The meaning of one partition's answer for the transaction."""

    DONE = "the partition has its marker, or needs none"
    RETRY = "it has not, and somebody may lead it who takes it"
    FENCED = "another coordinator has the transactional id"


_OUTCOMES = {
    ErrorCode.none: MarkerOutcome.DONE,
    # Somebody newer has closed this producer's transaction there. Kafka gives up here, and leaves the transactional id in
    # the middle of it; if this coordinator is not the current one, its log does not take the Complete record.
    ErrorCode.invalid_producer_epoch: MarkerOutcome.DONE,
    # As in Kafka's TransactionMarkerRequestCompletionHandler, a partition that cannot have markers is left out.
    ErrorCode.unsupported_for_message_format: MarkerOutcome.DONE,
    ErrorCode.unsupported_version: MarkerOutcome.DONE,
    ErrorCode.transaction_coordinator_fenced: MarkerOutcome.FENCED,
}


def outcome_of(error: ErrorCode) -> MarkerOutcome:
    """Whatever is not known to be the end of it is tried again: a marker that comes twice does no harm, and one too few does."""
    return _OUTCOMES.get(error, MarkerOutcome.RETRY)


class MarkerDelivery:
    """The markers of one transaction, under the coordinator epoch that sends them."""

    __slots__ = ("_is_coordinated", "coordinator_epoch", "is_fenced", "markers")

    def __init__(self, markers: MarkersToSend, coordinator_epoch: int, is_coordinated: Callable[[], bool]) -> None:
        self.markers = markers
        self.coordinator_epoch = coordinator_epoch
        self._is_coordinated = is_coordinated
        self.is_fenced = False

    @property
    def is_wanted(self) -> bool:
        """True while the transaction is this coordinator's to end."""
        return not self.is_fenced and self._is_coordinated()

    def entry(self, partitions: Iterable[TopicPartition]) -> MarkersOfProducer:
        markers = self.markers
        return MarkersOfProducer(
            markers.producer_id,
            markers.producer_epoch,
            self.coordinator_epoch,
            markers.transaction_version,
            markers.committed,
            tuple(sorted(partitions)),
        )


class _Queued(NamedTuple):
    delivery: MarkerDelivery
    partition: TopicPartition
    answer: Promise[ErrorCode]


class MarkerSender:
    """`write_here` writes a marker to a partition that this broker leads, and says when it cannot be lost."""

    def __init__(
        self,
        clock: Clock,
        known_brokers: KnownBrokers,
        node_id: int,
        write_here: Callable[[MarkerDelivery, TopicPartition], Promise[ErrorCode]],
    ) -> None:
        self._clock = clock
        self._known_brokers = known_brokers
        self._node_id = node_id
        self._write_here = write_here
        self._queues: dict[int, list[_Queued]] = {}
        self._changed: Promise[None] = Promise()

    def leaders_changed(self) -> None:
        """A partition may have a leader again, or be gone, or what waits for it may be wanted no more."""
        changed, self._changed = self._changed, Promise()
        changed.resolve(None)

    async def deliver(self, delivery: MarkerDelivery, partitions: Iterable[TopicPartition]) -> bool:
        """Come back when every partition has its marker; False if another coordinator is to see to that."""
        under_way = [start(self._deliver_to(delivery, partition)) for partition in partitions]
        for one in under_way:
            await one
        return delivery.is_wanted

    async def _deliver_to(self, delivery: MarkerDelivery, partition: TopicPartition) -> None:
        delay_ms = RETRY_MIN_MS
        while delivery.is_wanted:
            leader = await self._leader_of(delivery, partition)
            if leader is None:
                return
            error = await self._marked(delivery, partition, leader)
            outcome = outcome_of(error)
            if outcome is MarkerOutcome.DONE or await self._is_gone(partition, error):
                return
            if outcome is MarkerOutcome.FENCED:
                self._give_up(delivery, partition)
                return
            await sleep(self._clock, delay_ms)
            delay_ms = min(2 * delay_ms, RETRY_MAX_MS)

    async def _is_gone(self, partition: TopicPartition, error: ErrorCode) -> bool:
        """Its leader may know, where this broker was not told: it may have been parted from ZooKeeper then."""
        is_unknown = error is ErrorCode.unknown_topic_or_partition
        return is_unknown and await self._known_brokers.is_gone(*partition)

    async def _leader_of(self, delivery: MarkerDelivery, partition: TopicPartition) -> int | None:
        """The broker that leads the partition, once there is one; None if no marker is to go there any more."""
        leader = await self._find_leader(partition)
        if leader is AWAY:
            transactional_id = delivery.markers.transactional_id
            logger.warning("%s: the end of its transaction waits for %s-%d, offline", transactional_id, *partition)
        while leader is AWAY:
            await self._change()
            if not delivery.is_wanted:
                return None
            leader = await self._find_leader(partition)
        # A topic that was deleted must not keep the transaction from ending.
        return leader if isinstance(leader, int) else None

    async def _change(self) -> None:
        """Nobody is told that the last of a deleted topic is gone: it is asked for now and then."""
        timer = self._clock.call_later(RETRY_MAX_MS, self.leaders_changed)
        try:
            await self._changed
        finally:
            timer.cancel()

    async def _find_leader(self, partition: TopicPartition) -> Leader:
        """Find the leader. A partition that is unknown here need not be gone: it still needs its marker."""
        leader = self._known_brokers.leader_of(*partition)
        if leader is not GONE or await self._known_brokers.is_gone(*partition):
            return leader
        # It may have been told meanwhile, and nobody would say so again.
        leader = self._known_brokers.leader_of(*partition)
        return AWAY if leader is GONE else leader

    def _give_up(self, delivery: MarkerDelivery, partition: TopicPartition) -> None:
        delivery.is_fenced = True
        transactional_id, epoch = delivery.markers.transactional_id, delivery.coordinator_epoch
        logger.warning(
            "%s: another broker coordinates it, for %s-%d has a marker of a coordinator epoch above %d",
            transactional_id,
            *partition,
            epoch,
        )
        self.leaders_changed()

    def _marked(self, delivery: MarkerDelivery, partition: TopicPartition, leader: int) -> Promise[ErrorCode]:
        if leader == self._node_id:
            return self._write_here(delivery, partition)
        answer: Promise[ErrorCode] = Promise()
        queued = _Queued(delivery, partition, answer)
        if leader in self._queues:
            self._queues[leader].append(queued)
        else:
            self._queues[leader] = [queued]
            # What else is decided in this moment goes with it.
            start(self._send_to(leader))
        return answer

    async def _send_to(self, leader: int) -> None:
        """Send what is queued for a broker, as long as there is something."""
        # What else is decided in this moment goes with it.
        await sleep(self._clock, 0)
        while taken := self._take(leader):
            by_delivery: dict[MarkerDelivery, list[TopicPartition]] = {}
            for one in taken:
                by_delivery.setdefault(one.delivery, []).append(one.partition)
            entries = [delivery.entry(partitions) for delivery, partitions in by_delivery.items()]
            errors = await self._known_brokers.send_markers(leader, entries)
            for one in taken:
                key = (one.delivery.markers.producer_id, *one.partition)
                # A broker that did not answer, or not for this partition.
                unknown = ErrorCode.network_exception
                one.answer.resolve(unknown if errors is None else errors.get(key, unknown))
        del self._queues[leader]

    def _take(self, leader: int) -> list[_Queued]:
        """Take what goes out now. An answer names producer ids, so the second of a producer's two transactions waits."""
        taken: list[_Queued] = []
        left: list[_Queued] = []
        of_producer: dict[int, MarkerDelivery] = {}
        queued = self._queues[leader]
        for one in queued:
            if one.delivery.is_wanted:
                is_first = of_producer.setdefault(one.delivery.markers.producer_id, one.delivery) is one.delivery
                (taken if is_first else left).append(one)
        self._queues[leader] = left
        for one in queued:
            if not one.delivery.is_wanted:
                one.answer.resolve(ErrorCode.not_coordinator)
        return taken


API_KEY = 27


def markers_request(version: int, markers: Sequence[MarkersOfProducer]) -> Any:
    """The body of a request."""
    types = message_module(API_KEY, version, "request")
    return message_class(API_KEY, version, "request")(markers=tuple(_marker(types, one) for one in markers))


def _marker(types: Any, markers: MarkersOfProducer) -> Any:
    by_topic: dict[str, list[int]] = {}
    for topic, index in markers.partitions:
        by_topic.setdefault(topic, []).append(index)
    topics = (
        types.WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(indexes))
        for topic, indexes in by_topic.items()
    )
    return construct(
        types.WritableTxnMarker,
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.committed,
        topics=tuple(topics),
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )


def marker_errors(answer: Any) -> MarkerErrors:
    """The error of each partition in the body of an answer."""
    return {
        (marker.producer_id, topic.name, partition.partition_index): partition.error_code
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
