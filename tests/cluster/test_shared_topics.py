"""The topics of a cluster on a real broker: what the controller tells, and which replicas survive a crash at any step."""

from __future__ import annotations

from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedController
from harness.cluster_messages import TOPIC, TOPIC_ID, errors_of, known, led, produced, records, stopped
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.broker.view import LEADER_DURING_DELETE, UNKNOWN, Leadership
from oncelog.cluster.shared_topics import ReplicaId, SharedTopics
from oncelog.log import DamagedLogError
from oncelog.wire import ErrorCode

BROKER, OTHER = 0, 1
BOTH = (BROKER, OTHER)
SECOND_ID = UUID(int=0xABCD)
EPOCH_DURING_DELETE = -2
NONE = ErrorCode.none
LED_BY_OTHER = Leadership(OTHER, 0, BOTH, BOTH)
GONE = Leadership(LEADER_DURING_DELETE, 0, BOTH, BOTH)


class Told:
    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        self.controller = PlayedController(self.cluster)
        self.controller.starts(BROKER)

    @property
    def topics(self) -> SharedTopics:
        return self.cluster.core(BROKER).metadata.shared_topics

    def order(self, epoch: int = 0, topic_id: UUID = TOPIC_ID) -> list[ErrorCode]:
        return errors_of(self.controller.order(BROKER, led(BROKER, epoch, BOTH, indexes=(0, 1), topic_id=topic_id)))

    def delete(self) -> list[ErrorCode]:
        return errors_of(self.controller.stop(BROKER, stopped(EPOCH_DURING_DELETE, delete=True, indexes=(0, 1))))

    def write(self) -> None:
        for index in (0, 1):
            answer = self.cluster.wait(self.cluster.produce(BROKER, records(b"a"), acks=1, index=index))
            assert produced(answer) == (NONE, 0)

    def paths(self) -> list[str]:
        """The directories of partitions that have their name."""
        found = {path.split("/")[2] for path in self.cluster.nodes[BROKER].disk.paths() if path.count("/") > 2}
        return sorted(name for name in found if not name.endswith("-delete"))


@pytest.fixture
def told() -> Told:
    return Told()


def ends(told: Told) -> list[UUID]:
    """The ids of the topics whose end is told."""
    gone: list[UUID] = []
    told.topics.on_gone = lambda topic: gone.append(topic.topic_id)
    return gone


def test_partitions_that_are_not_here_are_known_by_who_leads_them(told: Told) -> None:
    told.controller.update(BROKER, known(OTHER, 4, (OTHER,), indexes=(0, 1, 2)))
    topic = told.topics.named(TOPIC)
    assert topic is not None
    assert topic is told.topics.with_id(TOPIC_ID)
    assert [(one.role, one.leadership.leader, one.leadership.leader_epoch) for one in topic.partitions] == [
        (ReplicaRole.NONE, OTHER, 4)
    ] * 3
    assert list(told.topics.partitions()) == []
    assert told.paths() == []


def test_a_partition_that_is_named_first_has_those_before_it_without_a_leader(told: Told) -> None:
    """UpdateMetadata names what has changed, in batches: a partition may come before those with smaller numbers."""
    topic = told.topics.learn(TOPIC, TOPIC_ID, {2: LED_BY_OTHER})
    assert [one.leadership for one in topic.partitions] == [UNKNOWN, UNKNOWN, LED_BY_OTHER]
    told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    assert [one.leadership for one in topic.partitions] == [LED_BY_OTHER, UNKNOWN, LED_BY_OTHER]


def test_a_topic_is_forgotten_when_its_last_partition_is_deleted(told: Told) -> None:
    """LEADER_DURING_DELETE, -2: Kafka's brokers remove such a partition from their metadata caches."""
    gone = ends(told)
    told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER, 1: LED_BY_OTHER})
    told.topics.learn(TOPIC, TOPIC_ID, {0: GONE})
    assert told.topics.named(TOPIC) is not None
    told.topics.learn(TOPIC, TOPIC_ID, {1: GONE})
    assert told.topics.named(TOPIC) is None
    assert told.topics.with_id(TOPIC_ID) is None
    assert gone == [TOPIC_ID]


