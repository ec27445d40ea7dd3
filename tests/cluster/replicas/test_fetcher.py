"""Following a leader that answers, refuses, has another log, goes away and comes back: a real broker, and a played leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import (
    FETCH,
    LIST_OFFSETS,
    NO_TIME,
    TOPIC,
    errors_of,
    fetch_answer,
    known,
    led,
    live_broker,
    records,
    stopped,
)
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.cluster.controller.requests import update_metadata
from oncelog.log import DataDirectory
from oncelog.replication.follower import NEWS_MS
from oncelog.wire import ErrorCode, message_module

BROKER, LEADER, NEXT = 0, 1, 2
REPLICAS = (BROKER, LEADER, NEXT)
NONE = ErrorCode.none
LATEST = -1
RESERVE_BYTES = 64 * 1024
A, B = records(b"a", leader_epoch=0), records(b"b", leader_epoch=0, base_offset=1)
C = records(b"c", leader_epoch=1, base_offset=1)


class Followed:
    """A broker that follows a leader which the test plays."""

    def __init__(self, directories: Sequence[str] = ("/data",), **settings: str) -> None:
        self.cluster = ClusterInMemory(BROKER, **settings)
        self.cluster.nodes[BROKER].directories = directories
        self.controller = PlayedController(self.cluster)
        self.leader, self.next = PlayedBroker(self.cluster, LEADER), PlayedBroker(self.cluster, NEXT)
        self.controller.members += [self.leader.member, self.next.member]
        self.controller.starts(BROKER)
        self.controller.update(BROKER, known(LEADER, 0, REPLICAS))
        self.answers: list[Any] = []
        self.leader.answers[FETCH] = lambda _: self.answers.pop(0) if self.answers else None

    def follow(self, epoch: int = 0, leader: int = LEADER) -> None:
        assert errors_of(self.controller.order(BROKER, led(leader, epoch, REPLICAS))) == [NONE]

    @property
    def log(self) -> Any:
        return self.cluster.partition(BROKER).log

    @property
    def log_directory(self) -> DataDirectory:
        return self.cluster.partition(BROKER).directory

    def asked(self, leader: PlayedBroker | None = None) -> list[tuple[int, int, int]]:
        """The fetches that named the partition: offset, leader epoch, last fetched epoch."""
        return [
            (one.fetch_offset, one.current_leader_epoch, one.last_fetched_epoch)
            for body in (leader or self.leader).asked(FETCH)
            for topic in body.topics
            for one in topic.partitions
        ]

    def until(self, is_so: Callable[[], bool]) -> None:
        self.cluster.until(is_so, 10_000)

    def has(self, end: int, high_watermark: int) -> bool:
        return bool((self.log.log_end_offset, self.log.high_watermark) == (end, high_watermark))


@pytest.fixture
def followed() -> Followed:
    return Followed()


def _offsets(latest: int, earliest: int, error: ErrorCode = NONE) -> Callable[[Any], Any]:
    def answer(body: Any) -> Any:
        types = message_module(LIST_OFFSETS, body.__version__, "response")
        ((asked,),) = (topic.partitions for topic in body.topics)
        one = types.ListOffsetsPartitionResponse(
            partition_index=0,
            error_code=error,
            timestamp=-1,
            offset=latest if asked.timestamp == LATEST else earliest,
            leader_epoch=0,
        )
        topic = types.ListOffsetsTopicResponse(name=TOPIC, partitions=(one,))
        return types.ListOffsetsResponse(throttle_time=NO_TIME, topics=(topic,))

    return answer


def test_records_and_the_high_watermark_are_those_of_the_leader(followed: Followed) -> None:
    """KIP-101: a follower's high watermark is the leader's, as far as its own log goes."""
    followed.answers += [fetch_answer(records=A, high_watermark=0), fetch_answer(records=B, high_watermark=5)]
    followed.follow()
    followed.until(lambda: followed.has(2, 2))
    followed.answers.append(fetch_answer(high_watermark=2))
    followed.until(lambda: len(followed.asked()) >= 3)
    assert followed.asked()[:3] == [(0, 0, -1), (1, 0, 0), (2, 0, 0)]


def test_a_fetch_names_the_broker_and_its_epoch(followed: Followed) -> None:
    """KIP-903: a leader tells a follower's lives apart by ReplicaState.ReplicaEpoch."""
    followed.follow()
    followed.until(lambda: bool(followed.asked()))
    state = followed.leader.asked(FETCH)[0].replica_state
    assert (state.replica_id, state.replica_epoch) == (BROKER, followed.cluster.epoch(BROKER))


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.kafka_storage_error,
    ],
)
def test_a_leader_that_refuses_is_asked_again(followed: Followed, error: ErrorCode) -> None:
    followed.answers += [fetch_answer(error=error), fetch_answer(records=A, high_watermark=1)]
    followed.follow()
    followed.until(lambda: followed.has(1, 1))


