"""What the leader makes of its followers' fetches."""

from __future__ import annotations

import pytest

from oncelog.replication import (
    ACKS_ALL,
    AfterAnswer,
    AlterPartitionAnswer,
    FollowerProgress,
    IsrState,
    LeaderAndIsrState,
    LeaderReplica,
    preferred_read_replica,
)
from oncelog.replication.partition_state import TRANSITIONS
from oncelog.wire import ErrorCode

LAG_MS = 30_000
NOW_MS = 1_000_000
ALL = {1, 2, 3}
TOLD = LeaderAndIsrState(1, 5, (1, 2, 3), 10, 4, (1, 2, 3))


def leader(isr: tuple[int, ...] = (1, 2, 3), end: int = 100) -> LeaderReplica:
    on = LeaderReplica(1, LAG_MS)
    on.lead(TOLD._replace(isr=isr), end, NOW_MS)
    return on


def fetched(on: LeaderReplica, replica: int, offset: int, *, end: int = 100, now_ms: int = NOW_MS) -> ErrorCode:
    return on.fetched(replica, offset, 0, leader_end_offset=end, now_ms=now_ms, broker_epoch=-1)


def high_watermark(
    on: LeaderReplica, end: int, *, min_isr: int = 1, now_ms: int = NOW_MS, durable: int | None = None
) -> int | None:
    return on.high_watermark(end, end if durable is None else durable, min_isr=min_isr, alive=ALL, now_ms=now_ms)


def test_high_watermark_is_the_smallest_end_of_the_in_sync_set() -> None:
    on = leader()
    assert high_watermark(on, 100) is None
    fetched(on, 2, 90)
    fetched(on, 3, 80)
    assert high_watermark(on, 100) == 80
    fetched(on, 3, 100)
    assert high_watermark(on, 100) == 90
    assert high_watermark(on, 100, durable=70) == 70


def test_high_watermark_waits_for_a_replica_that_is_about_to_join() -> None:
    """Partition.maybeIncrementLeaderHW: replicas that "are considered caught-up and are allowed to join the ISR" count."""
    on = leader(isr=(1, 2))
    fetched(on, 2, 100)
    fetched(on, 3, 60)
    assert high_watermark(on, 100) == 100
    fetched(on, 3, 100)
    fetched(on, 2, 120, end=120)
    assert high_watermark(on, 120) == 100
    assert high_watermark(on, 120, now_ms=NOW_MS + LAG_MS + 1) == 120
    assert on.high_watermark(120, 120, min_isr=1, alive={1, 2}, now_ms=NOW_MS) == 120


def test_high_watermark_stays_while_the_in_sync_set_is_smaller_than_min_insync_replicas() -> None:
    """Partition.maybeIncrementLeaderHW in 3.9: "The HW can only advance if the ISR size is equal or large than the min ISR"."""
    on = leader(isr=(1,))
    assert high_watermark(on, 100, min_isr=2) is None
    assert high_watermark(on, 100, min_isr=1) == 100


def test_min_insync_replicas_is_at_most_the_number_of_replicas() -> None:
    on = LeaderReplica(1, LAG_MS)
    on.lead(TOLD._replace(isr=(1,), replicas=(1,)), 0, NOW_MS)
    assert high_watermark(on, 7, min_isr=2) == 7
    assert on.append_problem(ACKS_ALL, 2) is ErrorCode.none


def test_replica_that_is_added_counts_before_the_controller_has_answered() -> None:
    """KIP-497: the effective in-sync set includes what was asked for, and on a shrink the old one."""
    on = leader(isr=(1, 2))
    fetched(on, 2, 100)
    fetched(on, 3, 100)
    asked = on.expansion(3, 90, ALL)
    assert asked is not None
    assert asked.new_isr == (1, 2, 3)
    on.propose(asked)
    assert on.state.state is IsrState.PENDING_EXPAND
    fetched(on, 2, 150, end=150)
    # It has died meanwhile, and is late: it would be waited for by no other rule.
    late_ms = NOW_MS + 2 * LAG_MS
    assert on.high_watermark(150, 150, min_isr=1, alive={1, 2}, now_ms=late_ms) == 100
    on.answered(asked, AlterPartitionAnswer(ErrorCode.ineligible_replica))
    assert on.high_watermark(150, 150, min_isr=1, alive={1, 2}, now_ms=late_ms) == 150


def test_replica_that_is_removed_counts_until_the_controller_has_answered() -> None:
    on = leader()
    fetched(on, 2, 100)
    fetched(on, 3, 50)
    fetched(on, 2, 120, end=120, now_ms=NOW_MS + LAG_MS)
    asked = on.shrinking(120, NOW_MS + LAG_MS + 1)
    assert asked is not None
    assert asked.new_isr == (1, 2)
    on.propose(asked)
    assert on.state.state is IsrState.PENDING_SHRINK
    late_ms = NOW_MS + LAG_MS + 1
    assert high_watermark(on, 120, now_ms=late_ms) == 50
    answer = AlterPartitionAnswer(ErrorCode.none, 5, 11, (1, 2))
    assert on.answered(asked, answer) is AfterAnswer.COMMITTED
    assert (on.partition_epoch, on.state.isr) == (11, {1, 2})
    assert high_watermark(on, 120, now_ms=late_ms) == 120


