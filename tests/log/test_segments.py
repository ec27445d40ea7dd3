"""When a log begins another segment, and when it may forget one."""

from __future__ import annotations

import re
from struct import pack

import pytest

from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from harness.manual_clock import START_MS
from oncelog.environment import DiskError
from oncelog.log import DamagedLogError, LogConfig, PartitionLog, Refused, TimestampOffset
from oncelog.log.segment import WRITE_BACK_BYTES
from oncelog.records import NO_TIMESTAMP, ControlType
from oncelog.wire import ErrorCode

HOUR_MS = 3_600_000


def names(on: LogOnMemoryDisk, suffix: str) -> list[int]:
    return [int(name[:20]) for name in on.disk.list_directory(DIRECTORY) if name.endswith(suffix)]


def test_segment_ends_before_it_would_be_too_large() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_bytes=1000))
    for _ in range(9):
        on.produce(bytes(232))
    assert names(on, ".log") == [0, 3, 6]
    assert names(on, ".snapshot") == [3, 6]


def test_segment_ends_when_its_first_batch_is_old() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_ms=HOUR_MS, message_timestamp_after_max_ms=10 * HOUR_MS))
    on.produce(b"a", timestamp_ms=START_MS)
    on.produce(b"b", timestamp_ms=START_MS + HOUR_MS)
    on.produce(b"c", timestamp_ms=START_MS + HOUR_MS + 1)
    assert names(on, ".log") == [0, 2]


def test_age_of_the_first_batch_survives_a_restart() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_ms=HOUR_MS))
    on.produce(b"a")
    on.clock.advance(HOUR_MS + 1)
    on.restart()
    on.produce(b"b")
    assert names(on, ".log") == [0, 1]


def test_segment_ends_when_an_index_is_full() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_index_bytes=48, index_interval_bytes=0))
    for slot in range(10):
        on.produce(b"a", timestamp_ms=START_MS + slot)
    # The time index has room for four entries, and the last one is kept for the end of the segment.
    assert names(on, ".log") == [0, 4, 8]


def test_jitter_ends_segments_of_different_partitions_at_different_times() -> None:
    config = LogConfig(segment_ms=HOUR_MS, segment_jitter_ms=HOUR_MS, message_timestamp_after_max_ms=10 * HOUR_MS)
    on = LogOnMemoryDisk(config)
    on.produce(b"a", timestamp_ms=START_MS)
    on.produce(b"b", timestamp_ms=START_MS + HOUR_MS)
    assert names(on, ".log") == [0, 1]


@pytest.mark.parametrize(
    ("config", "size_bytes", "timestamp_ms", "error"),
    [
        (LogConfig(max_message_bytes=1000), 1000, START_MS, ErrorCode.message_too_large),
        (LogConfig(segment_bytes=1000), 1000, START_MS, ErrorCode.record_list_too_large),
        (LogConfig(), 10, START_MS + HOUR_MS + 1, ErrorCode.invalid_timestamp),
        (LogConfig(message_timestamp_before_max_ms=5), 10, START_MS - 6, ErrorCode.invalid_timestamp),
    ],
)
def test_batch_outside_the_limits_is_refused(
    config: LogConfig, size_bytes: int, timestamp_ms: int, error: ErrorCode
) -> None:
    on = LogOnMemoryDisk(config)
    result = on.append(on.batch([bytes(size_bytes)], timestamp_ms=timestamp_ms))
    assert isinstance(result, Refused)
    assert result.error == error
    assert "orders-0" in result.message


def test_batch_without_a_time_is_taken() -> None:
    on = LogOnMemoryDisk(LogConfig(message_timestamp_before_max_ms=5))
    on.produce(b"a", timestamp_ms=-1)
    assert on.restart().log_end_offset == 1


def old_segments(config: LogConfig) -> LogOnMemoryDisk:
    """Three segments of three records; the first is three hours old, the second two, the last one."""
    on = LogOnMemoryDisk(config)
    for hours in (3, 2, 1):
        for _ in range(3):
            on.produce(bytes(232), timestamp_ms=START_MS - hours * HOUR_MS)
    assert names(on, ".log") == [0, 3, 6]
    return on


