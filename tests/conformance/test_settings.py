"""What both brokers say of settings: where values come from, what is a number, and which values a topic or group cannot have.

The words are Kafka's own, for scripts look for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.conformance.administrator import BROKER, GROUP, SET, TOPIC, Administrator
from harness.processes import BrokerProcess
from harness.waiting import until
from oncelog.broker.config.settings import TOPIC_SETTINGS

GIVEN = {
    "log.roll.hours": "100",
    "log.retention.hours": " 48 ",
    "message.max.bytes": "900000",
    "log.flush.scheduler.interval.ms": "777",
    "log.cleanup.policy": "delete,compact",
}
"""At the start: some under the name that counts for topics, some in other units."""
CHANGED = {"log.roll.ms": "5555555", "message.max.bytes": "700000", "log.flush.interval.ms": "888"}
ELIGIBLE_LEADERS = "min.insync.replicas"
"""Kafka gives it a value of its own where eligible leader replicas (KIP-966) are on."""
OF_THE_BROKER = ("node.id", "broker.id", "log.dir", "num.partitions", *GIVEN, *CHANGED)


# --- where values come from


@pytest.mark.jvm
def test_values_come_from_where_they_come_from_in_kafka(
    new_kafka: Callable[..., BrokerProcess], new_oncelog: Callable[..., BrokerProcess]
) -> None:
    kafka, oncelog = (
        Administrator(make(**GIVEN, **{"node.id": "1"}).bootstrap_servers) for make in (new_kafka, new_oncelog)
    )
    for one in (kafka, oncelog):
        assert one.create("own", segment_ms="77777", cleanup_policy="compact") == ("none", "")
    for changed in (False, True):
        if changed:
            for one in (kafka, oncelog):
                change_the_broker(one)
        theirs, ours = (one.created(f"made-{changed}", partitions=-1, retention_ms="5") for one in (kafka, oncelog))
        assert (theirs.num_partitions, source_of_each(theirs)) == (ours.num_partitions, source_of_each(ours))
        assert without_leaders(kafka.settings(TOPIC, "own")) == without_leaders(oncelog.settings(TOPIC, "own"))
    theirs, ours = kafka.settings(BROKER, "1"), oncelog.settings(BROKER, "1")
    for name in ("message.max.bytes", "log.cleanup.policy", "log.roll.ms", "log.flush.interval.ms", "broker.id"):
        assert theirs[name] == ours[name], name
    for name in ("log.retention.hours", "log.roll.hours", "log.flush.scheduler.interval.ms", "num.partitions"):
        assert theirs[name][1:] == ours[name][1:], name


def change_the_broker(ask: Administrator) -> None:
    for broker, end in (("1", ""), ("", "0")):
        steps = [(name, SET, value + end) for name, value in CHANGED.items()]
        assert ask.alter(BROKER, broker, *steps, validate_only=False) == ("none", "")
    until(lambda: ask.settings(TOPIC, "own")["flush.ms"][:2] == ("888", 2))


def source_of_each(made: Any) -> dict[str, tuple[str, int, bool]]:
    return without_leaders({item.name: (item.value, item.config_source, item.read_only) for item in made.configs})


def without_leaders(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != ELIGIBLE_LEADERS}


def test_no_names_are_all_names(ask: Administrator, topic: str) -> None:
    until(lambda: len(ask.describe(TOPIC, topic, []).configs) == len(TOPIC_SETTINGS))
    assert len(ask.describe(BROKER, "1", []).configs) > 100
    assert ask.describe(TOPIC, topic, ["no.such"]).configs == ()


# --- numbers, as Java reads and writes them

WHOLE_NUMBERS = (" 5 ", "+5", "-1", "007", "0", "-0", "\t5\n", "\x1f5", "\u0661", "\uff11\uff12", str(2**63 - 1))
NO_WHOLE_NUMBERS = (
    "",
    "soon",
    "1_000",
    "0x10",
    "5L",
    "5.0",
    "--5",
    "\u00a05",
    "\u20035",
    "²",
    "\U0001d7d3",
    str(2**63),
)
DOUBLES = {
    " 0.5 ": "0.5",
    ".5": "0.5",
    "1.": "1.0",
    "+.5": "0.5",
    "5e-1": "0.5",
    "1E0": "1.0",
    "0.5d": "0.5",
    "0.5F": "0.5",
    "1e0d": "1.0",
    "0x1p-1": "0.5",
    "0x.8p0": "0.5",
    "-0.0": "-0.0",
    "1e-5": "1.0E-5",
    "0.00012": "1.2E-4",
    "0.001": "0.001",
    "1e-400": "0.0",
    "NaN": "NaN",
}
NO_DOUBLES = ("", "half", "nan", "inf", "1_0.5", "0.5dd", "0.5e", "0x1", "\u00a00.5", "\u0661", "infinity")


def test_whole_number_is_what_java_reads_as_one(ask: Administrator, unique: str) -> None:
    for text in WHOLE_NUMBERS:
        assert ask.create(unique, validate_only=True, retention_ms=text) == ("none", ""), text
    for text in NO_WHOLE_NUMBERS:
        said = f"Invalid value {text} for configuration retention.ms: Not a number of type LONG"
        assert ask.create(unique, validate_only=True, retention_ms=text) == ("invalid_config", said)
    said = "Invalid value 2147483648 for configuration max.message.bytes: Not a number of type INT"
    assert ask.create(unique, validate_only=True, max_message_bytes="2147483648") == ("invalid_config", said)


def test_double_is_what_java_reads_as_one(ask: Administrator, unique: str) -> None:
    name = "min.cleanable.dirty.ratio"
    for text in NO_DOUBLES:
        said = f"Invalid value {text} for configuration {name}: Not a number of type DOUBLE"
        assert ask.create(unique, validate_only=True, **{name: text}) == ("invalid_config", said)
    for text, value in (("2", "2.0"), ("Infinity", "Infinity"), ("1e400", "Infinity"), ("12345678", "1.2345678E7")):
        said = f"Invalid value {value} for configuration {name}: Value must be no more than 1"
        assert ask.create(unique, validate_only=True, **{name: text}) == ("invalid_config", said)


def test_double_is_shown_as_java_writes_it(ask: Administrator, topic: str) -> None:
    name = "min.cleanable.dirty.ratio"
    for text, value in DOUBLES.items():
        assert ask.alter(TOPIC, topic, (name, SET, text), validate_only=False) == ("none", ""), text
        until(lambda value=value: [one.value for one in ask.describe(TOPIC, topic, [name]).configs] == [value])


# --- values that are refused


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("no.such", "1", "Unknown topic config name: no.such"),
        ("retention.m", "1", "Unknown topic config name: retention.m"),
        ("log.retention.ms", "1", "Unknown topic config name: log.retention.ms"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("segment.bytes", "3", "Invalid value 3 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "compression.lz4.level",
            "18",
            "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17",
        ),
        (
            "compression.gzip.level",
            "-2",
            "Invalid value -2 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "compression.type",
            "GZIP",
            "Invalid value GZIP for configuration compression.type: String must be one of: "
            "uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "cleanup.policy",
            "compact,nope",
            "Invalid value nope for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "leader.replication.throttled.replicas",
            "0:1,2",
            "Invalid value [0:1, 2] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            "remote.storage.enable",
            "true",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_value_that_a_topic_cannot_have_is_refused_in_kafkas_words(
    ask: Administrator, topic: str, name: str, value: str, words: str
) -> None:
    for error, text in (
        ask.create(f"{topic}-new", **{name: value}),
        ask.create(f"{topic}-new", validate_only=True, **{name: value}),
        ask.alter(TOPIC, topic, (name, SET, value)),
        ask.alter(TOPIC, topic, (name, SET, value), validate_only=False),
    ):
        assert error == "invalid_config"
        assert words in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "0"),
        ("retention.bytes", "-5"),
        ("cleanup.policy", "delete, delete"),
        ("cleanup.policy", ""),
        ("preallocate", " TRUE "),
        ("follower.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
    ],
)
def test_value_that_kafka_takes_is_taken(ask: Administrator, topic: str, name: str, value: str) -> None:
    assert ask.create(f"{topic}-new", validate_only=True, **{name: value}) == ("none", "")
    assert ask.alter(TOPIC, topic, (name, SET, value)) == ("none", "")


def test_settings_that_contradict_each_other_are_refused(ask: Administrator, topic: str) -> None:
    said = "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
    pair = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    assert ask.create(f"{topic}-new", **pair) == ("invalid_config", said)
    steps = [(name, SET, value) for name, value in pair.items()]
    assert ask.alter(TOPIC, topic, *steps) == ("invalid_config", said)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("no.such", "5", "Unknown group config name: no.such"),
        (
            "consumer.session.timeout.ms",
            "soon",
            "Invalid value soon for configuration consumer.session.timeout.ms: Not a number of type INT",
        ),
        (
            "consumer.session.timeout.ms",
            "5",
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            "consumer.heartbeat.interval.ms",
            "500000",
            "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
    ],
)
def test_value_that_a_group_cannot_have_is_refused_in_kafkas_words(
    ask: Administrator, group: str, name: str, value: str, words: str
) -> None:
    error, text = ask.alter(GROUP, group, (name, SET, value))
    assert error == "invalid_config"
    assert text.startswith(words)


def test_group_without_a_name_has_no_settings(ask: Administrator) -> None:
    changed = ask.alter(GROUP, "", ("consumer.session.timeout.ms", SET, "50000"))
    assert changed == ("invalid_request", "Default group resources are not allowed.")
    described = ask.describe(GROUP, "")
    assert (described.error_code.name, described.error_message) == ("invalid_request", "Group name must not be empty")
