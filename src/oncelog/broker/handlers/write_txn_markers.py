"""WriteTxnMarkers v1-2: how a coordinator ends its transactions in other brokers' partitions, and an administrator one that hangs.

v2 says which transaction version the marker's epoch belongs to (KIP-1228). KIP-664 has the administrator's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.coordinators import hanging
from oncelog.broker.coordinators.hanging import AskedMarker, abort_as_asked, end_as_asked, skip_named_ids, suspects
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.partition import Partition
from oncelog.coordination import Parked
from oncelog.transactions import TopicPartition
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.access import Access
    from oncelog.broker.coordinators.known_brokers import KnownBrokers
    from oncelog.broker.coordinators.marker_senders import MarkerSenders
    from oncelog.broker.storage.durability import Durability
    from oncelog.environment import Clock

Errors = dict[TopicPartition, ErrorCode]
Write = Callable[[Partition, AskedMarker], ErrorCode]
Replicating = dict[TopicPartition, Parked[ErrorCode]]


class Needs(hanging.Needs, Protocol):
    """What this API needs of the broker."""

    access: Access
    clock: Clock
    durability: Durability
    known_brokers: KnownBrokers
    marker_senders: MarkerSenders


async def handle(broker: Needs, request: Request) -> Any:
    write: Write = partial(end_as_asked, broker)
    if broker.access.is_broker(request.connection):
        if not broker.marker_senders.admits(request):
            return None
        await skip_named_ids(broker, request.body.markers)
    elif broker.access.is_administrator(request.connection):
        known = await suspects(broker, request.body.markers)
        if known is None:
            return await _refusal(broker, request, ErrorCode.coordinator_not_available)
        write = partial(abort_as_asked, broker, known=known)
    else:
        broker.access.refused("WriteTxnMarkers", request.connection)
        return await _refusal(broker, request, ErrorCode.cluster_authorization_failed)
    written: Replicating = {}
    errors = [_end_all(broker, marker, written, write) for marker in request.body.markers]
    lost = await _kept(broker, written)
    # Others were served while the markers were made durable and copied.
    turn = Turn(broker.clock)
    answered = zip(request.body.markers, errors, strict=True)
    return request.answer(
        markers=tuple(
            [await _result(request, turn, marker, partial(_error, broker, found | lost)) for marker, found in answered]
        )
    )


def _error(broker: Needs, errors: Errors, topic: str, index: int) -> ErrorCode:
    # Its log directory may have failed while the marker was to be made durable.
    is_offline = broker.topics.is_offline(topic, index)
    return ErrorCode.kafka_storage_error if is_offline else errors[topic, index]


async def _kept(broker: Needs, written: Replicating) -> Errors:
    """Wait until the markers cannot be lost; the partitions of which that is not known."""
    find = broker.topics.partition
    await broker.durability.make_durable([one.log for key in sorted(written) if (one := find(*key)) is not None])
    lost: Errors = {}
    for key, committed in sorted(written.items()):
        error = await committed
        if error is not ErrorCode.none:
            lost[key] = error
    return lost


def _end_all(broker: Needs, marker: Any, written: Replicating, write: Write) -> Errors:
    """Write a marker to each of its partitions, and note what other brokers have to have before it counts."""
    asked = AskedMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        getattr(marker, "transaction_version", 0),
        marker.transaction_result,
    )

    def end(topic: str, index: int) -> ErrorCode:
        partition = broker.known_brokers.partition(topic, index)
        if partition is None:
            is_known = broker.topics.partition(topic, index) is not None
            return ErrorCode.not_leader_or_follower if is_known else ErrorCode.unknown_topic_or_partition
        if partition.is_offline:
            return ErrorCode.kafka_storage_error
        error = write(partition, asked)
        if error is ErrorCode.none:
            written[topic, index] = broker.known_brokers.committed(partition)
        return error

    return {(topic.name, index): end(topic.name, index) for topic in marker.topics for index in topic.partition_indexes}


async def _refusal(broker: Needs, request: Request, error: ErrorCode) -> Any:
    turn = Turn(broker.clock)

    def error_of(topic: str, index: int) -> ErrorCode:
        return error

    return request.answer(
        markers=tuple([await _result(request, turn, marker, error_of) for marker in request.body.markers])
    )


async def _result(request: Request, turn: Turn, marker: Any, error_of: Callable[[str, int], ErrorCode]) -> Any:
    types = request.types

    def result(topic: str, index: int) -> Any:
        return types.WritableTxnMarkerPartitionResult(partition_index=index, error_code=error_of(topic, index))

    topics = []
    for topic in marker.topics:
        partitions = await turn.each(topic.partition_indexes, partial(result, topic.name))
        topics.append(types.WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
    return types.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=tuple(topics))
