"""A topic is deleted and made anew, or its connection is closed, under every kind of request that waits.

Whatever waited is answered or told that its topic is gone; nothing of it reaches the new topic that was written to the old
one; the broker goes on, and so does one that is started on what it left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, Reply, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    GROUP,
    MINUTE,
    TOPIC,
    TV1,
    TV2,
    ProducerInMemory,
    committed_offset,
    make_topic,
    visible,
)
from oncelog.broker.slices import SLICE_MS
from oncelog.log import Origin
from oncelog.records import Record, build_batch, read_header

NONE = ErrorCode.none
STRANGER = 4711
TRANSACTION_IS_TIMED_OUT_MS = 120_000
FLUSHED = {"name": "flush.messages", "value": "1"}
Ask = Callable[[BrokerInMemory], Reply]


def batch(broker: BrokerInMemory, value: str = "old", **fields: Any) -> bytes:
    return build_batch([Record(b"key", value.encode(), timestamp_ms=broker.clock.now_ms())], **fields)


def produce(broker: BrokerInMemory, data: bytes, version: int = 9, transactional_id: str | None = None) -> Reply:
    return broker.send(
        "produce",
        version,
        transactional_id=transactional_id,
        acks=-1,
        timeout=MINUTE,
        topic_data=[{"name": TOPIC, "partition_data": [{"index": 0, "records": data}]}],
    )


def waiting_fetch(broker: BrokerInMemory) -> Reply:
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}
    return broker.send(
        "fetch",
        11,
        max_wait=MINUTE,
        min_bytes=2**20,
        topics=[{"topic": TOPIC, "partitions": [asked]}],
        forgotten_topics_data=[],
    )


def produce_that_is_flushed(broker: BrokerInMemory) -> Reply:
    broker.ask(
        "incremental_alter_configs",
        1,
        resources=[
            {"resource_type": 2, "resource_name": TOPIC, "configs": [FLUSHED | {"config_operation": 0}]},
        ],
        validate_only=False,
    )
    return produce(broker, batch(broker))


def produce_that_is_held_back(broker: BrokerInMemory) -> Reply:
    """The end of the transaction before waits for the disk; the producer foresees its next epoch."""
    producer = ProducerInMemory(broker, TV2)
    producer.write("old", 1)
    broker.settle()
    assert not producer.send_end(committed=True).came
    identity = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch + 1, "base_sequence": 0}
    return produce(broker, batch(broker, transactional=True, **identity), 12, producer.transactional_id)


def end_of_a_transaction(broker: BrokerInMemory) -> Reply:
    producer = ProducerInMemory(broker, TV1)
    producer.write("old", 1)
    return producer.send_end(committed=True)


def offsets_that_are_held_back(broker: BrokerInMemory) -> Reply:
    producer = ProducerInMemory(broker, TV1)
    producer.write("old", 1)
    broker.settle()
    producer.end(committed=True)
    return broker.send(
        "add_offsets_to_txn",
        3,
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=GROUP,
    )


def partitions_that_are_held_back(broker: BrokerInMemory) -> Reply:
    producer = ProducerInMemory(broker, TV1)
    producer.write("old", 1)
    broker.settle()
    producer.end(committed=True)
    return broker.send(
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[{"name": TOPIC, "partitions": [0]}],
    )


def partitions_of_transactions_that_are_held_back(broker: BrokerInMemory) -> Reply:
    """As a broker asks; the producer foresees its next epoch."""
    producer = ProducerInMemory(broker, TV2)
    producer.write("old", 1)
    broker.settle()
    producer.send_end(committed=True)
    transaction = {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch + 1,
        "verify_only": False,
        "topics": [{"name": TOPIC, "partitions": [0]}],
    }
    return broker.send("add_partitions_to_txn", 5, transactions=[transaction])


def more_partitions(broker: BrokerInMemory) -> Reply:
    topic = {"name": TOPIC, "count": 4, "assignments": None}
    return broker.send("create_partitions", 1, topics=[topic], timeout=MINUTE, validate_only=False)


def other_settings(broker: BrokerInMemory) -> Reply:
    resource = {"resource_type": 2, "resource_name": TOPIC, "configs": [FLUSHED | {"config_operation": 0}]}
    return broker.send("incremental_alter_configs", 1, resources=[resource], validate_only=False)


def deleted_records(broker: BrokerInMemory) -> Reply:
    produce(broker, batch(broker))
    topic = {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 1}]}
    return broker.send("delete_records", 1, topics=[topic], timeout=MINUTE)


def marker(broker: BrokerInMemory) -> Reply:
    """It ends a transaction that hangs, of which no coordinator knows."""
    partition = broker.core.topics.partition(TOPIC, 0)
    assert partition is not None
    record = Record(None, b"hanging", timestamp_ms=broker.clock.now_ms())
    batch = build_batch([record], producer_id=STRANGER, producer_epoch=3, base_sequence=0, transactional=True)
    partition.append(batch, read_header(batch), Origin.CLIENT, verified=True)
    broker.settle()
    written = {
        "producer_id": STRANGER,
        "producer_epoch": 3,
        "transaction_result": False,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    return broker.send("write_txn_markers", 1, markers=[written])


def deletion(broker: BrokerInMemory) -> Reply:
    return broker.send("delete_topics", 4, topic_names=[TOPIC], timeout=MINUTE)


KINDS: dict[str, Ask] = {
    "fetch": waiting_fetch,
    "produce, flushed": produce_that_is_flushed,
    "produce, held back": produce_that_is_held_back,
    "end of a transaction": end_of_a_transaction,
    "offsets, held back": offsets_that_are_held_back,
    "partitions, held back": partitions_that_are_held_back,
    "partitions of transactions, held back": partitions_of_transactions_that_are_held_back,
    "more partitions": more_partitions,
    "other settings": other_settings,
    "deleted records": deleted_records,
    "marker": marker,
    "deletion": deletion,
}

ANSWERED_AT_ONCE = (
    "produce, flushed",
    "end of a transaction",
    "offsets, held back",
    "partitions, held back",
    "partitions of transactions, held back",
    "marker",
)
"""What is asked for often, and waits once: others are served before the answer, and not once more."""


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    make_topic(broker)
    return broker


def recreate(broker: BrokerInMemory) -> None:
    """While the disk goes on step by step; it may have to be asked twice, as the old topic may be on its way out."""
    broker.ask("delete_topics", 4, topic_names=[TOPIC], timeout=MINUTE)
    topic = {"name": TOPIC, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    answer = broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE)
    assert answer.topics[0].error_code is NONE, answer


def goes_on(broker: BrokerInMemory) -> None:
    """The new topic has what is written to it, and a transaction through it ends."""
    broker.settle()
    assert not broker.failures
    answered = produce(broker, batch(broker, "new"))
    broker.settle()
    assert answered.message.responses[0].partition_responses[0].error_code is NONE
    producer = ProducerInMemory(broker, TV1, "heir")
    producer.write("newer", 2)
    producer.end(committed=True)
    broker.settle()
    partition = broker.core.topics.partition(TOPIC, 0)
    assert partition is not None
    values = visible(broker, 0, partition.log.log_start_offset)
    assert [value for value in values if value != "old"] == ["new", "newer"]
    assert not broker.failures


@pytest.mark.parametrize("kind", KINDS)
def test_topic_made_anew_under_a_request_that_waits(broker: BrokerInMemory, kind: str) -> None:
    reply = KINDS[kind](broker)
    assert not reply.came, "the request does not wait, so this shows nothing"
    recreate(broker)
    broker.settle()
    broker.clock.advance(TRANSACTION_IS_TIMED_OUT_MS)
    broker.settle()
    assert reply.came
    assert "old" not in visible(broker, 0)
    goes_on(broker)
    broker.disk.kill()
    broker.restart()
    broker.settle()
    assert visible(broker, 0)[-2:] == ["new", "newer"]


@pytest.mark.parametrize("kind", KINDS)
def test_connection_closed_under_a_request_that_waits(broker: BrokerInMemory, kind: str) -> None:
    reply = KINDS[kind](broker)
    reply.end()
    broker.settle()
    broker.clock.advance(TRANSACTION_IS_TIMED_OUT_MS)
    broker.settle()
    assert not reply.came
    if kind == "deletion":
        make_topic(broker)
    goes_on(broker)
    assert all(not partition._watchers for partition in broker.core.topics.partitions()), "somebody still waits"


@pytest.mark.parametrize("kind", ANSWERED_AT_ONCE)
def test_request_that_has_waited_is_answered_in_the_call_that_releases_it(broker: BrokerInMemory, kind: str) -> None:
    """Meanwhile others were served: it need not rest before its answer is written, however long it has waited."""
    reply = KINDS[kind](broker)
    broker.clock.advance(2 * SLICE_MS)
    assert not reply.came
    broker.settle()
    assert reply.came


@pytest.mark.parametrize("in_transaction", [False, True])
def test_nothing_is_committed_for_a_topic_while_it_is_deleted(broker: BrokerInMemory, in_transaction: bool) -> None:
    """What was committed for it before is forgotten by then, and what comes now the next topic of its name would find."""
    producer = ProducerInMemory(broker, TV1)
    producer.write("old", 1)
    producer.commit_offset(1)
    broker.settle()
    deleted = deletion(broker)
    assert not deleted.came
    topics = [
        {"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 2, "committed_metadata": None}]}
    ]
    if in_transaction:
        committed = broker.send(
            "txn_offset_commit",
            TV1.offsets,
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=GROUP,
            topics=topics,
        )
    else:
        committed = broker.send(
            "offset_commit", 5, group_id=GROUP, generation_id_or_member_epoch=-1, member_id="", topics=topics
        )
    broker.settle()
    answer = committed.message.topics[0].partitions[0]
    assert answer.error_code is ErrorCode.unknown_topic_or_partition
    assert deleted.came
    producer.end(committed=True)
    make_topic(broker)
    assert committed_offset(broker) == -1
