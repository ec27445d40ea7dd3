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
from oncelog.groups import ANYONE, OffsetToCommit
from oncelog.wire import ErrorCode
from tests.cluster.in_memory import MINUTE, make_topic

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

    def commits(self, broker_id: int, member_id: str = "", generation: int = -1, **offsets: int) -> Reply:
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
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=None,
            topics=topics,
        )

    def refused_commit(self, broker_id: int) -> ErrorCode:
        """Of a member that there is not."""
        reply = self.commits(broker_id, "nobody", 3, t=11)
        error: ErrorCode = reply.message.topics[0].partitions[0].error_code
        return error

    def commit(self, broker_id: int, **offsets: int) -> list[ErrorCode]:
        answer = self.cluster.answer(self.commits(broker_id, **offsets))
        return [topic.partitions[0].error_code for topic in answer.topics]

    def joins(self, broker_id: int, member_id: str = "") -> Reply:
        return self.cluster.call(
            broker_id,
            "join_group",
            4,
            group_id=self.name,
            session_timeout=MINUTE,
            rebalance_timeout=MINUTE,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )

    def syncs(self, broker_id: int, member_id: str, generation: int) -> Reply:
        return self.cluster.call(
            broker_id,
            "sync_group",
            3,
            group_id=self.name,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=None,
            assignments=[{"member_id": member_id, "assignment": b"all"}],
        )

    def leaves(self, broker_id: int, member_id: str, version: int) -> Reply:
        member = {"member_id": member_id}
        leaving = member if version < 3 else {"members": [member | {"group_instance_id": None}]}
        return self.cluster.call(broker_id, "leave_group", version, group_id=self.name, **leaving)

    def fetches(self, broker_id: int, *topics: str, version: int = 7) -> Reply:
        asked = [{"name": name, "partition_indexes": [0]} for name in topics]
        if version < 8:
            fields: dict[str, Any] = {"group_id": self.name, "topics": asked}
        else:
            fields = {"groups": [{"group_id": self.name, "topics": asked}]}
        if version >= 7:
            fields["require_stable"] = True
        return self.cluster.call(broker_id, "offset_fetch", version, **fields)

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
    start(cluster.core(coordinator).metadata.membership.replicas.step_down())
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
    topics = cluster.core(coordinator).metadata.shared_topics
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


class Replicated:
    """Two groups of one partition of `__consumer_offsets`, of which three brokers have replicas."""

    def __init__(self, **settings: str) -> None:
        self.cluster = cluster = RunningCluster(
            3, offsets_topic_replication_factor="3", min_insync_replicas="2", **settings
        )
        groups = [Group(cluster, f"group-{number}") for number in range(60)]
        self.group = next(one for one in groups if one.coordinator() != cluster.controller)
        self.coordinator = self.group.coordinator()
        self.others = [one for one in range(3) if one != self.coordinator]
        partition_for = cluster.core(self.coordinator).offsets.partition_for
        home = partition_for(self.group.name)
        self.neighbour = next(one for one in groups if partition_for(one.name) == home and one is not self.group)
        for name in ("t", "u"):
            make_topic(cluster, (self.others[0],), name=name, min_insync_replicas="1")
        for group in (self.group, self.neighbour):
            assert group.commit(self.coordinator, t=5) == [NONE]
        cluster.rest(1_000)

    def hold(self, *brokers: int) -> None:
        """They fetch no more."""
        for one in brokers:
            self.cluster.hold(one)
        # What they have asked for is answered first.
        self.cluster.rest(1_000)

    def let_go(self, *brokers: int) -> None:
        for one in brokers:
            self.cluster.let_go(one)


def test_offset_that_others_do_not_have_yet_is_not_told():
    """Should the coordinator die, it is gone. Kafka's tells it once the append is acknowledged."""
    world = Replicated()
    cluster, group = world.cluster, world.group
    world.hold(*world.others)
    committed = group.commits(world.coordinator, t=10)
    told = [group.fetches(world.coordinator, "t", version=version) for version in (1, 7, 8)]
    cluster.rest(200)
    assert [one.came for one in (committed, *told)] == [False] * 4
    world.let_go(*world.others)
    assert cluster.answer(committed).topics[0].partitions[0].error_code is NONE
    first, second, third = map(cluster.answer, told)
    found = (first.topics[0], second.topics[0], third.groups[0].topics[0])
    assert [one.partitions[0].committed_offset for one in found] == [10, 10, 10]


