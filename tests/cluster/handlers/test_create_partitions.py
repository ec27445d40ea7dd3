"""CreatePartitions in a cluster: a topic grows in ZooKeeper, and the answer waits until its partitions have leaders."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from oncelog.cluster.zookeeper.session import SetData, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import decode_topic, paths

NONE = ErrorCode.none
MINUTE = timedelta(minutes=1)


def send(member, *asked, timeout=MINUTE, validate_only=False):
    topics = [
        {"name": name, "count": count, "assignments": manual and [{"broker_ids": one} for one in manual]}
        for name, count, manual in asked
    ]
    return member.send("create_partitions", 3, topics=topics, timeout=timeout, validate_only=validate_only)


def outcomes(member, reply):
    return {result.name: (result.error_code, result.error_message) for result in member.answer(reply).results}


def test_topic_is_answered_when_its_new_partitions_have_leaders(member):
    member.make("t", {0: (0, 1)})
    reply = send(member, ("t", 3, None))
    member.tell_when_there("t", 3)
    assert outcomes(member, reply) == {"t": (NONE, None)}
    assert len(member.topics.named("t").partitions) == 3


def test_new_partitions_go_where_the_client_wants_them(member):
    member.make("t", {0: (0, 1)})
    reply = send(member, ("t", 2, [(2, 1)]))
    member.tell_when_there("t", 2)
    assert outcomes(member, reply) == {"t": (NONE, None)}
    assert decode_topic("t", member.data(paths.topic("t"))).partitions[1].replicas == (2, 1)


def test_partitions_without_leaders_in_time_are_made_and_timed_out(member):
    member.make("t", {0: (0, 1)})
    reply = send(member, ("t", 2, None), timeout=timedelta(milliseconds=200))
    assert outcomes(member, reply) == {"t": (ErrorCode.request_timed_out, None)}
    assert len(decode_topic("t", member.data(paths.topic("t"))).partitions) == 2


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        (("t", 1, None), (ErrorCode.invalid_partitions, "Topic already has 1 partitions.")),
        (("none", 2, None), (ErrorCode.unknown_topic_or_partition, "The topic 'none' does not exist.")),
        (("a/b", 2, None), (ErrorCode.unknown_topic_or_partition, "The topic 'a/b' does not exist.")),
        (("t", 20_000, None), (ErrorCode.policy_violation, "one request makes 10000 partitions at most")),
        (
            ("__consumer_offsets", 2, None),
            (ErrorCode.invalid_topic_exception, "__consumer_offsets keeps its 1 partitions"),
        ),
        (
            ("t", 2, [(0,)]),
            (
                ErrorCode.invalid_replica_assignment,
                "Inconsistent replication factor between partitions, partition 0 has 2 while partitions [1] have "
                "replication factors [1], respectively.",
            ),
        ),
    ],
)
def test_what_cannot_be_is_refused(member, asked, outcome):
    member.make("t", {0: (0, 1)})
    member.make("__consumer_offsets", {0: (0, 1)})
    assert outcomes(member, send(member, asked)) == {asked[0]: outcome}
    assert member.zookeeper.writes == []


def test_topic_that_is_named_twice_does_not_grow(member):
    member.make("t", {0: (0, 1)})
    refused = (ErrorCode.invalid_request, "Duplicate topic in request.")
    assert outcomes(member, send(member, ("t", 2, None), ("t", 3, None))) == {"t": refused}


def test_check_alone_lets_nothing_grow(member):
    member.make("t", {0: (0, 1)})
    assert outcomes(member, send(member, ("t", 2, None), validate_only=True)) == {"t": (NONE, None)}
    assert member.zookeeper.writes == []


def test_broker_that_is_not_the_controller_lets_nothing_grow(member):
    member.make("t", {0: (0, 1)})
    member.is_active = False
    assert outcomes(member, send(member, ("t", 2, None))) == {"t": (ErrorCode.not_controller, None)}


def test_session_that_ends_was_that_of_a_controller(member):
    member.make("t", {0: (0, 1)})
    member.zookeeper.lose_answer(SetData, ZooKeeperError.SESSION_EXPIRED)
    assert outcomes(member, send(member, ("t", 2, None))) == {"t": (ErrorCode.not_controller, None)}
