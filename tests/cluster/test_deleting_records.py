"""DeleteRecords in a cluster (KIP-107): it waits for the low watermark of the partition.

That is the smallest log start offset of all replicas that are alive.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.memory_disk import LosesAll
from harness.running_cluster import RunningCluster
from tests.cluster.in_memory import TOPIC, make_topic, produced

NONE = ErrorCode.none


@pytest.fixture
def cluster():
    cluster = RunningCluster(replica_lag_time_max_ms="300000")
    make_topic(cluster, (0, 1, 2))
    for value in (b"a", b"b", b"c"):
        assert produced(cluster, 0, value) is NONE
    return cluster


def delete(cluster, offset, *, timeout_ms=60_000, broker_id=0):
    partitions = [{"partition_index": 0, "offset": offset}]
    return cluster.call(
        broker_id,
        "delete_records",
        2,
        topics=[{"name": TOPIC, "partitions": partitions}],
        timeout=timedelta(milliseconds=timeout_ms),
    )


def outcome(cluster, reply):
    (result,) = cluster.answer(reply).topics[0].partitions
    return result.error_code, result.low_watermark


def log_starts(cluster):
    return [cluster.partition(number, TOPIC).log.log_start_offset for number in cluster.brokers]


def test_records_are_deleted_from_every_replica_before_the_answer(cluster):
    assert outcome(cluster, delete(cluster, 2)) == (NONE, 2)
    assert log_starts(cluster) == [2, 2, 2]


def test_deleted_records_stay_deleted_at_every_replica_also_after_a_power_cut(cluster):
    """Any of them may be the next leader."""
    assert outcome(cluster, delete(cluster, 2)) == (NONE, 2)
    for node in cluster.nodes.values():
        node.disk.lose_by(LosesAll())
        node.die(power=True)
    for node in cluster.nodes.values():
        node.start()
        found = node.core.log_directories.log_start_offsets()
        assert found.get((TOPIC, 0)) == 2


def test_high_watermark_stands_for_all_that_everybody_has(cluster):
    assert outcome(cluster, delete(cluster, -1)) == (NONE, 3)
    assert log_starts(cluster) == [3, 3, 3]


def test_replica_that_does_not_fetch_holds_the_answer_back_until_the_time_is_over(cluster):
    cluster.rest(1000)
    cluster.hold(2)
    assert outcome(cluster, delete(cluster, 2, timeout_ms=5_000)) == (ErrorCode.request_timed_out, 0)
    # What was deleted stays so, and is deleted everywhere as soon as the third fetches.
    cluster.let_go(2)
    assert outcome(cluster, delete(cluster, 1)) == (NONE, 2)
    assert log_starts(cluster) == [2, 2, 2]


def test_nobody_waits_for_a_replica_whose_broker_dies():
    cluster = RunningCluster(replica_lag_time_max_ms="300000")
    here = cluster.controller
    other, dying = (one for one in cluster.brokers if one != here)
    make_topic(cluster, (here, other, dying))
    assert produced(cluster, here, b"a") is NONE
    cluster.hold(dying)
    reply = delete(cluster, 1, broker_id=here)
    cluster.rest(2000)
    assert not reply.came
    cluster.brokers[dying].metadata.zookeeper.close()
    before_ms = cluster.clock.now_ms()
    assert outcome(cluster, reply) == (NONE, 1)
    assert cluster.clock.now_ms() - before_ms < 30_000


def test_leader_that_resigns_meanwhile_says_so(cluster):
    cluster.rest(1000)
    cluster.hold(1)
    cluster.hold(2)
    reply = delete(cluster, 2)
    cluster.rest(100)
    (leading,) = cluster.brokers[0].metadata.membership.replicas.led()
    leading.stop()
    assert outcome(cluster, reply) == (ErrorCode.not_leader_or_follower, -1)


def test_followers_delete_nothing_of_themselves(cluster):
    assert outcome(cluster, delete(cluster, 1, broker_id=1)) == (ErrorCode.not_leader_or_follower, -1)
    assert log_starts(cluster) == [0, 0, 0]
