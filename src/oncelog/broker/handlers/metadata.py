"""Metadata v0-13: the broker, the topics and who leads their partitions.

v4 lets a client refuse auto-creation; v10 topic ids; v12 topics asked for by id. A topic that a broker makes on the way, and
that is alone, is answered once it is there. One of a deleted name is UNKNOWN_TOPIC_OR_PARTITION once, as each is by Kafka 4. In a
cluster the answer is LEADER_NOT_AVAILABLE, as by Kafka 3.9, and the client asks again. v13 adds a top-level error, which only a
broker with other brokers can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from oncelog.broker.access import EVERY_CLUSTER_OPERATION, EVERY_TOPIC_OPERATION, UNKNOWN_OPERATIONS
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.auto_creation import AutoTopicCreation
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topic, Topics
from oncelog.broker.view import NO_LEADER, ClusterView
from oncelog.environment import Clock
from oncelog.wire import EncodedItems, ErrorCode, construct, encode
from oncelog.wire.topic_names import name_problem

BY_ID_FROM_VERSION = 12
INDEX_BYTES = slice(2, 6)
"""The place of a partition's index in every version: behind its error."""
PARTITION_COUNTS_KEPT = 64
LISTENER_NOT_FOUND_FROM_VERSION = 6


async def handle(
    request: Request,
    auto_creation: AutoTopicCreation,
    clock: Clock,
    cluster_id: str,
    topics: Topics,
    view: ClusterView,
) -> Any:
    # As in Kafka, a topic that is named twice is answered once.
    asked = None if request.body.topics is None else tuple(dict.fromkeys(request.body.topics))
    turn = Turn(clock)
    if asked is None or (request.version == 0 and not asked):
        names = [topic.name for topic in topics]
        found = await turn.each(names, lambda name: _named_topic(request, topics, view, name))
        return _answer(cluster_id, view, request, tuple(topic for topic in found if topic is not None))
    if request.version < BY_ID_FROM_VERSION and any(_names_no_topic(topic) for topic in asked):
        refused = tuple(_no_topic(request, topic.name or "", None, ErrorCode.invalid_request) for topic in asked)
        return _answer(cluster_id, view, request, refused)
    made: Mapping[str, ErrorCode] = {}
    if request.version < 4 or request.body.allow_auto_topic_creation:
        made = await auto_creation.create_missing([topic.name for topic in asked if topic.name is not None])
    return _answer(
        cluster_id,
        view,
        request,
        await turn.each(asked, lambda topic: _asked_topic(topics, view, request, topic, made)),
    )


def _names_no_topic(asked: Any) -> bool:
    """v10 and v11 have room for a topic id, and no way to answer one (KIP-516)."""
    return asked.name is None or getattr(asked, "topic_id", None) is not None


def _named_topic(request: Request, topics: Topics, view: ClusterView, name: str) -> Any:
    topic = topics.told(name)
    return None if topic is None else _topic(request, view, topic)


def _asked_topic(
    topics: Topics,
    view: ClusterView,
    request: Request,
    asked: Any,
    made: Mapping[str, ErrorCode],
) -> Any:
    topic_id = getattr(asked, "topic_id", None)
    if topic_id is not None:
        known = topics.still_named(topic_id)
        if known is None or topics.told(known.name) is not known:
            return _no_topic(request, None, topic_id, ErrorCode.unknown_topic_id)
        return _topic(request, view, known)
    topic = topics.told(asked.name or "")
    if topic is not None and made.get(topic.name) is not ErrorCode.unknown_topic_or_partition:
        return _topic(request, view, topic)
    return _no_topic(request, asked.name or "", None, _why_not(asked.name or "", made))


def _why_not(name: str, made: Mapping[str, ErrorCode]) -> ErrorCode:
    """The error of a topic that is not here. One that was made may be deleted again by now."""
    if name_problem(name) is not None:
        return ErrorCode.invalid_topic_exception
    error = made.get(name, ErrorCode.none)
    return ErrorCode.unknown_topic_or_partition if error is ErrorCode.none else error


