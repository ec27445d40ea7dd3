"""The files of one log: what is written at their end, when a segment rolls, how they are cut off, copied and removed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID
from zlib import crc32

from typing_extensions import Buffer

from oncelog.environment import Clock, Disk, DiskError, Share, Syncable
from oncelog.log.compaction import put_in_place
from oncelog.log.config import LONG_MAX, LogConfig
from oncelog.log.data_directory import delete_partition, remove_later
from oncelog.log.durability import LogDurability, SyncPoint
from oncelog.log.following import fitting
from oncelog.log.leader_epochs import KeptEpochs
from oncelog.log.log_offsets import LogOffsets
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.recovery import LoadedLog
from oncelog.log.scan import ScannedBatch
from oncelog.log.segment import RELATIVE_OFFSET_MAX, Segment
from oncelog.log.segments import Segments

NO_SEGMENT = -1
"""In the place of a segment's base offset: nothing of any segment stays."""
WITH_THE_NEXT_SYNC = -1
"""The end of the log at which a file joins that is durable with whatever sync begins next."""
BATCH_COST_BYTES = 2048
"""To take a batch after a crash takes as long as to read so many bytes."""


class LogFiles:
    """They know nothing of what batches mean; of producers, a snapshot is written when a segment begins.

    `growth_bytes` is what a start after a crash would have to read again, each batch for as many bytes as it costs to take it.
    """

    __slots__ = (
        "_clock",
        "_closed_end",
        "_disk",
        "_is_replica",
        "_may_have_gaps",
        "_name",
        "_offsets",
        "_old_segments",
        "_producers",
        "config",
        "directory",
        "durability",
        "epochs",
        "growth_bytes",
        "is_gone",
        "segments",
        "snapshots",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directory: str,
        name: str,
        config: LogConfig,
        offsets: LogOffsets,
        leader_epoch: int,
        loaded: LoadedLog,
        *,
        is_replica: bool,
        may_have_gaps: bool,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._name = name
        self._offsets = offsets
        self._is_replica = is_replica
        self._may_have_gaps = may_have_gaps
        self._producers = loaded.producers
        self.config = config
        self.directory = directory
        self.segments = Segments(loaded.segments)
        self.snapshots = loaded.snapshots
        self.durability = LogDurability(clock, config, offsets, self.segments)
        self.epochs = KeptEpochs(disk, directory, loaded.epochs, leader_epoch, self.durability)
        # Up to here the indexes are as a clean close left them.
        self._closed_end = offsets.end if loaded.report.was_clean else -1
        # A log that was read again has a snapshot at its end.
        self.growth_bytes = loaded.report.bytes_read if loaded.report.was_clean else 0
        self.is_gone = False
        # Of a log that begins again, until their files go.
        self._old_segments: list[Segment] = []

    @property
    def gaps_below(self) -> int:
        """Offsets may be missing between batches below it: no cleaning takes what is not durable in the log's own files."""
        return self.durability.recovery_point if self._may_have_gaps else 0

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self._may_have_gaps |= config.is_compacted

    def write(
        self,
        chunks: Sequence[Buffer],
        size_bytes: int,
        last_offset: int,
        timestamp_ms: int,
        now_ms: int,
        share: Share = Share.ALL,
    ) -> None:
        """Write a batch of the leader's."""
        assert not self.is_gone, f"{self._name} was deleted"
        epochs, offsets, config = self.epochs, self._offsets, self.config
        assert epochs.current >= 0, f"{self._name} follows: it takes what its leader has, and nothing else"
        jitter_ms = self._jitter_ms() if config.segment_jitter_ms else 0
        if self.segments.active.should_roll(size_bytes, last_offset, timestamp_ms, now_ms, config, jitter_ms):
            self.roll(now_ms)
        if epochs.noted.latest < epochs.current:
            epochs.begin(offsets.end)
        try:
            self.segments.active.append(chunks, size_bytes, last_offset, timestamp_ms, share)
        except DiskError as error:
            raise type(error)(f"{self._name} at offset {offsets.end}: {error}", error.path) from error
        offsets.end = last_offset + 1
        self.growth_bytes += size_bytes + BATCH_COST_BYTES

    def next_run(self, batches: Sequence[ScannedBatch], now_ms: int) -> list[ScannedBatch]:
        """The first of a leader's batches that go into one segment, for `write_run`."""
        config, header, end = self.config, batches[0].header, self._offsets.end
        jitter_ms = self._jitter_ms() if config.segment_jitter_ms else 0
        is_far = header.last_offset - end > RELATIVE_OFFSET_MAX
        run = [] if is_far else list(fitting(batches, self.segments.active, now_ms, config, jitter_ms))
        if not run:
            self.roll(now_ms, header.base_offset if is_far else end)
            run = list(fitting(batches, self.segments.active, now_ms, config, jitter_ms))
        return run

    def write_run(self, records: bytes, run: Sequence[ScannedBatch]) -> int:
        """Write batches of a leader's at once; return how many bytes they are."""
        assert not self._old_segments, f"{self._name} begins again: its old files are there yet"
        headers = [batch.header for batch in run]
        begin, end_before = run[0].position, self._offsets.end
        size_bytes = run[-1].position + headers[-1].size_bytes - begin
        active = self.segments.active
        try:
            active.append_all(memoryview(records)[begin : begin + size_bytes], headers, Share.NONE)
        except DiskError as error:
            raise type(error)(f"{self._name} at offset {end_before}: {error}", error.path) from error
        end = self._offsets.end = headers[-1].next_offset
        self._may_have_gaps |= sum(header.last_offset_delta + 1 for header in headers) < end - end_before
        self.growth_bytes += size_bytes + BATCH_COST_BYTES * len(run)
        self.epochs.note(headers, end_before)
        return size_bytes

    def index_aborted(self, aborted: Sequence[AbortedTransaction], log_end_offset: int) -> None:
        """Index transactions whose markers were written in the active segment, after the log had ended at `log_end_offset`."""
        index = self.segments.active.indexes.transactions
        for one in aborted:
            index.append(one)
        self.durability.add(log_end_offset, index.file.create())

    def roll(self, now_ms: int, base_offset: int | None = None) -> None:
        """Seal the active segment and begin another one, at the end of the log or behind a leader's gap."""
        end = self._offsets.end
        base_offset = end if base_offset is None else base_offset
        active = self.segments.active
        if active.size_bytes == 0 and active.base_offset == base_offset:
            return
        for file in active.seal():
            self.durability.add(end, file, active.close)
        segment = self._new_segment(base_offset, now_ms)
        self.durability.add(end, segment.file)
        self.segments.roll(segment)
        self._take_snapshot()

    def take_snapshot(self) -> None:
        """Let a start after a crash begin at the end of the log, once all that is in it now is durable in its own files."""
        self.segments.active.indexes.write_out()
        self._take_snapshot()

    def replace(self, old: Sequence[Segment], base_offset: int) -> None:
        """Have the cleaned segment at `base_offset` in the place of old ones. Their files go later."""
        paths: list[str] = []

        def set_aside() -> None:
            for segment in old:
                paths.extend(segment.rename_deleted())
                segment.close()
            for segment in old[1:]:
                paths.extend(self.snapshots.rename_deleted(segment.base_offset))

        names = put_in_place(self._disk, self.directory, base_offset, set_aside)
        cleaned = Segment(
            self._disk,
            self.directory,
            base_offset,
            self.config,
            self._clock.now_ms(),
            names,
            gaps_below=LONG_MAX,
            has_gaps_inside=self._is_replica,
        )
        # This process has checked or written all of it.
        cleaned.trusted_from = 0
        self.segments.replace(old, cleaned)
        self.remove_later(paths)

    def delete_first(self, count: int) -> None:
        """Delete the oldest segments."""
        for segment in self.segments[:count]:
            self.remove_later([*segment.rename_deleted(), *self.snapshots.rename_deleted(segment.base_offset)])
            segment.close()
        self.segments.forget_first(count)

    def remove_later(self, paths: list[str]) -> None:
        remove_later(self._disk, self._clock, paths, self.config.file_delete_delay_ms)

    def begin_truncation(self, offset: int) -> SyncPoint:
        """Count nothing from `offset` on as durable any more, so that it may be cut off while the broker runs.

        Return the end of what stays. Before the log is cut off, what a write-ahead log has beyond that must have been taken back
        durably, a checkpoint written that says how far the log is durable now, and syncs of its own files held:
        `broker/storage/truncating.py` does it.
        """
        end = SyncPoint(offset, NO_SEGMENT, 0)
        if offset >= self.segments[0].base_offset:
            log_end = self._offsets.end
            end = SyncPoint(*self.segments.end_of_what_stays(min(offset, log_end), log_end))
        self.durability.limit(end.log_end_offset)
        return end

    def truncate_to(self, offset: int) -> int:
        """Cut off everything from `offset` on; return where the log ends now."""
        offset = self.segments.truncate_to(offset)
        self._offsets.cut_off(offset)
        self._closed_end = -1
        self.durability.truncate(offset)
        self.durability.drop(lambda _, joined_end: joined_end > offset)
        self.durability.add(offset, self.segments.active.file)
        self.snapshots.remove_above(offset)
        self.epochs.end_log_at(offset, self._offsets.start)
        # Also where none is forgotten, for it makes durable which files there are: a segment that a power cut brings back would
        # follow on what is written next.
        self.epochs.rewrite()
        return offset

    def keep_all(self) -> None:
        """Nothing has to be cut off: the log ends there, or before."""
        self.durability.lift_limit()
        # KIP-101: a leader that wrote nothing has noted an epoch that nobody else knows of.
        if self.epochs.end_log_at(self._offsets.end, self._offsets.start):
            self.epochs.rewrite()

    def begin_again_at(self, offset: int) -> None:
        """Go on in an empty segment; the old files stay until `delete_old`."""
        self.durability.forget_files()
        for segment in self.segments:
            segment.close()
        self._old_segments += self.segments.begin_again(self._new_segment(offset, self._clock.now_ms()))
        self.epochs.forget()
        self._closed_end = -1
        self.growth_bytes = 0

    def delete_old(self) -> None:
        """Remove what the log had before `begin_again_at`, durably."""
        paths = [path for segment in self._old_segments for path in segment.rename_deleted()]
        self._old_segments.clear()
        self.snapshots.remove_all()
        self.epochs.rewrite()
        self.durability.lift_limit()
        self.remove_later(paths)

    def others(self) -> tuple[Sequence[str], bytes]:
        """For a copy: the names of the producer snapshots, and what the checkpoint of the leader epochs holds."""
        return self.snapshots.names, self.epochs.in_file()

    def continue_in(self, directory: str, synced: SyncPoint) -> None:
        """Go on in a copy, whose directory is `directory`. What was in the log at `synced` is durable there.

        No sync of the log's own files may be under way or begin before `are_durable_in_copy`, and none that was told of goes
        beyond `synced`.
        """
        assert self.durability.recovery_point <= synced.log_end_offset, (
            "what was said to be durable is durable in the copy"
        )
        self.directory = directory
        for segment in self.segments:
            segment.continue_in(directory)
        self.snapshots.continue_in(directory)
        self.durability.forget_files()
        self.epochs.continue_in(directory)
        self._add_what_followed(synced)

    def are_durable_in_copy(self, synced: SyncPoint) -> None:
        """The name of the copy's directory is durable: a power cut does not bring the old one back any more."""
        self.durability.take_synced(synced)
        self._add_what_followed(synced)

    def _add_what_followed(self, synced: SyncPoint) -> None:
        """Have small files synced that may have changed since the copy was."""
        if self._offsets.end > synced.log_end_offset:
            self.epochs.keep(WITH_THE_NEXT_SYNC)
            transaction_index = self.segments.active.indexes.transactions.file
            if transaction_index.exists:
                self.durability.add(WITH_THE_NEXT_SYNC, transaction_index.create())

    def seal(self) -> tuple[Syncable, ...]:
        """Write what a clean close leaves; return what it has to make durable, and what others may before it does."""
        active, end = self.segments.active, self._offsets.end
        if end > self.snapshots.latest_offset:
            self._take_snapshot()
        if active.size_bytes and end > self._closed_end:
            for file in active.seal():
                self.durability.add(end, file)
        return self.durability.files()

    def close(self) -> None:
        """Close the files: nobody syncs them any more."""
        self.durability.close()
        for segment in self.segments:
            segment.close()

    def abandon(self) -> None:
        """Close the files, of which the disk has taken leave: nothing of what they hold is worth an error any more."""
        self.is_gone = True
        self.durability.close()
        for segment in self.segments:
            with suppress(DiskError):
                segment.close()

    def delete(self, topic_id: UUID) -> None:
        """Give their directory another name at once; it goes after file.delete.delay.ms."""
        self.is_gone = True
        topic, _, partition = self._name.rpartition("-")
        delay_ms = self.config.file_delete_delay_ms
        delete_partition(self._disk, self._clock, self.directory, topic, int(partition), topic_id, delay_ms)

    def _take_snapshot(self) -> None:
        bases = {segment.base_offset for segment in self.segments}
        snapshot = self.snapshots.write(self._offsets.end, self._producers, bases)
        self.durability.add(self._offsets.end, snapshot, snapshot.close)
        self.growth_bytes = 0

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        return Segment(self._disk, self.directory, base_offset, self.config, now_ms, has_gaps_inside=self._is_replica)

    def _jitter_ms(self) -> int:
        """Different for every segment, so that segments begun together do not all end together."""
        return crc32(f"{self._name}-{self.segments.active.base_offset}".encode()) % self.config.segment_jitter_ms
