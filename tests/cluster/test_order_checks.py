"""Orders that no controller gives, and any client can send: each is refused for itself, and a restart finds nothing of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedController
from harness.cluster_messages import TOPIC, TOPIC_ID, errors_of, known, led, produce_request, records, stopped
from oncelog.broker.storage.auto_creation import PARTITIONS_MAX
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.cluster.order_checks import INDEX_MAX
from oncelog.wire import ErrorCode

BROKER = 0
NONE = ErrorCode.none
NAMES = ("", ".", "..", "../elsewhere", "a/b", "a b", "x" * 250, "x" * 32_000, "é", "a\0b")
INDEXES = (-(2**31), -7, -1, INDEX_MAX, INDEX_MAX + 1, 2**31 - 1)
OTHER_ID = UUID(int=0xABCD)


class Ordered:
    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        self.controller = PlayedController(self.cluster)
        self.controller.starts(BROKER)

    def order(self, *topics: Any) -> list[ErrorCode]:
        return errors_of(self.controller.order(BROKER, *topics))

    def hosted(self) -> list[str]:
        return sorted(str(one) for one in self.cluster.core(BROKER).metadata.shared_topics.hosted())

    def restart(self) -> None:
        self.cluster.nodes[BROKER].die(power=True)
        self.cluster.rest(10_000)
        self.cluster.start(BROKER)


def leading(index: int = 0, name: str = TOPIC, topic_id: Any = TOPIC_ID, epoch: int = 0) -> Any:
    return led(BROKER, epoch, (BROKER,), indexes=(index,), topic=name, topic_id=topic_id)


@pytest.fixture
def ordered() -> Ordered:
    return Ordered()


@pytest.mark.parametrize("name", NAMES, ids=[repr(name[:9]) for name in NAMES])
def test_topic_of_a_name_that_kafka_does_not_take_is_hosted_nowhere(ordered: Ordered, name: str) -> None:
    errors = ordered.order(leading(name=name, topic_id=OTHER_ID), leading())
    assert errors == [ErrorCode.invalid_topic_exception, NONE]
    ordered.restart()
    assert ordered.hosted() == [f"{TOPIC}-0"]


@pytest.mark.parametrize("index", INDEXES)
def test_partition_that_there_cannot_be_is_hosted_nowhere(ordered: Ordered, index: int) -> None:
    errors = ordered.order(leading(index), leading(3))
    assert errors == [ErrorCode.unknown_topic_or_partition, NONE]
    ordered.restart()
    assert ordered.hosted() == [f"{TOPIC}-3"]


def test_partitions_that_an_order_leaves_out_are_few_for_each_that_it_names(ordered: Ordered) -> None:
    """Else a request of a few bytes would take the memory of many partitions."""
    far = [leading(PARTITIONS_MAX - 1, f"t{number}", UUID(int=number + 10)) for number in range(5)]
    errors = ordered.order(*far)
    assert errors == [NONE] + [ErrorCode.unknown_topic_or_partition] * 4
    near = leading(99, "t9", UUID(int=99))
    assert ordered.order(near) == [NONE]


def test_topic_without_an_id_is_hosted_nowhere(ordered: Ordered) -> None:
    assert ordered.order(leading(topic_id=None)) == [ErrorCode.unknown_topic_id]
    ordered.restart()
    assert ordered.hosted() == []


def test_one_id_does_not_stand_for_two_topics(ordered: Ordered) -> None:
    refused = ErrorCode.inconsistent_topic_id
    assert ordered.order(leading(), leading(name="other")) == [NONE, refused]
    assert ordered.order(leading(1, name="other")) == [refused]
    ordered.controller.update(BROKER, known(BROKER, 0, (BROKER,), topic="other"))
    assert ordered.cluster.core(BROKER).topics.named("other") is None
    ordered.restart()
    assert ordered.hosted() == [f"{TOPIC}-0"]


def test_id_of_a_topic_that_is_here_no_more_may_be_another_ones(ordered: Ordered) -> None:
    """Nobody gives one out twice but a client that sends what only a controller should; the broker starts again all the same."""
    assert ordered.order(leading(), leading(name="other", topic_id=OTHER_ID)) == [NONE, NONE]
    assert errors_of(ordered.controller.stop(BROKER, stopped(0, delete=True))) == [NONE]
    assert ordered.order(leading(name="another")) == [NONE]
    ordered.restart()
    assert ordered.hosted() == ["another-0", "other-0"]


def test_of_a_partition_that_an_order_names_twice_the_last_counts(ordered: Ordered) -> None:
    twice = [led(BROKER, epoch, (BROKER,), indexes=(0, 0)) for epoch in (3, 5)]
    assert ordered.order(*twice) == [NONE] * 4
    assert ordered.cluster.partition(BROKER).leader_epoch == 5
    errors = errors_of(
        ordered.controller.stop(BROKER, stopped(5, delete=True, indexes=(0, 0)), stopped(5, delete=True))
    )
    assert errors == [NONE] * 3
    ordered.restart()
    assert ordered.hosted() == []


@pytest.mark.parametrize("index", INDEXES)
def test_metadata_of_partitions_that_there_cannot_be_is_left_out(ordered: Ordered, index: int) -> None:
    told = known(BROKER, 0, (BROKER,), indexes=(index, 1))
    assert ordered.controller.update(BROKER, told).error_code is NONE
    topic = ordered.cluster.core(BROKER).topics.named(TOPIC)
    assert topic is not None
    assert [one.leadership.leader for one in topic.partitions][1:] == [BROKER]


@pytest.mark.parametrize("name", NAMES, ids=[repr(name[:9]) for name in NAMES])
def test_metadata_of_topics_that_there_cannot_be_is_left_out(ordered: Ordered, name: str) -> None:
    odd = known(BROKER, 0, (BROKER,), topic=name, topic_id=OTHER_ID)
    nameless = known(BROKER, 0, (BROKER,), topic="t", topic_id=None)  # type: ignore[arg-type]
    assert ordered.controller.update(BROKER, odd, nameless, known(BROKER, 0, (BROKER,))).error_code is NONE
    assert [topic.name for topic in ordered.cluster.core(BROKER).topics] == [TOPIC]


def test_replica_is_not_hosted_under_a_name_that_was_told_of_its_id_meanwhile(ordered: Ordered) -> None:
    """The disk takes its time before the replica is here, and the controller goes on on another connection."""
    cluster, controller = ordered.cluster, ordered.controller
    left, used = cluster.channel(BROKER), cluster.channel(BROKER)
    for channel in (left, used):
        cluster.wait(cluster.send_on(channel, produce_request(records(b"a"))))
    order = cluster.send_on(left, controller.order_to(BROKER, leading()))
    update = cluster.send_on(used, controller.update_to(BROKER, known(BROKER, 0, (BROKER,), topic="other")))
    assert errors_of(cluster.wait(order)) == [NONE]
    assert cluster.wait(update).error_code is NONE
    assert ordered.cluster.partition(BROKER).role is ReplicaRole.LEADER
    ordered.restart()
    assert ordered.hosted() == [f"{TOPIC}-0"]
