"""A transaction whose partitions are led by several brokers ends in all of them, whatever becomes of what they send."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from harness.broker_in_memory import Reply
from harness.coordinators_in_memory import BrokersInMemory, SentMarkers
from harness.group_requests import commit_fields, join_fields, sync_fields
from harness.transaction_in_memory import MINUTE, TOPIC, TV1, TV2, ProducerInMemory, Protocol
from oncelog.broker.coordinators.known_brokers import AWAY
from oncelog.log import Appended, Origin
from oncelog.records import ControlType, Record, batches, build_batch, read_control, read_header
from oncelog.transactions import TransactionStatus
from oncelog.wire import ErrorCode

NONE = ErrorCode.none
LOG, OFFSETS = "__transaction_state", "__consumer_offsets"
PROTOCOLS = pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
COMPLETE = (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)


class Transaction:
    """A producer whose coordinator is broker 0. Its records are put where the partitions are led."""

    def __init__(self, brokers: BrokersInMemory, protocol: Protocol = TV1, name: str = "teller") -> None:
        self.brokers = brokers
        self.name = name
        self.coordinator = brokers.brokers[0]
        self.home = self.coordinator.core.transactions.coordinator.partition_for(name)
        self.producer = ProducerInMemory(self.coordinator, protocol, name)

    def write(self, value: str) -> None:
        self.producer.add_partitions()
        for index in (0, 1):
            leader = self.brokers.leaders[TOPIC, index]
            assert isinstance(leader, int)
            batch = build_batch(
                [Record(None, value.encode())],
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                base_sequence=self.producer.sequence,
                transactional=True,
            )
            partition = self.brokers.partition(leader, (TOPIC, index))
            assert isinstance(partition.append(batch, read_header(batch), Origin.CLIENT, verified=True), Appended)
        self.producer.sequence += 1

    def end(self, *, committed: bool = True) -> None:
        reply = self.producer.send_end(committed=committed)
        self.brokers.settle()
        assert reply.message.error_code is NONE
        self.producer.take_epoch(reply)

    def status(self, node_id: int = 0) -> TransactionStatus | None:
        found = self.brokers.brokers[node_id].core.transactions.coordinator.ids.metadata(self.name)
        return None if found is None else found.status

    def markers(self, index: int) -> list[tuple[ControlType, int]]:
        """The markers in a partition of the topic, with the epochs of the coordinators that sent them."""
        leader = self.brokers.leaders[TOPIC, index]
        assert isinstance(leader, int)
        log = self.brokers.partition(leader, (TOPIC, index)).log
        data, _ = log.read(0, 2**20, log.log_end_offset)
        found = [(position, header) for position, header in batches(data) if header.is_control]
        marks = [(read_control(bytes(data), position), header) for position, header in found]
        return [(mark.control, mark.coordinator_epoch) for mark, _ in marks if mark is not None]

    def is_open(self, index: int) -> bool:
        leader = self.brokers.leaders[TOPIC, index]
        assert isinstance(leader, int)
        return bool(self.brokers.partition(leader, (TOPIC, index)).log.producers.open_transactions())


def three() -> BrokersInMemory:
    """Broker 0 coordinates and leads partition 0 of the topic, broker 1 leads partition 1."""
    brokers = BrokersInMemory(3)
    brokers.lead(TOPIC, 1, 1)
    return brokers


@PROTOCOLS
@pytest.mark.parametrize("committed", [True, False])
def test_transaction_ends_in_the_partitions_of_every_broker(protocol: Protocol, committed: bool) -> None:
    brokers = three()
    transaction = Transaction(brokers, protocol)
    transaction.write("a")
    transaction.end(committed=committed)
    brokers.run()
    epoch = brokers.epochs[LOG, transaction.home]
    control = ControlType.COMMIT if committed else ControlType.ABORT
    assert transaction.markers(0) == transaction.markers(1) == [(control, epoch)]
    assert transaction.status() in COMPLETE


def test_partition_that_the_coordinator_was_not_told_of_gets_its_marker_when_it_is() -> None:
    """A marker that was left out would leave the records to that of the next transaction, which may be a commit."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    brokers.untold.add((TOPIC, 1))
    transaction.end(committed=False)
    brokers.run()
    assert transaction.is_open(1)
    assert transaction.status() is TransactionStatus.PREPARE_ABORT
    brokers.untold.clear()
    brokers.brokers[0].core.transactions.leaders_changed()
    brokers.run()
    assert not transaction.is_open(1)
    assert transaction.status() in COMPLETE


