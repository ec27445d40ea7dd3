"""The write-ahead log: the last bytes of many partitions in one file, so that one sync makes them all durable.

A partition's own file gets the same bytes first, and is synced later; then the write-ahead log's file can go. After a
power cut `replay` puts back what the partitions' files have lost.

    crc32c u32 | size u32 | topic id 16 bytes | partition i32 | segment base offset i64 | position i64 | data

All integers are big-endian; the checksum covers what follows it. An entry is of use only if all before it are there, and
that is how a file that is only ever appended to is lost: from the end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from crc32c import crc32c

from oncelog.environment import Disk, DiskError, File
from oncelog.log.names import LOG, offset_name, offset_of

PREFIX = "oncelog-wal-"
SUFFIX = ".log"
_CHECKSUM = struct.Struct(">I")
_HEADER = struct.Struct(">I16siqq")
ENTRY_OVERHEAD_BYTES = _CHECKSUM.size + _HEADER.size


@dataclass(frozen=True, slots=True)
class Tail:
    """The last bytes of a partition's active segment."""

    segment_base_offset: int
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """A tail, and whose it is."""

    topic_id: UUID
    partition: int
    tail: Tail


class WriteAheadLog:
    """One file. Its entries are durable when `file` was synced after they were appended."""

    def __init__(self, disk: Disk, directory: str, number: int) -> None:
        """`number` is larger than that of every file before it."""
        self.number = number
        self.path = f"{directory}/{PREFIX}{offset_name(number, SUFFIX)}"
        self.file: File = disk.open(self.path, create=True)
        # A file of this name may have come back with a power cut, after it was removed.
        self.file.truncate(0)

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes

    def append(self, entry: Entry) -> None:
        tail = entry.tail
        header = _HEADER.pack(
            len(tail.data), entry.topic_id.bytes, entry.partition, tail.segment_base_offset, tail.position
        )
        checksum = crc32c(tail.data, crc32c(header))
        self.file.append([_CHECKSUM.pack(checksum) + header + tail.data])


def files_in(disk: Disk, directory: str) -> list[tuple[int, str]]:
    """The number and path of every write-ahead log's file, in the order in which they were written."""
    found = []
    for name in disk.list_directory(directory):
        if name.startswith(PREFIX):
            number = offset_of(name[len(PREFIX) :], SUFFIX)
            if number is not None:
                found.append((number, f"{directory}/{name}"))
    return sorted(found)


def entries(data: bytes) -> Iterator[Entry]:
    """Every entry up to the first that is not whole."""
    position = 0
    while position + ENTRY_OVERHEAD_BYTES <= len(data):
        (checksum,) = _CHECKSUM.unpack_from(data, position)
        size, topic_id, partition, base_offset, start = _HEADER.unpack_from(data, position + _CHECKSUM.size)
        begin = position + ENTRY_OVERHEAD_BYTES
        end = begin + size
        if end > len(data) or crc32c(data[position + _CHECKSUM.size : end]) != checksum:
            return
        yield Entry(UUID(bytes=topic_id), partition, Tail(base_offset, start, data[begin:end]))
        position = end


def replay(disk: Disk, directory: str, partition_path: Callable[[UUID, int], str | None]) -> int:
    """Put what the write-ahead logs have into the partitions' files, make it durable there, and remove them.

    `partition_path` is None for a partition that is no more. Return how many entries were put back. Raises DiskError.
    """
    found = files_in(disk, directory)
    touched: dict[str, File] = {}
    count = 0
    for _, path in found:
        for entry in entries(disk.read_file(path)):
            count += _put_back(disk, entry, partition_path(entry.topic_id, entry.partition), touched)
    for file in touched.values():
        file.sync()
        file.close()
    for _, path in found:
        disk.remove(path)
    return count


def _put_back(disk: Disk, entry: Entry, directory: str | None, touched: dict[str, File]) -> bool:
    if directory is None:
        return False
    tail = entry.tail
    path = f"{directory}/{offset_name(tail.segment_base_offset, LOG)}"
    file = touched.get(path)
    if file is None:
        if not disk.exists(path):
            return False  # retention deleted the segment
        file = touched[path] = disk.open(path)
    if file.size_bytes < tail.position:
        raise DiskError(f"{path} ends at byte {file.size_bytes}, and everything before {tail.position} was durable")
    file.write(tail.position, tail.data)
    return True
