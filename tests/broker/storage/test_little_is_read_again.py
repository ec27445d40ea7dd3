"""What a start after a kill has to read again: what followed the last sealed segment and the last checkpoint."""

from __future__ import annotations

import pytest

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, NONE, TV2, ProducerInMemory, committed_offset, make_topic
from oncelog.broker import housekeeping
from oncelog.broker.storage import log_settings
from oncelog.broker.storage.topics import INTERNAL_TOPICS
from oncelog.log import PartitionLog
from oncelog.records import Record, build_batch

NAME = "orders"
BATCH_BYTES = 1000
SEGMENT_BYTES = 1024 * 1024
LARGE = 300_000
"""Three of them are a segment."""
SECOND_MS, MINUTE_MS = 1000, 60_000


@pytest.fixture
def broker() -> BrokerInMemory:
    return BrokerInMemory(SteppedDisk(), ManualClock(), log_cleaner_enable="false")


def make(broker: BrokerInMemory, **configs: str) -> PartitionLog:
    given = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    topic = {"name": NAME, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": given}
    broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE)
    broker.settle()
    return log_of(broker)


def log_of(broker: BrokerInMemory, topic: str = NAME) -> PartitionLog:
    found = broker.core.topics.partition(topic, 0)
    assert found is not None
    return found.log


def produce(broker: BrokerInMemory, batches: int, size_bytes: int = BATCH_BYTES) -> None:
    for _ in range(batches):
        batch = build_batch([Record(None, bytes(size_bytes), timestamp_ms=broker.clock.now_ms())])
        data = [{"name": NAME, "partition_data": [{"index": 0, "records": batch}]}]
        answer = broker.ask("produce", 9, transactional_id=None, acks=1, timeout=MINUTE, topic_data=data)
        assert answer.responses[0].partition_responses[0].error_code is NONE, answer


def wait(broker: BrokerInMemory, ms: int) -> None:
    for _ in range(ms // SECOND_MS):
        broker.clock.advance(SECOND_MS)
        broker.settle()


def bytes_read_again(broker: BrokerInMemory) -> int:
    broker.disk.kill()
    broker.restart()
    return log_of(broker).recovery.bytes_read


def test_sealed_segments_are_made_durable_in_the_background_and_only_what_follows_is_read_again(broker):
    """Kafka's UnifiedLog.roll: "Schedule an asynchronous flush of the old segment"."""
    log = make(broker, segment_bytes=str(SEGMENT_BYTES))
    produce(broker, 10, LARGE)
    assert log.durability.recovery_point == 0
    wait(broker, 2 * SECOND_MS)
    assert log.durability.recovery_point == 10, "nobody has asked for it to be durable"
    produce(broker, 1, LARGE)
    wait(broker, MINUTE_MS)
    assert bytes_read_again(broker) < SEGMENT_BYTES
    assert log_of(broker).log_end_offset == 11


def test_files_of_sealed_segments_do_not_stay_open(broker):
    make(broker, segment_bytes=str(SEGMENT_BYTES))
    produce(broker, 1, LARGE)
    few = broker.disk.open_files
    produce(broker, 30, LARGE)
    assert broker.disk.open_files >= few + 30
    wait(broker, 2 * SECOND_MS)
    assert broker.disk.open_files <= few + 3, "those of the active segment"


def test_log_that_grows_and_never_rolls_is_read_again_from_the_last_checkpoint_on(broker, monkeypatch):
    monkeypatch.setattr(housekeeping, "SNAPSHOT_INTERVAL_BYTES", 10_000)
    make(broker)
    produce(broker, 30)
    wait(broker, MINUTE_MS)
    produce(broker, 5)
    wait(broker, MINUTE_MS)
    assert bytes_read_again(broker) < 10 * (BATCH_BYTES + 100), "five that were new, and a few before them"
    assert bytes_read_again(broker) < 5 * (BATCH_BYTES + 100), (
        "and the start has seen to it that they are not read again"
    )


@pytest.mark.parametrize("seed", range(12))
def test_snapshot_of_a_log_that_is_durable_already_outlives_a_power_cut(seed, monkeypatch):
    """What only the snapshot needs is a sync of its own: nothing of the batches is left for the write-ahead log to take."""
    monkeypatch.setattr(housekeeping, "SNAPSHOT_INTERVAL_BYTES", 10_000)
    broker = BrokerInMemory(SteppedDisk(seed), ManualClock(), log_cleaner_enable="false")
    log = make(broker)
    produce(broker, 30)
    broker.core.durability.make_durable([log])
    broker.settle()
    assert log.durability.recovery_point == 30
    wait(broker, MINUTE_MS)
    broker.disk.crash()
    broker.restart()
    assert log_of(broker).log_end_offset == 30
    assert log_of(broker).recovery.snapshot_offset == 30, "no batch before it is taken again"


def test_much_growth_does_not_wait_for_the_checkpoint(broker, monkeypatch):
    monkeypatch.setattr(housekeeping, "SNAPSHOT_INTERVAL_BYTES", 10_000)
    monkeypatch.setattr(housekeeping, "GROWTH_BYTES_MAX", 20_000)
    make(broker)
    produce(broker, 30)
    wait(broker, 2 * SECOND_MS)
    assert bytes_read_again(broker) < 5 * (BATCH_BYTES + 100)


def test_logs_of_the_coordinators_are_cleaned_long_before_their_segments_are_full(monkeypatch):
    monkeypatch.setattr(log_settings, "COORDINATOR_LOG_BYTES", 3000)
    broker = BrokerInMemory(
        SteppedDisk(),
        ManualClock(),
        offsets_topic_num_partitions="1",
        transaction_state_log_num_partitions="1",
        log_cleaner_backoff_ms="1000",
    )
    make_topic(broker)
    producer = ProducerInMemory(broker, TV2)
    sizes = []
    for number in range(1, 401):
        producer.write(str(number), number)
        producer.end(committed=True)
        broker.settle()
        wait(broker, SECOND_MS)
        sizes.append(sum(log_of(broker, topic).size_bytes for topic in INTERNAL_TOPICS))
    assert max(sizes) < 40_000, "400 transactions take 380,000 bytes"
    broker.disk.kill()
    broker.restart()
    broker.settle()
    assert committed_offset(broker) == 400
