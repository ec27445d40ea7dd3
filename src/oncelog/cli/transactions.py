"""`oncelog transactions`: list, describe and abort; find-hanging has a file of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from oncelog.cli.brokers import connect, led_partitions_of, offsets_at, reach
from oncelog.cli.options import BootstrapServer, Config, Json, Yes, confirm, seconds
from oncelog.cli.tables import note, print_json, print_rows, print_table
from oncelog.cli.transaction_hanging import abort_in_partition, find_hanging
from oncelog.client import (
    Client,
    IsolationLevel,
    OffsetSpec,
    ProducerState,
    RetriesExhausted,
    TopicPartition,
    TransactionDescription,
    TransactionEnd,
    TransactionStateName,
)
from oncelog.client.descriptions import DECIDED_STATES, OPEN_STATES

LEADER, MARKER = "leader", "marker"
"""The things that a partition can wait for."""
PARTITION_COLUMNS = (
    *("topic", "partition", "first_offset", "last_stable_offset", "high_watermark"),
    *("held_back", "held_back_by", "waits_for"),
)
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
        typer.Option(
            "--open-for", parser=seconds, metavar="SECONDS", help="Only transactions open for at least this long."
        ),
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
    print_rows(COLUMNS, rows, as_json=as_json)


@app.command()
def describe(
    transactional_id: Id,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show one transaction, and for each of its partitions the records that it holds back from readers.

    A read_committed reader stops at the last stable offset, which is the first offset of the oldest open transaction. That
    transaction holds back the records up to the high watermark. A partition waits for a leader, or for the marker of a transaction
    whose end is decided.
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
        str | None,
        typer.Option("--topic", help="Without an id: the topic of a hanging transaction, from find-hanging."),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="The partition of --topic.")] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="Its first offset in that partition.")
    ] = None,
    yes: Yes = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Abort the open transaction of an id and fence its producer, or abort a transaction that hangs in a partition.

    It shows the transaction, and asks. A transaction whose end is decided already ends as decided. A hanging transaction is
    aborted in its partition alone.
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
        confirm("Abort it?", yes=yes)
    ended = client.abort_transaction(transactional_id, start_ms=before.start_ms)
    waiting = [] if ended.is_complete else partition_rows(client, ended.description)
    _report(ended.description, ended.end, waiting, as_json=as_json, was_decided=was_decided)
    if ended.end is TransactionEnd.ABORTED and not ended.is_fenced:
        note("its producer is not fenced: it learns that its transaction was aborted, and may begin another one")


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
        note(f"without a leader, and so without offsets: {', '.join(leaderless)}")


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


@dataclass(frozen=True, slots=True)
class LedPartition:
    """The open transactions of a partition, the oldest first, and its offsets, as its leader knows them."""

    open: tuple[ProducerState, ...]
    last_stable_offset: int
    high_watermark: int

    @property
    def holder(self) -> ProducerState | None:
        """The producer whose transaction holds readers back, if any does."""
        return self.open[0] if self.open and self.high_watermark > self.last_stable_offset else None


def partition_rows(client: Client, description: TransactionDescription) -> list[dict[str, object]]:
    """A row for each partition of a transaction; a partition without a leader has no offsets."""
    partitions = sorted(description.partitions)
    leaders = _led_partitions(client, partitions)
    names = _names_of_holders(client, description, leaders.values())
    return [_partition_row(description, partition, leaders.get(partition), names) for partition in partitions]


def _led_partitions(client: Client, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LedPartition]:
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


def _ask_leaders(client: Client, led: Sequence[TopicPartition]) -> dict[TopicPartition, LedPartition]:
    producers = client.describe_producers(led)
    stable = offsets_at(client, led, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
    ends = offsets_at(client, led, OffsetSpec.LATEST)
    return {
        partition: LedPartition(_open_states(producers[partition]), stable[partition], ends[partition])
        for partition in led
    }


def _open_states(states: Iterable[ProducerState]) -> tuple[ProducerState, ...]:
    is_open = (state for state in states if state.transaction_start_offset >= 0)
    return tuple(sorted(is_open, key=lambda state: state.transaction_start_offset))


def _names_of_holders(
    client: Client, description: TransactionDescription, states: Iterable[LedPartition]
) -> dict[int, str]:
    """The transactional ids by producer id. A hanging transaction has none, and is named "producer 4711"."""
    holders = {one.holder.producer_id for one in states if one.holder is not None}
    names = {producer_id: f"producer {producer_id}" for producer_id in holders}
    others = sorted(holders - {description.producer_id})
    if others:
        names |= {item.producer_id: item.transactional_id for item in client.list_transactions(producer_ids=others)}
    return names | {description.producer_id: description.transactional_id}


def _partition_row(
    description: TransactionDescription,
    partition: TopicPartition,
    state: LedPartition | None,
    names: dict[int, str],
) -> dict[str, object]:
    row = dict.fromkeys(PARTITION_COLUMNS) | {"topic": partition.topic, "partition": partition.partition}
    if state is None:
        return row | {"waits_for": LEADER}
    own = [one for one in state.open if one.producer_id == description.producer_id]
    holder = state.holder
    is_holder = holder is not None and holder.producer_id == description.producer_id
    return row | {
        "first_offset": own[0].transaction_start_offset if own else None,
        "last_stable_offset": state.last_stable_offset,
        "high_watermark": state.high_watermark,
        "held_back": state.high_watermark - state.last_stable_offset if is_holder else 0,
        "held_back_by": None if holder is None else names[holder.producer_id],
        "waits_for": MARKER if own and description.state in DECIDED_STATES else None,
    }
