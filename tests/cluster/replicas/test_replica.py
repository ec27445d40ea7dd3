"""A leader's side of a partition: who waits for the high watermark, and what the controller is asked and answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import (
    ALTER_PARTITION,
    alter_answer,
    errors_of,
    fetch_request,
    fetched,
    known,
    led,
    produced,
    records,
    stopped,
)
from oncelog.broker.storage.leading import FollowerId
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.wire import ErrorCode

LEADER, FOLLOWER, LAST = 0, 1, 2
REPLICAS = (LEADER, FOLLOWER, LAST)
NONE = ErrorCode.none


class Led:
    """A broker that leads the partition. The test is the controller, and fetches as the followers."""

    def __init__(self, isr: tuple[int, ...] = REPLICAS, **settings: str) -> None:
        self.cluster = ClusterInMemory(LEADER, **settings)
        self.controller = PlayedController(self.cluster)
        self.controller.members += [PlayedBroker(self.cluster, one).member for one in (FOLLOWER, LAST)]
        self.controller.starts(LEADER)
        self.controller.update(LEADER, known(LEADER, 0, REPLICAS, isr))
        assert self.order(0, isr) == [NONE]

    def order(self, epoch: int, isr: tuple[int, ...] = REPLICAS, leader: int = LEADER) -> list[ErrorCode]:
        return errors_of(self.controller.order(LEADER, led(leader, epoch, REPLICAS, isr)))

    def fetch(self, replica_id: int, offset: int, epoch: int = 0) -> Any:
        request = fetch_request(replica_id, offset, leader_epoch=epoch, broker_epoch=7)
        return fetched(self.cluster.ask(LEADER, request))

    def all_fetch(self, offset: int, *followers: int, epoch: int = 0) -> None:
        for one in followers:
            assert self.fetch(one, offset, epoch).error_code is NONE

    @property
    def partition(self) -> Any:
        return self.cluster.partition(LEADER)

    @property
    def asked(self) -> list[Any]:
        """The changes of the in-sync set that the controller was asked for: the set and the partition epoch."""
        found = []
        for body in self.controller.asked(ALTER_PARTITION):
            ((one,),) = (topic.partitions for topic in body.topics)
            found.append((tuple(state.broker_id for state in one.new_isr_with_epochs), one.partition_epoch))
        return found

    @property
    def in_sync(self) -> tuple[int, ...]:
        return tuple(sorted(self.partition.leading.state.state.isr))


@pytest.fixture
def replicated() -> Led:
    return Led()


def test_a_producer_waits_until_every_replica_in_sync_has_its_records(replicated: Led) -> None:
    waiting = replicated.cluster.produce(LEADER, records(b"a", b"b"))
    replicated.cluster.rest(100)
    replicated.all_fetch(2, FOLLOWER)
    replicated.all_fetch(1, LAST)
    assert not waiting.is_resolved
    assert replicated.partition.log.high_watermark == 1

    replicated.all_fetch(2, LAST)
    assert produced(replicated.cluster.wait(waiting)) == (NONE, 0)


def test_acks_of_1_wait_for_nobody(replicated: Led) -> None:
    assert produced(replicated.cluster.wait(replicated.cluster.produce(LEADER, records(b"a"), acks=1))) == (NONE, 0)
    assert replicated.partition.log.high_watermark == 0


def test_only_those_are_released_whose_records_are_below_the_high_watermark(replicated: Led) -> None:
    released: list[int] = []
    for number in range(5):
        replicated.cluster.produce(LEADER, records(b"x")).then(lambda _, number=number: released.append(number))
        replicated.cluster.rest(50)
    replicated.all_fetch(3, FOLLOWER, LAST)
    replicated.cluster.rest(50)
    assert sorted(released) == [0, 1, 2]
    replicated.all_fetch(5, FOLLOWER, LAST)
    replicated.cluster.until(lambda: len(released) == 5)


@pytest.mark.parametrize("another", [FOLLOWER, -1])
def test_who_waits_is_told_when_another_broker_leads_or_none(replicated: Led, another: int) -> None:
    waiting = replicated.cluster.produce(LEADER, records(b"a"))
    replicated.cluster.rest(100)
    assert replicated.order(1, leader=another) == [NONE]
    assert produced(replicated.cluster.wait(waiting))[0] is ErrorCode.not_leader_or_follower


def test_who_waits_is_told_when_the_replica_is_stopped(replicated: Led) -> None:
    waiting = replicated.cluster.produce(LEADER, records(b"a"))
    replicated.cluster.rest(100)
    assert errors_of(replicated.controller.stop(LEADER, stopped(0, delete=True))) == [NONE]
    assert produced(replicated.cluster.wait(waiting))[0] is ErrorCode.not_leader_or_follower


def test_who_waits_goes_on_waiting_when_the_leader_leads_on_under_a_newer_epoch(replicated: Led) -> None:
    """Kafka's Partition.makeLeader: "isNewLeader" only where it has not led before; delayed produces stay."""
    waiting = replicated.cluster.produce(LEADER, records(b"a"))
    replicated.cluster.rest(100)
    assert replicated.order(1, (LEADER, FOLLOWER)) == [NONE]
    assert not waiting.is_resolved
    replicated.all_fetch(1, FOLLOWER, epoch=1)
    assert produced(replicated.cluster.wait(waiting)) == (NONE, 0)


