"""What operators can put into ZooKeeper, and no broker does: it is said, and the cluster goes on, also under another controller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory
from oncelog.cluster.zookeeper.session import Create, Data, GetData, SetData, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import paths
from oncelog.cluster.zookeeper.znodes.topics import id_text
from oncelog.wire import ErrorCode, construct, message_module

BROKERS = (1, 2)
BROKEN = "broken"
DIGITS = "9" * 5000
HALF = "\ud800"
NOTICE = "0000000007"
CREATE_TOPICS, CREATE_PARTITIONS = 19, 37
GARBAGE = (b"", b"\xff\xfe", b"[]", b"{}", b"{" * 100_000)


def topic(**fields: Any) -> bytes:
    return json.dumps({"version": 3, "topic_id": id_text(UUID(int=7)), **fields}).encode()


def registration(**fields: Any) -> bytes:
    known = {"endpoints": ["PLAINTEXT://nowhere:9092"], "jmx_port": -1, "port": 9092, "host": "nowhere", "version": 5}
    return json.dumps({**known, "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}, **fields}).encode()


def state(**fields: int) -> bytes:
    known = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 3, "isr": [1]}
    return json.dumps({**known, **fields}).encode()


def listed(*partitions: Mapping[str, object]) -> bytes:
    return json.dumps({"version": 1, "partitions": partitions}).encode()


def one(partition: int, name: str = BROKEN, **fields: object) -> dict[str, object]:
    return {"topic": name, "partition": partition, **fields}


def config_change(entity_path: str) -> tuple[str, bytes]:
    return f"{paths.CONFIG_CHANGE}{NOTICE}", json.dumps({"version": 2, "entity_path": entity_path}).encode()


NEW = paths.topic("new")
STATE = paths.partition_state(BROKEN, 0)
CASES: dict[str, tuple[tuple[str, bytes], ...]] = {
    "partition that is no number": ((f"{paths.partitions(BROKEN)}/first", b""),),
    "partition with a negative number": ((NEW, topic(partitions={"-1": [1]})),),
    "partition with an enormous number": ((NEW, topic(partitions={"2147483647": [1]})),),
    "partition with thousands of digits": ((NEW, topic(partitions={DIGITS: [1]})),),
    "partition without replicas": ((NEW, topic(partitions={"0": []})),),
    "partition with one replica twice": ((NEW, topic(partitions={"0": [1, 1]})),),
    "two topics with one id": tuple((paths.topic(name), topic(partitions={"0": [1]})) for name in ("new", "newer")),
    "topic with a long name": ((paths.topic("n" * 40_000), topic(partitions={"0": [1]})),),
    "topic with a name that is none": ((paths.topic("a b"), topic(partitions={"0": [1]})),),
    "leader epoch that is the last": ((STATE, state(leader_epoch=2**31 - 1)),),
    "leader that is no broker": ((STATE, state(leader=-7)),),
    "registration with a port that there is not": (
        (paths.broker(77), registration(endpoints=["PLAINTEXT://nowhere:99999999999"])),
    ),
    "registration with thousands of digits": (
        (paths.broker(77), registration(endpoints=[f"PLAINTEXT://nowhere:{DIGITS}"])),
    ),
    "registration with a rack that is no text": ((paths.broker(77), registration(rack=HALF)),),
    "registration with a rack that is too long": ((paths.broker(77), registration(rack="r" * 70_000)),),
    "registration with a host that is too long": (
        (paths.broker(77), registration(endpoints=[f"PLAINTEXT://{'h' * 70_000}:9092"])),
    ),
    "registration under an enormous id": ((paths.broker(99_999_999_999), registration()),),
    "registration under thousands of digits": ((f"{paths.BROKER_IDS}/{DIGITS}", registration()),),
    "settings that are no text": (
        (paths.config("topics", BROKEN), json.dumps({"version": 1, "config": {"retention.ms": HALF}}).encode()),
        config_change(f"topics/{BROKEN}"),
    ),
    "settings of a path that there cannot be": (config_change("topics/../../x"),),
    "reassignment of what is not there": (
        (
            paths.REASSIGN_PARTITIONS,
            listed(one(0, replicas=[99, 99]), one(-1, replicas=[]), one(0, HALF, replicas=[1])),
        ),
    ),
    "election of what is not there": (
        (paths.PREFERRED_REPLICA_ELECTION, listed(one(9), one(-1), one(0, "nowhere"), one(0, HALF))),
    ),
    **{
        f"{path} {number}": ((path, garbage),)
        for path in (paths.FEATURE, STATE, paths.PRODUCER_ID_BLOCK, NEW, paths.REASSIGN_PARTITIONS)
        for number, garbage in enumerate(GARBAGE)
    },
}


class Watched(ClusterInMemory):
    """Two brokers and a topic with a replica on each."""

    def __init__(self) -> None:
        super().__init__(*BROKERS)
        self.start_served(*BROKERS)
        assert self.make(BROKEN, 2) is ErrorCode.none

    def controller(self) -> int:
        def found() -> list[int]:
            return [
                one
                for one in self.nodes
                if self.nodes[one].is_up and self.core(one).metadata.membership.controller.is_active
            ]

        self.until(lambda: bool(found()))
        return found()[0]

    def make(self, name: str, factor: int = 1) -> ErrorCode:
        types = message_module(CREATE_TOPICS, 5, "request")
        made = construct(
            types.CreatableTopic, name=name, num_partitions=1, replication_factor=factor, assignments=(), configs=()
        )
        body = types.CreateTopicsRequest(topics=(made,), timeout=timedelta(seconds=10), validate_only=False)
        error: ErrorCode = self.ask(self.controller(), body).topics[0].error_code
        return error

    def grow(self, name: str, count: int) -> None:
        types = message_module(CREATE_PARTITIONS, 3, "request")
        grown = types.CreatePartitionsTopic(name=name, count=count, assignments=None)
        body = types.CreatePartitionsRequest(topics=(grown,), timeout=timedelta(seconds=1), validate_only=False)
        self.ask(self.controller(), body)

    def put(self, path: str, data: bytes) -> None:
        for parent in paths.parents(path):
            self.submit(Create(parent))
        if self.submit(Create(path, data)) is ZooKeeperError.NODE_EXISTS:
            self.submit(SetData(path, data, -1))

    def change_controller(self) -> None:
        before = self.controller()
        self.nodes[before].die(power=False)
        self.until(lambda: self.controller() != before)
        self.start_served(before)


@pytest.mark.parametrize("case", CASES)
def test_cluster_goes_on_beside_what_somebody_has_broken(case: str) -> None:
    cluster = Watched()
    for path, data in CASES[case]:
        cluster.put(path, data)
    cluster.rest(2_000)
    assert cluster.make("first") is ErrorCode.none
    cluster.grow(BROKEN, 2)
    for name in ("second", "third"):
        cluster.change_controller()
        assert cluster.make(name) is ErrorCode.none


@pytest.mark.parametrize("data", [*GARBAGE, b"2147483647", b"99999999999", DIGITS.encode()], ids=range(8))
def test_controller_is_elected_when_the_epoch_is_mended_that_somebody_has_broken(data: bytes) -> None:
    cluster = Watched()
    before = cluster.submit(GetData(paths.CONTROLLER_EPOCH))
    assert isinstance(before, Data)
    cluster.put(paths.CONTROLLER_EPOCH, data)
    cluster.nodes[cluster.controller()].die(power=False)
    cluster.rest(10_000)
    (left,) = [one for one in BROKERS if cluster.nodes[one].is_up]
    assert not cluster.core(left).metadata.membership.controller.is_active
    cluster.put(paths.CONTROLLER_EPOCH, before.data)
    assert cluster.controller() == left


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(5))
def test_notification_that_nobody_can_read_holds_up_no_other(garbage: bytes) -> None:
    cluster = Watched()
    for path in (paths.LOG_DIR_EVENT, paths.ISR_CHANGE):
        cluster.put(f"{path}0000000001", garbage)
    cluster.rest(2_000)
    for path in (paths.LOG_DIR_EVENT, paths.ISR_CHANGE):
        assert cluster.ensemble.tree.node(f"{path}0000000001") is None


def test_whether_a_topic_is_gone_that_cannot_be_read_is_not_known() -> None:
    cluster = Watched()
    cluster.put(paths.topic(BROKEN), b"{}}")
    is_gone = cluster.core(1).metadata.membership.known_brokers.is_gone(BROKEN, 0)
    assert cluster.wait(is_gone) is False
