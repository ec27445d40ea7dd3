"""The compaction of one log: what of it is dirty, and one cleaning of it at a time."""

from __future__ import annotations

from oncelog.environment import Clock, Disk
from oncelog.log.compaction import Cleaning, CleaningSource, Dirt, OffsetMap, dirt_of, last_records_of
from oncelog.log.config import LONG_MAX, LogConfig
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.log_files import LogFiles
from oncelog.log.log_offsets import LogOffsets
from oncelog.log.producers import Producers
from oncelog.log.segment import Segment


class LogCompaction:
    """Below `cleaned_offset` the log was cleaned; None if it never was. It only tells what need not be looked at again."""

    __slots__ = (
        "_cleaning",
        "_clock",
        "_config",
        "_disk",
        "_files",
        "_offsets",
        "_pauses",
        "_producers",
        "cleaned_offset",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        config: LogConfig,
        files: LogFiles,
        offsets: LogOffsets,
        producers: Producers,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._config = config
        self._files = files
        self._offsets = offsets
        self._producers = producers
        self._cleaning: Cleaning | None = None
        self._pauses = 0
        self.cleaned_offset: int | None = None

    def configure(self, config: LogConfig) -> None:
        self._config = config
        if not config.is_compacted:
            self.drop()

    def roll_overdue(self, now_ms: int) -> None:
        """Begin another segment if records of a compacted log have waited in the active one for max.compaction.lag.ms, or are
        more than is to wait.
        """
        config, active = self._config, self._files.segments.active
        if not config.is_compacted:
            return
        lag_ms = config.max_compaction_lag_ms
        has_waited = lag_ms < LONG_MAX and 0 < active.first_timestamp_ms < now_ms - lag_ms
        if has_waited or self._is_much_to_clean(active):
            self._files.roll(now_ms)

    def _is_much_to_clean(self, active: Segment) -> bool:
        """A segment before it that a transaction keeps open would be left alone, and this one with it."""
        if active.size_bytes < self._config.clean_from_bytes or self._offsets.last_stable < active.base_offset:
            return False
        return active.size_bytes > self._files.segments.size_bytes - active.size_bytes

    def dirt(self, now_ms: int) -> Dirt | None:
        """What could be cleaned; None if there is nothing, if the log is not compacted, or while it is copied."""
        if not self._config.is_compacted or self._pauses:
            return None
        offsets = self._offsets
        return dirt_of(
            self._files.segments,
            self._config,
            now_ms,
            cleaned_offset=self.cleaned_offset,
            log_start_offset=offsets.start,
            log_end_offset=offsets.end,
            last_stable_offset=offsets.last_stable,
        )

    def is_worth_cleaning(self, dirt: Dirt) -> bool:
        return dirt.is_worth_cleaning(self._config)

    def begin(self, map_bytes_max: int, load_factor: float, end_offset_max: int = LONG_MAX) -> Cleaning | None:
        """Begin to clean what is dirty; None if it need not or may not be now.

        What is cleaned is durable in the log's own files, and the caller has written down that it is, and, below
        `end_offset_max`, has no write-ahead log that would put anything of it back: what reads a log again after a power cut
        would take a gap for a loss.
        """
        now_ms = self._clock.now_ms()
        dirt, files = self.dirt(now_ms), self._files
        durable_end = min(end_offset_max, files.unsynced.recovery_point)
        if dirt is None or self._cleaning is not None or dirt.end_offset > durable_end:
            return None
        segments = [one for one in files.segments if one.base_offset < dirt.end_offset]
        ends = [*(segment.base_offset for segment in segments[1:]), dirt.end_offset]
        source = CleaningSource(
            files.directory,
            self._config,
            list(zip(segments, ends, strict=True)),
            files.segments.aborted_transactions(segments[0].base_offset, dirt.end_offset),
            last_records_of(self._producers),
            LeaderEpochs(files.epochs.noted.starts),
        )
        last_offsets = OffsetMap(map_bytes_max, load_factor, dirt.end_offset - dirt.first_dirty_offset)
        self._cleaning = Cleaning(self._disk, source, dirt, last_offsets, now_ms, files.replace, self._finish)
        return self._cleaning

    def _finish(self, offset: int) -> None:
        self.cleaned_offset = offset
        self._cleaning = None

    def drop(self) -> None:
        """Give up the cleaning that is under way: the log is as good without it."""
        if self._cleaning is not None:
            self._files.remove_later(self._cleaning.drop())
            self._cleaning = None

    def pause(self) -> None:
        """Clean no more until `resume` was called as often: the segments are being copied, or read one by one."""
        self.drop()
        self._pauses += 1

    def resume(self) -> None:
        self._pauses -= 1

    def end_at(self, offset: int) -> None:
        """What was written from `offset` on was cut off, and what takes its place is not clean."""
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)

    def begin_again(self) -> None:
        """The log is another one."""
        self.drop()
        self.cleaned_offset = None