def test_old_segments_go_and_their_files_follow_later() -> None:
    on = old_segments(LogConfig(segment_bytes=1000, retention_ms=2 * HOUR_MS - 1))
    assert on.log.retention.expired(on.clock.now_ms()) == 2
    assert on.delete_expired() == 2
    assert on.log.log_start_offset == 6
    assert names(on, ".log") == [6]
    assert names(on, ".log.deleted") == [0, 3]
    on.clock.advance(on.config.file_delete_delay_ms)
    assert [name for name in on.disk.list_directory(DIRECTORY) if name.endswith(".deleted")] == []
    assert names(on, ".snapshot") == [6]


def test_segments_beyond_the_size_go() -> None:
    on = old_segments(LogConfig(segment_bytes=1000, retention_ms=-1, retention_bytes=1700))
    assert on.delete_expired() == 1
    assert on.log.log_start_offset == 3


def test_log_of_old_segments_alone_begins_an_empty_one() -> None:
    on = old_segments(LogConfig(segment_bytes=1000, retention_ms=1))
    assert on.delete_expired() == 3
    assert names(on, ".log") == [9]
    assert (on.log.log_start_offset, on.log.log_end_offset) == (9, 9)
    on.sync()
    assert on.crash().log_end_offset == 9


def test_segment_above_the_high_watermark_stays() -> None:
    on = old_segments(LogConfig(segment_bytes=1000, retention_ms=1))
    on.log.close()
    on.checkpoint = 9
    on.open(was_clean=True, high_watermark=5)
    assert on.delete_expired() == 1


def test_deleted_records_take_whole_segments_with_them() -> None:
    on = old_segments(LogConfig(segment_bytes=1000, retention_ms=-1))
    on.log.advance_log_start(5)
    assert on.delete_expired() == 1
    assert (on.log.log_start_offset, names(on, ".log")) == (5, [3, 6])
    on.log.close()
    on.checkpoint = 9
    assert on.open(was_clean=True, log_start_offset=5).log_start_offset == 5


def test_files_a_crash_left_half_deleted_are_swept() -> None:
    on = old_segments(LogConfig(segment_bytes=1000, retention_ms=2 * HOUR_MS - 1))
    on.sync()
    on.delete_expired()
    on.kill()
    assert [name for name in on.disk.list_directory(DIRECTORY) if name.endswith(".deleted")] == []
    assert on.log.log_start_offset == 6


def test_open_transaction_outlives_its_records() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_bytes=1000, retention_ms=HOUR_MS))
    on.produce(bytes(500), producer=(1, 0), sequence=0, transactional=True, timestamp_ms=START_MS - 2 * HOUR_MS)
    on.produce(bytes(500))
    on.delete_expired()
    assert on.log.log_start_offset == 1
    assert on.log.last_stable_offset == 1
    on.restart()
    assert on.log.producers.open_transactions()[0].first_offset == 0
    on.mark(ControlType.ABORT, (1, 0))
    assert on.log.last_stable_offset == 3


def test_deleted_partition_leaves_its_name_at_once_and_its_files_later() -> None:
    on = LogOnMemoryDisk()
    on.produce(b"a")
    on.log.delete()
    assert not on.disk.exists(DIRECTORY)
    on.clock.advance(on.config.file_delete_delay_ms)
    assert on.disk.open_files == 0
    on.checkpoint = 0
    assert on.open(was_clean=True).log_end_offset == 0


def test_deleted_log_is_neither_written_nor_read_where_another_has_its_name() -> None:
    on = LogOnMemoryDisk()
    on.produce(b"old")
    deleted = on.log
    deleted.delete()
    on.checkpoint = 0
    on.open(was_clean=True)
    on.produce(b"new")
    with pytest.raises(AssertionError, match="was deleted"):
        deleted.append_marker(ControlType.ABORT, 1, 0, 0, 2, START_MS)
    with pytest.raises(AssertionError, match="was deleted"):
        deleted.read(0, 1, 1)
    assert b"new" in on.read_all()
    assert b"old" not in on.read_all()


