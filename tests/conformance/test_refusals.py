"""How both brokers refuse what administrators ask for: the same error, and Kafka's own words, for scripts look for them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from harness.conformance.administrator import APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, Administrator

# --- topics and partitions


def test_topic_that_cannot_be_made_is_refused_in_kafkas_words(ask: Administrator, topic: str) -> None:
    new = f"{topic}-new"

    def refused(error: str, words: str, name: str = new, **more: Any) -> None:
        for validate_only in (True, False):
            told, text = ask.create(name, validate_only=validate_only, **more)
            assert (told, words in text) == (error, True), text

    refused("topic_already_exists", f"Topic '{topic}' already exists.", topic)
    refused("invalid_request", "Duplicate topic name.", times=2)
    refused("invalid_partitions", "Number of partitions was set to an invalid non-positive value.", partitions=0)
    positive = "Replication factor must be larger than 0, or -1 to use the default value."
    refused("invalid_replication_factor", positive, replicas=0)
    refused(
        "invalid_replication_factor",
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only "
        "1 broker(s) are registered",
        replicas=3,
    )
    refused("invalid_config", "Null value not supported for topic configs: retention.ms", retention_ms=None)
    refused("invalid_config", "Unknown topic config name: no.such", partitions=0, no_such="1")
    manual = "A manual partition assignment was specified, but"
    one = ((0, [1]),)
    refused("invalid_request", f"{manual} numPartitions was not set to -1.", replicas=-1, assigned=one)
    refused("invalid_request", f"{manual} replication factor was not set to -1.", assigned=one)


ASSIGNED = "The manual partition assignment includes"
NOT_THERE = f"{ASSIGNED} broker 7, but no such broker is registered."


@pytest.mark.parametrize(
    ("assigned", "words"),
    [
        (((0, [1]), (2, [1])), "partitions should be a consecutive 0-based integer sequence"),
        (((0, [1]), (0, [1])), "Found multiple manual partition assignments for partition 0"),
        (((0, [1, 7]),), NOT_THERE),
        (((0, [7, 1]),), NOT_THERE),
        (((0, [1]), (5, [7])), NOT_THERE),
        (((0, [1, 1]),), f"{ASSIGNED} the broker 1 more than once."),
        (((0, []),), f"{ASSIGNED} an empty replica list."),
    ],
)
def test_assignment_that_cannot_be_is_refused_in_kafkas_words(
    ask: Administrator, unique: str, assigned: tuple[tuple[int, list[int]], ...], words: str
) -> None:
    made = ask.create(unique, partitions=-1, replicas=-1, assigned=assigned)
    assert made == ("invalid_replica_assignment", words)


def test_topic_that_cannot_be_deleted_is_refused_in_kafkas_words(ask: Administrator, topic: str) -> None:
    absent = "This server does not host this topic-partition."
    assert ask.delete(f"{topic}-missing") == ("unknown_topic_or_partition", absent)
    assert ask.delete(None, uuid.uuid4()) == ("unknown_topic_id", "This server does not host this topic ID.")
    assert ask.delete(None) == ("invalid_request", "Neither topic name nor id were specified.")
    both = "You may not specify both topic name and topic id."
    assert ask.delete(topic, uuid.uuid4()) == ("invalid_request", both)
    assert ask.delete(topic, times=2) == ("invalid_request", "Duplicate topic name.")
    assert ask.delete(None, uuid.uuid4(), times=2) == ("invalid_request", "Duplicate topic id.")


def test_partitions_that_cannot_be_added_are_refused_in_kafkas_words(ask: Administrator, topic: str) -> None:
    fewer = f"The topic {topic} currently has 3 partition(s); 1 would not be an increase."
    assert ask.grow(topic, 1) == ("invalid_partitions", fewer)
    assert ask.grow(topic, 3) == ("invalid_partitions", "Topic already has 3 partition(s).")
    assert ask.grow(f"{topic}-missing", 3)[0] == "unknown_topic_or_partition"
    assert ask.grow(topic, 4, times=2) == ("invalid_request", "Duplicate topic name.")
    other = "invalid_replica_assignment"
    few = "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
    assert ask.grow(topic, 5, [[1]]) == (other, few)
    assert ask.grow(topic, 4, [[7]]) == (other, NOT_THERE)
    assert ask.grow(topic, 4, [[1, 1]]) == (other, f"{ASSIGNED} the broker 1 more than once.")


# --- changes of settings


def test_change_of_a_topics_settings_is_refused_in_kafkas_words(ask: Administrator, topic: str) -> None:
    missing = f"{topic}-missing"
    five = ("retention.ms", SET, "5")

    def refused(error: str, words: str, name: str, *steps: tuple[str, int, str | None], **more: Any) -> None:
        told, text = ask.alter(TOPIC, name, *steps, **more)
        assert (told, words in text) == (error, True), text

    refused("unknown_topic_or_partition", f"The topic '{missing}' does not exist.", missing, five)
    refused("invalid_config", "Unknown topic config name: no.such", missing, ("no.such", SET, "5"))
    soon = "Invalid value soon for configuration retention.ms: Not a number of type LONG"
    refused("invalid_config", soon, missing, ("retention.ms", SET, "soon"))
    refused(
        "invalid_config", "Unknown topic config name: no.such", topic, ("retention.ms", SET, "x"), ("no.such", SET, "x")
    )
    refused("invalid_request", "Null value not supported for : retention.ms", topic, ("retention.ms", SET, None))
    refused("invalid_request", "Error due to duplicate config keys", topic, five, five)
    refused("invalid_request", "Each resource must appear at most once.", topic, five, times=2)
    refused("invalid_request", "Default topic resources are not allowed.", "", five)
    for operation, verb in ((APPEND, "APPEND"), (SUBTRACT, "SUBTRACT")):
        no_list = f"Can't {verb} to key retention.ms because its type is not LIST."
        refused("invalid_config", no_list, topic, ("retention.ms", operation, "5"))
    assert ask.alter(TOPIC, topic, ("no.such", DELETE, None)) == ("none", "")


@pytest.mark.parametrize("broker", ["1", ""])
def test_change_of_a_brokers_settings_is_refused_in_kafkas_words(ask: Administrator, broker: str) -> None:
    name = "log.retention.ms"

    def refused(error: str, words: str, *steps: tuple[str, int, str | None]) -> None:
        told, text = ask.alter(BROKER, broker, *steps)
        assert (told, words in text) == (error, True), text

    request = "invalid_request"
    refused(request, "Cannot update these configs dynamically: [num.partitions]", ("num.partitions", SET, "5"))
    soon = f"Invalid value soon for configuration {name}: Not a number of type LONG"
    refused(request, soon, (name, SET, "soon"))
    low = "Invalid value 3 for configuration log.segment.bytes: Value must be at least 1048576"
    refused(request, low, ("log.segment.bytes", SET, "3"))
    lasting = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    refused(request, lasting, (name, SET, "0"))
    refused(request, f"Null value not supported for : {name}", (name, SET, None))
    refused("invalid_config", f"Config value append is not allowed for config key: {name}", (name, APPEND, "5"))


def test_setting_of_a_single_broker_is_refused_for_all_in_kafkas_words(ask: Administrator) -> None:
    names = ("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin")
    steps = tuple((name, SET, "58000") for name in names)
    words = "Cannot update these configs at default cluster level, broker id must be specified: "
    error, text = ask.alter(BROKER, "", *steps)
    assert (error, words in text, [name in text for name in names]) == ("invalid_request", True, [True, True]), text
    assert ask.alter(BROKER, "1", *steps) == ("none", "")


@pytest.mark.parametrize("name", ["7", "-1", "007"])
def test_broker_that_is_not_there_is_refused_in_kafkas_words(ask: Administrator, name: str) -> None:
    changed = ask.alter(BROKER, name, ("log.retention.ms", SET, "5"))
    assert changed == ("invalid_request", f"Unexpected broker id, expected 1, but received {name}")
    described = ask.describe(BROKER, name)
    said = f"Unexpected broker id, expected 1 or empty string, but received {name}"
    assert (described.error_code.name, described.error_message) == ("invalid_request", said)


@pytest.mark.parametrize("name", ["x", " 1", "1_0", "²", str(2**31)])
def test_broker_that_is_no_number_is_refused_in_kafkas_words(ask: Administrator, name: str) -> None:
    changed = ask.alter(BROKER, name, ("log.retention.ms", SET, "5"))
    assert changed == ("invalid_request", f"Node id must be an integer, but it is: {name}")
    described = ask.describe(BROKER, name)
    said = f"Broker id must be an integer, but it is: {name}"
    assert (described.error_code.name, described.error_message) == ("invalid_request", said)


@pytest.mark.parametrize("name", ["1", "+1", "01", "\u0661"])
def test_broker_is_named_by_any_text_that_is_its_number(ask: Administrator, name: str) -> None:
    assert ask.alter(BROKER, name, ("log.retention.ms", SET, "5")) == ("none", "")
    assert ask.describe(BROKER, name, ["node.id"]).configs[0].value == "1"


@pytest.mark.parametrize("kind", [0, 1, 3, 64, 77, -1])
def test_kind_of_resource_that_has_no_settings_is_refused(ask: Administrator, kind: int) -> None:
    assert ask.alter(kind, "x", ("retention.ms", SET, "5")) == ("invalid_request", f"Unknown resource type {kind}")
    assert ask.describe(kind, "x").error_code.name == "invalid_request"


def test_missing_topic_has_no_settings(ask: Administrator, unique: str) -> None:
    assert ask.describe(TOPIC, unique, ["retention.ms"]).error_code.name == "unknown_topic_or_partition"
