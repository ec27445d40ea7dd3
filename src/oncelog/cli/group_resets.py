"""`oncelog groups reset-offsets`: where a group is to go on, shown first and written with --execute."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from oncelog.cli import reset_targets
from oncelog.cli.brokers import connect
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.group_partitions import chosen_partitions
from oncelog.cli.options import BootstrapServer, Config, Json, filled_path
from oncelog.cli.reach import reach
from oncelog.cli.reset_targets import Offsets, Target
from oncelog.cli.tables import print_json, print_table
from oncelog.client import Client, OffsetAndMetadata, TopicPartition
from oncelog.client.descriptions import DEAD, EMPTY

COLUMNS = ("group", "topic", "partition", "current_offset", "new_offset")


def command(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="The group; it must have no members.")],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="TOPIC[:PARTITION,…]", help="A topic, or some of its partitions; may be given again."
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every topic that the group has an offset in.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Go to the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Go to the end.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Stay; go to the end of what has no offset yet.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="OFFSET", help="Go to this offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Go on by so many offsets; back if N is negative.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime", metavar="TIME", help="Go to the first record since, say, 2026-01-31T23:59:59 (UTC)."
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="PnDTnHnMnS", help="Go to the first record that is no older than this."),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            parser=filled_path,
            metavar="FILE",
            help="Go where the lines topic,partition,offset of a file say.",
        ),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Write the offsets, and do not just show them.")] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Print lines topic,partition,offset, which --from-file reads.")
    ] = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show where a group without members would go on, and write it with --execute.

    An offset that a partition does not have becomes the nearest that it has.
    """
    in_file = None if from_file is None else reset_targets.read_file(from_file)
    target = _the_one(
        reset_targets.earliest if to_earliest else None,
        reset_targets.latest if to_latest else None,
        reset_targets.current if to_current else None,
        None if to_offset is None else reset_targets.at_offset(to_offset),
        None if shift_by is None else reset_targets.shifted(shift_by),
        None if to_datetime is None else reset_targets.at_time(reset_targets.datetime_ms(to_datetime)),
        None if by_duration is None else reset_targets.at_time(_now_ms() - reset_targets.duration_ms(by_duration)),
        None if in_file is None else reset_targets.listed(in_file),
    )
    if sum((bool(topic), all_topics, in_file is not None)) != 1:
        raise typer.BadParameter("name either --topic or --all-topics, and with --from-file none of them")
    if export and as_json:
        raise typer.BadParameter("name --export or --json, not both")
    with connect(reach(bootstrap_server, config)) as client:
        _check_inactive(client, name)
        found = client.committed_offsets(name, require_stable=False)
        committed = {partition: item.offset for partition, item in found.items()}
        wanted = topic or [f"{item.topic}:{item.partition}" for item in in_file or ()]
        partitions = chosen_partitions(client, sorted({item.topic for item in committed}) if all_topics else wanted)
        planned = _within_the_log(client, partitions, target(client, partitions, committed))
        if execute and planned:
            client.commit_offsets(name, {partition: OffsetAndMetadata(offset) for partition, offset in planned.items()})
    _show(name, committed, planned, export=export, as_json=as_json)
    if not execute:
        _note("nothing was written: --execute writes it")


def _the_one(*targets: Target | None) -> Target:
    given = [target for target in targets if target is not None]
    if len(given) != 1:
        raise typer.BadParameter(
            "name one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration "
            "and --from-file"
        )
    return given[0]


def _now_ms() -> int:
    return round(time.time() * 1000)


def _check_inactive(client: Client, name: str) -> None:
    """Members would go on from where they are, and write over what is reset. Raises CommandError."""
    state = client.describe_group(name).state
    if state not in (EMPTY, DEAD):
        raise CommandError(f"group {name} has members: it is {state}", ExitStatus.REFUSED)


def _within_the_log(client: Client, partitions: Sequence[TopicPartition], wanted: Offsets) -> Offsets:
    """Move what is before the start of a partition to its start, and what is after its end to its end."""
    starts = reset_targets.earliest(client, partitions, {})
    ends = reset_targets.latest(client, partitions, {})
    planned: dict[TopicPartition, int] = {}
    for partition in partitions:
        offset = wanted[partition]
        planned[partition] = min(max(offset, starts[partition]), ends[partition])
        if offset != planned[partition]:
            _note(f"{partition} has no offset {offset}: the nearest is {planned[partition]}")
    return planned


def _show(name: str, committed: Offsets, planned: Offsets, *, export: bool, as_json: bool) -> None:
    rows = [
        {
            "group": name,
            "topic": partition.topic,
            "partition": partition.partition,
            "current_offset": committed.get(partition),
            "new_offset": offset,
        }
        for partition, offset in planned.items()
    ]
    if as_json:
        print_json(rows)
    elif export:
        csv.writer(sys.stdout, lineterminator="\n").writerows(
            (*partition, offset) for partition, offset in planned.items()
        )
    else:
        print_table(COLUMNS, rows)


def _note(text: str) -> None:
    print(f"oncelog: {text}", file=sys.stderr)
