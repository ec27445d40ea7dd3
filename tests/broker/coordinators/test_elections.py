"""Partitions of the coordinators' topics come and go while requests wait: nobody waits for ever, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from harness.broker_in_memory import BrokerInMemory, Reply, SteppedDisk
from harness.group_requests import SESSION_MS, commit_fields, heartbeat_fields, join_fields, sync_fields
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    GROUP,
    MINUTE,
    TOPIC,
    TV1,
    TV2,
    ProducerInMemory,
    Protocol,
    committed_offset,
    make_topic,
    visible,
)
from oncelog.broker import slices
from oncelog.broker.coordinators import loading
from oncelog.broker.coordinators.known_brokers import OneBroker
from oncelog.coordination.internal_topics import ACTIVE, CLOSED, LOADING, TRANSITIONS, CoordinatorState
from oncelog.groups.offsets import Offsets
from oncelog.simulation.audit import audit_coordinators
from oncelog.transactions.transactional_ids import TransactionalIds
from oncelog.wire import ErrorCode

NONE = ErrorCode.none
ELSEWHERE, IN_PROGRESS = ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress
LOG, OFFSETS = "__transaction_state", "__consumer_offsets"
ONE_PARTITION = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
PROTOCOLS = pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)


class Elected:
    """A broker that a test has lead and not lead the one partition of each coordinator's topic."""

    def __init__(self) -> None:
        self.broker = BrokerInMemory(SteppedDisk(), ManualClock(), **ONE_PARTITION)
        make_topic(self.broker)
        for kind in (0, 1):
            self.broker.ask("find_coordinator", 3, key="any", key_type=kind)
        self.epochs = {LOG: 0, OFFSETS: 0}

    def elections(self, topic: str) -> Any:
        core = self.broker.core
        return core.transactions.elections if topic == LOG else core.group_elections

    def resign(self, *topics: str) -> None:
        for topic in topics:
            self.epochs[topic] += 1
            self.elections(topic).resigned(0, self.epochs[topic])

    def elect(self, *topics: str) -> None:
        for topic in topics:
            self.epochs[topic] += 1
            self.elections(topic).elected(0, self.epochs[topic])

    def states(self) -> tuple[CoordinatorState, CoordinatorState]:
        return self.elections(LOG).state(0), self.elections(OFFSETS).state(0)

    def until_loaded(self) -> None:
        while LOADING in self.states():
            self.broker.clock.advance(0)

    def nothing_is_left(self) -> bool:
        core = self.broker.core
        coordinator = core.transactions.coordinator
        groups = core.offsets.coordinator
        known = [groups.members.every_name(), core.memberships._timers, core.transactions._held._held]
        return not any(known) and coordinator.ids == TransactionalIds() and groups.offsets == Offsets()


@contextmanager
def in_small_steps() -> Iterator[None]:
    """Others are served after each batch that is loaded."""
    with patch.object(slices, "SLICE_MS", 0), patch.object(loading, "BATCHES_OF_A_STEP", 1):
        yield


def every_request(broker: BrokerInMemory, transactional_id: str = "teller", group: str = GROUP) -> dict[str, Reply]:
    """One of each kind that a coordinator answers."""
    producer = {"producer_id": 0, "producer_epoch": 0}
    named = {"transactional_id": transactional_id, **producer}
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    offsets = [{"name": TOPIC, "partitions": [partition]}]
    old = {"transactional_id": transactional_id, "topics": [{"name": TOPIC, "partitions": [0]}], **producer}
    return {
        "init": broker.send("init_producer_id", 4, transactional_id=transactional_id, transaction_timeout=MINUTE),
        "add": broker.send("add_partitions_to_txn", 3, **{f"v3_and_below_{key}": one for key, one in old.items()}),
        "add_offsets": broker.send("add_offsets_to_txn", 3, **named, group_id=group),
        "offsets_in_txn": broker.send("txn_offset_commit", 3, **named, group_id=group, topics=offsets),
        "end": broker.send("end_txn", 3, **named, committed=True),
        # The parser of these tests knows no moment before 1970, when transactions begin that never did.
        "describe_txn": broker.send("describe_transactions", 0, transactional_ids=["unknown"]),
        "list_txn": broker.send("list_transactions", 0, state_filters=[], producer_id_filters=[]),
        "join": broker.send("join_group", 3, **join_fields(3, group, "")),
        "sync": broker.send("sync_group", 3, **sync_fields(3, group, "nobody", 1, None)),
        "heartbeat": broker.send("heartbeat", 3, **heartbeat_fields(3, group, "nobody", 1)),
        "commit": broker.send("offset_commit", 8, **commit_fields(group, TOPIC, {0: 1}, "", -1)),
        "fetch": broker.send("offset_fetch", 7, group_id=group, require_stable=False, topics=None),
        "describe": broker.send("describe_groups", 5, groups=[group], include_authorized_operations=False),
        "delete": broker.send("delete_groups", 2, groups_names=[group]),
        "list": broker.send("list_groups", 4, states_filter=[]),
    }


