"""Which brokers are to have the replicas of a partition, and how far they have come (KIP-455)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncelog.client import requests
from oncelog.client.admin.operations import CONTROLLER_TIMEOUT_MS, ask_controller
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.leaders import by_topic
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest, milliseconds
from oncelog.client.values import PartitionReassignment, TopicPartition
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
