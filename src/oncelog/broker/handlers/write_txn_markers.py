"""WriteTxnMarkers v1-2: how a coordinator ends its transactions in other brokers' partitions, and an administrator one that hangs.

v2 says which transaction version the marker's epoch belongs to (KIP-1228). KIP-664 has the administrator's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from oncelog.broker.access import Access
from oncelog.broker.coordinators.hanging import HangingTransactions, RequestedMarker
from oncelog.broker.coordinators.known_brokers import KnownBrokers
from oncelog.broker.coordinators.marker_senders import MarkerSenders
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topics
from oncelog.coordination import Promise
from oncelog.environment import Clock
from oncelog.transactions import TopicPartition
from oncelog.wire import ErrorCode

Errors = dict[TopicPartition, ErrorCode]
Write = Callable[[Partition, RequestedMarker], ErrorCode]
Replicating = dict[TopicPartition, Promise[ErrorCode]]


async def handle(
    request: Request,
    access: Access,
    clock: Clock,
    durability: Durability,
    hanging: HangingTransactions,
    known_brokers: KnownBrokers,
    marker_senders: MarkerSenders,
    topics: Topics,
) -> Any:
    write: Write = hanging.end_as_asked
    if access.is_broker(request.connection):
        if not marker_senders.admits(request):
            return None
        await hanging.skip_named_ids(request.body.markers)
    elif access.is_administrator(request.connection):
        known = await hanging.suspects(request.body.markers)
        if known is None:
            return await _refusal(clock, request, ErrorCode.coordinator_not_available)
        write = partial(hanging.abort_as_asked, known=known)
    else:
        access.refused("WriteTxnMarkers", request.connection)
        return await _refusal(clock, request, ErrorCode.cluster_authorization_failed)
    written: Replicating = {}
    errors = [_end_all(known_brokers, topics, marker, written, write) for marker in request.body.markers]
    lost = await _kept(durability, topics, written)
    # Others were served while the markers were made durable and copied.
    turn = Turn(clock)
    answered = zip(request.body.markers, errors, strict=True)
    return request.answer(
        markers=tuple(
            [await _result(request, turn, marker, partial(_error, topics, found | lost)) for marker, found in answered]
        )
    )


def _error(topics: Topics, errors: Errors, topic: str, index: int) -> ErrorCode:
    # Its log directory may have failed while the marker was to be made durable.
    is_offline = topics.is_offline(topic, index)
    return ErrorCode.kafka_storage_error if is_offline else errors[topic, index]


async def _kept(durability: Durability, topics: Topics, written: Replicating) -> Errors:
    """Wait until the markers cannot be lost; the partitions of which that is not known."""
    find = topics.partition
    await durability.make_durable([one.log for key in sorted(written) if (one := find(*key)) is not None])
    lost: Errors = {}
    for key, committed in sorted(written.items()):
        error = await committed
        if error is not ErrorCode.none:
            lost[key] = error
    return lost


def _end_all(known_brokers: KnownBrokers, topics: Topics, marker: Any, written: Replicating, write: Write) -> Errors:
    """Write a marker to each of its partitions, and note what other brokers have to have before it counts."""
    asked = RequestedMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        getattr(marker, "transaction_version", 0),
        marker.transaction_result,
    )

    def end(topic: str, index: int) -> ErrorCode:
        partition = known_brokers.partition(topic, index)
        if partition is None:
            is_known = topics.partition(topic, index) is not None
            return ErrorCode.not_leader_or_follower if is_known else ErrorCode.unknown_topic_or_partition
        if partition.is_offline:
            return ErrorCode.kafka_storage_error
        error = write(partition, asked)
        if error is ErrorCode.none:
            written[topic, index] = known_brokers.committed(partition)
        return error

    return {(topic.name, index): end(topic.name, index) for topic in marker.topics for index in topic.partition_indexes}


async def _refusal(clock: Clock, request: Request, error: ErrorCode) -> Any:
    turn = Turn(clock)

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
