"""What a follower does about each answer."""

from __future__ import annotations

import pytest

from harness.replica_on_memory_disk import ReplicaOnMemoryDisk
from harness.replicas import KEY, TOPIC_ID, Replicas
from oncelog.log import Followed, PartitionLog
from oncelog.records import Record, build_batch
from oncelog.replication import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    AskOffsets,
    BeginAgain,
    EpochEnd,
    FetchedFromLeader,
    FetchReplicaState,
    Follower,
    FollowerFetch,
    Truncate,
)
from oncelog.replication.fetch_state import TRANSITIONS
from oncelog.replication.follower import HELD_BACK_MS, NEWS, NEWS_MS
from oncelog.wire import ErrorCode

NOW_MS, BACKOFF_MS = 50_000, 1000


def following(count: int = 4, *, high_watermark: int = 0) -> tuple[Follower, ReplicaOnMemoryDisk]:
    """A log with records of epoch 2, whose leader leads in epoch 3 and was asked."""
    on = ReplicaOnMemoryDisk()
    on.log.lead(2)
    for _ in range(count):
        on.produce(b"x")
    on.log.advance_high_watermark(high_watermark)
    on.log.follow()
    follower = Follower(1000, BACKOFF_MS)
    follower.add(KEY, TOPIC_ID, 3, on.log)
    follower.build_fetch(lambda _: on.log, NOW_MS)
    return follower, on


def batch(offset: int, count: int = 1) -> bytes:
    return build_batch([Record(None, b"y")] * count, base_offset=offset, leader_epoch=3)


def test_log_with_epochs_fetches_from_its_end_and_one_without_begins_at_its_high_watermark() -> None:
    """ReplicaManager.initialFetchOffset, with truncation on fetch (KIP-595)."""
    follower, _ = following()
    state = follower.states[KEY]
    assert (state.state, state.fetch_offset, state.last_fetched_epoch) == (FetchReplicaState.FETCHING, 4, 2)
    empty = ReplicaOnMemoryDisk()
    other = Follower(1000, BACKOFF_MS)
    other.add(KEY, TOPIC_ID, 3, empty.log)
    assert other.states[KEY].state is FetchReplicaState.TRUNCATING
    assert other.build_fetch(lambda _: empty.log, NOW_MS) is None
    step = other.cut_without_epochs(lambda _: empty.log, NOW_MS)[KEY]
    assert step == Truncate(0, is_complete=True, is_below_high_watermark=False)
    other.truncated(KEY, step, empty.log)
    assert other.states[KEY].state is FetchReplicaState.FETCHING


def test_older_leader_is_asked_where_the_epoch_ends_until_both_know_it() -> None:
    """KIP-279, by OffsetForLeaderEpoch: nothing is fetched before."""
    on = ReplicaOnMemoryDisk()
    for epoch, count in ((1, 10), (3, 5)):
        on.log.lead(epoch)
        for _ in range(count):
            on.produce(b"x")
    on.log.follow()
    follower = Follower(1000, BACKOFF_MS, truncates_on_fetch=False)
    follower.add(KEY, TOPIC_ID, 7, on.log)
    answers = {3: EpochEnd(2, 20), 1: EpochEnd(1, 8)}
    cut = []
    while follower.states[KEY].state is FetchReplicaState.TRUNCATING:
        assert follower.build_fetch(lambda _: on.log, NOW_MS) is None
        (asked,) = follower.epochs_to_ask(lambda _: on.log, NOW_MS).values()
        assert asked.current_leader_epoch == 7
        told = answers[asked.leader_epoch]
        step = follower.epoch_answered(KEY, asked, ErrorCode.none, told, on.log, NOW_MS)
        assert isinstance(step, Truncate)
        cut.append(step)
        on.truncate_to(step.offset)
        follower.truncated(KEY, step, on.log)
    assert [(step.offset, step.is_complete) for step in cut] == [(10, False), (8, True)]
    request = follower.build_fetch(lambda _: on.log, NOW_MS)
    assert request is not None
    # A leader that does not take Fetch v12 is not told the epoch.
    assert (request.partitions[KEY].fetch_offset, request.partitions[KEY].last_fetched_epoch) == (8, -1)


