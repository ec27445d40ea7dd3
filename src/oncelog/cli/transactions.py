"""`oncelog transactions`: which transaction is open, since when, and what it holds back."""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from oncelog.cli.brokers import connect, offsets_at
from oncelog.cli.options import BootstrapServer, Config, Json
from oncelog.cli.reach import reach
from oncelog.cli.tables import print_json, print_table
from oncelog.client import Client, IsolationLevel, OffsetSpec, TopicPartition, TransactionDescription

app = typer.Typer()


class TransactionStateName(StrEnum):
    """Where a transaction is, as Kafka names it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"


OPEN_STATES = frozenset(
    {TransactionStateName.ONGOING, TransactionStateName.PREPARE_COMMIT, TransactionStateName.PREPARE_ABORT}
)
"""Those in which readers wait. The start of a transaction is told in others too: it is then the last one's."""


@app.command("list")
def list_transactions(
    state: Annotated[
        list[TransactionStateName] | None, typer.Option("--state", help="Only this state; may be given again.")
    ] = None,
    open_for_seconds: Annotated[
        float | None, typer.Option("--open-for", metavar="SECONDS", min=0, help="Only those open for at least so long.")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """List transactional ids, and how long each has had a transaction open."""
    with connect(reach(bootstrap_server, config)) as client:
        duration_ms = -1 if open_for_seconds is None else round(open_for_seconds * 1000)
        listed = client.list_transactions(states=[item.value for item in state or []], duration_ms=duration_ms)
        described = client.describe_transactions(sorted(item.transactional_id for item in listed))
        rows = [_row(description) for description in described.values()]
    if as_json:
        print_json(rows)
    else:
        print_table(("transactional_id", "state", "open_seconds", "timeout_seconds", "producer_id", "epoch"), rows)


@app.command()
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")],
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show one transaction, and for each of its partitions the records that readers wait for because of it.

    A read_committed reader stops at the last stable offset: what lies between it and the high watermark is held back.
    """
    with connect(reach(bootstrap_server, config)) as client:
        description = client.describe_transactions([transactional_id])[transactional_id]
        partitions = _partition_rows(client, description)
    row = _row(description)
    if as_json:
        print_json({**row, "partitions": partitions})
        return
    print_table(("transactional_id", "state", "open_seconds", "timeout_seconds", "producer_id", "epoch"), [row])
    if partitions:
        columns = ("topic", "partition", "first_offset", "last_stable_offset", "high_watermark", "held_back")
        print()
        print_table(columns, partitions)


def _row(description: TransactionDescription) -> dict[str, object]:
    is_open = description.state in OPEN_STATES
    return {
        "transactional_id": description.transactional_id,
        "state": description.state,
        "open_seconds": round(time.time() - description.start_ms / 1000, 1) if is_open else None,
        "timeout_seconds": description.timeout_ms / 1000,
        "producer_id": description.producer_id,
        "epoch": description.producer_epoch,
    }


def _partition_rows(client: Client, description: TransactionDescription) -> list[dict[str, object]]:
    partitions = sorted(description.partitions)
    if not partitions:
        return []
    stable = offsets_at(client, partitions, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
    ends = offsets_at(client, partitions, OffsetSpec.LATEST)
    first = _first_offsets(client, partitions, description.producer_id)
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "first_offset": first.get(partition),
            "last_stable_offset": stable[partition],
            "high_watermark": ends[partition],
            "held_back": ends[partition] - stable[partition],
        }
        for partition in partitions
    ]


def _first_offsets(client: Client, partitions: Iterable[TopicPartition], producer_id: int) -> dict[TopicPartition, int]:
    """Where the producer's open transaction starts in each partition that has records of it."""
    return {
        partition: state.transaction_start_offset
        for partition, states in client.describe_producers(partitions).items()
        for state in states
        if state.producer_id == producer_id and state.transaction_start_offset >= 0
    }