def test_a_topic_is_known_as_long_as_a_replica_is_here(told: Told) -> None:
    assert told.order() == [NONE, NONE]
    told.controller.update(BROKER, known(LEADER_DURING_DELETE, 0, BOTH, indexes=(0, 1)))
    assert told.topics.named(TOPIC) is not None
    assert told.delete() == [NONE, NONE]
    assert told.topics.named(TOPIC) is None


def test_end_of_a_topic_is_told_when_its_deletion_begins_and_when_its_replicas_are_gone(told: Told) -> None:
    """What groups have committed until then must not be found by a topic that is made under its name."""
    gone = ends(told)
    assert told.order() == [NONE, NONE]
    told.controller.update(BROKER, known(LEADER_DURING_DELETE, 0, BOTH, indexes=(0, 1)))
    assert gone == [TOPIC_ID]
    assert told.delete() == [NONE, NONE]
    assert gone[1:]
    assert {*gone} == {TOPIC_ID}


def test_topic_whose_deletion_is_given_up_has_no_end(told: Told) -> None:
    """delete.topic.enable may be false at the next controller (TopicDeletionManager.init)."""
    gone = ends(told)
    assert told.order() == [NONE, NONE]
    told.topics.learn(TOPIC, TOPIC_ID, {0: GONE, 1: LED_BY_OTHER})
    told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    assert told.delete() == [NONE, NONE]
    assert told.topics.named(TOPIC) is not None
    assert gone == []


def test_replica_that_leaves_a_topic_of_which_nobody_was_told_is_not_its_end(told: Told) -> None:
    gone = ends(told)
    assert told.order() == [NONE, NONE]
    told.write()
    assert told.delete() == [NONE, NONE]
    assert told.topics.named(TOPIC) is None
    assert gone == []


def test_name_that_another_topic_takes_is_not_given_back_by_the_topic_before(told: Told) -> None:
    """Of its end is told when the other takes the name, and not again: groups may have committed offsets for that already."""
    gone = ends(told)
    assert told.order() == [NONE, NONE]
    told.controller.update(BROKER, known(LEADER_DURING_DELETE, 0, BOTH, indexes=(0, 1)))
    del gone[:]
    told.cluster.take(told.topics.take_names([ReplicaId(TOPIC, SECOND_ID, index) for index in (0, 1)]))
    assert gone == [TOPIC_ID]
    assert told.topics.with_id(TOPIC_ID) is None
    found = told.topics.named(TOPIC)
    assert found is not None
    assert found.topic_id == SECOND_ID


def test_a_topic_that_is_made_again_has_the_name_and_the_one_before_is_forgotten(told: Told) -> None:
    """Nobody tells of the end of a topic that was deleted while this broker was away."""
    told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    second = told.topics.learn(TOPIC, SECOND_ID, {0: LED_BY_OTHER, 1: LED_BY_OTHER})
    assert told.topics.named(TOPIC) is second
    assert told.topics.with_id(TOPIC_ID) is None
    told.topics.learn(TOPIC, TOPIC_ID, {0: GONE})
    assert told.topics.named(TOPIC) is second
    assert told.topics.with_id(TOPIC_ID) is None


def test_replica_of_a_topic_whose_name_is_anothers_keeps_its_id_and_has_no_leader(told: Told) -> None:
    assert told.order() == [NONE, NONE]
    told.controller.update(BROKER, known(OTHER, 4, BOTH, indexes=(0, 1)))
    second = told.topics.learn(TOPIC, SECOND_ID, {0: LED_BY_OTHER})
    first = told.topics.with_id(TOPIC_ID)
    assert first is not None
    assert [one.leadership for one in first.partitions] == [UNKNOWN, UNKNOWN]
    assert told.topics.still_named(TOPIC_ID) is None
    assert told.topics.still_named(SECOND_ID) is second
    assert told.topics.replica(TOPIC, 0) is first.partitions[0]


