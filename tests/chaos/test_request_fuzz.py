"""Requests of every API and version, whole and broken, to a broker that has few descriptors and little memory for them.

After each few hundred the process lives, there is no stack trace in its log, and another client is served. ONCELOG_SEED and
ONCELOG_REQUESTS choose another run; 200,000 take a quarter of an hour.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.oncelog_process import OncelogNode
from harness.wire import Connection
from oncelog.records import Record, build_batch
from tests.chaos import bystander
from tests.chaos.fuzzed_frames import INTERNAL, NAMES, RandomFrames
from tests.chaos.sending import send

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
REQUESTS = int(os.environ.get("ONCELOG_REQUESTS", "2400"))
CHECKED_AFTER = 400
SENT_AT_ONCE = 50
DESCRIPTORS = 300
BUDGET_BYTES = 64 * 1024 * 1024
GOOD = "the-good-one"


class TightNode(OncelogNode):
    """`oncelog serve` with few descriptors."""

    def command(self) -> list[str]:
        return ["bash", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "limited", *super().command()]


@pytest.fixture
def node(tmp_path) -> Iterator[TightNode]:
    made = TightNode(tmp_path, queued_max_request_bytes=str(BUDGET_BYTES), connections_max_idle_ms="5000")
    made.start()
    yield made
    made.kill()


@pytest.mark.timeout(3600)
def test_requests_of_every_kind_stop_nobody(node):
    chosen = RandomFrames(SEED, [uuid.UUID(int=2)])
    internal = RandomFrames(SEED + 1, [uuid.UUID(int=2)], (*INTERNAL, *NAMES))
    sent = answered = 0
    values: list[bytes] = []
    other = bystander.start(node.port)
    while sent < REQUESTS:
        for _ in range(CHECKED_AFTER // SENT_AT_ONCE):
            frames = [(chosen if number % 3 else internal).frame() for number in range(SENT_AT_ONCE)]
            answered += send(node.port, frames)
            sent += len(frames)
        values.append(b"%d" % sent)
        assert_serves(node, values)
    waits = bystander.stop(other)
    assert waits.asked > 0
    print(
        f"seed {SEED}: {sent} requests, {answered} answered; another client asked {waits.asked} times, "
        f"waited over 100 ms {waits.long} times, {waits.slowest_ms:.0f} ms at most"
    )


def assert_serves(node: TightNode, values: list[bytes]) -> None:
    assert node.is_running, node.tail()
    assert "Traceback" not in node.tail(1_000_000)
    connection = Connection(node.bootstrap_servers, timeout_seconds=20)
    connection.ask(
        "metadata",
        9,
        topics=[{"name": GOOD}],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    batch = build_batch([Record(None, values[-1], timestamp_ms=int(time.time() * 1000))])
    produced = connection.ask(
        "produce",
        9,
        transactional_id=None,
        acks=-1,
        timeout=timedelta(seconds=5),
        topic_data=[{"name": GOOD, "partition_data": [{"index": 0, "records": batch}]}],
    )
    (partition,) = produced.responses[0].partition_responses
    assert partition.error_code is ErrorCode.none
    assert partition.base_offset == len(values) - 1
    asked = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": partition.base_offset,
        "log_start_offset": -1,
        "partition_max_bytes": 1_000_000,
    }
    fetched = connection.ask(
        "fetch",
        11,
        replica_id=-1,
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=1_000_000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": GOOD, "partitions": [asked]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    (read,) = fetched.responses[0].partitions
    assert read.error_code is ErrorCode.none
    assert values[-1] in bytes(read.records)
    connection.close()
