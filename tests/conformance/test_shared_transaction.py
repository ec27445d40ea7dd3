"""One transaction written over many connections with one producer id and epoch: whole, once and in order."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kio.schema.errors import ErrorCode

from harness.shared_producer import (
    MIX,
    MIX_V4,
    MIX_V5,
    NONE,
    TV1,
    TV1_OLD,
    TV2,
    TV2_BY_ID,
    Cluster,
    Driver,
    Finding,
    Protocol,
    differing,
    produced,
)
from harness.wire import Connection

pytestmark = pytest.mark.drawn(3)

PARTITIONS, BATCHES = 16, 3
WHOLE = [(TV1, 1), (TV1, 4), (TV1, 16), (TV1_OLD, 16), (TV2, 1), (TV2, 4), (TV2, 16), (TV2_BY_ID, 4)]
MIXED = [(MIX, 16), (MIX_V4, 16), (MIX_V5, 16)]


def named(case: object) -> str | None:
    return case.name if isinstance(case, Protocol) else None


@pytest.mark.parametrize(("protocol", "tasks"), WHOLE + MIXED, ids=named)
def test_transaction_of_many_connections_is_whole_once_and_in_order(cluster, protocol, tasks):
    assert differing(whole_transaction(cluster, protocol, tasks)) == []


def whole_transaction(cluster: Cluster, protocol: Protocol, tasks: int) -> Iterator[Finding]:
    topic, group = cluster.create_topic(PARTITIONS), cluster.new_group()
    driver = Driver(cluster, protocol).init()
    pid, epoch = driver.pid, driver.epoch
    driver.add(topic, range(PARTITIONS))
    with ThreadPoolExecutor(tasks) as pool:
        shares = [list(range(task, PARTITIONS, tasks)) for task in range(tasks)]
        connections = cluster.connections(tasks)
        writers = [
            pool.submit(write_share, driver, one, topic, share) for one, share in zip(connections, shares, strict=True)
        ]
    for writer in writers:
        writer.result()
    expected = sorted(f"{number}:{k}" for number in range(PARTITIONS) for k in range(BATCHES * 10))
    states = [
        (state.producer_epoch, state.last_sequence)
        for found in cluster.producers(topic, range(PARTITIONS)).values()
        for state in found
        if state.producer_id == pid
    ]
    driver.commit_offsets(group, topic, {0: 4711}, metadata='{"batch":7}')
    yield Finding("read_committed sees before commit", cluster.values(topic, PARTITIONS), [])
    uncommitted = cluster.values(topic, PARTITIONS, "read_uncommitted")
    yield Finding("read_uncommitted sees before commit", sorted(uncommitted), expected)
    yield Finding("DescribeProducers: epoch and last sequence", set(states), {(epoch, BATCHES * 10 - 1)})
    before = cluster.fetch_offset(group, topic, 0, stable=True)[0]
    yield Finding("OffsetFetch(require_stable) before commit", before, ErrorCode.unstable_offset_commit)
    driver.complete(commit=True)
    records = cluster.read(topic, PARTITIONS)
    yield Finding("read_committed sees after commit", sorted(value for _, _, value in records), expected)
    yield Finding("each partition in order", in_order(records), True)
    after = cluster.fetch_offset(group, topic, 0, stable=True)
    yield Finding("OffsetFetch(require_stable) after commit", after, (NONE, 4711, '{"batch":7}'))
    yield Finding("epoch after EndTxn", driver.epoch, epoch + 1 if protocol.bumps else epoch)


def write_share(driver: Driver, connection: Connection, topic: str, partitions: list[int]) -> None:
    """One task: several batches to each of its partitions, sequences from 0, ten records a batch."""
    for number in range(BATCHES):
        values = {one: [f"{one}:{number * 10 + k}" for k in range(10)] for one in partitions}
        driver.produce(connection, topic, {one: driver.batch(number * 10, values[one]) for one in partitions})


def in_order(records: list[tuple[int, int, str]]) -> bool:
    by_partition: dict[int, list[int]] = {}
    for partition, _, value in sorted(records):
        by_partition.setdefault(partition, []).append(int(value.split(":")[1]))
    return all(numbers == sorted(numbers) for numbers in by_partition.values())


@pytest.mark.parametrize("version", range(6))
def test_add_partitions_of_every_version_is_open_to_a_client(cluster, version):
    topic = cluster.create_topic(1)
    driver = Driver(cluster, TV2).init()
    assert driver.add_once(topic, [0], version) is NONE
    driver.end(commit=False)


@pytest.mark.parametrize("protocol", [TV1_OLD, TV1, TV2, MIX], ids=named)
def test_later_batch_of_a_pipeline_is_never_accepted_when_an_earlier_one_was_refused(cluster, protocol):
    """Three batches on each of 16 connections before the first answer, with a producer id no partition has seen."""
    topic, connections = cluster.create_topic(16), cluster.connections(16)
    patterns: Counter[tuple[ErrorCode, ...]] = Counter()
    for _ in range(3):
        driver = Driver(cluster, protocol).init()
        driver.add(topic, range(16))
        for position in range(3):
            for number, connection in enumerate(connections):
                records = {number: driver.batch(position * 2, [f"{number}:{position}a", f"{number}:{position}b"])}
                fields = driver.produce_fields(topic, records, protocol.produce)
                connection.send("produce", protocol.produce, **fields)
        for number, connection in enumerate(connections):
            answers = [produced(connection.receive("produce", protocol.produce))[number] for _ in range(3)]
            patterns[tuple(answer.code for answer in answers)] += 1
        driver.end(commit=False)
    assert [codes for codes in patterns if overtakes(codes)] == []


def overtakes(codes: tuple[ErrorCode, ...]) -> bool:
    refused = next((k for k, code in enumerate(codes) if code is not NONE), len(codes))
    return any(code is NONE for code in codes[refused:])


def test_first_batches_of_all_partitions_in_one_request_are_accepted_at_once(cluster):
    """One connection and one request never meet the broker's own bookkeeping of a first batch."""
    topic = cluster.create_topic(64)
    driver = Driver(cluster, dataclasses.replace(MIX, name="one request")).init()
    for _ in range(3):
        driver.add(topic, range(64))
        answers = driver.produce_once(
            driver.connection, topic, {number: driver.batch(0, [str(number)]) for number in range(64)}
        )
        assert {answer.code for answer in answers.values()} == {NONE}
        driver.complete(commit=True)
