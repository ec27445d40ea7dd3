"""Members of groups whose broker works out the assignment (KIP-848), wherever that is offered."""

from __future__ import annotations

from itertools import count

import confluent_kafka
import pytest

from oncelog.client import (
    Client,
    CommitFailed,
    Consumer,
    MemberFenced,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
    TransactionFailed,
)
from oncelog.testing.proxy import ApiKey, Proxy, Then
from tests.client.faces import faces
from tests.client.subscribing import PARTITIONS, Told, partitions, poll_until, write

OPTIONS = {"group_protocol": "consumer", "metadata_max_age_ms": 200, "max_wait_ms": 100}
NAMES = count()


@pytest.fixture(params=["blocking", "asyncio"])
def face(request):
    with faces(request.param) as face:
        yield face


@pytest.fixture
def topic(log):
    name = f"consumer-protocol-{next(NAMES)}"
    with Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(name, PARTITIONS, 1)])
    return name


@pytest.fixture
def options(topic):
    return {"group_id": f"group-of-{topic}", **OPTIONS}


def test_members_come_and_go_and_every_record_is_read_in_order(log, face, topic, options):
    told = Told()
    with face.consumer(log.bootstrap_servers, auto_commit_interval_ms=50, **options) as stays:
        stays.subscribe([topic], **told.callbacks)
        write(log, topic, 40)
        values = poll_until(lambda values: len(values) == 40, stays)
        with face.consumer(log.bootstrap_servers, auto_commit_interval_ms=50, **options) as leaves:
            leaves.subscribe([topic])
            values += poll_until(lambda _: len(leaves.assignment) == len(stays.assignment) == 2, stays, leaves)
            assert leaves.assignment | stays.assignment == partitions(topic)
            write(log, topic, 40, start=40)
            values += poll_until(lambda new: len(new) >= 40, stays, leaves)
        values += poll_until(lambda _: len(stays.assignment) == PARTITIONS, stays)
        write(log, topic, 40, start=80)
        values += poll_until(lambda new: len(new) >= 40, stays)
        assert len(frozenset().union(*told.revoked)) == 2, "what need not move does not"
        assert told.lost == []
    for number in range(PARTITIONS):
        assert [value for partition, value in values if partition == number] == list(range(number, 120, PARTITIONS))


def test_member_that_does_not_poll_loses_its_partitions_and_cannot_commit(log, face, topic, options):
    told = Told()
    with (
        face.consumer(log.bootstrap_servers, max_poll_interval_ms=400, **options) as away,
        face.consumer(log.bootstrap_servers, **options) as other,
    ):
        away.subscribe([topic], **told.callbacks)
        poll_until(lambda _: away.assignment, away)
        stale = away.group_metadata()
        other.subscribe([topic])
        poll_until(lambda _: other.assignment == partitions(topic), other)
        assert told.revoked == told.lost == []
        with pytest.raises(CommitFailed):
            away.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})
        with pytest.raises(CommitFailed):
            away.group_metadata()
        with face.producer(log.bootstrap_servers, transactional_id=topic) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"1", partition=0)
            with pytest.raises(TransactionFailed):
                producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(1)}, stale)
            producer.abort_transaction()
        poll_until(lambda _: len(away.assignment) == len(other.assignment) == 2, away, other)
        assert told.lost == [partitions(topic)]
        assert other.committed() == {}


def test_member_commits_in_and_outside_transactions(log, face, topic, options):
    write(log, topic, 8)
    with (
        face.consumer(log.bootstrap_servers, **options) as consumer,
        face.producer(log.bootstrap_servers, transactional_id=topic) as producer,
    ):
        consumer.subscribe([topic])
        poll_until(lambda values: len(values) == 8, consumer)
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
        producer.commit_transaction()
        assert consumer.committed() == {tp: OffsetAndMetadata(2) for tp in partitions(topic)}


def test_static_member_comes_back_to_what_it_had(log, face, topic, options):
    """KIP-848: a static member that leaves with epoch -2 has its assignment kept for its return."""
    told = Told()
    with face.consumer(log.bootstrap_servers, group_instance_id="a", **options) as stays:
        stays.subscribe([topic], **told.callbacks)
        with face.consumer(log.bootstrap_servers, group_instance_id="b", **options) as restarted:
            restarted.subscribe([topic])
            poll_until(lambda _: len(stays.assignment) == len(restarted.assignment) == 2, stays, restarted)
            before = restarted.assignment
            told.revoked.clear()
        with face.consumer(log.bootstrap_servers, group_instance_id="b", **options) as restarted:
            restarted.subscribe([topic])
            poll_until(lambda _: restarted.assignment == before, stays, restarted)
            assert told.revoked == []
            restarted.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})


