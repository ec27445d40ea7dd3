"""The limit on open files, which no client may bring a broker to: neither with connections, nor with partitions or segments."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from harness.oncelog_process import OncelogNode
from harness.shared_producer import Cluster
from harness.waiting import until
from harness.wire import Connection, batch
from oncelog.testing import broker

LIMIT = 200
MANY = 300


class LimitedNode(OncelogNode):
    """`oncelog serve` under `ulimit`."""

    limits = f"ulimit -n {LIMIT}"

    def command(self) -> list[str]:
        return ["bash", "-c", f'{self.limits}; exec "$@"', "limited", *super().command()]


class SoftlyLimitedNode(LimitedNode):
    limits = f"ulimit -Sn {LIMIT}"


@pytest.fixture
def node(tmp_path) -> Iterator[LimitedNode]:
    made = LimitedNode(tmp_path)
    made.start()
    yield made
    made.stop()
    assert "Traceback" not in made.tail()


def produce(connection: Connection, topic: str, partitions: range, value: str) -> None:
    data = [{"index": index, "records": batch(-1, -1, -1, [value], attributes=0)} for index in partitions]
    answer = connection.ask(
        "produce",
        11,
        transactional_id=None,
        acks=-1,
        timeout=timedelta(seconds=5),
        topic_data=[{"name": topic, "partition_data": data}],
    )
    assert {one.error_code for one in answer.responses[0].partition_responses} == {ErrorCode.none}


def create(node: LimitedNode, topic: str, partitions: int, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)


def open_descriptors(node: LimitedNode) -> int:
    return len(list(Path(f"/proc/{node.pid}/fd").iterdir()))


def test_command_raises_the_soft_limit_to_the_hard_one(tmp_path):
    node = SoftlyLimitedNode(tmp_path)
    node.start()
    (soft, hard) = re.findall(r"Max open files +(\d+) +(\d+)", Path(f"/proc/{node.pid}/limits").read_text())[0]
    node.stop()
    assert soft == hard
    assert int(soft) > LIMIT


def test_broker_in_a_program_leaves_the_programs_limit_alone():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with broker():
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_connections_for_which_there_is_no_descriptor_wait_and_the_others_are_served(node):
    create(node, "t", 1)
    served = Connection(node.bootstrap_servers)
    idle = [Connection(node.bootstrap_servers) for _ in range(MANY)]
    for number in range(10):
        produce(served, "t", range(1), f"{number}")
    create_while_crowded(served, "u")
    assert open_descriptors(node) < LIMIT
    for one in idle[: MANY - 5]:
        one.close()
    for one in idle[MANY - 5 :]:
        assert one.ask("api_versions", 0).api_keys
        one.close()
    served.close()


def create_while_crowded(connection: Connection, topic: str) -> None:
    """Making a topic takes files."""
    fields = {"num_partitions": 20, "replication_factor": 1, "assignments": [], "configs": []}
    answer = connection.ask(
        "create_topics", 5, topics=[{"name": topic, **fields}], timeout=timedelta(seconds=10), validate_only=False
    )
    assert answer.topics[0].error_code is ErrorCode.none


def test_partitions_may_be_more_than_descriptors(node):
    create(node, "wide", MANY)
    connection = Connection(node.bootstrap_servers)
    for turn in range(3):
        produce(connection, "wide", range(MANY), f"{turn}")
        assert open_descriptors(node) < LIMIT
    node.kill()
    node.start()
    connection = Connection(node.bootstrap_servers)
    produce(connection, "wide", range(MANY), "after")
    found = Cluster(node).read("wide", MANY)
    assert sorted(value for _, _, value in found) == sorted(["0", "1", "2", "after"] * MANY)
    connection.close()


def test_segments_may_be_more_than_descriptors(node):
    create(node, "long", 1, **{"segment.index.bytes": "4"})
    connection = Connection(node.bootstrap_servers)
    for number in range(MANY):
        produce(connection, "long", range(1), f"{number}")
    segments = list((node.data_directory / "long-0").glob("*.log"))
    assert len(segments) > LIMIT
    assert open_descriptors(node) < LIMIT
    assert [value for _, _, value in Cluster(node).read("long", 1)] == [f"{number}" for number in range(MANY)]
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    admin.delete_topics(["long"])["long"].result(30)
    until(lambda: not (node.data_directory / "long-0").exists())
    connection.close()
