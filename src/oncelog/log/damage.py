"""What is said of a partition whose files are not what was written."""

from __future__ import annotations

from oncelog.environment import DiskError


class DamagedLogError(DiskError):
    """Names the file and the offset. It is about one partition: the disk answers, and the others may be whole."""


class UnknownEpochError(DamagedLogError):
    """A batch has a leader epoch that there was not: `epoch`."""

    def __init__(self, damage: DamagedLogError, epoch: int) -> None:
        super().__init__(str(damage))
        self.epoch = epoch