def test_name_is_that_of_the_topic_that_the_controller_names_last(told: Told) -> None:
    """A start finds replicas of two topics of a name, and does not know which of them is there."""
    assert told.order() == [NONE, NONE]
    told.topics.learn(TOPIC, SECOND_ID, {0: LED_BY_OTHER})
    first = told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    assert told.topics.named(TOPIC) is first
    assert told.topics.with_id(SECOND_ID) is None


def test_replica_that_goes_offline_is_that_of_its_own_topic_not_of_the_next_one_of_its_name(told: Told) -> None:
    """Else the other would count as offline for good, and nobody would hear of it when that is so."""
    assert told.order() == [NONE, NONE]
    second = told.topics.learn(TOPIC, SECOND_ID, {0: LED_BY_OTHER})
    first = told.topics.with_id(TOPIC_ID)
    assert first is not None
    told.topics.take_offline(first.partitions[0], DamagedLogError("damaged"))
    assert (first.offline, second.offline) == ({0}, set())


def test_topics_that_were_deleted_while_nobody_told_are_forgotten(told: Told) -> None:
    told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    told.topics.learn("another", SECOND_ID, {0: LED_BY_OTHER})
    told.topics.doubt()
    told.topics.forget_all_but({"another"})
    assert told.topics.named(TOPIC) is None
    assert told.topics.named("another") is not None


def test_replica_of_a_topic_that_was_deleted_while_nobody_told_stays_without_a_name(told: Told) -> None:
    """By its name a client would find it for ever, and nobody could make a topic of that name."""
    gone = ends(told)
    assert told.order() == [NONE, NONE]
    told.write()
    replica, version = told.topics.replica(TOPIC, 0), told.topics.version
    heard = told.topics.announcement_of(TOPIC)
    told.topics.doubt()
    told.topics.forget_all_but(())
    assert told.topics.named(TOPIC) is None
    assert told.topics.still_named(TOPIC_ID) is None
    assert told.topics.with_id(TOPIC_ID) is not None
    assert told.topics.replica(TOPIC, 0) is replica is not None
    assert told.topics.version > version
    assert heard.is_resolved
    assert {*gone} == {TOPIC_ID}
    assert told.paths() == [f"{TOPIC}-0", f"{TOPIC}-1"]


def test_topic_that_a_controller_has_told_of_meanwhile_is_there(told: Told) -> None:
    """ZooKeeper's server may be behind."""
    told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    told.topics.learn("another", SECOND_ID, {0: LED_BY_OTHER})
    told.topics.doubt()
    told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    told.topics.forget_all_but(())
    assert told.topics.named(TOPIC) is not None
    assert told.topics.named("another") is None


@pytest.mark.parametrize("by_order", [False, True])
def test_topic_that_a_controller_tells_of_after_all_has_its_name_again(told: Told, by_order: bool) -> None:
    assert told.order() == [NONE, NONE]
    told.topics.doubt()
    told.topics.forget_all_but(())
    assert told.topics.named(TOPIC) is None
    if by_order:
        assert told.order(epoch=1) == [NONE, NONE]
    else:
        told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    topic = told.topics.named(TOPIC)
    assert topic is not None
    assert topic.topic_id == TOPIC_ID


def test_who_waits_for_a_name_hears_of_it_and_of_its_end(told: Told) -> None:
    made = told.topics.announcement_of(TOPIC)
    assert made is told.topics.announcement_of(TOPIC)
    told.topics.learn("another", SECOND_ID, {0: LED_BY_OTHER})
    assert not made.is_resolved
    told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    assert made.is_resolved
    gone = told.topics.announcement_of(TOPIC)
    told.topics.learn(TOPIC, TOPIC_ID, {0: GONE})
    assert gone.is_resolved


