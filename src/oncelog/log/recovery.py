"""From the files of a partition to its state: what is in them, what a crash has left, what has to go."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from oncelog.environment import Disk, DiskError
from oncelog.log.checkpoints import EpochStart, read_epoch_starts
from oncelog.log.config import LONG_MAX, LogConfig
from oncelog.log.epoch_checkpoint import write_epochs
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.names import (
    DELETED,
    LEADER_EPOCHS,
    LOG,
    OFFSET_DIGITS,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_of,
)
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.producers import Producers
from oncelog.log.scan import Fault, ScannedBatch
from oncelog.log.segment import Segment
from oncelog.log.snapshots import Snapshots
from oncelog.records import read_control


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log took. `bytes_cut` were never said to be durable; `fault` says where the first of them were."""

    was_clean: bool
    snapshot_offset: int | None = None
    bytes_read: int = 0
    batches_read: int = 0
    bytes_cut: int = 0
    fault_path: str | None = None
    fault: Fault | None = None


@dataclass(slots=True)
class LoadedLog:
    """A log's state."""

    segments: list[Segment]
    producers: Producers
    snapshots: Snapshots
    epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    report: RecoveryReport


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
) -> LoadedLog:
    """Load a partition. Raises DiskError if bytes below the recovery point are not what was written."""
    names = _swept(disk, directory)
    bases = sorted(base for base in (offset_of(one, LOG) for one in names) if base is not None)
    segments = [Segment(disk, directory, base, config, now_ms, names) for base in bases]
    if not segments:
        segments = [Segment(disk, directory, log_start_offset, config, now_ms)]
    loaded = LoadedLog(
        segments=segments,
        producers=Producers(name),
        snapshots=Snapshots(disk, directory, names),
        epochs=LeaderEpochs(),
        log_start_offset=max(log_start_offset, segments[0].base_offset),
        log_end_offset=segments[0].base_offset,
        report=RecoveryReport(was_clean),
    )
    _Loading(loaded, recovery_point, LONG_MAX if high_watermark is None else high_watermark).run()
    if loaded.log_end_offset < recovery_point:
        raise DiskError(
            f"{directory}: the log ends at offset {loaded.log_end_offset}, "
            f"and everything below {recovery_point} was durable"
        )
    if loaded.log_end_offset < loaded.log_start_offset:
        _start_again(loaded, Segment(disk, directory, loaded.log_start_offset, config, now_ms))
    _join_epochs(loaded, disk, directory, recovery_point)
    for segment in loaded.segments:
        segment.close()
    return loaded


def replay(producers: Producers, batch: ScannedBatch) -> AbortedTransaction | None:
    """Bring the producers up to date with a batch of the log."""
    header = batch.header
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.record_data(header, header.base_offset, header.max_timestamp_ms)
        return None
    marker = read_control(batch.data, batch.position_in_data)
    if marker is None:
        return None
    return producers.record_marker(
        marker.control,
        header.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        header.max_timestamp_ms,
        header.base_offset,
    )


def reload_producers(segments: Sequence[Segment], producers: Producers, snapshots: Snapshots) -> None:
    """Make the producers' state again from what is in the log now."""
    found = snapshots.newest(LONG_MAX)
    start = segments[0].base_offset if found is None else found[0]
    producers.load(() if found is None else found[1])
    for segment in segments:
        for batch in segment.batches_from(max(start, segment.base_offset)):
            replay(producers, batch)


