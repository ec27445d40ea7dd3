"""Counts the source files that a request passes on its way from its frame to its answer: python -m tools.walks.

Each request is sent twice to a broker in memory and the second one is traced: what the first one of its kind imports is
no part of the walk. The walk ends with the answer. What goes on after that, as the markers of a transaction do, is no part
of it either.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import oncelog
from harness.broker_in_memory import BrokerInMemory, ClientConnection, SteppedDisk
from harness.cluster_in_memory import ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import fetch_request, led, produce_request, records
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, TOPIC, TV2, ProducerInMemory, make_topic
from oncelog.coordination import Promise
from oncelog.wire import encode_request

SOURCE = Path(oncelog.__file__).parent
LEADER, FOLLOWER = 0, 1


class Walk:
    """The source files that are entered between `begin` and `end`, in the order in which they are entered first."""

    def __init__(self) -> None:
        self._files: dict[str, None] = {}

    def begin(self) -> None:
        sys.setprofile(self._enter)

    def end(self) -> None:
        sys.setprofile(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self._files.setdefault(frame.f_code.co_filename)

    @property
    def files(self) -> list[str]:
        inside = [Path(name) for name in self._files if Path(name).is_relative_to(SOURCE)]
        found = [str(path.relative_to(SOURCE)) for path in inside]
        return [name for name in found if not name.startswith("simulation/")]


class TracedBroker(BrokerInMemory):
    """A broker that is alone. `traced` has the walks by the API's name: the last one of each."""

    def __init__(self) -> None:
        super().__init__(SteppedDisk(), ManualClock())
        self.traced: dict[str, Walk] = {}

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        walk = self.traced[api] = Walk()
        walk.begin()
        try:
            reply = self.send(api, version, **fields)
            if reply.waiting is not None:
                reply.waiting.then(lambda _: walk.end())
            else:
                walk.end()
            while not reply.came:
                assert self.disk.take_step(), f"{api} is not answered, and nothing is left to wait for"
        finally:
            walk.end()
        self.settle()
        return reply.message


def walks_alone() -> dict[str, list[str]]:
    broker = TracedBroker()
    make_topic(broker)
    for name in ("first", "second"):
        producer = ProducerInMemory(broker, TV2, name)
        producer.write("value", 1)
        producer.end(committed=True)
        _produce(broker)
        _fetch(broker)
    return {
        "Produce": broker.traced["produce"].files,
        "Fetch": broker.traced["fetch"].files,
        "InitProducerId of a new id": broker.traced["init_producer_id"].files,
        "EndTxn": broker.traced["end_txn"].files,
        "TxnOffsetCommit": broker.traced["txn_offset_commit"].files,
    }


def _produce(broker: BrokerInMemory) -> None:
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records(b"value")}]}]
    broker.ask("produce", 9, transactional_id=None, acks=-1, timeout=MINUTE, topic_data=data)


def _fetch(broker: BrokerInMemory) -> None:
    broker.ask(
        "fetch",
        11,
        max_wait=timedelta(0),
        min_bytes=0,
        isolation_level=1,
        topics=[{"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]}],
        forgotten_topics_data=[],
    )


def walks_in_cluster() -> dict[str, list[str]]:
    cluster = ClusterInMemory(LEADER)
    controller = PlayedController(cluster)
    controller.members.append(PlayedBroker(cluster, FOLLOWER).member)
    controller.starts(LEADER)
    controller.order(LEADER, led(LEADER, 0, (LEADER, FOLLOWER)))
    cluster.ask(LEADER, produce_request(records(b"value"), acks=1))
    walk = Walk()
    for _ in range(2):
        walk = _traced_in_cluster(cluster, fetch_request(FOLLOWER, 0, leader_epoch=0))
    return {"Fetch of a follower": walk.files}


def _traced_in_cluster(cluster: ClusterInMemory, body: Any) -> Walk:
    chunks = encode_request(body.__api_key__, body.__version__, 1, "walks", body)
    frame = memoryview(b"".join(bytes(chunk) for chunk in chunks))
    walk = Walk()
    walk.begin()
    try:
        answer = cluster.core(LEADER).receive(ClientConnection(), frame[4:])
        if isinstance(answer, Promise):
            answer.then(lambda _: walk.end())
            cluster.wait(answer)
    finally:
        walk.end()
    return walk


MEASURES: tuple[Callable[[], dict[str, list[str]]], ...] = (walks_alone, walks_in_cluster)


def walks() -> dict[str, list[str]]:
    """The source files of each request, relative to the package."""
    return {request: files for measure in MEASURES for request, files in measure().items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the source files that a request passes.")
    parser.add_argument("--files", action="store_true", help="list the files, too")
    with_files = parser.parse_args().files
    print(f"{'request':<28}files")
    for request, files in walks().items():
        print(f"{request:<28}{len(files):>5}")
        if with_files:
            print("".join(f"    {name}\n" for name in files), end="")


if __name__ == "__main__":
    main()
