"""The sender of record batches to partition leaders, in order, each once.

A batch gets its sequence when it is first sent and keeps it: a broker that sees it twice answers with the offset of the
first (KIP-98). Two rules keep the order. Until a partition's first batch is acknowledged, nothing else is sent there: a
broker that does not know the producer may accept any sequence as the first (KAFKA-14904). And after a failure the
partition is quiet until every request to it is answered; then its batches are sent again one by one.

Partitions do not wait for each other: the leader of one is looked for while the others are written. What becomes of a batch
outside a transaction is its own matter. Where one is given up that was sent before others, the broker refuses those with
OUT_OF_ORDER_SEQUENCE_NUMBER unless it has the one given up; they are then sent under the next epoch, from sequence 0
(KIP-360).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from typing_extensions import Buffer

from oncelog.client.errors import (
    RETRIABLE,
    STALE_METADATA,
    BrokerRefused,
    ClientError,
    ConnectionLost,
    DeliveryFailed,
    DeliveryUnknown,
    IllegalState,
    TransactionFailed,
)
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Flow, Now, PendingRequest, Send, Wait, was_sent
from oncelog.client.net.leaders import LeaderSearch, by_leader
from oncelog.client.net.retry import BUSY
from oncelog.client.net.rights import refused
from oncelog.client.producer.partition_queue import BatchState, Divide, PartitionQueue, QueuedBatch, Written
from oncelog.client.producer.produce_requests import (
    ABOUT_RECORDS,
    ALL_REPLICAS,
    LOST_IDENTITY,
    LOST_SEQUENCE,
    MAYBE_WRITTEN,
    NO_ACKNOWLEDGEMENT,
    ProduceForm,
    answers_by_partition,
)
from oncelog.client.producer.settings import IN_FLIGHT_MAX, RETRIES_MAX
from oncelog.client.values import Address, ProducerIdentity, TopicPartition, TransactionVersion
from oncelog.records import next_sequence, stamp_producer
from oncelog.wire import ErrorCode

NO_PRODUCER = ProducerIdentity(-1, -1)
EPOCH_MAX = 32766
"""Kafka keeps the last epoch of 16 bits for fencing."""
REQUEST_BYTES_MAX = 16 * 1024 * 1024


class Sender:
    """Sends batches as one producer identity. After a failure it sends nothing more; `error` says why.

    With the identity NO_PRODUCER batches carry none: what is sent again after a lost answer may be written twice. With
    `acks` 0 there are no answers, so nothing is sent again. In a transaction the failure of one batch is that of all. Outside
    of one a batch fails alone; `refusal` has the first such error that nobody has taken.
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: ProducerIdentity,
        *,
        transactional_id: str | None = None,
        transaction_version: TransactionVersion = TransactionVersion.TV1,
        delivery_timeout_ms: float = 120_000,
        metadata_max_age_ms: float = 300_000,
        max_in_flight: int | None = None,
        retries: int = RETRIES_MAX,
        explain: Callable[[ClientError], Flow[ClientError]] | None = None,
        create_topics: bool = False,
        acks: int = ALL_REPLICAS,
    ) -> None:
        """`explain` finds out what an error means that ends the sender."""
        assert acks == ALL_REPLICAS or identity == NO_PRODUCER, "without every acknowledgement nothing is exactly once"
        self.error: ClientError | None = None
        self.refusal: ClientError | None = None
        self._acks = acks
        self.waiting_bytes = 0
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._form = ProduceForm(acks, transactional_id, transaction_version, cluster.settings.request_timeout_ms)
        self._delivery_timeout_ms = delivery_timeout_ms
        self._metadata_max_age_ms = metadata_max_age_ms
        self._max_in_flight = max_in_flight
        self._retries = retries
        self._explain = explain
        self._search = LeaderSearch(cluster, create=create_topics)
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._unanswered: dict[PendingRequest, list[QueuedBatch]] = {}
        self.begin(identity)

    @property
    def is_idle(self) -> bool:
        """True when every batch is acknowledged or given up."""
        return self.waiting_bytes == 0

    @property
    def waiting_records(self) -> int:
        """The number of records that are neither acknowledged nor given up."""
        return sum(
            batch.record_count for queue in self._queues.values() for batch in (*queue.waiting, *queue.in_flight)
        )

    @property
    def is_quiet(self) -> bool:
        """True when no request is unanswered: no batch can reach a broker any more."""
        return all(pending.is_done for pending in self._unanswered)

    @property
    def identity(self) -> ProducerIdentity:
        return self._identity

    @property
    def waiting_partitions(self) -> frozenset[TopicPartition]:
        """The partitions that have batches to be sent."""
        return frozenset(partition for partition, queue in self._queues.items() if queue.waiting)

    def begin(self, identity: ProducerIdentity) -> None:
        """Go on as another identity: sequences begin at 0 again."""
        has_id = identity.producer_id >= 0
        if not has_id and self._transactional_id is not None:
            raise ValueError("a transactional batch without a producer id would be visible at once")
        if not self.is_idle:
            raise IllegalState("batches of the transaction before are not acknowledged: flush first")
        self._identity = identity
        self._in_flight_max = self._max_in_flight or (IN_FLIGHT_MAX if has_id else 1)
        self._queues = {}

    def begin_transaction(self) -> None:
        """Go on with the same identity and the sequences where they stand: the first batch of each partition alone."""
        for queue in self._queues.values():
            queue.is_acknowledged = False

    def enqueue(
        self, partition: TopicPartition, data: Buffer, now_ms: float, divide: Divide | None = None
    ) -> QueuedBatch:
        """Queue one unstamped batch. With `divide` a broker may refuse it for the sake of one record."""
        batch = QueuedBatch(partition, data, now_ms + self._delivery_timeout_ms, divide)
        self._queue(partition).waiting.append(batch)
        self.waiting_bytes += batch.size_bytes
        return batch

    def written(self) -> dict[TopicPartition, Written]:
        return {partition: queue.written for partition, queue in self._queues.items()}

    def take_refusal(self) -> ClientError | None:
        """The error of a batch that failed alone. It is given once."""
        refusal, self.refusal = self.refusal, None
        return refusal

    async def step(self, timeout_ms: float | None = None, *, until_woken: bool = False) -> None:
        """Send what may be sent, wait for something to happen, take it in. Raises what ended the sender."""
        if self.error is not None:
            raise self.error
        try:
            now_ms = await Now()
            waiting_bytes = self.waiting_bytes
            self._give_up_overdue(now_ms)
            await self._search.look((*self._without_leader(), *self._of_old_topics(now_ms)), now_ms)
            await self._send(now_ms)
            if self.waiting_bytes < waiting_bytes:
                return  # a batch was given up, which somebody may be waiting for
            awaited = (*self._unanswered, *self._search.awaited)
            await Wait(awaited, self._wait_ms(now_ms, timeout_ms), until_woken)
            await self._take_leaders()
            await self._take_answers()
        except ClientError as error:
            explained = error if self._explain is None else await self._explain(error)
            self.fail(explained)
            raise explained from error.__cause__

    def fail(self, error: ClientError) -> None:
        """Give up every batch. What was sent may be unanswered still: see `is_quiet` and `await_unanswered`."""
        self.error = error
        for queue in self._queues.values():
            for batch in queue.in_flight:
                batch.is_doubtful = True
            for batch in (*queue.in_flight, *queue.waiting):
                batch.fail(self._end_of(batch, error))
            queue.in_flight.clear()
            queue.waiting.clear()
        self.waiting_bytes = 0

    async def await_unanswered(self) -> None:
        """Wait for a missing answer after `fail`: the request timeout at most."""
        await Wait(tuple(pending for pending in self._unanswered if not pending.is_done))
        self._unanswered = {pending: [] for pending in self._unanswered if not pending.is_done}

    def _end_of(self, batch: QueuedBatch, error: ClientError) -> ClientError:
        """The error of one batch. All batches of a transaction have the same."""
        if self._transactional_id is not None:
            return error
        kind = DeliveryUnknown if batch.is_doubtful else DeliveryFailed
        ended = error if isinstance(error, kind) else kind(f"{batch.partition}: {error}")
        ended.__cause__ = None if ended is error else error
        return ended

    def _queue(self, partition: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue(self._identity, self._in_flight_max)
        return queue

    def _without_leader(self) -> list[TopicPartition]:
        return [tp for tp, queue in self._queues.items() if queue.waiting and self._cluster.leader(tp) is None]

    def _of_old_topics(self, now_ms: float) -> list[TopicPartition]:
        """A partition of each topic that may have other partitions or leaders by now, which no error would tell."""
        asked_ms, oldest_ms = self._cluster.asked_ms, now_ms - self._metadata_max_age_ms
        of_topics = {partition.topic: partition for partition in self._queues}
        return [partition for topic, partition in of_topics.items() if asked_ms.setdefault(topic, now_ms) < oldest_ms]

    def _wait_ms(self, now_ms: float, timeout_ms: float | None) -> float | None:
        """The time until something is due, unless an answer comes."""
        until_ms = float("inf")
        for partition, queue in self._queues.items():
            until_ms = min(until_ms, queue.deadline_ms())
            if queue.waiting and not queue.in_flight:
                is_led = self._cluster.leader(partition) is not None
                until_ms = min(until_ms, queue.backoff.retry_at_ms if is_led else self._search.retry_at_ms(partition))
        wait_ms = None if until_ms == float("inf") else max(0.0, until_ms - now_ms)
        return min((known for known in (wait_ms, timeout_ms) if known is not None), default=None)

    def _give_up_overdue(self, now_ms: float) -> None:
        for partition, queue in self._queues.items():
            for batch in queue.overdue(now_ms):
                batch.is_doubtful = batch.is_doubtful or batch in queue.in_flight
                self._give_up(batch, self._too_late(batch, queue.last_error or self._search.causes.get(partition)))

    async def _take_leaders(self) -> None:
        for partition, problem in (await self._search.take()).items():
            for batch in list(self._queues[partition].waiting if partition in self._queues else ()):
                self._give_up(batch, problem)

    async def _send(self, now_ms: float) -> None:
        """One request after the other to each leader, each with at most one batch of a partition, while queues allow."""
        while ready := by_leader(self._cluster, (tp for tp, queue in self._queues.items() if queue.may_send(now_ms))):
            if any(pending.is_done for pending in self._unanswered):
                return  # a request could not be sent: see what that means before the next
            for leader, group in ready.items():
                await self._send_some(leader, group)

    async def _send_some(self, leader: Address, group: Iterable[TopicPartition]) -> None:
        batches: list[QueuedBatch] = []
        size_bytes = 0
        for partition in group:
            queue = self._queues[partition]
            if queue.must_restart:
                self._restart(queue)
                if not queue.waiting:
                    continue
            batch = queue.waiting[0]
            size_bytes += batch.size_bytes
            if batches and size_bytes > REQUEST_BYTES_MAX:
                break
            self._stamp(queue, queue.waiting.popleft())
            queue.in_flight.append(batch)
            batches.append(batch)
        if batches:
            pending = await Send(leader, self._form.request(batches))
            self._unanswered[pending] = batches

    def _stamp(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        if batch.base_sequence < 0:
            batch.base_sequence = queue.next_sequence
            queue.next_sequence = next_sequence(queue.next_sequence, batch.record_count)
        elif batch.is_stamped:
            return
        batch.is_stamped = True
        identity = queue.identity
        if identity == NO_PRODUCER:
            return
        is_transactional = self._transactional_id is not None
        batch.data = stamp_producer(
            batch.data, identity.producer_id, identity.epoch, batch.base_sequence, is_transactional
        )

    def _restart(self, queue: PartitionQueue) -> None:
        """Go on under the next epoch. A batch that may have been written under this one cannot be sent under another."""
        for batch in [batch for batch in queue.waiting if batch.is_doubtful]:
            self._give_up(batch, DeliveryUnknown(f"{batch.partition}: {queue.last_error}"))
        identity = queue.identity
        if identity.epoch >= EPOCH_MAX:
            raise DeliveryFailed(f"the epochs of producer id {identity.producer_id} are used up")
        queue.restart(
            identity if identity == NO_PRODUCER else ProducerIdentity(identity.producer_id, identity.epoch + 1)
        )

    async def _take_answers(self) -> None:
        """Take in all that is there, and then raise what ends the sender."""
        end: ClientError | None = None
        for pending in [pending for pending in self._unanswered if pending.is_done]:
            batches = self._unanswered.pop(pending)
            outcome = _outcome(pending)
            for batch in batches:
                queue = self._queues.get(batch.partition)
                if queue is None or batch not in queue.in_flight:
                    continue  # it was given up
                try:
                    await self._take_outcome(pending, batch, outcome)
                except ClientError as error:
                    end = end or error
        if end is not None:
            raise end

    async def _take_outcome(self, pending: PendingRequest, batch: QueuedBatch, outcome: _Outcome) -> None:
        if isinstance(outcome, ConnectionLost):
            self._cluster.forget_leader(batch.partition)
            await self._retry(batch, outcome)
        elif isinstance(outcome, ClientError):
            self._give_up(batch, outcome)  # the request was not sent
        elif outcome is None:
            self._accept(batch, -1)
        elif batch.partition in outcome:
            await self._take(pending, batch, outcome[batch.partition])
        else:
            silent = ConnectionLost(f"{pending.address} answered without {batch.partition}", sent=True)
            await self._retry(batch, silent)

    async def _take(self, pending: PendingRequest, batch: QueuedBatch, item: Any) -> None:
        queue = self._queues[batch.partition]
        error: ErrorCode = item.error_code
        # The broker had the batch already, too long ago to know its offset.
        if error in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            appended = getattr(item, "log_append_time", None)
            batch.log_append_time_ms = -1 if appended is None else round(appended.timestamp() * 1000)
            self._accept(batch, int(item.base_offset))
            return
        refusal = refused(pending.request, error, f"producing to {batch.partition}", topic=batch.partition.topic)
        if error in RETRIABLE or (error is ErrorCode.out_of_order_sequence_number and queue.is_behind(batch)):
            if error is ErrorCode.out_of_order_sequence_number and queue.is_next_in_order(batch):
                queue.must_restart = True
            if error in STALE_METADATA:
                self._cluster.forget_leader(batch.partition)
            batch.is_doubtful = batch.is_doubtful or error in MAYBE_WRITTEN
            await self._retry(batch, refusal)
            return
        if error in ABOUT_RECORDS and self._divide(queue, batch):
            return
        meaning = self._form.meaning(refusal, getattr(item, "error_message", None))
        self._give_up(batch, meaning)
        queue.must_restart = queue.must_restart or error in LOST_SEQUENCE
        if error in LOST_IDENTITY:
            raise meaning

    def _divide(self, queue: PartitionQueue, batch: QueuedBatch) -> bool:
        halves = queue.divide(batch)
        if halves is None:
            return False
        self.waiting_bytes += sum(half.size_bytes for half in halves) - batch.size_bytes
        return True

    def _accept(self, batch: QueuedBatch, base_offset: int) -> None:
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        batch.state = BatchState.WRITTEN
        batch.base_offset = base_offset
        self.waiting_bytes -= batch.size_bytes
        queue.acknowledge(batch)

    def _give_up(self, batch: QueuedBatch, error: ClientError) -> None:
        """Fail one batch and go on with the others; in a transaction there is no going on."""
        if self._transactional_id is not None:
            raise error
        self._queues[batch.partition].remove(batch)
        self.waiting_bytes -= batch.size_bytes
        batch.fail(self._end_of(batch, error) if batch.is_doubtful else error)
        self.refusal = self.refusal or batch.error

    async def _retry(self, batch: QueuedBatch, cause: ClientError) -> None:
        queue = self._queues[batch.partition]
        batch.is_doubtful = batch.is_doubtful or was_sent(cause)
        if self._acks == NO_ACKNOWLEDGEMENT and batch.is_doubtful:
            self._give_up(batch, DeliveryUnknown(f"producing to {batch.partition}: {cause}"))
            return
        if batch.retries >= self._retries:
            self._give_up(batch, self._no_retries_left(batch, cause))
            return
        batch.retries += 1
        queue.put_back(batch)
        queue.last_error = cause
        is_busy = isinstance(cause, BrokerRefused) and cause.error is ErrorCode.concurrent_transactions
        await queue.backoff.fail(BUSY if is_busy else self._cluster.settings.retry)

    def _no_retries_left(self, batch: QueuedBatch, cause: ClientError) -> ClientError:
        return self._given_up(batch, f"{batch.partition} took no batch in {self._retries + 1} attempts", cause)

    def _too_late(self, batch: QueuedBatch, cause: ClientError | None) -> ClientError:
        return self._given_up(batch, f"{batch.partition} took no batch in {self._delivery_timeout_ms:.0f} ms", cause)

    def _given_up(self, batch: QueuedBatch, message: str, cause: ClientError | None) -> ClientError:
        if cause is not None:
            message += f": {cause}"
        if self._transactional_id is not None:
            error: ClientError = TransactionFailed(message)
        else:
            error = DeliveryUnknown(message) if batch.is_doubtful else DeliveryFailed(message)
        error.__cause__ = cause
        return error


_Outcome: TypeAlias = ClientError | Mapping[TopicPartition, Any] | None


def _outcome(pending: PendingRequest) -> _Outcome:
    """The error, or the answers by partition; None for a request that expects no answer."""
    try:
        message = pending.result()
    except ClientError as error:
        return error
    return None if message is None else answers_by_partition(message)
