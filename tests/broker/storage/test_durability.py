"""What joins a sync that is under way is not durable with it: the disk ends each sync when the test says so."""

from __future__ import annotations

import pytest

from harness.broker_in_memory import DIRECTORY, BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.memory_disk import LosesAll, LosesNothing
from harness.transaction_in_memory import MINUTE, NONE
from oncelog.broker.storage import durability
from oncelog.coordination import start
from oncelog.log import Origin, PartitionLog
from oncelog.records import ControlType, Record, batches, build_batch, decode_batch, read_header

TOPIC = "t"
LARGE = b"x" * (durability.TAIL_BYTES_MAX + 1)
"""More than the write-ahead log takes: the log's own file is synced."""
FEW_PARTITIONS = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}


class Bench:
    """A broker with one partition, all of which is durable in its own files, and whose disk forgets what was not synced."""

    def __init__(self, **configs: str) -> None:
        self.disk = SteppedDisk()
        self.disk.lose_by(LosesAll())
        self.broker = BrokerInMemory(self.disk, ManualClock(), **FEW_PARTITIONS)
        topic = {
            "name": TOPIC,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        answer = self.broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE)
        assert answer.topics[0].error_code is NONE, answer
        self.append(b"first")
        self.make_durable()
        self.disk_is_idle()

    @property
    def log(self) -> PartitionLog:
        partition = self.broker.core.topics.partition(TOPIC, 0)
        assert partition is not None
        return partition.log

    @property
    def durability(self) -> durability.Durability:
        return self.broker.core.durability

    def append(self, *values: bytes, producer_id: int = -1, sequence: int = -1) -> None:
        batch = build_batch(
            [Record(None, value, timestamp_ms=self.broker.clock.now_ms()) for value in values],
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else 0,
            base_sequence=sequence,
            transactional=producer_id >= 0,
        )
        self.broker.core.topics.partition(TOPIC, 0).append(  # type: ignore[union-attr]
            batch, read_header(batch), Origin.CLIENT, verified=True
        )

    def abort(self, producer_id: int) -> None:
        self.broker.core.topics.partition(TOPIC, 0).append_marker(  # type: ignore[union-attr]
            ControlType.ABORT, producer_id, 0, 0, 1, self.broker.clock.now_ms()
        )

    def make_durable(self) -> None:
        asked = self.durability.make_durable([self.log])
        while not asked.is_resolved:
            assert self.disk.take_step()

    def disk_is_idle(self) -> None:
        self.broker.settle()

    def values_after_a_power_cut(self) -> list[bytes]:
        self.disk.crash()
        self.broker.restart()
        self.broker.settle()
        found: list[bytes] = []
        offset = 0
        while offset < self.log.log_end_offset:
            data = self.log.read(offset, 10_000_000, self.log.log_end_offset).data
            for position, header in batches(data):
                found += [record.value or b"" for record in decode_batch(data, position)]
                offset = header.next_offset
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("value", [b"second", LARGE], ids=["write-ahead log", "own file"])
def test_record_that_is_appended_while_a_sync_runs_is_durable_with_the_next_one_alone(
    bench: Bench, value: bytes
) -> None:
    bench.append(value)
    first = bench.durability.make_durable([bench.log])
    bench.append(b"third")
    second = bench.durability.make_durable([bench.log])
    while not first.is_resolved:
        bench.disk.take_step()
    assert not second.is_resolved
    assert not bench.log.durability.is_complete
    assert bench.log.durability.acknowledged_offset == 3, "nobody asks for more than the page cache here"
    assert bench.values_after_a_power_cut() == [b"first", value]


@pytest.mark.parametrize("value", [b"second", LARGE], ids=["write-ahead log", "own file"])
def test_record_that_is_appended_while_a_sync_runs_counts_for_nobody(value: bytes) -> None:
    """flush.messages=1: the acknowledged offset is what readers may read."""
    bench = Bench(flush_messages="1")
    bench.append(value)
    asked = bench.durability.make_durable([bench.log])
    bench.append(b"third")
    while not asked.is_resolved:
        bench.disk.take_step()
    assert bench.log.durability.acknowledged_offset == bench.log.high_watermark == 2
    assert bench.values_after_a_power_cut() == [b"first", value]


