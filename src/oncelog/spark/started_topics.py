"""Which topics a group has begun to read, in a place where brokers do not forget it.

The offsets of a group expire (offsets.retention.minutes), and a group that has none looks like one that never had any. An
OffsetCommit of the versions 2 to 4 says itself for how long its offset is kept (KIP-211); a TxnOffsetCommit cannot. So what
has to last is the metadata of offsets in a group of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from oncelog.client import Client, OffsetAndMetadata, TopicPartition
from oncelog.spark.sink.fence import FenceError

RECORD = "oncelog started"
RECORD_VERSION = 1
METADATA = json.dumps({RECORD: RECORD_VERSION}, separators=(",", ":"))
KEPT_MS = 100 * 365 * 24 * 60 * 60 * 1000


class StartedTopics:
    """The topics that a group has begun to read: each has an offset of its first partition in the group `GROUP-started`."""

    def __init__(self, client: Client, group_id: str) -> None:
        """Raises FenceError where the group with the names is somebody else's."""
        self._client = client
        self._read_by = group_id
        self._group_id = f"{group_id}-started"
        self._topics = self._read()

    def refuse_unless_committed(self, topics: Iterable[str], committed: Collection[str]) -> None:
        """Raise FenceError for a topic that the group had begun to read, and has no offsets of any more."""
        for topic in sorted(self._topics.intersection(topics).difference(committed)):
            raise FenceError(
                f"group {self._read_by!r} has read topic {topic!r} before, and its offsets are gone: they expired "
                "(offsets.retention.minutes) or were deleted; say where to go on with oncelog groups reset-offsets "
                f"{self._read_by} --topic {topic}, or delete group {self._group_id!r} for another first start"
            )

    def add(self, topics: Iterable[str]) -> None:
        new = set(topics) - self._topics
        if new:
            offsets = {TopicPartition(topic, 0): OffsetAndMetadata(0, METADATA) for topic in new}
            self._client.commit_offsets(self._group_id, offsets, retention_ms=KEPT_MS)
            self._topics |= new

    def _read(self) -> set[str]:
        committed = self._client.committed_offsets(self._group_id, require_stable=False)
        foreign = [partition for partition, entry in committed.items() if entry.metadata != METADATA]
        if foreign:
            raise FenceError(
                f"group {self._group_id!r} has committed offsets of {min(foreign)} that are not of this pipeline; choose "
                "another transactional id or group"
            )
        return {partition.topic for partition in committed}
