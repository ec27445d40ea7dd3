"""Where an offset can be reset to: each target says for some partitions at which offset a group is to go on."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from oncelog.cli.brokers import offsets_at
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.files import read_text
from oncelog.client import Client, OffsetSpec, TopicPartition

DURATION = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
FILE_COLUMNS = ("topic", "partition", "offset")

Offsets = Mapping[TopicPartition, int]
Target = Callable[[Client, Sequence[TopicPartition], Offsets], Offsets]
"""From partitions, and the offsets that the group has, to those it is to have; they need not be in the log."""


def earliest(client: Client, partitions: Sequence[TopicPartition], _committed: Offsets) -> Offsets:
    return offsets_at(client, partitions, OffsetSpec.EARLIEST)


def latest(client: Client, partitions: Sequence[TopicPartition], _committed: Offsets) -> Offsets:
    return offsets_at(client, partitions, OffsetSpec.LATEST)


def current(client: Client, partitions: Sequence[TopicPartition], committed: Offsets) -> Offsets:
    """Where the group is, and the end of what it has never read."""
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
    """The first record at or after a time, and the end where there is none. Before 1970 all is after it."""

    def target(client: Client, partitions: Sequence[TopicPartition], committed: Offsets) -> Offsets:
        # Numbers below 0 stand for other things than times.
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