def test_too_few_in_sync_refuse_what_wants_all_of_them() -> None:
    """NOT_ENOUGH_REPLICAS: "Messages are rejected since there are fewer in-sync replicas than required."""
    one = Led(isr=(LEADER,), min_insync_replicas="2")
    refused = one.cluster.wait(one.cluster.produce(LEADER, records(b"a")))
    assert produced(refused)[0] is ErrorCode.not_enough_replicas
    assert one.partition.log.log_end_offset == 0
    taken = one.cluster.wait(one.cluster.produce(LEADER, records(b"a"), acks=1))
    assert produced(taken) == (NONE, 0)
    assert one.partition.log.high_watermark == 0


def test_the_high_watermark_stays_while_too_few_are_in_sync() -> None:
    """KIP-966: the high watermark does not move while the in-sync set is smaller than min.insync.replicas."""
    one = Led(min_insync_replicas="2")
    waiting = one.cluster.produce(LEADER, records(b"a"), timeout_ms=1_000)
    one.cluster.rest(100)
    assert one.order(1, (LEADER,)) == [NONE]
    one.cluster.rest(500)
    assert one.partition.log.high_watermark == 0
    assert not waiting.is_resolved
    assert produced(one.cluster.wait(waiting))[0] is ErrorCode.request_timed_out


def test_a_follower_that_has_everything_is_asked_into_the_in_sync_set() -> None:
    one = Led(isr=(LEADER, FOLLOWER))
    one.controller.answers[ALTER_PARTITION] = alter_answer
    one.all_fetch(0, LAST)
    one.cluster.until(lambda: one.in_sync == REPLICAS)
    assert one.asked == [(REPLICAS, 0)]
    ((asked,),) = (topic.partitions for topic in one.controller.asked(ALTER_PARTITION)[0].topics)
    # Of FOLLOWER nothing was heard yet, and LEADER is who asks.
    assert {state.broker_id: state.broker_epoch for state in asked.new_isr_with_epochs} == {
        LEADER: -1,
        FOLLOWER: -1,
        LAST: 7,
    }


def test_a_replica_that_is_to_join_counts_for_the_high_watermark_at_once() -> None:
    """KIP-497: "the maximal ISR" of the leader has whoever is to join, whatever becomes of the request."""
    one = Led(isr=(LEADER, FOLLOWER))
    one.all_fetch(0, LAST)
    one.cluster.until(lambda: len(one.asked) == 1)
    waiting = one.cluster.produce(LEADER, records(b"a"))
    one.cluster.rest(50)
    one.all_fetch(1, FOLLOWER)
    one.cluster.rest(50)
    assert not waiting.is_resolved
    one.all_fetch(1, LAST)
    assert produced(one.cluster.wait(waiting)) == (NONE, 0)


def test_a_replica_that_is_late_for_too_long_is_asked_out_of_the_in_sync_set(replicated: Led) -> None:
    replicated.controller.answers[ALTER_PARTITION] = alter_answer
    waiting = replicated.cluster.produce(LEADER, records(b"a"))
    replicated.cluster.rest(50)
    for _ in range(8):
        replicated.all_fetch(1, FOLLOWER)
        replicated.cluster.rest(500)
    assert produced(replicated.cluster.wait(waiting)) == (NONE, 0)
    assert replicated.in_sync == (LEADER, FOLLOWER)
    assert replicated.asked == [((LEADER, FOLLOWER), 0)]


def test_every_change_of_the_in_sync_set_is_said_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    one = Led(isr=(LEADER, FOLLOWER))
    one.controller.answers[ALTER_PARTITION] = alter_answer
    with caplog.at_level("INFO", "oncelog.broker"):
        one.all_fetch(0, FOLLOWER, LAST)
        one.cluster.until(lambda: one.in_sync == REPLICAS)
        one.cluster.produce(LEADER, records(b"a"))
        one.cluster.until(lambda: one.in_sync == (LEADER,))
    said = [record.getMessage() for record in caplog.records if "in-sync set" in record.getMessage()]
    grown, shrunk = said
    assert grown == f"{one.partition}: asks for the in-sync set 0,1,2, now 0,1: broker 2 has caught up to offset 0"
    late = r"broker {} has not caught up for \d+ ms, and is at offset 0 of 1"
    assert re.fullmatch(
        rf".*: asks for the in-sync set 0, now 0,1,2: {late.format(FOLLOWER)}, {late.format(LAST)}", shrunk
    )
    in_sync = [record.getMessage() for record in caplog.records if ": in sync are " in record.getMessage()]
    assert in_sync == [f"{one.partition}: in sync are {set_}" for set_ in ("0,1,2", "0")]


