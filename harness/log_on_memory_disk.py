"""One partition's log on a disk in memory, with the few lines of a broker that it needs around it."""

from __future__ import annotations

from harness.manual_clock import ManualClock
from harness.memory_disk import MemoryDisk
from oncelog.environment import DiskError, Syncable
from oncelog.log import Appended, LogConfig, LogDigest, Origin, PartitionLog, Refused, SyncPoint, open_log
from oncelog.records import ControlType, Record, build_batch, check_batch

DIRECTORY = "/data/orders-0"


class LogOnMemoryDisk:
    """Appends what it is told to, keeps the checkpoint of the recovery point, and opens the log again."""

    def __init__(self, config: LogConfig | None = None, seed: int = 0) -> None:
        self.clock = ManualClock()
        self.disk = MemoryDisk(seed, self.clock.now_ms)
        self.config = config or LogConfig()
        self.checkpoint = self.log_start = 0
        self.gaps_below: int | None = 0
        self.aborted: LogDigest | None = None
        self.log = self.open(was_clean=False)

    def open(
        self, *, was_clean: bool, log_start_offset: int | None = None, high_watermark: int | None = None
    ) -> PartitionLog:
        self.log = open_log(
            self.disk,
            self.clock,
            DIRECTORY,
            "orders",
            0,
            self.config,
            was_clean=was_clean,
            recovery_point=self.checkpoint,
            log_start_offset=self.log_start if log_start_offset is None else log_start_offset,
            high_watermark=high_watermark,
            gaps_below=self.gaps_below,
            aborted=self.aborted,
        )
        return self.log

    def batch(
        self,
        values: list[bytes],
        *,
        producer: tuple[int, int] = (-1, -1),
        sequence: int = -1,
        transactional: bool = False,
        timestamp_ms: int | None = None,
    ) -> bytes:
        timestamp_ms = self.clock.now_ms() if timestamp_ms is None else timestamp_ms
        records = [Record(None, value, timestamp_ms=timestamp_ms) for value in values]
        producer_id, epoch = producer
        return build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )

    def append(
        self,
        batch: bytes,
        *,
        verified: bool = True,
        first_sequence_must_be_zero: bool = False,
        origin: Origin = Origin.CLIENT,
    ) -> Appended | Refused:
        """Append, and let readers see it at once, as a partition without followers does."""
        result = self.log.append(
            batch,
            check_batch(batch),
            origin,
            verified=verified,
            first_sequence_must_be_zero=first_sequence_must_be_zero,
        )
        self.log.advance_high_watermark(self.log.log_end_offset)
        return result

    def produce(
        self,
        *values: bytes,
        producer: tuple[int, int] = (-1, -1),
        sequence: int = -1,
        transactional: bool = False,
        timestamp_ms: int | None = None,
    ) -> Appended:
        """Append records that are sure to be taken."""
        batch = self.batch(
            list(values), producer=producer, sequence=sequence, transactional=transactional, timestamp_ms=timestamp_ms
        )
        result = self.append(batch)
        assert isinstance(result, Appended), result
        return result

    def mark(
        self,
        control: ControlType,
        producer: tuple[int, int],
        *,
        coordinator_epoch: int = 0,
        transaction_version: int = 1,
    ) -> Appended | Refused:
        producer_id, epoch = producer
        result = self.log.append_marker(
            control, producer_id, epoch, coordinator_epoch, transaction_version, self.clock.now_ms()
        )
        self.log.advance_high_watermark(self.log.log_end_offset)
        return result

    def begin_sync(self) -> tuple[tuple[Syncable, ...], SyncPoint]:
        return self.log.durability.unsynced_files(), self.log.durability.sync_point()

    def end_sync(self, begun: tuple[tuple[Syncable, ...], SyncPoint]) -> None:
        files, point = begun

        def done(error: DiskError | None) -> None:
            assert error is None
            self.log.durability.synced_up_to(point)

        self.disk.sync(files, done)

    def sync(self) -> None:
        self.end_sync(self.begin_sync())
        self.write_checkpoint()

    def write_checkpoint(self) -> None:
        self.checkpoint, self.gaps_below = self.log.durability.recovery_point, self.log.files.gaps_below

    def delete_expired(self) -> int:
        """What retention does: leave them, write down where the log begins, delete."""
        self.log.retention.leave_expired(self.clock.now_ms())
        self.log_start = self.log.log_start_offset
        return self.log.retention.delete_left(self.log.log_start_offset)

    def restart(self) -> PartitionLog:
        """Stop in good order and start again."""
        self.log.close()
        self.write_checkpoint()
        return self.open(was_clean=True)

    def crash(self, *, says_clean: bool = False) -> PartitionLog:
        """Lose power and start again. `says_clean`: the mark of an earlier clean stop came back with the power."""
        self.disk.crash()
        return self.open(was_clean=says_clean)

    def kill(self) -> PartitionLog:
        """End the process and start again: what it wrote is there, though not durable."""
        self.disk.kill()
        return self.open(was_clean=False)

    def read_all(self, size_bytes_max: int = 1 << 20) -> bytes:
        """Everything up to the end of the log, read as a reader does."""
        found, offset = bytearray(), self.log.log_start_offset
        while offset < self.log.log_end_offset:
            part = self.log.read(offset, size_bytes_max, self.log.log_end_offset)
            assert part.next_offset > offset, "a read goes on"
            found += part.data
            offset = part.next_offset
        return bytes(found)
