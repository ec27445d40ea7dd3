"""Whether the producer snapshots of a partition say what its batches up to there say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from oncelog.environment import Disk
from oncelog.log.names import SNAPSHOT, offset_name, offset_of
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.producer_snapshots import DamagedSnapshotError, decode_snapshot, encode_snapshot
from oncelog.log.producers import Producers, ProducerStateEntry, replay
from oncelog.log.scan import ScannedBatch
from oncelog.records import NO_SEQUENCE


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
        """What came before the log is known from the snapshot at its beginning alone."""
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
