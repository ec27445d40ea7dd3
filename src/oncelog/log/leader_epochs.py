"""The leader epochs of one log: which epoch wrote which offsets, their checkpoint file, and what a start finds of them.

No CRC-32C covers the leader epoch of a batch, and followers take batches as they are: so it is checked by itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from oncelog.environment import Disk, DiskError
from oncelog.log.checkpoints import EpochStart, epoch_starts_checkpoint, read_epoch_starts
from oncelog.log.config import EPOCH_MIN
from oncelog.log.durability import LogDurability
from oncelog.log.names import LEADER_EPOCHS
from oncelog.log.outcome import DamagedLogError, UnknownEpochError
from oncelog.log.segment import Segment
from oncelog.records import BatchHeader

UNKNOWN_EPOCH_END = (-1, -1)


class LeaderEpochs:
    """The start offset of each epoch, both growing."""

    __slots__ = ("_starts",)

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self._starts: list[EpochStart] = []
        for start in starts:
            self.assign(start.epoch, start.start_offset)

    @property
    def latest(self) -> int:
        """-1 if nothing was ever written."""
        return self._starts[-1].epoch if self._starts else -1

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        return tuple(self._starts)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; False if that was known."""
        if epoch <= self.latest:
            return False
        while self._starts and self._starts[-1].start_offset >= start_offset:
            # That epoch's leader wrote nothing.
            self._starts.pop()
        self._starts.append(EpochStart(epoch, start_offset))
        return True

    def epoch_of(self, offset: int) -> int:
        slot = bisect_right(self._starts, offset, key=lambda start: start.start_offset) - 1
        return -1 if slot < 0 else self._starts[slot].epoch

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: the largest epoch not above `epoch`, and the offset at which the next one starts.

        An epoch below all that are known ends where the first of them starts; (-1, -1) if `epoch` is above them all.
        """
        if epoch < 0 or epoch > self.latest:
            return UNKNOWN_EPOCH_END
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        answered = self._starts[slot - 1].epoch if slot else epoch
        return answered, self._starts[slot].start_offset

    def truncate_end(self, offset: int) -> bool:
        """Forget the epochs that start at `offset` or after it; False if there are none."""
        count = len(self._starts)
        while self._starts and self._starts[-1].start_offset >= offset:
            self._starts.pop()
        return len(self._starts) < count


def write_epochs(disk: Disk, directory: str, epochs: LeaderEpochs) -> None:
    """Durable on return."""
    disk.replace_file(_path(directory), epoch_starts_checkpoint(epochs.starts))


def _path(directory: str) -> str:
    return f"{directory}/{LEADER_EPOCHS}"


class EpochCheckpoint:
    """The file as it should be now, not written before somebody syncs it: that is the one time when blocking is allowed.

    A directory has one, for what is newest in it must be what is written last.
    """

    __slots__ = ("_data", "_disk", "_is_closed", "_path", "_written")

    def __init__(self, disk: Disk, directory: str, epochs: LeaderEpochs | None = None) -> None:
        self._disk = disk
        self._path = _path(directory)
        self._written: bytes | None = None
        self._is_closed = True
        self._data = b""
        if epochs is not None:
            self.keep(epochs)

    def keep(self, epochs: LeaderEpochs) -> None:
        """These are to be written with the next sync."""
        self._data = epoch_starts_checkpoint(epochs.starts)
        self._written = None
        self._is_closed = False

    def sync(self) -> None:
        """Write it, unless the log was closed: its directory may have gone, or be another log's by now."""
        data = self._data
        if self._is_closed or data is self._written:
            return
        try:
            self._disk.replace_file(self._path, data)
            self._written = data
        except DiskError:
            if not self._is_closed:
                raise

    def close(self) -> None:
        self._is_closed = True


