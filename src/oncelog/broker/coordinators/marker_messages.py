"""WriteTxnMarkers as a coordinator sends it: v1 of Apache Kafka 3.9, v2 where the other broker serves it (KIP-1228)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncelog.broker.coordinators.known_brokers import MarkerErrors, MarkersOfProducer
from oncelog.wire import construct, message_class, message_module

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
    """What the body of an answer says of each partition."""
    return {
        (marker.producer_id, topic.name, partition.partition_index): partition.error_code
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
