"""The log of one partition: appending, reading, and how far each may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from uuid import UUID
from zlib import crc32

from typing_extensions import Buffer

from oncelog.environment import Clock, Disk, DiskError, DiskFullError, Share, Syncable
from oncelog.log import retention, timestamps
from oncelog.log.aborted_check import digest_of
from oncelog.log.checkpoints import epoch_starts_checkpoint
from oncelog.log.compaction import Cleaning, CleaningSource, Dirt, OffsetMap, dirt_of, last_records_of, put_in_place
from oncelog.log.config import LONG_MAX, LogConfig
from oncelog.log.epoch_checkpoint import EpochCheckpoint, write_epochs
from oncelog.log.following import Followed, fitting, leader_batches
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.limits import refusal
from oncelog.log.outcome import (
    AbortedTransaction,
    ActiveProducer,
    Appended,
    LogSlice,
    OpenTransaction,
    Origin,
    Refused,
    TimestampOffset,
)
from oncelog.log.own_checkpoint import LogDigest
from oncelog.log.recovery import LoadedLog, RecoveryReport, load_log, reload_producers
from oncelog.log.removal import delete_partition, remove_later
from oncelog.log.replaying import replay
from oncelog.log.scan import ScannedBatch
from oncelog.log.segment import RELATIVE_OFFSET_MAX, Segment
from oncelog.log.segments import Segments
from oncelog.log.unsynced import SyncPoint, Unsynced
from oncelog.log.write_ahead import Tail
from oncelog.records import (
    BatchHeader,
    ControlType,
    CorruptBatchError,
    batches,
    control_batch,
    crc_is_valid,
    stamped,
)
from oncelog.wire import ErrorCode

NO_TOPIC_ID = UUID(int=0)
NO_LEADER_EPOCH = -1
NO_SEGMENT = -1
"""In the place of a segment's base offset: nothing of any segment stays."""
WITH_THE_NEXT_SYNC = -1
"""The end of the log at which a file joins that is durable with whatever sync begins next."""
BATCH_COST_BYTES = 2048
"""To take a batch after a crash takes as long as to read so many bytes."""


