"""Kafka's own command line tools say the same of our broker as of Apache Kafka."""

from __future__ import annotations

import json
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.kafka_tools import Ended, KafkaTools, ToolProcess
from harness.known_topics import wait_until_known
from harness.processes import BrokerProcess
from harness.waiting import until
from oncelog import client
from oncelog.records import ControlType
from tests.conftest import NodeMaker

pytestmark = [pytest.mark.jvm, pytest.mark.client("Kafka's tools"), pytest.mark.drawn(6)]


@pytest.fixture
def name() -> str:
    return f"tools-{uuid.uuid4().hex[:8]}"


def create(tools: KafkaTools, name: str, *options: str) -> None:
    """Make a topic, and wait until every broker knows it: Apache Kafka's controller answers before that."""
    assert tools("kafka-topics", "--create", "--topic", name, *options).lines == [f"Created topic {name}."]
    partitions = int(options[options.index("--partitions") + 1]) if "--partitions" in options else 1
    wait_until_known(tools.bootstrap_servers, name, partitions)
    assert name in tools("kafka-topics", "--list").lines


def test_topic_is_made_grows_is_described_and_deleted(tools: KafkaTools, name: str) -> None:
    create(tools, name, "--partitions", "2", "--config", "retention.ms=5000")
    assert tools("kafka-topics", "--alter", "--topic", name, "--partitions", "3").lines == []
    until(lambda: len(tools("kafka-topics", "--describe", "--topic", name).lines) == 4)
    heading, *partitions = tools("kafka-topics", "--describe", "--topic", name).lines
    fields = [field.partition(": ") for field in heading.split("\t")]
    described = {field: value for field, _, value in fields}
    assert described["Topic"] == name
    assert (described["PartitionCount"], described["ReplicationFactor"]) == ("3", "1")
    assert "retention.ms=5000" in described["Configs"].split(",")
    assert [line.split("\t")[2:6] for line in partitions] == [
        [f"Partition: {number}", "Leader: 1", "Replicas: 1", "Isr: 1"] for number in range(3)
    ]
    fewer = tools("kafka-topics", "--alter", "--topic", name, "--partitions", "1")
    assert name in fewer.text
    assert fewer.status == 1
    assert tools("kafka-topics", "--delete", "--topic", name).lines == []
    until(lambda: name not in tools("kafka-topics", "--list").lines)


@pytest.mark.on_a_cluster
def test_settings_of_a_topic_are_altered_and_described(tools: KafkaTools, name: str) -> None:
    create(tools, name, "--config", "retention.ms=5000")
    topic = ("--entity-type", "topics", "--entity-name", name)
    altered = tools(
        *("kafka-configs", "--alter", *topic),
        *("--add-config", "max.message.bytes=2000,cleanup.policy=[compact,delete]", "--delete-config", "retention.ms"),
    )
    assert altered.lines == [f"Completed updating config for topic {name}."]
    until(lambda: "max.message.bytes=2000" in tools("kafka-configs", "--describe", *topic).text)
    heading, *entries = tools("kafka-configs", "--describe", *topic).lines
    assert heading == f"Dynamic configs for topic {name} are:"
    assert sorted(line.split()[0] for line in entries) == ["cleanup.policy=compact,delete", "max.message.bytes=2000"]
    assert (
        "max.message.bytes=2000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000, "
        "DEFAULT_CONFIG:message.max.bytes=1048588}"
    ) in [line.strip() for line in entries]
    refused = tools("kafka-configs", "--alter", *topic, "--add-config", "retention.ms=soon")
    assert refused.status == 1
    assert "InvalidConfigurationException" in refused.text


def test_settings_of_brokers_are_altered_and_described(tools: KafkaTools) -> None:
    one, every = ("--entity-type", "brokers", "--entity-name", "1"), ("--entity-type", "brokers", "--entity-default")
    try:
        assert tools("kafka-configs", "--alter", *one, "--add-config", "log.cleaner.threads=2").lines == [
            "Completed updating config for broker 1."
        ]
        assert tools("kafka-configs", "--alter", *every, "--add-config", "log.segment.delete.delay.ms=70000").lines == [
            "Completed updating default config for brokers in the cluster."
        ]
        expected = (
            "log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, "
            "DEFAULT_CONFIG:log.cleaner.threads=1}"
        )
        until(lambda: expected in tools("kafka-configs", "--describe", *one).text)
        until(lambda: "log.segment.delete.delay.ms=70000" in tools("kafka-configs", "--describe", *every).text)
        refused = tools("kafka-configs", "--alter", *one, "--add-config", "num.partitions=3")
        assert refused.status == 1
        assert "InvalidRequestException" in refused.text
    finally:
        tools("kafka-configs", "--alter", *one, "--delete-config", "log.cleaner.threads")
        tools("kafka-configs", "--alter", *every, "--delete-config", "log.segment.delete.delay.ms")


