"""Record batches on their way to partition leaders, in order, each once.

A batch gets its sequence when it is first sent and keeps it: a broker that sees it twice answers with the offset of the
first (KIP-98). Two rules keep the order. Until a partition's first batch is acknowledged, nothing else is sent there: a
broker that does not know the producer may accept any sequence as the first (KAFKA-14904). And after a failure the
partition is quiet until every request to it is answered; then its batches are sent again one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from typing_extensions import Buffer

from oncelog.client import requests
from oncelog.client.cluster import Cluster, locate
from oncelog.client.conversation import Conversation, Draw, Now, Send, Ticket, Wait, was_sent
from oncelog.client.errors import (
    RETRIABLE,
    STALE_METADATA,
    BrokerRefused,
    ClientError,
    ConnectionLost,
    DeliveryFailed,
    DeliveryUnknown,
    ProducerFenced,
    RetriesExhausted,
    TransactionFailed,
)
from oncelog.client.lanes import BatchState, Lane, OutgoingBatch, Written
from oncelog.client.leaders import by_leader
from oncelog.client.requests import Request, milliseconds
from oncelog.client.values import Address, ProducerIdentity, TopicPartition, TransactionVersion
from oncelog.records import next_sequence, stamp_producer
from oncelog.wire import ErrorCode

ALL_REPLICAS = -1
NO_ACKNOWLEDGEMENT = 0
NO_PRODUCER = ProducerIdentity(-1, -1)
IN_FLIGHT_MAX = 5
REQUEST_BYTES_MAX = 16 * 1024 * 1024
RETRY_LOW_MS, RETRY_HIGH_MS = 1.0, 3.0
RETRY_PAUSE_MS_MAX = 200.0
PRODUCE_TV1_VERSION_MAX = 11
PRODUCE_TV2_VERSION_MIN = 12

ABORTABLE = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state,
        ErrorCode.unknown_producer_id,
        ErrorCode.transaction_abortable,
    }
)
TAKEN_OVER = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping})
MAYBE_WRITTEN = frozenset({ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append})


class ProduceFlow:
    """Sends batches as one producer identity. After a failure it sends nothing more; `error` says why.

    With the identity NO_PRODUCER batches carry none: what is sent again after a lost answer may be written twice. With
    `acks` 0 there are no answers, so nothing is sent again. Outside a transaction a batch that a broker refuses for what is
    in it fails alone; `refusal` has the last such error.
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: ProducerIdentity,
        *,
        transactional_id: str | None = None,
        transaction_version: TransactionVersion = TransactionVersion.TV1,
        delivery_timeout_ms: float = 120_000,
        create_topics: bool = False,
        acks: int = ALL_REPLICAS,
    ) -> None:
        assert acks == ALL_REPLICAS or identity == NO_PRODUCER, "without every acknowledgement nothing is exactly once"
        self.error: ClientError | None = None
        self.refusal: ClientError | None = None
        self._acks = acks
        self.waiting_bytes = 0
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._transaction_version = transaction_version
        self._delivery_timeout_ms = delivery_timeout_ms
        self._create_topics = create_topics
        self._lanes: dict[TopicPartition, Lane] = {}
        self._on_their_way: dict[Ticket, list[OutgoingBatch]] = {}
        self.begin(identity)

    @property
    def is_idle(self) -> bool:
        """Whether every batch is acknowledged."""
        return self.waiting_bytes == 0

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
        assert has_id or self._transactional_id is None, (
            "a transactional batch without a producer id is visible at once"
        )
        assert self.is_idle, "batches are still on their way"
        self._identity = identity
        self._in_flight_max = IN_FLIGHT_MAX if has_id else 1
        self._lanes = {}

    def begin_transaction(self) -> None:
        """Go on with the same identity and the sequences where they stand: the first batch of each partition alone."""
        for lane in self._lanes.values():
            lane.is_acknowledged = False

    def enqueue(self, partition: TopicPartition, data: Buffer, now_ms: float) -> OutgoingBatch:
        """Queue one unstamped batch."""
        batch = OutgoingBatch(partition, data, now_ms + self._delivery_timeout_ms)
        self._lanes.setdefault(partition, Lane(self._in_flight_max)).queue.append(batch)
        self.waiting_bytes += batch.size_bytes
        return batch

    def written(self) -> dict[TopicPartition, Written]:
        return {partition: lane.written for partition, lane in self._lanes.items()}

    def step(self, timeout_ms: float | None = None, *, until_woken: bool = False) -> Conversation[None]:
        """Send what may be sent, wait for something to happen, take it in. Raises what ended the flow."""
        if self.error is not None:
            raise self.error
        try:
            yield from self._locate()
            now_ms: float = yield Now()
            yield from self._send(now_ms)
            retry_ms = self._time_to_retry(now_ms)
            known = [wait_ms for wait_ms in (timeout_ms, retry_ms) if wait_ms is not None]
            yield Wait(tuple(self._on_their_way), min(known, default=None), until_woken)
            yield from self._take_answers()
        except RetriesExhausted as error:
            ended = error if self._transactional_id is None else TransactionFailed(str(error))
            self.fail(ended)
            raise ended from error.__cause__
        except ClientError as error:
            self.fail(error)
            raise

    def fail(self, error: ClientError) -> None:
        """Give up every batch."""
        self.error = error
        for lane in self._lanes.values():
            for batch in lane.in_flight:
                batch.is_doubtful = True
            for batch in (*lane.in_flight, *lane.queue):
                batch.fail(self._end_of(batch, error))
            lane.in_flight.clear()
            lane.queue.clear()
        self._on_their_way.clear()
        self.waiting_bytes = 0

    def _end_of(self, batch: OutgoingBatch, error: ClientError) -> ClientError:
        """What the end of the flow means for one batch: in a transaction, all share one fate."""
        if self._transactional_id is not None:
            return error
        kind = DeliveryUnknown if batch.is_doubtful else DeliveryFailed
        ended = error if isinstance(error, kind) else kind(f"{batch.partition}: {error}")
        ended.__cause__ = None if ended is error else error
        return ended

    def _locate(self) -> Conversation[None]:
        unknown = [tp for tp, lane in self._lanes.items() if lane.queue and self._cluster.leader(tp) is None]
        if unknown:
            yield from locate(self._cluster, unknown, create=self._create_topics)

    def _send(self, now_ms: float) -> Conversation[None]:
        """One request after the other to each leader, each with at most one batch of a partition, while lanes allow."""
        while ready := [tp for tp, lane in self._lanes.items() if lane.may_send(now_ms)]:
            if any(ticket.is_done for ticket in self._on_their_way):
                return  # a request could not be sent: see what that means before the next
            for leader, group in by_leader(self._cluster, ready).items():
                yield from self._send_some(leader, group, now_ms)

    def _send_some(self, leader: Address, group: Iterable[TopicPartition], now_ms: float) -> Conversation[None]:
        batches: list[OutgoingBatch] = []
        size_bytes = 0
        for partition in group:
            lane = self._lanes[partition]
            batch = lane.queue[0]
            size_bytes += batch.size_bytes
            if batches and size_bytes > REQUEST_BYTES_MAX:
                break
            if now_ms >= batch.deadline_ms:
                raise self._too_late(batch, lane.trouble) from lane.trouble
            self._stamp(lane, lane.queue.popleft())
            lane.in_flight.append(batch)
            batches.append(batch)
        ticket: Ticket = yield Send(leader, self._request(batches))
        self._on_their_way[ticket] = batches

    def _stamp(self, lane: Lane, batch: OutgoingBatch) -> None:
        if batch.base_sequence >= 0:
            return
        batch.base_sequence = lane.next_sequence
        lane.next_sequence = next_sequence(lane.next_sequence, batch.record_count)
        identity = self._identity
        if identity == NO_PRODUCER:
            return
        is_transactional = self._transactional_id is not None
        batch.data = stamp_producer(
            batch.data, identity.producer_id, identity.epoch, batch.base_sequence, is_transactional
        )

    def _request(self, batches: Iterable[OutgoingBatch]) -> Request:
        topics: dict[str, list[dict[str, Any]]] = {}
        for batch in batches:
            item = {"index": batch.partition.partition, "records": batch.data}
            topics.setdefault(batch.partition.topic, []).append(item)
        fields = {
            "transactional_id": self._transactional_id,
            "acks": self._acks,
            "timeout": milliseconds(self._cluster.settings.request_timeout_ms),
            "topic_data": [{"name": topic, "partition_data": items} for topic, items in topics.items()],
        }
        if self._transactional_id is not None and self._transaction_version is TransactionVersion.TV2:
            return Request(requests.PRODUCE, fields, version_min=PRODUCE_TV2_VERSION_MIN)
        expects_answer = self._acks != NO_ACKNOWLEDGEMENT
        return Request(requests.PRODUCE, fields, version_max=PRODUCE_TV1_VERSION_MAX, expects_answer=expects_answer)

    def _time_to_retry(self, now_ms: float) -> float | None:
        times = [lane.retry_at_ms - now_ms for lane in self._lanes.values() if lane.queue and not lane.in_flight]
        return max(0.0, min(times)) if times else None

    def _take_answers(self) -> Conversation[None]:
        """Take in all that is there, and then raise what ends the flow."""
        end: ClientError | None = None
        for ticket in [ticket for ticket in self._on_their_way if ticket.is_done]:
            for batch in self._on_their_way.pop(ticket):
                try:
                    yield from self._take_from(ticket, batch)
                except ClientError as error:
                    end = end or error
        if end is not None:
            raise end

    def _take_from(self, ticket: Ticket, batch: OutgoingBatch) -> Conversation[None]:
        try:
            message = ticket.result()
        except ConnectionLost as lost:
            self._cluster.forget_leader(batch.partition)
            yield from self._retry(batch, lost)
            return
        if message is None:
            self._accept(batch, -1)
            return
        answers = {(str(topic), int(item.index)): item for topic, item in _partitions(message)}
        yield from self._take(batch, answers[batch.partition])

    def _take(self, batch: OutgoingBatch, item: Any) -> Conversation[None]:
        lane = self._lanes[batch.partition]
        error: ErrorCode = item.error_code
        # The broker had the batch already, too long ago to know its offset.
        if error in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            appended = getattr(item, "log_append_time", None)
            batch.log_append_time_ms = -1 if appended is None else round(appended.timestamp() * 1000)
            self._accept(batch, int(item.base_offset))
            return
        refused = BrokerRefused(error, f"producing to {batch.partition}")
        is_behind = error is ErrorCode.out_of_order_sequence_number and not lane.is_next_in_order(batch)
        if error in RETRIABLE or is_behind:
            if error in STALE_METADATA:
                self._cluster.forget_leader(batch.partition)
            batch.is_doubtful = batch.is_doubtful or error in MAYBE_WRITTEN
            yield from self._retry(batch, refused)
            return
        meaning = self._meaning(refused, getattr(item, "error_message", None))
        if self._transactional_id is None:
            self._give_up(batch, meaning)
            if error not in ABORTABLE and error not in TAKEN_OVER and lane.is_newest(batch):
                lane.next_sequence = batch.base_sequence
                return
        raise meaning

    def _accept(self, batch: OutgoingBatch, base_offset: int) -> None:
        lane = self._lanes[batch.partition]
        lane.in_flight.remove(batch)
        batch.state = BatchState.WRITTEN
        batch.base_offset = base_offset
        self.waiting_bytes -= batch.size_bytes
        lane.acknowledge(batch)

    def _give_up(self, batch: OutgoingBatch, error: ClientError) -> None:
        """Fail one batch that is on its way, and go on with the others."""
        self._lanes[batch.partition].in_flight.remove(batch)
        self.waiting_bytes -= batch.size_bytes
        batch.fail(error)
        self.refusal = error

    def _retry(self, batch: OutgoingBatch, cause: ClientError) -> Conversation[None]:
        lane = self._lanes[batch.partition]
        batch.is_doubtful = batch.is_doubtful or was_sent(cause)
        if self._acks == NO_ACKNOWLEDGEMENT and batch.is_doubtful:
            self._give_up(batch, DeliveryUnknown(f"producing to {batch.partition}: {cause}"))
            return
        lane.put_back(batch)
        lane.trouble = cause
        drawn_ms: float = yield Draw(RETRY_LOW_MS, RETRY_HIGH_MS)
        lane.pause_ms = min(lane.pause_ms * 1.5 + drawn_ms, RETRY_PAUSE_MS_MAX)
        now_ms: float = yield Now()
        lane.retry_at_ms = now_ms + lane.pause_ms
        if now_ms >= batch.deadline_ms:
            raise self._too_late(batch, cause) from cause

    def _too_late(self, batch: OutgoingBatch, cause: ClientError | None) -> ClientError:
        message = f"{batch.partition} took no batch in {self._delivery_timeout_ms:.0f} ms"
        if cause is not None:
            message += f": {cause}"
        if self._transactional_id is not None:
            return TransactionFailed(message)
        return DeliveryUnknown(message) if batch.is_doubtful else DeliveryFailed(message)

    def _meaning(self, refused: BrokerRefused, message: str | None) -> ClientError:
        what = f"producing: {message}" if message else refused.message
        if self._transactional_id is not None and refused.error in TAKEN_OVER:
            return ProducerFenced(what, refused.error)
        if self._transactional_id is not None and refused.error in ABORTABLE:
            return TransactionFailed(what, refused.error)
        return BrokerRefused(refused.error, what)


def _partitions(message: Any) -> Iterator[tuple[str, Any]]:
    for topic in message.responses:
        for item in topic.partition_responses:
            yield topic.name, item
