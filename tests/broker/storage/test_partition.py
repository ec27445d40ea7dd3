"""One partition: what this broker is to it, and what follows for those that ask."""

from __future__ import annotations

from functools import partial

import pytest

from harness.manual_clock import ManualClock
from harness.replica_on_memory_disk import HOME, INDEX, TOPIC, TOPIC_ID, ReplicaOnMemoryDisk
from oncelog.broker.slices import SLICE_MS, Slices
from oncelog.broker.storage.partition import WOKEN_AT_ONCE, Partition, ReplicaRole, UnopenedLog
from oncelog.coordination import Promise
from oncelog.environment import DiskError
from oncelog.log import Appended, LogDigest, LogPoints, Origin, Refused
from oncelog.records import ControlType, Record, build_batch, check_batch
from oncelog.wire import ErrorCode

PRODUCER = (4_000, 3)


def _raise(_: Partition, error: DiskError) -> None:
    raise error


class Hosted:
    def __init__(self, role: ReplicaRole = ReplicaRole.LEADER) -> None:
        self.replica = ReplicaOnMemoryDisk()
        self.partition = Partition(TOPIC, INDEX, 0, _raise, Slices(ManualClock()))
        (self.directory,) = self.replica.directories
        self.partition.host(self.replica.log, self.directory, role)
        if role is ReplicaRole.LEADER:
            self.replica.log.lead(0)

    def append(self, *, producer: tuple[int, int] | None = None) -> Appended | Refused:
        some = [Record(None, b"a", timestamp_ms=0)]
        if producer is None:
            batch = build_batch(some)
        else:
            batch = build_batch(
                some, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, transactional=True
            )
        return self.partition.append(batch, check_batch(batch), Origin.CLIENT, verified=True)

    def mark(self, producer: tuple[int, int] = PRODUCER) -> Appended | Refused:
        return self.partition.append_marker(ControlType.ABORT, *producer, 0, 1, 0)


def test_who_leads_appends_and_marks() -> None:
    hosted = Hosted()
    assert hosted.partition.problem is None
    assert isinstance(hosted.append(producer=PRODUCER), Appended)
    assert isinstance(hosted.mark(), Appended)
    assert hosted.replica.log.log_end_offset == 2


@pytest.mark.parametrize("role", [ReplicaRole.FOLLOWER, ReplicaRole.LEAVING])
def test_who_does_not_lead_appends_and_marks_nothing(role: ReplicaRole) -> None:
    """NOT_LEADER_OR_FOLLOWER, for produce: "the replica is not the leader"."""
    hosted = Hosted(role)
    for refused in (hosted.append(), hosted.mark()):
        assert isinstance(refused, Refused)
        assert refused.error is ErrorCode.not_leader_or_follower
    assert hosted.replica.log.log_end_offset == 0


def test_who_has_no_replica_is_not_offline_and_leads_nothing() -> None:
    partition = Partition(TOPIC, INDEX, 0, _raise, Slices(ManualClock()))
    assert partition.role is ReplicaRole.NONE
    assert not partition.is_offline
    assert partition.problem is ErrorCode.not_leader_or_follower


def test_a_replica_can_be_left_and_hosted_again() -> None:
    hosted = Hosted()
    hosted.partition.leave()
    assert hosted.partition.role is ReplicaRole.NONE
    assert hosted.partition.problem is ErrorCode.not_leader_or_follower
    hosted.partition.host(hosted.replica.log, hosted.directory, ReplicaRole.LEADER)
    assert isinstance(hosted.append(), Appended)


def test_a_log_that_could_not_be_opened_is_offline_until_it_is_left() -> None:
    partition = Partition(TOPIC, INDEX, 0, _raise, Slices(ManualClock()))
    (directory,) = ReplicaOnMemoryDisk().directories
    points = LogPoints(3, 1, 2, None)
    unopened = UnopenedLog(f"{HOME}/{TOPIC}-{INDEX}", TOPIC_ID, points, LogDigest(3), 3, 0, "it is damaged")
    partition.host(unopened, directory, ReplicaRole.LEADER)
    assert partition.is_offline
    assert partition.problem is ErrorCode.kafka_storage_error
    assert (partition.points(), partition.topic_id, partition.why_offline) == (points, TOPIC_ID, "it is damaged")
    partition.leave()
    assert not partition.is_offline
    assert partition.unopened is None


