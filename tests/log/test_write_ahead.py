"""The write-ahead log gives back what it took, up to where it is torn, and only where it belongs."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.memory_disk import MemoryDisk
from oncelog.cli.log.rows import write_ahead_rows
from oncelog.log import Entry, Tail, WriteAheadLog, replay, taking_back
from oncelog.log.write_ahead import BEGINNING_BYTES, files_in, read_entries

DIRECTORY = "/data"
TOPIC, OTHER = UUID(int=7), UUID(int=8)
SEGMENT = f"{DIRECTORY}/t-0/00000000000000000000.log"

tails = st.builds(Tail, st.integers(0, 2**62), st.integers(0, 2**62), st.binary(max_size=50))
several = st.lists(st.builds(Entry, st.uuids(), st.integers(0, 2**31 - 1), st.integers(0, 2**62), tails), max_size=8)


def path_of(topic_id: UUID, partition: int) -> str | None:
    return f"{DIRECTORY}/t-{partition}" if topic_id == TOPIC else None


def disk_with(*written: Entry, number: int = 0, follows_bytes: int = 0, disk: MemoryDisk | None = None) -> MemoryDisk:
    if disk is None:
        disk = MemoryDisk()
        disk.make_directory(DIRECTORY)
    log = WriteAheadLog(disk, DIRECTORY, number, follows_bytes)
    for entry in written:
        log.append(entry)
    log.write_out()
    log.file.sync()
    return disk


def entry(position: int, data: bytes, topic_id: UUID = TOPIC) -> Entry:
    return Entry(topic_id, 0, position + len(data), Tail(0, position, data))


def found_in(data: bytes) -> list[Entry]:
    return read_entries(data, None)[0]


def segment(disk: MemoryDisk, data: bytes) -> None:
    disk.open(SEGMENT, create=True).append([data])


@given(several)
def test_what_was_appended_is_read_back(written):
    ((_, path),) = files_in(disk := disk_with(*written), DIRECTORY)
    assert found_in(disk.read_file(path)) == written


@given(several, st.data())
def test_torn_end_leaves_the_entries_before_it(written, data):
    ((_, path),) = files_in(disk := disk_with(*written), DIRECTORY)
    whole = disk.read_file(path)
    cut = data.draw(st.integers(0, len(whole)))
    tail = data.draw(st.sampled_from([b"", bytes(200)]))
    found = found_in(whole[:cut] + tail)
    assert found == written[: len(found)]
    assert len(found) == len(written) or cut < len(whole)


@given(several, st.data())
def test_changed_byte_ends_the_log_before_its_entry(written, data):
    ((_, path),) = files_in(disk := disk_with(*written), DIRECTORY)
    whole = bytearray(disk.read_file(path))
    if whole:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        found = found_in(bytes(whole))
        assert found == written[: len(found)]
        assert len(found) < len(written) or not written


def size_of(disk: MemoryDisk, number: int) -> int:
    return len(disk.read_file(dict(files_in(disk, DIRECTORY))[number]))


@pytest.mark.parametrize("times", [1, 2])
def test_lost_bytes_are_put_back_however_often_it_is_done(times):
    disk = disk_with(entry(3, b"def"), entry(6, b"ghi"))
    disk_with(entry(9, b"jkl"), number=1, follows_bytes=size_of(disk, 0), disk=disk)
    segment(disk, b"abc\0")
    for _ in range(times):
        replayed = replay(disk, DIRECTORY, path_of)
        assert replayed.count == 3
        assert replayed.next_number == 2
        assert replayed.files == [path for _, path in files_in(disk, DIRECTORY)]
        disk.crash()
        assert disk.read_file(SEGMENT) == b"abcdefghijkl"


@pytest.mark.parametrize("lost_bytes", [0, 1, 3])
def test_file_whose_predecessor_lost_its_end_is_not_read(lost_bytes):
    """The operating system may write out a file before another one, whichever was asked for first."""
    disk = disk_with(entry(3, b"def"), entry(6, b"ghi"))
    ((_, first),) = files_in(disk, DIRECTORY)
    disk_with(entry(9, b"jkl"), number=1, follows_bytes=size_of(disk, 0), disk=disk)
    disk.open(first).truncate(size_of(disk, 0) - lost_bytes)
    segment(disk, b"abc\0")
    replayed = replay(disk, DIRECTORY, path_of)
    assert disk.read_file(SEGMENT) == (b"abcdef" if lost_bytes else b"abcdefghijkl")
    assert replayed.durable_ends == {(TOPIC, 0): 6 if lost_bytes else 12}


def test_file_whose_predecessor_was_removed_is_read():
    disk = disk_with(entry(3, b"def"), number=5, follows_bytes=100)
    segment(disk, b"abc")
    assert replay(disk, DIRECTORY, path_of).next_number == 6
    assert disk.read_file(SEGMENT) == b"abcdef"


def test_file_whose_beginning_was_never_written_is_not_read():
    disk = disk_with(entry(3, b"def"))
    ((_, path),) = files_in(disk, DIRECTORY)
    disk.damage(path, 0, bytes(BEGINNING_BYTES))
    segment(disk, b"abc")
    assert replay(disk, DIRECTORY, path_of).count == 0


def test_entry_without_data_vouches_for_the_file():
    disk = disk_with(entry(3, b""))
    segment(disk, b"abcdef")
    assert replay(disk, DIRECTORY, path_of).durable_ends == {(TOPIC, 0): 3}
    assert disk.read_file(SEGMENT) == b"abcdef"


def test_voucher_of_a_sync_that_began_before_a_tail_takes_nothing_of_it_back():
    """A log of decisions is cut back to what is vouched for: a decision that was answered must not be."""
    disk = disk_with(entry(0, b"decided"), Entry(TOPIC, 0, 3, Tail(0, 3, b"")))
    segment(disk, b"decided")
    assert replay(disk, DIRECTORY, path_of).durable_ends == {(TOPIC, 0): len(b"decided")}


@pytest.mark.parametrize("seed", range(10))
def test_files_that_come_back_with_a_power_cut_change_nothing(seed):
    disk = MemoryDisk(seed)
    disk.make_directory(DIRECTORY)
    disk_with(entry(3, b"def"), disk=disk)
    segment(disk, b"abc")
    for path in replay(disk, DIRECTORY, path_of).files:
        disk.remove(path)
    disk.open(SEGMENT).append([b"ghi"])
    disk.crash()
    replay(disk, DIRECTORY, path_of)
    assert disk.read_file(SEGMENT)[:6] == b"abcdef"


def test_bytes_after_the_last_entry_stay():
    """A process that was killed left more in the page cache than the write-ahead log had taken."""
    disk = disk_with(entry(3, b"def"))
    segment(disk, b"abcdefghi")
    replay(disk, DIRECTORY, path_of)
    assert disk.read_file(SEGMENT) == b"abcdefghi"


def test_entries_of_a_deleted_topic_do_not_touch_one_of_the_same_name():
    disk = disk_with(entry(0, b"old", OTHER))
    segment(disk, b"new")
    assert replay(disk, DIRECTORY, path_of).count == 0
    assert disk.read_file(SEGMENT) == b"new"


def test_segment_that_retention_deleted_does_not_come_back():
    disk = disk_with(entry(0, b"old"))
    assert replay(disk, DIRECTORY, path_of).count == 0
    assert not disk.exists(SEGMENT)


def test_segment_without_the_bytes_before_an_entry_stays_as_it_is():
    """Whoever opens the log finds that it ends before where it is durable."""
    disk = disk_with(entry(4, b"def"))
    segment(disk, b"abc")
    replayed = replay(disk, DIRECTORY, path_of)
    assert (replayed.count, replayed.is_whole, len(replayed.durable_ends)) == (0, False, 1)
    assert disk.read_file(SEGMENT) == b"abc"


def later_segment(position: int, data: bytes) -> Entry:
    return Entry(TOPIC, 0, 1000, Tail(500, position, data))


def test_what_was_taken_back_is_not_put_back_and_not_vouched_for():
    disk = disk_with(
        entry(0, b"aaaa"),
        entry(4, b"bbbb"),
        later_segment(0, b"gone"),
        entry(100, b"other", OTHER),
        taking_back(TOPIC, 0, 2, 0, 6),
        taking_back(OTHER, 0, 90, 0, 103),
    )
    disk_with(later_segment(0, b"new"), number=1, disk=disk)
    segment(disk, b"....NEWDATA")
    replayed = replay(disk, DIRECTORY, path_of)
    assert disk.read_file(SEGMENT) == b"aaaabbWDATA"
    assert replayed.durable_ends == {(TOPIC, 0): 1000, (OTHER, 0): 90}
    assert replayed.is_whole


def test_log_that_was_taken_back_whole_has_nothing_put_back():
    disk = disk_with(entry(0, b"aaaa"), later_segment(0, b"gone"), taking_back(TOPIC, 0, 0, -1, 0))
    segment(disk, b"NEWDATA")
    replayed = replay(disk, DIRECTORY, path_of)
    assert disk.read_file(SEGMENT) == b"NEWDATA"
    assert replayed.durable_ends == {(TOPIC, 0): 0}


def test_what_was_taken_back_twice_ends_where_it_was_less():
    disk = disk_with(entry(0, b"aaaa"), taking_back(TOPIC, 0, 1, 0, 1), entry(1, b"b"), taking_back(TOPIC, 0, 1, 0, 3))
    segment(disk, b"NEWDATA")
    replay(disk, DIRECTORY, path_of)
    assert disk.read_file(SEGMENT) == b"abWDATA"


def test_dump_says_where_a_log_is_cut_off():
    ((_, path),) = files_in(disk := disk_with(entry(0, b"aaaa"), taking_back(TOPIC, 0, 2, 0, 3)), DIRECTORY)
    rows = [(row["kind"], row["log_end_offset"], row["position"]) for row in write_ahead_rows(disk, path)]
    assert rows == [("entry", 4, 0), ("cut", 2, 3)]
