"""Consumer groups as their users have them: members come and go while records flow, on our broker, Apache Kafka and a cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import confluent_kafka
import pytest

from harness.conformance.subscribers import HEARTBEAT_MS, ConfluentConsumer, Got, Subscribe, Subscriber
from harness.processes import BrokerProcess
from harness.shared_producer import until

pytestmark = [pytest.mark.drawn(8), pytest.mark.on_a_cluster]
PARTITIONS = 6


@pytest.fixture
def topic(new_topic) -> str:
    return new_topic(partitions=PARTITIONS)


class Journal:
    """What the members of a group have read and committed, checked as it happens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.next: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self.committed: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self.wrong: list[str] = []

    def read(self, name: str, records: list[Got]) -> None:
        with self._lock:
            for one in records:
                if one.value != f"{one.partition}/{one.offset}":
                    self.wrong.append(f"{name} read {one.value} at {one.partition}/{one.offset}")
                if one.offset > self.next[one.partition]:
                    self.wrong.append(f"{name} skipped {one.partition}/{self.next[one.partition]} to {one.offset}")
                if one.offset < self.committed[one.partition]:
                    self.wrong.append(f"{name} read {one.partition}/{one.offset}, which had been committed")
                self.next[one.partition] = max(self.next[one.partition], one.offset + 1)

    def commit(self, records: list[Got]) -> None:
        with self._lock:
            for one in records:
                self.committed[one.partition] = max(self.committed[one.partition], one.offset + 1)


class Member:
    """A subscriber at work in a thread of its own: reads, notes, commits."""

    def __init__(self, name: str, subscribe: Subscribe, journal: Journal, *where: str) -> None:
        self.name = name
        self.assigned: set[int] = set()
        self.rebalances = 0
        self.read = 0
        self.failure: BaseException | None = None
        self._journal = journal
        self._leaves = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(subscribe, where), name=name, daemon=True)
        self._thread.start()

    def _work(self, subscribe: Subscribe, where: tuple[str, ...]) -> None:
        try:
            subscriber = subscribe(*where)
            while not self._leaves.is_set():
                self._turn(subscriber)
            subscriber.close()
        except BaseException as failure:
            self.failure = failure
            raise

    def _turn(self, subscriber: Subscriber) -> None:
        records = subscriber.poll()
        self._journal.read(self.name, records)
        if records and subscriber.commit():
            self._journal.commit(records)
        self.read += len(records)
        self.assigned, self.rebalances = subscriber.assigned(), subscriber.rebalances

    def leave(self) -> None:
        self._leaves.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self.name} does not end"
        assert self.failure is None


