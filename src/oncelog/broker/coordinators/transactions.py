"""Carrying out what the transaction coordinator decides: its log, the markers, and who waits for what.

    EndTxn   decide ─ data first ─ Prepare appended, replayed, durable ─ answer
                                                                       └ markers appended, first ─ Complete appended, replayed

The data goes to the write-ahead log before the Prepare record does, and the markers before the Complete record: whichever
of them a power cut leaves behind, what it needs is there too. What the write-ahead log cannot take is synced instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.coordination import Decision, Parked, start
from oncelog.coordination.refusal import told
from oncelog.log import Appended, Origin, PartitionLog, Refused
from oncelog.records import ControlType, build_batch, read_header
from oncelog.transactions import (
    DECIDED,
    DescribedTransaction,
    EndTransactionAnswer,
    InitProducerIdAnswer,
    MarkersToSend,
    TopicPartition,
    TransactionCoordinator,
    TransactionRecord,
    encode,
    has_epoch_per_transaction,
    record_version,
)
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.broker.coordinators.producer_ids import ProducerIds
    from oncelog.broker.coordinators.session_guard import SessionGuard
    from oncelog.broker.storage.durability import Durability
    from oncelog.broker.storage.topics import Topics
    from oncelog.environment import Clock


logger = logging.getLogger("oncelog.transactions")

A = TypeVar("A")

HOLD_MS = 500
"""How long a request is held back while another of its transactional id is carried out, before it is told to come back."""


class Needs(Protocol):
    """What of the broker is needed here."""

    clock: Clock
    durability: Durability
    offsets: CommittedOffsets
    producer_ids: ProducerIds
    session_guard: SessionGuard
    topics: Topics


class Transactions:
    """Everything between the handlers and the coordinator of one broker."""

    def __init__(self, broker: Needs, coordinator: TransactionCoordinator) -> None:
        self._broker = broker
        self.coordinator = coordinator
        self._held: dict[str, dict[Parked[None], None]] = {}
        self._waiting: dict[str, MarkersToSend] = {}
        self._to_fence: set[str] = set()
        self._all_fenced: Parked[None] = Parked()

    # --- what handlers ask

    def coordinates(self, transactional_id: str) -> bool:
        """Whether the id's partition of the transaction log is there, and is not offline."""
        return self._online_log(transactional_id) is not None

    def knows_every_id(self) -> bool:
        """Whether no partition of the transaction log is offline: what its ids are about nobody knows."""
        topic = self._broker.topics.named(TRANSACTION_STATE)
        return topic is None or not topic.offline

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Errors: invalid_request, not_coordinator, transactional_id_not_found."""
        if self._broker.topics.named(TRANSACTION_STATE) is None or self.coordinates(transactional_id):
            return self.coordinator.describe(transactional_id)
        return DescribedTransaction(ErrorCode.not_coordinator)

    async def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, producer_id: int, producer_epoch: int
    ) -> InitProducerIdAnswer:
        def decide() -> Decision[TransactionRecord, InitProducerIdAnswer]:
            return self.coordinator.init_producer_id(
                transactional_id,
                timeout_ms,
                producer_id,
                producer_epoch,
                self._now_ms(),
                self._broker.producer_ids.allocate,
            )

        await self._broker.producer_ids.available()
        decision = await self._decide(transactional_id or "", decide, _init_must_wait)
        if transactional_id and not self.coordinates(transactional_id):
            return InitProducerIdAnswer(ErrorCode.not_coordinator)
        if decision.answer.markers is not None:
            # The open transaction of the producer before is aborted; whoever asked is told so, as Kafka does, and comes
            # back for the id.
            logger.info("%s: its open transaction is aborted, for a producer asks for the id", transactional_id)
            self._carry_out(decision.records[0], decision.answer.markers)
        elif decision.records:
            record = decision.records[0]
            error = self._append_asked(record)
            if error is not ErrorCode.none:
                return InitProducerIdAnswer(error)
            # An epoch that a power cut could take back would let the producer it fenced go on.
            if not await self._durable_log(record):
                return InitProducerIdAnswer(ErrorCode.not_coordinator)
            producer = (decision.answer.producer_id, decision.answer.producer_epoch)
            logger.info(
                "%s: producer id %d has epoch %d, whoever had the id before is fenced", transactional_id, *producer
            )
        return decision.answer

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        tv2: bool,
    ) -> ErrorCode:
        def decide() -> Decision[TransactionRecord, ErrorCode]:
            return self.coordinator.add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, self._now_ms(), tv2
            )

        decision = await self._decide(transactional_id, decide, _add_must_wait)
        if not self.coordinates(transactional_id):
            return ErrorCode.not_coordinator
        error = self._append_asked(decision.records[0]) if decision.records else ErrorCode.none
        return decision.answer if error is ErrorCode.none else error

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each is part of the open transaction. Errors: those of the coordinator; not_coordinator."""
        if not self.coordinates(transactional_id):
            return dict.fromkeys(partitions, ErrorCode.not_coordinator)
        return {
            (topic, index): self.coordinator.verify(transactional_id, producer_id, producer_epoch, topic, index)
            for topic, index in partitions
        }

    async def end(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool, tv2: bool
    ) -> EndTransactionAnswer:
        """Answered when the decision is durable. What was decided is carried out, whether or not somebody waits.

        Errors: those of the coordinator; transaction_abortable if records of it may be lost with the disk that has them.
        """

        def decide() -> Decision[TransactionRecord, EndTransactionAnswer]:
            return self.coordinator.end_transaction(
                transactional_id,
                producer_id,
                producer_epoch,
                committed,
                self._now_ms(),
                tv2,
                self._broker.producer_ids.allocate,
            )

        await self._broker.producer_ids.available()
        decision = await self._decide(transactional_id, decide, _end_must_wait)
        if not self.coordinates(transactional_id):
            return EndTransactionAnswer(ErrorCode.not_coordinator)
        if decision.answer.markers is not None:
            error = await self._carry_out(decision.records[0], decision.answer.markers)
            if error is not ErrorCode.none:
                return EndTransactionAnswer(error)
        return decision.answer

    def write_marker(
        self,
        partition: Partition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        *,
        committed: bool,
    ) -> ErrorCode:
        """Append one marker, and apply it to the committed offsets where the partition holds them."""
        control = ControlType.COMMIT if committed else ControlType.ABORT
        result = partition.append_marker(
            control, producer_id, producer_epoch, coordinator_epoch, transaction_version, self._now_ms()
        )
        if not isinstance(result, Appended):
            return result.error
        if partition.topic == CONSUMER_OFFSETS:
            self._broker.offsets.replay_marker(partition.index, producer_id, committed)
        return ErrorCode.none

    # --- what time asks

    def abort_timed_out(self) -> None:
        for decision in self.coordinator.abort_timed_out(self._now_ms()):
            assert decision.answer.markers is not None
            record = decision.records[0]
            logger.info("%s: its transaction outlived its timeout and is aborted", record.transactional_id)
            self._carry_out(record, decision.answer.markers)

    def expire_ids(self) -> None:
        for decision in self.coordinator.expire_ids(self._now_ms()):
            record = decision.records[0]
            logger.info("%s: the transactional id was not used for long and is forgotten", record.transactional_id)
            if self._append(record):
                self._broker.session_guard.forget(record.transactional_id)
                self._settled(record.transactional_id)

    def unload(self, partition: int) -> None:
        """A partition of the transaction log is offline: its ids are known again when it is back."""
        for transactional_id in self.coordinator.unload(partition):
            self._waiting.pop(transactional_id, None)
            self._settled(transactional_id)

    def fence_all(self) -> Parked[None]:
        """After a start that may have lost what was acknowledged: no producer goes on as if it had not.

        Call this after `complete_prepared`; released when every producer is fenced.
        """
        known = tuple(self.coordinator.transactions())
        self._to_fence = {metadata.transactional_id for metadata in known if metadata.status in DECIDED}
        others = [one.transactional_id for one in known if one.transactional_id not in self._to_fence]
        if not self._to_fence:
            self._all_fenced.release(None)
        return start(self._fenced([self._fence(one) for one in others]))

    async def _fenced(self, aborts: Sequence[Parked[ErrorCode]]) -> None:
        """The open transactions are to be aborted, not only on the way to that: what comes next may be a clean stop."""
        for abort in aborts:
            await abort
        await self._all_fenced

    def _fence(self, transactional_id: str) -> Parked[ErrorCode]:
        decision = self.coordinator.fence(transactional_id, self._now_ms(), self._broker.producer_ids.allocate)
        if decision.answer.markers is not None:
            return self._carry_out(decision.records[0], decision.answer.markers)
        self._append(decision.records[0])
        return Parked.ready(ErrorCode.none)

    def complete_prepared(self) -> None:
        """After a start: send the markers of every decided transaction, those that were sent before once more."""
        for markers in self.coordinator.pending_completions():
            start(self._complete(markers))

    def go_on(self) -> None:
        """A topic is deleted: what waited for its offline partitions alone has nothing left to wait for."""
        for transactional_id, markers in tuple(self._waiting.items()):
            if not any(partition.is_offline for partition in self._partitions(markers)):
                del self._waiting[transactional_id]
                start(self._complete(markers))

    # --- the steps

    def _carry_out(self, record: TransactionRecord, markers: MarkersToSend) -> Parked[ErrorCode]:
        """End a transaction; released once the decision is durable, or with what keeps it from being so."""
        prepared: Parked[ErrorCode] = Parked()
        start(self._end(record, markers, prepared))
        return prepared

    async def _end(self, record: TransactionRecord, markers: MarkersToSend, prepared: Parked[ErrorCode]) -> None:
        self.coordinator.hold(record)
        # An abort needs none of it. But readers go on over what was aborted: were that lost, they would pass over the
        # records that take its place.
        are_kept = await self._put_first(markers)
        if markers.committed and not are_kept:
            # Only an abort is true whatever has become of those records.
            self._let_go(markers.transactional_id)
            prepared.release(ErrorCode.transaction_abortable)
            return
        if not self._append(record) or not await self._durable_log(record):
            prepared.release(ErrorCode.not_coordinator)
            return
        prepared.release(ErrorCode.none)
        await self._complete(markers)

    async def _complete(self, markers: MarkersToSend) -> None:
        """Append the markers of a decided transaction, and write down that it is complete.

        It is not complete while one of its partitions is offline: that one gets its marker after a repair and a start,
        and until then the transactional id is in the middle of this.
        """
        log = self._online_log(markers.transactional_id)
        if log is None:
            return
        coordinator_epoch = log.leader_epoch
        partitions = self._partitions(markers)
        for partition in partitions:
            # A refusal means that somebody newer has closed this producer's transaction here: there is nothing left to end.
            self.write_marker(
                partition,
                markers.producer_id,
                markers.producer_epoch,
                coordinator_epoch,
                markers.transaction_version,
                committed=markers.committed,
            )
        online = [partition.log for partition in partitions if not partition.is_offline]
        self._flush_as_asked(online)
        if len(online) < len(partitions) or not await self._put_first(markers):
            self._wait_for_offline(markers)
            return
        if not self.coordinates(markers.transactional_id):
            return
        decision = self.coordinator.complete(markers.transactional_id, self._now_ms())
        record = decision.records[0]
        if not self._write(record):
            return
        if not has_epoch_per_transaction(markers.transaction_version) and not await self._durable_log(record):
            # The next transaction of this producer has the same epoch. If a power cut left its records and the Prepare
            # record of this one, but no Complete, the markers would go out again and end the wrong transaction.
            return
        if not self.coordinates(record.transactional_id):
            return
        self._replay(record)
        end = "committed" if markers.committed else "aborted"
        logger.debug("%s: %s in %d partitions", record.transactional_id, end, len(markers.partitions))
        self._fence_if_asked(record.transactional_id)
        self._settled(record.transactional_id)

    def _wait_for_offline(self, markers: MarkersToSend) -> None:
        self._waiting[markers.transactional_id] = markers
        names = ", ".join(str(partition) for partition in self._partitions(markers) if partition.is_offline)
        logger.warning("%s: the end of its transaction waits for %s, offline", markers.transactional_id, names)

    def _fence_if_asked(self, transactional_id: str) -> None:
        if transactional_id in self._to_fence:
            self._to_fence.remove(transactional_id)
            self._fence(transactional_id)
            if not self._to_fence:
                self._all_fenced.release(None)

    def _append_asked(self, record: TransactionRecord) -> ErrorCode:
        """Write what a client asked for to the transaction log and make it true; or say what it is told when that cannot be."""
        result = self._append_only(record, Origin.COORDINATOR)
        if not isinstance(result, Appended):
            return told(result.error)
        self._replay(record)
        return ErrorCode.none

    def _let_go(self, transactional_id: str) -> None:
        """Whoever waits for the id may ask again."""
        self.coordinator.let_go(transactional_id)
        self._settled(transactional_id)

    def _append(self, record: TransactionRecord) -> bool:
        """Write what follows from what was taken before to the transaction log and make it true; False if that is offline."""
        is_written = self._write(record)
        if is_written:
            self._replay(record)
        return is_written

    def _write(self, record: TransactionRecord) -> bool:
        result = self._append_only(record, Origin.OBLIGED)
        assert isinstance(result, Appended) or not self.coordinates(record.transactional_id), (record, result)
        return isinstance(result, Appended)

    def _append_only(self, record: TransactionRecord, origin: Origin) -> Appended | Refused:
        partition = self._log_partition(record.transactional_id)
        version = record_version(record, self.coordinator.transaction_version)
        batch = build_batch([encode(record, version)], leader_epoch=partition.leader_epoch)
        return partition.append(batch, read_header(batch), origin)

    def _replay(self, record: TransactionRecord) -> None:
        self.coordinator.replay(self.coordinator.partition_for(record.transactional_id), record)

    def _durable_log(self, record: TransactionRecord) -> Parked[bool]:
        """Released with False if the log is offline."""
        return self._broker.durability.make_durable([self._log_partition(record.transactional_id).log])

    def _put_first(self, markers: MarkersToSend) -> Parked[bool]:
        """Released when a decision that is written from then on cannot outlive what the transaction's partitions have now.

        False: it can, for one of them is offline.
        """
        return self._broker.durability.put_first(one.log for one in self._partitions(markers) if one.unopened is None)

    def _flush_as_asked(self, logs: Iterable[PartitionLog]) -> None:
        """Where flush.messages says so, readers see what was decided when it is durable: nobody has to wait for more."""
        now_ms = self._now_ms()
        asking = [log for log in logs if log.needs_flush(now_ms)]
        if asking:
            self._broker.durability.make_durable(asking)

    def _log_partition(self, transactional_id: str) -> Partition:
        partition = self._broker.topics.partition(TRANSACTION_STATE, self.coordinator.partition_for(transactional_id))
        assert partition is not None, transactional_id
        return partition

    def _online_log(self, transactional_id: str) -> Partition | None:
        partition = self._broker.topics.partition(TRANSACTION_STATE, self.coordinator.partition_for(transactional_id))
        return None if partition is None or partition.is_offline else partition

    def _partitions(self, markers: MarkersToSend) -> list[Partition]:
        """The partitions of a transaction that are still there: one that was deleted must not keep it from ending."""
        find = self._broker.topics.partition
        names = sorted(markers.partitions)
        return [partition for topic, index in names if (partition := find(topic, index)) is not None]

    # --- holding requests back

    async def _decide(
        self,
        transactional_id: str,
        decide: Callable[[], Decision[TransactionRecord, A]],
        must_wait: Callable[[A], bool],
    ) -> Decision[TransactionRecord, A]:
        """What is decided now, or when the id has settled; after HOLD_MS it is what is decided then."""
        decision = decide()
        if not must_wait(decision.answer):
            return decision
        deadline_ms = self._broker.clock.monotonic_ms() + HOLD_MS
        while must_wait(decision.answer) and self._broker.clock.monotonic_ms() < deadline_ms:
            await self._settling(transactional_id, deadline_ms)
            decision = decide()
        return decision

    async def _settling(self, transactional_id: str, deadline_ms: float) -> None:
        """Wait until the id has settled, or until the deadline."""
        woken: Parked[None] = Parked()
        delay_ms = deadline_ms - self._broker.clock.monotonic_ms()
        timer = self._broker.clock.call_later(delay_ms, lambda: woken.release(None))
        self._held.setdefault(transactional_id, {})[woken] = None
        try:
            await woken
        finally:
            timer.cancel()
            held = self._held.get(transactional_id)
            if held is not None:
                held.pop(woken, None)
                if not held:
                    del self._held[transactional_id]

    def _settled(self, transactional_id: str) -> None:
        for woken in self._held.pop(transactional_id, ()):
            if not woken.is_released:
                woken.release(None)

    def _now_ms(self) -> int:
        return self._broker.clock.now_ms()


def _init_must_wait(answer: InitProducerIdAnswer) -> bool:
    return answer.markers is None and answer.error is ErrorCode.concurrent_transactions


def _add_must_wait(answer: ErrorCode) -> bool:
    return answer is ErrorCode.concurrent_transactions


def _end_must_wait(answer: EndTransactionAnswer) -> bool:
    return answer.error is ErrorCode.concurrent_transactions
