"""What a cleaning keeps and removes, case by case."""

from __future__ import annotations

import pytest

from harness.cleaned_logs import LOAD_FACTOR, MAP_BYTES, clean, compacted, latest_of, records_of, roll, steps, write
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from oncelog.log import Appended, TimestampOffset
from oncelog.log.compaction import UncleanableError
from oncelog.records import BatchHeader, Codec, ControlType, Record, batches, build_batch
from oncelog.records.batch import read_header, seal_packed

DAY_MS = 86_400_000


def keys_and_values(on: LogOnMemoryDisk) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_of(on.log, committed=False)]


def headers(on: LogOnMemoryDisk) -> list[BatchHeader]:
    return [header for _, header in batches(on.read_all())]


def clean_again(on: LogOnMemoryDisk) -> None:
    on.log.compaction.cleaned_offset = 0
    assert clean(on)


def names(on: LogOnMemoryDisk, suffix: str) -> list[int]:
    return [int(name[:20]) for name in on.disk.list_directory(DIRECTORY) if name.endswith(suffix)]


def test_last_record_of_each_key_stays_where_it_is() -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")])
    write(on, [(b"b", b"2")])
    roll(on)
    assert clean(on)
    assert keys_and_values(on) == [(2, b"a", b"2"), (3, b"b", b"2")]
    assert [(one.base_offset, one.last_offset_delta, one.record_count) for one in headers(on)] == [(0, 2, 1), (3, 0, 1)]
    assert records_of(on.log, committed=False)[0].headers == (("h", b"a"),)


def test_active_segment_is_left_alone() -> None:
    on = LogOnMemoryDisk(compacted())
    for _ in range(2):
        write(on, [(b"a", b"1")])
    assert not clean(on)
    roll(on)
    write(on, [(b"a", b"2")])
    assert clean(on)
    assert [offset for offset, _, _ in keys_and_values(on)] == [1, 2]


def test_nothing_beyond_an_open_transaction_is_cleaned() -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"a", b"1"), (b"a", b"2")])
    roll(on)
    write(on, [(b"a", b"3")], producer=(1, 0), sequence=0, transactional=True)
    write(on, [(b"a", b"4"), (b"a", b"5")])
    roll(on)
    assert clean(on)
    assert [offset for offset, _, _ in keys_and_values(on)] == [1, 2, 3, 4]
    on.mark(ControlType.ABORT, (1, 0))
    roll(on)
    assert clean(on)
    assert keys_and_values(on) == [(4, b"a", b"5")]


def test_transaction_that_was_aborted_before_the_dirty_part_hides_no_later_one_of_its_producer() -> None:
    """What a key was set to is learned from the first dirty offset on, where that transaction's marker is not met."""
    on = LogOnMemoryDisk(compacted(delete_retention_ms=0))
    write(on, [(b"a", b"1")])
    write(on, [(b"b", b"1")], producer=(1, 0), sequence=0, transactional=True)
    on.mark(ControlType.ABORT, (1, 0))
    write(on, [(b"c", b"1")], producer=(1, 0), sequence=1, transactional=True)
    on.mark(ControlType.COMMIT, (1, 0))
    roll(on)
    before = on.log.log_end_offset
    write(on, [(b"a", None)], producer=(1, 0), sequence=2, transactional=True)
    on.mark(ControlType.COMMIT, (1, 0))
    roll(on)
    on.log.compaction.cleaned_offset = before
    assert clean(on)
    assert b"1" not in [value for _, key, value in keys_and_values(on) if key == b"a"]


@pytest.mark.parametrize("codec", list(Codec))
def test_batch_that_loses_records_keeps_its_codec(codec: Codec) -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"a", bytes(200)), (b"b", bytes(200))], codec=codec)
    write(on, [(b"a", b"2")])
    roll(on)
    assert clean(on)
    assert keys_and_values(on) == [(1, b"b", bytes(200)), (2, b"a", b"2")]
    assert headers(on)[0].codec is codec


def test_batch_that_loses_nothing_keeps_its_bytes() -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"a", b"1")])
    write(on, [(b"b", b"1"), (b"c", b"2")], codec=Codec.ZSTD)
    roll(on)
    before = on.read_all()
    assert clean(on)
    assert on.read_all() == before


def test_tombstone_stays_until_its_delete_horizon() -> None:
    on = LogOnMemoryDisk(compacted(delete_retention_ms=DAY_MS))
    write(on, [(b"a", b"1")])
    write(on, [(b"a", None), (b"b", b"1")])
    roll(on)
    assert clean(on)
    horizon_ms = headers(on)[0].delete_horizon_ms
    assert horizon_ms == on.clock.now_ms() + DAY_MS
    assert [(record.key, record.timestamp_ms) for record in records_of(on.log, committed=False)] == [
        (b"a", on.clock.now_ms()),
        (b"b", on.clock.now_ms()),
    ]
    on.clock.advance(DAY_MS - 1)
    clean_again(on)
    assert (1, b"a", None) in keys_and_values(on)
    assert headers(on)[0].delete_horizon_ms == horizon_ms
    on.clock.advance(1)
    clean_again(on)
    assert keys_and_values(on) == [(2, b"b", b"1")]