def error_of(name: str, reply: Reply) -> ErrorCode:
    assert reply.came, name
    message = reply.message
    match name:
        case "add":
            return message.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        case "offsets_in_txn" | "commit":
            return message.topics[0].partitions[0].error_code
        case "describe_txn":
            return message.transaction_states[0].error_code
        case "describe":
            return message.groups[0].error_code
        case "delete":
            return message.results[0].error_code
        case _:
            return message.error_code


def write_some(elected: Elected, protocol: Protocol = TV1) -> ProducerInMemory:
    producer = ProducerInMemory(elected.broker, protocol)
    for number, value in enumerate(["a", "b"], 1):
        producer.write(value, number)
        producer.end(committed=True)
        elected.broker.settle()
    return producer


def test_every_state_can_be_reached_and_left() -> None:
    assert {before for before, _ in TRANSITIONS} == {after for _, after in TRANSITIONS} == set(CoordinatorState)


def test_requests_for_a_partition_that_another_broker_leads_are_told_so() -> None:
    elected = Elected()
    write_some(elected)
    elected.resign(LOG, OFFSETS)
    assert elected.states() == (CLOSED, CLOSED)
    errors = {name: error_of(name, reply) for name, reply in every_request(elected.broker).items()}
    assert errors.pop("list") is errors.pop("list_txn") is NONE
    assert set(errors.values()) == {ELSEWHERE}, errors


def test_requests_for_a_partition_that_is_being_loaded_are_told_so() -> None:
    """Kafka answers a heartbeat as if nothing were wrong: the member is alive, and need not know."""
    elected = Elected()
    write_some(elected)
    elected.resign(LOG, OFFSETS)
    with in_small_steps():
        elected.elect(LOG, OFFSETS)
    assert elected.states() == (LOADING, LOADING)
    errors = {name: error_of(name, reply) for name, reply in every_request(elected.broker).items()}
    assert errors.pop("heartbeat") is NONE
    assert set(errors.values()) == {IN_PROGRESS}, errors
    elected.until_loaded()
    assert elected.states() == (ACTIVE, ACTIVE)
    assert committed_offset(elected.broker) == 2
    audit_coordinators(elected.broker.core)


def test_start_of_a_broker_that_is_alone_tells_nobody_of_loading() -> None:
    elected = Elected()
    write_some(elected)
    broker = elected.broker
    broker.core.stop()
    broker.disk.kill()
    broker.in_turns = True
    with in_small_steps():
        broker.restart()
        replies = every_request(broker)
        while not all(reply.came for reply in replies.values()):
            broker.clock.advance(1000)
            broker.settle()
    errors = {name: error_of(name, reply) for name, reply in replies.items()}
    assert not {ELSEWHERE, IN_PROGRESS} & set(errors.values()), errors


