"""LeaderAndIsr v5-7, StopReplica v3-4 and UpdateMetadata v7-8: an order is the same, whichever version says it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedController
from harness.cluster_messages import TOPIC, TOPIC_ID, errors_of, known, led, live_broker, stopped
from oncelog.broker import slices
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.broker.view import Leadership
from oncelog.cluster.channel import ChannelError
from oncelog.cluster.messages import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from oncelog.wire import ErrorCode, construct, message_class, message_module

BROKER = 0
NONE = ErrorCode.none


class Ordered:
    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        self.controller = PlayedController(self.cluster)
        self.controller.starts(BROKER)

    def say(self, api_key: int, version: int, **fields: Any) -> Any:
        kind = message_class(api_key, version, "request")
        body = construct(
            kind,
            controller_id=self.controller.broker_id,
            controller_epoch=self.controller.epoch,
            broker_epoch=self.cluster.epoch(BROKER),
            **fields,
        )
        return self.cluster.ask(BROKER, body)

    @property
    def role(self) -> ReplicaRole:
        found = self.cluster.core(BROKER).topics.partition(TOPIC, 0)
        return ReplicaRole.NONE if found is None else found.role


@pytest.fixture
def ordered() -> Ordered:
    return Ordered()


@pytest.mark.parametrize("version", [5, 6, 7])
def test_leader_and_isr(ordered: Ordered, version: int) -> None:
    types = message_module(LEADER_AND_ISR, version, "request")
    (newest,) = led(BROKER, 4, (BROKER, 1), (BROKER,)).partition_states
    names = ("partition_index", "controller_epoch", "leader", "leader_epoch", "isr", "partition_epoch", "replicas")
    state = types.LeaderAndIsrPartitionState(
        **{name: getattr(newest, name) for name in names}, adding_replicas=(), removing_replicas=()
    )
    topic = types.LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=(state,))
    answer = ordered.say(LEADER_AND_ISR, version, type=0, topic_states=(topic,), live_leaders=())
    assert errors_of(answer) == [NONE]
    assert answer.topics[0].topic_id == TOPIC_ID
    partition = ordered.cluster.partition(BROKER)
    assert (partition.role, partition.leader_epoch, partition.topic_id) == (ReplicaRole.LEADER, 4, TOPIC_ID)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("delete", [True, False])
def test_stop_replica(ordered: Ordered, version: int, delete: bool) -> None:
    assert errors_of(ordered.controller.order(BROKER, led(BROKER, 0, (BROKER,)))) == [NONE]
    assert errors_of(ordered.say(STOP_REPLICA, version, topic_states=(stopped(0, delete=delete),))) == [NONE]
    assert ordered.role is (ReplicaRole.NONE if delete else ReplicaRole.FOLLOWER)


@pytest.mark.parametrize("version", [7, 8])
def test_update_metadata(ordered: Ordered, version: int) -> None:
    answer = ordered.say(
        UPDATE_METADATA,
        version,
        topic_states=(known(99, 6, (99, 98), (99,)),),
        live_brokers=tuple(ordered.controller.members),
    )
    assert answer.error_code is NONE
    partition = ordered.cluster.partition(BROKER)
    assert partition.leadership == Leadership(99, 6, (99, 98), (99,))
    view = ordered.cluster.core(BROKER).view
    assert {one.node_id for one in view.at("PLAINTEXT").brokers()} == {99, BROKER}


@pytest.mark.parametrize("is_later", [False, True], ids=["on another connection", "of a later controller"])
def test_what_a_controller_says_of_many_topics_ends_when_something_later_is_said(
    ordered: Ordered, monkeypatch: pytest.MonkeyPatch, is_later: bool
) -> None:
    """Others are served between two topics: what was said later stays."""
    monkeypatch.setattr(slices, "SLICE_MS", -1.0)
    ordered.cluster.nodes[BROKER].is_busy = True
    many = [known(1, 0, (1,), topic=f"topic-{number}", topic_id=UUID(int=number + 1)) for number in range(200)]
    early = ordered.controller.sends_update(BROKER, *many)
    ordered.cluster.until(lambda: ordered.cluster.core(BROKER).topics.named("topic-0") is not None)
    ordered.controller.members.append(live_broker(50, "elsewhere"))
    epoch = ordered.controller.next_epoch() if is_later else ordered.controller.epoch
    late = ordered.controller.update(BROKER, controller_epoch=epoch)
    assert late.error_code is NONE
    answer = ordered.cluster.wait(early)
    if is_later:
        assert answer.error_code is ErrorCode.stale_controller_epoch
    else:
        assert isinstance(answer, ChannelError), "nobody waits on a connection that was left: it is closed"
    assert ordered.cluster.core(BROKER).view.at("PLAINTEXT").broker(50) is not None