class Flow:
    """Writes records to every partition in turn, for as long as it is let; each says where it is to be found."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.written: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self._topic = topic
        self._ends = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        self._producer = confluent_kafka.Producer(settings)
        self._thread = threading.Thread(target=self._work, name="flow", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._ends.wait(0.01):
            for partition in range(PARTITIONS):
                for _ in range(3):
                    self._producer.produce(self._topic, f"{partition}/{self.written[partition]}", partition=partition)
                    self.written[partition] += 1
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def end(self) -> None:
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


@contextmanager
def flow(log: BrokerProcess, topic: str) -> Iterator[Flow]:
    flowing = Flow(log.bootstrap_servers, topic)
    try:
        yield flowing
    finally:
        flowing.end()


def shares(members: list[Member]) -> list[int]:
    """How many partitions each has, once each partition has exactly one owner; else nothing."""
    owned = [partition for member in members for partition in member.assigned]
    return sorted(len(member.assigned) for member in members) if sorted(owned) == list(range(PARTITIONS)) else []


@pytest.mark.slow
def test_one_then_three_then_two_members_read_everything_in_order(log, subscribe, topic, unique):
    """At least once: nothing is lost, and nothing comes again that a member has committed."""
    journal = Journal()
    where = (log.bootstrap_servers, f"group-{unique}", topic)

    def member(number: int) -> Member:
        return Member(f"member {number}", subscribe, journal, *where)

    def settled(expected: list[int]) -> None:
        until(lambda: shares(members) == expected)
        counts = [one.read for one in members]
        until(lambda: all(one.read > count for one, count in zip(members, counts, strict=True)))
        assert not journal.wrong

    with flow(log, topic) as flowing:
        members = [member(1)]
        settled([6])
        members += [member(2), member(3)]
        settled([2, 2, 2])
        members.pop(0).leave()
        settled([3, 3])
    until(lambda: journal.next == flowing.written)
    until(lambda: journal.committed == flowing.written)
    for one in members:
        one.leave()
    assert not journal.wrong


def test_static_member_that_is_started_again_changes_nothing_for_the_others(client, log, topic, unique):
    """KIP-345: within its session timeout it gets back what it had, and nobody rebalances."""
    if not client.has_static_members:
        pytest.skip(f"{client.name} has no static members")
    check_static_restart(client.subscribe, log, topic, unique)


@pytest.mark.one_broker
def test_static_member_of_the_consumer_protocol_gets_back_what_it_had(log, topic, unique):
    """KIP-848: a static member that leaves with epoch -2 keeps its place for its session timeout."""
    check_static_restart(ConfluentConsumer, log, topic, unique)


def check_static_restart(subscribe: Subscribe, log: BrokerProcess, topic: str, unique: str) -> None:
    journal, where = Journal(), (log.bootstrap_servers, f"group-{unique}", topic)

    def member(name: str) -> Member:
        return Member(name, partial(subscribe, instance_id=name), journal, *where)

    first, second = member("one"), member("two")
    settle([first, second])
    had, rebalances = second.assigned, first.rebalances
    second.leave()
    second = member("two")
    settle([first, second])
    assert second.assigned == had
    assert first.rebalances == rebalances
    first.leave()
    second.leave()


def settle(members: list[Member]) -> None:
    """Wait until they share the topic, and have heard of nothing new for several heartbeats."""
    seen: list[tuple[set[int], int]] = []
    since = time.monotonic()

    def nothing_is_new() -> bool:
        nonlocal seen, since
        now = [(one.assigned, one.rebalances) for one in members]
        if now != seen:
            seen, since = now, time.monotonic()
        equal = [PARTITIONS // len(members)] * len(members)
        return shares(members) == equal and time.monotonic() - since > 5 * HEARTBEAT_MS / 1000

    until(nothing_is_new)


def fill(log: BrokerProcess, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": log.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(30) == 0


def first_record(subscriber: Subscriber) -> str:
    found: list[Got] = []

    def came() -> bool:
        found.extend(subscriber.poll())
        return bool(found)

    until(came)
    return found[0].value


def test_group_begins_where_its_reset_says_and_goes_on_where_it_has_committed(log, subscribe, new_topic, unique):
    topic = new_topic()
    fill(log, topic, 5)
    late = subscribe(log.bootstrap_servers, f"late-{unique}", topic, reset="latest")
    until(lambda: bool(late.poll() or late.assigned()))
    late.poll()
    early = subscribe(log.bootstrap_servers, f"early-{unique}", topic)
    assert first_record(early) == "0"
    until(early.commit)
    early.close()
    producer = confluent_kafka.Producer({"bootstrap.servers": log.bootstrap_servers, "log_level": 0})
    found: list[Got] = []

    def came() -> bool:
        # Where the end is, it asks for in the background: it may take its place behind the first of these.
        producer.produce(topic, "more", partition=0)
        producer.flush(30)
        found.extend(late.poll())
        return bool(found)

    until(came)
    assert found[0].value == "more"
    late.close()
    again = subscribe(log.bootstrap_servers, f"early-{unique}", topic)
    assert first_record(again) == "more"
    again.close()


def test_group_whose_offset_is_beyond_the_log_begins_anew(log, subscribe, new_topic, unique):
    topic, group = new_topic(), f"group-{unique}"
    fill(log, topic, 5)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": log.bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 1000)], asynchronous=False)
    consumer.close()
    subscriber = subscribe(log.bootstrap_servers, group, topic)
    assert first_record(subscriber) == "0"
    subscriber.close()