def test_aborted_records_go_at_once_and_their_marker_later() -> None:
    on = LogOnMemoryDisk(compacted(delete_retention_ms=DAY_MS, producer_id_expiration_ms=1))
    write(on, [(b"a", b"1")])
    write(on, [(b"a", b"2"), (b"b", b"2")], producer=(1, 0), sequence=0, transactional=True)
    on.mark(ControlType.ABORT, (1, 0))
    write(on, [(b"c", b"3")])
    roll(on)
    on.clock.advance(1)
    on.log.expire_producers(on.clock.now_ms())
    assert clean(on)
    assert keys_and_values(on) == [(0, b"a", b"1"), (4, b"c", b"3")]
    # The first cleaning has met the records, the second has not.
    marker = headers(on)[1]
    assert marker.is_control
    assert marker.delete_horizon_ms is None
    assert len(on.log.aborted_transactions(0, 5)) == 1
    clean_again(on)
    assert headers(on)[1].delete_horizon_ms == on.clock.now_ms() + DAY_MS
    assert on.log.aborted_transactions(0, 5) == ()
    on.clock.advance(DAY_MS)
    clean_again(on)
    assert [header.is_control for header in headers(on)] == [False, False]


def test_marker_of_a_commit_stays_as_long_as_its_records() -> None:
    on = LogOnMemoryDisk(compacted(producer_id_expiration_ms=1))
    write(on, [(b"a", b"1")], producer=(1, 0), sequence=0, transactional=True)
    on.mark(ControlType.COMMIT, (1, 0))
    roll(on)
    on.clock.advance(1)
    on.log.expire_producers(on.clock.now_ms())
    for _ in range(4):
        clean_again(on)
    assert [header.is_control for header in headers(on)] == [False, True]
    write(on, [(b"a", b"2")])
    roll(on)
    for _ in range(4):
        clean_again(on)
    assert [header.base_offset for header in headers(on)] == [2]


def test_last_batch_of_a_live_producer_stays_without_records() -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"a", b"1")], producer=(1, 0), sequence=0)
    write(on, [(b"a", b"2"), (b"a", b"3")], producer=(1, 0), sequence=1, codec=Codec.GZIP)
    write(on, [(b"a", b"4")])
    roll(on)
    assert clean(on)
    empty, last = headers(on)
    assert (empty.record_count, empty.size_bytes, empty.last_sequence, empty.last_offset) == (0, 61, 2, 2)
    assert last.base_offset == 3
    for name in on.disk.list_directory(DIRECTORY):
        if name.endswith(".snapshot"):
            on.disk.remove(f"{DIRECTORY}/{name}")
    assert on.kill().producers.active()[0].last_sequence == 2


def test_last_batch_of_a_live_producer_that_was_aborted_stays_without_records() -> None:
    """KIP-98: a batch that was written twice is known by the producer's last sequence, whatever became of its transaction."""
    on = LogOnMemoryDisk(compacted())
    batch = on.batch([b"1"], producer=(1, 0), sequence=0, transactional=True)
    on.append(batch)
    on.mark(ControlType.ABORT, (1, 0))
    write(on, [(b"a", b"2")])
    roll(on)
    state = on.log.producers.active()
    for _ in range(4):
        clean_again(on)
    last = headers(on)[0]
    assert (last.record_count, last.last_sequence, last.is_control) == (0, 0, False)
    for name in on.disk.list_directory(DIRECTORY):
        if name.endswith(".snapshot"):
            on.disk.remove(f"{DIRECTORY}/{name}")
    assert on.kill().producers.active() == state
    again = on.append(batch)
    assert isinstance(again, Appended)
    assert again.duplicate


@pytest.mark.parametrize("restarts", [False, True])
def test_largest_timestamp_is_that_of_a_record_and_of_no_batch_without_records(restarts: bool) -> None:
    on = LogOnMemoryDisk(compacted())
    late_ms = on.clock.now_ms() + 1000
    on.append(build_batch([Record(b"a", b"1", timestamp_ms=late_ms)], producer_id=1, producer_epoch=0, base_sequence=0))
    on.append(build_batch([Record(b"b", b"1", timestamp_ms=late_ms - 2), Record(b"a", b"2", timestamp_ms=late_ms - 1)]))
    roll(on)
    on.append(build_batch([Record(b"c", b"1", timestamp_ms=late_ms - 1)]))
    roll(on)
    assert on.log.max_timestamp() == TimestampOffset(late_ms, 0)
    clean(on)
    assert [record.offset for record in records_of(on.log, committed=False)] == [1, 2, 3]
    log = on.restart() if restarts else on.log
    assert log.max_timestamp() == TimestampOffset(late_ms - 1, 2)
    log.advance_log_start(3)
    assert log.max_timestamp() == TimestampOffset(late_ms - 1, 3)
    assert log.offset_for_timestamp(late_ms, 4) is None


