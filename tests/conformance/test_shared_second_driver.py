"""A second driver takes the transactional id: what is left for the first, and who decides the open transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

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
from harness.wire import Connection

EPOCH, FENCED = ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced
BAD_STATE, BUSY = ErrorCode.invalid_txn_state, ErrorCode.concurrent_transactions
PROTOCOLS = pytest.mark.parametrize("protocol", [TV1, TV2], ids=lambda protocol: protocol.name)
BY_EPOCH = ("Produce", "TxnOffsetCommit", "AddPartitionsToTxn v1")


def open_transaction(cluster: Cluster, protocol: Protocol, topic: str, group: str, partitions: int) -> Driver:
    """A transaction with records on every partition and offsets pending."""
    driver = Driver(cluster, protocol).init()
    driver.add(topic, range(partitions))
    driver.produce(cluster.connect(), topic, {one: driver.batch(0, ["zombie"]) for one in range(partitions)})
    driver.commit_offsets(group, topic, {0: 99}, "zombie")
    return driver


def zombie_calls(zombie: Driver, task: Connection, topic: str, group: str) -> dict[str, Callable[[], ErrorCode]]:
    """What a driver that lost its transactional id may still try, but InitProducerId."""
    protocol = zombie.protocol
    return {
        "Produce, partition it wrote": lambda: zombie.produce_one(task, topic, 0, 1, ["late"]).code,
        "Produce, new partition": lambda: zombie.produce_one(task, topic, 3, 0, ["late"]).code,
        "AddPartitionsToTxn v1": lambda: zombie.add_once(topic, [0], 1),
        "AddPartitionsToTxn v3": lambda: zombie.add_once(topic, [0], 3),
        "AddOffsetsToTxn": lambda: zombie.add_offsets_once(group),
        "TxnOffsetCommit": lambda: zombie.commit_offsets_once(group, topic, {0: 99}, "zombie"),
        f"EndTxn v{protocol.end} commit": lambda: ErrorCode(zombie.end_once(True).error_code),
        f"EndTxn v{protocol.end} abort": lambda: ErrorCode(zombie.end_once(False).error_code),
    }


@PROTOCOLS
@pytest.mark.parametrize("heir_writes", [False, True], ids=["idle", "in-a-transaction"])
def test_driver_that_was_replaced_is_refused_whatever_it_tries(cluster, protocol, heir_writes):
    """INVALID_PRODUCER_EPOCH from the partitions and to old versions, PRODUCER_FENCED from the coordinator."""
    assert differing(zombie_after_takeover(cluster, protocol, heir_writes)) == []


def zombie_after_takeover(cluster: Cluster, protocol: Protocol, heir_writes: bool) -> Iterator[Finding]:
    topic, group = cluster.create_topic(4), cluster.new_group()
    zombie, task = open_transaction(cluster, protocol, topic, group, 2), cluster.connect()
    heir = Driver(cluster, protocol, zombie.transactional_id).init()
    if heir_writes:
        heir.add(topic, [0])
        heir.produce(task, topic, {0: heir.batch(0, ["heir"])})
    yield Finding("epochs", (zombie.epoch, heir.epoch), (0, 2))
    for name, call in zombie_calls(zombie, task, topic, group).items():
        yield Finding(name, call(), EPOCH if name.startswith(BY_EPOCH) else FENCED)
    if heir_writes:
        heir.complete(commit=True)
    yield Finding("readers get", cluster.values(topic, 4), ["heir"] if heir_writes else [])


@PROTOCOLS
@pytest.mark.parametrize("heir_protocol", [TV1, TV2], ids=lambda protocol: f"heir-{protocol.name}")
def test_bump_of_a_stale_epoch_while_the_new_driver_has_a_transaction_open(cluster, protocol, heir_protocol):
    """Apache Kafka aborts that transaction, and both drivers stop; our broker refuses the stale epoch."""
    assert differing(zombie_bump(cluster, protocol, heir_protocol)) == []


def zombie_bump(cluster: Cluster, protocol: Protocol, heir_protocol: Protocol) -> Iterator[Finding]:
    topic, task = cluster.create_topic(1), cluster.connect()
    zombie = Driver(cluster, protocol).init()
    heir = Driver(cluster, heir_protocol, zombie.transactional_id).init()
    yield Finding("new driver idle", zombie.init_once(bump=True), FENCED)
    heir.add(topic, [0])
    heir.produce(task, topic, {0: heir.batch(0, ["heir"])})
    bump = zombie.init_once(bump=True)
    yield Finding("new driver in a transaction", bump, FENCED if cluster.is_ours else BUSY)
    cluster.wait_until_complete(heir.transactional_id)
    state = cluster.transaction_state(heir.transactional_id)
    yield Finding("its state then", state, "Ongoing" if cluster.is_ours else "CompleteAbort")
    goes_on = heir.produce_one(task, topic, 0, 1, ["heir"]).code
    yield Finding("the new driver's Produce", goes_on, NONE if cluster.is_ours else EPOCH)
    ended = ErrorCode(heir.end_once(True).error_code)
    refused = BAD_STATE if heir_protocol.bumps else FENCED
    yield Finding("the new driver's EndTxn commit", ended, NONE if cluster.is_ours else refused)
    yield Finding("the zombie's second bump", zombie.init_once(bump=True), FENCED)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_end_of_an_idle_second_generation_driver_that_a_first_generation_one_replaced(cluster, commit):
    """Apache Kafka takes it for a retry and hands out the live epoch: why the two generations must not be mixed."""
    topic = cluster.create_topic(1)
    zombie = Driver(cluster, TV2).init()
    heir = Driver(cluster, TV1, zombie.transactional_id).init()
    heir.add(topic, [0])
    heir.produce(cluster.connect(), topic, {0: heir.batch(0, ["heir"])})
    heir.complete(commit)
    answer = zombie.end_once(commit)
    expected = (FENCED, -1) if cluster.is_ours else (NONE, heir.epoch)
    assert (answer.error_code, answer.producer_epoch) == expected


@PROTOCOLS
def test_call_right_behind_a_takeover_never_reaches_a_reader(cluster, protocol):
    topic, group = cluster.create_topic(4), cluster.new_group()
    for name in zombie_calls(Driver(cluster, protocol), cluster.connection, topic, group):
        zombie, task = open_transaction(cluster, protocol, topic, group, 3), cluster.connect()
        heir = Driver(cluster, protocol, zombie.transactional_id)
        assert heir.init_once() in (BUSY, NONE)
        zombie_calls(zombie, task, topic, group)[name]()
        heir.init()
    assert cluster.read(topic, 4) == []
    assert cluster.fetch_offset(group, topic, 0, True) == (NONE, -1, "")


@PROTOCOLS
@pytest.mark.parametrize("partitions", [4, 64])
def test_offsets_are_stable_as_soon_as_a_takeover_is_accepted(cluster, protocol, partitions):
    """What a restarted driver relies on: first InitProducerId, then the offsets."""
    topic, group, found = cluster.create_topic(partitions), cluster.new_group(), Counter()
    for _ in range(5):
        zombie = open_transaction(cluster, protocol, topic, group, partitions)
        Driver(cluster, protocol, zombie.transactional_id).init()
        found[cluster.fetch_offset(group, topic, 0, stable=True)[:2]] += 1
    assert found == {(NONE, -1): 5}


@PROTOCOLS
def test_commit_that_races_a_takeover_keeps_records_and_offsets_together(cluster, protocol):
    """Apache Kafka may answer UNKNOWN_SERVER_ERROR in such a race, which says nothing; our broker never does."""
    topic, kept = cluster.create_topic(1), []
    undecided = set() if cluster.is_ours else {ErrorCode.unknown_server_error}
    for number in range(12):
        answers, stored = race(cluster, protocol, topic, number)
        assert answers[0] in {NONE, FENCED, BUSY, BAD_STATE} | undecided
        assert answers[1] is FENCED
        assert stored or answers[0] is not NONE, "a commit that was answered is a commit"
        if stored:
            kept.append(str(number))
    assert cluster.values(topic) == kept


def race(cluster: Cluster, protocol: Protocol, topic: str, number: int) -> tuple[tuple[ErrorCode, ErrorCode], bool]:
    """One transaction: the answers of the old driver, and whether the new one finds its offsets."""
    group, old = cluster.new_group(), Driver(cluster, protocol).init()
    old.add(topic, [0])
    old.produce(cluster.connect(), topic, {0: old.batch(0, [str(number)])})
    old.commit_offsets(group, topic, {0: 1}, "")
    heir = Driver(cluster, protocol, old.transactional_id)

    def end() -> None:
        old.connection.send("end_txn", protocol.end, **old.identity(), committed=True)

    def take() -> None:
        heir.connection.send(
            "init_producer_id",
            protocol.init,
            transactional_id=old.transactional_id,
            transaction_timeout=heir.timeout,
            producer_id=-1,
            producer_epoch=-1,
        )

    for send in (end, take) if number % 2 else (take, end):
        send()
    if heir.connection.receive("init_producer_id", protocol.init).error_code is not NONE:
        heir.init()
    _, offset, _ = cluster.fetch_offset(group, topic, 0, stable=True)
    answer = ErrorCode(old.connection.receive("end_txn", protocol.end).error_code)
    return (answer, ErrorCode(old.end_once(True).error_code)), offset == 1


def test_timeout_above_the_brokers_limit_is_refused(cluster):
    driver = Driver(cluster, TV1, timeout=timedelta(minutes=15, milliseconds=1))
    assert driver.init_once() is ErrorCode.invalid_transaction_timeout


@pytest.mark.drawn(8)
@PROTOCOLS
@pytest.mark.parametrize("first", ["calls", "commit", "abort"])
def test_transaction_that_outlived_its_timeout_is_aborted_and_its_producer_refused(cluster, protocol, first):
    """The second generation can tell a timeout from fencing: its EndTxn(abort) is answered with the next epoch."""
    assert differing(timed_out(cluster, protocol, first)) == []


def timed_out(cluster: Cluster, protocol: Protocol, first: str) -> Iterator[Finding]:
    topic, group = cluster.create_topic(4), cluster.new_group()
    driver = Driver(cluster, protocol, timeout=timedelta(seconds=1)).init()
    driver.add(topic, [0])
    driver.produce(cluster.connect(), topic, {0: driver.batch(0, ["late"])})
    driver.commit_offsets(group, topic, {0: 99}, "zombie")
    until(lambda: cluster.transaction_state(driver.transactional_id) == "CompleteAbort", pause_seconds=0.1)
    if first == "calls":
        for name, call in zombie_calls(driver, cluster.connect(), topic, group).items():
            if not name.startswith("EndTxn"):
                yield Finding(name, call(), EPOCH if name.startswith(BY_EPOCH) else FENCED)
    else:
        answer = driver.end_once(first == "commit")
        second = {"commit": (BAD_STATE, -1), "abort": (NONE, driver.epoch + 1)}[first]
        observed = (answer.error_code, getattr(answer, "producer_epoch", None))
        yield Finding(f"EndTxn {first}", observed, second if protocol.bumps else (FENCED, None))
    yield Finding("bump of its own epoch", driver.init_once(bump=True), NONE)
    yield Finding("readers get", cluster.values(topic, 4), [])
    yield Finding("offset", cluster.fetch_offset(group, topic, 0, True), (NONE, -1, ""))
