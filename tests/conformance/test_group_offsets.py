"""Whose offsets a group takes, and what an administrator may do with it, on our broker and on Apache Kafka."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.conformance.group_client import GroupClient, stable
from harness.group_requests import JOIN, commit_fields, join_fields, subscription
from harness.shared_producer import LOADING, until

NONE = ErrorCode.none
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION = ErrorCode.unknown_member_id, ErrorCode.illegal_generation
REBALANCE, FENCED = ErrorCode.rebalance_in_progress, ErrorCode.fenced_instance_id
EVERY_OPERATION = 0b1101_0100_1000


# --------------------------------------------------------------------------------------------------- offsets


@pytest.fixture
def topic(new_topic) -> str:
    return new_topic()


MEMBER_FACTS = [
    ({}, NONE),
    ({"generation": 0}, ILLEGAL_GENERATION),
    ({"generation": 2}, ILLEGAL_GENERATION),
    ({"generation": -1}, ILLEGAL_GENERATION),
    ({"member_id": "nobody"}, UNKNOWN_MEMBER_ID),
    ({"member_id": "nobody", "generation": -1}, UNKNOWN_MEMBER_ID),
    ({"member_id": "", "generation": 1}, UNKNOWN_MEMBER_ID),
    ({"instance_id": "nobody"}, UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(
    ("facts", "expected"), [*MEMBER_FACTS, ({"member_id": "", "generation": -1}, UNKNOWN_MEMBER_ID)], ids=str
)
def test_commit_for_a_group_with_members_is_theirs(new_client, topic, facts, expected):
    client = new_client()
    stable(client)
    assert client.commit(topic, **facts) is expected


@pytest.mark.parametrize(("facts", "expected"), [*MEMBER_FACTS, ({"member_id": "", "generation": -1}, NONE)], ids=str)
def test_commit_in_a_transaction_is_fenced_by_whom_it_names(new_client, topic, unique, facts, expected):
    """KIP-447: the member and its generation are checked if they are given; older producers do not say who they are."""
    client = new_client()
    stable(client)
    assert transactional_commit(client, topic, unique, **facts) is expected


def transactional_commit(client: GroupClient, topic: str, unique: str, **facts: Any) -> ErrorCode:
    who = new_producer(client, unique)
    while (added := client.ask("add_offsets_to_txn", 3, **who, group_id=client.group).error_code) is not NONE:
        assert added is ErrorCode.concurrent_transactions
    answer = client.ask("txn_offset_commit", 4, **who, **transactional_fields(client, topic, {0: 1}, **facts))
    client.ask("end_txn", 4, **who, committed=False)
    return answer.topics[0].partitions[0].error_code


def new_producer(client: GroupClient, unique: str) -> dict[str, Any]:
    transactional_id = f"tx-{unique}"
    until(lambda: client.ask("find_coordinator", 3, key=transactional_id, key_type=1).error_code is NONE)
    minute = join_fields(JOIN, client.group)["rebalance_timeout"]
    asked = {"transactional_id": transactional_id, "transaction_timeout": minute}
    until(lambda: client.ask("init_producer_id", 4, **asked).error_code not in LOADING)
    producer = client.ask("init_producer_id", 4, **asked)
    assert producer.error_code is NONE
    return {
        "transactional_id": transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }


def transactional_fields(client: GroupClient, topic: str, offsets: dict[int, int], **facts: Any) -> dict[str, Any]:
    options = {
        "member_id": client.member_id,
        "generation": client.generation,
        "instance_id": client.instance_id,
    } | facts
    fields = commit_fields(client.group, topic, offsets, **options)
    fields["generation_id"] = fields.pop("generation_id_or_member_epoch")
    return fields


@pytest.mark.parametrize("name", ["the topic", "nobody's"])
def test_offsets_of_partitions_that_are_not_there_are_refused_before_the_producer_is_looked_at(
    new_client, topic, unique, name
):
    """KafkaApis.handleTxnOffsetCommitRequest; with v5 (KIP-890) they would begin a transaction."""
    client = new_client()
    stable(client)
    who = new_producer(client, unique)
    fields = transactional_fields(client, topic if name == "the topic" else name, {7: 1, 8: 1})
    stranger = who | {"producer_id": who["producer_id"] + 1_000_000}
    for version, producer in ((3, stranger), (5, stranger), (5, who)):
        answer = client.ask("txn_offset_commit", version, **producer, **fields)
        errors = [partition.error_code for partition in answer.topics[0].partitions]
        assert errors == [ErrorCode.unknown_topic_or_partition] * 2
    listed = client.ask("list_transactions", 1, state_filters=[], producer_id_filters=[who["producer_id"]])
    assert [one.transaction_state for one in listed.transaction_states] == ["Empty"]


def test_of_a_strangers_offsets_those_of_partitions_that_are_not_there_are_refused_for_that(new_client, topic, unique):
    client = new_client()
    stable(client)
    who = new_producer(client, unique)
    stranger = who | {"producer_id": who["producer_id"] + 1_000_000}
    fields = transactional_fields(client, topic, {0: 1, 7: 1})
    answer = client.ask("txn_offset_commit", 5, **stranger, **fields)
    errors = {partition.partition_index: partition.error_code for partition in answer.topics[0].partitions}
    assert errors == {0: ErrorCode.invalid_producer_id_mapping, 7: ErrorCode.unknown_topic_or_partition}


def test_commit_while_the_group_rebalances(new_client, topic, unique):
    """Those who have yet to join again may still commit; while the leader assigns nobody may, but in a transaction."""
    one, two = new_client(), new_client()
    stable(one)
    two.enter()
    one.wait_for_rebalance()
    assert one.commit(topic) is NONE
    assert one.commit(topic, member_id=two.member_id) is NONE, (
        "it is in already, and names the generation that still counts"
    )
    one.send_join()
    one.joined()
    two.joined()
    assert one.commit(topic) is two.commit(topic) is REBALANCE
    assert one.commit(topic, generation=1) is ILLEGAL_GENERATION
    assert transactional_commit(one, topic, unique) is NONE


def test_static_member_that_was_replaced_cannot_commit(new_client, topic, unique):
    old, new = new_client("i-1"), new_client("i-1")
    stable(old)
    assert new.join().error_code is NONE
    assert old.commit(topic) is FENCED
    assert transactional_commit(old, topic, unique) is FENCED
    assert new.commit(topic) is NONE


@pytest.mark.parametrize(("version", "expected"), [(8, ILLEGAL_GENERATION), (9, ErrorCode.group_id_not_found)])
def test_commit_of_a_generation_for_a_group_that_is_not_there(new_client, topic, version, expected):
    assert new_client().commit(topic, version, member_id="m", generation=1) is expected


def test_commit_without_a_generation_makes_a_group_that_anybody_may_join(new_client, topic):
    client = new_client()
    assert client.commit(topic) is NONE
    assert client.commit(topic, member_id="m", generation=1) is UNKNOWN_MEMBER_ID
    assert client.describe().group_state == "Empty"
    stable(client)
    assert client.commit(topic) is NONE


# --------------------------------------------------------------------------------------------------- administration


def offset_delete(client: GroupClient, *partitions: tuple[str, int]) -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": index} for _, index in found]}
        for name, found in itertools.groupby(partitions, key=lambda one: one[0])
    ]
    return client.ask("offset_delete", 0, group_id=client.group, topics=topics)


def test_group_with_members_is_not_deleted(new_client):
    client = new_client()
    stable(client)
    (result,) = client.ask("delete_groups", 2, groups_names=[client.group]).results
    assert result.error_code is ErrorCode.non_empty_group
    client.leave()
    (result,) = client.ask("delete_groups", 2, groups_names=[client.group, client.group]).results
    assert result.error_code is NONE
    (result,) = client.ask("delete_groups", 1, groups_names=[client.group]).results
    assert result.error_code is ErrorCode.group_id_not_found
    assert client.describe().group_state == "Dead"


def test_offsets_of_topics_that_are_subscribed_to_are_not_deleted(new_client, new_topic):
    """KIP-496: GROUP_SUBSCRIBED_TO_TOPIC."""
    subscribed, other = new_topic(partitions=2), new_topic()
    client = new_client(protocols={"range": subscription(subscribed)})
    client.commit(subscribed)
    client.commit(other)
    stable(client)
    answer = offset_delete(client, (other, 0), (subscribed, 0), (subscribed, 1), ("nowhere", 0))
    assert answer.error_code is NONE
    found = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }
    assert found == {
        (other, 0): NONE,
        (subscribed, 0): ErrorCode.group_subscribed_to_topic,
        (subscribed, 1): ErrorCode.group_subscribed_to_topic,
        ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
    }
    fetched = client.ask("offset_fetch", 7, group_id=client.group, topics=None, require_stable=False)
    assert [topic.name for topic in fetched.topics] == [subscribed]
    client.leave()
    assert offset_delete(client, (subscribed, 0)).topics[0].partitions[0].error_code is NONE


def test_offsets_of_a_group_that_says_nothing_of_topics_are_not_deleted_while_it_has_members(new_client, topic):
    client = new_client(protocol_type="connect")
    client.commit(topic)
    stable_type = {"protocol_type": "connect"}
    client.enter()
    client.joined()
    client.sync({}, **stable_type)
    answer = offset_delete(client, (topic, 0))
    assert (answer.error_code, answer.topics) == (ErrorCode.non_empty_group, ())


def test_offsets_of_no_group_are_not_deleted(new_client, topic):
    client = new_client()
    assert offset_delete(client, (topic, 0)).error_code is ErrorCode.group_id_not_found
    client.group = ""
    assert offset_delete(client, (topic, 0)).error_code is ErrorCode.invalid_group_id


def test_group_that_is_not_there_is_described_as_dead(new_client):
    """KIP-1043: v6 says that it was not found."""
    client = new_client()
    found = client.describe(5, operations=True)
    assert (found.error_code, found.group_state, found.protocol_type) == (NONE, "Dead", "")
    assert found.authorized_operations == EVERY_OPERATION
    found = client.describe(6, operations=True)
    assert (found.error_code, found.group_state) == (ErrorCode.group_id_not_found, "Dead")
    assert found.error_message == f"Group {client.group} not found."
    assert found.authorized_operations == -(2**31)


def test_groups_are_listed_by_state_and_type(new_client, topic):
    members, simple = new_client(), new_client()
    simple.group += "-simple"
    stable(members)
    simple.commit(topic)

    def listed(version: int, **filters: list[str]) -> dict[str, Any]:
        answer = members.ask("list_groups", version, **filters)
        assert answer.error_code is NONE
        return {one.group_id: one for one in answer.groups if one.group_id.startswith(members.group)}

    everything = listed(5, states_filter=[], types_filter=[])
    assert {name: (one.protocol_type, one.group_state, one.group_type.lower()) for name, one in everything.items()} == {
        members.group: ("consumer", "Stable", "classic"),
        simple.group: ("", "Empty", "classic"),
    }
    assert set(listed(0)) == {members.group, simple.group}
    assert set(listed(4, states_filter=["sTABLE"])) == {members.group}
    assert set(listed(4, states_filter=["Empty", "Dead"])) == {simple.group}
    assert set(listed(5, states_filter=[], types_filter=["CLASSIC"])) == {members.group, simple.group}
    assert listed(5, states_filter=[], types_filter=["consumer"]) == {}
    assert listed(5, states_filter=["nonsense"], types_filter=[]) == {}
