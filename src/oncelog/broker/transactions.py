"""Carrying out what the transaction coordinator decides: its log, the markers, and who waits for what.

    EndTxn   decide ─ data first ─ Prepare appended, replayed, durable ─ answer
                                                                       └ markers appended, first ─ Complete appended, replayed

The data goes to the write-ahead log before the Prepare record does, and the markers before the Complete record: whichever
of them a power cut leaves behind, what it needs is there too. What the write-ahead log cannot take is synced instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from oncelog.broker.partition import Partition
from oncelog.broker.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.coordination import Parked
from oncelog.log import Appended, Origin
from oncelog.records import ControlType, build_batch, read_header
from oncelog.transactions import (
    DECIDED,
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
    from oncelog.broker.broker import Broker


def _nothing(*_: object) -> None:
    """For whoever does not want to be told."""


HOLD_MS = 500
"""How long a request is held back while another of its transactional id is carried out, before it is told to come back."""


class Transactions:
    """Everything between the handlers and the coordinator of one broker."""

    def __init__(self, broker: Broker, coordinator: TransactionCoordinator) -> None:
        self._broker = broker
        self.coordinator = coordinator
        self._held: dict[str, deque[Callable[[], None]]] = {}
        self._to_fence: set[str] = set()
        self._all_fenced: Callable[[], None] = _nothing

    # --- what handlers ask

    def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, producer_id: int, producer_epoch: int
    ) -> Parked[InitProducerIdAnswer]:
        answer: Parked[InitProducerIdAnswer] = Parked()

        def attempt(*, last: bool) -> bool:
            decision = self.coordinator.init_producer_id(
                transactional_id,
                timeout_ms,
                producer_id,
                producer_epoch,
                self._now_ms(),
                self._broker.producer_ids.allocate,
            )
            if decision.answer.markers is not None:
                # The open transaction of the producer before is aborted; whoever asked is told so, as Kafka does, and
                # comes back for the id.
                self._carry_out(decision.records[0], decision.answer.markers)
                answer.release(decision.answer)
            elif decision.answer.error is ErrorCode.concurrent_transactions and not last:
                return False
            elif not decision.records:
                answer.release(decision.answer)
            elif self._append(decision.records[0]):
                # An epoch that a power cut could take back would let the producer it fenced go on.
                self._durable_log(decision.records[0]).then(lambda _: answer.release(decision.answer))
            else:
                answer.release(InitProducerIdAnswer(ErrorCode.coordinator_not_available))
            return True

        self._broker.producer_ids.available().then(lambda _: self._try(transactional_id or "", attempt))
        return answer

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        tv2: bool,
    ) -> Parked[ErrorCode]:
        answer: Parked[ErrorCode] = Parked()

        def attempt(*, last: bool) -> bool:
            decision = self.coordinator.add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, self._now_ms(), tv2
            )
            if decision.answer is ErrorCode.concurrent_transactions and not last:
                return False
            if decision.records and not self._append(decision.records[0]):
                answer.release(ErrorCode.coordinator_not_available)
            else:
                answer.release(decision.answer)
            return True

        self._try(transactional_id, attempt)
        return answer

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        return {
            (topic, index): self.coordinator.verify(transactional_id, producer_id, producer_epoch, topic, index)
            for topic, index in partitions
        }

    def end(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool, tv2: bool
    ) -> Parked[EndTransactionAnswer]:
        answer: Parked[EndTransactionAnswer] = Parked()

        def attempt(*, last: bool) -> bool:
            decision = self.coordinator.end_transaction(
                transactional_id,
                producer_id,
                producer_epoch,
                committed,
                self._now_ms(),
                tv2,
                self._broker.producer_ids.allocate,
            )
            if decision.answer.error is ErrorCode.concurrent_transactions and not last:
                return False
            if decision.answer.markers is None:
                answer.release(decision.answer)
                return True

            def prepared(error: ErrorCode) -> None:
                answer.release(decision.answer if error is ErrorCode.none else EndTransactionAnswer(error))

            self._carry_out(decision.records[0], decision.answer.markers, prepared)
            return True

        self._broker.producer_ids.available().then(lambda _: self._try(transactional_id, attempt))
        return answer

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
            self._carry_out(decision.records[0], decision.answer.markers)

    def expire_ids(self) -> None:
        for decision in self.coordinator.expire_ids(self._now_ms()):
            self._append(decision.records[0])
            self._settled(decision.records[0].transactional_id)

    def fence_all(self, done: Callable[[], None]) -> None:
        """After a start that may have lost what was acknowledged: no producer goes on as if it had not.

        Call this after `complete_prepared`; `done` is called when every producer is fenced.
        """
        known = tuple(self.coordinator.transactions())
        self._to_fence = {metadata.transactional_id for metadata in known if metadata.status in DECIDED}
        self._all_fenced = done
        for metadata in known:
            if metadata.transactional_id not in self._to_fence:
                self._fence(metadata.transactional_id)
        if not self._to_fence:
            done()

    def _fence(self, transactional_id: str) -> None:
        decision = self.coordinator.fence(transactional_id, self._now_ms(), self._broker.producer_ids.allocate)
        if decision.answer.markers is not None:
            self._carry_out(decision.records[0], decision.answer.markers)
        else:
            self._append(decision.records[0])

    def complete_prepared(self) -> None:
        """After a start: send the markers of every decided transaction, those that were sent before once more."""
        for markers in self.coordinator.pending_completions():
            self._send_markers(markers)

    # --- the steps

    def _carry_out(
        self,
        record: TransactionRecord,
        markers: MarkersToSend,
        prepared: Callable[[ErrorCode], None] = _nothing,
    ) -> None:
        written = self._partitions(markers) if markers.committed else []

        def prepare(_: None) -> None:
            if not self._append(record):
                self._settled(record.transactional_id)
                prepared(ErrorCode.coordinator_not_available)
                return
            self._durable_log(record).then(finish)

        def finish(_: None) -> None:
            prepared(ErrorCode.none)
            self._send_markers(markers)

        self._broker.durability.put_first(partition.log for partition in written).then(prepare)

    def _send_markers(self, markers: MarkersToSend) -> None:
        partitions = self._partitions(markers)
        coordinator_epoch = self._log_partition(markers.transactional_id).leader_epoch
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
        first = self._broker.durability.put_first(partition.log for partition in partitions)
        first.then(lambda _: self._complete(markers))

    def _complete(self, markers: MarkersToSend) -> None:
        decision = self.coordinator.complete(markers.transactional_id, self._now_ms())
        record = decision.records[0]
        appended = self._append_only(record)
        assert appended, markers
        if has_epoch_per_transaction(markers.transaction_version):
            self._completed(record)
        else:
            # The next transaction of this producer has the same epoch. If a power cut left its records and the Prepare
            # record of this one, but no Complete, the markers would go out again and end the wrong transaction.
            self._durable_log(record).then(lambda _: self._completed(record))

    def _completed(self, record: TransactionRecord) -> None:
        transactional_id = record.transactional_id
        self._replay(record)
        if transactional_id in self._to_fence:
            self._to_fence.remove(transactional_id)
            self._fence(transactional_id)
            if not self._to_fence:
                self._all_fenced()
        self._settled(transactional_id)

    def _append(self, record: TransactionRecord) -> bool:
        """Write a record to the transaction log and make it true."""
        if not self._append_only(record):
            self.coordinator.abandon(record.transactional_id)
            return False
        self._replay(record)
        return True

    def _append_only(self, record: TransactionRecord) -> bool:
        partition = self._log_partition(record.transactional_id)
        version = record_version(record, self.coordinator.transaction_version)
        batch = build_batch([encode(record, version)], leader_epoch=partition.leader_epoch)
        return isinstance(partition.append(batch, read_header(batch), Origin.COORDINATOR), Appended)

    def _replay(self, record: TransactionRecord) -> None:
        self.coordinator.replay(self.coordinator.partition_for(record.transactional_id), record)

    def _durable_log(self, record: TransactionRecord) -> Parked[None]:
        return self._broker.durability.make_durable([self._log_partition(record.transactional_id).log])

    def _log_partition(self, transactional_id: str) -> Partition:
        partition = self._broker.topics.partition(TRANSACTION_STATE, self.coordinator.partition_for(transactional_id))
        assert partition is not None, transactional_id
        return partition

    def _partitions(self, markers: MarkersToSend) -> list[Partition]:
        """The partitions of a transaction that are still there: one that was deleted must not keep it from ending."""
        found = (self._broker.topics.partition(topic, index) for topic, index in markers.partitions)
        return [partition for partition in found if partition is not None]

    # --- holding requests back

    def _try(self, transactional_id: str, attempt: Callable[..., bool]) -> None:
        """Try now, and again whenever the id settles, until it works or the time is up."""
        if attempt(last=False):
            return
        deadline_ms = self._broker.clock.monotonic_ms() + HOLD_MS
        queue = self._held.setdefault(transactional_id, deque())
        done = False

        def again() -> None:
            nonlocal done
            if done:
                return
            if attempt(last=self._broker.clock.monotonic_ms() >= deadline_ms):
                done = True
                timer.cancel()
            else:
                self._held.setdefault(transactional_id, deque()).append(again)

        def give_up() -> None:
            nonlocal done
            if not done:
                done = True
                attempt(last=True)

        timer = self._broker.clock.call_later(HOLD_MS, give_up)
        queue.append(again)
        if self.coordinator.is_settled(transactional_id):
            self._settled(transactional_id)

    def _settled(self, transactional_id: str) -> None:
        waiting = self._held.pop(transactional_id, None)
        for again in waiting or ():
            again()

    def _now_ms(self) -> int:
        return self._broker.clock.now_ms()
