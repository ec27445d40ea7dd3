"""Members of classic groups, offsets and positions, on our broker and on Apache Kafka, on both faces of the client."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from harness.group_requests import LEAVE, leave_fields
from harness.waiting import until
from harness.wire import Connection
from oncelog.client import (
    Client,
    CommitFailed,
    Consumer,
    GroupMetadata,
    MemberFenced,
    NewTopic,
    NoOffset,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from oncelog.testing.proxy import ApiKey, Proxy
from tests.client.subscribing import PARTITIONS, QUICK, Told, does_not_poll, partitions, poll_until, write

pytestmark = [pytest.mark.on_a_cluster, pytest.mark.drawn(6)]


def test_subscriber_goes_on_where_the_group_committed(log, face, topic, group):
    write(log, topic, 20)
    with face.consumer(log.bootstrap_servers, group_id=group, **QUICK) as consumer:
        consumer.subscribe([topic])
        values = poll_until(lambda values: len(values) == 20, consumer)
        assert sorted(value for _, value in values) == list(range(20))
        assert consumer.committed() == {}
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(3, "three")})
        consumer.commit()
        assert consumer.committed() == {tp: OffsetAndMetadata(5) for tp in partitions(topic)}
        metadata = consumer.group_metadata()
        assert (metadata.group_id, metadata.generation_id > 0, metadata.member_id != "") == (group, True, True)
    write(log, topic, 4, start=20)
    with face.consumer(log.bootstrap_servers, group_id=group, **QUICK) as consumer:
        consumer.subscribe([topic])
        values = poll_until(lambda values: len(values) == 4, consumer)
        assert sorted(value for _, value in values) == [20, 21, 22, 23]
        assert consumer.positions() == {tp: OffsetAndMetadata(6) for tp in partitions(topic)}


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.one_broker)])
def test_first_poll_of_a_new_group_joins_finds_the_beginning_and_returns_records(log, face, topic, group, protocol):
    """It waits for its whole time only where nothing comes: this one would come back without a record, and late."""
    write(log, topic, 20)
    with face.consumer(log.bootstrap_servers, group_id=group, group_protocol=protocol) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(60_000)


def test_eager_member_gives_up_everything_and_cooperative_one_what_it_must(log, face, topic, group):
    """KIP-429: "each member is allowed to keep its owned partitions during rebalance"."""
    kept = {}
    for assignor in ("range", "cooperative-sticky"):
        options = {"group_id": f"{group}-{assignor}", "assignors": [assignor], **QUICK}
        told = Told()
        with (
            face.consumer(log.bootstrap_servers, **options) as first,
            face.consumer(log.bootstrap_servers, **options) as second,
        ):
            first.subscribe([topic], **told.callbacks)
            poll_until(lambda _, first=first: first.assignment == partitions(topic), first)
            second.subscribe([topic])
            poll_until(lambda _, second=second: len(second.assignment) == 2, first, second)
            kept[assignor] = partitions(topic) - told.revoked[0]
            assert not told.lost
        assert told.assigned[0] == partitions(topic)
        assert frozenset().union(*told.revoked) == partitions(topic)
    assert kept["range"] == frozenset()
    assert len(kept["cooperative-sticky"]) == 2


def test_member_that_does_not_poll_loses_its_partitions_and_cannot_commit(log, face, topic, group):
    """KIP-62: "If the user fails to call poll() within this time, the consumer will leave the group"."""
    does_not_poll(log, face, topic, {"group_id": group, **QUICK})


@pytest.mark.one_broker
def test_member_that_was_expelled_stays_out_until_it_has_been_told(log, face, topic, group):
    """Otherwise its new generation would vouch for offsets of partitions that it does not have any more (KIP-447)."""
    told = Told()
    with face.consumer(log.bootstrap_servers, group_id=group, **QUICK) as consumer:
        consumer.subscribe([topic], **told.callbacks)
        poll_until(lambda _: consumer.assignment, consumer)
        member_id = consumer.group_metadata().member_id
        connection = Connection(log.bootstrap_servers)
        connection.ask("leave_group", LEAVE, **leave_fields(LEAVE, group, [(member_id, None)]))
        connection.close()

        def is_no_member() -> bool:
            try:
                consumer.group_metadata()
            except CommitFailed:
                return True
            return False

        until(is_no_member)
        with pytest.raises(CommitFailed):
            consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})
        assert (told.lost, is_no_member()) == ([], True)
        poll_until(lambda _: len(told.assigned) == 2, consumer)
        assert (told.lost, told.revoked) == ([partitions(topic)], [])
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})


def test_static_member_comes_back_without_a_rebalance(log, face, topic, group):
    """KIP-345: "static member ... rejoins ... no rebalance will be triggered"."""
    told = Told()
    options = {"group_id": group, **QUICK}
    with face.consumer(log.bootstrap_servers, group_instance_id="a", **options) as stays:
        stays.subscribe([topic], **told.callbacks)
        with face.consumer(log.bootstrap_servers, group_instance_id="b", **options) as restarted:
            restarted.subscribe([topic])
            poll_until(lambda _: len(stays.assignment) == len(restarted.assignment) == 2, stays, restarted)
            before = restarted.assignment, restarted.group_metadata()
            told.revoked.clear()
        with face.consumer(log.bootstrap_servers, group_instance_id="b", **options) as restarted:
            restarted.subscribe([topic])
            poll_until(lambda _: restarted.assignment, stays, restarted)
            after = restarted.assignment, restarted.group_metadata()
            assert after[0] == before[0]
            assert after[1].generation_id == before[1].generation_id
            assert after[1].member_id != before[1].member_id
            assert told.revoked == []
            restarted.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})


def test_second_consumer_with_an_instance_id_fences_the_first(log, face, topic, group):
    options = {"group_id": group, "group_instance_id": "one", **QUICK}
    with (
        face.consumer(log.bootstrap_servers, **options) as first,
        face.consumer(log.bootstrap_servers, **options) as second,
    ):
        first.subscribe([topic])
        poll_until(lambda _: first.assignment, first)
        second.subscribe([topic])
        poll_until(lambda _: second.assignment, second)
        with pytest.raises(MemberFenced):
            poll_until(lambda _: False, first)
        with pytest.raises((MemberFenced, CommitFailed)):
            first.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})


def test_positions_are_committed_by_themselves_when_asked_for(log, face, topic, group):
    write(log, topic, 8)
    with Client(log.bootstrap_servers) as client:
        with face.consumer(log.bootstrap_servers, group_id=group, auto_commit_interval_ms=50, **QUICK) as consumer:
            consumer.subscribe([topic])
            poll_until(lambda values: len(values) == 8, consumer)
            poll_until(lambda _: len(client.committed_offsets(group)) == PARTITIONS, consumer)
            write(log, topic, 4, start=8)
            poll_until(lambda values: len(values) == 4, consumer)
        assert client.committed_offsets(group) == {tp: OffsetAndMetadata(3) for tp in partitions(topic)}


def test_consumer_that_was_assigned_its_partitions_commits_for_its_group(log, face, topic, group):
    write(log, topic, 8)
    with face.consumer(log.bootstrap_servers, group_id=group, **QUICK) as consumer:
        consumer.assign(dict.fromkeys(partitions(topic, 0, 1), 1))
        poll_until(lambda values: len(values) == 2, consumer)
        assert consumer.group_metadata() == GroupMetadata(group)
        consumer.commit()
        assert consumer.committed() == {tp: OffsetAndMetadata(2) for tp in partitions(topic, 0, 1)}


def test_reader_without_an_offset_begins_where_it_was_told(log, face, topic, group):
    with Producer(log.bootstrap_servers) as producer:
        now_ms = time.time_ns() // 1_000_000
        for hours_ago in (3, 2, 1):
            producer.send(topic, b"%d" % hours_ago, partition=0, timestamp_ms=now_ms - hours_ago * 3_600_000)
            producer.flush()
    expected = {"earliest": 0, "latest": 3, timedelta(hours=2.5): 1, timedelta(minutes=1): 3}
    for number, (reset, offset) in enumerate(expected.items()):
        options = {"group_id": f"{group}-{number}", "auto_offset_reset": reset, **QUICK}
        with face.consumer(log.bootstrap_servers, **options) as consumer:
            consumer.subscribe([topic])
            poll_until(lambda _, consumer=consumer: TopicPartition(topic, 0) in consumer.positions(), consumer)
            assert consumer.position(TopicPartition(topic, 0)) >= offset
            consumer.seek_to_committed()
            assert consumer.position(TopicPartition(topic, 0)) == offset
    with face.consumer(log.bootstrap_servers, group_id=group, auto_offset_reset="none", **QUICK) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(NoOffset):
            poll_until(lambda _: False, consumer)
        for partition in partitions(topic):
            consumer.seek(partition, 0)
        assert len(poll_until(lambda values: len(values) == 3, consumer)) == 3
    with pytest.raises(ValueError, match="earliest, latest, none"):
        face.consumer(log.bootstrap_servers, auto_offset_reset="middle")


def test_paused_partition_stays_assigned_and_is_read_on_when_it_is_resumed(log, face, topic, group):
    write(log, topic, 8)
    with face.consumer(log.bootstrap_servers, group_id=group, **QUICK) as consumer:
        consumer.subscribe([topic])
        assert len(poll_until(lambda values: len(values) == 8, consumer)) == 8
        consumer.pause(partitions(topic, 1, 2))
        assert consumer.paused == partitions(topic, 1, 2)
        write(log, topic, 8, start=8)
        values = poll_until(lambda values: len(values) >= 4, consumer)
        assert {partition for partition, _ in values} == {0, 3}
        assert consumer.assignment == partitions(topic)
        consumer.resume(partitions(topic, 1, 2))
        values = poll_until(lambda values: len(values) >= 4, consumer)
        assert sorted(value for _, value in values) == [9, 10, 13, 14]


def test_reader_goes_to_the_beginning_the_end_and_a_time(log, face, topic):
    partition = TopicPartition(topic, 0)
    with Producer(log.bootstrap_servers) as producer:
        for timestamp_ms in (1000, 2000, 3000):
            producer.send(topic, b"%d" % timestamp_ms, partition=0, timestamp_ms=timestamp_ms)
            producer.flush()
    with face.consumer(log.bootstrap_servers, max_wait_ms=100) as consumer:
        consumer.assign({partition: 0})
        for go, offset in (
            (lambda: consumer.seek_to_end([partition]), 3),
            (lambda: consumer.seek_to_beginning([partition]), 0),
            (lambda: consumer.seek_to_times({partition: 1500}), 1),
            (lambda: consumer.seek_to_times({partition: 3001}), 3),
        ):
            go()
            assert consumer.position(partition) == offset
            assert len(poll_until(lambda values, offset=offset: len(values) == 3 - offset, consumer)) == 3 - offset


def test_lag_counts_the_records_that_would_be_handed_out(log, face, topic, group):
    """Three records are committed and four aborted, each with a marker: offsets say nine, and three are to come."""
    partition = TopicPartition(topic, 0)
    with face.producer(log.bootstrap_servers, transactional_id=group) as producer:
        producer.init_transactions()
        for values in ([b"1", b"2", b"3"], [b"aborted"] * 4):
            producer.begin_transaction()
            for value in values:
                producer.send(topic, value, partition=0)
            producer.flush()
            if b"aborted" in values:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        with face.consumer(log.bootstrap_servers, max_wait_ms=100) as consumer:
            consumer.assign({partition: 0, TopicPartition(topic, 1): 0})
            assert consumer.lag() == {partition: 3, TopicPartition(topic, 1): 0}
            consumer.seek(partition, 1)
            assert consumer.lag([partition]) == {partition: 2}
            producer.begin_transaction()
            producer.send(topic, b"open", partition=0)
            producer.flush()
            assert consumer.lag([partition]) == {partition: 2}
            producer.commit_transaction()
            # Kafka's broker answers before the marker is written.
            until(lambda: consumer.lag([partition]) == {partition: 3})
            consumer.seek_to_end([partition])
            assert consumer.lag([partition]) == {partition: 0}


def test_what_a_callback_raises_comes_out_of_poll_and_the_rebalance_goes_on(log, face, topic, group):
    def refuse(_):
        raise RuntimeError("not today")

    with face.consumer(log.bootstrap_servers, group_id=group, **QUICK) as consumer:
        consumer.subscribe([topic], on_assigned=refuse)
        with pytest.raises(RuntimeError, match="not today"):
            poll_until(lambda _: False, consumer)
        assert consumer.assignment == partitions(topic)
        write(log, topic, 4)
        assert len(poll_until(lambda values: len(values) == 4, consumer)) == 4


def test_callback_may_commit_seek_and_ask(log, face, topic, group):
    write(log, topic, 8)
    done = []

    def consume(consumer):
        if face.name == "blocking":

            def begin(assigned):
                done.append(consumer.committed(assigned))
                consumer.seek_to_end(assigned)

            def end(_):
                consumer.commit()

        else:
            # The callbacks run on the event loop, where a call that blocks would wait for itself.
            inner = consumer._inner

            async def begin(assigned):
                done.append(await inner.committed(assigned))
                await inner.seek_to_end(assigned)

            async def end(_):
                await inner.commit()

        consumer.subscribe([topic], on_assigned=begin, on_revoked=end)
        poll_until(lambda _: len(consumer.positions()) == len(partitions(topic)), consumer)

    with face.consumer(log.bootstrap_servers, group_id=group, **QUICK) as consumer:
        consume(consumer)
    assert done == [{}]
    with Client(log.bootstrap_servers) as client:
        assert client.committed_offsets(group) == {tp: OffsetAndMetadata(2) for tp in partitions(topic)}


def test_heartbeats_go_on_while_the_user_computes(new_oncelog):
    """The session is long enough for a busy machine: what counts is that they come while nobody polls."""
    node = new_oncelog()
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic("t", PARTITIONS, 1)])
    told = Told()
    options = {"group_id": "g", "session_timeout_ms": 10_000, **QUICK}
    with (
        Proxy(node.bootstrap_servers) as proxy,
        Consumer(proxy.bootstrap_servers, **options) as busy,
        Consumer(node.bootstrap_servers, **options) as other,
    ):
        busy.subscribe(["t"], **told.callbacks)
        poll_until(lambda _: busy.assignment, busy)
        before = busy.group_metadata()
        many = proxy.at_answer(ApiKey.HEARTBEAT, nth=15)
        deadline = time.monotonic() + 60
        while not many.fired.is_set():
            assert time.monotonic() < deadline, f"only {many.seen} heartbeats were answered"
            sum(range(10_000))
        assert busy.group_metadata() == before
        busy.commit({TopicPartition("t", 0): OffsetAndMetadata(7)})
        other.subscribe(["t"])
        poll_until(lambda _: len(other.assignment) == 2, busy, other)
        assert told.lost == []