def test_last_batch_of_a_producer_that_is_forgotten_goes() -> None:
    on = LogOnMemoryDisk(compacted(producer_id_expiration_ms=1))
    write(on, [(b"a", b"1")], producer=(1, 0), sequence=0)
    write(on, [(b"a", b"2")])
    roll(on)
    on.clock.advance(1)
    on.log.expire_producers(on.clock.now_ms())
    assert clean(on)
    assert [header.base_offset for header in headers(on)] == [1]


def test_marker_that_alone_tells_the_epoch_of_a_live_producer_stays() -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"a", b"1")], producer=(1, 0), sequence=0, transactional=True)
    # The marker of a transaction of version 2 has the next epoch.
    on.mark(ControlType.ABORT, (1, 1), transaction_version=2)
    write(on, [(b"a", b"2")])
    roll(on)
    for _ in range(4):
        clean_again(on)
    assert [(one.is_control, one.producer_epoch) for one in headers(on)] == [(True, 1), (False, -1)]


def test_records_without_a_key_are_removed() -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(None, b"1"), (b"a", b"1")])
    roll(on)
    assert clean(on)
    assert keys_and_values(on) == [(1, b"a", b"1")]


def test_empty_key_is_a_key() -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"", b"1"), (b"", b"2")])
    roll(on)
    assert clean(on)
    assert keys_and_values(on) == [(1, b"", b"2")]


def test_small_neighbours_become_one_segment() -> None:
    on = LogOnMemoryDisk(compacted())
    for number in range(40):
        write(on, [(b"a", bytes([number]) * 100)])
    before = names(on, ".log")
    assert len(before) > 5
    assert clean(on)
    # Each of the groups is as large as one segment before.
    clean_again(on)
    assert len(names(on, ".log")) < len(before)
    assert len(names(on, ".snapshot")) == len(names(on, ".log")) - 1
    assert latest_of(records_of(on.log, committed=False))[b"a"].offset == 39
    for suffix in (".cleaned", ".swap"):
        assert names(on, suffix) == []
    on.clock.advance(on.config.file_delete_delay_ms)
    assert names(on, ".deleted") == []


def test_every_segment_ends_where_the_next_one_begins() -> None:
    on = LogOnMemoryDisk(compacted())
    for number in range(40):
        write(on, [(b"a", bytes([number]) * 100)])
    assert clean(on)
    bases = names(on, ".log")
    ends = [header.next_offset for header in headers(on)]
    assert set(bases[1:]) <= set(ends)


def test_map_that_is_too_small_takes_several_cleanings() -> None:
    on = LogOnMemoryDisk(compacted())
    for number in range(40):
        write(on, [(b"%d" % (number % 10), bytes(60))])
    roll(on)
    passes = 0
    while clean(on, map_bytes=4 * 24):
        passes += 1
    assert passes > 3
    assert [offset for offset, _, _ in keys_and_values(on)] == list(range(30, 40))


