"""Putting the files of one partition right: what a repair writes, and in which order.

A segment is written anew beside the old one and takes its name when it is durable; before that the old one is copied to where what
is removed is kept. So a repair that is interrupted at any step leaves a partition that the next one puts right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from oncelog.environment import Disk, File
from oncelog.log.config import LONG_MAX
from oncelog.log.index_files import NO_TIMESTAMP
from oncelog.log.inspection.checks import OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY
from oncelog.log.inspection.findings import Finding, KnownOfPartition, SegmentFacts
from oncelog.log.inspection.partition import PartitionFacts, inspect_partition
from oncelog.log.inspection.planning import PartitionPlan, Replacement, index_path, read_aborted
from oncelog.log.inspection.walk import Damage, SegmentWalk
from oncelog.log.leader_epochs import write_epochs
from oncelog.log.names import (
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_name,
    offset_of,
)
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.producer_snapshots import encode_snapshot

PREFIX = "oncelog-repaired."
COPY_BYTES = 1024 * 1024
TEMPORARY = ".tmp"


class Aside:
    """Made with the first file that goes there. Its name is none that a broker takes for a partition's."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        numbers = [name.removeprefix(PREFIX) for name in disk.list_directory(root) if name.startswith(PREFIX)]
        number = 1 + max((int(text) for text in numbers if text.isdecimal()), default=0)
        self.path = f"{root}/{PREFIX}{number}"
        self.count = 0

    def copy(self, path: str) -> None:
        """Keep a copy, durable on return; of a file that is kept already, what it was at first."""
        if self._disk.exists(self._target(path)):
            return
        source = self._disk.open(path)
        target_path = self._place(path)
        target = self._disk.open(target_path, create=True)
        try:
            target.truncate(0)
            for position in range(0, source.size_bytes, COPY_BYTES):
                target.append([source.read(position, COPY_BYTES)])
            target.sync()
        finally:
            source.close()
            target.close()

    def move(self, path: str) -> None:
        """Keep the file itself, on this file system."""
        self._disk.rename(path, self._place(path))

    def _place(self, path: str) -> str:
        place = self._target(path)
        self._disk.make_directory(place.rpartition("/")[0])
        self.count += 1
        return place

    def _target(self, path: str) -> str:
        return f"{self.path}/{path.removeprefix(self._root).strip('/')}"


def repair_partition(disk: Disk, plan: PartitionPlan, aside: Aside) -> None:
    """Carry out a plan. Raises DiskError."""
    directory = plan.facts.directory
    for segment in plan.facts.segments:
        replacements = plan.replacements.get(segment.path)
        if replacements:
            _write_segment(disk, segment, replacements, aside)
        if plan.cut_from is not None and plan.cut_from[0] == segment.path:
            _remove_behind(disk, directory, segment.base_offset, aside)
            break
    if not plan.known.was_clean:
        _make_durable(disk, directory)
    end_offset = plan.end_offset if plan.cut_from is None else 0
    if not plan.facts.segments:
        disk.make_directory(directory)
        disk.open(f"{directory}/{offset_name(plan.known.recovery_point, LOG)}", create=True).sync()
    _rebuild(disk, directory, replace(plan.known, recovery_point=end_offset), plan, aside)


def _write_segment(disk: Disk, segment: SegmentFacts, replacements: Sequence[Replacement], aside: Aside) -> None:
    temporary = segment.path + TEMPORARY
    disk.remove(temporary)
    source, target = disk.open(segment.path), disk.open(temporary, create=True)
    try:
        position = 0
        for one in replacements:
            _copy(source, target, position, one.position)
            target.append([one.data])
            position = max(position, one.end_position)
        _copy(source, target, position, source.size_bytes)
        target.sync()
    finally:
        source.close()
        target.close()
    aside.copy(segment.path)
    disk.rename(temporary, segment.path)


def _copy(source: File, target: File, position: int, end: int) -> None:
    while position < end:
        data = source.read(position, min(COPY_BYTES, end - position))
        target.append([data])
        position += len(data)


def _make_durable(disk: Disk, directory: str) -> None:
    """Sync the log's files: bytes of a killed broker may be in the page cache alone, and the recovery point will be behind them."""
    for name in disk.list_directory(directory):
        if offset_of(name, LOG) is not None:
            file = disk.open(f"{directory}/{name}")
            file.sync()
            file.close()


def _remove_behind(disk: Disk, directory: str, base_offset: int, aside: Aside) -> None:
    """Put aside the segments behind one: a start would have cut them off."""
    for name in disk.list_directory(directory):
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT):
            offset = offset_of(name, suffix)
            if offset is not None and offset > base_offset:
                aside.move(f"{directory}/{name}")