def test_broker_that_was_not_told_who_coordinates_writes_the_marker_although_no_transaction_is_open() -> None:
    """KafkaApis.handleWriteTxnMarkersRequest appends it whoever leads what: the next batch is of the epoch after it."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.producer.add_partitions()
    transaction.end(committed=False)
    (sent,) = brokers.sent
    for index in (0, 1):
        # As broker 1 knows it, which has just become a leader.
        brokers.leaders[LOG, index] = AWAY
    errors: list[ErrorCode] = []
    brokers.receive(sent, lambda found: errors.extend(found.values()))
    brokers.settle()
    assert errors == [NONE]
    assert transaction.markers(1) == [(ControlType.ABORT, brokers.epochs[LOG, transaction.home])]


def test_broker_that_does_not_know_that_it_coordinates_no_more_writes_the_marker_of_the_next_coordinator() -> None:
    """ProducerAppendInfo.checkCoordinatorEpoch: only an epoch before that of the last marker is refused."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    transaction.end()
    brokers.run()
    brokers.lead(LOG, transaction.home, 1)
    brokers.run()
    brokers.unaware.add(1)
    brokers.lead(LOG, transaction.home, 0)
    transaction.write("b")
    transaction.end(committed=False)
    brokers.run()
    epoch = brokers.epochs[LOG, transaction.home]
    assert transaction.markers(1)[-1] == (ControlType.ABORT, epoch)
    assert transaction.status() in COMPLETE


def test_coordinator_that_knows_no_other_does_not_take_over_the_epoch_of_the_next_one() -> None:
    """The brokers may be told late who leads: a decision of this one may be one that the next coordinator does not know."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    brokers.unaware.add(0)
    brokers.lead(LOG, transaction.home, 2)
    newer = brokers.epochs[LOG, transaction.home]
    partition = brokers.partition(0, (TOPIC, 0))
    producer = transaction.producer
    partition.append_marker(ControlType.ABORT, producer.producer_id, producer.epoch, newer, 0, 0)
    for index in (0, 1):
        brokers.leaders[LOG, index] = 0
    transaction.producer.send_end(committed=True)
    brokers.settle()
    assert transaction.markers(0) == [(ControlType.ABORT, newer)]
    assert transaction.status() is TransactionStatus.PREPARE_COMMIT


def test_answer_does_not_wait_for_other_brokers_and_complete_does() -> None:
    """KIP-98: the producer is answered when the decision is durable; the markers go out after that."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    transaction.end()
    assert not transaction.is_open(0)
    assert transaction.is_open(1)
    assert transaction.status() is TransactionStatus.PREPARE_COMMIT
    brokers.run()
    assert not transaction.is_open(1)
    assert transaction.status() in COMPLETE


