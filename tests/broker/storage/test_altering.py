"""Changing settings while the broker runs: they count at once, survive, and what cannot be is refused as Kafka does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from oncelog.records import Codec, read_header
from tests.broker.test_administration import create, write

NONE = ErrorCode.none
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = range(1, 6)


@pytest.fixture
def broker() -> BrokerInMemory:
    made = BrokerInMemory(SteppedDisk(), ManualClock())
    create(made, "t")
    return made


def alter(
    broker: BrokerInMemory,
    kind: int,
    name: str,
    *steps: tuple[str, int, str | None],
    version: int = 1,
    validate_only: bool = False,
) -> ErrorCode:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in steps]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    answer = broker.ask(
        "incremental_alter_configs", version, resources=[resource], validate_only=validate_only
    ).responses[0]
    assert (answer.error_message is None) is (answer.error_code is NONE)
    return answer.error_code


def replace(broker: BrokerInMemory, kind: int, name: str, version: int = 2, **values: str | None) -> ErrorCode:
    configs = [{"name": key.replace("_", "."), "value": value} for key, value in values.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return broker.ask("alter_configs", version, resources=[resource], validate_only=False).responses[0].error_code


def described(broker: BrokerInMemory, kind: int, name: str, *keys: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    answer = broker.ask("describe_configs", 4, resources=[resource], include_synonyms=True, include_documentation=True)
    return {entry.name: entry for entry in answer.results[0].configs}


def value_of(broker: BrokerInMemory, kind: int, name: str, key: str) -> tuple[str, int]:
    entry = described(broker, kind, name, key)[key]
    return entry.value, entry.config_source


# --- topics


@pytest.mark.parametrize("version", [0, 1])
def test_topic_setting_that_was_acknowledged_survives_a_power_cut(broker: BrokerInMemory, version: int) -> None:
    assert alter(broker, TOPIC, "t", ("retention.ms", SET, " 77 "), version=version) is NONE
    broker.disk.crash()
    broker.restart()
    assert value_of(broker, TOPIC, "t", "retention.ms") == ("77", DYNAMIC_TOPIC)
    assert alter(broker, TOPIC, "t", ("retention.ms", DELETE, None)) is NONE
    broker.disk.kill()
    broker.restart()
    assert value_of(broker, TOPIC, "t", "retention.ms") == ("604800000", DEFAULT)


def test_setting_is_not_acknowledged_and_does_not_count_before_it_is_durable(broker: BrokerInMemory) -> None:
    broker.settle()
    configs = [{"name": "max.message.bytes", "config_operation": SET, "value": "1"}]
    resource = {"resource_type": TOPIC, "resource_name": "t", "configs": configs}
    reply = broker.send("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert not reply.came
    assert value_of(broker, TOPIC, "t", "max.message.bytes") == ("1048588", DEFAULT)
    broker.settle()
    assert reply.came
    assert value_of(broker, TOPIC, "t", "max.message.bytes") == ("1", DYNAMIC_TOPIC)


def test_changes_that_overlap_are_both_kept(broker: BrokerInMemory) -> None:
    broker.settle()
    replies = []
    for name in ("retention.ms", "retention.bytes"):
        configs = [{"name": name, "config_operation": SET, "value": "5"}]
        resource = {"resource_type": TOPIC, "resource_name": "t", "configs": configs}
        replies.append(broker.send("incremental_alter_configs", 1, resources=[resource], validate_only=False))
    broker.settle()
    assert all(reply.came for reply in replies)
    topic = broker.core.topics.named("t")
    assert topic is not None
    assert topic.configs == {"retention.ms": "5", "retention.bytes": "5"}


def test_lists_grow_and_shrink_from_kafkas_default(broker: BrokerInMemory) -> None:
    def policy() -> str:
        return value_of(broker, TOPIC, "t", "cleanup.policy")[0]

    for operation, value, left in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact,delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
        (SET, " compact , delete ", "compact,delete"),
    ):
        assert alter(broker, TOPIC, "t", ("cleanup.policy", operation, value)) is NONE
        assert policy() == left


@pytest.mark.parametrize(
    ("name", "steps", "error"),
    [
        ("t", [("no.such", SET, "1")], ErrorCode.invalid_config),
        ("t", [("no.such", DELETE, None)], NONE),
        ("t", [("retention.ms", DELETE, None)], NONE),
        ("t", [("retention.ms", SET, "abc")], ErrorCode.invalid_config),
        ("t", [("retention.ms", SET, "-5")], ErrorCode.invalid_config),
        ("t", [("segment.bytes", SET, "5")], ErrorCode.invalid_config),
        ("t", [("cleanup.policy", SET, "compact,burn")], ErrorCode.invalid_config),
        ("t", [("compression.gzip.level", SET, "0")], ErrorCode.invalid_config),
        ("t", [("remote.storage.enable", SET, "true")], ErrorCode.invalid_config),
        ("t", [("retention.ms", APPEND, "5")], ErrorCode.invalid_config),
        ("t", [("retention.ms", SUBTRACT, "5")], ErrorCode.invalid_config),
        ("t", [("retention.ms", SET, None)], ErrorCode.invalid_request),
        ("t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.invalid_request),
        ("t", [("retention.ms", 9, "1")], ErrorCode.invalid_request),
        ("missing", [("retention.ms", SET, "1")], ErrorCode.unknown_topic_or_partition),
        ("missing", [("retention.ms", SET, "soon")], ErrorCode.invalid_config),
        ("t", [("max.compaction.lag.ms", SET, "5"), ("min.compaction.lag.ms", SET, "6")], ErrorCode.invalid_config),
        ("two words", [("retention.ms", SET, "1")], ErrorCode.invalid_topic_exception),
        ("", [("retention.ms", SET, "1")], ErrorCode.invalid_request),
    ],
)
def test_topic_setting_that_kafka_would_not_take_is_refused(
    broker: BrokerInMemory, name: str, steps: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    assert alter(broker, TOPIC, name, *steps) is error
    topic = broker.core.topics.named("t")
    assert topic is not None
    assert topic.configs == {}


def test_validation_changes_nothing(broker: BrokerInMemory) -> None:
    assert alter(broker, TOPIC, "t", ("retention.ms", SET, "1"), validate_only=True) is NONE
    assert alter(broker, TOPIC, "t", ("retention.ms", SET, "x"), validate_only=True) is ErrorCode.invalid_config
    assert value_of(broker, TOPIC, "t", "retention.ms") == ("604800000", DEFAULT)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_settings_that_are_replaced_go_when_they_are_not_named(broker: BrokerInMemory, version: int) -> None:
    alter(broker, TOPIC, "t", ("retention.ms", SET, "1"))
    assert replace(broker, TOPIC, "t", version, retention_bytes="5") is NONE
    topic = broker.core.topics.named("t")
    assert topic is not None
    assert topic.configs == {"retention.bytes": "5"}
    assert replace(broker, TOPIC, "t", version, retention_ms=None) is ErrorCode.invalid_request
    assert replace(broker, TOPIC, "t", version) is NONE
    assert topic.configs == {}


def test_resource_that_is_named_twice_is_refused_both_times(broker: BrokerInMemory) -> None:
    resource = {"resource_type": TOPIC, "resource_name": "t", "configs": [{"name": "retention.ms", "value": "1"}]}
    answer = broker.ask("alter_configs", 2, resources=[resource, resource], validate_only=False)
    assert [item.error_code for item in answer.responses] == [ErrorCode.invalid_request] * 2


# --- open logs


def test_open_log_obeys_its_new_settings_from_the_next_batch_on(broker: BrokerInMemory) -> None:
    assert write(broker, "t", 20).error_code is NONE
    alter(broker, TOPIC, "t", ("max.message.bytes", SET, "100"), ("message.timestamp.type", SET, "LogAppendTime"))
    assert write(broker, "t", 20).error_code is ErrorCode.message_too_large
    assert write(broker, "t", 1).log_append_time is not None
    alter(broker, TOPIC, "t", ("message.timestamp.type", DELETE, None))
    assert write(broker, "t", 1).log_append_time is None


def test_open_log_forgets_by_its_new_retention(broker: BrokerInMemory) -> None:
    partition = broker.core.topics.partition("t", 0)
    assert partition is not None
    write(broker, "t", 5)
    broker.clock.advance(400_000)
    assert partition.log.log_start_offset == 0
    alter(broker, TOPIC, "t", ("retention.ms", SET, "1000"))
    broker.clock.advance(400_000)
    assert partition.log.log_start_offset == 5


@pytest.mark.parametrize("policy", ["compact", ""])
def test_retention_deletes_only_where_the_policy_says_delete(broker: BrokerInMemory, policy: str) -> None:
    partition = broker.core.topics.partition("t", 0)
    assert partition is not None
    alter(
        broker,
        TOPIC,
        "t",
        ("retention.ms", SET, "1000"),
        ("retention.bytes", SET, "1"),
        ("cleanup.policy", SET, policy),
    )
    write(broker, "t", 5, key=b"k")
    broker.clock.advance(400_000)
    assert partition.log.log_start_offset == 0
    alter(broker, TOPIC, "t", ("cleanup.policy", SET, "compact,delete"))
    broker.clock.advance(400_000)
    assert partition.log.log_start_offset == 5


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
        ("uncompressed", Codec.NONE),
        ("producer", Codec.NONE),
    ],
)
def test_batch_is_stored_under_the_codec_of_the_topic(broker: BrokerInMemory, kind: str, codec: Codec) -> None:
    partition = broker.core.topics.partition("t", 0)
    assert partition is not None
    alter(broker, TOPIC, "t", ("compression.type", SET, kind))
    assert write(broker, "t", 100).error_code is NONE
    data, _ = partition.log.read(0, 1_000_000, 100)
    assert read_header(data).codec is codec


@pytest.mark.parametrize(("version", "error"), [(9, ErrorCode.unsupported_compression_type), (10, NONE)])
def test_topic_that_stores_zstd_is_read_by_clients_that_know_it(
    broker: BrokerInMemory, version: int, error: ErrorCode
) -> None:
    alter(broker, TOPIC, "t", ("compression.type", SET, "zstd"))
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}
    answer = broker.ask(
        "fetch",
        version,
        max_wait=timedelta(0),
        min_bytes=0,
        isolation_level=0,
        topics=[{"topic": "t", "partitions": [asked]}],
        forgotten_topics_data=[],
    )
    assert answer.responses[0].partitions[0].error_code is error


# --- brokers


def test_setting_of_this_broker_is_stronger_than_that_of_every_broker_and_both_survive(broker: BrokerInMemory) -> None:
    assert alter(broker, BROKER, "", ("log.retention.ms", SET, "2000000"), ("message.max.bytes", SET, "2000")) is NONE
    assert alter(broker, BROKER, "1", ("log.retention.ms", SET, "1000000")) is NONE
    for _ in range(2):
        assert value_of(broker, BROKER, "1", "message.max.bytes") == ("2000", DYNAMIC_DEFAULT)
        entry = described(broker, TOPIC, "t", "retention.ms")["retention.ms"]
        assert (entry.value, entry.config_source) == ("1000000", DYNAMIC_BROKER)
        assert [(item.name, item.value, item.source) for item in entry.synonyms] == [
            ("log.retention.ms", "1000000", DYNAMIC_BROKER),
            ("log.retention.ms", "2000000", DYNAMIC_DEFAULT),
            ("log.retention.hours", "168", DEFAULT),
        ]
        assert described(broker, BROKER, "").keys() == {"log.retention.ms", "message.max.bytes"}
        broker.disk.crash()
        broker.restart()
    assert alter(broker, BROKER, "1", ("log.retention.ms", DELETE, None)) is NONE
    assert value_of(broker, TOPIC, "t", "retention.ms") == ("2000000", DYNAMIC_DEFAULT)


def test_setting_of_the_broker_counts_at_once_where_a_topic_has_none_of_its_own(broker: BrokerInMemory) -> None:
    create(broker, "own", max_message_bytes="1000000")
    alter(broker, BROKER, "", ("message.max.bytes", SET, "100"))
    assert write(broker, "t", 50).error_code is ErrorCode.message_too_large
    assert write(broker, "own", 50).error_code is NONE


@pytest.mark.parametrize(
    ("name", "step", "error"),
    [
        ("1", ("num.partitions", SET, "3"), ErrorCode.invalid_request),
        ("", ("num.partitions", SET, "3"), ErrorCode.invalid_request),
        ("1", ("log.retention.hours", SET, "3"), ErrorCode.invalid_request),
        ("1", ("log.retention.ms", SET, "abc"), ErrorCode.invalid_request),
        ("1", ("log.segment.bytes", SET, "3"), ErrorCode.invalid_request),
        ("5", ("log.retention.ms", SET, "1"), ErrorCode.invalid_request),
        ("abc", ("log.retention.ms", SET, "1"), ErrorCode.invalid_request),
        ("\u00b2", ("log.retention.ms", SET, "1"), ErrorCode.invalid_request),
        ("1", ("no.such", SET, "1"), ErrorCode.invalid_request),
        ("1", ("no.such", DELETE, None), NONE),
    ],
)
def test_setting_that_a_running_broker_does_not_take_is_refused(
    broker: BrokerInMemory, name: str, step: tuple[str, int, str | None], error: ErrorCode
) -> None:
    """The last but one Kafka stores, for a plug-in could read it; there are none here."""
    assert alter(broker, BROKER, name, step) is error
    assert described(broker, BROKER, "") == {}


def test_threads_that_mean_nothing_may_be_any_number(broker: BrokerInMemory) -> None:
    """Kafka takes at most twice as many as there are, and at least half."""
    assert alter(broker, BROKER, "1", ("num.io.threads", SET, "100")) is NONE
    assert value_of(broker, BROKER, "1", "num.io.threads") == ("100", DYNAMIC_BROKER)


def test_setting_in_other_units_is_described_as_it_counts_after_a_change_of_another() -> None:
    """Kafka shows its default here, and says that the start gave it."""
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), log_roll_hours="100")
    assert alter(broker, BROKER, "1", ("message.max.bytes", SET, "5000")) is NONE
    assert value_of(broker, BROKER, "1", "log.roll.hours") == ("100", STATIC)


def test_resource_that_has_no_settings_is_refused(broker: BrokerInMemory) -> None:
    assert alter(broker, 77, "x", ("a", SET, "b")) is ErrorCode.invalid_request


def test_every_entry_says_what_it_is(broker: BrokerInMemory) -> None:
    boolean, long, double, list_ = 1, 5, 6, 7
    entries = described(broker, BROKER, "1")
    assert all(entry.documentation for entry in entries.values())
    assert entries["auto.create.topics.enable"].config_type == boolean
    assert entries["log.retention.ms"].config_type == long
    assert entries["log.retention.ms"].value is None
    assert entries["log.cleaner.min.cleanable.ratio"].config_type == double
    assert entries["log.cleanup.policy"].config_type == list_
    assert entries["num.partitions"].read_only
    assert not entries["log.retention.ms"].read_only


def test_node_is_numbered_as_its_directory_says() -> None:
    disk = SteppedDisk()
    broker = BrokerInMemory(disk, ManualClock(), broker_id="7")
    assert broker.core.node_id == 7
    broker.core.stop()
    again = BrokerInMemory(disk, ManualClock())
    assert again.core.node_id == 7
    assert described(again, BROKER, "7", "node.id")["node.id"].value == "7"
