"""A signal's handler raises at one step after the other of a call: nothing is lost, nothing is there twice, no lock is held."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from harness.interruptions import TimeIsUp, interruptions
from harness.names import unique
from harness.waiting import until
from oncelog.client import (
    BrokerRefused,
    Client,
    Consumer,
    FetchedBatches,
    Fetcher,
    IllegalState,
    IsolationLevel,
    OutcomeUnknown,
    Producer,
    TopicPartition,
    TransactionFailed,
)
from oncelog.records import batches
from oncelog.testing import RunningBroker, broker

RECORDS = 2_000
READ = 60
IN_TIME_MS = 5_000

# A finalizer is interrupted, too, and so is a call between the making of a coroutine and its first step.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


@pytest.fixture(scope="module")
def node():
    with broker(num_partitions=1) as node:
        yield node


@pytest.fixture(scope="module")
def full_topic(node):
    """Of many batches, so that whoever has gone back does not wait for the end of the log."""
    topic = unique("read")
    with Producer(node.bootstrap_servers, batch_bytes=500) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number)
    return topic


def another_thread_can(call: Callable[[], object]) -> bool:
    """Whether a call comes to its end elsewhere, and so nobody holds a lock that it needs."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(IN_TIME_MS / 1000)
    return not thread.is_alive()


def read_on(consumer: Consumer, received: list[int]) -> list[int]:
    deadline = time.monotonic() + IN_TIME_MS / 1000
    while len(received) < READ and time.monotonic() < deadline:
        received += [int(record.value or b"") for record in consumer.poll(records_max=15)]
    return received[:READ]


def test_poll_passes_over_nothing(node, full_topic):
    partition = TopicPartition(full_topic, 0)
    with Consumer(node.bootstrap_servers, partition_bytes=1000) as consumer:
        consumer.assign({partition: 0})
        for interruption in interruptions():
            consumer.seek(partition, 0)
            received: list[int] = []
            with suppress(TimeIsUp):
                received = [int(r.value or b"") for r in interruption.interrupts(lambda: consumer.poll(records_max=15))]
            assert consumer.position(partition) == len(received), interruption.place
            assert read_on(consumer, received) == list(range(READ)), interruption.place
        assert another_thread_can(lambda: consumer.pause([partition]))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("first", range(16))
def test_poll_of_a_member_passes_over_nothing(node, full_topic, first):
    """While it joins its group, and while it reads."""
    with Consumer(node.bootstrap_servers, group_id=unique("members"), partition_bytes=1000) as consumer:
        for interruption in interruptions(first, every=16):
            received: list[int] = []
            consumer.subscribe([full_topic])
            with suppress(TimeIsUp):
                while not received and not interruption.was_raised:
                    records = interruption.interrupts(lambda: consumer.poll(records_max=15))
                    received += [int(record.value or b"") for record in records]
            assert read_on(consumer, received) == list(range(READ)), interruption.place
            consumer.unsubscribe()
        assert another_thread_can(lambda: consumer.pause([]))


def test_poll_of_a_fetcher_passes_over_nothing(node, full_topic):
    partition = TopicPartition(full_topic, 0)
    with Fetcher(node.bootstrap_servers, partition_bytes=1000) as fetcher:
        for interruption in interruptions():
            fetcher.read(partition, 0)
            next_offset = 0
            with suppress(TimeIsUp):
                next_offset = interruption.interrupts(fetcher.poll)[0].next_offset
            answer = fetcher.poll(IN_TIME_MS)[0]
            assert first_offset(answer) == next_offset, interruption.place


def first_offset(answer: FetchedBatches) -> int:
    return next(header.base_offset for chunk in answer.chunks for _, header in batches(chunk))


@pytest.mark.parametrize("call", [Client.metadata, Client.describe_cluster])
def test_question_can_be_asked_again(node, full_topic, call):
    with Client(node.bootstrap_servers) as client:
        for interruption in interruptions():
            with suppress(TimeIsUp):
                interruption.interrupts(lambda: call(client))
            assert call(client), interruption.place
        assert another_thread_can(lambda: call(client))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("first", range(16))
def test_transaction_is_as_the_producer_says(node, first):
    """From its beginning to its commit. Where that was interrupted, an abort says what became of it."""
    topic, outcomes = unique("transferred"), {}
    producer = transactional(node, topic)
    for interruption in interruptions(first, every=16):
        value = b"%d" % len(outcomes)
        try:
            interruption.interrupts(partial(transfer, producer, topic, value))
            outcomes[value] = {2}
        except TimeIsUp:
            outcomes[value] = {0}
            try:
                producer.abort_transaction()
            except IllegalState:
                pass  # it was not begun
            except OutcomeUnknown:
                outcomes[value] = {0, 2}
                producer.close()
                producer = transactional(node, topic)
    producer.close()
    written = Counter(values(node, topic))
    assert [value for value, counts in outcomes.items() if written[value] not in counts] == []


def transactional(node: RunningBroker, topic: str) -> Producer:
    producer = Producer(node.bootstrap_servers, transactional_id=topic, linger_ms=0)
    producer.init_transactions()
    return producer


def transfer(producer: Producer, topic: str, value: bytes) -> None:
    producer.begin_transaction()
    producer.send(topic, value)
    producer.send(topic, value)
    producer.commit_transaction()


def values(node: RunningBroker, topic: str) -> list[bytes | None]:
    partition = TopicPartition(topic, 0)
    with Client(node.bootstrap_servers) as client, Consumer(node.bootstrap_servers) as consumer:
        end_offset = client.end_offsets([partition], isolation_level=IsolationLevel.READ_COMMITTED)[partition]
        consumer.assign({partition: 0})
        found: list[bytes | None] = []
        while consumer.position(partition) < end_offset:
            found += [record.value for record in consumer.poll()]
    return found