def test_a_replica_is_late_in_time_although_the_time_of_day_goes_back(replicated: Led) -> None:
    """Whoever waits for acks=all would wait for as long as the clock was set back."""
    replicated.controller.answers[ALTER_PARTITION] = alter_answer
    replicated.all_fetch(0, FOLLOWER, LAST)
    replicated.cluster.produce(LEADER, records(b"a"))
    replicated.cluster.until(lambda: replicated.cluster.partition(LEADER).log.log_end_offset == 1)
    replicated.cluster.nodes[LEADER].jump_ms = -3_600_000
    for _ in range(8):
        replicated.all_fetch(1, FOLLOWER)
        replicated.cluster.rest(500)
    assert replicated.in_sync == (LEADER, FOLLOWER)


def test_a_replica_that_fetches_stays_in_sync_although_the_time_of_day_goes_on(replicated: Led) -> None:
    replicated.controller.answers[ALTER_PARTITION] = alter_answer
    waiting = replicated.cluster.produce(LEADER, records(b"a"))
    replicated.cluster.rest(50)
    replicated.all_fetch(0, FOLLOWER, LAST)
    replicated.cluster.nodes[LEADER].jump_ms = 3_600_000
    for _ in range(3):
        replicated.cluster.rest(500)
        replicated.all_fetch(0, FOLLOWER, LAST)
    assert replicated.asked == []
    replicated.all_fetch(1, FOLLOWER, LAST)
    assert produced(replicated.cluster.wait(waiting)) == (NONE, 0)


def test_a_replica_that_is_asked_out_counts_until_the_controller_has_said_yes(replicated: Led) -> None:
    waiting = replicated.cluster.produce(LEADER, records(b"a"))
    replicated.cluster.rest(100)
    for _ in range(8):
        replicated.all_fetch(1, FOLLOWER)
        replicated.cluster.rest(500)
    assert replicated.asked[0] == ((LEADER, FOLLOWER), 0)
    assert not waiting.is_resolved
    replicated.controller.answers[ALTER_PARTITION] = alter_answer
    assert produced(replicated.cluster.wait(waiting)) == (NONE, 0)


@pytest.mark.parametrize(
    "error", [ErrorCode.not_controller, ErrorCode.stale_broker_epoch, ErrorCode.unknown_server_error]
)
def test_what_may_pass_is_asked_again(error: ErrorCode) -> None:
    """Kafka's Partition.handleAlterPartitionError retries what is not final."""
    one = Led(isr=(LEADER, FOLLOWER))
    refusals = [ErrorCode.none, error]

    def answer(body: Any) -> Any:
        return alter_answer(body, refusals.pop() if refusals else NONE)

    one.controller.answers[ALTER_PARTITION] = answer
    one.all_fetch(0, LAST)
    one.cluster.until(lambda: one.in_sync == REPLICAS)
    assert one.asked == [(REPLICAS, 0)] * 2


def test_a_controller_that_is_none_any_more_is_asked_again() -> None:
    one = Led(isr=(LEADER, FOLLOWER))
    refusals = [ErrorCode.not_controller, ErrorCode.stale_broker_epoch]

    def answer(body: Any) -> Any:
        return alter_answer(body, topmost=refusals.pop()) if refusals else alter_answer(body)

    one.controller.answers[ALTER_PARTITION] = answer
    one.all_fetch(0, LAST)
    one.cluster.until(lambda: one.in_sync == REPLICAS)
    assert len(one.asked) == 3


@pytest.mark.parametrize("error", [ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted])
def test_what_was_not_applied_is_taken_back_and_tried_again_with_the_next_fetch(error: ErrorCode) -> None:
    one = Led(isr=(LEADER, FOLLOWER))
    one.controller.answers[ALTER_PARTITION] = lambda body: alter_answer(body, error)
    one.all_fetch(0, LAST)
    one.cluster.rest(1_000)
    assert len(one.asked) == 1
    assert not one.partition.leading.state.state.is_pending
    one.controller.answers[ALTER_PARTITION] = alter_answer
    one.all_fetch(0, LAST)
    one.cluster.until(lambda: one.in_sync == REPLICAS)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    ],
)
def test_who_is_behind_waits_for_the_next_order(error: ErrorCode) -> None:
    one = Led(isr=(LEADER, FOLLOWER))
    one.controller.answers[ALTER_PARTITION] = lambda body: alter_answer(body, error)
    one.all_fetch(0, LAST)
    one.cluster.rest(1_000)
    one.all_fetch(0, LAST)
    one.cluster.rest(1_000)
    assert len(one.asked) == 1
    assert one.partition.leading.state.state.is_pending
    assert one.order(1, REPLICAS) == [NONE]
    assert one.in_sync == REPLICAS


