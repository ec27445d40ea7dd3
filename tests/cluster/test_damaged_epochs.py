"""A replica with a leader epoch that there was not: no checksum covers the field, and the controller knows."""

from __future__ import annotations

from struct import pack

import pytest

from harness.running_cluster import RunningCluster
from oncelog.records import batches
from oncelog.wire import ErrorCode
from tests.cluster.in_memory import TOPIC, isr_of, make_topic, produced

NONE = ErrorCode.none
LEADER_EPOCH = 12
"""Where a batch has it."""
BEYOND = 1_048_576


def change_epoch(cluster: RunningCluster, broker: int, slot: int) -> str:
    """Another epoch in the batch of this number; return the file."""
    (directory,) = cluster.nodes[broker].directories
    path = f"{directory}/{TOPIC}-0/{0:020d}.log"
    data = cluster.disks[broker].read_file(path)
    at = [position for position, _ in batches(data)][slot] + LEADER_EPOCH
    cluster.disks[broker].replace_file(path, data[:at] + pack(">i", BEYOND) + data[at + 4 :])
    return path


def written(cluster: RunningCluster, *replicas: int) -> None:
    make_topic(cluster, replicas)
    for value in (b"one", b"two", b"three"):
        assert produced(cluster, replicas[0], value) is NONE
    cluster.until(lambda: {cluster.partition(one, TOPIC).log.log_end_offset for one in replicas} == {3})


@pytest.mark.parametrize("slot", [0, 1, 2])
def test_follower_with_an_epoch_that_there_was_not_is_offline_with_its_file_and_offset(slot: int) -> None:
    """Its leader would tell it for ever that its epoch is out of range, and nobody why it is not in sync."""
    cluster = RunningCluster(3, replica_lag_time_max_ms="3000")
    leader, follower = (one for one in cluster.nodes if one != cluster.controller)
    written(cluster, leader, follower)
    cluster.nodes[follower].die(power=False)
    path = change_epoch(cluster, follower, slot)
    cluster.start_served(follower)
    cluster.until(lambda: cluster.partition(follower, TOPIC).is_offline)
    damage = f"{path} is damaged at offset {slot}, byte {71 * slot}: the leader epoch is {BEYOND}, and there were "
    assert str(cluster.partition(follower, TOPIC).damage).startswith(damage)
    cluster.until(lambda: isr_of(cluster) == {leader})
    assert produced(cluster, leader, b"four") is NONE
    for node in cluster.nodes:
        assert cluster.core(node) is not None


def test_only_replica_with_an_epoch_that_there_was_not_does_not_lead() -> None:
    cluster = RunningCluster(3)
    alone = next(one for one in cluster.nodes if one != cluster.controller)
    written(cluster, alone)
    cluster.nodes[alone].die(power=False)
    change_epoch(cluster, alone, 2)
    cluster.start_served(alone)
    cluster.until(lambda: cluster.partition(alone, TOPIC).is_offline)
    assert produced(cluster, alone, b"four") is ErrorCode.kafka_storage_error


def test_replica_whose_checkpoint_alone_has_such_an_epoch_blames_that() -> None:
    cluster = RunningCluster(3)
    leader, follower = (one for one in cluster.nodes if one != cluster.controller)
    written(cluster, leader, follower)
    cluster.nodes[follower].stop()
    (directory,) = cluster.nodes[follower].directories
    path = f"{directory}/{TOPIC}-0/leader-epoch-checkpoint"
    cluster.disks[follower].replace_file(path, f"0\n1\n{BEYOND} 0\n".encode())
    cluster.start_served(follower)
    cluster.until(lambda: cluster.partition(follower, TOPIC).is_offline)
    assert str(cluster.partition(follower, TOPIC).damage).startswith(
        f"{path} is damaged at offset 0: the leader epoch is"
    )
