"""What the controller orders, from the request to the replica: LeaderAndIsr and StopReplica on a real broker."""

from __future__ import annotations

from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import TOPIC, TOPIC_ID, errors_of, known, led, produce_request, produced, records, stopped
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.broker.storage.topics import TRANSACTION_STATE
from oncelog.cluster.channel import ChannelError
from oncelog.cluster.zookeeper.session import Create
from oncelog.cluster.zookeeper.znodes import encode_reassignments, paths
from oncelog.wire import ErrorCode
from tests.cluster.held_disk import HeldDisk

BROKER, OTHER = 0, 1
BOTH = (BROKER, OTHER)
OTHER_ID = UUID(int=0xABCD)
EPOCH_DURING_DELETE = -2
NONE = ErrorCode.none


class Ordered:
    def __init__(self, **settings: str) -> None:
        self.cluster = ClusterInMemory(BROKER, **settings)
        self.controller = PlayedController(self.cluster)
        self.other = PlayedBroker(self.cluster, OTHER)
        self.controller.members.append(self.other.member)
        self.controller.starts(BROKER)

    def order(self, *args: object, **fields: object) -> list[ErrorCode]:
        return errors_of(self.controller.order(BROKER, led(*args, **fields)))  # type: ignore[arg-type]

    def stop(self, epoch: int, *, delete: bool, indexes: tuple[int, ...] = (0,)) -> list[ErrorCode]:
        return errors_of(self.controller.stop(BROKER, stopped(epoch, delete=delete, indexes=indexes)))

    def role(self, index: int = 0) -> ReplicaRole:
        found = self.cluster.core(BROKER).topics.partition(TOPIC, index)
        return ReplicaRole.NONE if found is None else found.role

    def write(self, *values: bytes) -> ErrorCode:
        return produced(self.cluster.wait(self.cluster.produce(BROKER, records(*values), acks=1)))[0]

    @property
    def end(self) -> int:
        return self.cluster.partition(BROKER).log.log_end_offset


@pytest.fixture
def ordered() -> Ordered:
    return Ordered()


def test_each_partition_of_an_order_gets_what_it_is_told(ordered: Ordered) -> None:
    leads, follows = led(BROKER, 0, BOTH), led(OTHER, 0, BOTH, indexes=(1, 2))
    assert errors_of(ordered.controller.order(BROKER, leads, follows)) == [NONE] * 3
    assert [ordered.role(index) for index in range(3)] == [
        ReplicaRole.LEADER,
        ReplicaRole.FOLLOWER,
        ReplicaRole.FOLLOWER,
    ]


@pytest.mark.parametrize("epoch", [3, 2, 0])
def test_a_leader_epoch_that_is_not_new_changes_nothing(ordered: Ordered, epoch: int) -> None:
    """Kafka's ReplicaManager: a leader epoch that is "smaller than or equal" is answered STALE_CONTROLLER_EPOCH."""
    assert ordered.order(BROKER, 3, BOTH) == [NONE]
    assert ordered.order(OTHER, epoch, BOTH) == [ErrorCode.stale_controller_epoch]
    assert ordered.role() is ReplicaRole.LEADER
    assert ordered.cluster.partition(BROKER).leader_epoch == 3


def test_who_leads_no_more_names_the_leader_before_it_is_told_of_the_metadata(ordered: Ordered) -> None:
    """Else it would name itself, and a client that believes it asks nobody else (KIP-951)."""
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    ordered.controller.update(BROKER, known(BROKER, 0, BOTH))
    waiting = ordered.cluster.send(BROKER, produce_request(records(b"a"), version=10))
    ordered.cluster.until(lambda: ordered.end == 1)
    assert ordered.order(OTHER, 1, BOTH) == [NONE]
    later = ordered.cluster.send(BROKER, produce_request(records(b"b"), version=10))
    for answer in map(ordered.cluster.wait, (waiting, later)):
        ((one,),) = (topic.partition_responses for topic in answer.responses)
        assert one.error_code is ErrorCode.not_leader_or_follower
        assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (OTHER, 1)
        assert [node.node_id for node in answer.node_endpoints] == [OTHER]


def test_a_broker_that_is_no_replica_has_none(ordered: Ordered) -> None:
    assert ordered.order(OTHER, 0, (OTHER,)) == [ErrorCode.unknown_topic_or_partition]
    assert ordered.role() is ReplicaRole.NONE