def test_a_controller_that_goes_away_is_asked_again_when_it_is_back() -> None:
    one = Led(isr=(LEADER, FOLLOWER))
    one.controller.process.is_alive = False
    one.all_fetch(0, LAST)
    one.cluster.rest(3_000)
    one.controller.process.is_alive = True
    one.controller.answers[ALTER_PARTITION] = alter_answer
    one.cluster.until(lambda: one.in_sync == REPLICAS)


def test_what_was_asked_before_a_session_ended_is_not_carried_out_for_who_leads_under_the_same_epoch_again() -> None:
    """The leader would go on without a replica that counts as in sync, and may be elected."""
    one = Led(isr=(LEADER, FOLLOWER))
    before = one.cluster.epoch(LEADER)
    one.all_fetch(0, LAST)
    one.cluster.until(lambda: len(one.asked) == 1)
    one.cluster.ensemble.expire(one.cluster.core(LEADER).metadata.zookeeper.session_id)
    one.cluster.until(lambda: one.cluster.epoch(LEADER) != before)
    one.cluster.rest(100)
    assert one.order(0, (LEADER, FOLLOWER)) == [NONE]
    one.controller.answers[ALTER_PARTITION] = alter_answer
    one.controller.answer_last(alter_answer(one.controller.heard[-1], topmost=ErrorCode.stale_broker_epoch))
    one.cluster.rest(500)
    # Nobody has fetched since.
    assert len(one.asked) == 1
    one.all_fetch(0, LAST)
    one.cluster.until(lambda: one.in_sync == REPLICAS)


def _assert_asked_no_more_after(one: Led, end: Callable[[], Any]) -> None:
    one.controller.answers[ALTER_PARTITION] = lambda body: alter_answer(body, ErrorCode.unknown_server_error)
    one.all_fetch(0, LAST)
    one.cluster.until(lambda: len(one.asked) > 1)
    end()
    one.cluster.rest(1_000)
    count = len(one.asked)
    one.cluster.rest(2_000)
    assert len(one.asked) == count


def test_nothing_is_asked_for_a_replica_that_was_deleted_meanwhile() -> None:
    one = Led(isr=(LEADER, FOLLOWER))
    _assert_asked_no_more_after(one, lambda: one.controller.stop(LEADER, stopped(0, delete=True)))
    assert one.partition.role is ReplicaRole.NONE


def test_nothing_is_asked_for_a_replica_that_was_stopped_meanwhile() -> None:
    one = Led(isr=(LEADER, FOLLOWER))
    _assert_asked_no_more_after(one, lambda: one.controller.stop(LEADER, stopped(0, delete=False)))
    assert one.partition.role is ReplicaRole.FOLLOWER


def test_an_answer_that_comes_after_a_stop_moves_no_high_watermark() -> None:
    """What a leader has known of its followers says nothing of a log that follows another one by now."""
    one = Led(isr=(LEADER, FOLLOWER))
    one.cluster.wait(one.cluster.produce(LEADER, records(b"a"), acks=1))
    one.all_fetch(1, LAST)
    one.cluster.until(lambda: len(one.asked) == 1)
    one.all_fetch(0, FOLLOWER)
    before = one.partition.leading
    assert errors_of(one.controller.stop(LEADER, stopped(0, delete=False))) == [NONE]
    one.controller.answers[ALTER_PARTITION] = alter_answer
    one.controller.hang_up()
    before.fetched(FollowerId(FOLLOWER), 1, 0)
    one.cluster.rest(3_000)
    assert one.partition.log.high_watermark == 0


def test_an_in_sync_set_of_an_earlier_epoch_is_not_taken() -> None:
    """An answer to what was asked before the last LeaderAndIsr says nothing of what is now."""
    one = Led(isr=(LEADER, FOLLOWER))
    one.all_fetch(0, LAST)
    one.cluster.until(lambda: len(one.asked) == 1)
    assert one.order(1, (LEADER,)) == [NONE]
    held = one.controller.asked(ALTER_PARTITION)[0]
    one.controller.answers[ALTER_PARTITION] = lambda _: alter_answer(held)
    one.cluster.rest(4_000)
    assert one.in_sync == (LEADER,)


def test_who_has_no_replica_is_refused(replicated: Led) -> None:
    """UNKNOWN_LEADER_EPOCH: whoever fetches may know of a reassignment that the leader has not heard of."""
    assert replicated.fetch(7, 0).error_code is ErrorCode.unknown_leader_epoch
