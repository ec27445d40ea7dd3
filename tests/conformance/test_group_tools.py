"""Kafka's own `kafka-consumer-groups` and console consumer, run from the jars, against our broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.subscribers import ConfluentConsumer, ConfluentSubscriber, Got
from tests.support import jars, requirements
from tests.support.processes import BrokerProcess
from tests.support.shared_producer import until

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
RECORDS = 20


class Tools:
    """Runs a tool of Kafka's on one broker and returns what it prints."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, tool: str, *options: str) -> str:
        command = [requirements.java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars.classpath(), tool]
        command += ["--bootstrap-server", self.bootstrap, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def groups(self, *options: str) -> list[list[str]]:
        """The rows of the table that `kafka-consumer-groups` prints, without its head."""
        rows = [line.split() for line in self.run(GROUPS, *options).splitlines() if line.strip()]
        return rows[1:]


@pytest.fixture
def tools(oncelog_broker: BrokerProcess) -> Tools:
    return Tools(oncelog_broker.bootstrap_servers)


@pytest.fixture
def topic(oncelog_broker: BrokerProcess, unique: str) -> str:
    """Two partitions with ten records each."""
    name = f"tools-{unique}"
    admin = AdminClient({"bootstrap.servers": oncelog_broker.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": oncelog_broker.bootstrap_servers, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(name, str(number), partition=number % 2)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def member(oncelog_broker: BrokerProcess, topic: str, unique: str) -> Iterator[ConfluentSubscriber]:
    """The one member of the group, which has read and committed everything."""
    member = ConfluentSubscriber(oncelog_broker.bootstrap_servers, f"group-{unique}", topic, **{"client.id": "reader"})
    read = 0

    def has_read_everything() -> bool:
        nonlocal read
        read += len(member.poll())
        return read == RECORDS

    until(has_read_everything)
    assert member.commit()
    yield member
    member.close()


def test_consumer_groups_describes_lists_and_administers_a_group(tools, member, topic, unique):
    group = ("--group", f"group-{unique}")
    assert [group[1], "Stable"] in tools.groups("--list", "--state", "Stable")
    rows = sorted(tools.groups("--describe", *group))
    assert [row[:6] for row in rows] == [[group[1], topic, str(number), "10", "10", "0"] for number in (0, 1)]
    assert {tuple(row[7:]) for row in rows} == {("/127.0.0.1", "reader")}
    (state,) = tools.groups("--describe", "--state", *group)
    assert state[-3:] == ["range", "Stable", "1"]
    assert "GroupNotEmptyException" in tools.run(GROUPS, "--delete", *group)
    assert "GroupSubscribedToTopicException" in tools.run(GROUPS, "--delete-offsets", *group, "--topic", topic)
    member.close()
    reset = tools.groups("--reset-offsets", *group, "--topic", topic, "--to-offset", "3", "--execute")
    assert sorted(reset) == [[group[1], topic, "0", "3"], [group[1], topic, "1", "3"]]
    assert "Successful" in tools.run(GROUPS, "--delete-offsets", *group, "--topic", f"{topic}:0")
    rows = tools.groups("--describe", "--offsets", *group)
    assert [row[:6] for row in rows] == [[group[1], topic, "1", "3", "10", "7"]]
    assert "was successful" in tools.run(GROUPS, "--delete", *group)
    assert group[1] not in tools.run(GROUPS, "--list")


def test_consumer_groups_describes_lists_and_deletes_a_group_of_the_consumer_protocol(tools, topic, unique):
    group = f"group-{unique}"
    member = ConfluentConsumer(tools.bootstrap, group, topic, **{"client.id": "reader"})
    read: list[Got] = []

    def has_read_everything() -> bool:
        read.extend(member.poll())
        return len(read) == RECORDS

    until(has_read_everything)
    assert member.commit()
    assert [group, "Consumer", "Stable"] in tools.groups("--list", "--type", "consumer", "--state", "stable")
    rows = sorted(tools.groups("--describe", "--group", group))
    assert [row[:6] for row in rows] == [[group, topic, str(number), "10", "10", "0"] for number in (0, 1)]
    assert {tuple(row[7:]) for row in rows} == {("/127.0.0.1", "reader")}
    (state,) = tools.groups("--describe", "--state", "--verbose", "--group", group)
    assert state[-5:] == ["uniform", "Stable", "2", "2", "1"]
    (described,) = tools.groups("--describe", "--members", "--verbose", "--group", group)
    assert f"{topic}:0,1" in described, described
    member.close()
    assert "was successful" in tools.run(GROUPS, "--delete", "--group", group)


def test_console_consumer_goes_on_where_its_group_has_stopped(tools, topic, unique):
    options = (
        "--topic",
        topic,
        "--group",
        f"console-{unique}",
        "--from-beginning",
        "--max-messages",
        str(RECORDS // 2),
    )
    read = [tools.run(CONSOLE_CONSUMER, *options).split() for _ in range(2)]
    assert sorted(map(int, read[0] + read[1])) == list(range(RECORDS))
