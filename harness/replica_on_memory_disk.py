"""A replica of one partition on a disk in memory: log, write-ahead log and checkpoints as a broker has them."""

from __future__ import annotations

from uuid import UUID

from harness.manual_clock import ManualClock
from harness.memory_disk import MemoryDisk
from oncelog.broker.coordinators.loading import JournalState
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.truncating import begin_logs_again, truncate_logs
from oncelog.coordination import Promise, start
from oncelog.environment import DiskError
from oncelog.log import (
    NO_LEADER_EPOCH,
    OWN_CHECKPOINT,
    Appended,
    LogConfig,
    LogDigest,
    LogDirectories,
    LogPoints,
    OwnCheckpoint,
    open_log,
    read_own_checkpoint,
    replay,
    write_own_checkpoint,
)
from oncelog.records import ControlType, Record, build_batch, check_batch

HOME = "/data"
TOPIC, INDEX = "orders", 0
DIRECTORY = f"{HOME}/{TOPIC}-{INDEX}"
TOPIC_ID = UUID(int=7)
KEY = (TOPIC_ID, INDEX)


class ReplicaOnMemoryDisk:
    """Opened when it is made, and again after `crash` or `kill`. It follows until `log.lead` says otherwise."""

    paths = (HOME,)
    """The log directories."""

    def __init__(
        self, config: LogConfig | None = None, seed: int = 0, disk: MemoryDisk | None = None, *, decides: bool = False
    ) -> None:
        self.clock = ManualClock()
        self.disk = disk or MemoryDisk(seed, self.clock.now_ms)
        self.config = config or LogConfig()
        self._decides = decides
        self.open()

    def open(self) -> None:
        self.directories = LogDirectories(self.disk, self.paths, OWN_CHECKPOINT)
        self.directories.find_partitions(JournalState())
        if self.directories.partition_path(TOPIC, INDEX) is None:
            self.directories.place(TOPIC, INDEX)
        directory = self.directories.partition_path(TOPIC, INDEX)
        assert directory is not None, "it has its place"
        own = read_own_checkpoint(self.disk, HOME)
        replayed = replay(self.disk, HOME, lambda topic_id, _: directory if topic_id == TOPIC_ID else None)
        key = (TOPIC, INDEX)
        recovery_point = self.directories.recovery_points().get(key, 0)
        digest = None if own is None else own.aborted.get(KEY, LogDigest(recovery_point))
        self.log = open_log(
            self.disk,
            self.clock,
            directory,
            TOPIC,
            INDEX,
            self.config,
            was_clean=False,
            recovery_point=recovery_point,
            log_start_offset=0 if digest is None else digest.log_start_offset,
            leader_epoch=NO_LEADER_EPOCH,
            high_watermark=self.directories.high_watermarks().get(key, 0),
            topic_id=TOPIC_ID,
            durable_end=replayed.durable_ends.get(KEY, 0),
            aborted=digest,
            gaps_below=0 if own is None else (own.gaps_below or {}).get(KEY, 0),
            is_replica=True,
        )
        self.durability = Durability(
            self.disk,
            self.directories,
            self._survives,
            number=replayed.next_number,
            has_decisions=lambda _: self._decides,
        )
        self.write()
        for path in replayed.files:
            self.disk.remove(path)

    def _survives(self, error: DiskError) -> bool:
        raise error

    def write(self) -> Promise[None]:
        """Write the checkpoints."""
        log = self.log
        own = OwnCheckpoint(0, {KEY: log.digest()}, {}, {KEY: log.files.gaps_below} if log.files.gaps_below else {})
        write_own_checkpoint(self.disk, HOME, own)
        points = LogPoints(
            log.durability.recovery_point, log.log_start_offset, log.high_watermark, log.compaction.cleaned_offset
        )
        self.directories.checkpoint({(TOPIC, INDEX): points})()
        return Promise.ready(None)

    def sync(self) -> None:
        """Make all that is in the log durable, by the write-ahead log if it is little."""
        assert self.durability.make_durable([self.log]).is_resolved

    def truncate_to(self, offset: int) -> None:
        assert start(truncate_logs(self.durability, self, {self.log: offset})).is_resolved

    def begin_again_at(self, offset: int) -> None:
        assert start(begin_logs_again(self.durability, self, {self.log: offset})).is_resolved

    def crash(self) -> None:
        self.disk.crash()
        self.open()

    def kill(self) -> None:
        self.disk.kill()
        self.open()

    def produce(
        self,
        *values: bytes,
        producer: tuple[int, int] = (-1, -1),
        sequence: int = -1,
        transactional: bool = False,
    ) -> Appended:
        """Append a batch as the leader."""
        producer_id, epoch = producer
        batch = build_batch(
            [Record(None, value, timestamp_ms=self.clock.now_ms()) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        result = self.log.append(batch, check_batch(batch), verified=True)
        assert isinstance(result, Appended), result
        return result

    def mark(self, control: ControlType, producer: tuple[int, int], coordinator_epoch: int = 0) -> None:
        result = self.log.append_marker(control, *producer, coordinator_epoch, 1, self.clock.now_ms())
        assert isinstance(result, Appended), result

    def read(self, offset: int | None = None, size_bytes_max: int = 1 << 20) -> bytes:
        """What the answer to a Fetch from a follower has: up to the end of the log."""
        log = self.log
        return bytes(
            log.read(log.log_start_offset if offset is None else offset, size_bytes_max, log.log_end_offset).data
        )

    def read_all(self) -> bytes:
        found, offset = bytearray(), self.log.log_start_offset
        while offset < self.log.log_end_offset:
            part = self.log.read(offset, 1 << 20, self.log.log_end_offset)
            found += part.data
            offset = part.next_offset
        return bytes(found)

    def follow(self, leader: ReplicaOnMemoryDisk, size_bytes_max: int = 1 << 20) -> None:
        """Fetch from the leader until there is no more."""
        while self.log.log_end_offset < leader.log.log_end_offset:
            self.log.append_as_follower(leader.read(self.log.log_end_offset, size_bytes_max))

    def files(self) -> dict[str, bytes]:
        """Every file of the partition as it is on the disk, with what was not handed to it yet."""
        for segment in self.log.segments:
            segment.indexes.write_out()
        return {
            path[len(DIRECTORY) + 1 :]: self.disk.read_file(path)
            for path in self.disk.paths()
            if path.startswith(f"{DIRECTORY}/") and not path.endswith(".deleted")
        }
