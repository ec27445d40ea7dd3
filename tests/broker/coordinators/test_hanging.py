"""WriteTxnMarkers, which any client may send: it ends transactions that hang, and harms none of the coordinator's."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    TOPIC,
    TV1,
    TV2,
    ProducerInMemory,
    Protocol,
    committed_offset,
    make_topic,
    visible,
)
from oncelog.log import Appended, Origin
from oncelog.records import ControlType, Record, build_batch, read_header

NONE = ErrorCode.none
STRANGER = 4711
EPOCH = 5
PROTOCOLS = pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    make_topic(broker)
    return broker


def mark(
    broker: BrokerInMemory,
    producer_id: int,
    epoch: int,
    *,
    topic: str = TOPIC,
    partition: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    committed: bool = False,
) -> ErrorCode:
    marker = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": committed,
        "topics": [{"name": topic, "partition_indexes": [partition]}],
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": transaction_version,
    }
    answer = broker.ask("write_txn_markers", 2, markers=[marker])
    return answer.markers[0].topics[0].partitions[0].error_code


def mark_everything(broker: BrokerInMemory, producer: ProducerInMemory) -> set[ErrorCode]:
    """Every marker that could meet this producer, with numbers that are too small, right and too large."""
    partitions = [(topic.name, len(topic.partitions)) for topic in broker.core.topics]
    return {
        mark(
            broker,
            producer.producer_id,
            epoch,
            topic=topic,
            partition=partition,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            committed=committed,
        )
        for topic, count in partitions
        for partition in range(count)
        for epoch in (producer.epoch, producer.epoch + 1, 32767)
        for coordinator_epoch in (0, 2**31 - 1)
        for transaction_version in (0, 2)
        for committed in (True, False)
    }


def leave_hanging(broker: BrokerInMemory, producer_id: int = STRANGER) -> None:
    """As an old leader did before KIP-890: records of a transaction that the coordinator does not know of."""
    partition = broker.core.topics.partition(TOPIC, 0)
    record = Record(None, b"hanging", timestamp_ms=broker.clock.now_ms())
    batch = build_batch([record], producer_id=producer_id, producer_epoch=EPOCH, base_sequence=0, transactional=True)
    assert isinstance(partition.append(batch, read_header(batch), Origin.CLIENT, verified=True), Appended)


def is_open(broker: BrokerInMemory) -> bool:
    return bool(broker.core.topics.partition(TOPIC, 0).log.producers.open_transactions())


@PROTOCOLS
def test_marker_of_a_client_does_not_touch_an_open_transaction(broker: BrokerInMemory, protocol: Protocol) -> None:
    """KIP-98: only the coordinator ends a transaction, in all of its partitions or in none."""
    producer = ProducerInMemory(broker, protocol)
    producer.write("first", 1)
    assert mark_everything(broker, producer) == {ErrorCode.invalid_txn_state}
    assert visible(broker, 0) == []
    producer.write("second", 2)
    producer.end(committed=True)
    broker.settle()
    assert visible(broker, 0) == visible(broker, 1) == ["first", "second"]
    assert committed_offset(broker) == 2


@PROTOCOLS
def test_marker_of_a_client_does_not_touch_a_decided_transaction(broker: BrokerInMemory, protocol: Protocol) -> None:
    producer = ProducerInMemory(broker, protocol)
    producer.write("first", 1)
    reply = producer.send_end(committed=True)
    assert mark(broker, producer.producer_id, producer.epoch + 1) is ErrorCode.invalid_txn_state
    assert mark_everything(broker, producer) == {ErrorCode.invalid_txn_state}
    broker.settle()
    assert reply.message.error_code is NONE
    assert visible(broker, 0) == visible(broker, 1) == ["first"]


@PROTOCOLS
def test_marker_of_a_client_before_a_transaction_does_not_fence_the_coordinator(
    broker: BrokerInMemory, protocol: Protocol
) -> None:
    """A commit that was answered stayed invisible: its markers were fenced by a later coordinator epoch."""
    producer = ProducerInMemory(broker, protocol)
    would_fence = {ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced}
    assert mark_everything(broker, producer) == {NONE, *would_fence}
    producer.write("first", 1)
    producer.end(committed=True)
    broker.settle()
    assert mark_everything(broker, producer) == {NONE, *would_fence}
    producer.write("second", 2)
    producer.end(committed=True)
    broker.settle()
    assert visible(broker, 0) == visible(broker, 1) == ["first", "second"]
    assert committed_offset(broker) == 2


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("ahead", [1, 5, 2500])
def test_marker_for_a_producer_id_of_the_future_fences_nobody(
    broker: BrokerInMemory, ahead: int, restarts: bool
) -> None:
    """Kafka writes it, too. There the producer that gets the id is fenced when its epoch is below that of the marker."""
    first = ProducerInMemory(broker, TV2, "first")
    assert mark(broker, first.producer_id, 32767) is ErrorCode.invalid_producer_epoch
    for producer_id in {first.producer_id + 1, first.producer_id + ahead}:
        assert mark(broker, producer_id, 32767) is NONE
    if restarts:
        broker.disk.kill()
        broker.restart()
    for number in range(5):
        later = ProducerInMemory(broker, TV2, f"later-{number}")
        assert later.producer_id > first.producer_id + ahead
        later.write(f"{number}", 1)
        later.end(committed=True)
    broker.settle()
    assert visible(broker, 0) == [f"{number}" for number in range(5)]


def test_producer_id_of_the_future_is_skipped_while_a_block_is_fetched(broker: BrokerInMemory) -> None:
    """Ids that were reserved before the marker was asked for, and come after it, are passed over, too."""
    first = ProducerInMemory(broker, TV2, "first").producer_id
    ids = [ProducerInMemory(broker, TV2, f"{number}").producer_id for number in range(950)]
    assert ids == list(range(first + 1, first + 951))
    assert mark(broker, first + 1500, 7) is NONE
    assert [ProducerInMemory(broker, TV2, f"later-{number}").producer_id for number in range(3)] == [
        first + number for number in (1501, 1502, 1503)
    ]


@pytest.mark.parametrize("producer_id", [-1, -(2**63), 2**62, 2**63 - 1])
def test_marker_for_an_id_that_nobody_can_have_is_refused(broker: BrokerInMemory, producer_id: int) -> None:
    before = ProducerInMemory(broker, TV2, "before").producer_id
    assert mark(broker, producer_id, 0) is ErrorCode.invalid_producer_id_mapping
    assert ProducerInMemory(broker, TV2, "after").producer_id == before + 1


@pytest.mark.parametrize(("transaction_version", "epoch"), [(0, EPOCH), (1, EPOCH), (2, EPOCH + 1)])
def test_marker_ends_a_hanging_transaction(broker: BrokerInMemory, transaction_version: int, epoch: int) -> None:
    """KIP-664: WriteTxnMarkers with what DescribeProducers shows; KIP-890: from version 2 on with the epoch after it."""
    leave_hanging(broker)
    asked = [{"name": TOPIC, "partition_indexes": [0]}]
    found = broker.ask("describe_producers", 0, topics=asked).topics[0].partitions[0].active_producers[0]
    assert (found.producer_id, found.producer_epoch, found.current_txn_start_offset) == (STRANGER, EPOCH, 0)
    assert mark(broker, STRANGER, epoch, transaction_version=transaction_version) is NONE
    again = broker.ask("describe_producers", 0, topics=asked).topics[0].partitions[0].active_producers[0]
    assert again.current_txn_start_offset == -1


def test_marker_with_another_epoch_than_the_hanging_transaction_has_is_refused(broker: BrokerInMemory) -> None:
    leave_hanging(broker)
    for epoch in (-1, 0, EPOCH - 1, EPOCH + 1, 32767):
        assert mark(broker, STRANGER, epoch) is ErrorCode.invalid_producer_epoch
    assert is_open(broker)


def test_marker_that_would_fence_the_producer_of_a_hanging_transaction_is_refused(broker: BrokerInMemory) -> None:
    producer = ProducerInMemory(broker, TV2)
    for _ in range(EPOCH):
        producer = ProducerInMemory(broker, TV2)
    assert producer.epoch == EPOCH
    leave_hanging(broker, producer.producer_id)
    assert mark(broker, producer.producer_id, EPOCH + 1, transaction_version=2) is ErrorCode.invalid_producer_epoch
    assert mark(broker, producer.producer_id, EPOCH) is NONE


@pytest.mark.parametrize("epoch", [-(2**31), -2, 2, 2**31 - 1])
def test_marker_of_a_coordinator_epoch_that_never_was_is_refused(broker: BrokerInMemory, epoch: int) -> None:
    """Kafka refuses only an older epoch than that of the marker before; a later one would then fence every other."""
    broker.disk.kill()
    broker.restart()
    leave_hanging(broker)
    assert mark(broker, STRANGER, EPOCH, coordinator_epoch=epoch) is ErrorCode.transaction_coordinator_fenced
    assert is_open(broker)
    assert mark(broker, STRANGER, EPOCH, coordinator_epoch=1) is NONE
    assert not is_open(broker)
    unknown = STRANGER + 1
    assert mark(broker, unknown, EPOCH, coordinator_epoch=epoch) is ErrorCode.transaction_coordinator_fenced
    assert mark(broker, unknown, EPOCH, coordinator_epoch=1) is NONE


@pytest.mark.parametrize("committed", [False, True])
def test_marker_of_a_producer_that_the_partition_does_not_know_is_written(
    broker: BrokerInMemory, committed: bool
) -> None:
    """As in Kafka, whose `ProducerAppendInfo` asks for no transaction: an administrator has it in the log."""
    producer = ProducerInMemory(broker, TV1)
    producer.write("first", 1)
    producer.end(committed=True)
    for topic in (TOPIC, "__transaction_state", "__consumer_offsets"):
        for index in (0, 1):
            log = broker.core.topics.partition(topic, index).log
            for _ in range(2):
                before = log.log_end_offset
                assert mark(broker, STRANGER, EPOCH, topic=topic, partition=index, committed=committed) is NONE
                assert log.log_end_offset == before + 1
    broker.disk.kill()
    broker.restart()
    assert not is_open(broker)
    assert visible(broker, 0) == ["first"]
    again = ProducerInMemory(broker, TV1)
    again.write("second", 2)
    again.end(committed=True)
    broker.settle()
    assert visible(broker, 0) == ["first", "second"]
    assert committed_offset(broker) == 2


def test_marker_that_would_fence_a_producer_without_a_transactional_id_is_refused(broker: BrokerInMemory) -> None:
    """An idempotent producer goes on after one of its own epoch."""
    leave_hanging(broker)
    assert mark(broker, STRANGER, EPOCH) is NONE
    for epoch in (-1, EPOCH - 1, EPOCH + 1, 32767):
        assert mark(broker, STRANGER, epoch) is ErrorCode.invalid_producer_epoch
    assert mark(broker, STRANGER, EPOCH) is NONE
    record = Record(None, b"on", timestamp_ms=broker.clock.now_ms())
    batch = build_batch([record], producer_id=STRANGER, producer_epoch=EPOCH, base_sequence=1)
    partition = broker.core.topics.partition(TOPIC, 0)
    assert isinstance(partition.append(batch, read_header(batch), Origin.CLIENT), Appended)


def test_marker_for_a_partition_that_is_not_there_is_answered_so(broker: BrokerInMemory) -> None:
    for topic, partition in ((TOPIC, 2), (TOPIC, -1), (TOPIC, 2**31 - 1), ("nothing", 0), ("", 0)):
        error = mark(broker, STRANGER, 0, topic=topic, partition=partition)
        assert error is ErrorCode.unknown_topic_or_partition


@PROTOCOLS
def test_marker_that_was_written_by_hand_fences_no_coordinator_that_is_alone(
    broker: BrokerInMemory, protocol: Protocol
) -> None:
    """A partition takes no marker of a coordinator epoch before the last one. Here nobody else could end the transaction."""
    producer = ProducerInMemory(broker, protocol)
    producer.write("first", 1)
    producer.end(committed=True)
    broker.settle()
    log = broker.core.topics.partition(TOPIC, 0).log
    epoch = log.producers.epoch_of(producer.producer_id)
    now_ms = broker.clock.now_ms()
    marked = log.append_marker(ControlType.ABORT, producer.producer_id, epoch, 2**31 - 1, 0, now_ms)
    assert isinstance(marked, Appended)
    producer.write("second", 2)
    producer.end(committed=True)
    broker.settle()
    assert visible(broker, 0) == ["first", "second"]
