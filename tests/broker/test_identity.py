from __future__ import annotations

import subprocess
import sys

import pytest

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.setting import SettingError
from oncelog.broker.coordinators.loading import journal_state
from oncelog.broker.identity import check_alone, check_member, identity_alone, identity_in_cluster
from oncelog.broker.storage.journal import BecameMember, ReplicasHosted, ReplicasLeft, TopicCreated
from oncelog.log import LogDirectories
from oncelog.simulation.memory_disk import MemoryDisk

TOPIC_ID = "00000000-0000-0000-0000-000000000007"
HOSTED = ReplicasHosted(topic="t", topic_id=TOPIC_ID, partitions=[0, 2])


def directories() -> LogDirectories:
    return LogDirectories(MemoryDisk(), ["/data"], "journal")


def new_id() -> str:
    return "made-here"


def test_new_broker_of_a_cluster_has_the_id_that_zookeeper_has() -> None:
    found = directories()
    assert identity_in_cluster(found, "of-the-cluster", 3) == ("of-the-cluster", 3)
    found.claim("of-the-cluster", 3, new_id)
    assert identity_in_cluster(found, "of-the-cluster", 3) == ("of-the-cluster", 3)


@pytest.mark.parametrize(("cluster_id", "node_id"), [("another", 3), ("of-the-cluster", 4)])
def test_directories_of_another_broker_are_refused(cluster_id: str, node_id: int) -> None:
    found = directories()
    found.claim(cluster_id, node_id, new_id)
    with pytest.raises(SettingError, match=f"that of broker {node_id} of cluster {cluster_id}, and this is broker 3"):
        identity_in_cluster(found, "of-the-cluster", 3)


def test_new_broker_that_is_alone_makes_an_id() -> None:
    assert identity_alone(directories(), Settings({"node.id": "5"}), new_id) == ("made-here", 5)


def test_topics_of_a_broker_that_was_alone_are_not_taken_into_a_cluster() -> None:
    state = journal_state([TopicCreated(name="t", topic_id=TOPIC_ID, partition_count=1, configs={})])
    check_alone(state, "/data")
    with pytest.raises(SettingError, match="/data has topics of a broker that is alone"):
        check_member(state, "/data")


def test_replicas_of_a_cluster_are_not_left_unserved() -> None:
    state = journal_state([HOSTED])
    check_member(state, "/data")
    with pytest.raises(SettingError, match="/data has replicas of a cluster"):
        check_alone(state, "/data")


def test_broker_that_became_a_member_is_one_with_no_topic_too() -> None:
    created = TopicCreated(name="t", topic_id=TOPIC_ID, partition_count=2, configs={})
    for before in ([], [created]):
        state = journal_state([*before, BecameMember()])
        check_member(state, "/data")
        with pytest.raises(SettingError, match="/data has replicas of a cluster"):
            check_alone(state, "/data")
    assert [(one.topic, one.partitions) for one in state.hosted.values()] == [("t", {0, 1})]
    assert state.topics == {}


def test_broker_that_has_left_every_replica_may_be_alone() -> None:
    left = ReplicasLeft(topic="t", topic_id=TOPIC_ID, partitions=[0, 2])
    check_alone(journal_state([HOSTED, left]), "/data")


def test_replica_that_was_left_and_hosted_again_is_here() -> None:
    left = ReplicasLeft(topic="t", topic_id=TOPIC_ID, partitions=[0, 2])
    state = journal_state([HOSTED, left, ReplicasHosted(topic="t", topic_id=TOPIC_ID, partitions=[2])])
    assert [(one.topic, one.partitions) for one in state.hosted.values()] == [("t", {2})]
    assert state.left == {("t", 0)}


def test_broker_that_is_alone_loads_nothing_of_a_cluster() -> None:
    program = (
        "import sys, oncelog.server.main; "
        "print(*[name for name in sys.modules if name.startswith(('oncelog.cluster', 'oncelog.cluster.controller', "
        "'oncelog.replication', 'oncelog.cluster.zookeeper', 'kazoo'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
