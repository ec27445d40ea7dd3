"""Checks of the files that follow from a log's batches: indexes, leader epochs, producer snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from oncelog.environment import Disk, DiskError
from oncelog.log.checkpoints import read_epoch_starts
from oncelog.log.index_files import NO_TIMESTAMP
from oncelog.log.inspection.findings import AtStart, Finding, Report
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.names import LEADER_EPOCHS, SNAPSHOT, offset_name, offset_of
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.producer_snapshots import DamagedSnapshotError, decode_snapshot, encode_snapshot
from oncelog.log.producers import Producers, ProducerStateEntry, replay
from oncelog.log.scan import ScannedBatch
from oncelog.records import NO_SEQUENCE, BatchHeader

CHUNK_ENTRIES = 4096
OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY = Struct(">ii"), Struct(">qi"), Struct(">hqqqq")


class Problem(NamedTuple):
    """A fault of an index, its byte in the file, and the offset of the marker that it is about, if there is one."""

    position: int
    what: str
    offset: int | None = None


class IndexEntries:
    """The entries of an index file, the next one at hand; none if there is no file."""

    def __init__(self, disk: Disk, path: str, entry: Struct) -> None:
        self._entry = entry
        self.exists = disk.exists(path)
        self.count = 0
        self._file = disk.open(path) if self.exists else None
        self.size_bytes = 0 if self._file is None else self._file.size_bytes
        self._left = self._read()
        self.next = next(self._left, None)

    @property
    def position(self) -> int:
        """The position of the next entry."""
        return self.count * self._entry.size

    @property
    def rest_bytes(self) -> int:
        return self.size_bytes % self._entry.size

    def advance(self) -> None:
        self.count += 1
        self.next = next(self._left, None)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _read(self) -> Iterator[tuple[int, ...]]:
        step = CHUNK_ENTRIES * self._entry.size
        for position in range(0, self.size_bytes, step):
            assert self._file is not None
            data = self._file.read(position, step)
            yield from self._entry.iter_unpack(data[: len(data) - len(data) % self._entry.size])


class OffsetIndexCheck:
    """Each entry names a batch and where it is, and there is one for every `interval_bytes` of them."""

    def __init__(self, disk: Disk, path: str, base_offset: int, interval_bytes: int) -> None:
        self.path = path
        self.problem: Problem | None = None
        self._entries = IndexEntries(disk, path, OFFSET_ENTRY)
        self._base_offset = base_offset
        self._spacing_bytes = interval_bytes
        self._since_bytes = 0
        self._is_due = False

    @property
    def exists(self) -> bool:
        return self._entries.exists

    def take(self, position: int, header: BatchHeader) -> None:
        entries = self._entries
        if self.problem is None:
            while entries.next is not None and entries.next[1] < position:
                self._fault(f"the entry points at byte {entries.next[1]}, where no batch begins")
                return
            if entries.next is not None and entries.next[1] == position:
                offset = entries.next[0] + self._base_offset
                if offset != header.last_offset:
                    self._fault(
                        f"the entry says that offset {offset} ends the batch that ends with {header.last_offset}"
                    )
                    return
                self._spacing_bytes = max(self._spacing_bytes, self._since_bytes)
                self._since_bytes, self._is_due = 0, False
                entries.advance()
            elif self._since_bytes > self._spacing_bytes:
                self._is_due = True
        self._since_bytes += header.size_bytes

    def finish(self, *, is_complete: bool, may_be_missing: bool) -> None:
        """`is_complete`: every entry was written. A file without entries need not be there at all."""
        entries = self._entries
        if self.problem is None:
            if entries.next is not None:
                self._fault(f"the entry points at byte {entries.next[1]}, beyond the last batch")
            elif entries.rest_bytes:
                self._fault(f"{entries.rest_bytes} bytes follow the last entry")
            elif is_complete and self._is_due:
                self._fault("entries are missing")
            elif is_complete and not self.exists and not may_be_missing:
                self._fault("the file is missing")
        entries.close()

    def _fault(self, what: str) -> None:
        self.problem = Problem(self._entries.position, what)


class TimeIndexCheck:
    """Each entry is the largest timestamp so far and the batch that had it first; the last one is that of the segment."""

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.path = path
        self.problem: Problem | None = None
        self._entries = IndexEntries(disk, path, TIME_ENTRY)
        self._base_offset = base_offset
        self._max_ms = NO_TIMESTAMP
        self._last_ms = NO_TIMESTAMP

    @property
    def exists(self) -> bool:
        return self._entries.exists

    def take(self, position: int, header: BatchHeader) -> None:
        entries = self._entries
        if header.max_timestamp_ms <= self._max_ms:
            return
        self._max_ms = header.max_timestamp_ms
        if self.problem is not None or entries.next is None or entries.next[0] > self._max_ms:
            return
        timestamp_ms, relative = entries.next
        if timestamp_ms < self._max_ms:
            self._fault(f"no batch has the timestamp {timestamp_ms} as the largest up to there")
        elif relative + self._base_offset != header.last_offset:
            self._fault(
                f"the entry says that offset {relative + self._base_offset} has the timestamp {timestamp_ms}, "
                f"and {header.last_offset} has it"
            )
        else:
            self._last_ms = timestamp_ms
            entries.advance()

    def finish(self, *, is_complete: bool, may_be_missing: bool) -> None:
        entries = self._entries
        if self.problem is None:
            if entries.next is not None:
                self._fault(f"no batch has the timestamp {entries.next[0]} as the largest up to there")
            elif entries.rest_bytes:
                self._fault(f"{entries.rest_bytes} bytes follow the last entry")
            elif is_complete and self._last_ms != self._max_ms:
                self._fault("the last entry is missing" if self.exists else "the file is missing")
            elif is_complete and not self.exists and not may_be_missing:
                self._fault("the file is missing")
        entries.close()

    def _fault(self, what: str) -> None:
        self.problem = Problem(self._entries.position, what)


def check_transaction_index(
    disk: Disk, path: str, wanted: Sequence[AbortedTransaction], *, is_exact: bool, is_compacted: bool
) -> Problem | None:
    """Compare the file with the aborted transactions whose markers are in the segment; None if they are the same.

    Without `is_exact` the first offsets of transactions are not known: entries are matched by producer and marker. Where the log
    `is_compacted`, the file may have more: the records of an aborted transaction are gone, or its marker is.
    """
    entries = IndexEntries(disk, path, TRANSACTION_ENTRY)
    try:
        end = -1
        for aborted in wanted:
            while is_compacted and entries.next is not None and entries.next[3] < aborted.last_offset:
                entries.advance()
            end = aborted.last_offset
            if entries.next is None:
                return Problem(entries.position, f"the transaction that was aborted at offset {end} is not in it", end)
            version, *fields = entries.next
            found = AbortedTransaction(*fields)
            is_same = found == aborted if is_exact else (found[0], found[2]) == (aborted[0], aborted[2])
            if version or not is_same:
                what = f"the entry is {tuple(found)}, and the markers say {tuple(aborted)}"
                return Problem(entries.position, what, end)
            entries.advance()
        if entries.next is not None and not is_compacted:
            offset = entries.next[3] if entries.next[3] > max(end, entries.next[2]) else None
            what = f"no marker aborted the transaction of the entry {entries.next[1:]}"
            return Problem(entries.position, what, offset)
        if entries.rest_bytes:
            return Problem(entries.position, f"{entries.rest_bytes} bytes follow the last entry")
        return None
    finally:
        entries.close()


@dataclass(frozen=True, slots=True)
class WrongEpoch:
    """A batch whose leader epoch cannot be right, and the one that it was written under."""

    offset: int
    position: int
    segment_path: str
    epoch: int
    right_epoch: int


class EpochCheck:
    """A batch is held until the one behind it is known: an epoch that goes down again was never up."""

    def __init__(self, in_file: LeaderEpochs | None, epoch_max: int | None) -> None:
        self.wrong: list[WrongEpoch] = []
        self.epochs = LeaderEpochs()
        """The epochs of the batches, as the file should have them."""
        self.disagreement: tuple[int, int, int] | None = None
        """The first offset at which the file says another epoch than its batch; what the file says, what the batch."""
        self.in_file = in_file
        self._epoch_max = epoch_max
        self._held: tuple[str, int, int, int] | None = None
        self._last = -1

    def take(self, path: str, batch: ScannedBatch) -> None:
        header = batch.header
        self._judge(header.leader_epoch)
        self._held = (path, batch.position, header.base_offset, header.leader_epoch)

    def finish(self) -> None:
        self._judge(None)
        self._held = None

    def _judge(self, following: int | None) -> None:
        if self._held is None:
            return
        path, position, offset, epoch = self._held
        said = epoch if self.in_file is None else self.in_file.epoch_of(offset)
        is_too_high = self._epoch_max is not None and epoch > self._epoch_max and said != epoch
        goes_down = following is not None and self._last <= following < epoch
        if epoch < self._last or is_too_high or goes_down:
            self.wrong.append(WrongEpoch(offset, position, path, epoch, self._right(offset, following)))
            return
        self._last = epoch
        self.epochs.assign(epoch, offset)
        if said != epoch and self.disagreement is None:
            self.disagreement = (offset, said, epoch)

    def _right(self, offset: int, following: int | None) -> int:
        """The file's epoch, if it is between the epochs before and behind."""
        said = -1 if self.in_file is None else self.in_file.epoch_of(offset)
        is_possible = said >= self._last and (following is None or said <= max(following, self._last))
        return said if is_possible else max(self._last, 0)


