"""Putting the files of one partition right: what a repair writes, and in which order.

A segment is written anew beside the old one and takes its name when it is durable; before that the old one is copied to where what
is removed is kept. So a repair that is interrupted at any step leaves a partition that the next one puts right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oncelog.environment import Disk, File
from oncelog.log.config import LONG_MAX
from oncelog.log.index_files import NO_TIMESTAMP
from oncelog.log.inspection.aside import Aside
from oncelog.log.inspection.fillers import stand_in
from oncelog.log.inspection.findings import Finding
from oncelog.log.inspection.index_checks import OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY, IndexEntries
from oncelog.log.inspection.lost_markers import Restored, lost_markers
from oncelog.log.inspection.partition import (
    KnownOfPartition,
    PartitionFacts,
    SegmentFacts,
    inspect_partition,
)
from oncelog.log.inspection.producer_check import ProducerCheck
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
from oncelog.log.scan import ScannedBatch

COPY_BYTES = 1024 * 1024
EPOCH_AT = 12
TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Other bytes for those from `position` to `end_position`."""

    position: int
    end_position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Loss:
    """What a repair gives up: offsets `first_offset` to `next_offset` - 1, and the bytes that were in their place."""

    path: str
    first_offset: int
    next_offset: int
    size_bytes: int
    restored: Restored = field(default_factory=Restored)


@dataclass(slots=True)
class PartitionPlan:
    """What has to be written anew in a partition, what is lost with it, and batches that are as they were written again."""

    facts: PartitionFacts
    known: KnownOfPartition
    replacements: dict[str, list[Replacement]] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    healed_count: int = 0
    cut_from: tuple[str, int] | None = None
    """A segment and a byte from which on a start would cut the log, for nobody was told to count on what follows."""

    @property
    def end_offset(self) -> int:
        """Where the log ends afterwards: never below what was given out, as far as that is known."""
        return max([self.facts.end_offset, *(loss.next_offset for loss in self.losses)])


def plan_partition(
    disk: Disk, facts: PartitionFacts, known: KnownOfPartition, is_ongoing: Callable[[int], bool]
) -> PartitionPlan:
    plan = PartitionPlan(facts, known)
    for segment in facts.segments:
        segment.damages = [
            one if _is_loose(one, known) else replace(one, next_offset=_next_offset(one, known))
            for one in segment.damages
        ]
    for segment in facts.segments:
        for damage in segment.damages:
            if _is_loose(damage, known):
                plan.cut_from = segment.path, damage.position
                break
        if plan.cut_from is not None:
            break
    restored = _restored(disk, facts, known, is_ongoing) if facts.has_damaged_batches else {}
    for segment in facts.segments:
        for damage in segment.damages:
            _plan_damage(plan, segment, damage, restored)
            if plan.cut_from == (segment.path, damage.position):
                return _with_epochs(plan)
    return _with_epochs(plan)


def _is_loose(damage: Damage, known: KnownOfPartition) -> bool:
    is_beyond = not known.was_clean and damage.first_offset >= known.recovery_point
    return is_beyond and (damage.is_torn or known.lost_power)


def _plan_damage(
    plan: PartitionPlan, segment: SegmentFacts, damage: Damage, restored: Mapping[tuple[str, int], Restored]
) -> None:
    replacements = plan.replacements.setdefault(segment.path, [])
    if plan.cut_from == (segment.path, damage.position):
        replacements.append(Replacement(damage.position, segment.size_bytes, b""))
        return
    if damage.healed is not None:
        plan.healed_count += 1
        healed = bytearray(damage.healed)
        epoch = _epoch_at(plan.facts, damage.first_offset)
        healed[EPOCH_AT : EPOCH_AT + 4] = epoch.to_bytes(4, "big", signed=True)
        replacements.append(Replacement(damage.position, damage.end_position, bytes(healed)))
        return
    next_offset = damage.first_offset if damage.next_offset is None else damage.next_offset
    found = restored.get((segment.path, damage.position), Restored())
    if next_offset > damage.first_offset or damage.size_bytes:
        plan.losses.append(Loss(segment.path, damage.first_offset, next_offset, damage.size_bytes, found))
    epoch = _epoch_at(plan.facts, damage.first_offset)
    data = stand_in(damage.first_offset, next_offset, epoch, found.markers)
    replacements.append(Replacement(damage.position, damage.end_position, data))


def _next_offset(damage: Damage, known: KnownOfPartition) -> int:
    """Where the offsets end that are lost. At the end of a log what was durable, and what the batch itself says, count."""
    if damage.next_offset is not None:
        return damage.next_offset
    return max(damage.first_offset, known.recovery_point, damage.expected_next or 0)


def _epoch_at(facts: PartitionFacts, offset: int) -> int:
    """The leader epoch of an offset, from the checkpoint, if that is not below those of the batches before."""
    said = -1 if facts.epochs.in_file is None else facts.epochs.in_file.epoch_of(offset)
    return max(said, facts.epochs.epochs.epoch_of(offset), 0)