def test_a_leader_is_asked_again_in_time_although_the_time_of_day_goes_back(followed: Followed) -> None:
    def set_back(_: Any) -> Any:
        followed.cluster.queue.after(20, "the clock is set back", lambda: jump(followed, -3_600_000))
        followed.leader.answers[FETCH] = lambda _: fetch_answer(records=A, high_watermark=1)
        return fetch_answer(error=ErrorCode.kafka_storage_error)

    followed.leader.answers[FETCH] = set_back
    followed.follow()
    followed.until(lambda: followed.has(1, 1))


def test_partition_that_is_added_does_not_wait_for_a_fetch_that_does_not_name_it(followed: Followed) -> None:
    """replica.fetch.wait.max.ms is for what a fetch names. What it waits for is asked for again."""
    followed.leader.answers[FETCH] = lambda _: None
    followed.follow()
    followed.until(lambda: bool(followed.asked()))
    followed.leader.answers[FETCH] = lambda _: fetch_answer(records=A, high_watermark=1)
    before_ms = followed.cluster.queue.now_ms
    order = led(LEADER, 0, REPLICAS, indexes=(1,))
    assert errors_of(followed.controller.order(BROKER, order)) == [NONE]
    followed.until(lambda: followed.has(1, 1))
    assert followed.cluster.queue.now_ms - before_ms < 100
    named = [one.partition for topic in followed.leader.asked(FETCH)[1].topics for one in topic.partitions]
    assert sorted(named) == [0, 1]


def test_partition_whose_leader_has_not_heard_of_it_does_not_wait_for_a_fetch_of_the_others(followed: Followed) -> None:
    """replica.fetch.wait.max.ms is for what a fetch names, and replica.fetch.backoff.ms for what does not pass at once."""
    refused = [fetch_answer(error=ErrorCode.unknown_leader_epoch)]

    def answer(body: Any) -> Any:
        if refused:
            return refused.pop()
        is_named = any(one.partition == 0 for topic in body.topics for one in topic.partitions)
        return fetch_answer(records=A, high_watermark=1) if is_named else replace(fetch_answer(), responses=())

    followed.leader.answers[FETCH] = answer
    before_ms = followed.cluster.queue.now_ms
    order = led(LEADER, 0, REPLICAS, indexes=(0, 1))
    assert errors_of(followed.controller.order(BROKER, order)) == [NONE, NONE]
    followed.until(lambda: followed.has(1, 1))
    assert followed.cluster.queue.now_ms - before_ms < 100
    all_of_them, the_other, *_ = followed.leader.asked(FETCH)
    assert all_of_them.max_wait > timedelta(milliseconds=NEWS_MS) >= the_other.max_wait


def jump(followed: Followed, by_ms: int) -> None:
    followed.cluster.nodes[BROKER].jump_ms = by_ms


