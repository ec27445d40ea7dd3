"""Administration with real clients, on our broker and on Apache Kafka: the same questions, the same answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioPartitions
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient
from kio.schema.errors import ErrorCode

from harness.kafka import FIRST_LOOK_AT_RETENTION
from harness.processes import BrokerProcess
from harness.transaction_in_memory import MINUTE
from harness.waiting import TIMEOUT_SECONDS, until
from harness.wire import Connection
from oncelog import client
from oncelog.broker.config.group_configuration import GROUP_SETTINGS
from oncelog.broker.config.properties import NOT_HERE, NOT_HERE_PREFIXES
from oncelog.broker.config.security_settings import SECURITY_SETTINGS
from oncelog.broker.config.setting import text_of
from oncelog.broker.config.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from tools.pages.configuration import DIFFERENT_DEFAULTS
from tools.pages.kafka_apis import KAFKA_APIS

DEFAULT_CONFIG = 5
ONLY_WITH_ZOOKEEPER = {
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "leader.imbalance.per.broker.percentage",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.session.timeout.ms",
}
"""Kafka has these up to 3.9, for a cluster that keeps its state in ZooKeeper."""
FIXED_HERE = {
    "listeners",
    "listener.security.protocol.map",
    "group.consumer.assignment.interval.ms",
    "num.replica.fetchers",
}
FIXED_HERE |= {setting.name for setting in SECURITY_SETTINGS if setting.name.startswith(("ssl.", "sasl."))}
"""Kafka can open another listener while it runs and read its stores anew, wait longer between two assignments, and follow by
more connections."""
KINDS = ("unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")


@pytest.fixture
def admin(log: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": log.bootstrap_servers})


@pytest.fixture
def connection(log: BrokerProcess) -> Iterator[Connection]:
    made = Connection(log.bootstrap_servers)
    yield made
    made.close()


def error_of(asked: Callable[[], Any]) -> str:
    """The name of the error that an answer has, or "none"."""
    try:
        asked()
    except KafkaException as error:
        return str(error.args[0].name())
    return "none"


# --- the settings are Kafka's


def described_by_kafka(kafka: BrokerProcess, kind: int, name: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    connection = Connection(kafka.bootstrap_servers)
    answer = connection.ask(
        "describe_configs", 4, resources=[resource], include_synonyms=True, include_documentation=False
    )
    connection.close()
    return {entry.name: entry for entry in answer.results[0].configs}


def default_of(entry: Any) -> str | None:
    found = [synonym.value for synonym in entry.synonyms if synonym.source == DEFAULT_CONFIG]
    if found:
        return found[0]
    return entry.value if entry.config_source == DEFAULT_CONFIG else None


OF_THE_AUTHORIZER = {"super.users"}
"""Kafka's brokers hand them to the authorizer that they are told to have, and describe them nowhere."""


@pytest.mark.jvm
def test_settings_of_the_broker_have_kafkas_names_types_defaults_and_flags(kafka: BrokerProcess) -> None:
    described = described_by_kafka(kafka, 4, "1")
    kafkas = {name: setting for name, setting in BROKER_SETTINGS.items() if not setting.is_own}
    assert described.keys().isdisjoint(ONLY_WITH_ZOOKEEPER)
    kafkas = {name: one for name, one in kafkas.items() if name not in ONLY_WITH_ZOOKEEPER | OF_THE_AUTHORIZER}
    assert kafkas.keys() == BROKER_SETTINGS.keys() & described.keys()
    for name, setting in kafkas.items():
        entry = described[name]
        assert setting.kind == KINDS[entry.config_type], name
        assert setting.is_sensitive == entry.is_sensitive, name
        assert (not setting.is_dynamic) == entry.read_only or name in FIXED_HERE, name
        theirs = default_of(entry) or None
        if name in DIFFERENT_DEFAULTS:
            assert DIFFERENT_DEFAULTS[name][0] == theirs, name
        elif name not in {"group.initial.rebalance.delay.ms"}:
            assert (text_of(setting.default) or None) == theirs, name


