"""Members of groups whose broker works out the assignment (KIP-848), wherever that is offered."""

from __future__ import annotations

import pytest

from oncelog.client import (
    Consumer,
    MemberFenced,
    OffsetAndMetadata,
    TopicPartition,
)
from tests.client.subscribing import KIP_848, QUICK, Told, does_not_poll, partitions, poll_until, write


@pytest.fixture
def options(group):
    return {"group_id": group, **KIP_848}


def test_member_that_does_not_poll_loses_its_partitions_and_cannot_commit(log, face, topic, options):
    does_not_poll(log, face, topic, options)


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


def test_member_goes_over_to_a_group_of_the_classic_protocol_and_back(log, topic, options):
    """KIP-848: groups change their protocol online, as members of the one and the other come."""
    with (
        Consumer(log.bootstrap_servers, group_id=options["group_id"], **QUICK) as old,
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
