"""Carrying out what the transaction coordinator decides: the order in which its log and the markers are written.

    EndTxn   decide ─ data first ─ Prepare appended, replayed, durable ─ answer
                                                                       └ markers appended, first ─ Complete appended, replayed

The data goes to the write-ahead log before the Prepare record does, and the markers before the Complete record: whichever
of them a power cut leaves behind, what it needs is there too. What the write-ahead log cannot take is synced instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.held_requests import HeldRequests
from oncelog.broker.coordinators.known_brokers import KnownBrokers
from oncelog.broker.coordinators.loading import load_transactions, not_cleaned
from oncelog.broker.coordinators.markers import RETRY_MAX_MS
from oncelog.broker.coordinators.marking import Marking
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.producer_ids import ProducerIds
from oncelog.broker.coordinators.session_guard import SessionGuard
from oncelog.broker.coordinators.transaction_log import TransactionLog
from oncelog.broker.slices import Slices
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.topics import TRANSACTION_STATE, Topics
from oncelog.coordination import Decision, Promise, sleep, start
from oncelog.environment import Clock
from oncelog.records import NO_PRODUCER_ID
from oncelog.transactions import (
    DECIDED,
    DescribedTransaction,
    EndTransactionAnswer,
    InitProducerIdAnswer,
    MarkersToSend,
    TopicPartition,
    TransactionCoordinator,
    TransactionRecord,
    has_epoch_per_transaction,
)
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.transactions")

_NONE = ErrorCode.none
_CONCURRENT = ErrorCode.concurrent_transactions


class Transactions:
    """Everything between the handlers and the coordinator of one broker."""

    def __init__(
        self,
        clock: Clock,
        durability: Durability,
        known_brokers: KnownBrokers,
        node_id: int,
        offsets: CommittedOffsets,
        producer_ids: ProducerIds,
        session_guard: SessionGuard,
        topics: Topics,
        coordinator: TransactionCoordinator,
        slices: Slices,
    ) -> None:
        """`slices` are for loading partitions of the transaction log."""
        self._clock = clock
        self._durability = durability
        self._producer_ids = producer_ids
        self._session_guard = session_guard
        self._topics = topics
        self.coordinator = coordinator
        self.elections = Elections(known_brokers, topics, TRANSACTION_STATE, self, slices)
        self._log = TransactionLog(durability, known_brokers, topics, coordinator, self.elections)
        self.markers = Marking(clock, durability, known_brokers, node_id, offsets)
        self._held = HeldRequests(clock, producer_ids)
        self._completes_what_is_loaded = False
        self._to_fence: set[str] = set()
        self._all_fenced: Promise[None] = Promise()

    # --- what handlers ask

    def error(self, transactional_id: str) -> ErrorCode:
        """none if this broker coordinates the id. Errors: not_coordinator, coordinator_load_in_progress."""
        return self.elections.error(self.coordinator.partition_for(transactional_id))

    def epoch(self, transactional_id: str) -> int:
        """The coordinator epoch of the id; NOT_LED if this broker does not coordinate it."""
        return self.elections.epoch(self.coordinator.partition_for(transactional_id))

    def knows_every_id(self) -> bool:
        """True if this broker coordinates every id. Decisions of other brokers are not known here."""
        topic = self._topics.named(TRANSACTION_STATE)
        if topic is None:
            return True
        return all(self.elections.error(index) is _NONE for index in range(len(topic.partitions)))

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Errors: invalid_request, not_coordinator, coordinator_load_in_progress, transactional_id_not_found."""
        error = self.error(transactional_id)
        if error is _NONE or self._topics.named(TRANSACTION_STATE) is None:
            return self.coordinator.describe(transactional_id)
        return DescribedTransaction(error)

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
                self._producer_ids.allocate,
            )

        decision = await self._held.decide(transactional_id or "", decide, _init_must_wait)
        error = self.error(transactional_id) if transactional_id else _NONE
        if error is not _NONE:
            return InitProducerIdAnswer(error)
        if decision.answer.markers is not None:
            # As Kafka does: the open transaction of the producer before is aborted. The client is answered
            # CONCURRENT_TRANSACTIONS, and asks again.
            logger.info("%s: its open transaction is aborted, for a producer asks for the id", transactional_id)
            self._carry_out(decision.records[0], decision.answer.markers)
        elif transactional_id and decision.answer.error is _NONE:
            is_taken_over = (
                self.coordinator.ids.metadata(transactional_id) is not None and producer_id == NO_PRODUCER_ID
            )
            return await self._initialized(transactional_id, decision, is_taken_over=is_taken_over)
        return decision.answer

    async def _initialized(
        self, transactional_id: str, decision: Decision[TransactionRecord, InitProducerIdAnswer], *, is_taken_over: bool
    ) -> InitProducerIdAnswer:
        """An epoch that a power cut or a failover could take back would let the producer it fenced go on."""
        error = self._log.append_asked(decision.records[0]) if decision.records else _NONE
        if error is _NONE:
            error = await self._log.durable(transactional_id)
        if error is not _NONE:
            return InitProducerIdAnswer(error)
        producer = (decision.answer.producer_id, decision.answer.producer_epoch)
        fenced = ", the producer before is fenced" if is_taken_over else ""
        logger.info("%s: producer id %d has epoch %d%s", transactional_id, *producer, fenced)
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

        decision = await self._held.decide(transactional_id, decide, _add_must_wait)
        error = self.error(transactional_id)
        if error is not _NONE or decision.answer is not _NONE:
            return decision.answer if error is _NONE else error
        if decision.records:
            error = self._log.append_asked(decision.records[0])
        return error if error is not _NONE else await self._log.committed(transactional_id)

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Check each partition against the open transaction. Errors: those of the coordinator, and of `error`."""
        error = self.error(transactional_id)
        if error is not _NONE:
            return dict.fromkeys(partitions, error)
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
                self._producer_ids.allocate,
            )

        decision = await self._held.decide(transactional_id, decide, _end_must_wait)
        error = self.error(transactional_id)
        if error is not _NONE:
            return EndTransactionAnswer(error)
        if decision.answer.markers is not None:
            error = await self._carry_out(decision.records[0], decision.answer.markers)
        elif decision.answer.error is _NONE:
            error = await self._log.committed(transactional_id)
        return decision.answer if error is _NONE else EndTransactionAnswer(error)

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
            if self._log.append(record) is _NONE:
                self._session_guard.forget(record.transactional_id)
                self._held.resume(record.transactional_id)

    # --- partitions of the transaction log that come and go

    def load(self, partition: int) -> Iterator[None]:
        found = self._topics.partition(TRANSACTION_STATE, partition)
        if found is not None and not found.is_offline:
            with not_cleaned(found):
                yield from load_transactions(found, self.coordinator)

    def loaded(self, partition: int, epoch: int) -> None:
        """Every decision of the coordinator before is carried out, its markers once more, under the new epoch."""
        if self._completes_what_is_loaded:
            self._complete_prepared_of(partition)

    def unload(self, partition: int) -> None:
        """Forget the ids of a partition. Requests that wait for one are answered; a transaction that is ending stops at
        its next step.
        """
        for transactional_id in self.coordinator.ids.unload(partition):
            self._session_guard.forget(transactional_id)
            self._held.resume(transactional_id)
        self.markers.leaders_changed()

    def fence_all(self) -> Promise[None]:
        """After a start that may have lost what was acknowledged: no producer goes on as if it had not.

        Call this after `complete_prepared`; resolved when every producer is fenced.
        """
        known = tuple(self.coordinator.transactions())
        self._to_fence = {metadata.transactional_id for metadata in known if metadata.status in DECIDED}
        others = [one.transactional_id for one in known if one.transactional_id not in self._to_fence]
        if not self._to_fence:
            self._all_fenced.resolve(None)
        return start(self._fenced([self._fence(one) for one in others]))

    async def _fenced(self, aborts: Sequence[Promise[ErrorCode]]) -> None:
        """The open transactions are to be aborted, not only on the way to that: what comes next may be a clean stop."""
        for abort in aborts:
            await abort
        await self._all_fenced

    def _fence(self, transactional_id: str) -> Promise[ErrorCode]:
        decision = self.coordinator.fence(transactional_id, self._now_ms(), self._producer_ids.allocate)
        logger.info("%s: its producer is fenced, for what it was told may be lost", transactional_id)
        if decision.answer.markers is not None:
            return self._carry_out(decision.records[0], decision.answer.markers)
        return Promise.ready(self._log.append(decision.records[0]))

    def complete_prepared(self) -> None:
        """After a start, once all is loaded: send the markers of every decided transaction, those that were sent before
        once more. From now on that is done for each partition as soon as it is loaded.
        """
        self._completes_what_is_loaded = True
        for markers in self.coordinator.pending_completions():
            start(self._complete_loaded(markers))

    def _complete_prepared_of(self, partition: int) -> None:
        for markers in self.coordinator.pending_completions(partition):
            start(self._complete_loaded(markers))

    async def _complete_loaded(self, markers: MarkersToSend) -> None:
        """A decision that other replicas lack may be lost with this broker, and the next coordinator may decide otherwise."""
        if await self._log.committed(markers.transactional_id) is ErrorCode.none:
            await self._complete(markers)

    def leaders_changed(self) -> None:
        """Partitions have other leaders now, or are gone: what waited for them has its turn."""
        self.markers.leaders_changed()

    # --- the steps

    def _carry_out(self, record: TransactionRecord, markers: MarkersToSend) -> Promise[ErrorCode]:
        """End a transaction; resolved once the decision is durable, or with what keeps it from being so.

        It goes on whether or not somebody waits. Its markers go out behind the answer.
        """
        return start(self._decide(record, markers), then=partial(self._complete_decided, markers))

    async def _decide(self, record: TransactionRecord, markers: MarkersToSend) -> ErrorCode:
        """Make the Prepare record durable, behind the records that it is about. From then on the end is decided."""
        index = self.coordinator.partition_for(record.transactional_id)
        term = self.elections.term(index)
        self.coordinator.ids.hold(record)
        # An abort needs none of it. But readers go on over what was aborted: were that lost, they would pass over the
        # records that take its place.
        are_kept = await self.markers.put_first(markers)
        if self.elections.term(index) is not term:
            return ErrorCode.not_coordinator
        if markers.committed and not are_kept:
            # Only an abort is true whatever has become of those records.
            self._let_go(markers.transactional_id)
            return ErrorCode.transaction_abortable
        error = self._log.append(record)
        if error is _NONE:
            return await self._log.durable(record.transactional_id)
        if self.elections.term(index) is term:
            self._let_go(markers.transactional_id)
        return error

    async def _complete_decided(self, markers: MarkersToSend, error: ErrorCode) -> None:
        if error is _NONE:
            await self._complete(markers)

    async def _complete(self, markers: MarkersToSend) -> None:
        """Have the markers of a decided transaction written, and write down that it is complete.

        It is not complete while one of its partitions has no leader: that one gets its marker when it is back, and until
        then the transactional id is in the middle of this.
        """
        index = self.coordinator.partition_for(markers.transactional_id)
        term = self.elections.term(index)
        if term is None:
            return
        epoch = self.elections.epoch(index)
        if not await self.markers.mark_all(markers, epoch, lambda: self.elections.term(index) is term):
            return
        record = await self._write_complete(markers.transactional_id, index, term)
        if record is None:
            return
        if not has_epoch_per_transaction(markers.transaction_version):
            # The next transaction of this producer has the same epoch. If a power cut left its records and the Prepare
            # record of this one, but no Complete, the markers would go out again and end the wrong transaction.
            error = await self._log.durable(record.transactional_id)
            if error is not _NONE:
                return
        else:
            # Nobody waits for it to be durable, but recovery after a kill may need it.
            self._durability.write_out()
        self._log.replay(record)
        end = "committed" if markers.committed else "aborted"
        logger.info("%s: its transaction is %s in %d partitions", record.transactional_id, end, len(markers.partitions))
        self._fence_if_asked(record.transactional_id)
        self._held.resume(record.transactional_id)

    async def _write_complete(self, transactional_id: str, index: int, term: object) -> TransactionRecord | None:
        """The Complete record, once the log has taken it; None if another coordinator is to see to it."""
        while self.elections.term(index) is term:
            record = self.coordinator.complete(transactional_id, self._now_ms()).records[0]
            if self._log.write(record) is _NONE:
                return record
            # As Kafka's TransactionMarkerChannelManager does: too few replicas are in sync, and that passes.
            await sleep(self._clock, RETRY_MAX_MS)
        return None

    def _fence_if_asked(self, transactional_id: str) -> None:
        if transactional_id in self._to_fence:
            self._to_fence.remove(transactional_id)
            self._fence(transactional_id)
            if not self._to_fence:
                self._all_fenced.resolve(None)

    def _let_go(self, transactional_id: str) -> None:
        """Drop the held decision. Requests that wait for the id are decided again."""
        self.coordinator.ids.let_go(transactional_id)
        self._held.resume(transactional_id)

    def _now_ms(self) -> int:
        return self._clock.now_ms()


def _init_must_wait(answer: InitProducerIdAnswer) -> bool:
    return answer.markers is None and answer.error is _CONCURRENT


def _add_must_wait(answer: ErrorCode) -> bool:
    return answer is _CONCURRENT


def _end_must_wait(answer: EndTransactionAnswer) -> bool:
    return answer.error is _CONCURRENT
