"""The write-ahead log: the last bytes of many partitions in one file, so that one sync makes them all durable.

A partition's own file gets the same bytes first, and is synced later; then the write-ahead log's file can go. After a
power cut `replay` puts back what the partitions' files have lost.

    crc32c u32 | size u32 | topic id 16 bytes | partition i32 | log end offset i64 | segment base offset i64 | position i64 | data

    crc32c u32 | size of the file before u64                                          at the beginning of each file

The log end offset is the one behind the data. An entry without data vouches for what is before it: it is durable already.
One whose position is negative takes back: the log is cut off at its log end offset, at byte -1 - position of that segment, and
what entries before it have beyond that is void, and so is what they vouch for.
All integers are big-endian; a checksum covers what follows it. An entry is of use only if all before it are there: a file
is read up to the first entry that is not whole, and not at all while the file before it is there and has lost its end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple
from uuid import UUID

from oncelog.environment import Disk, File
from oncelog.log.names import LOG, offset_name, offset_of
from oncelog.records import crc32c

PREFIX = "oncelog-wal-"
SUFFIX = ".log"
_CHECKSUM = struct.Struct(">I")
_FOLLOWS = struct.Struct(">Q")
BEGINNING_BYTES = _CHECKSUM.size + _FOLLOWS.size
_HEADER = struct.Struct(">I16siqqq")
ENTRY_OVERHEAD_BYTES = _CHECKSUM.size + _HEADER.size
NOBODYS = UUID(int=0)


class Tail(NamedTuple):
    """The last bytes of a partition's active segment."""

    segment_base_offset: int
    position: int
    data: bytes


class Entry(NamedTuple):
    """A tail, and whose it is."""

    topic_id: UUID
    partition: int
    log_end_offset: int
    tail: Tail

    @property
    def takes_back(self) -> bool:
        return self.tail.position < 0

    @property
    def end_position(self) -> int:
        """The new end of the segment, for an entry that takes back."""
        return -1 - self.tail.position

    def up_to(self, end: Entry) -> Entry:
        """The part of the entry that is left after `end` has taken back everything beyond."""
        if self.takes_back:
            return self
        base_offset, tail = end.tail.segment_base_offset, self.tail
        if tail.segment_base_offset > base_offset:
            data = b""
        elif tail.segment_base_offset == base_offset:
            data = tail.data[: max(0, end.end_position - tail.position)]
        else:
            data = tail.data
        end_offset = min(self.log_end_offset, end.log_end_offset)
        return self._replace(log_end_offset=end_offset, tail=tail._replace(data=data))


def taking_back(topic_id: UUID, partition: int, log_end_offset: int, base_offset: int, position: int) -> Entry:
    """The entry that says where a log is cut off."""
    return Entry(topic_id, partition, log_end_offset, Tail(base_offset, -1 - position, b""))


@dataclass(slots=True)
class Replayed:
    """The result of a replay: the number of entries that were put back, and the durable end of each partition.

    `is_whole`: no entry was left out for want of the bytes before it. `unread`: files with bytes that are no entry, and how many of
    their bytes were not used for that.
    """

    files: list[str] = field(default_factory=list)
    next_number: int = 0
    count: int = 0
    is_whole: bool = True
    durable_ends: dict[tuple[UUID, int], int] = field(default_factory=dict)
    unread: list[tuple[str, int]] = field(default_factory=list)

    def vouch(self, entry: Entry) -> None:
        """A sync that began before a tail was taken may be vouched for after it: it takes nothing of the tail back."""
        if not entry.takes_back:
            key = (entry.topic_id, entry.partition)
            self.durable_ends[key] = max(entry.log_end_offset, self.durable_ends.get(key, 0))


class WriteAheadLog:
    """One file. Entries are gathered until `write_out`: one write does for all that wait for the same sync.

    They are durable when `file` was synced after that.
    """

    def __init__(self, disk: Disk, directory: str, number: int, follows_bytes: int = 0) -> None:
        """`number` is larger than that of every file before it.

        `follows_bytes` is the size of the file with the number before, without which this one means nothing.
        """
        self.number = number
        self.path = f"{directory}/{PREFIX}{offset_name(number, SUFFIX)}"
        self.file: File = disk.open(self.path, create=True)
        # A file of this name may have come back with a power cut, after it was removed.
        self.file.truncate(0)
        follows = _FOLLOWS.pack(follows_bytes)
        self.file.append([_CHECKSUM.pack(crc32c(follows)) + follows])
        self._gathered: list[bytes] = []
        self.size_bytes = self.file.size_bytes
        """With what is gathered."""

    def append(self, entry: Entry) -> None:
        encoded = _encoded(entry)
        self._gathered.append(encoded)
        self.size_bytes += len(encoded)

    def write_out(self) -> None:
        """Write what is gathered. Raises DiskError."""
        if self._gathered:
            self.file.append([b"".join(self._gathered)])
            self._gathered.clear()