def test_sync_of_both_kinds_ends_with_the_slower_one(bench: Bench) -> None:
    """Whichever that is: one log's tail goes to the write-ahead log, the other's own file is synced."""
    for is_in_order in (True, False):
        bench.append(LARGE)
        offsets_topic = bench.broker.ask("find_coordinator", 3, key="g", key_type=0)
        assert offsets_topic.error_code is NONE
        other = bench.broker.core.topics.partition("__consumer_offsets", 0)
        assert other is not None
        batch = build_batch([Record(b"k", None, timestamp_ms=0)])
        other.append(batch, read_header(batch), Origin.COORDINATOR)
        other_is_durable = bench.durability.make_durable([other.log])
        while not other_is_durable.is_resolved:
            bench.disk.take_step()
        bench.append(LARGE)
        other.append(batch, read_header(batch), Origin.COORDINATOR)
        both = bench.durability.make_durable([other.log, bench.log])
        count = len(bench.disk.steps)
        assert count >= 2
        if not is_in_order:
            bench.disk.steps.reverse()
        while bench.disk.steps:
            assert not both.is_resolved
            bench.disk.take_step()
        assert both.is_resolved
        assert bench.log.durability.is_complete


def segments(bench: Bench) -> list[str]:
    return [name for name in bench.disk.list_directory(f"{DIRECTORY}/{TOPIC}-0") if name.endswith(".log")]


def test_segment_that_begins_while_a_sync_runs_is_synced_by_the_next_one(bench: Bench) -> None:
    """It joins at the very offset at which that sync was asked for, and nothing of it, not even its name, is durable."""
    bench.append(LARGE)
    asked = bench.durability.make_durable([bench.log])
    bench.log.files.roll(bench.broker.clock.now_ms())
    assert len(segments(bench)) == 2
    while not asked.is_resolved:
        bench.disk.take_step()
    assert bench.log.durability.recovery_point == bench.log.log_end_offset == 2
    assert bench.log.segments[-1].file in bench.log.durability.unsynced_files()
    assert not bench.log.durability.is_complete
    bench.make_durable()
    bench.append(b"third")
    bench.make_durable()
    assert bench.values_after_a_power_cut() == [b"first", LARGE, b"third"]
    assert len(segments(bench)) == 2


def test_index_of_aborted_transactions_that_joins_a_sync_is_synced_by_the_next_one(bench: Bench) -> None:
    """Its entry is written for a marker behind the end of the log at which the sync was asked for."""
    bench.append(LARGE, producer_id=7, sequence=0)
    asked = bench.durability.make_durable([bench.log])
    bench.abort(7)
    while not asked.is_resolved:
        bench.disk.take_step()
    index = f"{DIRECTORY}/{TOPIC}-0/{0:020d}.txnindex"
    assert index in [getattr(file, "path", None) for file in bench.log.durability.unsynced_files()]
    bench.make_durable()
    bench.disk.crash()
    assert len(bench.disk.read_file(index)) > 0, "the entry is durable with the marker"


def test_file_that_is_written_again_while_it_is_synced_is_synced_once_more(bench: Bench) -> None:
    for producer_id in (7, 8):
        bench.append(b"x", producer_id=producer_id, sequence=0)
    bench.abort(7)
    asked = bench.durability.make_durable([bench.log])
    index = f"{DIRECTORY}/{TOPIC}-0/{0:020d}.txnindex"
    bench.abort(8)
    while not asked.is_resolved:
        bench.disk.take_step()
    assert index in [getattr(file, "path", None) for file in bench.log.durability.unsynced_files()]
    bench.make_durable()
    both = len(bench.disk.read_file(index))
    bench.disk.crash()
    assert len(bench.disk.read_file(index)) == both