def test_record_whose_sending_was_interrupted_is_not_committed(node):
    """Neither it, which may be there and may be not, nor what its transaction has besides."""
    topic = unique("transferred")
    producer = transactional(node, topic)
    producer.begin_transaction()
    for interruption in interruptions():
        producer.send(topic, b"before")
        try:
            interruption.interrupts(lambda: producer.send(topic, b"interrupted"))
        except TimeIsUp:
            with suppress(TransactionFailed):
                producer.commit_transaction()
                producer.begin_transaction()
                continue
            producer.abort_transaction()
            producer.begin_transaction()
    producer.abort_transaction()
    producer.close()
    assert set(values(node, topic)) == {b"before"}


def test_sending_goes_on_after_an_interruption(node):
    topic, whole = unique("sent"), []
    with Producer(node.bootstrap_servers, linger_ms=0) as producer:
        for number, interruption in enumerate(interruptions()):
            with suppress(TimeIsUp):
                interruption.interrupts(partial(producer.send, topic, b"%d" % number))
                whole.append(b"%d" % number)
            producer.flush(IN_TIME_MS)
        assert another_thread_can(producer.flush)
    written = Counter(values(node, topic))
    assert set(written.values()) == {1}
    assert set(whole) <= set(written)


def test_failure_that_an_interrupted_flush_did_not_tell_is_told_by_the_next(node):
    topic = unique("refused")
    with Producer(node.bootstrap_servers, linger_ms=0) as producer:
        for interruption in interruptions():
            producer.send(topic, b"x" * 2_000_000)
            with pytest.raises((TimeIsUp, BrokerRefused)) as raised:
                interruption.interrupts(producer.flush)
            if raised.type is TimeIsUp:
                with pytest.raises(BrokerRefused, match="MESSAGE_TOO_LARGE"):
                    producer.flush(IN_TIME_MS)
            producer.flush(IN_TIME_MS)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("first", range(16))
def test_transaction_whose_abort_was_interrupted_is_not_committed(node, first):
    """An abort has given up records before it is through."""
    topic = unique("transferred")
    producer = transactional(node, topic)
    for interruption in interruptions(first, every=16):
        producer.begin_transaction()
        producer.send(topic, b"written").result()
        producer.send(topic, b"given up")
        with suppress(TimeIsUp):
            interruption.interrupts(producer.abort_transaction)
            continue
        try:
            producer.commit_transaction()
        except TransactionFailed:
            producer.abort_transaction()
        except OutcomeUnknown:
            producer.close()
            producer = transactional(node, topic)
        except IllegalState:
            pass  # it was aborted
    producer.close()
    written = Counter(values(node, topic))
    assert written[b"written"] == written[b"given up"]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("first", range(16))
def test_close_can_be_called_again(node, full_topic, first):
    """It waits for threads, which it has told to end before."""
    topic, before = unique("left-open"), threading.enumerate()
    for interruption in interruptions(first, every=16):
        consumer = Consumer(node.bootstrap_servers, group_id=unique("closing"), auto_commit_interval_ms=60_000)
        consumer.subscribe([full_topic])
        assert consumer.poll(IN_TIME_MS)
        producer = transactional(node, unique("closing"))
        producer.begin_transaction()
        producer.send(topic, b"left open")
        for resource in (consumer, producer):
            with suppress(TimeIsUp):
                interruption.interrupts(resource.close)
            resource.close()
        until(lambda: not running_besides(before))
    assert values(node, topic) == []


@pytest.mark.drawn(4)
@pytest.mark.parametrize("first", range(16))
def test_partitions_are_read_no_more_after_an_interrupted_unsubscribe(node, full_topic, first):
    before = threading.enumerate()
    for interruption in interruptions(first, every=16):
        with Consumer(node.bootstrap_servers, group_id=unique("left")) as consumer:
            with suppress(TimeIsUp):
                interruption.interrupts(partial(consumer.subscribe, [full_topic]))
            consumer.subscribe([full_topic])
            assert consumer.poll(IN_TIME_MS, records_max=1), interruption.place
            with suppress(TimeIsUp):
                interruption.interrupts(consumer.unsubscribe)
            consumer.unsubscribe()
            assert not consumer.poll(0), interruption.place
            assert not consumer.assignment, interruption.place
        until(lambda: not running_besides(before))


def running_besides(others: list[threading.Thread]) -> list[threading.Thread]:
    """Threads that a client has begun since; that of one which was interrupted may be listed and never run."""
    return [
        thread
        for thread in threading.enumerate()
        if thread.name in ("oncelog-member", "oncelog-producer") and thread not in others and thread.is_alive()
    ]


CALLS_OF_A_READER = (
    Consumer.commit,
    Consumer.committed,
    Consumer.lag,
    lambda consumer: consumer.seek_to_beginning(consumer.assignment),
    lambda consumer: consumer.seek_to_times(dict.fromkeys(consumer.assignment, 0)),
)


@pytest.mark.parametrize("call", CALLS_OF_A_READER)
def test_call_of_a_reader_can_be_made_again(node, full_topic, call):
    partition = TopicPartition(full_topic, 0)
    with Consumer(node.bootstrap_servers, group_id=unique("again")) as consumer:
        consumer.assign({partition: 0})
        call(consumer)
        for interruption in interruptions():
            with suppress(TimeIsUp):
                interruption.interrupts(partial(call, consumer))
            call(consumer)
            assert consumer.position(partition) == 0, interruption.place
        assert read_on(consumer, []) == list(range(READ))
        assert another_thread_can(lambda: consumer.pause([]))