def test_follower_joins_only_with_all_that_was_there_when_the_epoch_began() -> None:
    """Partition.isFollowerInSync: at the high watermark, and at the start of the leader epoch."""
    on = leader(isr=(1, 2), end=100)
    fetched(on, 3, 99)
    assert on.expansion(3, 50, ALL) is None
    fetched(on, 3, 100)
    assert on.expansion(3, 101, ALL) is None
    assert on.expansion(3, 100, {1, 2}) is None
    assert on.expansion(3, 100, ALL) is not None
    assert on.expansion(2, 0, ALL) is None
    assert on.expansion(9, 0, ALL) is None


def test_one_request_is_under_way_at_a_time() -> None:
    on = leader(isr=(1, 2))
    fetched(on, 3, 100)
    asked = on.expansion(3, 90, ALL)
    assert asked is not None
    on.propose(asked)
    assert on.expansion(3, 90, ALL) is None
    assert on.shrinking(200, NOW_MS + 2 * LAG_MS) is None
    with pytest.raises(AssertionError):
        on.propose(asked)


@pytest.mark.parametrize(
    ("error", "after", "state"),
    [
        (ErrorCode.ineligible_replica, AfterAnswer.RESET, IsrState.COMMITTED),
        (ErrorCode.operation_not_attempted, AfterAnswer.RESET, IsrState.COMMITTED),
        (ErrorCode.fenced_leader_epoch, AfterAnswer.WAITS, IsrState.PENDING_EXPAND),
        (ErrorCode.invalid_update_version, AfterAnswer.WAITS, IsrState.PENDING_EXPAND),
        (ErrorCode.invalid_request, AfterAnswer.WAITS, IsrState.PENDING_EXPAND),
        (ErrorCode.unknown_topic_or_partition, AfterAnswer.WAITS, IsrState.PENDING_EXPAND),
        (ErrorCode.unknown_topic_id, AfterAnswer.WAITS, IsrState.PENDING_EXPAND),
        (ErrorCode.new_leader_elected, AfterAnswer.WAITS, IsrState.PENDING_EXPAND),
        (ErrorCode.not_controller, AfterAnswer.RETRY, IsrState.PENDING_EXPAND),
        (ErrorCode.stale_broker_epoch, AfterAnswer.RETRY, IsrState.PENDING_EXPAND),
        (ErrorCode.request_timed_out, AfterAnswer.RETRY, IsrState.PENDING_EXPAND),
    ],
)
def test_answers_of_the_controller(error: ErrorCode, after: AfterAnswer, state: IsrState) -> None:
    """Partition.handleAlterPartitionError."""
    on = leader(isr=(1, 2))
    fetched(on, 3, 100)
    asked = on.expansion(3, 90, ALL)
    assert asked is not None
    on.propose(asked)
    assert on.answered(asked, AlterPartitionAnswer(error)) is after
    assert on.state.state is state
    assert on.state.isr == {1, 2}


def test_answer_for_a_state_that_is_gone_is_stale() -> None:
    on = leader(isr=(1, 2))
    fetched(on, 3, 100)
    asked = on.expansion(3, 90, ALL)
    assert asked is not None
    on.propose(asked)
    on.lead(TOLD._replace(leader_epoch=6, partition_epoch=12, isr=(1,)), 100, NOW_MS)
    assert on.answered(asked, AlterPartitionAnswer(ErrorCode.none, 5, 11, (1, 2, 3))) is AfterAnswer.STALE
    assert on.state.isr == {1}


def test_success_of_another_epoch_is_not_believed() -> None:
    """Partition.handleAlterPartitionUpdate."""
    on = leader(isr=(1, 2))
    fetched(on, 3, 100)
    asked = on.expansion(3, 90, ALL)
    assert asked is not None
    on.propose(asked)
    assert on.answered(asked, AlterPartitionAnswer(ErrorCode.none, 6, 11, (1, 2, 3))) is AfterAnswer.WAITS
    assert on.answered(asked, AlterPartitionAnswer(ErrorCode.none, 5, 9, (1, 2, 3))) is AfterAnswer.WAITS
    # The same partition epoch: nothing had to be changed.
    assert on.answered(asked, AlterPartitionAnswer(ErrorCode.none, 5, 10, (1, 2, 3))) is AfterAnswer.COMMITTED


def test_every_state_can_be_left_and_reached() -> None:
    assert {before for before, _ in TRANSITIONS} == {after for _, after in TRANSITIONS} == set(IsrState)


def test_append_with_acks_all_needs_the_in_sync_set_before_and_after() -> None:
    on = leader(isr=(1, 2))
    assert on.append_problem(ACKS_ALL, 3) is ErrorCode.not_enough_replicas
    assert on.append_problem(1, 3) is ErrorCode.none
    assert on.append_problem(ACKS_ALL, 2) is ErrorCode.none
    assert on.acknowledgement(101, 100, 2) is None
    assert on.acknowledgement(101, 101, 2) is ErrorCode.none
    assert on.acknowledgement(101, 101, 3) is ErrorCode.not_enough_replicas_after_append
    on.follow(TOLD._replace(leader=2, leader_epoch=6))
    assert on.acknowledgement(101, 100, 2) is ErrorCode.not_leader_or_follower


