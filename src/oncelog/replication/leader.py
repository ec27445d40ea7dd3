"""The followers of a partition as its leader sees them: progress, in-sync set, high watermark, answers to appends.

Nothing here touches the log, knows the time, or sends anything. The leader calls

- `lead` when LeaderAndIsr says so, after `PartitionLog.lead`,
- `fetched` with each Fetch of a follower that was answered without a diverging epoch,
- `high_watermark` after each of them, after each append, and after each change of the in-sync set,
- `expansion` after each `fetched`, `shrinking` every half of replica.lag.time.max.ms: their result is sent to the controller
  after `propose`, and the answer goes to `answered`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from oncelog.replication.partition_state import (
    NO_EPOCH,
    AfterAnswer,
    AlterPartition,
    AlterPartitionAnswer,
    IsrPartitionState,
    IsrState,
    LeaderAndIsrState,
    after_answer,
)
from oncelog.wire import ErrorCode

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**62)


class FollowerProgress(NamedTuple):
    """Times are of the leader's clock that never goes back, in milliseconds.

    `broker_epoch` is that of the follower's last Fetch, -1 without one.
    """

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end_offset: int = UNKNOWN_OFFSET
    """The leader's log end offset at the last Fetch."""
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    broker_epoch: int = -1

    def fetched(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, broker_epoch: int
    ) -> FollowerProgress:
        """After a Fetch from `fetch_offset`, which is where the follower's log ends.

        It has caught up now if it asks from the leader's end. If it asks from where the leader's end was at its last Fetch, it
        had caught up then: else a follower that is never quite at the end of a busy log would fall out of sync.
        """
        caught_up_ms = self.last_caught_up_ms
        if fetch_offset >= leader_end_offset:
            caught_up_ms = max(caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            caught_up_ms = max(caught_up_ms, self.last_fetch_ms)
        return FollowerProgress(
            fetch_offset,
            log_start_offset,
            max(leader_end_offset, self.last_fetch_leader_end_offset),
            now_ms,
            caught_up_ms,
            broker_epoch,
        )

    def under_leader_epoch(
        self, leader_end_offset: int, now_ms: int, *, is_new_leader: bool, is_in_sync: bool
    ) -> FollowerProgress:
        """At the beginning of a leader epoch. One that is in sync has the whole time to show it.

        One that is not must hold back no high watermark, and must not be in sync again before it has fetched.
        """
        caught_up_ms = now_ms if is_in_sync else NEVER_MS
        if is_new_leader:
            return FollowerProgress(last_caught_up_ms=caught_up_ms)
        return self._replace(
            last_fetch_leader_end_offset=leader_end_offset, last_fetch_ms=caught_up_ms, last_caught_up_ms=caught_up_ms
        )

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms


ACKS_ALL = -1


class LeaderReplica:
    """One partition that this broker leads, or may lead. `is_leader` says which."""

    __slots__ = (
        "_lag_time_max_ms",
        "adding_replicas",
        "broker_id",
        "controller_epoch",
        "epoch_start_offset",
        "followers",
        "is_leader",
        "leader_epoch",
        "partition_epoch",
        "removing_replicas",
        "replicas",
        "state",
    )

    def __init__(self, broker_id: int, lag_time_max_ms: int) -> None:
        """`lag_time_max_ms` is replica.lag.time.max.ms."""
        self.broker_id = broker_id
        self._lag_time_max_ms = lag_time_max_ms
        self.is_leader = False
        self.controller_epoch = self.leader_epoch = self.partition_epoch = NO_EPOCH
        self.epoch_start_offset = 0
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.state = IsrPartitionState(IsrState.COMMITTED, frozenset())
        self.followers: dict[int, FollowerProgress] = {}

    def lead(self, told: LeaderAndIsrState, log_end_offset: int, now_ms: int) -> None:
        """Become leader, or take what is new for one: a leader epoch, the in-sync set, the assignment.

        Followers that are known from the epoch before, which this broker led, keep their offsets. Where an epoch lies between
        that this broker has not heard of, another may have led, and followers may have been cut off for it.
        """
        followers = {one: self.followers.get(one, FollowerProgress()) for one in told.replicas if one != self.broker_id}
        if told.leader_epoch > self.leader_epoch:
            has_led_all_along = self.is_leader and told.leader_epoch == self.leader_epoch + 1
            self.epoch_start_offset = log_end_offset
            followers = {
                one: progress.under_leader_epoch(
                    log_end_offset, now_ms, is_new_leader=not has_led_all_along, is_in_sync=one in told.isr
                )
                for one, progress in followers.items()
            }
        self.followers = followers
        self.state = self.state.committed(frozenset(told.isr))
        self.is_leader = True
        self._take_epochs(told)

    def follow(self, told: LeaderAndIsrState) -> None:
        """Become a follower: the in-sync set is the leader's business."""
        self.resign()
        self._take_epochs(told)

    def resign(self) -> None:
        """Lead no more: what was known of followers, and what was asked of the controller, means nothing from now on."""
        self.followers = {}
        self.state = self.state.committed(frozenset())
        self.is_leader = False

    def _take_epochs(self, told: LeaderAndIsrState) -> None:
        self.controller_epoch = told.controller_epoch
        self.leader_epoch = told.leader_epoch
        self.partition_epoch = told.partition_epoch
        self.replicas = told.replicas
        self.adding_replicas = told.adding_replicas
        self.removing_replicas = told.removing_replicas

    # What Kafka's metrics of a ReplicaManager count, of a leader

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def is_under_replicated(self) -> bool:
        """True if fewer are in sync than there are replicas, not counting those that a reassignment adds (Partition.scala)."""
        return len(self.state.isr) < len(set(self.replicas) - set(self.adding_replicas))

    def above_min_isr(self, min_isr: int) -> int:
        """How many more are in sync than have to be; negative where acks=all is refused."""
        return len(self.state.isr) - self.needed_isr_size(min_isr)

    def fetched(
        self,
        replica: int,
        fetch_offset: int,
        log_start_offset: int,
        *,
        leader_end_offset: int,
        now_ms: int,
        broker_epoch: int,
    ) -> ErrorCode:
        """Note a follower's Fetch. `leader_end_offset` is where the log ended before it was read, `now_ms` when the Fetch came.

        UNKNOWN_LEADER_EPOCH for a broker that has no replica: it may know of a reassignment that this leader has not heard of.
        """
        progress = self.followers.get(replica)
        if progress is None:
            return ErrorCode.unknown_leader_epoch
        self.followers[replica] = progress.fetched(
            fetch_offset, log_start_offset, leader_end_offset, now_ms, broker_epoch
        )
        return ErrorCode.none

    def broker_epochs(self, replicas: Iterable[int]) -> dict[int, int]:
        """Under which epoch each of these brokers has fetched last, where it has said so."""
        known = {one: self.followers[one].broker_epoch for one in replicas if one in self.followers}
        return {one: epoch for one, epoch in known.items() if epoch >= 0}

    def needed_isr_size(self, min_isr: int) -> int:
        """min.insync.replicas, or all replicas if they are fewer."""
        return min(min_isr, len(self.followers) + 1)

    def high_watermark(
        self, log_end_offset: int, acknowledged_offset: int, *, min_isr: int, alive: Container[int], now_ms: int
    ) -> int | None:
        """The high watermark that is possible now; None if it stays. It never goes back, so the log takes it if it is higher.

        It is the smallest log end offset of the (maximal) in-sync set. For this broker `acknowledged_offset` counts, below which
        the log is as durable as it has to be. Replicas that are alive and have caught up not long ago count too: else one that
        wants to join would run after the high watermark for ever. It does not move while the in-sync set is smaller than
        min.insync.replicas (KIP-966; so in Kafka 3.9).
        """
        if len(self.state.isr) < self.needed_isr_size(min_isr):
            return None
        maximal_isr = self.state.maximal_isr
        found = acknowledged_offset
        for replica, progress in self.followers.items():
            if progress.log_end_offset < found and (
                replica in maximal_isr
                or (replica in alive and progress.is_caught_up(log_end_offset, now_ms, self._lag_time_max_ms))
            ):
                found = progress.log_end_offset
        return found if found >= 0 else None

    def low_watermark(self, log_start_offset: int, alive: Container[int]) -> int:
        """DeleteRecords is done when this reaches its offset: the smallest log start offset of all replicas that are alive."""
        starts = [progress.log_start_offset for one, progress in self.followers.items() if one in alive]
        return min([log_start_offset, *starts])

    def append_problem(self, acks: int, min_isr: int) -> ErrorCode:
        """NOT_ENOUGH_REPLICAS before anything is written."""
        if acks == ACKS_ALL and len(self.state.isr) < self.needed_isr_size(min_isr):
            return ErrorCode.not_enough_replicas
        return ErrorCode.none

    def acknowledgement(self, next_offset: int, high_watermark: int, min_isr: int) -> ErrorCode | None:
        """The answer to an append with acks=all that ends before `next_offset`; None while it waits.

        Ask again when the high watermark has moved or this broker has stopped leading.
        """
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if high_watermark < next_offset:
            return None
        if len(self.state.maximal_isr) < self.needed_isr_size(min_isr):
            return ErrorCode.not_enough_replicas_after_append
        return ErrorCode.none

    def expansion(self, replica: int, high_watermark: int, alive: Container[int]) -> AlterPartition | None:
        """The request to the controller if a follower belongs into the in-sync set now.

        It has all that is below the high watermark, and all that was there when this leader epoch began.
        """
        progress = self.followers.get(replica)
        if not self.is_leader or progress is None or self.state.is_pending or replica in self.state.isr:
            return None
        if replica not in alive or progress.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        return self._asking(self.state.isr | {replica})

    def shrinking(self, log_end_offset: int, now_ms: int) -> AlterPartition | None:
        """The request to the controller if replicas of the in-sync set have lagged for longer than replica.lag.time.max.ms."""
        if not self.is_leader or self.state.is_pending:
            return None
        late = {one for one in self.state.isr if one != self.broker_id and self._is_late(one, log_end_offset, now_ms)}
        return self._asking(self.state.isr - late) if late else None

    def _is_late(self, replica: int, log_end_offset: int, now_ms: int) -> bool:
        progress = self.followers.get(replica)
        return progress is None or not progress.is_caught_up(log_end_offset, now_ms, self._lag_time_max_ms)

    def _asking(self, isr: frozenset[int]) -> AlterPartition:
        return AlterPartition(self.leader_epoch, self.partition_epoch, self.controller_epoch, tuple(sorted(isr)))

    def propose(self, asked: AlterPartition) -> None:
        """It is on its way to the controller."""
        grows = self.state.isr < frozenset(asked.new_isr)
        self.state = self.state.pending(IsrState.PENDING_EXPAND if grows else IsrState.PENDING_SHRINK, asked)

    def answered(self, asked: AlterPartition, answer: AlterPartitionAnswer) -> AfterAnswer:
        """Take the controller's answer. RETRY: send `asked` again. COMMITTED: the high watermark may move."""
        after = after_answer(self.state, self.leader_epoch, self.partition_epoch, asked, answer)
        if after is AfterAnswer.COMMITTED:
            self.state = self.state.committed(frozenset(answer.isr))
            self.partition_epoch = answer.partition_epoch
        elif after is AfterAnswer.RESET:
            self.state = self.state.reset()
        return after


def preferred_read_replica(
    leader: LeaderReplica, racks: Mapping[int, str | None], client_rack: str, fetch_offset: int
) -> int | None:
    """The follower that a consumer in `client_rack` is sent to; None if it stays with the leader.

    `racks` has the brokers that are alive and have the consumer's listener. KIP-392: of the in-sync replicas in
    the same rack that have the offset, the one that is furthest ahead. The leader is none of them, and stays if it is in that rack.
    """
    if not client_rack or racks.get(leader.broker_id) == client_rack:
        return None
    near = [
        (progress.log_end_offset, progress.last_caught_up_ms, replica)
        for replica, progress in leader.followers.items()
        if replica in leader.state.isr
        and progress.log_start_offset <= fetch_offset <= progress.log_end_offset
        and racks.get(replica) == client_rack
    ]
    return max(near)[2] if near else None
