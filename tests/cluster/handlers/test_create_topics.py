"""CreateTopics in a cluster: what the controller's broker writes into ZooKeeper, waits for, and answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.administered_broker import AdministeredBroker
from oncelog.cluster.zookeeper.session import Create, Delete, Exists, Multi, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import AssignedReplicas, TopicZnode, decode_config, decode_topic, paths

NONE = ErrorCode.none
MINUTE = timedelta(minutes=1)


def topic(name: str, partitions: int = -1, factor: int = -1, **fields: Any) -> dict[str, Any]:
    asked = {"name": name, "num_partitions": partitions, "replication_factor": factor, "assignments": [], "configs": []}
    return asked | fields


def send(
    member: AdministeredBroker, *topics: dict[str, Any], timeout: timedelta = MINUTE, validate_only: bool = False
) -> Any:
    return member.send("create_topics", 7, topics=list(topics), timeout=timeout, validate_only=validate_only)


def refused(member: AdministeredBroker, asked: dict[str, Any]) -> tuple[ErrorCode, str]:
    (result,) = member.answer(send(member, asked)).topics
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, ())
    return result.error_code, result.error_message


def test_topic_is_answered_when_its_partitions_have_leaders(member):
    reply = send(member, topic("t", 2, 3, configs=[{"name": "retention.ms", "value": "7200000"}]))
    member.tell_when_there("t", 2)
    (result,) = member.answer(reply).topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (NONE, 2, 3)
    data = member.data(paths.topic("t"))
    assert data is not None
    node = decode_topic("t", data)
    assert result.topic_id == node.topic_id
    assert [sorted(one.replicas) for one in node.partitions.values()] == [[0, 1, 2], [0, 1, 2]]
    configs = member.data(paths.config("topics", "t"))
    assert configs is not None
    assert decode_config("topics", "t", configs) == {"retention.ms": "7200000"}
    assert {entry.name: entry.value for entry in result.configs}["retention.ms"] == "7200000"


def test_topic_whose_partitions_have_no_leaders_in_time_is_made_and_timed_out(member):
    (result,) = member.answer(send(member, topic("t", 1, 1), timeout=timedelta(milliseconds=200))).topics
    assert (result.error_code, result.num_partitions) == (ErrorCode.request_timed_out, -1)
    data = member.data(paths.topic("t"))
    assert data is not None
    assert result.topic_id == decode_topic("t", data).topic_id


def test_who_waits_for_nothing_is_told_what_is_refused_at_once(member):
    """ZkAdminManager: with a timeout of 0 a topic that is made is answered with REQUEST_TIMED_OUT, and an error as it is."""
    reply = send(member, topic("t", 1, 1), topic("a/b", 1, 1), timeout=timedelta(0))
    errors = {result.name: result.error_code for result in member.answer(reply).topics}
    assert errors == {"t": ErrorCode.request_timed_out, "a/b": ErrorCode.invalid_topic_exception}


def test_broker_that_is_not_the_controller_makes_nothing(member):
    member.is_active = False
    assert refused(member, topic("t", 1, 1)) == (ErrorCode.not_controller, "")
    assert member.zookeeper.asked == []


def test_broker_whose_controller_has_moved_says_so(member):
    """The settings are written only while /controller is what it was: the client looks for the new controller."""
    member.ask_zookeeper(Delete(paths.CONTROLLER))
    assert refused(member, topic("t", 1, 1)) == (ErrorCode.not_controller, None)
    assert member.data(paths.topic("t")) is None


def test_defaults_are_those_of_the_broker(new_member):
    member = new_member(num_partitions="2", default_replication_factor="2")
    reply = send(member, topic("t"))
    member.tell_when_there("t", 2)
    (result,) = member.answer(reply).topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (NONE, 2, 2)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            topic("t", 1, 4),
            ErrorCode.invalid_replication_factor,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        (topic("t", 1, 0), ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0."),
        (topic("t", 0, 1), ErrorCode.invalid_partitions, "Number of partitions must be larger than 0."),
        (
            topic("t", 1, 1, configs=[{"name": "retention.ms", "value": None}]),
            ErrorCode.invalid_config,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            topic("t", 2, assignments=[{"partition_index": 0, "broker_ids": [0]}]),
            ErrorCode.invalid_request,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        ),
        (
            topic("t", assignments=[{"partition_index": 1, "broker_ids": [0]}]),
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic(
                "t",
                assignments=[{"partition_index": 0, "broker_ids": [0]}, {"partition_index": 1, "broker_ids": [0, 1]}],
            ),
            ErrorCode.invalid_replica_assignment,
            "All partitions should have the same number of replicas",
        ),
        (
            topic("t", assignments=[{"partition_index": 0, "broker_ids": [0, 0]}]),
            ErrorCode.invalid_replica_assignment,
            "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(0, 0))",
        ),
        (
            topic("t", assignments=[{"partition_index": 0, "broker_ids": []}]),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            topic("t", 1, 1, configs=[{"name": "no.such.setting", "value": "1"}]),
            ErrorCode.invalid_config,
            "Unknown topic config name: no.such.setting",
        ),
        (topic("a_b", 1, 1), ErrorCode.invalid_topic_exception, "Topic 'a_b' collides with existing topics: a.b"),
        (topic("a.b", 1, 1), ErrorCode.topic_already_exists, "Topic 'a.b' already exists."),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(member, asked, error, message):
    member.make("a.b", {0: (0,)})
    assert refused(member, asked) == (error, message)
    assert member.zookeeper.writes == []
    assert member.children(paths.TOPICS) == ("a.b",)


def test_topic_that_is_in_zookeeper_and_not_told_of_yet_exists(member):
    member.ask_zookeeper(Create(paths.topic("t")))
    assert refused(member, topic("t", 1, 1)) == (ErrorCode.topic_already_exists, "Topic 't' already exists.")


def test_topic_whose_deletion_waits_for_a_broker_that_is_away_exists(member):
    """AdminZkClient.validateTopicCreate: a topic that is marked for deletion is not made."""
    node = TopicZnode(None, {0: AssignedReplicas((0, 9))})
    member.ask_zookeeper(Create(paths.topic("t"), node.encode()))
    member.ask_zookeeper(Create(paths.delete_topic("t")))
    assert refused(member, topic("t", 1, 1)) == (
        ErrorCode.topic_already_exists,
        "Topic 't' is marked for deletion.",
    )


def test_topic_that_is_being_deleted_exists_for_who_waits_for_nothing(member):
    member.ask_zookeeper(Create(paths.delete_topic("t")))
    (result,) = member.answer(send(member, topic("t", 1, 1), timeout=timedelta(0))).topics
    assert (result.error_code, result.error_message) == (
        ErrorCode.topic_already_exists,
        "Topic 't' is marked for deletion.",
    )


def test_topic_is_made_when_the_one_of_its_name_is_deleted(member):
    member.ask_zookeeper(Create(paths.delete_topic("t")))
    reply = send(member, topic("t", 1, 1))
    member.world.until(lambda: Exists(paths.delete_topic("t")) in member.zookeeper.asked)
    assert not reply.came
    member.ask_zookeeper(Delete(paths.delete_topic("t")))
    member.tell_when_there("t")
    assert member.answer(reply).topics[0].error_code is NONE


def test_name_that_comes_twice_is_answered_each_time(member):
    answer = member.answer(send(member, topic("t", 1, 1), topic("t", 1, 1)))
    said = [(result.error_code, result.error_message) for result in answer.topics]
    assert said == [(ErrorCode.invalid_request, "Found multiple entries for this topic.")] * 2


def test_names_of_one_request_that_collide_are_not_both_made(member):
    reply = send(member, topic("a.b", 1, 1), topic("a_b", 1, 1))
    member.tell_when_there("a.b")
    errors = [result.error_code for result in member.answer(reply).topics]
    assert errors == [NONE, ErrorCode.invalid_topic_exception]


def test_check_alone_makes_nothing(member):
    (result,) = member.answer(send(member, topic("t", 3, 2), validate_only=True)).topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (NONE, 3, 2)
    assert result.topic_id is None
    assert member.zookeeper.writes == []


def test_more_partitions_than_one_request_may_make_are_refused(member):
    assert refused(member, topic("t", 10_001, 1))[0] is ErrorCode.policy_violation


def test_request_waits_for_a_connection_to_zookeeper_and_no_longer_than_its_own_timeout(member, world):
    world.cut(member.client)
    reply = send(member, topic("t", 1, 1), timeout=timedelta(seconds=1))
    assert member.answer(reply).topics[0].error_code is ErrorCode.request_timed_out
    world.mend(member.client)
    # A client that was told so may have asked again by now, for another topic of this name: this one is not begun.
    assert member.children(paths.TOPICS) == ()


def test_topic_is_made_when_the_connection_is_back_in_time(member, world):
    world.cut(member.client)
    reply = send(member, topic("t", 1, 1))
    world.mend(member.client)
    member.tell_when_there("t")
    assert member.answer(reply).topics[0].error_code is NONE


def test_broker_that_is_the_controller_no_more_by_then_makes_nothing(member, world):
    world.cut(member.client)
    reply = send(member, topic("t", 1, 1))
    member.is_active = False
    world.mend(member.client)
    assert member.answer(reply).topics[0].error_code is ErrorCode.not_controller
    assert member.children(paths.TOPICS) == ()


def test_session_that_ends_while_a_topic_is_made_was_that_of_a_controller(member):
    member.zookeeper.lose_answer(Multi, ZooKeeperError.SESSION_EXPIRED)
    assert refused(member, topic("t", 1, 1)) == (ErrorCode.not_controller, None)


@pytest.mark.parametrize("kind", [Multi, Create])
def test_write_that_was_carried_out_before_the_connection_broke_is_no_error(member, kind):
    member.zookeeper.lose_answer(kind)
    reply = send(member, topic("t", 1, 1))
    member.tell_when_there("t")
    assert member.answer(reply).topics[0].error_code is NONE


def test_topic_whose_making_was_cut_off_is_found_by_its_id(member):
    """The node is there when its making is asked for again: without its id it would be taken for another's."""
    member.ask_zookeeper(Create(paths.config("topics", "t")))
    member.zookeeper.lose_answer(Create)
    reply = send(member, topic("t", 1, 1))
    member.tell_when_there("t")
    assert member.answer(reply).topics[0].error_code is NONE
    assert [one.path for one in member.zookeeper.asked if isinstance(one, Create)] == [paths.topic("t")] * 2
