"""`oncelog log`, and its command `dump`: the content of a file, or of every file of a directory, in rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from oncelog.broker.storage.journal import FILE_NAME as JOURNAL
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.log.coordinator_rows import decoder_of
from oncelog.cli.log.files import disk_to_read
from oncelog.cli.log.repair import repair
from oncelog.cli.log.rows import (
    Row,
    checkpoint_rows,
    epoch_rows,
    identity_rows,
    journal_rows,
    offset_index_rows,
    segment_rows,
    snapshot_rows,
    time_index_rows,
    topic_rows,
    transaction_index_rows,
    write_ahead_rows,
)
from oncelog.cli.log.verify import verify
from oncelog.cli.options import filled_path
from oncelog.environment import Disk, DiskError
from oncelog.log import PARTITION_METADATA
from oncelog.log.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
)
from oncelog.log.names import (
    LEADER_EPOCHS,
    LOG,
    OFFSET_DIGITS,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    partition_of,
)
from oncelog.log.write_ahead import PREFIX

app = typer.Typer()

Rows = Callable[[Disk, str], Iterator[Row]]

BY_SUFFIX: dict[str, Rows] = {
    OFFSET_INDEX: offset_index_rows,
    TIME_INDEX: time_index_rows,
    TRANSACTION_INDEX: transaction_index_rows,
    SNAPSHOT: snapshot_rows,
}
BY_NAME: dict[str, Rows] = {
    LEADER_EPOCHS: epoch_rows,
    PARTITION_METADATA: topic_rows,
    META_PROPERTIES: identity_rows,
    RECOVERY_POINTS: checkpoint_rows,
    LOG_START_OFFSETS: checkpoint_rows,
    HIGH_WATERMARKS: checkpoint_rows,
    CLEANED_OFFSETS: checkpoint_rows,
    JOURNAL: journal_rows,
}


@app.command()
def dump(
    paths: Annotated[
        list[Path],
        typer.Argument(parser=filled_path, metavar="PATH…", help="Files, partition directories or data directories."),
    ],
    records: Annotated[
        bool, typer.Option("--records", help="Show the records of batches, keys and values too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each row.")] = False,
) -> None:
    """Show the content of the files of a log: batches, indexes, producers, epochs, checkpoints, the journal.

    The records of __transaction_state and __consumer_offsets are decoded. Nothing is locked and nothing is changed: while a
    broker runs, the last batch of a file may be incomplete.
    """
    with disk_to_read() as disk:
        for path in paths:
            for file in _files(path):
                rows = rows_of(str(file), with_records=records)
                if rows is not None:
                    _print(disk, str(file), rows, as_json=as_json)
                elif path == file:
                    known = ", ".join((LOG, *BY_SUFFIX, *BY_NAME))
                    raise CommandError(f"{file} is no file of a log: those are {known}", ExitStatus.USAGE)


app.command()(verify)
app.command()(repair)


def rows_of(path: str, *, with_records: bool) -> Rows | None:
    """The reader for a file of this name; None for a file that is not the log's."""
    directory, _, name = path.rpartition("/")
    if name in BY_NAME:
        return BY_NAME[name]
    if name.startswith(PREFIX):
        return write_ahead_rows
    suffix = name[OFFSET_DIGITS:]
    if suffix == LOG:
        partition = partition_of(directory.rpartition("/")[2])
        decoder = None if partition is None else decoder_of(partition[0])
        return partial(segment_rows, with_records=with_records, decoder=decoder)
    return BY_SUFFIX.get(suffix)


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or the files in a directory and those below it."""
    path = path.absolute()
    if not path.exists():
        raise CommandError(f"{path} is not there", ExitStatus.USAGE)
    if not path.is_dir():
        yield path
        return
    for directory, directories, names in os.walk(path):
        directories.sort()
        for name in sorted(names):
            yield Path(directory, name)


def _print(disk: Disk, path: str, rows: Rows, *, as_json: bool) -> None:
    if not as_json:
        print(f"{path}:")
    try:
        for row in rows(disk, path):
            if as_json:
                print(json.dumps({"file": path, **row}, ensure_ascii=False))
            else:
                print(f"  {text_of(row)}")
    except DiskError as error:
        row = {"kind": "damage", "reason": str(error)}
        print(json.dumps({"file": path, **row}, ensure_ascii=False) if as_json else f"  {text_of(row)}")


def text_of(row: Row) -> str:
    """A row in one line: names and values; text is escaped, so that no record ends the line."""
    kind, *rest = row.items()
    return " ".join((str(kind[1]), *(f"{name}: {_value(value)}" for name, value in rest)))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and value.isprintable() and " " not in value and value:
        return value
    if value is None:
        return "none"
    return json.dumps(value, ensure_ascii=True) if isinstance(value, str | list | dict) else str(value)
