"""What each answer of a transaction coordinator means, and that a session which lost its id never takes it again."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from oncelog.client.errors import (
    BrokerRefused,
    GroupAuthorizationFailed,
    IllegalState,
    OutcomeUnknown,
    ProducerFenced,
    TransactionalIdExpired,
    TransactionFailed,
)
from oncelog.client.net.cluster import Cluster, CoordinatorKind, transaction_version
from oncelog.client.net.flows import Send
from oncelog.client.producer.transaction import SessionState, TransactionSession
from oncelog.client.values import Address, OffsetAndMetadata, ProducerIdentity, TopicPartition, TransactionVersion
from oncelog.wire import ErrorCode
from tests.client.scripted import HERE, SETTINGS, ScriptedTransport, lost

PARTITION = TopicPartition("orders", 0)
FOUND = SimpleNamespace(error_code=ErrorCode.none, host=HERE.host, port=HERE.port)


def answered(code: int, **fields: object) -> SimpleNamespace:
    return SimpleNamespace(error_code=ErrorCode(code), producer_id=7, producer_epoch=5, **fields)


def described(code: int, state: str = "Ongoing", partitions: tuple[int, ...] = ()) -> SimpleNamespace:
    return SimpleNamespace(
        error_code=ErrorCode(code),
        transactional_id="ledger",
        transaction_state=state,
        transaction_timeout=timedelta(seconds=60),
        transaction_start_time_ms=0,
        producer_id=8,
        producer_epoch=0,
        topics=[SimpleNamespace(topic=PARTITION.topic, partitions=list(partitions))],
    )


def led_by(*leaders: int) -> SimpleNamespace:
    partitions = [
        SimpleNamespace(
            partition_index=number, leader_id=leader, replica_nodes=[], isr_nodes=[], error_code=ErrorCode.none
        )
        for number, leader in enumerate(leaders)
    ]
    topic = SimpleNamespace(name=PARTITION.topic, is_internal=False, partitions=partitions, error_code=ErrorCode.none)
    node = SimpleNamespace(node_id=1, host=HERE.host, port=HERE.port, rack=None)
    return SimpleNamespace(brokers=[node], controller_id=1, topics=[topic])


class Coordinator:
    """Answers each API from a list; the last answer is given for ever."""

    def __init__(self, *, version: TransactionVersion = TransactionVersion.TV2, **answers: list) -> None:
        self._answers = {
            "InitProducerId": [answered(0)],
            "FindCoordinator": [FOUND],
            "DescribeTransactions": [SimpleNamespace(transaction_states=[described(0)])],
            **answers,
        }
        self.transport = ScriptedTransport(self._answer, features={"transaction.version": int(version)})
        self.session = TransactionSession(Cluster(SETTINGS), "ledger", 60_000)
        self.transport.run(self.session.init())

    def _answer(self, request):
        answers = self._answers[request.api.name]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def end(self, *, commit: bool):
        return self.transport.run(self.session.end(commit))


class MovingGroup(ScriptedTransport):
    """The coordinator of a group takes offsets, and goes away.

    Whoever is asked then names one that led before: it answers reads with what it knew, and takes no offsets. The next
    answer names the one that leads.
    """

    FIRST, BEFORE, NEXT = (Address(name, 9092) for name in ("first", "before", "next"))

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.takers: list[Address] = []
        self._named = [self.FIRST, self.BEFORE, self.NEXT]
        self._asked = HERE

    def _perform(self, effect):
        if isinstance(effect, Send):
            self._asked = effect.address
        return super()._perform(effect)

    def _answer(self, request):
        match request.api.name:
            case "FindCoordinator":
                is_group = request.fields["key_type"] == CoordinatorKind.GROUP
                address = self._named.pop(0) if is_group else HERE
                return SimpleNamespace(error_code=ErrorCode.none, host=address.host, port=address.port)
            case "TxnOffsetCommit":
                takes = self._asked in (self.FIRST, self.NEXT)
                self.takers += [self._asked] if takes else []
                return offsets_taken(0 if takes else 16)
            case "OffsetFetch":
                known = {self.BEFORE: 7, self.NEXT: 9}
                return offsets_read(known[self._asked]) if self._asked in known else answered(16, topics=[])
        return answered(0)


def offsets_taken(code: int) -> SimpleNamespace:
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=ErrorCode(code))])])


def offsets_read(offset: int) -> SimpleNamespace:
    item = SimpleNamespace(
        partition_index=PARTITION.partition, committed_offset=offset, metadata="", error_code=ErrorCode.none
    )
    topic = SimpleNamespace(name=PARTITION.topic, partitions=[item])
    return SimpleNamespace(error_code=ErrorCode.none, topics=[topic])


def test_what_a_group_had_committed_is_said_by_the_coordinator_that_took_the_offsets():
    transport = MovingGroup()
    session = TransactionSession(Cluster(SETTINGS), "ledger", 60_000)
    transport.run(session.init())
    found = transport.run(session.commit_offsets_and_read("group", {PARTITION: OffsetAndMetadata(11)}))
    assert found == {PARTITION: OffsetAndMetadata(9)}
    assert transport.takers == [transport.FIRST, transport.NEXT]


def added(*codes: int) -> SimpleNamespace:
    results = [SimpleNamespace(partition_error_code=ErrorCode(code)) for code in codes]
    return SimpleNamespace(results_by_topic_v3_and_below=[SimpleNamespace(results_by_partition=results)])


def test_commit_answered_at_once_brings_the_next_identity():
    """KIP-890: EndTxn v5 answers with the producer id and epoch of the next transaction."""
    coordinator = Coordinator(EndTxn=[SimpleNamespace(error_code=ErrorCode.none, producer_id=7, producer_epoch=6)])
    assert coordinator.end(commit=True) == ProducerIdentity(7, 6)


def test_tv1_commit_keeps_the_identity_and_the_bump_brings_a_new_one():
    coordinator = Coordinator(version=TransactionVersion.TV1, EndTxn=[SimpleNamespace(error_code=ErrorCode.none)])
    assert coordinator.end(commit=True) == ProducerIdentity(7, 5)
    coordinator.transport.run(coordinator.session.bump())
    bump = coordinator.transport.requests[-1]
    assert (bump.api.name, bump.fields["producer_id"], bump.fields["producer_epoch"]) == ("InitProducerId", 7, 5)
    assert bump.version_min == 3


def test_tv2_bump_asks_nothing():
    coordinator = Coordinator()
    before = len(coordinator.transport.requests)
    assert coordinator.transport.run(coordinator.session.bump()) == ProducerIdentity(7, 5)
    assert len(coordinator.transport.requests) == before


@pytest.mark.parametrize(
    "answers",
    [
        [lost(), answered(0)],
        [lost(sent=False), answered(0)],
        [answered(51), answered(51), answered(0)],
        [answered(-1), answered(0)],
        [answered(16), answered(15), answered(14), answered(0)],
    ],
    ids=["answer lost", "never sent", "markers on their way", "unknown server error", "coordinator moves"],
)
def test_commit_is_asked_for_until_the_answer_is_definite(answers):
    coordinator = Coordinator(EndTxn=answers)
    coordinator.end(commit=True)
    assert coordinator.session.state is SessionState.READY


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([answered(90)], ProducerFenced),
        ([answered(47)], ProducerFenced),
        ([answered(49)], ProducerFenced),
        ([answered(48)], TransactionFailed),
        ([answered(120)], TransactionFailed),
        ([lost(sent=False)], TransactionFailed),
        ([answered(51)], TransactionFailed),
        ([answered(53)], BrokerRefused),
        ([lost()], OutcomeUnknown),
        ([answered(-1)], OutcomeUnknown),
        ([answered(16)], OutcomeUnknown),
        ([answered(15)], OutcomeUnknown),
        ([answered(14)], TransactionFailed),
        ([answered(16), answered(90)], OutcomeUnknown),
        ([answered(16), answered(51)], OutcomeUnknown),
        ([lost(), answered(90)], OutcomeUnknown),
        ([lost(), answered(48)], OutcomeUnknown),
        ([answered(-1), answered(90)], OutcomeUnknown),
        ([lost(), answered(53)], OutcomeUnknown),
    ],
)
def test_commit_that_is_not_confirmed_says_whether_it_may_have_happened(answers, outcome):
    """An attempt that was sent and not answered may have committed; a later refusal does not tell."""
    coordinator = Coordinator(EndTxn=answers)
    with pytest.raises(outcome):
        coordinator.end(commit=True)


def test_refusal_to_name_the_coordinator_after_a_lost_commit_leaves_it_unknown():
    refused = SimpleNamespace(error_code=ErrorCode.transactional_id_authorization_failed, host="", port=0)
    coordinator = Coordinator(EndTxn=[lost()], FindCoordinator=[FOUND, refused])
    with pytest.raises(OutcomeUnknown):
        coordinator.end(commit=True)


@pytest.mark.parametrize(
    ("version", "answers", "outcome"),
    [
        (TransactionVersion.TV1, [answered(90)], ProducerFenced),
        (TransactionVersion.TV2, [answered(90)], ProducerFenced),
        (TransactionVersion.TV2, [answered(48)], ProducerFenced),
        (TransactionVersion.TV2, [lost()], OutcomeUnknown),
    ],
)
def test_abort_that_is_not_confirmed(version, answers, outcome):
    with pytest.raises(outcome):
        Coordinator(version=version, EndTxn=answers).end(commit=False)


def test_tv1_abort_of_nothing_is_an_abort():
    """EndTxn v4 on nothing added answers INVALID_TXN_STATE."""
    coordinator = Coordinator(version=TransactionVersion.TV1, EndTxn=[answered(48)])
    coordinator.end(commit=False)
    assert coordinator.session.state is SessionState.READY


@pytest.mark.parametrize("answers", [[answered(90)], [lost()]], ids=["fenced", "unknown"])
def test_two_requests_under_way_are_both_told_of_the_end(answers):
    """The pump adds partitions while the user's request is under way."""

    class TwoAtOnce(Coordinator):
        def _answer(self, request):
            if request.api.name == "AddPartitionsToTxn":
                with pytest.raises((ProducerFenced, OutcomeUnknown)):
                    self.end(commit=True)
            return super()._answer(request)

    coordinator = TwoAtOnce(version=TransactionVersion.TV1, EndTxn=answers, AddPartitionsToTxn=[added(90)])
    with pytest.raises(ProducerFenced):
        coordinator.transport.run(coordinator.session.add_partitions([PARTITION]))