def test_offset_that_is_lost_with_its_coordinator_was_never_told():
    world = Replicated()
    cluster, group = world.cluster, world.group
    world.hold(*world.others)
    group.commits(world.coordinator, t=10)
    told = group.fetches(world.coordinator, "t")
    cluster.rest(100)
    cluster.nodes[world.coordinator].die(power=False)
    world.let_go(*world.others)
    asked = world.others[0]
    cluster.until(lambda: group.coordinator(asked) != world.coordinator)
    after = group.coordinator(asked)
    cluster.until(lambda: group.fetch(after, "t") == 5)
    assert not told.came


def test_offset_that_others_do_not_get_for_long_sends_the_reader_to_look_for_the_coordinator():
    """NOT_COORDINATOR from Kafka's new coordinator after offsets.commit.timeout.ms: every client asks again."""
    world = Replicated()
    cluster, group = world.cluster, world.group
    world.hold(*world.others)
    group.commits(world.coordinator, t=10)
    told = [group.fetches(world.coordinator, "t", version=version) for version in (1, 7, 8)]
    cluster.rest(4_900)
    assert not any(one.came for one in told)
    cluster.rest(200)
    first, second, third = (one.message for one in told)
    assert first.topics[0].partitions[0].error_code is ErrorCode.not_coordinator
    assert [second.error_code, third.groups[0].error_code] == [ErrorCode.not_coordinator] * 2


def test_commit_that_others_do_not_get_in_time_is_answered_and_its_offset_told_once_they_have_it():
    """As long as Kafka's coordinators wait: the heartbeats of the member come behind it on the same connection."""
    world = Replicated(offsets_commit_timeout_ms="2000")
    cluster, group = world.cluster, world.group
    core = cluster.core(world.coordinator)
    wanted = OffsetToCommit("t", core.topics.named("t").topic_id, 0, 12)
    world.hold(*world.others)
    committed = group.commits(world.coordinator, t=10)
    in_transaction = start(core.offsets.commit_in_transaction(group.name, ANYONE, [wanted], (7, 0)))
    cluster.rest(1_900)
    assert not committed.came
    assert not in_transaction.is_resolved
    cluster.rest(200)
    assert committed.message.topics[0].partitions[0].error_code is ErrorCode.coordinator_not_available
    assert in_transaction.value == (ErrorCode.coordinator_not_available,)
    told = group.fetches(world.coordinator, "t", version=1)
    assert not told.came
    world.let_go(*world.others)
    assert cluster.answer(told).topics[0].partitions[0].committed_offset == 10
    assert group.commit(world.coordinator, t=11) == [NONE]


def test_member_whose_generation_others_do_not_get_in_time_is_answered():
    world = Replicated(offsets_commit_timeout_ms="2000")
    cluster, group = world.cluster, world.group
    member_id = group.joins(world.coordinator).message.member_id
    joined = cluster.answer(group.joins(world.coordinator, member_id))
    world.hold(*world.others)
    synced = group.syncs(world.coordinator, member_id, joined.generation_id)
    cluster.rest(1_900)
    assert not synced.came
    cluster.rest(200)
    assert synced.message.error_code is ErrorCode.coordinator_not_available
    world.let_go(*world.others)
    again = cluster.answer(group.syncs(world.coordinator, member_id, joined.generation_id))
    assert (again.error_code, again.assignment) == (NONE, b"all")


@pytest.mark.parametrize("version", [2, 4])
def test_member_that_leaves_is_answered_where_others_do_not_get_that_in_time(version):
    world = Replicated(offsets_commit_timeout_ms="2000")
    cluster, group = world.cluster, world.group
    member_id = group.joins(world.coordinator).message.member_id
    joined = cluster.answer(group.joins(world.coordinator, member_id))
    cluster.answer(group.syncs(world.coordinator, member_id, joined.generation_id))
    world.hold(*world.others)
    left = group.leaves(world.coordinator, member_id, version)
    cluster.rest(2_100)
    assert left.message.error_code is ErrorCode.coordinator_not_available
    assert not getattr(left.message, "members", ())
    world.let_go(*world.others)
    again = cluster.answer(group.leaves(world.coordinator, member_id, version))
    told = again.error_code if version < 3 else again.members[0].error_code
    assert told is ErrorCode.unknown_member_id


@pytest.mark.parametrize("committed", [True, False])
def test_end_of_a_transaction_that_others_do_not_have_yet_is_not_told(committed):
    world = Replicated()
    cluster, group = world.cluster, world.group
    core = cluster.core(world.coordinator)
    wanted = OffsetToCommit("t", core.topics.named("t").topic_id, 0, 10)
    added = start(core.offsets.commit_in_transaction(group.name, ANYONE, [wanted], (7, 0)))
    cluster.until(lambda: added.is_resolved)
    world.hold(*world.others)
    home = core.topics.partition(CONSUMER_OFFSETS, core.offsets.partition_for(group.name))
    assert core.transactions.markers.write(home, 7, 0, 0, 0, committed=committed) is NONE
    told = group.fetches(world.coordinator, "t")
    cluster.rest(200)
    assert not told.came
    world.let_go(*world.others)
    assert cluster.answer(told).topics[0].partitions[0].committed_offset == (10 if committed else 5)


