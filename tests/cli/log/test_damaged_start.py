"""A real broker starts on files that were damaged: what it says on standard error, and what is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.used_directory import TOPIC, content
from oncelog.client import Client, Consumer, NewTopic, Producer, TopicPartition
from oncelog.records import batches
from tests.cli.log.test_verify import the_one

OTHER = TopicPartition(TOPIC, 1)


def read_from_start(node, place: TopicPartition) -> list:
    with Client(node.bootstrap_servers) as client:
        ends = client.end_offsets([place])
    found = []
    with Consumer(node.bootstrap_servers) as consumer:
        consumer.assign({place: 0})
        while consumer.position(place) < ends[place]:
            found += [(one.offset, one.key, one.value) for one in consumer.poll(500)]
    return found


@pytest.mark.parametrize("pattern", ["orders-0/*.log", "orders-0/partition.metadata"])
def test_damaged_partition_is_named_and_the_others_are_served(used, node, data, pattern):
    path = the_one(data, pattern)
    path.write_bytes(path.read_bytes()[:-7] + b"AAAAAAA" if path.suffix != ".log" else bytes(path.stat().st_size))
    node.start()
    assert f"{TOPIC}-0 is offline: {path} is damaged at offset 0" in node.tail()
    assert read_from_start(node, OTHER) == used.content[TOPIC, 1]


def written(node, topics: list[str]) -> None:
    """Forty batches in each topic."""
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic(topic, 1, 1) for topic in topics])
    with Producer(node.bootstrap_servers) as producer:
        for number in range(40):
            for topic in topics:
                producer.send(topic, b"%d" % number * 100)
            producer.flush()


def log_file(node, topic: str) -> Path:
    return node.data_directory / f"{topic}-0" / "00000000000000000000.log"


def test_log_that_ends_behind_one_of_its_batches_too_early_is_offline(new_oncelog):
    node = new_oncelog()
    written(node, ["cut", "whole"])
    node.stop()
    path = log_file(node, "cut")
    data = path.read_bytes()
    starts = [position for position, _ in batches(data)]
    path.write_bytes(data[: starts[20]])
    node.start()
    said = f"cut-0 is offline: {path} is damaged at offset 20, byte {starts[20]}: the log ends there"
    assert said in node.tail()
    assert len(read_from_start(node, TopicPartition("whole", 0))) == 40
    assert path.read_bytes() == data[: starts[20]]


def test_bit_of_a_leader_epoch_takes_one_partition_offline_and_not_the_broker(new_oncelog):
    node = new_oncelog()
    written(node, ["changed", "whole"])
    node.kill()
    path = log_file(node, "changed")
    data = bytearray(path.read_bytes())
    data[13] ^= 4
    path.write_bytes(data)
    node.start()
    said = (
        f"changed-0 is offline: {path} is damaged at offset 0, byte 0: the leader epoch is {4 << 16}, and there were 1"
    )
    assert said in node.tail()
    assert len(read_from_start(node, TopicPartition("whole", 0))) == 40
    assert path.read_bytes() == data


def test_a_beginning_that_is_too_late_is_not_believed(used, node, data):
    path = data / "log-start-offset-checkpoint"
    path.write_text(path.read_text().replace(f"{TOPIC} 0 0", f"{TOPIC} 0 9999"))
    node.start()
    assert f"{TOPIC}-0 begins at offset 0: log-start-offset-checkpoint has 9999" in node.tail()
    assert content(node) == used.content


def test_a_start_that_cannot_know_whose_directory_it_is_is_refused(node, data):
    (data / "meta.properties").unlink()
    with pytest.raises(AssertionError, match=r"meta\.properties is missing, and the directory was in use"):
        node.start()
