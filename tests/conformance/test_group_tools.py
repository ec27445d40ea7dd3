"""Kafka's own `kafka-consumer-groups` says the same of our broker as of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.conformance.subscribers import ConfluentConsumer, ConfluentSubscriber, Got
from harness.kafka_tools import Ended
from harness.processes import BrokerProcess
from harness.shared_producer import until

pytestmark = [pytest.mark.jvm, pytest.mark.client("Kafka's tools")]

RECORDS = 20


def rows(ended: Ended) -> list[list[str]]:
    """The rows of the table that `kafka-consumer-groups` prints, without its head."""
    assert ended.status == 0, ended.text
    return [line.split() for line in ended.lines if not line.startswith(("GROUP ", "Consumer group"))]


@pytest.fixture
def topic(log: BrokerProcess, unique: str) -> str:
    """Two partitions with ten records each."""
    name = f"tools-{unique}"
    admin = AdminClient({"bootstrap.servers": log.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(name, 2)])[name].result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": log.bootstrap_servers, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(name, str(number), partition=number % 2)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def member(log: BrokerProcess, topic: str, unique: str) -> Iterator[ConfluentSubscriber]:
    """The one member of the group, which has read and committed everything."""
    member = ConfluentSubscriber(log.bootstrap_servers, f"group-{unique}", topic, **{"client.id": "reader"})
    read = 0

    def has_read_everything() -> bool:
        nonlocal read
        read += len(member.poll())
        return read == RECORDS

    until(has_read_everything)
    assert member.commit()
    yield member
    member.close()


@pytest.mark.on_a_cluster
def test_consumer_groups_describes_lists_and_administers_a_group(tools, member, topic, unique):
    group = ("--group", f"group-{unique}")

    def groups(*options: str) -> Ended:
        return tools("kafka-consumer-groups", *options)

    assert [group[1], "Stable"] in rows(groups("--list", "--state", "Stable"))
    described = sorted(rows(groups("--describe", *group)))
    assert [row[:6] for row in described] == [[group[1], topic, str(number), "10", "10", "0"] for number in (0, 1)]
    assert {tuple(row[7:]) for row in described} == {("/127.0.0.1", "reader")}
    (state,) = rows(groups("--describe", "--state", *group))
    assert state[-3:] == ["range", "Stable", "1"]
    assert "GroupNotEmptyException" in groups("--delete", *group).text
    assert "GroupSubscribedToTopicException" in groups("--delete-offsets", *group, "--topic", topic).text
    member.close()
    reset = rows(groups("--reset-offsets", *group, "--topic", topic, "--to-offset", "3", "--execute"))
    assert sorted(reset) == [[group[1], topic, "0", "3"], [group[1], topic, "1", "3"]]
    assert "Successful" in groups("--delete-offsets", *group, "--topic", f"{topic}:0").text
    described = rows(groups("--describe", "--offsets", *group))
    assert [row[:6] for row in described] == [[group[1], topic, "1", "3", "10", "7"]]
    assert "was successful" in groups("--delete", *group).text
    assert group[1] not in groups("--list").text


def test_consumer_groups_describes_lists_and_deletes_a_group_of_the_consumer_protocol(tools, log, topic, unique):
    group = f"group-{unique}"
    member = ConfluentConsumer(log.bootstrap_servers, group, topic, **{"client.id": "reader"})
    read: list[Got] = []

    def has_read_everything() -> bool:
        read.extend(member.poll())
        return len(read) == RECORDS

    until(has_read_everything)
    assert member.commit()

    def groups(*options: str) -> list[list[str]]:
        return rows(tools("kafka-consumer-groups", *options))

    assert [group, "Consumer", "Stable"] in groups("--list", "--type", "consumer", "--state", "stable")
    described = sorted(groups("--describe", "--group", group))
    assert [row[:6] for row in described] == [[group, topic, str(number), "10", "10", "0"] for number in (0, 1)]
    assert {tuple(row[7:]) for row in described} == {("/127.0.0.1", "reader")}
    (state,) = groups("--describe", "--state", "--verbose", "--group", group)
    assert (state[-5:-3], state[-1]) == (["uniform", "Stable"], "1")
    (row,) = groups("--describe", "--members", "--verbose", "--group", group)
    assert f"{topic}:0,1" in row, row
    member.close()
    assert "was successful" in tools("kafka-consumer-groups", "--delete", "--group", group).text
