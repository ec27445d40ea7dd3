"""The disk in memory that the simulation runs on, for tests."""

from __future__ import annotations

from oncelog.simulation.memory_disk import MemoryDisk, MemoryFile

__all__ = ["CuttingDisk", "MemoryDisk", "MemoryFile", "PowerCut"]


class PowerCut(BaseException):
    """The process goes no further."""


class CuttingDisk(MemoryDisk):
    """Stops the process before a change when so many were made."""

    changes_left: int | None = None

    def changed(self, path: str) -> None:
        self.count()
        super().changed(path)

    def count(self) -> None:
        if self.changes_left is not None:
            if self.changes_left == 0:
                raise PowerCut
            self.changes_left -= 1
