"""What Apache Kafka 3.9.1 wrote into ZooKeeper (kafka_3_9_1.jsonl), read and written again byte for byte.

Some lines are from the life of a cluster of three brokers; those with many partitions or settings, or with odd names, are from
Kafka's own encoders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from oncelog.cluster.zookeeper.znodes import (
    TopicZnode,
    decode_broker,
    decode_cluster_id,
    decode_config,
    decode_config_change,
    decode_controller,
    decode_controller_epoch,
    decode_feature,
    decode_isr_change,
    decode_log_dir_event,
    decode_partition_state,
    decode_preferred_replica_election,
    decode_producer_id_block,
    decode_reassignments,
    decode_topic,
    encode_cluster_id,
    encode_config,
    encode_controller_epoch,
    encode_isr_change,
    encode_log_dir_event,
    encode_preferred_replica_election,
    encode_reassignments,
    paths,
)

LINES = [json.loads(line) for line in Path(__file__).with_name("kafka_3_9_1.jsonl").read_text().splitlines()]


def shuffled(value: dict) -> dict:
    """The same, in another order: whoever writes it has to find Kafka's again."""
    items = list(value.items())
    Random(7).shuffle(items)
    return dict(items)


def again_topic(data: bytes, name: str) -> bytes:
    found = decode_topic(name, data)
    return TopicZnode(found.topic_id, shuffled(dict(found.partitions))).encode()


def again_config(data: bytes, entity_type: str, entity: str) -> bytes:
    """Where two share a slot, Kafka writes the one first that was put in first; so do the values of such lines count them."""
    found = decode_config(entity_type, entity, data)
    if entity == "t":
        return encode_config(dict(sorted(found.items(), key=lambda item: int(item[1]) if item[1].isdecimal() else 0)))
    return encode_config(shuffled(found))


AGAIN: list[tuple[str, Callable[..., bytes]]] = [
    (r"/brokers/ids/(\d+)", lambda data, one: decode_broker(int(one), data).encode()),
    (r"/brokers/topics/([^/]+)", again_topic),
    (
        r"/brokers/topics/([^/]+)/partitions/(\d+)/state",
        lambda data, topic, one: decode_partition_state(topic, int(one), data).encode(),
    ),
    (r"/cluster/id", lambda data: encode_cluster_id(decode_cluster_id(data))),
    (r"/controller", lambda data: decode_controller(data).encode()),
    (r"/controller_epoch", lambda data: encode_controller_epoch(decode_controller_epoch(data))),
    (r"/config/changes/(.*)", lambda data, name: decode_config_change(name, data).encode()),
    (r"/config/(topics|brokers|users|clients|ips)/(.*)", again_config),
    (r"/latest_producer_id_block", lambda data: decode_producer_id_block(data).encode()),
    (r"/feature", lambda data: decode_feature(data).encode()),
    (r"/isr_change_notification/(.*)", lambda data, name: encode_isr_change(decode_isr_change(name, data))),
    (r"/log_dir_event_notification/(.*)", lambda data, name: encode_log_dir_event(decode_log_dir_event(name, data))),
    (
        r"/admin/preferred_replica_election",
        lambda data: encode_preferred_replica_election(decode_preferred_replica_election(data)),
    ),
    (r"/admin/reassign_partitions", lambda data: encode_reassignments(decode_reassignments(data))),
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["path"])
def test_kafkas_bytes_are_written_again_as_they_were(line):
    data = line["data"].encode()
    (again,) = [(again, found) for path, again in AGAIN if (found := re.fullmatch(path, line["path"]))]
    assert again[0](data, *again[1].groups()) == data


def test_every_kind_of_znode_is_among_them():
    assert [path for path, _ in AGAIN if not any(re.fullmatch(path, line["path"]) for line in LINES)] == []


def test_paths_are_those_of_the_lines():
    listed = {line["path"] for line in LINES}
    assert {
        paths.broker(0),
        paths.topic("plain"),
        paths.partition_state("configured", 0),
        paths.CLUSTER_ID,
        paths.CONTROLLER,
        paths.CONTROLLER_EPOCH,
        paths.config("users", "alice/clients/c%201"),
        f"{paths.CONFIG_CHANGE}0000000004",
        paths.PRODUCER_ID_BLOCK,
        paths.FEATURE,
        f"{paths.ISR_CHANGE}0000000002",
        f"{paths.LOG_DIR_EVENT}0000000003",
        paths.PREFERRED_REPLICA_ELECTION,
        paths.REASSIGN_PARTITIONS,
    } <= listed


def test_paths_made_at_start_are_those_that_kafka_makes_in_its_order():
    """The first creates of a broker of Kafka 3.9.1 at an empty chroot."""
    assert list(paths.MADE_AT_START) == [
        "/consumers",
        "/brokers/ids",
        "/brokers/topics",
        "/config/changes",
        "/admin/delete_topics",
        "/brokers/seqid",
        "/isr_change_notification",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
        "/config/topics",
        "/config/clients",
        "/config/users",
        "/config/brokers",
        "/config/ips",
    ]