def check_epoch(segment: Segment, position: int, header: BatchHeader, leader_epoch_max: int) -> None:
    """Raises UnknownEpochError."""
    epoch = header.leader_epoch
    if not EPOCH_MIN <= epoch <= leader_epoch_max:
        raise UnknownEpochError(segment.damaged(position, header.base_offset, _reason(epoch, leader_epoch_max)), epoch)


def epoch_beyond(segment: Segment, directory: str, noted: EpochStart, leader_epoch_max: int) -> UnknownEpochError:
    """The damage of a log that has noted an epoch beyond those that there were: of its batch, or of the note alone."""
    reason = _reason(noted.epoch, leader_epoch_max)
    found = segment.position_of(noted.start_offset)
    if found is not None and found.header.leader_epoch == noted.epoch:
        damage = segment.damaged(found.position, found.header.base_offset, reason)
    else:
        damage = DamagedLogError(f"{directory}/{LEADER_EPOCHS} is damaged at offset {noted.start_offset}: {reason}")
    return UnknownEpochError(damage, noted.epoch)


def _reason(epoch: int, leader_epoch_max: int) -> str:
    return f"the leader epoch is {epoch}, and there were {leader_epoch_max + 1}"


NO_LEADER_EPOCH = -1


class KeptEpochs:
    """Batches are written under `current`; it is NO_LEADER_EPOCH in a log that follows. `noted` is what the file has."""

    __slots__ = ("_checkpoint", "_directory", "_disk", "_durability", "current", "noted")

    def __init__(
        self, disk: Disk, directory: str, noted: LeaderEpochs, current: int, durability: LogDurability
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._durability = durability
        self._checkpoint = EpochCheckpoint(disk, directory)
        self.noted = noted
        self.current = current

    @property
    def newest(self) -> int:
        """The epoch that batches carry; of a log that follows, that of its last batch."""
        return max(self.current, self.noted.latest)

    def lead(self, epoch: int, log_end_offset: int) -> None:
        """From now on batches carry this epoch, which begins here and now.

        KIP-101: a new leader notes the epoch and its log end offset before anything else, so that it can tell followers where the
        epochs before it end. The note is made durable with the log's other files.
        """
        assert epoch >= self.current, "leader epochs do not go back"
        self.current = epoch
        if self.noted.latest < epoch:
            self.begin(log_end_offset)

    def follow(self) -> None:
        self.current = NO_LEADER_EPOCH

    def begin(self, log_end_offset: int) -> None:
        """Note that the leader's epoch begins where the log ends. It is made durable together with what comes next."""
        self.noted.assign(self.current, log_end_offset)
        self.keep(log_end_offset)

    def note(self, headers: Sequence[BatchHeader], log_end_offset: int) -> None:
        """Note where the leader's epochs begin in what a follower has appended at `log_end_offset`.

        The first batches of an epoch may have been cleaned away: it begins where the batch before it ends, at the latest. One that
        was noted too late would let a replica keep what it alone has of the epoch before.
        """
        # This log may have led an epoch in which it wrote nothing, and the leader never heard of.
        is_changed = headers[0].leader_epoch < self.noted.latest and self.noted.truncate_end(log_end_offset)
        end_before = log_end_offset
        for header in headers:
            is_changed |= self.noted.assign(header.leader_epoch, end_before)
            end_before = header.next_offset
        if is_changed:
            self.keep(log_end_offset)

    def at(self, offset: int, log_end_offset: int) -> int:
        """The leader epoch that wrote `offset`, or would write it; -1 if that is not known."""
        return self.newest if offset >= log_end_offset else self.noted.epoch_of(offset)

    def end_of(self, leader_epoch: int, log_end_offset: int, log_start_offset: int) -> tuple[int, int]:
        """The largest known epoch not above `leader_epoch`, and where it ends; (-1, -1) if it is above them all."""
        if leader_epoch == self.current and leader_epoch > self.noted.latest:
            return leader_epoch, log_end_offset
        # As in Kafka, what is known of epochs begins with the log (LeaderEpochFileCache.truncateFromStart): of one that wrote
        # nothing of what is left, nobody knows whether it was there.
        if 0 <= leader_epoch < self.noted.epoch_of(log_start_offset):
            return leader_epoch, log_start_offset
        return self.noted.end_offset(leader_epoch, log_end_offset)

    def end_log_at(self, offset: int, log_start_offset: int) -> bool:
        """Forget the epochs that begin where the log ends now, or after it; False if there are none.

        The first one begins with the log, wherever its first record was. So of a log without records none is left: it would part
        from its leader's in an epoch of which there is nothing to cut off, for ever.
        """
        return self.noted.truncate_end(0 if offset <= log_start_offset else offset)

    def in_file(self) -> bytes:
        """The content that the file has to have."""
        return epoch_starts_checkpoint(self.noted.starts)

    def keep(self, log_end_offset: int) -> None:
        """Have the file written with the sync of what is in the log at `log_end_offset`."""
        self._checkpoint.keep(self.noted)
        self._durability.add(log_end_offset, self._checkpoint, self._checkpoint.close)

    def rewrite(self) -> None:
        """Durable on return; no checkpoint that was to be written brings back what is forgotten."""
        self._durability.drop(lambda file, _: file is self._checkpoint)
        write_epochs(self._disk, self._directory, self.noted)

    def forget(self) -> None:
        """Nobody wrote anything; the file says so when it is written again."""
        self.noted = LeaderEpochs()

    def continue_in(self, directory: str) -> None:
        """Go on with a copy of the file."""
        self._directory = directory
        self._checkpoint = EpochCheckpoint(self._disk, directory)


class RecoveredEpochs(NamedTuple):
    """`are_rebuilt`: the checkpoint had none, and every batch was read for them. `are_in_file`: it has just these."""

    epochs: LeaderEpochs
    are_rebuilt: bool
    are_in_file: bool


def recovered_epochs(
    disk: Disk,
    directory: str,
    segments: Sequence[Segment],
    read: LeaderEpochs,
    log_start_offset: int,
    log_end_offset: int,
    leader_epoch_max: int,
) -> RecoveredEpochs:
    """Put the epochs of the batches that were `read` behind those of the checkpoint, which may miss the last ones.

    A checkpoint with an epoch that there was not makes no sense. Raises UnknownEpochError for a batch with one.
    """
    in_file = _epochs_in_file(disk, directory, leader_epoch_max)
    epochs, are_rebuilt = LeaderEpochs(in_file or ()), False
    # The file is first written with the first batch, and durable together with it.
    if not in_file and (not read.starts or read.starts[0].start_offset > log_start_offset):
        _assign_all(epochs, segments, leader_epoch_max)
        are_rebuilt = bool(epochs.starts)
    for start in read.starts:
        epochs.assign(start.epoch, start.start_offset)
    epochs.truncate_end(log_end_offset)
    return RecoveredEpochs(epochs, are_rebuilt, list(epochs.starts) == in_file)


def _assign_all(epochs: LeaderEpochs, segments: Sequence[Segment], leader_epoch_max: int) -> None:
    """An epoch begins where the batch before it ends, the first one where the log does."""
    taken_to = segments[0].base_offset
    for segment in segments:
        for batch in segment.scan(0, segment.base_offset, check_crc=False):
            check_epoch(segment, batch.position, batch.header, leader_epoch_max)
            epochs.assign(batch.header.leader_epoch, taken_to)
            taken_to = batch.header.next_offset


def _epochs_in_file(disk: Disk, directory: str, leader_epoch_max: int) -> list[EpochStart] | None:
    """Read the checkpoint; None if it makes no sense."""
    try:
        found = read_epoch_starts(disk, f"{directory}/{LEADER_EPOCHS}")
    except DiskError:
        return None
    in_order = all(one.epoch < other.epoch and one.start_offset < other.start_offset for one, other in pairwise(found))
    return found if in_order and all(0 <= one.epoch <= leader_epoch_max for one in found) else None
