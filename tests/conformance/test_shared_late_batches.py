"""Batches that come late, or again: after the end of their transaction, or twice inside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

from harness.shared_producer import (
    NONE,
    TV1,
    TV1_OLD,
    TV2,
    Cluster,
    Driver,
    Finding,
    Protocol,
    differing,
    produced,
)
from harness.wire import batch, frame

pytestmark = pytest.mark.drawn(6)

EPOCH, GAP = ErrorCode.invalid_producer_epoch, ErrorCode.out_of_order_sequence_number
OLD_AND_NEW = pytest.mark.parametrize("protocol", [TV1, TV2], ids=lambda protocol: protocol.name)
FIRST_GENERATION = pytest.mark.parametrize("protocol", [TV1_OLD, TV1], ids=lambda protocol: protocol.name)
BOTH_ENDS = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])


@FIRST_GENERATION
def test_late_batch_of_an_unbumped_epoch_is_refused_while_no_transaction_is_open(cluster, protocol):
    """Produce v9 knows INVALID_TXN_STATE, Produce v11 TRANSACTION_ABORTABLE (KIP-890)."""
    driver, topic = aborted_transaction(cluster, protocol)
    late = driver.produce_one(cluster.connect(), topic, 0, 2, ["late", "zombie"])
    assert late.code is (ErrorCode.invalid_txn_state if protocol is TV1_OLD else ErrorCode.transaction_abortable)


@FIRST_GENERATION
def test_late_batch_of_an_unbumped_epoch_joins_the_next_transaction(cluster, protocol):
    """The first protocol generation cannot tell it from a batch of that transaction: why a driver bumps the epoch."""
    driver, topic = aborted_transaction(cluster, protocol)
    driver.add(topic, [0])
    assert driver.produce_one(cluster.connect(), topic, 0, 2, ["late", "zombie"]).code is NONE
    driver.complete(commit=True)
    assert cluster.values(topic) == ["late", "zombie"]


@FIRST_GENERATION
def test_unbumped_transaction_that_starts_again_at_sequence_0_is_taken_for_a_resend(cluster, protocol):
    """The duplicate window outlives an abort: why a driver bumps the epoch between transactions."""
    driver, topic = aborted_transaction(cluster, protocol)
    driver.add(topic, [0])
    assert driver.produce_one(cluster.connect(), topic, 0, 0, ["second", "attempt"]).code is NONE
    driver.complete(commit=True)
    assert cluster.values(topic) == []


def aborted_transaction(cluster: Cluster, protocol: Protocol) -> tuple[Driver, str]:
    """One batch of two records to partition 0 of a new topic, aborted; the epoch as EndTxn left it."""
    topic, driver = cluster.create_topic(1), Driver(cluster, protocol).init()
    driver.add(topic, [0])
    driver.produce(cluster.connect(), topic, {0: driver.batch(0, ["first", "attempt"])})
    driver.complete(commit=False)
    return driver, topic


@FIRST_GENERATION
def test_late_batch_is_refused_everywhere_once_the_epoch_was_bumped(cluster, protocol):
    assert differing(late_with_bump(cluster, protocol)) == []


def late_with_bump(cluster: Cluster, protocol: Protocol) -> Iterator[Finding]:
    topic, task = cluster.create_topic(3), cluster.connect()
    driver = Driver(cluster, protocol).init()
    driver.add(topic, [0])
    driver.produce(task, topic, {0: driver.batch(0, ["a"])})
    driver.end(commit=False)
    old = driver.epoch
    driver.init(bump=True)
    yield Finding("epoch", driver.epoch, old + 1)

    def late(partition: int, sequence: int, value: str) -> ErrorCode:
        return driver.produce_one(task, topic, partition, sequence, [value], epoch=old).code

    yield Finding("no transaction open", late(0, 1, "late"), EPOCH)
    driver.add(topic, [0, 1])
    yield Finding("partition in the next transaction, nothing there yet", late(0, 1, "late"), EPOCH)
    yield Finding("resend of an aborted batch", late(0, 0, "a"), EPOCH)
    yield Finding("to a partition it never wrote", late(1, 0, "late"), EPOCH)
    driver.produce(task, topic, {0: driver.batch(0, ["b"])})
    yield Finding("after the new epoch wrote", late(0, 1, "late"), EPOCH)
    driver.complete(commit=True)
    yield Finding("what readers then get", cluster.values(topic, 3), ["b"])


@BOTH_ENDS
def test_late_batch_after_an_end_that_bumps_is_refused_everywhere(cluster, commit):
    """KIP-890: every transaction of the second generation has an epoch of its own."""
    assert differing(late_second_generation(cluster, commit)) == []


def late_second_generation(cluster: Cluster, commit: bool) -> Iterator[Finding]:
    topic, task = cluster.create_topic(3), cluster.connect()
    driver = Driver(cluster, TV2).init()
    driver.produce(task, topic, {0: driver.batch(0, ["a"])})
    old = driver.epoch
    driver.complete(commit)
    late = {
        "next batch": (0, 1, ["late"]),
        "resend of its batch": (0, 0, ["a"]),
        "first batch to another partition": (1, 0, ["late"]),
    }
    for name, (partition, sequence, values) in late.items():
        answer = driver.produce_one(task, topic, partition, sequence, values, epoch=old)
        yield Finding(name, answer.code, EPOCH)
    for version in (9, 11):
        answer = driver.produce_one(task, topic, 0, 1, ["late"], epoch=old, version=version)
        yield Finding(f"next batch as Produce v{version}", answer.code, EPOCH)
    driver.produce(task, topic, {2: driver.batch(0, ["b"])})
    for name, (partition, sequence, values) in late.items():
        answer = driver.produce_one(task, topic, partition, sequence, values, epoch=old)
        yield Finding(f"{name}, next transaction open", answer.code, EPOCH)
    driver.complete(commit=True)
    yield Finding("what readers then get", sorted(cluster.values(topic, 3)), ["a", "b"] if commit else ["b"])


@OLD_AND_NEW
@BOTH_ENDS
def test_batch_sent_right_behind_the_answer_to_end_txn_is_refused_by_our_broker(cluster, protocol, commit):
    """Apache Kafka lets it in until the marker is there; ours refuses it from the moment the end is decided."""
    if not cluster.is_ours:
        pytest.skip("a race there: how many of the late batches are let in differs from run to run")
    partitions, accepted = 64, 0
    topic, task = cluster.create_topic(partitions), cluster.connect()
    driver = Driver(cluster, protocol).init()
    for number in range(5):
        driver.add(topic, range(partitions))
        driver.produce(task, topic, {one: driver.batch(0, [f"{number}"]) for one in range(partitions)})
        late = {one: driver.batch(1, [f"late {number}"]) for one in range(partitions)}
        request = frame("produce", protocol.produce, driver.produce_fields(topic, late, protocol.produce))
        driver.end(commit)
        task.socket.sendall(request)
        answers = produced(task.receive("produce", protocol.produce)).values()
        accepted += sum(answer.code is NONE for answer in answers)
        cluster.wait_until_complete(driver.transactional_id)
        driver.next_transaction()
    assert accepted == 0
    assert [value for value in cluster.values(topic, partitions) if value.startswith("late")] == []


@OLD_AND_NEW
def test_batch_sent_again_or_out_of_turn_inside_one_epoch(cluster, protocol):
    assert differing(repeats(cluster, protocol)) == []


def repeats(cluster: Cluster, protocol: Protocol) -> Iterator[Finding]:
    topic, (one, other) = cluster.create_topic(4), cluster.connections(2)
    driver = Driver(cluster, protocol).init()
    driver.add(topic, range(4))
    driver.produce(one, topic, {0: driver.batch(0, ["a", "b"])})
    again = driver.produce_one(other, topic, 0, 0, ["a", "b"])
    yield Finding("identical batch from another connection", (again.code, again.offset), (NONE, 0))
    changed = driver.produce_one(other, topic, 0, 0, ["X", "Y"])
    yield Finding("other content, same sequences", (changed.code, changed.offset), (NONE, 0))
    yield Finding("fewer records", driver.produce_one(other, topic, 0, 0, ["a"]).code, GAP)
    yield Finding("more records", driver.produce_one(other, topic, 0, 0, ["a", "b", "c"]).code, GAP)
    yield Finding("gap", driver.produce_one(other, topic, 0, 3, ["d"]).code, GAP)
    for sequence in range(2, 7):
        driver.produce_one(one, topic, 0, sequence, [str(sequence)])
    yield Finding("the 5th last batch again", driver.produce_one(one, topic, 0, 2, ["2"]).code, NONE)
    yield Finding("the 6th last batch again", driver.produce_one(one, topic, 0, 0, ["a", "b"]).code, GAP)
    skipped = driver.produce_one(one, topic, 1, 5, ["z"]).code
    yield Finding("first batch of a partition starts at 5", skipped, GAP if protocol.bumps else NONE)
    from_0 = driver.produce_one(one, topic, 1, 0, ["y"]).code
    yield Finding("same partition then starts at 0", from_0, NONE if protocol.bumps else GAP)
    driver.complete(commit=True)
    values = [value for partition, _, value in cluster.read(topic, 4) if partition == 0]
    yield Finding("readers get", "".join(values), "ab23456")


def test_transactional_batch_without_a_producer_id_is_refused_by_our_broker(cluster):
    """Apache Kafka takes it, and shows it at once to readers of committed records."""
    topic = cluster.create_topic(1)
    driver = Driver(cluster, TV2).init()
    answer = driver.produce_once(driver.connection, topic, {0: batch(-1, -1, -1, ["nobody's"])})[0]
    if cluster.is_ours:
        assert answer.code is not NONE
        assert cluster.values(topic, 1, "read_uncommitted") == []
    else:
        assert (answer.code, cluster.values(topic)) == (NONE, ["nobody's"])
