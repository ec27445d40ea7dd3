"""What consumers and followers read of a partition, from its leader and from its followers (KIP-207, KIP-392)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.running_cluster import RunningCluster
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.coordination import start
from oncelog.records import Record, build_batch
from tests.cluster.in_memory import fetch, fetched, isr_of, listed, make_topic, produce, produced

NONE = ErrorCode.none
NOT_LED = ErrorCode.not_leader_or_follower
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
CONSUMER, DEBUGGING = -1, -2
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def outcome(answered):
    return answered.error_code, answered.offset


@pytest.fixture
def cluster():
    cluster = RunningCluster()
    make_topic(cluster, (0, 1, 2))
    return cluster


@pytest.fixture
def lagging(cluster):
    """The leader has two records, and the followers have the first of them."""
    assert produced(cluster, 0, b"everybody's") is NONE
    cluster.rest(1000)
    cluster.hold(1)
    cluster.hold(2)
    assert produced(cluster, 0, b"the leader's", acks=1) is NONE
    return cluster


def test_consumer_gets_the_high_watermark_and_a_replica_the_log_end_offset(lagging):
    """Kafka's Partition.fetchOffsetForTimestamp: the last fetchable offset of who is no client is the log end offset."""
    assert outcome(listed(lagging, 0, LATEST)) == (NONE, 1)
    assert outcome(listed(lagging, 0, LATEST, replica_id=1)) == (NONE, 2)
    assert outcome(listed(lagging, 0, LATEST, replica_id=DEBUGGING)) == (NONE, 2)


def test_only_who_debugs_is_told_of_offsets_by_a_follower(lagging):
    for replica_id, expected in ((CONSUMER, (NOT_LED, -1)), (2, (NOT_LED, -1)), (DEBUGGING, (NONE, 1))):
        assert outcome(listed(lagging, 1, LATEST, replica_id=replica_id)) == expected
    assert outcome(listed(lagging, 1, EARLIEST)) == (NOT_LED, -1)


def test_record_with_the_largest_timestamp_is_not_told_while_it_is_beyond_the_high_watermark(lagging):
    now_ms = lagging.clock.now_ms()
    assert outcome(listed(lagging, 0, MAX_TIMESTAMP)) == (NONE, -1)
    assert outcome(listed(lagging, 0, now_ms)) == (NONE, -1)
    assert outcome(listed(lagging, 0, MAX_TIMESTAMP, replica_id=1)) == (NONE, 1)
    assert outcome(listed(lagging, 0, now_ms, replica_id=1)) == (NONE, 1)


def test_new_leader_has_no_latest_offset_before_its_high_watermark_is_where_its_epoch_begins():
    """KIP-207: "the broker will return OFFSET_NOT_AVAILABLE" to clients of v5; others get LEADER_NOT_AVAILABLE."""
    cluster = RunningCluster()
    next_leader = cluster.controller
    leader, late = (one for one in cluster.brokers if one != next_leader)
    make_topic(cluster, (leader, next_leader, late))
    cluster.hold(late)
    reply = produce(cluster, leader, b"on two replicas")
    cluster.until(lambda: cluster.partition(next_leader, "t").log.log_end_offset == 1)
    assert not reply.came
    # Until the third fetches again nobody knows whether the record was everybody's.
    cluster.hold(leader)
    cluster.brokers[leader].metadata.zookeeper.close()
    cluster.until(lambda: cluster.partition(next_leader, "t").role is ReplicaRole.LEADER)
    assert cluster.partition(next_leader, "t").log.high_watermark == 0
    assert outcome(listed(cluster, next_leader, LATEST)) == (ErrorCode.offset_not_available, -1)
    assert outcome(listed(cluster, next_leader, LATEST, version=4)) == (ErrorCode.leader_not_available, -1)
    later_ms = cluster.clock.now_ms() + 1
    assert outcome(listed(cluster, next_leader, later_ms)) == (ErrorCode.offset_not_available, -1)
    assert outcome(listed(cluster, next_leader, EARLIEST)) == (NONE, 0)
    assert outcome(listed(cluster, next_leader, LATEST, replica_id=late)) == (NONE, 1)
    cluster.let_go(late)
    cluster.until(lambda: listed(cluster, next_leader, LATEST).error_code is NONE)
    assert outcome(listed(cluster, next_leader, LATEST)) == (NONE, 1)