def test_indexes_lead_to_every_offset() -> None:
    on = LogOnMemoryDisk(compacted(segment_bytes=100_000, index_interval_bytes=200))
    for number in range(300):
        on.clock.advance(10)
        write(on, [(b"%d" % (number % 100), bytes(50)), (b"%d" % number, b"")])
    roll(on)
    assert clean(on)
    expected = records_of(on.log, committed=False)
    log = on.kill()
    for offset in range(0, 600, 7):
        assert records_of(log, offset, committed=False) == [one for one in expected if one.offset >= offset]
    for record in expected[:: len(expected) // 10]:
        found = log.offset_for_timestamp(record.timestamp_ms, log.log_end_offset)
        assert found is not None
        assert found.offset == min(one.offset for one in expected if one.timestamp_ms >= record.timestamp_ms)


def test_cleaned_log_is_deleted_by_its_age() -> None:
    on = LogOnMemoryDisk(compacted(retention_ms=DAY_MS))
    write(on, [(b"a", b"1")])
    roll(on)
    write(on, [(b"b", bytes(900))])
    roll(on)
    write(on, [(b"a", b"2"), (b"b", b"2")])
    roll(on)
    assert clean(on)
    on.clock.advance(DAY_MS + 1)
    on.delete_expired()
    assert on.log.log_start_offset == on.log.log_end_offset == 4


@pytest.mark.parametrize("change", ["delete", "truncate", "retention", "settings", "close"])
def test_cleaning_is_dropped_when_the_segments_change(change: str) -> None:
    def written() -> LogOnMemoryDisk:
        on = LogOnMemoryDisk(compacted(retention_bytes=900))
        for number in range(30):
            write(on, [(b"a", bytes([number]) * 100)])
        on.sync()
        return on

    on = written()
    expected = records_of(on.log, committed=False)
    for at in range(sum(1 for _ in steps(on.log))):
        on = written()
        under_way = steps(on.log)
        for _ in range(at + 1):
            next(under_way)
        if change == "delete":
            on.log.delete()
        elif change == "truncate":
            on.log.truncate_to(29)
        elif change == "retention":
            assert on.delete_expired()
        elif change == "settings":
            on.log.configure(LogOnMemoryDisk().config)
        else:
            on.log.close()
        assert list(under_way) == []
        if change in ("truncate", "retention", "settings"):
            log = on.log
            kept = [one.offset for one in records_of(log, committed=False)]
            assert set(kept) <= {one.offset for one in expected}
            assert kept[-1] == (28 if change == "truncate" else 29)
        on.checkpoint = min(on.checkpoint, on.log.durability.recovery_point)
        on.clock.advance(on.config.file_delete_delay_ms)
        if on.disk.exists(DIRECTORY):
            on.open(was_clean=False)
            assert names(on, ".cleaned") + names(on, ".swap") + names(on, ".deleted") == []


def test_what_is_not_durable_yet_is_not_cleaned() -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"a", b"1"), (b"a", b"2")])
    roll(on)
    assert on.log.compaction.dirt(on.clock.now_ms()) is not None
    assert on.log.compaction.begin(MAP_BYTES, LOAD_FACTOR) is None


def test_batch_that_cannot_be_read_leaves_the_log_as_it_is() -> None:
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"a", bytes(100)), (b"a", bytes(100))], codec=Codec.ZSTD)
    roll(on)
    on.sync()
    path = f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(on.disk.read_file(path))
    # A body that no codec wrote, under a checksum that is right.
    damaged = seal_packed(read_header(data), b"\xff" * (len(data) - 61))
    on.disk.damage(path, 0, damaged)
    before = on.disk.read_file(path)
    with pytest.raises(UncleanableError):
        list(steps(on.log))
    on.log.compaction.drop()
    assert on.disk.read_file(path) == before


def test_segment_ends_when_max_compaction_lag_is_over() -> None:
    on = LogOnMemoryDisk(compacted(max_compaction_lag_ms=1000))
    write(on, [(b"a", b"1"), (b"a", b"2")])
    on.clock.advance(1001)
    write(on, [(b"b", b"1")])
    on.sync()
    on.clock.advance(1001)
    dirt = on.log.compaction.dirt(on.clock.now_ms())
    assert dirt is not None
    assert dirt.is_overdue
    assert dirt.end_offset == 2


def test_overdue_segment_ends_without_an_append() -> None:
    on = LogOnMemoryDisk(compacted(max_compaction_lag_ms=1000))
    on.log.compaction.roll_overdue(on.clock.now_ms() + 5000)
    write(on, [(b"a", b"1"), (b"a", b"2")])
    on.clock.advance(1000)
    on.log.compaction.roll_overdue(on.clock.now_ms())
    assert on.log.compaction.dirt(on.clock.now_ms()) is None
    on.clock.advance(1)
    for _ in range(2):
        on.log.compaction.roll_overdue(on.clock.now_ms())
        dirt = on.log.compaction.dirt(on.clock.now_ms())
        assert dirt is not None
        assert dirt.end_offset == 2
    assert len([name for name in on.disk.list_directory(DIRECTORY) if name.endswith(".log")]) == 2


def test_records_wait_for_min_compaction_lag() -> None:
    on = LogOnMemoryDisk(compacted(min_compaction_lag_ms=1000))
    write(on, [(b"a", b"1")])
    roll(on)
    on.clock.advance(500)
    write(on, [(b"a", b"2")])
    roll(on)
    assert on.log.compaction.dirt(on.clock.now_ms()) is None
    on.clock.advance(500)
    dirt = on.log.compaction.dirt(on.clock.now_ms())
    assert dirt is not None
    assert dirt.end_offset == 1


def test_clean_share_counts_against_cleaning() -> None:
    on = LogOnMemoryDisk(compacted(min_cleanable_dirty_ratio=0.5))
    for number in range(8):
        write(on, [(b"%d" % number, bytes(100))])
    roll(on)
    assert clean(on)
    write(on, [(b"new", bytes(100))])
    roll(on)
    dirt = on.log.compaction.dirt(on.clock.now_ms())
    assert dirt is not None
    assert 0 < dirt.ratio < 0.5
    assert not on.log.compaction.is_worth_cleaning(dirt)