def test_settings_of_a_group_are_altered_and_described(tools: KafkaTools, name: str) -> None:
    group = ("--entity-type", "groups", "--entity-name", name)
    altered = tools("kafka-configs", "--alter", *group, "--add-config", "consumer.heartbeat.interval.ms=700")
    assert altered.lines == [f"Completed updating config for group {name}."]
    expected = (
        "consumer.heartbeat.interval.ms=700 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:"
        "consumer.heartbeat.interval.ms=700, STATIC_BROKER_CONFIG:group.consumer.heartbeat.interval.ms=200, "
        "DEFAULT_CONFIG:group.consumer.heartbeat.interval.ms=5000}"
    )
    until(lambda: expected in tools("kafka-configs", "--describe", *group).text)
    assert tools("kafka-configs", "--describe", *group).lines[0] == f"Dynamic configs for group {name} are:"
    assert (
        f"Dynamic configs for group {name} are:" in tools("kafka-configs", "--describe", "--entity-type", "groups").text
    )
    assert "consumer.session.timeout.ms=10000" in tools("kafka-configs", "--describe", "--all", *group).text
    refused = tools("kafka-configs", "--alter", *group, "--add-config", "consumer.session.timeout.ms=1")
    assert refused.status == 1
    assert "InvalidConfigurationException" in refused.text
    assert tools("kafka-configs", "--alter", *group, "--delete-config", "consumer.heartbeat.interval.ms").status == 0
    until(lambda: name not in tools("kafka-configs", "--describe", "--entity-type", "groups").text)


def test_records_are_deleted_and_offsets_and_directories_say_so(
    tools: KafkaTools, log: BrokerProcess, name: str, tmp_path: Path
) -> None:
    create(tools, name, "--partitions", "2")
    producer = Producer({"bootstrap.servers": log.bootstrap_servers})
    for _ in range(5):
        producer.produce(name, b"value", partition=0)
    assert producer.flush(30) == 0
    assert tools("kafka-get-offsets", "--topic", name).lines == [f"{name}:0:5", f"{name}:1:0"]
    asked = tmp_path / "before.json"
    asked.write_text(json.dumps({"partitions": [{"topic": name, "partition": 0, "offset": 3}], "version": 1}))
    deleted = tools("kafka-delete-records", "--offset-json-file", str(asked))
    assert deleted.lines[-1].split() == ["partition:", f"{name}-0", "low_watermark:", "3"]
    earliest = tools("kafka-get-offsets", "--topic", name, "--time", "-2")
    assert earliest.lines == [f"{name}:0:3", f"{name}:1:0"]
    described = json.loads(tools("kafka-log-dirs", "--describe", "--topic-list", name).lines[-1])
    directories = described["brokers"][0]["logDirs"]
    assert sorted(Path(directory["logDir"]).name for directory in directories) == ["one", "two"]
    sizes = {item["partition"]: item["size"] for directory in directories for item in directory["partitions"]}
    assert sizes[f"{name}-0"] > 0
    assert sizes[f"{name}-1"] == 0
    assert not any(item["isFuture"] for directory in directories for item in directory["partitions"])


def says(tools: KafkaTools, text: str, tool: str, *arguments: str) -> bool:
    return text in tools(tool, *arguments).text


def test_partitions_move_between_log_directories(
    tool_process: ToolProcess, new_oncelog: NodeMaker, name: str, tmp_path: Path
) -> None:
    """Kafka's tool waits until a move is over, and its word for one that is over is that it completed."""
    paths = [str(tmp_path / one) for one in ("one", "two")]
    node = new_oncelog(log_dirs=",".join(paths))
    tools = KafkaTools(tool_process, node.bootstrap_servers)
    create(tools, name, "--partitions", "2")
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for number in range(2000):
        producer.produce(name, b"%d" % number + bytes(1000), partition=number % 2)
    assert producer.flush(30) == 0
    asked = tmp_path / "moves.json"
    for target in (paths[1], paths[0]):
        moves = [{"topic": name, "partition": index, "replicas": [1], "log_dirs": [target]} for index in range(2)]
        asked.write_text(json.dumps({"version": 1, "partitions": moves}))
        where = ("--reassignment-json-file", str(asked))
        executed = tools("kafka-reassign-partitions", "--execute", *where)
        assert executed.status == 0, executed.text
        for index in range(2):
            started = f"Successfully started moving log directory to {target} for replica {name}-{index} with broker 1"
            assert started in executed.text
            done = f"Reassignment of replica {name}-{index}-1 completed successfully."
            until(partial(says, tools, done, "kafka-reassign-partitions", "--verify", *where))
        described = json.loads(tools("kafka-log-dirs", "--describe", "--topic-list", name).lines[-1])
        found = {
            item["partition"]: (directory["logDir"], item["isFuture"])
            for directory in described["brokers"][0]["logDirs"]
            for item in directory["partitions"]
        }
        assert found == {f"{name}-{index}": (target, False) for index in range(2)}
    assert tools("kafka-get-offsets", "--topic", name).lines == [f"{name}:0:1000", f"{name}:1:1000"]
    wrong = asked.read_text().replace(paths[0], "/nowhere")
    asked.write_text(wrong)
    refused = tools("kafka-reassign-partitions", "--execute", "--reassignment-json-file", str(asked))
    assert refused.status == 1
    assert "LogDirNotFoundException" in refused.text


