"""The future log: a copy of a partition's log in another log directory, which takes its place when it has everything.

Its files are those of the log, byte for byte. They are in `<topic>-<n>.<id>-future`, as Kafka calls it, until the one moment at
which that directory gets the partition's name. For a while both directories may have it then. A file in the newer one says how
often the partition was moved, so that a start knows which of them counts, in whatever order two disks keep their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from oncelog.environment import Disk, DiskError, File, Share, Syncable
from oncelog.log.checkpoints import PARTITION_METADATA, write_topic_id
from oncelog.log.durability import SyncPoint
from oncelog.log.names import (
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    future_directory,
    moved,
    offset_name,
)
from oncelog.log.partition_log import PartitionLog
from oncelog.log.segment import Segment

SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
STEP_BYTES = 512 * 1024
SYNC_BYTES = 16 * 1024 * 1024
"""So much is written before it is made durable: a disk that is slow holds up the copy, and nobody else."""
REST_BYTES_MAX = 4 * 1024 * 1024
"""So much is copied in one step when the log changes its directory."""


class FutureSync(NamedTuple):
    """Files to be made durable before the copy goes on."""

    files: Sequence[Syncable]


class FutureLog:
    """Nobody else changes its directory. Every method raises DiskError when one of the two disks fails."""

    def __init__(self, disk: Disk, log: PartitionLog, log_directory: str, unique_id: UUID, number: int) -> None:
        """Begin one in a directory of its own; `number` says how often the partition will have been moved."""
        self._disk = disk
        self._log = log
        topic, _, _ = log.name.rpartition("-")
        self._target = f"{log_directory}/{log.name}"
        self.directory = f"{log_directory}/{future_directory(topic, log.partition, unique_id)}"
        self._copied: dict[str, int] = {}
        """How many bytes of each file are copied."""
        self._whole: dict[int, Segment] = {}
        """The sealed segments that are copied whole, by their base offsets."""
        self._unsynced: dict[str, File] = {}
        self._unsynced_bytes = 0
        self._other_files: tuple[Sequence[str], bytes] = ((), b"")
        self.end_offset = log.log_start_offset
        """Everything before it is copied."""
        try:
            disk.make_directory(self.directory)
            write_topic_id(disk, f"{self.directory}/{PARTITION_METADATA}", log.topic_id)
            self._write(moved(number), b"")
            self._open(PARTITION_METADATA)
        except DiskError:
            # A start would take what is there for a move that was begun.
            with suppress(DiskError):
                disk.remove(self.directory)
            raise

    @property
    def is_in_place(self) -> bool:
        """True if the log goes on here."""
        return self.directory == self._target

    @property
    def size_bytes(self) -> int:
        return sum(size_bytes for name, size_bytes in self._copied.items() if name.endswith(LOG))

    @property
    def is_near(self) -> bool:
        """True if the rest is small enough to be copied in one step."""
        return self._bytes_left() <= REST_BYTES_MAX

    def steps(self) -> Iterator[FutureSync | None]:
        """Copy what the log has at the beginning of this, and make it durable. After each step others may be served."""
        log = self._log
        end_offset = log.log_end_offset
        self._remove_gone()
        for segment in tuple(log.segments):
            if self._whole.get(segment.base_offset) is segment:
                continue
            is_sealed = segment is not log.segments[-1]
            yield from self._copy_segment(segment)
            if is_sealed and self._is_there(segment):
                self._whole[segment.base_offset] = segment
                self.end_offset = max(self.end_offset, log.segments[self._slot_of(segment) + 1].base_offset)
        self._copy_other_files()
        yield self._sync()
        self._close()
        self.end_offset = max(self.end_offset, end_offset)

    def take_over(self, synced: SyncPoint) -> bool:
        """Let the log go on in the copy; False if too much has changed since what is durable was copied.

        The log held at `synced` what the last pass copied. From the renaming on, a start finds the partition here.
        """
        if not self._copy_rest():
            return False
        self._close()
        self._disk.rename(self.directory, self._target)
        self.directory = self._target
        self._log.files.continue_in(self._target, synced)
        return True

    def drop(self) -> None:
        """Copy no more."""
        self._close()

    def _copy_segment(self, segment: Segment) -> Iterator[FutureSync | None]:
        for index in segment.indexes.files:
            index.write_out()
        for path, size_bytes in self._files_of(segment):
            try:
                yield from self._copy(path, size_bytes)
            except DiskError:
                if self._is_there(segment):
                    raise
                return  # retention deleted it

    def _files_of(self, segment: Segment) -> list[tuple[str, int | None]]:
        """The paths of a segment's files; the size that counts of the batches, and None for all of an index."""
        found: list[tuple[str, int | None]] = [(segment.path, segment.size_bytes)]
        return found + [(index.path, None) for index in segment.indexes.files if index.exists]

    def _copy(self, path: str, size_bytes: int | None) -> Iterator[FutureSync | None]:
        """Copy what a file has more than its copy."""
        name = path.rpartition("/")[2]
        source = self._disk.open(path, create=size_bytes == 0)
        try:
            end = source.size_bytes if size_bytes is None else size_bytes
            position = self._copied.setdefault(name, 0)
            target = self._open(name)
            while position < end:
                data = source.read(position, min(STEP_BYTES, end - position))
                if not data:
                    raise DiskError(f"{path} ends at byte {position}, and had {end}")
                target.write(position, data, Share.NONE)
                target.write_back(position, len(data))
                position += len(data)
                self._copied[name] = position
                self._unsynced_bytes += len(data)
                yield self._sync() if self._unsynced_bytes >= SYNC_BYTES else None
        finally:
            source.close()

    def _copy_other_files(self) -> None:
        """Small ones, in one step."""
        names, epochs = self._other_files = self._log.files.others()
        for name in names:
            if name not in self._copied:
                data = self._disk.read_file(f"{self._log.directory}/{name}")
                self._write(name, data)
                self._copied[name] = len(data)
        self._write(LEADER_EPOCHS, epochs)

    def _copy_rest(self) -> bool:
        """Copy what was appended since the last pass, if there is nothing else."""
        *sealed, active = self._log.segments
        for segment in sealed:
            # An index may have been missing, and made anew.
            if not self._has_files_of(segment):
                self._whole.pop(segment.base_offset, None)
        whole = {segment.base_offset: segment for segment in sealed}
        # Nor would the name of a new file be durable.
        if self._whole != whole or not self._has_files_of(active) or not self.is_near:
            return False
        if self._other_files != self._log.files.others():
            return False
        for index in active.indexes.files:
            index.write_out()
        for path, size_bytes in self._files_of(active):
            for _ in self._copy(path, size_bytes):
                pass
        return True

    def _remove_gone(self) -> None:
        """Remove the copies of files that the log has no more."""
        snapshots, _ = self._log.files.others()
        bases = {segment.base_offset for segment in self._log.segments}
        names = {offset_name(base, suffix) for base in bases for suffix in SEGMENT_SUFFIXES} | set(snapshots)
        for name in self._copied.keys() - names:
            del self._copied[name]
            file = self._unsynced.pop(name, None)
            if file is not None:
                file.close()
            self._disk.remove(f"{self.directory}/{name}")
        self._whole = {base: segment for base, segment in self._whole.items() if base in bases}

    def _has_files_of(self, segment: Segment) -> bool:
        return all(path.rpartition("/")[2] in self._copied for path, _ in self._files_of(segment))

    def _bytes_left(self) -> int:
        return sum(
            segment.size_bytes - self._copied.get(offset_name(segment.base_offset, LOG), 0)
            for segment in self._log.segments
        )

    def _slot_of(self, segment: Segment) -> int:
        return self._log.segments.index(segment)

    def _is_there(self, segment: Segment) -> bool:
        return any(one is segment for one in self._log.segments)

    def _open(self, name: str) -> File:
        file = self._unsynced.get(name)
        if file is None:
            file = self._unsynced[name] = self._disk.open(f"{self.directory}/{name}", create=True)
        return file

    def _write(self, name: str, data: bytes) -> None:
        file = self._open(name)
        file.truncate(0)
        file.write(0, data)

    def _sync(self) -> FutureSync:
        self._unsynced_bytes = 0
        return FutureSync(tuple(self._unsynced.values()))

    def _close(self) -> None:
        for file in self._unsynced.values():
            file.close()
        self._unsynced.clear()
