"""A log directory of a member fails (KIP-112): the controller hears of it, others lead what was led there, and the rest goes on."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.running_cluster import RunningCluster
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.cluster.zookeeper.session import Children, Create, GetChildren
from oncelog.cluster.zookeeper.znodes import encode_reassignments, paths
from oncelog.log import DamagedLogError
from tests.cluster.in_memory import MINUTE, TOPIC, fetched, isr_of, leader_of, make_topic, produce, produced

NONE = ErrorCode.none
HOME, OTHER = "/home", "/other"


@pytest.fixture
def cluster():
    """Partition 0 of each replica is at home, partition 1 in the other directory; broker 0 leads both."""
    cluster = RunningCluster(directories=(HOME, OTHER), replica_lag_time_max_ms="5000")
    make_topic(cluster, (0, 1, 2), (0, 1, 2))
    for index, path in ((0, HOME), (1, OTHER)):
        assert cluster.partition(0, TOPIC, index).directory.path == path
        assert produced(cluster, 0, b"before", index=index) is NONE
    return cluster


def fail(cluster, broker_id: int) -> None:
    cluster.disks[broker_id].failing.add(OTHER)


def test_another_replica_leads_what_was_led_from_the_directory(cluster):
    fail(cluster, 0)
    assert produced(cluster, 0, b"lost", index=1) is ErrorCode.kafka_storage_error
    cluster.until(lambda: leader_of(cluster, 1, seen_by=2) == 1)
    cluster.until(lambda: cluster.partition(2, TOPIC, 1).leadership.offline == (0,))
    assert produced(cluster, 1, b"after", index=1) is NONE
    assert isr_of(cluster, 1) == {1, 2}
    read = fetched(cluster, 1, index=1)
    assert b"before" in read.records
    assert b"after" in read.records
    assert b"lost" not in read.records
    assert fetched(cluster, 0, index=1).error_code is ErrorCode.kafka_storage_error


def test_controller_takes_its_own_replicas_offline_too():
    cluster = RunningCluster(directories=(HOME, OTHER))
    here = cluster.controller
    second, third = (one for one in cluster.brokers if one != here)
    make_topic(cluster, (here, second, third), (here, second, third))
    fail(cluster, here)
    assert produced(cluster, here, b"lost", index=1) is ErrorCode.kafka_storage_error
    cluster.until(lambda: leader_of(cluster, 1, seen_by=here) == second)
    assert (leader_of(cluster, 0, seen_by=here), cluster.controller) == (here, here)
    cluster.until(lambda: cluster.partition(second, TOPIC, 1).role is ReplicaRole.LEADER)
    assert produced(cluster, second, b"after", index=1) is NONE


def test_broker_goes_on_with_its_other_directories(cluster):
    fail(cluster, 0)
    assert produced(cluster, 0, b"lost", index=1) is ErrorCode.kafka_storage_error
    cluster.until(lambda: leader_of(cluster, 1, seen_by=0) == 1)
    assert leader_of(cluster, 0) == 0
    assert produced(cluster, 0, b"after") is NONE
    assert isr_of(cluster, 0) == {0, 1, 2}
    make_topic(cluster, (0, 1), name="new")
    assert cluster.partition(0, "new").directory.path == HOME


def test_follower_whose_directory_fails_is_in_sync_no_more(cluster):
    fail(cluster, 1)
    first = produce(cluster, 0, b"a", index=1)
    cluster.until(lambda: isr_of(cluster, 1) == {0, 2})
    assert cluster.answer(first).responses[0].partition_responses[0].error_code is NONE
    cluster.until(lambda: cluster.partition(0, TOPIC, 1).leadership.offline == (1,))
    # It follows what it has at home.
    assert produced(cluster, 0, b"b") is NONE
    cluster.until(lambda: cluster.partition(1, TOPIC).log.log_end_offset == 2)
    assert isr_of(cluster, 0) == {0, 1, 2}
    assert fetched(cluster, 1, index=1).error_code is ErrorCode.kafka_storage_error


def test_producer_that_waits_for_replicas_is_told_of_the_failure(cluster):
    cluster.rest(1000)
    cluster.hold(1)
    cluster.hold(2)
    reply = produce(cluster, 0, b"nobody else's", index=1)
    cluster.rest(10)
    assert not reply.came
    fail(cluster, 0)
    assert produced(cluster, 0, b"more", index=1, acks=1) is ErrorCode.kafka_storage_error
    assert cluster.answer(reply).responses[0].partition_responses[0].error_code is ErrorCode.kafka_storage_error


def test_controller_clears_the_notification_away(cluster):
    fail(cluster, 0)
    assert produced(cluster, 0, b"lost", index=1) is ErrorCode.kafka_storage_error
    cluster.until(lambda: leader_of(cluster, 1, seen_by=2) == 1)
    cluster.rest(1000)
    children = cluster.submit(GetChildren(paths.LOG_DIR_EVENTS))
    assert isinstance(children, Children)
    assert children.names == ()


def test_one_damaged_log_is_told_in_the_same_way(cluster):
    broker = cluster.brokers[0]
    broker.topics.take_offline(broker.topics.partition(TOPIC, 0), DamagedLogError("damaged"))
    cluster.until(lambda: leader_of(cluster, 0, seen_by=2) == 1)
    cluster.until(lambda: cluster.partition(2, TOPIC, 0).leadership.offline == (0,))
    assert leader_of(cluster, 1) == 0


def test_bit_of_a_leader_epoch_takes_one_replica_offline_and_not_its_broker():
    """Nothing but the controller tells that the epoch is one that is to come yet."""
    cluster = RunningCluster()
    make_topic(cluster, (0,), (0,))
    assert produced(cluster, 0, b"alone") is NONE
    path = cluster.partition(0, TOPIC).log.segments[0].path
    cluster.nodes[0].die(power=False)
    cluster.disks[0].flip(path, 13, 4)
    cluster.start_served(0)
    cluster.until(lambda: cluster.partition(0, TOPIC).is_offline)
    assert (
        "is damaged at offset 0, byte 0: the leader epoch is 262144, and there were"
        in cluster.partition(0, TOPIC).damage
    )
    assert produced(cluster, 0, b"served", index=1) is NONE


def test_topic_with_an_offline_replica_is_deleted_where_it_can_be(cluster):
    fail(cluster, 0)
    assert produced(cluster, 0, b"lost", index=1) is ErrorCode.kafka_storage_error
    cluster.until(lambda: leader_of(cluster, 1, seen_by=2) == 1)
    names = ({"name": TOPIC, "topic_id": None},)
    reply = cluster.call(cluster.controller, "delete_topics", 6, topics=names, timeout=MINUTE)
    cluster.rest(70_000)
    assert reply.came
    assert reply.message.responses[0].error_code in (NONE, ErrorCode.request_timed_out)


def test_directory_that_comes_back_takes_no_place_of_a_replica_that_was_made_without_it(cluster):
    """The replica is taken from the broker and given to it again while the directory is offline: the log in there is stale."""
    fail(cluster, 0)
    assert produced(cluster, 0, b"lost", index=1) is ErrorCode.kafka_storage_error
    cluster.until(lambda: leader_of(cluster, 1, seen_by=2) == 1)
    for replicas in ((1, 2), (0, 1)):
        cluster.submit(Create(paths.REASSIGN_PARTITIONS, encode_reassignments({(TOPIC, 1): replicas})))
        cluster.until(lambda replicas=replicas: isr_of(cluster, 1) == {*replicas})
        cluster.until(lambda: cluster.ensemble.tree.node(paths.REASSIGN_PARTITIONS) is None)
    assert cluster.partition(0, TOPIC, 1).directory.path == HOME
    assert produced(cluster, 1, b"after", index=1) is NONE
    cluster.disks[0].failing.discard(OTHER)
    assert f"{TOPIC}-1" in cluster.disks[0].list_directory(OTHER)
    cluster.nodes[0].die(power=False)
    cluster.start_served(0)
    assert cluster.partition(0, TOPIC, 1).directory.path == HOME
    assert f"{TOPIC}-1" not in cluster.disks[0].list_directory(OTHER)
    cluster.until(lambda: isr_of(cluster, 1) == {0, 1})
    cluster.nodes[1].die(power=False)
    cluster.until(lambda: leader_of(cluster, 1, seen_by=0) == 0)
    assert b"after" in fetched(cluster, 0, index=1).records


def test_high_watermarks_are_written_again_and_again(cluster):
    """replica.high.watermark.checkpoint.interval.ms is 5000."""
    cluster.rest(6_000)
    lines = bytes(cluster.disks[1].read_file(f"{HOME}/replication-offset-checkpoint")).decode().splitlines()
    assert f"{TOPIC} 0 1" in lines


def test_follower_that_cannot_cut_one_log_off_cuts_the_others_off_all_the_same():
    cluster = RunningCluster(directories=(HOME, OTHER), replica_lag_time_max_ms="300000")
    here, other, _ = sorted(cluster.brokers, key=lambda one: one == cluster.controller)
    make_topic(cluster, *[(here, other)] * 3)
    every = (0, 1, 2)
    for index in every:
        assert produced(cluster, here, b"everybody's", index=index) is NONE
    cluster.rest(1000)
    cluster.hold(other)
    # The fetch that waits already brings one more record over; of what comes then nobody else hears.
    assert produced(cluster, here, b"brought over", acks=1) is NONE
    cluster.rest(100)
    for index in every:
        assert produced(cluster, here, b"mine alone", index=index, acks=1) is NONE
    cluster.cut_off(here)
    cluster.until(lambda: all(cluster.partition(other, TOPIC, index).role is ReplicaRole.LEADER for index in every))
    cluster.let_go(other)
    assert [cluster.partition(here, TOPIC, index).log.log_end_offset for index in every] == [3, 2, 2]
    cluster.ensemble.heal()
    # Of the first partition it hears alone, of the other two at once.
    cluster.until(lambda: cluster.partition(here, TOPIC).log.log_end_offset == 2)
    fail(cluster, here)
    cluster.until(lambda: isr_of(cluster, 2) == {here, other})
    assert cluster.partition(here, TOPIC, 2).log.log_end_offset == 1
    cluster.until(lambda: cluster.partition(other, TOPIC, 1).leadership.offline == (here,))
    assert produced(cluster, other, b"after", index=2) is NONE
    cluster.until(lambda: cluster.partition(here, TOPIC, 2).log.log_end_offset == 2)
