"""Topics are made, grow and go with the writes of Apache Kafka 3.9.1, which are quoted here from a cluster of its brokers."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.zookeeper.session import Check, Create, Delete, Exists, GetData, Multi, SetData, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import AssignedReplicas, TopicZnode, decode_topic, paths
from oncelog.coordination import start

PLAIN = (
    b'{"partitions":{"0":[2,1,0],"1":[1,0,2],"2":[0,2,1]},"topic_id":"Dl_7JfdaQwCgFaTWT7oMmA",'
    b'"adding_replicas":{},"removing_replicas":{},"version":3}'
)
PLAIN_WITH_FOUR = (
    b'{"partitions":{"0":[2,1,0],"1":[1,0,2],"2":[0,2,1],"3":[2,1,0]},"topic_id":"Dl_7JfdaQwCgFaTWT7oMmA",'
    b'"adding_replicas":{},"removing_replicas":{},"version":3}'
)
PLACED = {0: (2, 1, 0), 1: (1, 0, 2), 2: (0, 2, 1)}
CONFIGURED = {"cleanup.policy": "compact", "min.insync.replicas": "1", "retention.ms": "3600000"}


def carry_out(member, flow):
    return member.wait(start(flow))


def there(member, name="plain", data=PLAIN):
    member.ask_zookeeper(Create(paths.topic(name), data))


def test_topic_is_made_with_kafkas_requests_in_kafkas_order(member):
    topic_id = decode_topic("plain", PLAIN).topic_id
    member.random.uuid = lambda: topic_id
    assert carry_out(member, member.topic_changes.problem("plain", PLACED)) is None
    assert carry_out(member, member.topic_changes.create("plain", PLACED, {})) == topic_id
    assert member.zookeeper.asked == [
        Exists("/admin/delete_topics/plain"),
        Exists("/brokers/topics/plain"),
        GetData("/controller"),
        Multi((Check("/controller", 0), SetData("/config/topics/plain", b'{"version":1,"config":{}}'))),
        Create("/config/topics/plain", b'{"version":1,"config":{}}'),
        Create("/brokers/topics/plain", PLAIN),
    ]


def test_settings_of_a_topic_are_written_as_kafka_writes_them(member):
    carry_out(member, member.topic_changes.create("configured", {0: (2, 1, 0)}, CONFIGURED))
    assert member.data("/config/topics/configured") == (
        b'{"version":1,"config":{"cleanup.policy":"compact","min.insync.replicas":"1","retention.ms":"3600000"}}'
    )


def test_settings_that_a_topic_of_this_name_left_are_written_over(member):
    member.ask_zookeeper(Create("/config/topics/plain", b'{"version":1,"config":{"retention.ms":"1"}}'))
    carry_out(member, member.topic_changes.create("plain", PLACED, {}))
    assert member.data("/config/topics/plain") == b'{"version":1,"config":{}}'


def test_topic_that_somebody_else_makes_at_the_same_time_exists(member):
    there(member)
    made = carry_out(member, member.topic_changes.create("plain", PLACED, {}))
    assert made == ApiError(ErrorCode.topic_already_exists, "Topic 'plain' already exists.")
    assert member.data("/brokers/topics/plain") == PLAIN


def test_no_topic_has_an_id_that_means_something_else(member):
    """Uuid.randomUuid: never one of the reserved ones, nor one whose text begins with a minus sign, like an option."""
    drawn = [UUID(int=0), UUID(int=1), UUID(int=62 << 122), UUID(int=7)]
    member.random.uuid = lambda: drawn.pop(0)
    assert carry_out(member, member.topic_changes.create("t", {0: (0,)}, {})) == UUID(int=7)


def test_topic_is_marked_for_deletion_as_kafka_does(member):
    there(member)
    assert carry_out(member, member.topic_changes.delete("plain")) is None
    assert member.zookeeper.asked == [Exists("/brokers/topics/plain"), Create("/admin/delete_topics/plain")]


def test_topic_that_is_marked_already_is_waited_for_like_one_that_was_not(member):
    there(member)
    member.ask_zookeeper(Create("/admin/delete_topics/plain"))
    assert carry_out(member, member.topic_changes.delete("plain")) is None


def test_topic_that_is_not_there_is_not_deleted(member):
    refused = carry_out(member, member.topic_changes.delete("plain"))
    assert refused.code is ErrorCode.unknown_topic_or_partition
    assert member.zookeeper.writes == []


def grow(member, count, manual=None, *, name="plain", validate_only=False):
    return carry_out(member, member.topic_changes.grow(name, count, manual, validate_only=validate_only))


def test_topic_grows_into_what_kafka_makes_of_it(member):
    there(member)
    grown = grow(member, 4)
    assert grown.partition_count == 4
    assert member.data("/brokers/topics/plain") == PLAIN_WITH_FOUR
    assert [type(one) for one in member.zookeeper.writes] == [SetData]


@pytest.mark.parametrize("kind", [GetData, SetData])
def test_topic_grows_once_though_an_answer_is_lost(member, kind):
    there(member)
    member.zookeeper.lose_answer(kind)
    assert grow(member, 4).partition_count == 4
    assert member.data("/brokers/topics/plain") == PLAIN_WITH_FOUR


def test_reassignment_that_begins_while_a_topic_grows_is_not_written_over(member):
    there(member)
    moving = TopicZnode(decode_topic("plain", PLAIN).topic_id, {0: AssignedReplicas((1, 0), (1,), (0,))})
    member.zookeeper.overtake(SetData, SetData("/brokers/topics/plain", moving.encode()))
    assert grow(member, 4).code is ErrorCode.reassignment_in_progress
    assert decode_topic("plain", member.data("/brokers/topics/plain")) == moving


def test_check_alone_lets_nothing_grow(member):
    there(member)
    assert grow(member, 4, validate_only=True).partition_count == 4
    assert member.data("/brokers/topics/plain") == PLAIN


@pytest.mark.parametrize(
    ("count", "manual", "error", "message"),
    [
        (3, None, ErrorCode.invalid_partitions, "Topic already has 3 partitions."),
        (
            2,
            None,
            ErrorCode.invalid_partitions,
            "Topic currently has 3 partitions, which is higher than the requested 2.",
        ),
        (
            4,
            [(0, 1, 9)],
            ErrorCode.invalid_replica_assignment,
            "Unknown broker(s) in replica assignment: 9.",
        ),
        (
            5,
            [(0, 1, 2)],
            ErrorCode.invalid_replica_assignment,
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
    ],
)
def test_growth_that_kafka_refuses_is_refused_in_its_words(member, count, manual, error, message):
    there(member)
    assert grow(member, count, manual) == ApiError(error, message)
    assert member.zookeeper.writes == []


def test_topic_that_shall_go_does_not_grow(member):
    there(member)
    member.ask_zookeeper(Create("/admin/delete_topics/plain"))
    assert grow(member, 4) == ApiError(ErrorCode.invalid_topic_exception, "The topic is queued for deletion.")


def test_topic_that_is_not_there_does_not_grow(member):
    refused = ApiError(ErrorCode.unknown_topic_or_partition, "The topic 'plain' does not exist.")
    assert grow(member, 4) == refused


def test_node_of_a_topic_that_cannot_be_read_is_left_as_it_is(member):
    there(member, data=b"no JSON")
    assert grow(member, 4).code is ErrorCode.unknown_server_error
    assert member.data("/brokers/topics/plain") == b"no JSON"


def test_topic_that_was_asked_for_by_name_has_no_leader_yet_when_it_is_made(member):
    made = member.topic_changes.auto_create("t", 2, {})
    assert member.wait(made) is ErrorCode.leader_not_available
    assert len(decode_topic("t", member.data("/brokers/topics/t")).partitions) == 2


def test_topic_that_others_make_too_has_no_leader_yet(member):
    """DefaultAutoTopicCreationManager: TOPIC_ALREADY_EXISTS and REQUEST_TIMED_OUT are told as LEADER_NOT_AVAILABLE."""
    there(member)
    assert member.wait(member.topic_changes.auto_create("plain", 2, {})) is ErrorCode.leader_not_available


@pytest.mark.parametrize(("name", "factor"), [("__consumer_offsets", 3), ("__transaction_state", 3), ("t", 1)])
def test_topic_is_made_with_the_replicas_that_the_settings_name(member, name, factor):
    """offsets.topic.replication.factor and transaction.state.log.replication.factor are 3, default.replication.factor is 1."""
    member.wait(member.topic_changes.auto_create(name, 1, {}))
    assert len(decode_topic(name, member.data(paths.topic(name))).partitions[0].replicas) == factor


def test_topic_is_not_made_while_there_are_fewer_live_brokers_than_it_shall_have_replicas(member):
    member.live(0, 1)
    made = member.topic_changes.auto_create("__consumer_offsets", 50, {})
    assert member.wait(made) is ErrorCode.invalid_replication_factor
    member.live(0, 1, 2)
    made = member.topic_changes.auto_create("__consumer_offsets", 50, {})
    assert member.wait(made) is ErrorCode.leader_not_available


def test_topic_whose_name_collides_is_not_made(member):
    there(member, "a.b")
    assert member.wait(member.topic_changes.auto_create("a_b", 1, {})) is ErrorCode.invalid_topic_exception


def test_session_that_ends_is_no_error_of_the_client(member):
    member.zookeeper.lose_answer(Multi, ZooKeeperError.SESSION_EXPIRED)
    assert member.wait(member.topic_changes.auto_create("t", 1, {})) is ErrorCode.leader_not_available


def test_cluster_without_a_controller_makes_a_topic_later(member):
    member.ask_zookeeper(Delete(paths.CONTROLLER))
    assert member.wait(member.topic_changes.auto_create("t", 1, {})) is ErrorCode.leader_not_available
    assert member.data(paths.topic("t")) is None


def test_replicas_go_to_different_racks(member):
    member.live(0, 1, 2, racks={0: "a", 1: "a", 2: "b"})
    placement = member.topic_changes.place(6, 2)
    assert all(2 in replicas for replicas in placement.values())
