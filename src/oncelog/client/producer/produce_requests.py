"""The Produce request, and what its errors mean for a batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from oncelog.client import requests
from oncelog.client.errors import BrokerRefused, ClientError, ProducerFenced, TransactionFailed, broker_refusal
from oncelog.client.producer.partition_queue import QueuedBatch
from oncelog.client.requests import ApiRequest, milliseconds
from oncelog.client.values import TopicPartition, TransactionVersion
from oncelog.wire import ErrorCode

ALL_REPLICAS = -1
NO_ACKNOWLEDGEMENT = 0
TV1_VERSION_MAX = 11
TV2_VERSION_MIN = 12

TAKEN_OVER = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping})
LOST_IDENTITY = TAKEN_OVER | {ErrorCode.invalid_producer_epoch}
"""Errors about the producer id, and not about one partition."""
LOST_SEQUENCE = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id})
ABORTABLE = LOST_SEQUENCE | {
    ErrorCode.invalid_producer_epoch,
    ErrorCode.invalid_txn_state,
    ErrorCode.transaction_abortable,
}
MAYBE_WRITTEN = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.not_leader_or_follower,
        ErrorCode.kafka_storage_error,
    }
)
"""A disk may fail when a batch is appended, and is made durable: it may have the batch or not. A leader may have
resigned with the batch in its log and in others': as in Kafka, a wait for them ends with the same error."""
ABOUT_RECORDS = frozenset(
    {
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.invalid_record,
        ErrorCode.invalid_timestamp,
    }
)
"""Refusals of a batch that may be the fault of one record: its halves are tried."""


@dataclass(frozen=True, slots=True)
class ProduceForm:
    """The fields that all Produce requests of a producer have in common."""

    acks: int
    transactional_id: str | None
    transaction_version: TransactionVersion
    timeout_ms: float

    def request(self, batches: Iterable[QueuedBatch]) -> ApiRequest:
        topics: dict[str, list[dict[str, Any]]] = {}
        for batch in batches:
            item = {"index": batch.partition.partition, "records": batch.data}
            topics.setdefault(batch.partition.topic, []).append(item)
        fields = {
            "transactional_id": self.transactional_id,
            "acks": self.acks,
            "timeout": milliseconds(self.timeout_ms),
            "topic_data": [{"name": topic, "partition_data": items} for topic, items in topics.items()],
        }
        if self.transactional_id is not None and self.transaction_version is TransactionVersion.TV2:
            return ApiRequest(requests.PRODUCE, fields, version_min=TV2_VERSION_MIN)
        expects_answer = self.acks != NO_ACKNOWLEDGEMENT
        return ApiRequest(requests.PRODUCE, fields, version_max=TV1_VERSION_MAX, expects_answer=expects_answer)

    def meaning(self, refusal: BrokerRefused, message: str | None) -> ClientError:
        """The user's error for a refusal; `message` is the broker's own."""
        what = f"producing: {message}" if message else refusal.message
        if self.transactional_id is not None and refusal.error in TAKEN_OVER:
            return ProducerFenced(what, refusal.error)
        if self.transactional_id is not None and refusal.error in ABORTABLE:
            failed = TransactionFailed(what, refusal.error)
            failed.__cause__ = refusal
            return failed
        return broker_refusal(refusal.error, what, refusal.right)


def answers_by_partition(message: Any) -> dict[TopicPartition, Any]:
    """The answers by partition; none where an array is null, which the codec lets through."""
    return {
        TopicPartition(str(topic.name), int(item.index)): item
        for topic in message.responses or ()
        for item in topic.partition_responses or ()
    }