def test_low_watermark_is_the_smallest_log_start_of_the_living() -> None:
    """Partition.lowWatermarkIfLeader."""
    on = leader()
    on.fetched(2, 100, 30, leader_end_offset=100, now_ms=NOW_MS, broker_epoch=-1)
    assert on.low_watermark(50, ALL) == -1
    assert on.low_watermark(50, {1, 2}) == 30
    on.fetched(3, 100, 60, leader_end_offset=100, now_ms=NOW_MS, broker_epoch=-1)
    assert on.low_watermark(50, ALL) == 30


def test_broker_without_a_replica_is_told_to_wait_for_news() -> None:
    """Partition.followerReplicaOrThrow: the reassignment may not have come to this leader yet."""
    assert fetched(leader(), 9, 0) is ErrorCode.unknown_leader_epoch


def test_follower_that_is_always_a_little_behind_stays_in_sync() -> None:
    """Replica.updateFetchState: at the end as it was at the fetch before, it had caught up then."""
    progress = FollowerProgress().fetched(100, 0, 100, 1000, -1)
    assert progress.last_caught_up_ms == 1000
    progress = progress.fetched(150, 0, 200, 2000, -1)
    assert progress.last_caught_up_ms == 1000
    progress = progress.fetched(200, 0, 300, 3000, -1)
    assert progress.last_caught_up_ms == 2000
    progress = progress.fetched(250, 0, 400, 4000, -1)
    assert progress.last_caught_up_ms == 2000


def test_follower_of_an_idle_partition_is_not_late() -> None:
    on = leader()
    fetched(on, 2, 100)
    fetched(on, 3, 99)
    asked = on.shrinking(100, NOW_MS + 10 * LAG_MS)
    assert asked is not None
    assert asked.new_isr == (1, 2)
    assert on.shrinking(100, NOW_MS + LAG_MS) is None


def test_new_leader_gives_the_in_sync_set_the_whole_time_and_knows_no_offset() -> None:
    on = LeaderReplica(1, LAG_MS)
    on.lead(TOLD._replace(isr=(1, 2)), 100, NOW_MS)
    assert on.followers[2] == FollowerProgress(last_caught_up_ms=NOW_MS)
    assert on.followers[3] == FollowerProgress()


def test_leader_that_is_elected_again_keeps_offsets_and_forgets_who_is_gone() -> None:
    on = leader(isr=(1, 2))
    fetched(on, 2, 90)
    fetched(on, 3, 80)
    later = NOW_MS + 5000
    told = TOLD._replace(leader_epoch=6, partition_epoch=11, isr=(1, 2), replicas=(1, 2, 4))
    on.lead(told, 120, later)
    assert set(on.followers) == {2, 4}
    assert on.followers[2] == FollowerProgress(90, 0, 120, later, later, -1)
    assert on.epoch_start_offset == 120


def test_leader_that_has_missed_an_epoch_knows_no_offset_of_its_followers() -> None:
    """Another may have led meanwhile, and a follower may have been cut off for it: what it had before counts for nothing."""
    on = leader(isr=(1, 2))
    fetched(on, 2, 100)
    on.lead(TOLD._replace(leader_epoch=TOLD.leader_epoch + 2, partition_epoch=12, isr=(1, 2)), 100, NOW_MS)
    assert on.followers[2] == FollowerProgress(last_caught_up_ms=NOW_MS)
    assert on.followers[3] == FollowerProgress()


RACKS = {1: "a", 2: "b", 3: "b", 4: "b"}


def leader_of_three() -> LeaderReplica:
    on = LeaderReplica(1, 30_000)
    on.lead(LeaderAndIsrState(1, 0, (1, 2, 3), 0, 1, (1, 2, 3, 4)), 0, 0)
    for replica, offset in ((2, 90), (3, 100), (4, 200)):
        on.fetched(replica, offset, 10, leader_end_offset=200, now_ms=1000, broker_epoch=-1)
    return on


def test_consumer_is_sent_to_the_replica_in_its_rack_that_is_furthest_ahead() -> None:
    """KIP-392's RackAwareReplicaSelector; broker 4 is not in sync."""
    assert preferred_read_replica(leader_of_three(), RACKS, "b", 50) == 3


def test_consumer_in_the_leaders_rack_or_in_none_stays() -> None:
    assert preferred_read_replica(leader_of_three(), RACKS, "a", 50) is None
    assert preferred_read_replica(leader_of_three(), RACKS, "", 50) is None
    assert preferred_read_replica(leader_of_three(), RACKS, "c", 50) is None


def test_only_a_replica_that_has_the_offset_is_chosen() -> None:
    assert preferred_read_replica(leader_of_three(), RACKS, "b", 5) is None
    assert preferred_read_replica(leader_of_three(), RACKS, "b", 101) is None
    assert preferred_read_replica(leader_of_three(), {1: "a", 2: "b"}, "b", 90) == 2
