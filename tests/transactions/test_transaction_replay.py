"""The promises of the coordinator: its log is its state, deciding changes nothing, and no order of requests breaks its rules."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oncelog.coordination import Decision
from oncelog.transactions import TransactionCoordinator, TransactionMetadata, TransactionRecord, decode
from oncelog.transactions.state import DECIDED, EMPTY, IDLE, LAST_CLIENT_EPOCH, ONGOING, is_legal
from oncelog.wire import ErrorCode
from tests.transactions.ledger import TIMEOUT_MS, Ledger
from tests.transactions.test_fence_after_power_loss import start_after_power_loss

IDS = ("a", "b")
PARTITIONS = (("t", 0), ("t", 1), ("__consumer_offsets", 12))
WHO = st.sampled_from(("current", "epoch below", "epoch two below", "epoch above", "previous", "stranger", "newcomer"))


A = TypeVar("A")


def state_of(coordinator: TransactionCoordinator) -> object:
    """All of it, with what is pending."""
    return deepcopy({name: getattr(coordinator, name) for name in TransactionCoordinator.__slots__})


def persisted(metadata: TransactionMetadata) -> TransactionMetadata:
    return metadata._replace(last_producer_epoch=-1)


class Requests(RuleBasedStateMachine):
    """Any client, at any time, with any identity. A decision is applied, waits for the disk first, or is refused by it."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.waiting: dict[str, Decision[TransactionRecord, object]] = {}
        self.given: dict[tuple[int, int], str] = {}

    @initialize(epochs=st.sampled_from((0, 32_763)), tv=st.sampled_from((1, 2)))
    def begin(self, epochs: int, tv: int) -> None:
        self.ledger = Ledger(tv)
        for name in IDS:
            self.ledger.init(transactional_id=name)
            metadata = self.ledger.metadata(name)._replace(producer_epoch=epochs)
            self.ledger.apply(Decision((TransactionRecord(name, metadata, self.ledger.now_ms),), None))

    def identity(self, name: str, who: str) -> tuple[int, int]:
        metadata = self.ledger.coordinator.ids.metadata(name)
        if metadata is None or who == "newcomer":
            return -1, -1
        return {
            "current": (metadata.producer_id, metadata.producer_epoch),
            "epoch below": (metadata.producer_id, max(metadata.producer_epoch - 1, 0)),
            "epoch two below": (metadata.producer_id, max(metadata.producer_epoch - 2, 0)),
            "epoch above": (metadata.producer_id, metadata.producer_epoch + 1),
            "previous": (metadata.previous_producer_id, LAST_CLIENT_EPOCH),
            "stranger": (5, 0),
        }[who]

    def decided(self, decide: Callable[[], Decision[TransactionRecord, A]]) -> Decision[TransactionRecord, A]:
        """Deciding has changed nothing, and the same request decides the same: so would one whose append was refused."""
        before, next_producer_id = state_of(self.ledger.coordinator), self.ledger.next_producer_id
        refused = decide()
        assert state_of(self.ledger.coordinator) == before
        self.ledger.next_producer_id = next_producer_id
        decision = decide()
        assert decision == refused
        return decision

    def take(self, name: str, decision: Decision[TransactionRecord, object], waits: bool) -> None:
        """Apply a decision now, or leave it pending; check that what it wants is a legal move."""
        before = self.ledger.coordinator.ids.metadata(name)
        for record in decision.records:
            assert record.transactional_id == name
            if record.metadata is not None and before is not None:
                is_fence = before.status is ONGOING and record.metadata.status in DECIDED
                assert is_fence or is_legal(before.status, record.metadata.status)
        if decision.records and waits:
            self.ledger.hold(decision)
            self.waiting[name] = decision
        else:
            self.ledger.apply(decision)

    @rule(name=st.sampled_from(IDS), who=WHO, waits=st.booleans())
    def init(self, name: str, who: str, waits: bool) -> None:
        before = self.ledger.coordinator.ids.metadata(name)
        who_asks = self.identity(name, who)
        decision = self.decided(lambda: self.ledger.decide_init(*who_asks, transactional_id=name))
        answer = decision.answer
        if answer.error is ErrorCode.none:
            assert before is None or before.status in IDLE
            self.check_identity(name, answer.producer_id, answer.producer_epoch)
        self.take(name, decision, waits)

    @rule(name=st.sampled_from(IDS), who=WHO, partition=st.sampled_from(PARTITIONS), tv2=st.booleans())
    def add(self, name: str, who: str, partition: tuple[str, int], tv2: bool) -> None:
        producer_id, epoch = self.identity(name, who)
        add, now_ms = self.ledger.coordinator.add_partitions, self.ledger.now_ms
        decision = self.decided(lambda: add(name, producer_id, epoch, [partition], now_ms, tv2))
        if decision.answer is ErrorCode.none:
            assert who in ("current", "epoch below", "epoch two below", "previous")
        self.take(name, decision, waits=False)
        if decision.answer is ErrorCode.none:
            assert self.ledger.coordinator.verify(name, producer_id, epoch, *partition) is ErrorCode.none

    @rule(name=st.sampled_from(IDS), who=WHO, commit=st.booleans(), tv2=st.booleans(), waits=st.booleans())
    def end(self, name: str, who: str, commit: bool, tv2: bool, waits: bool) -> None:
        producer_id, epoch = self.identity(name, who)
        before = self.ledger.coordinator.ids.metadata(name)
        decision = self.decided(lambda: self.ledger.decide_end(producer_id, epoch, commit, tv2, transactional_id=name))
        markers = decision.answer.markers
        assert (markers is not None) == bool(decision.records)
        if markers is not None:
            assert before is not None
            assert (producer_id, epoch) == (before.producer_id, before.producer_epoch)
            assert markers.partitions == before.partitions
            assert not commit or before.status is ONGOING
        if decision.answer.error is ErrorCode.none and tv2:
            self.check_identity(name, decision.answer.producer_id, decision.answer.producer_epoch)
        self.take(name, decision, waits)

    @rule()
    def complete(self) -> None:
        for markers in self.ledger.coordinator.pending_completions():
            self.ledger.complete(markers.transactional_id)

    @rule(name=st.sampled_from(IDS))
    def finish(self, name: str) -> None:
        decision = self.waiting.pop(name, None)
        if decision is not None:
            self.ledger.apply(decision)

    @rule()
    def time_out(self) -> None:
        self.ledger.now_ms += TIMEOUT_MS + 1
        before = state_of(self.ledger.coordinator)
        decisions = self.ledger.coordinator.abort_timed_out(self.ledger.now_ms)
        assert state_of(self.ledger.coordinator) == before
        for decision in decisions:
            self.ledger.apply(decision)

    @rule()
    def expire(self) -> None:
        self.ledger.now_ms += self.ledger.coordinator.id_expiration_ms
        before = state_of(self.ledger.coordinator)
        decisions = self.ledger.coordinator.expire_ids(self.ledger.now_ms)
        assert state_of(self.ledger.coordinator) == before
        for decision in decisions:
            self.ledger.apply(decision)

    @rule()
    def restart(self) -> None:
        self.ledger.restart()
        self.waiting.clear()

    @rule()
    def lose_power(self) -> None:
        start_after_power_loss(self.ledger)
        self.waiting.clear()

    def check_identity(self, name: str, producer_id: int, epoch: int) -> None:
        """No two ids ever share a producer id, and nobody gets the epoch that is kept for fencing."""
        assert 0 <= epoch <= LAST_CLIENT_EPOCH
        assert self.given.setdefault((producer_id, epoch), name) == name

    @invariant()
    def the_log_is_the_state(self) -> None:
        reader = TransactionCoordinator()
        for partition, record in self.ledger.log:
            decoded = decode(record)
            assert decoded is not None
            reader.ids.replay(partition, decoded)
        live = {metadata.transactional_id: persisted(metadata) for metadata in self.ledger.coordinator.transactions()}
        assert live == {metadata.transactional_id: metadata for metadata in reader.transactions()}

    @invariant()
    def only_a_living_or_decided_transaction_has_partitions(self) -> None:
        for metadata in self.ledger.coordinator.transactions():
            assert not metadata.partitions or metadata.status not in IDLE
            assert (metadata.next_producer_id == -1) or metadata.status in DECIDED
            assert (metadata.start_ms == -1) == (metadata.status is EMPTY)

    @invariant()
    def nothing_is_writable_while_an_end_is_pending_or_decided(self) -> None:
        coordinator = self.ledger.coordinator
        for metadata in coordinator.transactions():
            name = metadata.transactional_id
            if not coordinator.ids.is_idle(name):
                for partition in PARTITIONS:
                    answer = coordinator.verify(name, metadata.producer_id, metadata.producer_epoch, *partition)
                    assert answer is ErrorCode.concurrent_transactions


Requests.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRequestsInAnyOrder = Requests.TestCase
