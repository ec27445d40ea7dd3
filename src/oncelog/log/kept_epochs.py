"""The leader epochs of one log: the one it is written under, those that wrote what it has, and their file."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.environment import Disk
from oncelog.log.checkpoints import epoch_starts_checkpoint
from oncelog.log.epoch_checkpoint import EpochCheckpoint, write_epochs
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.unsynced import Unsynced
from oncelog.records import BatchHeader

NO_LEADER_EPOCH = -1


class KeptEpochs:
    """Batches are written under `current`; it is NO_LEADER_EPOCH in a log that follows. `noted` is what the file has."""

    __slots__ = ("_checkpoint", "_directory", "_disk", "_unsynced", "current", "noted")

    def __init__(self, disk: Disk, directory: str, noted: LeaderEpochs, current: int, unsynced: Unsynced) -> None:
        self._disk = disk
        self._directory = directory
        self._unsynced = unsynced
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
        """What the file has to hold."""
        return epoch_starts_checkpoint(self.noted.starts)

    def keep(self, log_end_offset: int) -> None:
        """Have the file written with the sync of what is in the log at `log_end_offset`."""
        self._checkpoint.keep(self.noted)
        self._unsynced.add(log_end_offset, self._checkpoint, self._checkpoint.close)

    def rewrite(self) -> None:
        """Durable on return; no checkpoint that was to be written brings back what is forgotten."""
        self._unsynced.drop(lambda file, _: file is self._checkpoint)
        write_epochs(self._disk, self._directory, self.noted)

    def forget(self) -> None:
        """Nobody wrote anything; the file says so when it is written again."""
        self.noted = LeaderEpochs()

    def continue_in(self, directory: str) -> None:
        """Go on with a copy of the file."""
        self._directory = directory
        self._checkpoint = EpochCheckpoint(self._disk, directory)