def test_another_topic_of_the_same_name_is_refused_while_a_replica_of_the_first_is_here(ordered: Ordered) -> None:
    """INCONSISTENT_TOPIC_ID: "The log's topic ID did not match the topic ID in the request" (KIP-516)."""
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    assert ordered.order(BROKER, 1, BOTH, topic_id=OTHER_ID) == [ErrorCode.inconsistent_topic_id]
    assert ordered.cluster.partition(BROKER).topic_id == TOPIC_ID


def test_another_topic_that_the_broker_was_told_of_is_refused_while_a_replica_of_the_first_is_here(
    ordered: Ordered,
) -> None:
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    ordered.write(b"a")
    ordered.controller.update(BROKER, known(BROKER, 0, BOTH, topic_id=OTHER_ID))
    assert ordered.order(BROKER, 1, BOTH, topic_id=OTHER_ID) == [ErrorCode.inconsistent_topic_id]
    assert ordered.stop(EPOCH_DURING_DELETE, delete=True) == [NONE]
    assert ordered.order(BROKER, 1, BOTH, topic_id=OTHER_ID) == [NONE]
    assert ordered.cluster.partition(BROKER).topic_id == OTHER_ID
    assert ordered.end == 0


def test_replica_left_of_a_deleted_topic_makes_way_for_the_next_topic_of_its_name() -> None:
    """It was given to another broker, and its topic deleted, while this broker was away: nobody tells it to delete that."""
    cluster = ClusterInMemory(0, 1, 2)
    cluster.start_served(0, 1, 2)
    cluster.create(TOPIC, TOPIC_ID, (0, 1))
    cluster.until(lambda: cluster.core(0).topics.named(TOPIC) is not None)
    assert produced(cluster.wait(cluster.produce(0, records(b"old"))))[0] is NONE
    cluster.nodes[1].die(power=False)
    cluster.submit(Create(paths.REASSIGN_PARTITIONS, encode_reassignments({(TOPIC, 0): (0, 2)})))
    cluster.until(lambda: cluster.state().isr == (0, 2))
    cluster.submit(Create(paths.delete_topic(TOPIC)))
    cluster.until(lambda: cluster.ensemble.tree.node(paths.topic(TOPIC)) is None)
    cluster.create(TOPIC, OTHER_ID, (2, 1))
    cluster.until(lambda: cluster.core(2).topics.named(TOPIC) is not None)
    assert produced(cluster.wait(cluster.produce(2, records(b"new", b"newer"))))[0] is NONE
    cluster.start_served(1)
    cluster.until(lambda: set(cluster.state().isr) == {1, 2})
    partition = cluster.partition(1)
    assert partition.topic_id == OTHER_ID
    assert partition.log.log_end_offset == 2
    assert [one for one in cluster.core(1).topics.every_partition() if one.topic == TOPIC] == [partition]
    cluster.nodes[1].die(power=True)
    cluster.start_served(1)
    assert cluster.partition(1).topic_id == OTHER_ID


def test_claimed_replica_makes_way_for_no_other_topic(ordered: Ordered) -> None:
    """An order that comes late may name a topic that was there before."""
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    ordered.cluster.create(TOPIC, OTHER_ID, BOTH)
    assert ordered.order(BROKER, 1, BOTH, topic_id=OTHER_ID) == [ErrorCode.inconsistent_topic_id]
    assert ordered.cluster.partition(BROKER).topic_id == TOPIC_ID


def test_replica_that_nobody_has_claimed_makes_way_only_for_the_topic_that_has_its_name_in_zookeeper(
    ordered: Ordered,
) -> None:
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    ordered.cluster.create(TOPIC, TOPIC_ID, BOTH)
    ordered.cluster.nodes[BROKER].die(power=False)
    ordered.controller.starts(BROKER)
    assert ordered.order(BROKER, 1, BOTH, topic_id=OTHER_ID) == [ErrorCode.inconsistent_topic_id]
    assert ordered.order(BROKER, 1, BOTH) == [NONE]
    assert ordered.cluster.partition(BROKER).topic_id == TOPIC_ID


def test_orders_are_carried_out_one_after_the_other(ordered: Ordered) -> None:
    controller = ordered.controller
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    ordered.write(b"a")
    waiting = [
        controller.sends_stop(BROKER, stopped(EPOCH_DURING_DELETE, delete=True)),
        controller.sends_order(BROKER, led(OTHER, 0, BOTH, topic_id=OTHER_ID)),
        controller.sends_order(BROKER, led(BROKER, 1, BOTH, topic_id=OTHER_ID)),
    ]
    for one in waiting:
        ordered.cluster.wait(one)
    ordered.cluster.until(lambda: ordered.role() is not ReplicaRole.LEAVING)
    found = ordered.cluster.core(BROKER).topics.partition(TOPIC, 0)
    # Each has a connection of its own, and comes when it comes: whatever the order, nothing of the one is in the other.
    assert (
        found is None or found.role is ReplicaRole.NONE or (found.topic_id, found.log.log_end_offset) == (OTHER_ID, 0)
    )