@pytest.mark.parametrize("steps", range(0, 20, 2))
@pytest.mark.parametrize("by", ["leader", "epoch"])
def test_load_that_is_overtaken_leaves_nothing_behind(steps: int, by: str) -> None:
    elected = Elected()
    write_some(elected)
    elected.resign(LOG, OFFSETS)
    with in_small_steps():
        elected.elect(LOG, OFFSETS)
        for _ in range(steps):
            elected.broker.clock.take_step()
        assert LOADING in elected.states()
        elected.resign(LOG, OFFSETS) if by == "leader" else elected.elect(LOG, OFFSETS)
        assert elected.nothing_is_left()
        for _ in range(60):
            elected.broker.clock.take_step()
    if by == "leader":
        assert elected.states() == (CLOSED, CLOSED)
        assert elected.nothing_is_left()
        elected.elect(LOG, OFFSETS)
    assert elected.states() == (ACTIVE, ACTIVE)
    assert committed_offset(elected.broker) == 2
    audit_coordinators(elected.broker.core)


def test_epoch_that_comes_late_says_nothing() -> None:
    elected = Elected()
    write_some(elected)
    elections = elected.elections(LOG)
    elected.resign(LOG)
    elections.elected(0, elected.epochs[LOG] - 1)
    assert elections.state(0) is CLOSED
    elected.elect(LOG)
    elections.resigned(0, elected.epochs[LOG] - 1)
    elections.elected(0, elected.epochs[LOG])
    assert (elections.state(0), elections.epoch(0)) == (ACTIVE, elected.epochs[LOG])


def test_broker_that_has_stepped_down_and_is_told_the_same_again_coordinates_again() -> None:
    elected = Elected()
    write_some(elected)
    for topic in (LOG, OFFSETS):
        elected.elections(topic).resigned(0)
    assert elected.states() == (CLOSED, CLOSED)
    for topic in (LOG, OFFSETS):
        elected.elections(topic).elected(0, elected.epochs[topic])
    elected.until_loaded()
    assert elected.states() == (ACTIVE, ACTIVE)
    audit_coordinators(elected.broker.core)


def test_no_group_is_coordinated_in_a_cluster_whose_topic_of_groups_nobody_knows_yet() -> None:
    alone = BrokerInMemory(SteppedDisk(), ManualClock())
    assert alone.core.offsets.error(GROUP) is NONE
    with patch.object(OneBroker, "has_others", True):
        assert alone.core.offsets.error(GROUP) is ELSEWHERE


def test_members_that_wait_are_told_to_look_elsewhere_and_find_their_group_again() -> None:
    elected = Elected()
    broker = elected.broker
    waiting = broker.send("join_group", 3, **join_fields(3, GROUP, ""))
    assert not waiting.came
    elected.resign(OFFSETS)
    assert waiting.message.error_code is ELSEWHERE
    assert elected.nothing_is_left()
    elected.elect(OFFSETS)
    joining = [broker.send("join_group", 3, **join_fields(3, GROUP, "")) for _ in range(2)]
    broker.clock.advance(3000)
    leader = joining[0].message.leader
    (follower,) = {reply.message.member_id for reply in joining} - {leader}
    synced = broker.send("sync_group", 3, **sync_fields(3, GROUP, follower, 1, None))
    assert not synced.came
    elected.resign(OFFSETS)
    assert synced.message.error_code is ELSEWHERE
    elected.elect(OFFSETS)
    audit_coordinators(broker.core)


@PROTOCOLS
@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("back", [True, False])
def test_end_of_a_transaction_meets_another_coordinator_at_every_wait(
    protocol: Protocol, steps: int, back: bool
) -> None:
    """Either the decision is in the log, and is carried out by whoever leads it next, or the transaction is open."""
    elected = Elected()
    broker = elected.broker
    producer = ProducerInMemory(broker, protocol)
    producer.write("a", 1)
    broker.settle()
    reply = producer.send_end(committed=True)
    for _ in range(steps):
        broker.disk.take_step()
    was_answered = reply.came
    elected.resign(LOG)
    if not back:
        broker.settle()
    elected.elect(LOG)
    broker.settle()
    assert reply.message.error_code is (NONE if was_answered else ELSEWHERE)
    (found,) = broker.core.transactions.coordinator.transactions()
    if reply.message.error_code is NONE:
        assert visible(broker, 0) == ["a"]
    assert found.status.label in ("CompleteCommit", "Ongoing")
    assert visible(broker, 0) == (["a"] if found.status.label == "CompleteCommit" else [])
    audit_coordinators(broker.core)


