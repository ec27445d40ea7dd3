"""Offsets committed by nobody in particular, and transactions ended twice or with nothing in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from confluent_kafka import Consumer
from kio.schema.errors import ErrorCode

from harness.oncelog_process import OncelogNode
from harness.processes import BrokerProcess
from harness.shared_producer import (
    NONE,
    TV1,
    TV2,
    Cluster,
    Driver,
    Finding,
    Protocol,
    differing,
    until,
)

MEMORY = Path("/dev/shm")
BAD_STATE, UNSTABLE = ErrorCode.invalid_txn_state, ErrorCode.unstable_offset_commit
PROTOCOLS = pytest.mark.parametrize("protocol", [TV1, TV2], ids=lambda protocol: protocol.name)
ENDS = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])


@PROTOCOLS
def test_offsets_of_an_open_transaction_are_unstable_and_the_previous_ones_still_there(cluster, protocol):
    assert differing(pending_offsets(cluster, protocol)) == []


def pending_offsets(cluster: Cluster, protocol: Protocol) -> Iterator[Finding]:
    topic, group = cluster.create_topic(2), cluster.new_group()
    driver = Driver(cluster, protocol).init()

    def offset(partition: int, stable: bool) -> tuple[ErrorCode, int, str | None]:
        return cluster.fetch_offset(group, topic, partition, stable)

    yield Finding("group unknown", offset(0, True), (NONE, -1, ""))
    driver.commit_offsets(group, topic, {0: 10, 1: 20}, "one")
    yield Finding("first commit pending, require_stable", offset(0, True), (UNSTABLE, -1, ""))
    yield Finding("first commit pending, not stable", offset(0, False), (NONE, -1, ""))
    driver.end(commit=True)
    until(lambda: offset(0, True)[0] is not UNSTABLE)
    yield Finding("committed", offset(0, True), (NONE, 10, "one"))
    driver.next_transaction()
    driver.commit_offsets(group, topic, {0: 11}, "two")
    yield Finding("second commit pending, not stable", offset(0, False), (NONE, 10, "one"))
    yield Finding("second commit pending, partition outside it", offset(1, True), (NONE, 20, "one"))
    driver.complete(commit=False)
    yield Finding("aborted", offset(0, True), (NONE, 10, "one"))


@pytest.mark.parametrize(("size", "expected"), [(4096, NONE), (4097, ErrorCode.offset_metadata_too_large)])
def test_metadata_of_an_offset_has_a_longest_size(cluster, size, expected):
    topic, group = cluster.create_topic(1), cluster.new_group()
    driver = Driver(cluster, TV2).init()
    assert driver.commit_offsets_once(group, topic, {0: 1}, "x" * size) is expected
    driver.end(commit=False)


def test_offset_of_a_topic_the_cluster_lacks_is_refused(cluster):
    driver, group = Driver(cluster, TV2).init(), cluster.new_group()
    assert driver.commit_offsets_once(group, "elsewhere", {0: 1}) is ErrorCode.unknown_topic_or_partition
    driver.end(commit=False)


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_offsets_are_taken_from_a_driver_while_the_group_has_a_live_member(cluster, kind):
    topic, group, assigned = cluster.create_topic(1), cluster.new_group(), threading.Event()
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "group.protocol": kind}
    member = Consumer(settings)
    member.subscribe([topic], on_assign=lambda *_: assigned.set())
    while not assigned.is_set():
        member.poll(0.1)
    driver = Driver(cluster, TV2).init()
    assert driver.commit_offsets_once(group, topic, {0: 1}, "x") is NONE
    driver.end(commit=False)
    member.close()


@ENDS
@pytest.mark.parametrize("version", [1, 3, 4, 5])
def test_end_of_a_transaction_with_nothing_in_it(cluster, version, commit):
    """INVALID_TXN_STATE, but for an abort of the second generation: that one takes the next epoch."""
    driver = Driver(cluster, TV2).init()
    answer = driver.end_once(commit, version)
    if version < 5:
        assert answer.error_code is BAD_STATE
    elif commit:
        assert (answer.error_code, answer.producer_epoch) == (BAD_STATE, -1)
    else:
        assert (answer.error_code, answer.producer_epoch) == (NONE, driver.epoch + 1)


@PROTOCOLS
@ENDS
def test_transaction_that_is_ended_twice(cluster, protocol, commit):
    assert differing(ended_twice(cluster, protocol, commit)) == []


def ended_twice(cluster: Cluster, protocol: Protocol, commit: bool) -> Iterator[Finding]:
    topic, driver = cluster.create_topic(64), Driver(cluster, protocol).init()
    driver.add(topic, range(64))
    driver.produce(cluster.connect(), topic, {one: driver.batch(0, ["x"]) for one in range(64)})
    first = driver.end_once(commit)
    at_once = driver.end_once(commit).error_code
    yield Finding("the same again at once", at_once in (NONE, ErrorCode.concurrent_transactions), True)
    cluster.wait_until_complete(driver.transactional_id)
    again = driver.end_once(commit)
    yield Finding("the same again when complete", again.error_code, NONE)
    if protocol.bumps:
        yield Finding("the same next epoch", again.producer_epoch, first.producer_epoch)
    yield Finding("the opposite", driver.end_once(not commit).error_code, BAD_STATE)
    if protocol.bumps:
        driver.epoch = first.producer_epoch
    empty = {True: driver.end_once(True).error_code, False: driver.end_once(False).error_code}
    retried = {True: NONE if commit else BAD_STATE, False: BAD_STATE if commit else NONE}
    yield Finding("empty next transaction", empty, {True: BAD_STATE, False: NONE} if protocol.bumps else retried)


@pytest.fixture
def cluster_that_bumps_fast(log: BrokerProcess) -> Iterator[Cluster]:
    """Our broker makes every epoch durable: thirty thousand of them take a minute, unless the disk is memory."""
    if log.name != OncelogNode.name or not MEMORY.is_dir():
        yield Cluster(log)
        return
    with TemporaryDirectory(dir=MEMORY) as directory:
        node = OncelogNode(Path(directory))
        node.start()
        yield Cluster(node)
        node.kill()


@pytest.mark.drawn(6)
@pytest.mark.slow
def test_epoch_that_runs_out_goes_on_with_a_new_producer_id(cluster_that_bumps_fast):
    """KIP-360, KIP-890: at the last epoch but one the coordinator hands out a new id, and nothing is lost."""
    assert differing(exhaustion(cluster_that_bumps_fast)) == []


def exhaustion(cluster: Cluster) -> Iterator[Finding]:
    topic, group, task = cluster.create_topic(1), cluster.new_group(), cluster.connect()
    driver = Driver(cluster, TV2).init()
    driver.bump_to(32764)
    first = driver.pid
    expected_epochs = [32765, 32766, 0, 1]
    for number in range(4):
        pid, epoch = driver.pid, driver.epoch
        driver.produce(task, topic, {0: driver.batch(0, [str(number)])})
        driver.commit_offsets(group, topic, {0: number}, "")
        driver.complete(commit=True)
        yield Finding(f"epoch after transaction {number}", driver.epoch, expected_epochs[number])
        yield Finding(f"same producer id after transaction {number}", driver.pid == first, number < 2)
        driver_now, driver.pid = driver.pid, pid
        late = driver.produce_one(task, topic, 0, 1, ["late"], epoch=epoch).code
        driver.pid = driver_now
        yield Finding(f"a late batch of transaction {number}", late, ErrorCode.invalid_producer_epoch)
    yield Finding("readers get", cluster.values(topic), ["0", "1", "2", "3"])
