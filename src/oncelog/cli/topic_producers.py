"""`oncelog topics producers`: who writes to a topic, as the leaders of its partitions know them (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.cli.brokers import connect, existing_topics, led_partitions_of
from oncelog.cli.options import BootstrapServer, Config, Json, Topics
from oncelog.cli.reach import reach
from oncelog.cli.tables import print_json, print_table
from oncelog.client import Client, ProducerState, TopicPartition

COLUMNS = (
    *("topic", "partition", "transactional_id", "producer_id", "producer_epoch", "last_sequence", "last_timestamp_ms"),
    *("coordinator_epoch", "transaction_start_offset"),
)


def producers(
    names: Topics, bootstrap_server: BootstrapServer = None, config: Config = None, as_json: Json = False
) -> None:
    """Show the producers that each partition knows: their epoch, last sequence, and where their open transaction begins.

    Those that have written without idempotence are not among them. A producer is forgotten producer.id.expiration.ms after its
    last record. Partitions without a leader are left out.
    """
    with connect(reach(bootstrap_server, config)) as client:
        partitions = [one for topic in existing_topics(client, names) for one in led_partitions_of(topic)]
        found = client.describe_producers(partitions)
        ids = _transactional_ids(client, {state.producer_id for states in found.values() for state in states})
    rows = [
        _row(partition, state, ids)
        for partition in sorted(found)
        for state in sorted(found[partition], key=lambda one: one.producer_id)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(COLUMNS, rows)


def _transactional_ids(client: Client, producer_ids: Iterable[int]) -> dict[int, str]:
    wanted = sorted(producer_ids)
    if not wanted:
        return {}
    return {item.producer_id: item.transactional_id for item in client.list_transactions(producer_ids=wanted)}


def _row(partition: TopicPartition, state: ProducerState, ids: dict[int, str]) -> dict[str, object]:
    """Kafka says -1 where there is nothing to say: no record yet, no marker yet, no transaction open."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "transactional_id": ids.get(state.producer_id),
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "last_sequence": _known(state.last_sequence),
        "last_timestamp_ms": _known(state.last_timestamp_ms),
        "coordinator_epoch": _known(state.coordinator_epoch),
        "transaction_start_offset": _known(state.transaction_start_offset),
    }


def _known(number: int) -> int | None:
    return number if number >= 0 else None
