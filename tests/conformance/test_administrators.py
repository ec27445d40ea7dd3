"""What administrators ask through each client: once round, from the creation of a topic to its end."""

from __future__ import annotations

from contextlib import closing

import pytest

from harness.shared_producer import until
from harness.wire import Connection

pytestmark = pytest.mark.on_a_cluster
END = "the end"


def is_known_to_all(log, topic, partitions):
    """A client asks whichever broker it likes, and one hears of a topic, or of its new partitions, later than another."""
    asked = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
    for server in log.bootstrap_servers.split(","):
        with closing(Connection(server)) as connection:
            (told,) = connection.ask("metadata", 12, **asked, include_topic_authorized_operations=False).topics
        if len(told.partitions) != partitions:
            return False
    return True


def test_topic_goes_from_its_creation_to_its_end(client, log, unique):
    """Created with a setting, described, altered, grown, cut at its start, and deleted, with the group that read it."""
    topic, group = f"administered-{unique}", f"administered-{unique}"
    administrator = client.administrator(log.bootstrap_servers)
    administrator.create(topic, 2, "retention.ms", "86400000")
    until(lambda: is_known_to_all(log, topic, 2))
    until(lambda: topic in administrator.topics())
    until(lambda: administrator.partitions(topic) == 2)
    assert administrator.setting(topic, "retention.ms") == "86400000"
    administrator.set(topic, "retention.ms", "43200000")
    until(lambda: administrator.setting(topic, "retention.ms") == "43200000")
    administrator.grow(topic, 3)
    until(lambda: is_known_to_all(log, topic, 3))
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
