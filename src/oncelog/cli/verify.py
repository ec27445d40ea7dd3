"""`oncelog verify`: find the records that a pipeline lost, duplicated or put out of order."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from oncelog.checking import Comparison, Sighting, compare
from oncelog.cli.brokers import Reach, connect, existing_topics, offsets_at, partitions_of, polls, reach
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import BootstrapServer, Config, Json, filled
from oncelog.cli.tables import note, print_json, print_table
from oncelog.client import ConsumedRecord, Consumer, IsolationLevel, OffsetSpec, TopicPartition

MISSING = object()

Identify = Callable[[ConsumedRecord], bytes | None]
Where = Callable[[ConsumedRecord], bool]


def command(
    source: Annotated[str, typer.Option("--from", metavar="TOPIC", help="The input topic.")],
    target: Annotated[str, typer.Option("--to", metavar="TOPIC", help="The output topic.")],
    key: Annotated[
        str,
        typer.Option(
            "--key",
            metavar="key|value|value:FIELD|header:NAME",
            help="What identifies a record in both topics. FIELD is a field of a JSON value; a.b is nested.",
        ),
    ] = "key",
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            parser=filled,
            metavar="FIELD",
            help="Expect only input whose JSON value has this field, not null.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="The number of records of each kind to list.")] = 10,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Compare two topics as a read_committed reader sees them now; exit with 1 if a record is lost, duplicated or misplaced.

    A lost record has its offset in the input, the others have their offsets in the output. A record is out of order when
    another record of the same key is before it in the output and after it in the input.
    """
    identify = identity_from(key)
    expect = _has_field(where) if where else lambda record: True
    chosen = reach(bootstrap_server, config)
    with _progress() as progress:
        inputs = list(_sightings(chosen, source, identify, expect, progress))
        found = compare(inputs, _sightings(chosen, target, identify, lambda record: True, progress))
    if as_json:
        print_json(comparison_as_json(found, source, target, limit))
    else:
        _print(found, source, target, limit)
    if not found.is_exact:
        raise typer.Exit(ExitStatus.DIFFERENT)


def identity_from(spec: str) -> Identify:
    """Read --key. Raises typer.BadParameter."""
    kind, _, name = spec.partition(":")
    if spec == "key":
        return lambda record: record.key
    if spec == "value":
        return lambda record: record.value
    if kind == "value" and name:
        return lambda record: _field_bytes(record.value, name)
    if kind == "header" and name:
        return lambda record: dict(record.headers).get(name)
    raise typer.BadParameter("it is key, value, value:FIELD or header:NAME", param_hint="--key")


def _field(value: bytes | None, path: str) -> object:
    """A field of a JSON value; MISSING where there is none."""
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return MISSING
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            return MISSING
        found = found[name]
    return found


def _field_bytes(value: bytes | None, path: str) -> bytes | None:
    found = _field(value, path)
    return None if found is MISSING else json.dumps(found, sort_keys=True).encode()


def _has_field(path: str) -> Where:
    return lambda record: _field(record.value, path) not in (MISSING, None)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def _sightings(
    chosen: Reach, topic: str, identify: Identify, where: Where, progress: Progress
) -> Iterator[Sighting[bytes]]:
    """The records of a topic up to where it ends now. Raises CommandError for one without an identity."""
    for record in _records(chosen, topic, progress):
        if not where(record):
            continue
        identity = identify(record)
        if identity is None:
            place = f"{topic}-{record.partition} offset {record.offset}"
            raise CommandError(f"the record at {place} has nothing under --key", ExitStatus.USAGE)
        yield Sighting(identity, record.key, record.partition, record.offset)


def _records(chosen: Reach, topic: str, progress: Progress) -> Iterator[ConsumedRecord]:
    with connect(chosen) as client:
        (described,) = existing_topics(client, [topic])
        partitions = partitions_of(described)
        starts = offsets_at(client, partitions, OffsetSpec.EARLIEST)
        # In this order, records that are appended in between cause no note.
        high_watermarks = offsets_at(client, partitions, OffsetSpec.LATEST)
        ends = offsets_at(client, partitions, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
        _note_held_back(ends, high_watermarks)
        first = sum(starts.values())
        task = progress.add_task(f"reading {topic}", total=sum(ends.values()) - first)
        consumer = Consumer(
            chosen.bootstrap_servers,
            client_id=chosen.client_id,
            request_timeout_ms=chosen.request_timeout_ms,
            call_timeout_ms=chosen.call_timeout_ms,
            security=chosen.security,
        )
        with consumer:
            consumer.assign(starts)
            for records in polls(client, consumer, described, ends):
                yield from records
                progress.update(task, completed=sum(consumer.position(item) for item in partitions) - first)


def _note_held_back(ends: Mapping[TopicPartition, int], high_watermarks: Mapping[TopicPartition, int]) -> None:
    """Name the partitions with records that become visible only when open transactions end."""
    held = [f"{item} from offset {end} on" for item, end in ends.items() if end < high_watermarks[item]]
    if held:
        note(f"not compared, because transactions are open there: {', '.join(held)}")


def comparison_as_json(found: Comparison[bytes], source: str, target: str, limit: int) -> dict[str, object]:
    """All the counts, and up to `limit` records of each kind."""
    return {
        "from": source,
        "to": target,
        "exact": found.is_exact,
        "expected": found.expected,
        "found": found.found,
        "lost": {"count": len(found.lost), "records": [_place(source, item) for item in found.lost[:limit]]},
        "duplicated": {
            "count": len(found.duplicated),
            "records": [_place(target, item) for item in found.duplicated[:limit]],
        },
        "unexpected": {
            "count": len(found.unexpected),
            "records": [_place(target, item) for item in found.unexpected[:limit]],
        },
        "out_of_order": {
            "count": len(found.out_of_order),
            "records": [
                {**_place(target, item.record), "comes_after_offset": item.comes_after.offset}
                for item in found.out_of_order[:limit]
            ],
        },
    }


def _place(topic: str, sighting: Sighting[bytes]) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": sighting.partition,
        "offset": sighting.offset,
        "identity": sighting.identity.decode(errors="replace"),
    }


def _print(found: Comparison[bytes], source: str, target: str, limit: int) -> None:
    counts = {
        "expected": found.expected,
        "found": found.found,
        "lost": len(found.lost),
        "duplicated": len(found.duplicated),
        "unexpected": len(found.unexpected),
        "out_of_order": len(found.out_of_order),
    }
    print_table(tuple(counts), [counts])
    listed = [
        *({"what": "lost", **_place(source, item)} for item in found.lost[:limit]),
        *({"what": "duplicated", **_place(target, item)} for item in found.duplicated[:limit]),
        *({"what": "unexpected", **_place(target, item)} for item in found.unexpected[:limit]),
        *({"what": "out of order", **_place(target, item.record)} for item in found.out_of_order[:limit]),
    ]
    if listed:
        print()
        print_table(("what", "topic", "partition", "offset", "identity"), listed)