def test_producer_that_waits_for_its_epoch_when_the_coordinator_changes_asks_again() -> None:
    elected = Elected()
    write_some(elected)
    asked = {"transactional_id": "teller", "transaction_timeout": MINUTE}
    reply = elected.broker.send("init_producer_id", 4, **asked)
    assert not reply.came
    elected.resign(LOG)
    elected.elect(LOG)
    elected.broker.settle()
    assert reply.message.error_code is ELSEWHERE
    audit_coordinators(elected.broker.core)


def test_request_that_is_held_back_is_told_at_once_to_look_elsewhere() -> None:
    elected = Elected()
    producer = ProducerInMemory(elected.broker, TV1)
    producer.write("a", 1)
    producer.send_end(committed=True)
    asked = {"transactional_id": "teller", "transaction_timeout": MINUTE}
    held = elected.broker.send("init_producer_id", 4, **asked)
    assert not held.came
    elected.resign(LOG)
    assert held.message.error_code is ELSEWHERE


def test_members_of_a_group_that_was_loaded_have_to_be_heard_from() -> None:
    elected = Elected()
    broker = elected.broker
    joining = broker.send("join_group", 3, **join_fields(3, GROUP, ""))
    broker.clock.advance(3000)
    member = joining.message.member_id
    broker.ask("sync_group", 3, **sync_fields(3, GROUP, member, 1, {member: b"all"}))
    elected.resign(OFFSETS)
    elected.elect(OFFSETS)
    assert broker.ask("heartbeat", 3, **heartbeat_fields(3, GROUP, member, 1)).error_code is NONE
    broker.clock.advance(SESSION_MS + 1)
    (found,) = broker.ask("describe_groups", 5, groups=[GROUP], include_authorized_operations=False).groups
    assert found.group_state == "Empty"


def test_markers_carry_the_epoch_under_which_their_coordinator_leads() -> None:
    elected = Elected()
    producer = write_some(elected)
    elected.resign(LOG)
    elected.elect(LOG)
    producer.write("c", 3)
    producer.end(committed=True)
    elected.broker.settle()
    log = elected.broker.core.topics.partition(TOPIC, 0).log
    assert {one.coordinator_epoch for one in log.producers.active()} == {elected.epochs[LOG]}


def test_offsets_of_an_open_transaction_wait_for_its_marker_at_the_next_coordinator_too() -> None:
    elected = Elected()
    producer = write_some(elected)
    producer.write("c", 3)
    elected.resign(OFFSETS)
    elected.elect(OFFSETS)
    asked = {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}], "require_stable": True}
    answer = elected.broker.ask("offset_fetch", 7, **asked)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.unstable_offset_commit
    producer.end(committed=True)
    elected.broker.settle()
    assert committed_offset(elected.broker) == 3


def test_marker_waits_for_the_offsets_to_be_loaded() -> None:
    """KafkaApis: the group coordinator's errors are NOT_LEADER_OR_FOLLOWER to who sends the marker, and it tries again."""
    elected = Elected()
    producer = write_some(elected)
    producer.write("c", 3)
    elected.resign(OFFSETS)
    producer.end(committed=True)
    elected.broker.settle()
    assert visible(elected.broker, 0)[-1] == "c"
    (found,) = elected.broker.core.transactions.coordinator.transactions()
    assert found.status.label == "PrepareCommit"
    elected.elect(OFFSETS)
    elected.broker.clock.advance(1000)
    elected.broker.settle()
    assert committed_offset(elected.broker) == 3
    (found,) = elected.broker.core.transactions.coordinator.transactions()
    assert found.status.label == "CompleteCommit"


