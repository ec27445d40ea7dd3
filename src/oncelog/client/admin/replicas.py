"""Replicas of partitions: reassignments to other brokers (KIP-455), and moves to other log directories of a broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oncelog.client import requests
from oncelog.client.admin.operations import CONTROLLER_TIMEOUT_MS, ask_controller
from oncelog.client.errors import BrokerRefused
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import ask
from oncelog.client.net.leaders import by_topic
from oncelog.client.net.metadata import refresh
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest, milliseconds
from oncelog.client.values import Address, PartitionReassignment, ReplicaLog, TopicPartition
from oncelog.wire import ErrorCode


async def reassign_partitions(cluster: Cluster, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Have these brokers keep these partitions, the first one lead; None ends what is under way. The cluster goes on by itself.

    Raises BrokerRefused for the first that was refused.
    """
    topics = [
        {
            "name": topic,
            "partitions": [{"partition_index": item.partition, "replicas": replicas[item]} for item in items],
        }
        for topic, items in by_topic(replicas).items()
    ]
    request = ApiRequest(
        requests.ALTER_PARTITION_REASSIGNMENTS, {"topics": topics, "timeout": milliseconds(CONTROLLER_TIMEOUT_MS)}
    )
    answer = await ask_controller(cluster, request, "reassignments")
    if answer.error_code is not ErrorCode.none:
        raise refused(request, answer.error_code, "reassigning partitions", message=answer.error_message)
    for topic in answer.responses:
        for item in topic.partitions:
            if item.error_code is not ErrorCode.none:
                what = f"reassigning partition {topic.name}-{item.partition_index}"
                raise refused(request, item.error_code, what, topic=topic.name, message=item.error_message)


async def partition_reassignments(cluster: Cluster) -> dict[TopicPartition, PartitionReassignment]:
    """The reassignments that are under way. Raises BrokerRefused."""
    request = ApiRequest(
        requests.LIST_PARTITION_REASSIGNMENTS, {"topics": None, "timeout": milliseconds(CONTROLLER_TIMEOUT_MS)}
    )
    answer = await ask_controller(cluster, request, "reassignments")
    if answer.error_code is not ErrorCode.none:
        raise refused(request, answer.error_code, "listing reassignments", message=answer.error_message)
    return {
        TopicPartition(str(topic.name), int(item.partition_index)): PartitionReassignment(
            tuple(map(int, item.replicas)),
            tuple(map(int, item.adding_replicas)),
            tuple(map(int, item.removing_replicas)),
        )
        for topic in answer.topics
        for item in topic.partitions
    }


async def log_directories(cluster: Cluster) -> dict[int, tuple[str, ...]]:
    """The log directories of each broker by its number; one that is offline is left out. Raises BrokerRefused."""
    found: dict[int, tuple[str, ...]] = {}
    for broker, results in (await _ask_all(cluster, ())).items():
        found[broker] = tuple(str(one.log_dir) for one in results if one.error_code is ErrorCode.none)
    return found


async def describe_replica_logs(cluster: Cluster, partitions: Iterable[TopicPartition]) -> tuple[ReplicaLog, ...]:
    """The logs of all replicas of these partitions, those under way to another directory among them. Raises BrokerRefused."""
    topics = [
        {"topic": topic, "partitions": [item.partition for item in items]}
        for topic, items in by_topic(partitions).items()
    ]
    answers = await _ask_all(cluster, topics)
    return tuple(
        ReplicaLog(
            TopicPartition(str(topic.name), int(item.partition_index)),
            broker,
            str(directory.log_dir),
            int(item.partition_size),
            int(item.offset_lag),
            bool(item.is_future_key),
        )
        for broker, results in answers.items()
        for directory in results
        for topic in directory.topics
        for item in topic.partitions
    )


async def _ask_all(cluster: Cluster, topics: Iterable[Mapping[str, Any]]) -> dict[int, Any]:
    request = ApiRequest(requests.DESCRIBE_LOG_DIRS, {"topics": list(topics)})
    await refresh(cluster, ())
    answers: dict[int, Any] = {}
    for node in cluster.nodes.values():
        answer = await ask(Address(node.host, node.port), request)
        error = getattr(answer, "error_code", ErrorCode.none)
        if error is not ErrorCode.none:
            raise refused(request, error, f"describing the log directories of broker {node.node_id}")
        answers[node.node_id] = answer.results
    return answers


async def move_replica_logs(cluster: Cluster, broker: int, paths: Mapping[TopicPartition, str]) -> None:
    """Begin to move replicas to other log directories of their broker. Where one is already, nothing happens, and a move
    that is under way to elsewhere ends.

    Raises BrokerRefused for the first that was refused; the others may have begun.
    """
    by_path: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition, path in paths.items():
        by_path[path].append(partition)
    dirs = [
        {
            "path": path,
            "topics": [
                {"name": topic, "partitions": [item.partition for item in items]}
                for topic, items in by_topic(partitions).items()
            ],
        }
        for path, partitions in by_path.items()
    ]
    request = ApiRequest(requests.ALTER_REPLICA_LOG_DIRS, {"dirs": dirs})
    await refresh(cluster, ())
    node = cluster.nodes.get(broker)
    if node is None:
        raise BrokerRefused(ErrorCode.broker_not_available, f"broker {broker}")
    answer = await ask(Address(node.host, node.port), request)
    for topic in answer.results:
        for item in topic.partitions:
            if item.error_code is not ErrorCode.none:
                partition = TopicPartition(str(topic.topic_name), int(item.partition_index))
                what = f"moving {partition} to {paths[partition]}"
                raise refused(request, item.error_code, what, topic=partition.topic)