def test_log_whose_disk_has_failed_is_neither_written_nor_read_any_more() -> None:
    on = LogOnMemoryDisk()
    on.produce(b"x")
    on.log.abandon()
    with pytest.raises(AssertionError, match="was deleted"):
        on.log.append_marker(ControlType.ABORT, 1, 0, 0, 2, START_MS)
    with pytest.raises(AssertionError, match="was deleted"):
        on.log.read(0, 1, 1)
    assert on.disk.open_files == 0


@pytest.mark.parametrize("clean", [True, False])
def test_log_that_is_closed_holds_no_file_open(*, clean: bool) -> None:
    on = LogOnMemoryDisk(LogConfig(segment_bytes=1000))
    for _ in range(20):
        on.produce(bytes(232))
    on.log.close(clean=clean)
    assert on.disk.open_files == 0


def test_idle_log_holds_no_file_open() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_bytes=1000))
    assert on.disk.open_files == 0
    assert on.disk.list_directory(DIRECTORY) == []
    for _ in range(20):
        on.produce(bytes(232))
    on.sync()
    on.produce(b"x")
    on.sync()
    assert on.disk.open_files <= 3
    on.restart()
    assert on.disk.open_files == 0
    on.kill()
    assert on.disk.open_files == 0


def test_sync_covers_what_was_there_when_it_began() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_bytes=1000))
    on.produce(bytes(400))
    begun = on.begin_sync()
    for _ in range(4):
        on.produce(bytes(400))
    on.end_sync(begun)
    assert on.log.durability.recovery_point == 1
    assert len(on.log.durability.unsynced_files()) > 3
    on.sync()
    assert on.log.durability.recovery_point == 5


