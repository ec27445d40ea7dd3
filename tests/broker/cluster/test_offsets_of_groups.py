"""Committed offsets in a cluster: what a coordinator says that others may have followed, and what it records for whom."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cluster_in_memory import SESSION_TIMEOUT_MS
from harness.running_cluster import Reply, RunningCluster
from oncelog.broker import slices
from oncelog.broker.handlers.offset_fetch import TOPICS_AT_ONCE
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.broker.view import LEADER_DURING_DELETE, Leadership
from oncelog.coordination import start
from oncelog.wire import ErrorCode
from tests.broker.cluster.in_memory import make_topic

NONE = ErrorCode.none
GROUP = "tellers"


class Group:
    def __init__(self, cluster: RunningCluster, name: str = GROUP) -> None:
        self.cluster, self.name = cluster, name

    def coordinator(self, asked: int = 0) -> int:
        def found() -> Any:
            return self.cluster.answer_of(asked, "find_coordinator", 3, key=self.name, key_type=0)

        self.cluster.until(lambda: found().error_code is NONE)
        node_id: int = found().node_id
        return node_id

    def commits(self, broker_id: int, **offsets: int) -> Reply:
        topics = [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": None,
                    }
                ],
            }
            for name, offset in offsets.items()
        ]
        return self.cluster.call(
            broker_id,
            "offset_commit",
            7,
            group_id=self.name,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=topics,
        )

    def commit(self, broker_id: int, **offsets: int) -> list[ErrorCode]:
        answer = self.cluster.answer(self.commits(broker_id, **offsets))
        return [topic.partitions[0].error_code for topic in answer.topics]

    def fetches(self, broker_id: int, *topics: str, version: int = 7) -> Reply:
        asked = [{"name": name, "partition_indexes": [0]} for name in topics]
        if version < 8:
            fields: dict[str, Any] = {"group_id": self.name, "topics": asked}
        else:
            fields = {"groups": [{"group_id": self.name, "topics": asked}]}
        return self.cluster.call(broker_id, "offset_fetch", version, require_stable=True, **fields)

    def fetch(self, broker_id: int, topic: str) -> int | ErrorCode:
        answer = self.cluster.answer(self.fetches(broker_id, topic))
        (found,) = answer.topics
        error: ErrorCode = answer.error_code
        return found.partitions[0].committed_offset if error is NONE else error


def test_coordinator_that_others_may_have_followed_says_nothing():
    """Its successor has more: who reads here begins where records were processed already.

    The session ends when ZooKeeper has heard nothing for as long as it lasts; the client knows of that later.
    """
    cluster = RunningCluster(3, offsets_topic_replication_factor="3", min_insync_replicas="2")
    names = (f"group-{number}" for number in range(50))
    group = next(one for name in names if (one := Group(cluster, name)).coordinator() != cluster.controller)
    before = group.coordinator()
    make_topic(cluster, (next(node_id for node_id in range(3) if node_id != before),), name="t")
    assert group.commit(before, t=5) == [NONE]
    cluster.rest(SESSION_TIMEOUT_MS)
    cluster.ensemble.cut_off(cluster.nodes[before].name, float("inf"), silently=True)
    cluster.until(lambda: group.coordinator(cluster.controller) != before)
    after = group.coordinator(cluster.controller)
    cluster.until(lambda: group.commit(after, t=10) == [NONE])
    assert group.fetch(before, "t") is ErrorCode.not_coordinator
    assert group.fetch(after, "t") == 10


def test_coordinator_that_goes_on_after_a_pause_says_nothing_before_it_has_heard_of_zookeeper():
    """What clients have sent meanwhile may come before any timer does."""
    cluster = RunningCluster(3, offsets_topic_replication_factor="3", min_insync_replicas="2")
    group = Group(cluster)
    before = group.coordinator()
    make_topic(cluster, (next(node_id for node_id in range(3) if node_id != before),), name="t")
    assert group.commit(before, t=5) == [NONE]
    process = cluster.nodes[before].process
    process.paused_until_ms = cluster.queue.now_ms + 3 * SESSION_TIMEOUT_MS
    cluster.rest(3 * SESSION_TIMEOUT_MS - 1)
    # The queue of the simulation lets nothing run there: this is what the process does first when it goes on.
    assert group.fetches(before, "t").message.error_code is ErrorCode.not_coordinator
    cluster.until(lambda: all(cluster.epoch(one) >= 0 for one in range(3)))
    cluster.until(lambda: group.fetch(group.coordinator(), "t") == 5)


@pytest.mark.parametrize("version", [7, 8])
def test_offsets_that_are_told_are_of_one_moment(version, monkeypatch):
    """A coordinator that resigns in the midst of the answer says of no partition that nothing is committed."""
    cluster = RunningCluster(3, offsets_topic_replication_factor="3")
    group = Group(cluster)
    coordinator = group.coordinator()
    names = [f"t{number:02}" for number in range(TOPICS_AT_ONCE + 4)]
    for name in names:
        make_topic(cluster, (coordinator,), name=name)
    assert set(group.commit(coordinator, **dict.fromkeys(names, 42))) == {NONE}
    monkeypatch.setattr(slices, "SLICE_MS", 0)
    asked = group.fetches(coordinator, *names, version=version)
    assert not asked.came
    start(cluster.core(coordinator).membership.replicas.step_down())
    answer = cluster.answer(asked)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    assert {one.partitions[0].committed_offset for one in topics} == {42}


def test_offset_of_a_topic_that_is_deleted_while_the_commit_rests_is_not_recorded(monkeypatch):
    """The next topic of that name must not find it."""
    cluster = RunningCluster(3, offsets_topic_replication_factor="3")
    group = Group(cluster)
    coordinator = group.coordinator()
    other = next(node_id for node_id in range(3) if node_id != coordinator)
    for name in ("goes", "stays"):
        make_topic(cluster, (other,), name=name)
    topics = cluster.core(coordinator).shared_topics
    monkeypatch.setattr(slices, "SLICE_MS", 0)
    asked = group.commits(coordinator, goes=42, stays=1)
    assert not asked.came
    deleted = Leadership(LEADER_DURING_DELETE, 1, (other,), (other,))
    topics.learn("goes", topics.named("goes").topic_id, {0: deleted})
    answer = cluster.answer(asked)
    assert [topic.partitions[0].error_code for topic in answer.topics] == [ErrorCode.unknown_topic_or_partition, NONE]
    assert (group.fetch(coordinator, "goes"), group.fetch(coordinator, "stays")) == (-1, 1)


def test_commit_that_too_few_replicas_could_acknowledge_is_refused():
    """Kafka's coordinators write with acks=all: NOT_ENOUGH_REPLICAS is told as COORDINATOR_NOT_AVAILABLE."""
    cluster = RunningCluster(3, offsets_topic_replication_factor="3", min_insync_replicas="2")
    group = Group(cluster)
    coordinator = group.coordinator()
    make_topic(cluster, (coordinator,), name="t", min_insync_replicas="1")
    assert group.commit(coordinator, t=5) == [NONE]
    for node_id in range(3):
        if node_id != coordinator:
            cluster.nodes[node_id].die(power=False)
    home = cluster.core(coordinator).offsets.partition_for(GROUP)
    partition = cluster.core(coordinator).topics.partition(CONSUMER_OFFSETS, home)
    cluster.until(lambda: partition.leading.refuses() is not None)
    assert group.commit(coordinator, t=10) == [ErrorCode.coordinator_not_available]
    assert group.fetch(coordinator, "t") == 5