@pytest.mark.parametrize("index", [0, 1], ids=["here", "on another broker"])
def test_transaction_is_not_complete_before_every_replica_has_its_markers(index: int) -> None:
    """Kafka's brokers append markers with acks=-1: a Complete record that outlives one would leave its partition open."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    brokers.held_back.add((TOPIC, index))
    transaction.end()
    brokers.carry()
    assert transaction.status() is TransactionStatus.PREPARE_COMMIT
    brokers.commit((TOPIC, index))
    brokers.run()
    assert transaction.status() in COMPLETE


def test_marker_that_is_lost_with_its_leader_is_written_by_the_next_one() -> None:
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    brokers.held_back.add((TOPIC, 0))
    transaction.end()
    brokers.held_back.clear()
    brokers.lead(TOPIC, 0, 2)
    assert transaction.markers(0) == []
    brokers.run()
    assert [control for control, _ in transaction.markers(0)] == [ControlType.COMMIT]
    assert transaction.status() in COMPLETE


@pytest.mark.parametrize("arrives", [True, False])
def test_markers_whose_answer_does_not_come_are_sent_again(arrives: bool) -> None:
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    transaction.end()
    for _ in range(3):
        brokers.carry(arrives=arrives, answers=False)
        assert transaction.status() is TransactionStatus.PREPARE_COMMIT
        brokers.advance(1000)
    brokers.run()
    assert transaction.status() in COMPLETE
    assert {control for control, _ in transaction.markers(1)} == {ControlType.COMMIT}
    transaction.write("b")
    transaction.end(committed=False)
    brokers.run()
    assert transaction.markers(1)[-1][0] is ControlType.ABORT


def test_partition_without_a_leader_holds_up_no_other_and_gets_its_marker_when_it_is_back() -> None:
    brokers = three()
    transaction, other = Transaction(brokers), Transaction(brokers, name="other")
    for one in (transaction, other):
        one.write("a")
    brokers.lead(TOPIC, 1, AWAY)
    transaction.end()
    brokers.run()
    assert not brokers.sent
    assert transaction.status() is TransactionStatus.PREPARE_COMMIT
    brokers.lead(TOPIC, 1, 1)
    other.end()
    brokers.run()
    assert transaction.status() in COMPLETE
    assert other.status() in COMPLETE
    assert not transaction.is_open(1)


def test_markers_of_several_transactions_go_to_a_broker_in_one_request() -> None:
    brokers = three()
    transactions = [Transaction(brokers, name=f"teller-{number}") for number in range(5)]
    for one in transactions:
        one.write("a")
    replies = [one.producer.send_end(committed=True) for one in transactions]
    brokers.settle()
    assert all(reply.message.error_code is NONE for reply in replies)
    (first,) = brokers.sent
    brokers.carry()
    seen = {marker.producer_id for marker in first.markers}
    while brokers.sent:
        (following,) = brokers.sent
        seen |= {marker.producer_id for marker in following.markers}
        brokers.carry()
    assert seen == {one.producer.producer_id for one in transactions}
    assert all(one.status() in COMPLETE for one in transactions)


@PROTOCOLS
@pytest.mark.parametrize("carried", [True, False])
def test_next_coordinator_sends_the_markers_of_every_decision_again(protocol: Protocol, carried: bool) -> None:
    """Kafka's TransactionCoordinator.onElection: for each Prepare record the markers go out under the new epoch."""
    brokers = three()
    transaction = Transaction(brokers, protocol)
    transaction.write("a")
    transaction.end()
    if carried:
        brokers.carry(answers=False)
    brokers.lead(LOG, transaction.home, 2)
    brokers.run()
    assert transaction.status(2) in COMPLETE
    assert transaction.status(0) is None
    newest = brokers.epochs[LOG, transaction.home]
    assert transaction.markers(0)[-1] == transaction.markers(1)[-1] == (ControlType.COMMIT, newest)
    assert not transaction.is_open(0)
    assert not transaction.is_open(1)


def test_next_coordinator_sends_no_marker_of_a_decision_that_other_replicas_lack() -> None:
    """A marker before the decision is committed may contradict what is decided once both coordinators are gone."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    key = (LOG, transaction.home)
    brokers.held_back.add(key)
    transaction.producer.send_end(committed=True)
    brokers.settle()
    brokers.lead(LOG, transaction.home, 2)
    brokers.run()
    assert transaction.status(2) is TransactionStatus.PREPARE_COMMIT
    assert transaction.markers(0) == transaction.markers(1) == []
    brokers.commit(key)
    brokers.run()
    assert transaction.status(2) in COMPLETE
    assert [control for control, _ in transaction.markers(1)] == [ControlType.COMMIT]


def test_markers_of_the_coordinator_before_are_fenced() -> None:
    """ProducerAppendInfo.checkCoordinatorEpoch: an epoch before that of the last marker is TRANSACTION_COORDINATOR_FENCED."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    transaction.end()
    (late,) = brokers.sent
    brokers.sent = []
    brokers.lead(LOG, transaction.home, 2)
    brokers.run()
    assert transaction.status(2) in COMPLETE
    errors: list[ErrorCode] = []
    brokers.receive(late, lambda found: errors.extend(found.values()))
    brokers.settle()
    assert errors == [ErrorCode.transaction_coordinator_fenced]
    late.answer.resolve(None)
    brokers.run()
    assert transaction.status(0) is None