@pytest.mark.parametrize("transactional", [True, False])
def test_only_a_transaction_is_written_back_while_it_grows_each_byte_once(transactional: bool) -> None:
    on = LogOnMemoryDisk()
    for sequence in range(8):
        on.produce(bytes(WRITE_BACK_BYTES // 3), producer=(7, 0), sequence=sequence, transactional=transactional)
    ends = [position + size_bytes for position, size_bytes in on.disk.written_back]
    assert [position for position, _ in on.disk.written_back] == [0, *ends][: len(ends)]
    assert [end // WRITE_BACK_BYTES for end in ends] == ([1, 2] if transactional else [])


def test_flush_is_due_after_so_many_records_or_so_long() -> None:
    on = LogOnMemoryDisk(LogConfig(flush_messages=3, flush_ms=1000))
    now_ms = on.clock.now_ms
    assert not on.log.durability.needs_flush(now_ms() + 5000)
    on.produce(b"a", b"b")
    assert not on.log.durability.needs_flush(now_ms())
    assert on.log.durability.needs_flush(now_ms() + 1000)
    on.produce(b"c")
    assert on.log.durability.needs_flush(now_ms())
    on.sync()
    assert not on.log.durability.needs_flush(now_ms())


def test_full_disk_names_the_partition_and_the_offset() -> None:
    on = LogOnMemoryDisk()
    on.produce(b"a")
    on.disk.space_bytes = 10
    refused = on.append(on.batch([b"b"]))
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.kafka_storage_error
    assert re.match(r"orders-0 at offset 1: .*no space left", refused.message or "")


def test_settings_change_from_the_next_append_on() -> None:
    on = LogOnMemoryDisk()
    on.produce(bytes(500))
    on.log.configure(LogConfig(segment_bytes=600))
    on.produce(bytes(500))
    assert names(on, ".log") == [0, 1]


def test_leader_epochs_begin_with_their_first_batch() -> None:
    on = LogOnMemoryDisk()
    on.produce(b"a")
    on.log.lead(4)
    assert on.log.epoch_end_offset(4) == (4, 1)
    on.produce(b"b", b"c")
    assert on.log.epoch_end_offset(0) == (0, 1)
    assert on.log.epoch_end_offset(3) == (0, 1)
    assert on.log.epoch_end_offset(5) == (-1, -1)
    assert [on.log.epoch_at(offset) for offset in range(4)] == [0, 4, 4, 4]
    on.sync()
    assert on.disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n0 0\n4 1\n"


def test_truncated_log_forgets_what_came_after() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_bytes=1000))
    for sequence in range(9):
        on.produce(bytes(232), producer=(1, 0), sequence=sequence)
    on.log.truncate_to(4)
    assert (on.log.log_end_offset, on.log.high_watermark, names(on, ".log")) == (4, 4, [0, 3])
    assert on.log.producers.active()[0].last_sequence == 3
    on.produce(b"x", producer=(1, 0), sequence=4)
    assert on.log.log_end_offset == 5


def test_latest_time_is_known_after_a_power_cut_that_took_more_of_one_index_than_of_the_other() -> None:
    """Neither is synced while its segment grows."""
    on = LogOnMemoryDisk(LogConfig(index_interval_bytes=1))
    for slot in range(40):
        on.produce(b"x", timestamp_ms=START_MS + (9000 if slot == 20 else slot // 30))
    on.log.files.take_snapshot()
    on.sync()
    on.produce(b"x", timestamp_ms=START_MS + 2)
    file = on.disk.open(f"{DIRECTORY}/00000000000000000000.timeindex")
    assert file.size_bytes == 24
    file.truncate(12)
    log = on.kill()
    assert log.recovery.batches_read < 5
    assert log.max_timestamp() == TimestampOffset(START_MS + 9000, 20)
    assert log.offset_for_timestamp(START_MS + 3, 41) == TimestampOffset(START_MS + 9000, 20)
    on.produce(b"x", timestamp_ms=START_MS + 3)
    assert log.offset_for_timestamp(START_MS + 3, 42) == TimestampOffset(START_MS + 9000, 20)


def test_recovery_reads_only_what_follows_the_last_snapshot() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_bytes=10_000))
    for _ in range(100):
        on.produce(bytes(932))
    on.sync()
    on.disk.bytes_read = 0
    log: PartitionLog = on.crash()
    assert log.recovery.batches_read <= 10
    assert on.disk.bytes_read < 100_000
    assert log.recovery.bytes_cut == 0


def test_torn_tail_is_cut_and_reported() -> None:
    on = LogOnMemoryDisk()
    for _ in range(3):
        on.produce(bytes(100))
    on.sync()
    size_bytes = on.log.size_bytes
    on.produce(bytes(100))
    on.disk.damage(f"{DIRECTORY}/{0:020d}.log", size_bytes + 80, b"\x01")
    report = on.kill().recovery
    assert (report.bytes_cut, report.fault_path) == (size_bytes // 3, f"{DIRECTORY}/{0:020d}.log")
    assert report.fault is not None
    assert (report.fault.offset, report.fault.position) == (3, size_bytes)
    assert on.log.log_end_offset == 3


def test_damage_below_the_recovery_point_stops_the_start() -> None:
    on = LogOnMemoryDisk()
    for _ in range(3):
        on.produce(bytes(100))
    on.sync()
    on.disk.damage(f"{DIRECTORY}/{0:020d}.log", on.log.size_bytes - 20, b"\x01")
    with pytest.raises(DiskError, match="damaged at offset 2"):
        on.kill()


def test_durable_records_that_are_gone_stop_the_start() -> None:
    on = LogOnMemoryDisk()
    on.produce(b"a")
    on.sync()
    on.disk.remove(f"{DIRECTORY}/{0:020d}.log")
    with pytest.raises(DiskError, match="is missing at offset 0"):
        on.kill()


def test_damaged_snapshot_gives_way_to_an_older_one() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_bytes=1000))
    for sequence in range(9):
        on.produce(bytes(232), producer=(1, 0), sequence=sequence)
    on.log.close()
    on.checkpoint = 9
    for offset in (6, 9):
        on.disk.damage(f"{DIRECTORY}/{offset:020d}.snapshot", 12, b"\xff")
    report = on.open(was_clean=True).recovery
    assert (report.snapshot_offset, report.batches_read) == (3, 6)
    assert on.log.producers.active()[0].last_sequence == 8
    assert names(on, ".snapshot") == [3]


