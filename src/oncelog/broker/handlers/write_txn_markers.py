"""WriteTxnMarkers v1-2: how an administrator ends a hanging transaction in partitions (KIP-664).

v2 says which transaction version the marker's epoch belongs to (KIP-1228).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.coordinators import hanging
from oncelog.broker.coordinators.hanging import AskedMarker, Owners, end_as_asked, owners_of
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.log import PartitionLog
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.storage.durability import Durability
    from oncelog.environment import Clock

Errors = dict[tuple[str, int], ErrorCode]


class Needs(hanging.Needs, Protocol):
    """What this API needs of the broker."""

    clock: Clock
    durability: Durability


async def handle(broker: Needs, request: Request) -> Any:
    owners, turn = owners_of(broker), Turn(broker.clock)
    touched: dict[PartitionLog, None] = {}
    errors = [_end_all(broker, owners, marker, touched) for marker in request.body.markers]
    await broker.durability.make_durable(touched)
    answered = zip(request.body.markers, errors, strict=True)
    return request.answer(
        markers=tuple([await _result(broker, request, turn, marker, found) for marker, found in answered])
    )


def _end_all(broker: Needs, owners: Owners, marker: Any, touched: dict[PartitionLog, None]) -> Errors:
    asked = AskedMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        getattr(marker, "transaction_version", 0),
        marker.transaction_result,
    )

    def end(topic: str, index: int) -> ErrorCode:
        partition = broker.topics.partition(topic, index)
        if partition is None:
            return ErrorCode.unknown_topic_or_partition
        if partition.is_offline:
            return ErrorCode.kafka_storage_error
        touched[partition.log] = None
        return end_as_asked(broker, owners, partition, asked)

    return {(topic.name, index): end(topic.name, index) for topic in marker.topics for index in topic.partition_indexes}


async def _result(broker: Needs, request: Request, turn: Turn, marker: Any, errors: Errors) -> Any:
    types = request.types

    def result(topic: str, index: int) -> Any:
        # Its log directory may have failed while the marker was to be made durable.
        is_offline = broker.topics.is_offline(topic, index)
        error = ErrorCode.kafka_storage_error if is_offline else errors[topic, index]
        return types.WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)

    topics = []
    for topic in marker.topics:
        partitions = await turn.each(topic.partition_indexes, partial(result, topic.name))
        topics.append(types.WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
    return types.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=tuple(topics))