@pytest.mark.parametrize("answers", [[answered(90)], [lost()]], ids=["fenced", "unknown"])
def test_session_that_lost_its_id_asks_nothing_more(answers):
    """A zombie's InitProducerId with its old epoch aborts the new owner's open transaction."""
    coordinator = Coordinator(version=TransactionVersion.TV1, EndTxn=answers)
    with pytest.raises((ProducerFenced, OutcomeUnknown)):
        coordinator.end(commit=True)
    before = coordinator.transport.names()
    session = coordinator.session
    for again in (session.bump, lambda: session.end(False), lambda: session.add_partitions([PARTITION])):
        with pytest.raises((ProducerFenced, OutcomeUnknown)):
            coordinator.transport.run(again())
    with pytest.raises(IllegalState, match="was taken already"):
        coordinator.transport.run(session.init())
    assert coordinator.transport.names() == before


def test_tv2_epoch_refused_inside_a_transaction_may_be_a_timeout():
    """The abort tells: EndTxn v5 answers NONE after a timeout, and PRODUCER_FENCED after a takeover."""
    coordinator = Coordinator(
        AddPartitionsToTxn=[added(90)],
        EndTxn=[SimpleNamespace(error_code=ErrorCode.none, producer_id=7, producer_epoch=6)],
    )
    with pytest.raises(TransactionFailed):
        coordinator.transport.run(coordinator.session.add_partitions([PARTITION]))
    assert coordinator.end(commit=False) == ProducerIdentity(7, 6)