def test_an_order_is_carried_out_although_its_connection_ends(ordered: Ordered) -> None:
    ordered.cluster.nodes[BROKER].disk.slow_until_ms = 1e9
    order = ordered.controller.order_to(BROKER, led(BROKER, 0, BOTH))
    cut_off = ordered.cluster.wait(ordered.cluster.send(BROKER, order, timeout_ms=20))
    assert isinstance(cut_off, ChannelError)
    ordered.cluster.nodes[BROKER].disk.slow_until_ms = 0.0
    assert ordered.order(OTHER, 1, BOTH) == [NONE]
    ordered.cluster.rest(5_000)
    assert ordered.role() is ReplicaRole.FOLLOWER


def test_a_topic_that_was_deleted_and_made_again_begins_empty(ordered: Ordered) -> None:
    for number in range(3):
        topic_id = UUID(int=number + 1)
        assert ordered.order(BROKER, 0, BOTH, topic_id=topic_id) == [NONE]
        assert ordered.end == 0
        assert ordered.write(b"a", b"b") is NONE
        assert ordered.stop(EPOCH_DURING_DELETE, delete=True) == [NONE]
        assert ordered.role() is ReplicaRole.NONE
    ordered.cluster.nodes[BROKER].die(power=True)
    ordered.controller.starts(BROKER)
    assert ordered.role() is ReplicaRole.NONE


def test_a_replica_that_is_stopped_and_not_deleted_keeps_its_log(ordered: Ordered) -> None:
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    ordered.write(b"a")
    assert ordered.stop(0, delete=False) == [NONE]
    assert ordered.write(b"b") is ErrorCode.not_leader_or_follower
    assert ordered.order(BROKER, 1, BOTH) == [NONE]
    assert ordered.end == 1


@pytest.mark.parametrize(("epoch", "error"), [(2, ErrorCode.fenced_leader_epoch), (3, NONE), (-1, NONE), (-2, NONE)])
def test_a_stop_of_an_earlier_epoch_is_fenced(ordered: Ordered, epoch: int, error: ErrorCode) -> None:
    """StopReplica v3: "the leader epoch"; -1 is no epoch, -2 that of a topic that is deleted: both pass."""
    assert ordered.order(BROKER, 3, BOTH) == [NONE]
    assert ordered.stop(epoch, delete=True) == [error]
    assert ordered.role() is (ReplicaRole.LEADER if error else ReplicaRole.NONE)


def test_what_is_not_here_is_stopped(ordered: Ordered) -> None:
    assert ordered.stop(0, delete=True, indexes=(0, 5)) == [NONE, NONE]


def test_a_follower_of_nobody_follows_the_leader_that_comes(ordered: Ordered) -> None:
    assert ordered.order(-1, 0, BOTH) == [NONE]
    ordered.cluster.rest(500)
    assert ordered.other.heard == []
    assert ordered.order(OTHER, 1, BOTH) == [NONE]
    ordered.cluster.until(lambda: bool(ordered.other.heard))


def test_an_order_that_brings_no_new_replica_does_not_wait_for_the_disk(ordered: Ordered) -> None:
    assert ordered.order(OTHER, 0, BOTH) == [NONE]
    disk, before_ms = HeldDisk(ordered.cluster.nodes[BROKER].disk, ""), ordered.cluster.queue.now_ms
    assert ordered.order(BROKER, 1, BOTH) == [NONE]
    assert ordered.role() is ReplicaRole.LEADER
    assert ordered.cluster.queue.now_ms - before_ms < 100
    order = ordered.controller.sends_order(BROKER, led(BROKER, 0, BOTH, indexes=(1,)))
    ordered.cluster.rest(1_000)
    assert not order.is_resolved, "a replica that is new is in the journal first"
    disk.go_on()
    assert errors_of(ordered.cluster.wait(order)) == [NONE]


def test_requests_of_an_earlier_controller_are_refused(ordered: Ordered) -> None:
    """STALE_CONTROLLER_EPOCH: "The controller moved to another broker.\""""
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    stale = {"controller_epoch": ordered.controller.epoch - 1, "controller_id": 55}
    for answer in (
        ordered.controller.order(BROKER, led(OTHER, 1, BOTH), **stale),
        ordered.controller.stop(BROKER, stopped(1, delete=True), **stale),
        ordered.controller.update(BROKER, known(OTHER, 1, BOTH), **stale),
    ):
        assert answer.error_code is ErrorCode.stale_controller_epoch
    assert ordered.role() is ReplicaRole.LEADER
    assert ordered.cluster.core(BROKER).view.controller_id == ordered.controller.broker_id


