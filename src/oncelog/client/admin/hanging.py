"""Transactions that hang: open in a partition although their coordinator has ended them, or never had them there (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from oncelog.client import requests
from oncelog.client.admin.transactions import describe_producers, describe_transactions, list_transactions
from oncelog.client.descriptions import OPEN_STATES, HangingProducer
from oncelog.client.errors import (
    RETRIABLE,
    STALE_METADATA,
    BrokerRefused,
    ClientError,
    ConnectionLost,
    IllegalState,
    RetriesExhausted,
)
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import ask
from oncelog.client.net.metadata import refresh
from oncelog.client.net.retry import Retries
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest
from oncelog.client.values import Address, ProducerState, TopicPartition, TransactionDescription
from oncelog.wire import ErrorCode

TRANSACTION_STATE = "__transaction_state"
Open = dict[tuple[TopicPartition, int], ProducerState]
"""The open transactions of partitions, by partition and producer id."""
Owners = dict[int, TransactionDescription]
"""The transactional ids of producer ids, as far as a coordinator knows."""


async def find_hanging(cluster: Cluster, partitions: Iterable[TopicPartition]) -> list[HangingProducer]:
    """The transactions that hang in these partitions. Raises BrokerRefused or RetriesExhausted.

    One that ends just now is open in a partition and not at its coordinator for a moment. So the partitions are asked before
    the coordinators and after them: what is open both times, and not in between at its coordinator, gets no marker any more.
    """
    before = await _open_in(cluster, partitions)
    owners = await _owners(cluster, {producer_id for _, producer_id in before})
    suspects = {key for key in before if not _is_open_at(owners.get(key[1]), key[0])}
    after = await _open_in(cluster, {partition for partition, _ in suspects})
    return [
        HangingProducer(key[0], state, owners[key[1]].transactional_id if key[1] in owners else None)
        for key, state in sorted(after.items())
        if key in suspects and _is_same(state, before[key])
    ]


async def abort_hanging(cluster: Cluster, partition: TopicPartition, start_offset: int) -> HangingProducer:
    """End a transaction that hangs in a partition from this offset on, there alone, as aborted: with a marker of its own.

    Raises IllegalState where none hangs there, or its producer has a transaction open: a marker could split that. Raises
    BrokerRefused or RetriesExhausted.
    """
    retries = await cluster.retries()
    ended: HangingProducer | None = None
    while True:
        found = await _hanging_at(cluster, partition, start_offset)
        if found is None:
            if ended is None:
                raise IllegalState(f"no transaction hangs in {partition} from offset {start_offset} on")
            return ended
        ended = found
        cause = await _write_marker(cluster, found, retries)
        if cause is None:
            return ended
        if not await retries.pause():
            raise RetriesExhausted(f"aborting the transaction that hangs in {partition}: {cause}") from cause


async def _hanging_at(cluster: Cluster, partition: TopicPartition, start_offset: int) -> HangingProducer | None:
    """Raises IllegalState where its producer has a transaction open, there or anywhere."""
    states = (await _open_in(cluster, [partition])).values()
    before = next((state for state in states if state.transaction_start_offset == start_offset), None)
    if before is None:
        return None
    owner = (await _owners(cluster, {before.producer_id})).get(before.producer_id)
    if owner is not None and owner.state in OPEN_STATES:
        raise IllegalState(
            f"transactional id {owner.transactional_id!r} has a transaction open: that is to be aborted first"
        )
    after = (await _open_in(cluster, [partition])).get((partition, before.producer_id))
    if after is None or not _is_same(after, before):
        return None
    return HangingProducer(partition, after, None if owner is None else owner.transactional_id)


async def _open_in(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Open:
    told = await describe_producers(cluster, partitions)
    return {
        (partition, state.producer_id): state
        for partition, states in told.items()
        for state in states
        if state.transaction_start_offset >= 0
    }


def _is_same(state: ProducerState, before: ProducerState) -> bool:
    return (state.producer_epoch, state.transaction_start_offset) == (
        before.producer_epoch,
        before.transaction_start_offset,
    )


def _is_open_at(owner: TransactionDescription | None, partition: TopicPartition) -> bool:
    return owner is not None and owner.state in OPEN_STATES and partition in owner.partitions


async def _owners(cluster: Cluster, producer_ids: Collection[int]) -> Owners:
    """The answer holds only while every coordinator stays where it is.

    The nodes do not answer at one moment. One that is not told yet that it coordinates lists nothing, and the one before it
    lists nothing any more. Raises BrokerRefused where an id may have a coordinator that does not answer, and RetriesExhausted.
    """
    owners = await _listed_owners(cluster, producer_ids)
    if all(one in owners and owners[one].state in OPEN_STATES for one in producer_ids):
        return owners
    retries = await cluster.retries()
    while True:
        before = await _coordinators(cluster)
        owners = await _listed_owners(cluster, producer_ids)
        if before == await _coordinators(cluster):
            return owners
        if not await retries.pause():
            raise RetriesExhausted("asking whose transactions are open: coordinators keep moving")


async def _listed_owners(cluster: Cluster, producer_ids: Collection[int]) -> Owners:
    if not producer_ids:
        return {}
    listed = await list_transactions(cluster, producer_ids=sorted(producer_ids))
    ids = {item.transactional_id: item.producer_id for item in listed}
    described = await describe_transactions(cluster, sorted(ids), skip_missing=True)
    return {ids[transactional_id]: description for transactional_id, description in described.items()}


async def _coordinators(cluster: Cluster) -> dict[TopicPartition, tuple[Address | None, int]]:
    """The addresses and leader epochs of the coordinators. Each has said itself that it leads."""
    (topic,) = await refresh(cluster, [TRANSACTION_STATE])
    for item in topic.partitions:
        if item.leader < 0:
            what = f"asking whose transactions are open: {TRANSACTION_STATE}-{item.partition} has no leader"
            raise BrokerRefused(ErrorCode.coordinator_not_available, what)
    partitions = [TopicPartition(TRANSACTION_STATE, item.partition) for item in topic.partitions]
    await describe_producers(cluster, partitions)
    return {one: (cluster.leader(one), cluster.leader_epoch(one)) for one in partitions}


async def _write_marker(cluster: Cluster, found: HangingProducer, retries: Retries) -> ClientError | None:
    """Once: whether it is still needed is looked at before it is tried again. Return why it is not known to be written."""
    state = found.state
    marker = {
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "transaction_result": False,
        "topics": [{"name": found.partition.topic, "partition_indexes": [found.partition.partition]}],
        # A partition without a marker of this producer names none, and takes the first one (KIP-664).
        "coordinator_epoch": max(state.coordinator_epoch, 0),
    }
    request = ApiRequest(requests.WRITE_TXN_MARKERS, {"markers": [marker]})
    leader = cluster.leader(found.partition)
    if leader is None:
        return RetriesExhausted(f"no leader is known for {found.partition}")
    try:
        answer = await ask(leader, request, await cluster.answer_timeout_ms(retries))
    except ConnectionLost as lost:
        cluster.forget_leader(found.partition)
        return lost
    error: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
    if error is ErrorCode.none:
        return None
    refusal = refused(request, error, f"aborting the transaction that hangs in {found.partition}")
    if error not in RETRIABLE:
        raise refusal
    if error in STALE_METADATA:
        cluster.forget_leader(found.partition)
    return refusal