def _rebuild(disk: Disk, directory: str, known: KnownOfPartition, plan: PartitionPlan, aside: Aside) -> None:
    """Make what follows from the batches as it has to be: indexes, snapshots, leader epochs."""
    kept = {
        entry.last_offset: entry
        for segment in plan.facts.segments
        for entry in read_aborted(disk, index_path(segment, TRANSACTION_INDEX))
        if any(loss.first_offset <= entry.first_offset < loss.next_offset for loss in plan.losses)
    }
    findings: list[Finding] = []
    facts = inspect_partition(disk, directory, known, findings.append)
    for segment in facts.segments:
        wrong = set(segment.wrong_indexes)
        if segment.path in plan.replacements:
            wrong = {index_path(segment, suffix) for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)}
        if wrong:
            _write_indexes(disk, segment, known, wrong, kept, aside)
    for index in _orphans(disk, directory):
        aside.move(index)
    _write_snapshots(disk, facts, known, aside)
    write_epochs(disk, directory, facts.epochs.epochs)


def _orphans(disk: Disk, directory: str) -> list[str]:
    names = disk.list_directory(directory)
    bases = {offset_of(name, LOG) for name in names}
    found = []
    for name in names:
        for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            offset = offset_of(name, suffix)
            if offset is not None and offset not in bases:
                found.append(f"{directory}/{name}")
    return found


def _write_indexes(
    disk: Disk,
    segment: SegmentFacts,
    known: KnownOfPartition,
    paths: set[str],
    kept: Mapping[int, AbortedTransaction],
    aside: Aside,
) -> None:
    offsets, times = index_contents(disk, segment, known)
    aborted = [_with_beginning(entry, kept) for entry in segment.aborted]
    transactions = b"".join(TRANSACTION_ENTRY.pack(0, *entry) for entry in aborted)
    for suffix, content in ((OFFSET_INDEX, offsets), (TIME_INDEX, times), (TRANSACTION_INDEX, transactions)):
        path = index_path(segment, suffix)
        if path in paths:
            if disk.exists(path):
                aside.copy(path)
            if content or suffix != TRANSACTION_INDEX:
                disk.replace_file(path, content)
            elif disk.exists(path):
                disk.remove(path)


def _with_beginning(entry: AbortedTransaction, kept: Mapping[int, AbortedTransaction]) -> AbortedTransaction:
    """The entry with its true first offset: if that is among lost records, only the old index knows it."""
    before = kept.get(entry.last_offset)
    if before is None or before.producer_id != entry.producer_id or before.first_offset > entry.first_offset:
        return entry
    return entry._replace(first_offset=before.first_offset)


def index_contents(disk: Disk, segment: SegmentFacts, known: KnownOfPartition) -> tuple[bytes, bytes]:
    """The offset index and the time index of a segment, as appends would have written them."""
    offsets, times = bytearray(), bytearray()
    since_bytes, last_ms = 0, NO_TIMESTAMP
    max_ms, max_offset = NO_TIMESTAMP, segment.base_offset
    file = disk.open(segment.path)
    try:
        for one in SegmentWalk(file, segment.base_offset, gaps_below=LONG_MAX):
            if isinstance(one, Damage):
                continue
            header = one.header
            if header.max_timestamp_ms > max_ms:
                max_ms, max_offset = header.max_timestamp_ms, header.last_offset
            if since_bytes > known.index_interval_bytes:
                offsets += OFFSET_ENTRY.pack(header.last_offset - segment.base_offset, one.position)
                since_bytes = 0
                if max_ms > last_ms:
                    times += TIME_ENTRY.pack(max_ms, max_offset - segment.base_offset)
                    last_ms = max_ms
            since_bytes += header.size_bytes
    finally:
        file.close()
    if max_ms > last_ms:
        times += TIME_ENTRY.pack(max_ms, max_offset - segment.base_offset)
    return bytes(offsets), bytes(times)


def _write_snapshots(disk: Disk, facts: PartitionFacts, known: KnownOfPartition, aside: Aside) -> None:
    producers = facts.producers
    gone = set()
    for wrong in producers.wrong:
        aside.copy(wrong.path)
        if wrong.right is not None:
            disk.replace_file(wrong.path, wrong.right)
        else:
            gone.add(wrong.offset)
            disk.remove(wrong.path)
    left = [offset for offset in producers.offsets if offset not in gone]
    end = facts.end_offset
    if known.was_clean and end > 0 and end not in left:
        path = f"{facts.directory}/{offset_name(end, SNAPSHOT)}"
        disk.replace_file(path, encode_snapshot(producers.producers))
