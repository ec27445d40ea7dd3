"""A broker whose log is in several directories: where partitions are, what survives, and what it does not start on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from oncelog.environment import DiskError
from oncelog.records import Record, build_batch

A, B, C = "/a", "/b", "/c"
MINUTE = timedelta(minutes=1)
NONE = ErrorCode.none
STEPS_MAX = 12
"""More than a deletion and a creation ever take."""


@pytest.fixture
def broker() -> BrokerInMemory:
    return new_broker()


def new_broker(seed: int = 0, directories: Sequence[str] = (A, B)) -> BrokerInMemory:
    return BrokerInMemory(SteppedDisk(seed), ManualClock(), directories, log_segment_delete_delay_ms="0")


def new_topic(name: str, partitions: int) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}


def create(broker: BrokerInMemory, name: str, partitions: int) -> None:
    answer = broker.ask("create_topics", 7, topics=[new_topic(name, partitions)], timeout=MINUTE)
    assert answer.topics[0].error_code is NONE
    broker.settle()


def write(broker: BrokerInMemory, topic: str, partition: int, value: bytes = b"value") -> None:
    batch = build_batch([Record(None, value, timestamp_ms=broker.clock.now_ms())])
    data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
    answer = broker.ask("produce", 12, acks=-1, timeout=MINUTE, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code is NONE


def ends(broker: BrokerInMemory, topic: str) -> list[int]:
    found = broker.core.topics.named(topic)
    assert found is not None
    return [partition.log.log_end_offset for partition in found.partitions]


def places(broker: BrokerInMemory) -> dict[str, str]:
    """The directory of each partition, as the disk has it."""
    return {
        name: path
        for path in broker.directories
        for name in broker.disk.list_directory(path)
        if broker.disk.exists(f"{path}/{name}/partition.metadata")
    }


def restart(broker: BrokerInMemory, how: str, directories: Sequence[str] | None = None) -> None:
    if how == "stop":
        broker.core.stop()
    elif how == "kill":
        broker.disk.kill()
    else:
        broker.disk.crash()
    broker.disk.steps.clear()
    broker.directories = directories or broker.directories
    broker.restart()
    broker.settle()


def test_partitions_are_spread_and_what_a_node_keeps_once_is_in_the_first(broker: BrokerInMemory) -> None:
    create(broker, "t", 5)
    assert Counter(places(broker).values()) == {A: 3, B: 2}
    assert "oncelog-metadata.jsonl" in broker.disk.list_directory(A)
    assert "oncelog-metadata.jsonl" not in broker.disk.list_directory(B)
    broker.core.stop()
    for path in (A, B):
        names = broker.disk.list_directory(path)
        assert {"meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"} <= set(names)
        points = broker.disk.read_file(f"{path}/recovery-point-offset-checkpoint").decode().splitlines()[2:]
        assert {line.rpartition(" ")[0].replace(" ", "-") for line in points} == {
            name for name, place in places(broker).items() if place == path
        }


@pytest.mark.parametrize("directories", [(A, B), (B, A), (B, C, A)])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_partitions_are_found_where_they_are(broker: BrokerInMemory, how: str, directories: Sequence[str]) -> None:
    create(broker, "t", 2)
    for partition in (0, 1, 1):
        write(broker, "t", partition)
    before = places(broker)
    restart(broker, how, directories)
    assert ends(broker, "t") == [1, 2]
    assert places(broker) == before
    assert broker.core.start_report.was_clean is (how == "stop")
    assert broker.core.log_directories.home == A


def test_directory_that_is_added_gets_the_new_partitions(broker: BrokerInMemory) -> None:
    create(broker, "old", 4)
    restart(broker, "stop", (C, A, B))
    assert broker.core.start_report.was_clean
    create(broker, "new", 2)
    assert {places(broker)[f"new-{index}"] for index in range(2)} == {C}
    cluster = broker.disk.read_file(f"{A}/meta.properties").decode().splitlines()[1]
    assert cluster in broker.disk.read_file(f"{C}/meta.properties").decode().splitlines()


def test_directory_that_is_left_out_is_missed_if_it_had_partitions(broker: BrokerInMemory) -> None:
    create(broker, "t", 3)
    broker.core.stop()
    broker.directories = (A,)
    with pytest.raises(
        DiskError, match="t-1 is in none of the log directories, and what was the log directory /b is not"
    ):
        broker.restart()
    assert broker.disk.exists(f"{A}/.kafka_cleanshutdown"), "a start that is refused leaves everything as it was"
    broker.directories = (A, B)
    broker.restart()
    assert broker.core.start_report.was_clean


def test_partition_of_a_lost_directory_begins_anew_when_that_is_asked_for(broker: BrokerInMemory) -> None:
    create(broker, "t", 2)
    for partition in (0, 1):
        write(broker, "t", partition)
    broker.core.stop()
    broker.disk.make_directory(f"{A}/t-1")
    broker.directories = (A,)
    broker.restart()
    assert ends(broker, "t") == [1, 0]
    restart(broker, "stop")
    assert ends(broker, "t") == [1, 0]


def test_directory_that_has_no_partition_may_be_left_out(broker: BrokerInMemory) -> None:
    create(broker, "t", 1)
    restart(broker, "stop", (A,))
    assert ends(broker, "t") == [0]
    create(broker, "u", 1)
    restart(broker, "stop", (A, B))
    assert set(places(broker).values()) == {A}


def test_same_partition_in_two_directories_is_an_error(broker: BrokerInMemory) -> None:
    create(broker, "t", 1)
    broker.core.stop()
    broker.disk.make_directory(f"{B}/t-0")
    with pytest.raises(DiskError, match="partition t-0 is in two log directories, /a and /b"):
        broker.restart()


def test_directories_without_their_home_are_an_error(broker: BrokerInMemory) -> None:
    create(broker, "t", 2)
    broker.core.stop()
    broker.directories = (B, C)
    with pytest.raises(DiskError, match=r"/b has partitions or had, and oncelog-metadata\.jsonl"):
        broker.restart()


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_each_directory_is_described(broker: BrokerInMemory, version: int) -> None:
    create(broker, "t", 3)
    write(broker, "t", 1)
    first, second = broker.ask("describe_log_dirs", version, topics=None).results
    assert (first.log_dir, second.log_dir) == (A, B)
    assert sizes(first) == {("t", 0): 0, ("t", 2): 0}
    assert sizes(second) == {("t", 1): len(broker.disk.read_file(f"{B}/t-1/{0:020d}.log"))}
    for directory in (first, second):
        assert directory.error_code is NONE
        assert version < 4 or 0 < directory.usable_bytes < directory.total_bytes
        assert not any(item.is_future_key for topic in directory.topics for item in topic.partitions)


def test_directory_without_any_of_the_partitions_that_are_asked_for_is_described_too(broker: BrokerInMemory) -> None:
    create(broker, "t", 2)
    asked = [{"topic": "t", "partitions": [1, 9]}, {"topic": "none", "partitions": [0]}]
    first, second = broker.ask("describe_log_dirs", 5, topics=asked).results
    assert (sizes(first), list(sizes(second))) == ({}, [("t", 1)])


def sizes(directory: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, item.partition_index): item.partition_size
        for topic in directory.topics
        for item in topic.partitions
    }


def test_deleted_topic_goes_from_each_directory(broker: BrokerInMemory) -> None:
    create(broker, "t", 4)
    create(broker, "kept", 2)
    broker.ask("delete_topics", 4, topic_names=["t"], timeout=MINUTE)
    broker.clock.advance(60_000)
    broker.settle()
    assert set(places(broker)) == {"kept-0", "kept-1"}
    assert not [name for path in (A, B) for name in broker.disk.list_directory(path) if name.startswith("t-")]


@pytest.mark.parametrize("steps", range(STEPS_MAX))
@pytest.mark.parametrize("directories", [(A,), (A, B)], ids=str)
def test_topic_made_anew_has_nothing_of_the_deleted_one_after_a_power_cut(
    directories: tuple[str, ...], steps: int
) -> None:
    """The journal may have kept that there is a new topic, and a directory, this one or another, no name since the old one."""
    for seed in range(8):
        broker = new_broker(seed, directories)
        create(broker, "t", 2)
        for partition in (0, 1):
            write(broker, "t", partition, b"old")
        broker.core.durability.make_durable(partition.log for partition in broker.core.topics.partitions())
        broker.settle()
        broker.ask("delete_topics", 4, topic_names=["t"], timeout=MINUTE)
        reply = broker.send("create_topics", 7, topics=[new_topic("t", 2)], timeout=MINUTE)
        for _ in range(steps):
            broker.disk.take_step()
        was_created = reply.came
        restart(broker, "power cut", directories)
        if broker.core.topics.named("t") is None:
            assert not was_created
            create(broker, "t", 2)
        assert ends(broker, "t") == [0, 0], (seed, steps)


def test_journal_tells_which_directories_there_were(broker: BrokerInMemory) -> None:
    restart(broker, "stop", (A, B, C))
    lines = broker.disk.read_file(f"{A}/oncelog-metadata.jsonl").decode().splitlines()
    records = [json.loads(line.partition(" ")[2]) for line in lines]
    named = [list(record["paths"].values()) for record in records if record["type"] == "LogDirectoriesNamed"]
    assert named == [[A, B], [A, B, C]]
