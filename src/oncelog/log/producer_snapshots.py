"""`<offset>.snapshot`: the producers of a partition as they were when the log ended at that offset.

    0   version i16            1
    2   CRC-32C u32            of everything after it
    6   number of entries i32
   10   entries, 46 bytes each: producer id i64, epoch i16, last sequence i32, last offset i64, offset delta i32,
        timestamp i64, coordinator epoch i32, first offset of the open transaction i64 (-1: none)

Only a producer's last batch is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from struct import Struct

from oncelog.environment import Disk, File
from oncelog.log.names import DELETED, SNAPSHOT, offset_name, offset_of
from oncelog.log.producers import BatchEntry, ProducerStateEntry
from oncelog.records import NO_SEQUENCE, crc32c, sequence_before

VERSION = 1

_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_NO_OFFSET = -1


class DamagedSnapshotError(Exception):
    """The bytes are not a snapshot that was written whole."""


def encode_snapshot(producers: Iterable[ProducerStateEntry]) -> bytes:
    entries = [_encode(producer) for producer in producers]
    body = b"".join((_COUNT.pack(len(entries)), *entries))
    return _HEADER.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """Raises DamagedSnapshotError."""
    if len(data) < _HEADER.size + _COUNT.size:
        raise DamagedSnapshotError(f"{len(data)} bytes are no snapshot")
    version, crc = _HEADER.unpack_from(data)
    if version != VERSION:
        raise DamagedSnapshotError(f"a snapshot of version {version}")
    body = memoryview(data)[_HEADER.size :]
    if crc32c(body) != crc:
        raise DamagedSnapshotError("the CRC-32C is not that of the bytes")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise DamagedSnapshotError(f"{count} entries in {len(body)} bytes")
    return [_decode(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _encode(producer: ProducerStateEntry) -> bytes:
    last = producer.batches[-1] if producer.batches else None
    first_offset = producer.transaction_first_offset
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        last.last_sequence if last else NO_SEQUENCE,
        last.last_offset if last else _NO_OFFSET,
        last.last_offset - last.first_offset if last else 0,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        _NO_OFFSET if first_offset is None else first_offset,
    )


def _decode(fields: tuple[int, ...]) -> ProducerStateEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, first_offset = fields
    producer = ProducerStateEntry(producer_id, epoch)
    producer.last_timestamp_ms = timestamp_ms
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_first_offset = None if first_offset < 0 else first_offset
    if last_offset >= 0:
        first_sequence = NO_SEQUENCE if last_sequence < 0 else sequence_before(last_sequence, offset_delta)
        first = last_offset - offset_delta
        producer.batches = (BatchEntry(first_sequence, last_sequence, first, last_offset, timestamp_ms),)
    return producer


# Between two segment boundaries: the newest, and the one before it until the newest is durable.
BETWEEN_SEGMENTS_KEPT = 2


class Snapshots:
    __slots__ = ("_damaged", "_directory", "_disk", "_offsets")

    def __init__(self, disk: Disk, directory: str, names: Collection[str]) -> None:
        self._disk = disk
        self._directory = directory
        found = (offset_of(name, SNAPSHOT) for name in names)
        self._offsets = sorted(offset for offset in found if offset is not None)
        self._damaged: list[int] = []

    @property
    def latest_offset(self) -> int:
        """0 if there is none: a log begins with no producers."""
        return self._offsets[-1] if self._offsets else 0

    @property
    def names(self) -> list[str]:
        return [offset_name(offset, SNAPSHOT) for offset in self._offsets]

    def continue_in(self, directory: str) -> None:
        """Go on with copies of the files."""
        self._directory = directory

    def newest(self, offset_max: int) -> tuple[int, list[ProducerStateEntry]] | None:
        """The newest whole snapshot not beyond `offset_max`. Those that are damaged on the way to it count no more."""
        for offset in tuple(reversed(self._offsets)):
            if offset > offset_max:
                continue
            try:
                return offset, decode_snapshot(self._disk.read_file(self._path(offset)))
            except DamagedSnapshotError:
                self._offsets.remove(offset)
                self._damaged.append(offset)
        return None

    def remove_damaged(self) -> int:
        """Remove the files of those that `newest` found to be damaged, but what was written anew; return how many were."""
        for offset in self._damaged:
            if offset not in self._offsets:
                self._disk.remove(self._path(offset))
        count = len(self._damaged)
        self._damaged.clear()
        return count

    def write(self, offset: int, producers: Iterable[ProducerStateEntry], segment_bases: Collection[int]) -> File:
        """Write a snapshot, and remove old ones that no segment begins with. The caller makes the file durable."""
        file = self._disk.open(self._path(offset), create=True)
        if file.size_bytes:
            file.truncate(0)
        file.append((encode_snapshot(producers),))
        if offset not in self._offsets:
            self._offsets.append(offset)
            self._offsets.sort()
        between = [one for one in self._offsets if one not in segment_bases]
        for old in between[:-BETWEEN_SEGMENTS_KEPT]:
            self._remove(old)
        return file

    def remove_above(self, offset: int) -> None:
        for one in [one for one in self._offsets if one > offset]:
            self._remove(one)

    def rename_deleted(self, offset: int) -> list[str]:
        """Rename the snapshot at `offset`, if there is one, as deleted; return its new path."""
        if offset not in self._offsets:
            return []
        self._offsets.remove(offset)
        path = self._path(offset)
        self._disk.rename(path, path + DELETED)
        return [path + DELETED]

    def remove_all(self) -> None:
        self.remove_above(-1)

    def _remove(self, offset: int) -> None:
        self._offsets.remove(offset)
        self._disk.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset, SNAPSHOT)}"
