"""From the files of a partition to its state: what is in them, what a crash has left, what has to go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from oncelog.environment import Disk, Syncable
from oncelog.log.checkpoints import LogDigest
from oncelog.log.compaction import finish_replacements
from oncelog.log.config import EPOCH_MAX, EPOCH_MIN, LONG_MAX, LogConfig
from oncelog.log.file_checks import aborted_in, check_segments, doubtful, resume
from oncelog.log.leader_epochs import EpochCheckpoint, LeaderEpochs, check_epoch, recovered_epochs, write_epochs
from oncelog.log.names import (
    DELETED,
    LOG,
    OFFSET_DIGITS,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_name,
    offset_of,
)
from oncelog.log.outcome import AbortedTransaction, DamagedLogError
from oncelog.log.producer_snapshots import Snapshots
from oncelog.log.producers import Producers, replay
from oncelog.log.scan import Fault, Scan
from oncelog.log.segment import Segment
from oncelog.records.batch import LENGTH_PREFIX_BYTES


@dataclass(slots=True)
class RecoveryReport:
    """Facts about the opening of a log. The `bytes_cut` were never acknowledged as durable; `fault` is the first of them."""

    was_clean: bool
    snapshot_offset: int | None = None
    bytes_read: int = 0
    batches_read: int = 0
    bytes_cut: int = 0
    indexes_rebuilt: int = 0
    is_snapshot_undecided: bool = False
    """The newest snapshot is beyond the high watermark: what was not decided there may be by now, or be cut off."""
    snapshots_damaged: int = 0
    epochs_rebuilt: bool = False
    fault_path: str | None = None
    fault: Fault | None = None


class RecoveredFile(Syncable, Protocol):
    def close(self) -> None: ...


@dataclass(slots=True)
class LoadedLog:
    """A log's state. `written` is to be made durable before anybody counts on the log; then it is to be closed."""

    segments: list[Segment]
    producers: Producers
    snapshots: Snapshots
    epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    report: RecoveryReport
    written: list[RecoveredFile] = field(default_factory=list)

    def close(self) -> None:
        """Close all files until they are needed again."""
        for segment in self.segments:
            segment.close()
        for file in self.written:
            file.close()


def load_log(
    disk: Disk,
    now_ms: int,
    directory: str,
    config: LogConfig,
    *,
    name: str,
    was_clean: bool,
    recovery_point: int,
    log_start_offset: int,
    high_watermark: int | None,
    durable_end: int = 0,
    aborted: LogDigest | None = None,
    gaps_below: int = 0,
    is_replica: bool = False,
    leader_epoch_max: int = EPOCH_MAX,
) -> LoadedLog:
    """Load a partition. Raises DamagedLogError if what was durable is not what was written; nothing is changed then. So does
    an epoch beyond `leader_epoch_max` in what follows: by then indexes may be shorter, which are made anew.

    What a cleaning takes away leaves gaps below `gaps_below` alone. From there on batches follow one another, and what does not
    has lost to a power cut what was before it. Inside the files of a replica there may be gaps anywhere: its leader's.
    """
    names = _names(disk, directory, max(recovery_point, durable_end, log_start_offset))
    leftovers = _leftovers(names)
    names -= leftovers
    bases = sorted(base for base in (offset_of(one, LOG) for one in names) if base is not None)
    segments = [
        Segment(disk, directory, base, config, now_ms, names, gaps_below=gaps_below, has_gaps_inside=is_replica)
        for base in bases
    ]
    durable = max(recovery_point, durable_end)
    check_segments(segments, directory, log_start_offset, recovery_point, durable)
    snapshots = Snapshots(disk, directory, names)
    rebuilt = [] if aborted is None else _rebuilt(segments, snapshots, aborted, name)
    if not segments:
        segments = [Segment(disk, directory, log_start_offset, config, now_ms, has_gaps_inside=is_replica)]
    loaded = LoadedLog(
        segments=segments,
        producers=Producers(name),
        snapshots=snapshots,
        epochs=LeaderEpochs(),
        log_start_offset=max(log_start_offset, segments[0].base_offset),
        log_end_offset=segments[0].base_offset,
        report=RecoveryReport(was_clean),
    )
    loaded.report.indexes_rebuilt = len(rebuilt)
    watermark = LONG_MAX if high_watermark is None else high_watermark
    _Loading(loaded, recovery_point, durable, watermark, leader_epoch_max).run(rebuilt)
    if loaded.report.was_clean and loaded.log_end_offset < loaded.log_start_offset:
        last = loaded.segments[-1]
        reason = f"the log ends there, and was said to begin at offset {loaded.log_start_offset}"
        raise last.damaged(last.size_bytes, loaded.log_end_offset, reason)
    for name in sorted(leftovers):
        disk.remove(f"{directory}/{name}")
    disk.make_directory(directory)
    if loaded.log_end_offset < loaded.log_start_offset:
        start = loaded.log_start_offset
        _start_again(loaded, Segment(disk, directory, start, config, now_ms, has_gaps_inside=is_replica))
        if is_replica:
            # They are those of a log that this one has nothing of.
            loaded.epochs = LeaderEpochs()
            write_epochs(disk, directory, loaded.epochs)
    _join_epochs(loaded, disk, directory, recovery_point, leader_epoch_max)
    return loaded