def test_a_fenced_follower_waits_for_the_next_order(followed: Followed) -> None:
    """FENCED_LEADER_EPOCH: another broker leads, or will; the controller says which."""
    followed.answers.append(fetch_answer(error=ErrorCode.fenced_leader_epoch))
    followed.follow()
    followed.cluster.rest(2_000)
    assert len(followed.asked()) == 1
    followed.answers.append(fetch_answer(records=A, high_watermark=1))
    followed.follow(epoch=1)
    followed.until(lambda: followed.has(1, 1))


def test_what_the_leader_does_not_have_is_cut_off(followed: Followed) -> None:
    """KIP-595: a DivergingEpoch says up to where both logs are the same."""
    followed.answers += [fetch_answer(records=A, high_watermark=1), fetch_answer(records=B, high_watermark=1)]
    followed.follow()
    followed.until(lambda: followed.has(2, 1))
    followed.next.answers[FETCH] = lambda _: answers.pop(0) if answers else None
    answers = [
        fetch_answer(diverging=(0, 1)),
        fetch_answer(records=C, high_watermark=2),
    ]
    followed.follow(1, NEXT)
    followed.until(lambda: followed.has(2, 2))
    assert followed.log.read(0, 1 << 20, 2).data == A + C
    followed.until(lambda: len(followed.asked(followed.next)) >= 3)
    assert followed.asked(followed.next)[:3] == [(2, 1, 0), (1, 1, 0), (2, 1, 1)]


def test_the_high_watermark_never_goes_back(followed: Followed) -> None:
    followed.answers += [fetch_answer(records=A, high_watermark=1), fetch_answer(high_watermark=0)]
    followed.follow()
    followed.until(lambda: len(followed.asked()) >= 3)
    assert followed.has(1, 1)


def test_what_is_damaged_on_the_way_is_fetched_again(followed: Followed) -> None:
    damaged = A[:-1] + bytes([A[-1] ^ 1])
    followed.answers += [fetch_answer(records=damaged, high_watermark=1), fetch_answer(records=A, high_watermark=1)]
    followed.follow()
    followed.until(lambda: followed.has(1, 1))


def test_a_leader_that_hangs_up_is_asked_again(followed: Followed) -> None:
    followed.follow()
    followed.until(lambda: len(followed.asked()) == 1)
    followed.answers.append(fetch_answer(records=A, high_watermark=1))
    followed.leader.hang_up()
    followed.until(lambda: followed.has(1, 1))


def test_a_leader_that_does_not_answer_in_time_is_asked_on_a_new_connection(followed: Followed) -> None:
    followed.follow()
    followed.until(lambda: len(followed.asked()) == 1)
    followed.answers.append(fetch_answer(records=A, high_watermark=1))
    followed.until(lambda: followed.has(1, 1))


def test_a_leader_that_was_away_is_followed_when_it_is_back_somewhere_else(followed: Followed) -> None:
    followed.controller.members = [one for one in followed.controller.members if one.id != LEADER]
    followed.controller.update(BROKER)
    followed.follow()
    followed.cluster.rest(1_000)
    assert followed.asked() == []
    followed.leader.listen(port=9093)
    followed.answers.append(fetch_answer(records=A, high_watermark=1))
    followed.controller.members.append(live_broker(LEADER, followed.leader.host, 9093))
    followed.controller.update(BROKER)
    followed.until(lambda: followed.has(1, 1))


def test_a_log_that_is_behind_the_leaders_beginning_begins_again_there(followed: Followed) -> None:
    """Kafka's AbstractFetcherThread.fetchOffsetAndTruncate: "the follower could have been down for a long time"."""
    followed.answers += [
        fetch_answer(error=ErrorCode.offset_out_of_range),
        fetch_answer(records=records(b"x", leader_epoch=0, base_offset=7), log_start_offset=7, high_watermark=8),
    ]
    followed.leader.answers[LIST_OFFSETS] = _offsets(8, 7)
    followed.follow()
    followed.until(lambda: followed.has(8, 8))
    assert followed.log.log_start_offset == 7


