"""What a reader gets: whole batches, from the right place, no more than asked for unless one is larger."""

from __future__ import annotations

from struct import iter_unpack, pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from harness.manual_clock import START_MS
from oncelog.environment import DiskError
from oncelog.log import LogConfig, TimestampOffset
from oncelog.records import ControlType, batches, decode_batch

SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=300)


def offsets_in(data: object) -> list[int]:
    return [header.base_offset for _, header in batches(data)]  # type: ignore[arg-type]


def test_read_begins_with_the_batch_that_contains_the_offset() -> None:
    on = LogOnMemoryDisk()
    on.produce(b"a", b"b", b"c")
    on.produce(b"d", b"e")
    part = on.log.read(4, 1 << 20, 5)
    assert (offsets_in(part.data), part.next_offset) == ([3], 5)


def test_read_at_the_limit_is_empty() -> None:
    on = LogOnMemoryDisk()
    on.produce(b"a")
    part = on.log.read(1, 1 << 20, 1)
    assert (bytes(part.data), part.next_offset) == (b"", 1)


def test_batch_larger_than_the_limit_is_read_whole() -> None:
    on = LogOnMemoryDisk()
    on.produce(bytes(50_000))
    on.produce(b"x")
    part = on.log.read(0, 100, 2)
    assert (offsets_in(part.data), part.next_offset) == ([0], 1)
    assert len(part.data) > 50_000  # type: ignore[arg-type]


def test_read_ends_below_the_limit_offset() -> None:
    on = LogOnMemoryDisk(LogConfig(index_interval_bytes=100))
    for _ in range(50):
        on.produce(bytes(60))
    for limit in (1, 17, 18, 49, 50):
        part = on.log.read(0, 1 << 20, limit)
        assert (offsets_in(part.data), part.next_offset) == (list(range(limit)), limit)


def test_read_goes_on_in_the_next_segment() -> None:
    on = LogOnMemoryDisk(SMALL)
    for _ in range(60):
        on.produce(bytes(200))
    assert len(list(on.disk.list_directory(DIRECTORY))) > 10
    data = on.read_all()
    assert offsets_in(data) == list(range(60))
    on.restart()
    assert on.read_all() == data


