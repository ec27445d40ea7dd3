"""Which leader epoch began where, as a file in the log's directory."""

from __future__ import annotations

from oncelog.environment import Disk, DiskError
from oncelog.log.checkpoints import epoch_starts_checkpoint
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.names import LEADER_EPOCHS


def write_epochs(disk: Disk, directory: str, epochs: LeaderEpochs) -> None:
    """Durable on return."""
    disk.replace_file(_path(directory), epoch_starts_checkpoint(epochs.starts))


def _path(directory: str) -> str:
    return f"{directory}/{LEADER_EPOCHS}"


class EpochCheckpoint:
    """The file as it should be now, not written before somebody syncs it: that is the one time when blocking is allowed."""

    __slots__ = ("_data", "_disk", "_is_closed", "_is_written", "_path")

    def __init__(self, disk: Disk, directory: str, epochs: LeaderEpochs) -> None:
        self._disk = disk
        self._path = _path(directory)
        self._data = epoch_starts_checkpoint(epochs.starts)
        self._is_closed = self._is_written = False

    def sync(self) -> None:
        """Write it, unless the log was closed: its directory may have gone, or be another log's by now."""
        if self._is_closed or self._is_written:
            return
        try:
            self._disk.replace_file(self._path, self._data)
            self._is_written = True
        except DiskError:
            if not self._is_closed:
                raise

    def close(self) -> None:
        self._is_closed = True
