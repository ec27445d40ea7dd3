"""The controller's values as znodes, and what comes of a fenced write."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.cluster.controller.actions import CreatePartitionState, SetPartitionState, SetReassignments
from oncelog.cluster.controller.values import LeaderAndIsr, LeaderRecoveryState, ReplicaAssignment, TopicAssignment
from oncelog.cluster.controller.znodes import decode_state, encode_state, grown_topic, new_topic, order_to_delete
from oncelog.cluster.controller.zookeeper import fenced, outcome, plain_writes, was_fenced
from oncelog.cluster.zookeeper.session import (
    Check,
    Create,
    Created,
    Data,
    Delete,
    Done,
    Multi,
    Results,
    SetData,
    Stat,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import AssignedReplicas, TopicZnode, decode_topic

STAT = Stat(5, 6, 7, 0, 0, 0)
STATE = LeaderAndIsr(1, 2, (1, 3), LeaderRecoveryState.RECOVERED, 7, 4)


def test_state_has_the_version_that_its_first_writer_read():
    (write,) = plain_writes(SetPartitionState(("t", 0), STATE))
    assert isinstance(write, SetData)
    assert (write.path, write.version) == ("/brokers/topics/t/partitions/0/state", 7)


def test_first_state_is_made_with_all_that_is_above_it():
    made = plain_writes(CreatePartitionState(("t", 0), STATE))
    assert [write.path for write in made] == [
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/0/state",
    ]


def test_reassignments_that_are_over_have_no_znode():
    assert plain_writes(SetReassignments({})) == (Delete("/admin/reassign_partitions"),)


@given(
    st.integers(-1, 9),
    st.integers(0, 2**31 - 2),
    st.lists(st.integers(0, 9), min_size=1, unique=True).map(tuple),
    st.sampled_from(LeaderRecoveryState),
)
def test_state_that_is_written_is_read_again(leader, leader_epoch, isr, recovery):
    state = LeaderAndIsr(leader, leader_epoch, isr, recovery, STAT.version, 4)
    assert decode_state(("t", 0), Data(encode_state(state), STAT)) == state


def test_every_write_is_checked_against_the_epoch_of_the_controller():
    write = Create("/a")
    assert fenced(write, 3) == Multi((Check("/controller_epoch", 3), write))


@pytest.mark.parametrize(
    ("each", "is_fenced"),
    [
        ((ZooKeeperError.BAD_VERSION, ZooKeeperError.NOT_TRIED), True),
        ((ZooKeeperError.ROLLED_BACK, ZooKeeperError.BAD_VERSION), False),
        ((Done(), Done(STAT)), False),
    ],
)
def test_another_controller_is_told_from_another_version(each, is_fenced):
    assert was_fenced(Results(each)) is is_fenced


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Done(STAT), 7),
        (Done(), 0),
        (Created("/a", None), 0),
    ],
)
def test_outcome_of_a_write_is_its_version(result, expected):
    assert outcome(Results((Done(), result))) == expected


def test_outcome_of_a_refused_write_is_why():
    assert outcome(Results((ZooKeeperError.ROLLED_BACK, ZooKeeperError.BAD_VERSION))) is ZooKeeperError.BAD_VERSION


TOPIC_ID = UUID(int=7)


def test_new_topic_is_where_its_replicas_are():
    write = new_topic("t", TOPIC_ID, {0: (1, 2)})
    assert write.path == "/brokers/topics/t"
    assert decode_topic("t", write.data) == TopicZnode(TOPIC_ID, {0: AssignedReplicas((1, 2))})


def test_topic_that_grows_keeps_what_it_has_and_is_written_only_as_it_was_read():
    existing = TopicAssignment(TOPIC_ID, {0: ReplicaAssignment((1, 2))})
    write = grown_topic("t", existing, 5, {1: (2, 1)})
    assert (write.path, write.version) == ("/brokers/topics/t", 5)
    partitions = {0: AssignedReplicas((1, 2)), 1: AssignedReplicas((2, 1))}
    assert decode_topic("t", write.data) == TopicZnode(TOPIC_ID, partitions)


def test_order_to_delete_is_a_znode_of_the_name_of_the_topic():
    assert order_to_delete("t") == Create("/admin/delete_topics/t")
