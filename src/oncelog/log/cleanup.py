"""The cleanup policies of one log: `compact`, one cleaning at a time, and `delete`, its oldest segments first."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.environment import Clock, Disk
from oncelog.log.compaction import Cleaning, CleaningSource, Dirt, OffsetMap, dirt_of, last_records_of
from oncelog.log.config import LONG_MAX, LogConfig
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.log_files import LogFiles
from oncelog.log.log_offsets import LogOffsets
from oncelog.log.outcome import DamagedLogError
from oncelog.log.producers import Producers
from oncelog.log.segment import Segment
from oncelog.log.segments import check_times


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
        """The part of the log to clean; None if there is nothing, if the log is not compacted, or while it is copied."""
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
        durable_end = min(end_offset_max, files.durability.recovery_point)
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
        """Note that the log was cut off at `offset`: the batches that come there are not clean."""
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)

    def begin_again(self) -> None:
        """The log is another one."""
        self.drop()
        self.cleaned_offset = None


class LogRetention:
    """The log begins behind its oldest segments first. They are deleted once a checkpoint says so."""

    __slots__ = ("_compaction", "_files", "_offsets")

    def __init__(self, files: LogFiles, offsets: LogOffsets, compaction: LogCompaction) -> None:
        self._files = files
        self._offsets = offsets
        self._compaction = compaction

    def expired(self, now_ms: int) -> int:
        """How many of the oldest segments are no longer kept."""
        return _expired(self._files.segments, self._files.config, self._offsets, now_ms)

    def leave_expired(self, now_ms: int) -> None:
        """Begin the log behind the segments that are no longer kept."""
        count = self.expired(now_ms)
        if count == len(self._files.segments):
            self._files.roll(now_ms)
        self._offsets.advance_start(self._files.segments[count].base_offset)

    @property
    def has_left(self) -> bool:
        """True if the log begins behind some of its segments."""
        return self._files.segments.slot_of(self._offsets.start) > 0

    def delete_left(self, offset: int) -> int:
        """Delete the segments that end below `offset`, and that the log begins behind; return how many.

        A checkpoint says already that it begins there, or later: a start takes a file that is gone for a loss.
        """
        count = self._files.segments.slot_of(min(offset, self._offsets.start))
        if count:
            self._compaction.drop()
            self._files.delete_first(count)
        return count


def _expired(segments: Sequence[Segment], config: LogConfig, offsets: LogOffsets, now_ms: int) -> int:
    """How many of the oldest segments may go: too old, too many bytes, or below the start of the log.

    Never one with an offset at or above the high watermark, and an empty last one stays.
    """
    surplus_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    ends = [*(segment.base_offset for segment in segments[1:]), offsets.end]
    for slot, (segment, end_offset) in enumerate(zip(segments, ends, strict=True)):
        is_empty_last = segment.size_bytes == 0 and slot + 1 == len(segments)
        is_old = (
            config.retention_ms >= 0 and segment.size_bytes > 0 and _is_older(segment, now_ms - config.retention_ms)
        )
        is_surplus = config.retention_bytes >= 0 and surplus_bytes >= segment.size_bytes
        is_before_start = end_offset <= offsets.start
        if is_empty_last or end_offset > offsets.high_watermark or not (is_old or is_surplus or is_before_start):
            return slot
        surplus_bytes -= segment.size_bytes
    return len(segments)


def _is_older(segment: Segment, time_ms: int) -> bool:
    """True if all of a segment is older than a time; False if that cannot be told."""
    if _age_from_ms(segment) >= time_ms:
        return False
    try:
        check_times(segment)
    except DamagedLogError:
        return False
    return _age_from_ms(segment) < time_ms


def _age_from_ms(segment: Segment) -> int:
    largest_ms, _ = segment.max_timestamp
    return largest_ms if largest_ms >= 0 else segment.modified_ms()