def test_whoever_follows_knows_the_high_watermark_from_its_leader_only() -> None:
    """What is durable here says nothing of what others have."""
    leader = Hosted()
    assert isinstance(leader.append(), Appended)
    follower = Hosted(ReplicaRole.FOLLOWER)
    follower.replica.follow(leader.replica)
    follower.replica.sync()
    assert (follower.replica.log.log_end_offset, follower.replica.log.high_watermark) == (1, 0)


@pytest.mark.parametrize(
    ("producer", "error"),
    [(PRODUCER, ErrorCode.invalid_txn_state), ((PRODUCER[0] + 1, 0), ErrorCode.none)],
)
def test_a_guard_is_broken_by_a_marker_of_its_producer(producer: tuple[int, int], error: ErrorCode) -> None:
    hosted = Hosted()
    guard = hosted.partition.guard(PRODUCER[0])
    assert isinstance(hosted.mark(producer), Appended)
    assert guard.error is error


def test_a_guard_is_broken_when_the_leader_resigns_and_not_before() -> None:
    hosted = Hosted()
    guard = hosted.partition.guard(PRODUCER[0])
    assert guard.error is ErrorCode.none
    hosted.partition.resign()
    assert guard.error is ErrorCode.not_leader_or_follower
    assert hosted.partition.role is ReplicaRole.FOLLOWER


def test_a_guard_that_has_ended_hears_of_nothing() -> None:
    hosted = Hosted()
    guard = hosted.partition.guard(PRODUCER[0])
    guard.end()
    assert isinstance(hosted.mark(), Appended)
    assert guard.error is ErrorCode.none


def test_who_watches_is_woken_until_it_watches_no_more() -> None:
    hosted, woken = Hosted(), []

    def wake() -> None:
        woken.append(hosted.replica.log.log_end_offset)

    hosted.partition.watch(wake)
    hosted.append()
    hosted.partition.unwatch(wake)
    hosted.append()
    assert woken == [1]


class Crowd:
    """Many that wait for a partition to move. Each takes a millisecond when it is woken."""

    def __init__(self, size: int) -> None:
        self.clock = ManualClock()
        self.partition = Partition(TOPIC, INDEX, 0, _raise, Slices(self.clock))
        self.woken = [0] * size
        self.members = [partial(self.wake, number) for number in range(size)]
        for member in self.members:
            self.partition.watch(member)

    def wake(self, number: int) -> None:
        self.woken[number] += 1
        self.clock._now_ms += 1


def test_few_that_wait_are_woken_in_the_call_that_moves_the_partition() -> None:
    few = Crowd(WOKEN_AT_ONCE)
    few.partition.wake()
    assert few.woken == [1] * WOKEN_AT_ONCE


def test_crowd_is_woken_in_slices_and_the_others_are_served_meanwhile() -> None:
    crowd = Crowd(500)
    crowd.partition.wake()
    while min(crowd.woken) == 0:
        before = sum(crowd.woken)
        crowd.clock.take_step()
        assert before < sum(crowd.woken) <= before + SLICE_MS
    assert crowd.woken == [1] * 500


def test_crowd_is_woken_once_more_however_often_the_partition_has_moved_meanwhile() -> None:
    """Else what each append costs grows with all that wait for more than there is."""
    crowd = Crowd(500)
    for _ in range(1000):
        crowd.partition.wake()
    for _ in range(1000):
        crowd.clock.take_step()
    assert set(crowd.woken) == {2}


def test_who_waits_no_more_is_not_woken() -> None:
    crowd = Crowd(500)
    crowd.partition.wake()
    crowd.partition.unwatch(crowd.members[-1])
    for _ in range(1000):
        crowd.clock.take_step()
    assert crowd.woken == [1] * 499 + [0]


def test_crowd_that_waits_for_replicas_is_answered_in_slices() -> None:
    """Each of them may have the next record to write at once: all together they kept the loop for seconds."""
    crowd, told = Crowd(0), []

    def hear(error: ErrorCode) -> None:
        told.append(error)
        crowd.clock._now_ms += 1

    waiting: list[Promise[ErrorCode]] = [Promise() for _ in range(500)]
    for one in waiting:
        one.then(hear)
    crowd.partition.answer([(one, ErrorCode.none) for one in waiting[:WOKEN_AT_ONCE]])
    assert len(told) == WOKEN_AT_ONCE
    crowd.partition.answer([(one, ErrorCode.none) for one in waiting[WOKEN_AT_ONCE:]])
    while len(told) < 500:
        before = len(told)
        crowd.clock.take_step()
        assert before < len(told) <= before + SLICE_MS
    assert set(told) == {ErrorCode.none}
