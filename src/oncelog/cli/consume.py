"""`oncelog consume`: print the records of a topic, with the options of kcat."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from oncelog.cli.brokers import (
    POLL_MS,
    check_is_there,
    chosen_partitions,
    connect,
    existing_topics,
    offsets_at,
    polls,
    reach,
)
from oncelog.cli.options import (
    INT32_MAX,
    BootstrapServer,
    Config,
    Isolation,
    IsolationOption,
    Json,
    KeyDelimiter,
    filled,
)
from oncelog.cli.tables import note
from oncelog.client import (
    Client,
    CommitFailed,
    ConsumedRecord,
    Consumer,
    IsolationLevel,
    OffsetSpec,
    TopicDescription,
    TopicPartition,
)

ISOLATION_LEVELS = {
    Isolation.READ_COMMITTED: IsolationLevel.READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED,
}
NULL = b"NULL"


def command(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    offset: Annotated[
        str,
        typer.Option("-o", "--offset", metavar="beginning|end|N|-N", help="Where to start; -N is N before the end."),
    ] = "beginning",
    exit_at_end: Annotated[bool, typer.Option("-e", "--exit", help="Exit at the current end.")] = False,
    count: Annotated[int | None, typer.Option("-c", "--count", min=1, help="Exit after this many records.")] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("-p", "--partition", min=0, max=INT32_MAX, help="Only this partition; may be given again."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "-G",
            "--group",
            parser=filled,
            metavar="GROUP",
            help="Read as a member of this group, and commit what is printed.",
        ),
    ] = None,
    key_delimiter: KeyDelimiter = None,
    null: Annotated[bool, typer.Option("-Z", "--null", help="Print NULL for a null key or value.")] = False,
    isolation_level: IsolationOption = Isolation.READ_COMMITTED,
    control_records: Annotated[
        bool, typer.Option("--control-records", help="Show commit and abort markers too.")
    ] = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print the value of each record on a line; with -K the key before it, with --json the whole record as a JSON object.

    Records of open and aborted transactions are left out unless --isolation-level says otherwise. With --group the members of
    the group divide the partitions, and each goes on from the committed offset; -o says where to begin if there is none. A record
    that was printed but not committed when the command ended is printed again by the next member.
    """
    level = ISOLATION_LEVELS[isolation_level]
    chosen = reach(bootstrap_server, config)
    if group is not None:
        _check_group_options(offset, partition)
    render = json_line if as_json else PlainLines(key_delimiter, null).line
    with connect(chosen) as client:
        (described,) = existing_topics(client, [topic])
        wanted = chosen_partitions(described, partition)
        ends = offsets_at(client, wanted, OffsetSpec.LATEST, level)
        starts = _starts(client, offset, wanted, ends) if group is None else {}
        until = ends if exit_at_end else None
        consumer = Consumer(
            chosen.bootstrap_servers,
            group_id=group,
            auto_offset_reset="latest" if offset == "end" else "earliest",
            isolation_level=level,
            include_control=control_records,
            client_id=chosen.client_id,
            request_timeout_ms=chosen.request_timeout_ms,
            call_timeout_ms=chosen.call_timeout_ms,
            security=chosen.security,
        )
        with consumer:
            if group is None:
                consumer.assign(starts)
                _print(polls(client, consumer, described, until), count, render)
            else:
                consumer.subscribe([topic])
                print_as_member(client, consumer, described, until, count, render)


def _check_group_options(offset: str, partitions: list[int] | None) -> None:
    """Raises typer.BadParameter."""
    if partitions:
        raise typer.BadParameter("the members of a group divide the partitions: leave it out", param_hint="-p")
    if offset not in ("beginning", "end"):
        raise typer.BadParameter("with --group it is beginning or end", param_hint="-o")