def test_tv1_epoch_refused_inside_a_transaction_is_fencing():
    coordinator = Coordinator(version=TransactionVersion.TV1, AddPartitionsToTxn=[added(90)])
    with pytest.raises(ProducerFenced):
        coordinator.transport.run(coordinator.session.add_partitions([PARTITION]))


def test_partition_that_was_refused_is_named_before_those_not_attempted():
    coordinator = Coordinator(AddPartitionsToTxn=[added(55, 29, 55)])
    with pytest.raises(BrokerRefused) as raised:
        coordinator.transport.run(coordinator.session.add_partitions([PARTITION]))
    assert raised.value.error is ErrorCode.topic_authorization_failed


def test_adding_partitions_waits_out_the_markers_of_the_last_transaction():
    coordinator = Coordinator(AddPartitionsToTxn=[added(51)] * 5 + [added(0)])
    coordinator.transport.run(coordinator.session.add_partitions([PARTITION]))
    assert coordinator.transport.now_ms < 30


@pytest.mark.parametrize(
    ("version", "apis"),
    [
        (TransactionVersion.TV1, ["AddOffsetsToTxn", "FindCoordinator", "TxnOffsetCommit"]),
        (TransactionVersion.TV2, ["FindCoordinator", "TxnOffsetCommit"]),
    ],
)
def test_group_coordinator_is_found_before_the_first_offsets(version, apis):
    """On a new cluster TxnOffsetCommit does not create __consumer_offsets; FindCoordinator does."""
    committed = SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=ErrorCode.none)])])
    coordinator = Coordinator(version=version, AddOffsetsToTxn=[answered(0)], TxnOffsetCommit=[committed])
    before = len(coordinator.transport.requests)
    coordinator.transport.run(coordinator.session.commit_offsets("group", {PARTITION: OffsetAndMetadata(3)}))
    assert coordinator.transport.names()[before:] == apis


