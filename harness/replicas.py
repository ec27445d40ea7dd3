"""A partition with three replicas, each a log on a disk in memory, and the part of a controller that it takes.

Nothing happens by itself: whoever holds it says who fetches, who hears news, who stops, and what is answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from harness.replica_on_memory_disk import INDEX, TOPIC, TOPIC_ID, ReplicaOnMemoryDisk
from oncelog.broker.fetching import _divergence
from oncelog.log import LogConfig, PartitionLog, Refused
from oncelog.replication import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    AlterPartition,
    AlterPartitionAnswer,
    Append,
    AskOffsets,
    Becomes,
    BeginAgain,
    EpochEnd,
    EpochRequest,
    FetchedFromLeader,
    Follower,
    LeaderAndIsrState,
    LeaderReplica,
    Step,
    Truncate,
    decide,
)
from oncelog.replication.fetch_session import PartitionFetch
from oncelog.wire import ErrorCode

KEY = (TOPIC, INDEX)
LAG_TIME_MAX_MS = 30_000
BACKOFF_MS = 1000
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300, file_delete_delay_ms=0)
BROKERS = (1, 2, 3)


def divergence(log: PartitionLog, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
    """The leader's side of a Fetch v12, which is the broker's."""
    asked: Any = SimpleNamespace(fetch_offset=fetch_offset, last_fetched_epoch=last_fetched_epoch)
    partition: Any = SimpleNamespace(log=log)
    return _divergence(partition, asked)


@dataclass
class Broker:
    number: int
    seed: int
    truncates_on_fetch: bool = True
    config: LogConfig = CONFIG
    is_alive: bool = True
    epoch: int = 0
    """Another one with each start."""
    asked: list[tuple[AlterPartition, dict[int, int]]] = field(default_factory=list)
    """What it asks the controller for, with the epochs of the brokers that it is about."""

    def __post_init__(self) -> None:
        self.replica = ReplicaOnMemoryDisk(self.config, self.seed)
        self._begin()

    def _begin(self) -> None:
        self.role = LeaderReplica(self.number, LAG_TIME_MAX_MS)
        self.follower: Follower | None = None
        self.leader: int | None = None
        self.asked = []

    def start(self) -> None:
        self.replica.open()
        self._begin()
        self.is_alive = True
        self.epoch += 1


class Replicas:
    """`committed` is what was below the high watermark of a leader once. `min_isr` is min.insync.replicas."""

    def __init__(
        self, seed: int = 0, min_isr: int = 1, *, truncates_on_fetch: bool = True, config: LogConfig = CONFIG
    ) -> None:
        self.now_ms = 1_000_000
        self.min_isr = min_isr
        self.brokers = {one: Broker(one, seed * 10 + one, truncates_on_fetch, config) for one in BROKERS}
        self.committed = b""
        self.high_watermarks: dict[tuple[int, int], int] = {}
        self.told = LeaderAndIsrState(1, 0, BROKERS, 0, 1, BROKERS)
        for one in BROKERS:
            self.tell(one)

    @property
    def alive(self) -> set[int]:
        return {one for one, broker in self.brokers.items() if broker.is_alive}

    @property
    def leader(self) -> Broker:
        return self.brokers[self.told.leader]

    def replica(self, broker: int) -> ReplicaOnMemoryDisk:
        return self.brokers[broker].replica

    # The controller.

    def elect(self, leader: int, isr: tuple[int, ...] | None = None) -> None:
        """Every change by the controller has a new leader epoch."""
        self.told = self.told._replace(
            leader=leader,
            leader_epoch=self.told.leader_epoch + 1,
            partition_epoch=self.told.partition_epoch + 1,
            isr=self.told.isr if isr is None else isr,
        )

    def alter(self, asked: AlterPartition, broker_epochs: dict[int, int]) -> AlterPartitionAnswer:
        """AlterPartition: compare and set. Nobody is in sync for what it had before it started again (KIP-903)."""
        told = self.told
        if asked.leader_epoch != told.leader_epoch:
            return AlterPartitionAnswer(ErrorCode.fenced_leader_epoch)
        if asked.partition_epoch != told.partition_epoch:
            return AlterPartitionAnswer(ErrorCode.invalid_update_version)
        if not set(asked.new_isr) <= self.alive | {told.leader}:
            return AlterPartitionAnswer(ErrorCode.ineligible_replica)
        if any(self.brokers[one].epoch != epoch for one, epoch in broker_epochs.items()):
            return AlterPartitionAnswer(ErrorCode.ineligible_replica)
        self.told = told._replace(isr=asked.new_isr, partition_epoch=told.partition_epoch + 1)
        return AlterPartitionAnswer(ErrorCode.none, told.leader_epoch, self.told.partition_epoch, asked.new_isr)

    def stop(self, broker: int, *, power: bool) -> None:
        """End a broker's process, or cut its power; the controller takes notice. The last one in sync stays so."""
        one = self.brokers[broker]
        one.is_alive = False
        left = [member for member in self.told.isr if member != broker and member in self.alive]
        # What the last one in sync loses with its power is lost.
        if power and (left or broker not in self.told.isr):
            one.replica.disk.crash()
        else:
            one.replica.disk.kill()
        if broker in self.told.isr and left:
            leader = self.told.leader if self.told.leader in left else left[0]
            self.elect(leader, tuple(member for member in self.told.isr if member != broker))

    def start(self, broker: int) -> None:
        """Start a broker again. If its partition had no leader meanwhile, it is elected, in a new leader epoch as ever."""
        self.brokers[broker].start()
        if self.told.leader == broker:
            self.elect(broker)

    # What brokers do.

    def tell(self, broker: int) -> None:
        """Deliver LeaderAndIsr."""
        one = self.brokers[broker]
        told, role = self.told, one.role
        match decide(told, broker, role.leader_epoch, role.partition_epoch).becomes:
            case Becomes.LEADER:
                one.replica.log.lead(told.leader_epoch)
                role.lead(told, one.replica.log.log_end_offset, self.now_ms)
                one.follower, one.leader = None, broker
                self.advance(broker)
            case Becomes.FOLLOWER:
                one.replica.log.follow()
                role.follow(told)
                if one.leader != told.leader or one.follower is None:
                    one.follower = Follower(1 << 20, BACKOFF_MS, truncates_on_fetch=one.truncates_on_fetch)
                    one.leader = told.leader
                one.follower.add(KEY, TOPIC_ID, told.leader_epoch, one.replica.log)

    def produce(self, broker: int, value: bytes = b"x", **batch: object) -> ErrorCode:
        one = self.brokers[broker]
        assert one.role.is_leader
        error = one.role.append_problem(-1, self.min_isr)
        if error is ErrorCode.none:
            one.replica.produce(value, **batch)  # type: ignore[arg-type]
            self.advance(broker)
        return error

    def advance(self, broker: int) -> None:
        one = self.brokers[broker]
        log = one.replica.log
        found = one.role.high_watermark(
            log.log_end_offset, log.log_end_offset, min_isr=self.min_isr, alive=self.alive, now_ms=self.now_ms
        )
        if found is not None and found > log.high_watermark:
            log.advance_high_watermark(found)
            data = self.all_below(one.replica, found)
            if len(data) > len(self.committed):
                self.committed = data
        key = broker, one.role.leader_epoch
        assert log.high_watermark >= self.high_watermarks.get(key, 0), "it goes back in an epoch"
        self.high_watermarks[key] = log.high_watermark

    @staticmethod
    def all_below(replica: ReplicaOnMemoryDisk, limit_offset: int) -> bytes:
        found, offset = bytearray(), replica.log.log_start_offset
        while offset < limit_offset:
            part = replica.log.read(offset, 1 << 20, limit_offset)
            if not part.data:
                break
            found += part.data
            offset = part.next_offset
        return bytes(found)

    def send_alter_partition(self, broker: int, asked: AlterPartition | None) -> None:
        one = self.brokers[broker]
        if asked is not None:
            one.role.propose(asked)
            one.asked.append((asked, one.role.broker_epochs(asked.new_isr)))

    def answer_alter_partition(self, broker: int) -> None:
        """Let the controller take the oldest request of a broker, and the broker its answer."""
        one = self.brokers[broker]
        if one.asked:
            asked, broker_epochs = one.asked.pop(0)
            one.role.answered(asked, self.alter(asked, broker_epochs))
            if one.role.is_leader:
                self.advance(broker)

    def check_lag(self, broker: int) -> None:
        one = self.brokers[broker]
        self.send_alter_partition(broker, one.role.shrinking(one.replica.log.log_end_offset, self.now_ms))

    def fetch(self, broker: int, size_bytes_max: int = 1 << 20) -> None:
        """One round of a follower: truncate, or fetch once and apply the answer."""
        one = self.brokers[broker]
        follower, log = one.follower, one.replica.log
        if follower is None or one.leader is None:
            return
        for key, step in follower.cut_without_epochs(lambda _: log, self.now_ms).items():
            assert key == KEY
            self._apply(one, step, None)
        for asked in follower.epochs_to_ask(lambda _: log, self.now_ms).values():
            error, told = self._epoch_end(one, asked)
            step_or_none = follower.epoch_answered(KEY, asked, error, told, log, self.now_ms)
            if step_or_none is not None:
                self._apply(one, step_or_none, None)
        request = follower.build_fetch(lambda _: log, self.now_ms)
        if request is None:
            return
        leader = self.brokers[one.leader]
        if not leader.is_alive:
            follower.session.lost()
            follower.delay([KEY], self.now_ms)
            return
        follower.session.answered(request, ErrorCode.none, 77)
        # Without a change the leader's session knows what is asked.
        if KEY not in follower.session.partitions:
            return
        answer = self._answer(one, leader, follower.session.partitions[KEY], size_bytes_max)
        for step in follower.fetch_answered(KEY, answer, log, self.now_ms):
            self._apply(one, step, answer)

    def _epoch_end(self, one: Broker, asked: EpochRequest) -> tuple[ErrorCode, EpochEnd]:
        leader = self.brokers[one.leader or 0]
        error = self._epoch_problem(leader, asked.current_leader_epoch)
        if error is not ErrorCode.none:
            return error, EpochEnd(-1, -1)
        return error, EpochEnd(*leader.replica.log.epoch_end_offset(asked.leader_epoch))

    @staticmethod
    def _epoch_problem(leader: Broker, epoch: int) -> ErrorCode:
        if not leader.is_alive:
            return ErrorCode.network_exception
        if epoch < leader.role.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch > leader.role.leader_epoch:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none if leader.role.is_leader else ErrorCode.not_leader_or_follower

    def _answer(self, one: Broker, leader: Broker, asked: PartitionFetch, size_bytes_max: int) -> FetchedFromLeader:
        """What a leader does with a follower's Fetch, as Kafka's Partition.fetchRecords."""
        log = leader.replica.log
        error = self._epoch_problem(leader, asked.current_leader_epoch)
        if error is not ErrorCode.none:
            return FetchedFromLeader(error)
        found, end = divergence(log, asked.fetch_offset, asked.last_fetched_epoch), log.log_end_offset
        if found is not None and found[1] >= 0:
            diverging = EpochEnd(*found)
            return FetchedFromLeader(ErrorCode.none, log.high_watermark, log.log_start_offset, diverging=diverging)
        if found is not None or not log.log_start_offset <= asked.fetch_offset <= end:
            return FetchedFromLeader(ErrorCode.offset_out_of_range)
        data = bytes(log.read(asked.fetch_offset, size_bytes_max, end).data)
        high_watermark = log.high_watermark
        leader.role.fetched(
            one.number,
            asked.fetch_offset,
            asked.log_start_offset,
            leader_end_offset=end,
            now_ms=self.now_ms,
            broker_epoch=one.epoch,
        )
        self.send_alter_partition(leader.number, leader.role.expansion(one.number, log.high_watermark, self.alive))
        self.advance(leader.number)
        return FetchedFromLeader(ErrorCode.none, high_watermark, log.log_start_offset, data)

    def _apply(self, one: Broker, step: Step, answer: FetchedFromLeader | None) -> None:
        follower, log = one.follower, one.replica.log
        assert follower is not None
        match step:
            case Append(records):
                assert answer is not None
                result = log.append_as_follower(records)
                error = result.error if isinstance(result, Refused) else ErrorCode.none
                assert error is ErrorCode.none, result
                for after in follower.appended(KEY, answer, error, log, self.now_ms):
                    self._apply(one, after, answer)
            case AdvanceHighWatermark(offset):
                log.advance_high_watermark(offset)
            case AdvanceLogStart(offset):
                log.advance_log_start(offset)
                log.start_is_durable(offset)
            case Truncate(offset):
                one.replica.truncate_to(offset)
                follower.truncated(KEY, step, log)
            case BeginAgain(offset):
                one.replica.begin_again_at(offset)
                follower.truncated(KEY, step, log)
            case AskOffsets(leader_epoch):
                leader = self.brokers[one.leader or 0]
                error = self._epoch_problem(leader, leader_epoch)
                ends = leader.replica.log.log_end_offset, leader.replica.log.log_start_offset
                next_step = follower.offsets_answered(KEY, leader_epoch, error, *ends, log, self.now_ms)
                if next_step is not None:
                    self._apply(one, next_step, None)

    def settle(self) -> None:
        """Start everybody, tell everybody, and fetch until nothing changes: a segment a round, and its end."""
        for one in BROKERS:
            if not self.brokers[one].is_alive:
                self.start(one)
        if self.told.leader not in self.told.isr:
            self.elect(self.told.isr[0])
        # Whoever has failed waits for a new leader epoch.
        self.elect(self.told.leader)
        for one in BROKERS:
            self.tell(one)
        for _ in range(4 + len(self.leader.replica.log.segments)):
            self.now_ms += BACKOFF_MS
            for one in BROKERS:
                self.fetch(one)
                self.answer_alter_partition(self.told.leader)