def test_follower_serves_consumers_up_to_its_high_watermark(cluster):
    """KIP-392: "followers … serve fetches from consumers", which say so by Fetch v11; a follower's Fetch is the leader's."""
    assert produced(cluster, 0, b"a") is NONE
    cluster.rest(1000)
    read = fetched(cluster, 1)
    assert (read.error_code, read.high_watermark, b"a" in read.records) == (NONE, 1, True)
    assert fetched(cluster, 1, version=10).error_code is NOT_LED
    assert fetched(cluster, 1, replica_id=2).error_code is NOT_LED


def test_follower_has_nothing_beyond_its_high_watermark_and_nothing_beyond_its_end(lagging):
    # 1 has heard of the first record that it is everybody's.
    at_the_end = fetched(lagging, 1, 1)
    assert (at_the_end.error_code, at_the_end.records, at_the_end.high_watermark) == (NONE, b"", 1)
    assert fetched(lagging, 1, 2).error_code is ErrorCode.offset_out_of_range
    lagging.let_go(1)
    lagging.until(lambda: lagging.partition(1, "t").log.log_end_offset == 2)
    beyond = fetched(lagging, 1, 1)
    assert (beyond.error_code, beyond.records) == (NONE, b"")


def test_consumer_that_waits_at_a_follower_is_woken_when_its_high_watermark_moves(cluster):
    reply = fetch(cluster, 1, wait_ms=60_000)
    assert produced(cluster, 0, b"a") is NONE
    before_ms = cluster.clock.now_ms()
    read = cluster.answer(reply).responses[0].partitions[0]
    assert b"a" in read.records
    assert cluster.clock.now_ms() - before_ms < 30_000


def test_leader_epochs_are_checked_before_it_is_asked_who_leads(cluster):
    """Kafka's Partition.getLocalLog; a client that is behind must hear that, whoever answers."""
    assert fetched(cluster, 1, epoch=0, version=10).error_code is NOT_LED
    assert fetched(cluster, 1, epoch=1).error_code is ErrorCode.unknown_leader_epoch
    cluster.partition(1, "t").leader_epoch = 5
    assert fetched(cluster, 1, epoch=4).error_code is ErrorCode.fenced_leader_epoch
    assert fetched(cluster, 1, epoch=5).error_code is NONE


def test_broker_without_a_replica_serves_nobody(cluster):
    make_topic(cluster, (0, 1), name="two")
    asked = {"partition_index": 0, "timestamp": LATEST}
    answer = cluster.answer_of(
        2,
        "list_offsets",
        7,
        replica_id=DEBUGGING,
        isolation_level=0,
        topics=[{"name": "two", "partitions": [asked]}],
    )
    assert answer.topics[0].partitions[0].error_code is NOT_LED


def test_replica_that_was_stopped_serves_nobody(cluster):
    assert produced(cluster, 0, b"a") is NONE
    start(cluster.brokers[1].metadata.membership.replicas.step_down())
    cluster.rest(10)
    assert fetched(cluster, 1).error_code is NOT_LED


# Racks


def racked(**settings: str) -> RunningCluster:
    cluster = RunningCluster(racks={0: "a", 1: "b", 2: "b"}, replica_lag_time_max_ms="5000", **settings)
    make_topic(cluster, (0, 1, 2))
    assert produced(cluster, 0, b"a") is NONE
    cluster.rest(1000)
    return cluster


def test_leader_sends_consumers_to_a_follower_in_their_rack():
    cluster = racked(replica_selector_class=RACK_AWARE)
    sent = fetched(cluster, 0, rack_id="b", wait_ms=60_000)
    # "If a preferred read-replica is set, skip the read."
    assert (sent.error_code, sent.records, sent.high_watermark) == (NONE, b"", 1)
    assert sent.preferred_read_replica in (1, 2)
    there = fetched(cluster, sent.preferred_read_replica, rack_id="b")
    assert (there.error_code, there.preferred_read_replica, b"a" in there.records) == (NONE, -1, True)
    for rack in ("a", "", "somewhere else"):
        stays = fetched(cluster, 0, rack_id=rack)
        assert (stays.preferred_read_replica, b"a" in stays.records) == (-1, True)


def test_no_consumer_is_sent_to_a_follower_that_is_not_in_sync_or_has_not_the_offset():
    cluster = racked(replica_selector_class=RACK_AWARE)
    cluster.hold(2)
    assert produced(cluster, 0, b"b", acks=1) is NONE
    cluster.until(lambda: cluster.partition(1, "t").log.log_end_offset == 2)
    cluster.rest(1000)
    assert fetched(cluster, 0, 2, rack_id="b").preferred_read_replica == 1
    cluster.until(lambda: isr_of(cluster) == {0, 1})
    assert fetched(cluster, 0, 0, rack_id="b").preferred_read_replica == 1


