"""A coordinator with its log: what a broker does with decisions, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.coordination import Decision
from oncelog.records import Record
from oncelog.transactions import (
    EndTransactionAnswer,
    InitProducerIdAnswer,
    TransactionCoordinator,
    TransactionMetadata,
    TransactionRecord,
    TransactionStatus,
    decode,
    encode,
)
from oncelog.wire import ErrorCode

TX = "tx-1"
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 1000


class Ledger:
    """Appends and replays every decision at once. The clock moves by one millisecond with each."""

    def __init__(self, transaction_version: int = 2) -> None:
        self.coordinator = TransactionCoordinator(transaction_version=transaction_version)
        self.log: list[tuple[int, Record]] = []
        self.now_ms = 1_700_000_000_000
        self.next_producer_id = FIRST_PRODUCER_ID

    def allocate(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def apply(self, decision: Decision[TransactionRecord, object]) -> None:
        for record in decision.records:
            partition = self.coordinator.partition_for(record.transactional_id)
            self.log.append((partition, encode(record)))
            self.coordinator.ids.replay(partition, record)
        self.now_ms += 1

    def hold(self, decision: Decision[TransactionRecord, object]) -> None:
        """What a broker does with a decision that has to wait for the disk."""
        for record in decision.records:
            self.coordinator.ids.hold(record)

    def decide_init(self, producer_id: int = -1, epoch: int = -1, transactional_id: str | None = TX):
        return self.coordinator.init_producer_id(
            transactional_id, TIMEOUT_MS, producer_id, epoch, self.now_ms, self.allocate
        )

    def init(self, producer_id: int = -1, epoch: int = -1, transactional_id: str | None = TX) -> InitProducerIdAnswer:
        decision = self.decide_init(producer_id, epoch, transactional_id)
        self.apply(decision)
        return decision.answer

    def add(
        self,
        producer_id: int,
        epoch: int,
        partitions: Iterable[tuple[str, int]] = (("t", 0),),
        tv2: bool = True,
        transactional_id: str = TX,
    ) -> ErrorCode:
        decision = self.coordinator.add_partitions(transactional_id, producer_id, epoch, partitions, self.now_ms, tv2)
        self.apply(decision)
        return decision.answer

    def decide_end(self, producer_id: int, epoch: int, commit: bool, tv2: bool = True, transactional_id: str = TX):
        return self.coordinator.end_transaction(
            transactional_id, producer_id, epoch, commit, self.now_ms, tv2, self.allocate
        )

    def end(
        self, producer_id: int, epoch: int, commit: bool, tv2: bool = True, transactional_id: str = TX
    ) -> EndTransactionAnswer:
        decision = self.decide_end(producer_id, epoch, commit, tv2, transactional_id)
        self.apply(decision)
        return decision.answer

    def complete(self, transactional_id: str = TX) -> None:
        self.apply(self.coordinator.complete(transactional_id, self.now_ms))

    def metadata(self, transactional_id: str = TX) -> TransactionMetadata:
        metadata = self.coordinator.ids.metadata(transactional_id)
        assert metadata is not None
        return metadata

    def status(self, transactional_id: str = TX) -> TransactionStatus:
        return self.metadata(transactional_id).status

    def seed(self, **fields: object) -> None:
        """Put a record into the log that says what `fields` say: a past that would take long to live through."""
        metadata = self.metadata()._replace(**fields)
        self.apply(Decision((TransactionRecord(TX, metadata, self.now_ms),), None))

    def restart(self) -> None:
        """A new process reads the log."""
        reader = TransactionCoordinator(transaction_version=self.coordinator.transaction_version)
        for partition, record in self.log:
            decoded = decode(record)
            assert decoded is not None
            reader.ids.replay(partition, decoded)
        self.coordinator = reader


def ledger_in(status: TransactionStatus, tv2: bool = True) -> tuple[Ledger, int, int]:
    """A ledger whose id has reached `status` by legal moves, with the producer id and epoch that are stored."""
    ledger = Ledger()
    ledger.init()
    answer = ledger.init()
    producer_id, epoch = answer.producer_id, answer.producer_epoch
    if status is not TransactionStatus.EMPTY:
        assert ledger.add(producer_id, epoch, tv2=tv2) is ErrorCode.none
    if status not in (TransactionStatus.EMPTY, TransactionStatus.ONGOING):
        commit = status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)
        assert ledger.end(producer_id, epoch, commit, tv2).error is ErrorCode.none
    if status in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT):
        ledger.complete()
    assert ledger.status() is status
    return ledger, ledger.metadata().producer_id, ledger.metadata().producer_epoch