def _starts(
    client: Client, offset: str, partitions: list[TopicPartition], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The first offset of each partition. Raises typer.BadParameter."""
    if offset == "end":
        return dict(ends)
    first = offsets_at(client, partitions, OffsetSpec.EARLIEST)
    if offset == "beginning":
        return first
    if not offset.removeprefix("-").isdecimal():
        raise typer.BadParameter("it is beginning, end, N or -N", param_hint="-o")
    number = int(offset)
    if offset.startswith("-"):
        return {item: max(first[item], ends[item] + number) for item in partitions}
    return _from(number, first, ends, offsets_at(client, partitions, OffsetSpec.LATEST))


def _from(
    number: int,
    first: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    high_watermarks: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offset, or the nearest one in the log. A partition that ends before it is read from its end, with a note.

    An offset that an open transaction holds back is not past the end.
    """
    beyond = [item for item, end in high_watermarks.items() if number > end]
    if beyond:
        named = ", ".join(f"{item} (ends at {high_watermarks[item]})" for item in beyond)
        note(f"offset {number} is past the end of {named}: reading begins at the end there")
    return {item: ends[item] if item in beyond else max(offset, number) for item, offset in first.items()}


def _print(
    found: Iterator[Sequence[ConsumedRecord]], count: int | None, render: Callable[[ConsumedRecord], bytes]
) -> None:
    """Print all that is found, or `count` records."""
    left = count
    for records in found:
        for record in records:
            sys.stdout.buffer.write(render(record) + b"\n")
            if left is not None:
                left -= 1
                if left == 0:
                    sys.stdout.buffer.flush()
                    return
        sys.stdout.buffer.flush()


@dataclass(frozen=True, slots=True)
class PlainLines:
    """Values as they are, one on a line; the key before each where there is a delimiter."""

    key_delimiter: bytes | None
    show_null: bool

    def line(self, record: ConsumedRecord) -> bytes:
        if record.control is not None:
            where = f"{record.topic}-{record.partition} offset {record.offset}"
            return f"[{record.control.name} of producer {record.producer_id} at {where}]".encode()
        value = self._text(record.value)
        if self.key_delimiter is None:
            return value
        return self._text(record.key) + self.key_delimiter + value

    def _text(self, data: bytes | None) -> bytes:
        if data is None:
            return NULL if self.show_null else b""
        return data


def json_line(record: ConsumedRecord) -> bytes:
    """Everything about a record. Bytes that are no UTF-8 become an object with the one field base64."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    }
    if record.control is not None:
        fields |= {"control": record.control.name, "producer_id": record.producer_id}
    else:
        fields |= {
            "key": _json_text(record.key),
            "value": _json_text(record.value),
            "headers": [[name, _json_text(value)] for name, value in record.headers],
        }
    return json.dumps(fields, ensure_ascii=False).encode()


def _json_text(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


RECORDS_MAX = 500


def print_as_member(
    client: Client,
    consumer: Consumer,
    topic: TopicDescription,
    ends: Mapping[TopicPartition, int] | None,
    count: int | None,
    render: Callable[[ConsumedRecord], bytes],
) -> None:
    """Print until the ends of the member's partitions are reached, `count` records are printed, or for ever.

    Raises CommandError if the topic is deleted before its ends are reached.
    """
    left = count
    while left != 0 and not (ends is not None and _is_at(consumer, ends)):
        records = consumer.poll(POLL_MS, records_max=RECORDS_MAX if left is None else min(left, RECORDS_MAX))
        for record in records:
            sys.stdout.buffer.write(render(record) + b"\n")
        # The reader of the output has the records before the group counts them as read.
        sys.stdout.buffer.flush()
        if records:
            _commit(consumer)
        elif ends is not None:
            check_is_there(client, topic)
        if left is not None:
            left -= len(records)


def _is_at(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    """True once this member has read its partitions to the ends. A member without partitions waits for some."""
    partitions = consumer.assignment
    return bool(partitions) and all(consumer.position(one) >= ends.get(one, 0) for one in partitions)


def _commit(consumer: Consumer) -> None:
    try:
        consumer.commit()
    except CommitFailed as failed:
        note(f"{failed}; the records printed last will be printed again by the next member")