def test_older_leader_that_has_no_answer_yet_is_asked_later() -> None:
    _, on = following()
    follower = Follower(1000, BACKOFF_MS, truncates_on_fetch=False)
    follower.add(KEY, TOPIC_ID, 3, on.log)
    (asked,) = follower.epochs_to_ask(lambda _: on.log, NOW_MS).values()
    nothing = EpochEnd(-1, -1)
    assert follower.epoch_answered(KEY, asked, ErrorCode.unknown_leader_epoch, nothing, on.log, NOW_MS) is None
    assert not follower.epochs_to_ask(lambda _: on.log, NOW_MS)
    assert follower.epochs_to_ask(lambda _: on.log, NOW_MS + NEWS_MS)
    assert follower.epoch_answered(KEY, asked, ErrorCode.fenced_leader_epoch, nothing, on.log, NOW_MS) is None
    assert follower.states[KEY].state is FetchReplicaState.FAILED


def test_answer_is_appended_and_the_high_watermark_follows_as_far_as_the_log_goes() -> None:
    """A follower's high watermark is the smaller of its leader's and its own log end offset."""
    follower, on = following()
    answer = FetchedFromLeader(ErrorCode.none, 100, 2, batch(4, 3))
    (step,) = follower.fetch_answered(KEY, answer, on.log, NOW_MS)
    assert step == Append(answer.records)
    assert isinstance(on.log.append_as_follower(answer.records), Followed)
    assert follower.appended(KEY, answer, ErrorCode.none, on.log, NOW_MS) == (
        AdvanceHighWatermark(7),
        AdvanceLogStart(2),
    )
    state = follower.states[KEY]
    assert (state.fetch_offset, state.last_fetched_epoch, state.lag) == (7, 3, 93)


def test_high_watermark_does_not_follow_a_leader_that_does_not_know_it_yet() -> None:
    follower, on = following(high_watermark=3)
    answer = FetchedFromLeader(ErrorCode.none, 1, 0, b"")
    follower.fetch_answered(KEY, answer, on.log, NOW_MS)
    assert follower.appended(KEY, answer, ErrorCode.none, on.log, NOW_MS) == ()


def test_diverging_epoch_cuts_the_log_off() -> None:
    follower, on = following(high_watermark=3)
    answer = FetchedFromLeader(ErrorCode.none, 9, 0, diverging=EpochEnd(2, 2))
    (step,) = follower.fetch_answered(KEY, answer, on.log, NOW_MS)
    assert step == Truncate(2, is_complete=True, is_below_high_watermark=True)
    on.truncate_to(2)
    follower.truncated(KEY, step, on.log)
    assert follower.states[KEY].fetch_offset == 2


def asked_again_after_ms(follower: Follower, log: PartitionLog, now_ms: int) -> int:
    """How long the session leaves the partition out."""
    wait_ms = follower.until_next_ms(now_ms, 10 * BACKOFF_MS)
    request = follower.build_fetch(lambda _: log, now_ms + wait_ms - 1)
    assert request is None or not request.partitions
    if request is not None:
        follower.session.answered(request, ErrorCode.none, 77)
    request = follower.build_fetch(lambda _: log, now_ms + wait_ms)
    assert request is not None
    assert set(request.partitions) == {KEY}
    follower.session.answered(request, ErrorCode.none, 77)
    return wait_ms


@pytest.mark.parametrize("error", [ErrorCode.inconsistent_topic_id, ErrorCode.kafka_storage_error])
def test_errors_that_may_pass_are_asked_again_after_a_while(error: ErrorCode) -> None:
    follower, on = following()
    assert follower.fetch_answered(KEY, FetchedFromLeader(error), on.log, NOW_MS) == ()
    assert asked_again_after_ms(follower, on.log, NOW_MS) == BACKOFF_MS
    assert follower.until_next_ms(NOW_MS + BACKOFF_MS, 10 * BACKOFF_MS) == 10 * BACKOFF_MS


@pytest.mark.parametrize("error", NEWS)
def test_leader_that_has_not_heard_of_it_yet_is_asked_again_soon_and_then_ever_later(error: ErrorCode) -> None:
    follower, on = following()
    now_ms, waits_ms = NOW_MS, []
    for _ in range(8):
        assert follower.fetch_answered(KEY, FetchedFromLeader(error), on.log, now_ms) == ()
        waits_ms.append(asked_again_after_ms(follower, on.log, now_ms))
        now_ms += waits_ms[-1]
    assert waits_ms == [20, 40, 80, 160, 320, 640, BACKOFF_MS, BACKOFF_MS]
    answer = FetchedFromLeader(ErrorCode.none, 0, 0, b"")
    follower.fetch_answered(KEY, answer, on.log, now_ms)
    follower.appended(KEY, answer, ErrorCode.none, on.log, now_ms)
    follower.fetch_answered(KEY, FetchedFromLeader(error), on.log, now_ms)
    assert asked_again_after_ms(follower, on.log, now_ms) == NEWS_MS