def _with_epochs(plan: PartitionPlan) -> PartitionPlan:
    for wrong in plan.facts.epochs.wrong:
        at = wrong.position + EPOCH_AT
        data = wrong.right_epoch.to_bytes(4, "big", signed=True)
        plan.replacements.setdefault(wrong.segment_path, []).append(Replacement(at, at + len(data), data))
        plan.healed_count += 1
    for replacements in plan.replacements.values():
        replacements.sort(key=lambda one: (one.position, one.end_position))
    return plan


def _restored(
    disk: Disk, facts: PartitionFacts, known: KnownOfPartition, is_ongoing: Callable[[int], bool]
) -> dict[tuple[str, int], Restored]:
    entries: dict[int, list[AbortedTransaction]] = {}
    are_known = True
    for segment in facts.segments:
        path = _index_path(segment, TRANSACTION_INDEX)
        found = read_aborted(disk, path)
        are_known = are_known and path not in segment.wrong_indexes
        for entry in found:
            entries.setdefault(entry.last_offset, []).append(entry)
    for path in _left_alone(disk, facts, TRANSACTION_INDEX):
        for entry in read_aborted(disk, path):
            entries.setdefault(entry.last_offset, []).append(entry)
    base = facts.segments[0].base_offset
    producers = ProducerCheck(disk, facts.directory, disk.list_directory(facts.directory), known.name, base).producers

    def walk() -> Iterator[tuple[str, ScannedBatch | Damage]]:
        for segment in facts.segments:
            for one in _walk(disk, segment, known):
                yield segment.path, one

    return lost_markers(walk, producers, entries, is_ongoing, are_aborts_known=are_known)


def _left_alone(disk: Disk, facts: PartitionFacts, suffix: str) -> list[str]:
    """The indexes of segments that are missing."""
    bases = {segment.base_offset for segment in facts.segments}
    names = sorted(disk.list_directory(facts.directory))
    return [f"{facts.directory}/{name}" for name in names if offset_of(name, suffix) not in (None, *bases)]


def _walk(disk: Disk, segment: SegmentFacts, known: KnownOfPartition) -> Iterator[ScannedBatch | Damage]:
    """The batches of a segment that are whole inside too, and the damages between them."""
    damages = sorted(segment.damages, key=lambda damage: (damage.position, damage.end_position))
    file = disk.open(segment.path)
    try:
        for one in SegmentWalk(file, segment.base_offset, end_offset=segment.end_offset, gaps_below=known.gaps_below):
            if isinstance(one, Damage):
                continue
            while damages and damages[0].position < one.position:
                yield damages.pop(0)
            if damages and damages[0].position == one.position:
                damage = damages.pop(0)
                yield damage
                if damage.size_bytes:
                    continue
            yield one
    finally:
        file.close()
    yield from damages


def read_aborted(disk: Disk, path: str) -> list[AbortedTransaction]:
    """The entries of a transaction index up to the first that can be none."""
    entries = IndexEntries(disk, path, TRANSACTION_ENTRY)
    found: list[AbortedTransaction] = []
    try:
        while entries.next is not None:
            version, *fields = entries.next
            entry = AbortedTransaction(*fields)
            if version or entry.last_offset <= max(entry.first_offset, found[-1].last_offset if found else -1):
                break
            found.append(entry)
            entries.advance()
    finally:
        entries.close()
    return found


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
    """What a killed broker wrote may be in the page cache alone, and the recovery point is to be behind it."""
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
        for entry in read_aborted(disk, _index_path(segment, TRANSACTION_INDEX))
        if any(loss.first_offset <= entry.first_offset < loss.next_offset for loss in plan.losses)
    }
    findings: list[Finding] = []
    facts = inspect_partition(disk, directory, known, findings.append)
    for segment in facts.segments:
        wrong = set(segment.wrong_indexes)
        if segment.path in plan.replacements:
            wrong = {_index_path(segment, suffix) for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)}
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
        path = _index_path(segment, suffix)
        if path in paths:
            if disk.exists(path):
                aside.copy(path)
            if content or suffix != TRANSACTION_INDEX:
                disk.replace_file(path, content)
            elif disk.exists(path):
                disk.remove(path)


def _with_beginning(entry: AbortedTransaction, kept: Mapping[int, AbortedTransaction]) -> AbortedTransaction:
    """What began among records that are lost is known from the old index alone."""
    before = kept.get(entry.last_offset)
    if before is None or before.producer_id != entry.producer_id or before.first_offset > entry.first_offset:
        return entry
    return entry._replace(first_offset=before.first_offset)


def index_contents(disk: Disk, segment: SegmentFacts, known: KnownOfPartition) -> tuple[bytes, bytes]:
    """What the offset index and the time index of a segment have to be, as an append would have made them."""
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


def _index_path(segment: SegmentFacts, suffix: str) -> str:
    return segment.path.removesuffix(LOG) + suffix