@pytest.mark.jvm
def test_every_setting_of_kafka_is_taken_or_known_to_be_left_out(kafka: BrokerProcess) -> None:
    described = described_by_kafka(kafka, 4, "1")
    unknown = [
        name
        for name in described.keys() - {FIRST_LOOK_AT_RETENTION}
        if name not in BROKER_SETTINGS and name not in NOT_HERE and not name.startswith(NOT_HERE_PREFIXES)
    ]
    assert unknown == []
    assert described.keys() >= NOT_HERE


@pytest.mark.jvm
def test_settings_of_a_topic_are_kafkas(kafka: BrokerProcess) -> None:
    name = f"settings-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_SECONDS)
    described: dict[str, Any] = {}
    until(lambda: bool(described.update(described_by_kafka(kafka, 2, name)) or described))
    assert described.keys() == TOPIC_SETTINGS.keys()
    for key, setting in TOPIC_SETTINGS.items():
        assert setting.kind == KINDS[described[key].config_type], key
        if described[key].config_source == DEFAULT_CONFIG:
            assert text_of(setting.default) == described[key].value, key


@pytest.mark.jvm
def test_settings_of_a_group_have_kafkas_names_types_defaults_and_flags(kafka: BrokerProcess) -> None:
    described = described_by_kafka(kafka, 32, "nobody")
    assert described.keys() == GROUP_SETTINGS.keys()
    for key, setting in GROUP_SETTINGS.items():
        assert setting.kind == KINDS[described[key].config_type], key
        assert text_of(setting.default) == default_of(described[key]), key
        assert (setting.is_sensitive, not setting.is_dynamic) == (described[key].is_sensitive, described[key].read_only)


@pytest.mark.jvm
def test_apis_of_the_page_are_those_that_kafka_lists(kafka: BrokerProcess) -> None:
    connection = Connection(kafka.bootstrap_servers)
    answer = connection.ask("api_versions", 3, client_software_name="tests", client_software_version="1")
    connection.close()
    listed = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    # The lowest version of Produce is listed for old librdkafka alone.
    assert listed.pop(0) == (0, 13)
    assert listed == {api.key: (api.minimum, api.maximum) for api in KAFKA_APIS if api.key}


def test_access_control_is_disabled_without_an_authorizer(connection: Connection) -> None:
    described = connection.ask(
        "describe_acls",
        3,
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert described.error_code.name == "security_disabled"
    assert described.error_message == "No Authorizer is configured on the broker"
    rule = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
    made = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3} | rule
    (created,) = connection.ask("create_acls", 3, creations=[made]).results
    assert (created.error_code.name, created.error_message) == ("security_disabled", "No Authorizer is configured.")
    gone = {"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 3, "operation": 3}
    (deleted,) = connection.ask(
        "delete_acls", 3, filters=[gone | {"principal_filter": None, "host_filter": None, "permission_type": 3}]
    ).filter_results
    assert (deleted.error_code.name, deleted.error_message) == ("security_disabled", "No Authorizer is configured.")


# --- topics


def test_partitions_are_added_and_what_cannot_be_is_refused(admin: AdminClient, new_topic: Callable[..., str]) -> None:
    name = new_topic(2)

    def add(count: int, topic: str = name, **more: Any) -> str:
        asked = NewPartitions(topic, count, **more)
        return error_of(lambda: admin.create_partitions([asked])[topic].result(TIMEOUT_SECONDS))

    assert (
        error_of(
            lambda: admin.create_partitions([NewPartitions(name, 5)], validate_only=True)[name].result(TIMEOUT_SECONDS)
        )
        == "none"
    )
    assert [add(1), add(2)] == ["INVALID_PARTITIONS", "INVALID_PARTITIONS"]
    assert add(3, f"{name}-missing") == "UNKNOWN_TOPIC_OR_PART"
    assert add(3, replica_assignment=[[7]]) == "INVALID_REPLICA_ASSIGNMENT"
    assert add(4, replica_assignment=[[1], [1]]) == "none"
    until(lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions) == 4)


