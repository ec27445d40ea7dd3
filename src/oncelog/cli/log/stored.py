"""The journal and the write-ahead log of a broker that does not run, as verify and repair read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from oncelog.broker.coordinators.loading import JournalState, journal_state
from oncelog.broker.storage.journal import (
    BrokerConfigured,
    MetadataRecord,
    TopicConfigured,
    TopicCreated,
    decode_line,
)
from oncelog.environment import Disk
from oncelog.log.inspection.findings import AtStart, Finding, Report, Severity
from oncelog.log.inspection.read_only_disk import FileLine, lines_of
from oncelog.log.names import LOG, offset_name
from oncelog.log.write_ahead import ENTRY_OVERHEAD_BYTES, Entry, Replayed, files_in, read_entries, what_counts
from oncelog.records import crc32c

CLEANUP_POLICY, INDEX_INTERVAL = "cleanup.policy", "index.interval.bytes"
INDEX_INTERVAL_DEFAULT = 4096


@dataclass(slots=True)
class JournalContent:
    """The lines of a journal. A topic counts as compacted if it ever was: the gaps stay in its log."""

    records: list[MetadataRecord] = field(default_factory=list)
    broken: list[FileLine] = field(default_factory=list)
    state: JournalState = field(default_factory=JournalState)
    compacted: set[str] = field(default_factory=set)
    index_intervals: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0

    def index_interval_bytes(self, topic_id: str) -> int:
        return max(self.index_intervals.get(topic_id, 0), self.index_intervals.get("", INDEX_INTERVAL_DEFAULT))

    def is_compacted(self, topic_id: str) -> bool:
        return topic_id in self.compacted or "" in self.compacted


def read_journal_content(disk: Disk, path: str) -> JournalContent:
    content = JournalContent()
    if not disk.exists(path):
        return content
    content.size_bytes = len(disk.read_file(path))
    for line in lines_of(disk, path):
        record = _record(line)
        if record is None:
            content.broken.append(line)
            continue
        content.records.append(record)
        if isinstance(record, TopicCreated | TopicConfigured):
            _note(content, record.topic_id, record.configs, "")
        elif isinstance(record, BrokerConfigured):
            _note(content, "", record.configs, "log.")
    content.state = journal_state(content.records)
    return content


def _record(line: FileLine) -> MetadataRecord | None:
    try:
        return decode_line(line.data) if line.is_whole else None
    except (KeyError, TypeError, ValueError):
        return None


def _note(content: JournalContent, topic_id: str, configs: dict[str, str], prefix: str) -> None:
    if "compact" in configs.get(prefix + CLEANUP_POLICY, ""):
        content.compacted.add(topic_id)
    interval = configs.get(prefix + INDEX_INTERVAL, "")
    if interval.isdecimal():
        content.index_intervals[topic_id] = max(int(interval), content.index_intervals.get(topic_id, 0))


SEARCHED_BYTES = 256 * 1024


@dataclass(slots=True)
class WriteAheadContent:
    """The directory of its files, the patches by path, and the offset up to which each partition is durable."""

    home: str | None = None
    patches: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    replayed: Replayed = field(default_factory=Replayed)


def read_write_ahead(
    disk: Disk, home: str, partition_path: Callable[[UUID, int], str | None], report: Report, *, lost_power: bool
) -> WriteAheadContent:
    """Read the entries. After a power cut any part that was not synced may be missing, and entries behind it are not read."""
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
    """The file of an entry, and the report for findings about it."""

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
    """A crash may tear the last entry; whole entries behind damaged bytes are another finding."""
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
    """True if a whole entry begins there."""
    size = int.from_bytes(data[at + 4 : at + 8], "big")
    end = at + ENTRY_OVERHEAD_BYTES + size
    if end > len(data):
        return False
    return crc32c(data[at + 4 : end]) == int.from_bytes(data[at : at + 4], "big")
