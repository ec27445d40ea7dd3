"""What administrators ask through each client: once round, from the creation of a topic to its end."""

from __future__ import annotations

import pytest

from harness.known_topics import wait_until_known
from harness.shared_producer import until

pytestmark = pytest.mark.on_a_cluster
END = "the end"


def test_topic_goes_from_its_creation_to_its_end(client, log, unique):
    """Created with a setting, described, altered, grown, cut at its start, and deleted, with the group that read it.

    A group may be called anything; Kafka refuses only an empty name (JoinGroup v9).
    """
    topic, group = f"administered-{unique}", f"administered\t{unique}\r\n100 %+"
    administrator = client.administrator(log.bootstrap_servers)
    administrator.create(topic, 2, "retention.ms", "86400000")
    wait_until_known(log.bootstrap_servers, topic, 2)
    until(lambda: topic in administrator.topics())
    until(lambda: administrator.partitions(topic) == 2)
    assert administrator.setting(topic, "retention.ms") == "86400000"
    administrator.set(topic, "retention.ms", "43200000")
    until(lambda: administrator.setting(topic, "retention.ms") == "43200000")
    administrator.grow(topic, 3)
    wait_until_known(log.bootstrap_servers, topic, 3)
    until(lambda: administrator.partitions(topic) == 3)
    producer = client.producer(log.bootstrap_servers)
    for number in range(5):
        producer.send(topic, 2, "key", str(number))
    producer.flush()
    producer.close()
    assert administrator.delete_records(topic, 2, 3) == 3
    member = client.subscribe(log.bootstrap_servers, group, topic)
    read: list[str] = []

    def has_read_the_rest() -> bool:
        read.extend(record.value for record in member.poll())
        return read == ["3", "4"]

    until(has_read_the_rest)
    assert group in administrator.groups()
    member.close()
    until(lambda: administrator.delete_group(group) is None)
    assert group not in administrator.groups()
    administrator.delete(topic)
    until(lambda: topic not in administrator.topics())
    administrator.close()