def test_records_are_deleted_up_to_an_offset(
    admin: AdminClient, log: BrokerProcess, new_topic: Callable[..., str]
) -> None:
    name, compacted = new_topic(), new_topic(**{"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": log.bootstrap_servers})
    for _ in range(10):
        producer.produce(name, b"value", partition=0)
    assert producer.flush(TIMEOUT_SECONDS) == 0

    def delete(offset: int, topic: str = name) -> int:
        partition = TopicPartition(topic, 0, offset)
        return int(admin.delete_records([partition])[partition].result(TIMEOUT_SECONDS).low_watermark)

    assert [delete(4), delete(2), delete(-1)] == [4, 4, 10]
    assert error_of(lambda: delete(11)) == "OFFSET_OUT_OF_RANGE"
    assert error_of(lambda: delete(0, compacted)) == "POLICY_VIOLATION"


def test_topic_is_validated_and_its_assignment_checked(admin: AdminClient, unique: str) -> None:
    def create(validate_only: bool = False, **fields: Any) -> str:
        topic = NewTopic(f"made-{unique}", **fields)
        made = admin.create_topics([topic], validate_only=validate_only)
        return error_of(lambda: made[f"made-{unique}"].result(TIMEOUT_SECONDS))

    assert create(validate_only=True, num_partitions=3, replication_factor=1) == "none"
    assert create(num_partitions=1, config={"retention.ms": "soon"}) == "INVALID_CONFIG"
    assert create(num_partitions=1, config={"no.such": "1"}) == "INVALID_CONFIG"
    assert create(num_partitions=1, replica_assignment=[[7]]) == "INVALID_REPLICA_ASSIGNMENT"
    assert create(num_partitions=2, replica_assignment=[[1], [1]], config={"retention.ms": "5"}) == "none"
    assert create(validate_only=True, num_partitions=1) == "TOPIC_ALREADY_EXISTS"


def test_record_without_key_is_refused_where_records_are_compacted(
    log: BrokerProcess, new_topic: Callable[..., str]
) -> None:
    name = new_topic(**{"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": log.bootstrap_servers})
    errors: list[str] = []
    for key in (b"key", None):
        producer.produce(
            name, b"value", key, partition=0, on_delivery=lambda error, _: errors.append(error and error.name())
        )
        assert producer.flush(TIMEOUT_SECONDS) == 0
    assert errors == [None, "INVALID_RECORD"]


def test_more_replicas_in_sync_than_there_are_are_not_asked_for(
    log: BrokerProcess, new_topic: Callable[..., str]
) -> None:
    """Kafka asks for min.insync.replicas or the number of replicas, whichever is less."""
    name = new_topic(**{"min.insync.replicas": "2"})
    producer = Producer({"bootstrap.servers": log.bootstrap_servers, "acks": "all"})
    errors: list[Any] = []
    producer.produce(name, b"value", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_SECONDS) == 0
    assert errors == [None]


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_read_as_they_were_written_whatever_the_topic_compresses_with(
    log: BrokerProcess, new_topic: Callable[..., str], codec: str
) -> None:
    name = new_topic(**{"compression.type": codec})
    producer = Producer({"bootstrap.servers": log.bootstrap_servers, "compression.type": "snappy", "linger.ms": 50})
    values = [f"value {number}".encode() * 20 for number in range(100)]
    for value in values:
        producer.produce(name, value, partition=0)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    consumer = Consumer({"bootstrap.servers": log.bootstrap_servers, "group.id": name})
    consumer.assign([TopicPartition(name, 0, 0)])
    found: list[bytes] = []
    while len(found) < len(values):
        found += [message.value() for message in consumer.consume(100, 5) if message.error() is None]
    consumer.close()
    assert found == values


# --- settings


def own_values(admin: AdminClient, resource: ConfigResource, source: ConfigSource) -> dict[str, str]:
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
    return {name: entry.value for name, entry in found.items() if entry.source == source.value}


def alter(admin: AdminClient, kind: ResourceType, name: str, *steps: tuple[str, str | None, AlterConfigOpType]) -> str:
    entries = [ConfigEntry(key, value, incremental_operation=operation) for key, value, operation in steps]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    return error_of(lambda: admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_SECONDS))