def test_tv1_group_is_added_once_to_each_transaction():
    """KIP-98 §4.3: AddOffsetsToTxn goes to the transaction coordinator, to make the group's offsets part of the transaction."""
    coordinator = Coordinator(
        version=TransactionVersion.TV1,
        AddOffsetsToTxn=[answered(0)],
        TxnOffsetCommit=[offsets_taken(0)],
        EndTxn=[answered(0)],
    )
    before = len(coordinator.transport.requests)
    for _ in range(2):
        for group in ("one", "other", "one"):
            coordinator.transport.run(coordinator.session.commit_offsets(group, {PARTITION: OffsetAndMetadata(3)}))
        coordinator.end(commit=True)
    sent = [name for name in coordinator.transport.names()[before:] if name != "FindCoordinator"]
    both = ["AddOffsetsToTxn", "TxnOffsetCommit"]
    assert sent == 2 * [*both, *both, "TxnOffsetCommit", "EndTxn"]


def test_tv1_group_that_was_refused_is_added_again():
    coordinator = Coordinator(
        version=TransactionVersion.TV1,
        AddOffsetsToTxn=[answered(30), answered(0)],
        TxnOffsetCommit=[offsets_taken(0)],
    )
    with pytest.raises(GroupAuthorizationFailed, match="Read on group ledger"):
        coordinator.transport.run(coordinator.session.commit_offsets("ledger", {PARTITION: OffsetAndMetadata(3)}))
    coordinator.transport.run(coordinator.session.commit_offsets("ledger", {PARTITION: OffsetAndMetadata(3)}))
    assert coordinator.transport.names().count("AddOffsetsToTxn") == 2


