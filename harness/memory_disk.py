"""The disk in memory that the simulation runs on, for tests."""

from __future__ import annotations

from random import Random
from typing import Any

from oncelog.simulation.memory_disk import MemoryDisk, MemoryFile

__all__ = ["CuttingDisk", "LosesAll", "LosesNothing", "MemoryDisk", "MemoryFile", "PowerCut"]


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


class LosesAll(Random):
    """For `lose_by`: of what was not synced a power cut leaves nothing."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def randrange(self, *_: Any) -> int:
        return 0


class LosesNothing(Random):
    """For `lose_by`: a power cut leaves what was not synced, too."""

    def choice(self, seq: Any) -> Any:
        return seq[1]

    def randrange(self, stop: int, *_: Any) -> int:
        return stop - 1
