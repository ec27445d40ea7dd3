"""DeleteTopics in a cluster: a topic is marked in ZooKeeper, and the answer waits until the controller has done the rest."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from oncelog.cluster.zookeeper.session import Create, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import paths

NONE = ErrorCode.none
MINUTE = timedelta(minutes=1)


def send(member, *names, timeout=MINUTE, **by_id):
    topics = [{"name": name, "topic_id": None} for name in names]
    topics += [{"name": None, "topic_id": topic_id} for topic_id in by_id.get("topic_ids", ())]
    return member.send("delete_topics", 6, topics=topics, timeout=timeout)


def errors(member, reply):
    return {result.name: result.error_code for result in member.answer(reply).responses}


def test_topic_is_marked_and_answered_when_it_is_gone(member):
    member.make("t", {0: (0, 1), 1: (1, 2)})
    reply = send(member, "t")
    member.world.until(lambda: member.zookeeper.writes == [Create("/admin/delete_topics/t")])
    assert not reply.came
    member.tell_it_is_gone("t")
    assert errors(member, reply) == {"t": NONE}
    assert member.children(paths.DELETE_TOPICS) == ("t",)


def test_topic_is_found_by_its_id(member):
    topic_id = member.make("t", {0: (0,)})
    reply = send(member, topic_ids=[topic_id])
    member.world.until(lambda: len(member.zookeeper.writes) == 1)
    member.tell_it_is_gone("t")
    (result,) = member.answer(reply).responses
    assert (result.name, result.topic_id, result.error_code) == ("t", topic_id, NONE)


def test_topic_of_a_broker_that_is_down_is_deleted_later(member):
    member.make("t", {0: (0, 1)})
    reply = send(member, "t", timeout=timedelta(milliseconds=200))
    assert errors(member, reply) == {"t": ErrorCode.request_timed_out}
    assert member.children(paths.DELETE_TOPICS) == ("t",)


def test_topic_that_is_made_anew_under_this_name_is_another_one(member):
    member.make("t", {0: (0,)})
    reply = send(member, "t")
    member.world.until(lambda: len(member.zookeeper.writes) == 1)
    gone = member.topics.named("t").topic_id
    member.tell_it_is_gone("t")
    assert errors(member, reply) == {"t": NONE}
    assert member.topics.with_id(gone) is None


@pytest.mark.parametrize("name", ["none", "__consumer_offsets"])
def test_topic_that_is_not_there_or_belongs_to_a_coordinator_stays(member, name):
    member.make("__consumer_offsets", {0: (0,)})
    refused = {"none": ErrorCode.unknown_topic_or_partition, "__consumer_offsets": ErrorCode.invalid_topic_exception}
    assert errors(member, send(member, name)) == {name: refused[name]}
    assert member.children(paths.DELETE_TOPICS) == ()


def test_topic_that_is_named_twice_is_deleted_and_answered_twice(member):
    """As by Kafka with ZooKeeper; KRaft refuses it."""
    member.make("t", {0: (0,)})
    reply = send(member, "t", "t")
    member.world.until(lambda: len(member.zookeeper.writes) == 1)
    member.tell_it_is_gone("t")
    assert [result.error_code for result in member.answer(reply).responses] == [NONE, NONE]


def test_broker_that_is_not_the_controller_deletes_nothing(member):
    member.make("t", {0: (0,)})
    member.is_active = False
    assert errors(member, send(member, "t")) == {"t": ErrorCode.not_controller}
    assert member.zookeeper.writes == []


def test_cluster_may_forbid_it(new_member):
    member = new_member(delete_topic_enable="false")
    member.make("t", {0: (0,)})
    assert errors(member, send(member, "t")) == {"t": ErrorCode.topic_deletion_disabled}


def test_session_that_ends_was_that_of_a_controller(member):
    member.make("t", {0: (0,)})
    member.zookeeper.lose_answer(Create, ZooKeeperError.SESSION_EXPIRED)
    assert errors(member, send(member, "t")) == {"t": ErrorCode.not_controller}


def test_request_waits_for_a_connection_no_longer_than_its_own_timeout(member, world):
    member.make("t", {0: (0,)})
    world.cut(member.client)
    reply = send(member, "t", timeout=timedelta(seconds=1))
    assert errors(member, reply) == {"t": ErrorCode.request_timed_out}
    world.mend(member.client)
    member.children(paths.DELETE_TOPICS)
