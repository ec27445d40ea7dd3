"""Record batches on their way to partition leaders, in order, each once.

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
from oncelog.client.net.leader_search import LeaderSearch
from oncelog.client.net.leaders import by_leader
from oncelog.client.net.retry import BUSY
from oncelog.client.net.rights import refused
from oncelog.client.producer.lanes import BatchState, Divide, Lane, OutgoingBatch, Written
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


class ProduceFlow:
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
        """`explain` finds out what an error means that ends the flow."""
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
        self._lanes: dict[TopicPartition, Lane] = {}
        self._unanswered: dict[PendingRequest, list[OutgoingBatch]] = {}
        self.begin(identity)

    @property
    def is_idle(self) -> bool:
        """Whether every batch is acknowledged or given up."""
        return self.waiting_bytes == 0

    @property
    def waiting_records(self) -> int:
        """How many records are neither acknowledged nor given up."""
        return sum(batch.record_count for lane in self._lanes.values() for batch in (*lane.queue, *lane.in_flight))

    @property
    def is_quiet(self) -> bool:
        """Whether no request is unanswered: nothing of this flow reaches a broker any more."""
        return all(pending.is_done for pending in self._unanswered)

    @property
    def identity(self) -> ProducerIdentity:
        return self._identity

    @property
    def waiting_partitions(self) -> frozenset[TopicPartition]:
        """The partitions that have batches to be sent."""
        return frozenset(partition for partition, lane in self._lanes.items() if lane.queue)

    def begin(self, identity: ProducerIdentity) -> None:
        """Go on as another identity: sequences begin at 0 again."""
        has_id = identity.producer_id >= 0
        if not has_id and self._transactional_id is not None:
            raise ValueError("a transactional batch without a producer id would be visible at once")
        if not self.is_idle:
            raise IllegalState("batches of the transaction before are on their way: they are to be flushed")
        self._identity = identity
        self._in_flight_max = self._max_in_flight or (IN_FLIGHT_MAX if has_id else 1)
        self._lanes = {}

    def begin_transaction(self) -> None:
        """Go on with the same identity and the sequences where they stand: the first batch of each partition alone."""
        for lane in self._lanes.values():
            lane.is_acknowledged = False

    def enqueue(
        self, partition: TopicPartition, data: Buffer, now_ms: float, divide: Divide | None = None
    ) -> OutgoingBatch:
        """Queue one unstamped batch. With `divide` a broker may refuse it for the sake of one record."""
        batch = OutgoingBatch(partition, data, now_ms + self._delivery_timeout_ms, divide)
        self._lane(partition).queue.append(batch)
        self.waiting_bytes += batch.size_bytes
        return batch

    def written(self) -> dict[TopicPartition, Written]:
        return {partition: lane.written for partition, lane in self._lanes.items()}

    def take_refusal(self) -> ClientError | None:
        """The error of a batch that failed alone, told once."""
        refusal, self.refusal = self.refusal, None
        return refusal

    async def step(self, timeout_ms: float | None = None, *, until_woken: bool = False) -> None:
        """Send what may be sent, wait for something to happen, take it in. Raises what ended the flow."""
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
        """Give up every batch. What was sent may be unanswered still: see `is_quiet` and `settle`."""
        self.error = error
        for lane in self._lanes.values():
            for batch in lane.in_flight:
                batch.is_doubtful = True
            for batch in (*lane.in_flight, *lane.queue):
                batch.fail(self._end_of(batch, error))
            lane.in_flight.clear()
            lane.queue.clear()
        self.waiting_bytes = 0

    async def settle(self) -> None:
        """After `fail`: wait for an answer that is missing. None is missing for longer than the request timeout."""
        await Wait(tuple(pending for pending in self._unanswered if not pending.is_done))
        self._unanswered = {pending: [] for pending in self._unanswered if not pending.is_done}

    def _end_of(self, batch: OutgoingBatch, error: ClientError) -> ClientError:
        """What an error means for one batch: in a transaction, all share one fate."""
        if self._transactional_id is not None:
            return error
        kind = DeliveryUnknown if batch.is_doubtful else DeliveryFailed
        ended = error if isinstance(error, kind) else kind(f"{batch.partition}: {error}")
        ended.__cause__ = None if ended is error else error
        return ended

    def _lane(self, partition: TopicPartition) -> Lane:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(self._identity, self._in_flight_max)
        return lane

    def _without_leader(self) -> list[TopicPartition]:
        return [tp for tp, lane in self._lanes.items() if lane.queue and self._cluster.leader(tp) is None]

    def _of_old_topics(self, now_ms: float) -> list[TopicPartition]:
        """A partition of each topic that may have other partitions or leaders by now, which no error would tell."""
        asked_ms, oldest_ms = self._cluster.asked_ms, now_ms - self._metadata_max_age_ms
        of_topics = {partition.topic: partition for partition in self._lanes}
        return [partition for topic, partition in of_topics.items() if asked_ms.setdefault(topic, now_ms) < oldest_ms]

    def _wait_ms(self, now_ms: float, timeout_ms: float | None) -> float | None:
        """How long nothing is to be done, unless an answer comes."""
        until_ms = float("inf")
        for partition, lane in self._lanes.items():
            until_ms = min(until_ms, lane.deadline_ms())
            if lane.queue and not lane.in_flight:
                is_led = self._cluster.leader(partition) is not None
                until_ms = min(until_ms, lane.backoff.retry_at_ms if is_led else self._search.retry_at_ms(partition))
        wait_ms = None if until_ms == float("inf") else max(0.0, until_ms - now_ms)
        return min((known for known in (wait_ms, timeout_ms) if known is not None), default=None)

    def _give_up_overdue(self, now_ms: float) -> None:
        for partition, lane in self._lanes.items():
            for batch in lane.overdue(now_ms):
                batch.is_doubtful = batch.is_doubtful or batch in lane.in_flight
                self._give_up(batch, self._too_late(batch, lane.last_error or self._search.causes.get(partition)))

    async def _take_leaders(self) -> None:
        for partition, problem in (await self._search.take()).items():
            for batch in list(self._lanes[partition].queue if partition in self._lanes else ()):
                self._give_up(batch, problem)

    async def _send(self, now_ms: float) -> None:
        """One request after the other to each leader, each with at most one batch of a partition, while lanes allow."""
        while ready := by_leader(self._cluster, (tp for tp, lane in self._lanes.items() if lane.may_send(now_ms))):
            if any(pending.is_done for pending in self._unanswered):
                return  # a request could not be sent: see what that means before the next
            for leader, group in ready.items():
                await self._send_some(leader, group)

    async def _send_some(self, leader: Address, group: Iterable[TopicPartition]) -> None:
        batches: list[OutgoingBatch] = []
        size_bytes = 0
        for partition in group:
            lane = self._lanes[partition]
            if lane.must_restart:
                self._restart(lane)
                if not lane.queue:
                    continue
            batch = lane.queue[0]
            size_bytes += batch.size_bytes
            if batches and size_bytes > REQUEST_BYTES_MAX:
                break
            self._stamp(lane, lane.queue.popleft())
            lane.in_flight.append(batch)
            batches.append(batch)
        if batches:
            pending = await Send(leader, self._form.request(batches))
            self._unanswered[pending] = batches

    def _stamp(self, lane: Lane, batch: OutgoingBatch) -> None:
        if batch.base_sequence < 0:
            batch.base_sequence = lane.next_sequence
            lane.next_sequence = next_sequence(lane.next_sequence, batch.record_count)
        elif batch.is_stamped:
            return
        batch.is_stamped = True
        identity = lane.identity
        if identity == NO_PRODUCER:
            return
        is_transactional = self._transactional_id is not None
        batch.data = stamp_producer(
            batch.data, identity.producer_id, identity.epoch, batch.base_sequence, is_transactional
        )

    def _restart(self, lane: Lane) -> None:
        """Go on under the next epoch. A batch that may have been written under this one cannot be sent under another."""
        for batch in [batch for batch in lane.queue if batch.is_doubtful]:
            self._give_up(batch, DeliveryUnknown(f"{batch.partition}: {lane.last_error}"))
        identity = lane.identity
        if identity.epoch >= EPOCH_MAX:
            raise DeliveryFailed(f"the epochs of producer id {identity.producer_id} are used up")
        lane.restart(
            identity if identity == NO_PRODUCER else ProducerIdentity(identity.producer_id, identity.epoch + 1)
        )

    async def _take_answers(self) -> None:
        """Take in all that is there, and then raise what ends the flow."""
        end: ClientError | None = None
        for pending in [pending for pending in self._unanswered if pending.is_done]:
            batches = self._unanswered.pop(pending)
            outcome = _outcome(pending)
            for batch in batches:
                lane = self._lanes.get(batch.partition)
                if lane is None or batch not in lane.in_flight:
                    continue  # it was given up
                try:
                    await self._take_outcome(pending, batch, outcome)
                except ClientError as error:
                    end = end or error
        if end is not None:
            raise end

    async def _take_outcome(self, pending: PendingRequest, batch: OutgoingBatch, outcome: _Outcome) -> None:
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

    async def _take(self, pending: PendingRequest, batch: OutgoingBatch, item: Any) -> None:
        lane = self._lanes[batch.partition]
        error: ErrorCode = item.error_code
        # The broker had the batch already, too long ago to know its offset.
        if error in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            appended = getattr(item, "log_append_time", None)
            batch.log_append_time_ms = -1 if appended is None else round(appended.timestamp() * 1000)
            self._accept(batch, int(item.base_offset))
            return
        refusal = refused(pending.request, error, f"producing to {batch.partition}", topic=batch.partition.topic)
        if error in RETRIABLE or (error is ErrorCode.out_of_order_sequence_number and lane.is_behind(batch)):
            if error is ErrorCode.out_of_order_sequence_number and lane.is_next_in_order(batch):
                lane.must_restart = True
            if error in STALE_METADATA:
                self._cluster.forget_leader(batch.partition)
            batch.is_doubtful = batch.is_doubtful or error in MAYBE_WRITTEN
            await self._retry(batch, refusal)
            return
        if error in ABOUT_RECORDS and self._divide(lane, batch):
            return
        meaning = self._form.meaning(refusal, getattr(item, "error_message", None))
        self._give_up(batch, meaning)
        lane.must_restart = lane.must_restart or error in LOST_SEQUENCE
        if error in LOST_IDENTITY:
            raise meaning

    def _divide(self, lane: Lane, batch: OutgoingBatch) -> bool:
        halves = lane.divide(batch)
        if halves is None:
            return False
        self.waiting_bytes += sum(half.size_bytes for half in halves) - batch.size_bytes
        return True

    def _accept(self, batch: OutgoingBatch, base_offset: int) -> None:
        lane = self._lanes[batch.partition]
        lane.in_flight.remove(batch)
        batch.state = BatchState.WRITTEN
        batch.base_offset = base_offset
        self.waiting_bytes -= batch.size_bytes
        lane.acknowledge(batch)

    def _give_up(self, batch: OutgoingBatch, error: ClientError) -> None:
        """Fail one batch and go on with the others; in a transaction there is no going on."""
        if self._transactional_id is not None:
            raise error
        self._lanes[batch.partition].remove(batch)
        self.waiting_bytes -= batch.size_bytes
        batch.fail(self._end_of(batch, error) if batch.is_doubtful else error)
        self.refusal = self.refusal or batch.error

    async def _retry(self, batch: OutgoingBatch, cause: ClientError) -> None:
        lane = self._lanes[batch.partition]
        batch.is_doubtful = batch.is_doubtful or was_sent(cause)
        if self._acks == NO_ACKNOWLEDGEMENT and batch.is_doubtful:
            self._give_up(batch, DeliveryUnknown(f"producing to {batch.partition}: {cause}"))
            return
        if batch.retries >= self._retries:
            self._give_up(batch, self._no_retries_left(batch, cause))
            return
        batch.retries += 1
        lane.put_back(batch)
        lane.last_error = cause
        is_busy = isinstance(cause, BrokerRefused) and cause.error is ErrorCode.concurrent_transactions
        await lane.backoff.fail(BUSY if is_busy else self._cluster.settings.retry)

    def _no_retries_left(self, batch: OutgoingBatch, cause: ClientError) -> ClientError:
        return self._given_up(batch, f"{batch.partition} took no batch in {self._retries + 1} attempts", cause)

    def _too_late(self, batch: OutgoingBatch, cause: ClientError | None) -> ClientError:
        return self._given_up(batch, f"{batch.partition} took no batch in {self._delivery_timeout_ms:.0f} ms", cause)

    def _given_up(self, batch: OutgoingBatch, message: str, cause: ClientError | None) -> ClientError:
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
    """Why there is no answer, or what it says of each partition; nothing where none was asked for."""
    try:
        message = pending.result()
    except ClientError as error:
        return error
    return None if message is None else answers_by_partition(message)