class PartitionLog:
    """Not durable by itself: whoever needs that syncs `unsynced_files()` and then says `synced_up_to`, or brings
    `take_tail()` to a write-ahead log, syncs that, and says `journaled_up_to`.

    Every method that touches files raises DiskError when the disk fails or holds what was not written.
    """

    __slots__ = (
        "_cleaned_offset",
        "_cleaning",
        "_cleaning_pauses",
        "_clock",
        "_closed_end",
        "_config",
        "_directory",
        "_disk",
        "_end",
        "_epoch_checkpoint",
        "_epochs",
        "_growth_bytes",
        "_high_watermark",
        "_is_gone",
        "_is_replica",
        "_last_stable_offset",
        "_leader_epoch",
        "_log_start",
        "_may_have_gaps",
        "_old_segments",
        "_producers",
        "_segments",
        "_snapshots",
        "_unsynced",
        "name",
        "on_acknowledged",
        "on_cut",
        "partition",
        "recovery",
        "topic_id",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directory: str,
        name: str,
        topic_id: UUID,
        partition: int,
        config: LogConfig,
        leader_epoch: int,
        loaded: LoadedLog,
        *,
        is_replica: bool = False,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._directory = directory
        self._config = config
        self._leader_epoch = leader_epoch
        self._is_replica = is_replica
        self.name = name
        self.on_acknowledged: Callable[[], None] = lambda: None
        """Called when `acknowledged_offset` may have moved without an append."""
        self.on_cut: Callable[[], None] = lambda: None
        """Called when bytes have gone from the end of the log: others may take their place."""
        self.topic_id = topic_id
        self.partition = partition
        self.recovery: RecoveryReport = loaded.report
        self._segments = Segments(loaded.segments)
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._epochs = loaded.epochs
        self._epoch_checkpoint = EpochCheckpoint(disk, directory)
        self._log_start = loaded.log_start_offset
        self._end = loaded.log_end_offset
        self._high_watermark = self._last_stable_offset = self._log_start
        active = self._segments.active
        self._unsynced = Unsynced(SyncPoint(self._end, active.base_offset, active.size_bytes), clock.now_ms())
        # Up to here the indexes are as a clean close left them.
        self._closed_end = self._end if loaded.report.was_clean else -1
        # A log that was read again has a snapshot at its end.
        self._growth_bytes = loaded.report.bytes_read if loaded.report.was_clean else 0
        self._cleaned_offset: int | None = None
        self._cleaning: Cleaning | None = None
        self._cleaning_pauses = 0
        self._is_gone = False
        self._may_have_gaps = False
        # Of a log that begins again, until their files go.
        self._old_segments: list[Segment] = []

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        was_clean: bool,
        recovery_point: int,
        log_start_offset: int = 0,
        leader_epoch: int = 0,
        high_watermark: int | None = None,
        topic_id: UUID = NO_TOPIC_ID,
        durable_end: int = 0,
        aborted: LogDigest | None = None,
        gaps_below: int | None = None,
        is_replica: bool = False,
        written: list[LoadedLog] | None = None,
    ) -> PartitionLog:
        """Open the log in `directory`, or begin one there.

        Below `recovery_point` everything is durable in the log's own files, and below `durable_end` with what the
        write-ahead log has put back; DamagedLogError if it is not there, or not whole, and then nothing has been changed.
        What comes after it is read again unless the log `was_clean`. Without `high_watermark` it is the end of the log:
        there are no followers. One that `is_replica` may follow a leader: inside its files offsets may be missing anywhere, as the
        cleaning of a leader's log leaves them. `leader_epoch` is NO_LEADER_EPOCH for one that does not lead yet. `aborted` says
        what the transaction indexes held at the last checkpoint; without it they are believed. Below `gaps_below` offsets may be
        missing between batches; None says that nothing is known, and then they may be anywhere in a compacted log. `written` takes
        what the caller makes durable, and closes, before anybody counts on the log; without it that is done here.
        """
        name = f"{topic}-{partition}"
        if gaps_below is None:
            gaps_below = LONG_MAX if config.is_compacted else 0
        loaded = load_log(
            disk,
            clock.now_ms(),
            directory,
            config,
            name=name,
            was_clean=was_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            durable_end=durable_end,
            aborted=aborted,
            gaps_below=gaps_below,
            is_replica=is_replica,
        )
        log = cls(
            disk, clock, directory, name, topic_id, partition, config, leader_epoch, loaded, is_replica=is_replica
        )
        log._may_have_gaps = gaps_below > 0 or config.is_compacted
        if written is not None and loaded.written:
            written.append(loaded)
        else:
            for file in loaded.written:
                file.sync()
            loaded.close()
        log.advance_high_watermark(log._end if high_watermark is None else min(high_watermark, log._end))
        return log

    @property
    def log_start_offset(self) -> int:
        return self._log_start

    @property
    def log_end_offset(self) -> int:
        return self._end

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._last_stable_offset

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def recovery_point(self) -> int:
        return self._unsynced.recovery_point

    @property
    def leader_epoch(self) -> int:
        """The epoch that batches carry; of a log that follows, that of its last batch."""
        return max(self._leader_epoch, self._epochs.latest)

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        """From now on batches carry this epoch, which is noted with the first of them."""
        assert epoch >= self.leader_epoch, "leader epochs do not go back"
        self._leader_epoch = epoch

    def lead(self, epoch: int) -> None:
        """Become the leader's log: batches carry this epoch, and it begins here and now.

        KIP-101: a new leader notes the epoch and its log end offset before anything else, so that it can tell followers where the
        epochs before it end. The note is made durable with the log's other files.
        """
        self.leader_epoch = epoch
        if self._epochs.latest < epoch:
            self._begin_epoch()

    def follow(self) -> None:
        """Become a follower's log: what it appends carries its leader's epochs."""
        self._leader_epoch = NO_LEADER_EPOCH

    def configure(self, config: LogConfig) -> None:
        """Take other settings, from the next append on."""
        self._config = config
        if config.is_compacted:
            self._may_have_gaps = True
        else:
            self.drop_cleaning()
        self.on_acknowledged()

    def append(
        self,
        batch: bytes,
        header: BatchHeader,
        origin: Origin = Origin.CLIENT,
        *,
        verified: bool = False,
        first_sequence_must_be_zero: bool = False,
    ) -> Appended | Refused:
        """Append a batch that `check_batch` has passed; `header` is what it returned.

        `verified`: the transaction coordinator says that the batch's transaction contains this partition.
        `first_sequence_must_be_zero`: the batch begins a transaction whose producer got a new epoch for it (KIP-890).
        """
        now_ms = self._clock.now_ms()
        refused = refusal(self.name, self._config, len(batch), header, origin, now_ms)
        if refused is not None:
            return refused
        has_producer = header.producer_id >= 0
        if has_producer:
            found = self._producers.check_data(
                header, origin, verified=verified, first_sequence_must_be_zero=first_sequence_must_be_zero
            )
            if found is not None:
                if isinstance(found, Refused):
                    return found
                return Appended(found.first_offset, found.last_offset, found.timestamp_ms, True, self._log_start)
        base_offset = self._end
        append_time_ms = now_ms if self._config.stamps_append_time else None
        timestamp_ms = header.max_timestamp_ms if append_time_ms is None else now_ms
        chunks = stamped(batch, base_offset, self._leader_epoch, log_append_time_ms=append_time_ms)
        last_offset = base_offset + header.last_offset_delta
        try:
            self._write(chunks, len(batch), last_offset, timestamp_ms, now_ms, origin.share)
        except DiskFullError as error:
            if origin is Origin.OBLIGED:
                raise
            return Refused(ErrorCode.kafka_storage_error, str(error))
        if has_producer:
            self._producers.record_data(header, base_offset, timestamp_ms)
            if header.is_transactional:
                self._segments.active.write_back()
        return Appended(base_offset, last_offset, -1 if append_time_ms is None else now_ms, False, self._log_start)

    def append_marker(
        self,
        control: ControlType,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        timestamp_ms: int,
    ) -> Appended | Refused:
        """Append the marker that ends a producer's transaction here, whether it has records here or not."""
        refused = self._producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        if refused is not None:
            return refused
        offset = self._end
        batch = control_batch(
            control,
            producer_id,
            producer_epoch,
            coordinator_epoch,
            timestamp_ms,
            base_offset=offset,
            leader_epoch=self._leader_epoch,
        )
        self._write([batch], len(batch), offset, timestamp_ms, self._clock.now_ms())
        aborted = self._producers.record_marker(
            control, producer_id, producer_epoch, coordinator_epoch, timestamp_ms, offset
        )
        if aborted is not None:
            self._segments.active.transaction_index.append(aborted)
            self._unsynced.add(offset, self._segments.active.transaction_index.file.create())
        return Appended(offset, offset, -1, False, self._log_start)

    def append_as_follower(self, records: bytes) -> Followed | Refused:
        """Append the batches of the leader's answer to a Fetch from the log end offset on, as they are.

        Offsets, leader epochs and timestamps are the leader's, and so is what is known of producers and transactions: the leader
        has checked all of it. Offsets may be missing where the leader's log was cleaned. A batch that is cut short at the end is
        left out. Nothing is written if one is refused: CORRUPT_MESSAGE and INVALID_RECORD may pass when they are fetched again,
        KAFKA_STORAGE_ERROR says that the disk is full; UNKNOWN_SERVER_ERROR that offsets do not go on from the log end offset.
        The high watermark stays where it is.
        """
        assert self._is_replica, f"{self.name} was not opened as a replica"
        assert self._leader_epoch == NO_LEADER_EPOCH, f"{self.name} leads"
        assert not self._old_segments, f"{self.name} begins again: its old files are there yet"
        found = leader_batches(self.name, records, self._end)
        if isinstance(found, Refused):
            return found
        count = size_bytes = 0
        now_ms = self._clock.now_ms()
        try:
            while count < len(found):
                run = self._next_run(found[count:], now_ms)
                size_bytes += self._follow(records, run)
                count += len(run)
        except DiskFullError as error:
            if not count:
                return Refused(ErrorCode.kafka_storage_error, str(error))
        return Followed(count, size_bytes, self._end)

    def _next_run(self, batches: Sequence[ScannedBatch], now_ms: int) -> list[ScannedBatch]:
        """The first batches that go into one segment. They are written at once."""
        config, header = self._config, batches[0].header
        jitter_ms = self._jitter_ms() if config.segment_jitter_ms else 0
        is_far = header.last_offset - self._end > RELATIVE_OFFSET_MAX
        run = [] if is_far else list(fitting(batches, self._segments.active, now_ms, config, jitter_ms))
        if not run:
            self._roll(now_ms, header.base_offset if is_far else self._end)
            run = list(fitting(batches, self._segments.active, now_ms, config, jitter_ms))
        return run

    def _follow(self, records: bytes, run: Sequence[ScannedBatch]) -> int:
        headers = [batch.header for batch in run]
        begin, end_before = run[0].position, self._end
        size_bytes = run[-1].position + headers[-1].size_bytes - begin
        active = self._segments.active
        try:
            active.append_all(memoryview(records)[begin : begin + size_bytes], headers, Share.NONE)
        except DiskError as error:
            raise type(error)(f"{self.name} at offset {self._end}: {error}", error.path) from error
        self._may_have_gaps |= sum(header.last_offset_delta + 1 for header in headers) < (
            headers[-1].next_offset - end_before
        )
        self._end = headers[-1].next_offset
        self._growth_bytes += size_bytes + BATCH_COST_BYTES * len(run)
        self._note_epochs(headers, end_before)
        aborted = [one for one in (replay(self._producers, batch) for batch in run) if one is not None]
        for one in aborted:
            active.transaction_index.append(one)
        if aborted:
            self._unsynced.add(end_before, active.transaction_index.file.create())
        if any(header.is_transactional for header in headers):
            active.write_back()
        return size_bytes

    def _note_epochs(self, headers: Sequence[BatchHeader], end_before: int) -> None:
        """Note where the leader's epochs begin."""
        # This log may have led an epoch in which it wrote nothing, and the leader never heard of.
        is_changed = headers[0].leader_epoch < self._epochs.latest and self._epochs.truncate_end(end_before)
        for header in headers:
            is_changed |= self._epochs.assign(header.leader_epoch, header.base_offset)
        if is_changed:
            self._keep_epochs(end_before)

    def advance_high_watermark(self, offset: int) -> None:
        """Let readers read below `offset`. It never goes back, but with the end of a log that is cut off below it."""
        assert offset <= self._end, "the high watermark is inside the log"
        if offset > self._high_watermark:
            self._high_watermark = offset
            self._producers.advance_high_watermark(offset)
            self._update_last_stable_offset()

    def read(self, offset: int, size_bytes_max: int, limit_offset: int) -> LogSlice:
        """Whole batches from the one that contains `offset`, below `limit_offset`.

        As many as fit into `size_bytes_max`, but at least one if there is one. `offset` is not outside the log, and
        `limit_offset` is the high watermark, the last stable offset, or the end of the log.
        """
        assert not self._is_gone, f"{self.name} was deleted"
        assert self._log_start <= offset <= self._end, f"{self.name} does not have offset {offset}"
        return self._segments.read(offset, size_bytes_max, limit_offset, self._end, self.leader_epoch)

    def batches(self) -> Iterator[ScannedBatch]:
        """Every batch from the log start on, each checked. Raises DamagedLogError where one is not what was written."""
        epoch_max = self.leader_epoch
        segments = list(self._segments)
        ends = [*(segment.base_offset for segment in segments[1:]), self._end]
        for segment, end_offset in zip(segments, ends, strict=True):
            for batch in segment.batches_from(max(segment.base_offset, self._log_start)):
                header = batch.header
                if header.leader_epoch > epoch_max or header.last_offset >= end_offset:
                    reason = f"offset {header.last_offset} of leader epoch {header.leader_epoch} does not belong there"
                    raise segment.damaged(batch.position, header.base_offset, reason)
                yield batch

    def size_between(self, offset: int, limit_offset: int) -> int:
        """The bytes of the batches from `offset` on, below `limit_offset`. It reads nothing.

        Exact for a reader that goes on where it ended, up to the end of the log; else what lies between two entries of
        an offset index may be too much.
        """
        return self._segments.size_between(offset, limit_offset, self._end)

    def aborted_transactions(self, first_offset: int, upper_bound_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records from `first_offset` on and below the upper bound, by first offset."""
        return self._segments.aborted_transactions(first_offset, upper_bound_offset)

    def offset_for_timestamp(self, timestamp_ms: int, limit_offset: int) -> TimestampOffset | None:
        """The first record below `limit_offset` whose timestamp is not before `timestamp_ms`."""
        return timestamps.first_at_or_after(self._segments, timestamp_ms, self._log_start, limit_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp; None in an empty log."""
        return timestamps.latest(self._segments, self._log_start)

    def digest(self) -> LogDigest:
        """What the transaction indexes hold below the recovery point, and where the log begins."""
        return digest_of(self._segments, self.recovery_point, self._log_start)

    @property
    def newest_epoch(self) -> int:
        """The leader epoch of the last batch; -1 if nothing was ever written."""
        return self._epochs.latest

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, or would write it; -1 if that is not known."""
        return self.leader_epoch if offset >= self._end else self._epochs.epoch_of(offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch not above `leader_epoch`, and where it ends; (-1, -1) if it is above them all."""
        if leader_epoch == self._leader_epoch and leader_epoch > self._epochs.latest:
            return leader_epoch, self._end
        epoch, end_offset = self._epochs.end_offset(leader_epoch, self._end)
        # As in Kafka, what is known of epochs begins with the log.
        return epoch, end_offset if epoch < 0 else max(end_offset, self._log_start)

    def producer_epoch(self, producer_id: int) -> int:
        """The epoch under which a producer, or the coordinator for it, last wrote here; -1 if it never did."""
        return self._producers.epoch_of(producer_id)

    def coordinator_epoch(self, producer_id: int) -> int:
        """The epoch of the coordinator that wrote a producer's last marker here; -1 if none did."""
        return self._producers.coordinator_epoch_of(producer_id)

    def active_producers(self) -> tuple[ActiveProducer, ...]:
        return self._producers.active()

    def open_transaction(self, producer_id: int) -> OpenTransaction | None:
        """The transaction of this producer that has records here and no marker yet."""
        return self._producers.open_transaction(producer_id)

    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """The oldest first."""
        return self._producers.open_transactions()

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that wrote nothing for long; return how many."""
        return self._producers.expire(now_ms, self._config.producer_id_expiration_ms)

    @property
    def is_durable(self) -> bool:
        """Whether everything that is in the log now would survive a power cut."""
        unsynced = self._unsynced
        return unsynced.is_closed or (unsynced.durable_offset >= self._end and not unsynced.files())

    def sync_point(self) -> SyncPoint:
        """Where the log ends now, for `synced_up_to` or `journaled_up_to` later."""
        active = self._segments.active
        return SyncPoint(self._end, active.base_offset, active.size_bytes, self._unsynced.truncations)

    def take_tail(self, size_bytes_max: int, *, is_doubtful: bool = False) -> tuple[Tail, SyncPoint] | None:
        """What a write-ahead log has not taken yet, for it to take now, and where the log ends; None if files have to be synced
        instead.

        `is_doubtful`: the disk has failed, and may not give back what it was given.
        """
        active = self._segments.active
        start = self._unsynced.tail_start(active.base_offset)
        if start is None or active.size_bytes - start > size_bytes_max:
            return None
        size_bytes = active.size_bytes - start
        tail = Tail(active.base_offset, start, active.file.read(start, size_bytes) if size_bytes else b"")
        if is_doubtful and not _is_whole(tail.data, size_bytes):
            return None
        end = self.sync_point()
        self._unsynced.tail_taken(end)
        return tail, end

    def journaled_up_to(self, point: SyncPoint) -> None:
        """The write-ahead log is durable, with every tail that was taken before `point`."""
        self._unsynced.journaled_up_to(point, self._clock.now_ms())
        self.on_acknowledged()

    def unsynced_files(self) -> tuple[Syncable, ...]:
        """What has to be synced for everything that is in the log now to be durable in its own files."""
        unsynced = self._unsynced.files()
        if self._unsynced.is_closed:
            return ()
        if self._unsynced.recovery_point < self._end and self._segments.active.size_bytes:
            return (self._segments.active.file, *unsynced)
        return unsynced

    def synced_up_to(self, point: SyncPoint) -> None:
        """The files of `unsynced_files()` are synced; `point` is where the log ended when they were asked for."""
        if self._unsynced.is_closed:
            return
        self._unsynced.synced_up_to(point, self._clock.now_ms())
        self.on_acknowledged()

    @property
    def acknowledged_offset(self) -> int:
        """Below it, everything is as durable as flush.messages asks. Nobody reads beyond."""
        return self._unsynced.acknowledged_offset(self._end, self._config)

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms ask for a sync."""
        return self._unsynced.needs_flush(self._end, now_ms, self._config)

    @property
    def has_rolled(self) -> bool:
        """Whether there is a sealed segment that is not durable in its own files."""
        return self._unsynced.recovery_point < self._segments.active.base_offset and not self._unsynced.is_closed

    @property
    def growth_bytes(self) -> int:
        """What a start after a crash would have to read again, each batch for as many bytes as it costs to take it."""
        return self._growth_bytes

    def take_snapshot(self) -> None:
        """Let a start after a crash begin at the end of the log, once all that is in it now is durable in its own files."""
        self._segments.active.write_indexes()
        self._take_snapshot()

    def expired_segments(self, now_ms: int) -> int:
        """How many of the oldest segments retention no longer keeps."""
        return retention.expired(
            self._segments,
            self._config,
            now_ms,
            log_start_offset=self._log_start,
            log_end_offset=self._end,
            high_watermark=self._high_watermark,
        )

    def leave_expired(self, now_ms: int) -> None:
        """Begin the log behind the segments that retention no longer keeps."""
        count = self.expired_segments(now_ms)
        if count == len(self._segments):
            self._roll(now_ms)
        self.advance_log_start(self._segments[count].base_offset)

    @property
    def has_left(self) -> bool:
        """Whether there are segments that the log begins behind."""
        return self._segments.slot_of(self._log_start) > 0

    def delete_left(self, offset: int) -> int:
        """Delete the segments that end below `offset`, and that the log begins behind; return how many.

        A checkpoint says already that it begins there, or later: a start takes a file that is gone for a loss.
        """
        count = self._segments.slot_of(min(offset, self._log_start))
        if count:
            self.drop_cleaning()
        for segment in self._segments[:count]:
            self._remove_later([*segment.rename_deleted(), *self._snapshots.rename_deleted(segment.base_offset)])
            segment.close()
        self._segments.forget_first(count)
        return count

    @property
    def cleaned_offset(self) -> int | None:
        """Below it the log was cleaned; None if it never was."""
        return self._cleaned_offset

    @cleaned_offset.setter
    def cleaned_offset(self, offset: int) -> None:
        """What the checkpoint says. It only tells what need not be looked at again."""
        self._cleaned_offset = offset

    @property
    def gaps_below(self) -> int:
        """Offsets may be missing between batches below it: no cleaning takes what is not durable in the log's own files."""
        return self.recovery_point if self._may_have_gaps else 0

    def roll_overdue(self, now_ms: int) -> None:
        """Begin another segment if records of a compacted log have waited in the active one for max.compaction.lag.ms, or are
        more than is to wait.
        """
        config, active = self._config, self._segments.active
        if not config.is_compacted:
            return
        lag_ms = config.max_compaction_lag_ms
        has_waited = lag_ms < LONG_MAX and 0 < active.first_timestamp_ms < now_ms - lag_ms
        if has_waited or self._is_much_to_clean(active):
            self._roll(now_ms)

    def _is_much_to_clean(self, active: Segment) -> bool:
        """A segment before it that a transaction keeps open would be left alone, and this one with it."""
        if active.size_bytes < self._config.clean_from_bytes or self._last_stable_offset < active.base_offset:
            return False
        return active.size_bytes > self._segments.size_bytes - active.size_bytes

    def dirt(self, now_ms: int) -> Dirt | None:
        """What could be cleaned; None if there is nothing, if the log is not compacted, or while it is copied."""
        if not self._config.is_compacted or self._cleaning_pauses:
            return None
        return dirt_of(
            self._segments,
            self._config,
            now_ms,
            cleaned_offset=self._cleaned_offset,
            log_start_offset=self._log_start,
            log_end_offset=self._end,
            last_stable_offset=self._last_stable_offset,
        )

    def is_worth_cleaning(self, dirt: Dirt) -> bool:
        return dirt.is_worth_cleaning(self._config)

    def begin_cleaning(self, map_bytes_max: int, load_factor: float, end_offset_max: int = LONG_MAX) -> Cleaning | None:
        """Begin to clean what is dirty; None if it need not or may not be now.

        What is cleaned is durable in the log's own files, and the caller has written down that it is, and, below
        `end_offset_max`, has no write-ahead log that would put anything of it back: what reads a log again after a power cut
        would take a gap for a loss.
        """
        now_ms = self._clock.now_ms()
        dirt = self.dirt(now_ms)
        durable_end = min(end_offset_max, self._unsynced.recovery_point)
        if dirt is None or self._cleaning is not None or dirt.end_offset > durable_end:
            return None
        segments = [one for one in self._segments if one.base_offset < dirt.end_offset]
        ends = [*(segment.base_offset for segment in segments[1:]), dirt.end_offset]
        source = CleaningSource(
            self._directory,
            self._config,
            list(zip(segments, ends, strict=True)),
            self.aborted_transactions(segments[0].base_offset, dirt.end_offset),
            last_records_of(self._producers),
            LeaderEpochs(self._epochs.starts),
        )
        last_offsets = OffsetMap(map_bytes_max, load_factor, dirt.end_offset - dirt.first_dirty_offset)
        self._cleaning = Cleaning(
            self._disk, source, dirt, last_offsets, now_ms, self._replace_segments, self._finish_cleaning
        )
        return self._cleaning

    def _replace_segments(self, old: Sequence[Segment], base_offset: int) -> None:
        """Have the cleaned segment at `base_offset` in the place of old ones. Their files go later."""
        paths: list[str] = []

        def set_aside() -> None:
            for segment in old:
                paths.extend(segment.rename_deleted())
                segment.close()
            for segment in old[1:]:
                paths.extend(self._snapshots.rename_deleted(segment.base_offset))

        names = put_in_place(self._disk, self._directory, base_offset, set_aside)
        now_ms = self._clock.now_ms()
        cleaned = Segment(
            self._disk,
            self._directory,
            base_offset,
            self._config,
            now_ms,
            names,
            gaps_below=LONG_MAX,
            has_gaps_inside=self._is_replica,
        )
        # This process has checked or written all of it.
        cleaned.trusted_from = 0
        self._segments.replace(old, cleaned)
        self._remove_later(paths)

    def _finish_cleaning(self, offset: int) -> None:
        self._cleaned_offset = offset
        self._cleaning = None

    def drop_cleaning(self) -> None:
        """Give up the cleaning that is under way: the log is as good without it."""
        if self._cleaning is not None:
            self._remove_later(self._cleaning.drop())
            self._cleaning = None

    def advance_log_start(self, offset: int) -> None:
        """Begin the log at `offset`, not beyond the high watermark. The caller keeps it in the checkpoint."""
        if offset > self._log_start:
            assert offset <= self._high_watermark, "only what everybody has may be deleted"
            self._log_start = offset
            self._update_last_stable_offset()

    def begin_truncation(self, offset: int) -> SyncPoint:
        """Count nothing from `offset` on as durable any more, so that it may be cut off while the broker runs.

        Return the end of what stays. Before the log is cut off, what a write-ahead log has beyond that must have been taken back
        durably, a checkpoint written that says how far the log is durable now, and syncs of its own files held:
        `broker/storage/truncating.py` does it.
        """
        end = SyncPoint(offset, NO_SEGMENT, 0)
        if offset >= self._segments[0].base_offset:
            end = SyncPoint(*self._segments.end_of_what_stays(min(offset, self._end), self._end))
        self._unsynced.limit(end.log_end_offset)
        return end

    def truncate_to(self, offset: int) -> None:
        """Cut off everything from `offset` on, and build the producers' state again from what is left.

        While others are served, only after `begin_truncation`. The high watermark goes back if it was beyond `offset`, as after
        an unclean election: what readers may have seen is gone then.
        """
        if offset >= self._end:
            # KIP-101: a leader that wrote nothing has noted an epoch that nobody else knows of.
            self._unsynced.lift_limit()
            if self._epochs.truncate_end(self._end):
                self._rewrite_epochs()
            return
        self.on_cut()
        self.drop_cleaning()
        if self._cleaned_offset is not None:
            self._cleaned_offset = min(self._cleaned_offset, offset)
        offset = self._segments.truncate_to(offset)
        # A batch goes as a whole, also one in whose middle the log began.
        self._log_start = min(self._log_start, offset)
        self._end = offset
        self._closed_end = -1
        self._unsynced.truncate(offset)
        self._unsynced.drop(lambda _, joined_end: joined_end > offset)
        self._unsynced.add(offset, self._segments.active.file)
        self._snapshots.remove_above(offset)
        self._epochs.truncate_end(offset)
        # Also where none is forgotten, for it makes durable which files there are: a segment that a power cut brings back would
        # follow on what is written next.
        self._rewrite_epochs()
        self._high_watermark = min(self._high_watermark, offset)
        reload_producers(self._segments, self._producers, self._snapshots, self._high_watermark)
        self._producers.advance_high_watermark(self._high_watermark)
        self._update_last_stable_offset()

    def begin_again_at(self, offset: int) -> None:
        """Be an empty log that begins at `offset` (Kafka's truncateFullyAndStartAt), after `begin_truncation` of all of it.

        Before `delete_old` removes the files, a checkpoint says that it begins there. After a power cut in between, the log is
        the old one, or part of it, or empty.
        """
        self.on_cut()
        self.drop_cleaning()
        self._unsynced.forget_files()
        for segment in self._segments:
            segment.close()
        self._old_segments += self._segments
        self._segments = Segments([self._new_segment(offset)])
        self._producers.load(())
        self._epochs = LeaderEpochs()
        self._log_start = self._end = self._high_watermark = self._last_stable_offset = offset
        self._cleaned_offset = None
        self._closed_end = -1
        self._growth_bytes = 0

    def delete_old(self) -> None:
        """Remove what the log had before `begin_again_at`, durably."""
        paths = [path for segment in self._old_segments for path in segment.rename_deleted()]
        self._old_segments.clear()
        self._snapshots.remove_all()
        self._rewrite_epochs()
        self._unsynced.lift_limit()
        self._remove_later(paths)

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def segments(self) -> Sequence[Segment]:
        """For a copy of the log; the last one is active."""
        return self._segments

    def other_files(self) -> tuple[Sequence[str], bytes]:
        """For a copy of the log: the names of its producer snapshots, and what the checkpoint of its leader epochs holds."""
        return self._snapshots.names, epoch_starts_checkpoint(self._epochs.starts)

    def pause_cleaning(self) -> None:
        """Clean no more until `resume_cleaning` was called as often: the segments are being copied, or read one by one."""
        self.drop_cleaning()
        self._cleaning_pauses += 1

    def resume_cleaning(self) -> None:
        self._cleaning_pauses -= 1

    def continue_in(self, directory: str, synced: SyncPoint) -> None:
        """Go on in a copy of the files, whose directory is `directory`. What was in the log at `synced` is durable there.

        No sync of the log's own files may be under way or begin before `is_durable_in_copy`, and none that was told of goes
        beyond `synced`.
        """
        assert self._unsynced.recovery_point <= synced.log_end_offset, (
            "what was said to be durable is durable in the copy"
        )
        self._directory = directory
        for segment in self._segments:
            segment.continue_in(directory)
        self._snapshots.continue_in(directory)
        self._unsynced.forget_files()
        self._epoch_checkpoint = EpochCheckpoint(self._disk, directory)
        self._add_what_followed(synced)

    def is_durable_in_copy(self, synced: SyncPoint) -> None:
        """The name of the copy's directory is durable: a power cut does not bring the old one back any more."""
        self._unsynced.synced_up_to(synced, self._clock.now_ms())
        self._add_what_followed(synced)
        self.on_acknowledged()

    def _add_what_followed(self, synced: SyncPoint) -> None:
        """Have small files synced that may have changed since the copy was."""
        if self._end > synced.log_end_offset:
            self._keep_epochs(WITH_THE_NEXT_SYNC)
            transaction_index = self._segments.active.transaction_index.file
            if transaction_index.exists:
                self._unsynced.add(WITH_THE_NEXT_SYNC, transaction_index.create())

    def seal(self) -> tuple[Syncable, ...]:
        """Write what a clean close leaves; return what it has to make durable, and what others may before it does."""
        self.drop_cleaning()
        if self._end > self._snapshots.latest_offset:
            self._take_snapshot()
        if self._segments.active.size_bytes and self._end > self._closed_end:
            for file in self._segments.active.seal():
                self._unsynced.add(self._end, file)
        return self._unsynced.files()

    def close(self, *, clean: bool = True) -> None:
        """Close the files. A clean close makes everything durable first, and leaves nothing to be read again."""
        self.drop_cleaning()
        if clean:
            for file in self.seal():
                file.sync()
            self._unsynced.synced_up_to(self.sync_point(), self._clock.now_ms())
        self._unsynced.close()
        for segment in self._segments:
            segment.close()

    def abandon(self) -> None:
        """Close the files, of which the disk has taken leave: nothing of what they hold is worth an error any more."""
        self._is_gone = True
        self._unsynced.close()
        for segment in self._segments:
            with suppress(DiskError):
                segment.close()

    def delete(self) -> None:
        """Delete the partition: its directory gets another name at once, and goes after file.delete.delay.ms."""
        self.close(clean=False)
        self._is_gone = True
        topic, _, _ = self.name.rpartition("-")
        delay_ms = self._config.file_delete_delay_ms
        delete_partition(self._disk, self._clock, self._directory, topic, self.partition, self.topic_id, delay_ms)

    def _write(
        self,
        chunks: Sequence[Buffer],
        size_bytes: int,
        last_offset: int,
        timestamp_ms: int,
        now_ms: int,
        share: Share = Share.ALL,
    ) -> None:
        assert not self._is_gone, f"{self.name} was deleted"
        assert self._leader_epoch >= 0, f"{self.name} follows: it takes what its leader has, and nothing else"
        config = self._config
        jitter_ms = self._jitter_ms() if config.segment_jitter_ms else 0
        if self._segments.active.should_roll(size_bytes, last_offset, timestamp_ms, now_ms, config, jitter_ms):
            self._roll(now_ms)
        if self._epochs.latest < self._leader_epoch:
            self._begin_epoch()
        try:
            self._segments.active.append(chunks, size_bytes, last_offset, timestamp_ms, share)
        except DiskError as error:
            raise type(error)(f"{self.name} at offset {self._end}: {error}", error.path) from error
        self._end = last_offset + 1
        self._growth_bytes += size_bytes + BATCH_COST_BYTES

    def _roll(self, now_ms: int, base_offset: int | None = None) -> None:
        """Seal the active segment and begin another one, at the end of the log or behind a leader's gap."""
        base_offset = self._end if base_offset is None else base_offset
        if self._segments.active.size_bytes == 0 and self._segments.active.base_offset == base_offset:
            return
        for file in self._segments.active.seal():
            self._unsynced.add(self._end, file, self._segments.active.close)
        segment = self._new_segment(base_offset, now_ms)
        self._unsynced.add(self._end, segment.file)
        self._segments.roll(segment)
        self._take_snapshot()

    def _take_snapshot(self) -> None:
        bases = {segment.base_offset for segment in self._segments}
        snapshot = self._snapshots.write(self._end, self._producers, bases)
        self._unsynced.add(self._end, snapshot, snapshot.close)
        self._growth_bytes = 0

    def _begin_epoch(self) -> None:
        """Note that the leader's epoch begins where the log ends. It is made durable together with what comes next."""
        self._epochs.assign(self._leader_epoch, self._end)
        self._keep_epochs(self._end)

    def _keep_epochs(self, log_end_offset: int) -> None:
        self._epoch_checkpoint.keep(self._epochs)
        self._unsynced.add(log_end_offset, self._epoch_checkpoint, self._epoch_checkpoint.close)

    def _rewrite_epochs(self) -> None:
        """Durable on return; no checkpoint that was to be written brings back what is forgotten."""
        self._unsynced.drop(lambda file, _: file is self._epoch_checkpoint)
        write_epochs(self._disk, self._directory, self._epochs)

    def _new_segment(self, base_offset: int, now_ms: int | None = None) -> Segment:
        now_ms = self._clock.now_ms() if now_ms is None else now_ms
        return Segment(self._disk, self._directory, base_offset, self._config, now_ms, has_gaps_inside=self._is_replica)

    def _update_last_stable_offset(self) -> None:
        first_unstable = self._producers.first_unstable_offset
        high_watermark = self._high_watermark
        if first_unstable is None or first_unstable >= high_watermark:
            self._last_stable_offset = high_watermark
        else:
            self._last_stable_offset = max(first_unstable, self._log_start)

    def _jitter_ms(self) -> int:
        """Different for every segment, so that segments begun together do not all end together."""
        return crc32(f"{self.name}-{self._segments.active.base_offset}".encode()) % self._config.segment_jitter_ms

    def _remove_later(self, paths: list[str]) -> None:
        remove_later(self._disk, self._clock, paths, self._config.file_delete_delay_ms)


def _is_whole(data: bytes, size_bytes: int) -> bool:
    """Whether these are so many bytes of batches as they were written."""
    try:
        end = 0
        for position, header in batches(data):
            if not crc_is_valid(data, position, header):
                return False
            end = position + header.size_bytes
    except CorruptBatchError:
        return False
    return end == size_bytes