def test_fenced_follower_waits_for_the_next_leader_epoch() -> None:
    """AbstractFetcherThread.onPartitionFenced: LeaderAndIsr of the newer epoch is on its way."""
    follower, on = following()
    follower.fetch_answered(KEY, FetchedFromLeader(ErrorCode.fenced_leader_epoch), on.log, NOW_MS)
    assert follower.states[KEY].state is FetchReplicaState.FAILED
    assert follower.build_fetch(lambda _: on.log, NOW_MS + 10 * BACKOFF_MS) is None
    follower.add(KEY, TOPIC_ID, 4, on.log)
    assert follower.states[KEY].state is FetchReplicaState.FETCHING


def test_answer_to_what_is_not_asked_any_more_is_dropped() -> None:
    follower, on = following()
    follower.add(KEY, TOPIC_ID, 4, on.log)
    assert follower.fetch_answered(KEY, FetchedFromLeader(ErrorCode.none, 9, 0, batch(4)), on.log, NOW_MS) == ()
    follower.remove([KEY])
    assert follower.fetch_answered(KEY, FetchedFromLeader(ErrorCode.none, 9, 0, batch(4)), on.log, NOW_MS) == ()


def test_answer_that_is_dropped_is_given_again_in_another_session() -> None:
    """KIP-227: a leader says of a partition only what is new, and takes a high watermark for known that it has told."""
    follower, on = following()
    follower.session.answered(FollowerFetch(0, 0, follower.session.partitions, ()), ErrorCode.none, 77)
    follower.add(KEY, TOPIC_ID, 4, on.log)
    assert follower.fetch_answered(KEY, FetchedFromLeader(ErrorCode.none, 4, 0), on.log, NOW_MS) == ()
    request = follower.build_fetch(lambda _: on.log, NOW_MS)
    assert request is not None
    assert (request.session_id, request.is_full, set(request.partitions)) == (77, True, {KEY})


def test_high_watermark_beside_a_diverging_epoch_is_told_again_in_another_session() -> None:
    follower, on = following()
    follower.session.answered(FollowerFetch(0, 0, follower.session.partitions, ()), ErrorCode.none, 77)
    answer = FetchedFromLeader(ErrorCode.none, 2, 0, diverging=EpochEnd(2, 2))
    (cut,) = follower.fetch_answered(KEY, answer, on.log, NOW_MS)
    assert isinstance(cut, Truncate)
    on.truncate_to(cut.offset)
    follower.truncated(KEY, cut, on.log)
    request = follower.build_fetch(lambda _: on.log, NOW_MS)
    assert request is not None
    assert (request.is_full, request.partitions[KEY].fetch_offset) == (True, 2)


def test_log_that_was_cut_off_for_another_leader_meanwhile_is_asked_for_from_where_it_ends() -> None:
    follower, on = following()
    answer = FetchedFromLeader(ErrorCode.none, 9, 0, batch(4))
    on.truncate_to(2)
    assert follower.fetch_answered(KEY, answer, on.log, NOW_MS) == ()
    request = follower.build_fetch(lambda _: on.log, NOW_MS)
    assert request is not None
    assert request.partitions[KEY].fetch_offset == 2


