"""Producers and transactions: what operators ask of leaders and coordinators, and how they end one that is open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oncelog.client import requests
from oncelog.client.admin.operations import ask_every_node
from oncelog.client.errors import BrokerRefused
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ask_coordinator
from oncelog.client.net.leaders import ask_leaders, by_topic
from oncelog.client.net.retry import Retries
from oncelog.client.requests import ApiRequest
from oncelog.client.values import ProducerState, TopicPartition, TransactionDescription, TransactionListing
from oncelog.wire import ErrorCode


async def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[ProducerState, ...]]:
    """What each partition's leader knows of the producers that write to it. Raises BrokerRefused, RetriesExhausted."""

    def request(group: Sequence[TopicPartition]) -> ApiRequest:
        topics = [
            {"name": topic, "partition_indexes": [item.partition for item in items]}
            for topic, items in by_topic(group).items()
        ]
        return ApiRequest(requests.DESCRIBE_PRODUCERS, {"topics": topics})

    return await ask_leaders(cluster, partitions, request, _producers, "describing the producers")


def _producers(message: Any) -> Iterable[tuple[TopicPartition, ErrorCode, tuple[ProducerState, ...]]]:
    for topic in message.topics:
        for item in topic.partitions:
            states = tuple(_producer_state(state) for state in item.active_producers)
            yield TopicPartition(str(topic.name), int(item.partition_index)), item.error_code, states


def _producer_state(state: Any) -> ProducerState:
    return ProducerState(
        producer_id=int(state.producer_id),
        producer_epoch=int(state.producer_epoch),
        last_sequence=int(state.last_sequence),
        last_timestamp_ms=int(state.last_timestamp),
        coordinator_epoch=int(state.coordinator_epoch),
        transaction_start_offset=int(state.current_txn_start_offset),
    )


async def describe_transactions(
    cluster: Cluster,
    transactional_ids: Sequence[str],
    *,
    skip_missing: bool = False,
    retries: Retries | None = None,
) -> dict[str, TransactionDescription]:
    """What the coordinators know of transactional ids. Raises BrokerRefused or RetriesExhausted.

    With `skip_missing`, ids that are not there are left out.
    """
    described: dict[str, TransactionDescription] = {}
    for transactional_id in transactional_ids:
        request = ApiRequest(requests.DESCRIBE_TRANSACTIONS, {"transactional_ids": [transactional_id]})
        what = f"describing transactional id {transactional_id!r}"
        kind = CoordinatorKind.TRANSACTION
        try:
            answer = await ask_coordinator(cluster, kind, transactional_id, request, _described_error, what, retries)
        except BrokerRefused as refusal:
            if not skip_missing or refusal.error is not ErrorCode.transactional_id_not_found:
                raise
        else:
            described[transactional_id] = _transaction_description(answer.transaction_states[0])
    return described


def _described_error(message: Any) -> ErrorCode:
    error: ErrorCode = message.transaction_states[0].error_code
    return error


def _transaction_description(state: Any) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=str(state.transactional_id),
        state=state.transaction_state,
        producer_id=int(state.producer_id),
        producer_epoch=int(state.producer_epoch),
        timeout_ms=round(state.transaction_timeout.total_seconds() * 1000),
        start_ms=int(state.transaction_start_time_ms),
        partitions=frozenset(
            TopicPartition(str(topic.topic), int(number)) for topic in state.topics for number in topic.partitions
        ),
    )


async def list_transactions(
    cluster: Cluster, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), duration_ms: int = -1
) -> list[TransactionListing]:
    """The transactional ids that all nodes together coordinate, with filters where any are given.

    `duration_ms` leaves out those that have not run that long. Raises BrokerRefused or RetriesExhausted.
    """
    fields = {"state_filters": list(states), "producer_id_filters": list(producer_ids), "duration_filter": duration_ms}
    request = ApiRequest(requests.LIST_TRANSACTIONS, fields, version_min=1 if duration_ms >= 0 else 0)
    return await ask_every_node(cluster, request, _listed, "listing transactions")


def _listed(message: Any) -> list[TransactionListing]:
    return [
        TransactionListing(str(item.transactional_id), int(item.producer_id), item.transaction_state)
        for item in message.transaction_states
    ]
