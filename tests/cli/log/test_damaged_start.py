"""A real broker starts on files that were damaged: what it says on standard error, and what is served."""

from __future__ import annotations

import pytest

from harness.used_directory import TOPIC, content
from oncelog.client import Client, Consumer, TopicPartition
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
