"""A topic whose deletion the end of the process interrupts is there as it was, or gone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from oncelog.log import PartitionLog
from oncelog.records import Record, build_batch

MINUTE = timedelta(minutes=1)
TOPIC = "orders"
NONE = ErrorCode.none
DIRECTORIES = ("/data", "/more")


def log_of(broker: BrokerInMemory) -> PartitionLog | None:
    found = broker.core.topics.partition(TOPIC, 0)
    return None if found is None else found.log


def used(seed: int) -> BrokerInMemory:
    """Ten records, of which four were deleted; all of it is durable, and the checkpoint says so."""
    clock = ManualClock()
    broker = BrokerInMemory(SteppedDisk(seed, clock.now_ms), clock, DIRECTORIES)
    create(broker)
    for number in range(10):
        write(broker, b"%d" % number)
    deleted = [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 4}]}]
    assert broker.ask("delete_records", 2, topics=deleted, timeout=MINUTE).topics[0].partitions[0].error_code is NONE
    broker.core.stop()
    broker.settle()
    broker.restart()
    broker.settle()
    return broker


def create(broker: BrokerInMemory) -> None:
    topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    assert broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE).topics[0].error_code is NONE


def write(broker: BrokerInMemory, value: bytes) -> None:
    batch = build_batch([Record(None, value, timestamp_ms=broker.clock.now_ms())])
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
    answer = broker.ask("produce", 9, acks=-1, timeout=MINUTE, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code is NONE


@pytest.mark.parametrize("is_power_cut", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_topic_is_as_it_was_or_gone(seed: int, *, is_power_cut: bool) -> None:
    steps, is_gone = 0, False
    while not is_gone:
        broker = used(seed)
        topic = broker.core.topics.named(TOPIC)
        assert topic is not None
        gone = broker.core.topics.delete(topic)
        for _ in range(steps):
            broker.disk.take_step()
        is_gone = gone.is_resolved
        broker.disk.steps.clear()
        (broker.disk.crash if is_power_cut else broker.disk.kill)()
        broker.restart()
        broker.settle()
        log = log_of(broker)
        if log is not None:
            assert not is_gone
            assert (log.log_start_offset, log.log_end_offset, log.durability.recovery_point) == (4, 10, 10)
        else:
            create(broker)
            found = log_of(broker)
            assert found is not None
            assert (found.log_start_offset, found.log_end_offset) == (0, 0)
        steps += 1
