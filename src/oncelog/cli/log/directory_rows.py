"""Rows of the files that a data directory has once: the journal, the write-ahead log, checkpoints, meta.properties."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.broker.storage.journal import decode_line
from oncelog.cli.log.segment_rows import Row
from oncelog.cli.secrets import setting_value
from oncelog.environment import Disk
from oncelog.log import uuid_text
from oncelog.log.checkpoints import read_identity, read_partition_offsets, read_topic_id
from oncelog.log.inspection.read_only_disk import lines_of
from oncelog.log.write_ahead import read_entries


def journal_rows(disk: Disk, path: str) -> Iterator[Row]:
    """A row for each record. Values of settings that are passwords are hidden."""
    for line in lines_of(disk, path):
        record = decode_line(line.data) if line.is_whole else None
        if record is None:
            yield {
                "kind": "damage",
                "position": line.position,
                "size_bytes": len(line.data),
                "reason": "no whole record",
            }
            continue
        fields = record._asdict()
        if "configs" in fields:
            fields["configs"] = {name: setting_value(name, value) for name, value in fields["configs"].items()}
        yield {"kind": type(record).__name__, "position": line.position, **fields}


def write_ahead_rows(disk: Disk, path: str) -> Iterator[Row]:
    """A row for each entry; one without data vouches for the partition up to its log end offset, or cuts it off there."""
    data = disk.read_file(path)
    entries, end = read_entries(data, None)
    for entry in entries:
        yield {
            "kind": "cut" if entry.takes_back else "entry",
            "topic_id": uuid_text(entry.topic_id),
            "partition": entry.partition,
            "log_end_offset": entry.log_end_offset,
            "segment_base_offset": entry.tail.segment_base_offset,
            "position": entry.end_position if entry.takes_back else entry.tail.position,
            "size_bytes": len(entry.tail.data),
        }
    if end < len(data):
        yield {"kind": "damage", "position": end, "size_bytes": len(data) - end, "reason": "no whole entry"}


def checkpoint_rows(disk: Disk, path: str) -> Iterator[Row]:
    for (topic, partition), offset in read_partition_offsets(disk, path).items():
        yield {"kind": "checkpoint", "topic": topic, "partition": partition, "offset": offset}


def identity_rows(disk: Disk, path: str) -> Iterator[Row]:
    yield {"kind": "node", **read_identity(disk, path)._asdict()}


def topic_rows(disk: Disk, path: str) -> Iterator[Row]:
    yield {"kind": "topic", "topic_id": uuid_text(read_topic_id(disk, path))}
