"""Plans the repair of one partition: bytes that are replaced, offsets that are lost, markers that are written again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from oncelog.environment import Disk
from oncelog.log.inspection.checks import TRANSACTION_ENTRY, IndexEntries, ProducerCheck
from oncelog.log.inspection.findings import KnownOfPartition, SegmentFacts
from oncelog.log.inspection.lost_markers import Restored, lost_markers, stand_in
from oncelog.log.inspection.partition import PartitionFacts
from oncelog.log.inspection.walk import Damage, SegmentWalk
from oncelog.log.names import (
    LOG,
    TRANSACTION_INDEX,
    offset_of,
)
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.scan import ScannedBatch

EPOCH_AT = 12
"""The leader epoch of a batch begins at this byte."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Other bytes for those from `position` to `end_position`."""

    position: int
    end_position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets that a repair gives up, `first_offset` to `next_offset` - 1, and the size of the bytes in their place."""

    path: str
    first_offset: int
    next_offset: int
    size_bytes: int
    restored: Restored = field(default_factory=Restored)


@dataclass(slots=True)
class PartitionPlan:
    """Replacements in a partition's files, offsets that are lost, and the number of batches that are restored as written."""

    facts: PartitionFacts
    known: KnownOfPartition
    replacements: dict[str, list[Replacement]] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    healed_count: int = 0
    cut_from: tuple[str, int] | None = None
    """A segment and a byte from which on a start would cut the log, for nobody was told to count on what follows."""

    @property
    def end_offset(self) -> int:
        """The end of the log afterwards: never below an offset that was given out, as far as that is known."""
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
    """The end of the lost offsets. At the end of a log the recovery point and the header of the batch itself count."""
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
        path = index_path(segment, TRANSACTION_INDEX)
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


def index_path(segment: SegmentFacts, suffix: str) -> str:
    return segment.path.removesuffix(LOG) + suffix
