"""What a member answers of itself alone: its replicas, and the groups and transactions that it coordinates."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.running_cluster import RunningCluster
from oncelog.coordination import start
from tests.cluster.in_memory import MINUTE, TOPIC, make_topic, produced

NONE = ErrorCode.none
GROUP, TRANSACTION = 0, 1
NOT_COORDINATOR = ErrorCode.not_coordinator


@pytest.fixture
def cluster():
    cluster = RunningCluster(replica_lag_time_max_ms="300000")
    make_topic(cluster, (0, 1), (1, 2))
    assert produced(cluster, 0, b"a") is NONE
    return cluster


def coordinator(cluster, kind):
    """Who coordinates "x", once it does, and the others."""
    found = -1
    while found < 0:
        answer = cluster.answer_of(0, "find_coordinator", 4, coordinator_keys=("x",), key_type=kind)
        found = answer.coordinators[0].node_id
        cluster.rest(200)
    return found, [one for one in cluster.brokers if one != found]


def directories(cluster, broker_id, topics=None):
    answer = cluster.answer_of(broker_id, "describe_log_dirs", 4, topics=topics)
    (directory,) = answer.results
    return {
        (topic.name, one.partition_index): (one.partition_size > 0, one.offset_lag, one.is_future_key)
        for topic in directory.topics
        for one in topic.partitions
    }


def test_directories_have_the_replicas_that_are_here_whoever_leads_them(cluster):
    cluster.until(lambda: cluster.partition(1, TOPIC).log.log_end_offset == 1)
    assert directories(cluster, 0) == {(TOPIC, 0): (True, 0, False)}
    assert directories(cluster, 1) == {(TOPIC, 0): (True, 0, False), (TOPIC, 1): (False, 0, False)}
    both = [{"topic": TOPIC, "partitions": (0, 1)}]
    assert directories(cluster, 2, both) == {(TOPIC, 1): (False, 0, False)}
    assert directories(cluster, 0, both) == {(TOPIC, 0): (True, 0, False)}


def test_producers_are_told_by_every_replica_and_by_nobody_else(cluster):
    """KIP-664: an administrator may ask a broker that is not the leader."""

    def error(broker_id, index):
        asked = [{"name": TOPIC, "partition_indexes": (index,)}]
        (result,) = cluster.answer_of(broker_id, "describe_producers", 0, topics=asked).topics[0].partitions
        return result.error_code

    assert [error(number, 0) for number in (0, 1, 2)] == [NONE, NONE, ErrorCode.not_leader_or_follower]
    assert error(0, 7) is ErrorCode.unknown_topic_or_partition


def test_end_of_an_epoch_is_told_by_the_leader_alone(cluster):
    def ended(broker_id, current_epoch=-1):
        partition = {"partition": 0, "current_leader_epoch": current_epoch, "leader_epoch": 0}
        asked = [{"topic": TOPIC, "partitions": [partition]}]
        answer = cluster.answer_of(broker_id, "offset_for_leader_epoch", 4, replica_id=2, topics=asked)
        (result,) = answer.topics[0].partitions
        return result.error_code, result.leader_epoch, result.end_offset

    assert ended(0) == (NONE, 0, 1)
    assert ended(0, 1) == (ErrorCode.unknown_leader_epoch, -1, -1)
    assert ended(1) == (ErrorCode.not_leader_or_follower, -1, -1)
    assert ended(2) == (ErrorCode.not_leader_or_follower, -1, -1)


def test_transactions_are_told_by_their_coordinator(cluster):
    here, others = coordinator(cluster, TRANSACTION)
    begun = cluster.answer_of(
        here, "init_producer_id", 4, transactional_id="x", transaction_timeout=MINUTE, producer_id=-1, producer_epoch=-1
    )
    assert begun.error_code is NONE
    added = cluster.answer_of(
        here,
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[{"name": TOPIC, "partitions": (0,)}],
    )
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code is NONE

    def listed(broker_id):
        answer = cluster.answer_of(broker_id, "list_transactions", 0, state_filters=(), producer_id_filters=())
        return answer.error_code, [one.transactional_id for one in answer.transaction_states]

    def described(broker_id):
        (state,) = cluster.answer_of(broker_id, "describe_transactions", 0, transactional_ids=("x",)).transaction_states
        return state.error_code

    assert listed(here) == (NONE, ["x"])
    assert described(here) is NONE
    for other in others:
        assert listed(other) == (NONE, [])
        assert described(other) is NOT_COORDINATOR
    start(cluster.brokers[here].metadata.membership.replicas.step_down())
    cluster.rest(100)
    assert listed(here) == (NONE, [])
    assert described(here) is NOT_COORDINATOR


def test_groups_are_told_by_their_coordinator(cluster):
    here, others = coordinator(cluster, GROUP)
    topics = [
        {
            "name": TOPIC,
            "partitions": [
                {
                    "partition_index": 0,
                    "committed_offset": 1,
                    "committed_leader_epoch": -1,
                    "committed_metadata": "",
                }
            ],
        }
    ]
    committed = cluster.answer_of(here, "offset_commit", 8, group_id="x", member_id="", topics=topics)
    assert committed.topics[0].partitions[0].error_code is NONE

    def listed(broker_id):
        answer = cluster.answer_of(broker_id, "list_groups", 4, states_filter=())
        return answer.error_code, [group.group_id for group in answer.groups]

    def described(broker_id):
        (group,) = cluster.answer_of(
            broker_id, "describe_groups", 5, groups=("x",), include_authorized_operations=False
        ).groups
        return group.error_code

    def deleted(broker_id):
        (result,) = cluster.answer_of(broker_id, "delete_groups", 2, groups_names=("x",)).results
        return result.error_code

    assert listed(here) == (NONE, ["x"])
    assert described(here) is NONE
    for other in others:
        assert listed(other) == (NONE, [])
        assert described(other) is NOT_COORDINATOR
        assert deleted(other) is NOT_COORDINATOR
    start(cluster.brokers[here].metadata.membership.replicas.step_down())
    cluster.rest(100)
    assert listed(here) == (NONE, [])
    assert described(here) is NOT_COORDINATOR