def test_second_consumer_with_an_instance_id_in_use_is_refused(log, face, topic, options):
    """KIP-848: UNRELEASED_INSTANCE_ID, until the member that has the id leaves."""
    with (
        face.consumer(log.bootstrap_servers, group_instance_id="one", **options) as first,
        face.consumer(log.bootstrap_servers, group_instance_id="one", **options) as second,
    ):
        first.subscribe([topic])
        poll_until(lambda _: first.assignment, first)
        second.subscribe([topic])
        with pytest.raises(MemberFenced):
            poll_until(lambda _: False, second)
        first.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_and_topics_that_come_later_are_read(log, face, topic, options, assignor):
    with (
        Client(log.bootstrap_servers) as client,
        face.consumer(log.bootstrap_servers, group_remote_assignor=assignor, **options) as consumer,
    ):
        consumer.subscribe([topic, f"{topic}-later"])
        poll_until(lambda _: consumer.assignment == partitions(topic), consumer)
        client.create_partitions({topic: PARTITIONS + 1})
        client.create_topics([NewTopic(f"{topic}-later", 1, 1)])
        expected = partitions(topic, *range(PARTITIONS + 1)) | {TopicPartition(f"{topic}-later", 0)}
        poll_until(lambda _: consumer.assignment == expected, consumer)
        consumer.subscribe([f"{topic}-later"])
        poll_until(lambda _: len(consumer.assignment) == 1, consumer)
        consumer.unsubscribe()
        told = Told()
        consumer.subscribe([topic], **told.callbacks)
        poll_until(lambda _: consumer.assignment, consumer)
        assert {item.topic for assigned in told.assigned for item in assigned} == {topic}
        consumer.unsubscribe()
        assert consumer.assignment == frozenset()


def test_member_shares_topics_with_one_of_another_client(log, topic, options):
    other = confluent_kafka.Consumer(
        {
            "bootstrap.servers": log.bootstrap_servers,
            "group.id": options["group_id"],
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    with Consumer(log.bootstrap_servers, **options) as consumer:
        consumer.subscribe([topic])
        poll_until(lambda _: consumer.assignment == partitions(topic), consumer)
        other.subscribe([topic])
        write(log, topic, 40)
        values = []
        while len(other.assignment()) < 2 or len(consumer.assignment) != 2 or len(set(values)) < 40:
            values += [(record.partition, int(record.value)) for record in consumer.poll(50)]
            values += [(message.partition(), int(message.value())) for message in other.consume(100, 0.05)]
        other.close()
        poll_until(lambda _: consumer.assignment == partitions(topic), consumer)


def test_member_goes_over_to_a_group_of_the_classic_protocol_and_back(log, topic, options):
    """KIP-848: groups change their protocol online, as members of the one and the other come."""
    classic = {name: value for name, value in options.items() if name != "group_protocol"}
    with (
        Consumer(log.bootstrap_servers, heartbeat_interval_ms=100, **classic) as old,
        Consumer(log.bootstrap_servers, **options) as new,
    ):
        old.subscribe([topic])
        poll_until(lambda _: old.assignment == partitions(topic), old)
        new.subscribe([topic])
        poll_until(lambda _: len(old.assignment) == len(new.assignment) == 2, old, new)
        for consumer in (old, new):
            consumer.commit()
        old.unsubscribe()
        poll_until(lambda _: new.assignment == partitions(topic), new)


@pytest.mark.parametrize("api", [ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT])
def test_member_survives_a_connection_that_is_cut(log, topic, options, api):
    write(log, topic, 8)
    with Proxy(log.bootstrap_servers) as proxy:
        rules = [proxy.at_answer(api, nth=1, then=Then.CUT), proxy.at_request(api, nth=3, then=Then.CUT)]
        with Consumer(proxy.bootstrap_servers, **options) as consumer:
            consumer.subscribe([topic])
            values = poll_until(lambda values: len(set(values)) == 8, consumer)
            assert sorted(set(values)) == sorted((value % PARTITIONS, value) for value in range(8))
            poll_until(lambda _: rules[0].fired.is_set() or consumer.commit(), consumer)
            poll_until(lambda _: consumer.assignment == partitions(topic) and not consumer.commit(), consumer)
        assert rules[0].fired.is_set()
    with Client(log.bootstrap_servers) as client:
        assert client.committed_offsets(options["group_id"]) == {tp: OffsetAndMetadata(2) for tp in partitions(topic)}


def test_setting_that_is_not_for_the_protocol_is_refused():
    for wrong, reason in (
        ({"group_protocol": "consumer", "session_timeout_ms": 6000}, "the broker's to choose"),
        ({"group_protocol": "consumer", "assignors": ["range"]}, "the broker's to choose"),
        ({"group_remote_assignor": "uniform"}, "for group_protocol 'consumer'"),
        ({"group_protocol": "modern"}, "classic or consumer"),
        ({"assignors": ["rack"]}, "rack.*range, roundrobin"),
    ):
        with pytest.raises(ValueError, match=reason):
            Consumer("127.0.0.1:9092", group_id="g", **wrong)
