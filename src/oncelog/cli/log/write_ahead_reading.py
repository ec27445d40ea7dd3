"""What the write-ahead log of a broker that does not run would put back into the partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from oncelog.environment import Disk
from oncelog.log.inspection.findings import AtStart, Finding, Report, Severity
from oncelog.log.names import LOG, offset_name
from oncelog.log.write_ahead import ENTRY_OVERHEAD_BYTES, Entry, Replayed, files_in, read_entries, what_counts
from oncelog.records import crc32c

SEARCHED_BYTES = 256 * 1024


@dataclass(slots=True)
class WriteAheadContent:
    """Where its files are, the patches by path, and up to where each partition is durable."""

    home: str | None = None
    patches: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    replayed: Replayed = field(default_factory=Replayed)


def read_write_ahead(
    disk: Disk, home: str, partition_path: Callable[[UUID, int], str | None], report: Report, *, lost_power: bool
) -> WriteAheadContent:
    """After a power cut any part of what was not synced may be missing, and what is behind it is not read."""
    content = WriteAheadContent(home)
    sizes: dict[str, int] = {}
    before: int | None = None
    found: list[tuple[str, Entry]] = []
    for number, path in files_in(disk, home):
        if number != content.replayed.next_number:
            before = None
        data = disk.read_file(path)
        entries, before = read_entries(data, before)
        content.replayed.files.append(path)
        content.replayed.next_number = number + 1
        if before < len(data) or not data:
            _report_rest(path, data, before, report, lost_power=lost_power)
        found += [(path, entry) for entry in entries]
    for (path, _), entry in zip(found, what_counts([entry for _, entry in found]), strict=True):
        content.replayed.vouch(entry)
        directory = partition_path(entry.topic_id, entry.partition)
        if directory is not None:
            _patch(disk, content, sizes, directory, entry, EntrySource(path, report))
    return content


@dataclass(frozen=True, slots=True)
class EntrySource:
    """The file that an entry is from, and who hears what is wrong with it."""

    path: str
    report: Report


def _patch(
    disk: Disk, content: WriteAheadContent, sizes: dict[str, int], directory: str, entry: Entry, source: EntrySource
) -> None:
    tail = entry.tail
    path = f"{directory}/{offset_name(tail.segment_base_offset, LOG)}"
    if path not in sizes:
        if not disk.exists(path):
            return
        file = disk.open(path)
        sizes[path] = file.size_bytes
        file.close()
    if sizes[path] < tail.position:
        what = f"it ends at byte {sizes[path]}, and everything before {tail.position} was durable"
        source.report(Finding(path, what, AtStart.OFFLINE, position=sizes[path]))
        return
    if tail.data:
        content.patches.setdefault(path, []).append((tail.position, tail.data))
        sizes[path] = max(sizes[path], tail.position + len(tail.data))


def _report_rest(path: str, data: bytes, end: int, report: Report, *, lost_power: bool) -> None:
    """A crash tears the end off; whole entries behind what is none are another matter."""
    found = None if lost_power else next((at for at in _later(data, end) if _is_entry(data, at)), None)
    if found is None:
        what = f"{len(data) - end} bytes are no whole entry"
        report(Finding(path, what, AtStart.CUTS, Severity.PENDING, position=end))
    else:
        what = f"{found - end} bytes are no entry, and what follows them is not read either"
        report(Finding(path, what, AtStart.IGNORES, position=end))


def _later(data: bytes, end: int) -> range:
    return range(end + 1, min(len(data) - ENTRY_OVERHEAD_BYTES, end + SEARCHED_BYTES))


def _is_entry(data: bytes, at: int) -> bool:
    """Whether a whole entry begins at a place."""
    size = int.from_bytes(data[at + 4 : at + 8], "big")
    end = at + ENTRY_OVERHEAD_BYTES + size
    if end > len(data):
        return False
    return crc32c(data[at + 4 : end]) == int.from_bytes(data[at : at + 4], "big")