def _no_topic(request: Request, name: str | None, topic_id: Any, error: ErrorCode) -> Any:
    return construct(
        request.types.MetadataResponseTopic,
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=(),
    )


def _topic(request: Request, view: ClusterView, topic: Topic) -> Any:
    """In a cluster the name of a topic may be known before any of its partitions: then the client asks again."""
    types = request.types
    return construct(
        types.MetadataResponseTopic,
        error_code=ErrorCode.none if topic.partitions else ErrorCode.leader_not_available,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        topic_authorized_operations=_operations(request, "include_topic_authorized_operations", EVERY_TOPIC_OPERATION),
        partitions=_led(request, view, topic),
    )


def _led(request: Request, view: ClusterView, topic: Topic) -> Any:
    if topic.offline or view.has_others or not topic.partitions:
        return tuple(_partition(request, view, one) for one in topic.partitions)
    # A broker that is alone leads every partition in the same leader epoch.
    known = view.at(request.connection.listener).leadership(topic.partitions[0])
    return _partitions(request.types, known.leader, known.leader_epoch, len(topic.partitions))


def _partition(request: Request, view: ClusterView, partition: Partition) -> Any:
    """Without a leader, or with one that is not alive: LEADER_NOT_AVAILABLE, as Kafka says it.

    From v6 on LISTENER_NOT_FOUND for one that is alive without the client's listener, as in Kafka's ZkMetadataCache.
    """
    known = view.at(request.connection.listener).leadership(partition)
    error = ErrorCode.none
    if known.leader == NO_LEADER:
        is_hidden = request.version >= LISTENER_NOT_FOUND_FROM_VERSION and view.is_alive(partition.leadership.leader)
        error = ErrorCode.listener_not_found if is_hidden else ErrorCode.leader_not_available
    return construct(
        request.types.MetadataResponsePartition,
        error_code=error,
        partition_index=partition.index,
        leader_id=known.leader,
        leader_epoch=known.leader_epoch,
        replica_nodes=known.replicas,
        isr_nodes=known.isr,
        offline_replicas=known.offline,
    )


@lru_cache(maxsize=PARTITION_COUNTS_KEPT)
def _partitions(types: Any, node: int, leader_epoch: int, count: int) -> EncodedItems:
    """The partitions of any topic that has so many: with one broker only their indexes differ.

    Of ten thousand the whole answer takes 0.2 ms when they are remembered, and 1.6 ms when they are not.
    """
    one = construct(
        types.MetadataResponsePartition,
        error_code=ErrorCode.none,
        partition_index=0,
        leader_id=node,
        leader_epoch=leader_epoch,
        replica_nodes=(node,),
        isr_nodes=(node,),
        offline_replicas=(),
    )
    data = b"".join(encode(one))
    head, tail = data[: INDEX_BYTES.start], data[INDEX_BYTES.stop :]
    return EncodedItems(count, b"".join([head + index.to_bytes(4, "big") + tail for index in range(count)]))


def _operations(request: Request, wanted: str, every: int) -> int:
    """The bits of the operations, if the request asks for them, which it can in some versions."""
    return every if getattr(request.body, wanted, False) else UNKNOWN_OPERATIONS


def _answer(cluster_id: str, view: ClusterView, request: Request, topics: tuple[Any, ...]) -> Any:
    return request.answer(
        brokers=tuple(
            construct(
                request.types.MetadataResponseBroker,
                node_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
            )
            for node in view.at(request.connection.listener).brokers()
        ),
        cluster_id=cluster_id,
        controller_id=view.controller_id,
        cluster_authorized_operations=_operations(
            request, "include_cluster_authorized_operations", EVERY_CLUSTER_OPERATION
        ),
        topics=topics,
        error_code=ErrorCode.none,
    )