def test_requests_to_an_earlier_life_of_the_broker_are_refused(ordered: Ordered) -> None:
    """KIP-380: STALE_BROKER_EPOCH "if the broker epoch in the request is smaller than the current broker epoch"."""
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    stale = {"broker_epoch": ordered.cluster.epoch(BROKER) - 1}
    for answer in (
        ordered.controller.order(BROKER, led(OTHER, 1, BOTH), **stale),
        ordered.controller.stop(BROKER, stopped(1, delete=True), **stale),
        ordered.controller.update(BROKER, known(OTHER, 1, BOTH), **stale),
    ):
        assert answer.error_code is ErrorCode.stale_broker_epoch
    assert ordered.role() is ReplicaRole.LEADER


def test_a_replica_on_a_failed_disk_is_refused_and_can_be_deleted() -> None:
    one = Ordered()
    assert one.order(BROKER, 0, BOTH, indexes=(0, 1)) == [NONE, NONE]
    partition = one.cluster.partition(BROKER)
    partition.damage = "it is damaged"
    assert one.order(BROKER, 1, BOTH, indexes=(0, 1)) == [ErrorCode.kafka_storage_error, NONE]
    assert one.stop(1, delete=False, indexes=(0, 1)) == [ErrorCode.kafka_storage_error, NONE]
    assert one.stop(1, delete=True, indexes=(0,)) == [NONE]
    assert one.role() is ReplicaRole.NONE


def test_who_steps_down_takes_every_order_for_news(ordered: Ordered) -> None:
    assert ordered.order(BROKER, 3, BOTH) == [NONE]
    membership = ordered.cluster.core(BROKER).metadata.membership
    assert membership is not None
    ordered.cluster.take(membership.replicas.step_down())
    assert ordered.role() is ReplicaRole.FOLLOWER
    assert ordered.write(b"a") is ErrorCode.not_leader_or_follower
    assert ordered.order(BROKER, 3, BOTH) == [NONE]
    assert ordered.write(b"a") is NONE


def test_a_replica_that_was_hosted_is_there_after_a_crash_and_follows_until_it_is_told(ordered: Ordered) -> None:
    ordered.cluster.create(TOPIC, TOPIC_ID, BOTH)
    assert ordered.order(BROKER, 3, BOTH) == [NONE]
    assert ordered.write(b"a") is NONE
    ordered.cluster.nodes[BROKER].die(power=False)
    ordered.controller.starts(BROKER)
    assert ordered.role() is ReplicaRole.FOLLOWER
    assert ordered.end == 1
    assert ordered.order(BROKER, 3, BOTH) == [NONE]
    assert ordered.role() is ReplicaRole.LEADER


def test_coordinator_that_goes_on_leading_loads_nothing_anew(ordered: Ordered) -> None:
    """Kafka's Partition.makeLeader: a leader that has a new epoch is no new leader, and no coordinator is told of it."""
    elections = ordered.cluster.core(BROKER).transactions.elections
    log = {"topic": TRANSACTION_STATE, "topic_id": OTHER_ID}
    assert ordered.order(BROKER, 1, BOTH, **log) == [NONE]
    ordered.cluster.until(lambda: elections.epoch(0) == 1)
    assert ordered.order(BROKER, 2, BOTH, (BROKER,), **log) == [NONE]
    assert elections.epoch(0) == 1
    assert ordered.order(OTHER, 3, BOTH, **log) == [NONE]
    assert ordered.order(BROKER, 4, BOTH, **log) == [NONE]
    ordered.cluster.until(lambda: elections.epoch(0) == 4)


def test_broker_that_has_lost_zookeeper_leads_nothing_while_an_order_waits_for_it(ordered: Ordered) -> None:
    """The settings of a topic that is new here are read there."""
    assert ordered.order(BROKER, 0, BOTH) == [NONE]
    cluster = ordered.cluster
    cluster.ensemble.cut_off(cluster.nodes[BROKER].name, cluster.queue.now_ms + 600_000)
    cluster.rest(500)
    waiting = ordered.controller.sends_order(BROKER, led(BROKER, 0, BOTH, topic="new", topic_id=OTHER_ID))
    cluster.rest(25_000)
    assert not waiting.is_resolved
    assert ordered.role() is not ReplicaRole.LEADER