def reload_producers(
    segments: Sequence[Segment], producers: Producers, snapshots: Snapshots, high_watermark: int
) -> None:
    """Make the producers' state again from what is in the log now."""
    # Beyond the high watermark a snapshot would hide transactions that are not decided yet.
    found = snapshots.newest(high_watermark)
    start = segments[0].base_offset if found is None else found[0]
    producers.load(() if found is None else found[1])
    for segment in segments:
        for batch in segment.batches_from(max(start, segment.base_offset)):
            replay(producers, batch)


def sync_segments(disk: Disk, directory: str, recovery_point: int) -> None:
    """Make durable what a crash of the process alone has left in the page cache of a damaged log.

    A transaction that is open may be committed while its partition is offline.
    """
    names = disk.list_directory(directory) if disk.exists(directory) else []
    bases = sorted(base for base in (offset_of(one, LOG) for one in names) if base is not None)
    written = [base for base, end in zip(bases, [*bases[1:], LONG_MAX], strict=False) if end > recovery_point]
    files = [disk.open(f"{directory}/{offset_name(base, LOG)}") for base in written]
    disk.sync_all(files)
    for file in files:
        file.close()


class _Loading:
    """One pass over what has to be read again: producers, epochs, and what the crash took from the indexes."""

    def __init__(
        self, loaded: LoadedLog, recovery_point: int, durable: int, high_watermark: int, leader_epoch_max: int
    ) -> None:
        """Below `durable`, which is the recovery point or beyond it, everything has to be there."""
        self._loaded = loaded
        self._recovery_point = recovery_point
        self._durable = durable
        self._high_watermark = high_watermark
        self._leader_epoch_max = leader_epoch_max
        self._taken_to = 0

    def run(self, rebuilt: Iterable[tuple[Segment, list[AbortedTransaction]]]) -> None:
        """`rebuilt` says what the transaction indexes are to have that were not what they should be."""
        loaded = self._loaded
        active = loaded.segments[-1]
        if active.size_bytes == 0 and active.base_offset < self._durable:
            raise self._ends_early(active.base_offset)
        for segment, aborted in rebuilt:
            segment.indexes.transactions.replace_from(segment.base_offset, aborted)
        end = resume(loaded.segments[-1], self._leader_epoch_max) if loaded.report.was_clean else None
        # A log that was closed is durable to its end. If it goes on, the mark of a clean stop is an old one.
        loaded.report.was_clean = end is not None and end <= self._recovery_point
        start = self._load_snapshot(self._recovery_point)
        if loaded.report.was_clean and end is not None:
            if end < self._durable:
                raise self._ends_early(end)
            loaded.log_end_offset = end
            if start < end:
                self._read_from(start)
        else:
            self._check_durable(start)
            self._read_from(start)
            loaded.snapshots.remove_above(self._recovery_point)
            self._take_down()
        loaded.report.snapshots_damaged = loaded.snapshots.remove_damaged()
        loaded.producers.advance_high_watermark(min(self._high_watermark, loaded.log_end_offset))

    def _load_snapshot(self, offset_max: int) -> int:
        """Take the newest usable snapshot; return the offset from which the log has to be read."""
        # Beyond the high watermark a snapshot would hide transactions that are not decided yet.
        self._loaded.report.is_snapshot_undecided = self._loaded.snapshots.latest_offset > self._high_watermark
        found = self._loaded.snapshots.newest(min(offset_max, self._high_watermark))
        if found is None:
            return self._loaded.segments[0].base_offset
        offset, producers = found
        self._loaded.producers.load(producers)
        self._loaded.report.snapshot_offset = offset
        return offset

    def _check_durable(self, start: int) -> None:
        """Read what was durable from `start` on, before anything is changed. Raises DamagedLogError."""
        segments = self._loaded.segments
        end, epoch = segments[0].base_offset, EPOCH_MIN
        for slot, segment in enumerate(segments):
            following = segments[slot + 1].base_offset if slot + 1 < len(segments) else LONG_MAX
            if following <= start:
                continue
            if segment.base_offset >= self._durable:
                return
            scan = segment.scan(segment.index_position(start), segment.base_offset)
            for batch in scan:
                if batch.header.base_offset >= self._durable:
                    return
                if batch.header.leader_epoch != epoch:
                    check_epoch(segment, batch.position, batch.header, self._leader_epoch_max)
                    epoch = batch.header.leader_epoch
            end, fault = scan.next_offset, scan.fault
            if fault is None and following < LONG_MAX:
                fault = _fault_between(segment, scan, following)
            if fault is not None:
                # In a log with gaps a batch whose offset has grown hides those behind it.
                if fault.offset < self._durable or segment.has_batch_below(fault.position, self._durable):
                    raise segment.damaged(fault.position, fault.offset, fault.reason)
                return
        if end < self._durable:
            raise self._ends_early(end)

    def _ends_early(self, end: int) -> DamagedLogError:
        last = self._loaded.segments[-1]
        reason = f"the log ends there, and everything below {self._durable} was durable"
        return last.damaged(last.size_bytes, end, reason)

    def _read_from(self, start: int) -> None:
        segments = self._loaded.segments
        self._taken_to = start
        for slot, segment in enumerate(segments):
            following = segments[slot + 1] if slot + 1 < len(segments) else None
            if following is not None and following.base_offset <= start:
                continue
            self._loaded.log_end_offset = segment.base_offset
            fault = self._read_segment(segment, start, following)
            if fault is not None:
                self._cut(slot, fault)
                return

    def _read_segment(self, segment: Segment, start: int, following: Segment | None) -> Fault | None:
        """Read a segment from `start` on. Its indexes are made anew if they may not be durable."""
        loaded = self._loaded
        is_clean = loaded.report.was_clean
        rebuild = not is_clean and (following is None or following.base_offset > self._recovery_point)
        if rebuild:
            position = segment.index_start(start)
        else:
            found = segment.position_of(start)
            if found is None:
                return None
            position = found.position
        # After a clean stop nothing is read again but where a snapshot is missing, and then nothing has to be believed.
        scan = segment.scan(position, segment.base_offset)
        aborted = self._take_all(segment, scan, start, rebuild=rebuild)
        if rebuild:
            segment.indexes.transactions.replace_from(start, aborted)
        loaded.report.bytes_read += scan.position - position
        loaded.log_end_offset = scan.next_offset
        if not is_clean:
            segment.trusted_from = position
        if scan.fault is None and rebuild and following is not None:
            return _fault_between(segment, scan, following.base_offset)
        return scan.fault

    def _take_all(self, segment: Segment, scan: Scan, start: int, *, rebuild: bool) -> list[AbortedTransaction]:
        """Every batch counts here: after a crash there may be millions.

        An epoch begins where the batch before it ends: its first batches may have been cleaned away.
        """
        loaded, note, producers = self._loaded, segment.indexes.note, self._loaded.producers
        epochs, latest = loaded.epochs, loaded.epochs.latest
        aborted: list[AbortedTransaction] = []
        count, taken_to = 0, self._taken_to
        for batch in scan:
            header = batch.header
            count += 1
            if rebuild:
                size_bytes = header.batch_length + LENGTH_PREFIX_BYTES
                note(batch.position, size_bytes, header.base_offset + header.last_offset_delta, header.max_timestamp_ms)
            if header.base_offset < start:
                continue
            if header.leader_epoch != latest:
                check_epoch(segment, batch.position, header, self._leader_epoch_max)
                epochs.assign(header.leader_epoch, taken_to)
                latest = epochs.latest
            taken_to = header.next_offset
            one = replay(producers, batch)
            if one is not None:
                aborted.append(one)
        self._taken_to = taken_to
        loaded.report.batches_read += count
        return aborted

    def _cut(self, slot: int, fault: Fault) -> None:
        """Cut the log at a fault. What follows was never durable, so that nobody was told to count on it."""
        loaded, segment = self._loaded, self._loaded.segments[slot]
        if loaded.report.was_clean or fault.offset < self._durable:
            raise segment.damaged(fault.position, fault.offset, fault.reason)
        report = loaded.report
        report.fault, report.fault_path = fault, segment.path
        report.bytes_cut += segment.size_bytes - fault.position
        segment.cut(fault.position)
        for later in loaded.segments[slot + 1 :]:
            report.bytes_cut += later.size_bytes
            later.remove()
        del loaded.segments[slot + 1 :]

    def _take_down(self) -> None:
        """Hand the caller the files to make durable that a crash left in the page cache, so that nothing of it is read again."""
        loaded = self._loaded
        end = loaded.log_end_offset
        if end > self._recovery_point:
            written = [segment for segment in loaded.segments if segment.trusted_from < segment.size_bytes]
            loaded.written += [file for segment in written for file in segment.seal()]
        if end > loaded.snapshots.latest_offset:
            bases = [segment.base_offset for segment in loaded.segments]
            loaded.written.append(loaded.snapshots.write(end, loaded.producers, bases))


