"""Metadata of topics that are not there yet: any broker of a cluster makes them, and the client asks again."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from oncelog.cluster.zookeeper.session import Create, Multi, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import decode_config, decode_topic, paths

NONE = ErrorCode.none


def send(member, *names, create=True):
    topics = [{"name": name} for name in names]
    return member.send(
        "metadata",
        8,
        topics=topics,
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def errors(member, reply):
    return {topic.name: topic.error_code for topic in member.answer(reply).topics}


def test_topic_is_made_and_has_no_leader_yet(new_member):
    member = new_member(num_partitions="3", default_replication_factor="2")
    member.is_active = False
    assert errors(member, send(member, "t")) == {"t": ErrorCode.leader_not_available}
    node = decode_topic("t", member.data(paths.topic("t")))
    assert [len(one.replicas) for one in node.partitions.values()] == [2, 2, 2]
    assert errors(member, send(member, "t")) == {"t": ErrorCode.leader_not_available}
    member.tell("t")
    assert errors(member, send(member, "t")) == {"t": NONE}


def test_topic_that_two_ask_for_is_made_once(member):
    first, second = send(member, "t"), send(member, "t")
    assert errors(member, first) == errors(member, second) == {"t": ErrorCode.leader_not_available}
    assert (
        len([one for one in member.zookeeper.writes if one == Create(paths.topic("t"), member.data(paths.topic("t")))])
        == 1
    )


def test_topic_of_a_coordinator_gets_what_kafka_gives_it(new_member):
    member = new_member(offsets_topic_num_partitions="2", transaction_state_log_num_partitions="2")
    names = ("__consumer_offsets", "__transaction_state")
    assert errors(member, send(member, *names)) == dict.fromkeys(names, ErrorCode.leader_not_available)
    assert member.data(paths.config("topics", names[0])) == (
        b'{"version":1,"config":{"compression.type":"producer","cleanup.policy":"compact","segment.bytes":"104857600"}}'
    )
    assert member.data(paths.config("topics", names[1])) == (
        b'{"version":1,"config":{"compression.type":"uncompressed","cleanup.policy":"compact","min.insync.replicas":"2",'
        b'"segment.bytes":"104857600","unclean.leader.election.enable":"false"}}'
    )
    for name in names:
        node = decode_topic(name, member.data(paths.topic(name)))
        assert [sorted(one.replicas) for one in node.partitions.values()] == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("__consumer_offsets", ErrorCode.invalid_replication_factor),
        ("a_b", ErrorCode.invalid_topic_exception),
        ("a/b", ErrorCode.invalid_topic_exception),
    ],
)
def test_topic_that_cannot_be_made_is_told_so(new_member, name, error):
    member = new_member(brokers=2)
    member.ask_zookeeper(Create(paths.topic("a.b")))
    assert errors(member, send(member, name)) == {name: error}
    assert member.children(paths.TOPICS) == ("a.b",)


def test_topics_of_one_request_whose_names_collide_are_not_both_made(member):
    reply = send(member, "q", "q.1", "q_1")
    assert errors(member, reply) == {
        "q": ErrorCode.leader_not_available,
        "q.1": ErrorCode.leader_not_available,
        "q_1": ErrorCode.invalid_topic_exception,
    }
    assert member.children(paths.TOPICS) == ("q", "q.1")


def test_topic_is_not_made_unless_it_may_be(new_member):
    member = new_member(auto_create_topics_enable="false")
    assert errors(member, send(member, "t")) == {"t": ErrorCode.unknown_topic_or_partition}
    assert errors(member, send(member, "__consumer_offsets", create=False)) == {
        "__consumer_offsets": ErrorCode.unknown_topic_or_partition
    }
    assert member.zookeeper.writes == []


def test_zookeeper_that_is_away_keeps_nobody_waiting_for_ever(member, world, monkeypatch):
    monkeypatch.setattr("oncelog.cluster.topic_changes.AUTO_CREATION_TIMEOUT_MS", 500)
    world.cut(member.client)
    assert errors(member, send(member, "t")) == {"t": ErrorCode.leader_not_available}
    world.mend(member.client)
    member.children(paths.TOPICS)


def test_session_that_ends_is_nothing_that_the_client_hears_of(member):
    member.zookeeper.lose_answer(Multi, ZooKeeperError.SESSION_EXPIRED)
    assert errors(member, send(member, "t")) == {"t": ErrorCode.leader_not_available}
    assert decode_config("topics", "t", member.data(paths.config("topics", "t")) or b"") == {}
