"""Requests between brokers, from somebody who is none: he is told so, at whatever listener, and nothing comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from harness.cluster_messages import fetch_request, fetched, led, stopped
from harness.running_cluster import RunningCluster
from harness.strangers import Stranger
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.cluster.controller.requests import leader_and_isr, stop_replica, update_metadata
from oncelog.log import Appended, Origin
from oncelog.records import Record, build_batch, read_header
from oncelog.wire import ErrorCode, construct, message_class, message_module
from tests.cluster.in_memory import MINUTE, TOPIC, leader_of, make_topic, produce
from tests.cluster.test_ending_transactions import Transaction, coordinator_of

FAR_AHEAD = 2**30
REFUSED = ErrorCode.cluster_authorization_failed
WRITE_TXN_MARKERS, ADD_PARTITIONS = 27, 24


class Attacked:
    """Three brokers with two partitions on each, and a stranger."""

    def __init__(self, listener: str, principal: str | None) -> None:
        self.cluster = RunningCluster(3, min_insync_replicas="2")
        make_topic(self.cluster, (0, 1, 2), (1, 2, 0))
        self.stranger = Stranger(self.cluster, listener, principal)
        self.administrator = Stranger(self.cluster)
        """At a listener of clients that asks nobody who he is."""

    @property
    def topic_id(self) -> UUID:
        return self.cluster.partition(0, TOPIC).topic_id

    def controller(self, broker_id: int, **fields: Any) -> dict[str, Any]:
        """What a request of the controller has, as far as anybody can count it: the epochs grow by one."""
        return {
            "controller_id": self.cluster.controller,
            "controller_epoch": self.cluster.core(broker_id).metadata.membership.members.controller_epoch,
            "broker_epoch": self.cluster.epoch(broker_id),
        } | fields


@pytest.fixture(params=[("CLIENTS", None), ("PLAINTEXT", "User:alice")], ids=["clients", "between brokers"])
def attacked(request: pytest.FixtureRequest) -> Iterator[Attacked]:
    """What a stranger has asked of it leaves it as it was."""
    found = Attacked(*request.param)
    yield found
    cluster = found.cluster
    assert cluster.answer(produce(cluster, 0, b"afterwards")).responses[0].partition_responses[0].error_code == 0
    assert [leader_of(cluster, index, seen_by=one) for index in (0, 1) for one in range(3)] == [0, 0, 0, 1, 1, 1]


def delete_everywhere(epochs: dict[str, int]) -> Any:
    def request(attacked: Attacked, broker_id: int) -> Any:
        return stop_replica.StopReplicaRequest(
            **attacked.controller(broker_id, **epochs), topic_states=(stopped(-2, delete=True, topic=TOPIC),)
        )

    return request


@pytest.mark.parametrize("epochs", [{"broker_epoch": -1, "controller_epoch": FAR_AHEAD}, {}], ids=["ahead", "counted"])
def test_topic_is_deleted_by_no_stranger(attacked: Attacked, epochs: dict[str, int]) -> None:
    before = [attacked.controller(one) for one in range(3)]
    for broker_id in range(3):
        answer = attacked.stranger.ask(broker_id, delete_everywhere(epochs)(attacked, broker_id))
        assert (answer.error_code, answer.partition_errors) == (REFUSED, ())
    attacked.cluster.rest(1_000)
    assert [attacked.controller(one) for one in range(3)] == before
    assert all(attacked.cluster.partition(one, TOPIC).log.log_end_offset >= 0 for one in range(3))


def test_broker_is_made_to_lead_alone_by_no_stranger(attacked: Attacked) -> None:
    order = led(1, 40, (0, 1, 2), (1,), topic=TOPIC, topic_id=attacked.topic_id)
    request = leader_and_isr.LeaderAndIsrRequest(
        **attacked.controller(1), type=0, topic_states=(order,), live_leaders=()
    )
    answer = attacked.stranger.ask(1, request)
    assert (answer.error_code, answer.topics) == (REFUSED, ())
    assert attacked.cluster.partition(1, TOPIC).role is not ReplicaRole.LEADER


def test_brokers_learn_of_no_cluster_that_a_stranger_makes_up(attacked: Attacked) -> None:
    request = update_metadata.UpdateMetadataRequest(**attacked.controller(0), topic_states=(), live_brokers=())
    assert attacked.stranger.ask(0, request).error_code is REFUSED
    assert len(attacked.cluster.core(0).view.at("PLAINTEXT").brokers()) == 3


@pytest.mark.parametrize("version", range(4, 19))
def test_nothing_is_acknowledged_for_a_fetch_of_a_stranger(attacked: Attacked, version: int) -> None:
    """Kafka's authorizer refuses each partition of a follower's Fetch (KafkaApis.handleFetchRequest)."""
    cluster = attacked.cluster
    for follower in (1, 2):
        cluster.hold(follower)
    # What the followers had asked before is answered, and nothing else is on the way.
    cluster.rest(600)
    waiting = produce(cluster, 0, b"which no follower has")
    end = cluster.partition(0, TOPIC).log.log_end_offset
    for follower in (1, 2):
        asked = fetch_in(version, attacked, follower, end)
        answer = attacked.stranger.ask(0, asked)
        if version >= 7:
            assert (answer.error_code, answer.session_id) == (ErrorCode.none, 0)
        assert fetched(answer).error_code is ErrorCode.topic_authorization_failed
        assert not fetched(answer).records
    cluster.rest(600)
    assert not waiting.came
    for follower in (1, 2):
        cluster.let_go(follower)
    assert cluster.answer(waiting).responses[0].partition_responses[0].error_code is ErrorCode.none


def fetch_in(version: int, attacked: Attacked, replica_id: int, offset: int) -> Any:
    newest = fetch_request(
        replica_id, offset, broker_epoch=attacked.cluster.epoch(replica_id), topic_id=attacked.topic_id
    )
    types = message_module(1, version, "request")
    one = newest.topics[0].partitions[0]
    values = {name: getattr(one, name) for name in one.__dataclass_fields__}
    partition = construct(types.FetchPartition, **values)
    topic = construct(types.FetchTopic, topic=TOPIC, topic_id=attacked.topic_id, partitions=(partition,))
    values = {name: getattr(newest, name) for name in newest.__dataclass_fields__}
    if hasattr(types, "ReplicaState"):
        values["replica_state"] = types.ReplicaState(
            replica_id=replica_id, replica_epoch=attacked.cluster.epoch(replica_id)
        )
    return construct(types.FetchRequest, **values | {"replica_id": replica_id, "topics": (topic,)})


def marker(producer: dict[str, Any], *, committed: bool, coordinator_epoch: int = 0, epoch: int | None = None) -> Any:
    types = message_module(WRITE_TXN_MARKERS, 1, "request")
    return types.WriteTxnMarkersRequest(
        markers=(
            types.WritableTxnMarker(
                producer_id=producer["producer_id"],
                producer_epoch=producer["producer_epoch"] if epoch is None else epoch,
                transaction_result=committed,
                topics=(types.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=(0,)),),
                coordinator_epoch=coordinator_epoch,
            ),
        )
    )


def marked(answer: Any) -> ErrorCode:
    error: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
    return error


def open_transaction(attacked: Attacked, transactional_id: str) -> Transaction:
    """One record in each partition."""
    cluster = attacked.cluster
    transaction = Transaction(cluster, coordinator_of(cluster, transactional_id), transactional_id)
    cluster.until(lambda: transaction.init() is ErrorCode.none)
    added = cluster.answer_of(
        transaction.coordinator,
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_topics=[{"name": TOPIC, "partitions": [0, 1]}],
        v3_and_below_producer_id=transaction.producer["producer_id"],
        v3_and_below_producer_epoch=transaction.producer["producer_epoch"],
    )
    assert added.results_by_topic_v3_and_below[0].results_by_partition[1].partition_error_code is ErrorCode.none
    for index in (0, 1):
        batch = build_batch(
            [Record(None, b"half", timestamp_ms=cluster.clock.now_ms())],
            producer_id=transaction.producer["producer_id"],
            producer_epoch=transaction.producer["producer_epoch"],
            base_sequence=0,
            transactional=True,
        )
        data = [{"name": TOPIC, "partition_data": [{"index": index, "records": batch}]}]
        written = cluster.answer_of(
            index, "produce", 9, transactional_id=transactional_id, acks=-1, timeout=MINUTE, topic_data=data
        )
        assert written.responses[0].partition_responses[0].error_code is ErrorCode.none
    return transaction


def coordinated_by(attacked: Attacked, is_wanted: Callable[[int], bool]) -> str:
    """A transactional id."""
    ids = (f"teller-{number}" for number in count())
    return next(one for one in ids if is_wanted(coordinator_of(attacked.cluster, one)))


def is_open(attacked: Attacked, producer: dict[str, Any]) -> bool:
    log = attacked.cluster.partition(0, TOPIC).log
    return log.producers.open_transaction(producer["producer_id"]) is not None


@pytest.mark.parametrize("coordinator_epoch", [0, FAR_AHEAD], ids=["counted", "ahead"])
def test_half_of_a_transaction_is_shown_by_no_stranger(attacked: Attacked, coordinator_epoch: int) -> None:
    transaction = open_transaction(attacked, f"teller-{coordinator_epoch}")
    answer = attacked.stranger.ask(0, marker(transaction.producer, committed=True, coordinator_epoch=coordinator_epoch))
    assert marked(answer) is REFUSED
    assert is_open(attacked, transaction.producer)
    transaction.commit()


def leave_hanging(attacked: Attacked, producer_id: int = FAR_AHEAD) -> dict[str, Any]:
    """As an old leader did before KIP-890: a record of a transaction that no coordinator knows of."""
    partition = attacked.cluster.partition(0, TOPIC)
    record = Record(None, b"hanging", timestamp_ms=attacked.cluster.clock.now_ms())
    batch = build_batch([record], producer_id=producer_id, producer_epoch=5, base_sequence=0, transactional=True)
    appended = partition.append(batch, read_header(batch), Origin.CLIENT, verified=True)
    assert isinstance(appended, Appended)
    return {"producer_id": producer_id, "producer_epoch": 5}


def test_administrator_ends_the_transaction_that_hangs_and_commits_none(attacked: Attacked) -> None:
    """KIP-664: with what DescribeProducers shows of it, and 0 for a coordinator epoch that is not known."""
    producer = leave_hanging(attacked)
    assert marked(attacked.administrator.ask(0, marker(producer, committed=True))) is REFUSED
    later = marker(producer, committed=False, epoch=producer["producer_epoch"] + 1)
    assert marked(attacked.administrator.ask(0, later)) is ErrorCode.invalid_producer_epoch
    ahead = marker(producer, committed=False, coordinator_epoch=FAR_AHEAD)
    assert marked(attacked.administrator.ask(0, ahead)) is ErrorCode.transaction_coordinator_fenced
    assert is_open(attacked, producer)
    aborting = marker(producer, committed=False)
    assert marked(attacked.administrator.ask(0, aborting)) is ErrorCode.none
    assert not is_open(attacked, producer)
    end = attacked.cluster.partition(0, TOPIC).log.log_end_offset
    assert marked(attacked.administrator.ask(0, aborting)) is ErrorCode.none
    assert attacked.cluster.partition(0, TOPIC).log.log_end_offset == end + 1, "as Kafka, which asks for no transaction"


def test_abort_of_an_administrator_for_a_producer_without_a_transaction_fences_nobody(attacked: Attacked) -> None:
    """The producer may be idle at any coordinator, or get its id only later: it begins with epoch 0."""
    producer = {"producer_id": FAR_AHEAD, "producer_epoch": 0}
    log = attacked.cluster.partition(0, TOPIC).log
    for number in (1, 32767):
        later = marker(producer, committed=False, epoch=number)
        assert marked(attacked.administrator.ask(0, later)) is ErrorCode.invalid_producer_epoch
    for epoch in (-2, 1, FAR_AHEAD):
        ahead = marker(producer, committed=False, coordinator_epoch=epoch)
        assert marked(attacked.administrator.ask(0, ahead)) is ErrorCode.transaction_coordinator_fenced
    assert marked(attacked.administrator.ask(0, marker(producer, committed=True))) is REFUSED
    end = log.log_end_offset
    for number in (1, 2):
        assert marked(attacked.administrator.ask(0, marker(producer, committed=False))) is ErrorCode.none
        assert log.log_end_offset == end + number
    record = Record(None, b"first", timestamp_ms=attacked.cluster.clock.now_ms())
    batch = build_batch([record], producer_id=FAR_AHEAD, producer_epoch=0, base_sequence=0)
    assert isinstance(attacked.cluster.partition(0, TOPIC).append(batch, read_header(batch), Origin.CLIENT), Appended)


def test_abort_of_an_administrator_between_two_transactions_leaves_the_next_one_whole(attacked: Attacked) -> None:
    transaction = open_transaction(attacked, coordinated_by(attacked, lambda broker_id: broker_id != 0))
    transaction.commit()
    attacked.cluster.until(lambda: not is_open(attacked, transaction.producer))
    epochs = (0, transaction.producer["producer_epoch"], transaction.producer["producer_epoch"] + 1)
    for epoch in epochs:
        attacked.administrator.ask(0, marker(transaction.producer, committed=False, epoch=epoch))
    again = open_transaction(attacked, transaction.id)
    assert again.producer["producer_id"] == transaction.producer["producer_id"]
    again.commit()
    attacked.cluster.until(lambda: not is_open(attacked, again.producer))


@pytest.mark.parametrize("is_beside", [False, True], ids=["elsewhere", "beside the leader"])
def test_administrator_ends_no_transaction_that_a_coordinator_has_open(attacked: Attacked, *, is_beside: bool) -> None:
    """An abort in one partition, and a commit in the others, would show half of it."""
    transaction = open_transaction(attacked, coordinated_by(attacked, lambda broker_id: (broker_id == 0) is is_beside))
    for epoch in (0, FAR_AHEAD):
        answer = attacked.administrator.ask(0, marker(transaction.producer, committed=False, coordinator_epoch=epoch))
        assert marked(answer) is ErrorCode.invalid_txn_state
    assert is_open(attacked, transaction.producer)
    transaction.commit()
    attacked.cluster.until(lambda: not is_open(attacked, transaction.producer))


def test_transaction_that_begins_while_the_coordinators_are_asked_is_not_ended(attacked: Attacked) -> None:
    """They may have answered before it began."""
    open_transaction(attacked, coordinated_by(attacked, lambda broker_id: broker_id != 0)).commit()
    attacked.cluster.hold(0)
    asked = marker({"producer_id": FAR_AHEAD, "producer_epoch": 5}, committed=False)
    waiting = attacked.administrator.send(0, asked)
    producer = leave_hanging(attacked)
    attacked.cluster.let_go(0)
    assert marked(attacked.administrator.answer(asked, waiting)) is ErrorCode.invalid_txn_state
    assert is_open(attacked, producer)


def test_nothing_is_ended_while_a_coordinator_does_not_say_what_it_has_open(attacked: Attacked) -> None:
    open_transaction(attacked, coordinated_by(attacked, lambda broker_id: broker_id != 0)).commit()
    producer = leave_hanging(attacked)
    attacked.cluster.hold(0)
    answer = attacked.administrator.ask(0, marker(producer, committed=False))
    assert marked(answer) is ErrorCode.coordinator_not_available
    assert is_open(attacked, producer)
    attacked.cluster.let_go(0)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("verify_only", [False, True])
def test_stranger_adds_nothing_in_the_name_of_a_leader(attacked: Attacked, version: int, *, verify_only: bool) -> None:
    """AddPartitionsToTxn v4: "the batched version is for brokers" (KIP-890)."""
    transaction = open_transaction(attacked, f"added-{version}-{verify_only}")
    types = message_module(ADD_PARTITIONS, version, "request")
    topic = types.AddPartitionsToTxnTopic(name="__consumer_offsets", partitions=(0,))
    one = types.AddPartitionsToTxnTransaction(
        transactional_id=transaction.id, verify_only=verify_only, topics=(topic,), **transaction.producer
    )
    answer = attacked.stranger.ask(transaction.coordinator, types.AddPartitionsToTxnRequest(transactions=(one,)))
    assert (answer.error_code, answer.results_by_transaction) == (REFUSED, ())
    transaction.commit()


def test_controller_serves_no_stranger(attacked: Attacked) -> None:
    controller = attacked.cluster.controller
    other = (controller + 1) % 3
    epoch = attacked.cluster.epoch(other)
    shutdown = message_class(7, 3, "request")(broker_id=other, broker_epoch=epoch)
    assert attacked.stranger.ask(controller, shutdown).error_code is REFUSED
    block = message_class(67, 0, "request")(broker_id=other, broker_epoch=epoch)
    assert attacked.stranger.ask(controller, block).error_code is REFUSED
    types = message_module(56, 2, "request")
    partition = types.PartitionData(
        partition_index=0, leader_epoch=0, new_isr=(0,), leader_recovery_state=0, partition_epoch=0
    )
    topic = types.TopicData(topic_id=attacked.topic_id, partitions=(partition,))
    alone = types.AlterPartitionRequest(broker_id=0, broker_epoch=attacked.cluster.epoch(0), topics=(topic,))
    assert attacked.stranger.ask(controller, alone).error_code is REFUSED