class _Loading:
    """One pass over what has to be read again: producers, epochs, and what the crash took from the indexes."""

    def __init__(self, loaded: LoadedLog, recovery_point: int, high_watermark: int) -> None:
        self._loaded = loaded
        self._recovery_point = recovery_point
        self._high_watermark = high_watermark

    def run(self) -> None:
        loaded = self._loaded
        end = loaded.segments[-1].resume() if loaded.report.was_clean else None
        # A log that was closed is durable to its end. If it goes on, the mark of a clean stop is an old one.
        loaded.report.was_clean = end is not None and end <= self._recovery_point
        start = self._load_snapshot(self._recovery_point)
        if loaded.report.was_clean and end is not None:
            loaded.log_end_offset = end
            if start < end:
                self._read_from(start)
        else:
            loaded.snapshots.remove_above(self._recovery_point)
            self._read_from(start)
            self._make_durable()
        loaded.producers.advance_high_watermark(min(self._high_watermark, loaded.log_end_offset))

    def _load_snapshot(self, offset_max: int) -> int:
        """Take the newest usable snapshot; return the offset from which the log has to be read."""
        # Beyond the high watermark a snapshot would hide transactions that are not decided yet.
        found = self._loaded.snapshots.newest(min(offset_max, self._high_watermark))
        if found is None:
            return self._loaded.segments[0].base_offset
        offset, producers = found
        self._loaded.producers.load(producers)
        self._loaded.report.snapshot_offset = offset
        return offset

    def _read_from(self, start: int) -> None:
        segments = self._loaded.segments
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
        scan = segment.scan(position, segment.base_offset, check_crc=not is_clean)
        aborted = [one for batch in scan if (one := self._take(segment, batch, start, rebuild=rebuild))]
        if rebuild:
            segment.transaction_index.settle(start, aborted)
        loaded.report.bytes_read += scan.position - position
        loaded.log_end_offset = scan.next_offset
        if not is_clean:
            segment.trusted_from = position
        if scan.fault is None and rebuild and following is not None and following.base_offset != scan.next_offset:
            return Fault(scan.position, scan.next_offset, f"the next segment begins at offset {following.base_offset}")
        return scan.fault

    def _take(self, segment: Segment, batch: ScannedBatch, start: int, *, rebuild: bool) -> AbortedTransaction | None:
        header = batch.header
        self._loaded.report.batches_read += 1
        if rebuild:
            segment.note(batch.position, header.size_bytes, header.last_offset, header.max_timestamp_ms)
        if header.base_offset < start:
            return None
        self._loaded.epochs.assign(header.leader_epoch, header.base_offset)
        return replay(self._loaded.producers, batch)

    def _cut(self, slot: int, fault: Fault) -> None:
        """Cut the log at a fault. What follows was never durable, so that nobody was told to count on it."""
        loaded, segment = self._loaded, self._loaded.segments[slot]
        if loaded.report.was_clean or fault.offset < self._recovery_point:
            raise segment.damaged(fault.position, fault.offset, fault.reason)
        report = loaded.report
        report.fault, report.fault_path = fault, segment.path
        report.bytes_cut += segment.size_bytes - fault.position
        segment.cut(fault.position)
        for later in loaded.segments[slot + 1 :]:
            report.bytes_cut += later.size_bytes
            later.remove()
        del loaded.segments[slot + 1 :]

    def _make_durable(self) -> None:
        """What a crash left in the page cache is durable only from now on."""
        loaded = self._loaded
        if loaded.log_end_offset > self._recovery_point:
            bases = [segment.base_offset for segment in loaded.segments]
            snapshot = loaded.snapshots.write(loaded.log_end_offset, loaded.producers, bases)
            written = [segment for segment in loaded.segments if segment.trusted_from < segment.size_bytes]
            for file in (*(file for segment in written for file in segment.seal()), snapshot):
                file.sync()
            snapshot.close()


def _swept(disk: Disk, directory: str) -> Collection[str]:
    """The names in a directory, without what a crash left half done."""
    disk.make_directory(directory)
    names = set(disk.list_directory(directory))
    bases = {name[:OFFSET_DIGITS] for name in names if offset_of(name, LOG) is not None}
    indexes = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
    for name in sorted(names):
        if name.endswith(".swap"):
            raise DiskError(f"{directory}/{name}: a compaction was not finished; start the broker that began it")
        is_orphan = name[OFFSET_DIGITS:] in indexes and name[:OFFSET_DIGITS] not in bases
        if is_orphan or name.endswith((DELETED, ".cleaned", ".tmp")):
            disk.remove(f"{directory}/{name}")
            names.remove(name)
    return names


def _join_epochs(loaded: LoadedLog, disk: Disk, directory: str, recovery_point: int) -> None:
    """Put the epochs of the batches that were read behind those of the checkpoint, which may miss the last ones."""
    in_file: list[EpochStart] | None = None
    try:
        in_file = read_epoch_starts(disk, f"{directory}/{LEADER_EPOCHS}")
    except DiskError:
        # It is first written with the first batch, and durable together with it.
        if loaded.report.was_clean and loaded.log_end_offset > loaded.log_start_offset:
            raise
    epochs = LeaderEpochs(in_file or ())
    for start in loaded.epochs.starts:
        epochs.assign(start.epoch, start.start_offset)
    epochs.truncate_end(loaded.log_end_offset)
    loaded.epochs = epochs
    # Beyond the recovery point even a file that says the right thing may not be durable.
    if list(epochs.starts) != in_file or loaded.log_end_offset > recovery_point:
        write_epochs(disk, directory, epochs)


def _start_again(loaded: LoadedLog, segment: Segment) -> None:
    """Begin an empty log where the old one was said to start: its records were deleted, and their offsets are gone."""
    for old in loaded.segments:
        old.remove()
    loaded.snapshots.remove_all()
    loaded.segments = [segment]
    loaded.log_end_offset = segment.base_offset
    loaded.producers.load(())
