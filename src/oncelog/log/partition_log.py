"""The log of one partition: appending, reading, and how far each may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from oncelog.environment import Clock, Disk, DiskFullError, Syncable
from oncelog.log.checkpoints import LogDigest
from oncelog.log.cleanup import LogCompaction, LogRetention
from oncelog.log.config import LogConfig, refusal
from oncelog.log.durability import SyncPoint
from oncelog.log.file_checks import digest_of
from oncelog.log.following import Followed, leader_batches
from oncelog.log.leader_epochs import NO_LEADER_EPOCH, epoch_beyond
from oncelog.log.log_files import LogFiles
from oncelog.log.log_offsets import LogOffsets
from oncelog.log.outcome import (
    AbortedTransaction,
    Appended,
    LogSlice,
    Origin,
    Refused,
    TimestampOffset,
)
from oncelog.log.producers import replay
from oncelog.log.recovery import LoadedLog, RecoveryReport, reload_producers
from oncelog.log.scan import ScannedBatch
from oncelog.log.segment import Segment
from oncelog.log.segments import first_at_or_after, latest
from oncelog.records import BatchHeader, ControlType, control_batch, stamped
from oncelog.wire import ErrorCode


class PartitionLog:
    """`open_log` opens one. Who makes it durable speaks with `durability`, who cleans it with `compaction`, who deletes what is old
    with `retention`, who copies it or begins to cut it off with `files`. `producers` are for questions: what is appended changes
    them, and nobody else.

    Every method that touches files raises DiskError when the disk fails or holds what was not written.
    """

    __slots__ = (
        "_clock",
        "_config",
        "_epochs",
        "_is_replica",
        "_offsets",
        "_segments",
        "compaction",
        "durability",
        "files",
        "name",
        "on_cut",
        "partition",
        "producers",
        "recovery",
        "retention",
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
        is_replica: bool,
        may_have_gaps: bool,
    ) -> None:
        """`may_have_gaps`: a cleaning may have taken offsets between batches. One that `is_replica` may follow a leader."""
        self._clock = clock
        self._config = config
        self._is_replica = is_replica
        self.name = name
        self.on_cut: Callable[[], None] = lambda: None
        """Called when bytes have gone from the end of the log: others may take their place."""
        self.topic_id = topic_id
        self.partition = partition
        self.recovery: RecoveryReport = loaded.report
        self.producers = producers = loaded.producers
        self._offsets = offsets = LogOffsets(loaded.log_start_offset, loaded.log_end_offset, producers)
        self.files = files = LogFiles(
            disk,
            clock,
            directory,
            name,
            config,
            offsets,
            leader_epoch,
            loaded,
            is_replica=is_replica,
            may_have_gaps=may_have_gaps,
        )
        self._segments = files.segments
        self._epochs = files.epochs
        self.durability = files.durability
        self.compaction = LogCompaction(disk, clock, config, files, offsets, producers)
        self.retention = LogRetention(files, offsets, self.compaction)

    @property
    def log_start_offset(self) -> int:
        return self._offsets.start

    @property
    def durable_start_offset(self) -> int:
        """The log start offset of the last checkpoint: a power cut brings nothing back from before."""
        return self._offsets.durable_start

    @property
    def log_end_offset(self) -> int:
        return self._offsets.end

    @property
    def high_watermark(self) -> int:
        return self._offsets.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._offsets.last_stable

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def directory(self) -> str:
        return self.files.directory

    @property
    def segments(self) -> Sequence[Segment]:
        """The last one is active."""
        return self._segments

    def configure(self, config: LogConfig) -> None:
        """Take other settings, from the next append on."""
        self._config = self.durability.config = config
        self.files.configure(config)
        self.compaction.configure(config)
        self.durability.on_acknowledged()

    # --- who leads

    def lead(self, epoch: int) -> None:
        """Become the leader's log: batches carry this epoch, and it begins here and now.

        Raises UnknownEpochError.
        """
        self.check_epochs(epoch)
        self._epochs.lead(epoch, self._offsets.end)

    def check_epochs(self, leader_epoch_max: int) -> None:
        """Raises UnknownEpochError if the log has an epoch that is to come yet: no CRC covers what its batches say."""
        later = next((one for one in self._epochs.noted.starts if one.epoch > leader_epoch_max), None)
        if later is not None:
            segment = self._segments[self._segments.slot_of(later.start_offset)]
            raise epoch_beyond(segment, self.directory, later, leader_epoch_max)

    def follow(self) -> None:
        """Become a follower's log: what it appends carries its leader's epochs."""
        self._epochs.follow()

    @property
    def leader_epoch(self) -> int:
        """The epoch that batches carry; of a log that follows, that of its last batch."""
        return self._epochs.newest

    @property
    def newest_epoch(self) -> int:
        """The leader epoch of the last batch; -1 if nothing was ever written."""
        return self._epochs.noted.latest

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, or would write it; -1 if that is not known."""
        return self._epochs.at(offset, self._offsets.end)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch not above `leader_epoch`, and where it ends; (-1, -1) if it is above them all."""
        return self._epochs.end_of(leader_epoch, self._offsets.end, self._offsets.start)

    # --- appending

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
        now_ms, offsets = self._clock.now_ms(), self._offsets
        refused = refusal(self.name, self._config, len(batch), header, origin, now_ms)
        if refused is not None:
            return refused
        has_producer = header.producer_id >= 0
        if has_producer:
            found = self.producers.check_data(
                header, origin, verified=verified, first_sequence_must_be_zero=first_sequence_must_be_zero
            )
            if found is not None:
                if isinstance(found, Refused):
                    return found
                return Appended(found.first_offset, found.last_offset, found.timestamp_ms, True, offsets.start)
        base_offset = offsets.end
        append_time_ms = now_ms if self._config.stamps_append_time else None
        timestamp_ms = header.max_timestamp_ms if append_time_ms is None else now_ms
        chunks = stamped(batch, base_offset, self._epochs.current, log_append_time_ms=append_time_ms)
        last_offset = base_offset + header.last_offset_delta
        try:
            self.files.write(chunks, len(batch), last_offset, timestamp_ms, now_ms, origin.share)
        except DiskFullError as error:
            if origin is Origin.OBLIGED:
                raise
            return Refused(ErrorCode.kafka_storage_error, str(error))
        if has_producer:
            self.producers.record_data(header, base_offset, timestamp_ms)
            if header.is_transactional:
                self._segments.active.write_back()
        return Appended(base_offset, last_offset, -1 if append_time_ms is None else now_ms, False, offsets.start)

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
        refused = self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        if refused is not None:
            return refused
        offsets = self._offsets
        offset = offsets.end
        batch = control_batch(
            control,
            producer_id,
            producer_epoch,
            coordinator_epoch,
            timestamp_ms,
            base_offset=offset,
            leader_epoch=self._epochs.current,
        )
        self.files.write([batch], len(batch), offset, timestamp_ms, self._clock.now_ms())
        aborted = self.producers.record_marker(
            control, producer_id, producer_epoch, coordinator_epoch, timestamp_ms, offset
        )
        if aborted is not None:
            self.files.index_aborted([aborted], offset)
        return Appended(offset, offset, -1, False, offsets.start)

    def append_as_follower(self, records: bytes) -> Followed | Refused:
        """Append the batches of the leader's answer to a Fetch from the log end offset on, as they are.

        Offsets, leader epochs and timestamps are the leader's, and so is what is known of producers and transactions: the leader
        has checked all of it. Offsets may be missing where the leader's log was cleaned. A batch that is cut short at the end is
        left out. Nothing is written if one is refused: CORRUPT_MESSAGE and INVALID_RECORD may pass when they are fetched again,
        KAFKA_STORAGE_ERROR says that the disk is full; UNKNOWN_SERVER_ERROR that offsets do not go on from the log end offset.
        The high watermark stays where it is.
        """
        assert self._is_replica, f"{self.name} was not opened as a replica"
        assert self._epochs.current == NO_LEADER_EPOCH, f"{self.name} leads"
        offsets = self._offsets
        found = leader_batches(self.name, records, offsets.end)
        if isinstance(found, Refused):
            return found
        count = size_bytes = 0
        now_ms = self._clock.now_ms()
        try:
            while count < len(found):
                run = self.files.next_run(found[count:], now_ms)
                size_bytes += self._follow(records, run)
                count += len(run)
        except DiskFullError as error:
            if not count:
                return Refused(ErrorCode.kafka_storage_error, str(error))
        return Followed(count, size_bytes, offsets.end)

    def _follow(self, records: bytes, run: Sequence[ScannedBatch]) -> int:
        end_before = self._offsets.end
        size_bytes = self.files.write_run(records, run)
        aborted = [one for one in (replay(self.producers, batch) for batch in run) if one is not None]
        if aborted:
            self.files.index_aborted(aborted, end_before)
        if any(batch.header.is_transactional for batch in run):
            self._segments.active.write_back()
        return size_bytes

    def advance_high_watermark(self, offset: int) -> None:
        """Let readers read below `offset`. It never goes back, but with the end of a log that is cut off below it."""
        self._offsets.advance_high_watermark(offset)

    # --- reading

    def read(self, offset: int, size_bytes_max: int, limit_offset: int) -> LogSlice:
        """Whole batches from the one that contains `offset`, below `limit_offset`.

        As many as fit into `size_bytes_max`, but at least one if there is one. `offset` is not outside the log, and
        `limit_offset` is the high watermark, the last stable offset, or the end of the log.
        """
        assert not self.files.is_gone, f"{self.name} was deleted"
        assert self._offsets.start <= offset <= self._offsets.end, f"{self.name} does not have offset {offset}"
        return self._segments.read(offset, size_bytes_max, limit_offset, self._offsets.end, self._epochs.newest)

    def batches(self) -> Iterator[ScannedBatch]:
        """Every batch from the log start on, each checked. Raises DamagedLogError where one is not what was written."""
        return self._segments.batches(self._offsets.start, self._offsets.end, self.leader_epoch)

    def size_between(self, offset: int, limit_offset: int) -> int:
        """The bytes of the batches from `offset` on, below `limit_offset`. It reads nothing.

        Exact for a reader that goes on where it ended, up to the end of the log; else what lies between two entries of
        an offset index may be too much.
        """
        return self._segments.size_between(offset, limit_offset, self._offsets.end)

    def batch_bytes(self, offset: int) -> int:
        """The size of the batch that contains `offset`, or else of the next one; 0 at the end of the log. Raises DiskError."""
        return self._segments.batch_bytes(offset, self._offsets.end)

    def aborted_transactions(self, first_offset: int, upper_bound_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records from `first_offset` on and below the upper bound, by first offset."""
        return self._segments.aborted_transactions(first_offset, upper_bound_offset)

    def offset_for_timestamp(self, timestamp_ms: int, limit_offset: int) -> TimestampOffset | None:
        """The first record below `limit_offset` whose timestamp is not before `timestamp_ms`."""
        return first_at_or_after(self._segments, timestamp_ms, self._offsets.start, limit_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp; None in an empty log."""
        return latest(self._segments, self._offsets.start)

    def digest(self) -> LogDigest:
        """The digest of the transaction indexes below the recovery point, and the log start offset."""
        return digest_of(self._segments, self.durability.recovery_point, self._offsets.start)

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that wrote nothing for long; return how many."""
        return self.producers.expire(now_ms, self._config.producer_id_expiration_ms)

    # --- what goes

    def advance_log_start(self, offset: int) -> None:
        """Begin the log at `offset`, not beyond the high watermark. The next checkpoint makes that durable."""
        self._offsets.advance_start(offset)

    def start_is_durable(self, offset: int) -> None:
        """A checkpoint is on disk that says so."""
        self._offsets.start_is_durable(offset)

    def truncate_to(self, offset: int) -> None:
        """Cut off everything from `offset` on, and build the producers' state again from what is left.

        While others are served, only after `files.begin_truncation`. The high watermark goes back if it was beyond `offset`, as
        after an unclean election: what readers may have seen is gone then.
        """
        files, offsets = self.files, self._offsets
        if offset >= offsets.end:
            files.keep_all()
            return
        self.on_cut()
        self.compaction.drop()
        self.compaction.end_at(files.truncate_to(offset))
        reload_producers(self._segments, self.producers, files.snapshots, offsets.high_watermark)
        offsets.update_last_stable()

    def begin_again_at(self, offset: int) -> None:
        """Be an empty log that begins at `offset` (Kafka's truncateFullyAndStartAt), after `files.begin_truncation` of
        all of it.

        Before `files.delete_old` removes those, a checkpoint says that it begins there. After a power cut in between, the log is
        the old one, or part of it, or empty.
        """
        self.on_cut()
        self.compaction.begin_again()
        self.files.begin_again_at(offset)
        self.producers.load(())
        self._offsets.begin_again_at(offset)

    def is_durable_in_copy(self, synced: SyncPoint) -> None:
        """The name of the directory of the copy that the log goes on in is durable. At `synced` it had what was durable there."""
        self.files.are_durable_in_copy(synced)
        self.durability.on_acknowledged()

    def seal(self) -> tuple[Syncable, ...]:
        """Write what a clean close leaves; return what it has to make durable, and what others may before it does."""
        self.compaction.drop()
        return self.files.seal()

    def close(self, *, clean: bool = True) -> None:
        """Close the files. A clean close makes everything durable first, and leaves nothing to be read again."""
        self.compaction.drop()
        if clean:
            for file in self.files.seal():
                file.sync()
            self.durability.take_synced(self.durability.sync_point())
        self.files.close()

    def abandon(self) -> None:
        """Close the files, of which the disk has taken leave: nothing of what they hold is worth an error any more."""
        self.files.abandon()

    def delete(self) -> None:
        """Delete the partition: its directory gets another name at once, and goes after file.delete.delay.ms."""
        self.close(clean=False)
        self.files.delete(self.topic_id)
