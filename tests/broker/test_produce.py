"""Produce: what is taken, what is refused and with which code."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from typing_extensions import Buffer

from harness.batches import resealed, with_body
from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, TOPIC, make_topic, visible
from oncelog.records import Codec, Effort, Form, Prepared, Record, build_batch


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    make_topic(broker)
    return broker


def batch_of(broker: BrokerInMemory, *values: str, **fields: Any) -> bytes:
    records = [Record(None, value.encode(), timestamp_ms=broker.clock.now_ms()) for value in values]
    return build_batch(records, **fields)


def produce(
    broker: BrokerInMemory,
    batch: bytes | None,
    *,
    version: int = 9,
    acks: int = -1,
    partition: int = 0,
    topic: str = TOPIC,
    transactional_id: str | None = None,
) -> Any:
    answer = broker.ask(
        "produce",
        version,
        transactional_id=transactional_id,
        acks=acks,
        timeout=MINUTE,
        topic_data=[{"name": topic, "partition_data": [{"index": partition, "records": batch}]}],
    )
    return answer.responses[0].partition_responses[0]


def test_batches_get_offsets_one_after_the_other(broker: BrokerInMemory) -> None:
    assert [produce(broker, batch_of(broker, "a", "b")).base_offset for _ in range(3)] == [0, 2, 4]


@pytest.mark.parametrize("effort", list(Effort))
def test_batch_that_the_machine_has_no_memory_for_is_refused_and_nothing_is_written(
    broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch, effort: Effort
) -> None:
    def without_memory(batch: Buffer, form: Form, tried: Effort) -> Prepared | None:
        if tried is effort:
            raise MemoryError
        return None

    with monkeypatch.context() as scarce:
        scarce.setattr("oncelog.broker.handlers.produce.prepare", without_memory)
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch_of(broker, "a")}]}]
        reply = broker.send("produce", 9, transactional_id=None, acks=-1, timeout=MINUTE, topic_data=data)
    assert reply.message is None
    assert broker.connection.closed == "its Produce request is refused: the machine has no memory for it"
    assert broker.failures == []
    assert produce(broker, batch_of(broker, "a")).base_offset == 0


def test_second_copy_of_a_batch_answers_the_first_offset(broker: BrokerInMemory) -> None:
    """KIP-98, Idempotent Producer Guarantees: the broker appends a sequence once and acknowledges it again."""
    batch = batch_of(broker, "a", producer_id=7, producer_epoch=0, base_sequence=0)
    assert produce(broker, batch).base_offset == 0
    produce(broker, batch_of(broker, "b", producer_id=7, producer_epoch=0, base_sequence=1))
    again = produce(broker, batch)
    assert (again.error_code, again.base_offset) == (ErrorCode.none, 0)
    assert broker.core.topics.partition(TOPIC, 0).log.log_end_offset == 2  # type: ignore[union-attr]


def test_gap_in_the_sequences_is_out_of_order(broker: BrokerInMemory) -> None:
    produce(broker, batch_of(broker, "a", producer_id=7, producer_epoch=0, base_sequence=0))
    refused = produce(broker, batch_of(broker, "c", producer_id=7, producer_epoch=0, base_sequence=2))
    assert refused.error_code is ErrorCode.out_of_order_sequence_number
    assert (refused.base_offset, refused.error_message) != (0, None)


def test_unknown_topic_and_partition_are_refused_each_for_itself(broker: BrokerInMemory) -> None:
    batch = batch_of(broker, "a")
    assert produce(broker, batch, topic="nowhere").error_code is ErrorCode.unknown_topic_or_partition
    assert produce(broker, batch, partition=9).error_code is ErrorCode.unknown_topic_or_partition


def test_acks_other_than_none_one_and_all_are_refused(broker: BrokerInMemory) -> None:
    assert produce(broker, batch_of(broker, "a"), acks=2).error_code is ErrorCode.invalid_required_acks


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_client_does_not_write_to_the_coordinators_topics(broker: BrokerInMemory, topic: str) -> None:
    for key_type in (0, 1):
        broker.ask("find_coordinator", 3, key="x", key_type=key_type)
    assert produce(broker, batch_of(broker, "a"), topic=topic).error_code is ErrorCode.invalid_topic_exception


def test_damaged_bytes_are_corrupt(broker: BrokerInMemory) -> None:
    batch = bytearray(batch_of(broker, "a"))
    batch[-1] ^= 1
    assert produce(broker, bytes(batch)).error_code is ErrorCode.corrupt_message


@pytest.mark.parametrize(
    "wrong",
    [b"", None, with_body(b"\x7f", 1), with_body(b"\x02\x00\x00", 1)],
    ids=["nothing", "null", "torn record", "record shorter than it says"],
)
def test_what_is_no_batch_is_an_invalid_record(broker: BrokerInMemory, wrong: bytes | None) -> None:
    assert produce(broker, wrong).error_code is ErrorCode.invalid_record


def test_base_offset_other_than_zero_is_an_invalid_record(broker: BrokerInMemory) -> None:
    batch = struct.pack(">q", 5) + batch_of(broker, "a")[8:]
    assert produce(broker, batch).error_code is ErrorCode.invalid_record


def test_compressed_garbage_is_refused(broker: BrokerInMemory) -> None:
    batch = with_body(b"\x00garbage\x00", 1)
    batch = resealed(batch, attributes=Codec.GZIP)
    assert produce(broker, batch).error_code is ErrorCode.invalid_record


def test_zstd_before_produce_v7_is_unsupported(broker: BrokerInMemory) -> None:
    batch = batch_of(broker, "a", codec=Codec.ZSTD)
    assert produce(broker, batch, version=6).error_code is ErrorCode.unsupported_compression_type
    assert produce(broker, batch, version=7).error_code is ErrorCode.none


def test_batch_larger_than_the_topic_takes_is_too_large() -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), message_max_bytes="200")
    make_topic(broker)
    assert produce(broker, batch_of(broker, "x" * 300)).error_code is ErrorCode.message_too_large
    assert produce(broker, batch_of(broker, "x")).error_code is ErrorCode.none


def test_timestamp_far_ahead_of_the_clock_is_invalid(broker: BrokerInMemory) -> None:
    record = Record(None, b"a", timestamp_ms=broker.clock.now_ms() + 2 * 3_600_000)
    assert produce(broker, build_batch([record])).error_code is ErrorCode.invalid_timestamp


def test_transactional_batch_without_a_producer_id_is_refused(broker: BrokerInMemory) -> None:
    """Kafka takes it and shows it at once: a reader would see a record that no transaction ever committed."""
    batch = resealed(batch_of(broker, "a"), attributes=0x10)
    assert produce(broker, batch, transactional_id="t").error_code is ErrorCode.invalid_record


def test_transactional_batch_outside_a_transaction_is_refused(broker: BrokerInMemory) -> None:
    broker.ask("find_coordinator", 3, key="t", key_type=1)
    got = broker.ask("init_producer_id", 4, transactional_id="t", transaction_timeout=MINUTE)
    batch = batch_of(
        broker, "a", producer_id=got.producer_id, producer_epoch=got.producer_epoch, base_sequence=0, transactional=True
    )
    assert produce(broker, batch, transactional_id="t", version=9).error_code is ErrorCode.invalid_txn_state
    assert produce(broker, batch, transactional_id="t", version=11).error_code is ErrorCode.transaction_abortable
    assert produce(broker, batch).error_code is ErrorCode.transactional_id_authorization_failed


def test_acks_zero_is_never_answered_and_an_error_closes_the_connection(broker: BrokerInMemory) -> None:
    fields = {"acks": 0, "timeout": MINUTE}
    good = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch_of(broker, "a")}]}
    bad = {"name": TOPIC, "partition_data": [{"index": 9, "records": batch_of(broker, "a")}]}
    reply = broker.send("produce", 9, topic_data=[good], **fields)
    assert reply.came
    assert reply.message is None
    assert broker.connection.closed is None
    broker.send("produce", 9, topic_data=[bad], **fields)
    assert broker.connection.closed is not None


def test_flush_messages_of_one_answers_when_the_record_is_durable() -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), log_flush_interval_messages="1")
    make_topic(broker)
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch_of(broker, "kept")}]}
    reply = broker.send("produce", 9, acks=-1, timeout=MINUTE, topic_data=[data])
    assert not reply.came
    broker.settle()
    assert reply.came
    broker.disk.crash()
    broker.restart()
    assert broker.core.topics.partition(TOPIC, 0).log.log_end_offset == 1  # type: ignore[union-attr]


def test_record_that_cannot_be_read_is_refused_and_a_reader_goes_on(broker: BrokerInMemory) -> None:
    """LogValidator reads every record: what is malformed inside a whole batch with a right CRC is INVALID_RECORD."""
    assert produce(broker, batch_of(broker, "before")).error_code is ErrorCode.none
    key_beyond_the_record = b"\x10" + b"\0\0\0" + b"\x7ek" + b"\x02v" + b"\0"
    a_header_too_many = b"\x10" + b"\0\0\0" + b"\x02k" + b"\x02v" + b"\x02"
    wrong_offset = b"\x10" + b"\0\0\x02" + b"\x02k" + b"\x02v" + b"\0"
    for body in (key_beyond_the_record, a_header_too_many, wrong_offset):
        assert produce(broker, with_body(body, 1)).error_code is ErrorCode.invalid_record
    assert produce(broker, batch_of(broker, "after")).base_offset == 1
    assert visible(broker, 0) == ["before", "after"]
