"""One look at all the files of one partition, from the first batch to the last."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from oncelog.environment import Disk
from oncelog.log.config import EPOCH_MAX, EPOCH_MIN
from oncelog.log.inspection.checks import (
    EpochCheck,
    OffsetIndexCheck,
    Problem,
    ProducerCheck,
    TimeIndexCheck,
    check_transaction_index,
    read_epochs,
)
from oncelog.log.inspection.findings import AtStart, Finding, KnownOfPartition, Report, SegmentFacts, Severity
from oncelog.log.inspection.walk import Damage, SegmentWalk, problem_inside
from oncelog.log.names import (
    DELETED,
    LEADER_EPOCHS,
    LOG,
    OFFSET_DIGITS,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_name,
    offset_of,
)
from oncelog.log.scan import ScannedBatch

LEFTOVERS = (DELETED, ".cleaned", ".swap", ".tmp")
INDEXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)


@dataclass(slots=True)
class PartitionFacts:
    """Facts about a partition."""

    directory: str
    segments: list[SegmentFacts]
    producers: ProducerCheck
    epochs: EpochCheck
    end_offset: int = 0
    batch_count: int = 0
    producer_id_max: int = -1
    is_epoch_file_wrong: bool = False

    @property
    def has_damaged_batches(self) -> bool:
        return any(segment.damages for segment in self.segments)


Watch = Callable[[ScannedBatch], None]
Progress = Callable[[int], None]
"""Called with the number of bytes that were read."""


def inspect_partition(
    disk: Disk,
    directory: str,
    known: KnownOfPartition,
    report: Report,
    watch: Watch | None = None,
    progress: Progress = lambda _: None,
) -> PartitionFacts:
    """Compare everything in the directory with everything else; `watch` sees each batch that is whole."""
    names = set(disk.list_directory(directory))
    bases = sorted(base for name in names if (base := offset_of(name, LOG)) is not None)
    first = bases[0] if bases else known.log_start_offset
    in_file = read_epochs(disk, directory, report)
    facts = PartitionFacts(
        directory,
        [],
        ProducerCheck(disk, directory, names, known.name, first),
        EpochCheck(in_file, known.leader_epoch_max),
        end_offset=first,
    )
    _Inspection(disk, known, facts, report, watch, progress).run(bases, names)
    return facts


class _Inspection:
    def __init__(
        self,
        disk: Disk,
        known: KnownOfPartition,
        facts: PartitionFacts,
        report: Report,
        watch: Watch | None,
        progress: Progress,
    ) -> None:
        self._disk = disk
        self._known = known
        self._facts = facts
        self._report = report
        self._watch = watch
        self._progress = progress
        self._is_compacted = False

    def run(self, bases: list[int], names: Collection[str]) -> None:
        facts, known = self._facts, self._known
        self._look_at_names(bases, names)
        if bases and bases[0] > known.log_start_offset < known.recovery_point:
            what = f"the log begins at offset {bases[0]}, and those from {known.log_start_offset} on are missing"
            self._say(self._path(bases[0], LOG), what, AtStart.OFFLINE, offset=known.log_start_offset)
        for slot, base in enumerate(bases):
            following = bases[slot + 1] if slot + 1 < len(bases) else None
            self._segment(base, following)
        end = facts.end_offset
        if end < known.recovery_point:
            self._ends_early(end)
        elif known.was_clean and end > known.recovery_point:
            what = f"the log goes on to offset {end}, and was closed at {known.recovery_point}"
            self._say(self._path(bases[-1], LOG), what, AtStart.READS_AGAIN, offset=known.recovery_point)
        self._finish_producers()
        self._finish_epochs()

    def _ends_early(self, end: int) -> None:
        facts, known = self._facts, self._known
        what = f"the log ends at offset {end}, and everything below {known.recovery_point} was durable"
        if not facts.segments:
            path = self._path(known.log_start_offset, LOG)
            self._say(path, what, AtStart.OFFLINE, offset=end)
            return
        last = facts.segments[-1]
        # Bytes that are no batches at the end are in the place of what is missing, and were named.
        if not last.damages or last.damages[-1].next_offset is not None:
            self._damage(last, Damage(last.size_bytes, last.size_bytes, end, known.recovery_point, what))

    def _look_at_names(self, bases: list[int], names: Collection[str]) -> None:
        orphans: set[int] = set()
        for name in sorted(names):
            if name.endswith(LEFTOVERS):
                path = f"{self._facts.directory}/{name}"
                # A `.swap` has taken the place of others already (log/compaction/replacement.py).
                at_start = AtStart.FINISHES if name.endswith(".swap") else AtStart.REMOVES
                self._say(path, "it was left half done", at_start, severity=Severity.PENDING)
            elif name[OFFSET_DIGITS:] in INDEXES:
                base = offset_of(name, name[OFFSET_DIGITS:])
                if base is not None and base not in bases:
                    orphans.add(base)
        severity = Severity.DAMAGE if self._known.was_clean else Severity.PENDING
        for base in sorted(orphans):
            what = "the segment is missing, and its indexes are there"
            self._say(self._path(base, LOG), what, AtStart.REMOVES, offset=base, severity=severity)

    def _segment(self, base: int, following: int | None) -> None:
        facts, known = self._facts, self._known
        path = self._path(base, LOG)
        found = SegmentFacts(path, base)
        facts.segments.append(found)
        if base < facts.end_offset:
            what = f"the segment before it goes on to offset {facts.end_offset}"
            self._say(path, what, AtStart.OFFLINE, offset=base, position=0)
        elif base > facts.end_offset and facts.segments[:-1]:
            self._missing(found, facts.end_offset, base)
        file = self._disk.open(path)
        found.size_bytes = file.size_bytes
        end_offset = following if following is not None else known.recovery_point if known.was_clean else None
        found.end_offset = end_offset
        walk = SegmentWalk(
            file, base, end_offset=end_offset, gaps_below=known.gaps_below, is_sealed=following is not None
        )
        indexes = (
            OffsetIndexCheck(self._disk, self._path(base, OFFSET_INDEX), base, known.index_interval_bytes),
            TimeIndexCheck(self._disk, self._path(base, TIME_INDEX), base),
        )
        said = 0
        try:
            for one in walk:
                if isinstance(one, Damage):
                    self._damage(found, one)
                else:
                    self._batch(found, one, indexes, walk.next_offset)
                self._progress(walk.position - said)
                said = walk.position
        finally:
            file.close()
        facts.end_offset = max(walk.next_offset, base)
        is_last = following is None
        self._finish_indexes(found, indexes, is_last=is_last)

    def _missing(self, found: SegmentFacts, first_offset: int, next_offset: int) -> None:
        """Whole segments are missing before this one: it is the damage of the one before, at its end."""
        before = self._facts.segments[-2]
        damage = Damage(
            before.size_bytes,
            before.size_bytes,
            first_offset,
            next_offset,
            f"no segment has the offsets before {next_offset}",
        )
        self._damage(before, damage)

    def _batch(
        self,
        found: SegmentFacts,
        batch: ScannedBatch,
        indexes: tuple[OffsetIndexCheck, TimeIndexCheck],
        expected_offset: int,
    ) -> None:
        facts, header = self._facts, batch.header
        problem = problem_inside(batch, has_gaps=batch.header.base_offset < self._known.gaps_below)
        if problem is not None:
            self._damage(
                found,
                Damage(
                    batch.position,
                    batch.position + header.size_bytes,
                    header.base_offset,
                    header.next_offset,
                    problem,
                ),
            )
            return
        if header.base_offset != expected_offset or 0 < header.record_count <= header.last_offset_delta:
            self._is_compacted = True
            facts.producers.is_exact = False
        for index in indexes:
            index.take(batch.position, header)
        aborted = facts.producers.take(batch)
        found.is_exact = found.is_exact and facts.producers.is_exact
        if aborted is not None:
            found.aborted.append(aborted)
        facts.epochs.take(found.path, batch)
        facts.batch_count += 1
        facts.producer_id_max = max(facts.producer_id_max, header.producer_id)
        if self._watch is not None:
            self._watch(batch)

    def _damage(self, found: SegmentFacts, damage: Damage) -> None:
        found.damages.append(damage)
        known = self._known
        is_loose = not known.was_clean and damage.first_offset >= known.recovery_point
        if is_loose and (damage.is_torn or known.lost_power):
            what, at_start, severity = "an append was interrupted: ", AtStart.CUTS, Severity.PENDING
        else:
            what, at_start, severity = "", AtStart.CUTS if is_loose else AtStart.OFFLINE, Severity.DAMAGE
        what += damage.reason
        if damage.size_bytes == 0:
            what += f": offsets {damage.first_offset} to {(damage.next_offset or 0) - 1}"
        else:
            what += f" ({damage.size_bytes} bytes)"
        self._say(found.path, what, at_start, offset=damage.first_offset, position=damage.position, severity=severity)
        if damage.healed is None and damage.next_offset != damage.first_offset:
            self._facts.producers.lose(damage.first_offset, damage.next_offset)

    def _finish_indexes(
        self, found: SegmentFacts, indexes: tuple[OffsetIndexCheck, TimeIndexCheck], *, is_last: bool
    ) -> None:
        known, facts = self._known, self._facts
        is_complete = (known.was_clean or not is_last) and not any(damage.size_bytes for damage in found.damages)
        for index in indexes:
            index.finish(is_complete=is_complete, may_be_missing=found.size_bytes == 0)
            if index.problem is not None:
                found.wrong_indexes.append(index.path)
                severity = self._severity_of(index.problem, is_last=is_last)
                self._say(
                    index.path, index.problem.what, AtStart.REBUILDS, position=index.problem.position, severity=severity
                )
        path = self._path(found.base_offset, TRANSACTION_INDEX)
        problem = check_transaction_index(
            self._disk,
            path,
            found.aborted,
            is_exact=found.is_exact and facts.producers.is_exact,
            is_compacted=self._is_compacted or any(damage.healed is None for damage in found.damages),
        )
        if problem is not None:
            found.wrong_indexes.append(path)
            severity = self._severity_of(problem, is_last=is_last)
            is_noticed = severity is Severity.PENDING or known.has_own_checkpoint
            at_start = AtStart.REBUILDS if is_noticed else AtStart.IGNORES
            self._say(path, problem.what, at_start, position=problem.position, severity=severity)

    def _finish_producers(self) -> None:
        producers, known = self._facts.producers, self._known
        producers.finish(self._facts.end_offset)
        for wrong in producers.wrong:
            self._say(
                wrong.path, wrong.what, AtStart.READS_AGAIN, offset=wrong.offset, severity=self._derived(wrong.offset)
            )
        end = self._facts.end_offset
        if known.was_clean and end > 0 and end > (producers.offsets[-1] if producers.offsets else 0):
            path = f"{self._facts.directory}/{offset_name(end, '.snapshot')}"
            self._say(path, "the file is missing", AtStart.READS_AGAIN, offset=end)

    def _finish_epochs(self) -> None:
        epochs, known = self._facts.epochs, self._known
        epochs.finish()
        for wrong in epochs.wrong:
            what = f"the leader epoch of the batch is {wrong.epoch}, and was {wrong.right_epoch}"
            at_start = AtStart.IGNORES if self._is_possible(wrong.epoch) else AtStart.OFFLINE
            self._say(wrong.segment_path, what, at_start, offset=wrong.offset, position=wrong.position)
        path = f"{self._facts.directory}/{LEADER_EPOCHS}"
        self._facts.is_epoch_file_wrong |= epochs.in_file is None
        beyond = (
            [start for start in epochs.in_file.starts if start.start_offset > self._facts.end_offset]
            if epochs.in_file
            else []
        )
        if beyond:
            self._facts.is_epoch_file_wrong = True
            what = f"it says epoch {beyond[0].epoch} for offset {beyond[0].start_offset}, and the log ends before it"
            self._say(
                path,
                what,
                AtStart.REBUILDS,
                offset=beyond[0].start_offset,
                severity=self._derived(beyond[0].start_offset),
            )
        if epochs.disagreement is not None:
            offset, said, epoch = epochs.disagreement
            self._facts.is_epoch_file_wrong = True
            what = f"it says epoch {said} for offset {offset}, and the batch has {epoch}"
            is_believed = known.was_clean and self._is_possible(said)
            at_start = AtStart.IGNORES if is_believed else AtStart.REBUILDS
            if not self._disk.exists(path):
                what, at_start = "the file is missing", AtStart.REBUILDS
            self._say(path, what, at_start, offset=offset, severity=self._derived(offset + 1))

    def _is_possible(self, epoch: int) -> bool:
        """True if a start cannot tell that there was no such leader epoch."""
        epoch_max = self._known.leader_epoch_max
        return EPOCH_MIN <= epoch <= (EPOCH_MAX if epoch_max is None else epoch_max)

    def _severity_of(self, problem: Problem, *, is_last: bool) -> Severity:
        """PENDING for an index that a start after a crash makes anew; DAMAGE if its markers were durable."""
        if problem.offset is not None:
            return self._derived(problem.offset + 1)
        is_loose = not self._known.was_clean and (is_last or self._facts.end_offset > self._known.recovery_point)
        return Severity.PENDING if is_loose else Severity.DAMAGE

    def _derived(self, end_offset: int) -> Severity:
        """PENDING for a file that follows from batches which may not have been durable: a start makes it anew."""
        known = self._known
        is_loose = not known.was_clean and end_offset > known.recovery_point
        return Severity.PENDING if is_loose else Severity.DAMAGE

    def _path(self, base: int, suffix: str) -> str:
        return f"{self._facts.directory}/{offset_name(base, suffix)}"

    def _say(
        self,
        path: str,
        what: str,
        at_start: AtStart,
        *,
        offset: int | None = None,
        position: int | None = None,
        severity: Severity = Severity.DAMAGE,
    ) -> None:
        self._report(Finding(path, what, at_start, severity, offset, position))
