"""`oncelog groups reset-offsets`: the offsets from which a group goes on, shown first and written with --execute."""

from __future__ import annotations

import csv
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from oncelog.cli.brokers import chosen_partitions, connect, existing_topics, offsets_at, reach
from oncelog.cli.exits import CommandError, ExitStatus, read_text
from oncelog.cli.options import BootstrapServer, Config, Json, filled_path
from oncelog.cli.tables import note, print_json, print_table
from oncelog.client import Client, OffsetAndMetadata, OffsetSpec, TopicPartition
from oncelog.client.descriptions import DEAD, EMPTY

DURATION = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
TopicOption = Annotated[
    list[str],
    typer.Option(
        "--topic", metavar="TOPIC[:PARTITION,…]", help="A topic, or some of its partitions; may be given again."
    ),
]
FILE_COLUMNS = ("topic", "partition", "offset")

Offsets = Mapping[TopicPartition, int]
Target = Callable[[Client, Sequence[TopicPartition], Offsets], Offsets]
"""From partitions and the group's offsets to the new offsets, which need not be in the log."""


def earliest(client: Client, partitions: Sequence[TopicPartition], _committed: Offsets) -> Offsets:
    return offsets_at(client, partitions, OffsetSpec.EARLIEST)


def latest(client: Client, partitions: Sequence[TopicPartition], _committed: Offsets) -> Offsets:
    return offsets_at(client, partitions, OffsetSpec.LATEST)


def current(client: Client, partitions: Sequence[TopicPartition], committed: Offsets) -> Offsets:
    """The committed offset, or the end of a partition that has none."""
    return {**latest(client, [item for item in partitions if item not in committed], committed), **committed}


def at_offset(offset: int) -> Target:
    def target(_client: Client, partitions: Sequence[TopicPartition], _committed: Offsets) -> Offsets:
        return dict.fromkeys(partitions, offset)

    return target


def shifted(count: int) -> Target:
    """Raises CommandError where the group has no offset."""

    def target(_client: Client, partitions: Sequence[TopicPartition], committed: Offsets) -> Offsets:
        for partition in partitions:
            if partition not in committed:
                raise CommandError(f"the group has no offset in {partition} to shift", ExitStatus.REFUSED)
        return {partition: committed[partition] + count for partition in partitions}

    return target


def at_time(time_ms: int) -> Target:
    """The first record at or after a time, or the end if there is none. A time before 1970 means the first record."""

    def target(client: Client, partitions: Sequence[TopicPartition], committed: Offsets) -> Offsets:
        # ListOffsets gives negative timestamps a meaning of their own.
        found = offsets_at(client, partitions, max(time_ms, 0))
        ends = latest(client, [item for item in partitions if found[item] < 0], committed)
        return {**found, **ends}

    return target


def listed(offsets: Offsets) -> Target:
    def target(_client: Client, partitions: Sequence[TopicPartition], _committed: Offsets) -> Offsets:
        return {partition: offsets[partition] for partition in partitions}

    return target


def datetime_ms(text: str) -> int:
    """Read an ISO 8601 time, in UTC unless it says otherwise. Raises typer.BadParameter."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time like 2026-01-31T23:59:59", param_hint="--to-datetime") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def duration_ms(text: str) -> int:
    """Read an ISO 8601 duration of days, hours, minutes and seconds. Raises typer.BadParameter."""
    matched = DURATION.fullmatch(text)
    if matched is None:
        raise typer.BadParameter(f"{text!r} is no duration like P1DT2H30M", param_hint="--by-duration")
    parts = {unit: float(number) for unit, number in matched.groupdict(default="0").items()}
    try:
        return round(timedelta(**parts).total_seconds() * 1000)
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long", param_hint="--by-duration") from None


def read_file(path: Path) -> dict[TopicPartition, int]:
    """Read lines topic,partition,offset. Raises CommandError."""
    try:
        rows = [row for row in csv.reader(read_text(path).splitlines()) if row]
    except csv.Error as error:
        raise CommandError(f"{path}: {error}", ExitStatus.USAGE) from error
    offsets: dict[TopicPartition, int] = {}
    for row in rows:
        if len(row) != len(FILE_COLUMNS) or not all(number.strip().isdecimal() for number in row[1:]):
            raise CommandError(f"{path}: {','.join(row)!r} is not topic,partition,offset", ExitStatus.USAGE)
        offsets[TopicPartition(row[0].strip(), int(row[1]))] = int(row[2])
    return offsets


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
        bool, typer.Option("--all-topics", help="Every topic in which the group has an offset.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Go to the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Go to the end.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Keep the offsets; go to the end of partitions without one.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="OFFSET", help="Go to this offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Move forward by N offsets, or back if N is negative.")
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
            help="Go to the offsets in the lines topic,partition,offset of a file.",
        ),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Write the offsets instead of only showing them.")] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Print lines topic,partition,offset, which --from-file reads.")
    ] = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the offsets from which a group without members would go on, and write them with --execute.

    An offset that is not in the log becomes the nearest one that is.
    """
    in_file = None if from_file is None else read_file(from_file)
    target = _the_one(
        earliest if to_earliest else None,
        latest if to_latest else None,
        current if to_current else None,
        None if to_offset is None else at_offset(to_offset),
        None if shift_by is None else shifted(shift_by),
        None if to_datetime is None else at_time(datetime_ms(to_datetime)),
        None if by_duration is None else at_time(_now_ms() - duration_ms(by_duration)),
        None if in_file is None else listed(in_file),
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
        partitions = named_partitions(client, sorted({item.topic for item in committed}) if all_topics else wanted)
        planned = _within_the_log(client, partitions, target(client, partitions, committed))
        if execute and planned:
            client.commit_offsets(name, {partition: OffsetAndMetadata(offset) for partition, offset in planned.items()})
    _show(name, committed, planned, export=export, as_json=as_json)
    if not execute:
        note("nothing was written: --execute writes it")


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
    """Raises CommandError for a group with members: they would commit their own offsets over the new ones."""
    state = client.describe_group(name).state
    if state not in (EMPTY, DEAD):
        raise CommandError(f"group {name} has members: it is {state}", ExitStatus.REFUSED)


def _within_the_log(client: Client, partitions: Sequence[TopicPartition], wanted: Offsets) -> Offsets:
    """Limit the offsets to the start and the end of each partition."""
    starts = earliest(client, partitions, {})
    ends = latest(client, partitions, {})
    planned: dict[TopicPartition, int] = {}
    for partition in partitions:
        offset = wanted[partition]
        planned[partition] = min(max(offset, starts[partition]), ends[partition])
        if offset != planned[partition]:
            note(f"{partition} has no offset {offset}: the nearest is {planned[partition]}")
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


def named_partitions(client: Client, texts: Sequence[str]) -> list[TopicPartition]:
    """Read TOPIC[:PARTITION,…]. Raises CommandError for a partition that is not there, typer.BadParameter for no number."""
    chosen: set[TopicPartition] = set()
    for text in texts:
        name, separator, numbers = text.partition(":")
        (topic,) = existing_topics(client, [name])
        chosen.update(chosen_partitions(topic, list(map(_number, numbers.split(","))) if separator else None))
    return sorted(chosen)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is no partition", param_hint="--topic")
    return int(text)