def test_the_version_counts_what_changes_which_partitions_there_are(told: Told) -> None:
    version = told.topics.version
    told.topics.learn(TOPIC, TOPIC_ID, {0: LED_BY_OTHER})
    made = told.topics.version
    told.topics.learn(TOPIC, TOPIC_ID, {0: Leadership(BROKER, 1, BOTH, BOTH)})
    assert told.topics.version == made > version
    told.topics.learn(TOPIC, TOPIC_ID, {1: LED_BY_OTHER})
    grown = told.topics.version
    assert grown > made
    told.topics.learn(TOPIC, TOPIC_ID, {0: GONE, 1: GONE})
    assert told.topics.version > grown


@pytest.mark.parametrize("operations", range(24))
def test_a_crash_while_replicas_are_hosted_leaves_them_or_nothing(operations: int) -> None:
    told = Told()
    told.cluster.nodes[BROKER].disk.operations_left = operations
    told.controller.sends_order(BROKER, led(BROKER, 0, BOTH, indexes=(0, 1)))
    told.cluster.rest(2_000)
    if told.cluster.nodes[BROKER].is_up:
        told.cluster.nodes[BROKER].disk.operations_left = None
        told.cluster.nodes[BROKER].die(power=True)
    told.controller.starts(BROKER)
    hosted = [told.topics.replica(TOPIC, index) for index in (0, 1)]
    assert (hosted[0] is None) == (hosted[1] is None)
    assert all(one is None or (one.role, one.is_offline) == (ReplicaRole.FOLLOWER, False) for one in hosted)
    assert told.order() == [NONE, NONE]
    told.write()


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("operations", range(0, 60, 2))
def test_a_crash_while_replicas_are_deleted_leaves_nothing_to_a_topic_made_again(operations: int, power: bool) -> None:
    told = Told()
    told.cluster.cuts_power = power
    assert told.order() == [NONE, NONE]
    told.write()
    node = told.cluster.nodes[BROKER]
    node.disk.operations_left = operations
    told.controller.sends_stop(BROKER, stopped(EPOCH_DURING_DELETE, delete=True, indexes=(0, 1)))
    told.cluster.rest(2_000)
    if node.is_up:
        node.disk.operations_left = None
        node.die(power=power)
    told.controller.starts(BROKER)
    before = [told.topics.replica(TOPIC, index) for index in (0, 1)]
    assert (before[0] is None) == (before[1] is None)
    assert all(one is None or not one.is_offline for one in before)
    assert told.delete() == [NONE, NONE]
    assert told.paths() == []
    assert told.order(topic_id=SECOND_ID) == [NONE, NONE]
    told.write()
    node.die(power=True)
    told.controller.starts(BROKER)
    for index in (0, 1):
        found = told.topics.replica(TOPIC, index)
        assert found is not None
        assert (found.topic_id, found.is_offline) == (SECOND_ID, False)
        assert found.log.log_end_offset <= 1


def test_a_replica_that_is_left_on_its_way_out_is_waited_for(told: Told) -> None:
    """Who hosts a partition waits until what has its name is gone."""
    assert told.order() == [NONE, NONE]
    told.write()
    told.cluster.nodes[BROKER].disk.slow_until_ms = told.cluster.queue.now_ms + 3_000
    leaving = told.controller.sends_stop(BROKER, stopped(EPOCH_DURING_DELETE, delete=True, indexes=(0, 1)))
    told.cluster.until(
        lambda: told.topics.partition(TOPIC, 0) is None or told.cluster.partition(0).role is ReplicaRole.LEAVING
    )
    assert told.order(topic_id=SECOND_ID) == [NONE, NONE]
    assert leaving.is_resolved
    assert told.cluster.partition(BROKER).log.log_end_offset == 0