def test_topic_the_cluster_lacks_is_refused_after_a_while():
    committed = SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=ErrorCode(3))])])
    coordinator = Coordinator(TxnOffsetCommit=[committed])
    with pytest.raises(BrokerRefused):
        coordinator.transport.run(coordinator.session.commit_offsets("group", {PARTITION: OffsetAndMetadata(3)}))


@pytest.mark.parametrize(
    ("features", "version"),
    [
        ({}, TransactionVersion.TV1),
        ({"transaction.version": 0}, TransactionVersion.TV1),
        ({"transaction.version": 1}, TransactionVersion.TV1),
        ({"transaction.version": 2}, TransactionVersion.TV2),
    ],
)
def test_protocol_is_chosen_by_the_finalized_feature(features, version):
    """A broker offers Produce v13 at transaction.version 0 too; one TV2 request there blocks the transactional id."""
    transport = ScriptedTransport(lambda request: FOUND, features=features)
    assert transport.run(transaction_version(Cluster(SETTINGS))) is version


@pytest.mark.parametrize(
    ("version", "refused"),
    [(TransactionVersion.TV1, "AddPartitionsToTxn"), (TransactionVersion.TV2, "EndTxn")],
)
@pytest.mark.parametrize(
    ("answers", "outcome"),
    [([described(105)], TransactionalIdExpired), ([described(0)], ProducerFenced), ([described(53)], ProducerFenced)],
    ids=["forgotten", "taken over", "not to be seen"],
)
def test_producer_id_that_is_not_known_has_expired_where_nobody_has_the_transactional_id(
    version, refused, answers, outcome
):
    coordinator = Coordinator(
        version=version,
        AddPartitionsToTxn=[added(49)],
        EndTxn=[answered(49)],
        DescribeTransactions=[SimpleNamespace(transaction_states=answers)],
    )
    session = coordinator.session
    with pytest.raises(outcome):
        coordinator.transport.run(
            session.add_partitions([PARTITION]) if refused == "AddPartitionsToTxn" else session.end(True)
        )
    assert session.state in (SessionState.EXPIRED, SessionState.FENCED)
    with pytest.raises(outcome):
        coordinator.transport.run(session.end(False))


@pytest.mark.parametrize(
    ("state", "leaders", "waits"),
    [
        ("PrepareCommit", (1, -1), "the transaction before is PrepareCommit, and waits for a leader of orders-1"),
        (
            "PrepareAbort",
            (-1, -1),
            "the transaction before is PrepareAbort, and waits for a leader of orders-0, orders-1",
        ),
        ("PrepareCommit", (1, 1), ""),
        ("Ongoing", (-1, -1), ""),
    ],
)
def test_transaction_that_waits_for_the_one_before_names_the_partitions_without_a_leader(state, leaders, waits):
    """The markers of a decided transaction go to the leaders of its partitions; until then the next one has to wait."""
    coordinator = Coordinator(
        version=TransactionVersion.TV1,
        AddPartitionsToTxn=[added(51)],
        DescribeTransactions=[SimpleNamespace(transaction_states=[described(0, state, (0, 1))])],
        Metadata=[led_by(*leaders)],
    )
    with pytest.raises(TransactionFailed, match="CONCURRENT_TRANSACTIONS") as raised:
        coordinator.transport.run(coordinator.session.add_partitions([PARTITION]))
    assert str(raised.value).partition("; the")[2] == waits.removeprefix("the")


def test_end_of_the_last_transaction_is_waited_for_once_and_not_where_there_was_none():
    coordinator = Coordinator(EndTxn=[answered(0)])
    asked = coordinator.transport.requests
    asked.clear()
    coordinator.transport.run(coordinator.session.await_end())
    assert asked == []
    coordinator.end(commit=True)
    asked.clear()
    for _ in range(2):
        coordinator.transport.run(coordinator.session.await_end())
    assert coordinator.transport.names() == ["InitProducerId"]
