"""`oncelog transactions find-hanging`, and the abort of a hanging transaction (KIP-664)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from oncelog.cli.brokers import chosen_partitions, connect, existing_topics, led_partitions_of, partitions_of, reach
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import BootstrapServer, Config, Json, confirm
from oncelog.cli.tables import note, print_json, print_rows, print_table
from oncelog.client import Client, HangingProducer, IllegalState, TopicDescription, TopicPartition

COLUMNS = (
    *("topic", "partition", "start_offset", "transactional_id"),
    *("producer_id", "producer_epoch", "coordinator_epoch", "last_timestamp"),
)


def find_hanging(
    topic: Annotated[
        str | None, typer.Option("--topic", help="Look in this topic alone.", show_default="all topics")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", min=0, help="Look in this partition of --topic.", show_default="all partitions"),
    ] = None,
    broker_id: Annotated[
        int | None,
        typer.Option("--broker-id", help="Look in the partitions that this broker leads.", show_default="all brokers"),
    ] = None,
    max_transaction_timeout: Annotated[
        float,
        typer.Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            min=0,
            help="Only transactions that have written nothing for this long.",
        ),
    ] = 0,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Find transactions that are open in a partition, but not at their coordinators.

    They get no marker, so readers of committed records stop there. `abort --topic` ends one.
    """
    if partition is not None and topic is None:
        raise typer.BadParameter("--partition needs --topic")
    with connect(reach(bootstrap_server, config)) as client:
        topics = list(client.metadata().values()) if topic is None else existing_topics(client, [topic])
        chosen = [place for one in topics for place in _chosen(one, partition, broker_id)]
        found = client.find_hanging_transactions(chosen)
    latest_ms = (time.time() - max_transaction_timeout * 60) * 1000
    rows = [_row(one) for one in found if one.state.last_timestamp_ms <= latest_ms]
    print_rows(COLUMNS, rows, as_json=as_json)
    leaderless = [str(place) for one in topics for place in partitions_of(one) if place not in led_partitions_of(one)]
    if leaderless and broker_id is None:
        note(f"not looked at, for they have no leader: {', '.join(leaderless)}")


def _chosen(topic: TopicDescription, number: int | None, broker_id: int | None) -> list[TopicPartition]:
    """Raises CommandError for a partition that is not there."""
    chosen = chosen_partitions(topic, None if number is None else [number])
    leaders = {item.partition: item.leader for item in topic.partitions}
    return [
        place for place in led_partitions_of(topic) if place in chosen and broker_id in (None, leaders[place.partition])
    ]


def abort_in_partition(
    client: Client, partition: TopicPartition, start_offset: int, *, yes: bool, as_json: bool
) -> None:
    """Show the hanging transaction, ask, and abort it. Raises CommandError if there is none."""
    found = client.find_hanging_transactions([partition])
    shown = [_row(one) for one in found if one.state.transaction_start_offset == start_offset]
    if shown and not as_json:
        print_table(COLUMNS, shown)
    if shown:
        confirm("Abort it?", yes=yes)
    try:
        ended = client.abort_hanging_transaction(partition, start_offset)
    except IllegalState as state:
        raise CommandError(f"nothing was changed: {state}", ExitStatus.REFUSED) from state
    if as_json:
        print_json(_row(ended))
    else:
        print(f"aborted the transaction that hung in {partition} from offset {start_offset} on")


def _row(found: HangingProducer) -> dict[str, object]:
    state = found.state
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "start_offset": state.transaction_start_offset,
        "transactional_id": found.transactional_id,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "coordinator_epoch": state.coordinator_epoch,
        "last_timestamp": datetime.fromtimestamp(state.last_timestamp_ms / 1000, UTC).isoformat(timespec="seconds"),
    }