def _fault_between(segment: Segment, scan: Scan, next_base_offset: int) -> Fault | None:
    """The fault if the next file does not go on at the end of a segment that was read to its end."""
    if segment.is_followed_by(scan.next_offset, next_base_offset):
        return None
    return Fault(
        scan.position, scan.next_offset, f"it ends there, and the next file begins at offset {next_base_offset}"
    )


def _rebuilt(
    segments: Sequence[Segment], snapshots: Snapshots, expected: LogDigest, name: str
) -> list[tuple[Segment, list[AbortedTransaction]]]:
    """The right content of transaction indexes that are not as expected."""
    return [(one, aborted_in(one, segments, snapshots, name, expected.offset)) for one in doubtful(segments, expected)]


def _names(disk: Disk, directory: str, known_offset: int) -> set[str]:
    """The names in a partition's directory; of a new one none. `known_offset` was in the log once."""
    if disk.exists(directory):
        return set(finish_replacements(disk, directory))
    if known_offset > 0:
        raise DamagedLogError(f"{directory} is missing at offset 0: the log went up to offset {known_offset} at least")
    return set()


def _leftovers(names: Collection[str]) -> set[str]:
    """The files that a crash left half written or half removed."""
    bases = {name[:OFFSET_DIGITS] for name in names if offset_of(name, LOG) is not None}
    indexes = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
    orphans = {name for name in names if name[OFFSET_DIGITS:] in indexes and name[:OFFSET_DIGITS] not in bases}
    return orphans | {name for name in names if name.endswith((DELETED, ".tmp"))}


def _join_epochs(loaded: LoadedLog, disk: Disk, directory: str, recovery_point: int, leader_epoch_max: int) -> None:
    found = recovered_epochs(
        disk,
        directory,
        loaded.segments,
        loaded.epochs,
        loaded.log_start_offset,
        loaded.log_end_offset,
        leader_epoch_max,
    )
    loaded.epochs = found.epochs
    loaded.report.epochs_rebuilt = found.are_rebuilt
    # Beyond the recovery point even a file that says the right thing may not be durable.
    if not found.are_in_file or loaded.log_end_offset > recovery_point:
        loaded.written.append(EpochCheckpoint(disk, directory, found.epochs))


def _start_again(loaded: LoadedLog, segment: Segment) -> None:
    """Begin an empty log where the old one was said to start: its records were deleted, and their offsets are gone."""
    for old in loaded.segments:
        old.remove()
    loaded.snapshots.remove_all()
    loaded.segments = [segment]
    loaded.log_end_offset = segment.base_offset
    loaded.producers.load(())