def test_settings_of_a_topic_change_step_by_step(admin: AdminClient, new_topic: Callable[..., str]) -> None:
    name = new_topic(**{"retention.ms": "5000"})
    set_, delete, append, subtract = (
        AlterConfigOpType.SET,
        AlterConfigOpType.DELETE,
        AlterConfigOpType.APPEND,
        AlterConfigOpType.SUBTRACT,
    )

    def change(*steps: tuple[str, str | None, AlterConfigOpType]) -> str:
        return alter(admin, ResourceType.TOPIC, name, *steps)

    def has(**values: str) -> bool:
        resource = ConfigResource(ResourceType.TOPIC, name)
        own = own_values(admin, resource, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        return own == {key.replace("_", "."): value for key, value in values.items()}

    assert change(("retention.ms", None, delete), ("max.message.bytes", "2000", set_)) == "none"
    until(lambda: has(max_message_bytes="2000"))
    assert change(("cleanup.policy", "compact", append)) == "none"
    until(lambda: has(max_message_bytes="2000", cleanup_policy="delete,compact"))
    assert change(("cleanup.policy", "delete", subtract)) == "none"
    until(lambda: has(max_message_bytes="2000", cleanup_policy="compact"))
    assert change(("retention.ms", "soon", set_)) == "INVALID_CONFIG"
    assert change(("retention.ms", "5", append)) == "INVALID_CONFIG"
    assert change(("no.such", "5", set_)) == "INVALID_CONFIG"
    missing = alter(admin, ResourceType.TOPIC, f"{name}-missing", ("retention.ms", "5", set_))
    assert missing == "UNKNOWN_TOPIC_OR_PART"


def test_settings_of_brokers_change_while_they_run(admin: AdminClient) -> None:
    set_, delete = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    key = "log.segment.delete.delay.ms"
    one = ConfigResource(ResourceType.BROKER, "1")
    try:
        assert alter(admin, ResourceType.BROKER, "1", (key, "50000", set_)) == "none"
        until(lambda: own_values(admin, one, ConfigSource.DYNAMIC_BROKER_CONFIG).get(key) == "50000")
    finally:
        assert alter(admin, ResourceType.BROKER, "1", (key, None, delete)) == "none"
    until(lambda: key not in own_values(admin, one, ConfigSource.DYNAMIC_BROKER_CONFIG))
    for name, value in (
        ("num.partitions", "3"),
        ("log.retention.hours", "3"),
        (key, "soon"),
        ("log.segment.bytes", "3"),
    ):
        assert alter(admin, ResourceType.BROKER, "1", (name, value, set_)) == "INVALID_REQUEST"


def test_settings_that_are_replaced_go_when_they_are_not_named(
    admin: AdminClient, new_topic: Callable[..., str]
) -> None:
    name = new_topic(**{"retention.ms": "5000"})
    resource = ConfigResource(ResourceType.TOPIC, name, set_config={"retention.bytes": "77"})
    admin.alter_configs([resource])[resource].result(TIMEOUT_SECONDS)
    until(lambda: own_values(admin, resource, ConfigSource.DYNAMIC_TOPIC_CONFIG) == {"retention.bytes": "77"})


def test_kafka_python_changes_a_setting_by_naming_all_that_a_topic_has(
    log: BrokerProcess, new_topic: Callable[..., str]
) -> None:
    name = new_topic(**{"retention.ms": "5000"})
    client = KafkaAdminClient(bootstrap_servers=log.bootstrap_servers)
    client.alter_configs(
        [PythonResource(ConfigResourceType.TOPIC, name, configs={"retention.bytes": "77"})], incremental=False
    )
    client.close()
    admin = AdminClient({"bootstrap.servers": log.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, name)
    until(
        lambda: (
            own_values(admin, resource, ConfigSource.DYNAMIC_TOPIC_CONFIG)
            == {"retention.ms": "5000", "retention.bytes": "77"}
        )
    )


def test_kafka_python_administers(log: BrokerProcess, unique: str) -> None:
    """A round through what its admin client has."""
    name = f"python-{unique}"
    admin = KafkaAdminClient(bootstrap_servers=log.bootstrap_servers)
    try:
        admin.create_topics({name: {"num_partitions": 1, "configs": {"retention.ms": "5000"}}})
        admin.create_partitions({name: 3})
        until(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 3)
        assert admin.list_partition_reassignments() == {}
        until(lambda: str(admin.describe_log_dirs(topic_partitions={name: [0, 1, 2]})).count("'partition_index'") == 3)
        assert "transaction.version" in str(admin.describe_features())
        assert name in str(admin.list_config_resources())
        assert admin.describe_cluster()["controller_id"] == 1
        (described,) = admin.describe_topic_partitions([name])["topics"]
        assert len(described["partitions"]) == 3
    finally:
        admin.delete_topics([name])
        admin.close()


def test_aiokafka_administers(log: BrokerProcess, unique: str) -> None:
    name = f"aio-{unique}"

    async def administer() -> dict[str, str]:
        admin = AIOKafkaAdminClient(bootstrap_servers=log.bootstrap_servers)
        await admin.start()
        try:
            await admin.create_topics([AioTopic(name, 1, 1, topic_configs={"retention.ms": "5000"})])
            await admin.create_partitions({name: AioPartitions(2)})
            resource = AioResource(AioResourceType.TOPIC, name, configs={"retention.bytes": "77"})
            await admin.alter_configs([resource])
            while True:
                answers = await admin.describe_configs([AioResource(AioResourceType.TOPIC, name)])
                own = {entry[0]: entry[1] for entry in answers[0].resources[0][4] if entry[3] == 1}
                if own == {"retention.bytes": "77"}:
                    return own
        finally:
            await admin.delete_topics([name])
            await admin.close()

    assert asyncio.run(asyncio.wait_for(administer(), TIMEOUT_SECONDS)) == {"retention.bytes": "77"}


# --- the same answers, field by field


def test_sources_of_a_setting_are_told_in_the_same_order(
    connection: Connection, log: BrokerProcess, new_topic: Callable[..., str]
) -> None:
    name = new_topic(**{"max.message.bytes": "5000"})
    key = "message.max.bytes"
    one, every = (client.ConfigResource(client.ConfigKind.BROKER, broker) for broker in ("1", ""))
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": ["max.message.bytes"]}
    expected = [("max.message.bytes", "5000", 1), (key, "60000", 2), (key, "70000", 3), (key, "1048588", 5)]

    def synonyms() -> list[tuple[str, str, int]]:
        answer = connection.ask(
            "describe_configs", 4, resources=[resource], include_synonyms=True, include_documentation=False
        )
        return [(item.name, item.value, item.source) for item in answer.results[0].configs[0].synonyms]

    with client.Client(log.bootstrap_servers) as ours:
        try:
            ours.alter_configs(one, [client.ConfigChange(key, "60000")])
            ours.alter_configs(every, [client.ConfigChange(key, "70000")])
            until(lambda: synonyms() == expected)
        finally:
            for broker in (one, every):
                ours.alter_configs(broker, [client.ConfigChange(key, None, client.ConfigOperation.DELETE)])


def test_election_is_not_needed(connection: Connection, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    asked = [{"topic": name, "partitions": [0]}]
    answer = connection.ask("elect_leaders", 2, election_type=0, topic_partitions=asked, timeout=MINUTE)
    assert answer.replica_election_results[0].partition_result[0].error_code.name == "election_not_needed"
    listed = connection.ask("list_partition_reassignments", 0, timeout=MINUTE, topics=None)
    assert (listed.error_code.name, listed.topics) == ("none", ())


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ([1], "none"),
        ([7], "invalid_replica_assignment"),
        ([1, 7], "invalid_replica_assignment"),
        (None, "no_reassignment_in_progress"),
    ],
)
def test_partition_can_only_stay_where_it_is(
    connection: Connection, new_topic: Callable[..., str], replicas: list[int] | None, error: str
) -> None:
    topics = [{"name": new_topic(), "partitions": [{"partition_index": 0, "replicas": replicas}]}]
    answer = connection.ask(
        "alter_partition_reassignments", 1, timeout=MINUTE, allow_replication_factor_change=True, topics=topics
    )
    assert answer.responses[0].partitions[0].error_code.name == error


def test_partitions_are_described_a_page_at_a_time(connection: Connection, new_topic: Callable[..., str]) -> None:
    name = new_topic(5)
    seen: list[int] = []
    cursor: dict[str, Any] | None = None
    while True:
        answer = connection.ask(
            "describe_topic_partitions", 0, topics=[{"name": name}], response_partition_limit=2, cursor=cursor
        )
        (topic,) = answer.topics
        assert topic.topic_authorized_operations == 3576
        seen += [partition.partition_index for partition in topic.partitions]
        if answer.next_cursor is None:
            break
        cursor = {"topic_name": answer.next_cursor.topic_name, "partition_index": answer.next_cursor.partition_index}
    assert seen == [0, 1, 2, 3, 4]


def test_directories_are_described(connection: Connection, new_topic: Callable[..., str]) -> None:
    name = new_topic(2)
    asked = [{"topic": name, "partitions": [0, 1, 9]}]

    def described() -> set[tuple[int, int, int]]:
        return {
            (item.partition_index, item.partition_size, item.offset_lag)
            for directory in connection.ask("describe_log_dirs", 5, topics=asked).results
            for topic in directory.topics
            for item in topic.partitions
        }

    until(lambda: described() == {(0, 0, 0), (1, 0, 0)})
    directories = connection.ask("describe_log_dirs", 5, topics=asked).results
    assert [Path(directory.log_dir).name for directory in directories] == ["one", "two"]
    for directory in directories:
        assert directory.error_code.name == "none"
        assert 0 < directory.usable_bytes < directory.total_bytes
        assert not directory.is_cordoned


def test_resources_with_settings_are_listed(connection: Connection, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    for kind, expected in ((2, name), (4, "1")):
        answer = connection.ask("list_config_resources", 1, resource_types=[kind])
        assert (expected, kind) in [(item.resource_name, item.resource_type) for item in answer.config_resources]
    assert connection.ask("list_config_resources", 1, resource_types=[77]).error_code.name == "unsupported_version"


def test_operations_that_are_allowed_are_told_to_those_who_ask(connection: Connection) -> None:
    told = connection.ask("describe_cluster", 1, include_cluster_authorized_operations=True, endpoint_type=1)
    untold = connection.ask("describe_cluster", 1, include_cluster_authorized_operations=False, endpoint_type=1)
    assert (told.cluster_authorized_operations, untold.cluster_authorized_operations) == (8096, -(2**31))
    controllers = connection.ask("describe_cluster", 1, include_cluster_authorized_operations=False, endpoint_type=2)
    assert (controllers.error_code.name, controllers.brokers) == ("mismatched_endpoint_type", ())


@pytest.mark.one_broker
def test_metadata_right_behind_a_deletion_says_once_that_the_topic_is_unknown(connection, new_topic):
    """Though it may make the topic anew, and does: whoever had the one before hears of its end."""
    name = new_topic()

    def described(*, create_missing: bool) -> Any:
        asked = {"allow_auto_topic_creation": create_missing, "include_topic_authorized_operations": False}
        (topic,) = connection.ask("metadata", 12, topics=[{"topic_id": None, "name": name}], **asked).topics
        return topic

    until(lambda: described(create_missing=False).error_code is ErrorCode.none)
    before = described(create_missing=False).topic_id
    (gone,) = connection.ask("delete_topics", 6, topics=[{"topic_id": None, "name": name}], timeout=MINUTE).responses
    assert gone.error_code is ErrorCode.none
    # Kafka's controller answers before its broker has heard of it.
    until(lambda: described(create_missing=False).error_code is ErrorCode.unknown_topic_or_partition)
    assert described(create_missing=True).error_code is ErrorCode.unknown_topic_or_partition
    until(lambda: described(create_missing=True).error_code is ErrorCode.none)
    assert described(create_missing=False).topic_id != before