def test_segment_whose_time_index_lost_its_last_entry_is_not_deleted_early() -> None:
    on = LogOnMemoryDisk(LogConfig(segment_bytes=1000, index_interval_bytes=100, retention_ms=3 * HOUR_MS))
    for hours in (9, 6, 3, 2, 1):
        on.produce(bytes(200), timestamp_ms=START_MS - hours * HOUR_MS)
    path = f"{DIRECTORY}/00000000000000000000.timeindex"
    on.restart()
    whole = on.disk.read_file(path)
    assert len(whole) > 12
    file = on.disk.open(path)
    file.truncate(12)
    file.close()
    on.restart()
    assert on.delete_expired() == 0, "its last record is younger than that"
    on.restart()
    assert on.disk.read_file(path) == whole


def test_log_without_timestamps_is_not_read_again_after_a_clean_stop() -> None:
    on = LogOnMemoryDisk(LogConfig(index_interval_bytes=100))
    for sequence in range(9):
        on.produce(bytes(50), producer=(1, 0), sequence=sequence, timestamp_ms=NO_TIMESTAMP)
    before = on.read_all()
    for _ in range(2):
        report = on.restart().recovery
        assert (report.was_clean, report.bytes_read) == (True, 0)
    assert on.read_all() == before
    assert on.log.max_timestamp() is None


@pytest.mark.parametrize("first_ms", [START_MS, NO_TIMESTAMP])
@pytest.mark.parametrize("harm", ["removed", "emptied"])
def test_log_whose_time_index_is_gone_is_read_again(first_ms: int, harm: str) -> None:
    on = LogOnMemoryDisk()
    for timestamp_ms in (first_ms, START_MS):
        on.produce(b"a", timestamp_ms=timestamp_ms)
    path = f"{DIRECTORY}/00000000000000000000.timeindex"
    on.restart()
    whole = on.disk.read_file(path)
    on.log.close()
    if harm == "removed":
        on.disk.remove(path)
    else:
        on.disk.replace_file(path, b"")
    assert not on.open(was_clean=True).recovery.was_clean
    on.restart()
    assert on.disk.read_file(path) == whole


@pytest.mark.parametrize("size_bytes", [1, 60])
def test_segment_of_less_than_a_header_is_damaged(size_bytes: int) -> None:
    on = LogOnMemoryDisk()
    on.produce(b"a")
    on.log.close()
    on.checkpoint = 1
    path = f"{DIRECTORY}/{0:020d}.log"
    on.disk.replace_file(path, on.disk.read_file(path)[:size_bytes])
    with pytest.raises(DamagedLogError, match="at offset 0"):
        on.open(was_clean=True)


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("with_offsets", [True, False])
def test_indexes_beside_an_empty_segment_count_for_nothing(*, was_clean: bool, with_offsets: bool) -> None:
    """They are left of a segment that began there before: a power cut may keep them, and take its batches."""
    on = old_segments(LogConfig(segment_bytes=1000, retention_ms=1))
    assert on.delete_expired() == 3
    on.sync()
    end = on.checkpoint = on.log.durability.recovery_point
    on.log.close()
    stale = {".timeindex": pack(">qi", START_MS + 100 * HOUR_MS, 5)} | (
        {".index": pack(">ii", 5, 300)} if with_offsets else {}
    )
    for suffix, content in stale.items():
        on.disk.replace_file(f"{DIRECTORY}/{end:020d}{suffix}", content)
    assert on.open(was_clean=was_clean).recovery.was_clean is was_clean
    assert on.log.max_timestamp() is None
    assert on.log.offset_for_timestamp(START_MS, end) is None
    for slot in range(7):
        on.produce(b"a", timestamp_ms=START_MS + slot)
        assert on.log.max_timestamp() == TimestampOffset(START_MS + slot, end + slot)
        assert on.log.offset_for_timestamp(START_MS + slot, end + 7) == TimestampOffset(START_MS + slot, end + slot)
    assert on.log.offset_for_timestamp(START_MS + 7, end + 7) is None