def test_a_log_that_is_ahead_of_the_leaders_end_is_cut_off_there(followed: Followed) -> None:
    """An unclean election: the leader's log ends before the follower's."""
    followed.answers += [
        fetch_answer(records=A, high_watermark=1),
        fetch_answer(records=B, high_watermark=1),
        fetch_answer(error=ErrorCode.offset_out_of_range),
    ]
    followed.leader.answers[LIST_OFFSETS] = _offsets(1, 0)
    followed.follow()
    followed.until(lambda: len(followed.asked()) >= 4)
    assert followed.has(1, 1)
    assert followed.asked()[3][0] == 1


@pytest.mark.parametrize("error", [ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch])
def test_a_leader_that_does_not_say_where_it_ends_is_asked_again(followed: Followed, error: ErrorCode) -> None:
    followed.answers.append(fetch_answer(error=ErrorCode.offset_out_of_range))
    followed.leader.answers[LIST_OFFSETS] = _offsets(0, 0, error)
    followed.follow()
    followed.cluster.rest(1_000)
    assert followed.has(0, 0)
    followed.answers.append(fetch_answer(records=A, high_watermark=1))
    followed.follow(epoch=1)
    followed.until(lambda: followed.has(1, 1))


def test_orders_do_not_wait_for_a_leader_that_does_not_say_where_it_ends(followed: Followed) -> None:
    """Nobody waits for a leader's answer while the logs are held."""
    followed.answers.append(fetch_answer(error=ErrorCode.offset_out_of_range))
    followed.follow()
    followed.until(lambda: bool(followed.leader.asked(LIST_OFFSETS)))
    before_ms = followed.cluster.queue.now_ms
    followed.follow(1, NEXT)
    assert followed.cluster.queue.now_ms - before_ms < 500
    followed.until(lambda: bool(followed.asked(followed.next)))


@pytest.mark.parametrize("steps", range(0, 40, 3))
def test_a_replica_that_is_deleted_while_something_is_under_way_takes_nothing_more(steps: int) -> None:
    followed = Followed()
    followed.answers += [fetch_answer(records=A, high_watermark=1), fetch_answer(diverging=(0, 0)), fetch_answer()]
    followed.follow()
    stopping = followed.controller.sends_stop(BROKER, stopped(0, delete=True))
    for _ in range(steps):
        followed.cluster.queue.step(followed.cluster.queue.now_ms + 10)
    assert errors_of(followed.cluster.wait(stopping)) == [NONE]
    followed.cluster.rest(3_000)
    assert followed.cluster.core(BROKER).metadata.shared_topics.replica(TOPIC, 0) is None


@pytest.mark.parametrize("steps", range(0, 40, 3))
def test_who_is_to_lead_while_a_log_is_cut_off_leads_what_is_left(steps: int) -> None:
    followed = Followed()
    followed.answers += [fetch_answer(records=A, high_watermark=1), fetch_answer(records=B, high_watermark=1)]
    followed.follow()
    followed.until(lambda: followed.has(2, 1))
    followed.next.answers[FETCH] = lambda _: answers.pop(0) if answers else None
    answers = [fetch_answer(diverging=(0, 1))]
    followed.follow(1, NEXT)
    order = followed.controller.sends_order(BROKER, led(BROKER, 2, REPLICAS))
    for _ in range(steps):
        followed.cluster.queue.step(followed.cluster.queue.now_ms + 10)
    assert errors_of(followed.cluster.wait(order)) == [NONE]
    assert followed.cluster.partition(BROKER).role is ReplicaRole.LEADER
    end = followed.log.log_end_offset
    followed.cluster.rest(3_000)
    assert followed.log.log_end_offset == end
    assert followed.log.read(0, 1 << 20, end).data == (A + B)[: len(A) * end]


