"""Topics that are made, grow, and are deleted."""

from __future__ import annotations

from uuid import UUID

from oncelog.cluster.controller.actions import CreatePartitionState, LeaderAndIsrRequest, StopReplicaRequest
from oncelog.cluster.controller.brokers import change_brokers
from oncelog.cluster.controller.topics import change_partitions_of, change_topics, queue_deletions
from oncelog.cluster.controller.values import LEADER_DURING_DELETE, ReplicaAssignment, TopicAssignment
from oncelog.cluster.zookeeper.session import ZooKeeperError


def test_new_partition_is_led_by_its_first_live_replica_and_all_that_live_are_in_sync(cluster, create):
    create("t", (4, 2, 1))
    state = cluster.state("t")
    assert (state.leader, state.leader_epoch, state.isr, state.partition_epoch) == (2, 0, (2, 1), 0)
    cluster.check()


def test_new_partition_is_new_to_its_brokers(cluster):
    one = TopicAssignment(UUID(int=1), {0: ReplicaAssignment((1, 2))})
    cluster.topics["t"] = one
    cluster.run(change_topics(cluster.context, {"t"}, {"t": one}, {}))
    request = cluster.requests(LeaderAndIsrRequest, 1)[0]
    assert request.partitions[0].is_new
    assert request.topic_ids == {"t": UUID(int=1)}


def test_partition_without_live_replica_is_led_when_one_starts(cluster, create):
    create("t", (7, 8))
    assert ("t", 0) not in cluster.states
    cluster.start(8)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert cluster.state("t").leader == 8
    cluster.check()


def test_first_state_that_was_written_before_the_connection_broke_is_taken_for_done(cluster, create):
    def write_and_forget(write):
        if isinstance(write, CreatePartitionState):
            cluster.states[write.partition] = write.state
            return ZooKeeperError.NODE_EXISTS
        return None

    cluster.before_write = write_and_forget
    create("t", (1, 2))
    assert cluster.context.leaders["t", 0] == cluster.state("t")
    cluster.check()


def test_topic_without_id_gets_one(cluster):
    one = TopicAssignment(None, {0: ReplicaAssignment((1,))})
    cluster.topics["t"] = one
    cluster.run(change_topics(cluster.context, {"t"}, {"t": one}, {"t": UUID(int=7)}))
    assert cluster.topics["t"].topic_id == UUID(int=7) == cluster.context.topic_ids["t"]


def test_topic_grows_by_what_its_znode_has_more(cluster, create):
    create("t", (1, 2))
    grown = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 3))}
    cluster.topics["t"] = TopicAssignment(cluster.topics["t"].topic_id, grown)
    cluster.run(change_partitions_of(cluster.context, "t", grown, [0]))
    assert cluster.state("t", 1).leader == 2
    cluster.check()


def test_topic_that_is_deleted_does_not_grow(cluster, create):
    """processPartitionModifications: "Skipping adding partitions ... since it is currently being deleted"."""
    create("t", (1, 4))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    grown = {0: ReplicaAssignment((1, 4)), 1: ReplicaAssignment((2, 3))}
    cluster.topics["t"] = TopicAssignment(cluster.topics["t"].topic_id, grown)
    cluster.run(change_partitions_of(cluster.context, "t", grown, [0]))
    assert cluster.topics["t"].partitions == {0: ReplicaAssignment((1, 4))}


def test_deleted_topic_is_stopped_on_every_replica_and_leaves_nothing_behind(cluster, create):
    create("t", (1, 2), (2, 3))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    assert not cluster.topics
    assert not cluster.states
    assert not cluster.deletions
    assert not any(told.hosted for told in cluster.told.values())
    context = cluster.context
    assert not context.partition_states
    assert not context.replica_states
    assert not context.leaders
    last = cluster.requests(StopReplicaRequest, 2)[-1].partitions
    assert {(one.partition, one.leader_epoch, one.delete) for one in last} == {
        (("t", 0), -2, True),
        (("t", 1), -2, True),
    }


def test_brokers_take_a_topic_that_is_deleted_out_of_their_metadata_first(cluster, create):
    """TopicDeletionManager.onTopicDeletion: UpdateMetadata with LeaderDuringDelete, "so that brokers stop serving data"."""
    create("t", (1,))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    kinds = [type(one).__name__ for one in cluster.sent if one.broker_id == 1]
    assert kinds.index("UpdateMetadataRequest") < kinds.index("StopReplicaRequest")
    assert cluster.told[3].metadata["t", 0].state.leader == LEADER_DURING_DELETE


def test_deletion_waits_for_a_broker_that_is_away(cluster, create):
    create("t", (1, 2))
    cluster.kill(2)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    assert cluster.topics.keys() == {"t"}
    assert not cluster.told[1].hosted
    cluster.start(2)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert not cluster.topics


def test_replica_that_refuses_to_be_deleted_is_asked_again_when_its_broker_is_back(cluster, create):
    create("t", (1, 2))
    cluster.failed_replicas.add((2, ("t", 0)))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    assert cluster.topics
    cluster.start(2)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert not cluster.topics


def test_order_to_delete_what_is_not_there_is_removed(cluster):
    cluster.deletions.add("none")
    cluster.run(queue_deletions(cluster.context, {"none"}))
    assert not cluster.deletions


def test_topic_that_was_deleted_may_be_made_again(cluster, create):
    create("t", (1, 2))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    create("t", (2, 3))
    assert cluster.state("t").leader == 2
    cluster.check()
