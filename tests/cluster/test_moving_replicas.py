"""Replicas move between log directories of their broker (AlterReplicaLogDirs): leaders and followers in a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from harness.running_cluster import RunningCluster
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.coordination import start
from oncelog.log import DamagedLogError, Origin, Refused
from oncelog.records import Record, build_batch, check_batch
from oncelog.wire import ErrorCode
from tests.cluster.held_disk import HeldDisk
from tests.cluster.in_memory import MINUTE, TOPIC, fetched, isr_of, leader_of, make_topic, produced

HOME, OTHER = "/home", "/other"
NONE = ErrorCode.none


@pytest.fixture
def cluster() -> RunningCluster:
    """The first replica of each broker is at home."""
    cluster = RunningCluster(directories=(HOME, OTHER), replica_lag_time_max_ms="5000", log_segment_delete_delay_ms="0")
    make_topic(cluster, (0, 1, 2))
    assert all(place(cluster, number) == HOME for number in cluster.brokers)
    return cluster


def place(cluster: RunningCluster, broker_id: int, index: int = 0, topic: str = TOPIC) -> str:
    partition = cluster.partition(broker_id, topic, index)
    assert partition.log.directory == f"{partition.directory.path}/{topic}-{index}"
    return partition.directory.path


def move(
    cluster: RunningCluster, broker_id: int, path: str = OTHER, index: int = 0, topic: str = TOPIC, version: int = 2
) -> ErrorCode:
    dirs = [{"path": path, "topics": [{"name": topic, "partitions": [index]}]}]
    (answered,) = cluster.answer_of(broker_id, "alter_replica_log_dirs", version, dirs=dirs).results
    error: ErrorCode = answered.partitions[0].error_code
    return error


def described(cluster: RunningCluster, broker_id: int) -> dict[tuple[str, str, int], Any]:
    results = cluster.answer_of(broker_id, "describe_log_dirs", 4, topics=None).results
    return {
        (one.log_dir, topic.name, item.partition_index): item
        for one in results
        for topic in one.topics
        for item in topic.partitions
    }


def leftovers(cluster: RunningCluster, broker_id: int) -> list[str]:
    disk = cluster.disks[broker_id]
    names = [name for path in (HOME, OTHER) for name in disk.list_directory(path)]
    return [name for name in names if name.endswith(("-future", "-delete"))]


def contents(cluster: RunningCluster, broker_id: int, index: int = 0) -> bytes:
    log = cluster.partition(broker_id, TOPIC, index).log
    return bytes(log.read(0, 1 << 20, log.log_end_offset).data)


@pytest.mark.parametrize("version", [1, 2])
def test_replicas_of_leader_and_followers_move_while_they_serve(cluster: RunningCluster, version: int) -> None:
    assert produced(cluster, 0, b"before") is NONE
    for number in cluster.brokers:
        assert move(cluster, number, version=version) is NONE
        assert produced(cluster, 0, b"meanwhile %d" % number) is NONE
        cluster.until(lambda number=number: place(cluster, number) == OTHER)
    assert produced(cluster, 0, b"after") is NONE
    cluster.rest(2_000)
    assert isr_of(cluster) == {0, 1, 2}
    assert len({contents(cluster, number) for number in cluster.brokers}) == 1
    assert b"meanwhile 2" in fetched(cluster, 0).records
    for number in cluster.brokers:
        assert leftovers(cluster, number) == []
        assert described(cluster, number).keys() == {(OTHER, TOPIC, 0)}


def test_replica_that_moves_is_led_by_another_broker_and_back(cluster: RunningCluster) -> None:
    assert produced(cluster, 0, b"a") is NONE
    for number in cluster.brokers:
        assert move(cluster, number) is NONE
    cluster.brokers[0].metadata.shared_topics.take_offline(
        cluster.partition(0, TOPIC), DamagedLogError("it is damaged")
    )
    cluster.until(lambda: cluster.partition(1, TOPIC).role is ReplicaRole.LEADER)
    assert produced(cluster, 1, b"b") is NONE
    cluster.until(lambda: place(cluster, 1) == place(cluster, 2) == OTHER)
    assert contents(cluster, 1) == contents(cluster, 2)
    assert not cluster.brokers[0].moves._moves


def test_answers_are_kafkas(cluster: RunningCluster) -> None:
    """ReplicaManager.alterReplicaLogDirs: LogDirNotFoundException, KafkaStorageException, ReplicaNotAvailableException."""
    make_topic(cluster, (0,), name="elsewhere")
    assert move(cluster, 0, "/nowhere") is ErrorCode.log_dir_not_found
    assert move(cluster, 1, OTHER, topic="elsewhere") is ErrorCode.replica_not_available
    assert move(cluster, 1, OTHER, topic="unknown") is ErrorCode.unknown_topic_or_partition
    assert move(cluster, 0, HOME) is NONE
    cluster.brokers[0].metadata.shared_topics.take_offline(
        cluster.partition(0, TOPIC), DamagedLogError("it is damaged")
    )
    assert move(cluster, 0, OTHER) is ErrorCode.kafka_storage_error
    cluster.disks[2].failing.add(OTHER)
    assert move(cluster, 2, OTHER) is ErrorCode.kafka_storage_error


def test_directory_is_remembered_for_a_replica_that_is_not_there_yet(cluster: RunningCluster) -> None:
    """As kafka-reassign-partitions does it: it asks for the directory first, then for the replica."""
    make_topic(cluster, (0,), (0,), name="moving")
    for index, path in enumerate((OTHER, HOME)):
        assert move(cluster, 1, path, index, "moving") is ErrorCode.replica_not_available
    topics = [
        {
            "name": "moving",
            "partitions": [{"partition_index": index, "replicas": [1]} for index in (0, 1)],
        }
    ]
    answer = cluster.answer_of(cluster.controller, "alter_partition_reassignments", 0, timeout=MINUTE, topics=topics)
    assert answer.error_code is NONE
    cluster.until(lambda: all(leader_of(cluster, index, "moving", seen_by=1) == 1 for index in (0, 1)))
    assert [place(cluster, 1, index, "moving") for index in (0, 1)] == [OTHER, HOME]


@pytest.mark.parametrize("goes_on", ["at once", "later"])
def test_log_that_is_cut_off_while_it_moves_arrives_with_what_its_leader_has(
    cluster: RunningCluster, goes_on: str
) -> None:
    """The old leader hands over before its follower has its last batch."""
    old, new = (number for number in cluster.brokers if number != cluster.controller)
    make_topic(cluster, (old, new), name="handed-over")
    log = cluster.partition(old, "handed-over").log
    source = place(cluster, old, topic="handed-over")
    target = OTHER if source == HOME else HOME
    cluster.rest(1_000)
    cluster.hold(new)
    batch = build_batch([Record(None, b"lost")])
    log.append(batch, check_batch(batch))
    disk = HeldDisk(cluster.disks[old], "-future/")
    assert move(cluster, old, target, topic="handed-over") is NONE
    start(cluster.brokers[cluster.controller].metadata.controller.shut_down_broker(old, cluster.epoch(old)))
    cluster.until(lambda: leader_of(cluster, name="handed-over", seen_by=old) == new)
    if goes_on == "at once":
        disk.go_on()
    cluster.let_go(new)
    cluster.until(lambda: cluster.partition(new, "handed-over").role is ReplicaRole.LEADER)
    instead = build_batch([Record(None, b"instead")])
    assert not isinstance(
        cluster.partition(new, "handed-over").append(instead, check_batch(instead), Origin.CLIENT), Refused
    )
    cluster.rest(2_000)
    if goes_on == "later":
        disk.go_on()
    cluster.until(lambda: place(cluster, old, topic="handed-over") == target and log.log_end_offset == 1)
    assert b"instead" in log.read(0, 1 << 20, 1).data
    assert leftovers(cluster, old) == []


def test_replica_that_leaves_moves_no_more(cluster: RunningCluster) -> None:
    assert produced(cluster, 0, b"a" * 10_000) is NONE
    disk = HeldDisk(cluster.disks[2], "-future/")
    assert move(cluster, 2) is NONE
    assert {key[0] for key in described(cluster, 2)} == {HOME, OTHER}
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [0, 1]}]}]
    answer = cluster.answer_of(cluster.controller, "alter_partition_reassignments", 0, timeout=MINUTE, topics=topics)
    assert answer.error_code is NONE
    cluster.until(lambda: cluster.partition(2, TOPIC).role is not ReplicaRole.FOLLOWER)
    assert move(cluster, 2, HOME) is ErrorCode.replica_not_available
    disk.go_on()
    cluster.until(lambda: cluster.partition(2, TOPIC).role is ReplicaRole.NONE)
    cluster.rest(5_000)
    assert leftovers(cluster, 2) == []
    assert not [path for path in cluster.disks[2].paths() if f"/{TOPIC}-0" in path]
    assert not cluster.brokers[2].moves._moves


def test_topic_that_is_deleted_while_it_moves_leaves_nothing(cluster: RunningCluster) -> None:
    assert produced(cluster, 0, b"a" * 10_000) is NONE
    for number in cluster.brokers:
        assert move(cluster, number) is NONE
    deleted = cluster.answer_of(cluster.controller, "delete_topics", 5, topic_names=[TOPIC], timeout=MINUTE)
    assert deleted.responses[0].error_code is NONE
    cluster.until(lambda: not any(core.topics.exists(TOPIC) for core in cluster.brokers.values()))
    cluster.rest(5_000)
    for number, disk in cluster.disks.items():
        assert not [path for path in disk.paths() if f"/{TOPIC}-0" in path], number
    make_topic(cluster, (0, 1, 2))
    assert produced(cluster, 0, b"b") is NONE
