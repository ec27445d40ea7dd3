"""The client's questions, asked of our broker and of Apache Kafka."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from harness.known_topics import wait_until_known
from harness.processes import free_port
from harness.waiting import until
from harness.wire import Connection
from oncelog.client import (
    AsyncClient,
    BrokerRefused,
    Client,
    ConfigChange,
    ConfigKind,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    Consumer,
    IsolationLevel,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    Producer,
    RetriesExhausted,
    TopicPartition,
    TransactionVersion,
)
from oncelog.wire import ErrorCode

pytestmark = pytest.mark.on_a_cluster


@pytest.fixture
def client(log):
    with Client(log.bootstrap_servers, call_timeout_ms=20_000) as client:
        yield client


@pytest.fixture
def topic(client, log, request):
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    client.create_topics([NewTopic(name, 2, config={"retention.ms": "100000000"})])
    # The client waits until one broker knows it, and the next question may be another's to answer.
    wait_until_known(log.bootstrap_servers, name, 2)
    yield name
    client.delete_topics([name])


def test_topic_is_described_as_it_was_created(client, topic):
    described = client.metadata([topic])[topic]
    assert described.error is ErrorCode.none
    assert [partition.partition for partition in described.partitions] == [0, 1]
    assert topic in client.metadata()
    settings = {entry.name: entry for entry in client.describe_configs(topics=[topic])[topic]}
    assert settings["retention.ms"].value == "100000000"
    assert not settings["retention.ms"].is_default


def test_topic_that_exists_or_does_not_exist_is_refused_by_its_code(client, topic):
    with pytest.raises(BrokerRefused) as raised:
        client.create_topics([NewTopic(topic, 1)])
    assert raised.value.error is ErrorCode.topic_already_exists
    assert client.metadata(["nowhere"])["nowhere"].error is ErrorCode.unknown_topic_or_partition
    for partition in (TopicPartition("nowhere", 0), TopicPartition(topic, 2)):
        with pytest.raises(BrokerRefused) as raised:
            client.end_offsets([partition])
        assert raised.value.error is ErrorCode.unknown_topic_or_partition


def test_offsets_are_found_by_place_and_by_time(client, topic, log):
    partition = TopicPartition(topic, 1)
    with Producer(log.bootstrap_servers) as producer:
        for timestamp_ms in (1000, 2000, 3000):
            producer.send(topic, b"value", partition=1, timestamp_ms=timestamp_ms)
            producer.flush()
    assert client.beginning_offsets([partition]) == {partition: 0}
    assert client.end_offsets([partition, TopicPartition(topic, 0)]) == {partition: 3, TopicPartition(topic, 0): 0}
    for spec, offset in ((2000, 1), (2001, 2), (3001, -1), (OffsetSpec.MAX_TIMESTAMP, 2)):
        assert client.list_offsets({partition: spec})[partition].offset == offset


def test_group_without_members_commits_and_reads_offsets(client, topic):
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(3, "three"), TopicPartition(topic, 1): OffsetAndMetadata(4)}
    group = f"group-{topic}"
    assert client.committed_offsets(group) == {}
    client.commit_offsets(group, offsets)
    assert client.committed_offsets(group) == offsets
    assert client.committed_offsets(group, [TopicPartition(topic, 0)]).keys() == {TopicPartition(topic, 0)}


def test_leader_epoch_is_the_newest_that_was_heard_of(client, topic):
    described = client.metadata([topic])[topic]
    for item in described.partitions:
        assert client.leader_epoch(TopicPartition(topic, item.partition)) == item.leader_epoch >= 0
    assert client.leader_epoch(TopicPartition(topic, 2)) == -1


def test_open_transaction_is_seen_from_every_side(client, topic, log):
    partition = TopicPartition(topic, 0)
    with Producer(log.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        assert client.describe_transactions([topic])[topic].start_ms == -1
        producer.begin_transaction()
        producer.send(topic, b"value", partition=0).result()
        described = client.describe_transactions([topic])[topic]
        assert (described.state, described.partitions) == ("Ongoing", {partition})
        assert described.start_ms > 0
        listed = [item for item in client.list_transactions(states=["Ongoing"]) if item.transactional_id == topic]
        assert [item.producer_id for item in listed] == [described.producer_id]
        (state,) = client.describe_producers([partition])[partition]
        assert (state.producer_id, state.transaction_start_offset) == (described.producer_id, 0)
        assert client.end_offsets([partition]) == {partition: 0}
        assert client.end_offsets([partition], isolation_level=IsolationLevel.READ_UNCOMMITTED) == {partition: 1}
        producer.abort_transaction()


@pytest.mark.one_broker
def test_transaction_version_is_the_finalized_one(client):
    assert client.finalized_features()["transaction.version"] == 2
    assert client.transaction_version() is TransactionVersion.TV2


def test_unknown_transactional_id_is_refused(client):
    with pytest.raises(BrokerRefused) as raised:
        client.describe_transactions(["nobody"])
    assert raised.value.error is ErrorCode.transactional_id_not_found


@pytest.mark.one_broker
def test_asyncio_client_asks_several_questions_at_once(log, topic):
    async def ask():
        async with AsyncClient(log.bootstrap_servers) as client:
            partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
            return await asyncio.gather(
                client.metadata([topic]), client.end_offsets(partitions), client.describe_cluster()
            )

    described, ends, cluster = asyncio.run(ask())
    assert set(described) == {topic}
    assert list(ends.values()) == [0, 0]
    assert len(cluster.nodes) == 1


def test_cluster_that_is_not_there_is_an_error_in_time():
    with Client(f"127.0.0.1:{free_port()}", call_timeout_ms=300) as client, pytest.raises(RetriesExhausted):
        client.metadata()


def test_cluster_that_is_not_there_is_an_error_in_time_under_asyncio():
    async def ask():
        async with AsyncClient(f"127.0.0.1:{free_port()}", call_timeout_ms=300) as client:
            await client.metadata()

    with pytest.raises(RetriesExhausted):
        asyncio.run(ask())


def test_topic_gets_partitions_settings_and_a_later_beginning(client, log, topic):
    client.create_partitions({topic: 3})
    wait_until_known(log.bootstrap_servers, topic, 3)
    assert len(client.metadata([topic])[topic].partitions) == 3
    resource = ConfigResource(ConfigKind.TOPIC, topic)
    client.alter_configs(resource, [ConfigChange("retention.bytes", "77")], validate_only=True)
    client.alter_configs(
        resource, [ConfigChange("segment.bytes", "2000000"), ConfigChange("retention.ms", None, ConfigOperation.DELETE)]
    )

    def own():
        return {
            entry.name: entry.value
            for entry in client.describe_configs(topics=[topic], documentation=True)[topic]
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        }

    until(lambda: own() == {"segment.bytes": "2000000"})
    partition = TopicPartition(topic, 2)
    with Producer(log.bootstrap_servers) as producer:
        for _ in range(5):
            producer.send(topic, b"value", partition=2)
        producer.flush()
    assert client.delete_records({partition: 3}) == {partition: 3}
    assert client.delete_records({partition: -1}) == {partition: 5}
    with pytest.raises(BrokerRefused) as raised:
        client.delete_records({partition: 6})
    assert raised.value.error is ErrorCode.offset_out_of_range
    with pytest.raises(BrokerRefused) as raised:
        client.create_partitions({topic: 2})
    assert raised.value.error is ErrorCode.invalid_partitions


@pytest.mark.parametrize("start", [0, 2, 3, 4])
def test_consumer_is_given_nothing_from_before_the_log_start(client, topic, log, start):
    """The batch around the log start is answered whole."""
    partition = TopicPartition(topic, 0)
    # All in one batch, which goes when the producer is closed.
    with Producer(log.bootstrap_servers, linger_ms=60_000) as producer:
        for _ in range(5):
            producer.send(topic, b"value", partition=0)
    client.delete_records({partition: 3})
    with Consumer(log.bootstrap_servers) as consumer:
        consumer.assign({partition: start})
        assert [record.offset for record in consumer.poll(20_000)] == list(range(max(start, 3), 5))


def test_settings_of_brokers_are_changed_for_one_and_for_every_one(client):
    name = "log.segment.delete.delay.ms"
    one, every = ConfigResource(ConfigKind.BROKER, "1"), ConfigResource(ConfigKind.BROKER, "")
    try:
        client.alter_configs(every, [ConfigChange(name, "7777")])
        client.alter_configs(one, [ConfigChange(name, "8888")])
        # Kafka's broker learns of it from its controller, a moment later. Those of all are asked of any.
        until(lambda: value_of(client.describe_configs(broker=1)["1"], name) == "8888")
        until(lambda: value_of(client.describe_configs(every_broker=True)[""], name) == "7777")
    finally:
        for resource in (one, every):
            client.alter_configs(resource, [ConfigChange(name, None, ConfigOperation.DELETE)])


@pytest.mark.one_broker
def test_settings_of_a_group_are_changed_before_it_is_there(client, topic):
    name, group = "consumer.heartbeat.interval.ms", f"readers of {topic}"
    resource = ConfigResource(ConfigKind.GROUP, group)

    def entry():
        (found,) = [entry for entry in client.describe_configs(groups=[group])[group] if entry.name == name]
        return found.value, found.source

    assert entry() == ("200", ConfigSource.STATIC_BROKER_CONFIG)
    client.alter_configs(resource, [ConfigChange(name, "700")], validate_only=True)
    client.alter_configs(resource, [ConfigChange(name, "800")])
    until(lambda: entry() == ("800", ConfigSource.DYNAMIC_GROUP_CONFIG))
    with pytest.raises(BrokerRefused, match=f"settings of group {group}") as raised:
        client.alter_configs(resource, [ConfigChange(name, "1")])
    assert raised.value.error is ErrorCode.invalid_config
    client.alter_configs(resource, [ConfigChange(name, None, ConfigOperation.DELETE)])
    with pytest.raises(ValueError, match="the same name"):
        client.describe_configs(topics=[topic], groups=[topic])


@pytest.mark.one_broker
def test_every_broker_says_which_versions_it_serves(client):
    (broker,) = client.broker_versions()
    assert broker.node.node_id == 1
    assert broker.versions[44] == (0, 1)


def value_of(entries, name):
    return next((entry.value for entry in entries if entry.name == name), None)


@pytest.mark.parametrize(("level", "version"), [(0, TransactionVersion.TV1), (1, TransactionVersion.TV1)])
def test_client_falls_back_where_the_level_of_transactions_was_lowered(new_oncelog, level, version):
    node = new_oncelog()
    connection = Connection(node.bootstrap_servers)
    lowered = [{"feature": "transaction.version", "max_version_level": level, "upgrade_type": 2}]
    answer = connection.ask(
        "update_features", 1, timeout=timedelta(seconds=30), feature_updates=lowered, validate_only=False
    )
    assert answer.error_code is ErrorCode.none
    connection.close()
    node.kill()
    node.start()
    with Client(node.bootstrap_servers) as client:
        assert client.transaction_version() is version
        client.create_topics([NewTopic("t")])
        with Producer(node.bootstrap_servers, transactional_id="teller") as producer:
            producer.init_transactions()
            for number in range(3):
                producer.begin_transaction()
                producer.send("t", b"%d" % number, partition=0)
                producer.commit_transaction()
        assert client.end_offsets([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 6}
