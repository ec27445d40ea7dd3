"""Topics that are deleted, and made again, while a broker is away: what it says of them, and what groups find there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from harness.running_cluster import RunningCluster
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.broker.view import LEADER_DURING_DELETE, Leadership
from oncelog.cluster.zookeeper.session import Create
from oncelog.cluster.zookeeper.znodes import paths
from oncelog.coordination import start
from oncelog.groups import ANYONE, OffsetToCommit
from oncelog.wire import ErrorCode
from tests.cluster.in_memory import MINUTE, TOPIC, make_topic
from tests.cluster.test_offsets_of_groups import Group

NONE = ErrorCode.none


def delete(cluster: RunningCluster, *names: str) -> None:
    for name in names:
        cluster.submit(Create(paths.delete_topic(name)))
    for name in names:
        cluster.until(lambda name=name: cluster.ensemble.tree.node(paths.topic(name)) is None)


def creates(cluster: RunningCluster, broker_id: int, name: str, *replicas: Sequence[int]) -> Any:
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": index, "broker_ids": brokers} for index, brokers in enumerate(replicas)],
        "configs": [],
    }
    return cluster.call(broker_id, "create_topics", 5, topics=[topic], timeout=MINUTE, validate_only=False)


def create(cluster: RunningCluster, broker_id: int, name: str, *replicas: Sequence[int]) -> ErrorCode:
    error: ErrorCode = cluster.answer(creates(cluster, broker_id, name, *replicas)).topics[0].error_code
    return error


def deletes(cluster: RunningCluster, broker_id: int, *names: str) -> Any:
    topics = [{"name": name, "topic_id": None} for name in names]
    return cluster.call(broker_id, "delete_topics", 6, topics=topics, timeout=MINUTE)


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_name_is_free_for_who_was_told_that_its_topic_is_deleted(validate_only: bool) -> None:
    """As with a broker that is alone. Kafka over ZooKeeper refuses it until the last replica is gone."""
    cluster = RunningCluster(3)
    controller = cluster.controller
    make_topic(cluster, (0, 1, 2), (1, 2, 0), name="t")
    (gone,) = cluster.answer(deletes(cluster, controller, "t")).responses
    assert (gone.error_code, cluster.ensemble.tree.node(paths.delete_topic("t")) is None) == (NONE, False)
    asked = {"name": "t", "num_partitions": 1, "replication_factor": 3, "assignments": [], "configs": []}
    answer = cluster.answer_of(
        controller, "create_topics", 7, topics=[asked], timeout=MINUTE, validate_only=validate_only
    )
    assert (answer.topics[0].error_code, answer.topics[0].error_message) == (NONE, None)
    assert (answer.topics[0].topic_id in (None, gone.topic_id)) is validate_only
    if not validate_only:
        cluster.until(lambda: (state := cluster.state("t")) is not None and len(state.isr) == 3)


def test_a_name_whose_topic_waits_for_a_broker_that_is_away_is_refused_at_once() -> None:
    cluster = RunningCluster(3)
    controller = cluster.controller
    away = next(one for one in cluster.nodes if one != controller)
    make_topic(cluster, (controller, away), name="t")
    cluster.nodes[away].die(power=False)
    cluster.until(lambda: cluster.ensemble.tree.node(paths.broker(away)) is None)
    cluster.until(lambda: len(cluster.core(controller).view.at("PLAINTEXT").brokers()) == 2)
    assert cluster.answer(deletes(cluster, controller, "t")).responses[0].error_code is NONE
    began_ms = cluster.queue.now_ms
    assert create(cluster, controller, "t", (controller,)) is ErrorCode.topic_already_exists
    assert cluster.queue.now_ms - began_ms < 1_000


def described(cluster: RunningCluster, broker_id: int, *topics: str | UUID) -> list[Any]:
    """What Metadata says of these topics, or of all."""
    asked = [
        {"name": None, "topic_id": one} if isinstance(one, UUID) else {"name": one, "topic_id": None} for one in topics
    ]
    answer = cluster.answer_of(
        broker_id,
        "metadata",
        12,
        topics=asked or None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return list(answer.topics)


def leave_over(cluster: RunningCluster, *partitions: int) -> tuple[int, int, int]:
    """A topic is deleted while a broker is away that has replicas which were given to another one: the controller, that and it."""
    controller = cluster.controller
    stays, goes = (node_id for node_id in range(3) if node_id != controller)
    make_topic(cluster, *((stays, goes) for _ in partitions))
    cluster.nodes[goes].die(power=False)
    cluster.until(lambda: cluster.ensemble.tree.node(paths.broker(goes)) is None)
    moved = [{"partition_index": index, "replicas": (stays,)} for index in partitions]
    cluster.answer_of(
        controller,
        "alter_partition_reassignments",
        0,
        timeout=MINUTE,
        topics=[{"name": TOPIC, "partitions": moved}],
    )
    cluster.until(lambda: all(set(cluster.state(TOPIC, index).isr) == {stays} for index in partitions))
    delete(cluster, TOPIC)
    cluster.start_served(goes)
    cluster.rest(1_000)
    return controller, stays, goes


def test_topic_of_which_a_replica_is_left_over_is_not_there():
    """Nobody tells the broker to delete it: it is known by its name no more."""
    cluster = RunningCluster(3)
    _, stays, had_it = leave_over(cluster, 0)
    assert cluster.core(had_it).metadata.shared_topics.replica(TOPIC, 0) is not None
    assert (described(cluster, had_it), described(cluster, stays)) == ([], [])


def test_broker_starts_with_replicas_of_two_topics_of_one_name():
    """The older one is left over: it is named first, and the name is taken from it while no coordinator is there yet."""
    cluster = RunningCluster(3)
    controller, _, had_it = leave_over(cluster, 0, 1)
    assert create(cluster, controller, TOPIC, (had_it,)) is NONE

    def leads() -> bool:
        partition = cluster.core(had_it).topics.partition(TOPIC, 0)
        return partition is not None and partition.role is ReplicaRole.LEADER

    cluster.until(leads)
    cluster.rest(1_000)
    left_over = cluster.core(had_it).metadata.shared_topics.replica(TOPIC, 1).topic_id
    assert left_over != cluster.core(had_it).topics.named(TOPIC).topic_id
    cluster.nodes[had_it].die(power=False)
    cluster.start_served(had_it)
    cluster.until(leads)
    assert cluster.core(had_it).topics.named(TOPIC).topic_id != left_over


def make_controller(cluster: RunningCluster, broker_id: int) -> None:
    others = [node_id for node_id in cluster.nodes if node_id != broker_id]
    for node_id in others:
        cluster.nodes[node_id].die(power=False)
    cluster.until(lambda: cluster.core(broker_id).metadata.controller.is_active)
    cluster.start_served(*others)


def test_topic_of_which_the_controller_has_a_replica_left_over_is_made_again():
    cluster = RunningCluster(3)
    _, stays, had_it = leave_over(cluster, 0)
    make_controller(cluster, had_it)
    assert create(cluster, had_it, TOPIC, (stays, had_it)) is NONE


def test_order_to_delete_a_topic_by_the_id_of_the_one_before_is_refused():
    cluster = RunningCluster(3)
    _, stays, had_it = leave_over(cluster, 0)
    make_controller(cluster, had_it)
    assert create(cluster, had_it, TOPIC, (stays,)) is NONE
    before = cluster.core(had_it).metadata.shared_topics.replica(TOPIC, 0).topic_id
    assert before != cluster.core(had_it).topics.named(TOPIC).topic_id
    answer = cluster.answer_of(had_it, "delete_topics", 6, topics=[{"name": None, "topic_id": before}], timeout=MINUTE)
    assert [one.error_code for one in answer.responses] == [ErrorCode.unknown_topic_id]
    assert cluster.ensemble.tree.node(paths.delete_topic(TOPIC)) is None


def test_topic_whose_partitions_are_not_known_yet_is_asked_for_again():
    """Without an error a client would take it for one that has no partitions: what is left over has to go first."""
    cluster = RunningCluster(3)
    controller, stays, had_it = leave_over(cluster, 0, 1)
    cluster.nodes[had_it].disk.slow_until_ms = cluster.queue.now_ms + 3_000
    made = creates(cluster, controller, TOPIC, (stays, had_it), (stays, had_it))
    cluster.until(lambda: cluster.core(had_it).topics.named(TOPIC) is not None)
    (found,) = described(cluster, had_it, TOPIC)
    assert (found.error_code, found.partitions) == (ErrorCode.leader_not_available, ())
    assert cluster.answer(made).topics[0].error_code is NONE

    def leaders() -> list[int]:
        return [one.leader_id for one in described(cluster, had_it, TOPIC)[0].partitions]

    cluster.until(lambda: leaders() == [stays, stays])
    assert described(cluster, had_it, TOPIC)[0].error_code is NONE


def test_topic_whose_deletion_waits_for_a_dead_broker_is_not_there():
    """UNKNOWN_TOPIC_OR_PARTITION in Kafka. A controller that has not begun the deletion leaves the replicas where they are."""
    cluster = RunningCluster(4)
    controller = cluster.controller
    dies, *others = (node_id for node_id in range(4) if node_id != controller)
    make_topic(cluster, (*others, dies), name="goes")
    make_topic(cluster, others, name="stays")
    topic_id = cluster.core(others[0]).topics.named("goes").topic_id
    cluster.nodes[dies].die(power=False)
    cluster.until(lambda: cluster.ensemble.tree.node(paths.broker(dies)) is None)
    cluster.nodes[controller].die(power=False)
    cluster.submit(Create(paths.delete_topic("goes")))
    partitions = [cluster.partition(one, "goes") for one in others]
    cluster.until(lambda: all(one.leadership.leader < 0 for one in partitions))
    assert all(one.is_readable for one in partitions)
    for one in others:
        assert [topic.name for topic in described(cluster, one)] == ["stays"]
        by_name, by_id = described(cluster, one, "goes", topic_id)
        assert (by_name.error_code, by_name.partitions) == (ErrorCode.unknown_topic_or_partition, ())
        assert (by_id.error_code, by_id.partitions) == (ErrorCode.unknown_topic_id, ())
        resource = {"resource_type": 2, "resource_name": "goes", "configuration_keys": None}
        answer = cluster.answer_of(one, "describe_configs", 1, resources=[resource], include_synonyms=False)
        assert answer.results[0].error_code is ErrorCode.unknown_topic_or_partition
    (active,) = (one for one in others if cluster.core(one).metadata.controller.is_active)
    answer = cluster.answer_of(active, "elect_leaders", 1, election_type=0, topic_partitions=None, timeout=MINUTE)
    assert answer.replica_election_results == ()


class Away:
    """The coordinator of a group is parted from ZooKeeper while a topic is deleted for which offsets were committed."""

    def __init__(self, *, with_ids: bool = True) -> None:
        self.cluster = cluster = RunningCluster(3, offsets_topic_replication_factor="1")
        groups = (Group(cluster, f"group-{number}") for number in range(60))
        self.group = next(one for one in groups if one.coordinator() != cluster.controller)
        self.coordinator = self.group.coordinator()
        self.other = next(one for one in range(3) if one not in (self.coordinator, cluster.controller))
        make_topic(cluster, (self.other,))
        cluster.core(self.coordinator).offsets.coordinator.stores_topic_ids = with_ids
        assert self.group.commit(self.coordinator, t=42) == [NONE]
        self.topic_id = cluster.core(self.coordinator).topics.named(TOPIC).topic_id
        self._epoch = cluster.epoch(self.coordinator)
        cluster.ensemble.cut_off(cluster.nodes[self.coordinator].name, cluster.queue.now_ms + 12_000)
        cluster.until(lambda: cluster.ensemble.tree.node(paths.broker(self.coordinator)) is None)
        delete(cluster, TOPIC)

    def make_again(self) -> None:
        assert create(self.cluster, self.cluster.controller, TOPIC, (self.other,)) is NONE

    def come_back(self) -> None:
        cluster = self.cluster
        cluster.until(lambda: cluster.epoch(self.coordinator) > self._epoch)
        cluster.until(lambda: cluster.core(self.coordinator).offsets.error(self.group.name) is NONE)
        cluster.rest(2_000)

    def commit_by_id(self) -> ErrorCode:
        offset = {"partition_index": 0, "committed_offset": 777, "committed_leader_epoch": -1, "committed_metadata": ""}
        answer = self.cluster.answer_of(
            self.coordinator,
            "offset_commit",
            10,
            group_id=self.group.name,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"topic_id": self.topic_id, "partitions": [offset]}],
        )
        error: ErrorCode = answer.topics[0].partitions[0].error_code
        return error

    def fetch_by_id(self) -> ErrorCode:
        asked = {"group_id": self.group.name, "topics": [{"topic_id": self.topic_id, "partition_indexes": [0]}]}
        answer = self.cluster.answer_of(self.coordinator, "offset_fetch", 10, groups=[asked], require_stable=True)
        error: ErrorCode = answer.groups[0].topics[0].partitions[0].error_code
        return error


def test_id_of_a_topic_that_was_made_again_meanwhile_is_not_known():
    """What is committed by the old id is not for the new topic."""
    away = Away()
    away.make_again()
    away.come_back()
    assert away.commit_by_id() is ErrorCode.unknown_topic_id
    assert away.fetch_by_id() is ErrorCode.unknown_topic_id
    assert [one.error_code for one in described(away.cluster, away.coordinator, away.topic_id)] == [
        ErrorCode.unknown_topic_id
    ]
    assert away.group.fetch(away.coordinator, TOPIC) != 777


@pytest.mark.parametrize("with_ids", [True, False])
def test_offsets_of_a_topic_that_was_deleted_meanwhile_are_forgotten(with_ids):
    """Brokers of Apache Kafka 3.9 record no id."""
    away = Away(with_ids=with_ids)
    away.come_back()
    assert away.group.fetch(away.coordinator, TOPIC) == -1
    away.make_again()
    assert away.group.fetch(away.coordinator, TOPIC) == -1


def test_offsets_of_a_topic_that_was_made_again_meanwhile_are_forgotten():
    away = Away()
    away.make_again()
    away.come_back()
    assert away.group.fetch(away.coordinator, TOPIC) == -1


class Failover:
    """The coordinator of a group dies; another one will lead when its session is over."""

    def __init__(self) -> None:
        self.cluster = cluster = RunningCluster(3, offsets_topic_replication_factor="3", min_insync_replicas="2")
        groups = (Group(cluster, f"group-{number}") for number in range(60))
        self.group = next(one for one in groups if one.coordinator() != cluster.controller)
        self.dies = self.group.coordinator()
        self.controller = cluster.controller
        self.other = next(one for one in range(3) if one not in (self.dies, self.controller))
        for name in (TOPIC, "stays"):
            make_topic(cluster, (self.other,), name=name, min_insync_replicas="1")
        assert self.group.commit(self.dies, t=42, stays=7) == [NONE, NONE]
        # Every replica has it.
        cluster.rest(3_000)
        cluster.nodes[self.dies].die(power=False)

    @property
    def is_counted_alive(self) -> bool:
        return self.cluster.ensemble.tree.node(paths.broker(self.dies)) is not None

    def make_again(self) -> None:
        is_known = [core.core for one, core in self.cluster.nodes.items() if one != self.dies]
        self.cluster.until(lambda: all(core.topics.named(TOPIC) is None for core in is_known))
        assert create(self.cluster, self.controller, TOPIC, (self.other,)) is NONE

    def follow(self, *, rests: bool = True) -> int:
        """The next coordinator. Before a rest it has not asked yet what was deleted."""
        cluster = self.cluster
        cluster.until(lambda: self.group.coordinator(self.controller) != self.dies)
        found = self.group.coordinator(self.controller)
        cluster.until(lambda: cluster.core(found).offsets.error(self.group.name) is NONE)
        if rests:
            cluster.rest(1_000)
        return found


@pytest.mark.parametrize("made_again_before", [True, False])
def test_offsets_of_a_topic_that_was_deleted_while_nobody_coordinated_the_group_are_forgotten(made_again_before):
    """Whoever becomes the coordinator was told of the deletion when it knew nothing of the group."""
    failover = Failover()
    delete(failover.cluster, TOPIC)
    if made_again_before:
        failover.make_again()
    assert failover.is_counted_alive
    after = failover.follow()
    if not made_again_before:
        failover.make_again()
    assert (failover.group.fetch(after, TOPIC), failover.group.fetch(after, "stays")) == (-1, 7)


def test_offsets_that_were_committed_for_a_topic_since_it_was_made_again_stay():
    failover = Failover()
    delete(failover.cluster, TOPIC)
    failover.make_again()
    after = failover.follow()
    assert failover.group.commit(after, t=3) == [NONE]
    failover.cluster.start_served(failover.dies)
    failover.cluster.rest(3_000)
    failover.cluster.nodes[after].die(power=False)
    failover.dies = after
    failover.controller = next(one for one in range(3) if one != after)
    assert failover.group.fetch(failover.follow(), TOPIC) == 3


@pytest.mark.parametrize("committed", [True, False])
def test_offset_of_a_deleted_topic_does_not_outlive_the_transaction_that_was_to_replace_it(committed):
    """The transaction has committed for the new topic before its coordinator has heard that there was another."""
    failover = Failover()
    cluster, group = failover.cluster, failover.group
    delete(cluster, TOPIC)
    failover.make_again()
    after = failover.follow(rests=False)
    core = cluster.core(after)
    wanted = OffsetToCommit(TOPIC, core.topics.named(TOPIC).topic_id, 0, 3)
    answered = start(core.offsets.commit_in_transaction(group.name, ANYONE, [wanted], (7, 0)))
    cluster.until(lambda: answered.is_resolved)
    cluster.rest(1_000)
    home = core.offsets.partition_for(group.name)
    of_old_topic = core.offsets.coordinator.offsets.of_group(group.name)[TOPIC, 0]
    assert of_old_topic.committed.offset == 42
    marker = {
        "producer_id": 7,
        "producer_epoch": 0,
        "transaction_result": committed,
        "topics": [{"name": CONSUMER_OFFSETS, "partition_indexes": [home]}],
        "coordinator_epoch": 0,
    }
    answer = cluster.answer_of(after, "write_txn_markers", 1, markers=[marker])
    assert answer.markers[0].topics[0].partitions[0].error_code is NONE
    cluster.rest(1_000)
    assert (group.fetch(after, TOPIC), group.fetch(after, "stays")) == (3 if committed else -1, 7)


def test_nothing_is_committed_for_a_topic_that_is_being_deleted():
    """UNKNOWN_TOPIC_OR_PARTITION in Kafka, whose brokers forget the partition when they are told -2. A replica is here still."""
    cluster = RunningCluster(3, offsets_topic_replication_factor="3")
    group = Group(cluster)
    coordinator = group.coordinator()
    for name in (TOPIC, "stays"):
        make_topic(cluster, (coordinator,), name=name)
    assert group.commit(coordinator, t=42) == [NONE]
    topics = cluster.core(coordinator).metadata.shared_topics
    led = topics.partition(TOPIC, 0).leadership
    topics.learn(TOPIC, topics.named(TOPIC).topic_id, {0: Leadership(LEADER_DURING_DELETE, 1, (0,), (0,))})
    assert topics.replica(TOPIC, 0).is_readable
    assert group.commit(coordinator, t=43, stays=1) == [ErrorCode.unknown_topic_or_partition, NONE]
    assert group.fetch(coordinator, TOPIC) == -1
    # The next controller may give the deletion up.
    topics.learn(TOPIC, topics.named(TOPIC).topic_id, {0: led})
    assert group.commit(coordinator, t=44) == [NONE]
