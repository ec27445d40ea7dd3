"""`oncelog transactions`: which transaction is open, since when, what it holds back, and how to end it."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from oncelog.cli.brokers import connect
from oncelog.cli.options import BootstrapServer, Config, Json, seconds
from oncelog.cli.reach import reach
from oncelog.cli.tables import print_json, print_table
from oncelog.cli.transaction_hanging import abort_in_partition, ask, find_hanging
from oncelog.cli.transaction_partitions import COLUMNS as PARTITION_COLUMNS
from oncelog.cli.transaction_partitions import LEADER, partition_rows
from oncelog.client import Client, TopicPartition, TransactionDescription, TransactionEnd, TransactionStateName
from oncelog.client.descriptions import OPEN_STATES

app = typer.Typer()
app.command()(find_hanging)

COLUMNS = ("transactional_id", "state", "open_seconds", "timeout_seconds", "producer_id", "epoch")
Id = Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")]


@app.command("list")
def list_transactions(
    state: Annotated[
        list[TransactionStateName] | None, typer.Option("--state", help="Only this state; may be given again.")
    ] = None,
    open_for_seconds: Annotated[
        float | None,
        typer.Option("--open-for", parser=seconds, metavar="SECONDS", help="Only those open for at least so long."),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """List transactional ids, and how long each has had a transaction open."""
    with connect(reach(bootstrap_server, config)) as client:
        duration_ms = -1 if open_for_seconds is None else round(open_for_seconds * 1000)
        listed = client.list_transactions(states=[item.value for item in state or []], duration_ms=duration_ms)
        # What was listed goes on meanwhile: an id may be forgotten, or in another state.
        described = client.describe_transactions(sorted(item.transactional_id for item in listed), skip_missing=True)
    rows = [
        _row(description)
        for description in described.values()
        if (not state or description.state in state) and (open_for_seconds is None or description.state in OPEN_STATES)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(COLUMNS, rows)


@app.command()
def describe(
    transactional_id: Id,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show one transaction, and for each of its partitions the records that readers wait for because of it.

    A read_committed reader stops at the last stable offset, where the first transaction that is open there begins. That one holds
    back what lies between it and the high watermark. A partition waits for a leader, or for the marker of a transaction whose end
    is decided.
    """
    with connect(reach(bootstrap_server, config)) as client:
        description = _described(client, transactional_id)
        partitions = partition_rows(client, description)
    if as_json:
        print_json({**_row(description), "partitions": partitions})
    else:
        _show(description, partitions)


@app.command()
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The transactional id.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Without an id: where a transaction hangs, as find-hanging shows it.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="The partition of --topic.")] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="The offset at which it begins there.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Abort the open transaction of an id, and fence its producer, or end one that hangs in a partition.

    First it shows what will be ended, and asks. A transaction whose end is decided already ends as it was decided. One that
    hangs is ended as aborted, in its partition alone.
    """
    where = (topic, partition, start_offset)
    if (transactional_id is None) == (where == (None, None, None)):
        raise typer.BadParameter("name either an ID or --topic, --partition and --start-offset")
    if as_json and not yes:
        raise typer.BadParameter("--json does not ask: it needs --yes")
    with connect(reach(bootstrap_server, config)) as client:
        if transactional_id is not None:
            _abort(client, transactional_id, yes=yes, as_json=as_json)
        elif topic is not None and partition is not None and start_offset is not None:
            abort_in_partition(client, TopicPartition(topic, partition), start_offset, yes=yes, as_json=as_json)
        else:
            raise typer.BadParameter("a transaction that hangs needs all of --topic, --partition and --start-offset")


def _abort(client: Client, transactional_id: str, *, yes: bool, as_json: bool) -> None:
    before = _described(client, transactional_id)
    if before.state not in OPEN_STATES:
        _report(before, TransactionEnd.NOTHING_OPEN, [], as_json=as_json)
        return
    if not as_json:
        _show(before, partition_rows(client, before))
    was_decided = before.state != TransactionStateName.ONGOING
    if not was_decided:
        ask("Abort it?", yes=yes)
    ended = client.abort_transaction(transactional_id, start_ms=before.start_ms)
    waiting = [] if ended.is_complete else partition_rows(client, ended.description)
    _report(ended.description, ended.end, waiting, as_json=as_json, was_decided=was_decided)
    if ended.end is TransactionEnd.ABORTED and not ended.is_fenced:
        _note("its producer is not fenced: it learns that its transaction was aborted, and may begin another one")


def _described(client: Client, transactional_id: str) -> TransactionDescription:
    return client.describe_transactions([transactional_id])[transactional_id]


def _report(
    description: TransactionDescription,
    end: TransactionEnd,
    partitions: list[dict[str, object]],
    *,
    as_json: bool,
    was_decided: bool = False,
) -> None:
    """Say how it ended, and where readers still wait for a marker."""
    waiting = [f"{row['topic']}-{row['partition']}" for row in partitions if row["waits_for"] is not None]
    if as_json:
        print_json({**_row(description), "end": end.value, "waiting": waiting})
        return
    name = description.transactional_id
    if end is TransactionEnd.NOTHING_OPEN:
        print(f"nothing was open: {name} is {description.state}")
    elif was_decided or end is TransactionEnd.COMMITTED:
        print(f"the end of {name} had been decided already: {end}")
    else:
        print(f"{end} {name}")
    for row in partitions:
        if row["waits_for"] is not None:
            print(f"{row['topic']}-{row['partition']} still waits for its {row['waits_for']}")


def _show(description: TransactionDescription, partitions: list[dict[str, object]]) -> None:
    print_table(COLUMNS, [_row(description)])
    if partitions:
        print()
        print_table(PARTITION_COLUMNS, partitions)
    leaderless = [f"{row['topic']}-{row['partition']}" for row in partitions if row["waits_for"] == LEADER]
    if leaderless:
        _note(f"without a leader, and so without offsets: {', '.join(leaderless)}")


def _note(text: str) -> None:
    print(f"oncelog: {text}", file=sys.stderr)


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