def test_what_is_appended_while_a_file_of_the_write_ahead_log_retires_is_in_the_next_one(bench: Bench) -> None:
    bench.append(b"second")
    bench.make_durable()
    retired = bench.durability.retire()
    bench.append(b"third")
    asked = bench.durability.make_durable([bench.log])
    while not (asked.is_resolved and retired.is_resolved):
        assert bench.disk.take_step()
    assert bench.values_after_a_power_cut() == [b"first", b"second", b"third"]


@pytest.mark.parametrize("steps", range(8))
def test_whenever_a_retirement_is_cut_short_nothing_that_was_durable_is_lost(bench: Bench, steps: int) -> None:
    bench.append(b"second")
    bench.make_durable()
    bench.durability.retire()
    bench.append(b"third")
    asked = bench.durability.make_durable([bench.log])
    for _ in range(steps):
        bench.disk.take_step()
    was_durable = asked.is_resolved
    found = bench.values_after_a_power_cut()
    assert found[:2] == [b"first", b"second"]
    assert not was_durable or found[2:] == [b"third"]


def test_log_that_was_cut_off_while_it_was_synced_is_not_durable_up_to_where_it_ended(bench: Bench) -> None:
    bench.append(LARGE, b"gone")
    asked = bench.durability.make_durable([bench.log])
    bench.log.files.begin_truncation(1)
    bench.log.truncate_to(1)
    bench.append(b"instead")
    bench.append(b"and more")
    while not asked.is_resolved:
        bench.disk.take_step()
    assert bench.log.durability.recovery_point <= 1
    assert not bench.log.durability.is_complete


def test_own_files_are_not_synced_while_the_log_is_held(bench: Bench) -> None:
    """It is cut off, or moves: what is said to be durable then would be so in the old directory alone."""
    held = start(bench.durability.hold(bench.log))
    assert held.is_resolved
    bench.append(LARGE)
    asked = bench.durability.make_durable([bench.log])
    assert not bench.disk.steps
    bench.durability.let_go(bench.log)
    while not asked.is_resolved:
        assert bench.disk.take_step()
    assert bench.values_after_a_power_cut() == [b"first", LARGE]


def test_whoever_holds_a_log_waits_until_the_syncs_of_its_files_are_over(bench: Bench) -> None:
    bench.append(LARGE)
    asked = bench.durability.make_durable([bench.log])
    held = start(bench.durability.hold(bench.log))
    assert not held.is_resolved
    while not asked.is_resolved:
        bench.disk.take_step()
    assert held.is_resolved
    bench.durability.let_go(bench.log)


def test_decisions_that_are_appended_while_they_are_synced_are_vouched_for_by_the_next_sync(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of decisions is cut back to what the write-ahead log or a checkpoint vouches for, whatever its own file has."""
    monkeypatch.setattr(durability, "TAIL_BYTES_MAX", 0)
    assert bench.broker.ask("find_coordinator", 3, key="id", key_type=1).error_code is NONE
    partition = bench.broker.core.topics.partition("__transaction_state", 0)
    assert partition is not None
    bench.broker.settle()
    end = partition.log.log_end_offset

    def decide() -> None:
        bench.broker.send("init_producer_id", 4, transactional_id="id", transaction_timeout=MINUTE)

    decide()
    own_files = len(bench.disk.steps)
    assert own_files, "the first decision waits for the disk"
    decide()
    assert partition.log.log_end_offset == end + 2
    for _ in range(own_files):
        bench.disk.take_step()
    # The disk is in no hurry with the files that the second waits for.
    bench.disk.steps.rotate(1)
    bench.disk.take_step()
    assert partition.log.durability.recovery_point == end + 1
    bench.disk.lose_by(LosesNothing())
    bench.disk.crash()
    bench.broker.restart()
    found = bench.broker.core.topics.partition("__transaction_state", 0)
    assert found is not None
    written_last = read_header(found.log.read(end + 1, 1_000_000, found.log.log_end_offset).data)
    assert written_last.leader_epoch == found.leader_epoch > partition.leader_epoch, "nobody vouches for the second"
