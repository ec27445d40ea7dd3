"""ElectLeaders in a cluster in memory (KIP-460)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.running_cluster import RunningCluster
from oncelog.broker.storage.partition import ReplicaRole
from tests.cluster.in_memory import MINUTE, TOPIC, isr_of, leader_of, make_topic, produced

NONE = ErrorCode.none
PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED = (ErrorCode.election_not_needed, "Leader election not needed for topic partition.")


@pytest.fixture
def cluster():
    return RunningCluster(auto_leader_rebalance_enable="false")


@pytest.fixture
def displaced(cluster):
    """A partition that its preferred replica does not lead: its broker was away, and is back."""
    preferred, second, _ = sorted(cluster.brokers, key=lambda one: one == cluster.controller)
    make_topic(cluster, (preferred, second), (second, preferred))
    cluster.cut_off(preferred)
    cluster.until(lambda: leader_of(cluster, seen_by=second) == second)
    cluster.ensemble.heal()
    cluster.until(lambda: isr_of(cluster) == {preferred, second})
    return preferred, second


def elect(cluster, *partitions, election_type=PREFERRED, version=2, broker_id=None, timeout=MINUTE, every=False):
    topics = [{"topic": topic, "partitions": indexes} for topic, indexes in partitions]
    fields = {"election_type": election_type} if version else {}
    answer = cluster.answer_of(
        cluster.controller if broker_id is None else broker_id,
        "elect_leaders",
        version,
        topic_partitions=None if every else topics,
        timeout=timeout,
        **fields,
    )
    results = {
        (topic.topic, one.partition_id): (one.error_code, one.error_message)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }
    return getattr(answer, "error_code", NONE), results


@pytest.mark.parametrize("version", [0, 1, 2])
def test_preferred_replica_leads_when_the_answer_comes(cluster, displaced, version):
    preferred, _ = displaced
    assert elect(cluster, (TOPIC, (0,)), version=version) == (NONE, {(TOPIC, 0): (NONE, None)})
    assert leader_of(cluster, seen_by=cluster.controller) == preferred
    cluster.until(lambda: cluster.partition(preferred, TOPIC).role is ReplicaRole.LEADER)
    assert produced(cluster, preferred, b"a") is NONE
    assert elect(cluster, (TOPIC, (0,)), version=version) == (NONE, {(TOPIC, 0): NOT_NEEDED})


def test_asked_for_all_the_answer_leaves_out_those_that_need_none(cluster, displaced):
    """KafkaApis.handleElectLeaders: "partitions that didn't need election … are not returned"."""
    assert elect(cluster, every=True) == (NONE, {(TOPIC, 0): (NONE, None)})
    assert elect(cluster, every=True) == (NONE, {})


def test_broker_that_is_not_the_controller_says_so_of_each_partition(cluster, displaced):
    other = next(one for one in cluster.brokers if one != cluster.controller)
    expected = {(TOPIC, 0): (ErrorCode.not_controller, None)}
    assert elect(cluster, (TOPIC, (0,)), broker_id=other) == (NONE, expected)
    _, every = elect(cluster, every=True, broker_id=other)
    assert every == {(TOPIC, index): (ErrorCode.not_controller, None) for index in (0, 1)}


def test_partition_that_is_not_there_and_election_that_is_none(cluster, displaced):
    unknown = (ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    assert elect(cluster, ("other", (3,))) == (NONE, {("other", 3): unknown})
    error, results = elect(cluster, (TOPIC, (0,)), election_type=2)
    assert error is ErrorCode.invalid_request
    assert results == {(TOPIC, 0): (ErrorCode.invalid_request, "there is no election of type 2")}


def test_preferred_replica_that_is_away_cannot_be_elected(cluster, displaced):
    preferred, _ = displaced
    cluster.cut_off(preferred)
    cluster.until(lambda: isr_of(cluster) != set(displaced))
    _, results = elect(cluster, (TOPIC, (0,)))
    assert results[TOPIC, 0][0] is ErrorCode.preferred_leader_not_available


def test_unclean_election_is_not_needed_while_somebody_leads(cluster, displaced):
    assert elect(cluster, (TOPIC, (0,)), election_type=UNCLEAN) == (NONE, {(TOPIC, 0): NOT_NEEDED})


def test_leader_of_which_the_broker_is_not_told_in_time_is_timed_out(cluster, displaced):
    _, results = elect(cluster, (TOPIC, (0,)), timeout=timedelta(0))
    assert results == {(TOPIC, 0): (ErrorCode.request_timed_out, None)}
