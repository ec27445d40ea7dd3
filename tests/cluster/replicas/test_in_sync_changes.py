"""What the leaders of a broker ask of the controller: one AlterPartition at a time, and all that came meanwhile in the next."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import ALTER_PARTITION, TOPIC_ID, alter_answer, live_broker
from oncelog.cluster.replicas.in_sync_changes import InSyncChange, InSyncChanges
from oncelog.replication import AlterPartitionAnswer
from oncelog.wire import ErrorCode

BROKER = 0
OTHER_ID = UUID(int=9)


class Asking:
    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        self.controller = PlayedController(self.cluster)
        self.controller.starts(BROKER)
        membership = self.cluster.core(BROKER).metadata.membership
        assert membership is not None
        self.changes: InSyncChanges = membership._changes

    def requests(self) -> list[list[tuple[UUID, int]]]:
        return [
            [(topic.topic_id, one.partition_index) for topic in body.topics for one in topic.partitions]
            for body in self.controller.asked(ALTER_PARTITION)
        ]


@pytest.fixture
def asking() -> Asking:
    return Asking()


def change(index: int, topic_id: UUID = TOPIC_ID) -> InSyncChange:
    return InSyncChange(topic_id, index, 3, (0, 1), 0, 8)


def test_the_answer_is_what_the_controller_says_that_is_now(asking: Asking) -> None:
    asking.controller.answers[ALTER_PARTITION] = alter_answer
    assert asking.cluster.wait(asking.changes.ask(change(0))) == AlterPartitionAnswer(ErrorCode.none, 3, 9, (0, 1))
    (body,) = asking.controller.asked(ALTER_PARTITION)
    assert (body.broker_id, body.broker_epoch) == (BROKER, asking.cluster.epoch(BROKER))


def test_what_comes_while_a_request_is_under_way_is_in_the_next_one(asking: Asking) -> None:
    first = asking.changes.ask(change(0))
    asking.cluster.until(lambda: len(asking.requests()) == 1)
    later = [asking.changes.ask(change(1)), asking.changes.ask(change(0, OTHER_ID)), asking.changes.ask(change(2))]
    asking.cluster.rest(500)
    assert len(asking.requests()) == 1
    asking.controller.answers[ALTER_PARTITION] = alter_answer
    asking.controller.answer_last(alter_answer(asking.controller.heard[-1]))
    for one in (first, *later):
        assert asking.cluster.wait(one).error is ErrorCode.none
    assert asking.requests() == [[(TOPIC_ID, 0)], [(TOPIC_ID, 1), (TOPIC_ID, 2), (OTHER_ID, 0)]]


def test_what_is_withdrawn_is_not_sent_again_and_makes_room_for_another_change(asking: Asking) -> None:
    first, other = asking.changes.ask(change(0)), asking.changes.ask(change(1))
    asking.cluster.until(lambda: len(asking.requests()) == 1)
    asking.changes.withdraw(TOPIC_ID, 0)
    assert first.value.error is ErrorCode.operation_not_attempted
    asking.controller.answer_last(alter_answer(asking.controller.heard[-1], topmost=ErrorCode.not_controller))
    asking.cluster.until(lambda: len(asking.requests()) == 2)
    assert asking.requests()[1] == [(TOPIC_ID, 1)]
    again = asking.changes.ask(change(0))
    asking.controller.answers[ALTER_PARTITION] = alter_answer
    asking.controller.answer_last(alter_answer(asking.controller.heard[-1]))
    assert asking.cluster.wait(other).error is ErrorCode.none
    assert asking.cluster.wait(again).error is ErrorCode.none


def test_an_answer_to_what_was_withdrawn_is_none_to_what_was_asked_since(asking: Asking) -> None:
    asking.changes.ask(change(0))
    asking.cluster.until(lambda: len(asking.requests()) == 1)
    asking.changes.withdraw(TOPIC_ID, 0)
    again = asking.changes.ask(change(0))
    asking.controller.answer_last(alter_answer(asking.controller.heard[-1]))
    asking.cluster.until(lambda: len(asking.requests()) == 2)
    assert not again.is_resolved
    asking.controller.answer_last(alter_answer(asking.controller.heard[-1]))
    assert asking.cluster.wait(again).error is ErrorCode.none


def test_a_partition_has_one_change_at_a_time(asking: Asking) -> None:
    """OPERATION_NOT_ATTEMPTED, as where Kafka's AlterPartitionManager does not take an item."""
    first = asking.changes.ask(change(0))
    assert asking.changes.ask(change(0)).value.error is ErrorCode.operation_not_attempted
    asking.controller.answers[ALTER_PARTITION] = alter_answer
    asking.cluster.wait(first)
    assert asking.cluster.wait(asking.changes.ask(change(0))).error is ErrorCode.none


def test_each_partition_has_an_error_of_its_own(asking: Asking) -> None:
    first = asking.changes.ask(change(0))
    asking.cluster.until(lambda: len(asking.requests()) == 1)
    both = asking.changes.ask(change(1)), asking.changes.ask(change(0, OTHER_ID))

    def answer(body: Any) -> Any:
        whole, refused = alter_answer(body), alter_answer(body, ErrorCode.fenced_leader_epoch)
        return type(whole)(
            throttle_time=whole.throttle_time,
            error_code=whole.error_code,
            topics=(whole.topics[0], *refused.topics[1:]),
        )

    asking.controller.answers[ALTER_PARTITION] = answer
    asking.controller.answer_last(alter_answer(asking.controller.heard[-1]))
    asking.cluster.wait(first)
    assert asking.cluster.wait(both[0]).error is ErrorCode.none
    assert asking.cluster.wait(both[1]).error is ErrorCode.fenced_leader_epoch


def test_a_partition_that_is_missing_in_the_answer_has_an_error(asking: Asking) -> None:
    asking.controller.answers[ALTER_PARTITION] = lambda body: alter_answer(
        type(body)(broker_id=BROKER, broker_epoch=0, topics=())
    )
    assert asking.cluster.wait(asking.changes.ask(change(0))).error is ErrorCode.unknown_server_error


def test_another_controller_is_asked_when_there_is_one(asking: Asking) -> None:
    """What was not answered is asked of whoever is the controller by then."""
    waiting = asking.changes.ask(change(0))
    asking.cluster.until(lambda: len(asking.requests()) == 1)
    before = asking.controller
    after = PlayedBroker(asking.cluster, 98)
    after.answers[ALTER_PARTITION] = alter_answer
    before.members.append(live_broker(98, after.host))
    before.update(BROKER, controller_id=98, controller_epoch=before.next_epoch())
    assert asking.cluster.wait(waiting).error is ErrorCode.none
    assert len(after.asked(ALTER_PARTITION)) == 1
