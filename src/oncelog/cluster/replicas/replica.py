"""This broker's replica of one partition: leader or follower, and the requests that wait for replication."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from oncelog.broker.leaders import UNTOLD
from oncelog.broker.storage.leading import FollowerId
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.cluster.replicas.in_sync_changes import InSyncChange
from oncelog.coordination import Promise, sleep, start
from oncelog.log import Refused
from oncelog.replication import (
    ACKS_ALL,
    UNKNOWN_OFFSET,
    AfterAnswer,
    AlterPartition,
    AlterPartitionAnswer,
    IsrState,
    LeaderAndIsrState,
    LeaderReplica,
    preferred_read_replica,
)
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.cluster.counts import InSyncCounts
    from oncelog.cluster.members import ClusterMembers
    from oncelog.cluster.replicas.in_sync_changes import InSyncChanges
    from oncelog.environment import Clock

logger = logging.getLogger("oncelog.broker")

ASKED_AGAIN_AFTER_MS = 100


class Surroundings(NamedTuple):
    """The parts of the broker that every replica uses."""

    clock: Clock
    node_id: int
    lag_time_max_ms: int
    members: ClusterMembers
    """The live brokers."""
    changes: InSyncChanges
    min_in_sync: Callable[[str], int]
    """min.insync.replicas of the topic of this name."""
    counts: InSyncCounts


class HostedReplica:
    """It is the `Leading` of its partition while this broker leads it."""

    __slots__ = ("_number", "_surroundings", "_waiting", "partition", "state")

    def __init__(self, partition: Partition, surroundings: Surroundings) -> None:
        self.partition = partition
        self.state = LeaderReplica(surroundings.node_id, surroundings.lag_time_max_ms)
        self._surroundings = surroundings
        self._waiting: list[tuple[int, int, Promise[ErrorCode]]] = []
        self._number = 0

    # --- orders of the controller

    def lead(self, told: LeaderAndIsrState) -> None:
        """Lead under this epoch from now on. Nothing fetches for the replica any more."""
        partition = self.partition
        partition.log.lead(told.leader_epoch)
        self.state.lead(told, partition.log.log_end_offset, self._now_ms)
        partition.leader_epoch = told.leader_epoch
        partition.role = ReplicaRole.LEADER
        partition.leading = self
        logger.info(
            "%s: this broker leads it under epoch %d from offset %d on, in sync are %s",
            partition,
            told.leader_epoch,
            partition.log.log_end_offset,
            _listed(told.isr),
        )
        self._advance()
        partition.wake()

    def follow(self, told: LeaderAndIsrState) -> None:
        """Follows another broker, or none."""
        partition = self.partition
        self.state.follow(told)
        partition.leader_epoch = told.leader_epoch
        partition.resign()
        logger.info("%s: this broker follows broker %d under epoch %d", partition, told.leader, told.leader_epoch)
        self._release()
        partition.wake()

    def stop(self) -> None:
        """Neither leads nor follows, and serves no request."""
        self.state.resign()
        self._surroundings.changes.withdraw(self.partition.topic_id, self.partition.index)
        self.partition.resign()
        self.partition.leader_epoch = UNTOLD
        self._release()
        self.partition.wake()

    def go_offline(self) -> None:
        """Stops the replica of a failed log. Waiting requests get KAFKA_STORAGE_ERROR: the state of other replicas is unknown."""
        waiting, self._waiting = self._waiting, []
        self.stop()
        self.partition.answer([(one, ErrorCode.kafka_storage_error) for _, _, one in waiting])

    # --- requests to the leader

    def grown(self) -> None:
        self._advance()

    def problem(self, follower: FollowerId) -> ErrorCode | None:
        return None if follower.node_id in self.state.followers else ErrorCode.unknown_leader_epoch

    @property
    def epoch_start_offset(self) -> int:
        return self.state.epoch_start_offset

    @property
    def low_watermark(self) -> int:
        return self.state.low_watermark(self.partition.log.durable_start_offset, self._surroundings.members)

    def preferred_replica(self, rack: str, fetch_offset: int) -> int | None:
        racks = {node.node_id: node.rack for node in self._surroundings.members.brokers()}
        return preferred_read_replica(self.state, racks, rack, fetch_offset)

    def fetched(self, follower: FollowerId, fetch_offset: int, log_start_offset: int) -> None:
        log = self.partition.log
        before = self.state.followers.get(follower.node_id)
        self.state.fetched(
            follower.node_id,
            fetch_offset,
            log_start_offset,
            leader_end_offset=log.log_end_offset,
            now_ms=self._now_ms,
            broker_epoch=follower.epoch,
        )
        self._advance()
        if before is not None and before.log_start_offset != log_start_offset:
            # The low watermark may have moved.
            self.partition.wake()
        asked = self.state.expansion(follower.node_id, log.high_watermark, self._surroundings.members)
        if asked is not None:
            self._ask_for(asked, f"broker {follower.node_id} has caught up to offset {fetch_offset}")

    @property
    def is_under_replicated(self) -> bool:
        return self.state.is_under_replicated

    @property
    def above_min_isr(self) -> int:
        """Size of the in-sync set minus min.insync.replicas; negative if acks=all is refused."""
        return self.state.above_min_isr(self._min_in_sync)

    def limit_offset(self, isolation_level: int) -> int:
        return self.partition.log.log_end_offset

    def refuses(self) -> Refused | None:
        min_in_sync = self._min_in_sync
        error = self.state.append_problem(ACKS_ALL, min_in_sync)
        if error is ErrorCode.none:
            return None
        said = f"in sync are {_listed(self.state.state.isr)}, and min.insync.replicas is {min_in_sync}"
        return Refused(error, f"{self.partition}: {said}")

    def committed(self, offset: int) -> Promise[ErrorCode]:
        known = self._acknowledgement(offset)
        if known is not None:
            return Promise.ready(known)
        waiting: Promise[ErrorCode] = Promise()
        self._number += 1
        heappush(self._waiting, (offset, self._number, waiting))
        return waiting

    def shrink(self) -> None:
        """Removes replicas from the in-sync set that have not caught up for replica.lag.time.max.ms."""
        log = self.partition.log
        asked = self.state.shrinking(log.log_end_offset, self._now_ms)
        if asked is not None:
            late = sorted(self.state.state.isr.difference(asked.new_isr))
            self._ask_for(asked, ", ".join(map(self._how_late, late)))

    # --- inside

    @property
    def _now_ms(self) -> int:
        """Monotonic time: with the time of day, setting the clock forward would make all followers late."""
        return int(self._surroundings.clock.monotonic_ms())

    @property
    def _min_in_sync(self) -> int:
        return self._surroundings.min_in_sync(self.partition.topic)

    def _advance(self) -> None:
        log = self.partition.log
        if log.high_watermark >= log.log_end_offset:
            return
        found = self.state.high_watermark(
            log.log_end_offset,
            log.durability.acknowledged_offset,
            min_isr=self._min_in_sync,
            alive=self._surroundings.members,
            now_ms=self._now_ms,
        )
        if found is not None and found > log.high_watermark:
            log.advance_high_watermark(found)
            self._release()
            self.partition.wake()

    def _acknowledgement(self, offset: int) -> ErrorCode | None:
        return self.state.acknowledgement(offset, self.partition.log.high_watermark, self._min_in_sync)

    def _release(self) -> None:
        answered = []
        while self._waiting and (error := self._acknowledgement(self._waiting[0][0])) is not None:
            _, _, waiting = heappop(self._waiting)
            answered.append((waiting, error))
        self.partition.answer(answered)

    def _how_late(self, broker_id: int) -> str:
        progress = self.state.followers.get(broker_id)
        if progress is None:
            return f"broker {broker_id} has no replica"
        since_ms = self._now_ms - progress.last_caught_up_ms
        if progress.log_end_offset == UNKNOWN_OFFSET:
            return f"broker {broker_id} has not fetched for {since_ms} ms"
        end = self.partition.log.log_end_offset
        return f"broker {broker_id} has not caught up for {since_ms} ms, and is at offset {progress.log_end_offset} of {end}"

    def _ask_for(self, asked: AlterPartition, reason: str) -> None:
        logger.info(
            "%s: asks for the in-sync set %s, now %s: %s",
            self.partition,
            _listed(asked.new_isr),
            _listed(self.state.state.isr),
            reason,
        )
        self.state.propose(asked)
        start(self._alter(asked))

    async def _alter(self, asked: AlterPartition) -> None:
        change = InSyncChange(
            self.partition.log.topic_id,
            self.partition.index,
            asked.leader_epoch,
            asked.new_isr,
            0,
            asked.partition_epoch,
            self.state.broker_epochs(asked.new_isr),
        )
        answer = await self._surroundings.changes.ask(change)
        while (after := self._answered(asked, answer)) is AfterAnswer.RETRY:
            await sleep(self._surroundings.clock, ASKED_AGAIN_AFTER_MS)
            if self.state.state.asked is not asked:
                # The partition has gone on meanwhile, or is here no more.
                return
            answer = await self._surroundings.changes.ask(change)
        if after is AfterAnswer.COMMITTED:
            logger.info("%s: in sync are %s", self.partition, _listed(self.state.state.isr))
            self._advance()
        else:
            logger.info("%s: the in-sync set was not changed: %s", self.partition, after.value)

    def _answered(self, asked: AlterPartition, answer: AlterPartitionAnswer) -> AfterAnswer:
        """Applies an answer, and counts it as Kafka does: each change, and each refusal even if it is retried."""
        before, counts = self.state.state, self._surroundings.counts
        after = self.state.answered(asked, answer)
        if before.asked == asked:
            if answer.error is not ErrorCode.none:
                counts.failed += 1
            elif after is AfterAnswer.COMMITTED and before.state is IsrState.PENDING_EXPAND:
                counts.expands += 1
            elif after is AfterAnswer.COMMITTED:
                counts.shrinks += 1
        return after


def _listed(brokers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(brokers)))
