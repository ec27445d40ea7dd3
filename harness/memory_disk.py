"""The disk in memory that the simulation runs on, for tests."""

from __future__ import annotations

from oncelog.simulation.memory_disk import MemoryDisk, MemoryFile

__all__ = ["MemoryDisk", "MemoryFile"]
