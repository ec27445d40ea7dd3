"""Members of groups of either protocol, on our broker and on Apache Kafka: who has what, and that nothing is missed."""

from __future__ import annotations

from dataclasses import dataclass

import confluent_kafka
import pytest

from oncelog.client import Client, Consumer, NewTopic, OffsetAndMetadata, TopicPartition
from oncelog.testing.proxy import ApiKey, Proxy, Then
from tests.client.subscribing import KIP_848, PARTITIONS, QUICK, Told, partitions, poll_until, write

pytestmark = [pytest.mark.on_a_cluster, pytest.mark.drawn(6)]


@dataclass(frozen=True)
class Way:
    """How the partitions of a group are shared out: our settings, librdkafka's, and whether a member keeps what it may."""

    name: str
    ours: dict[str, object]
    librdkafka: dict[str, object]
    is_incremental: bool = True

    def __str__(self) -> str:
        return self.name


RANGE = Way("range", {**QUICK, "assignors": ["range"]}, {}, is_incremental=False)
ROUNDROBIN = Way("roundrobin", {**QUICK, "assignors": ["roundrobin"]}, {}, is_incremental=False)
COOPERATIVE = Way(
    "cooperative-sticky",
    {**QUICK, "assignors": ["cooperative-sticky"]},
    {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 100},
)
UNIFORM, REMOTE_RANGE = (
    pytest.param(
        Way(name, {**KIP_848, "group_remote_assignor": name.split()[-1]}, {"group.protocol": "consumer"}),
        marks=pytest.mark.one_broker,
        id=name,
    )
    for name in ("uniform", "remote range")
)


@pytest.mark.parametrize("way", [RANGE, ROUNDROBIN, COOPERATIVE, UNIFORM], ids=str)
def test_members_come_and_go_and_every_record_is_read_in_order(log, face, topic, group, way):
    told = Told()
    options = {"group_id": group, "auto_commit_interval_ms": 50, **way.ours}
    with face.consumer(log.bootstrap_servers, **options) as stays:
        stays.subscribe([topic], **told.callbacks)
        write(log, topic, 40)
        values = poll_until(lambda values: len(values) == 40, stays)
        with face.consumer(log.bootstrap_servers, **options) as leaves:
            leaves.subscribe([topic])
            values += poll_until(lambda _: len(leaves.assignment) == len(stays.assignment) == 2, stays, leaves)
            assert leaves.assignment | stays.assignment == partitions(topic)
            write(log, topic, 40, start=40)
            values += poll_until(lambda new: len(new) >= 40, stays, leaves)
        values += poll_until(lambda _: len(stays.assignment) == PARTITIONS, stays)
        write(log, topic, 40, start=80)
        values += poll_until(lambda new: len(new) >= 40, stays)
        moved = frozenset().union(*told.revoked)
        assert len(moved) == (2 if way.is_incremental else PARTITIONS), "what need not move does not"
        assert told.lost == []
    for number in range(PARTITIONS):
        assert [value for partition, value in values if partition == number] == list(range(number, 120, PARTITIONS))


@pytest.mark.parametrize("way", [RANGE, UNIFORM, REMOTE_RANGE], ids=str)
def test_partitions_and_topics_that_come_later_are_read(log, face, topic, group, way):
    with (
        Client(log.bootstrap_servers) as client,
        face.consumer(log.bootstrap_servers, group_id=group, **way.ours) as consumer,
    ):
        consumer.subscribe([topic, f"{topic}-later"])
        poll_until(lambda _: consumer.assignment == partitions(topic), consumer)
        client.create_partitions({topic: PARTITIONS + 1})
        client.create_topics([NewTopic(f"{topic}-later", 1)])
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
        consumer.assign({TopicPartition(topic, 0): 0})


@pytest.mark.parametrize("way", [COOPERATIVE, UNIFORM], ids=str)
def test_member_shares_topics_with_one_of_another_client(log, face, topic, group, way):
    common = {"bootstrap.servers": log.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    other = confluent_kafka.Consumer({**common, **way.librdkafka})
    with face.consumer(log.bootstrap_servers, group_id=group, **way.ours) as consumer:
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


@pytest.mark.parametrize(
    ("way", "api"),
    [
        *((RANGE, api) for api in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT)),
        *(
            pytest.param(*UNIFORM.values, api, marks=pytest.mark.one_broker)
            for api in (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT)
        ),
    ],
    ids=str,
)
def test_member_survives_a_connection_that_is_cut(log, topic, group, way, api):
    write(log, topic, 8)
    with Proxy(log.bootstrap_servers) as proxy:
        rules = [proxy.at_answer(api, nth=1, then=Then.CUT), proxy.at_request(api, nth=3, then=Then.CUT)]
        with Consumer(proxy.bootstrap_servers, group_id=group, **way.ours) as consumer:
            consumer.subscribe([topic])
            values = poll_until(lambda values: len(set(values)) == 8, consumer)
            assert sorted(set(values)) == sorted((value % PARTITIONS, value) for value in range(8))
            poll_until(lambda _: rules[0].fired.is_set() or consumer.commit(), consumer)
            poll_until(lambda _: consumer.assignment == partitions(topic) and not consumer.commit(), consumer)
        assert rules[0].fired.is_set()
    with Client(log.bootstrap_servers) as client:
        assert client.committed_offsets(group) == {tp: OffsetAndMetadata(2) for tp in partitions(topic)}