def test_cluster_says_what_it_is_and_serves(tools: KafkaTools, log: BrokerProcess) -> None:
    identity = tools("kafka-cluster", "cluster-id")
    assert identity.lines[-1].startswith("Cluster ID: ")
    heading, endpoint = (line.split() for line in tools("kafka-cluster", "list-endpoints").lines)
    host, _, port = log.bootstrap_servers.rpartition(":")
    assert dict(zip(heading, endpoint, strict=False)) | {"ID": "1", "HOST": host, "PORT": port} == dict(
        zip(heading, endpoint, strict=False)
    )
    served = tools("kafka-broker-api-versions")
    assert served.lines[0].startswith(f"{log.bootstrap_servers} (id: 1 rack: null isFenced: false) -> (")
    assert "\tIncrementalAlterConfigs(44): 0 to 1 [usable: 1]," in served.lines
    features = {line.split()[1]: line for line in tools("kafka-features", "describe").lines}
    assert "FinalizedVersionLevel: 2" in features["transaction.version"]


def test_transactions_are_listed_described_and_none_hangs(tools: KafkaTools, log: BrokerProcess, name: str) -> None:
    create(tools, name)
    producer = Producer({"bootstrap.servers": log.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"value", partition=0)
    assert producer.flush(30) == 0
    listed = [line.split() for line in tools("kafka-transactions", "list").lines]
    (row,) = [line for line in listed if line[0] == name]
    assert (row[1], row[3]) == ("1", "Ongoing")
    columns, described = (
        line.split("\t") for line in tools("kafka-transactions", "describe", "--transactional-id", name).lines
    )
    shown = dict(zip((column.strip() for column in columns), (value.strip() for value in described), strict=True))
    assert (shown["TransactionState"], shown["TopicPartitions"]) == ("Ongoing", f"{name}-0")
    assert len(tools("kafka-transactions", "find-hanging", "--broker-id", "1").lines) == 1
    producer.abort_transaction(30)


def test_abort_for_a_producer_that_the_partition_does_not_know_is_written(
    tools: KafkaTools, log: BrokerProcess, name: str
) -> None:
    """KIP-664: an administrator names a producer id and epoch. Who asks for control records sees the marker."""
    create(tools, name)
    place = ("--topic", name, "--partition", "0")
    unknown = ("--producer-id", "471100", "--producer-epoch", "5", "--coordinator-epoch", "0")
    assert tools("kafka-transactions", "abort", *place, *unknown).status == 0
    with client.Producer(log.bootstrap_servers) as producer:
        assert producer.send(name, b"value").result().offset == 1
    place_read = client.TopicPartition(name, 0)
    with client.Consumer(log.bootstrap_servers, include_control=True) as consumer:
        consumer.assign({place_read: 0})
        records: list[client.ConsumedRecord] = []
        until(lambda: bool(records.extend(consumer.poll(100)) or len(records) == 2))
    found = records[0]
    assert (found.offset, found.producer_id, found.control) == (0, 471100, ControlType.ABORT)
    read = tools("kafka-console-consumer", "--topic", name, "--from-beginning", "--max-messages", "1")
    assert [line for line in read.lines if line.startswith("v")] == ["value"]
    earlier = ("--producer-id", "471100", "--producer-epoch", "4", "--coordinator-epoch", "0")
    refused = tools("kafka-transactions", "abort", *place, *earlier)
    assert refused.status == 1, "a marker of an earlier epoch comes late"
    assert "epoch" in refused.text


def test_leaders_and_replicas_stay_where_they_are(tools: KafkaTools, name: str) -> None:
    create(tools, name)
    elected = tools("kafka-leader-election", "--election-type", "preferred", "--topic", name, "--partition", "0")
    assert elected.lines == [f"Valid replica already elected for partitions {name}-0"]
    assert tools("kafka-reassign-partitions", "--list").lines == ["No partition reassignments found."]


def test_level_of_transactions_is_lowered_and_raised(tool_process: ToolProcess, new_oncelog: NodeMaker) -> None:
    tools = KafkaTools(tool_process, new_oncelog().bootstrap_servers)
    level = ("--feature", "transaction.version=1")
    assert tools("kafka-features", "downgrade", *level).lines == ["transaction.version was downgraded to 1."]
    assert "FinalizedVersionLevel: 1" in tools("kafka-features", "describe").text
    refused = tools("kafka-features", "upgrade", "--feature", "transaction.version=3")
    assert refused.status == 1
    assert "Could not upgrade transaction.version to 3." in refused.text
    raised = tools("kafka-features", "upgrade", "--feature", "transaction.version=2")
    assert raised.lines == ["transaction.version was upgraded to 2."]


def json_events(ended: Ended, name: str) -> list[dict[str, Any]]:
    """What a verifiable tool says under this name."""
    assert ended.status == 0, ended.text
    events = [json.loads(line) for line in ended.lines if line.startswith("{")]
    return [event for event in events if event["name"] == name]


@pytest.mark.on_a_cluster
def test_lines_of_the_console_are_read_back_on_it_once_by_each_group(tools: KafkaTools, name: str) -> None:
    create(tools, name)
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator==")
    for lines in ("one=1\ntwo=2\n", "three=3\n"):
        assert tools("kafka-console-producer", "--topic", name, *keys, stdin=lines).status == 0
    show = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    read = ("kafka-console-consumer", "--topic", name, "--group", name, "--from-beginning", *show)
    assert [line for line in tools(*read, "--max-messages", "2").lines if "Offset:" in line] == [
        "Offset:0\tone\t1",
        "Offset:1\ttwo\t2",
    ]
    assert "Offset:2\tthree\t3" in tools(*read, "--max-messages", "1").lines
    assert "Processed a total of 0 messages" in tools(*read, "--timeout-ms", "1000").lines


@pytest.mark.on_a_cluster
def test_what_the_verifiable_producer_has_sent_the_verifiable_consumer_reads(tools: KafkaTools, name: str) -> None:
    create(tools, name, "--partitions", "2")
    sent = tools.alone("kafka-verifiable-producer", "--topic", name, "--max-messages", "50", "--acks", "-1")
    acknowledged = json_events(sent, "producer_send_success")
    assert sorted(int(event["value"]) for event in acknowledged) == list(range(50))
    (summary,) = json_events(sent, "tool_data")
    assert (summary["sent"], summary["acked"]) == (50, 50)
    group = ("--group-id", name, "--max-messages", "50", "--reset-policy", "earliest", "--verbose")
    read = tools("kafka-verifiable-consumer", "--topic", name, *group)

    def places(events: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
        return sorted((event["partition"], event["offset"], event["value"]) for event in events)

    assert places(json_events(read, "record_data")) == places(acknowledged)
    assert [place["partition"] for event in json_events(read, "partitions_assigned") for place in event["partitions"]]
    committed = {item["partition"]: item["offset"] for item in json_events(read, "offsets_committed")[-1]["offsets"]}
    rows = [line.split() for line in tools("kafka-consumer-groups", "--describe", "--group", name).lines[2:]]
    assert {int(row[2]): int(row[3]) for row in rows} == committed
    assert {row[5] for row in rows} == {"0"}


@pytest.mark.on_a_cluster
def test_performance_of_transactions_is_measured(tools: KafkaTools, name: str) -> None:
    """A transaction ends every 20 ms; a reader of committed records gets all of them, and those of no other end."""
    create(tools, name, "--partitions", "2")
    transactions = ("--transactional-id", name, "--transaction-duration-ms", "20")
    load = ("--num-records", "2000", "--throughput", "5000", "--record-size", "100")
    sent = tools("kafka-producer-perf-test", "--topic", name, *load, *transactions)
    assert sent.lines[-1].startswith("2000 records sent, ")
    committed = ("--command-property", "isolation.level=read_committed", "--group", name, "--timeout", "10000")
    read = tools("kafka-consumer-perf-test", "--topic", name, "--num-records", "2000", *committed)
    heading, figures = (line.split(", ") for line in read.lines[-2:])
    assert dict(zip(heading, figures, strict=True))["data.consumed.in.nMsg"] == "2000"
    until(lambda: "CompleteCommit" in tools("kafka-transactions", "describe", "--transactional-id", name).text)
