"""Producers and transactions: what operators ask of leaders and coordinators, and how they end one that is open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oncelog.client import requests
from oncelog.client.admin.operations import ask_every_node
from oncelog.client.descriptions import OPEN_STATES, EndedTransaction, TransactionEnd, TransactionStateName
from oncelog.client.errors import (
    RETRIABLE,
    STALE_COORDINATOR,
    BrokerRefused,
    ClientError,
    ConnectionLost,
    OutcomeUnknown,
    RetriesExhausted,
)
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ask_coordinator
from oncelog.client.net.flows import Now, ask
from oncelog.client.net.leaders import ask_leaders, by_topic
from oncelog.client.net.retry import Retries
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest, milliseconds
from oncelog.client.values import ProducerState, TopicPartition, TransactionDescription, TransactionListing
from oncelog.wire import ErrorCode


async def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[ProducerState, ...]]:
    """The producers of each partition, as its leader knows them. Raises BrokerRefused, RetriesExhausted."""

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
    """The transactions of transactional ids, as their coordinators know them. Raises BrokerRefused or RetriesExhausted.

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


OWN_IDENTITY_VERSION = 3
ENDS: Mapping[str, TransactionEnd] = {
    TransactionStateName.PREPARE_EPOCH_FENCE: TransactionEnd.ABORTED,
    TransactionStateName.PREPARE_ABORT: TransactionEnd.ABORTED,
    TransactionStateName.COMPLETE_ABORT: TransactionEnd.ABORTED,
    TransactionStateName.PREPARE_COMMIT: TransactionEnd.COMMITTED,
    TransactionStateName.COMPLETE_COMMIT: TransactionEnd.COMMITTED,
}
OVERTAKEN = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch})
"""A newer producer has the id, or a newer transaction is open."""
ASK_AGAIN_MS = 2_000
"""CONCURRENT_TRANSACTIONS means that the request began the abort, unless something else was under way for the id. A request
that comes again too soon may take the id over, and its description says nothing of the transaction after that."""


async def abort_transaction(cluster: Cluster, transactional_id: str, start_ms: int | None = None) -> EndedTransaction:
    """Abort the transaction that is open, or the one that began at `start_ms`, and fence its producer.

    One that was decided already ends as it was decided. Returns when it is complete, or, once it is decided, when the time
    is over: a marker waits for a partition that has no leader. Raises BrokerRefused, RetriesExhausted, and OutcomeUnknown
    when it has ended by itself meanwhile, or nothing tells whether it is aborted.
    """
    retries = await cluster.retries()
    now = await _described(cluster, transactional_id, retries)
    if start_ms is None and now.state not in OPEN_STATES:
        return EndedTransaction(TransactionEnd.NOTHING_OPEN, now)
    wanted_ms = now.start_ms if start_ms is None else start_ms
    is_asked, cause, ask_at_ms = False, None, float("-inf")
    while now.start_ms == wanted_ms and now.state in OPEN_STATES:
        moment_ms = await Now()
        if now.state == TransactionStateName.ONGOING and moment_ms >= ask_at_ms:
            is_asked, cause = True, await _ask_for_id(cluster, now, retries)
            if isinstance(cause, BrokerRefused) and cause.error is ErrorCode.concurrent_transactions:
                moment_ms = await Now()
                ask_at_ms = moment_ms + ASK_AGAIN_MS
        if not await retries.pause():
            break
        try:
            now = await _described(cluster, transactional_id, retries)
        except RetriesExhausted:
            break
    end = _end(now, wanted_ms, cause)
    is_aborted = end is TransactionEnd.ABORTED and now.state not in OPEN_STATES
    return EndedTransaction(end, now, is_asked and is_aborted and await _fence(cluster, now, retries))


async def _described(cluster: Cluster, transactional_id: str, retries: Retries) -> TransactionDescription:
    found = await describe_transactions(cluster, [transactional_id], retries=retries)
    return found[transactional_id]


async def _ask_for_id(
    cluster: Cluster, now: TransactionDescription, retries: Retries
) -> ConnectionLost | RetriesExhausted | BrokerRefused | None:
    """Ask once for the id; return why it was not given out. Raises BrokerRefused where that will not change.

    The coordinator aborts a transaction that is open first, and answers CONCURRENT_TRANSACTIONS (KIP-98): what came of it, the
    description tells. A request with the producer id and epoch (KIP-360) does not end a transaction of a newer producer.
    """
    fields = {
        "transactional_id": now.transactional_id,
        "transaction_timeout": milliseconds(now.timeout_ms),
        "producer_id": now.producer_id,
        "producer_epoch": now.producer_epoch,
    }
    request = ApiRequest(requests.INIT_PRODUCER_ID, fields, version_min=OWN_IDENTITY_VERSION)
    kind = CoordinatorKind.TRANSACTION
    try:
        address = await cluster.coordinator(kind, now.transactional_id, retries)
        answer = await ask(address, request, await cluster.answer_timeout_ms(retries))
    except (ConnectionLost, RetriesExhausted) as error:
        cluster.forget_coordinator(kind, now.transactional_id)
        return error
    if answer.error_code is ErrorCode.none:
        return None
    if answer.error_code in STALE_COORDINATOR:
        cluster.forget_coordinator(kind, now.transactional_id)
    refusal = refused(request, answer.error_code, f"aborting the transaction of {now.transactional_id!r}")
    if answer.error_code not in RETRIABLE | OVERTAKEN:
        raise refusal
    return refusal


async def _fence(cluster: Cluster, now: TransactionDescription, retries: Retries) -> bool:
    """Take the id of a transaction that was aborted. Whether that has come about.

    The abort alone is one epoch further, which its producer may take for the end of its own transaction, and go on (KIP-890).
    """
    while True:
        try:
            error = await _ask_for_id(cluster, now, retries)
        except BrokerRefused:
            return False
        if error is None or (isinstance(error, BrokerRefused) and error.error in OVERTAKEN):
            return True
        if not await retries.pause():
            return False


def _end(now: TransactionDescription, wanted_ms: int, cause: ClientError | None) -> TransactionEnd:
    """Raises OutcomeUnknown unless the description says how the transaction ended, or is to end."""
    if now.start_ms != wanted_ms:
        raise OutcomeUnknown(
            f"the transaction of {now.transactional_id!r} ended by itself meanwhile: its markers in the log tell how"
        )
    end = ENDS.get(now.state)
    if end is None:
        what = f"aborting the transaction of {now.transactional_id!r}, which was {now.state} when the time was over"
        raise OutcomeUnknown(f"{what}: {cause}") from cause
    return end
