"""What a file of the disk in memory holds, and what a power cut leaves of it."""

from __future__ import annotations

from random import Random

SECTOR_BYTES = 512


class FileContent:
    """One file: its bytes as processes see them, as they are on the medium, and the writes in between."""

    __slots__ = ("data", "durable", "modified_ms", "synced", "writes")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.synced = 0
        self.writes: list[tuple[int, bytes | None]] = []
        self.modified_ms = 0

    def write(self, position: int, data: bytes | None) -> None:
        """Without data, end the file there."""
        _apply(self.data, position, data)
        self.writes.append((position, data))

    def sync(self) -> None:
        self.sync_up_to(self.written)

    @property
    def written(self) -> int:
        """How many writes there were."""
        return self.synced + len(self.writes)

    def sync_up_to(self, written: int) -> None:
        """Make the first so many writes durable."""
        count = max(0, written - self.synced)
        for position, data in self.writes[:count]:
            _apply(self.durable, position, data)
        del self.writes[:count]
        self.synced += count

    def crash(self, random: Random) -> None:
        """Choose what the medium has of the writes that were not synced."""
        kept = random.choice(("none", "all", "torn", "sectors"))
        writes = list(self.writes)
        survivor = FileContent()
        survivor.data[:] = self.durable
        if kept == "torn" and writes:
            writes = writes[: random.randrange(len(writes)) + 1]
            position, last = writes[-1]
            if last is not None:
                writes[-1] = (position, last[: random.randrange(len(last) + 1)])
        for position, data in writes if kept != "none" else ():
            survivor.write(position, data)
        if kept == "sectors":
            survivor._lose_sectors(random, self.durable)
        self.data = survivor.data
        self.durable = bytearray(self.data)
        self.synced += len(self.writes)
        self.writes.clear()

    def _lose_sectors(self, random: Random, durable: bytearray) -> None:
        for start in range(0, len(self.data), SECTOR_BYTES):
            end = min(start + SECTOR_BYTES, len(self.data))
            old = durable[start:end]
            if self.data[start:end] != old and random.random() < 0.3:
                self.data[start:end] = old + bytes(end - start - len(old))


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
    content.extend(bytes(max(0, position - len(content))))
    if data is not None:
        content[position : position + len(data)] = data
