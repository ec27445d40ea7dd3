"""The statements of docs/older-articles.md about today: the same on oncelog and on Apache Kafka."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.conformance.administrator import BROKER, Administrator
from harness.processes import BrokerProcess
from harness.shared_producer import TV2, Cluster, Driver
from harness.waiting import until
from harness.wire import Connection, batch
from oncelog.client import Consumer, OutOfOrderSequence, Producer, TopicPartition

pytestmark = pytest.mark.one_broker

NODE = "1"
PLAIN = 0
DEFAULTS = {
    "transactional.id.expiration.ms": "604800000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transaction.max.timeout.ms": "900000",
    "producer.id.expiration.ms": "86400000",
}
TRANSACTION_INDEX_ENTRY = struct.Struct(">hqqqq")


@pytest.fixture
def connection(log: BrokerProcess) -> Iterator[Connection]:
    connection = Connection(log.bootstrap_servers)
    yield connection
    connection.close()


def test_copy_of_one_of_the_last_five_batches_is_acknowledged_and_an_older_one_is_out_of_order(
    connection: Connection, new_topic: Callable[..., str]
) -> None:
    """It is told by 45, OUT_OF_ORDER_SEQUENCE_NUMBER: no broker answers 46, DUPLICATE_SEQUENCE_NUMBER, any more."""
    topic = new_topic()
    producer = new_producer(connection)

    def send(sequence: int) -> tuple[ErrorCode, int]:
        return write(connection, topic, batch(producer.producer_id, producer.producer_epoch, sequence, ["one"], PLAIN))

    assert [send(sequence) for sequence in range(6)] == [(ErrorCode.none, offset) for offset in range(6)]
    assert [send(sequence) for sequence in range(1, 6)] == [(ErrorCode.none, offset) for offset in range(1, 6)]
    assert send(0)[0] is ErrorCode.out_of_order_sequence_number


def test_producer_without_an_id_goes_on_after_its_sequence_is_out_of_order(
    connection: Connection, log: BrokerProcess, new_topic: Callable[..., str]
) -> None:
    """KIP-360: it is told of the record that is refused, and the next one has a new epoch and sequence 0."""
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    with Producer(log.bootstrap_servers) as producer, Consumer(log.bootstrap_servers) as consumer:
        producer.send(topic, b"first").result()
        consumer.assign({partition: 0})
        (first,) = consumer.poll(10_000)
        assert write(connection, topic, batch(first.producer_id, 0, 1, ["not", "its own"], PLAIN)) == (
            ErrorCode.none,
            1,
        )
        with pytest.raises(OutOfOrderSequence):
            producer.send(topic, b"refused").result()
        assert producer.send(topic, b"next").result().offset == 3


def write(connection: Connection, topic: str, records: bytes) -> tuple[ErrorCode, int]:
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    asked = {"transactional_id": None, "acks": -1, "timeout": timedelta(seconds=30), "topic_data": topics}
    (answer,) = connection.ask("produce", 11, **asked).responses[0].partition_responses
    return answer.error_code, answer.base_offset


def new_producer(connection: Connection) -> Any:
    """One without a transactional id. Apache Kafka has no ids to give right after its start."""
    nobody = {"producer_id": -1, "producer_epoch": -1}
    timeout = timedelta(minutes=1)
    answers: list[Any] = []

    def is_given() -> bool:
        asked = {"transactional_id": None, "transaction_timeout": timeout, **nobody}
        answers.append(connection.ask("init_producer_id", 4, **asked))
        return answers[-1].error_code is ErrorCode.none

    until(is_given)
    return answers[-1]


def test_defaults_are_what_the_page_says(ask: Administrator) -> None:
    settings = ask.settings(BROKER, NODE)
    assert {name: settings[name][0] for name in DEFAULTS} == DEFAULTS


def test_entry_of_the_transaction_index_has_five_fields(cluster: Cluster, log: BrokerProcess) -> None:
    topic, driver = cluster.create_topic(1), Driver(cluster, TV2).init()
    driver.produce(cluster.connect(), topic, {0: driver.batch(0, ["aborted", "too"])})
    driver.complete(commit=False)
    (path,) = Path(log.directory).glob(f"**/{topic}-0/*.txnindex")
    version, producer_id, first, last, last_stable = TRANSACTION_INDEX_ENTRY.unpack(path.read_bytes())
    assert (version, first, last, last_stable) == (0, 0, 2, 3)
    assert producer_id == driver.pid