def test_without_a_selector_everybody_reads_from_the_leader():
    sent = fetched(racked(), 0, rack_id="b")
    assert (sent.preferred_read_replica, b"a" in sent.records) == (-1, True)


def test_fetch_session_tells_of_the_preferred_replica_again_and_again():
    """Kafka's FetchSession: a partition with a preferred replica is news, though nothing of it has changed."""
    cluster = racked(replica_selector_class=RACK_AWARE)
    first = cluster.answer(fetch(cluster, 0, rack_id="b", session_id=0, session_epoch=0))
    again = cluster.answer(fetch(cluster, 0, rack_id="b", session_id=first.session_id, session_epoch=1))
    for answer in (first, again):
        assert answer.responses[0].partitions[0].preferred_read_replica in (1, 2)


# Who leads instead (KIP-951)


@pytest.mark.parametrize(("version", "is_told"), [(12, False), (15, False), (16, True), (17, True)])
def test_consumer_with_an_old_leader_epoch_is_told_who_leads(cluster, version, is_told):
    """KIP-951: Fetch v16 has the leader of a partition that is led elsewhere, or under a newer epoch, and where that is."""
    cluster.partition(0, "t").leader_epoch = 3
    topic_id = cluster.brokers[0].topics.named("t").topic_id
    named = {"topic": "t"} if version < 13 else {"topic_id": topic_id}
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1, "current_leader_epoch": 2}
    answer = cluster.answer_of(
        0,
        "fetch",
        version,
        max_wait=timedelta(0),
        min_bytes=1,
        isolation_level=0,
        topics=[{**named, "partitions": [asked]}],
        forgotten_topics_data=[],
    )
    read = answer.responses[0].partitions[0]
    assert read.error_code is ErrorCode.fenced_leader_epoch
    assert read.current_leader.leader_id == (0 if is_told else -1)
    nodes = [(one.node_id, one.host, one.port) for one in getattr(answer, "node_endpoints", ())]
    assert nodes == ([(0, "broker-0", 9092)] if is_told else [])


@pytest.mark.parametrize(("version", "is_told"), [(9, False), (10, True), (11, True)])
def test_producer_at_the_wrong_broker_is_told_who_leads(cluster, version, is_told):
    answer = cluster.answer(produce(cluster, 1, b"a", version=version))
    refused = answer.responses[0].partition_responses[0]
    assert refused.error_code is NOT_LED
    leader = getattr(refused, "current_leader", None)
    assert (leader is not None and (leader.leader_id, leader.leader_epoch) == (0, 0)) is is_told
    assert [one.node_id for one in getattr(answer, "node_endpoints", ())] == ([0] if is_told else [])


def test_follower_tells_consumers_of_committed_records_which_transactions_were_aborted(cluster):
    here = -1
    while here < 0:
        here = cluster.answer_of(0, "find_coordinator", 4, coordinator_keys=("x",), key_type=1).coordinators[0].node_id
        cluster.rest(200)
    begun = cluster.answer_of(
        here,
        "init_producer_id",
        4,
        transactional_id="x",
        transaction_timeout=timedelta(minutes=1),
        producer_id=-1,
        producer_epoch=-1,
    )
    producer = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    added = {f"v3_and_below_{name}": value for name, value in producer.items()}
    topics = [{"name": "t", "partitions": (0,)}]
    cluster.answer_of(
        here, "add_partitions_to_txn", 3, v3_and_below_transactional_id="x", v3_and_below_topics=topics, **added
    )
    batch = build_batch([Record(None, b"undone")], base_sequence=0, transactional=True, **producer)
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
    written = cluster.answer_of(
        0, "produce", 9, transactional_id="x", acks=-1, timeout=timedelta(minutes=1), topic_data=data
    )
    assert written.responses[0].partition_responses[0].error_code is NONE
    cluster.rest(1000)
    still_open = fetched(cluster, 1, isolation_level=1)
    assert (still_open.high_watermark, still_open.last_stable_offset, still_open.records) == (1, 0, b"")
    ended = cluster.answer_of(here, "end_txn", 3, transactional_id="x", committed=False, **producer)
    assert ended.error_code is NONE
    cluster.rest(1000)
    read = fetched(cluster, 1, isolation_level=1)
    assert (read.high_watermark, read.last_stable_offset) == (2, 2)
    assert [(one.producer_id, one.first_offset) for one in read.aborted_transactions] == [(begun.producer_id, 0)]
