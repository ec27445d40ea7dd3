"""The histories that starts are measured on are such as a broker leaves when it is killed."""

from __future__ import annotations

from bench.history import TOPIC, Extent
from bench.restart import make_history
from harness.oncelog_process import OncelogNode
from oncelog.client import Client, TopicPartition


def test_history_is_there_after_its_writer_was_killed(tmp_path):
    node = OncelogNode(tmp_path)
    make_history(node.data_directory, Extent(partitions=2, megabytes=1, transactions=12, ids=4))
    node.start()
    try:
        with Client(node.bootstrap_servers) as client:
            ends = client.end_offsets([TopicPartition(TOPIC, number) for number in range(2)])
            assert sum(ends.values()) == 1000 + 12 + 12, "records, those of transactions, and a marker for each"
            committed = client.committed_offsets("group-3", [TopicPartition(TOPIC, number) for number in range(2)])
    finally:
        node.kill()
    assert 2 in [one.offset for one in committed.values() if one is not None], "the third transaction of its id"