def test_fetch_looks_at_what_has_happened_and_twice_a_second_at_all() -> None:
    """The log start offset of a replica may move by itself, and the leader has to hear of it."""
    follower, on = following()
    others = [("other", index) for index in range(100)]
    for key in others:
        follower.add(key, TOPIC_ID, 3, on.log)
    looked_at: list[tuple[str, int]] = []

    def look(key: tuple[str, int]) -> PartitionLog:
        looked_at.append(key)
        return on.log

    first = follower.build_fetch(look, NOW_MS)
    assert first is not None
    follower.session.answered(first, ErrorCode.none, 77)
    looked_at.clear()
    follower.delay([KEY], NOW_MS)
    request = follower.build_fetch(look, NOW_MS + 1)
    assert request == (77, 1, {}, ((KEY, TOPIC_ID),))
    assert set(looked_at) <= {KEY}
    follower.session.answered(request, ErrorCode.none, 77)
    on.log.advance_high_watermark(4)
    on.log.advance_log_start(1)
    on.log.start_is_durable(1)
    request = follower.build_fetch(look, NOW_MS + 499)
    assert request is not None
    assert not request.partitions
    follower.session.answered(request, ErrorCode.none, 77)
    request = follower.build_fetch(look, NOW_MS + 500)
    assert request is not None
    assert {key: one.log_start_offset for key, one in request.partitions.items()} == dict.fromkeys(others, 1)
    follower.session.answered(request, ErrorCode.none, 77)
    request = follower.build_fetch(look, NOW_MS + BACKOFF_MS)
    assert request is not None
    assert set(request.partitions) == {KEY}


def test_end_that_is_held_back_is_named_in_no_fetch_and_the_others_are() -> None:
    """A leader counts the end that a Fetch names. In its session the partition would be fetched again from where it was."""
    follower, on = following()
    other, third = ("other", 0), ("other", 1)
    follower.add(other, TOPIC_ID, 3, on.log)
    first = follower.build_fetch(lambda _: on.log, NOW_MS)
    assert first is not None
    follower.session.answered(first, ErrorCode.none, 77)
    assert follower.build_fetch(lambda _: on.log, NOW_MS, lambda _: True) == (77, 1, {}, ())
    follower.add(other, TOPIC_ID, 4, on.log)
    follower.add(third, TOPIC_ID, 4, on.log)
    held = {other}
    request = follower.build_fetch(lambda _: on.log, NOW_MS, held.__contains__)
    assert request is not None
    assert (set(request.partitions), request.forgotten) == ({third}, ((other, TOPIC_ID),))
    assert other in follower.to_look_at
    assert follower.until_next_ms(NOW_MS, 10 * BACKOFF_MS) == HELD_BACK_MS
    # Nor is it in a session that begins.
    follower.session.lost()
    request = follower.build_fetch(lambda _: on.log, NOW_MS, held.__contains__)
    assert request is not None
    assert set(request.partitions) == {KEY, third}
    follower.session.answered(request, ErrorCode.none, 78)
    held.clear()
    request = follower.build_fetch(lambda _: on.log, NOW_MS, held.__contains__)
    assert request is not None
    assert (set(request.partitions), request.forgotten) == ({other}, ())
    assert follower.until_next_ms(NOW_MS, 10 * BACKOFF_MS) == 10 * BACKOFF_MS


def test_nothing_is_fetched_while_all_are_held_back() -> None:
    follower, on = following()
    follower.add(KEY, TOPIC_ID, 4, on.log)
    assert follower.build_fetch(lambda _: on.log, NOW_MS, lambda _: True) is None
    follower.remove([KEY])
    assert follower.until_next_ms(NOW_MS, 10 * BACKOFF_MS) == 10 * BACKOFF_MS


def test_step_that_ends_after_its_partition_has_failed_or_gone_changes_nothing() -> None:
    follower, on = following()
    follower.fail(KEY)
    follower.fail(KEY)
    follower.truncated(KEY, BeginAgain(7), on.log)
    assert follower.appended(KEY, FetchedFromLeader(ErrorCode.none, 9, 0), ErrorCode.none, on.log, NOW_MS) == ()
    assert follower.offsets_answered(KEY, 3, ErrorCode.none, 2, 0, on.log, NOW_MS) is None
    assert follower.states[KEY].state is FetchReplicaState.FAILED
    follower.remove([KEY])
    follower.fail(KEY)
    follower.truncated(KEY, BeginAgain(7), on.log)
    assert not follower.states


def test_corrupt_answer_is_fetched_again_and_one_that_does_not_fit_ends_it() -> None:
    """AbstractFetcherThread.processFetchRequest: CorruptRecordException is retried, everything else marks it as failed."""
    for error, state in (
        (ErrorCode.corrupt_message, FetchReplicaState.FETCHING),
        (ErrorCode.unknown_server_error, FetchReplicaState.FAILED),
    ):
        follower, on = following()
        answer = FetchedFromLeader(ErrorCode.none, 9, 0, batch(4))
        follower.fetch_answered(KEY, answer, on.log, NOW_MS)
        assert follower.appended(KEY, answer, error, on.log, NOW_MS) == ()
        assert follower.states[KEY].state is state
        assert not follower.states[KEY].is_ready_to_fetch(NOW_MS)


