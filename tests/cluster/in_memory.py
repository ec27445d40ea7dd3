"""What tests of a cluster in memory ask of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from harness.running_cluster import RunningCluster
from oncelog.cluster.replicas.replica import HostedReplica
from oncelog.records import Record, build_batch
from oncelog.wire import ErrorCode

MINUTE = timedelta(minutes=1)
TOPIC = "t"


def make_topic(cluster: RunningCluster, *replicas: tuple[int, ...], name: str = TOPIC, **configs: str) -> None:
    """One partition for each tuple; it is there when every broker knows of its leaders."""
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": index, "broker_ids": brokers} for index, brokers in enumerate(replicas)],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    answer = cluster.answer_of(
        cluster.controller, "create_topics", 5, topics=[topic], timeout=MINUTE, validate_only=False
    )
    assert answer.topics[0].error_code is ErrorCode.none, answer
    for index, brokers in enumerate(replicas):
        cluster.until(lambda index=index, brokers=brokers: is_led(cluster, name, index, brokers))


def is_led(cluster: RunningCluster, name: str, index: int, brokers: tuple[int, ...]) -> bool:
    found = [core.topics.partition(name, index) for core in cluster.brokers.values()]
    return all(one is not None and one.leadership.leader == brokers[0] for one in found)


def leader_of(cluster: RunningCluster, index: int = 0, name: str = TOPIC, seen_by: int = 0) -> int:
    return cluster.partition(seen_by, name, index).leadership.leader


def isr_of(cluster: RunningCluster, index: int = 0, name: str = TOPIC) -> set[int]:
    """As its leader has it, the newest if an old one has not heard of its end; empty without a leader."""
    found = [cluster.partition(number, name, index) for number in cluster.brokers]
    led = [one for one in found if isinstance(one.leading, HostedReplica)]
    newest = max(led, key=lambda one: one.leader_epoch, default=None)
    return set() if newest is None else set(newest.leading.state.state.isr)


def produce(
    cluster: RunningCluster, broker_id: int, *values: bytes, index: int = 0, acks: int = -1, version: int = 9
) -> Any:
    batch = build_batch([Record(None, value, timestamp_ms=cluster.clock.now_ms()) for value in values])
    data = [{"name": TOPIC, "partition_data": [{"index": index, "records": batch}]}]
    return cluster.call(
        broker_id, "produce", version, transactional_id=None, acks=acks, timeout=MINUTE, topic_data=data
    )


def produced(cluster: RunningCluster, broker_id: int, *values: bytes, index: int = 0, acks: int = -1) -> ErrorCode:
    answer = cluster.answer(produce(cluster, broker_id, *values, index=index, acks=acks))
    error: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return error


def fetch(
    cluster: RunningCluster,
    broker_id: int,
    offset: int = 0,
    *,
    index: int = 0,
    version: int = 11,
    wait_ms: int = 0,
    epoch: int = -1,
    isolation_level: int = 0,
    **fields: Any,
) -> Any:
    asked = {
        "partition": index,
        "fetch_offset": offset,
        "partition_max_bytes": 2**20,
        "current_leader_epoch": epoch,
    }
    return cluster.call(
        broker_id,
        "fetch",
        version,
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=1,
        isolation_level=isolation_level,
        topics=[{"topic": TOPIC, "partitions": [asked]}],
        forgotten_topics_data=[],
        **fields,
    )


def fetched(cluster: RunningCluster, broker_id: int, offset: int = 0, **fields: Any) -> Any:
    answer = cluster.answer(fetch(cluster, broker_id, offset, **fields))
    return answer.responses[0].partitions[0]


def listed(cluster: RunningCluster, broker_id: int, timestamp: int, *, version: int = 7, replica_id: int = -1) -> Any:
    asked = {"partition_index": 0, "timestamp": timestamp}
    answer = cluster.answer_of(
        broker_id,
        "list_offsets",
        version,
        replica_id=replica_id,
        isolation_level=0,
        topics=[{"name": TOPIC, "partitions": [asked]}],
    )
    return answer.topics[0].partitions[0]
