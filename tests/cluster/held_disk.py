"""A disk that takes as long as a test likes."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.environment import Syncable
from oncelog.simulation.disk import Done, SimulatedDisk


class HeldDisk:
    """Makes nothing durable of what has `part` in its path until `go_on`."""

    def __init__(self, disk: SimulatedDisk, part: str) -> None:
        self._disk = disk
        self._part = part
        self._sync = disk.sync
        self._held: list[tuple[Sequence[Syncable], Done]] = []
        disk.sync = self._hold  # type: ignore[method-assign]

    def _hold(self, files: Sequence[Syncable], done: Done) -> None:
        if any(self._part in getattr(file, "path", "") for file in files):
            self._held.append((files, done))
        else:
            self._sync(files, done)

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def go_on(self) -> None:
        assert self._held, "it was held"
        for files, done in self._held:
            self._sync(files, done)
        self.forget()

    def forget(self) -> None:
        """Nobody waits for it any more: the broker is down."""
        self._held.clear()
        self._disk.sync = self._sync  # type: ignore[method-assign]
