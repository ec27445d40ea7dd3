"""Groups and many partitions: how soon members settle, and what a large broker costs.

python -m bench.groups
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from statistics import median
from types import MappingProxyType

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.measure import Measure, Side, at_most, at_most_times_peer
from bench.nodes import KAFKA
from bench.program import Program, main
from bench.start import seconds_to_first_answer
from bench.usage import cpu_seconds, resident_bytes
from harness.members import Members
from harness.wire import Connection, frame

MEMBERS, PARTITIONS = 50, 100
HEARTBEAT_MS = 200
PROTOCOLS = ("classic", "consumer")
CHANGES = {
    "all": f"{MEMBERS} members start",
    "last": f"member {MEMBERS} joins",
    "leave": "one leaves",
}

CHANGES_EACH = 10

GROUPS, TOPICS, TOPIC_PARTITIONS = 1000, 100, 100
COMMITTED_PARTITIONS = 10
LARGE_GROUP = "large"
IDLE_MS = 10_000
SETTLE_SECONDS = 3.0
IDLE_CPU, MEMORY, RESTART = "idle", "resident memory", "restart to first answer"

FETCHED_TOPICS = 10
UNCOUNTED, ASKED = 300, 100
METADATA, OFFSETS = "Metadata of all partitions, p50", "OffsetFetch of 1,000 partitions, p50"
TIMEOUT_SECONDS = 120
ATTEMPTS, ATTEMPT_SECONDS = 10, 5


def _row(protocol: str, change: str) -> str:
    return f"{protocol} protocol, {CHANGES[change]}"


class RebalanceProgram(Program):
    name = "rebalance"
    title = f"Rebalance of {MEMBERS} members on {PARTITIONS} partitions (librdkafka)"
    peer = KAFKA
    measures = tuple(
        Measure(_row(protocol, change), "s", at_most_times_peer(1.0)) for protocol in PROTOCOLS for change in CHANGES
    )
    notes = (
        f"until every member has its partitions. Both brokers and all members: heartbeats each {HEARTBEAT_MS} ms,",
        "no initial rebalance delay, no assignment interval.",
    )
    has_warm_up = True
    settings = MappingProxyType(
        {
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
            "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
            "group.consumer.assignment.interval.ms": "0",
        }
    )

    def run(self, side: Side) -> Mapping[str, float]:
        topic = self.topics[side].create("rebalance", PARTITIONS)
        found: dict[str, float] = {}
        for protocol in PROTOCOLS:
            found |= self._settled(side, topic, protocol)
        self.topics[side].delete(topic)
        return found

    def _settled(self, side: Side, topic: str, protocol: str) -> dict[str, float]:
        members = Members(
            self.nodes[side].bootstrap_servers,
            topic,
            PARTITIONS,
            {
                "group.id": f"bench-{uuid.uuid4().hex}",
                "group.protocol": protocol,
                **({"heartbeat.interval.ms": HEARTBEAT_MS} if protocol == "classic" else {}),
            },
        )
        all_s = members.seconds_until_settled(lambda: members.join(MEMBERS))
        leave_s, last_s = [], []
        for _ in range(self.effort.amount(CHANGES_EACH)):
            leave_s.append(members.seconds_until_settled(members.leave_one))
            last_s.append(members.seconds_until_settled(lambda: members.join(1)))
        members.leave_all()
        found = {"all": all_s, "last": median(last_s), "leave": median(leave_s)}
        return {_row(protocol, change): seconds for change, seconds in found.items()}


class ManyGroupsProgram(Program):
    """Made once on each side; a run starts the broker again, waits, and asks."""

    name = "many groups"
    title = f"One broker with {GROUPS:,} groups and {TOPICS * TOPIC_PARTITIONS:,} partitions"
    peer = KAFKA
    measures = (
        Measure(RESTART, "s", at_most(3)),
        Measure(IDLE_CPU, "% CPU", at_most(2)),
        Measure(MEMORY, "MB", at_most(400)),
        Measure(METADATA, "ms", at_most_times_peer(1.0)),
        Measure(OFFSETS, "ms", at_most_times_peer(1.0)),
    )
    notes = (
        f"each group has committed {COMMITTED_PARTITIONS} offsets; a restart follows a clean stop.",
        "An answer counts from the first byte of the request to the last of the answer, on a plain socket.",
    )

    def open(self, side: Side) -> None:
        super().open(side)
        self._topic_count = max(FETCHED_TOPICS, self.effort.amount(TOPICS))
        fill(self.nodes[side].bootstrap_servers, self.effort.amount(GROUPS), self._topic_count)

    def run(self, side: Side) -> Mapping[str, float]:
        node = self.nodes[side]
        node.stop(TIMEOUT_SECONDS)
        restart_s = seconds_to_first_answer(node)
        time.sleep(SETTLE_SECONDS)
        cpu_before, idle_s = cpu_seconds(node.pid), self.effort.amount(IDLE_MS) / 1000
        time.sleep(idle_s)
        idle = (cpu_seconds(node.pid) - cpu_before) / idle_s * 100
        found = {RESTART: restart_s, IDLE_CPU: idle, MEMORY: resident_bytes(node.pid) / 1e6}
        return {**found, METADATA: self._median_ms(side, _metadata()), OFFSETS: self._median_ms(side, _offset_fetch())}

    def _median_ms(self, side: Side, request: bytes) -> float:
        """Of many requests one after the other; the first ones warm the JVM up."""
        with closing(Connection(self.nodes[side].bootstrap_servers)) as connection:
            durations_ms = []
            for _ in range(UNCOUNTED + self.effort.amount(ASKED)):
                began = time.perf_counter()
                connection.socket.sendall(request)
                connection.receive_frame()
                durations_ms.append((time.perf_counter() - began) * 1000)
        return median(durations_ms[UNCOUNTED:])


def fill(bootstrap_servers: str, groups: int, topics: int) -> None:
    """Make topics, groups that have committed some of their partitions, and one that has committed a thousand."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for number in range(topics):
        name = _topic(number)
        admin.create_topics([NewTopic(name, TOPIC_PARTITIONS, 1)])[name].result(TIMEOUT_SECONDS)
    for number in range(groups):
        _commit(admin, f"group-{number}", [_topic(number % topics)], COMMITTED_PARTITIONS)
    _commit(admin, LARGE_GROUP, [_topic(number) for number in range(FETCHED_TOPICS)], TOPIC_PARTITIONS)


def _topic(number: int) -> str:
    return f"many-{number}"


def _commit(admin: AdminClient, group: str, topics: Sequence[str], partitions: int) -> None:
    offsets = [TopicPartition(topic, partition, partition) for topic in topics for partition in range(partitions)]
    asked = [ConsumerGroupTopicPartitions(group, offsets)]
    for _ in range(ATTEMPTS):
        (committed,) = admin.alter_consumer_group_offsets(asked, request_timeout=ATTEMPT_SECONDS).values()
        # The first one may wait in vain for Kafka to make the topic that keeps offsets.
        if committed.exception(TIMEOUT_SECONDS) is None:
            return
    raise RuntimeError(f"{group} could not commit: {committed.exception()}")


def _metadata() -> bytes:
    return frame(
        "metadata",
        12,
        {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
    )


def _offset_fetch() -> bytes:
    topics = [
        {"name": _topic(number), "partition_indexes": list(range(TOPIC_PARTITIONS))} for number in range(FETCHED_TOPICS)
    ]
    return frame("offset_fetch", 8, {"groups": [{"group_id": LARGE_GROUP, "topics": topics}], "require_stable": False})


if __name__ == "__main__":
    main([RebalanceProgram, ManyGroupsProgram])