def read_epochs(disk: Disk, directory: str, report: Report) -> LeaderEpochs | None:
    """Read the checkpoint; None if it makes no sense."""
    path = f"{directory}/{LEADER_EPOCHS}"
    try:
        starts = read_epoch_starts(disk, path)
    except DiskError as error:
        report(Finding(path, str(error), AtStart.REBUILDS))
        return None
    epochs = LeaderEpochs(starts)
    if list(epochs.starts) != starts:
        report(Finding(path, "epochs and their offsets do not grow from line to line", AtStart.REBUILDS))
        return None
    return epochs


@dataclass(frozen=True, slots=True)
class WrongSnapshot:
    """A snapshot that is not right; `right` is what it should be, if that is known."""

    path: str
    offset: int
    what: str
    right: bytes | None


class ProducerCheck:
    """Replays the producers beside the batches.

    Behind records that are lost, or that compaction took, what is known of them is not exact: until the next snapshot, which is
    believed then.
    """

    def __init__(self, disk: Disk, directory: str, names: Collection[str], name: str, base_offset: int) -> None:
        self.producers = Producers(name)
        self.wrong: list[WrongSnapshot] = []
        self._disk = disk
        self._directory = directory
        found = (offset_of(one, SNAPSHOT) for one in names)
        self.offsets = sorted(offset for offset in found if offset is not None)
        self._left = list(self.offsets)
        self.is_exact = True
        if base_offset > 0:
            self.is_exact = self._begin(base_offset)
        self._next_offset = base_offset
        # A snapshot below it does not have what was lost behind it.
        self._lost_below = base_offset

    def _begin(self, base_offset: int) -> bool:
        """Load the producers from before the log: only the snapshot at its beginning has them."""
        while self._left and self._left[0] < base_offset:
            self._left.pop(0)
        if not self._left or self._left[0] != base_offset:
            return False
        try:
            self.producers.load(decode_snapshot(self._disk.read_file(self._path(base_offset))))
        except DamagedSnapshotError:
            return False
        return True

    def take(self, batch: ScannedBatch) -> AbortedTransaction | None:
        """Raises RecordsError for a control batch that cannot be read."""
        self.reach(batch.header.base_offset)
        self._next_offset = batch.header.next_offset
        if batch.header.record_count == 0:
            self.is_exact = False
        return replay(self.producers, batch)

    def reach(self, offset: int) -> None:
        """Every batch below `offset` was taken: look at the snapshots up to there."""
        while self._left and self._left[0] <= offset:
            snapshot_offset = self._left.pop(0)
            problem = self._problem(snapshot_offset)
            if problem is not None:
                is_known = self.is_exact and snapshot_offset >= self._next_offset
                right = encode_snapshot(self.producers) if is_known else None
                self.wrong.append(WrongSnapshot(self._path(snapshot_offset), snapshot_offset, problem, right))

    def lose(self, first_offset: int, next_offset: int | None) -> None:
        """The batches from `first_offset` to `next_offset` are lost, after all before them were taken."""
        self.reach(first_offset)
        self.is_exact = False
        self._lost_below = first_offset if next_offset is None else next_offset

    def finish(self, end_offset: int) -> None:
        self.reach(end_offset)
        for offset in self._left:
            what = f"it is of offset {offset}, and the log ends at {end_offset}"
            self.wrong.append(WrongSnapshot(self._path(offset), offset, what, None))

    def _problem(self, offset: int) -> str | None:
        try:
            snapshot = decode_snapshot(self._disk.read_file(self._path(offset)))
        except DamagedSnapshotError as error:
            return str(error)
        if offset < self._next_offset:
            return f"no batch begins or ends at offset {offset}"
        if not self.is_exact:
            self.producers.load(snapshot)
            self.is_exact = offset >= self._lost_below
            return None
        by_id = {producer.producer_id: producer for producer in self.producers}
        for producer in snapshot:
            known = by_id.pop(producer.producer_id, None)
            if known is None:
                return f"producer {producer.producer_id} wrote nothing below offset {offset}"
            if not _are_same(producer, known):
                return f"producer {producer.producer_id} is {_facts(producer)} in it, and {_facts(known)} in the log"
        for producer in by_id.values():
            # One that has no open transaction may have expired.
            if producer.transaction_first_offset is not None:
                return f"the open transaction of producer {producer.producer_id} is not in it"
        return None

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset, SNAPSHOT)}"


def _facts(producer: ProducerStateEntry) -> tuple[int | None, ...]:
    last = producer.batches[-1] if producer.batches else None
    return (
        producer.epoch,
        NO_SEQUENCE if last is None else last.last_sequence,
        None if last is None else last.first_offset,
        None if last is None else last.last_offset,
        producer.last_timestamp_ms,
        producer.transaction_first_offset,
        producer.coordinator_epoch,
    )


def _are_same(found: ProducerStateEntry, known: ProducerStateEntry) -> bool:
    """A producer that expired and came back has forgotten its coordinator's epoch."""
    *facts, coordinator_epoch = _facts(found)
    *known_facts, known_coordinator_epoch = _facts(known)
    return facts == known_facts and coordinator_epoch in (known_coordinator_epoch, -1)
