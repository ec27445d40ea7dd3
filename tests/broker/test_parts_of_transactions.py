"""KIP-98 §Transactional Guarantees: when a reader of committed records gets a part of a transaction, and which part."""

from __future__ import annotations

import pytest

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.cleaned_logs import clean, compacted, records_of, roll, write
from harness.log_on_memory_disk import LogOnMemoryDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import NONE, TV2, ProducerInMemory, make_topic, visible
from oncelog.log import LogConfig
from oncelog.records import ControlType, Record

WRITER = (1, 0)
VALUES = [b"one", b"two", b"three", b"four"]


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def committed(config: LogConfig) -> LogOnMemoryDisk:
    """A transaction of four records with a key each, the first two of them in a segment of their own."""
    on = LogOnMemoryDisk(config)
    for sequence, value in enumerate(VALUES):
        write(on, [(b"key of " + value, value)], producer=WRITER, sequence=sequence, transactional=True)
        if sequence == 1:
            roll(on)
    on.mark(ControlType.COMMIT, WRITER)
    roll(on)
    return on


def test_compaction_takes_the_records_of_a_transaction_whose_keys_were_written_again() -> None:
    """In a compacted topic newer records take the place of some of a transaction's."""
    on = committed(compacted())
    write(on, [(b"key of two", b"newer")])
    roll(on)
    assert clean(on)
    assert values(records_of(on.log, committed=True)) == [b"one", b"three", b"four", b"newer"]


def test_retention_takes_the_segments_in_which_a_transaction_began() -> None:
    """A transaction may lie in several segments, and the oldest go first."""
    on = committed(LogConfig(retention_bytes=200))
    on.sync()
    assert on.delete_expired() == 1
    assert values(records_of(on.log, committed=True)) == [b"three", b"four"]


@pytest.mark.parametrize("first", range(4))
def test_deleted_records_may_be_the_first_of_a_transaction(first: int) -> None:
    on = committed(LogConfig())
    on.log.advance_log_start(first)
    assert values(records_of(on.log, committed=True)) == VALUES[first:]


@pytest.mark.parametrize("offset", range(4))
def test_reader_that_begins_inside_a_transaction_gets_what_follows(offset: int) -> None:
    """A consumer may seek to any offset of a transaction, and misses what is before it."""
    assert values(records_of(committed(LogConfig()).log, offset, committed=True)) == VALUES[offset:]


def test_reader_of_one_partition_gets_what_the_transaction_wrote_there() -> None:
    """A consumer need not read all partitions of a transaction, and no record tells it which there are."""
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    make_topic(broker)
    producer = ProducerInMemory(broker, TV2)
    assert producer.produce("first half", 0) is NONE
    assert producer.produce("second half", 1) is NONE
    producer.end(committed=True)
    assert visible(broker, 0) == ["first half"]
    assert visible(broker, 1) == ["second half"]


def test_records_of_another_producer_may_lie_between_those_of_a_transaction() -> None:
    """Transactions are atomic and not isolated: what others write meanwhile keeps its place."""
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    make_topic(broker)
    one, other = (ProducerInMemory(broker, TV2, name) for name in ("one", "other"))
    for producer, value in ((one, "a"), (other, "b"), (one, "c")):
        assert producer.produce(value, 0) is NONE
        producer.sequence += 1
    for producer in (other, one):
        producer.end(committed=True)
    assert visible(broker, 0) == ["a", "b", "c"]
