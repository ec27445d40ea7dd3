"""Room in a log directory that is kept back, as a file, for what has to be written when the disk is full."""

from __future__ import annotations

from oncelog.environment import Disk, Share

RESERVE = "oncelog-reserve"


class Reserve:
    """It is given up in two halves, and taken again as a whole. Giving it up may be asked for on any thread."""

    def __init__(self, disk: Disk, directory: str, size_bytes: int) -> None:
        """Raises DiskError. What is there of an earlier process counts."""
        self._disk = disk
        self._path = f"{directory}/{RESERVE}"
        self.size_bytes = size_bytes
        self.held_bytes = 0
        if disk.exists(self._path):
            file = disk.open(self._path)
            self.held_bytes = file.size_bytes
            file.close()

    @property
    def missing_bytes(self) -> int:
        return self.size_bytes - self.held_bytes

    def take(self) -> None:
        """Raises DiskFullError, and DiskError."""
        if self.missing_bytes:
            self._disk.allocate(self._path, self.size_bytes)
            self.held_bytes = self.size_bytes

    def give_up(self, share: Share) -> bool:
        """Make room for a write that may take so much; say whether there is more now. Raises DiskError."""
        half = self.size_bytes // 2
        if share is Share.NONE or not self.held_bytes or (share is Share.HALF and self.held_bytes <= half):
            return False
        left = half if self.held_bytes > half else 0
        self._disk.allocate(self._path, left)
        self.held_bytes = left
        return True
