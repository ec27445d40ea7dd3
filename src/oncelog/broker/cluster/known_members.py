"""The brokers of a cluster, as the coordinators ask for them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oncelog.broker.cluster.channel import ChannelError
from oncelog.broker.coordinators.known_brokers import (
    AWAY,
    GONE,
    BrokerAddress,
    Leader,
    MarkerErrors,
    MarkersOfProducer,
)
from oncelog.broker.storage.partition import Partition, Role
from oncelog.coordination import Parked, start
from oncelog.wire import ErrorCode, message_class, message_module

if TYPE_CHECKING:
    from oncelog.broker.cluster.channels import Channels
    from oncelog.broker.cluster.members import Members
    from oncelog.broker.storage.topics import Topics

logger = logging.getLogger("oncelog.broker")

WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_VERSION = 27, 1
"""The one of Kafka 3.9."""
NOT_LED = Parked.ready(ErrorCode.not_leader_or_follower)


class KnownMembers:
    """A broker of a cluster asks the others. `timeout_ms` is request.timeout.ms."""

    def __init__(self, topics: Topics, members: Members, channels: Channels, timeout_ms: int) -> None:
        self._topics = topics
        self._members = members
        self._channels = channels
        self._timeout_ms = timeout_ms

    def leader_of(self, topic: str, index: int) -> Leader:
        partition = self._topics.partition(topic, index)
        if partition is None:
            return GONE
        leader = self._members.leadership(partition).leader
        return AWAY if leader < 0 else leader

    def address_of(self, node_id: int) -> BrokerAddress | None:
        node = self._members.broker(node_id)
        return None if node is None else BrokerAddress(node.host, node.port)

    def partition(self, topic: str, index: int) -> Partition | None:
        partition = self._topics.partition(topic, index)
        return partition if partition is not None and partition.role is Role.LEADER else None

    def committed(self, partition: Partition) -> Parked[ErrorCode]:
        if partition.leading is None:
            return NOT_LED
        return start(self._committed(partition.leading.committed(partition.log.log_end_offset)))

    async def _committed(self, acknowledged: Parked[ErrorCode]) -> ErrorCode:
        """What has been below the high watermark stays, however many replicas are in sync by now."""
        error = await acknowledged
        return ErrorCode.none if error is ErrorCode.not_enough_replicas_after_append else error

    def send_markers(self, node_id: int, markers: Sequence[MarkersOfProducer]) -> Parked[MarkerErrors | None]:
        return start(self._send_markers(node_id, markers))

    async def _send_markers(self, node_id: int, markers: Sequence[MarkersOfProducer]) -> MarkerErrors | None:
        node = self._members.broker(node_id)
        if node is None:
            return None
        answer = await self._channels.to(node).ask(
            WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_VERSION, _request(markers), self._timeout_ms
        )
        if isinstance(answer, ChannelError):
            logger.info("markers of %d producers got no answer: %s", len(markers), answer.reason)
            return None
        return {
            (marker.producer_id, topic.name, one.partition_index): one.error_code
            for marker in answer.markers
            for topic in marker.topics
            for one in topic.partitions
        }


def _request(markers: Sequence[MarkersOfProducer]) -> Any:
    types = message_module(WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_VERSION, "request")
    return message_class(WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_VERSION, "request")(
        markers=tuple(
            types.WritableTxnMarker(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                transaction_result=one.committed,
                topics=tuple(
                    types.WritableTxnMarkerTopic(name=name, partition_indexes=tuple(indexes))
                    for name, indexes in _by_topic(one).items()
                ),
                coordinator_epoch=one.coordinator_epoch,
            )
            for one in markers
        )
    )


def _by_topic(marker: MarkersOfProducer) -> dict[str, list[int]]:
    indexes: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in marker.partitions:
        indexes[topic].append(index)
    return indexes