def test_write_that_is_not_committed_when_the_leader_changes_is_not_answered_as_done() -> None:
    """TransactionStateManager: whoever waits when the coordinator's epoch changes is told NOT_COORDINATOR."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    brokers.held_back.add((LOG, transaction.home))
    end = transaction.producer.send_end(committed=True)
    brokers.settle()
    assert not end.came
    assert transaction.is_open(0), "no marker goes out before the decision is committed"
    brokers.lead(LOG, transaction.home, 2)
    brokers.settle()
    assert end.message.error_code is ErrorCode.not_coordinator


def test_every_write_of_the_coordinator_is_answered_once_it_is_committed() -> None:
    brokers = BrokersInMemory(3)
    for index in (0, 1):
        brokers.lead(TOPIC, index, 0)
    transaction = Transaction(brokers)
    key = (LOG, transaction.home)
    asked = {
        "transactional_id": transaction.name,
        "producer_id": transaction.producer.producer_id,
        "producer_epoch": transaction.producer.epoch,
    }
    first = {
        "v3_and_below_" + name: value
        for name, value in {**asked, "topics": [{"name": TOPIC, "partitions": [0, 1]}]}.items()
    }
    for api, version, fields in (
        ("add_partitions_to_txn", 3, first),
        ("end_txn", 3, asked | {"committed": False}),
        ("init_producer_id", 4, {"transactional_id": transaction.name, "transaction_timeout": MINUTE}),
    ):
        for _ in range(2):
            # The second time it is asked for what is so already: no record, and what it relies on is not committed.
            brokers.held_back.add(key)
            reply = transaction.coordinator.send(api, version, **fields)
            brokers.settle()
            assert not reply.came, api
            brokers.commit(key)
            brokers.settle()
            assert reply.came, api


def test_coordinator_that_is_one_no_more_sends_nothing_more() -> None:
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    transaction.end()
    brokers.carry(arrives=False)
    brokers.lead(LOG, transaction.home, 2)
    brokers.advance(1000)
    assert {sent.sender for sent in brokers.sent} == {2}


@pytest.mark.parametrize("is_same_epoch", [False, True])
def test_commit_that_comes_after_the_coordinator_has_changed_is_not_this_ones(is_same_epoch: bool) -> None:
    brokers = three()
    transaction = Transaction(brokers)
    key = (LOG, transaction.home)
    brokers.held_back.add(key)
    asked = {"transactional_id": transaction.name, "transaction_timeout": MINUTE}
    reply = transaction.coordinator.send("init_producer_id", 4, **asked)
    brokers.settle()
    assert not reply.came
    lead_again(brokers, transaction.home, None if is_same_epoch else 100)
    brokers.commit(key)
    assert reply.message.error_code is ErrorCode.not_coordinator


def test_decision_that_waits_while_its_broker_leaves_the_cluster_and_leads_under_the_same_epoch_again_is_none() -> None:
    """A broker whose session ends forgets what it led; if the controller was away it leads under the epochs of before."""
    brokers = three()
    transaction = Transaction(brokers)
    transaction.write("a")
    commit = transaction.producer.send_end(committed=True)
    lead_again(brokers, transaction.home, None)
    abort = transaction.producer.send_end(committed=False)
    brokers.run()
    assert commit.message.error_code is ErrorCode.not_coordinator
    assert abort.message.error_code is NONE
    assert [control for control, _ in transaction.markers(0)] == [ControlType.ABORT]
    assert [control for control, _ in transaction.markers(1)] == [ControlType.ABORT]


def lead_again(brokers: BrokersInMemory, home: int, epoch: int | None) -> None:
    """Have broker 0 resign, and lead the partition of the transaction log again: under the same epoch if it is told none."""
    elections = brokers.elections(brokers.brokers[0], LOG)
    same = elections.epoch(home)
    elections.resigned(home, epoch)
    elections.elected(home, same if epoch is None else epoch + 1)
    assert elections.error(home) is NONE


def test_what_groups_are_told_waits_until_it_is_committed() -> None:
    brokers = BrokersInMemory(2)
    broker = brokers.brokers[0]
    home = (OFFSETS, broker.core.offsets.partition_for("readers"))
    held = held_back(brokers, home, "offset_commit", 8, commit_fields("readers", TOPIC, {0: 7}, "", -1))
    brokers.commit(home)
    assert held.message.topics[0].partitions[0].error_code is NONE
    joining = broker.send("join_group", 3, **join_fields(3, "members", ""))
    brokers.advance(3000)
    member = joining.message.member_id
    home = (OFFSETS, broker.core.offsets.partition_for("members"))
    fields = sync_fields(3, "members", member, 1, {member: b"all"})
    held = held_back(brokers, home, "sync_group", 3, fields)
    brokers.commit(home)
    assert (held.message.error_code, bytes(held.message.assignment)) == (NONE, b"all")


@pytest.mark.parametrize("epoch", [None, 100], ids=["same epoch", "newer epoch"])
def test_what_groups_wait_for_is_another_coordinators_when_the_leader_changes(epoch: int | None) -> None:
    brokers = BrokersInMemory(2)
    broker = brokers.brokers[0]
    home = (OFFSETS, broker.core.offsets.partition_for("readers"))
    held = held_back(brokers, home, "offset_commit", 8, commit_fields("readers", TOPIC, {0: 7}, "", -1))
    elections = brokers.elections(broker, OFFSETS)
    after = elections.epoch(home[1]) if epoch is None else epoch + 1
    elections.resigned(home[1], epoch)
    elections.elected(home[1], after)
    brokers.commit(home)
    assert held.message.topics[0].partitions[0].error_code is ErrorCode.not_coordinator


def held_back(brokers: BrokersInMemory, home: tuple[str, int], api: str, version: int, fields: dict[str, Any]) -> Reply:
    brokers.held_back.add(home)
    reply = brokers.brokers[0].send(api, version, **fields)
    brokers.settle()
    assert not reply.came
    return reply


@pytest.mark.parametrize("seed", range(40))
def test_every_partition_has_the_outcome_that_was_decided_whoever_leads_and_whatever_is_lost(seed: int) -> None:
    random = Random(seed)
    brokers = three()
    protocol = random.choice([TV1, TV2])
    transaction = Transaction(brokers, protocol)
    transaction.write("a")
    committed = random.random() < 0.5
    transaction.end(committed=committed)
    kept: list[SentMarkers] = []
    for _ in range(random.randrange(12)):
        match random.randrange(6):
            case 0:
                brokers.lead(LOG, transaction.home, random.randrange(3))
            case 1:
                brokers.lead(TOPIC, 1, random.choice([AWAY, 1]))
            case 2:
                kept += brokers.sent
                brokers.carry(answers=random.random() < 0.5, arrives=random.random() < 0.7)
            case 3:
                brokers.advance(random.choice([0, 20, 1000]))
            case 4 if kept:
                # A copy that the network kept comes late.
                brokers.receive(random.choice(kept), lambda _: None)
            case _:
                brokers.settle()
    brokers.lead(TOPIC, 1, 1)
    brokers.run()
    coordinator = brokers.leaders[LOG, transaction.home]
    assert isinstance(coordinator, int)
    assert transaction.status(coordinator) is COMPLETE[0 if committed else 1]
    control = ControlType.COMMIT if committed else ControlType.ABORT
    for index in (0, 1):
        assert not transaction.is_open(index)
        markers = transaction.markers(index)
        assert {found for found, _ in markers} == {control}
        assert [epoch for _, epoch in markers] == sorted(epoch for _, epoch in markers), "an older one was fenced"
