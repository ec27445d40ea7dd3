"""Two things go wrong, one after the other. What is here is made durable for the second of them alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import DIRECTORY as DATA
from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import TOPIC, make_topic
from oncelog.log import LogConfig
from oncelog.log.names import TRANSACTION_INDEX, offset_name
from oncelog.log.write_ahead import files_in
from oncelog.records import ControlType, Record, build_batch

SEEDS = range(24)
"""What a power cut leaves of what was not synced: nothing, all of it, or a part."""
MINUTE = timedelta(minutes=1)


def with_an_abort(seed: int) -> LogOnMemoryDisk:
    """A log with an aborted transaction, all of it durable. A start reads none of its batches again."""
    on = LogOnMemoryDisk(LogConfig(), seed)
    on.produce(b"aborted", producer=(1, 0), sequence=0, transactional=True)
    on.mark(ControlType.ABORT, (1, 0))
    on.produce(b"behind")
    on.log.files.take_snapshot()
    on.sync()
    return on


def aborted(on: LogOnMemoryDisk) -> list[tuple[int, int, int]]:
    return [one[:3] for one in on.log.aborted_transactions(0, on.log.log_end_offset)]


@pytest.mark.parametrize("seed", SEEDS)
def test_abort_outlives_a_power_cut_that_takes_the_checkpoint_with_its_digest(seed: int) -> None:
    """The transaction index is among the files that are synced after an abort: without a digest a start believes it."""
    on = with_an_abort(seed)
    on.crash()
    assert aborted(on) == [(1, 0, 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_index_that_a_start_has_made_again_outlives_a_power_cut_that_takes_the_checkpoint(seed: int) -> None:
    """The checkpoint that has found the damage may not be there when the damage comes back."""
    on = with_an_abort(seed)
    digest = on.log.digest()
    on.log.close()
    index = on.disk.open(f"{DIRECTORY}/{offset_name(0, TRANSACTION_INDEX)}")
    index.truncate(0)
    index.sync()
    index.close()
    on.aborted = digest
    on.write_checkpoint()
    on.open(was_clean=True)
    assert on.log.recovery.indexes_rebuilt == 1
    on.aborted = None
    on.crash()
    assert aborted(on) == [(1, 0, 1)]


def write(broker: BrokerInMemory, value: bytes) -> None:
    batch = build_batch([Record(None, value, timestamp_ms=broker.clock.now_ms())])
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
    answer = broker.ask("produce", 9, acks=-1, timeout=MINUTE, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


@pytest.mark.parametrize("seed", SEEDS)
def test_write_ahead_file_that_comes_back_after_its_removal_keeps_none_of_the_next_from_being_read(seed: int) -> None:
    """A file system that logs each file for itself, as btrfs does, makes no removal durable with the sync of another file."""
    clock = ManualClock()
    broker = BrokerInMemory(SteppedDisk(seed, clock.now_ms), clock)
    make_topic(broker)
    partition = broker.core.topics.partition(TOPIC, 0)
    assert partition is not None
    log, durability = partition.log, broker.core.durability
    for number in range(2):
        write(broker, b"%d" % number)
        durability.make_durable([log])
        broker.settle()
    write(broker, b"first in the write-ahead log, and not durable")
    durability.put_first([log])
    ((_, path),) = files_in(broker.disk, DATA)
    content = broker.disk.names.files[path]
    durability.retire()
    broker.settle()
    assert not broker.disk.exists(path)
    write(broker, b"durable")
    durability.make_durable([log])
    broker.settle()
    assert log.durability.is_complete
    end = log.log_end_offset
    broker.disk.crash()
    content.data[:] = content.durable
    broker.disk.names.files[path] = content
    broker.restart()
    after = broker.core.topics.partition(TOPIC, 0)
    assert after is not None
    assert not after.is_offline
    assert after.log.log_end_offset >= end