@pytest.mark.parametrize("seed", range(60))
def test_whatever_waits_when_partitions_come_and_go_is_answered_and_the_log_is_the_state(seed: int) -> None:
    random = Random(seed)
    elected = Elected()
    broker = elected.broker
    producers = [ProducerInMemory(broker, protocol, str(protocol), f"group-{protocol}") for protocol in (TV1, TV2)]
    replies: list[tuple[str, Reply]] = []
    with in_small_steps():
        for _ in range(80):
            match random.randrange(11):
                case 0:
                    elected.resign(random.choice([LOG, OFFSETS]))
                case 1 | 2:
                    elected.elect(random.choice([LOG, OFFSETS]))
                case 3 | 4:
                    for _ in range(random.randrange(9)):
                        broker.clock.take_step()
                case 5:
                    broker.clock.advance(random.choice([0, 0, 0, 500, 3000, 20_000]))
                case 6:
                    producer = random.choice(producers)
                    named = {
                        "transactional_id": producer.transactional_id,
                        "producer_id": producer.producer_id,
                        "producer_epoch": producer.epoch,
                    }
                    send_one(broker, producer, named, random, replies)
                case 7:
                    replies += every_request(
                        broker, str(random.choice([TV1, TV2])), f"group-{random.randrange(2)}"
                    ).items()
                case 8:
                    joined = broker.send("join_group", 3, **join_fields(3, f"group-{random.randrange(2)}", ""))
                    replies.append(("join", joined))
                case _:
                    for _ in range(random.randrange(4)):
                        broker.disk.take_step()
            if elected.states() == (ACTIVE, ACTIVE):
                audit_coordinators(broker.core)
        elected.resign(LOG, OFFSETS)
        broker.clock.advance(500)
        broker.settle()
        assert elected.nothing_is_left()
        unanswered = [name for name, reply in replies if not reply.came]
        assert not unanswered
        elected.elect(LOG, OFFSETS)
        elected.until_loaded()
    broker.clock.advance(1000)
    broker.settle()
    broker.clock.advance(120_000)
    broker.settle()
    audit_coordinators(broker.core)
    assert not [log for log in broker.core.topics.partitions() if log.log.producers.open_transactions()]
    for protocol in (TV1, TV2):
        producer = ProducerInMemory(broker, protocol, str(protocol))
        producer.write("last", 99)
        producer.end(committed=True)
        broker.settle()
        assert visible(broker, 0)[-1] == "last"


def send_one(
    broker: BrokerInMemory,
    producer: ProducerInMemory,
    named: dict[str, Any],
    random: Random,
    replies: list[tuple[str, Reply]],
) -> None:
    """What a producer may ask next, whether it fits or not."""
    partition = {"partition_index": 0, "committed_offset": random.randrange(9), "committed_metadata": ""}
    old = {"topics": [{"name": TOPIC, "partitions": [0, 1]}], **named}
    match random.randrange(4):
        case 0:
            reply = broker.send("add_partitions_to_txn", 3, **{f"v3_and_below_{key}": one for key, one in old.items()})
            replies.append(("add", reply))
        case 1:
            end = broker.send("end_txn", producer.protocol.end, **named, committed=random.random() < 0.5)
            if producer.protocol is TV2 and end.waiting is not None:
                end.waiting.then(lambda _: take_epoch(producer, end))
            replies.append(("end", end))
        case 2:
            offsets = [{"name": TOPIC, "partitions": [partition]}]
            fields = {**named, "group_id": producer.group, "topics": offsets}
            replies.append(("offsets_in_txn", broker.send("txn_offset_commit", producer.protocol.offsets, **fields)))
        case _:
            broker_init = {"transactional_id": producer.transactional_id, "transaction_timeout": MINUTE}
            init = broker.send("init_producer_id", 4, **broker_init)
            replies.append(("init", init))
            if init.waiting is not None:
                init.waiting.then(lambda _: take_epoch(producer, init))


def take_epoch(producer: ProducerInMemory, reply: Reply) -> None:
    if reply.message is not None and reply.message.error_code is NONE:
        producer.producer_id, producer.epoch = reply.message.producer_id, reply.message.producer_epoch