def test_an_answer_of_an_earlier_epoch_is_not_taken(followed: Followed) -> None:
    """What is under way to a leader when there is another order says nothing of the log that it leads now."""
    followed.follow()
    followed.until(lambda: len(followed.asked()) == 1)
    followed.answers.append(None)
    held: list[Any] = []
    followed.leader.answers[FETCH] = lambda body: held.append(body)
    followed.follow(1, NEXT)
    followed.next.answers[FETCH] = lambda _: answers.pop(0) if answers else None
    answers = [fetch_answer(records=records(b"n", leader_epoch=1), high_watermark=1)]
    followed.until(lambda: followed.has(1, 1))
    followed.cluster.rest(3_000)
    assert followed.log.newest_epoch == 1


class OnTwoDisks(Followed):
    """Two partitions, one on each disk, with the same two records."""

    def __init__(self) -> None:
        super().__init__(directories=("/data", "/other"))
        order = led(LEADER, 0, REPLICAS, indexes=(0, 1))
        self.answers += [
            fetch_answer(records=A, high_watermark=1, indexes=(0, 1)),
            fetch_answer(records=B, high_watermark=1, indexes=(0, 1)),
        ]
        assert errors_of(self.controller.order(BROKER, order)) == [NONE, NONE]
        self.until(lambda: all(one.log.log_end_offset == 2 for one in self.partitions))
        (self.broken,) = (one for one in self.partitions if one.directory.path == "/other")
        (self.whole,) = (one for one in self.partitions if one is not self.broken)

    @property
    def partitions(self) -> list[Partition]:
        return [self.cluster.partition(BROKER, index=index) for index in (0, 1)]

    def break_disk(self) -> None:
        self.cluster.nodes[BROKER].disk.failing.add("/other")


def test_a_broken_disk_ends_the_following_of_what_is_on_it_and_of_nothing_else() -> None:
    one = OnTwoDisks()
    one.break_disk()
    both = (0, 1)
    one.answers += [
        fetch_answer(diverging=(0, 1), indexes=both),
        fetch_answer(records=C, high_watermark=2, indexes=both),
    ]
    one.leader.hang_up()
    one.until(lambda: one.broken.is_offline)
    one.until(lambda: bool(one.whole.log.high_watermark == 2))
    assert one.whole.log.read(0, 1 << 20, 2).data == A + C
    order = led(LEADER, 1, REPLICAS, indexes=both)
    errors = dict(zip(both, errors_of(one.controller.order(BROKER, order)), strict=True))
    assert errors == {one.broken.index: ErrorCode.kafka_storage_error, one.whole.index: NONE}


def test_room_that_a_full_disk_keeps_for_the_ends_of_transactions_is_not_filled_with_the_leaders_records() -> None:
    """What is given up of the reserve is free, and fetching goes on all the time: nothing of it would be left for a start."""
    followed = Followed(log_dir_reserve_bytes=str(RESERVE_BYTES))
    disk = followed.cluster.nodes[BROKER].disk
    batches = {0: A, 1: B}
    followed.leader.answers[FETCH] = lambda _: (
        fetch_answer(records=batches[end], high_watermark=2)
        if (end := followed.log.log_end_offset) in batches
        else None
    )
    disk.space_bytes = 0
    followed.follow()
    followed.until(lambda: followed.log_directory.is_full)
    disk.space_bytes = 2 * len(A)
    asked = len(followed.asked())
    followed.until(lambda: len(followed.asked()) > asked + 3)
    assert (followed.log.log_end_offset, disk.space_bytes) == (0, 2 * len(A))
    disk.space_bytes = 10 * RESERVE_BYTES
    followed.until(lambda: followed.has(2, 2))


def test_metadata_that_says_nothing_new_keeps_following(followed: Followed) -> None:
    followed.follow()
    followed.until(lambda: len(followed.asked()) == 1)
    for _ in range(3):
        followed.controller.update(BROKER, known(LEADER, 0, REPLICAS))
    assert isinstance(followed.controller.update(BROKER), update_metadata.UpdateMetadataResponse)
    followed.answers.append(fetch_answer(records=A, high_watermark=1))
    followed.leader.hang_up()
    followed.until(lambda: followed.has(1, 1))