def test_out_of_range_goes_back_to_the_leaders_end_or_begins_at_its_start() -> None:
    """AbstractFetcherThread.fetchOffsetAndTruncate: unclean election, or a follower that was away while records were deleted."""
    follower, on = following()
    out_of_range = FetchedFromLeader(ErrorCode.offset_out_of_range)
    assert follower.fetch_answered(KEY, out_of_range, on.log, NOW_MS) == (AskOffsets(3),)

    def found(end: int, start: int) -> object:
        return follower.offsets_answered(KEY, 3, ErrorCode.none, end, start, on.log, NOW_MS)

    assert found(2, 0) == Truncate(2, is_complete=True, is_below_high_watermark=False)
    assert found(500, 300) == BeginAgain(300)
    assert found(500, 3) is None
    assert follower.states[KEY].fetch_offset == 4
    assert follower.offsets_answered(KEY, 2, ErrorCode.none, 2, 0, on.log, NOW_MS) is None


def test_empty_log_that_begins_inside_a_batch_begins_where_the_batch_does() -> None:
    """Kafka's Partition.appendRecordsToFollowerOrFutureReplica: records were deleted up to the middle of a batch."""
    on = Replicas()
    leader = on.replica(1)
    on.produce(1, b"a")
    values = [b"b"] * 5
    leader.produce(*values)
    for broker in (2, 3):
        on.fetch(broker)
        on.fetch(broker)
        on.fetch(broker)
    leader.log.advance_log_start(3)
    on.stop(3, power=True)
    on.replica(3).open()
    on.replica(3).begin_again_at(3)
    on.replica(3).disk.kill()
    on.settle()
    third = on.replica(3)
    assert third.log.log_end_offset == 6
    assert third.log.log_start_offset == 3
    assert leader.read_all() == third.read_all()


def test_log_that_ends_inside_the_batch_that_an_unclean_leader_begins_with_begins_where_the_batch_does() -> None:
    """What it has of the batches before is deleted there, and nothing else is wrong with it."""
    on = Replicas()
    on.stop(3, power=False)
    on.tell(1)
    on.produce(1, b"a")
    on.stop(1, power=False)
    on.elect(3, (3,))
    on.start(3)
    on.tell(3)
    leader = on.replica(3)
    leader.produce(b"b", b"c")
    on.advance(3)
    leader.log.advance_log_start(1)
    on.settle()
    first = on.replica(1)
    assert set(on.told.isr) == {1, 2, 3}
    assert (first.log.log_start_offset, first.log.log_end_offset) == (1, 2)
    assert first.read_all() == leader.read_all()


@pytest.mark.parametrize("leader_start", [0, 2, 3])
@pytest.mark.parametrize("alone", [1, 4])
def test_log_whose_records_are_all_deleted_follows_a_leader_that_never_knew_their_epoch(
    alone: int, leader_start: int
) -> None:
    """Nothing is left that could be cut off: the leader's answer must not be the same again."""
    on = Replicas()
    for _ in range(alone):
        on.replica(1).produce(b"a")
    on.advance(1)
    on.elect(2, (2, 3))
    on.tell(2)
    on.replica(2).produce(b"b")
    on.replica(2).produce(b"b")
    on.replica(2).produce(b"b")
    on.tell(3)
    for _ in range(3):
        on.fetch(3)
    on.advance(2)
    for one in (2, 3):
        log = on.replica(one).log
        log.advance_high_watermark(3)
        log.advance_log_start(3)
        assert log.log_end_offset == 3
    on.elect(1, (1,))
    on.tell(1)
    leader = on.replica(1)
    for _ in range(4):
        leader.produce(b"c")
    on.advance(1)
    leader.log.advance_log_start(leader_start)
    on.settle()
    assert set(on.told.isr) == {1, 2, 3}
    for one in (2, 3):
        assert on.replica(one).log.log_end_offset == leader.log.log_end_offset
        assert leader.read_all().endswith(on.replica(one).read_all())


def test_every_state_can_be_reached() -> None:
    assert {after for _, after in TRANSITIONS} == set(FetchReplicaState)
