"""What of a log is not durable yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from oncelog.environment import File
from oncelog.log.config import LogConfig


class _Joined(NamedTuple):
    log_end_offset: int
    release: Callable[[], None] | None


class Unsynced:
    """Below `recovery_point` everything is durable.

    The active segment's file is unsynced whenever the log goes on beyond the recovery point. The others are listed
    here, each with the end of the log at which it joined.
    """

    __slots__ = ("_files", "_last_flush_ms", "recovery_point")

    def __init__(self, log_end_offset: int, now_ms: int) -> None:
        self.recovery_point = log_end_offset
        self._last_flush_ms = now_ms
        self._files: dict[File, _Joined] = {}

    def add(self, log_end_offset: int, file: File, release: Callable[[], None] | None = None) -> None:
        """The file was written when the log ended at `log_end_offset`. When it is durable, `release` is called."""
        self._files[file] = _Joined(log_end_offset, release)

    def files(self) -> tuple[File, ...]:
        return tuple(self._files)

    def synced_up_to(self, log_end_offset: int, now_ms: int) -> None:
        """Everything that was there when the log ended at `log_end_offset` is durable."""
        self._last_flush_ms = now_ms
        self.recovery_point = max(self.recovery_point, log_end_offset)
        # A file that joined at that same end may have joined after the sync began.
        self._release([file for file, joined in self._files.items() if joined.log_end_offset < log_end_offset])

    def needs_flush(self, log_end_offset: int, now_ms: int, config: LogConfig) -> bool:
        unsynced = log_end_offset - self.recovery_point
        return unsynced > 0 and (unsynced >= config.flush_messages or now_ms - self._last_flush_ms >= config.flush_ms)

    def truncate(self, offset: int) -> None:
        self.recovery_point = min(self.recovery_point, offset)

    def release_all(self) -> None:
        """Nobody will sync these files any more."""
        self._release(list(self._files))

    def _release(self, files: Iterable[File]) -> None:
        for file in files:
            release = self._files.pop(file).release
            if release is not None:
                release()