@given(
    sizes=st.lists(st.integers(0, 900), min_size=1, max_size=40),
    size_bytes_max=st.integers(0, 5000),
    share=st.floats(0, 1),
    restart=st.booleans(),
)
def test_any_read_gives_whole_batches_in_order(
    sizes: list[int], size_bytes_max: int, share: float, restart: bool
) -> None:
    on = LogOnMemoryDisk(SMALL)
    for size_bytes in sizes:
        on.produce(*([bytes(size_bytes // 3)] * 3))
    if restart:
        on.restart()
    end = on.log.log_end_offset
    offset = int(share * (end - 1))
    limit = end - end // 2 // 3 * 3
    part = on.log.read(offset, size_bytes_max, limit)
    found = [header for _, header in batches(part.data)]
    if offset >= limit:
        assert not found
        return
    assert found[0].base_offset <= offset <= found[0].last_offset
    assert sum(header.size_bytes for header in found) == len(part.data)  # type: ignore[arg-type]
    assert part.next_offset == found[-1].next_offset <= limit
    assert len(part.data) <= size_bytes_max or len(found) == 1  # type: ignore[arg-type]


def test_reader_that_goes_on_where_it_ended_reads_the_file_once() -> None:
    on = LogOnMemoryDisk()
    for _ in range(100):
        on.produce(bytes(1000))
    part = on.log.read(0, 10_000, 100)
    reads = on.disk.reads
    on.log.read(part.next_offset, 10_000, 100)
    assert on.disk.reads == reads + 1


def test_index_that_is_gone_is_made_again() -> None:
    on = LogOnMemoryDisk(SMALL)
    for _ in range(60):
        on.produce(bytes(200))
    data = on.read_all()
    on.log.close()
    on.checkpoint = on.log.durability.recovery_point
    for name in on.disk.list_directory(DIRECTORY):
        if name.endswith((".index", ".timeindex")):
            on.disk.remove(f"{DIRECTORY}/{name}")
    on.open(was_clean=True)
    assert on.log.read(33, 600, 60).next_offset == 35
    assert on.read_all() == data


@pytest.mark.parametrize("content", [bytes(32), b"\xff" * 32, bytes(range(32))], ids=["zeros", "ones", "bytes"])
def test_index_that_makes_no_sense_is_made_again(content: bytes) -> None:
    on = LogOnMemoryDisk(SMALL)
    for _ in range(60):
        on.produce(bytes(200))
    data = on.read_all()
    on.log.close()
    on.checkpoint = on.log.durability.recovery_point
    on.disk.damage(f"{DIRECTORY}/{0:020d}.index", 0, content)
    on.open(was_clean=True)
    assert on.log.read(7, 600, 60).next_offset == 9
    assert on.read_all(700) == data


@pytest.mark.parametrize("position", [8, 16, 30, 61 + 40, 4 * 270])
def test_damaged_batch_of_an_earlier_life_is_never_handed_out(position: int) -> None:
    """A disk that changes durable bytes stops the broker: the message names the file and the offset."""
    on = LogOnMemoryDisk(SMALL)
    for _ in range(60):
        on.produce(bytes(200))
    on.log.close()
    on.checkpoint = on.log.durability.recovery_point
    on.disk.damage(f"{DIRECTORY}/{0:020d}.log", position, b"\x55\xaa\x55")
    on.open(was_clean=True)
    with pytest.raises(DiskError, match=r"orders-0/0{20}\.log is damaged at offset"):
        on.read_all()


def test_first_record_at_or_after_a_time_is_found() -> None:
    on = LogOnMemoryDisk(SMALL)
    times = [START_MS + 10 * slot for slot in range(80)]
    for time_ms in times:
        on.produce(bytes(150), timestamp_ms=time_ms)
    for _ in range(2):
        for slot in (0, 1, 30, 79):
            assert on.log.offset_for_timestamp(times[slot] - 3, 80) == TimestampOffset(times[slot], slot)
            assert on.log.offset_for_timestamp(times[slot], 80) == TimestampOffset(times[slot], slot)
        assert on.log.offset_for_timestamp(times[30], 30) is None
        assert on.log.offset_for_timestamp(times[-1] + 1, 80) is None
        on.restart()


def test_first_record_is_found_where_times_go_back() -> None:
    on = LogOnMemoryDisk(SMALL)
    for time_ms in (5, 9, 3, 9, 7):
        on.produce(b"x", timestamp_ms=START_MS + time_ms)
    assert on.log.offset_for_timestamp(START_MS + 6, 5) == TimestampOffset(START_MS + 9, 1)
    assert on.log.max_timestamp() == TimestampOffset(START_MS + 9, 1)


def test_time_of_a_marker_is_not_that_of_a_record() -> None:
    on = LogOnMemoryDisk()
    on.produce(b"x", producer=(1, 0), sequence=0, transactional=True)
    on.clock.advance(50)
    on.mark(ControlType.COMMIT, (1, 0))
    on.produce(b"y", timestamp_ms=START_MS + 40)
    assert on.log.offset_for_timestamp(START_MS + 30, 3) == TimestampOffset(START_MS + 40, 2)


def test_empty_log_has_no_times() -> None:
    on = LogOnMemoryDisk()
    assert on.log.max_timestamp() is None
    assert on.log.offset_for_timestamp(0, 0) is None


def test_append_time_replaces_the_producers_time() -> None:
    on = LogOnMemoryDisk(LogConfig(message_timestamp_type="LogAppendTime"))
    appended = on.produce(b"x", b"y", timestamp_ms=5)
    assert appended.log_append_time_ms == START_MS
    assert [record.timestamp_ms for record in decode_batch(on.read_all())] == [START_MS, START_MS]
    assert on.restart().max_timestamp() == TimestampOffset(START_MS, 0)


@pytest.mark.parametrize("restarts", [False, True])
def test_size_of_what_came_since_the_last_read_is_exact_and_reads_nothing(restarts: bool) -> None:
    on = LogOnMemoryDisk(LogConfig(index_interval_bytes=300))
    for _ in range(20):
        on.produce(bytes(200))
    log = on.restart() if restarts else on.log
    assert log.size_between(20, 20) == 0
    before = log.size_bytes
    for index in range(30):
        on.produce(bytes(70 * index))
        reads = on.disk.reads
        assert log.size_between(20, 21 + index) == log.size_bytes - before
        assert on.disk.reads == reads


@given(
    st.lists(st.integers(0, 900), min_size=1, max_size=60),
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
    st.booleans(),
)
def test_size_between_two_offsets_is_what_is_read_and_at_most_what_the_index_leaves_open(
    sizes_bytes: list[int], places: tuple[float, float, float], restarts: bool
) -> None:
    on = LogOnMemoryDisk(SMALL)
    for size_bytes in sizes_bytes:
        on.produce(bytes(size_bytes))
    log = on.restart() if restarts else on.log
    end = log.log_end_offset
    read_before, first, limit = (round(place * end) for place in places)
    log.read(read_before, 1 << 20, end)
    estimated = log.size_between(first, limit)
    offset, there = first, 0
    while offset < limit:
        part = log.read(offset, 1 << 20, limit)
        there += memoryview(part.data).nbytes
        offset = part.next_offset
    assert estimated >= log.size_between(first, limit) >= there
    if first < limit:
        assert log.batch_bytes(first) == memoryview(log.read(first, 1, end).data).nbytes
    assert first < limit or estimated == 0
    if limit == end:
        assert log.size_between(first, limit) == there


def test_entry_of_the_time_index_that_names_another_batch_is_not_believed() -> None:
    on = LogOnMemoryDisk(LogConfig(index_interval_bytes=300))
    for slot in range(40):
        on.produce(bytes(200), timestamp_ms=START_MS + 10 * slot)
    on.restart()
    path = f"{DIRECTORY}/{0:020d}.timeindex"
    entries = [list(entry) for entry in iter_unpack(">qi", on.disk.read_file(path))]
    entries[0][1] = entries[1][1]
    on.disk.damage(path, 0, b"".join(pack(">qi", *entry) for entry in entries))
    on.restart()
    time_ms = entries[0][0] + 10
    assert on.log.offset_for_timestamp(time_ms, 40) == TimestampOffset(time_ms, (time_ms - START_MS) // 10)
