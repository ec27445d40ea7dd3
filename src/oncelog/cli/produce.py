"""`oncelog produce`: write lines to a topic, with kcat's habits."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import BootstrapServer, Config, Json, KeyDelimiter, filled, filled_path, named_values
from oncelog.cli.reach import reach
from oncelog.cli.tables import print_json, print_table
from oncelog.client import Delivery, Producer, RecordMetadata

IN_FLIGHT_MAX = 10_000


class Compression(StrEnum):
    """The codecs of record batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Line(NamedTuple):
    """One line of input, taken apart."""

    key: bytes | None
    value: bytes | None


def command(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic; made if the broker makes topics by itself.")
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(parser=filled_path, metavar="[FILE…]", help="Files to read; standard input if none."),
    ] = None,
    key_delimiter: KeyDelimiter = None,
    key: Annotated[str | None, typer.Option("-k", "--key", help="The key of every record.")] = None,
    partition: Annotated[int | None, typer.Option("-p", "--partition", min=0, help="The partition.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header; may be given again.")
    ] = None,
    empty_is_null: Annotated[bool, typer.Option("-Z", "--null", help="An empty key or value is null.")] = False,
    compression: Annotated[
        Compression, typer.Option("-z", "--compression", help="How to compress.")
    ] = Compression.NONE,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id", parser=filled, metavar="ID", help="Write everything in one transaction of this id."
        ),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Write each line as a record, and print how many went to which partition.

    Records are written once and in order even if connections break. With --transactional-id readers see all of them or,
    if anything goes wrong, none.
    """
    lines = taken_apart(_raw_lines(files or []), key_delimiter, key, empty_is_null=empty_is_null)
    headers = [(name, value.encode()) for name, value in named_values(header or [], "--header").items()]
    chosen = reach(bootstrap_server, config)
    try:
        producer = Producer(
            chosen.bootstrap_servers,
            transactional_id=transactional_id,
            compression=compression.value,
            client_id=chosen.client_id,
            delivery_timeout_ms=chosen.call_timeout_ms,
            request_timeout_ms=chosen.request_timeout_ms,
            call_timeout_ms=chosen.call_timeout_ms,
            security=chosen.security,
        )
    except ValueError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
    with producer:
        if transactional_id is None:
            counts = _send_all(producer, topic, lines, partition, headers)
        else:
            counts = _send_in_transaction(producer, topic, lines, partition, headers)
    rows = [{"topic": topic, "partition": number, "records": counts[number]} for number in sorted(counts)]
    if as_json:
        print_json(rows)
    else:
        print_table(("topic", "partition", "records"), rows)


def taken_apart(raw: Iterable[bytes], delimiter: str | None, key: str | None, *, empty_is_null: bool) -> Iterator[Line]:
    """Split each line into key and value at the first delimiter. A line without one has no key of its own."""
    fixed_key = None if key is None else key.encode()
    separator = None if delimiter is None else delimiter.encode().decode("unicode_escape").encode()
    for line in raw:
        before, found, after = line.partition(separator) if separator else (b"", b"", line)
        own_key, value = (before, after) if found else (fixed_key, line)
        if empty_is_null:
            yield Line(own_key or None, value or None)
        else:
            yield Line(own_key, value)


def _raw_lines(files: list[Path]) -> Iterator[bytes]:
    if not files:
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        return
    for path in files:
        try:
            with open(path, "rb") as file:
                yield from (line.rstrip(b"\r\n") for line in file)
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}", ExitStatus.USAGE) from error


def _send_in_transaction(
    producer: Producer, topic: str, lines: Iterable[Line], partition: int | None, headers: list[tuple[str, bytes]]
) -> dict[int, int]:
    producer.init_transactions()
    producer.begin_transaction()
    try:
        counts = _send_all(producer, topic, lines, partition, headers)
    except BaseException:
        producer.abort_transaction()
        raise
    producer.commit_transaction()
    return counts


def _send_all(
    producer: Producer, topic: str, lines: Iterable[Line], partition: int | None, headers: list[tuple[str, bytes]]
) -> dict[int, int]:
    """Send each line; return the number of records that each partition took."""
    counts: dict[int, int] = {}
    waiting: list[Delivery] = []
    for line in lines:
        waiting.append(producer.send(topic, line.value, key=line.key, partition=partition, headers=headers))
        if len(waiting) >= IN_FLIGHT_MAX:
            _count(counts, waiting)
    producer.flush()
    _count(counts, waiting)
    return counts


def _count(counts: dict[int, int], waiting: list[Delivery]) -> None:
    for delivery in waiting:
        written: RecordMetadata = delivery.result()
        counts[written.partition] = counts.get(written.partition, 0) + 1
    waiting.clear()
