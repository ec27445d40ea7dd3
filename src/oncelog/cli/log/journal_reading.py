"""The journal of a broker that does not run: its records, what they say together, and what in it is no record."""

from __future__ import annotations

from dataclasses import dataclass, field

from oncelog.broker.coordinators.loading import JournalState, journal_state
from oncelog.broker.storage.journal import (
    BrokerConfigured,
    MetadataRecord,
    TopicConfigured,
    TopicCreated,
    decode_line,
)
from oncelog.environment import Disk
from oncelog.log.inspection.read_only_disk import FileLine, lines_of

CLEANUP_POLICY, INDEX_INTERVAL = "cleanup.policy", "index.interval.bytes"
INDEX_INTERVAL_DEFAULT = 4096


@dataclass(slots=True)
class JournalContent:
    """What the lines of a journal are. Of a topic's settings those count that it ever had: what they did stays in its log."""

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
