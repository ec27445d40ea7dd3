"""Topics that every broker of a cluster has heard of: a client asks whichever it likes, and one hears later than another."""

from __future__ import annotations

from contextlib import closing

from harness.waiting import until
from harness.wire import Connection


def is_known_to_all(servers: str, topic: str, partitions: int) -> bool:
    """Whether each of these brokers knows a leader of every partition, of so many."""
    asked = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
    for server in servers.split(","):
        with closing(Connection(server)) as connection:
            (told,) = connection.ask("metadata", 12, **asked, include_topic_authorized_operations=False).topics
        if len(told.partitions) != partitions or any(one.leader_id < 0 for one in told.partitions):
            return False
    return True


def wait_until_known(servers: str, topic: str, partitions: int) -> None:
    until(lambda: is_known_to_all(servers, topic, partitions))
