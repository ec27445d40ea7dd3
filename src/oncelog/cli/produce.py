"""`oncelog produce`: write lines to a topic, with the options of kcat."""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from oncelog.cli.brokers import client_failure, reach
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import INT32_MAX, BootstrapServer, Config, Json, KeyDelimiter, filled, filled_path, is_utf8
from oncelog.cli.tables import print_rows
from oncelog.client import ClientError, Delivery, DeliveryUnknown, Producer

IN_FLIGHT_MAX = 10_000


class Compression(StrEnum):
    """The codecs of record batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """The replicas that must have a record before it counts as written."""

    ALL = "all"
    LEADER = "1"
    NOBODY = "0"


class PartitionerName(StrEnum):
    """The partitioners."""

    MURMUR2 = "murmur2"
    CONSISTENT_RANDOM = "consistent_random"
    STICKY = "sticky"
    ROUNDROBIN = "roundrobin"


class Line(NamedTuple):
    """One line of input, taken apart."""

    key: bytes | None
    value: bytes | None


def command(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic; created if the broker creates topics automatically.")
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(parser=filled_path, metavar="[FILE…]", help="Files to read; standard input if none."),
    ] = None,
    key_delimiter: KeyDelimiter = None,
    key: Annotated[str | None, typer.Option("-k", "--key", help="The key of every record.")] = None,
    partition: Annotated[
        int | None, typer.Option("-p", "--partition", min=0, max=INT32_MAX, help="The partition.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header; may be given again.")
    ] = None,
    empty_is_null: Annotated[bool, typer.Option("-Z", "--null", help="An empty key or value is null.")] = False,
    compression: Annotated[
        Compression, typer.Option("-z", "--compression", help="How to compress.")
    ] = Compression.NONE,
    acks: Annotated[
        Acks,
        typer.Option(
            "--acks", help="The replicas that must have a record before it counts: all in sync, the leader, none."
        ),
    ] = Acks.ALL,
    idempotence: Annotated[
        bool | None,
        typer.Option(
            "--idempotence/--no-idempotence",
            help="Write a record once, however often it is sent.",
            show_default="on with --acks all",
        ),
    ] = None,
    linger_ms: Annotated[
        float, typer.Option("--linger-ms", min=0, help="How long a record waits for others to share its batch.")
    ] = 5,
    partitioner: Annotated[
        PartitionerName,
        typer.Option("--partitioner", help="Where records go: by key as Java or librdkafka, together, or in turn."),
    ] = PartitionerName.MURMUR2,
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

    Records are written once and in order even if connections break; without idempotence they may be written twice, and with
    --acks 0 they may be lost. With --transactional-id readers see all of them or, if anything goes wrong, none.
    """
    for path in files or []:
        _check_readable(path)
    fixed_key = None if key is None else os.fsencode(key)
    lines = taken_apart(_raw_lines(files or []), key_delimiter, fixed_key, empty_is_null=empty_is_null)
    headers = [_header(text) for text in header or []]
    chosen = reach(bootstrap_server, config)
    try:
        producer = Producer(
            chosen.bootstrap_servers,
            transactional_id=transactional_id,
            compression=compression.value,
            acks=acks.value,
            enable_idempotence=idempotence,
            linger_ms=linger_ms,
            partitioner=partitioner.value,
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
            counts = _send_alone(producer, topic, lines, partition, headers)
        else:
            counts = _send_in_transaction(producer, topic, lines, partition, headers)
    rows = [{"topic": topic, "partition": number, "records": counts[number]} for number in sorted(counts)]
    print_rows(("topic", "partition", "records"), rows, as_json=as_json)


def taken_apart(
    raw: Iterable[bytes], delimiter: bytes | None, key: bytes | None, *, empty_is_null: bool
) -> Iterator[Line]:
    """Split each line into key and value at the first delimiter. A line without one has no key of its own."""
    for line in raw:
        before, found, after = line.partition(delimiter) if delimiter else (b"", b"", line)
        own_key, value = (before, after) if found else (key, line)
        if empty_is_null:
            yield Line(own_key or None, value or None)
        else:
            yield Line(own_key, value)


def _header(text: str) -> tuple[str, bytes]:
    """NAME=VALUE as it is: blanks belong to it. Raises typer.BadParameter."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    if not is_utf8(name):
        raise typer.BadParameter(f"{text!r} has a name that is not UTF-8", param_hint="--header")
    return name, os.fsencode(value)


def _check_readable(path: Path) -> None:
    """Raises CommandError before anything is sent: a second run would write the files before this one twice.

    A pipe is not opened for the check: its writer would see it close.
    """
    try:
        if not stat.S_ISFIFO(path.stat().st_mode):
            path.open("rb").close()
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", ExitStatus.USAGE) from error


def _raw_lines(files: list[Path]) -> Iterator[bytes]:
    if not files:
        if sys.stdin is None:
            raise CommandError("standard input is closed: name a file to read", ExitStatus.USAGE)
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
    sent = SentLines()
    producer.init_transactions()
    producer.begin_transaction()
    try:
        _send_all(producer, topic, lines, partition, headers, sent)
    except BaseException:
        # Nothing is committed, whether or not the abort succeeds: the first error is the one to report.
        with suppress(ClientError):
            producer.abort_transaction()
        raise
    producer.commit_transaction()
    return sent.counts


def _send_alone(
    producer: Producer, topic: str, lines: Iterable[Line], partition: int | None, headers: list[tuple[str, bytes]]
) -> dict[int, int]:
    """Raises CommandError, which says how many of the records that were sent are written."""
    sent = SentLines()
    try:
        _send_all(producer, topic, lines, partition, headers, sent)
    except (ClientError, CommandError) as error:
        raise sent.cut_short(error) from error
    return sent.counts


def _send_all(
    producer: Producer,
    topic: str,
    lines: Iterable[Line],
    partition: int | None,
    headers: list[tuple[str, bytes]],
    sent: SentLines,
) -> None:
    for line in lines:
        sent.waiting.append(producer.send(topic, line.value, key=line.key, partition=partition, headers=headers))
        if len(sent.waiting) >= IN_FLIGHT_MAX:
            sent.wait()
    producer.flush()
    sent.wait()


@dataclass(slots=True)
class SentLines:
    """The results of the records that were sent: `counts` has the number of records that each partition took."""

    counts: dict[int, int] = field(default_factory=dict)
    waiting: deque[Delivery] = field(default_factory=deque)

    def wait(self) -> None:
        """Wait for the deliveries. Raises the error of a record that failed, which stays the first of `waiting`."""
        while self.waiting:
            written = self.waiting[0].result()
            self.waiting.popleft()
            self.counts[written.partition] = self.counts.get(written.partition, 0) + 1

    def cut_short(self, error: ClientError | CommandError) -> CommandError:
        """The error with what is known of the records before it."""
        failure = error if isinstance(error, CommandError) else client_failure(error)
        unknown = failed = 0
        while self.waiting:
            try:
                self.wait()
            except DeliveryUnknown:
                self.waiting.popleft()
                unknown += 1
            except ClientError:
                self.waiting.popleft()
                failed += 1
        written = sum(self.counts.values())
        total = written + unknown + failed
        if total == 0:
            return failure
        return CommandError(
            f"{failure.sentence}; of {total} records that were sent {written} were acknowledged, "
            f"{unknown} may be written or not, and {failed} are not",
            failure.status,
        )
