"""Nothing that is asked of a log is answered with what was deleted from its beginning, wherever in a batch it begins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.cleaned_logs import records_of
from harness.log_on_memory_disk import LogOnMemoryDisk
from harness.manual_clock import START_MS
from oncelog.log import LogConfig, PartitionLog, TimestampOffset
from oncelog.records import Record, batches, build_batch, check_batch

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=150)
TIMES = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), min_size=1, max_size=20)
"""The times of the records of each batch."""


def written(times: list[list[int]]) -> tuple[LogOnMemoryDisk, list[int]]:
    """A log with a leader epoch for every five batches, and the time of the record at each offset."""
    on = LogOnMemoryDisk(SMALL)
    for number, batch_times in enumerate(times):
        if number % 5 == 0:
            on.log.lead(number // 5)
        batch = build_batch([Record(None, b"v", timestamp_ms=START_MS + time) for time in batch_times])
        on.append(batch)
        check_batch(batch)
    return on, [time for batch_times in times for time in batch_times]


def check(log: PartitionLog, times: list[int]) -> None:
    start, end = log.log_start_offset, log.log_end_offset
    kept = list(enumerate(times))[start:]
    for time in (0, 7, 15, 30):
        expected = next((TimestampOffset(START_MS + at, offset) for offset, at in kept if at >= time), None)
        assert log.offset_for_timestamp(START_MS + time, end) == expected
    largest = max((at for _, at in kept), default=None)
    expected = next((TimestampOffset(START_MS + at, offset) for offset, at in kept if at == largest), None)
    assert log.max_timestamp() == expected
    assert [record.offset for record in records_of(log, committed=False)] == [offset for offset, _ in kept]
    for epoch in range(log.leader_epoch + 1):
        _, epoch_end = log.epoch_end_offset(epoch)
        assert epoch_end == -1 or start <= epoch_end <= end
    if start < end:
        part = log.read(start, 1, end)
        (first, *_) = [header for _, header in batches(part.data)]  # type: ignore[arg-type]
        assert first.base_offset <= start <= first.last_offset, "the one batch that has the first record, as in Kafka"


@given(TIMES, st.data())
def test_times_epochs_and_reads_begin_with_the_log(times: list[list[int]], data: st.DataObject) -> None:
    on, flat = written(times)
    check(on.log, flat)
    for _ in range(3):
        offset = data.draw(st.integers(on.log.log_start_offset, on.log.log_end_offset))
        on.log.advance_log_start(offset)
        check(on.log, flat)
        if data.draw(st.booleans()):
            on.log.retention.delete_left(on.log.log_start_offset)
            check(on.log, flat)


def test_segments_stay_while_no_checkpoint_says_that_the_log_begins_behind_them() -> None:
    """DeleteRecords may move the beginning on while the checkpoint of the one before is written."""
    on = LogOnMemoryDisk(LogConfig(segment_bytes=100))
    for _ in range(5):
        on.produce(bytes(20))
    on.log.advance_log_start(1)
    said = on.log.log_start_offset
    on.log.advance_log_start(3)
    assert on.log.retention.delete_left(said) == 1
    assert on.log.retention.delete_left(on.log.log_start_offset) == 2
    assert not on.log.retention.has_left
