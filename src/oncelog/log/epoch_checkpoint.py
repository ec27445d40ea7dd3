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