def _encoded(entry: Entry) -> bytes:
    tail = entry.tail
    header = _HEADER.pack(
        len(tail.data),
        entry.topic_id.bytes,
        entry.partition,
        entry.log_end_offset,
        tail.segment_base_offset,
        tail.position,
    )
    return _CHECKSUM.pack(crc32c(tail.data, crc32c(header))) + header + tail.data


def files_in(disk: Disk, directory: str) -> list[tuple[int, str]]:
    """The number and path of every write-ahead log's file, in the order in which they were written."""
    found = []
    for name in disk.list_directory(directory):
        if name.startswith(PREFIX):
            number = offset_of(name[len(PREFIX) :], SUFFIX)
            if number is not None:
                found.append((number, f"{directory}/{name}"))
    return sorted(found)


def read_entries(data: bytes, before_bytes: int | None) -> tuple[list[Entry], int]:
    """Every entry up to the first that is not whole, and where that is.

    `before_bytes` is where the file with the number before ended in this way; None if it was removed.
    """
    found: list[Entry] = []
    if len(data) < BEGINNING_BYTES:
        return found, 0
    (checksum,) = _CHECKSUM.unpack_from(data)
    (follows_bytes,) = _FOLLOWS.unpack_from(data, _CHECKSUM.size)
    is_torn = crc32c(data[_CHECKSUM.size : BEGINNING_BYTES]) != checksum
    if is_torn or (before_bytes is not None and before_bytes < follows_bytes):
        return found, 0
    position = BEGINNING_BYTES
    while position + ENTRY_OVERHEAD_BYTES <= len(data):
        (checksum,) = _CHECKSUM.unpack_from(data, position)
        size, topic_id, partition, end_offset, base_offset, start = _HEADER.unpack_from(data, position + _CHECKSUM.size)
        begin = position + ENTRY_OVERHEAD_BYTES
        end = begin + size
        if end > len(data) or crc32c(data[position + _CHECKSUM.size : end]) != checksum:
            break
        found.append(Entry(UUID(bytes=topic_id), partition, end_offset, Tail(base_offset, start, data[begin:end])))
        position = end
    return found, position


def keep_entries_of(disk: Disk, path: str, owners: Collection[tuple[UUID, int]]) -> None:
    """Let a file have the entries of these partitions alone, durably; the others are nobody's from now on.

    It is as long as it was: a file that follows it is read only behind all of it.
    """
    data = disk.read_file(path)
    entries, _ = read_entries(data, None)
    kept = [one if (one.topic_id, one.partition) in owners else one._replace(topic_id=NOBODYS) for one in entries]
    disk.replace_file(path, data[:BEGINNING_BYTES] + b"".join(map(_encoded, kept)))


def replay(disk: Disk, directory: str, partition_path: Callable[[UUID, int], str | None]) -> Replayed:
    """Put what the write-ahead logs have into the partitions' files, and make it durable there.

    `partition_path` is None for a partition that is no more. The caller removes the files once nothing needs them; until
    then, doing this again changes nothing. Raises DiskError.
    """
    touched: dict[str, File] = {}
    replayed = Replayed()
    before: int | None = None
    entries: list[Entry] = []
    for number, path in files_in(disk, directory):
        if number != replayed.next_number:
            before = None
        data = disk.read_file(path)
        found, before = read_entries(data, before)
        if before < len(data) or not data:
            replayed.unread.append((path, len(data) - before))
        replayed.files.append(path)
        replayed.next_number = number + 1
        entries += found
    for entry in what_counts(entries):
        _put_back(disk, entry, partition_path(entry.topic_id, entry.partition), touched, replayed)
        replayed.vouch(entry)
    disk.sync_all(list(touched.values()))
    for file in touched.values():
        file.close()
    return replayed


def what_counts(entries: Sequence[Entry]) -> list[Entry]:
    """The same entries, each without what later ones have taken back."""
    if not any(entry.takes_back for entry in entries):
        return list(entries)
    ends: dict[tuple[UUID, int], list[Entry]] = {}
    found: list[Entry] = []
    for entry in reversed(entries):
        later = ends.setdefault((entry.topic_id, entry.partition), [])
        found.append(reduce(Entry.up_to, later, entry))
        if entry.takes_back:
            later.append(entry)
    return found[::-1]


def _put_back(disk: Disk, entry: Entry, directory: str | None, touched: dict[str, File], replayed: Replayed) -> None:
    """Write an entry into its segment. A segment too short for its tail stays so: the recovery finds that it ends too early."""
    tail = entry.tail
    # Without data it says only how far the log was durable, and compaction may have made that segment smaller since.
    if directory is None or not tail.data:
        return
    path = f"{directory}/{offset_name(tail.segment_base_offset, LOG)}"
    file = touched.get(path)
    if file is None:
        if not disk.exists(path):
            return  # retention deleted the segment
        file = touched[path] = disk.open(path)
    if file.size_bytes < tail.position:
        replayed.is_whole = False
        return
    file.write(tail.position, tail.data)
    replayed.count += 1
