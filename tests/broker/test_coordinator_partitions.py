"""Who leads a partition of a coordinators' topic coordinates what is in it, and nobody else does."""

from __future__ import annotations

from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import errors_of, known, led, stopped
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.wire import ErrorCode, message_module

BROKER, OTHER = 0, 1
BOTH = (BROKER, OTHER)
IDS = {CONSUMER_OFFSETS: UUID(int=1), TRANSACTION_STATE: UUID(int=2)}
OTHER_ID = UUID(int=3)
PARTITIONS = (0, 1)
NONE, NOT_COORDINATOR = ErrorCode.none, ErrorCode.not_coordinator


class Electing:
    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.cluster = ClusterInMemory(BROKER)
        self.controller = PlayedController(self.cluster)
        self.controller.members.append(PlayedBroker(self.cluster, OTHER).member)
        self.controller.starts(BROKER)
        topics = [known(OTHER, 0, BOTH, topic=name, topic_id=IDS[name], indexes=PARTITIONS) for name in IDS]
        self.controller.update(BROKER, *topics)

    def order(self, leader: int, epoch: int) -> None:
        told = led(leader, epoch, BOTH, indexes=PARTITIONS, topic=self.topic, topic_id=IDS[self.topic])
        assert errors_of(self.controller.order(BROKER, told)) == [NONE] * len(PARTITIONS)
        self.cluster.rest(200)

    def error(self) -> ErrorCode:
        """What somebody hears who takes this broker for its coordinator."""
        if self.topic == TRANSACTION_STATE:
            return self.cluster.core(BROKER).transactions.error("teller")
        types = message_module(9, 7, "request")
        answer = self.cluster.ask(
            BROKER, types.OffsetFetchRequest(group_id="tellers", topics=None, require_stable=False)
        )
        error: ErrorCode = answer.error_code
        return error


@pytest.fixture(params=list(IDS))
def electing(request: pytest.FixtureRequest) -> Electing:
    return Electing(request.param)


def test_who_was_told_only_that_another_leads_coordinates_nothing(electing: Electing) -> None:
    assert electing.error() is NOT_COORDINATOR


def test_who_leads_coordinates_until_another_leads(electing: Electing) -> None:
    electing.order(BROKER, 0)
    assert electing.error() is NONE
    electing.order(OTHER, 1)
    assert electing.error() is NOT_COORDINATOR
    electing.order(BROKER, 2)
    assert electing.error() is NONE


def test_who_leads_on_under_a_newer_epoch_coordinates_on(electing: Electing) -> None:
    electing.order(BROKER, 0)
    electing.order(BROKER, 1)
    assert electing.error() is NONE


@pytest.mark.parametrize("delete", [True, False])
def test_who_is_told_to_stop_coordinates_nothing(electing: Electing, delete: bool) -> None:
    electing.order(BROKER, 0)
    stop = stopped(0, delete=delete, indexes=PARTITIONS, topic=electing.topic)
    assert errors_of(electing.controller.stop(BROKER, stop)) == [NONE, NONE]
    assert electing.error() is NOT_COORDINATOR


def test_who_steps_down_coordinates_nothing_until_it_is_told_again(electing: Electing) -> None:
    electing.order(BROKER, 3)
    membership = electing.cluster.core(BROKER).metadata.membership
    assert membership is not None
    electing.cluster.take(membership.replicas.step_down())
    assert electing.error() is NOT_COORDINATOR
    electing.order(BROKER, 3)
    assert electing.error() is NONE


def test_who_is_told_to_lead_before_it_knows_the_other_partitions_coordinates_what_belongs_there(
    electing: Electing,
) -> None:
    """LeaderAndIsr may come before UpdateMetadata: how many partitions there are, ZooKeeper says, as to Kafka's brokers."""
    topic, count = electing.topic, 7
    electing.cluster.create(topic, OTHER_ID, *[(BROKER,)] * count)
    told = led(BROKER, 0, (BROKER,), indexes=(2,), topic=topic, topic_id=OTHER_ID)
    assert errors_of(electing.controller.order(BROKER, told)) == [NONE]
    core = electing.cluster.core(BROKER)
    coordinator = core.transactions.coordinator if topic == TRANSACTION_STATE else core.offsets.coordinator
    assert coordinator.partition_count == count
