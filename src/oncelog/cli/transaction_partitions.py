"""What readers wait for in a transaction's partitions, and because of whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oncelog.cli.brokers import led_partitions_of, offsets_at
from oncelog.client import (
    Client,
    IsolationLevel,
    OffsetSpec,
    ProducerState,
    RetriesExhausted,
    TopicPartition,
    TransactionDescription,
)
from oncelog.client.descriptions import DECIDED_STATES

LEADER, MARKER = "leader", "marker"
"""What a partition waits for."""
COLUMNS = (
    *("topic", "partition", "first_offset", "last_stable_offset", "high_watermark"),
    *("held_back", "held_back_by", "waits_for"),
)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the leader of a partition says: who has a transaction open there, the first one first, and how far readers come."""

    open: tuple[ProducerState, ...]
    stable: int
    end: int

    @property
    def holder(self) -> ProducerState | None:
        """Whose transaction the readers wait for, if for any."""
        return self.open[0] if self.open and self.end > self.stable else None


def partition_rows(client: Client, description: TransactionDescription) -> list[dict[str, object]]:
    """A row for each partition of a transaction; without offsets where nobody leads, for nobody knows them then."""
    partitions = sorted(description.partitions)
    told = _asked_of_leaders(client, partitions)
    names = _names_of_holders(client, description, told.values())
    return [_row(description, partition, told.get(partition), names) for partition in partitions]


def _asked_of_leaders(client: Client, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, _Told]:
    led = _led(client, partitions)
    while True:
        try:
            return _ask_leaders(client, led)
        except RetriesExhausted:
            # A broker that was killed a moment ago is still named as a leader.
            before, led = led, _led(client, partitions)
            if led == before:
                raise


def _led(client: Client, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    if not partitions:
        return []
    topics = client.metadata({partition.topic for partition in partitions}, wanted=partitions).values()
    led = {partition for topic in topics for partition in led_partitions_of(topic)}
    return [partition for partition in partitions if partition in led]


def _ask_leaders(client: Client, led: Sequence[TopicPartition]) -> dict[TopicPartition, _Told]:
    producers = client.describe_producers(led)
    stable = offsets_at(client, led, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
    ends = offsets_at(client, led, OffsetSpec.LATEST)
    return {
        partition: _Told(_open_states(producers[partition]), stable[partition], ends[partition]) for partition in led
    }


def _open_states(states: Iterable[ProducerState]) -> tuple[ProducerState, ...]:
    is_open = (state for state in states if state.transaction_start_offset >= 0)
    return tuple(sorted(is_open, key=lambda state: state.transaction_start_offset))


def _names_of_holders(client: Client, description: TransactionDescription, told: Iterable[_Told]) -> dict[int, str]:
    """The transactional ids by their producer ids; where none is known, as of a hanging transaction, "producer 4711"."""
    holders = {one.holder.producer_id for one in told if one.holder is not None}
    names = {producer_id: f"producer {producer_id}" for producer_id in holders}
    others = sorted(holders - {description.producer_id})
    if others:
        names |= {item.producer_id: item.transactional_id for item in client.list_transactions(producer_ids=others)}
    return names | {description.producer_id: description.transactional_id}


def _row(
    description: TransactionDescription, partition: TopicPartition, told: _Told | None, names: dict[int, str]
) -> dict[str, object]:
    row = dict.fromkeys(COLUMNS) | {"topic": partition.topic, "partition": partition.partition}
    if told is None:
        return row | {"waits_for": LEADER}
    own = [state for state in told.open if state.producer_id == description.producer_id]
    holder = told.holder
    is_holder = holder is not None and holder.producer_id == description.producer_id
    return row | {
        "first_offset": own[0].transaction_start_offset if own else None,
        "last_stable_offset": told.stable,
        "high_watermark": told.end,
        "held_back": told.end - told.stable if is_holder else 0,
        "held_back_by": None if holder is None else names[holder.producer_id],
        "waits_for": MARKER if own and description.state in DECIDED_STATES else None,
    }