def test_who_has_nothing_to_record_does_not_wait_for_what_is_recorded_of_others():
    """Kafka's coordinator answers them at once. Below min.insync.replicas the wait lasts until a broker is back."""
    world = Replicated()
    world.hold(*world.others)
    committed = world.group.commits(world.coordinator, t=10)
    for group in (world.group, world.neighbour):
        assert group.joins(world.coordinator).message.error_code is ErrorCode.member_id_required
    assert world.neighbour.fetches(world.coordinator, "t").message.topics[0].partitions[0].committed_offset == 5
    assert world.neighbour.refused_commit(world.coordinator) is ErrorCode.unknown_member_id
    assert not committed.came


def test_next_coordinator_tells_what_it_has_below_the_high_watermark_and_waits_with_the_rest():
    """Two of three brokers are gone: the high watermark stays where the third found it."""
    world = Replicated()
    cluster, group, neighbour = world.cluster, world.group, world.neighbour
    held, survivor = world.others
    world.hold(held)
    group.commits(world.coordinator, t=10)
    cluster.rest(1_000)
    for one in (held, world.coordinator):
        cluster.nodes[one].die(power=False)
    core = cluster.core(survivor)
    cluster.until(lambda: core.offsets.error(group.name) is NONE)
    home = core.topics.partition(CONSUMER_OFFSETS, core.offsets.partition_for(group.name))
    assert home.log.high_watermark < home.log.log_end_offset
    assert neighbour.fetches(survivor, "t").message.topics[0].partitions[0].committed_offset == 5
    assert neighbour.joins(survivor).message.error_code is ErrorCode.member_id_required
    told = group.fetches(survivor, "t")
    cluster.rest(1_000)
    assert not told.came
    cluster.start_served(held)
    world.let_go(held)
    cluster.until(lambda: group.fetch(survivor, "t") == 10)


@pytest.mark.parametrize("is_coordinated_here", [True, False])
def test_offsets_of_a_group_that_is_not_in_the_transaction_are_refused(is_coordinated_here):
    """KIP-890: the coordinator of the group asks that of the transaction, which may be another broker."""
    cluster = RunningCluster(2, offsets_topic_replication_factor="2", transaction_state_log_replication_factor="2")
    group = Group(cluster)
    here = group.coordinator()
    make_topic(cluster, (here,), name="t")
    names = (f"teller-{number}" for number in range(50))
    transactional_id = next(one for one in names if (coordinator(cluster, one) == here) is is_coordinated_here)
    there = coordinator(cluster, transactional_id)
    fields = {"transactional_id": transactional_id, "transaction_timeout": MINUTE}
    begun = cluster.answer_of(there, "init_producer_id", 4, **fields)
    assert begun.error_code is NONE
    producer = {
        "transactional_id": transactional_id,
        "producer_id": begun.producer_id,
        "producer_epoch": begun.producer_epoch,
    }
    added = {f"v3_and_below_{name}": value for name, value in producer.items()}
    topics = [{"name": "t", "partitions": [0]}]
    cluster.answer_of(there, "add_partitions_to_txn", 3, **added, v3_and_below_topics=topics)
    assert committed_in(cluster, here, producer) is ErrorCode.invalid_txn_state
    asked = cluster.answer_of(there, "add_offsets_to_txn", 3, **producer, group_id=GROUP)
    assert asked.error_code is NONE
    cluster.until(lambda: committed_in(cluster, here, producer) is NONE)
    assert cluster.answer_of(there, "end_txn", 3, **producer, committed=True).error_code is NONE
    cluster.until(lambda: group.fetch(here, "t") == 7)


def coordinator(cluster: RunningCluster, transactional_id: str) -> int:
    def found() -> Any:
        return cluster.answer_of(0, "find_coordinator", 3, key=transactional_id, key_type=1)

    cluster.until(lambda: found().error_code is NONE)
    node_id: int = found().node_id
    return node_id


def committed_in(cluster: RunningCluster, broker_id: int, producer: dict[str, Any]) -> ErrorCode:
    partition = {
        "partition_index": 0,
        "committed_offset": 7,
        "committed_leader_epoch": -1,
        "committed_metadata": None,
    }
    answer = cluster.answer_of(
        broker_id,
        "txn_offset_commit",
        3,
        **producer,
        group_id=GROUP,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": "t", "partitions": [partition]}],
    )
    error: ErrorCode = answer.topics[0].partitions[0].error_code
    return error
